"""Audit a generated Parquet file of 20 million rows and 20 columns: memory, steady speed, and time beyond reading.

python benchmarks/audit.py [--rows N] [--folder DIR]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from surefair.audit.run import Running
from surefair.audit.settings import AuditSettings
from surefair.tables.bad_rows import BadRows
from surefair.tables.encoder import Features
from surefair.tables.intake import CHUNK
from surefair.tables.source import open_source

RESULTS = Path(__file__).parents[1] / "docs" / "results"
NUMBERS, WORDS, GROUP = 15, 3, 250_000


def generate(path: Path, rows: int) -> None:
    """Write a file of numbers, words, a group, and a label that depends on the numbers."""
    rng = np.random.default_rng(0)
    words = np.array(["red", "green", "blue", "black"])
    writer = None
    for low in range(0, rows, GROUP):
        n = min(GROUP, rows - low)
        group = rng.integers(0, 2, n)
        X = rng.normal(size=(n, NUMBERS)).astype(np.float32)
        X[:, 0] += group
        columns = {f"x{i}": X[:, i] for i in range(NUMBERS)}
        columns |= {f"word{i}": pa.array(words[rng.integers(0, 4, n)]).dictionary_encode() for i in range(WORDS)}
        columns |= {"group": pa.array(np.array(["a", "b"])[group]).dictionary_encode()}
        columns |= {"label": (X[:, :4].sum(axis=1) + rng.logistic(size=n) > 0.0).astype(np.int8)}
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def read_and_encode(path: Path) -> float:
    """Seconds for reading and encoding alone."""
    source = open_source(path, bad=BadRows(0))
    features = None
    start = time.perf_counter()
    for table in source.tables(CHUNK):
        features = features or Features.fit(table, [n for n in table.column_names if n not in ("group", "label")])
        features.encode(table)
    return time.perf_counter() - start


def main() -> None:
    """Generate the file, audit it, read it, and print the times."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--folder", type=Path, help="folder of the file, which is reused if it exists")
    asked = parser.parse_args()
    rows = asked.rows
    console = Console()
    with tempfile.TemporaryDirectory() as scratch:
        path = (asked.folder or Path(scratch)) / f"rows-{rows}.parquet"
        if not path.exists():
            maker = multiprocessing.get_context("spawn").Process(target=generate, args=(path, rows))
            maker.start()  # in a separate process, so that its memory does not count
            maker.join()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        moments: list[tuple[int, float]] = []
        running = Running.begin(path, AuditSettings(label="label", sensitive=("group",)))
        start = time.perf_counter()
        running.run(n_jobs=-1, progress=lambda n: moments.append((n, time.perf_counter() - start)))
        elapsed = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        reading = read_and_encode(path)
        size = path.stat().st_size / 2**20
    tenth = len(moments) // 10

    def speed(low: int, high: int) -> float:
        (n0, t0), (n1, t1) = moments[low], moments[high]
        return (n1 - n0) / (t1 - t0)

    first, last = speed(tenth, 2 * tenth), speed(-tenth - 1, -1)
    found = {
        "rows": rows, "file_mib": size, "replicates": 200, "models": 2, "cores": os.cpu_count(), "seconds": elapsed,
        "rows_per_second": rows / elapsed, "rows_per_second_second_tenth": first, "rows_per_second_last_tenth": last,
        "last_over_second_tenth": last / first, "peak_mib": peak, "peak_mib_before": before,
        "seconds_reading_and_encoding": reading, "times_reading_and_encoding": elapsed / reading,
    }  # fmt: skip
    console.print(
        f"{rows:,} rows in {elapsed:.0f} s, {rows / elapsed:,.0f} rows/s with two models of 200 replicates each; "
        f"speed in the last tenth over the second tenth {last / first:.2f}. Peak memory {peak:.0f} MiB. Reading and "
        f"encoding alone take {reading:.0f} s; the audit takes {elapsed / reading:.1f} times as long.",
        highlight=False,
    )
    RESULTS.mkdir(parents=True, exist_ok=True)
    lines = [{"what": key.replace("_", " "), "found": value} for key, value in found.items()]
    (RESULTS / "bench_audit.json").write_text(json.dumps({"rows": lines}, indent=1) + "\n")


if __name__ == "__main__":
    main()
