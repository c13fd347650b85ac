"""The contents of an audit, arranged the way sections of the report show them.

An audit is a dict here, see ``Audit.to_dict``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from surefair.audit.findings import least_gap
from surefair.audit.result import find_interval
from surefair.inference.metric import any_metric
from surefair.pages.text import UNDEFINED, fixed, percent, points, words

_BADGES = {"within margin": "within", "violates margin": "violates", "not enough evidence": "undecided"}

TITLES = {"auc": "AUC"}

Found = dict[str, Any]  # an audit, or a part of it

SUMMARISED = 6  # groups that the summary lists, so that it fits on a printed page


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
    judged = {*(settings.get("metric") or [settings.get("criterion") or "demographic_parity"])}
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
        return [("read", "Rows read"), ("training", "used for training"), ("evaluation", "used for evaluation")]
    labelled = [] if audit["rows"]["labelled"] is None else [("labelled", "with a label")]
    return [("read", "Rows read"), ("evaluation", "counted"), *labelled]


def row_words(audit: Found) -> str:
    """What the numbers of rows mean, in the order of ``row_counts``."""
    return "; ".join(words for _, words in row_counts(audit))


def reasons(audit: Found) -> list[tuple[str, list[str]]]:
    """Reasons why some values are not defined, each once, with the metrics and models it applies to."""
    titles = {metric.name: metric.full for metric in metrics(audit)}
    model_word = " model" if audit["kind"] == "training" else ""
    found: dict[str, dict[str, list[str]]] = {}
    for model in audit["models"]:
        for one in model["intervals"]:
            if one.get("reason"):
                where = found.setdefault(one["reason"], {}).setdefault(titles[one["metric"]], [])
                where += [model["name"]] if model["name"] not in where else []
    return [
        (reason, [f"{metric} ({' and '.join(names)}{model_word})" for metric, names in where.items()])
        for reason, where in found.items()
    ]


def find_metric(known: Iterable[MetricView], name: str) -> MetricView:
    """Find a metric by its name."""
    return next(metric for metric in known if metric.name == name)


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


class GroupSummary(NamedTuple):
    """A group with its rows, its base rate, and its rate in the first metric under each model."""

    column: str
    group: str
    n: int  # evaluation rows
    base_rate: float | None
    found: tuple[Found, ...]  # one for each model: rate, low, high


def group_summaries(audit: Found) -> tuple[str, list[GroupSummary]]:
    """The rate with the largest gap of the first metric, in words, and all groups with it."""
    tables = rates(audit)
    if not tables:
        return "", []
    largest = find_interval(audit["models"][0], metrics(audit)[0].name)["rate"]
    table = next((one for one in tables if one.name == largest), tables[0])
    nothing: Found = {"rate": None, "low": None, "high": None}
    by_group = {(one.column, one.group): one.found for one in table.groups}
    return table.words, [
        GroupSummary(
            str(one["column"]), str(one["group"]), one["evaluation"], one["base_rate"],
            tuple(found or nothing for found in by_group.get((str(one["column"]), str(one["group"])), ())),
        )
        for one in audit["groups"]
    ]  # fmt: skip


def sensitive_columns(audit: Found) -> list[str]:
    """Columns whose groups are compared, if there are several."""
    found = dict.fromkeys(str(one["column"]) for one in audit["groups"] if one.get("compared", True))
    return [*found] if len(found) > 1 else []


def within(interval: Found, column: str) -> Found:
    """The largest absolute gap between groups of one column, with limits from those of all pairs."""
    pairs = [one for one in interval["by_pair"] if str(one.get("column")) == column and one["gap"] is not None]
    known = [one for one in pairs if one["low"] is not None and one["high"] is not None]
    if not known or len(known) < len(pairs):
        return {"estimate": None, "low": None, "high": None}
    return {
        "estimate": max(abs(one["gap"]) for one in known),
        "low": max(map(least_gap, known)),
        "high": max(max(-one["low"], one["high"]) for one in known),
    }


def pair_with_rows(audit: Found, interval: Found) -> str:
    """Name the two groups of an interval with their column and numbers of evaluation rows."""
    if "pair" not in interval:
        return ""
    rows = {(str(one["column"]), str(one["group"])): one["evaluation"] for one in audit["groups"]}
    column = str(interval.get("column") or "")
    named = []
    for group in interval["pair"]:
        n = rows.get((column, str(group)))
        named.append(f"{group}{'' if n is None else f' (n = {n:,})'}")
    return f"{column}: {' and '.join(named)}" if column else " and ".join(named)


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


def is_anytime(audit: Found) -> bool:
    """Whether the intervals along the stream hold at all looks together; those of older audits do not."""
    return bool(audit["path"]) and all(one.get("anytime", False) for one in audit["path"])


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


def messages(audit: Found, diagnostics: Iterable[Found]) -> list[tuple[str, str, bool]]:
    """What diagnostics say: the models concerned, the words, and whether they rule out a verdict.

    A sentence that several of them share comes once, with the first.
    """
    said: set[str] = set()
    ruled_out = False
    found = []
    for one in diagnostics:
        words = f"{one['message']} {one['command_line_advice'] or one['advice']}"
        new = [part for part in dict.fromkeys(re.split(r"(?<=[.!?]) ", words)) if part not in said]
        said.update(new)
        forbids = one["forbids_verdict"] and not ruled_out
        ruled_out |= one["forbids_verdict"]
        if new:
            found.append((" and ".join(concerned(audit, one)), " ".join(new), forbids))
    return found


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
