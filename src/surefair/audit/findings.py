"""From two trained models and the rows held out to what an audit says of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import narwhals as nw
import numpy as np
from scipy.stats import norm

from surefair import diagnostics
from surefair.audit.result import UNDECIDED, VIOLATES, WITHIN, Settings
from surefair.classifier import FairClassifier
from surefair.inference.interval import Interval, get_metric, plain
from surefair.inference.scoring import binomial_limits
from surefair.rows.arrays import FloatArray


def model_told(
    name: str,
    clf: FairClassifier,
    intervals: Sequence[Interval],
    accuracy: dict[str, float],
    features: Sequence[str],
    constant: bool,
    dependent: bool,
    settings: Settings,
) -> dict[str, Any]:
    """What is found of one model: its accuracy, its intervals, its coefficients, its verdicts.

    There is no definite verdict on a model that is ``constant``, that decides the same for everyone: it keeps any
    margin, and shows nothing by it. Nor is there one from rows that are ``dependent``, nor from shards so short that
    they have not forgotten their start: intervals are too narrow.
    """
    table = nw.from_native(clf.coef_interval(settings.confidence_level), eager_only=True)
    coefficients = [
        {key: plain(value) for key, value in row.items()} | {"feature": feature}
        for row, feature in zip(table.rows(named=True), [*features, "intercept"], strict=True)
    ]
    verdicts = []
    for one in intervals:
        if settings.margin is not None and one.source == "total" and one.metric in settings.judged:
            needed = one.rows_needed(settings.margin)._asdict()
            short = settings.shard_rows is not None and any(w.startswith("StartNotForgotten") for w in one.warnings)
            undecided = constant or dependent or short
            found = {"metric": one.metric, "verdict": UNDECIDED if undecided else one.verdict(settings.margin)}
            verdicts.append(found | {"rows_needed": {key: plain(float(value)) for key, value in needed.items()}})
    return {
        "name": name,
        "criterion": clf.criterion,
        "constant": constant,
        "accuracy": accuracy,
        "intervals": [one.to_dict() for one in intervals],
        "coefficients": coefficients,
        "verdicts": verdicts,
        "warnings": sorted({words for one in intervals for words in one.warnings}),
    }


def accuracies(right: FloatArray, square: float, level: float) -> list[dict[str, float]]:
    """Share of right decisions of each of two models, with its interval.

    Parameters
    ----------
    right : ndarray of shape (2, 2)
        Weight of the rows, by whether the first model is right and whether the second is.
    square : float
        Sum of their squared weights.
    level : float
    """
    shares = right[1].sum() / right.sum(), right[:, 1].sum() / right.sum()
    return [_share(float(share), _telling(right, square), level) for share in shares]


def _telling(right: FloatArray, square: float) -> float:
    """Rows of equal weight that would tell as much."""
    return float(right.sum() ** 2 / square)


def _share(share: float, n: float, level: float) -> dict[str, float]:
    low, high = binomial_limits(share * n, (1.0 - share) * n, level)
    return {"estimate": share, "low": float(low), "high": float(high)}


def price(right: FloatArray, square: float, level: float) -> dict[str, float]:
    """Accuracy of the second model, unconstrained, minus that of the first, on the same rows, with its interval.

    By Agresti and Min: half a row is added to each of the four cells of the table right × right, without which models
    that never disagree among a few rows would be alike for certain.
    """
    n, more, less = _telling(right, square), float(right[0, 1] / right.sum()), float(right[1, 0] / right.sum())
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


def sentence(
    settings: Settings, models: list[dict[str, Any]], positive: str, verdict: str | None, complete: bool
) -> str:
    """The finding, for people who are no statisticians.

    Of several pairs of groups it names the one with the largest gap, and the one that most surely differs, if that is
    another: the first may be of two groups with hardly a row.
    """
    ratio = settings.judged[0].endswith("_ratio")
    unit = "" if ratio else " percentage points"

    def number(value: float | None) -> str:
        return "an unknown number" if value is None else f"{value:.2f}" if ratio else f"{100.0 * value:.1f}"

    one, free = (total(model, settings.judged[0]) for model in models)
    level = f"with {100.0 * settings.confidence_level:g} % confidence"
    apart = f"in the ratio {number(one['estimate'])}" if ratio else f"{number(one['estimate'])}{unit} apart"
    words = f"A linear model trained on these data{' under the constraint' if settings.criterion else ''} has "
    words += f"{_rates(one)}: {apart} ({level}, between {number(one['low'])} and {number(one['high'])}"
    if len(one["by_pair"]) > 1:
        words += ", over all pairs of groups"
        surest = max(one["by_pair"], key=_surely)
        if _surely(surest) > 0.0 and [surest["first"], surest["second"]] != one["pair"]:
            words += f"; those that most surely differ are {surest['first']!r} and {surest['second']!r}"
    words += ")"
    if settings.criterion:
        words += f"; without the constraint, the {'smallest ratio' if ratio else 'largest difference'} is "
        words += f"{number(free['estimate'])}{unit} (between {number(free['low'])} and {number(free['high'])})"
    words += f". Positive is {settings.label} = {positive!r}."
    if models[0]["constant"]:
        words += " The model decides the same for everyone, so that this says nothing of how it treats groups."
    elif settings.margin is not None:
        margin = f"the margin of {number(settings.margin)}{unit}"
        what = "ratio" if ratio else "difference"
        own = next(found["verdict"] for found in models[0]["verdicts"] if found["metric"] == settings.judged[0])
        words += {
            WITHIN: f" The {what} is within {margin}.",
            VIOLATES: f" The {what} violates {margin}.",
            UNDECIDED: f" These rows do not tell whether the {what} is within {margin}.",
        }[own]
        if others := [name.replace("_", " ") for name in settings.judged[1:]]:
            words += f" Together with {', '.join(others)}: {verdict}."
    return words if complete else f"So far, with not all rows read: {words}"


def total(model: dict[str, Any], metric: str) -> dict[str, Any]:
    """A model's interval of source total."""
    return next(one for one in model["intervals"] if (one["metric"], one["source"]) == (metric, "total"))


def _rates(one: dict[str, Any]) -> str:
    """Rates of the two groups that are farthest apart, in words."""
    criterion, _ = get_metric(one["metric"])
    what = next(rate.words for rate in (*criterion.rates, *criterion.ratio_rates) if rate.name == one["rate"])
    rates = {
        row["group"]: "an unknown share" if row["rate"] is None else f"{row['rate']:.1%}".replace("%", " %")
        for row in one["by_group"]
        if row.get("column", one["column"]) == one["column"] and row.get("metric", one["rate"]) == one["rate"]
    }
    first, second = one["pair"]
    return (
        f"a {what} of {rates[first]} in group {first!r} and of {rates[second]} in group {second!r} of {one['column']!r}"
    )


def _surely(pair: dict[str, Any]) -> float:
    """How far two groups are apart at least, by their limits."""
    return max(pair["low"] or 0.0, -(pair["high"] or 0.0), 0.0)


def assumptions(warned: Iterable[str]) -> list[dict[str, Any]]:
    """What intervals rest on, and whether it held, from all that was warned of ("Name: message")."""
    told = sorted({(name, message) for name, _, message in (words.partition(": ") for words in warned)})
    found = []
    for kind in diagnostics.assumptions():
        messages = [message for name, message in told if name == kind.__name__]
        found.append({"name": kind.__name__, "assumes": kind.assumes, "held": not messages, "messages": messages})
    return found
