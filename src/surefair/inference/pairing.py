"""Two models on the same rows: differences of their rates, gaps and unfairness.

Both models decide on every row, so rows are counted by group, truth, decision of a and decision of b, and one table
with random weights moves the rates of both. What the models have in common cancels: the difference of a rate varies
only with the rows on which they disagree. Where few rows do, limits are at least as wide as those made of the exact
limits of two shares: rows that count for b alone, and rows that count for a alone. Where a rate is conditional on the
decision, or rates are compared by ratios, they are at least as wide as those made of the exact limits of the two rates.

The difference of two unfairnesses, |g_b| - |g_a|, is not smooth where a gap is 0. But it is a simple function of the
difference d = g_b - g_a and the sum e = g_b + g_a of the signed gaps, which are: it equals min(|d|, |e|) with the sign
of d e. So limits of d and of e that hold together give limits of the difference of unfairnesses, whatever the signs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefair.criteria import Rate
from surefair.inference.cluster_counts import Clustered
from surefair.inference.clusters import degrees_of_freedom, moves, shared
from surefair.inference.counts import Counts, effective_sides, rates_of
from surefair.inference.limits import FEW, Gaps, Pairs, single_limits, vanishes
from surefair.inference.moves import GapMoves, between, normal_tables, rate_moves
from surefair.rows import FloatArray

N_DRAWS = 2000
"""Normal draws for limits of several gaps that hold together."""

OVER_B, OVER_A = -1, -2  # axes of the decisions of b and a: adding up over one leaves the counts of the other model

DIFFERENCE, SUM = -1.0, 1.0
"""Signs with which model a counts beside model b."""


def of_model(counts: Counts, over: int) -> Counts:
    """Counts of one model, from those of both."""
    return Counts(*(table.sum(axis=over) for table in counts))


def clusters_of_model(found: Clustered, over: int) -> Clustered:
    """Counts of one model's decisions on rows in clusters, from those of both models."""
    n = len(found.distinct.smallest)
    cells = np.arange(n).reshape(-1, 2, 2)  # (groups and truth, decision of a, decision of b)
    same = np.moveaxis(cells, over, -1).reshape(-1, 2)
    return Clustered(of_model(found.counts, over), found.replicates.sum(axis=over), found.distinct.joined(same))


class Combined(NamedTuple):
    """Differences or sums of the rates of two models; of their logarithms where ratios are compared."""

    sign: float  # DIFFERENCE or SUM
    value: FloatArray  # (rates, groups)
    spread: FloatArray  # (rates, groups)
    gaps: GapMoves  # of their gaps between groups


class Pairing(NamedTuple):
    """Counts of two models' decisions on the same rows."""

    counts: Counts  # arrays of shape (groups, 2, 2, 2): truth, decision of a, decision of b
    clusters: Clustered | None  # the same with one stratum in front, where rows are in clusters
    rates: tuple[Rate, ...]
    pairs: Pairs

    @property
    def models(self) -> tuple[Counts, Counts]:
        """Counts of model a and of model b, arrays of shape (groups, 2, 2)."""
        return of_model(self.counts, OVER_B), of_model(self.counts, OVER_A)

    def combine(self, sign: float) -> Combined:
        """Differences or sums of all rates, and how they move."""
        rates, pairs = self.rates, self.pairs
        a, b = (pairs.scale(rates_of(rates, counts)) for counts in self.models)
        value = b + sign * a
        if self.clusters is not None:
            off, own = self._cluster_moves(sign)
            of_a = clusters_of_model(self.clusters, OVER_B).pooled
            freedom = degrees_of_freedom(off, own, shared(rates, of_a, pairs), pairs)
            return Combined(sign, value, np.sqrt(np.mean(off**2, axis=0)), between(off, pairs, freedom))
        off = self._moves(sign, normal_tables(self.counts, N_DRAWS, seed=0))
        units = np.zeros((8, *self.counts.weight.shape))
        units.reshape(8, -1, 8)[np.arange(8), :, np.arange(8)] = 1.0  # what one row of each cell changes
        square = self.counts.square.reshape(-1, 8).T[:, None, :]
        spread = np.sqrt(np.sum(self._moves(sign, units) ** 2 * square, axis=0))  # exact, unlike that of the draws
        exact = np.hypot(spread[:, pairs.first], spread[:, pairs.second])
        return Combined(sign, value, spread, between(off, pairs)._replace(spread=exact))

    def _moves(self, sign: float, tables: FloatArray) -> FloatArray:
        """Movement of each difference or sum, shape (B, rates, groups)."""
        a, b = (
            self._scaled(rate_moves(self.rates, counts, tables.sum(axis=over)), rates_of(self.rates, counts))
            for counts, over in zip(self.models, (OVER_B, OVER_A), strict=True)
        )
        return b + sign * a

    def _cluster_moves(self, sign: float) -> tuple[FloatArray, FloatArray]:
        """Movement of each difference or sum in the replicates, and the degrees of freedom of each group."""
        assert self.clusters is not None
        a, b = (moves(self.rates, clusters_of_model(self.clusters, over).pooled) for over in (OVER_B, OVER_A))
        off = self._scaled(b.off, b.rate) + sign * self._scaled(a.off, a.rate)
        return off, np.maximum(np.fmin(a.worth, b.worth) - 1.0, 1.0)

    def _scaled(self, off: FloatArray, rate: FloatArray) -> FloatArray:
        """Movement of the logarithm of a rate, where ratios are compared."""
        if not self.pairs.ratio:
            return off
        return np.asarray(np.divide(off, rate, out=np.zeros_like(off), where=np.nan_to_num(rate) > 0.0))

    def limits(self, combined: Combined, confidence_level: float) -> Gaps:
        """Gaps of the differences or sums, shape (rates, pairs), with limits that hold together."""
        pairs = self.pairs
        half, level = combined.gaps.half_width(confidence_level)
        value = combined.value
        few, exact_low, exact_high = self.exact(combined, level)
        a, b = pairs.first, pairs.second
        gap = value[:, a] - value[:, b]
        wider = few[:, a] | few[:, b] | vanishes(combined.gaps.spread)
        low_side = np.hypot(value[:, a] - exact_low[:, a], exact_high[:, b] - value[:, b])
        high_side = np.hypot(exact_high[:, a] - value[:, a], value[:, b] - exact_low[:, b])
        low = gap - np.where(wider, np.fmax(half, low_side), half)
        high = gap + np.where(wider, np.fmax(half, high_side), half)
        most = 2.0
        if pairs.ratio:  # write infinity for what stands for it
            most, gap, low, high = np.inf, self._log_gaps(combined.sign), pairs.finish(low), pairs.finish(high)
        sure = np.isfinite(gap) & ~np.isnan(half)
        return Gaps(
            gap, np.where(sure, low, -most).clip(-most, most), np.where(sure, high, most).clip(-most, most), sure
        )

    @property
    def same(self) -> bool:
        """Whether the models decide the same on all rows."""
        return not (self.counts.rows[..., 0, 1].any() or self.counts.rows[..., 1, 0].any())

    def _log_gaps(self, sign: float) -> FloatArray:
        """Differences or sums of the models' gaps of logarithms; NaN where they are undefined."""
        pairs = self.pairs
        a, b = (pairs.finish(pairs.gap(pairs.scale(rates_of(self.rates, counts)))) for counts in self.models)
        if sign == DIFFERENCE and self.same:
            return np.where(np.isnan(a), np.nan, 0.0)
        with np.errstate(invalid="ignore"):  # infinity minus infinity
            return np.asarray(b + sign * a)

    def exact(self, combined: Combined, level: float) -> tuple[NDArray[np.bool_], FloatArray, FloatArray]:
        """Whether few rows tell the models apart, and exact limits of differences or sums: (rates, groups)."""
        shape = combined.value.shape
        few = np.zeros(shape, dtype=np.bool_)
        low, high = np.empty(shape), np.empty(shape)
        for j, rate in enumerate(self.rates):
            only_b, only_a, total = _alone(rate, self.counts)
            n = self._worth(j, total)
            if combined.sign == DIFFERENCE and _given_truth(rate) and not self.pairs.ratio:
                few[j] = np.fmin(only_a.rows, only_b.rows) < FEW
                b, a = (_share_limits(one, total, n, level) for one in (only_b, only_a))
                low[j] = combined.value[j] - np.hypot(b.value - b.low, a.high - a.value)
                high[j] = combined.value[j] + np.hypot(b.high - b.value, a.value - a.low)
                continue
            sides = [effective_sides((rate,), counts) for counts in self.models]
            few[j] = np.fmin(*(np.rint(side).min(axis=0)[0] for side in sides)) < FEW
            if combined.sign == DIFFERENCE:
                few[j] |= np.fmin(only_a.rows, only_b.rows) < FEW
            a, b = (_Limits(*(self.pairs.scale(x) for x in _rate_limits(side, n, level))) for side in sides)
            # models that agree move together, so in sums their limits add up
            add = np.hypot if combined.sign == DIFFERENCE else np.add
            down, up = (a.value - a.low, a.high - a.value)[:: int(combined.sign)]
            low[j] = combined.value[j] - add(b.value - b.low, down)
            high[j] = combined.value[j] + add(b.high - b.value, up)
        return few, low, high

    def _worth(self, rate: int, total: Counts) -> FloatArray:
        """Rows that enter a rate in each group, as many as weights and clusters make them worth."""
        kish = np.divide(total.weight**2, total.square, out=np.zeros_like(total.rows), where=total.square > 0.0)
        if self.clusters is None:
            return np.asarray(np.fmin(total.rows, kish))
        return np.asarray(
            np.fmin(kish, moves(self.rates, clusters_of_model(self.clusters, OVER_B).pooled).clusters[rate])
        )


class _Limits(NamedTuple):
    """Shares of each group with their limits."""

    value: FloatArray
    low: FloatArray
    high: FloatArray


def _share_limits(part: Counts, total: Counts, n: FloatArray, level: float) -> _Limits:
    """Limits of the share of rows that a part is."""
    share = np.divide(part.weight, total.weight, out=np.zeros_like(n), where=total.weight > 0.0)
    low, high = single_limits(n * np.stack([share, 1.0 - share])[:, None], level)
    return _Limits(share, low[0], high[0])


def _rate_limits(effective: FloatArray, n: FloatArray, level: float) -> _Limits:
    """Limits of a rate, from the rows on each of its sides, which are worth at most n in all."""
    counted, others = effective[:, 0]
    total = counted + others
    rate = np.divide(counted, total, out=np.zeros_like(total), where=total > 0.0)
    worth = np.fmin(total, n)
    low, high = single_limits(worth * np.stack([rate, 1.0 - rate])[:, None], level)
    return _Limits(rate, low[0], high[0])


def _alone(rate: Rate, counts: Counts) -> tuple[Counts, Counts, Counts]:
    """Rows of each group that count towards the rate for b alone, for a alone, and all that enter it for either."""

    def total(cells: list[tuple[int, int, int]]) -> Counts:
        tables = (sum((table[..., t, a, b] for t, a, b in cells), np.zeros(len(table))) for table in counts)
        return Counts(*tables)

    every = [(t, a, b) for t in (0, 1) for a in (0, 1) for b in (0, 1)]
    only_b = [(t, a, b) for t, a, b in every if (t, b) in rate.numerator and (t, a) not in rate.numerator]
    only_a = [(t, a, b) for t, a, b in every if (t, a) in rate.numerator and (t, b) not in rate.numerator]
    entering = [(t, a, b) for t, a, b in every if (t, a) in rate.denominator or (t, b) in rate.denominator]
    return total(only_b), total(only_a), total(entering)


def _given_truth(rate: Rate) -> bool:
    """Whether the decision has no influence on which rows enter the rate."""
    return all((truth, 1 - decision) in rate.denominator for truth, decision in rate.denominator)


def unfairness_limits(difference: Gaps, total: Gaps) -> tuple[float, float]:
    """Limits of the difference of two unfairnesses, from limits that hold together.

    If model a is least fair in one pair, b is at least as unfair as it is there, and conversely. Where the two models
    are least fair in different pairs, limits of each unfairness by itself may be closer.

    Parameters
    ----------
    difference, total : Gaps
        Gaps of b minus, and plus, those of a.

    Examples
    --------
    >>> def gaps(gap, half):
    ...     gap = np.array([[gap]])
    ...     return Gaps(gap, gap - half, gap + half, np.array([[True]]))
    >>> low, high = unfairness_limits(gaps(-0.1, 0.02), gaps(0.3, 0.05))  # both gaps are clearly positive
    >>> round(low, 2), round(high, 2)
    (-0.12, -0.08)
    >>> low, high = unfairness_limits(gaps(0.01, 0.02), gaps(0.01, 0.09))  # neither is
    >>> round(low, 2), round(high, 2)
    (-0.03, 0.03)
    """
    corners = np.stack([_smaller(d, e) for d in (difference.low, difference.high) for e in (total.low, total.high)])
    low, high = corners.min(axis=0), corners.max(axis=0)
    a = _sizes((total.low - difference.high) / 2.0, (total.high - difference.low) / 2.0)
    b = _sizes((total.low + difference.low) / 2.0, (total.high + difference.high) / 2.0)
    low, high = np.fmax(low, b[0].max() - a[1]), np.fmin(high, b[1] - a[0].max())
    may_be_a, may_be_b = (size[1] >= size[0].max() for size in (a, b))  # which pairs can have the largest gap
    return float(low[may_be_a].min()), float(high[may_be_b].max())


def _smaller(d: FloatArray, e: FloatArray) -> FloatArray:
    """Difference of unfairnesses, from the difference and the sum of the gaps."""
    return np.asarray(np.sign(d) * np.sign(e) * np.fmin(np.abs(d), np.abs(e)))


def _sizes(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Limits of absolute values."""
    inner = np.where((low <= 0.0) & (high >= 0.0), 0.0, np.fmin(np.abs(low), np.abs(high)))
    return inner, np.fmax(np.abs(low), np.abs(high))
