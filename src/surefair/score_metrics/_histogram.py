"""Histogram of scores by group and truth, of bounded size. Histograms of two sets of rows add.

Bins are the same for all data, so that nothing about the scores must be known beforehand: a bin holds the numbers that
share sign, exponent and the first 12 bits after the point, so its width is at most 1/4096 of its scores. Scores nearer
to 0 than 2⁻³⁰ share the bin of 0, and those beyond 2³⁰ that of 2³⁰. Each bin also has the sum of its scores and the
smallest and the largest of them. So means are exact, and so is everything else in a bin that holds one value only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surefair.rows import FloatArray, IntArray

KEPT_BITS = 12
DROPPED_BITS = np.int64(52 - KEPT_BITS)
SMALLEST, LARGEST = 2.0**-30, 2.0**30


@dataclass(frozen=True, eq=False)
class Histogram:
    """Scores by group, truth and bin.

    Attributes
    ----------
    sizes : tuple of int
        Groups in each sensitive column; groups of all columns are numbered together.
    bins : ndarray of shape (bins,)
        Numbers of the bins that have rows, in the order of their scores.
    rows, weight, square, total : ndarray of shape (groups, 2, bins)
        Number of rows, and sums of their weights, squared weights, and weights times scores.
    least, most : ndarray of shape (bins,)
        Smallest and largest score of each bin.

    Examples
    --------
    >>> found = Histogram.of(
    ...     np.array([0.25, 0.5, 0.5]), np.array([0, 1, 1]), np.array([[0], [0], [1]]), (2,), np.ones(3))
    >>> found.rows[:, 1].tolist(), float((found + found).weight.sum())
    ([[0.0, 1.0], [0.0, 1.0]], 6.0)
    """

    sizes: tuple[int, ...]
    bins: IntArray
    rows: FloatArray
    weight: FloatArray
    square: FloatArray
    total: FloatArray
    least: FloatArray
    most: FloatArray

    @classmethod
    def of(
        cls, score: FloatArray, truth: IntArray, codes: IntArray, sizes: tuple[int, ...], weight: FloatArray
    ) -> Histogram:
        """Count scores, given the truth (0 or 1), the groups (n, columns) and the weight of each row."""
        bins, place = np.unique(bin_of(score), return_inverse=True)
        m, columns = len(bins), codes.shape[1]
        group = codes + np.cumsum([0, *sizes[:-1]])
        cell = ((group * 2 + truth[:, None]) * m + place[:, None]).ravel()
        shape = sum(sizes), 2, m
        kinds = (None, weight, weight**2, weight * score)
        tables = [
            np.bincount(cell, None if kind is None else np.repeat(kind, columns), minlength=int(np.prod(shape)))
            for kind in kinds
        ]
        least, most = np.full(m, np.inf), np.full(m, -np.inf)
        np.minimum.at(least, place, score)
        np.maximum.at(most, place, score)
        rows, sums, squares, total = (np.asarray(table, dtype=np.float64).reshape(shape) for table in tables)
        return cls(sizes, bins, rows, sums, squares, total, least, most)

    def __add__(self, other: Histogram) -> Histogram:
        bins = np.union1d(self.bins, other.bins)
        one, two = self._among(bins), other._among(bins)
        return Histogram(
            self.sizes, bins, one.rows + two.rows, one.weight + two.weight, one.square + two.square,
            one.total + two.total, np.minimum(one.least, two.least), np.maximum(one.most, two.most),
        )  # fmt: skip

    def _among(self, bins: IntArray) -> Histogram:
        """The same histogram with more bins."""
        place = np.searchsorted(bins, self.bins)

        def spread(table: FloatArray, empty: float) -> FloatArray:
            wider = np.full((*table.shape[:-1], len(bins)), empty)
            wider[..., place] = table
            return wider

        sums = (spread(table, 0.0) for table in (self.rows, self.weight, self.square, self.total))
        rows, weight, square, total = sums
        return Histogram(
            self.sizes, bins, rows, weight, square, total, spread(self.least, np.inf), spread(self.most, -np.inf)
        )

    @property
    def mean(self) -> FloatArray:
        """Mean score of each cell, 0 where it has no row; shape (groups, 2, bins)."""
        return np.asarray(np.divide(self.total, self.weight, out=np.zeros_like(self.total), where=self.weight > 0.0))

    @property
    def blurred(self) -> FloatArray:
        """1 for each bin whose scores differ, and 0 for one that holds a single value; shape (bins,)."""
        return np.asarray(self.least < self.most, dtype=np.float64)

    @property
    def n(self) -> FloatArray:
        """Rows of each group and truth, shape (groups, 2)."""
        return np.asarray(self.rows.sum(axis=2))


def bin_of(score: FloatArray) -> IntArray:
    """Return the number of each score's bin: larger scores have larger numbers.

    Examples
    --------
    >>> np.diff(bin_of(np.array([-2.0, -1.0, 0.0, 1e-12, 0.5, 0.50001, 0.51, 1.0]))) > 0
    array([ True,  True, False,  True, False,  True,  True])
    """
    size = np.abs(np.asarray(score, dtype=np.float64))
    size = np.where(size < SMALLEST, 0.0, np.minimum(size, LARGEST))
    number = size.view(np.int64) >> DROPPED_BITS
    return np.where(score < 0.0, -number, number)
