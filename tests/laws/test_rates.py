"""Every criterion measures the rate it says it does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefair.counts import count_decisions
from surefair.criteria import CRITERIA, Slab
from surefair.learners import LEARNERS

every_criterion = pytest.mark.parametrize("criterion", CRITERIA.values(), ids=CRITERIA)


def plain_rate(criterion, rows):
    """Go through the rows of one group, one by one."""
    above = sum((truth, decision) in criterion.numerator for truth, decision in rows)
    below = sum((truth, decision) in criterion.denominator for truth, decision in rows)
    return above / below if below else np.nan


@every_criterion
@settings(max_examples=30)
@given(rows=st.lists(st.tuples(*[st.integers(0, 1)] * 3), max_size=30))
def test_rates_of_counts_are_rates_of_rows(criterion, rows):
    group, truth, decision = np.array(rows, dtype=int).reshape(-1, 3).T
    rates = criterion.rates(count_decisions(decision, truth, group, n_groups=2))
    expected = [plain_rate(criterion, [row[1:] for row in rows if row[0] == g]) for g in (0, 1)]
    np.testing.assert_array_equal(rates, expected)


@every_criterion
def test_rates_lie_between_0_and_1_and_are_undefined_only_for_an_empty_denominator(criterion):
    counts = np.random.default_rng(0).integers(3, size=(500, 2, 2, 2))
    rates, (_, below) = criterion.rates(counts), criterion.tally(counts)
    assert rates.shape == below.shape == (500, 2)
    assert np.array_equal(np.isnan(rates), below == 0)
    assert np.isnan(rates).any() or len(criterion.denominator) == 4
    assert np.nanmin(rates) >= 0.0
    assert np.nanmax(rates) <= 1.0


@every_criterion
@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_a_criterion_looks_at_the_labels_that_can_enter_its_rate(criterion, label):
    truth = int(label > 0.0)
    enters = any(
        not np.isnan(criterion.rates(count_decisions(np.array([decision]), np.array([truth]), np.array([0]), 1))[0])
        for decision in (0, 1)
    )
    assert criterion.looks_at(np.array([label])).tolist() == [enters]


@every_criterion
def test_only_rows_looked_at_constrain_and_groups_are_centred_over_all(criterion):
    rng = np.random.default_rng(1)
    X, y, group = rng.normal(size=(60, 3)), 2.0 * rng.integers(2, size=60) - 1.0, rng.integers(2, size=60)
    part = criterion.looks_at(y)
    moved = np.where(part[:, None], X, rng.normal(size=X.shape))  # other rows where the criterion does not look
    form = criterion.constrain(X, y, group)
    for found, expected in zip(criterion.constrain(moved, y, group), form, strict=True):
        assert np.array_equal(found, expected)
    z = (group - group.mean())[part]
    if isinstance(form, Slab):
        np.testing.assert_allclose(form.vector, (z[:, None] * X[part]).mean(axis=0), rtol=1e-12)
    else:
        rows = y[part, None] * X[part]
        np.testing.assert_allclose(form.rows, rows, rtol=1e-15)
        np.testing.assert_allclose(form.pulls, z[:, None] * rows / part.sum(), atol=1e-14)


@pytest.mark.parametrize("name", CRITERIA)
def test_the_registry_calls_a_criterion_by_its_name_and_a_learner_obeys_it(name):
    criterion = CRITERIA[name]
    assert criterion.name == name
    assert criterion.rate
    assert set(criterion.numerator) < set(criterion.denominator)
    X, y, group = np.eye(4), np.array([1.0, 1.0, -1.0, -1.0]), np.array([0, 1, 0, 1])
    assert type(criterion.constrain(X, y, group)) in LEARNERS
