"""Combinations of codes that occur, and how many rows have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefair.audit.decisions.axes import Words
from surefair.inference.counts import Counts
from surefair.rows import FloatArray, IntArray

DENSE = 4  # cells for each row up to which counting fills a table of all cells


class Coded(NamedTuple):
    """A column of codes, in two steps: distinct values of the table, and what each of them means."""

    value: NDArray[Any]  # of each row
    code: IntArray  # of each value

    def part(self, good: NDArray[np.bool_]) -> Coded:
        """Some of the rows."""
        return self._replace(value=self.value[good])

    @property
    def codes(self) -> IntArray:
        """Code of each row."""
        return np.asarray(self.code[self.value])

    def scaled(self, by: int) -> IntArray:
        """Code of each row times a number."""
        return np.asarray((self.code * by)[self.value])


class Combinations(NamedTuple):
    """Combinations of codes that occur, and the rows that have them."""

    codes: tuple[IntArray, ...]  # of each column, for each combination
    counts: Counts  # arrays of shape (combinations,)
    weights: tuple[float, float]  # smallest and largest
    number: IntArray  # of each combination, sorted
    of_row: IntArray  # number of each row's combination

    @property
    def place(self) -> IntArray:
        """Place of each row's combination."""
        return np.searchsorted(self.number, self.of_row)


def count_combinations(columns: Sequence[Coded], sizes: tuple[int, ...], weight: FloatArray | None) -> Combinations:
    """Count the rows of each combination of codes that occurs.

    Parameters
    ----------
    columns : sequence of Coded
    sizes : tuple of int
        Number of codes of each column.
    weight : ndarray of shape (n_rows,), optional

    Examples
    --------
    >>> sex, hired = (Coded(np.array(rows), np.arange(2)) for rows in ([0, 1, 1, 0], [0, 1, 1, 1]))
    >>> found = count_combinations([sex, hired], (2, 2), None)
    >>> [code.tolist() for code in found.codes], found.counts.rows.tolist(), found.place.tolist()
    ([[0, 0, 1], [0, 1, 1]], [1.0, 1.0, 2.0], [0, 2, 2, 1])
    """
    joint = _numbers(columns, sizes)
    n_cells = int(np.prod([float(size) for size in sizes]))
    if n_cells <= DENSE * max(len(joint), 2**16):
        rows = np.bincount(joint, minlength=n_cells)
        number = np.flatnonzero(rows)
        place = joint
    else:
        number, place, rows = np.unique(joint, return_inverse=True, return_counts=True)
    tables = [rows.astype(np.float64)] * 3
    weights = (1.0, 1.0)
    if weight is not None:
        sums = (np.bincount(place, w, minlength=len(rows)) for w in (weight, weight**2))
        tables[1:] = (np.asarray(one, dtype=np.float64) for one in sums)
        weights = (float(weight.min(initial=np.inf)), float(weight.max(initial=-np.inf)))
    if len(rows) > len(number):
        tables = [table[number] for table in tables]
    return Combinations(np.unravel_index(number, sizes), Counts(*tables), weights, number, joint)


def _numbers(columns: Sequence[Coded], sizes: tuple[int, ...]) -> IntArray:
    """Number the combination of each row."""
    joint = np.zeros(len(columns[0].value), dtype=np.int64)
    stride = 1
    for coded, size in zip(reversed(columns), reversed(sizes), strict=True):
        if size > 1:
            joint += coded.scaled(stride)
        stride *= size
    return joint


def intersect(groups: Sequence[IntArray], words: Sequence[Words]) -> tuple[IntArray, Words]:
    """Code the groups that several columns form together; only those that occur become groups.

    Examples
    --------
    >>> code, names = intersect([np.array([0, 1, 0]), np.array([1, 1, 1])], [("f", "m"), ("old", "young")])
    >>> names, code.tolist()
    (('f × young', 'm × young'), [0, 1, 0])
    """
    sizes = tuple(max(1, len(one)) for one in words)
    number, code = np.unique(np.ravel_multi_index(tuple(groups), sizes), return_inverse=True)
    parts = [
        [one[i] for i in place.tolist()] for one, place in zip(words, np.unravel_index(number, sizes), strict=True)
    ]
    names = tuple(" × ".join(each) for each in zip(*parts, strict=True))
    if len({*names}) < len(names):
        raise ValueError("Values that contain ' × ' give two intersections the same name. Rename those values.")
    return code, names
