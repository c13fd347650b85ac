"""Every criterion measures its rates, and constrains the rows that can enter them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefair.criteria import CRITERIA, Members, Slabs, SoftRatePenalty, linearise
from surefair.learners import LEARNERS

CONSTRAINTS = {name: criterion for name, criterion in CRITERIA.items() if criterion.can_constrain}
RATES = {rate.name: rate for criterion in CRITERIA.values() for rate in criterion.rates + criterion.ratio_rates}
every_rate = pytest.mark.parametrize("rate", RATES.values(), ids=RATES)


def table(rows):
    """Counts of group × truth × decision, two groups."""
    counts = np.zeros((2, 2, 2), dtype=int)
    for group, truth, decision in rows:
        counts[group, truth, decision] += 1
    return counts


def plain_rate(rate, rows):
    """Rate of one group, by a loop over its rows."""
    above = sum((truth, decision) in rate.numerator for truth, decision in rows)
    below = sum((truth, decision) in rate.denominator for truth, decision in rows)
    return above / below if below else np.nan


@every_rate
@settings(max_examples=30)
@given(rows=st.lists(st.tuples(*[st.integers(0, 1)] * 3), max_size=30))
def test_rates_of_counts_are_rates_of_rows(rate, rows):
    expected = [plain_rate(rate, [row[1:] for row in rows if row[0] == g]) for g in (0, 1)]
    np.testing.assert_array_equal(rate.of(table(rows)), expected)


@every_rate
def test_rates_lie_between_0_and_1_and_are_undefined_only_for_an_empty_denominator(rate):
    counts = np.random.default_rng(0).integers(3, size=(500, 2, 2, 2))
    rates, (_, below) = rate.of(counts), rate.tally(counts)
    assert rates.shape == below.shape == (500, 2)
    assert np.array_equal(np.isnan(rates), below == 0)
    assert np.isnan(rates).any() or len(rate.denominator) == 4
    assert np.nanmin(rates) >= 0.0
    assert np.nanmax(rates) <= 1.0


@every_rate
@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_a_rate_looks_at_the_labels_that_can_enter_it(rate, label):
    enters = any(not np.isnan(rate.of(table([(0, int(label > 0.0), decision)]))[0]) for decision in (0, 1))
    assert rate.looks_at(np.array([label])).tolist() == [enters]


def constraint_set(seed, sizes, n=90):
    """Rows, labels, groups and weights."""
    rng = np.random.default_rng(seed)
    codes = np.stack([np.arange(n) % size for size in sizes], axis=1)
    return rng.normal(size=(n, 3)), 2.0 * rng.integers(2, size=n) - 1.0, Members(codes, sizes, rng.exponential(size=n))


def indicators(code, size):
    """The code of two groups, or one indicator for each of several groups."""
    return [code] if size == 2 else [code == g for g in range(size)]


@pytest.mark.parametrize(
    "criterion", [c for c in CONSTRAINTS.values() if c.form is not SoftRatePenalty], ids=lambda c: c.name
)
def test_a_form_compares_the_rows_of_its_rates_with_groups_centred_over_all_rows(criterion, sizes):
    X, y, members = constraint_set(1, sizes)
    form, c = criterion.constrain(X, y, members), members.weight
    theta = np.random.default_rng(2).normal(size=3)
    expected = []
    for rate in criterion.rates:
        part = rate.looks_at(y)
        for code, size in zip(members.codes.T, sizes, strict=True):
            for z in indicators(code, size):
                centred = z - np.average(z, weights=c)
                value = centred * (X @ theta if isinstance(form, Slabs) else np.minimum(0.0, y * (X @ theta)))
                expected.append(np.average(value[part], weights=c[part]))
    found = form.vectors @ theta if isinstance(form, Slabs) else linearise(form, theta[:, None], None)[0][:, 0]
    np.testing.assert_allclose(found, expected, atol=1e-14)


@pytest.mark.parametrize("name", [name for name, c in CRITERIA.items() if c.form is SoftRatePenalty])
def test_soft_rates_weigh_rows_by_their_score_on_the_decided_side(name, sizes):
    X, y, members = constraint_set(3, sizes)
    form, theta = CRITERIA[name].constrain(X, y, members), np.random.default_rng(4).normal(size=3)
    score = X @ theta if name == "false_discovery_rate" else -X @ theta
    count = members.weight * np.maximum(0.0, score)
    wrong = y < 0.0 if name == "false_discovery_rate" else y > 0.0
    pairs = 0.0
    for code, size in zip(members.codes.T, sizes, strict=True):
        rates = [np.sum(count[(code == g) & wrong]) / np.sum(count[code == g]) for g in range(size)]
        pairs += sum((a - b) ** 2 for i, a in enumerate(rates) for b in rates[:i])
    terms, _ = linearise(form, theta[:, None], None)
    np.testing.assert_allclose(np.sum(terms**2), pairs, rtol=1e-12)


@pytest.mark.parametrize("sharpness", [None, 3.0])
@pytest.mark.parametrize("name", [name for name, c in CONSTRAINTS.items() if c.form is not Slabs])
def test_gradients_are_slopes(name, sizes, sharpness):
    X, y, members = constraint_set(5, sizes)
    form, rng = CRITERIA[name].constrain(X, y, members), np.random.default_rng(6)
    theta, towards = rng.normal(size=(3, 1)), rng.normal(size=(3, 1))
    (ahead, _), (behind, _) = (linearise(form, theta + h * towards, sharpness) for h in (1e-6, -1e-6))
    _, gradient = linearise(form, theta, sharpness)
    np.testing.assert_allclose((ahead - behind)[:, 0] / 2e-6, (gradient[:, :, 0] @ towards)[:, 0], atol=1e-7)


@pytest.mark.parametrize("name", CRITERIA)
def test_the_registry_has_the_name_of_a_criterion_and_its_rates(name):
    criterion = CRITERIA[name]
    assert criterion.name == name
    for rate in criterion.rates + criterion.ratio_rates:
        assert rate.words
        assert set(rate.numerator) < set(rate.denominator)


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_a_criterion_that_can_constrain_has_a_learner(name):
    X, y = np.eye(4), np.array([1.0, 1.0, -1.0, -1.0])
    form = CRITERIA[name].constrain(X, y, Members(np.array([[0], [1], [0], [1]]), (2,), np.ones(4)))
    assert (type(form), False) in LEARNERS
