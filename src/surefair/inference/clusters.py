"""Clusters: rows that belong together, as several rows of one person do, and are not independent of each other.

In replicate b all rows of a cluster have one weight V, 0 or 2, which is a function of (seed, hash of the cluster, b).
Only sums of weights are kept: for every replicate, those of each cell (group, truth, decision). So memory does not grow
with the rows, the sums of two parts of the rows add, and a cluster may have rows in both parts.

To first order, a rate r = X / N moves by (Xᵇ - r Nᵇ) / N in replicate b. The mean of its square over the replicates
estimates the variance of the rate, if multiplied by G / (G - 1) for G clusters. What two rates have in common, because
clusters have rows in both, cancels in the movement of their gap. Few clusters estimate a variance badly, so limits use
Student's t law: for a gap, with Welch's degrees of freedom over the clusters of its two groups, but at most those of
all clusters of the two together. Clusters of unequal size count as N² / Var(Nᵇ), which is G if all are equal.

Where rows on a side of a rate are worth few independent ones, limits are at least as wide as those of Clopper and
Pearson for so many (Korn and Graubard, 1998); if a rate is 0 or 1, a cluster counts as one row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array
from scipy.stats import norm, t

from surefair.criteria import Rate
from surefair.inference.counts import Counts, effective_sides, rates_of
from surefair.inference.interval import Estimates
from surefair.inference.limits import Gaps, Pairs, few_sides, mover, single_limits, vanishes
from surefair.inference.moves import between, rate_moves
from surefair.learners.multipliers import cluster_multipliers
from surefair.rows import FloatArray, IntArray

MOST_KEYS = 1024
"""Keys of a cell that are kept. Up to so many clusters are counted exactly; beyond, to about 3 %."""

BLOCK = 2**22
"""Multipliers that are held in memory at a time."""

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


class Moves(NamedTuple):
    """How rates move in the replicates, and on how many clusters that rests."""

    rate: FloatArray  # (rates, groups)
    off: FloatArray  # (B, rates, groups): movement of each rate, with the factor for the number of clusters
    clusters: FloatArray  # (rates, groups)
    worth: FloatArray  # (rates, groups): clusters, where those of unequal size count as fewer

    @property
    def spread(self) -> FloatArray:
        """Standard deviation of each rate, shape (rates, groups)."""
        return np.asarray(np.sqrt(np.mean(self.off**2, axis=0)))


def moves(rates: tuple[Rate, ...], found: Clustered) -> Moves:
    """Compute how each rate moves in the replicates; cells are (groups, 2, 2)."""
    measured = rates_of(rates, found.counts)
    below = np.stack([rate.tally(found.counts.weight)[1] for rate in rates])
    below_b = np.stack([rate.tally(found.replicates)[1] for rate in rates], axis=1)
    clusters = np.stack([counted(rate, found.distinct, measured.shape[1]) for rate in rates])
    with np.errstate(divide="ignore", invalid="ignore"):
        off = rate_moves(rates, found.counts, found.replicates) * np.sqrt(clusters / (clusters - 1.0))
        worth = np.fmin(clusters, below**2 / np.mean((below_b - below) ** 2, axis=0))
    return Moves(measured, off, clusters, worth)


def counted(rate: Rate, distinct: Distinct, n_groups: int) -> FloatArray:
    """Clusters of each group that have a row which enters the rate."""
    cells = [2 * truth + decision for truth, decision in rate.denominator]
    return np.array([distinct.size([4 * g + one for one in cells]) for g in range(n_groups)])


def shared(rates: tuple[Rate, ...], found: Clustered, pairs: Pairs) -> FloatArray:
    """Clusters that have a row of either group of a pair which enters the rate, shape (rates, pairs)."""
    table = np.empty((len(rates), len(pairs.first)))
    for j, rate in enumerate(rates):
        cells = [2 * truth + decision for truth, decision in rate.denominator]
        for p, both in enumerate(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)):
            table[j, p] = found.distinct.size([4 * g + one for g in both for one in cells])
    return table


def cluster_estimates(rates: tuple[Rate, ...], found: Clustered, pairs: Pairs, confidence_level: float) -> Estimates:
    """Rates and gaps with limits, from rows in clusters; cells are (groups, 2, 2)."""
    moved = moves(rates, found)
    measured, spread = moved.rate, moved.spread
    alone = moved.clusters < 2.0  # one cluster does not show how clusters differ
    freedom = np.where(alone, 1.0, np.maximum(moved.worth - 1.0, 1.0))
    tail = (1.0 - confidence_level) / 2.0
    effective = effective_rows(rates, found.counts, moved, freedom, tail)
    half = t.isf(tail, freedom) * spread
    low, high = measured - half, measured + half
    few = few_sides(effective) | vanishes(spread)  # clusters that all have the same rate do not make it certain
    exact_low, exact_high = single_limits(effective, confidence_level)
    low, high = np.where(few, np.fmin(low, exact_low), low), np.where(few, np.fmax(high, exact_high), high)
    unknown = np.isnan(measured) | alone
    low, high = np.where(unknown, 0.0, low.clip(0.0, 1.0)), np.where(unknown, 1.0, high.clip(0.0, 1.0))

    value = pairs.scale(measured)
    gap = pairs.gap(value)
    off = moved.off
    if pairs.ratio:
        off = np.divide(off, measured, out=np.zeros_like(off), where=np.nan_to_num(measured) > 0.0)
    moved_apart = between(off, pairs, degrees_of_freedom(off, freedom, shared(rates, found, pairs), pairs))
    half, level = moved_apart.half_width(confidence_level)
    least_low, least_high = mover(value, single_limits(effective, level), pairs)
    wider = few[:, pairs.first] | few[:, pairs.second] | vanishes(moved_apart.spread)
    gap_low = np.where(wider, np.fmin(gap - half, least_low), gap - half)
    gap_high = np.where(wider, np.fmax(gap + half, least_high), gap + half)
    sure = ~np.isnan(gap) & ~np.isnan(moved_apart.spread) & ~alone[:, pairs.first] & ~alone[:, pairs.second]
    gaps = Gaps(pairs.finish(gap), pairs.finish(gap_low), pairs.finish(gap_high), sure)
    n = np.stack([rate.tally(found.counts.rows)[1] for rate in rates]).astype(np.int64)
    clusters = np.rint(moved.clusters).astype(np.int64)
    nothing = np.zeros_like(moved_apart.spread)
    return Estimates(n, measured, low, high, gaps, nothing, moved_apart.spread, by_group={"clusters": clusters})


def degrees_of_freedom(off: FloatArray, freedom: FloatArray, clusters: FloatArray, pairs: Pairs) -> FloatArray:
    """Welch's degrees of freedom of all gaps, but at most those of all clusters of a pair: shape (rates, pairs)."""
    variance = np.mean(off**2, axis=0)
    a, b = pairs.first, pairs.second
    below = variance[:, a] ** 2 / freedom[:, a] + variance[:, b] ** 2 / freedom[:, b]
    above = (variance[:, a] + variance[:, b]) ** 2
    welch = np.divide(above, below, out=np.ones_like(above), where=below > 0.0)
    return np.asarray(np.fmin(welch, np.maximum(clusters - 1.0, 1.0)))


def effective_rows(
    rates: tuple[Rate, ...], counts: Counts, moved: Moves, freedom: FloatArray, tail: float
) -> FloatArray:
    """Independent rows on each side of each rate that would show as much, shape (2, rates, groups)."""
    measured, variance = moved.rate, moved.spread**2
    most = effective_sides(rates, counts).sum(axis=0)
    inner = ~vanishes(moved.spread) & (measured > 0.0) & (measured < 1.0)
    worth = np.divide(measured * (1.0 - measured), variance, out=np.full_like(measured, np.inf), where=inner)
    worth = np.where((measured == 0.0) | (measured == 1.0), moved.clusters, worth)
    worth = np.fmin(worth, most) * (norm.isf(tail) / t.isf(tail, freedom)) ** 2
    return np.asarray(np.nan_to_num(np.stack([worth * measured, worth * (1.0 - measured)])))
