from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefair.inference.counts import count_decisions
from surefair.rows import Census, Groups, Levels, as_columns, together


@pytest.mark.parametrize(
    ("column", "levels", "codes"),
    [
        (np.array(["b", "a", "b"]), ["a", "b"], [1, 0, 1]),
        (np.array([1, -1, 1]), [-1, 1], [1, 0, 1]),
        (np.array([0.5, 2.0, 0.5]), [0.5, 2.0], [0, 1, 0]),
        (np.array([True, False]), [False, True], [1, 0]),
        (np.array(["x", "y"], dtype=object), ["x", "y"], [0, 1]),
        (np.array([10, 2, 33]), [2, 10, 33], [1, 0, 2]),
    ],
    ids=["strings", "integers", "floats", "booleans", "objects", "three"],
)
def test_the_code_of_a_value_is_its_position_in_sorted_order(column, levels, codes):
    found = Levels.of(column, "label")
    assert found.values.tolist() == levels
    assert found.codes(column).tolist() == codes
    assert found.codes(column).dtype == np.int64


@pytest.mark.parametrize("dtype", [np.str_, object])
def test_codes_lead_back_to_the_values(dtype):
    column = np.array(["no", "yes", "maybe", "yes"], dtype=dtype)
    levels = Levels.of(column, "label")
    assert levels.values[levels.codes(column)].tolist() == column.tolist()


@pytest.mark.parametrize("column", [np.array(["a"]), np.array([], dtype=np.str_)], ids=["some", "none"])
def test_a_column_need_not_contain_every_level(column):
    levels = Levels.of(np.array(["a", "b"]), "group")
    assert levels.codes(column).tolist() == [0] * len(column)


def test_numbers_are_known_whatever_their_type():
    levels = Levels.of(np.array([0, 1]), "label")
    assert levels.codes(np.array([True, False])).tolist() == [1, 0]
    assert levels.codes(np.array([1.0, 0.0])).tolist() == [1, 0]


@pytest.mark.parametrize("dtype", [np.str_, object])
def test_an_undeclared_value_is_refused_by_name(dtype):
    levels = Levels.of(np.array(["a", "b"], dtype=dtype), "group")
    with pytest.raises(ValueError, match=r"group column contains undeclared values: 'c'. Declared are 'a', 'b'"):
        levels.codes(np.array(["a", "c"], dtype=dtype))


def test_a_long_list_of_unknown_values_is_cut_short():
    with pytest.raises(ValueError, match=r"9\D+and 20 more"):
        Levels.of(np.array([-1, -2]), "label").codes(np.arange(30))


def test_types_that_cannot_be_sorted_are_refused():
    with pytest.raises(ValueError, match=r"mixes types .*int, str"):
        Levels.of(np.array([1, "a"], dtype=object), "label")


def test_a_label_needs_exactly_two_levels():
    assert Levels.of(np.array([3, 4]), "label").check_two().values.tolist() == [3, 4]
    for values in ([3], [3, 4, 5]):
        with pytest.raises(ValueError, match=f"Exactly two labels are needed; received {len(values)}: 3"):
            Levels.of(np.array(values), "label").check_two()


# -- Groups of several columns --------------------------------------------------------------------------------------


def groups_of(sensitive_features, **options):
    columns = as_columns(sensitive_features, **options)
    return Groups.of(columns), columns


def test_groups_are_numbered_across_columns():
    groups, columns = groups_of({"sex": ["m", "f", "m"], "age": [70, 30, 50]})
    assert groups.labels == [("sex", "f"), ("sex", "m"), ("age", 30), ("age", 50), ("age", 70)]
    assert (groups.sizes, groups.offsets) == ((2, 3), (0, 2))
    assert groups.codes(columns).tolist() == [[1, 2], [0, 0], [1, 1]]
    assert groups.codes(columns).dtype == np.int64


def test_groups_are_shown_in_the_shape_that_they_came_in():
    plain, _ = groups_of(np.array(["b", "a"]))
    named, _ = groups_of({"sex": ["m", "f"], "age": [70, 30]})
    assert plain.public.tolist() == ["a", "b"]
    assert {name: values.tolist() for name, values in named.public.items()} == {"sex": ["f", "m"], "age": [30, 70]}


@given(
    rows=st.lists(st.sampled_from("abcdef"), max_size=8),
    declared=st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8),
)
def test_every_group_that_occurs_or_is_declared_is_kept(rows, declared):
    declared = sorted({*declared, *rows})
    groups, columns = groups_of(pd.Series(pd.Categorical(rows, categories=declared)))
    assert [group for _, group in groups.labels] == declared
    counted = count_decisions(np.zeros(len(rows), int), np.zeros(len(rows), int), groups.codes(columns), groups.sizes)
    assert counted.rows.sum(axis=(1, 2)).tolist() == [rows.count(group) for group in declared]


def test_new_groups_join_and_old_codes_are_translated():
    before, old = groups_of({"sex": ["m", "f"], "age": [50, 40]})
    _, new = groups_of({"age": [30, 45], "sex": ["x", "m"]})  # in any order
    groups = before.joined(new)
    assert groups.labels == [
        ("sex", "f"),
        ("sex", "m"),
        ("sex", "x"),
        ("age", 30),
        ("age", 40),
        ("age", 45),
        ("age", 50),
    ]
    recoded = [codes[code] for codes, code in zip(groups.recode(before), before.codes(old).T, strict=True)]
    assert np.stack(recoded, axis=1).tolist() == groups.codes(old).tolist()
    assert groups.codes(new).tolist() == [[2, 0], [1, 2]]


def test_joining_known_groups_changes_nothing():
    groups = Groups.of(as_columns(np.array([2, 1])))
    assert groups.joined(as_columns([1, 1])) is groups
    assert groups.joined(as_columns([1.0])).labels == [(None, 1.0), (None, 2.0)]
    assert groups.joined(as_columns([3])).sizes == (3,)
    assert groups.joined(as_columns(pd.Series([1], dtype=pd.CategoricalDtype([1, 2, 3])))).sizes == (3,)


def test_declared_groups_join_too():
    before, _ = groups_of(["b"])
    _, new = groups_of(pd.Categorical(["b"], categories=["a", "b", "c"]))
    assert before.joined(new).public.tolist() == ["a", "b", "c"]


def test_text_and_numbers_are_not_joined():
    with pytest.raises(ValueError, match=r"^The labels have different types: text and int64\. Convert"):
        together([np.array(["a"]), np.array([1])], "The labels")
    before, _ = groups_of({"age": [30, 40]})
    with pytest.raises(ValueError, match="'age' group columns have different types: int64 and text"):
        before.joined(as_columns({"age": ["30"]}))


def test_a_single_column_may_come_with_or_without_its_name():
    named, plain = groups_of({"sex": ["f", "m"]})[0], groups_of(["f", "m"])[0]
    for groups in (named, plain):
        for given_as in (["m"], {"sex": ["m"]}, pl.DataFrame({"sex": ["m"]})):
            assert groups.codes(as_columns(given_as)).tolist() == [[1]]


@pytest.mark.parametrize(
    ("declared", "given_as", "message"),
    [
        ({"sex": ["f"], "age": [1]}, {"sex": ["f"]}, "must be the columns 'sex', 'age' by name.* the columns 'sex' by"),
        ({"sex": ["f"]}, {"sex": ["f"], "age": [1]}, "received the columns 'sex', 'age' by name"),
        ({"sex": ["f"]}, {"gender": ["f"]}, "must be the columns 'sex' by name.* received the columns 'gender' by"),
        (
            {"sex": ["f"], "age": [1]},
            ["f"],
            "'sex', 'age' by name, as in the first call; received one column without a name",
        ),
        (
            ["f"],
            {"sex": ["f"], "age": [1]},
            "one column without a name, as in the first call; received the columns 'sex', 'age' by",
        ),
    ],
)
def test_undeclared_columns_are_refused(declared, given_as, message):
    groups, _ = groups_of(declared)
    for method in (groups.codes, groups.joined):
        with pytest.raises(ValueError, match=message):
            method(as_columns(given_as))


def test_an_undeclared_group_is_refused_with_its_column():
    groups, _ = groups_of({"sex": ["f", "m"], "age": [1, 2]})
    with pytest.raises(ValueError, match=r"'sex' group column contains undeclared values: 'x'. Declared are 'f', 'm'"):
        groups.codes(as_columns({"sex": ["x"], "age": [1]}))


def test_a_column_needs_groups_to_compare():
    assert groups_of(["a", "b"])[0].check_comparable().sizes == (2,)
    with pytest.raises(ValueError, match=r"The group column has only 1 group, 'a'.*choose another column\.$"):
        groups_of(["a", "a"])[0].check_comparable()
    with pytest.raises(ValueError, match=r"choose another column, or wait\.$"):
        groups_of(["a", "a"])[0].check_comparable(", or wait")
    with pytest.raises(ValueError, match=r"sensitive column 'age' has only 1 group, 3"):
        groups_of({"sex": ["a", "b"], "age": [3, 3]})[0].check_comparable()


def test_a_column_with_too_many_groups_is_refused():
    groups, columns = groups_of({"income": np.arange(1000)})
    with pytest.raises(ValueError, match=r"'income' has 1000 different values.*at most 100.*pandas\.cut.*merge rare"):
        groups.check_comparable()
    binned, _ = groups_of({"income": pd.cut(columns["income"].values, [-1, 5, 50, 1000])})
    assert binned.check_comparable().labels == [
        ("income", f"({low}, {high}]") for low, high in [(-1, 5), (5, 50), (50, 1000)]
    ]


def test_dates_are_shown_as_text():
    groups, _ = groups_of(np.array(["2020-01-02", "2020-01-01"], dtype="datetime64[D]"))
    assert groups.labels == [(None, "2020-01-01"), (None, "2020-01-02")]


def test_groups_survive_json():
    groups, _ = groups_of({"sex": ["f", "m"], "age": [30, 40], "member": [True, False]})
    again = Groups.from_json(json.loads(json.dumps(groups.to_json())))
    assert again.labels == groups.labels
    assert [levels.values.dtype for levels in again.levels.values()] == [
        levels.values.dtype for levels in groups.levels.values()
    ]


def test_only_groups_that_occur_are_kept():
    groups, _ = groups_of({"sex": ["f", "m", "x"], "age": [30, 40, 50]})
    present, codes = groups.among(np.array([[2, 1], [0, 1]]))
    assert present.labels == [("sex", "f"), ("sex", "x"), ("age", 40)]
    assert codes.tolist() == [[1, 0], [0, 0]]


# -- Census ---------------------------------------------------------------------------------------------------------


def census_of(sensitive_features):
    groups, columns = groups_of(sensitive_features)
    return Census.of(groups).count(groups.codes(columns))


def test_a_census_counts_the_rows_of_each_group():
    census = census_of({"sex": ["f", "m", "f"], "age": [30, 30, 40]})
    assert census.counts == [2, 1, 2, 1]
    assert census.count(np.array([[1, -1], [-1, 0]])).counts == [2, 2, 3, 1]  # code -1: a row without a group
    assert census.counts == [2, 1, 2, 1]


@given(rows=st.lists(st.sampled_from("abcd"), min_size=2, max_size=12), cut=st.integers(1, 11))
def test_a_census_of_parts_is_the_census_of_all_rows(rows, cut):
    cut = min(cut, len(rows) - 1)
    first, second, whole = (census_of(part) for part in (rows[:cut], rows[cut:], rows))
    for merged in (first.merge(second), second.merge(first)):
        assert merged.groups.labels == whole.groups.labels
        assert merged.counts == whole.counts


def test_a_census_keeps_its_counts_when_there_are_new_groups():
    census = census_of(["b", "c", "c"])
    wider = census.groups.joined(as_columns(["a", "d"]))
    assert census.among(wider).counts == [0, 1, 2, 0]
    assert census.among(census.groups) is census
