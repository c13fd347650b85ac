"""From two trained models and their evaluation to what an audit says about them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm

from surefair.audit.evaluation import METHOD, Evaluation
from surefair.audit.result import find_interval
from surefair.audit.settings import AuditSettings
from surefair.diagnostics import DIAGNOSTICS, Diagnostic, changing_gap
from surefair.inference.coefficients import coefficient_table
from surefair.inference.cross_fit import CrossFit
from surefair.inference.evaluation import model_interval
from surefair.inference.interval import UNDECIDED, VIOLATES, WITHIN, Interval, Question, plain
from surefair.inference.metric import RATIO, any_metric, get_metric
from surefair.inference.scoring import binomial_limits
from surefair.inference.sources import SOURCES, Tally
from surefair.rows import FloatArray
from surefair.training.model import Model

OTHERS = ("FailedRefits", "FewClusters", "LowCoverage", "NoSampleWeight", "OneDecision", "TiedScores")
CHECKED = tuple(name for name in DIAGNOSTICS if name not in OTHERS)
"""Diagnostics that a training audit looks for."""


class Finding(NamedTuple):
    """What is found about one model: plain values for the audit, and the diagnostics behind them."""

    values: dict[str, Any]
    diagnostics: tuple[Diagnostic, ...]


def ask(
    model: Model,
    tally: Tally | CrossFit,
    metric: str,
    source: str,
    settings: AuditSettings,
    level: float | None = None,
    anytime: bool = False,
) -> Interval:
    """Interval for the unfairness of a model in one metric, from one source, at another level if one is given.

    With cross-fitting, it is for one look.
    """
    question = Question(get_metric(metric), source, METHOD, settings.confidence_level if level is None else level)
    if isinstance(tally, CrossFit):
        return tally.interval(question)
    return model_interval(model.answer(), tally, question, anytime=anytime)


def find(
    name: str, model: Model, evaluation: Evaluation, common: Iterable[Diagnostic], settings: AuditSettings
) -> Finding:
    """Describe one model: its accuracy, its intervals, its coefficients, its verdicts.

    Parameters
    ----------
    name : {"constrained", "unconstrained"}
    model : Model
    evaluation : Evaluation
    common : iterable of Diagnostic
        Diagnostics of the whole audit that may rule out a verdict.
    settings : AuditSettings
    """
    tally = evaluation.tallies[name]
    intervals = [ask(model, tally, metric, source, settings) for metric in settings.measured for source in SOURCES]
    common = [*common, *(one for one in model.diagnostics if one.forbids_verdict)]
    common += changing_gap.check(evaluation.periods[name].rates())
    diagnostics = dict.fromkeys([*(one for interval in intervals for one in interval.diagnostics), *common])
    table = coefficient_table(model.answer(), model.features, settings.confidence_level, "basic")
    rows = zip(*table.values(), strict=True)
    values = {
        "name": name,
        "criterion": None if model.problem.criterion is None else model.problem.criterion.name,
        "constant": evaluation.is_constant(name),
        "positive": None,
        "threshold": None,
        "rows": {"decided": evaluation.n, "labelled": evaluation.n},
        "notes": [],
        "accuracy": accuracies(evaluation, settings.confidence_level)[name],
        "intervals": [one.to_dict() for one in intervals],
        "coefficients": [dict(zip(table, map(plain, row), strict=True)) for row in rows],
        "verdicts": [
            judge(
                replace(one, diagnostics=(*one.diagnostics, *common)),
                replace(wide, diagnostics=(*wide.diagnostics, *common)),
                settings.margins[one.metric],
            )
            for one in intervals
            if one.source == "total" and one.metric in settings.margins
            for wide in [_wide(model, tally, one, settings)]
        ],
        "diagnostics": [one.to_dict() for one in sorted(diagnostics, key=lambda one: (one.name, one.message))],
    }
    return Finding(values, tuple(diagnostics))


def _wide(model: Model, tally: Tally | CrossFit, one: Interval, settings: AuditSettings) -> Interval:
    """Interval that holds for all judged metrics together, by Bonferroni's rule: each gets its share of the error."""
    if len(settings.judged) == 1:
        return one
    level = 1.0 - (1.0 - settings.confidence_level) / len(settings.judged)
    return ask(model, tally, one.metric, one.source, settings, level)


def judge(interval: Interval, wide: Interval, margin: float) -> dict[str, Any]:
    """Verdict on a metric, what rules out a definite one, and how many more rows would decide it.

    Parameters
    ----------
    interval : Interval
        Interval of the metric by itself, by which it may be within its margin.
    wide : Interval
        Interval that holds for all metrics together, by which it may violate its margin.
    margin : float
    """
    beyond = interval.estimate < margin if interval.metric.endswith(RATIO) else interval.estimate > margin
    deciding = wide if beyond else interval
    needed = {key: plain(float(value)) for key, value in deciding.rows_needed(margin)._asdict().items()}
    judged = wide if interval.verdict(margin) == VIOLATES else interval
    verdict = judged.verdict(margin)
    ruled_out = [one.message for one in judged.diagnostics if one.forbids_verdict]
    if judged is not interval and not ruled_out:
        ruled_out = [
            "By itself its interval is beyond the margin, but the limits that hold for all that is judged together, "
            f"{wide.low:.3f} to {wide.high:.3f}, are not."
        ]
    return {
        "metric": interval.metric,
        "margin": float(margin),
        "verdict": verdict,
        "reason": ruled_out[0] if ruled_out and verdict == UNDECIDED else "",
        "rows_needed": needed,
        "joint": {name: plain(getattr(wide, name)) for name in ("confidence_level", "low", "high")},
    }


def accuracies(evaluation: Evaluation, level: float) -> dict[str, dict[str, float]]:
    """Share of right decisions of each model, with its interval."""
    right = evaluation.right
    shares = right[1].sum() / right.sum(), right[:, 1].sum() / right.sum()
    n = _effective_rows(right, evaluation.square)
    return {name: _share(float(share), n, level) for name, share in zip(evaluation.tallies, shares, strict=True)}


def _effective_rows(right: FloatArray, square: float) -> float:
    """Rows of equal weight that would give as much information."""
    return float(right.sum() ** 2 / square)


def _share(share: float, n: float, level: float) -> dict[str, float]:
    low, high = binomial_limits(share * n, (1.0 - share) * n, level)
    return {"estimate": share, "low": float(low), "high": float(high)}


def price(evaluation: Evaluation, level: float) -> dict[str, float]:
    """Accuracy of the second model, unconstrained, minus that of the first, on the same rows, with its interval.

    The method is Agresti and Min's: half a row is added to each of the four cells of the table right × right, without
    which models that never disagree among a few rows would be equal for certain.
    """
    right = evaluation.right
    n = _effective_rows(right, evaluation.square)
    more = float(right[0, 1] / right.sum())
    less = float(right[1, 0] / right.sum())
    middle = n * (more - less) / (n + 2.0)
    half = norm.ppf((1.0 + level) / 2.0) * np.sqrt(n * (more + less) + 1.0 - (n + 2.0) * middle**2) / (n + 2.0)
    return {"estimate": more - less, "low": float(middle - half), "high": float(middle + half)}


def overall(verdicts: Iterable[str]) -> str:
    """Verdict on several metrics: all must be within the margin, and one that violates it is enough.

    Examples
    --------
    >>> overall(["within margin", "not enough evidence"])
    'not enough evidence'
    """
    found = set(verdicts)
    return VIOLATES if VIOLATES in found else UNDECIDED if UNDECIDED in found else WITHIN


def assumptions(found: Iterable[Diagnostic], checked: Iterable[str] = CHECKED) -> list[dict[str, Any]]:
    """What intervals of an audit rest on, and whether it held; others are about ways to train that it does not use."""
    names = {*checked}
    ordered = sorted({*found}, key=lambda one: one.message)
    return [
        {"name": name, "assumes": kind.assumes, "held": not some, "diagnostics": [one.to_dict() for one in some]}
        for name, kind in DIAGNOSTICS.items()
        if kind.assumes and kind.command_line_advice and name in names
        for some in [[one for one in ordered if one.name == name]]
    ]


def sentence(
    settings: AuditSettings, models: list[dict[str, Any]], positive: str, verdict: str | None, complete: bool
) -> str:
    """Write the finding for readers who are not statisticians.

    With several pairs of groups it names the pair with the largest gap and, if that is another, the pair that most
    clearly differs: the largest gap may be between two groups with hardly any rows.
    """
    one, free = (find_interval(model, settings.judged[0]) for model in models)
    ratio = _is_ratio(one)
    unit = "" if ratio else " percentage points"
    words = f"A linear model trained on these data{' with the constraint' if settings.criterion else ''} has "
    words += compared_words(one, settings.confidence_level)
    if settings.criterion:
        words += f"; without the constraint, the {'smallest ratio' if ratio else 'largest difference'} is "
        words += f"{_number(free['estimate'], ratio)}{unit} "
        words += f"(between {_number(free['low'], ratio)} and {_number(free['high'], ratio)})"
    words += f". Positive is {settings.label} = {positive!r}."
    if models[0]["constant"]:
        words += " The model decides the same for everyone, so this says nothing about how it treats groups."
    elif settings.margins:
        judged = next(found for found in models[0]["verdicts"] if found["metric"] == settings.judged[0])
        words += f" {margin_words(judged)}"
        if others := [name.replace("_", " ") for name in settings.judged[1:]]:
            words += f" Judged together with {', '.join(others)}: {verdict}."
    return words if complete else f"So far, before all rows were read: {words}"


def _is_ratio(one: dict[str, Any]) -> bool:
    return str(one["metric"]).endswith(RATIO)


def _number(value: float | None, ratio: bool) -> str:
    return "an unknown number" if value is None else f"{value:.2f}" if ratio else f"{100.0 * value:.1f}"


def compared_words(one: dict[str, Any], confidence_level: float) -> str:
    """Say in words how far groups are apart, from an interval as a dict."""
    ratio = _is_ratio(one)
    estimate, low, high = (_number(one[name], ratio) for name in ("estimate", "low", "high"))
    apart = f"in the ratio {estimate}" if ratio else f"{estimate} percentage points apart"
    if one["estimate"] is None:
        return f"{_rates(one)}: how far they are apart cannot be said"
    words = f"{_rates(one)}: {apart} (with {100.0 * confidence_level:g} % confidence, between {low} and {high}"
    if len(one["by_pair"]) > 1:
        words += f", over all {_scope(one['by_pair'])}"
        surest = max(one["by_pair"], key=least_gap)
        if least_gap(surest) > 0.0 and [surest["first"], surest["second"]] != one["pair"]:
            words += f"; the groups that most clearly differ are {surest['first']!r} and {surest['second']!r}"
    return f"{words})"


def _scope(by_pair: list[dict[str, Any]]) -> str:
    """Which pairs were compared, in words: those with a reference may be some only.

    Examples
    --------
    >>> pairs = [{"column": "race", "first": "a", "second": other} for other in "bc"]
    >>> _scope(pairs), _scope([*pairs, {"column": "race", "first": "b", "second": "c"}])
    ('pairs that are compared', 'pairs of groups')
    """
    for column in {one.get("column") for one in by_pair}:
        pairs = {frozenset((one["first"], one["second"])) for one in by_pair if one.get("column") == column}
        n = len(frozenset.union(*pairs))
        if len(pairs) < n * (n - 1) // 2:
            return "pairs that are compared"
    return "pairs of groups"


def margin_words(judged: dict[str, Any]) -> str:
    """Say in words what the verdict on a metric is."""
    ratio = _is_ratio(judged)
    margin = f"the margin of {_number(judged['margin'], ratio)}{'' if ratio else ' percentage points'}"
    what = "ratio" if ratio else "difference"
    if judged["reason"]:
        return f"There is no definite verdict on {margin}. {judged['reason']}"
    return {
        WITHIN: f"The {what} is within {margin}.",
        VIOLATES: f"The {what} violates {margin}.",
        UNDECIDED: f"These rows do not show whether the {what} is within {margin}.",
    }[judged["verdict"]]


def _rates(one: dict[str, Any]) -> str:
    """Rates of the two groups with the largest gap, in words."""
    metric = any_metric(one["metric"])
    what = next(rate.words for rate in metric.rates if rate.name == one["rate"])
    rates = {
        row["group"]: "an unknown share" if row["rate"] is None else f"{row['rate']:.1%}".replace("%", " %")
        for row in one["by_group"]
        if row.get("column", one["column"]) == one["column"] and row.get("metric", one["rate"]) == one["rate"]
    }
    first, second = one["pair"]
    article = "an" if what[0] in "aeiou" else "a"
    both = f"{rates[first]} in group {first!r} and of {rates[second]} in group {second!r}"
    return f"{article} {what} of {both} of {one['column']!r}"


def least_gap(pair: dict[str, Any]) -> float:
    """The smallest gap that the limits allow."""
    return max(pair["low"] or 0.0, -(pair["high"] or 0.0), 0.0)
