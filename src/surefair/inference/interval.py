"""From replicates to an interval for the unfairness.

Everything is computed for *signed* gaps (rate of one group minus rate of another; for ratios, of their logarithms) and
only then folded to absolute values: quantiles of |gap| would exclude 0 almost always, even for a model exactly at
parity. Two groups and one rate make one gap. Otherwise every pair of groups within a sensitive column is compared, in
every rate, and the limits of all gaps hold together (max-t): every gap gets the same multiple of its own spread, so
large that in 95 % of the replicates no gap is farther off. The unfairness, the largest absolute gap, is then between
the largest of the folded lower limits and the largest of the upper ones.

What moves from replicate to replicate says what the interval covers; the words are in ``SOURCES``. Evaluation rows are
reweighted as in the Bayesian bootstrap: every row gets an Exp(1) weight of its own in every replicate. The weights of
the n rows that count towards a group's rate add up to a Gamma(n) number, which is drawn directly, from the seekable
uniform number of (seed, group, replicate), and so do those of the rows that do not count towards it. Both get half a
row extra (Jeffreys' prior), without which a rate of 0 among three rows would claim to be 0 for certain. With sample
weights cᵢ the sum has mean C = Σcᵢ and variance Q = Σcᵢ², and is drawn as Q/C times a Gamma(C²/Q) number.

Where fewer than ``FEW`` rows count towards a rate, or fewer do not, replicates alone cover too rarely: its limits
are then at least as wide as the exact ones of Clopper and Pearson. Limits of a gap with such a rate, or of several
gaps together, are at least as wide as those made of the limits of the two rates (Newcombe's way, or MOVER): unlike
multiples of a spread, these know that the spread itself is estimated, and how skewed a rate near 0 is.

The cheap bootstrap (Lam) needs two replicates only: replicate minus estimate and estimate minus truth have the same
normal law and are independent, so that the error over the root mean square of B replicates' errors has Student's t law
with B degrees of freedom. Of several gaps each then has its level by Bonferroni's rule, as the farthest of a handful
of replicates says nothing about the farthest of forty.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from secrets import randbits
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, polygamma
from scipy.stats import norm, t

from surefair.criteria import CRITERIA, Criterion, Rate
from surefair.diagnostics import Diagnostic, TooFewReplicates, check_distinct, check_evaluation_set, issue
from surefair.inference.counts import Counts, count_decisions
from surefair.inference.scoring import binomial_limits
from surefair.learners.multipliers import EVALUATION, uniforms
from surefair.names import one_of
from surefair.rows.arrays import (
    Column,
    FloatArray,
    as_column,
    as_columns,
    as_weight,
    make_frame,
    same_length,
    some_weight,
)
from surefair.rows.groups import Groups, Levels, together

SOURCES = {
    "training": "the gap, on these evaluation rows, of the optimum that training estimates",
    "retraining": "the gap, on these evaluation rows, of a model trained afresh on as many new rows",
    "evaluation": "the gap, in the population, of this very model",
    "total": "the gap, in the population, of the optimum that training estimates",
}
"""What an interval of each source estimates."""

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
"""Minus the logarithm of a rate of 0: stands for infinity, with which one cannot reckon. Others are below 750."""


class RowsNeeded(NamedTuple):
    """How many more rows would decide a verdict, if estimates stay where they are; inf where no number would."""

    training: float  # more training rows, evaluation rows as they are
    evaluation: float  # more evaluation rows, training rows as they are
    times: float  # factor by which both together must grow


@dataclass(frozen=True, eq=False, repr=False)
class Interval:
    """A confidence interval for the unfairness of a model.

    Attributes
    ----------
    estimate, low, high : float
        Unfairness: the largest absolute gap between two groups. Of a ratio: the smallest ratio of the smaller rate to
        the larger, 1 at parity.
    gap, gap_low, gap_high : float
        Signed gap of the pair with the largest: rate of its first group minus rate of its second; 0 is parity. Of a
        ratio: the difference of their logarithms.
    pair : tuple
        The two groups.
    column : str or None
        Sensitive column they belong to, where columns have names.
    rate : str
        Rate in which they differ most.
    by_group : data frame
        One row per group: group, n (rows that enter its rate), rate, low, high, each for itself alone; before them
        column, where columns have names, and metric, where there are several rates.
    by_pair : data frame
        One row per pair of groups: first, second, gap, low, high, whose limits hold for all pairs together, and the
        pair's spread_training and spread_evaluation; before them column and metric likewise.
    metric, source, method : str
    confidence_level : float
    n : int
        Evaluation rows.
    n_training : int
        Rows trained on; 0 for the predictions of any model.
    spread_training, spread_evaluation : float
        Standard deviations of the gap from training alone and from the evaluation rows alone; 0 where the interval
        does not cover that source, and in "total" where that of training cannot be told from evaluation noise.
    reason : str
        Why an interval is the whole range, or open on one side, where it is; otherwise empty.
    sentence : str
        What is estimated, in words.
    warnings : tuple of str
        What was warned of, "Name: message" each; the names are those of ``surefair.diagnostics``. Intervals that differ
        in nothing else are equal.
    """

    estimate: float
    low: float
    high: float
    gap: float
    gap_low: float
    gap_high: float
    pair: tuple[Any, Any]
    column: str | None
    rate: str
    by_group: Any
    by_pair: Any
    metric: str
    source: str
    method: str
    confidence_level: float
    n: int
    n_training: int
    spread_training: float
    spread_evaluation: float
    reason: str
    sentence: str
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<{self.metric}, {self.source}, {self.confidence_level:.6g}: {self._numbers(' [', ']')}>"

    def __str__(self) -> str:
        numbers = self._numbers(", interval [", "]", "; ")
        reason = f" Not all is defined: {self.reason}." if self.reason else ""
        return f"{self.sentence} {numbers[0].upper()}{numbers[1:]}.{reason}"

    def _numbers(self, opening: str, closing: str, between: str = ", ") -> str:
        """Gap and unfairness with their limits, as text."""
        words = ("log ratio", "ratio") if self.metric.endswith("_ratio") else ("gap", "unfairness")
        gap = f"{words[0]} {self.gap:.4f}{opening}{self.gap_low:.4f}, {self.gap_high:.4f}{closing}"
        return f"{gap}{between}{words[1]} {self.estimate:.4f}{opening}{self.low:.4f}, {self.high:.4f}{closing}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Interval) and self.to_dict() | {"warnings": []} == other.to_dict() | {"warnings": []}

    __hash__ = None  # type: ignore[assignment]

    def to_dict(self) -> dict[str, Any]:
        """Plain values only, ready for JSON; an undefined or infinite number is None."""
        fields = {name: plain(getattr(self, name)) for name in self.__dataclass_fields__}
        for name in ("by_group", "by_pair"):
            rows = nw.from_native(getattr(self, name), eager_only=True).rows(named=True)
            fields[name] = [{column: plain(value) for column, value in row.items()} for row in rows]
        return fields

    def to_frame(self) -> Any:
        """One row: metric, source, method, confidence_level, n, unfairness, and the largest gap with its pair."""
        names = ("metric", "source", "method", "confidence_level", "n", "estimate", "low", "high")
        row = {name: getattr(self, name) for name in names}
        row |= {} if self.column is None else {"column": self.column}
        row |= {"rate": self.rate, "first": self.pair[0], "second": self.pair[1]}
        row |= {name: getattr(self, name) for name in ("gap", "gap_low", "gap_high", "reason")}
        return make_frame({name: [value] for name, value in row.items()}, like=self.by_group)

    def verdict(self, margin: float) -> str:
        """Whether the unfairness is within a margin, as far as this interval tells.

        Each definite verdict is wrong with a probability of at most one minus the confidence level, even where the true
        unfairness is the margin itself. Like the interval, a verdict is for one look. Few rows cannot show that groups
        are alike: at level 0.95, ten of each of two groups never show that a margin below 0.3 is kept.

        Parameters
        ----------
        margin : float
            The largest acceptable gap; of a ratio the least acceptable, 0.8 for the four-fifths rule.

        Returns
        -------
        {"within margin", "violates margin", "not enough evidence"}
            Whether the whole interval is within the margin, all of it is beyond, or neither.

        Examples
        --------
        >>> group, decision = ["a", "b"] * 500, [0, 0, 0, 1, 1, 1, 0, 1] * 125
        >>> interval = fairness_interval([0, 1] * 500, decision, sensitive_features=group)
        >>> interval
        <demographic_parity, evaluation, 0.95: gap -0.5000 [-0.5513, -0.4452], unfairness 0.5000 [0.4452, 0.5513]>
        >>> [interval.verdict(margin) for margin in (0.2, 0.5, 0.6)]
        ['violates margin', 'not enough evidence', 'within margin']
        """
        if not (isinstance(margin, Real) and 0.0 < float(margin) < 1.0):
            raise ValueError(
                f"margin must lie strictly between 0 and 1, for example 0.1 for a difference or 0.8 for a ratio; "
                f"received {margin!r}."
            )
        if self.source not in ("evaluation", "total"):
            raise ValueError(
                f"An interval of source {self.source!r} leaves out the noise of the evaluation rows, so it cannot "
                "carry a verdict. Ask for an interval with source='total' or source='evaluation'."
            )
        if self.method == "paper":
            raise ValueError(
                "The published interval, method='paper', does not hold its level, so it cannot carry a verdict. Ask "
                "for an interval by another method, such as 'percentile'."
            )
        ratio, margin = self.metric.endswith("_ratio"), float(margin)
        if self.low >= margin if ratio else self.high <= margin:
            return "within margin"
        return "violates margin" if (self.high < margin if ratio else self.low > margin) else "not enough evidence"

    def rows_needed(self, margin: float) -> RowsNeeded:
        """Forecast how many more rows would decide the verdict, if estimates stay where they are.

        The variance of a gap has a part that shrinks as training rows are added, and one that shrinks as evaluation
        rows are; limits move towards the gap with the root of their sum. All pairs of groups count: each must come
        within the margin, or one must be beyond. Groups are taken to grow in proportion. Where rows are so few that
        limits were made exact, these shrink faster than by the root law, and the forecast is rough.

        Parameters
        ----------
        margin : float
            As in ``verdict``.

        Returns
        -------
        RowsNeeded
            ``training`` and ``evaluation``: rows to add of the one kind alone. ``times``: the factor by which both
            together must grow. 0, 0 and 1 where the verdict is definite already; infinite where no number of rows would
            do: the estimate is on the margin, the other kind's noise alone is too much, a gap is undefined or infinite.

        Examples
        --------
        >>> group, decision = ["a", "b"] * 500, [0, 0, 0, 1, 1, 1, 0, 1] * 125
        >>> interval = fairness_interval([0, 1] * 500, decision, sensitive_features=group)
        >>> interval.rows_needed(0.52)
        RowsNeeded(training=inf, evaluation=5578, times=6.577)
        """
        if self.verdict(margin) != "not enough evidence":
            return RowsNeeded(0, 0, 1.0)
        edge, beyond = float(margin), self.estimate > margin
        if self.metric.endswith("_ratio"):
            edge, beyond = -math.log(margin), self.estimate < margin
        pairs = nw.from_native(self.by_pair, eager_only=True)
        gap, low, high, training, evaluation = (
            np.array(pairs[name].to_list(), dtype=np.float64)
            for name in ("gap", "low", "high", "spread_training", "spread_evaluation")
        )
        a, b = training**2, evaluation**2
        share = np.where(np.isfinite(a + b), _share_left(gap, low, high, edge, beyond), 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            aim = share**2 * (a + b)  # what may be left of the variance
            grown = np.stack([a / (aim - b), b / (aim - a), 1.0 / share**2])
        grown = np.where(np.stack([aim > b, aim > a, share > 0.0]), grown, np.inf)
        grown = np.where(share >= 1.0, 1.0, grown)
        by_training, by_evaluation, times = (grown.min(axis=1) if beyond else grown.max(axis=1)).tolist()
        return RowsNeeded(_more(self.n_training, by_training), _more(self.n, by_evaluation), times)


def _share_left(gap: FloatArray, low: FloatArray, high: FloatArray, edge: float, beyond: bool) -> FloatArray:
    """Share of its length that may be left of the way from each gap to its limits, for a definite verdict; 0 for never.

    Where the largest gap is beyond the edge, the limit next to 0 must be; otherwise both limits must come within.
    """
    size = np.abs(gap)
    with np.errstate(divide="ignore", invalid="ignore"):  # a gap or its limits may be infinite
        outer, inner = np.where(gap < 0.0, [gap - low, high - gap], [high - gap, gap - low])
        share = (size - edge) / inner if beyond else np.minimum((edge - size) / outer, (edge + size) / inner)
    return np.where(share > 1e-6, np.minimum(share, 1.0), 0.0)  # less is on the edge, but for rounding


def _more(n: int, times: float) -> float:
    """Rows to add for so many times as many."""
    return math.ceil((times - 1.0) * n) if times < np.inf else np.inf


def plain(value: Any) -> Any:
    """Convert a NumPy scalar to Python's own type, a tuple to a list, and a number that JSON lacks to None."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, tuple):
        return [plain(part) for part in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


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
    spread, and ``cheap`` their distance from the estimate with Student's t law, which holds for two replicates, too.
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


def check_replicate_number(
    n_replicates: int, confidence_level: float, method: str, several: bool = False
) -> list[Diagnostic]:
    """Warn where no quantile of so few replicates lies far enough out.

    Both tails are needed, or, where the limits of several gaps hold together, the tail of the farthest.
    """
    tails = 0 if method == "cheap" else 2 if method != "normal" else 1 if several else 0
    needed = math.ceil(tails / (1.0 - confidence_level) - 1e-9) - 1
    if n_replicates >= needed:
        return []
    return [
        TooFewReplicates(
            f"{n_replicates} replicates are too few for a {method} interval of level {confidence_level:.6g}, which "
            f"needs {needed}: it is narrower than its level says. Use method='cheap', or more replicates."
        )
    ]


def get_metric(metric: str | Criterion) -> tuple[Criterion, bool]:
    """Criterion that a metric measures, and whether by ratios; "_ratio" after a criterion's name asks for these.

    Examples
    --------
    >>> criterion, ratio = get_metric("error_rate_ratio")
    >>> criterion.name, ratio
    ('error_rate', True)
    """
    if isinstance(metric, Criterion):
        return metric, False
    metrics = {name: (criterion, False) for name, criterion in CRITERIA.items()}
    metrics |= {f"{name}_ratio": (criterion, True) for name, criterion in CRITERIA.items()}
    return metrics[one_of(metric, metrics, "metric")]


def compared_rates(criterion: Criterion, ratio: bool) -> tuple[Rate, ...]:
    """Rates that a metric compares between groups."""
    return criterion.ratio_rates if ratio and criterion.ratio_rates else criterion.rates


def rates_of(rates: tuple[Rate, ...], counts: Counts) -> FloatArray:
    """Rates as counted, shape (..., rates, groups)."""
    return np.stack([rate.of(counts.weight) for rate in rates], axis=-2)


def settled(trained: FloatArray, halves: FloatArray, groups: Groups) -> FloatArray:
    """Rates of replicates as they would spread in the population, from rates on all evaluation rows and on two halves.

    On a sample, gaps between groups move from replicate to replicate also because it has these rows, not others, near
    the boundary. That is noise of the evaluation rows, which reweighting them accounts for; counted twice it would make
    intervals too wide. What the population shows, both halves show: their covariance over the replicates is the
    variance in the population, and how far a group's rate moves apart from those of the other groups is scaled to it.

    Parameters
    ----------
    trained : ndarray of shape (1 + B, rates, groups)
        Of the fit, then of its replicates.
    halves : ndarray of shape (2, 1 + B, rates, groups)
    groups : Groups

    Returns
    -------
    ndarray of shape (B, rates, groups)
    """
    moved = np.concatenate([trained[None], halves])
    moved = moved[:, 1:] - moved[:, :1]
    together = np.empty_like(moved)
    for low, size in zip(groups.offsets, groups.sizes, strict=True):
        column = slice(low, low + size)
        together[..., column] = _mean(moved[..., column], axis=-1)[..., None]
    all_apart, one_apart, other_apart = moved - together
    variance, common = _mean(all_apart**2, axis=0), _mean(one_apart * other_apart, axis=0)
    share = np.divide(common, variance, out=np.ones_like(variance), where=(variance > 0.0) & ~np.isnan(common))
    return np.asarray((trained[:1] + together[0] + np.sqrt(share.clip(0.0, 1.0)) * all_apart).clip(0.0, 1.0))


def _mean(values: FloatArray, axis: int) -> FloatArray:
    """Mean of what is defined; NaN where nothing is."""
    known = ~np.isnan(values)
    total, n = np.where(known, values, 0.0).sum(axis=axis), known.sum(axis=axis)
    return np.asarray(np.divide(total, n, out=np.full(total.shape, np.nan), where=n > 0))


def reweigh(rates: tuple[Rate, ...], counts: Counts, seed: int, trained: FloatArray | None = None) -> FloatArray:
    """Rates of each replicate with its evaluation rows reweighted.

    Every rate of every group has numbers of its own. This is exact where rates look at different rows, as those of
    equalized odds do. Groups of different sensitive columns share rows, which is left out of account: taking their gaps
    for independent makes the limits that hold for all of them a little wider than they need be.

    Parameters
    ----------
    rates : tuple of Rate
    counts : Counts of arrays of shape (1 + B, groups, 2, 2)
        Counts of the fit, then of its replicates.
    seed : int
    trained : ndarray of shape (B, rates, groups), optional
        Rates of the replicates, where they are not as counted.

    Returns
    -------
    ndarray of shape (B, rates, groups)
    """
    B, G = len(counts.rows) - 1, counts.rows.shape[1]
    u = uniforms(seed, 0, 2 * G * len(rates), B + 1, EVALUATION)[:, 1:].reshape(len(rates), G, 2, B)
    u = u[:, _places(counts.of(0))].transpose(2, 3, 0, 1)  # (counted or not, B, rates, groups)
    C, Q = _sides(rates, counts.of(slice(1, None)))
    some = (C > 0.0) & (Q > 0.0)
    unit = np.divide(Q, C, out=np.zeros_like(C), where=some)
    # half a row weighs what the other rows of its side weigh, or those of the other side, or 1
    unit = np.where(some, unit, np.where(some[::-1], unit[::-1], 1.0))
    if trained is not None:
        C = np.where(np.isnan(trained), C, C.sum(axis=0) * np.stack([trained, 1.0 - trained]))
    counted, others = unit * gammaincinv(C / unit + 0.5, u)
    return np.asarray(counted / (counted + others))


def _sides(rates: tuple[Rate, ...], counts: Counts) -> tuple[FloatArray, FloatArray]:
    """Weights, and squared weights, of the rows counted towards each rate and of the others that enter it.

    Both of shape (2, ..., rates, groups).
    """

    def add_up(table: FloatArray) -> FloatArray:
        sides = []
        for rate in rates:
            others = tuple(cell for cell in rate.denominator if cell not in rate.numerator)
            sides.append([sum(table[..., t, d] for t, d in cells) for cells in (rate.numerator, others)])
        return np.moveaxis(np.array(sides, dtype=np.float64), 0, -2)

    return add_up(counts.weight), add_up(counts.square)


def _places(fit: Counts) -> NDArray[np.intp]:
    """Place of each group when they are sorted by their counts: its random numbers then follow it under any name."""
    tables = np.stack(fit, axis=1)
    order = sorted(range(len(tables)), key=lambda group: tables[group].ravel().tolist())
    return np.argsort(order)


def make_interval(
    criterion: Criterion,
    counts: Counts,
    rates_b: FloatArray,
    groups: Groups,
    *,
    ratio: bool,
    source: str,
    method: str,
    confidence_level: float,
    trained: FloatArray | None = None,
    n_training: int = 0,
    positive: Any = None,
    like: Any = None,
    trouble: str = "",
    notes: str = "",
    found: Sequence[Diagnostic] = (),
    stacklevel: int = 3,
) -> Interval:
    """Interval for the largest gap between groups; warns of what is found, at the caller's caller.

    Parameters
    ----------
    criterion : Criterion
        What is measured.
    counts : Counts of arrays of shape (groups, 2, 2)
        Counts of the fit itself.
    rates_b : ndarray of shape (B, rates, groups)
        Rates in the replicates.
    groups : Groups
    ratio : bool
        Whether rates are compared by ratios.
    source, method : str
    confidence_level : float
    trained : ndarray of shape (B, rates, groups), optional
        Of source "total": rates in the replicates with the evaluation rows as they are.
    n_training : int
        Rows trained on.
    positive : value, optional
        The positive label, for the sentence.
    like : data frame, optional
        Whose library the tables are given in.
    trouble : str
        Why the replicates say nothing, if they do not; every interval is then the whole range.
    notes : str
        What else is to be said, one more sentence without its full stop.
    found : sequence of Diagnostic
        What to warn of besides.
    """
    rates = compared_rates(criterion, ratio)
    measured, (first, second) = rates_of(rates, counts), _pairs(groups)
    effective = _effective(rates, counts) if source in ("evaluation", "total") else None
    signed_method = "percentile" if method == "paper" else method
    low, high = _rate_limits(measured, rates_b, effective, confidence_level, signed_method)
    gaps = _gap_limits(measured, rates_b, first, second, effective, ratio, confidence_level, signed_method)
    trained = rates_b if source in ("training", "retraining") else trained
    if trouble:
        low, high, gaps = np.zeros_like(low), np.ones_like(high), gaps._replace(sure=np.zeros_like(gaps.sure))
    spreads = [np.where(gaps.sure, x, np.nan) for x in _spreads(measured, trained, effective, first, second, ratio)]
    top = np.inf if ratio else 1.0
    gap_low, gap_high = np.where(gaps.sure, gaps.low, -top), np.where(gaps.sure, gaps.high, top)

    best = np.unravel_index(np.argmax(np.where(np.isnan(gaps.gap), -1.0, np.abs(gaps.gap))), gaps.gap.shape)
    folded = [fold(*ends) for ends in zip(gap_low.ravel().tolist(), gap_high.ravel().tolist(), strict=True)]
    unfair = np.array([np.abs(gaps.gap[best]), *np.max(folded, axis=0)])
    if method == "paper" and gaps.sure.all():
        unfair[1:] = limits(unfair[0], _largest_gaps(rates_b, groups, ratio), confidence_level, "percentile")
    if ratio:
        unfair = np.exp(-unfair[[0, 2, 1]])

    labels = groups.labels
    below = np.stack([rate.tally(counts.rows)[1] for rate in rates]).astype(np.int64)
    by_group = {"n": below, "rate": measured, "low": low, "high": high}
    by_pair = {"gap": gaps.gap, "low": gap_low, "high": gap_high}
    by_pair |= {"spread_training": spreads[0], "spread_evaluation": spreads[1]}
    rate, a, b = rates[best[0]], labels[first[best[1]]], labels[second[best[1]]]
    doubts = [*found, *check_replicate_number(len(rates_b), confidence_level, method, gaps.gap.size > 1)]
    if not trouble and effective is not None:
        doubts += check_evaluation_set(effective, groups.words)
    elif not trouble:
        doubts += check_distinct(rates_b[:, best[0], first[best[1]]] - rates_b[:, best[0], second[best[1]]])
    return Interval(
        estimate=float(unfair[0]), low=float(unfair[1]), high=float(unfair[2]),
        gap=float(gaps.gap[best]), gap_low=float(gap_low[best]), gap_high=float(gap_high[best]),
        pair=(a[1], b[1]), column=a[0], rate=rate.name,
        by_group=_table(rates, groups.table(), by_group, like),
        by_pair=_table(rates, groups.table(first, "first") | groups.table(second, "second"), by_pair, like),
        metric=criterion.name + "_ratio" * ratio, source=source, method=method, confidence_level=confidence_level,
        n=int(counts.rows[: groups.sizes[0]].sum()), n_training=n_training,
        spread_training=float(spreads[0][best]), spread_evaluation=float(spreads[1][best]),
        reason=trouble or _reason(rates, groups, measured, gaps),
        sentence=f"{confidence_level:.6g} interval for {SOURCES[source]}; {_words(rates, groups, ratio, rate, a, b)}"
        + f" The positive label is {positive!r}." * (positive is not None)
        + f" {notes}." * bool(notes),
        warnings=issue(doubts, stacklevel=stacklevel),
    )  # fmt: skip


# -- Gaps and their limits --------------------------------------------------------------------------------------------


class _Gaps(NamedTuple):
    """Gaps of all pairs in all rates, with limits; arrays of shape (rates, pairs)."""

    gap: FloatArray  # NaN where undefined
    low: FloatArray
    high: FloatArray
    sure: NDArray[np.bool_]  # whether limits are defined


def _pairs(groups: Groups) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """First and second group of every pair within a column, groups numbered through.

    Examples
    --------
    >>> _pairs(Groups({"a": Levels(np.arange(2), "group"), "b": Levels(np.arange(3), "group")}))
    (array([0, 2, 2, 3]), array([1, 3, 4, 4]))
    """
    parts = [np.stack(np.triu_indices(n, 1)) + low for n, low in zip(groups.sizes, groups.offsets, strict=True)]
    first, second = np.hstack(parts)
    return first, second


def _rate_limits(
    measured: FloatArray, rates_b: FloatArray, effective: FloatArray | None, confidence_level: float, method: str
) -> tuple[FloatArray, FloatArray]:
    """Limits of each rate for itself, shape (rates, groups); [0, 1] where it is undefined."""
    low, high = limits(measured, rates_b, confidence_level, method)
    if effective is not None:  # a rate of 0 or 1 is possible however few rows showed it
        low, high = np.fmin(low, measured), np.fmax(high, measured)
        exact_low, exact_high = _binomial_limits(effective, confidence_level)
        few = _few(effective)
        low, high = np.where(few, np.fmin(low, exact_low), low), np.where(few, np.fmax(high, exact_high), high)
    undefined = np.isnan(measured) | np.isnan(rates_b).any(axis=0)
    return np.where(undefined, 0.0, low.clip(0.0, 1.0)), np.where(undefined, 1.0, high.clip(0.0, 1.0))


def _gap_limits(
    measured: FloatArray,
    rates_b: FloatArray,
    first: NDArray[np.intp],
    second: NDArray[np.intp],
    effective: FloatArray | None,
    ratio: bool,
    confidence_level: float,
    method: str,
) -> _Gaps:
    """Limits of all gaps: of a single one by the method, of several so that they hold together."""
    value, value_b = _on_scale(measured, ratio), _on_scale(rates_b, ratio)
    gap = _gap(value, first, second, ratio)
    centre, spread, farthest = gap.copy(), np.empty_like(gap), np.zeros(len(rates_b))
    for j, p in np.ndindex(len(gap), -(-gap.shape[1] // CHUNK)):
        some = j, slice(p * CHUNK, (p + 1) * CHUNK)
        gap_b, far = _gap(value_b[:, j], first[some[1]], second[some[1]], ratio), _is_far(gap[some])
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
        # never of a lower level than asked for, however few the replicates
        single = _binomial_limits(effective, max(1.0 - 2.0 * float(norm.sf(c)), confidence_level))
        least_low, least_high = _mover(value, single, first, second, ratio)
        wider = _few(effective)[:, first] | _few(effective)[:, second] | (gap.size > 1)
        low, high = np.where(wider, np.fmin(low, least_low), low), np.where(wider, np.fmax(high, least_high), high)
    known = gap if effective is not None else np.where(_is_far(gap), gap, np.nan)  # which limits are to contain
    low, high = np.fmin(low, known), np.fmax(high, known)
    gap, low, high = (_open(x) if ratio else x.clip(-1.0, 1.0) for x in (gap, low, high))
    return _Gaps(gap, low, high, sure)


def _spreads(
    measured: FloatArray,
    trained: FloatArray | None,
    effective: FloatArray | None,
    first: NDArray[np.intp],
    second: NDArray[np.intp],
    ratio: bool,
) -> tuple[FloatArray, FloatArray]:
    """Standard deviations of all gaps, from training alone and from evaluation alone.

    Of replicates about the estimate; of evaluation rows as in the beta laws that ``reweigh`` draws from.
    """
    training = evaluation = np.zeros((len(measured), len(first)))
    if trained is not None:
        off = _on_scale(trained, ratio) - _on_scale(measured, ratio)
        both = np.einsum("bjg,bjh->jgh", off, off, optimize=True) / len(off)
        own = np.einsum("jgg->jg", both)
        training = np.sqrt(np.maximum(own[:, first] + own[:, second] - 2.0 * both[:, first, second], 0.0))
    if effective is not None:
        counted, others = effective + 0.5
        total = counted + others
        variance = counted * others / (total**2 * (total + 1.0))
        if ratio:  # of the logarithm
            variance = polygamma(1, counted) - polygamma(1, total)
        evaluation = np.sqrt(variance[:, first] + variance[:, second])
    return (_open(training), _open(evaluation)) if ratio else (training, evaluation)


def _on_scale(rates: FloatArray, ratio: bool) -> FloatArray:
    """Rates, or their logarithms where ratios are compared."""
    if not ratio:
        return rates
    return np.asarray(np.log(rates, out=np.where(np.isnan(rates), np.nan, -FAR), where=rates > 0.0))


def _gap(value: FloatArray, first: NDArray[np.intp], second: NDArray[np.intp], ratio: bool) -> FloatArray:
    """Gaps along the last axis; the ratio of 0 to 0 is undefined."""
    a, b = value[..., first], value[..., second]
    return np.where((a == -FAR) & (b == -FAR), np.nan, a - b) if ratio else a - b


def _is_far(gap: FloatArray) -> NDArray[np.bool_]:
    return np.abs(gap) > 750.0


def _open(gap: FloatArray) -> FloatArray:
    """Infinity where something stands for it."""
    return np.where(_is_far(gap), np.copysign(np.inf, gap), gap)


def _largest_gaps(rates_b: FloatArray, groups: Groups, ratio: bool) -> FloatArray:
    """Unfairness of each replicate, shape (B,); of ratios, its logarithm with the sign turned."""
    value_b = _on_scale(rates_b, ratio)
    columns = np.split(value_b, groups.offsets[1:], axis=2)
    return np.asarray(np.max([np.ptp(column, axis=2).max(axis=1) for column in columns], axis=0))


def fold(low: float, high: float) -> tuple[float, float]:
    """Interval for |gap| from an interval for the signed gap.

    Examples
    --------
    >>> fold(-0.03, 0.01), fold(-0.3, -0.1)
    ((0.0, 0.03), (0.1, 0.3))
    """
    return (0.0 if low <= 0.0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))


# -- Few rows ---------------------------------------------------------------------------------------------------------


def _effective(rates: tuple[Rate, ...], counts: Counts) -> FloatArray:
    """Rows counted towards each rate, and the others that enter it, as many as their weights are worth (Kish).

    Shape (2, rates, groups); without sample weights the numbers of rows.
    """
    C, Q = _sides(rates, counts)
    total, squares = C.sum(axis=0), Q.sum(axis=0)
    return np.asarray(np.divide(C * total, squares, out=np.zeros_like(C), where=squares > 0.0))


def _few(effective: FloatArray) -> NDArray[np.bool_]:
    return np.asarray(np.rint(effective).min(axis=0) < FEW)


def _binomial_limits(effective: FloatArray, confidence_level: float) -> tuple[FloatArray, FloatArray]:
    """Limits of rates without replicates: the exact ones where rows are few, otherwise by Jeffreys' prior.

    Examples
    --------
    >>> low, high = _binomial_limits(np.array([[0.0, 3.0, 30.0], [3.0, 0.0, 30.0]]), 0.95)
    >>> low.round(3), high.round(3)
    (array([0.   , 0.292, 0.376]), array([0.708, 1.   , 0.624]))
    """
    counted, others = effective
    return binomial_limits(counted, others, confidence_level, half=np.where(_few(effective), 0.0, 0.5))


def _mover(
    value: FloatArray,
    single: tuple[FloatArray, FloatArray],
    first: NDArray[np.intp],
    second: NDArray[np.intp],
    ratio: bool,
) -> tuple[FloatArray, FloatArray]:
    """Limits of gaps from limits of their two rates; where a gap is infinite, the farthest that those allow."""
    (a, b), gap = (value[:, first], value[:, second]), value[:, first] - value[:, second]
    (low_a, low_b), (high_a, high_b) = (
        (end[:, first], end[:, second]) for end in (_on_scale(x, ratio) for x in single)
    )
    low = np.where(_is_far(gap), low_a - high_b, gap - np.hypot(a - low_a, high_b - b))
    high = np.where(_is_far(gap), high_a - low_b, gap + np.hypot(high_a - a, b - low_b))
    return low, high


# -- Words and tables -------------------------------------------------------------------------------------------------


def _table(rates: tuple[Rate, ...], names: dict[str, list[Any]], numbers: dict[str, Any], like: Any) -> Any:
    """Tidy frame of arrays (rates, rows), with the names of rows and, where there are several, of rates before them."""
    table: dict[str, list[Any]] = {name: values * len(rates) for name, values in names.items()}
    if len(rates) > 1:
        table["metric"] = [rate.name for rate in rates for _ in next(iter(names.values()))]
    order = [name for name in ("column", "metric", *names) if name in table]
    table = {name: table[name] for name in order} | {name: array.ravel().tolist() for name, array in numbers.items()}
    return make_frame(table, like=like)


def _words(
    rates: tuple[Rate, ...],
    groups: Groups,
    ratio: bool,
    rate: Rate,
    a: tuple[str | None, Any],
    b: tuple[str | None, Any],
) -> str:
    """What gap and unfairness are."""
    among = "" if a[0] is None else f" of {a[0]!r}"
    gap = f"the {rate.words} of group {a[1]!r}{among} {'over' if ratio else 'minus'} that of group {b[1]!r}"
    gap = f"the logarithm of {gap}" if ratio else gap
    if len(rates) == 1 and groups.sizes == (2,):
        return (
            f"the gap is {gap}, the unfairness {'the smaller rate over the larger' if ratio else 'its absolute value'}."
        )
    largest = "smallest ratio of the smaller rate to the larger" if ratio else "largest absolute gap"
    names = ", ".join(repr(name) for name in groups.levels)
    columns = f" of any of the columns {names}" if len(groups.levels) > 1 else ""
    which = f", in any of the rates {', '.join(rate.name for rate in rates)}" if len(rates) > 1 else ""
    return f"the unfairness is the {largest} between any two groups{columns}{which}; here the gap is {gap}."


def _reason(rates: tuple[Rate, ...], groups: Groups, measured: FloatArray, gaps: _Gaps) -> str:
    """Why limits are missing, and what to do; empty where none are."""
    if gaps.sure.all():
        return ""
    j, g = np.argwhere(np.isnan(measured))[0] if np.isnan(measured).any() else (0, 0)
    if np.isnan(measured[j, g]):
        (column, value), more = groups.labels[g], int(np.isnan(measured).any(axis=0).sum()) - 1
        among = "" if column is None else f" of {column!r}"
        others = "" if more == 0 else f" (nor have {more} other groups)"
        return (
            f"group {value!r}{among} has no evaluation row that enters the {rates[j].words}{others}: "
            "evaluate on more rows, or merge the group with another"
        )
    if np.isnan(gaps.gap).any():
        j = int(np.argwhere(np.isnan(gaps.gap))[0, 0])
        return f"the {rates[j].words} is 0 in two groups, and 0 over 0 is undefined: look at the difference instead"
    j = int(np.argwhere(~gaps.sure)[0, 0])
    return f"the {rates[j].words} is undefined in some replicates"


# -- Any model --------------------------------------------------------------------------------------------------------


def fairness_interval(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    metric: str | Criterion = "demographic_parity",
    pos_label: Any = None,
    confidence_level: float = 0.95,
    method: str = "percentile",
    n_replicates: int = 2000,
    random_state: int | None = 0,
    sample_weight: Any = None,
    intersections: bool = False,
    threshold: float | None = None,
) -> Interval:
    """Interval for the unfairness of any model's predictions, over the evaluation rows alone.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        Labels, two values of any type.
    y_pred : array-like of shape (n_rows,)
        Decisions, of the same two values; or scores, with a threshold.
    sensitive_features : array-like of shape (n_rows,), data frame or dict of columns
        Group of each row, values of any type, in one or several columns.
    metric : str or Criterion
        What is compared between the groups; with "_ratio" after its name, by ratios.
    pos_label : value, optional
        The positive label; by default the second in sorted order.
    confidence_level : float
    method : {"percentile", "basic", "normal", "cheap", "paper"}
        How replicates become limits, of a gap between two groups and of every rate for itself. Of several gaps, the
        limits hold together, by any of these methods alike but for "cheap", which is valid with 2 replicates or more,
        and wide with few. "paper" is the published version, for reproduction only.
    n_replicates : int
        2 or more; a warning says so if they are too few for the method.
    random_state : int or None
        Seed: same data, same seed, same interval. None takes a new one each time.
    sample_weight : array-like of shape (n_rows,), optional
        How much each row counts.
    intersections : bool
        Whether to compare also the groups that several sensitive columns form together.
    threshold : float, optional
        ``y_pred`` are scores, and a score of at least this much is a positive decision.

    Returns
    -------
    Interval

    Examples
    --------
    >>> interval = fairness_interval(
    ...     y_true=[1, 0, 1, 0, 1, 0, 1, 0] * 20, y_pred=[1, 0, 1, 1, 0, 0, 1, 0] * 20,
    ...     sensitive_features=["a", "a", "a", "a", "b", "b", "b", "b"] * 20,
    ... )
    >>> round(interval.estimate, 2), round(interval.low, 2), round(interval.high, 2)
    (0.5, 0.36, 0.62)
    """
    criterion, ratio = get_metric(metric)
    one_of(method, METHODS, "method")
    check_level(confidence_level)
    if not (isinstance(n_replicates, int | np.integer) and n_replicates >= 2):
        raise ValueError(f"n_replicates must be a whole number, 2 or larger; received {n_replicates!r}.")
    if random_state is not None and not (isinstance(random_state, int | np.integer) and 0 <= random_state < 2**64):
        raise ValueError(f"random_state must be None or a whole number from 0 up; received {random_state!r}.")
    true, predicted = as_column(y_true, "label"), as_column(y_pred, "decision" if threshold is None else "score")
    columns = as_columns(sensitive_features, intersections)
    n = same_length(y_true=true, y_pred=predicted, sensitive_features=next(iter(columns.values())).code)
    if n == 0:
        raise ValueError("There are no evaluation rows. Pass at least one row of each group.")
    weight, groups = as_weight(sample_weight, n), Groups.of(columns).check_comparable()
    if weight is not None:
        some_weight(weight, "to count")
    truth, decision, positive = _truth_and_decision(true, predicted, pos_label, threshold)
    counts = count_decisions(decision, truth, groups.codes(columns), groups.sizes, weight)
    seed = randbits(63) if random_state is None else int(random_state)
    alike = Counts(*(np.broadcast_to(table, (1 + n_replicates, *table.shape)) for table in counts))
    rates_b = reweigh(compared_rates(criterion, ratio), alike, seed)
    like = next(iter(sensitive_features.values())) if isinstance(sensitive_features, dict) else sensitive_features
    return make_interval(
        criterion, counts, rates_b, groups, ratio=ratio, source="evaluation", method=method,
        confidence_level=confidence_level, positive=positive, like=like,
    )  # fmt: skip


def _truth_and_decision(
    true: Column, predicted: Column, pos_label: Any, threshold: float | None
) -> tuple[NDArray[np.int64], NDArray[np.int64], Any]:
    """Labels and decisions as 0 and 1, and the label that is 1."""
    if threshold is not None:
        if not (isinstance(threshold, Real) and np.isfinite(float(threshold))):
            raise ValueError(f"threshold must be a finite number, for example 0.5; received {threshold!r}.")
        if predicted.dtype.kind not in "biuf":
            raise ValueError(
                f"With a threshold, y_pred must be numbers; received {predicted[:3].tolist()} and so on. "
                "Leave the threshold out if they are decisions."
            )
    labels = Levels.of(true if threshold is not None else together([true, predicted], "label"), "label")
    if pos_label is not None and pos_label not in labels.values.tolist() and len(labels.values) > 1:
        raise ValueError(f"pos_label={pos_label!r} is not among the labels {labels.values.tolist()}.")
    if threshold is None and len(labels.values) > 2 and predicted.dtype.kind == "f":
        raise ValueError(
            f"y_pred and y_true together hold {len(labels.values)} values; if y_pred are scores or probabilities, pass "
            "threshold=0.5, say, to make decisions of them."
        )
    if len(labels.values) > 2 or pos_label is None:
        labels.two()
    positive = labels.values.tolist()[-1] if pos_label is None else pos_label
    decision = predicted == positive if threshold is None else predicted >= threshold
    return (true == positive).astype(np.int64), decision.astype(np.int64), positive
