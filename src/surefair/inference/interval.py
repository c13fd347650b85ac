"""Interval: a confidence interval for the unfairness of a model, with its verdict and its tables.

The unfairness is the largest absolute gap. It lies between the largest of the folded lower limits of all gaps and the
largest of their upper limits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefair.criteria import Rate
from surefair.diagnostics import Diagnostic, degenerate_replicates, small_evaluation_set, too_few_replicates
from surefair.inference.counts import Counts, effective_sides, rates_of
from surefair.inference.limits import Gaps, Pairs, fold, gap_limits, gap_spreads, largest_gaps, limits, rate_limits
from surefair.inference.metric import Metric, ScoreMeasure
from surefair.inference.sources import SOURCES
from surefair.pages.summary import summary
from surefair.rows import FloatArray, Groups, IntArray, make_frame
from surefair.score_metrics import ScoreMetric

Columns = dict[str, list[Any]]
Named = tuple[Rate, ...] | tuple[ScoreMetric, ...]

WITHIN, VIOLATES, UNDECIDED = "within margin", "violates margin", "not enough evidence"


class RowsNeeded(NamedTuple):
    """How many more rows would decide a verdict if estimates stay where they are; inf where no number would."""

    training: float  # additional training rows, with the evaluation rows as they are
    evaluation: float  # additional evaluation rows, with the training rows as they are
    times: float  # factor by which both together must grow


@dataclass(frozen=True, eq=False, repr=False)
class Interval:
    """A confidence interval for the unfairness of a model.

    Attributes
    ----------
    estimate, low, high : float
        Unfairness: the largest absolute gap between two groups. For a ratio: the smallest ratio of the smaller rate to
        the larger, which is 1 at parity.
    gap, gap_low, gap_high : float
        Signed gap of the pair with the largest gap: rate of its first group minus rate of its second; 0 is parity. For
        a ratio: the difference of their logarithms.
    pair : tuple
        The two groups.
    column : str or None
        Sensitive column of these groups, where columns have names.
    rate : str
        Rate in which they differ most.
    by_group : data frame
        One row per group: group, n (rows that enter its rate), rate, low, high, where the limits hold for each group
        separately; before them column, where columns have names, and metric, where there are several rates.
    by_pair : data frame
        One row per pair of groups: first, second, gap, low, high, where the limits hold for all pairs together, and
        the pair's spread_training and spread_evaluation; before them column and metric as in ``by_group``.
    metric, source, method : str
    confidence_level : float
    n : int
        Evaluation rows.
    n_training : int
        Rows trained on; 0 for predictions of a model that surefair did not train.
    spread_training, spread_evaluation : float
        Standard deviations of the gap from training alone and from the evaluation rows alone; 0 where the interval
        does not cover that source, and in "total" where training noise cannot be separated from evaluation noise.
    reason : str
        Why the interval is the whole range, or open on one side; empty if it is neither.
    sentence : str
        The unfairness with its interval, and what they mean, in words.
    diagnostics : tuple of Diagnostic
        What makes the interval less trustworthy; see ``surefair.diagnostics``. Intervals that differ only in
        diagnostics are equal.
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
    _by_group: Columns
    _by_pair: Columns
    _library: str  # of the frames
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
    diagnostics: tuple[Diagnostic, ...] = ()

    def __repr__(self) -> str:
        words = ("log ratio", "ratio") if self.metric.endswith("_ratio") else ("gap", "unfairness")
        gap = f"{words[0]} {self.gap:.4f} [{self.gap_low:.4f}, {self.gap_high:.4f}]"
        unfairness = f"{words[1]} {self.estimate:.4f} [{self.low:.4f}, {self.high:.4f}]"
        return f"<{self.metric}, {self.source}, {self.confidence_level:.6g}: {gap}, {unfairness}>"

    def __str__(self) -> str:
        word = "Log ratio" if self.metric.endswith("_ratio") else "Gap"
        numbers = f"{word} {self.gap:.4f}, interval [{self.gap_low:.4f}, {self.gap_high:.4f}]"
        reason = f" Some numbers are undefined: {self.reason}." if self.reason else ""
        return f"{self.sentence} {numbers}.{reason}"

    def __eq__(self, other: object) -> bool:
        same: dict[str, Any] = {"diagnostics": []}
        return isinstance(other, Interval) and self.to_dict() | same == other.to_dict() | same

    __hash__ = None  # type: ignore[assignment]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; an undefined or infinite number becomes None."""
        fields = {name.lstrip("_"): plain(getattr(self, name)) for name in self.__dataclass_fields__}
        fields["diagnostics"] = [one.to_dict() for one in self.diagnostics]
        for name in ("by_group", "by_pair"):
            columns = fields[name]
            fields[name] = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        del fields["library"]
        return fields

    @property
    def by_group(self) -> Any:
        """One row per group, as a data frame."""
        return make_frame(self._by_group, like=self._library)

    @property
    def by_pair(self) -> Any:
        """One row per pair of groups, as a data frame."""
        return make_frame(self._by_pair, like=self._library)

    def to_frame(self) -> Any:
        """Return one row: metric, source, method, confidence_level, n, unfairness, largest gap and its pair."""
        names = ("metric", "source", "method", "confidence_level", "n", "estimate", "low", "high")
        row = {name: getattr(self, name) for name in names}
        row |= {} if self.column is None else {"column": self.column}
        row |= {"rate": self.rate, "first": self.pair[0], "second": self.pair[1]}
        row |= {name: getattr(self, name) for name in ("gap", "gap_low", "gap_high", "reason")}
        return make_frame({name: [value] for name, value in row.items()}, like=self._library)

    def _repr_html_(self) -> str:
        ratio = self.metric.endswith("_ratio")
        table = {
            "ratio" if ratio else "unfairness": f"{self.estimate:.4f} [{self.low:.4f}, {self.high:.4f}]",
            "log ratio" if ratio else "gap": f"{self.gap:.4f} [{self.gap_low:.4f}, {self.gap_high:.4f}]",
            "groups": f"{self.pair[0]!r} and {self.pair[1]!r}",
            "evaluation rows": f"{self.n:,}",
        }
        return summary(self.sentence, table, [str(one) for one in self.diagnostics])

    def verdict(self, margin: float) -> str:
        """Say whether the unfairness is within a margin, as far as this interval shows.

        Each definite verdict is wrong with a probability of at most one minus the confidence level, even where the true
        unfairness is the margin itself. Like the interval, a verdict is valid for one look, or for all looks together
        if the interval is an anytime one. Few rows cannot show that groups are treated equally: at level 0.95, ten rows
        of each of two groups never show that a margin below 0.3 is met. There is no definite verdict where a diagnostic
        rules it out.

        Parameters
        ----------
        margin : float
            The largest acceptable gap; for a ratio, the smallest acceptable one.

        Returns
        -------
        {"within margin", "violates margin", "not enough evidence"}
            Whether the whole interval is within the margin, the whole interval is beyond it, or neither.

        Examples
        --------
        >>> import surefair as sf
        >>> group, decision = ["a", "b"] * 500, [0, 0, 0, 1, 1, 1, 0, 1] * 125
        >>> interval = sf.fairness_interval([0, 1] * 500, decision, sensitive_features=group)
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
                "give a verdict. Ask for an interval with source='total' or source='evaluation'."
            )
        if self.method == "paper":
            raise ValueError(
                "The published interval, method='paper', does not reach its confidence level, so it cannot give a "
                "verdict. Ask for an interval with another method, such as 'percentile'."
            )
        if any(one.forbids_verdict for one in self.diagnostics):
            return UNDECIDED
        ratio = self.metric.endswith("_ratio")
        if self.low >= margin if ratio else self.high <= margin:
            return WITHIN
        return VIOLATES if (self.high < margin if ratio else self.low > margin) else UNDECIDED

    def rows_needed(self, margin: float) -> RowsNeeded:
        """Forecast how many more rows would decide the verdict if estimates stay where they are.

        The variance of a gap has one part that shrinks as training rows are added, and one that shrinks as evaluation
        rows are added; limits move towards the gap with the root of their sum. All pairs of groups count: each must
        come within the margin, or one must be beyond it. Groups are assumed to grow in proportion. Where rows are so
        few that limits are exact, these shrink faster than the root law says, and the forecast is rough.

        Parameters
        ----------
        margin : float
            As in ``verdict``.

        Returns
        -------
        RowsNeeded
            ``training`` and ``evaluation``: rows to add of that kind alone. ``times``: the factor by which both
            together must grow. 0, 0 and 1 if the verdict is definite already; infinite if no number of rows would be
            enough: the estimate is on the margin, the noise of the other kind alone is too large, or a gap is undefined
            or infinite.

        Examples
        --------
        >>> import surefair as sf
        >>> group, decision = ["a", "b"] * 500, [0, 0, 0, 1, 1, 1, 0, 1] * 125
        >>> interval = sf.fairness_interval([0, 1] * 500, decision, sensitive_features=group)
        >>> interval.rows_needed(0.52)
        RowsNeeded(training=inf, evaluation=5578, times=6.577)
        """
        if self.verdict(margin) != "not enough evidence":
            return RowsNeeded(0, 0, 1.0)
        edge, beyond = float(margin), self.estimate > margin
        if self.metric.endswith("_ratio"):
            edge, beyond = -math.log(margin), self.estimate < margin
        gap, low, high, training, evaluation = (
            np.array(self._by_pair[name], dtype=np.float64)
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
    """Share of the distance from each gap to its limits that may remain for a definite verdict; 0 for never.

    If the largest gap is beyond the edge, the limit next to 0 must be beyond it; otherwise both limits must be within.
    """
    size = np.abs(gap)
    with np.errstate(divide="ignore", invalid="ignore"):  # a gap or its limits may be infinite
        outer, inner = np.where(gap < 0.0, [gap - low, high - gap], [high - gap, gap - low])
        share = (size - edge) / inner if beyond else np.minimum((edge - size) / outer, (edge + size) / inner)
    return np.where(share > 1e-6, np.minimum(share, 1.0), 0.0)  # anything less is on the edge, up to rounding


def _more(n: int, times: float) -> float:
    """Rows to add to have so many times as many."""
    return math.ceil((times - 1.0) * n) if times < np.inf else np.inf


def plain(value: Any) -> Any:
    """Convert NumPy scalars to Python types, tuples to lists, and numbers that JSON cannot hold to None."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


# -- Making one -------------------------------------------------------------------------------------------------------


class Question(NamedTuple):
    """What is asked about an unfairness."""

    metric: Metric
    source: str
    method: str
    confidence_level: float


class ScoreQuestion(NamedTuple):
    """What is asked about a metric of scores."""

    metric: ScoreMeasure
    source: str
    method: str
    confidence_level: float


class Context(NamedTuple):
    """What else to say about the model whose unfairness is asked for."""

    positive: Any = None  # the positive label
    n_training: int = 0  # rows trained on
    library: str = "pandas"  # of the data frames
    trouble: str = ""  # why the replicates say nothing, if they do; every interval is then the whole range
    notes: str = ""  # one more sentence, without its full stop
    diagnostics: tuple[Diagnostic, ...] = ()  # what was found before
    estimates: str = ""  # what the interval is for, in words, where it is not what the source usually estimates


NO_CONTEXT = Context()


class Estimates(NamedTuple):
    """Rates and gaps with their limits, from which an interval is made."""

    n: IntArray  # (rates, groups), rows that enter each rate
    rate: FloatArray  # (rates, groups)
    low: FloatArray
    high: FloatArray
    gaps: Gaps  # (rates, pairs)
    spread_training: FloatArray  # (rates, pairs)
    spread_evaluation: FloatArray
    unfairness: tuple[float, float] | None = None  # its limits, where they do not follow from those of the gaps
    by_group: Mapping[str, NDArray[Any]] = MappingProxyType({})  # further columns (rates, groups) of that table
    by_pair: Mapping[str, NDArray[Any]] = MappingProxyType({})  # further columns (rates, pairs)
    reason: str = ""  # why limits are missing, where it is not that a rate is undefined


def make_interval(
    question: Question,
    counts: Counts,
    groups: Groups,
    rates_b: FloatArray,
    trained: FloatArray | None = None,
    context: Context = NO_CONTEXT,
) -> Interval:
    """Make the interval for the largest gap between groups, from replicates.

    Parameters
    ----------
    question : Question
    counts : Counts of arrays of shape (groups, 2, 2)
        Counts of the fit itself.
    groups : Groups
    rates_b : ndarray of shape (B, rates, groups)
        Rates in the replicates.
    trained : ndarray of shape (B, rates, groups), optional
        For source "total": rates in the replicates with the evaluation rows as they are.
    context : Context
    """
    estimates = replicate_estimates(question, counts, groups, rates_b, trained)
    gaps = estimates.gaps
    found = [*context.diagnostics]
    found += too_few_replicates.check(len(rates_b), question.confidence_level, question.method, gaps.gap.size > 1)
    if not context.trouble and SOURCES[question.source].evaluation:
        sides = effective_sides(question.metric.rates, counts)[:, :, groups.compared]
        found += small_evaluation_set.check(sides, groups.compared_words, question.metric.rate_names)
    elif not context.trouble:
        rate, pair = largest(gaps.gap)
        pairs = Pairs.of(groups, question.metric.ratio)
        gap_b = rates_b[:, rate, pairs.first[pair]] - rates_b[:, rate, pairs.second[pair]]
        found += degenerate_replicates.check_gap(gap_b)
    n = int(counts.rows[: groups.sizes[0]].sum())
    return interval_of(question, estimates, groups, n, context._replace(diagnostics=tuple(found)))


def replicate_estimates(
    question: Question, counts: Counts, groups: Groups, rates_b: FloatArray, trained: FloatArray | None = None
) -> Estimates:
    """Rates and gaps with limits, from replicates; parameters are those of ``make_interval``."""
    metric, source, method, confidence_level = question
    rates = metric.rates
    measured = rates_of(rates, counts)
    pairs = Pairs.of(groups, metric.ratio)
    effective = effective_sides(rates, counts) if SOURCES[source].evaluation else None
    signed_method = "percentile" if method == "paper" else method
    low, high = rate_limits(measured, rates_b, effective, confidence_level, signed_method)
    gaps = gap_limits(measured, rates_b, pairs, effective, confidence_level, signed_method)
    trained = trained if SOURCES[source].evaluation else rates_b
    spreads = gap_spreads(measured, trained, effective, pairs)
    unfairness = None
    if method == "paper" and gaps.sure.all():
        size = np.max(np.abs(gaps.gap))
        ends = limits(size, largest_gaps(rates_b, groups, pairs), confidence_level, "percentile")
        unfairness = float(ends[0]), float(ends[1])
    below = np.stack([rate.tally(counts.rows)[1] for rate in rates]).astype(np.int64)
    return Estimates(below, measured, low, high, gaps, *spreads, unfairness)


def largest(gap: FloatArray) -> tuple[int, int]:
    """Rate and pair of the largest gap."""
    rate, pair = np.unravel_index(np.argmax(np.where(np.isnan(gap), -1.0, np.abs(gap))), gap.shape)
    return int(rate), int(pair)


def interval_of(
    question: Question | ScoreQuestion, estimates: Estimates, groups: Groups, n: int, context: Context = NO_CONTEXT
) -> Interval:
    """Make the interval for the largest gap between groups, from all gaps and their limits.

    Parameters
    ----------
    question : Question
    estimates : Estimates
    groups : Groups
    n : int
        Evaluation rows.
    context : Context
    """
    metric, source, method, confidence_level = question
    rates = metric.rates
    ratio = metric.ratio
    low, high, gaps = estimates.low, estimates.high, estimates.gaps
    pairs = Pairs.of(groups, ratio)
    if context.trouble:
        low, high, gaps = np.zeros_like(low), np.ones_like(high), gaps._replace(sure=np.zeros_like(gaps.sure))
    spreads = [np.where(gaps.sure, x, np.nan) for x in (estimates.spread_training, estimates.spread_evaluation)]
    top = np.inf if ratio else 1.0
    gap_low = np.where(gaps.sure, gaps.low, -top)
    gap_high = np.where(gaps.sure, gaps.high, top)

    best = largest(gaps.gap)
    folded = [fold(*ends) for ends in zip(gap_low.ravel().tolist(), gap_high.ravel().tolist(), strict=True)]
    unfair = np.array([np.abs(gaps.gap[best]), *np.max(folded, axis=0)])
    if estimates.unfairness is not None and gaps.sure.all():
        unfair[1:] = estimates.unfairness
    if ratio:
        unfair = np.exp(-unfair[[0, 2, 1]])

    first, second = pairs.first, pairs.second
    by_group = {"n": estimates.n, **estimates.by_group, "rate": estimates.rate, "low": low, "high": high}
    by_pair = {**estimates.by_pair, "gap": gaps.gap, "low": gap_low, "high": gap_high}
    by_pair |= {"spread_training": spreads[0], "spread_evaluation": spreads[1]}
    rate, a, b = rates[best[0]], groups.labels[first[best[1]]], groups.labels[second[best[1]]]
    return Interval(
        estimate=float(unfair[0]), low=float(unfair[1]), high=float(unfair[2]),
        gap=float(gaps.gap[best]), gap_low=float(gap_low[best]), gap_high=float(gap_high[best]),
        pair=(a[1], b[1]), column=a[0], rate=rate.name,
        _by_group=_table(rates, groups.table(), by_group),
        _by_pair=_table(rates, groups.table(first, "first") | groups.table(second, "second"), by_pair),
        _library=context.library,
        metric=metric.name, source=source, method=method, confidence_level=confidence_level,
        n=n, n_training=context.n_training,
        spread_training=float(spreads[0][best]), spread_evaluation=float(spreads[1][best]),
        reason=context.trouble or estimates.reason or _reason(rates, groups, estimates.rate, gaps),
        sentence=_sentence(question, context, unfair.tolist(), _definition(metric, groups, rate, a, b)),
        diagnostics=tuple(dict.fromkeys(context.diagnostics)),
    )  # fmt: skip


# -- Words and tables -------------------------------------------------------------------------------------------------


def _table(rates: Named, names: Columns, numbers: dict[str, Any]) -> Columns:
    """Tidy columns of arrays (rates, rows), after the names of rows and, where there are several, of rates."""
    table = {name: values * len(rates) for name, values in names.items()}
    if len(rates) > 1:
        table["metric"] = [rate.name for rate in rates for _ in next(iter(names.values()))]
    order = [name for name in ("column", "metric", *names) if name in table]
    return {name: table[name] for name in order} | {name: array.ravel().tolist() for name, array in numbers.items()}


def _sentence(question: Question | ScoreQuestion, context: Context, unfairness: list[float], definition: str) -> str:
    """The unfairness with its limits, and what they mean, in words."""
    estimate, low, high = ("undefined" if math.isnan(number) else f"{number:.3f}" for number in unfairness)
    level = f"{100.0 * question.confidence_level:.6g} %"
    what = "ratio of rates, where 1 is parity," if question.metric.ratio else "unfairness"
    words = f"The {what} is {estimate} ({level} confidence interval {low} to {high}): {definition}"
    words += f" The interval is for {context.estimates or SOURCES[question.source].estimates}."
    words += f" The positive value is {context.positive!r}." * (context.positive is not None)
    return words + f" {context.notes}." * bool(context.notes)


def _definition(
    metric: Metric | ScoreMeasure,
    groups: Groups,
    rate: Rate | ScoreMetric,
    a: tuple[str | None, Any],
    b: tuple[str | None, Any],
) -> str:
    """What unfairness and gap are, in words."""
    ratio = metric.ratio
    among = "" if a[0] is None else f" of {a[0]!r}"
    gap = f"the {rate.words} of group {a[1]!r}{among} {'divided by' if ratio else 'minus'} that of group {b[1]!r}"
    gap = f"the logarithm of {gap}" if ratio else gap
    if len(metric.rates) == 1 and len(Pairs.of(groups, ratio).first) == 1:
        unfairness = "the smaller rate divided by the larger" if ratio else "the absolute gap"
        return f"{unfairness}, where the gap is {gap}."
    largest = "smallest ratio of the smaller rate to the larger" if ratio else "largest absolute gap"
    names = ", ".join(repr(name) for name in groups.levels)
    columns = f" of any of the columns {names}" if len(groups.levels) > 1 else ""
    which = f", in any of the rates {', '.join(rate.name for rate in metric.rates)}" if len(metric.rates) > 1 else ""
    two = "any two groups" if groups.pairs is None else "any two groups that are compared"
    return f"the {largest} between {two}{columns}{which}; here the gap is {gap}."


def _reason(rates: Named, groups: Groups, measured: FloatArray, gaps: Gaps) -> str:
    """Why limits are missing, and what to do; empty where none are missing."""
    if gaps.sure.all():
        return ""
    unknown = np.isnan(measured[:, groups.compared])
    if unknown.any():
        j, place = np.argwhere(unknown)[0]
        g = groups.compared[place]
        more = int(unknown.any(axis=0).sum()) - 1
        others = "" if more == 0 else f" (the same is true of {more} other group{'s' if more > 1 else ''})"
        return (
            f"{groups.words[g]} has no evaluation row that enters the {rates[j].words}{others}: evaluate on more rows, "
            "or merge the group with another"
        )
    if np.isnan(gaps.gap).any():
        j = int(np.argwhere(np.isnan(gaps.gap))[0, 0])
        return f"the {rates[j].words} is 0 in two groups, and 0 over 0 is undefined: look at the difference instead"
    j = int(np.argwhere(~gaps.sure)[0, 0])
    return f"the {rates[j].words} is undefined in some replicates"
