from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array, csr_matrix

from surefair.training.coordinates import enough_rows, evened, whitening


def gram(X, W):
    return (X @ W).T @ (X @ W) / len(X)


@given(seed=st.integers(0, 2**32 - 1), D=st.integers(1, 6))
def test_whitened_rows_have_the_identity_as_second_moment(seed, D):
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(D, D)) + 2.0 * np.eye(D)
    X = rng.normal(size=(200, D)) @ mix * 10.0 ** rng.uniform(-4, 4, size=D)
    correlation = np.linalg.eigvalsh(X.T @ X / np.outer(*[np.linalg.norm(X, axis=0)] * 2))
    if correlation.min() > 1.0 / 200:  # otherwise the rows hardly vary in some direction
        np.testing.assert_allclose(gram(X, whitening(X, np.ones(len(X)))), np.eye(D), atol=1e-9)


def test_dependent_columns_are_whitened_in_the_directions_that_exist():
    rng = np.random.default_rng(0)
    free = rng.normal(size=(300, 2))
    X = np.column_stack([free, free @ [1.0, -2.0], np.ones(300), np.ones(300)])  # rank 3 of 5
    W = whitening(X, np.ones(len(X)))
    assert np.abs(W).max() < np.sqrt(300) * 2
    np.testing.assert_allclose(np.linalg.eigvalsh(gram(X, W)), [0, 0, 1, 1, 1], atol=1e-9)


def test_columns_of_zeros_do_not_affect_other_columns():
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=(100, 2)), np.zeros(100)])
    W = whitening(X, np.ones(len(X)))
    assert np.isfinite(W).all()
    np.testing.assert_allclose(W[:2, :2], whitening(X[:, :2], np.ones(100)), atol=1e-12)
    np.testing.assert_allclose(gram(X, W), np.diag([1.0, 1.0, 0.0]), atol=1e-9)


@pytest.mark.parametrize("n", [0, 1, 29])
def test_few_rows_are_only_scaled(n):
    X = np.random.default_rng(2).normal(size=(n, 3)) * [1.0, 10.0, 100.0]
    W = whitening(X, np.ones(len(X)))
    assert not enough_rows(X)
    assert W.shape == (3,)
    if n:
        np.testing.assert_allclose(np.mean((X * W) ** 2, axis=0), np.ones(3))
    else:
        assert np.array_equal(W, np.ones(3))


@pytest.mark.parametrize("n", [20, 200], ids=["scaled", "whitened"])
def test_a_row_of_weight_two_is_two_rows(n):
    rng = np.random.default_rng(3)
    X, weight = rng.normal(size=(n, 3)) @ rng.normal(size=(3, 3)), rng.integers(3, size=n)
    twice = np.repeat(X, weight, axis=0)
    np.testing.assert_allclose(whitening(X, 0.1 * weight), whitening(twice, np.ones(len(twice))), rtol=1e-9)


def test_rows_without_weight_do_not_set_the_scale():
    assert np.array_equal(whitening(np.full((50, 3), 7.0), np.zeros(50)), np.ones(3))


@pytest.mark.parametrize("kind", [csr_matrix, csr_array])
def test_sparse_rows_are_only_scaled(kind):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 3)) * [1e-200, 10.0, 1e150] * (rng.random((300, 3)) < 0.5)
    X[:, 1] = 0.0
    weight = rng.exponential(size=300)
    expected = np.sqrt(np.average((X / [1e-200, 1.0, 1e150]) ** 2, axis=0, weights=weight)) * [1e-200, 1.0, 1e150]
    np.testing.assert_allclose(whitening(kind(X), weight), 1.0 / np.where(expected > 0.0, expected, 1.0))


def test_ten_rows_per_column_are_enough():
    assert enough_rows(np.ones((30, 3)))
    assert not enough_rows(np.ones((29, 3)))


@given(seed=st.integers(0, 2**32 - 1), D=st.integers(1, 6))
def test_evened_coordinates_have_equal_curvature_and_determinant_one(seed, D):
    root = np.random.default_rng(seed).normal(size=(D, D)) + 3.0 * np.eye(D)
    values, vectors = np.linalg.eigh(root @ root.T)
    hessian = (vectors * np.maximum(values, values.max() / 900.0)) @ vectors.T
    A, c = evened(hessian)
    np.testing.assert_allclose(A.T @ hessian @ A, c * np.eye(D), rtol=1e-8, atol=1e-8 * c)
    assert np.linalg.det(A) == pytest.approx(1.0)
    scale, same = evened(np.diag(hessian))
    np.testing.assert_allclose(scale**2 * np.diag(hessian), same)


def test_flat_directions_are_not_stretched_further():
    scale, c = evened(np.array([1.0, 1e-9]))
    np.testing.assert_allclose(scale, np.sqrt(c / np.array([1.0, 1e-3])))
