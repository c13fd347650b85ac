"""From evidence about decisions to what an audit says about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t

from surefair.audit.decisions.evidence import SubjectEvidence
from surefair.audit.decisions.groups import ShownGroups
from surefair.audit.decisions.settings import DecisionSettings
from surefair.audit.decisions.tally import DecisionTally
from surefair.audit.findings import Finding, compared_words, judge, margin_words, overall
from surefair.criteria import CRITERIA
from surefair.diagnostics import Diagnostic, one_decision
from surefair.inference.cluster_counts import Clustered
from surefair.inference.clusters import moves
from surefair.inference.counts import Counts
from surefair.inference.scoring import binomial_limits
from surefair.inference.strata import Strata
from surefair.names import counted

CHECKED = ("FewClusters", "OneDecision", "SmallEvaluationSet", "TooFewReplicates")
"""Diagnostics that an audit of decisions looks for."""


def find(subject: SubjectEvidence) -> Finding:
    """Describe one subject: its accuracy, its intervals, its verdicts."""
    settings = subject.settings
    level = settings.confidence_level
    measured = settings.measured(subject.name)
    names = [metric for metric in measured if subject.measures(metric)]
    intervals = {name: subject.interval(name, level) for name in names}
    judged = settings.judged_of(subject.name)
    common = check_constant(subject)
    wide = subject.wide(judged, {name: intervals[name] for name in judged})
    verdicts = []
    for name in judged if settings.margins else ():
        alone, together = (
            replace(one, diagnostics=(*one.diagnostics, *common)) for one in (intervals[name], wide[name])
        )
        verdicts.append(judge(alone, together, settings.margins[name]))
    diagnostics = dict.fromkeys([*(one for interval in intervals.values() for one in interval.diagnostics), *common])
    values = {
        "name": subject.name,
        "criterion": None,
        "constant": bool(common),
        "positive": subject.positive,
        "threshold": subject.threshold,
        "rows": {"decided": subject.n, "labelled": subject.n_labelled},
        "notes": notes_on(subject, [metric for metric in measured if metric not in names]),
        "accuracy": accuracy(subject),
        "intervals": [one.to_dict() for one in intervals.values()],
        "coefficients": [],
        "verdicts": verdicts,
        "diagnostics": [one.to_dict() for one in sorted(diagnostics, key=lambda one: (one.name, one.message))],
    }
    return Finding(values, tuple(diagnostics))


def notes_on(subject: SubjectEvidence, left_out: Sequence[str]) -> list[str]:
    """What else to know: weights of 0, clusters, strata, missing labels, the threshold, metrics that are left out."""
    found = [*subject.notes]
    if left_out:
        low, high = subject.score_range
        found.append(
            f"Not measured: {', '.join(left_out)}. Scores must lie between 0 and 1 for that, and these go from {low:g} "
            f"to {high:g}"
        )
    evidence = subject.every
    if evidence is not None and evidence.about.strata:
        rates = CRITERIA["demographic_parity"].rates
        found.append(Strata(rates, evidence.counts, evidence.about.strata).note(subject.groups))
    right = accuracy(subject)
    if right is not None and right["high"] < 0.5:
        found.append(
            f"Only {100.0 * right['estimate']:.1f} % of the decisions agree with the labels: check which decision and "
            "which label are positive"
        )
    if subject.n_labelled is not None and subject.n_labelled < subject.n:
        rest = subject.n - subject.n_labelled
        found.append(
            counted(rest, "row has no label: it counts", "rows have no label: they count")
            + " towards selection rates and mean scores, not error rates"
        )
    return [f"{note}." for note in found]


def check_constant(subject: SubjectEvidence) -> list[Diagnostic]:
    """Check whether a subject decides the same for everyone, or gives everyone the same score."""
    if subject.every is None:
        return one_decision.check_scores(*subject.score_range)
    decided = _whole(subject.every.pooled, subject).weight[0].sum(axis=0).tolist()
    return one_decision.check(decided)


def _whole(counts: Counts, subject: SubjectEvidence) -> Counts:
    """Counts of all groups of the first column together, shape (1, 2, 2): each row once."""
    first = subject.groups.sizes[0]
    return Counts(*(table[:first].sum(axis=0, keepdims=True) for table in counts))


def accuracy(subject: SubjectEvidence) -> dict[str, float] | None:
    """Share of right decisions with its interval; None without labels or decisions."""
    evidence = subject.labelled
    if evidence is None or not subject.n_labelled:
        return None
    level = subject.settings.confidence_level
    rates = CRITERIA["accuracy"].rates
    counts = _whole(evidence.pooled, subject)
    share = float(rates[0].of(counts.weight)[0])
    if evidence.clusters is None:
        n = float(counts.weight.sum() ** 2 / counts.square.sum())
        low, high = binomial_limits(share * n, (1.0 - share) * n, level)
        return {"estimate": share, "low": float(low), "high": float(high)}
    found = evidence.clusters.pooled
    first = subject.groups.sizes[0]
    cells = np.arange(4 * first).reshape(first, 4).T
    replicates = found.replicates[:, :first].sum(axis=1, keepdims=True)
    moved = moves(rates, Clustered(counts, replicates, found.distinct.joined(cells)))
    half = float(t.isf((1.0 - level) / 2.0, max(moved.worth[0, 0] - 1.0, 1.0)) * moved.spread[0, 0])
    return {"estimate": share, "low": max(0.0, share - half), "high": min(1.0, share + half)}


def describe_groups(tally: DecisionTally, shown: ShownGroups, labels: Sequence[str]) -> list[dict[str, Any]]:
    """Rows and labels of each group, and whether it is compared."""
    rows, weight = tally.census[:, shown.order]
    positive = tally.axes.labels.index(labels[1]) if labels and labels[1] in tally.axes.labels else None
    found = []
    for i, ((column, group), note) in enumerate(zip(shown.groups.labels, shown.notes, strict=True)):
        labelled = float(weight[i, :2].sum())
        base = None
        if labels and labelled > 0.0:
            base = 0.0 if positive is None else float(weight[i, positive]) / labelled
        found.append({
            "column": column, "group": group, "training": 0, "evaluation": int(rows[i].sum()), "constrained": False,
            "base_rate": base, "compared": not note, "note": note,
        })  # fmt: skip
    return found


class Sentences(NamedTuple):
    """What is needed to write the finding in words."""

    settings: DecisionSettings
    models: Sequence[dict[str, Any]]
    labels: Sequence[str]  # the negative and the positive one; empty without labels
    verdict: str | None
    complete: bool

    def __str__(self) -> str:
        words = " ".join(self.about(model) for model in self.models)
        if len(self.models) > 1 and self.verdict is not None:
            words += f" Over all columns: {self.verdict}."
        return words if self.complete else f"So far, before all rows were read: {words}"

    def about(self, model: dict[str, Any]) -> str:
        """Write the finding about one subject."""
        settings = self.settings
        judged = settings.judged_of(model["name"])
        if not judged:
            return f"The {model['name']!r} column has no metric that is judged."
        what = "scores" if model["name"] == settings.score else "decisions"
        one = next(found for found in model["intervals"] if found["metric"] == judged[0])
        words = f"The {what} in {model['name']!r} have {compared_words(one, settings.confidence_level)}."
        if settings.strata is not None:
            words += f" Groups are compared within {settings.strata!r}, so this is not the difference of the shares."
        words += self._positive(model, what)
        if model["constant"]:
            return f"{words} All decisions are the same, so this says nothing about how groups are treated."
        verdicts = {found["metric"]: found for found in model["verdicts"]}
        if verdicts:
            words += f" {margin_words(verdicts[judged[0]])}"
        if verdicts and (others := [name.replace("_", " ") for name in judged[1:]]):
            own = overall(found["verdict"] for found in model["verdicts"])
            words += f" Judged together with {', '.join(others)}: {own}."
        return words

    def _positive(self, model: dict[str, Any], what: str) -> str:
        """Say which decision and which label are positive."""
        words = ""
        if model["positive"]:
            words = f" Positive is {model['name']} = {model['positive']!r}." if what == "decisions" else (
                f" A score of {model['positive']} is a positive decision."
            )  # fmt: skip
        return f"{words} The positive label is {self.settings.label} = {self.labels[1]!r}." if self.labels else words
