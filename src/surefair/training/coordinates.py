"""Coordinates in which one step size serves all directions.

>>> rng = np.random.default_rng(0)
>>> X = rng.normal(size=(1000, 2)) @ np.array([[1.0, 3.0], [0.0, 4.0]])
>>> W = whitening(X, np.ones(1000))
>>> ((X @ W).T @ (X @ W) / 1000).round(12) + 0.0
array([[1., 0.],
       [0., 1.]])
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse import csr_matrix, diags_array, hstack

from surefair.rows import FloatArray, is_sparse


def whitening(X: Any, weight: FloatArray) -> FloatArray:
    """Coordinates W in which the warm-up rows have the identity as second moment: mean of (Wᵀx)(Wᵀx)ᵀ = I.

    Each column is divided by its root mean square, then columns are decorrelated. Directions in which the rows hardly
    vary (correlation eigenvalues below one row's worth) are not stretched further. With fewer than ten rows per column,
    or sparse rows, columns are only scaled.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_rows, D)
        Warm-up rows, intercept included.
    weight : ndarray of shape (n_rows,)

    Returns
    -------
    ndarray of shape (D, D), or (D,) for a scaling
    """
    n, D = X.shape
    if n == 0 or weight.sum() == 0.0:
        return np.ones(D)
    share = weight / weight.sum()
    largest = abs(X).max(axis=0)
    largest = np.asarray(largest.todense()).ravel() if is_sparse(X) else largest
    largest[largest == 0.0] = 1.0
    unit = X @ diags_array(1.0 / largest) if is_sparse(X) else X / largest
    scale = largest * np.sqrt(share @ unit**2 if not is_sparse(X) else unit.power(2).T @ share)
    scale[scale == 0.0] = 1.0
    if is_sparse(X) or not enough_rows(X):
        return np.asarray(1.0 / scale)
    scaled = X / scale
    values, vectors = np.linalg.eigh((scaled.T * share) @ scaled)
    root = np.linalg.cholesky((vectors * np.maximum(values, 1.0 / n)) @ vectors.T)
    return np.asarray(solve_triangular(root, np.eye(D), lower=True).T / scale[:, None])


def evened(hessian: FloatArray) -> tuple[FloatArray, float]:
    """Coordinates A of determinant 1 in which a loss has the same curvature c in all directions, AᵀHA = cI.

    Directions with less than a thousandth of the largest curvature are not stretched further.

    Parameters
    ----------
    hessian : ndarray of shape (D, D), or (D,) for its diagonal

    Returns
    -------
    A : ndarray of shape (D, D), upper triangular, or (D,) for a scaling
    c : float

    Examples
    --------
    >>> A, c = evened(np.array([[4.0, 2.0], [2.0, 5.0]]))
    >>> (A.T @ np.array([[4.0, 2.0], [2.0, 5.0]]) @ A).round(9) + 0.0, round(c, 9)
    (array([[4., 0.], [0., 4.]]), 4.0)
    """
    values, vectors = (hessian, None) if hessian.ndim == 1 else np.linalg.eigh(hessian)
    values = np.maximum(values, values.max() / 1000.0)
    c = float(np.exp(np.log(values).mean()))
    if vectors is None:
        return np.sqrt(c / values), c
    root = np.linalg.cholesky((vectors * (values / c)) @ vectors.T)
    return np.asarray(solve_triangular(root, np.eye(len(root)), lower=True).T), c


def enough_rows(X: Any) -> bool:
    """Whether there are enough warm-up rows to whiten and to compute a start: ten per column.

    >>> enough_rows(np.ones((30, 3))), enough_rows(np.ones((29, 3)))
    (True, False)
    """
    n, D = X.shape
    return bool(n >= 10 * D)


def with_ones(X: Any, fit_intercept: bool) -> Any:
    """Append a column of ones if there is an intercept."""
    if not fit_intercept:
        return X
    ones = np.ones((X.shape[0], 1))
    return hstack([X, csr_matrix(ones)], format="csr") if is_sparse(X) else np.hstack([X, ones])


def change_coordinates(X: Any, W: FloatArray) -> Any:
    """Return rows in new coordinates, dense or sparse as they were; sparse rows can only be scaled."""
    if not is_sparse(X):
        return X * W if W.ndim == 1 else X @ W
    return csr_matrix((X.data * W[X.indices], X.indices, X.indptr), shape=X.shape)


def second_moment(X: Any, weight: FloatArray, whole: bool) -> FloatArray:
    """Return Σ wᵢ xᵢxᵢᵀ, or only its diagonal."""
    if whole:
        return np.asarray((X.T * weight) @ X)
    return np.asarray((X.power(2) if is_sparse(X) else X**2).T @ weight)


def squared_lengths(X: Any) -> FloatArray:
    """Return ‖x‖² of each row."""
    return np.asarray((X.power(2) if is_sparse(X) else X**2).sum(axis=1)).ravel()
