"""Confidence sequences: limits of gaps that hold at all times together, however often anyone looks.

The rows of a stream come in any order, as long as each row's group is settled before its decision is seen. Group g has
nᵍ rows so far, of which sᵍ count towards its rate pᵍ. For two groups a and b with expected shares πᵃ and πᵇ,

    E₁(pᵃ, pᵇ) = Σⱼ wⱼ exp[λⱼᵃ sᵃ − nᵃ ψ(λⱼᵃ, pᵃ) + λⱼᵇ sᵇ − nᵇ ψ(λⱼᵇ, pᵇ)],    ψ(λ, p) = log(1 − p + p exp λ),
    λⱼᵃ = tⱼ/πᵃ,  λⱼᵇ = −tⱼ/πᵇ,

is a martingale that starts at 1 where pᵃ and pᵇ are the true rates, and so is the product of Mᵃ(pᵃ) and Mᵇ(pᵇ), where M
is the likelihood of the counts under a mixture of all rates (Jeffreys' prior) over their likelihood at p. By Ville's
inequality, E = 0.9 E₁ + 0.1 MᵃMᵇ ever reaches 1/α with a probability of at most α. So the gaps of all (pᵃ, pᵇ) with
E < 1/α contain the true gap at all times with probability 1 − α: exactly, whatever the numbers of rows. The shares only
decide how wide the limits are. They may change along the stream, as long as rows that come later decide nothing; counts
are then kept for each stretch of the stream with the same shares, and exponents of stretches add.

For a ratio r the tilts are t/(πᵃ√r) and −t√r/πᵇ, with r rounded to a cell of ``CELL`` on the logarithmic scale. Several
gaps hold together where pair i gets the level α vᵢ, with Σvᵢ ≤ 1: that is the weighted sum of all pairs' E, without the
terms of other pairs, which are positive and small.

log E is convex, so the least log E along a line has one minimum, found by Newton steps, with a lower bound from the
slope that is left. A limit is the first point found whose lower bound reaches log(1/α): rounding and unfinished
iterations make limits wider, by at most ``ERROR``, never narrower.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, xlog1py, xlogy

from surefair.rows import FloatArray

# Values and slopes at some points, and where the minimum was found, near which to begin the next time.
Function = Callable[[FloatArray, FloatArray | None], tuple[FloatArray, FloatArray, FloatArray]]

ERROR = 1e-6
"""Largest numerical error of a limit; limits err towards being too wide."""

SLACK = 1e-7  # how far log E may be from its least value
TILTS = 0.002 * 2.0 ** np.arange(9)
LONG = 0.001 * 0.5 ** np.arange(6)  # for streams of millions of rows
LONG_SHARE = 0.1  # weight of these, half of it for the first, and so on
MIXTURE = 0.1  # weight of MᵃMᵇ
STEEPEST = 30.0  # largest tilt
CELL = 0.2  # width of the cells of log ratios
FARTHEST = 14.0  # log ratio from which on limits are infinite
STEPS = 200  # most iterations
PATIENCE = 9  # Newton steps before brackets are halved, too


def tilts() -> tuple[FloatArray, FloatArray]:
    """Tilts t of both signs, and the logarithms of their weights.

    Examples
    --------
    >>> t, log_weight = tilts()
    >>> len(t), round(float(np.exp(log_weight).sum()), 12)
    (30, 1.0)
    """
    long = 0.5 ** np.arange(len(LONG))
    weight = np.r_[np.full(len(TILTS), (1.0 - LONG_SHARE) / len(TILTS)), LONG_SHARE * long / long.sum()]
    t = np.r_[TILTS, LONG]
    return np.r_[t, -t], np.log(np.r_[weight, weight] / 2.0)


class PairCounts(NamedTuple):
    """Counts of both groups of some pairs, by stretch of the stream: arrays of shape (2, pairs, stretches)."""

    counted: FloatArray  # rows that count towards the rate
    rows: FloatArray  # all rows that enter it
    share: FloatArray  # expected share of the group among both, chosen before the stretch began

    @property
    def swapped(self) -> PairCounts:
        """The same pairs with the groups exchanged."""
        return PairCounts(*(part[::-1] for part in self))

    @property
    def rates(self) -> FloatArray:
        """Rates as counted, shape (2, pairs); NaN where there is no row."""
        rows = self.rows.sum(axis=2)
        return np.asarray(np.divide(self.counted.sum(axis=2), rows, out=np.full(rows.shape, np.nan), where=rows > 0.0))


class Slopes(NamedTuple):
    """Log E at some rates, its gradient (2, pairs), and its second derivative along a line."""

    value: FloatArray
    gradient: FloatArray
    curvature: FloatArray


class LogE:
    """Log E of some pairs as a function of both rates.

    Parameters
    ----------
    pairs : PairCounts
    log_ratio : ndarray of shape (pairs,), optional
        Centre of the cell of log ratios that is asked about; differences have 0.
    """

    def __init__(self, pairs: PairCounts, log_ratio: FloatArray | None = None) -> None:
        t, self.log_weight = tilts()
        tilt = np.multiply.outer(1.0 / pairs.share, t)  # (2, pairs, stretches, tilts)
        tilt[1] *= -1.0
        if log_ratio is not None:
            turn = np.exp(log_ratio / 2.0)[:, None, None]
            tilt = np.stack([tilt[0] / turn, tilt[1] * turn])
        tilt = tilt.clip(-STEEPEST, STEEPEST)
        self.rows = pairs.rows[..., None]
        self.rise = np.expm1(tilt)
        self.linear = (tilt * pairs.counted[..., None]).sum(axis=(0, 2))  # (pairs, tilts)
        self.s = pairs.counted.sum(axis=2)
        self.f = pairs.rows.sum(axis=2) - self.s
        self.mixed = (betaln(self.s + 0.5, self.f + 0.5) - betaln(0.5, 0.5)).sum(axis=0)

    def at(self, p: FloatArray, direction: FloatArray) -> Slopes:
        """Evaluate log E at rates p (2, pairs), with derivatives along a direction (2, pairs)."""
        moved = p[:, :, None, None] * self.rise
        slope = self.rise / (1.0 + moved)
        part = self.linear - (self.rows * np.log1p(moved)).sum(axis=(0, 2))
        first = -(self.rows * slope).sum(axis=2)  # (2, pairs, tilts)
        second = (self.rows * slope**2).sum(axis=2)
        with np.errstate(divide="ignore", invalid="ignore"):
            mixture = self.mixed - (xlogy(self.s, p) + xlog1py(self.f, -p)).sum(axis=0)
            up = np.where(self.s > 0.0, self.s / p, 0.0)
            down = np.where(self.f > 0.0, self.f / (1.0 - p), 0.0)
            bend = np.where(self.s > 0.0, up / p, 0.0) + np.where(self.f > 0.0, down / (1.0 - p), 0.0)
        terms = np.column_stack([part + self.log_weight + np.log1p(-MIXTURE), mixture + np.log(MIXTURE)])
        top = terms.max(axis=1)
        known = np.isfinite(top)  # rates of 0 and 1 may be impossible
        weight = np.exp(terms - np.where(known, top, 0.0)[:, None], where=known[:, None], out=np.zeros_like(terms))
        weight[~known, -1] = 1.0
        total = weight.sum(axis=1)
        weight = weight / total[:, None]
        first = np.concatenate([first, (down - up)[..., None]], axis=2)
        second = np.concatenate([second, bend[..., None]], axis=2)
        along = np.einsum("gp,gpt->pt", direction, first)
        with np.errstate(invalid="ignore"):
            bent = np.einsum("gp,gpt->pt", direction**2, second) + along**2
            gradient = np.einsum("pt,gpt->gp", weight, first)
            curvature = (weight * bent).sum(axis=1) - (direction * gradient).sum(axis=0) ** 2
        return Slopes(top + np.log(total), gradient, curvature)


class Lowest(NamedTuple):
    """Lower bound of the least log E along a line, and the gradient (2, pairs) there."""

    value: FloatArray
    gradient: FloatArray
    p: FloatArray


def lowest(log_e: LogE, origin: FloatArray, direction: FloatArray, near: FloatArray | None = None) -> Lowest:
    """Find the least log E on lines origin + u · direction within the unit square, by Newton steps within brackets.

    Parameters
    ----------
    log_e : LogE
    origin, direction : ndarray of shape (2, pairs)
        Directions have positive parts.
    near : ndarray of shape (2, pairs), optional
        Rates to begin at; by default those counted.
    """
    low = np.max(-origin / direction, axis=0)
    high = np.min((1.0 - origin) / direction, axis=0)
    near = (log_e.s + 0.5) / (log_e.s + log_e.f + 1.0) if near is None else near
    u = ((near - origin) / direction).mean(axis=0).clip(low, high)
    for _ in range(STEPS):
        p = (origin + u * direction).clip(0.0, 1.0)
        found = log_e.at(p, direction)
        with np.errstate(invalid="ignore"):  # both rates impossible, in opposite directions
            slope = (direction * found.gradient).sum(axis=0)
        slope = np.where(np.isnan(slope), 0.0, slope)
        low = np.where(slope <= 0.0, u, low)
        high = np.where(slope >= 0.0, u, high)
        with np.errstate(invalid="ignore"):
            left = np.where(high > low, np.abs(slope) * (high - low), 0.0)
        if not (left > SLACK).any():
            break
        with np.errstate(divide="ignore", invalid="ignore"):
            step = u - slope / found.curvature
        inside = (step > low) & (step < high) & np.isfinite(step)
        step = np.where(inside, step, (low + high) / 2.0)
        same = step == u  # as exact as numbers can be
        u = step
        if (same | (left <= SLACK)).all():
            break
    return Lowest(found.value - np.minimum(left, np.abs(found.value) + 1.0), found.gradient, p)


def difference_lowest(log_e: LogE, gap: FloatArray, near: FloatArray | None = None) -> Lowest:
    """Least log E over all rates with these differences; it reaches log(1/α) where a gap is excluded."""
    return lowest(log_e, np.stack([gap, np.zeros_like(gap)]), np.ones((2, len(gap))), near)


def ratio_lowest(log_e: LogE, log_ratio: FloatArray, near: FloatArray | None = None) -> Lowest:
    """Least log E over all rates with these log ratios."""
    turn = np.exp(log_ratio / 2.0)
    return lowest(log_e, np.zeros((2, len(turn))), np.stack([turn, 1.0 / turn]), near)


# -- Limits -----------------------------------------------------------------------------------------------------------


def difference_limits(pairs: PairCounts, threshold: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Limits of the differences of rates, first group minus second; [-1, 1] where a group has no row.

    Parameters
    ----------
    pairs : PairCounts
    threshold : ndarray of shape (pairs,)
        Log E from which on a difference is excluded: log(1/α), for each pair its own.

    Examples
    --------
    >>> counted, rows = np.array([[[300.0]], [[200.0]]]), np.full((2, 1, 1), 1000.0)
    >>> low, high = difference_limits(PairCounts(counted, rows, np.full((2, 1, 1), 0.5)), np.log([20.0]))
    >>> low.round(3), high.round(3)
    (array([0.031]), array([0.169]))
    """
    return -_upper_difference(pairs.swapped, threshold), _upper_difference(pairs, threshold)


def _upper_difference(pairs: PairCounts, threshold: FloatArray) -> FloatArray:
    log_e = LogE(pairs)
    a, b = pairs.rates
    unknown = np.isnan(a) | np.isnan(b)
    inner = np.where(unknown, 0.0, a - b)
    beyond = difference_lowest(log_e, np.ones_like(inner)).value >= threshold
    n = np.maximum(pairs.rows.sum(axis=2), 1.0)
    reach = 4.0 * np.sqrt((0.25 / n).sum(axis=0))

    def steepness(gap: FloatArray, near: FloatArray | None) -> tuple[FloatArray, FloatArray, FloatArray]:
        found = difference_lowest(log_e, gap, near)
        # where one rate is 0 or 1, only the other one moves with the gap
        return found.value - threshold, np.maximum(found.gradient[0], -found.gradient[1]), found.p

    high = _crossing(steepness, inner, np.ones_like(inner), np.minimum(inner + reach, 1.0))
    return np.where(unknown | ~beyond, 1.0, high)


def _crossing(function: Function, low: FloatArray, high: FloatArray, start: FloatArray) -> FloatArray:
    """Points just beyond where functions that grow from below 0 at ``low`` to above 0 at ``high`` cross 0.

    Newton steps from outside never cross the root of a convex function; where they leave the bracket, or a function is
    not convex, the bracket is halved.
    """
    x = start
    near: FloatArray | None = None
    for k in range(STEPS):
        value, slope, near = function(x, near)
        outside = value >= 0.0
        width = high - low
        high = np.where(outside, x, high)
        low = np.where(outside, low, x)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = x - value / slope
        # a little farther out than the root, so that the bracket closes from both sides
        step = np.where(outside, step, step + ERROR / 4.0)
        good = np.isfinite(step) & (step > low) & (step < high) & ((high - low < 0.9 * width) | outside)
        close = high - low <= ERROR / 2.0
        almost = outside & np.isfinite(step) & (x - step <= ERROR / 4.0) & (step > low)
        step = np.where(almost, x - ERROR / 2.0, step)  # one look inside proves that the bracket is small
        good = (good | (almost & (step > low))) & ((k < PATIENCE) | (k % 3 < 2))  # later, halve now and then
        x = np.where(close, high, np.where(good, step, (low + high) / 2.0))
        if close.all():
            break
    return high


def ratio_limits(pairs: PairCounts, threshold: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Limits of the log ratios of rates, first group over second; parameters are those of ``difference_limits``.

    Examples
    --------
    >>> counted, rows = np.array([[[300.0]], [[200.0]]]), np.full((2, 1, 1), 1000.0)
    >>> low, high = ratio_limits(PairCounts(counted, rows, np.full((2, 1, 1), 0.5)), np.log([20.0]))
    >>> low.round(2), high.round(2)
    (array([0.13]), array([0.7]))
    """
    return -_upper_ratio(pairs.swapped, threshold), _upper_ratio(pairs, threshold)


def _upper_ratio(pairs: PairCounts, threshold: FloatArray) -> FloatArray:
    """Upper limits of log ratios: the outermost cell in which some ratio is possible, and the last one there.

    Within a cell log E is one function, and the ratios it allows are an interval that contains the ratio as counted.
    """
    a, b = pairs.rates
    unknown = np.isnan(a) | ~(b > 0.0)  # a rate of 0 makes every larger ratio possible
    with np.errstate(divide="ignore", invalid="ignore"):
        counted = np.where(unknown, 0.0, np.log(a / b)).clip(-FARTHEST, FARTHEST)
    last = np.ceil(FARTHEST / CELL)
    cell = np.rint(counted / CELL)
    first = cell
    farthest = np.full_like(cell, last)
    while (farthest - cell > 1.0).any():  # halve to where the mixture alone excludes everything farther out
        middle = np.ceil((cell + farthest) / 2.0)
        possible = _possible(pairs, (middle - 0.5) * CELL, None, threshold)
        cell = np.where(possible, middle, cell)
        farthest = np.where(possible, farthest, np.maximum(middle, cell))
    cell = np.where(unknown, first, farthest)
    while True:
        inner = np.maximum((cell - 0.5) * CELL, counted)
        out = (cell > first) & ~_possible(pairs, inner, cell * CELL, threshold)
        if not out.any():
            break
        cell = np.where(out, cell - 1.0, cell)
    log_e = LogE(pairs, cell * CELL)
    outer = (cell + 0.5) * CELL

    def steepness(log_ratio: FloatArray, near: FloatArray | None) -> tuple[FloatArray, FloatArray, FloatArray]:
        found = ratio_lowest(log_e, log_ratio, near)
        with np.errstate(invalid="ignore"):
            slope = found.gradient * found.p
        return found.value - threshold, np.maximum(slope[0], -slope[1]), found.p

    open_end = steepness(outer, None)[0] < 0.0
    high = _crossing(steepness, inner, outer, (inner + outer) / 2.0)
    high = np.where(open_end, outer, high)
    return np.where(unknown | (high >= FARTHEST), np.inf, high)


def _possible(
    pairs: PairCounts, log_ratio: FloatArray, cell: FloatArray | None, threshold: FloatArray
) -> NDArray[np.bool_]:
    """Whether log ratios are possible, judged by the tilts of some cells, or by the mixture alone."""
    log_e = LogE(pairs, cell)
    if cell is None:
        log_e.linear = np.full_like(log_e.linear, -np.inf)
    return np.asarray(ratio_lowest(log_e, log_ratio).value < threshold)


def rate_limits(counted: FloatArray, rows: FloatArray, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Limits of single rates that hold at all times, for each rate separately; [0, 1] without rows.

    Examples
    --------
    >>> low, high = rate_limits(np.array([0.0, 30.0]), np.array([100.0, 100.0]), 0.05)
    >>> low.round(3), high.round(3)
    (array([0.   , 0.166]), array([0.057, 0.463]))
    """
    others = rows - counted
    return 1.0 - _upper_rate(others, counted, alpha), _upper_rate(counted, others, alpha)


def _upper_rate(counted: FloatArray, others: FloatArray, alpha: float) -> FloatArray:
    """Bisect for the largest rate that the mixture does not exclude."""
    mixed = betaln(counted + 0.5, others + 0.5) - betaln(0.5, 0.5) + np.log(alpha)
    n = counted + others
    low = np.divide(counted, n, out=np.zeros_like(n), where=n > 0.0)
    high = np.ones_like(low)
    while (high - low > ERROR).any():
        middle = (low + high) / 2.0
        out = mixed - xlogy(counted, middle) - xlog1py(others, -middle) >= 0.0
        high = np.where(out, middle, high)
        low = np.where(out, low, middle)
    return np.where(others > 0.0, high, 1.0)
