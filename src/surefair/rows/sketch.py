"""Hashes of rows, and a sketch that counts how often rows repeat, in bounded memory and in any order.

>>> rows = np.arange(6.0).reshape(3, 2)
>>> sketch = Sketch.empty().after(hash_rows(rows, np.ones(3))).after(hash_rows(rows[:1], np.ones(1)))
>>> sketch.n, sketch.pairs, sketch.repeated
(4, 1.0, 0.3333333333333333)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefair.rows.arrays import FloatArray, IntArray, is_sparse
from surefair.storage.checks import array_of

SIZE = 4096  # distinct rows that are counted
TOGETHER = 2**15  # numbers that are hashed together, so that they stay in the processor's cache
Hashes = NDArray[np.uint64]


def mixed(words: Hashes) -> Hashes:
    """Scatter 64-bit words: the finaliser of SplitMix64 (Steele, Lea and Flood, 2014)."""
    words = words ^ (words >> np.uint64(30))
    words *= np.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> np.uint64(27)
    words *= np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(31)
    return words


def hash_numbers(values: FloatArray, column: Any) -> Hashes:
    """Hash numbers, each together with the number of its column; 0 and -0 are the same."""
    bits = np.ascontiguousarray(values + 0.0).view(np.uint64)
    salt = mixed(np.atleast_1d(np.asarray(column, dtype=np.uint64)) + np.uint64(1))
    return mixed(bits + salt)


def hash_rows(X: Any, y: FloatArray) -> Hashes:
    """Hash features, dense or sparse, and label of each row; equal rows have equal hashes."""
    total = hash_numbers(np.asarray(y, dtype=np.float64), X.shape[1])
    if is_sparse(X):
        X = X.tocsr()
        parts = np.where(X.data != 0.0, hash_numbers(X.data, X.indices), np.uint64(0))
        sums = np.r_[np.uint64(0), np.cumsum(parts, dtype=np.uint64)]
        return np.asarray(total + sums[X.indptr[1:]] - sums[X.indptr[:-1]])
    columns = np.arange(X.shape[1])
    some = max(1, TOGETHER // max(1, X.shape[1]))
    for low in range(0, len(total), some):
        total[low : low + some] += hash_numbers(X[low : low + some], columns).sum(axis=1, dtype=np.uint64)
    return total


def count_pairs(hashes: Hashes) -> float:
    """Number of pairs of equal hashes.

    >>> count_pairs(np.array([1, 2, 1, 1], dtype=np.uint64))
    3.0
    """
    _, counts = np.unique(hashes, return_counts=True)
    return float(np.sum(counts * (counts - 1.0)) / 2.0)


class Sketch(NamedTuple):
    """The distinct rows with the smallest hashes, a random sample of all distinct rows, with how often each came.

    Neither the order of the rows nor how they are cut into parts matters.
    """

    hashes: Hashes  # sorted
    counts: IntArray
    n: int = 0  # rows

    @classmethod
    def empty(cls) -> Sketch:
        """Sketch of no rows."""
        return cls(np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64))

    def after(self, hashes: Hashes) -> Sketch:
        """Add rows."""
        sketch = self
        for low in range(0, len(hashes), 4 * SIZE):  # once the sketch is full, most rows can be passed over
            some = hashes[low : low + 4 * SIZE]
            small = some[some <= sketch.hashes[-1]] if len(sketch.hashes) == SIZE else some
            sketch = sketch._joined(small, np.ones(len(small), dtype=np.int64), len(some))
        return sketch

    def merge(self, other: Sketch) -> Sketch:
        """Add the rows of another sketch."""
        return self._joined(other.hashes, other.counts, other.n)

    def without(self, other: Sketch) -> Sketch:
        """Take away rows that were counted here too."""
        joined = self._joined(other.hashes[np.isin(other.hashes, self.hashes)], np.empty(0), 0)
        _, here, there = np.intersect1d(joined.hashes, other.hashes, return_indices=True)
        counts = joined.counts.copy()
        counts[here] -= other.counts[there]
        return Sketch(joined.hashes[counts > 0], counts[counts > 0], self.n - other.n)

    def _joined(self, hashes: Hashes, counts: Any, n: int) -> Sketch:
        if not len(counts):
            return self._replace(n=self.n + n)
        found, place = np.unique(np.concatenate([self.hashes, hashes]), return_inverse=True)
        total = np.bincount(place, np.concatenate([self.counts, counts])).astype(np.int64)
        return Sketch(found[:SIZE], total[:SIZE], self.n + n)

    @property
    def pairs(self) -> float:
        """Estimate of the number of pairs of equal rows."""
        share = 1.0 if len(self.hashes) < SIZE else (float(self.hashes[-1]) + 1.0) / 2.0**64
        return float(np.sum(self.counts * (self.counts - 1.0)) / 2.0 / share)

    @property
    def repeated(self) -> float:
        """Share of the distinct rows that came more than once."""
        return float(np.mean(self.counts > 1)) if len(self.counts) else 0.0

    @property
    def times(self) -> int:
        """The largest number of which every distinct row's count is a multiple; 1 if there is no larger one."""
        return int(np.gcd.reduce(self.counts)) if len(self.counts) else 1

    def pack(self) -> dict[str, NDArray[Any]]:
        """Return the arrays."""
        return {"hashes": self.hashes, "counts": self.counts, "n": np.asarray(self.n)}

    @classmethod
    def unpack(cls, arrays: Mapping[str, NDArray[Any]]) -> Sketch:
        """Rebuild a sketch from what ``pack`` returned."""
        hashes = array_of(arrays, "hashes", "uint64", (None,))
        if len(hashes) > SIZE or (hashes[1:] <= hashes[:-1]).any():
            raise ValueError("The hashes of rows must be distinct and sorted.")
        counts = array_of(arrays, "counts", "int64", hashes.shape, low=1, high=2**62)
        return cls(hashes, counts, int(array_of(arrays, "n", "int64", (), low=0, high=2**62)))
