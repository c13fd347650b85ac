from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefair.counts import count, count_decisions


def sample(seed, n_rows=60, D=3, n_models=5, n_groups=2):
    """Small whole numbers, so that margins are exact and often 0."""
    rng = np.random.default_rng(seed)
    theta, X = rng.integers(-3, 4, size=(D, n_models)), rng.integers(-3, 4, size=(n_rows, D))
    return theta.astype(float), X.astype(float), rng.integers(2, size=n_rows), rng.integers(n_groups, size=n_rows)


def plain_count(theta, X, truth, group, n_groups):
    counts = np.zeros((theta.shape[1], n_groups, 2, 2), dtype=int)
    for b, coef in enumerate(theta.T):
        for x, t, g in zip(X, truth, group, strict=True):
            counts[b, g, t, int(sum(x * coef) > 0.0)] += 1
    return counts


@given(seed=st.integers(0, 2**32 - 1), n_rows=st.integers(0, 60), n_groups=st.integers(1, 4))
def test_counts_are_those_of_a_plain_loop(seed, n_rows, n_groups):
    theta, X, truth, group = sample(seed, n_rows, n_groups=n_groups)
    counts = count(theta, X, truth, group, n_groups)
    assert np.array_equal(counts, plain_count(theta, X, truth, group, n_groups))


@given(seed=st.integers(0, 2**32 - 1), cut=st.integers(0, 60))
def test_counts_of_two_sets_of_rows_add(seed, cut):
    theta, X, truth, group = sample(seed)
    parts = [count(theta, X[part], truth[part], group[part], 2) for part in (slice(cut), slice(cut, None))]
    assert np.array_equal(parts[0] + parts[1], count(theta, X, truth, group, 2))


def test_every_row_of_every_group_is_counted():
    theta, X, truth, group = sample(1, n_groups=3)
    counts = count(theta, X, truth, group, 3)
    assert np.array_equal(counts.sum(axis=(2, 3)), np.tile(np.bincount(group, minlength=3), (5, 1)))


def test_an_empty_group_has_counts_of_zero():
    theta, X, truth, group = sample(2)
    counts = count(theta, X, truth, 2 * group, 4)
    assert np.array_equal(counts[:, [0, 2]], count(theta, X, truth, group, 2))
    assert not counts[:, [1, 3]].any()


def test_a_margin_of_zero_is_a_negative_decision():
    counts = count(np.zeros((2, 1)), np.ones((3, 2)), np.array([0, 1, 1]), np.zeros(3, dtype=int), 1)
    assert counts[0, 0].tolist() == [[1, 0], [2, 0]]


@pytest.mark.parametrize("n_models", [1, 2, 7])
def test_a_model_is_counted_alike_in_any_company(n_models):
    # margins such as 0.1 + 0.2 - 0.3 are 0 but for rounding, and rounding must not depend on the other models
    rng = np.random.default_rng(0)
    for _ in range(20):
        X, theta = rng.integers(-3, 4, size=(200, 12)).astype(float), rng.integers(-5, 6, size=(12, 60)) / 10.0
        truth, group = rng.integers(2, size=(2, 200))
        alone = count(theta[:, :n_models].copy(), X, truth, group, 2)
        assert np.array_equal(alone, count(theta, X, truth, group, 2)[:n_models])


@given(seed=st.integers(0, 2**32 - 1), n_rows=st.integers(0, 40))
def test_given_decisions_are_counted_like_those_of_a_model(seed, n_rows):
    theta, X, truth, group = sample(seed, n_rows, n_models=1)
    decision = (X @ theta[:, 0] > 0.0).astype(int)
    assert np.array_equal(count_decisions(decision, truth, group, 2), count(theta, X, truth, group, 2)[0])
