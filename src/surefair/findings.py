"""From two trained models and the rows held out to what an audit says of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from surefair import diagnostics
from surefair.audits import UNDECIDED, VIOLATES, WITHIN, Settings
from surefair.estimators import FairClassifier
from surefair.intervals import Interval, get_metric, plain
from surefair.scoring import binomial_limits
from surefair.streams import FloatArray

BoolArray = NDArray[np.bool_]


def model_told(
    name: str,
    clf: FairClassifier,
    intervals: Sequence[Interval],
    correct: BoolArray,
    weight: FloatArray,
    features: Sequence[str],
    settings: Settings,
) -> dict[str, Any]:
    """What is found of one model: its accuracy, its intervals, its coefficients, its verdicts."""
    table = nw.from_native(clf.coef_interval(settings.confidence_level), eager_only=True)
    coefficients = [
        {key: plain(value) for key, value in row.items()} | {"feature": feature}
        for row, feature in zip(table.rows(named=True), [*features, "intercept"], strict=True)
    ]
    verdicts = []
    for one in intervals:
        if settings.margin is not None and one.source == "total" and one.metric in settings.judged:
            needed = one.rows_needed(settings.margin)._asdict()
            found = {"metric": one.metric, "verdict": one.verdict(settings.margin)}
            verdicts.append(found | {"rows_needed": {key: plain(float(value)) for key, value in needed.items()}})
    return {
        "name": name,
        "criterion": clf.criterion,
        "accuracy": _accuracy(correct, weight, settings.confidence_level),
        "intervals": [one.to_dict() for one in intervals],
        "coefficients": coefficients,
        "verdicts": verdicts,
        "warnings": sorted({words for one in intervals for words in one.warnings}),
    }


def _accuracy(correct: BoolArray, weight: FloatArray, level: float) -> dict[str, float]:
    """Share of right decisions of this very model, with its interval."""
    share = float(weight @ correct / weight.sum())
    n = float(weight.sum() ** 2 / (weight @ weight))  # rows of equal weight that would tell as much
    low, high = binomial_limits(share * n, (1.0 - share) * n, level)
    return {"estimate": share, "low": float(low), "high": float(high)}


def price(free: BoolArray, held: BoolArray, weight: FloatArray, level: float) -> dict[str, float]:
    """Accuracy of the unconstrained model minus that of the constrained one, on the same rows, with its interval."""
    share, lost = weight / weight.sum(), free.astype(np.float64) - held
    mean = float(share @ lost)
    half = float(norm.ppf((1.0 + level) / 2.0) * np.sqrt(np.sum(share**2 * (lost - mean) ** 2)))
    return {"estimate": mean, "low": mean - half, "high": mean + half}


def overall(verdicts: Iterable[str]) -> str:
    """Verdict on several metrics: all must be within the margin, and one that violates it is enough.

    Examples
    --------
    >>> overall(["within margin", "not enough evidence"])
    'not enough evidence'
    """
    found = set(verdicts)
    return VIOLATES if VIOLATES in found else UNDECIDED if UNDECIDED in found else WITHIN


def sentence(settings: Settings, models: list[dict[str, Any]], verdict: str | None, complete: bool) -> str:
    """The finding, for people who are no statisticians."""
    metric = settings.judged[0]
    criterion, ratio = get_metric(metric)
    unit = "" if ratio else " percentage points"

    def number(value: float | None) -> str:
        return "an unknown number" if value is None else f"{value:.2f}" if ratio else f"{100.0 * value:.1f}"

    def range_of(one: dict[str, Any]) -> str:
        return f"between {number(one['low'])} and {number(one['high'])}"

    one, free = (
        next(one for one in model["intervals"] if (one["metric"], one["source"]) == (metric, "total"))
        for model in models
    )
    rate = next(r.words for r in (*criterion.rates, *criterion.ratio_rates) if r.name == one["rate"])
    pair = f"groups {one['pair'][0]!r} and {one['pair'][1]!r} of {one['column']!r}"
    differ = "are in the ratio" if ratio else "differ by"
    model = "constrained model" if settings.criterion else "model"
    words = (
        f"Under the {model}, {pair} {differ} {number(one['estimate'])}{unit} in the {rate} "
        f"(with {100.0 * settings.confidence_level:g} % confidence, {range_of(one)})"
    )
    if settings.criterion:
        largest = "smallest ratio" if ratio else "largest difference"
        words += f"; without the constraint, the {largest} is {number(free['estimate'])}{unit} ({range_of(free)})"
    words += "."
    if settings.margin is not None:
        margin = f"the margin of {number(settings.margin)}{unit}"
        words += {
            WITHIN: f" This is within {margin}.",
            VIOLATES: f" This violates {margin}.",
            UNDECIDED: f" These rows do not tell whether that is within {margin}.",
        }[verdict or UNDECIDED]
        if len(settings.judged) > 1:
            words += f" The verdict is on {', '.join(name.replace('_', ' ') for name in settings.judged)} together."
    return words if complete else f"So far, with not all rows read: {words}"


def assumptions(warned: Iterable[str]) -> list[dict[str, Any]]:
    """What intervals rest on, and whether it held, from all that was warned of ("Name: message")."""
    told = sorted({(name, message) for name, _, message in (words.partition(": ") for words in warned)})
    found = []
    for kind in diagnostics.assumptions():
        messages = [message for name, message in told if name == kind.__name__]
        found.append({"name": kind.__name__, "assumes": kind.assumes, "held": not messages, "messages": messages})
    return found
