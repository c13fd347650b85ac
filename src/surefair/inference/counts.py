"""Counts of group × truth × decision, for the fit and each replicate. Counts of two sets of rows add.

Groups of all sensitive columns are numbered together, and each row counts once in every column.

>>> X, theta = np.array([[1.0], [-1.0], [2.0]]), np.array([[1.0, -1.0]])
>>> counts = count(theta, X, truth=np.array([1, 0, 0]), codes=np.array([[0], [0], [1]]), sizes=(2,))
>>> counts.rows[0].tolist()
[[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 0.0]]]
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from surefair import kernels
from surefair.criteria import Rate
from surefair.rows import FloatArray, Rows, is_sparse
from surefair.threads import on_threads

BLOCK = 2**20
"""Scores of sparse rows that are held in memory at a time."""


class Counts(NamedTuple):
    """Rows of each group, truth and decision: arrays of shape (..., groups, 2, 2), equal without sample weights."""

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
    n_threads: int = 1,
) -> Counts:
    """Count decisions xᵀθ > 0 by group and truth.

    Parameters
    ----------
    theta : ndarray of shape (D, R) or (D + 1, R)
        One column per model; if there are D + 1 rows, the last one holds the intercepts.
    X : ndarray or sparse matrix of shape (n_rows, D)
    truth : ndarray of shape (n_rows,)
        0 or 1.
    codes : ndarray of shape (n_rows, columns)
        Group of each row in each sensitive column.
    sizes : tuple of int
        Number of groups in each column.
    weight : ndarray of shape (n_rows,), optional
        Sample weights.
    n_threads : int
        Threads that share the models; sparse rows are counted by one thread.

    Returns
    -------
    Counts
        Arrays of shape (R, groups, 2, 2).
    """
    cell = 2 * _numbered(codes, sizes) + np.asarray(truth, dtype=np.int64)[:, None]
    kinds, n_cells = _kinds(weight), 2 * sum(sizes)
    if is_sparse(X):
        total, positive = _add_sparse(X, theta, cell, kinds, n_cells)
    else:
        total, positive = _total(cell, kinds, n_cells), _add_dense(X, theta, cell, kinds, n_cells, n_threads)
    both = np.stack([total[..., None] - positive, positive], axis=-1)  # (kind, cell, R, decision)
    return _counts(np.moveaxis(both.reshape(len(both), sum(sizes), 2, theta.shape[1], 2), 3, 1))


def count_decisions(
    decision: NDArray[np.integer],
    truth: NDArray[np.integer],
    codes: NDArray[np.integer],
    sizes: tuple[int, ...],
    weight: FloatArray | None = None,
) -> Counts:
    """Count decisions that are given; returns arrays of shape (groups, 2, 2).

    Examples
    --------
    >>> count_decisions(np.array([1, 0]), np.array([1, 1]), np.array([[0], [1]]), sizes=(2,)).rows.tolist()
    [[[0.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [1.0, 0.0]]]
    """
    cell = 4 * _numbered(codes, sizes) + (2 * np.asarray(truth) + np.asarray(decision))[:, None]
    total = _total(cell, _kinds(weight), 4 * sum(sizes))
    return _counts(total.reshape(len(total), sum(sizes), 2, 2))


def rates_of(rates: tuple[Rate, ...], counts: Counts) -> FloatArray:
    """Rates as counted, shape (..., rates, groups)."""
    return np.stack([rate.of(counts.weight) for rate in rates], axis=-2)


def sides(rates: tuple[Rate, ...], counts: Counts) -> tuple[FloatArray, FloatArray]:
    """Weights, and squared weights, of the rows that count towards each rate and of the others that enter it.

    Both of shape (2, ..., rates, groups).
    """

    def add_up(table: FloatArray) -> FloatArray:
        sums = []
        for rate in rates:
            others = tuple(cell for cell in rate.denominator if cell not in rate.numerator)
            sums.append([sum(table[..., t, d] for t, d in cells) for cells in (rate.numerator, others)])
        return np.moveaxis(np.array(sums, dtype=np.float64), 0, -2)

    return add_up(counts.weight), add_up(counts.square)


def effective_sides(rates: tuple[Rate, ...], counts: Counts) -> FloatArray:
    """Rows that count towards each rate, and the others that enter it, as many as their weights are worth (Kish).

    Shape (2, rates, groups); without sample weights these are the numbers of rows.
    """
    C, Q = sides(rates, counts)
    total = C.sum(axis=0)
    squares = Q.sum(axis=0)
    return np.asarray(np.divide(C * total, squares, out=np.zeros_like(C), where=squares > 0.0))


def _numbered(codes: NDArray[np.integer], sizes: tuple[int, ...]) -> NDArray[np.int64]:
    """Group of each row in each column, with the groups of all columns numbered together."""
    return np.asarray(codes + np.cumsum([0, *sizes[:-1]]), dtype=np.int64)


def _kinds(weight: FloatArray | None) -> tuple[FloatArray, ...]:
    """What to add up besides the number of rows."""
    return () if weight is None else (weight, weight**2)


def _counts(tables: FloatArray) -> Counts:
    """Make counts from tables (kinds, ...); without weights all three are the same."""
    return Counts(*tables) if len(tables) == 3 else Counts(*tables, *tables, *tables)


def _total(cell: NDArray[np.int64], kinds: tuple[FloatArray, ...], n_cells: int) -> FloatArray:
    """Count the rows of each cell and add up each kind of weight, in the order of the rows: (1 + kinds, cells)."""
    weights = (None, *(np.repeat(kind, cell.shape[1]) for kind in kinds))
    return np.array([np.bincount(cell.ravel(), w, minlength=n_cells) for w in weights], dtype=np.float64)


def _add_dense(
    X: FloatArray,
    theta: FloatArray,
    cell: NDArray[np.int64],
    kinds: tuple[FloatArray, ...],
    n_cells: int,
    n_threads: int,
) -> FloatArray:
    """Do what ``_total`` does, for the rows with positive decisions: (1 + kinds, cells, R).

    Weights are added in the same order, so that the difference from the total is exactly 0 where no other row is.
    """
    D, R = theta.shape
    models = np.zeros((R + -R % kernels.BLOCK, D + -D % kernels.BLOCK))
    models[:R, :D] = theta.T
    rows, sums = np.zeros((n_cells, R), dtype=np.int64), np.zeros((len(kinds), n_cells, R))
    weight = np.stack(kinds, axis=1) if kinds else np.empty((len(cell), 0))
    args = np.ascontiguousarray(X), models, cell, weight
    on_threads(kernels.count_positive, args, (rows, sums), n_threads)
    return np.concatenate([rows[None], sums])


def _add_sparse(
    X: Any, theta: FloatArray, cell: NDArray[np.int64], kinds: tuple[FloatArray, ...], n_cells: int
) -> tuple[FloatArray, FloatArray]:
    """Count sparse rows, some at a time; a first model that accepts everyone gives the total."""
    X, (n, C), D = X.tocsr(), cell.shape, X.shape[1]
    both = np.zeros((1 + len(kinds), n_cells, 1 + theta.shape[1]))
    step = max(1, BLOCK // both.shape[2])
    for low in range(0, n, step):
        part = slice(low, low + step)
        margin = X[part] @ theta[:D] + theta[D:].sum(axis=0)
        decision = np.hstack([np.ones((len(margin), 1)), margin > 0.0])
        start = np.arange(0, C * len(margin) + 1, C)
        for table, weight in zip(both, (np.ones(n), *kinds), strict=True):
            values = np.repeat(weight[part], C), cell[part].ravel(), start
            table += csr_array(values, shape=(len(margin), n_cells)).T @ decision
    return both[..., 0], both[..., 1:]


def count_weights(rows: Rows, weight: FloatArray, positive: FloatArray) -> FloatArray:
    """Sum weights (n, R) by group, truth and decision: (R, groups, 2, 2)."""
    G, columns = sum(rows.groups.sizes), rows.group.shape[1]
    cell = 2 * (rows.group + np.array(rows.groups.offsets)) + rows.truth[:, None]
    start = np.arange(0, columns * rows.n + 1, columns)
    member = csr_array((np.ones(cell.size), cell.ravel(), start), shape=(rows.n, 2 * G)).T
    weight = np.broadcast_to(weight, np.broadcast_shapes(weight.shape, positive.shape))
    accepted = member @ (weight * positive)
    both = np.stack([member @ weight - accepted, accepted], axis=-1)  # (cells, R, decision)
    return np.asarray(both.reshape(G, 2, -1, 2).transpose(2, 0, 1, 3))
