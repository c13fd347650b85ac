"""Counts of group × truth × decision, for the fit and each replicate. Counts of two sets of rows add.

Groups of several sensitive columns are numbered through, and each row counts once in every column.

>>> X, theta = np.array([[1.0], [-1.0], [2.0]]), np.array([[1.0, -1.0]])
>>> counts = count(theta, X, truth=np.array([1, 0, 0]), codes=np.array([[0], [0], [1]]), sizes=(2,))
>>> counts.rows[0].tolist()
[[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 0.0]]]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from surefair import kernels
from surefair.streams import FloatArray, is_sparse

BLOCK = 2**20
"""Margins of sparse rows that are held in memory at a time."""


class Counts(NamedTuple):
    """Rows of each group, truth and decision: arrays of shape (..., groups, 2, 2). Without sample weights all equal."""

    rows: FloatArray  # number of rows
    weight: FloatArray  # sum of their weights
    square: FloatArray  # sum of their squared weights

    def __add__(self, other: Counts) -> Counts:  # type: ignore[override]
        return Counts(*(a + b for a, b in zip(self, other, strict=True)))

    def of(self, models: int | slice) -> Counts:
        """Counts of some of the models, along the first axis."""
        return Counts(*(table[models] for table in self))


def count(
    theta: FloatArray,
    X: Any,
    truth: NDArray[np.integer],
    codes: NDArray[np.integer],
    sizes: tuple[int, ...],
    weight: FloatArray | None = None,
) -> Counts:
    """Count decisions xᵀθ > 0 by group and truth.

    Parameters
    ----------
    theta : ndarray of shape (D, R)
        One column per model.
    X : ndarray or sparse matrix of shape (n_rows, D)
    truth : ndarray of shape (n_rows,)
        0 or 1.
    codes : ndarray of shape (n_rows, columns)
        Group of each row in each sensitive column.
    sizes : tuple of int
        Number of groups in each column.
    weight : ndarray of shape (n_rows,), optional
        Sample weights.

    Returns
    -------
    Counts
        Arrays of shape (R, groups, 2, 2).
    """
    cell = 2 * _numbered(codes, sizes) + np.asarray(truth, dtype=np.int64)[:, None]
    theta = np.ascontiguousarray(theta)
    add_up = _add_sparse if is_sparse(X) else _add_dense

    def table(weight: FloatArray) -> FloatArray:
        total, positive = add_up(X, theta, cell, weight, 2 * sum(sizes))
        both = np.stack([total[:, None] - positive, positive], axis=-1)  # (cell, R, decision)
        return np.moveaxis(both.reshape(sum(sizes), 2, -1, 2), 2, 0)

    return _tables(table, len(cell), weight)


def count_decisions(
    decision: NDArray[np.integer],
    truth: NDArray[np.integer],
    codes: NDArray[np.integer],
    sizes: tuple[int, ...],
    weight: FloatArray | None = None,
) -> Counts:
    """Count given decisions; arrays of shape (groups, 2, 2).

    Examples
    --------
    >>> count_decisions(np.array([1, 0]), np.array([1, 1]), np.array([[0], [1]]), sizes=(2,)).rows.tolist()
    [[[0.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [1.0, 0.0]]]
    """
    cell = 4 * _numbered(codes, sizes) + (2 * np.asarray(truth) + np.asarray(decision))[:, None]

    def table(weight: FloatArray) -> FloatArray:
        return _total(cell, weight, 4 * sum(sizes)).reshape(sum(sizes), 2, 2)

    return _tables(table, len(cell), weight)


def _numbered(codes: NDArray[np.integer], sizes: tuple[int, ...]) -> NDArray[np.int64]:
    """Group of each row in each column, numbered through all columns."""
    return np.asarray(codes + np.cumsum([0, *sizes[:-1]]), dtype=np.int64)


def _tables(table: Callable[[FloatArray], FloatArray], n: int, weight: FloatArray | None) -> Counts:
    rows = table(np.ones(n))
    return Counts(rows, rows, rows) if weight is None else Counts(rows, table(weight), table(weight**2))


def _total(cell: NDArray[np.int64], weight: FloatArray, n_cells: int) -> FloatArray:
    """Sum of the weights in each cell, added in the order of the rows."""
    total = np.bincount(cell.ravel(), np.repeat(weight, cell.shape[1]), minlength=n_cells)
    return np.asarray(total, dtype=np.float64)


def _add_dense(
    X: FloatArray, theta: FloatArray, cell: NDArray[np.int64], weight: FloatArray, n_cells: int
) -> tuple[FloatArray, FloatArray]:
    """Weights of all rows (cells,), and of those with positive decisions (cells, R).

    Both are added in the same order, so that their difference is 0 where no other row is, and never less.
    """
    positive = np.zeros((n_cells, theta.shape[1]))
    kernels.count_positive(np.ascontiguousarray(X), theta, cell, weight, positive)
    return _total(cell, weight, n_cells), positive


def _add_sparse(
    X: Any, theta: FloatArray, cell: NDArray[np.int64], weight: FloatArray, n_cells: int
) -> tuple[FloatArray, FloatArray]:
    """The same of a sparse matrix, some rows at a time; a first model that accepts everyone gives the total."""
    X, (n, C) = X.tocsr(), cell.shape
    both = np.zeros((n_cells, 1 + theta.shape[1]))
    step = max(1, BLOCK // both.shape[1])
    for low in range(0, n, step):
        part = slice(low, low + step)
        margin = X[part] @ theta
        decision = np.hstack([np.ones((len(margin), 1)), margin > 0.0])
        start = np.arange(0, C * len(margin) + 1, C)
        member = csr_array((np.repeat(weight[part], C), cell[part].ravel(), start), shape=(len(margin), n_cells))
        both += member.T @ decision
    return both[:, 0], both[:, 1:]
