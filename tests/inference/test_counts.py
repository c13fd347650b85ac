from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array, csr_matrix

import surefair.inference.counts
from surefair.inference.counts import Counts, count, count_decisions

SIZES = (2, 3)

sparse_or_not = pytest.mark.parametrize("make", [np.asarray, csr_matrix, csr_array])


def sample(seed, n_rows=60, D=3, n_models=5, sizes=SIZES):
    """Small whole numbers, so that scores and sums of weights are exact, and scores are often 0."""
    rng = np.random.default_rng(seed)
    theta, X = rng.integers(-3, 4, size=(D, n_models)), rng.integers(-3, 4, size=(n_rows, D))
    codes = np.stack([rng.integers(size, size=n_rows) for size in sizes], axis=1)
    weight = rng.integers(4, size=n_rows).astype(float)
    return theta.astype(float), X.astype(float), rng.integers(2, size=n_rows), codes, weight


def plain_count(theta, X, truth, codes, sizes, weight):
    counts = np.zeros((theta.shape[1], sum(sizes), 2, 2))
    for b, coef in enumerate(theta.T):
        for x, t, code, c in zip(X, truth, codes, weight, strict=True):
            for column, g in enumerate(code):
                counts[b, sum(sizes[:column]) + g, t, int(sum(x * coef) > 0.0)] += c
    return counts


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@sparse_or_not
@given(seed=st.integers(0, 2**32 - 1), n_rows=st.integers(0, 60), sizes=st.lists(st.integers(1, 4), min_size=1))
def test_counts_agree_with_a_plain_loop(make, seed, n_rows, sizes):
    theta, X, truth, codes, weight = sample(seed, n_rows, sizes=tuple(sizes))
    counts = count(theta, make(X), truth, codes, tuple(sizes), weight)
    for table, c in zip(counts, (np.ones(n_rows), weight, weight**2), strict=True):
        assert table.dtype == np.float64
        assert np.array_equal(table, plain_count(theta, X, truth, codes, sizes, c))


@sparse_or_not
def test_without_weights_every_row_has_weight_one(make):
    theta, X, truth, codes, _ = sample(3)
    counts = count(theta, make(X), truth, codes, SIZES)
    assert same(counts, [counts.rows] * 3)
    assert same(counts, count(theta, make(X), truth, codes, SIZES, np.ones(60)))


@sparse_or_not
@given(seed=st.integers(0, 2**32 - 1), cut=st.integers(0, 60))
def test_counts_of_two_sets_of_rows_add(make, seed, cut):
    theta, X, truth, codes, weight = sample(seed)
    parts = [
        count(theta, make(X[part]), truth[part], codes[part], SIZES, weight[part])
        for part in (slice(cut), slice(cut, None))
    ]
    assert isinstance(parts[0] + parts[1], Counts)
    assert same(parts[0] + parts[1], count(theta, make(X), truth, codes, SIZES, weight))


@pytest.mark.parametrize("block", [1, 7, 100, 10**6])
def test_counts_of_sparse_rows_do_not_depend_on_the_block_size(monkeypatch, block):
    theta, X, truth, codes, weight = sample(4)
    whole = count(theta, csr_matrix(X), truth, codes, SIZES, weight)
    monkeypatch.setattr(surefair.inference.counts, "BLOCK", block)
    assert same(count(theta, csr_matrix(X), truth, codes, SIZES, weight), whole)


@sparse_or_not
def test_no_cell_is_negative_and_an_empty_one_is_zero(make):
    # sums of weights such as 0.1 are rounded, and a difference of two such sums must not show it
    rng = np.random.default_rng(5)
    X, truth, codes, weight = rng.normal(size=(500, 2)), rng.integers(2, size=500), np.zeros((500, 1), int), 0.1
    theta = np.hstack([rng.normal(size=(2, 20)), np.zeros((2, 1))])
    counts = count(theta, make(X), truth, codes, (1,), np.full(500, weight) * rng.random(500))
    for table in counts:
        assert (table >= 0.0).all()
        assert np.array_equal(table == 0.0, counts.rows == 0.0)


def test_every_row_of_every_group_is_counted_once_in_each_column():
    theta, X, truth, codes, _ = sample(1)
    counts = count(theta, X, truth, codes, SIZES)
    expected = np.concatenate([np.bincount(code, minlength=size) for code, size in zip(codes.T, SIZES, strict=True)])
    assert np.array_equal(counts.rows.sum(axis=(2, 3)), np.tile(expected, (5, 1)))


def test_an_empty_group_has_counts_of_zero():
    theta, X, truth, codes, weight = sample(2, sizes=(2,))
    counts = count(theta, X, truth, 2 * codes, (4,), weight)
    for table, narrow in zip(counts, count(theta, X, truth, codes, (2,), weight), strict=True):
        assert np.array_equal(table[:, [0, 2]], narrow)
        assert not table[:, [1, 3]].any()


def test_a_score_of_zero_is_a_negative_decision():
    for X in (np.ones((3, 2)), csr_matrix(np.ones((3, 2)))):
        counts = count(np.zeros((2, 1)), X, np.array([0, 1, 1]), np.zeros((3, 1), dtype=int), (1,))
        assert counts.rows[0, 0].tolist() == [[1, 0], [2, 0]]


@sparse_or_not
@pytest.mark.parametrize("n_models", [1, 2, 7])
def test_the_counts_of_a_model_do_not_depend_on_the_other_models(make, n_models):
    # scores such as 0.1 + 0.2 - 0.3 are 0 up to rounding, which must not depend on the other models
    rng = np.random.default_rng(0)
    for _ in range(20):
        X, theta = rng.integers(-3, 4, size=(200, 12)).astype(float), rng.integers(-5, 6, size=(12, 60)) / 10.0
        truth, codes = rng.integers(2, size=200), rng.integers(2, size=(200, 1))
        alone = count(theta[:, :n_models].copy(), make(X), truth, codes, (2,))
        assert same(alone, count(theta, make(X), truth, codes, (2,)).of(slice(n_models)))


@given(seed=st.integers(0, 2**32 - 1), n_rows=st.integers(0, 40))
def test_given_decisions_are_counted_as_those_of_a_model(seed, n_rows):
    theta, X, truth, codes, weight = sample(seed, n_rows, n_models=1)
    decision = (X @ theta[:, 0] > 0.0).astype(int)
    for c in (None, weight):
        counted = count_decisions(decision, truth, codes, SIZES, c)
        assert same(counted, count(theta, X, truth, codes, SIZES, c).of(0))


# -- Blocks of rows, pairs of models, threads -------------------------------------------------------------------------


def tables(decision, truth, codes, sizes, weight):
    """Add up weights in the order of the rows, for decisions of shape (rows, models)."""
    cell = 2 * (codes + np.cumsum([0, *sizes[:-1]])) + truth[:, None]
    cells = 2 * cell[:, :, None] + decision[:, None, :]  # (rows, sensitive columns, models)
    weights = np.broadcast_to(weight[:, None], cells.shape[:2]).ravel()
    added = [np.bincount(cells[:, :, b].ravel(), weights, 4 * sum(sizes)) for b in range(decision.shape[1])]
    return np.array(added).reshape(-1, sum(sizes), 2, 2)


@sparse_or_not
@pytest.mark.parametrize("n_rows", [0, 1, 2, 63, 64, 65, 255, 256, 257, 1000])
@pytest.mark.parametrize("D", range(1, 10))
def test_counts_are_right_for_any_number_of_rows_features_and_models(make, n_rows, D):
    for n_models in (1, 2, 3, 8, 33):
        theta, X, truth, codes, weight = sample(n_rows + D, n_rows, D, n_models)
        counts = count(theta, make(X), truth, codes, SIZES, weight)
        for table, c in zip(counts, (np.ones(n_rows), weight, weight**2), strict=True):
            assert np.array_equal(table, tables(X @ theta > 0.0, truth, codes, SIZES, c))
        assert same(count(theta, make(X), truth, codes, SIZES), [counts.rows] * 3)


def rough(seed, n_rows=700, D=7, n_models=100):
    """Tenths, so that scores are often 0 up to rounding, and weights whose sums are rounded."""
    theta, X, truth, codes, _ = sample(seed, n_rows, D, n_models)
    return theta / 10.0, X, truth, codes, np.random.default_rng(seed).random(n_rows)


def test_the_decision_on_a_row_does_not_depend_on_the_other_rows():
    theta, X, truth, codes, _ = rough(0)
    assert ((X @ theta != 0.0) & (abs(X @ theta) < 1e-12)).any()
    rows = [slice(i, i + 1) for i in range(len(X))]
    positive = [count(theta, X[row], truth[row], codes[row], SIZES).rows[..., 1].any(axis=(1, 2)) for row in rows]
    expected = tables(np.array(positive), truth, codes, SIZES, np.ones(len(X)))
    assert np.array_equal(count(theta, X, truth, codes, SIZES).rows, expected)


def test_positive_weights_are_added_in_the_order_of_the_rows():
    theta, X, truth, codes, weight = *sample(1, 700, 3, 40)[:4], rough(1)[4]
    counts = count(theta, X, truth, codes, SIZES, weight)
    for table, c in zip(counts[1:], (weight, weight**2), strict=True):
        assert np.array_equal(table[..., 1], tables(X @ theta > 0.0, truth, codes, SIZES, c)[..., 1])


@pytest.mark.parametrize("n_threads", [2, 3, 7])
@pytest.mark.parametrize("n_models", [1, 33, 100])
def test_counts_do_not_depend_on_threads(n_threads, n_models):
    theta, X, truth, codes, weight = rough(2, n_models=n_models)
    for c in (None, weight):
        alone = count(theta, X, truth, codes, SIZES, c)
        assert same(alone, count(theta, X, truth, codes, SIZES, c, n_threads))


@pytest.mark.parametrize("cut", [1, 64, 100, 256, 699])
def test_decisions_do_not_depend_on_where_blocks_begin(cut):
    theta, X, truth, codes, _ = rough(3)
    parts = [count(theta, X[part], truth[part], codes[part], SIZES) for part in (slice(cut), slice(cut, None))]
    assert same(parts[0] + parts[1], count(theta, X, truth, codes, SIZES))


@sparse_or_not
@pytest.mark.parametrize("D", [1, 3, 4, 7, 8])
def test_one_more_coefficient_is_an_intercept(make, D):
    theta, X, truth, codes, weight = rough(4, D=D + 1)
    ones = np.hstack([X[:, :D], np.ones((len(X), 1))])
    expected = count(theta, make(ones), truth, codes, SIZES, weight)
    assert same(count(theta, make(X[:, :D]), truth, codes, SIZES, weight), expected)


def test_a_diverged_model_does_not_affect_the_others():
    theta, X, truth, codes, _ = rough(5, n_models=6)
    bad = theta.copy()
    bad[:, 2], bad[0, 3] = np.nan, np.inf
    found, expected = (count(t, X, truth, codes, SIZES).rows for t in (bad, theta))
    assert np.array_equal(found[[0, 1, 4, 5]], expected[[0, 1, 4, 5]])
    assert not found[2, ..., 1].any()
