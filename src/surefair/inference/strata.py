"""Strata: gaps between groups among rows that have something else in common, such as the job that they apply for.

A stratum has n_a and n_b rows of two groups, x_a and x_b of which count towards the rate. The gap within strata is the
mean of the strata's gaps with the weights of Mantel and Haenszel, n_a n_b / (n_a + n_b):

    difference   Σ (x_a n_b - x_b n_a) / (n_a + n_b)  over  Σ n_a n_b / (n_a + n_b)
    ratio        Σ x_a n_b / (n_a + n_b)  over  Σ x_b n_a / (n_a + n_b)

A stratum without rows of one of the groups adds nothing. The variance is that of Sato (1989), and for the logarithm of
a ratio that of Greenland and Robins (1985): both hold for few large strata and for many small ones. Rows with weights
or in clusters have the variance of the linearised gap instead, which needs ten rows, and two clusters, of each group in
each stratum. Where few of the compared rows are on a side of a rate, limits are at least as wide as exact ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefair.criteria import Rate
from surefair.inference.cluster_counts import Clustered
from surefair.inference.clusters import Moves, degrees_of_freedom, effective_rows, moves, shared
from surefair.inference.counts import Counts, effective_sides, rates_of, sides
from surefair.inference.interval import Estimates
from surefair.inference.limits import FAR, Gaps, Pairs, few_sides, is_far, mover, single_limits, vanishes
from surefair.inference.moves import GapMoves, gap_moves, normal_tables
from surefair.names import counted
from surefair.rows import FloatArray, Groups

LEAST_ROWS = 10
"""Rows of each group in each stratum, where rows have weights or are in clusters."""

N_DRAWS = 2000
"""Normal draws for limits of several gaps that hold together."""


class Table(NamedTuple):
    """Rows of two groups in each stratum that count towards a rate, x, and that enter it, n: arrays (strata,)."""

    x_a: FloatArray
    n_a: FloatArray
    x_b: FloatArray
    n_b: FloatArray

    @property
    def used(self) -> Table:
        """The strata with rows of both groups."""
        both = (self.n_a > 0.0) & (self.n_b > 0.0)
        return Table(*(column[both] for column in self))

    def gap(self, ratio: bool) -> float:
        """Gap within strata, by difference or as the logarithm of a ratio; NaN where undefined.

        Examples
        --------
        >>> table = Table(*(np.array(column) for column in ([3.0, 8.0], [10.0, 10.0], [1.0, 6.0], [10.0, 10.0])))
        >>> round(table.gap(ratio=False), 3), round(table.gap(ratio=True), 3)
        (0.2, 0.452)
        """
        x_a, n_a, x_b, n_b = self.used
        n = n_a + n_b
        if len(n) == 0:
            return np.nan
        if not ratio:
            return float(np.sum((x_a * n_b - x_b * n_a) / n) / np.sum(n_a * n_b / n))
        above, below = float(np.sum(x_a * n_b / n)), float(np.sum(x_b * n_a / n))
        if above == 0.0 and below == 0.0:
            return np.nan
        return float((np.log(above) if above > 0.0 else -FAR) - (np.log(below) if below > 0.0 else -FAR))

    def variance(self, ratio: bool) -> float:
        """Variance of the gap for independent rows without weights; 0 where the gap is infinite or undefined.

        Examples
        --------
        >>> table = Table(*(np.array([column]) for column in (30.0, 100.0, 10.0, 100.0)))
        >>> round(table.variance(ratio=False), 6), 0.3 * 0.7 / 100 + 0.1 * 0.9 / 100  # in one stratum, almost Wald's
        (0.003, 0.003)
        """
        x_a, n_a, x_b, n_b = self.used
        n = n_a + n_b
        gap = self.gap(ratio)
        if np.isnan(gap) or is_far(np.array(gap)):
            return 0.0
        if ratio:
            above, below = np.sum(x_a * n_b / n), np.sum(x_b * n_a / n)
            return float(np.sum((n_a * n_b * (x_a + x_b) - x_a * x_b * n) / n**2) / (above * below))
        P = (n_a**2 * x_b - n_b**2 * x_a + n_a * n_b * (n_b - n_a) / 2.0) / n**2
        Q = (x_a * (n_b - x_b) + x_b * (n_a - x_a)) / (2.0 * n)
        return float(max(gap * P.sum() + Q.sum(), 0.0) / np.sum(n_a * n_b / n) ** 2)

    def slopes(self, ratio: bool) -> Table:
        """Derivatives of the gap in each number; 0 in strata that add nothing, or where the gap is infinite."""
        x_a, n_a, x_b, n_b = self
        gap = self.gap(ratio)
        both = (n_a > 0.0) & (n_b > 0.0)
        if np.isnan(gap) or is_far(np.array(gap)):
            return Table(*np.zeros((4, len(n_a))))
        n = np.where(both, n_a + n_b, 1.0)
        if ratio:
            above, below = np.sum(both * x_a * n_b / n), np.sum(both * x_b * n_a / n)
            found = (
                n_b / n / above, -x_a * n_b / n**2 / above - x_b * n_b / n**2 / below,
                -n_a / n / below, x_a * n_a / n**2 / above + x_b * n_a / n**2 / below,
            )  # fmt: skip
        else:
            weight = np.sum(both * n_a * n_b / n)
            apart = (x_a * n_b - x_b * n_a) / n
            found = (
                n_b / n / weight, (-x_b / n - apart / n - gap * (n_b / n) ** 2) / weight,
                -n_a / n / weight, (x_a / n - apart / n - gap * (n_a / n) ** 2) / weight,
            )  # fmt: skip
        return Table(*(np.where(both, slope, 0.0) for slope in found))


class Strata(NamedTuple):
    """Counts by stratum, for all rates and groups."""

    rates: tuple[Rate, ...]
    counts: Counts  # arrays of shape (strata, groups, 2, 2)
    names: list[str]  # of the strata

    def table(self, rate: int, a: int, b: int) -> Table:
        """Sums of weights of two groups."""
        above, below = self.rates[rate].tally(self.counts.weight)
        return Table(above[:, a], below[:, a], above[:, b], below[:, b])

    def check_rows(self, pairs: Pairs, groups: Groups) -> None:
        """Refuse strata with too few rows of a group that is compared, where rows have weights or clusters."""
        for rate in self.rates:
            n = rate.tally(self.counts.rows)[1]
            for a, b in zip(pairs.first.tolist(), pairs.second.tolist(), strict=True):
                least = np.where((n[:, a] > 0.0) & (n[:, b] > 0.0), np.minimum(n[:, a], n[:, b]), np.inf)
                k = int(np.argmin(least))
                if least[k] < LEAST_ROWS:
                    few = a if n[k, a] <= n[k, b] else b
                    raise ValueError(
                        f"With sample_weight or clusters, every group needs {LEAST_ROWS} or more rows in each stratum; "
                        f"stratum {self.names[k]} has {int(least[k])} of {groups.words[few]}. Merge strata, or leave "
                        "out sample_weight and clusters."
                    )

    def check_clusters(self, pairs: Pairs, groups: Groups, clusters: Clustered) -> None:
        """Refuse strata with one cluster of a group that is compared: it does not show how clusters differ."""
        for rate in self.rates:
            n, n_b = (rate.tally(table)[1] for table in (self.counts.weight, clusters.replicates))
            alone = np.mean((n_b - n) ** 2, axis=0) >= (1.0 - 1e-9) * n**2  # one cluster has the weight 0 or 2 n
            for a, b in zip(pairs.first.tolist(), pairs.second.tolist(), strict=True):
                both = (n[:, a] > 0.0) & (n[:, b] > 0.0)
                for g in (a, b):
                    if (found := np.flatnonzero(both & alone[:, g])).size:
                        raise ValueError(
                            "With clusters, every group needs 2 or more clusters in each stratum; stratum "
                            f"{self.names[found[0]]} has 1 of {groups.words[g]}. Merge strata, or leave out "
                            "clusters if rows are independent."
                        )

    def used(self, rate: int, a: int, b: int) -> NDArray[np.bool_]:
        """Whether each stratum has rows of both groups that enter the rate."""
        n = self.rates[rate].tally(self.counts.rows)[1]
        return np.asarray((n[:, a] > 0.0) & (n[:, b] > 0.0))

    def compared(self, rate: int, a: int, b: int) -> Counts:
        """Counts of two groups in the strata with rows of both, added up: arrays of shape (2, 2, 2)."""
        used = self.used(rate, a, b)
        return Counts(*(table[used][:, [a, b]].sum(axis=0) for table in self.counts))

    def least_sides(self, pairs: Pairs) -> FloatArray:
        """Rows on each side of each rate that enter the gap of a group to which they add least: (2, rates, groups)."""
        least = effective_sides(self.rates, Counts(*(table.sum(axis=0) for table in self.counts)))
        for j, rate in enumerate(self.rates):
            for both in zip(pairs.first.tolist(), pairs.second.tolist(), strict=True):
                found = effective_sides((rate,), self.compared(j, *both))[:, 0]
                for g, of_group in zip(both, found.T, strict=True):
                    if 0.0 < of_group.sum() < least[:, j, g].sum():  # without a common stratum there is no gap
                        least[:, j, g] = of_group
        return least

    def note(self, groups: Groups) -> str:
        """Say how many strata there are, and how many have rows of one group only."""
        n = self.counts.rows.sum(axis=(2, 3))[:, : groups.sizes[0]]
        single = (n > 0.0).sum(axis=1) < 2
        words = f"Gaps are within {counted(len(n), 'stratum', 'strata')}, combined with Mantel-Haenszel weights"
        if not single.any():
            return words
        verbs = ("has", "adds") if single.sum() == 1 else ("have", "add")
        rows = counted(int(n[single].sum()), "row")
        return f"{words}; {single.sum():,} of them ({rows}) {verbs[0]} only one group and {verbs[1]} nothing"


def strata_estimates(
    pooled: Estimates, strata: Strata, pairs: Pairs, groups: Groups, confidence_level: float, clusters: Clustered | None
) -> Estimates:
    """Replace the gaps of pooled rows by those within strata.

    Parameters
    ----------
    pooled : Estimates
        Rates and gaps without strata; its rates are kept.
    strata : Strata
    pairs : Pairs
    groups : Groups
    confidence_level : float
    clusters : Clustered or None
        Counts by cluster, with the same strata.
    """
    counts = strata.counts
    weighted = not np.array_equal(counts.rows, counts.weight)
    if weighted or clusters is not None:
        strata.check_rows(pairs, groups)
    if clusters is not None:
        strata.check_clusters(pairs, groups, clusters)
    both = list(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True))
    shape = len(strata.rates), len(both)
    gap, spread = np.empty(shape), np.zeros(shape)
    n_used = np.zeros(shape, dtype=np.int64)
    for j, p in np.ndindex(shape):
        table = strata.table(j, *both[p])
        gap[j, p] = table.gap(pairs.ratio)
        n_used[j, p] = len(table.used.n_a)
        if clusters is None:
            variance = (
                table.variance(pairs.ratio) if not weighted else _linear_variance(strata, j, both[p], pairs.ratio)
            )
            spread[j, p] = np.sqrt(variance)
    if clusters is not None:
        between = strata_moves(strata, pairs, clusters.replicates, clusters)
    elif gap.size > 1:
        between = strata_moves(strata, pairs, normal_tables(counts, N_DRAWS, seed=0), None)._replace(spread=spread)
    else:
        between = GapMoves(spread, np.full(shape, np.inf), np.zeros(1))
    half, level = between.half_width(confidence_level)
    low, high = gap - half, gap + half
    for j, p in np.ndindex(shape):
        few, below, above = _exact_reach(strata, j, both[p], pairs.ratio, level, clusters)
        if few or vanishes(between.spread[j, p]):  # at least as wide as exact limits of the rows that are compared
            low[j, p] = np.fmin(low[j, p], gap[j, p] - below)
            high[j, p] = np.fmax(high[j, p], gap[j, p] + above)
    sure = ~np.isnan(gap) & pooled.gaps.sure
    reason = ""
    if (n_used == 0).any():
        j, p = np.argwhere(n_used == 0)[0]
        a, b = both[p]
        reason = (
            f"no stratum has rows of both {groups.words[a]} and {groups.words[b]} that enter the "
            f"{strata.rates[j].words}: merge strata"
        )
    gaps = Gaps(pairs.finish(gap), pairs.finish(low), pairs.finish(high), sure)
    return pooled._replace(gaps=gaps, spread_evaluation=between.spread, by_pair={"strata": n_used}, reason=reason)


def _exact_reach(
    strata: Strata, rate: int, pair: tuple[int, int], ratio: bool, level: float, clusters: Clustered | None
) -> tuple[bool, float, float]:
    """Whether few rows are compared, and how far the exact limits of their gap are below and above it."""
    rates, counts = strata.rates[rate : rate + 1], strata.compared(rate, *pair)
    effective = effective_sides(rates, counts)
    if clusters is not None:
        moved = _cluster_moves(strata, rate, pair, clusters)
        freedom = np.maximum(moved.worth - 1.0, 1.0)
        effective = effective_rows(rates, counts, moved, freedom, (1.0 - level) / 2.0)
    one = Pairs(np.array([0]), np.array([1]), ratio)
    value = one.scale(rates_of(rates, counts))
    low, high = mover(value, single_limits(effective, level), one)
    gap = float(value[0, 0] - value[0, 1])
    return bool(few_sides(effective).any()), gap - float(low[0, 0]), float(high[0, 0]) - gap


def _cluster_moves(strata: Strata, rate: int, pair: tuple[int, int], clusters: Clustered) -> Moves:
    """How the rate of two groups moves in the strata with rows of both; arrays of shape (1, 2)."""
    used = strata.used(rate, *pair)
    cells = np.arange(len(clusters.distinct.smallest)).reshape(-1, 4)[[*pair]].reshape(-1, 1)
    replicates = clusters.replicates[:, used][:, :, [*pair]].sum(axis=1)
    found = Clustered(strata.compared(rate, *pair), replicates, clusters.distinct.joined(cells))
    return moves(strata.rates[rate : rate + 1], found)


def _linear_variance(strata: Strata, rate: int, pair: tuple[int, int], ratio: bool) -> float:
    """Variance of the linearised gap of independent rows with weights."""
    slopes = strata.table(rate, *pair).slopes(ratio)
    square = sides(strata.rates[rate : rate + 1], strata.counts)[1][:, :, 0]  # (counted or not, strata, groups)
    total = 0.0
    for group, x, n in ((pair[0], slopes.x_a, slopes.n_a), (pair[1], slopes.x_b, slopes.n_b)):
        total += float(np.sum((x + n) ** 2 * square[0, :, group] + n**2 * square[1, :, group]))
    return total


def strata_moves(strata: Strata, pairs: Pairs, tables: FloatArray, clusters: Clustered | None) -> GapMoves:
    """Movements of all gaps within strata.

    Parameters
    ----------
    strata : Strata
    pairs : Pairs
    tables : ndarray of shape (B, strata, groups, 2, 2)
        Counts with random weights.
    clusters : Clustered or None
        Counts by cluster, where these are the clusters' tables.
    """
    a, b = pairs.first, pairs.second
    shape = len(strata.rates), len(a)
    off = np.moveaxis(sides(strata.rates, Counts(tables, tables, tables))[0], 1, 0)
    off = off - sides(strata.rates, strata.counts)[0]  # (B, counted or not, strata, rates, groups)
    freedom, factor = np.full(shape, np.inf), np.ones(shape)
    if clusters is not None:
        one = Pairs(np.array([0]), np.array([1]), pairs.ratio)
        most = shared(strata.rates, clusters.pooled, pairs)
        for j, p in np.ndindex(shape):
            moved = _cluster_moves(strata, j, (int(a[p]), int(b[p])), clusters)
            own = np.maximum(moved.worth - 1.0, 1.0)
            freedom[j, p] = degrees_of_freedom(moved.off, own, most[j : j + 1, p : p + 1], one)[0, 0]
            least = float(np.min(moved.worth))  # clusters, where only those in strata with both groups count
            factor[j, p] = np.sqrt(least / (least - 1.0)) if least > 1.0 else np.inf

    def apart(j: int, p: int) -> FloatArray:
        slopes = strata.table(j, int(a[p]), int(b[p])).slopes(pairs.ratio)
        moved = np.zeros(len(off))
        for group, x, n in ((a[p], slopes.x_a, slopes.n_a), (b[p], slopes.x_b, slopes.n_b)):
            counted, others = off[:, 0, :, j, group], off[:, 1, :, j, group]
            moved += (counted + others) @ n + counted @ x
        return np.asarray(moved * factor[j, p])

    return gap_moves(apart, freedom)
