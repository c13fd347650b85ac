"""Rows: parts, halves, concatenation and packing keep every column of a row together."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from scipy.sparse import csr_matrix, issparse

from surefair.rows import Groups, Levels, Names, Rows, as_columns

both_kinds = pytest.mark.parametrize("kind", [np.asarray, csr_matrix], ids=["dense", "sparse"])


def make(sex=("f", "m", "m", "x"), age=(3, 4, 4, 3), kind=np.asarray, key=True):
    """Rows whose only feature is their number."""
    columns = as_columns({"sex": list(sex), "age": list(age)})
    groups = Groups.of(columns)
    n = len(sex)
    number = np.arange(1.0, n + 1.0)
    names = Names(("number",), Levels(np.array(["no", "yes"]), "label"), groups)
    keys = np.arange(n, dtype=np.uint64) if key else None
    return Rows(kind(number[:, None]), (-1.0) ** number, groups.codes(columns), number / 2.0, names, keys)


def listed(rows):
    """One tuple per row: feature, label, groups by name, weight and key."""
    X = rows.X.toarray() if issparse(rows.X) else rows.X
    levels = [levels.values for levels in rows.groups.levels.values()]
    groups = [[values[code] for values, code in zip(levels, codes, strict=True)] for codes in rows.group]
    keys = [None] * rows.n if rows.key is None else rows.key.tolist()
    return [*zip(X[:, 0].tolist(), rows.y.tolist(), map(tuple, groups), rows.weight.tolist(), keys, strict=True)]


def test_labels_are_also_0_and_1():
    assert make().truth.tolist() == [0, 1, 0, 1]


def test_even_weights_are_left_out():
    rows = make()
    assert rows.uneven_weight is rows.weight
    assert Rows(rows.X, rows.y, rows.group, np.ones(4), rows.names).uneven_weight is None


@both_kinds
@pytest.mark.parametrize(
    "chosen", [slice(1, 3), np.array([True, False, False, True]), np.array([3, 0])], ids=["slice", "mask", "positions"]
)
def test_a_part_keeps_the_columns_of_each_row_together(kind, chosen):
    rows = make(kind=kind)
    positions = np.arange(4)[chosen]
    assert listed(rows.part(chosen)) == [listed(rows)[i] for i in positions]


def test_halves_contain_every_row_once():
    rows = make(["f", "m", "x"] * 3, range(9))
    first, second = rows.halves(seed=1)
    assert (first.n, second.n) == (4, 5)
    assert sorted(listed(first) + listed(second)) == listed(rows)
    assert listed(rows.halves(seed=1)[0]) == listed(first)
    assert any(listed(rows.halves(seed)[0]) != listed(first) for seed in range(2, 5))


@both_kinds
def test_a_copy_does_not_share_memory(kind):
    rows = make(kind=kind)
    before = listed(rows)
    copied = rows.copy()
    assert copied.same_as(rows)
    for array in (rows.X.data if issparse(rows.X) else rows.X, rows.y, rows.weight):
        array[:] = 7.0
    rows.group[:] = 0
    assert listed(copied) == before


@both_kinds
@pytest.mark.parametrize("other_kind", [np.asarray, csr_matrix], ids=["then dense", "then sparse"])
def test_rows_followed_by_others_know_the_groups_of_both(kind, other_kind):
    first, second = make(kind=kind), make(["a", "m"], [9, 3], other_kind)
    both = first.followed_by(second)
    assert issparse(both.X) == issparse(first.X)
    assert both.groups.labels == [("sex", g) for g in "afmx"] + [("age", age) for age in (3, 4, 9)]
    assert listed(both) == listed(first) + listed(second)
    assert first.followed_by(make(key=False)).key is None


def test_groups_that_do_not_occur_can_be_removed():
    rows = make().part(slice(0, 3))
    assert rows.groups.sizes == (3, 2)
    assert rows.trimmed().groups.sizes == (2, 2)
    assert listed(rows.trimmed()) == listed(rows)


def test_rows_without_a_group_stay_without_one():
    rows = make()
    rows.group[1] = -1
    wider = rows.groups.joined(as_columns({"sex": ["a"], "age": [1]}))
    assert rows.among(wider).group.tolist() == [[1, 1], [-1, -1], [2, 2], [3, 1]]
    assert rows.among(rows.groups) is rows


@both_kinds
def test_rows_survive_packing(kind):
    for key in (True, False):
        rows = make(kind=kind, key=key)
        packed = rows.pack()
        assert all(isinstance(array, np.ndarray) for array in packed.values())
        again = Rows.unpack(packed, rows.names)
        assert again.same_as(rows)
        assert listed(again) == listed(rows)


@both_kinds
def test_a_difference_in_any_column_is_noticed(kind):
    rows = make(kind=kind)
    assert rows.same_as(make(kind=kind))
    assert not rows.same_as(rows.part(slice(0, 3)))
    assert not rows.same_as(make(kind=csr_matrix if kind is np.asarray else np.asarray))
    for name in ("X", "y", "group", "weight"):
        other = rows.copy()
        changed = getattr(other, name)
        changed[(0, 0) if changed.ndim == 2 else 0] = 5
        assert not rows.same_as(other)


def test_rows_are_frozen():
    with pytest.raises(FrozenInstanceError):
        make().y = np.ones(4)
