from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefair.rows import CodedColumn, as_columns

LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}

every_library = pytest.mark.parametrize("library", LIBRARIES)


def listed(columns):
    return {name: column.values.tolist() for name, column in columns.items()}


@pytest.mark.parametrize("container", [list, np.array, pd.Series, pl.Series, lambda v: pd.Series(v, name="sex")])
def test_a_plain_column_has_no_name(container):
    assert listed(as_columns(container(["f", "m"]))) == {None: ["f", "m"]}
    assert listed(as_columns(np.array([["f"], ["m"]]))) == {None: ["f", "m"]}


@given(values=st.lists(st.integers(0, 3), min_size=1, max_size=6), kind=st.sampled_from("?bBqfd"))
def test_distinct_numbers_are_coded_in_the_order_of_their_rows(values, kind):
    column = np.array(values, dtype=kind)
    coded = CodedColumn.of(column)
    code, found = pd.factorize(column)
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


def test_intersections_are_another_column():
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
            r"shape \(2, 2\)\. Pass a data frame or a dict of columns so that each column has a name",
        ),
        ([["f", "x"], ["m", "y"]], "several columns without names"),
        ({}, "has no column"),
        (pd.DataFrame(index=[0, 1]), "has no column"),
        ({"sex": ["f", "m"], "age": [1]}, "sex has 2, age has 1"),
        ({"sex": ["f", None]}, "The 'sex' group column contains NaN or missing values"),
        ({"sex": "f"}, "The 'sex' group column must be a column of values; received 'f'"),
        (None, "The group column must be a column of values; received None"),
    ],
)
def test_invalid_sensitive_columns_are_refused(given_as, message):
    with pytest.raises(ValueError, match=message):
        as_columns(given_as)


def test_intersections_with_the_same_name_are_refused():
    columns = {"a": ["x", "x × y"], "b": ["y × z", "z"]}
    with pytest.raises(ValueError, match="give two intersections the same name"):
        as_columns(columns, intersections=True)


def test_known_columns_come_first():
    columns = {"sex": ["f"], "age": [3], "race": ["a"]}
    assert list(as_columns(columns, order=["race", "income", "sex"])) == ["race", "sex", "age"]
