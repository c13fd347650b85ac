from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_matrix

from surefair.rows import as_column, as_features, as_weight, check_some_weight, pack_array, same_length, unpack_array

COLUMNS = {"age": [25, 38, 52], "hours": [40.0, 20.5, 60.0], "member": [True, False, True]}
VALUES = [[25.0, 40.0, 1.0], [38.0, 20.5, 0.0], [52.0, 60.0, 1.0]]
LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}

every_library = pytest.mark.parametrize("library", LIBRARIES)


# -- Features --------------------------------------------------------------------------------------------------------


@every_library
def test_a_frame_becomes_numbers_and_keeps_its_names(library):
    values, names = as_features(LIBRARIES[library](COLUMNS))
    assert values.tolist() == VALUES
    assert values.dtype == np.float64
    assert values.flags.c_contiguous
    assert names == ("age", "hours", "member")


@pytest.mark.parametrize("container", [list, tuple, np.array])
def test_arrays_have_no_names(container):
    values, names = as_features(container(VALUES))
    assert values.tolist() == VALUES
    assert names is None


@every_library
def test_missing_features_become_nan_which_later_checks_find(library):
    values, _ = as_features(LIBRARIES[library]({"a": [1.0, None], "b": [3.0, 4.0]}))
    np.testing.assert_array_equal(values, [[1.0, 3.0], [np.nan, 4.0]])


@every_library
def test_a_column_of_strings_is_refused_by_name(library):
    with pytest.raises(ValueError, match=r"'city' has type .* must be numbers.*Encode it first"):
        as_features(LIBRARIES[library]({"age": [1, 2], "city": ["Rome", "Oslo"]}))


@pytest.mark.parametrize("X", [[1.0, 2.0], np.zeros(3), np.zeros((2, 2, 2)), pd.Series([1.0, 2.0])])
def test_features_must_be_a_table(X):
    with pytest.raises(ValueError, match=r"shape \(rows, features\); received . dimension.*reshape"):
        as_features(X)


# -- Labels and groups -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        ["b", "a", "b"],
        ("b", "a", "b"),
        np.array(["b", "a", "b"], dtype=object),
        np.array([["b"], ["a"], ["b"]]),
        pd.Series(["b", "a", "b"]),
        pd.Series(["b", "a", "b"], dtype="category"),
        pd.Series(["b", "a", "b"], dtype="string"),
        pl.Series(["b", "a", "b"]),
        pl.Series(["b", "a", "b"], dtype=pl.Categorical),
        pa.chunked_array([["b", "a"], ["b"]]),
        pa.array(["b", "a", "b"]),
    ],
    ids=lambda values: f"{type(values).__module__.split('.')[0]}-{getattr(values, 'dtype', type(values).__name__)}",
)
def test_a_column_of_strings_comes_in_any_container(values):
    column = as_column(values, "group")
    assert column.tolist() == ["b", "a", "b"]
    assert column.dtype.kind == "U"


@pytest.mark.parametrize("values", [[True, False], [1, -1], [0.5, 2.0]], ids=["bool", "int", "float"])
@pytest.mark.parametrize("container", [list, np.array, pd.Series, pl.Series, pa.array])
def test_a_column_keeps_its_type(values, container):
    column = as_column(container(values), "label")
    assert column.tolist() == values
    assert column.dtype == np.array(values).dtype


@pytest.mark.parametrize(
    "values",
    [
        ["a", None],
        ["a", float("nan")],
        [1.0, float("nan")],
        np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"),
        pd.Series([1, None], dtype="Int64"),
        pd.Series(["a", None], dtype="string"),
        pd.Series(["a", None], dtype="category"),
        pd.Series(["a", pd.NA], dtype=object),
        pl.Series(["a", None]),
        pl.Series([1, None]),
        pa.chunked_array([["a", None]]),
        np.ma.array(["a", "b"], mask=[False, True]),
        np.ma.array(["a", None], dtype=object),
    ],
    ids=lambda values: f"{type(values).__module__.split('.')[0]}-{getattr(values, 'dtype', values[1])}",
)
def test_missing_values_are_refused_with_their_row(values):
    with pytest.raises(ValueError, match=r"group column contains NaN or missing values \(the first in row 1\)"):
        as_column(values, "group")


def test_missing_numbers_cannot_become_a_word():
    with pytest.raises(ValueError, match=r"\(the first in row 1\)\. Drop those rows\.$"):
        as_column([0.5, np.nan], "score")
    with pytest.raises(ValueError, match="or replace missing values by a value such as 'unknown'"):
        as_column(["a", None], "group")


@every_library
def test_a_table_is_refused_as_a_column(library):
    for table in (LIBRARIES[library]({"a": [1, 2]}), {"a": [1, 2]}):
        with pytest.raises(ValueError, match="label column must be one column; received a table"):
            as_column(table, "label")


@pytest.mark.parametrize("values", [3, "a", None, np.zeros((2, 2))], ids=str)
def test_a_column_has_one_dimension(values):
    with pytest.raises(ValueError, match=r"label column must (be a column of values|have one dimension)"):
        as_column(values, "label")


# -- Sample weights --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("container", [list, np.array, pd.Series, pl.Series, pa.array])
def test_weights_become_numbers(container):
    assert as_weight(None, 3).tolist() == [1.0, 1.0, 1.0]
    for values in ([0.5, 2.0], [0, 2], [True, False]):
        weight = as_weight(container(values), 2)
        assert weight.tolist() == values
        assert weight.dtype == np.float64
    assert as_weight([], 0).shape == (0,)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, np.nan], r"sample_weight column contains NaN or missing values \(the first in row 1\)"),
        ([1.0, np.inf], "sample_weight is infinite in row 1: inf"),
        ([1.0, -np.inf], "sample_weight is infinite in row 1: -inf"),
        ([1.0, -0.5], "sample_weight is negative in row 1: -0.5.*drop the row"),
        ([1.0], "sample_weight has 1 entries, and there are 2 rows"),
        (["a", "b"], r"sample_weight must hold numbers; received \['a', 'b'\]"),
        (3.0, "sample_weight column must be a column of values; received 3.0"),
    ],
)
def test_invalid_weights_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        as_weight(values, 2)


def test_weights_that_are_all_zero_are_refused():
    check_some_weight(np.array([0.0, 0.5]), "to count")
    with pytest.raises(ValueError, match=r"zero in every row, so there is no row to count\. Leave sample_weight out"):
        check_some_weight(np.zeros(3), "to count")


# -- Lengths and packing --------------------------------------------------------------------------------------------


def test_different_lengths_are_refused_and_listed():
    with pytest.raises(ValueError, match=r"a has 1, c has 2"):
        same_length(a=[1], b=None, c=[1, 2])
    assert same_length(a=[1, 2], b=None) == 2


@pytest.mark.parametrize("kind", [np.asarray, csr_matrix], ids=["dense", "sparse"])
def test_a_matrix_survives_packing(kind):
    matrix = kind(np.array([[0.0, 2.0, 0.0], [1.5, 0.0, -0.5]]))
    packed = pack_array("X", matrix)
    assert all(isinstance(array, np.ndarray) for array in packed.values())
    found = unpack_array("X", packed)
    assert type(found) is type(matrix)
    assert (found != matrix).sum() == 0
