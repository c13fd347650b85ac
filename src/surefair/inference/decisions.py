"""Intervals for the decisions of any model, from the evaluation rows alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from secrets import randbits
from typing import Any, NamedTuple

import numpy as np

from surefair.criteria import Criterion
from surefair.diagnostics import Diagnostic, few_clusters, issue, one_decision, small_evaluation_set
from surefair.inference.cluster_counts import Clustered
from surefair.inference.clusters import cluster_estimates
from surefair.inference.counts import Counts, effective_sides, rates_of
from surefair.inference.interval import (
    Context,
    Interval,
    Question,
    interval_of,
    make_interval,
    replicate_estimates,
)
from surefair.inference.joint import JointIntervals, joint_levels, joint_sentence
from surefair.inference.limits import METHODS, Pairs, check_level
from surefair.inference.metric import Metric, ScoreMeasure, any_metric, get_metric
from surefair.inference.moves import between, normal_tables, rate_moves
from surefair.inference.sample import About, Input, Sample, check_numbers
from surefair.inference.scores import Scored
from surefair.inference.sources import reweigh
from surefair.inference.strata import Strata, strata_estimates, strata_moves
from surefair.inference.stretches import Stretches, check_anytime
from surefair.names import one_of
from surefair.rows import FloatArray


def fairness_interval(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    metric: str | Criterion = "demographic_parity",
    pos_label: Any = None,
    threshold: float | None = None,
    sample_weight: Any = None,
    clusters: Any = None,
    strata: Any = None,
    intersections: bool = False,
    confidence_level: float = 0.95,
    method: str = "percentile",
    n_replicates: int = 2000,
    random_state: int | None = 0,
    anytime: bool = False,
) -> Interval:
    """Interval for the unfairness of any model's predictions, from the evaluation rows alone.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,) or None
        Labels, two values of any type; None if the metric needs no labels, as demographic parity.
    y_pred : array-like of shape (n_rows,)
        Decisions, with the same two values; or scores, with a threshold or for a metric of scores.
    sensitive_features : array-like of shape (n_rows,), data frame or dict of columns
        Group of each row, values of any type, in one or several columns.
    metric : str or Criterion
        What is compared between the groups; "_ratio" after the name compares by ratios. "mean_score", "scoring_rate",
        "auc" and "calibration" look at scores. For several metrics that are judged together, see ``joint_intervals``.
    pos_label : value, optional
        The positive label; by default the second in sorted order.
    threshold : float, optional
        ``y_pred`` holds scores, and a score of at least this much is a positive decision.
    sample_weight : array-like of shape (n_rows,), optional
        How much each row counts, relative to the others; rows of weight 0 are left out.
    clusters : array-like of shape (n_rows,), optional
        What each row belongs to, for example a person with several rows. Rows of one cluster may depend on each other;
        limits then use Student's t law, whatever the method.
    strata : array-like of shape (n_rows,), optional
        Rows are compared within strata, for example among applicants for the same job, and the gaps of the strata are
        combined with Mantel-Haenszel weights.
    intersections : bool
        Whether to also compare the groups that several sensitive columns form together.
    confidence_level : float
    method : {"percentile", "basic", "normal", "cheap", "paper"}
        How replicates become limits, for a gap between two groups and for every rate separately. With several gaps,
        the limits hold together, in the same way for all methods but "cheap", which is valid with 2 replicates or more,
        and wide with few. "paper" is the published version, for reproduction only.
    n_replicates : int
        2 or more; a warning says if there are too few for the method.
    random_state : int or None
        Seed. The same data and seed give the same interval; None draws a new seed each time.
    anytime : bool
        Whether the interval must hold at all looks together, as often as you ask for it while rows are added at the
        end. Rows must be in the order in which they came. Such an interval is exact, without replicates, and about 1.8
        times as wide.

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

    If the same 160 rows come from 80 people who are each decided on twice, they show less:

    >>> interval = fairness_interval(
    ...     y_true=[1, 0, 1, 0, 1, 0, 1, 0] * 20, y_pred=[1, 0, 1, 1, 0, 0, 1, 0] * 20,
    ...     sensitive_features=["a", "a", "a", "a", "b", "b", "b", "b"] * 20,
    ...     clusters=[row % 80 for row in range(160)],
    ... )
    >>> round(interval.estimate, 2), round(interval.low, 2), round(interval.high, 2)
    (0.5, 0.26, 0.7)

    If you look at the 160 rows as they come, again and again:

    >>> interval = fairness_interval(
    ...     y_true=[1, 0, 1, 0, 1, 0, 1, 0] * 20, y_pred=[1, 0, 1, 1, 0, 0, 1, 0] * 20,
    ...     sensitive_features=["a", "a", "a", "a", "b", "b", "b", "b"] * 20, anytime=True,
    ... )
    >>> round(interval.estimate, 2), round(interval.low, 2), round(interval.high, 2)
    (0.5, 0.24, 0.71)
    """
    measured = any_metric(metric)
    given = Input(sensitive_features, intersections, sample_weight, clusters, strata, pos_label, threshold)
    settings = Settings(method, confidence_level, n_replicates, random_state)
    if anytime:
        score_metric = measured.name if isinstance(measured, ScoreMeasure) else ""
        check_anytime(method, score_metric, sample_weight=sample_weight, clusters=clusters, strata=strata)
    if isinstance(measured, ScoreMeasure):
        settings.check(given, measured.name)
        scored = Scored.of(y_true, y_pred, measured, given)
        interval = scored.interval(measured, confidence_level, n_replicates, settings.seed)
    elif anytime:
        interval = _anytime_interval(y_true, y_pred, measured, given, settings)
    else:
        evidence = Evidence.of(y_true, y_pred, [measured], given, settings)
        interval = evidence.interval(Question(measured, "evaluation", method, confidence_level))
    issue(interval.diagnostics)
    return interval


def _anytime_interval(y_true: Any, y_pred: Any, metric: Metric, given: Input, settings: Settings) -> Interval:
    """Interval that holds at all times, from rows in the order in which they came."""
    settings.check(given)
    sample = Sample.of(y_true, [y_pred], given, metric.name if metric.needs_labels else "")
    stretches = Stretches.of(metric.rates, sample.about.groups)
    stretches = stretches.add(sample.codes, sample.truth, sample.decisions[0])
    context = Context(positive=sample.about.positive, library=sample.about.library)
    return stretches.interval(Question(metric, "evaluation", "percentile", settings.confidence_level), context)


def joint_intervals(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    metric: Sequence[str | Criterion],
    pos_label: Any = None,
    threshold: float | None = None,
    sample_weight: Any = None,
    clusters: Any = None,
    strata: Any = None,
    intersections: bool = False,
    confidence_level: float = 0.95,
    method: str = "percentile",
    n_replicates: int = 2000,
    random_state: int | None = 0,
) -> JointIntervals:
    """Intervals for several metrics of any model's predictions, which are judged together.

    Parameters
    ----------
    y_true, y_pred, sensitive_features
        As in ``fairness_interval``.
    metric : sequence of str or Criterion
        What is compared between the groups; "_ratio" after a name compares by ratios.
    pos_label, threshold, sample_weight, clusters, strata, intersections
        As in ``fairness_interval``.
    confidence_level, method, n_replicates, random_state
        As in ``fairness_interval``.

    Returns
    -------
    JointIntervals

    Examples
    --------
    >>> found = joint_intervals(
    ...     y_true=[0, 1] * 500, y_pred=[0, 0, 0, 1, 1, 1, 0, 1] * 125, sensitive_features=["a", "b"] * 500,
    ...     metric=["demographic_parity", "accuracy"],
    ... )
    >>> found.verdict({"demographic_parity": 0.4, "accuracy": 0.1})
    'violates margin'
    """
    measured = [get_metric(one) for one in _listed(metric)]
    given = Input(sensitive_features, intersections, sample_weight, clusters, strata, pos_label, threshold)
    settings = Settings(method, confidence_level, n_replicates, random_state)
    evidence = Evidence.of(y_true, y_pred, measured, given, settings)
    joint = evidence.joint_intervals([Question(one, "evaluation", method, confidence_level) for one in measured])
    issue(found for one in joint for found in one.diagnostics)
    return joint


def _listed(metrics: Any) -> list[str | Criterion]:
    """Return the metrics as a list; there must be some, and each once."""
    found = list(metrics) if isinstance(metrics, Iterable) and not isinstance(metrics, str) else []
    names = [one.name if isinstance(one, Criterion) else one for one in found]
    if not names or len(dict.fromkeys(map(str, names))) < len(names):
        raise ValueError(f"metric must be a list of different metrics; received {metrics!r}.")
    return found


class Settings(NamedTuple):
    """How intervals are computed."""

    method: str
    confidence_level: float
    n_replicates: int
    random_state: int | None

    def check(self, given: Input, score_metric: str = "") -> Settings:
        """Return the settings if they are valid for these rows, and for the metric of scores, if it is one."""
        one_of(self.method, METHODS, "method")
        check_level(self.confidence_level)
        check_numbers(self.n_replicates, self.random_state)
        if score_metric and self.method != "percentile":
            raise ValueError(
                f"Limits of the metric {score_metric!r} do not depend on the method; received method={self.method!r}. "
                "Leave method out."
            )
        for name in ("clusters", "strata"):
            if getattr(given, name) is not None and self.method != "percentile":
                raise ValueError(
                    f"With {name}, limits do not depend on the method; received method={self.method!r}. Leave method "
                    "out."
                )
        return self

    @property
    def seed(self) -> int:
        """The seed, or a new one."""
        return randbits(63) if self.random_state is None else int(self.random_state)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Counts of decisions, from which intervals follow."""

    about: About
    counts: Counts  # arrays of shape (strata, groups, 2, 2)
    clusters: Clustered | None  # None where rows are independent
    n_replicates: int
    seed: int
    drawn: FloatArray | None = None  # ``tables``, where they come from elsewhere
    diagnostics: tuple[Diagnostic, ...] = ()  # what was found before

    @classmethod
    def of(cls, y_true: Any, y_pred: Any, metrics: Sequence[Metric], given: Input, settings: Settings) -> Evidence:
        """Check rows and settings, and count the decisions."""
        settings.check(given)
        sample = Sample.of(y_true, [y_pred], given, next((one.name for one in metrics if one.needs_labels), ""))
        seed = settings.seed
        clusters = sample.clustered(settings.n_replicates, seed)
        counts = sample.counts if clusters is None else clusters.counts
        decided = counts.weight[:, : sample.about.groups.sizes[0]].sum(axis=(0, 1, 2))  # each row once
        found = tuple(one_decision.check(decided.tolist()))
        return cls(sample.about, counts, clusters, settings.n_replicates, seed, diagnostics=found)

    @property
    def pooled(self) -> Counts:
        """Counts without strata."""
        return Counts(*(table.sum(axis=0) for table in self.counts))

    def rates_b(self, question: Question) -> FloatArray:
        """Rates of replicates whose rows are reweighted independently, shape (B, rates, groups)."""
        same = Counts(*(np.broadcast_to(table, (1 + self.n_replicates, *table.shape)) for table in self.pooled))
        return reweigh(question.metric.rates, same, self.seed)

    @cached_property
    def tables(self) -> FloatArray:
        """Counts with random weights, the same for all metrics, shape (B, strata, groups, 2, 2)."""
        if self.clusters is not None:
            return self.clusters.replicates
        if self.drawn is not None:
            return self.drawn
        return normal_tables(self.counts, self.n_replicates, self.seed)

    def farthest(self, metric: Metric) -> FloatArray:
        """Largest movement of a gap in each of the tables, in multiples of its spread, shape (B,)."""
        pairs = Pairs.of(self.about.groups, metric.ratio)
        if self.about.strata:
            strata = Strata(metric.rates, self.counts, self.about.strata)
            return strata_moves(strata, pairs, self.tables, self.clusters).farthest
        off = rate_moves(metric.rates, self.pooled, self.tables.sum(axis=1))
        if metric.ratio:
            rate = rates_of(metric.rates, self.pooled)
            off = np.divide(off, rate, out=np.zeros_like(off), where=np.nan_to_num(rate) > 0.0)
        return between(off, pairs).farthest

    def fewest(self, metric: Metric) -> float:
        """Rows that enter a rate of the metric in the smallest group."""
        entering = effective_sides(metric.rates, self.pooled).sum(axis=0)[:, self.about.groups.compared]
        return float(entering.min(initial=np.inf, where=entering > 0.0))

    def joint_intervals(self, questions: list[Question]) -> JointIntervals:
        """Answer questions about several metrics at one level, which are judged together."""
        level = questions[0].confidence_level
        alone = tuple(self.interval(question) for question in questions)
        farthest = np.stack([self.farthest(question.metric) for question in questions])
        single = [len(one.by_pair) == 1 for one in alone]
        levels = joint_levels(farthest, single, [self.fewest(question.metric) for question in questions], level)
        together = tuple(
            self.interval(question._replace(confidence_level=one))
            for question, one in zip(questions, levels, strict=True)
        )
        return JointIntervals(alone, together, level, joint_sentence(alone, level), self.about.library)

    def interval(self, question: Question) -> Interval:
        """Answer a question."""
        about, groups, pooled = self.about, self.about.groups, self.pooled
        context = Context(
            positive=about.positive, library=about.library, notes=". ".join(about.notes), diagnostics=self.diagnostics
        )
        if self.clusters is None and not about.strata:
            return make_interval(question, pooled, groups, self.rates_b(question), context=context)
        rates, level = question.metric.rates, question.confidence_level
        pairs = Pairs.of(groups, question.metric.ratio)
        words = groups.compared_words
        names = question.metric.rate_names
        if self.clusters is None:
            estimates = replicate_estimates(question, pooled, groups, self.rates_b(question))
            found = small_evaluation_set.check(effective_sides(rates, pooled)[:, :, groups.compared], words, names)
        else:
            estimates = cluster_estimates(rates, self.clusters.pooled, pairs, level)
            found = few_clusters.check(estimates.by_group["clusters"][:, groups.compared], words, names)
            question = question._replace(method="clusters")
        if about.strata:
            strata = Strata(rates, self.counts, about.strata)
            if self.clusters is None:
                found = small_evaluation_set.check(strata.least_sides(pairs)[:, :, groups.compared], words, names)
            estimates = strata_estimates(estimates, strata, pairs, groups, level, self.clusters)
            context = context._replace(notes=". ".join([*about.notes, strata.note(groups)]))
            question = question._replace(method="mantel_haenszel")
        n = int(pooled.rows[: groups.sizes[0]].sum())
        return interval_of(question, estimates, groups, n, context._replace(diagnostics=(*self.diagnostics, *found)))
