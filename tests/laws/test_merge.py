"""States of shards merge: in any order, in any grouping, and the mean is the mean over all rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefair.criteria import CRITERIA
from surefair.kernels import STRIDE

ROUNDING = 1e-12


def shards(p):
    """The learner and its states after three unequal parts of the rows, each from the start."""
    n = p.n
    return p.learner, [p.part(*span).state() for span in [(0, n // 5), (n // 5, n // 2), (n // 2, n)]]


def points(learner, state, p):
    """What the state stands for: its mean, and its mean after one more row."""
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


@pytest.mark.parametrize("name", ["demographic_parity", None])
@given(data=st.data())
def test_merge_in_single_precision(problems, name, loss, data, assert_close):
    p = data.draw(problems(CRITERIA.get(name), loss, start=True, sparse=False, dtype="float32"))
    learner, (a, b, c) = shards(p)
    merge, fresh = learner.merge, learner.init(p.n_columns)
    whole = merge(merge(a, b), c)
    assert [array.dtype for array in whole[1:]] == [array.dtype for array in a[1:]]
    for found, expected in [(merge(a, b), merge(b, a)), (whole, merge(a, merge(b, c))), (merge(a, fresh), a)]:
        assert found.k == expected.k
        for left, right in zip(points(learner, found, p), points(learner, expected, p), strict=True):
            assert_close(left, right, 1e-5)


@given(data=st.data())
def test_a_state_before_its_first_row_merges_to_nothing(problems, criterion, loss, data, assert_close):
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
def test_traces_merge_as_if_the_sums_of_one_shard_went_on_where_those_of_another_end(
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
