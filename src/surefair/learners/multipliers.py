"""Multipliers: the weight V of row k in replicate b, as a function of (seed, k, b) and nothing else.

Every law has mean 1 and variance 1. The weights come from the counter-based generator Philox4x32-10 (Salmon, Moraes,
Dror and Shaw, 2011): its counter is the row and the replicate, its key is the seed. So any weight can be computed at
any time and in any order, and it does not depend on batch sizes, threads, restarts or the number of replicates. Column
0 is the fit itself, whose weight is always 1.

This file is the plain specification; ``kernels.py`` draws the same weights in compiled code.

>>> Multipliers("two_point", seed=0).draw(first_row=0, n_rows=2, n_columns=6)
array([[1., 0., 2., 0., 2., 0.],
       [1., 0., 2., 0., 0., 2.]])
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefair import kernels
from surefair.rows import FloatArray
from surefair.rows.philox import MASK, philox

LAWS = {
    "two_point": kernels.TWO_POINT,
    "uniform": kernels.UNIFORM,
    "exponential": kernels.EXPONENTIAL,
    "normal": kernels.NORMAL,
    "poisson": kernels.POISSON,
}
"""Laws by name, and the numbers that stand for them in the compiled kernels."""

SIGNED_LAWS = frozenset({"uniform", "normal"})
"""Laws whose multipliers can be negative."""

TRAINING = 0
EVALUATION = 1
CLUSTERS = 3
"""Purposes: each draws different numbers from the same seed; ``tables/split.py`` has another, 2."""

# P(Poisson(1) <= j) for j = 0, 1, ...: the multiplier of a uniform number u is how many entries are smaller.
POISSON_CDF: FloatArray = np.cumsum(np.exp(-1.0) / np.cumprod(np.r_[1.0, np.arange(1.0, 13.0)]))


def random_words(seed: int, first_row: int, n_rows: int, n_blocks: int, purpose: int) -> NDArray[np.uint64]:
    """Return four 32-bit words for each row and each block of columns, shape (n_rows, 4 · n_blocks)."""
    return words_of(seed, np.arange(first_row, first_row + n_rows, dtype=np.uint64), n_blocks, purpose)


def words_of(seed: int, keys: NDArray[np.uint64], n_blocks: int, purpose: int) -> NDArray[np.uint64]:
    """Return four 32-bit words for each key and each block of columns, shape (keys, 4 · n_blocks)."""
    rows = keys[:, None]
    blocks = np.arange(n_blocks, dtype=np.uint64)[None, :]
    counter = np.stack(np.broadcast_arrays(rows & MASK, rows >> np.uint64(32), blocks, np.uint64(purpose)), axis=-1)
    return philox(counter, seed).reshape(len(keys), 4 * n_blocks)


def uniforms(seed: int, first_row: int, n_rows: int, n_columns: int, purpose: int) -> FloatArray:
    """Uniform numbers in (0, 1), one per row and column: midpoints of 2³² equal cells."""
    words = random_words(seed, first_row, n_rows, -(-n_columns // 4), purpose)
    return np.asarray((words[:, :n_columns] + 0.5) * 2.0**-32)


def cluster_multipliers(seed: int, keys: NDArray[np.uint64], n_replicates: int) -> FloatArray:
    """Weights, 0 or 2, that all rows of a cluster share in each replicate: a function of (seed, key, replicate).

    Examples
    --------
    >>> cluster_multipliers(0, np.array([7, 8, 7], dtype=np.uint64), n_replicates=5)
    array([[2., 0., 2., 0., 2.],
           [2., 2., 0., 2., 0.],
           [2., 0., 2., 0., 2.]])
    """
    words = words_of(seed, keys, -(-n_replicates // 128), CLUSTERS)
    return _two_points(words)[:, :n_replicates]


def _two_points(words: NDArray[np.uint64]) -> FloatArray:
    """Turn each bit of 32-bit words into 0 or 2, shape (rows, 32 · words)."""
    bits = words[:, :, None] >> np.arange(32, dtype=np.uint64) & np.uint64(1)
    return np.asarray(2.0 * bits.reshape(len(words), -1))


@dataclass(frozen=True)
class Multipliers:
    """The law of the weights, and their seed.

    Attributes
    ----------
    law : {"two_point", "uniform", "exponential", "normal", "poisson"}
        0 or 2; U[1-√3, 1+√3]; Exp(1); N(1, 1); Poisson(1).
    seed : int
        64-bit key of the generator.
    """

    law: str
    seed: int

    def draw(self, first_row: int, n_rows: int, n_columns: int) -> FloatArray:
        """Weights of rows ``first_row, ...`` in columns ``0, ..., n_columns - 1``.

        Returns
        -------
        ndarray of shape (n_rows, n_columns)
        """
        return self._weights(np.arange(first_row, first_row + n_rows, dtype=np.uint64), n_columns, TRAINING)

    def of_clusters(self, keys: NDArray[np.uint64], n_columns: int) -> FloatArray:
        """Weights that all rows of a cluster share, in columns ``0, ..., n_columns - 1``.

        Parameters
        ----------
        keys : ndarray of shape (n_rows,)
            Hash of each row's cluster.
        n_columns : int

        Returns
        -------
        ndarray of shape (n_rows, n_columns)

        Examples
        --------
        >>> V = Multipliers("exponential", seed=0).of_clusters(np.array([7, 8, 7], dtype=np.uint64), n_columns=3)
        >>> V[:, 0].tolist(), bool((V[0] == V[2]).all()), bool((V[0] == V[1]).all())
        ([1.0, 1.0, 1.0], True, False)
        """
        distinct, place = np.unique(keys, return_inverse=True)
        return self._weights(distinct, n_columns, CLUSTERS)[place]

    def _weights(self, keys: NDArray[np.uint64], n_columns: int, purpose: int) -> FloatArray:
        """Weights of each key, shape (keys, n_columns)."""
        if self.law == "two_point":
            V = _two_points(words_of(self.seed, keys, -(-n_columns // 128), purpose))[:, :n_columns]
        else:
            # whole blocks of four columns, because the normal law needs uniform numbers in pairs
            words = words_of(self.seed, keys, -(-n_columns // 4), purpose)
            V = _transform(self.law, np.asarray((words + 0.5) * 2.0**-32))[:, :n_columns]
        V[:, 0] = 1.0
        return V


def _transform(law: str, u: FloatArray) -> FloatArray:
    """Turn uniform numbers into weights of mean 1 and variance 1."""
    if law == "uniform":
        return np.asarray(1.0 + np.sqrt(12.0) * (u - 0.5))
    if law == "exponential":
        return -np.log(u)
    if law == "poisson":
        return np.searchsorted(POISSON_CDF, u).astype(np.float64)
    radius = np.sqrt(-2.0 * np.log(u[:, 0::2]))
    angle = 2.0 * np.pi * u[:, 1::2]
    V = np.empty_like(u)
    V[:, 0::2] = 1.0 + radius * np.cos(angle)
    V[:, 1::2] = 1.0 + radius * np.sin(angle)
    return V
