"""The same table in every form that can be audited."""

from __future__ import annotations

import io

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq


def write_folder(table, path):
    path.mkdir()
    for i, start in enumerate([0, 1700, 1701]):
        stop = [1700, 1701, None][i]
        pq.write_table(table.slice(start, None if stop is None else stop - start), path / f"{i}.parquet")
    return path


FORMS = {
    "csv": lambda t, folder: (t.to_csv(folder / "a.csv", index=False), folder / "a.csv")[1],
    "csv.gz": lambda t, folder: (t.to_csv(folder / "a.csv.gz", index=False), folder / "a.csv.gz")[1],
    "parquet": lambda t, folder: (t.to_parquet(folder / "a.parquet", row_group_size=777), folder / "a.parquet")[1],
    "feather": lambda t, folder: (feather.write_feather(t, folder / "a.feather"), folder / "a.feather")[1],
    "folder": lambda t, folder: write_folder(pa.Table.from_pandas(t, preserve_index=False), folder / "many"),
    "pandas": lambda t, folder: t.set_index(np.arange(len(t))[::-1]),
    "polars": lambda t, folder: pl.from_pandas(t),
    "pyarrow": lambda t, folder: pa.Table.from_pandas(t, preserve_index=False),
    "categories": lambda t, folder: t.astype({"sex": "category", "job": "category"}),
    "file object": lambda t, folder: io.BytesIO(t.to_csv(index=False).encode()),
}
