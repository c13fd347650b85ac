"""Which rows make the constraint set, and which groups are left out of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from surefair.criteria import CRITERIA
from surefair.diagnostics import SmallConstraintSet
from surefair.rows import CodedColumn, Groups, Levels, Names, Rows
from surefair.tables.split import side_of
from surefair.training.constraints import FEW, choose_rows


def make(n, small=0, features=1):
    """Rows of two large groups and perhaps a small one, with their sides."""
    values = np.where(np.arange(n) % 2 == 0, "a", "b")
    values[:small] = "c"
    columns = {"sex": CodedColumn.of(values)}
    groups = Groups.of(columns)
    names = Names(None, Levels(np.array(["no", "yes"]), "label"), groups)
    y = np.where(np.arange(n) % 4 < 2, 1.0, -1.0)
    rows = Rows(np.zeros((n, features)), y, groups.codes(columns), np.ones(n), names, np.arange(n, dtype=np.uint64))
    return rows, side_of(rows, seed=0)


def groups_of(rows):
    return set(rows.trimmed().groups.levels["sex"].values.tolist())


@pytest.mark.parametrize(("n", "asked", "expected"), [(10_000, None, 1000), (2000, None, 400), (2000, 50, 50)])
def test_the_constraint_set_has_as_many_rows_as_asked_or_a_fifth(n, asked, expected):
    rows, side = make(n)
    chosen, found = choose_rows(rows, side, asked, CRITERIA["demographic_parity"])
    assert chosen.sum() == expected
    assert found == []
    assert side[chosen].max() < side[~chosen].min()


@pytest.mark.parametrize(("features", "expected"), [(15, 1500), (500, 4000)])
def test_more_features_need_more_rows(features, expected):
    chosen, _ = choose_rows(*make(20_000, features=features), None, None)
    assert chosen.sum() == expected


@pytest.mark.parametrize("name", CRITERIA)
def test_a_group_that_is_too_small_is_left_out_and_reported(name):
    rows, side = make(4000, small=5)
    chosen, found = choose_rows(rows, side, None, CRITERIA[name])
    assert groups_of(rows.part(chosen)) == {"a", "b"}
    (one,) = found
    assert isinstance(one, SmallConstraintSet)
    assert one.message.startswith("Group 'c' of 'sex' has ")
    assert f"fewer than {FEW}: it is measured, but not constrained." in one.message
    assert one.threshold == FEW


def test_only_rows_that_the_criterion_looks_at_count():
    """A group has many rows, but none with the label that the rate is about."""
    rows, side = make(4000, small=400)
    in_c = rows.group[:, 0] == 2
    rows = replace(rows, y=np.where(in_c, -1.0, rows.y))
    assert choose_rows(rows, side, None, CRITERIA["demographic_parity"])[1] == []
    chosen, (one,) = choose_rows(rows, side, None, CRITERIA["false_negative_rate"])
    assert "c" not in groups_of(rows.part(chosen))
    assert "has 0 rows" in one.message
    assert one.statistic == 0.0


def test_without_a_criterion_no_group_is_too_small():
    chosen, found = choose_rows(*make(4000, small=5), None, None)
    assert chosen.sum() == 800
    assert found == []
