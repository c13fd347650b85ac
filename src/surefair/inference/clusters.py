"""Intervals for rows in clusters, which are not independent of each other, from the counts of ``cluster_counts``.

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
from scipy.stats import norm, t

from surefair.criteria import Rate
from surefair.inference.cluster_counts import Clustered
from surefair.inference.counts import Counts, effective_sides, rates_of
from surefair.inference.interval import Estimates
from surefair.inference.limits import Gaps, Pairs, few_sides, mover, single_limits, vanishes
from surefair.inference.moves import between, rate_moves
from surefair.rows import Distinct, FloatArray


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


def cluster_estimates(
    rates: tuple[Rate, ...], found: Clustered, pairs: Pairs, confidence_level: float, trained: FloatArray | None = None
) -> Estimates:
    """Rates and gaps with limits, from rows in clusters; cells are (groups, 2, 2).

    ``trained`` has the rates of the replicates of a model on these rows, shape (B, rates, groups): where training is
    random too, its movement is added to that of the evaluation rows.
    """
    moved = moves(rates, found)
    learnt = np.zeros_like(moved.off)
    if trained is not None:  # training and evaluation rows are independent, so their movements can be paired at will
        learnt = (trained - moved.rate)[np.arange(len(learnt)) % len(trained)]
    moved = moved._replace(off=moved.off + learnt)
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
        some = np.nan_to_num(measured) > 0.0
        off, learnt = (np.divide(one, measured, out=np.zeros_like(one), where=some) for one in (off, learnt))
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
    training = between(learnt, pairs).spread
    evaluation = np.sqrt(np.maximum(moved_apart.spread**2 - training**2, 0.0))
    return Estimates(n, measured, low, high, gaps, training, evaluation, by_group={"clusters": clusters})


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
