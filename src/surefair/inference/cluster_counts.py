"""Counts of rows in clusters: rows that belong together, as several rows of one person do.

In replicate b all rows of a cluster have one weight V, 0 or 2, which is a function of (seed, hash of the cluster, b).
Only sums of weights are kept: for every replicate, those of each cell (group, truth, decision). So memory does not grow
with the rows, the sums of two parts of the rows add, and a cluster may have rows in both parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from surefair.inference.counts import Counts
from surefair.learners.multipliers import cluster_multipliers
from surefair.rows import Distinct, FloatArray, IntArray
from surefair.rows.distinct import NONE

BLOCK = 2**22
"""Multipliers that are held in memory at a time."""


class Clustered(NamedTuple):
    """Counts of rows in clusters; those of two parts of the rows add."""

    counts: Counts  # arrays of shape (strata, groups, ...)
    replicates: FloatArray  # (B, strata, groups, ...): sums of weights, in which each cluster counts 0 or 2 times
    distinct: Distinct  # of the cells (groups, ...), numbered through

    def __add__(self, other: Clustered) -> Clustered:  # type: ignore[override]
        return Clustered(self.counts + other.counts, self.replicates + other.replicates, self.distinct + other.distinct)

    @property
    def pooled(self) -> Clustered:
        """The same counts without strata."""
        counts = Counts(*(table.sum(axis=0) for table in self.counts))
        return self._replace(counts=counts, replicates=self.replicates.sum(axis=1))

    def pack(self) -> dict[str, NDArray[Any]]:
        """Return the arrays."""
        return self.counts._asdict() | {"replicates": self.replicates, "smallest": self.distinct.smallest}

    @classmethod
    def unpack(cls, arrays: Mapping[str, NDArray[Any]]) -> Clustered:
        """Rebuild the counts from what ``pack`` returned."""
        counts = Counts(*(arrays[name] for name in Counts._fields))
        return cls(counts, arrays["replicates"], Distinct(arrays["smallest"]))

    def among(self, places: IntArray, n_groups: int) -> Clustered:
        """The same counts among more groups, of which the present ones have these places."""

        def wider(table: FloatArray, axis: int) -> FloatArray:
            found = np.zeros((*table.shape[:axis], n_groups, *table.shape[axis + 1 :]))
            found[(slice(None),) * axis + (places,)] = table
            return found

        within = self.counts.rows[0, 0].size
        smallest = np.full((n_groups, within, self.distinct.smallest.shape[1]), NONE)
        smallest[places] = self.distinct.smallest.reshape(-1, *smallest.shape[1:])
        return Clustered(
            Counts(*(wider(table, 1) for table in self.counts)), wider(self.replicates, 2),
            Distinct(smallest.reshape(-1, smallest.shape[2])),
        )  # fmt: skip


def count_clusters(
    cell: IntArray, shape: tuple[int, ...], key: NDArray[np.uint64], weight: FloatArray, n_replicates: int, seed: int
) -> Clustered:
    """Count rows in clusters.

    Parameters
    ----------
    cell : ndarray of shape (n_rows, columns)
        Cells of each row, numbered through; a row counts once for each column.
    shape : tuple of int
        Shape of the table of cells: strata, groups and so on.
    key : ndarray of shape (n_rows,)
        Hash of each row's cluster.
    weight : ndarray of shape (n_rows,)
    n_replicates : int
    seed : int

    Examples
    --------
    >>> key = np.array([3, 3, 4], dtype=np.uint64)
    >>> found = count_clusters(np.array([[0], [1], [1]]), (1, 2), key, np.ones(3), n_replicates=3, seed=0)
    >>> found.counts.rows, found.distinct.size([0, 1])
    (array([[1., 2.]]), 2.0)
    """
    n_cells = int(np.prod(shape))
    columns = cell.shape[1]
    cells, weights, keys = cell.ravel(), np.repeat(weight, columns), np.repeat(key, columns)
    tables = (np.bincount(cells, w, minlength=n_cells).reshape(shape) for w in (None, weights, weights**2))
    distinct, code = np.unique(keys, return_inverse=True)
    sums = csc_array((weights, (cells, code)), shape=(n_cells, len(distinct)))
    replicates = np.zeros((n_cells, n_replicates))
    step = max(1, BLOCK // n_replicates)
    for low in range(0, len(distinct), step):
        part = slice(low, low + step)
        replicates += np.asarray(sums[:, part] @ cluster_multipliers(seed, distinct[part], n_replicates))
    within = n_cells // shape[0]
    by_cell = Distinct.of(cells % within, keys, within)
    counts = Counts(*(np.asarray(table, dtype=np.float64) for table in tables))
    return Clustered(counts, replicates.T.reshape(n_replicates, *shape), by_cell)
