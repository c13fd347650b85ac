"""How many different keys some rows have, in memory that does not grow with them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefair.rows.arrays import IntArray

MOST_KEYS = 1024
"""Keys of a cell that are kept. Up to so many are counted exactly; beyond, to about 3 %."""

NONE = np.uint64(2**64 - 1)


class Distinct(NamedTuple):
    """How many different keys each cell has, from its smallest keys; those of two parts of the rows add.

    Examples
    --------
    >>> keys = np.array([5, 9, 5, 9, 7], dtype=np.uint64)
    >>> found = Distinct.of(np.array([0, 0, 0, 1, 1]), keys, 2)
    >>> found.size([0]), found.size([0, 1]), (found + found).size([1])
    (2.0, 3.0, 2.0)
    """

    smallest: NDArray[np.uint64]  # (cells, MOST_KEYS), sorted; NONE where there are fewer

    @classmethod
    def of(cls, cell: IntArray, key: NDArray[np.uint64], n_cells: int) -> Distinct:
        """Count the keys of rows in the cells that they are in."""
        order = np.lexsort((key, cell))
        cell, key = cell[order], key[order]
        new = np.append(True, (cell[1:] != cell[:-1]) | (key[1:] != key[:-1]))[: len(cell)]
        cell, key = cell[new], key[new]
        place = np.arange(len(cell)) - np.searchsorted(cell, cell)
        kept = place < MOST_KEYS
        smallest = np.full((n_cells, MOST_KEYS), NONE)
        smallest[cell[kept], place[kept]] = key[kept]
        return cls(smallest)

    def __add__(self, other: Distinct) -> Distinct:  # type: ignore[override]
        both = np.stack([_first(np.concatenate(pair)) for pair in zip(self.smallest, other.smallest, strict=True)])
        return Distinct(both)

    def joined(self, cells: IntArray) -> Distinct:
        """Join cells, given by their numbers, shape (new cells, old cells)."""
        return Distinct(np.stack([_first(self.smallest[some].ravel()) for some in cells]))

    def size(self, cells: list[int]) -> float:
        """Return the number of different keys in any of these cells."""
        found = _first(self.smallest[cells].ravel())
        n = int(np.count_nonzero(found != NONE))
        return float(n) if n < MOST_KEYS else (MOST_KEYS - 1) / (float(found[-1]) * 2.0**-64)


def _first(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the smallest keys, each once, and NONE where there are fewer."""
    found = np.full(MOST_KEYS, NONE)
    distinct = np.unique(keys)[:MOST_KEYS]
    found[: len(distinct)] = distinct
    return found
