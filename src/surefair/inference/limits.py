"""From replicates to limits: of single rates, of one gap, and of several gaps that hold together.

Everything is computed for *signed* gaps (rate of one group minus rate of another; for ratios, of their logarithms) and
only then folded to absolute values: quantiles of |gap| would exclude 0 almost always, even for a model exactly at
parity. Two groups and one rate make one gap. Otherwise every pair of groups within a sensitive column is compared, in
every rate, and the limits of all gaps hold together (max-t): each gap has limits at the same multiple of its own
spread, and that multiple is large enough for all gaps to stay within their limits in 95 % of the replicates.

Where fewer than ``FEW`` rows count towards a rate, or fewer do not, replicates alone cover too rarely, so its limits
are at least as wide as the exact ones of Clopper and Pearson. Limits of a gap with such a rate, or of several gaps
together, are at least as wide as those made of the limits of the two rates (Newcombe's method, or MOVER): unlike
multiples of a spread, these know that the spread itself is estimated, and how skewed a rate near 0 is.

The cheap bootstrap (Lam) needs only two replicates: replicate minus estimate and estimate minus truth have the same
normal law and are independent, so the error over the root mean square of B replicates' errors has Student's t law with
B degrees of freedom. With several gaps each then gets its level by Bonferroni's rule, because the farthest of a handful
of replicates says nothing about the farthest of forty.
"""

from __future__ import annotations

from numbers import Real
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import polygamma
from scipy.stats import norm, t

from surefair.inference.scoring import binomial_limits
from surefair.rows import FloatArray, Groups

BOOTSTRAP_METHODS = ("percentile", "basic", "normal", "cheap")
"""How replicates become limits."""

METHODS = (*BOOTSTRAP_METHODS, "paper")

FEW = 15
"""Rows on either side of a rate, counted towards it or not, below which its limits are made exact.

Percentiles of replicates cover single rates at level 95 % as rarely as 88 % of the time where few rows are expected on
a side, however many there are in all; with exact limits below 15 it is at least 93 %, at any rate and with any n.
"""

CHUNK = 200
"""Pairs whose replicates are held in memory at a time."""

FAR = 1e6
"""Minus the logarithm of a rate of 0: it stands for infinity in computations. All others are below 750."""

ROUNDING = 1e-9
"""Spread up to which a rate or a gap is the same in all replicates; no sample is so large that it varies so little."""


def check_level(confidence_level: float) -> float:
    """Return the confidence level if it lies strictly between 0 and 1."""
    if not (isinstance(confidence_level, Real) and 0.0 < float(confidence_level) < 1.0):
        raise ValueError(
            f"confidence_level must lie strictly between 0 and 1, for example 0.95; received {confidence_level!r}."
        )
    return float(confidence_level)


def limits(
    estimate: FloatArray, replicates: FloatArray, confidence_level: float, method: str
) -> tuple[FloatArray, FloatArray]:
    """Interval limits from replicates along the first axis.

    ``percentile`` takes quantiles of the replicates, ``basic`` mirrors them at the estimate, ``normal`` uses their
    spread, and ``cheap`` their distance from the estimate with Student's t law, which is valid from two replicates on.
    Quantiles are at ranks p(B+1), so that B replicates and the truth, if exchangeable, give the exact level.

    Examples
    --------
    >>> low, high = limits(np.array(5.0), np.arange(1.0, 200.0), 0.95, "percentile")
    >>> float(low), float(high)
    (5.0, 195.0)
    """
    if method == "normal":
        half = norm.ppf((1.0 + confidence_level) / 2.0) * replicates.std(axis=0, ddof=1)
        return estimate - half, estimate + half
    if method == "cheap":
        half = t.ppf((1.0 + confidence_level) / 2.0, len(replicates))
        half = half * np.sqrt(np.mean((replicates - estimate) ** 2, axis=0))
        return estimate - half, estimate + half
    tails = [(1.0 - confidence_level) / 2.0, (1.0 + confidence_level) / 2.0]
    low, high = np.quantile(replicates, tails, axis=0, method="weibull")
    return (2.0 * estimate - high, 2.0 * estimate - low) if method == "basic" else (low, high)


def fold(low: float, high: float) -> tuple[float, float]:
    """Interval for |gap| from an interval for the signed gap.

    Examples
    --------
    >>> fold(-0.03, 0.01), fold(-0.3, -0.1)
    ((0.0, 0.03), (0.1, 0.3))
    """
    return (0.0 if low <= 0.0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))


def rate_limits(
    measured: FloatArray, rates_b: FloatArray, effective: FloatArray | None, confidence_level: float, method: str
) -> tuple[FloatArray, FloatArray]:
    """Limits of each rate separately, shape (rates, groups); [0, 1] where it is undefined.

    Parameters
    ----------
    measured : ndarray of shape (rates, groups)
    rates_b : ndarray of shape (B, rates, groups)
        Rates in the replicates.
    effective : ndarray of shape (2, rates, groups), optional
        Rows on each side of each rate; None where evaluation rows are taken as they are.
    confidence_level : float
    method : str
    """
    low, high = limits(measured, rates_b, confidence_level, method)
    if effective is not None:  # a rate of 0 or 1 is possible however few rows showed it
        low, high = np.fmin(low, measured), np.fmax(high, measured)
        exact_low, exact_high = single_limits(effective, confidence_level)
        few = few_sides(effective)
        low, high = np.where(few, np.fmin(low, exact_low), low), np.where(few, np.fmax(high, exact_high), high)
    undefined = np.isnan(measured) | np.isnan(rates_b).any(axis=0)
    return np.where(undefined, 0.0, low.clip(0.0, 1.0)), np.where(undefined, 1.0, high.clip(0.0, 1.0))


# -- Gaps -------------------------------------------------------------------------------------------------------------


class Pairs(NamedTuple):
    """Pairs of groups that are compared, and whether rates are compared by ratios."""

    first: NDArray[np.intp]
    second: NDArray[np.intp]
    ratio: bool

    @classmethod
    def of(cls, groups: Groups, ratio: bool) -> Pairs:
        """Pairs of groups: those that the groups name, or else all pairs within each sensitive column.

        Groups of all columns are numbered together.

        Examples
        --------
        >>> from surefair.rows import Levels
        >>> Pairs.of(Groups({"a": Levels(np.arange(2), "group"), "b": Levels(np.arange(3), "group")}), False)[:2]
        (array([0, 2, 2, 3]), array([1, 3, 4, 4]))
        """
        if groups.pairs is not None:
            first, second = np.array(groups.pairs, dtype=np.intp).reshape(-1, 2).T
            return cls(first, second, ratio)
        parts = [np.stack(np.triu_indices(n, 1)) + low for n, low in zip(groups.sizes, groups.offsets, strict=True)]
        first, second = np.hstack(parts)
        return cls(first, second, ratio)

    def scale(self, rates: FloatArray) -> FloatArray:
        """Rates, or their logarithms where ratios are compared."""
        if not self.ratio:
            return rates
        return np.asarray(np.log(rates, out=np.where(np.isnan(rates), np.nan, -FAR), where=rates > 0.0))

    def gap(self, value: FloatArray, some: slice = slice(None)) -> FloatArray:
        """Gaps along the last axis, of some of the pairs; the ratio of 0 to 0 is undefined."""
        a = value[..., self.first[some]]
        b = value[..., self.second[some]]
        return np.where((a == -FAR) & (b == -FAR), np.nan, a - b) if self.ratio else a - b

    def finish(self, gap: FloatArray) -> FloatArray:
        """Clip differences to their range; write infinity for what stands for it."""
        return _open(gap) if self.ratio else gap.clip(-1.0, 1.0)


class Gaps(NamedTuple):
    """Gaps of all pairs in all rates, with limits; arrays of shape (rates, pairs)."""

    gap: FloatArray  # NaN where undefined
    low: FloatArray
    high: FloatArray
    sure: NDArray[np.bool_]  # whether the limits are defined


def gap_limits(
    measured: FloatArray,
    rates_b: FloatArray,
    pairs: Pairs,
    effective: FloatArray | None,
    confidence_level: float,
    method: str,
) -> Gaps:
    """Limits of all gaps: a single one gets limits by the method, several get limits that hold together."""
    value = pairs.scale(measured)
    value_b = pairs.scale(rates_b)
    gap = pairs.gap(value)
    centre, spread, farthest = gap.copy(), np.empty_like(gap), np.zeros(len(rates_b))
    for j, p in np.ndindex(len(gap), -(-gap.shape[1] // CHUNK)):
        some = j, slice(p * CHUNK, (p + 1) * CHUNK)
        gap_b = pairs.gap(value_b[:, j], some[1])
        far = is_far(gap[some])
        centre[some] = np.where(far, gap_b.mean(axis=0), gap[some])
        off = gap_b - centre[some]
        # about the estimate, not the mean: a gap whose replicates lie to one side of it is then not far off all others
        spread[some] = np.sqrt(np.mean(off**2, axis=0))
        off = np.where(far, -np.sign(gap[some]) * off, np.abs(off))  # an infinite gap is open on its own side
        off = np.divide(off, spread[some], out=np.zeros_like(off), where=spread[some] > 0.0)
        farthest = np.maximum(farthest, off.max(axis=1))
    sure = ~np.isnan(gap) & ~np.isnan(spread)
    if method == "cheap":
        tail = (1.0 - confidence_level) / 2.0 / max(1, int(np.count_nonzero(sure)))
        c, wide = float(norm.isf(tail)), float(t.isf(tail, len(rates_b)))
        low, high = centre - wide * spread, centre + wide * spread
    elif gap.size == 1:
        c = float(norm.ppf((1.0 + confidence_level) / 2.0))
        low, high = limits(centre, gap_b[:, None], confidence_level, method)
    else:
        c = float(np.quantile(farthest, confidence_level, method="weibull"))
        low, high = centre - c * spread, centre + c * spread
    if effective is not None:
        # never at a lower level than asked for, however few the replicates
        single = single_limits(effective, max(1.0 - 2.0 * float(norm.sf(c)), confidence_level))
        least_low, least_high = mover(value, single, pairs)
        few = few_sides(effective)
        wider = few[:, pairs.first] | few[:, pairs.second] | (gap.size > 1)
        low, high = np.where(wider, np.fmin(low, least_low), low), np.where(wider, np.fmax(high, least_high), high)
    known = gap if effective is not None else np.where(is_far(gap), gap, np.nan)  # which the limits must contain
    low, high = np.fmin(low, known), np.fmax(high, known)
    return Gaps(pairs.finish(gap), pairs.finish(low), pairs.finish(high), sure)


def gap_spreads(
    measured: FloatArray, trained: FloatArray | None, effective: FloatArray | None, pairs: Pairs
) -> tuple[FloatArray, FloatArray]:
    """Standard deviations of all gaps, from training alone and from evaluation alone.

    The first are those of replicates about the estimate, the second those of the beta laws that ``reweigh`` draws from.
    """
    training = evaluation = np.zeros((len(measured), len(pairs.first)))
    if trained is not None:
        off = pairs.scale(trained) - pairs.scale(measured)
        both = np.einsum("bjg,bjh->jgh", off, off, optimize=True) / len(off)
        own = np.einsum("jgg->jg", both)
        variance = own[:, pairs.first] + own[:, pairs.second] - 2.0 * both[:, pairs.first, pairs.second]
        training = np.sqrt(np.maximum(variance, 0.0))
    if effective is not None:
        counted, others = effective + 0.5
        total = counted + others
        variance = counted * others / (total**2 * (total + 1.0))
        if pairs.ratio:  # of the logarithm
            variance = polygamma(1, counted) - polygamma(1, total)
        evaluation = np.sqrt(variance[:, pairs.first] + variance[:, pairs.second])
    return (_open(training), _open(evaluation)) if pairs.ratio else (training, evaluation)


def largest_gaps(rates_b: FloatArray, groups: Groups, pairs: Pairs) -> FloatArray:
    """Unfairness of each replicate, shape (B,); for ratios, minus its logarithm."""
    columns = np.split(pairs.scale(rates_b), groups.offsets[1:], axis=2)
    return np.asarray(np.max([np.ptp(column, axis=2).max(axis=1) for column in columns], axis=0))


def is_far(gap: FloatArray) -> NDArray[np.bool_]:
    """Whether gaps of logarithms stand for infinity."""
    return np.asarray(np.abs(gap) > 750.0)


def vanishes(spread: FloatArray) -> NDArray[np.bool_]:
    """Whether spreads are 0, up to rounding.

    Examples
    --------
    >>> vanishes(np.array([0.0, 4e-17, 0.01]))
    array([ True,  True, False])
    """
    return np.asarray(spread <= ROUNDING)


def _open(gap: FloatArray) -> FloatArray:
    """Write infinity for what stands for it."""
    return np.where(is_far(gap), np.copysign(np.inf, gap), gap)


# -- Few rows ---------------------------------------------------------------------------------------------------------


def few_sides(effective: FloatArray) -> NDArray[np.bool_]:
    """Whether few rows are on a side of each rate, shape (rates, groups)."""
    return np.asarray(np.rint(effective).min(axis=0) < FEW)


def single_limits(effective: FloatArray, confidence_level: float) -> tuple[FloatArray, FloatArray]:
    """Limits of rates without replicates: exact ones where rows are few, otherwise by Jeffreys' prior.

    Examples
    --------
    >>> low, high = single_limits(np.array([[0.0, 3.0, 30.0], [3.0, 0.0, 30.0]]), 0.95)
    >>> low.round(3), high.round(3)
    (array([0.   , 0.292, 0.376]), array([0.708, 1.   , 0.624]))
    """
    counted, others = effective
    return binomial_limits(counted, others, confidence_level, half=np.where(few_sides(effective), 0.0, 0.5))


def mover(value: FloatArray, single: tuple[FloatArray, FloatArray], pairs: Pairs) -> tuple[FloatArray, FloatArray]:
    """Limits of gaps from limits of their two rates; an infinite gap gets the farthest limits that those allow."""
    a = value[:, pairs.first]
    b = value[:, pairs.second]
    gap = a - b
    low_value, high_value = (pairs.scale(end) for end in single)
    low_a, low_b = low_value[:, pairs.first], low_value[:, pairs.second]
    high_a, high_b = high_value[:, pairs.first], high_value[:, pairs.second]
    low = np.where(is_far(gap), low_a - high_b, gap - np.hypot(a - low_a, high_b - b))
    high = np.where(is_far(gap), high_a - low_b, gap + np.hypot(high_a - a, b - low_b))
    return low, high
