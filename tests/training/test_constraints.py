"""The constraint that a fixed set of rows gives, and groups that are too small for one that is learnt."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import surefair as sf
from surefair.criteria import CRITERIA, FEW, Slabs
from surefair.diagnostics import SmallGroup
from surefair.rows import CodedColumn, Groups, Levels, Names, Rows
from surefair.training.constraints import constrain

CONSTRAINTS = [name for name, criterion in CRITERIA.items() if criterion.can_constrain]
few_differ = pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")  # groups are small, or hardly differ


def make(n, small=0, seed=0):
    """Rows of two large groups that differ, and perhaps of a small one."""
    rng = np.random.default_rng(seed)
    values = np.where(np.arange(n) % 2 == 0, "a", "b")
    values[:small] = "c"
    columns = {"sex": CodedColumn.of(values)}
    groups = Groups.of(columns)
    names = Names(None, Levels(np.array(["no", "yes"]), "label"), groups)
    group = groups.codes(columns)
    X = rng.normal(size=(n, 3)) + 0.8 * (group == 1)
    y = np.where(X[:, 0] + rng.logistic(size=n) > 0.4, 1.0, -1.0)
    return Rows(X, y, group, np.ones(n), names)


def fitted(rows, criterion, n_warmup=500):
    """Fit to the rows in random order, because a small group comes first."""
    order = np.random.default_rng(0).permutation(rows.n)
    z = np.array(["a", "b", "c"])[rows.group[:, 0]]
    clf = sf.FairClassifier(
        criterion, tolerance=0.05 if criterion else 0.0, n_replicates=0, solver="one_pass", n_warmup=n_warmup
    )
    return clf.fit(rows.X[order], rows.y[order], sensitive_features={"sex": z[order]})


def constrained(clf):
    """Groups that are constrained."""
    return {value for (_, value), found in clf.model_.group_counts().items() if found["constrained"]}


# -- Fixed by a set of rows -------------------------------------------------------------------------------------------


def test_without_a_criterion_or_groups_there_is_no_constraint():
    rows = make(100)
    plain = replace(rows, group=np.empty((100, 0), dtype=np.int64), names=rows.names._replace(groups=None))
    for form in (constrain(None, rows, rows.X), constrain(CRITERIA["demographic_parity"], plain, plain.X)):
        assert isinstance(form, Slabs)
        assert form.vectors.shape == (0, 3)


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_every_group_needs_rows_of_positive_weight(name):
    rows = make(100)
    rows = replace(rows, weight=np.where(rows.group[:, 0] == 1, 0.0, 1.0))
    with pytest.raises(ValueError, match=r"set of 100 rows has no row of group 'b' of 'sex'\. Shuffle .* raise n_warm"):
        constrain(CRITERIA[name], rows, rows.X)


@pytest.mark.parametrize(("name", "label"), [("false_negative_rate", 1.0), ("false_positive_rate", -1.0)])
def test_every_group_needs_rows_that_the_criterion_looks_at(name, label):
    rows = make(100)
    rows = replace(rows, y=np.where(rows.group[:, 0] == 1, -label, rows.y))
    message = f"no row of group 'b' of 'sex' with a label that the criterion '{name}' looks at. Raise n_warmup"
    with pytest.raises(ValueError, match=message):
        constrain(CRITERIA[name], rows, rows.X)
    assert isinstance(constrain(CRITERIA["demographic_parity"], rows, rows.X), Slabs)


# -- Learnt from all rows ---------------------------------------------------------------------------------------------


@few_differ
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_a_group_that_is_too_small_is_not_constrained_and_reported(name):
    with pytest.warns(SmallGroup) as caught:
        clf = fitted(make(4000, small=5), name)
    (one,) = [warning.message for warning in caught if isinstance(warning.message, SmallGroup)]
    assert one.message.startswith("Group 'c' of 'sex' ")
    assert f"fewer than {FEW} rows that the criterion looks at" in one.message
    assert "measured, but not constrained" in one.message
    assert one.threshold == FEW
    assert "c" not in constrained(clf)
    assert clf.group_counts_["n"].tolist()[2] == 5


@few_differ
@pytest.mark.parametrize(("small", "held"), [(FEW - 1, {"a", "b"}), (FEW, {"a", "b", "c"})])
def test_a_group_is_constrained_from_30_rows_on(small, held):
    rows = make(4000, small)
    rows.X[:small] += 1.5  # so that the group differs from the others beyond chance
    assert constrained(fitted(rows, "demographic_parity", n_warmup=4000)) == held


@few_differ
def test_only_rows_that_the_criterion_looks_at_count():
    """A group has many rows, but none with the label that the rate is about."""
    rows = make(4000, small=400)
    rows.X[:400] += 1.0
    rows = replace(rows, y=np.where(rows.group[:, 0] == 2, -1.0, rows.y))
    assert "c" in constrained(fitted(rows, "demographic_parity"))
    assert "c" in constrained(fitted(rows, "false_positive_rate"))
    with pytest.warns(SmallGroup, match="Group 'c' of 'sex' has fewer than 30 rows"):
        clf = fitted(rows, "false_negative_rate")
    assert constrained(clf) == {"a", "b"}


def test_without_a_criterion_no_group_is_too_small():
    clf = fitted(make(4000, small=5), None)  # and no warning
    assert constrained(clf) == set()
    assert clf.group_counts_["n"].sum() == 4000
