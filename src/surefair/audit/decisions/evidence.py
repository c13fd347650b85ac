"""From a tally to intervals: groups in order, what is positive, which groups are compared, and the answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from surefair.audit.decisions.groups import ShownGroups
from surefair.audit.decisions.intake import SCORED
from surefair.audit.decisions.settings import DecisionSettings
from surefair.audit.decisions.tally import DecisionTally
from surefair.inference.cluster_counts import Clustered
from surefair.inference.counts import Counts
from surefair.inference.decisions import Evidence
from surefair.inference.interval import Interval, Question
from surefair.inference.joint import joint_levels
from surefair.inference.metric import Metric, ScoreMeasure, any_metric
from surefair.inference.moves import normal_tables
from surefair.inference.sample import About, check_clusters, weight_notes
from surefair.inference.scores import Scored
from surefair.names import counted
from surefair.rows import Distinct, FloatArray, Groups, IntArray
from surefair.score_metrics import Histogram
from surefair.tables.positive import Positive, check_positive, two_values

UNLABELLED = 2  # code of rows without a label


# -- Subjects ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SubjectEvidence:
    """What the rows show about one subject: a column of decisions, or of scores.

    Attributes
    ----------
    name : str
    settings : DecisionSettings
    groups : Groups
    labelled, every : Evidence or None
        Decisions on rows with a label, and on all rows; None where nothing was decided.
    scores : tuple of Histogram
        Of the rows with a label, and of all rows; empty where there are no scores.
    positive : str
        The positive decision in words.
    threshold : float or None
        For scores: from where on they are positive decisions.
    notes : tuple of str
    """

    name: str
    settings: DecisionSettings
    groups: Groups
    labelled: Evidence | None
    every: Evidence | None
    scores: tuple[Histogram, ...]
    positive: str
    threshold: float | None
    notes: tuple[str, ...]

    @property
    def n(self) -> int:
        """Rows with a decision or a score."""
        if self.every is None:
            return int(self.scores[1].rows[: self.groups.sizes[0]].sum())
        return int(self.every.pooled.rows[: self.groups.sizes[0]].sum())

    @property
    def n_labelled(self) -> int | None:
        """Those of them with a label; None without labels."""
        if self.settings.label is None:
            return None
        if self.labelled is None:
            return int(self.scores[0].rows[: self.groups.sizes[0]].sum())
        return int(self.labelled.pooled.rows[: self.groups.sizes[0]].sum())

    @cached_property
    def score_range(self) -> tuple[float, float]:
        """Smallest and largest score."""
        return float(self.scores[1].least.min()), float(self.scores[1].most.max())

    def measures(self, metric: str) -> bool:
        """Whether these scores can give a metric: some need probabilities."""
        asked = any_metric(metric)
        if not isinstance(asked, ScoreMeasure) or not asked.score_metric.needs_probabilities:
            return True
        low, high = self.score_range
        if low >= 0.0 and high <= 1.0:
            return True
        if metric in self.settings.judged:
            raise ValueError(
                f"The metric {metric!r} needs scores between 0 and 1; {self.name!r} has scores from {low:g} to "
                f"{high:g}. Turn them into probabilities, or judge 'auc' or 'scoring_rate', which take any numbers."
            )
        return False

    def interval(self, metric: str, level: float) -> Interval:
        """Interval for the unfairness in one metric."""
        asked = any_metric(metric)
        if isinstance(asked, ScoreMeasure):
            histogram = self.scores[0 if asked.needs_labels else 1]
            scored = Scored(histogram, self.groups, self.positive or None, "pandas", self.notes)
            return scored.interval(asked, level, self.settings.n_replicates, self.settings.random_state)
        evidence = self.evidence(asked)
        return evidence.interval(Question(asked, "evaluation", "percentile", level))

    def evidence(self, metric: Metric) -> Evidence:
        """The rows that enter a metric."""
        found = self.labelled if metric.needs_labels else self.every
        assert found is not None
        return found

    def wide(self, metrics: tuple[str, ...], alone: dict[str, Interval]) -> dict[str, Interval]:
        """The same intervals with wider limits, which hold for all metrics and all subjects together.

        Metrics of decisions move together in the replicates (max-t). Subjects and metrics of scores are counted by
        Bonferroni's rule: each gets its share of the error.
        """
        n_subjects = len(self.settings.subjects)
        if len(metrics) * n_subjects < 2:
            return alone
        error = (1.0 - self.settings.confidence_level) / (n_subjects * max(len(metrics), 1))
        asked = {name: any_metric(name) for name in metrics}
        decided = {name: metric for name, metric in asked.items() if isinstance(metric, Metric)}
        levels = dict.fromkeys(metrics, 1.0 - error)
        if decided:
            farthest = np.stack([self.evidence(metric).farthest(metric) for metric in decided.values()])
            single = [len(alone[name].by_pair) == 1 for name in decided]
            rows = [self.evidence(metric).fewest(metric) for metric in decided.values()]
            together = joint_levels(farthest, single, rows, 1.0 - error * len(decided))
            levels |= dict(zip(decided, together, strict=True))
        return {name: self.interval(name, one) for name, one in levels.items()}


def subjects_of(
    tally: DecisionTally, shown: ShownGroups, settings: DecisionSettings, zero: int
) -> list[SubjectEvidence]:
    """Evidence about each subject.

    Parameters
    ----------
    tally : DecisionTally
    shown : ShownGroups
    settings : DecisionSettings
    zero : int
        Rows of weight 0, which were left out.
    """
    axes = tally.axes
    given = axes.decisions if settings.threshold is None else axes.decisions[:-1]  # the last are made by the threshold
    check_positive(settings.positive, [axes.labels, *given])
    labels = np.arange(2)
    if settings.label is not None:
        labels = two_values(axes.labels, settings.positive, settings.label, "label").order
    n = int(tally.census[0, : axes.sizes[0]].sum())
    notes = weight_notes(zero, n + zero)
    tally, clusters_note = _without_lone_clusters(tally, n)
    notes = (*notes, *clusters_note)
    scores = _ordered_scores(tally, shown, labels)
    found = []
    for name in settings.subjects:
        j = settings.counted.index(name) if name in settings.counted else None
        own = scores if name == settings.score else ()
        if j is not None:
            words = axes.decisions[j]
            values = Positive(SCORED, np.arange(2)) if own else two_values(words, settings.positive, name, "decision")
            positive = f"{settings.threshold:g} or more" if own else values.words[1]
            pick = Pick(shown, labels, values.order, tally, settings, positive, notes)
            labelled, every = pick.evidence(j)
            found.append(
                SubjectEvidence(name, settings, shown.groups, labelled, every, own, positive, settings.threshold, notes)
            )
        else:
            found.append(_scored_subject(name, settings, shown, own, notes))
    return found


def _without_lone_clusters(tally: DecisionTally, n: int) -> tuple[DecisionTally, tuple[str, ...]]:
    """Count rows as independent where every cluster has one row, and say so."""
    if tally.keys is None:
        return tally, ()
    size = tally.keys.size
    check_clusters(int(size))
    if (tally.keys.rows == 1).all():
        note = "Every cluster has one row, so rows count as independent"
        return replace(tally, replicated=(), keys=None), (note,)
    about = "" if len(tally.keys.key) == size else "about "
    return tally, (f"The {n:,} rows are in {about}{round(size):,} clusters",)


class Pick(NamedTuple):
    """How the cells of a tally become those of evidence."""

    shown: ShownGroups
    labels: IntArray  # codes of the negative and the positive label
    decisions: IntArray
    tally: DecisionTally
    settings: DecisionSettings
    positive: str
    notes: tuple[str, ...]

    def evidence(self, j: int) -> tuple[Evidence, Evidence]:
        """Evidence about the subject with this number: on rows with a label, and on all rows."""
        axes = self.tally.axes
        words = sorted(axes.strata)
        strata = np.array([axes.strata.index(word) for word in words], dtype=np.int64) if words else np.array([0])
        cells = np.ix_(strata, self.shown.order, np.append(self.labels, UNLABELLED), self.decisions)
        counts = relative(Counts(*(table[cells] for table in self.tally.tables[j])), self.tally.weights)
        labelled = Counts(*(table[:, :, :2] for table in counts))
        rest = Counts(*(_truth(table[:, :, 2:]) for table in counts))
        notes = self.notes
        n_unlabelled = int(rest.rows[:, : self.shown.groups.sizes[0]].sum()) if self.settings.label is not None else 0
        groups = self.shown.groups
        about = About(groups, [repr(word) for word in words], self.positive, "pandas", notes)
        clusters, every_cluster = self._clustered(j, cells, labelled, rest)
        size = self.settings.n_replicates, self.settings.random_state
        of_labelled = Evidence(about, labelled, clusters, *size)
        if self.settings.label is not None and n_unlabelled == 0:
            return of_labelled, of_labelled
        drawn = None
        if self.settings.label is not None and clusters is None:
            drawn = of_labelled.tables + normal_tables(rest, self.settings.n_replicates, self.settings.random_state + 1)
        every = Evidence(about, labelled + rest, every_cluster, *size, drawn)
        unlabelled = counted(n_unlabelled, "row has no label and counts", "rows have no label and count")
        note = f"{unlabelled} towards selection rates only"
        return replace(of_labelled, about=about._replace(notes=(*notes, note))), every

    def _clustered(
        self, j: int, cells: tuple[IntArray, ...], labelled: Counts, rest: Counts
    ) -> tuple[Clustered | None, Clustered | None]:
        """Replicates of rows in clusters: of those with a label, and of all."""
        if not self.tally.replicated:
            return None, None
        one = self.tally.replicated[j]
        where: tuple[Any, ...] = (slice(None), *cells)
        replicates = one.replicates[where] / self.tally.weights[1]
        parts = replicates[:, :, :, :2], _truth(replicates[:, :, :, 2:])
        number = np.arange(len(one.distinct.smallest)).reshape(-1, 3, 2)[np.ix_(*(c.ravel() for c in cells[1:]))]
        of_labelled = number[:, :2].reshape(-1, 1)
        also = number[:, :2].copy()
        also[:, 0] = number[:, 2]  # rows without a label count as negative, where labels do not matter
        distinct = one.distinct
        both = distinct.joined(np.concatenate([of_labelled, also.reshape(-1, 1)], axis=1))
        every = Clustered(labelled + rest, parts[0] + parts[1], both)
        return Clustered(labelled, parts[0], Distinct(distinct.smallest[of_labelled[:, 0]])), every


def relative(counts: Counts, weights: tuple[float, float]) -> Counts:
    """Weights relative to the largest; equal weights are ones."""
    least, most = weights
    if least == most:
        return Counts(counts.rows, counts.rows, counts.rows)
    return Counts(counts.rows, counts.weight / most, counts.square / most**2)


def _truth(table: FloatArray) -> FloatArray:
    """Rows without a label (..., 1, 2) as rows with a negative one (..., 2, 2)."""
    return np.concatenate([table, np.zeros_like(table)], axis=-2)


# -- Scores -----------------------------------------------------------------------------------------------------------


def _ordered_scores(tally: DecisionTally, shown: ShownGroups, labels: IntArray) -> tuple[Histogram, ...]:
    """Histograms of the rows with a label, and of all rows, with groups and labels in order."""
    if not tally.scores:
        return ()
    least, most = tally.weights
    sizes = shown.groups.sizes

    def ordered(one: Histogram, truth: IntArray) -> Histogram:
        rows, weight, square, total = (
            table[np.ix_(shown.order, truth)] for table in (one.rows, one.weight, one.square, one.total)
        )
        if least == most:
            return Histogram(sizes, one.bins, rows, rows, rows, total / most, one.least, one.most)
        return Histogram(sizes, one.bins, rows, weight / most, square / most**2, total / most, one.least, one.most)

    labelled, rest = ordered(tally.scores[0], labels), ordered(tally.scores[1], np.arange(2))
    return labelled, labelled + rest


def _scored_subject(
    name: str, settings: DecisionSettings, shown: ShownGroups, scores: tuple[Histogram, ...], notes: tuple[str, ...]
) -> SubjectEvidence:
    """Evidence about scores: with decisions, if the threshold is a quantile of all scores."""
    groups = shown.groups
    if settings.threshold_quantile is None:
        return SubjectEvidence(name, settings, groups, None, None, scores, "", None, notes)
    every = scores[1]
    mass = np.cumsum(every.weight[: groups.sizes[0]].sum(axis=(0, 1)))
    at = min(int(np.searchsorted(mass, settings.threshold_quantile * mass[-1], side="right")), len(mass) - 1)
    threshold = float(every.least[at])
    share = 1.0 - float(mass[at - 1] / mass[-1]) if at else 1.0
    notes = (
        *notes,
        f"The threshold is {threshold:.6g}, which {100.0 * share:.4g} % of the rows reach; it counts as given",
    )
    about = About(groups, [], f"{threshold:.6g} or more", "pandas", notes)
    size = settings.n_replicates, settings.random_state
    evidence = [Evidence(about, _decided(one, every.bins[at]), None, *size) for one in scores]
    labelled = evidence[0] if settings.label is not None else None
    return SubjectEvidence(
        name, settings, groups, labelled, evidence[1], scores, f"{threshold:.6g} or more", threshold, notes
    )


def _decided(histogram: Histogram, first: int) -> Counts:
    """Counts of decisions, arrays of shape (1, groups, 2, 2), if scores from this bin on are positive."""
    above = histogram.bins >= first

    def cut(table: FloatArray) -> FloatArray:
        return np.stack([table[:, :, ~above].sum(axis=2), table[:, :, above].sum(axis=2)], axis=-1)[None]

    return Counts(*(cut(table) for table in (histogram.rows, histogram.weight, histogram.square)))
