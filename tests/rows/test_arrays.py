from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefair.rows.arrays import (
    Batch,
    CodedColumn,
    as_column,
    as_columns,
    as_table,
    as_weight,
    batches,
    make_frame,
    same_length,
)

COLUMNS = {"age": [25, 38, 52], "hours": [40.0, 20.5, 60.0], "member": [True, False, True]}
VALUES = [[25.0, 40.0, 1.0], [38.0, 20.5, 0.0], [52.0, 60.0, 1.0]]
LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}

every_library = pytest.mark.parametrize("library", LIBRARIES)


# -- Features -------------------------------------------------------------------------------------------------------


@every_library
def test_a_frame_becomes_numbers_and_keeps_its_names_and_its_library(library):
    table = as_table(LIBRARIES[library](COLUMNS))
    assert table.values.tolist() == VALUES
    assert table.values.dtype == np.float64
    assert table.values.flags.c_contiguous
    assert (table.names, table.backend) == (("age", "hours", "member"), library)


@pytest.mark.parametrize("container", [list, tuple, np.array])
def test_arrays_have_no_names(container):
    table = as_table(container(VALUES))
    assert table.values.tolist() == VALUES
    assert (table.names, table.backend) == (None, "pandas")


@every_library
def test_missing_features_become_nan_for_later_checks_to_find(library):
    table = as_table(LIBRARIES[library]({"a": [1.0, None], "b": [3.0, 4.0]}))
    np.testing.assert_array_equal(table.values, [[1.0, 3.0], [np.nan, 4.0]])


@every_library
def test_a_column_of_strings_is_refused_by_name(library):
    with pytest.raises(ValueError, match=r"'city' is of type .* must be numbers.*Encode it first"):
        as_table(LIBRARIES[library]({"age": [1, 2], "city": ["Rome", "Oslo"]}))


@pytest.mark.parametrize("X", [[1.0, 2.0], np.zeros(3), np.zeros((2, 2, 2)), pd.Series([1.0, 2.0])])
def test_features_must_be_a_table(X):
    with pytest.raises(ValueError, match=r"shape \(rows, features\); received . dimension.*reshape"):
        as_table(X)


# -- Labels and groups ----------------------------------------------------------------------------------------------


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
def test_a_column_of_strings_comes_from_anywhere(values):
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


@every_library
def test_a_table_is_not_a_column(library):
    for table in (LIBRARIES[library]({"a": [1, 2]}), {"a": [1, 2]}):
        with pytest.raises(ValueError, match="label column must be one column; received a table"):
            as_column(table, "label")


@pytest.mark.parametrize("values", [3, "a", None, np.zeros((2, 2))], ids=str)
def test_a_column_has_one_dimension(values):
    with pytest.raises(ValueError, match=r"label column must (be a column of values|have one dimension)"):
        as_column(values, "label")


# -- Sensitive columns ----------------------------------------------------------------------------------------------


def listed(columns):
    return {name: column.values.tolist() for name, column in columns.items()}


@pytest.mark.parametrize("container", [list, np.array, pd.Series, pl.Series, lambda v: pd.Series(v, name="sex")])
def test_a_plain_column_has_no_name(container):
    assert listed(as_columns(container(["f", "m"]))) == {None: ["f", "m"]}
    assert listed(as_columns(np.array([["f"], ["m"]]))) == {None: ["f", "m"]}


@given(values=st.lists(st.integers(0, 3), min_size=1, max_size=6), kind=st.sampled_from("?bBqfd"))
def test_distinct_numbers_come_in_the_order_of_their_rows(values, kind):
    column = np.array(values, dtype=kind)
    coded, (code, found) = CodedColumn.of(column), pd.factorize(column)
    assert coded.code.tolist() == code.tolist()
    assert coded.code.dtype == np.intp
    assert coded.found.tolist() == found.tolist()
    assert coded.found.dtype == column.dtype


@pytest.mark.parametrize("container", [dict, *LIBRARIES.values()])
def test_columns_of_a_table_keep_their_names(container):
    assert listed(as_columns(container({"sex": ["f", "m"], "age": [3, 4]}))) == {"sex": ["f", "m"], "age": [3, 4]}
    assert listed(as_columns(container({"sex": ["f", "m"]}))) == {"sex": ["f", "m"]}


def test_names_of_columns_are_text():
    assert list(as_columns({0: ["f"], 1: [2]})) == ["0", "1"]
    with pytest.raises(ValueError, match="same name"):
        as_columns({1: ["f"], "1": [2]})


@pytest.mark.parametrize(
    ("values", "declared"),
    [
        (pd.Series(["b"], dtype=pd.CategoricalDtype(["c", "b"])), ["c", "b"]),
        (pd.Categorical([1], categories=[1, 2]), [1, 2]),
        (pd.cut(pd.Series([1, 2]), [0, 3, 9]).astype(str).astype("category"), ["(0, 3]"]),
        (pl.Series(["b"], dtype=pl.Enum(["c", "b"])), ["c", "b"]),
        (pl.Series(["b"], dtype=pl.Categorical), None),
        (pa.chunked_array([pa.DictionaryArray.from_arrays([1], ["c", "b"])]), ["c", "b"]),
        (pd.Series(["b"]), None),
        (["b"], None),
    ],
    ids=["pandas", "array", "cut", "polars-enum", "polars-categorical", "arrow", "series", "list"],
)
def test_a_categorical_column_declares_its_categories(values, declared):
    column = as_columns(values)[None]
    assert (None if column.declared is None else column.declared.tolist()) == declared
    named = as_columns({"a": values})["a"]
    assert (None if named.declared is None else named.declared.tolist()) == declared


@every_library
def test_a_categorical_column_of_a_frame_declares_its_categories(library):
    make = {
        "pandas": lambda: pd.Series(["b"], dtype=pd.CategoricalDtype(["b", "c"])),
        "polars": lambda: pl.Series(["b"], dtype=pl.Enum(["b", "c"])),
        "pyarrow": lambda: pa.chunked_array([pa.DictionaryArray.from_arrays([0], ["b", "c"])]),
    }[library]
    column = as_columns(LIBRARIES[library]({"a": make()}))["a"]
    assert (column.values.tolist(), column.declared.tolist()) == (["b"], ["b", "c"])


def test_intersections_are_one_more_column():
    columns = as_columns({"sex": ["m", "f", "m"], "old": [True, False, True], "x": [1.5, 2.0, 3.0]}, intersections=True)
    assert list(columns) == ["sex", "old", "x", "sex × old × x"]
    assert columns["sex × old × x"].values.tolist() == ["m × True × 1.5", "f × False × 2.0", "m × True × 3.0"]
    assert columns["sex × old × x"].values.dtype.kind == "U"


@pytest.mark.parametrize("given_as", [["f", "m"], {"sex": ["f", "m"]}])
def test_intersections_need_two_columns(given_as):
    with pytest.raises(ValueError, match=r"two or more sensitive columns; received 1\. Pass a data frame"):
        as_columns(given_as, intersections=True)


@pytest.mark.parametrize(
    ("given_as", "message"),
    [
        (
            np.array([["f", "x"], ["m", "y"]]),
            r"shape \(2, 2\): pass a data frame or a dict of columns so that each has",
        ),
        ([["f", "x"], ["m", "y"]], "several columns without names"),
        ({}, "holds no column"),
        (pd.DataFrame(index=[0, 1]), "holds no column"),
        ({"sex": ["f", "m"], "age": [1]}, "sex has 2, age has 1"),
        ({"sex": ["f", None]}, "The 'sex' group column contains NaN or missing values"),
        ({"sex": "f"}, "The 'sex' group column must be a column of values; received 'f'"),
        (None, "The group column must be a column of values; received None"),
    ],
)
def test_sensitive_columns_that_mean_nothing_are_refused(given_as, message):
    with pytest.raises(ValueError, match=message):
        as_columns(given_as)


# -- Sample weights -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("container", [list, np.array, pd.Series, pl.Series, pa.array])
def test_weights_become_numbers(container):
    assert as_weight(None, 3) is None
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
        (["a", "b"], r"sample_weight must be numbers; received \['a', 'b'\]"),
        (3.0, "sample_weight column must be a column of values; received 3.0"),
    ],
)
def test_weights_that_mean_nothing_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        as_weight(values, 2)


# -- Batches --------------------------------------------------------------------------------------------------------


@every_library
@pytest.mark.parametrize("size", [1, 2, 3, 10])
def test_batches_are_the_rows_in_order_with_their_numbers(library, size):
    found = list(batches(LIBRARIES[library](COLUMNS), ["x", "y", "z"], [7, 8, 9], size=size, first_row=100))
    assert np.vstack([batch.X for batch in found]).tolist() == VALUES
    assert np.concatenate([batch.y for batch in found]).tolist() == ["x", "y", "z"]
    assert np.concatenate([batch.group for batch in found]).tolist() == [7, 8, 9]
    assert [batch.first_row for batch in found] == list(range(100, 103, size))
    assert all(batch.feature_names == tuple(COLUMNS) for batch in found)
    assert [batch.n_rows for batch in found[:-1]] == [size] * (len(found) - 1)


def test_labels_and_groups_may_be_left_out():
    (batch,) = batches(VALUES)
    assert batch.y is batch.group is batch.feature_names is None


def test_a_part_of_a_batch_knows_its_place():
    batch = Batch(np.array(VALUES), np.array([1, 2, 3]), None, first_row=10).part(1)
    assert (batch.first_row, batch.n_rows, batch.y.tolist(), batch.group) == (11, 2, [2, 3], None)


def test_no_rows_make_no_batches():
    assert list(batches(np.empty((0, 2)), [], [])) == []


def test_lengths_that_differ_are_refused_with_the_lengths():
    with pytest.raises(ValueError, match=r"X has 3, y has 2"):
        next(batches(VALUES, [1, 2]))
    with pytest.raises(ValueError, match=r"a has 1, c has 2"):
        same_length(a=[1], b=None, c=[1, 2])
    assert same_length(a=[1, 2], b=None) == 2


def test_a_batch_needs_a_row():
    with pytest.raises(ValueError, match=r"at least one row; received size=0"):
        next(batches(VALUES, size=0))


# -- Frames ---------------------------------------------------------------------------------------------------------


@every_library
def test_answers_come_in_the_library_of_the_question(library):
    frame = LIBRARIES[library]({"a": [1]})
    kind = type(frame)
    assert isinstance(make_frame({"b": [1, 2]}, like=frame), kind)
    assert isinstance(make_frame({"b": [1, 2]}, like=library), kind)
    assert isinstance(make_frame({"b": [1, 2]}, like=frame["a"]), kind)


@pytest.mark.parametrize("like", [None, [1, 2], np.zeros(3)], ids=["nothing", "list", "array"])
def test_answers_to_arrays_come_in_pandas(like):
    assert make_frame({"b": [1, 2]}, like=like)["b"].tolist() == [1, 2]
    assert isinstance(make_frame({"b": [1, 2]}, like=like), pd.DataFrame)
