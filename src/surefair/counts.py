"""Counts of group × truth × decision, for the fit and each replicate. Counts of two sets of rows add.

>>> X, theta = np.array([[1.0], [-1.0], [2.0]]), np.array([[1.0, -1.0]])
>>> count(theta, X, truth=np.array([1, 0, 0]), group=np.array([0, 0, 1]), n_groups=2)[0].tolist()
[[[1, 0], [0, 1]], [[0, 1], [0, 0]]]
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from surefair import kernels
from surefair.streams import FloatArray

Counts = NDArray[np.int64]  # (..., group, truth, decision)


def count(
    theta: FloatArray, X: FloatArray, truth: NDArray[np.integer], group: NDArray[np.integer], n_groups: int
) -> Counts:
    """Count decisions xᵀθ > 0 by group and truth.

    Parameters
    ----------
    theta : ndarray of shape (D, R)
        One column per model.
    X : ndarray of shape (n_rows, D)
    truth : ndarray of shape (n_rows,)
        0 or 1.
    group : ndarray of shape (n_rows,)
        0, …, n_groups - 1.

    Returns
    -------
    ndarray of shape (R, n_groups, 2, 2)
    """
    cell = 2 * np.asarray(group) + np.asarray(truth)
    positive = np.zeros((2 * n_groups, theta.shape[1]), dtype=np.int64)
    kernels.count_positive(np.ascontiguousarray(X), np.ascontiguousarray(theta), cell, positive)
    total = np.bincount(cell, minlength=2 * n_groups)[:, None]
    counts = np.stack([total - positive, positive], axis=-1)  # (cell, R, decision)
    return np.moveaxis(counts.reshape(n_groups, 2, -1, 2), 2, 0)


def count_decisions(
    decision: NDArray[np.integer], truth: NDArray[np.integer], group: NDArray[np.integer], n_groups: int
) -> Counts:
    """Count given decisions, shape (n_groups, 2, 2).

    Examples
    --------
    >>> count_decisions(np.array([1, 0]), np.array([1, 1]), np.array([0, 1]), n_groups=2).tolist()
    [[[0, 0], [0, 1]], [[0, 0], [1, 0]]]
    """
    cell = 4 * np.asarray(group) + 2 * np.asarray(truth) + np.asarray(decision)
    return np.bincount(cell, minlength=4 * n_groups).reshape(n_groups, 2, 2).astype(np.int64)
