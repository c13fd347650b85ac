"""The contents of an audit, arranged the way sections of the report show them.

An audit is a dict here, see ``Audit.to_dict``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from surefair.audit.result import find_interval
from surefair.inference.metric import any_metric
from surefair.pages.text import UNDEFINED, fixed, percent, points, words

_BADGES = {"within margin": "within", "violates margin": "violates", "not enough evidence": "undecided"}

TITLES = {"auc": "AUC"}

Found = dict[str, Any]  # an audit, or a part of it


class MetricView(NamedTuple):
    """What is compared between groups."""

    name: str
    title: str
    ratio: bool
    rates: tuple[str, ...]  # in words
    judged: bool
    margin: float | None  # if there is a verdict on this metric

    @property
    def full(self) -> str:
        """Title that says whether rates are subtracted or divided."""
        return f"{self.title}, {'ratio' if self.ratio else 'difference'}"

    def number(self, value: float | None) -> str:
        """Write a gap or a ratio without its unit."""
        return fixed(value, 3) if self.ratio else points(value)

    def with_unit(self, value: float | None) -> str:
        """Write a gap or a ratio with its unit."""
        if value is None:
            return UNDEFINED
        return f"ratio {self.number(value)}" if self.ratio else f"{self.number(value)} percentage points"


def level(audit: Found) -> str:
    """Write the confidence level as a percentage."""
    return percent(audit["settings"].get("confidence_level", 0.95))


def coefficient(value: float | None) -> str:
    """Write a coefficient."""
    return fixed(value, 3)


def badge(verdict: str | None) -> str:
    """Class of a verdict in the style sheet."""
    return _BADGES.get(verdict or "", "none")


def metrics(audit: Found) -> list[MetricView]:
    """All metrics of an audit, in its order."""
    settings = audit["settings"]
    judged = {*(settings.get("metrics") or [settings.get("criterion") or "demographic_parity"])}
    margins = {one["metric"]: one["margin"] for model in audit["models"] for one in model["verdicts"]}
    found = []
    for name in dict.fromkeys(one["metric"] for model in audit["models"] for one in model["intervals"]):
        rates: tuple[str, ...] = ()
        try:
            metric = any_metric(name)
        except ValueError:  # a criterion that the user made
            ratio = name.endswith("_ratio")
        else:
            ratio, rates = metric.ratio, tuple(rate.words for rate in metric.rates)
        title = TITLES.get(name.removesuffix("_ratio"), words(name.removesuffix("_ratio")))
        found.append(MetricView(name, title, ratio, rates, name in judged | {*margins}, margins.get(name)))
    return found


def metric(audit: Found, name: str) -> MetricView:
    """Return one metric of an audit."""
    return next(one for one in metrics(audit) if one.name == name)


def metrics_by_kind(audit: Found, model: Found) -> list[list[MetricView]]:
    """Metrics of a model in parts that fit into one chart: judged or not, differences or ratios, with one margin."""
    names = {one["metric"] for one in model["intervals"]}
    found: dict[tuple[bool, bool, float], list[MetricView]] = {}
    for one in metrics(audit):
        if one.name in names:
            found.setdefault((not one.judged, one.ratio, one.margin or 0.0), []).append(one)
    return [found[key] for key in sorted(found)]


def row_counts(audit: Found) -> list[tuple[str, str]]:
    """Names of numbers of rows, and what they mean."""
    if audit["kind"] == "training":
        return [
            ("read", "Rows read"),
            ("training", "Rows used for training"),
            ("evaluation", "Rows used for evaluation"),
        ]
    labelled = [] if audit["rows"]["labelled"] is None else [("labelled", "Rows with a label")]
    return [("read", "Rows read"), ("evaluation", "Rows counted"), *labelled]


def reasons(audit: Found, metric: str) -> list[tuple[str, list[str]]]:
    """Reasons why parts of a metric are not defined, each with the models and sources it applies to."""
    found: dict[str, dict[str, list[str]]] = {}
    for model in audit["models"]:
        for one in model["intervals"]:
            if one["metric"] == metric and one.get("reason"):
                found.setdefault(one["reason"], {}).setdefault(model["name"], []).append(one["source"])
    return [
        (reason, [_where(audit, name, sources) for name, sources in where.items()]) for reason, where in found.items()
    ]


def _where(audit: Found, name: str, sources: list[str]) -> str:
    return f"{name} model ({', '.join(sources)})" if audit["kind"] == "training" else name


class GroupRate(NamedTuple):
    """The rate of one group under each model."""

    column: str
    group: str
    found: tuple[Found | None, ...]  # one for each model: n, rate, low, high


class RateTable(NamedTuple):
    """A rate, group by group."""

    name: str
    words: str
    groups: list[GroupRate]
    judged: bool  # whether a metric that compares it gets a verdict

    @property
    def title(self) -> str:
        """Name in words."""
        return words(self.name)


def rates(audit: Found, only: Found | None = None) -> list[RateTable]:
    """Rates of all groups, with the intervals that models are judged by, each rate once; of one model or of all.

    Metrics that compare the same rate draw its limits separately, and these differ slightly. The limits shown are
    those of the metric that compares only this rate, if there is one.
    """
    in_words: dict[str, str] = {}
    found: dict[str, dict[tuple[str, str], list[Found | None]]] = {}
    models = audit["models"] if only is None else [only]
    judged: set[str] = set()
    for i, model in enumerate(models):
        for metric in metrics(audit):
            one = find_interval(model, metric.name)
            names = list(dict.fromkeys(row.get("metric", one["rate"]) for row in one["by_group"]))
            for name, description in zip(names, metric.rates or names, strict=False):
                in_words.setdefault(name, description)
            judged |= {*names} if metric.judged else set()
            for row in one["by_group"]:
                groups = found.setdefault(row.get("metric", one["rate"]), {})
                key = (str(row.get("column") or ""), str(row["group"]))
                places = groups.setdefault(key, [None] * len(models))
                if places[i] is None or "metric" not in row:
                    places[i] = row
    return [
        RateTable(
            name, in_words[name], [GroupRate(*key, tuple(places)) for key, places in groups.items()], name in judged
        )
        for name, groups in found.items()
    ]


class CoefficientRow(NamedTuple):
    """A coefficient under each model."""

    feature: str
    found: tuple[Found | None, ...]

    @property
    def size(self) -> float:
        """The larger of its absolute values."""
        return max((abs(one["estimate"]) for one in self.found if one and one["estimate"] is not None), default=0.0)


def coefficients(audit: Found) -> list[CoefficientRow]:
    """Coefficients of all models side by side, the largest first."""
    found: dict[tuple[str, int], list[Found | None]] = {}
    for i, model in enumerate(audit["models"]):
        seen: Counter[str] = Counter()  # two features may have the same name
        for one in model["coefficients"]:
            name = str(one["feature"])
            found.setdefault((name, seen[name]), [None] * len(audit["models"]))[i] = one
            seen[name] += 1
    rows = [CoefficientRow(name, tuple(places)) for (name, _), places in found.items()]
    return sorted(rows, key=lambda one: -one.size)


def paths(audit: Found) -> list[tuple[MetricView, str, list[list[Found]]]]:
    """Metric, source, and the looks at each model during training."""
    known = {metric.name: metric for metric in metrics(audit)}
    keys = dict.fromkeys((one["metric"], one["source"]) for one in audit["path"])
    names = [model["name"] for model in audit["models"]]
    return [
        (known[metric], source, [_looks(audit["path"], name, metric, source) for name in names])
        for metric, source in keys
        if metric in known
    ]


def _looks(path: Iterable[Found], model: str, metric: str, source: str) -> list[Found]:
    found = [one for one in path if (one["model"], one["metric"], one["source"]) == (model, metric, source)]
    return sorted(found, key=lambda one: int(one["rows"]))


def together(looks: Iterable[Iterable[Found]]) -> list[tuple[int, list[Found]]]:
    """Looks at all models after the same number of rows, side by side."""
    parts = [{int(one["rows"]): one for one in part} for part in looks]
    nothing = {"estimate": None, "low": None, "high": None}
    seen = sorted({rows for part in parts for rows in part})
    return [(rows, [part.get(rows, nothing) for part in parts]) for rows in seen]


def concerned(audit: Found, diagnostic: Found) -> list[str]:
    """Names of the models that a diagnostic is about; none if it is about the data."""
    wanted = (diagnostic["name"], diagnostic["message"])
    return [
        model["name"]
        for model in audit["models"]
        if wanted in [(one["name"], one["message"]) for one in model["diagnostics"]]
    ]


def other_diagnostics(audit: Found) -> list[Found]:
    """Diagnostics of the models that are not about an assumption, each once."""
    listed = {one["name"] for one in audit["assumptions"]}
    found = {
        (one["name"], one["message"]): one
        for model in audit["models"]
        for one in model["diagnostics"]
        if one["name"] not in listed
    }
    return list(found.values())
