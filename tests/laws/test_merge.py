"""States of shards merge in any order and any grouping, and the merged mean is the mean over all rows."""

from __future__ import annotations

from copy import deepcopy
from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surefair as sf
from surefair.criteria import CRITERIA
from surefair.kernels import STRIDE

ROUNDING = 1e-12
CONSTRAINTS = {name: criterion for name, criterion in CRITERIA.items() if criterion.can_constrain}


def shards(p):
    """The learner and its states after three unequal parts of the rows, each from the start."""
    n = p.n
    return p.learner, [p.part(*span).state() for span in [(0, n // 5), (n // 5, n // 2), (n // 2, n)]]


def points(learner, state, p):
    """The mean of a state, and its mean after one more row."""
    return learner.mean(state), learner.mean(learner.step(state, p.X[:1], p.y[:1]))


@given(data=st.data())
def test_merge_is_commutative_and_associative(problems, criterion, loss, data, assert_close):
    p = data.draw(problems(criterion, loss, start=True))
    learner, (a, b, c) = shards(p)
    merge = learner.merge
    for found, expected in [(merge(a, b), merge(b, a)), (merge(merge(a, b), c), merge(a, merge(b, c)))]:
        assert found.k == expected.k
        for left, right in zip(points(learner, found, p), points(learner, expected, p), strict=True):
            assert_close(left, right, ROUNDING)


@given(data=st.data(), edges=st.lists(st.integers(0, 80), min_size=1, max_size=5))
def test_shards_merge_in_any_order_and_any_grouping(problems, criterion, loss, data, edges, assert_close):
    p = data.draw(problems(criterion, loss, start=True))
    spans = [*pairwise([0, *sorted(min(edge, p.n) for edge in edges), p.n])]  # edges may coincide: shards may be empty
    states = [p.part(*span).state() for span in spans]
    expected, learner = reduce(p.learner.merge, states), p.learner
    left = data.draw(st.permutations(states))
    while len(left) > 1:  # merge any two neighbours
        i = data.draw(st.integers(0, len(left) - 2))
        left[i : i + 2] = [learner.merge(left[i], left[i + 1])]
    assert left[0].k == expected.k == p.n
    for found, right in zip(points(learner, left[0], p), points(learner, expected, p), strict=True):
        assert_close(found, right, ROUNDING)


@given(data=st.data())
def test_merging_a_state_without_rows_changes_nothing(problems, criterion, loss, data, assert_close):
    p = data.draw(problems(criterion, loss, start=True))
    learner, state, fresh = p.learner, p.state(), p.learner.init(p.n_columns)
    for merged in (learner.merge(state, fresh), learner.merge(fresh, state)):
        assert merged.k == state.k
        for left, right in zip(points(learner, merged, p), points(learner, state, p), strict=True):
            assert_close(left, right, ROUNDING)
    nothing = learner.merge(fresh, fresh)
    assert nothing.k == 0
    assert_close(learner.mean(nothing), learner.mean(fresh), ROUNDING)


@given(data=st.data())
def test_the_mean_is_weighted_by_rows(problems, criterion, loss, data, assert_close):
    p = data.draw(problems(criterion, loss))
    learner, states = shards(p)
    merged = learner.merge(learner.merge(states[0], states[1]), states[2])
    expected = sum(state.k * learner.mean(state) for state in states) / p.n
    assert merged.k == p.n
    assert_close(learner.mean(merged), expected, ROUNDING)


@given(data=st.data())
def test_traces_merge_as_if_the_sums_of_one_shard_continued_those_of_another(
    problems, criterion, loss, data, assert_close_trace
):
    p = data.draw(problems(criterion, loss, start=True, sparse=False))
    learner, states = p.learner, shards(p)[1]
    a, b, c = states
    merged = learner.merge(learner.merge(a, b), c)
    assert_close_trace(merged.trace, learner.merge(a, learner.merge(b, c)).trace, ROUNDING)
    assert_close_trace(merged.trace[:2], sum(state.trace for state in states)[:2], ROUNDING)
    points, before, rows = [], 0.0, 0
    for low, high in [(0, p.n // 5), (p.n // 5, p.n // 2), (p.n // 2, p.n)]:
        for k in range(STRIDE, high - low + 1, STRIDE):
            away = k * (learner.mean(p.part(low, low + k).state())[:, 0] - learner.settings.start)
            points.append(np.r_[before + away, rows + k, 1.0])
        before += (high - low) * (learner.mean(p.part(low, high).state())[:, 0] - learner.settings.start)
        rows += high - low
    expected = np.triu(sum((np.outer(z, z) for z in points), np.zeros(merged.trace.shape[2:])))
    assert_close_trace(merged.trace[2:], expected[None, None], ROUNDING)


# -- Classifiers ------------------------------------------------------------------------------------------------------


def sample(n, seed):
    rng = np.random.default_rng(seed)
    z = rng.integers(3, size=n)
    X = rng.normal(size=(n, 4)) + 0.3 * z[:, None]
    return X, (X.sum(axis=1) + rng.logistic(size=n) > 0.5).astype(int), z, rng.exponential(size=n)


def fitted(name, number, constraint_seed=99, **parameters):
    """A classifier fitted to shard ``number``, with its own seed and rows."""
    X, y, z, w = sample(50 + 37 * number, number)
    clf = sf.FairClassifier(name, **({"n_replicates": 40, "random_state": number} | parameters))
    return clf.fit(X, y, sensitive_features=z, sample_weight=w, constraint_set=sample(150, constraint_seed)[:3])


def without_rows(clf):
    """A classifier with the same constraint set, another seed and no training rows."""
    return sf.FairClassifier.from_model(clf.model_.reseed(7).uncounted())


def assert_same(clf, assert_close, other):
    """Everything about rows is the same, and coefficients are the same up to rounding."""
    assert clf.n_rows_ == other.n_rows_
    assert clf.group_counts_.equals(other.group_counts_)
    assert clf.model_.fit.weight == pytest.approx(other.model_.fit.weight, rel=1e-14)
    assert clf.model_.fit.shards == other.model_.fit.shards
    assert_close(clf.model_.fit.theta, other.model_.fit.theta, ROUNDING)


def merged(first, *others):
    return reduce(sf.FairClassifier.merge, others, deepcopy(first))


@pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")
@pytest.mark.parametrize("name", [*CONSTRAINTS, None])
def test_classifiers_merge_in_any_order_and_any_grouping(name, assert_close):
    a, b, c = (fitted(name, i) for i in range(3))
    assert_same(merged(a, b), assert_close, merged(b, a))
    assert_same(merged(a, b, c), assert_close, merged(a, merged(b, c)))
    assert_same(merged(c, a, b), assert_close, merged(b, c, a))
    assert merged(a, b, c).model_.fit.shards == 3


@pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")
@pytest.mark.parametrize("name", [*CONSTRAINTS, None])
def test_a_classifier_with_its_constraint_set_and_no_rows_is_the_identity(name, assert_close):
    clf = fitted(name, 1)
    nothing = without_rows(fitted(name, 2))
    assert nothing.model_.n_rows == 0
    for found in (deepcopy(clf).merge(nothing), deepcopy(nothing).merge(clf)):
        assert_same(found, assert_close, clf)
    assert_same(deepcopy(nothing).merge(deepcopy(nothing)).merge(clf), assert_close, clf)


@pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_fits_of_different_problems_are_refused_and_not_changed(name, bits):
    clf = fitted(name, 1)
    before = bits(clf.model_.fit.state)
    other = "error_rate" if name != "error_rate" else "equalized_odds"
    for wrong, what in [(fitted(other, 2), "criterion"), (fitted(name, 2, alpha=0.1), "alpha")]:
        with pytest.raises(ValueError, match=f"different problems: {what} differ.*constraint_set"):
            clf.merge(wrong)
    with pytest.raises(ValueError, match="count every row twice"):
        clf.merge(deepcopy(clf))
    with pytest.raises(ValueError, match="constraint_set differ"):
        clf.merge(without_rows(fitted(name, 2, constraint_seed=98)))
    assert bits(clf.model_.fit.state) == before
