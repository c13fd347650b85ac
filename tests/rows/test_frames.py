from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from surefair.rows import library_of, make_frame

LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


@pytest.mark.parametrize("library", LIBRARIES)
def test_results_come_in_the_library_of_the_input(library):
    frame = LIBRARIES[library]({"a": [1]})
    kind = type(frame)
    assert library_of(frame) == library_of(frame["a"]) == library
    assert isinstance(make_frame({"b": [1, 2]}, like=frame), kind)
    assert isinstance(make_frame({"b": [1, 2]}, like=library), kind)
    assert isinstance(make_frame({"b": [1, 2]}, like=frame["a"]), kind)


@pytest.mark.parametrize("like", [None, [1, 2], np.zeros(3)], ids=["nothing", "list", "array"])
def test_results_for_arrays_come_in_pandas(like):
    assert library_of(like) == "pandas"
    assert make_frame({"b": [1, 2]}, like=like)["b"].tolist() == [1, 2]
    assert isinstance(make_frame({"b": [1, 2]}, like=like), pd.DataFrame)
