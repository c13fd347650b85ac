"""Numbers and names of an audit as text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from markupsafe import Markup

from surefair.audit.result import UNDECIDED, VIOLATES, WITHIN, Audit
from surefair.inference.interval import get_metric

UNDEFINED = "not defined"

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""Characters that no text shows: controls, those that turn the direction of what follows, halves of characters."""

_BADGES = {WITHIN: "within", VIOLATES: "violates", UNDECIDED: "undecided"}


class Metric(NamedTuple):
    """What is compared between groups."""

    name: str
    title: str
    ratio: bool
    rates: tuple[str, ...]  # in words
    judged: bool
    margin: float | None  # where there is a verdict on it

    @property
    def full(self) -> str:
        """Title that says whether rates are subtracted or divided."""
        return f"{self.title}, {'ratio' if self.ratio else 'difference'}"

    def number(self, value: float | None) -> str:
        """Return a gap or ratio as text, without its unit."""
        return fixed(value, 3) if self.ratio else points(value)

    def told(self, value: float | None) -> str:
        """Return a gap or ratio as text, with its unit."""
        if value is None:
            return UNDEFINED
        return f"ratio {self.number(value)}" if self.ratio else f"{self.number(value)} percentage points"


def shown(value: Any) -> Any:
    """Value as a page shows it: None in words, and no character that cannot be seen.

    Examples
    --------
    >>> shown(None), shown("caf" + chr(0x202E) + "e")
    ('not defined', 'caf�e')
    """
    if value is None:
        return UNDEFINED
    return value if isinstance(value, Markup) or not isinstance(value, str) else _UNSEEN.sub("\ufffd", value)


def fixed(value: float | None, digits: int) -> str:
    """Return a number with so many digits after the point, and no minus before a zero.

    Examples
    --------
    >>> fixed(-0.00001, 3), fixed(-1.25, 2), fixed(None, 2)
    ('0.000', '−1.25', 'not defined')
    """
    if value is None:
        return UNDEFINED
    text = f"{value:.{digits}f}"
    return (text if float(text) else f"{0:.{digits}f}").replace("-", "−")


def points(value: float | None) -> str:
    """Return a share, or a difference of shares, in hundredths.

    Examples
    --------
    >>> points(0.0512)
    '5.12'
    """
    return fixed(None if value is None else 100.0 * value, 2)


def coefficient(value: float | None) -> str:
    """Return a coefficient as text."""
    return fixed(value, 3)


def whole(value: float | None, none: str = UNDEFINED) -> str:
    """Return a count, with commas between thousands.

    Examples
    --------
    >>> whole(32561), whole(None, "none")
    ('32,561', 'none')
    """
    return none if value is None else f"{value:,.0f}"


def span(low: str, high: str) -> str:
    """Return two limits as text.

    Examples
    --------
    >>> span("2.41", "7.02")
    '2.41 to 7.02'
    """
    return UNDEFINED if low == high == UNDEFINED else f"{low} to {high}"


def level(audit: Audit) -> str:
    """Level of confidence, in per cent."""
    return f"{100.0 * audit.settings.get('confidence_level', 0.95):g}\u00a0%"


def setting(value: Any) -> str:
    """Return a setting as text.

    Examples
    --------
    >>> setting(["sex", "race"]), setting(None), setting([]), setting(True), setting(0.05)
    ('sex, race', 'not given', 'none', 'yes', '0.05')
    """
    if value is None:
        return "not given"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(setting, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def words(name: str) -> str:
    """Return a name of the code in words.

    Examples
    --------
    >>> words("false_positive_rate")
    'False positive rate'
    """
    return name.replace("_", " ").capitalize()


def badge(verdict: str | None) -> str:
    """Class of a verdict in the style sheet."""
    return _BADGES.get(verdict or "", "none")


def metrics(audit: Audit) -> list[Metric]:
    """All metrics of an audit, in its order."""
    settings, found = audit.settings, []
    judged = settings.get("metrics") or [settings.get("criterion") or "demographic_parity"]
    decided = {one["metric"] for model in audit.models for one in model["verdicts"]}
    for name in dict.fromkeys(one["metric"] for model in audit.models for one in model["intervals"]):
        rates: tuple[str, ...] = ()
        try:
            criterion, ratio = get_metric(name)
        except ValueError:  # a criterion of the user's own
            ratio = name.endswith("_ratio")
        else:
            rates = tuple(rate.words for rate in (ratio and criterion.ratio_rates) or criterion.rates)
        margin = settings.get("margin") if name in decided else None
        found.append(Metric(name, words(name.removesuffix("_ratio")), ratio, rates, name in judged, margin))
    return found


def interval(model: dict[str, Any], metric: str, source: str) -> dict[str, Any]:
    """Interval of a model's unfairness; one with nothing defined where there is none."""
    for found in model["intervals"]:
        if (found["metric"], found["source"]) == (metric, source):
            return dict(found)
    return {"estimate": None, "low": None, "high": None, "reason": "", "by_group": [], "rate": "", "n": 0}


def reasons(audit: Audit, metric: str) -> list[tuple[str, list[str]]]:
    """Reasons why intervals of a metric are wider than data tell, or undefined, and whom they concern."""
    found: dict[str, dict[str, list[str]]] = {}
    for model in audit.models:
        for one in model["intervals"]:
            if one["metric"] == metric and one.get("reason"):
                found.setdefault(one["reason"], {}).setdefault(model["name"], []).append(one["source"])
    return [(why, [f"{name} model ({', '.join(told)})" for name, told in who.items()]) for why, who in found.items()]


class GroupRate(NamedTuple):
    """Rate of one group under each model."""

    column: str
    group: str
    found: tuple[dict[str, Any] | None, ...]  # one for each model: n, rate, low, high


class RateTable(NamedTuple):
    """A rate, group by group."""

    name: str
    words: str
    groups: list[GroupRate]

    @property
    def title(self) -> str:
        """Name in words."""
        return words(self.name)


def rates(audit: Audit) -> list[RateTable]:
    """Rates of all groups with intervals of source "total", each rate once.

    Where several metrics compare a rate, limits are drawn anew for each and differ a little. Those of a metric that
    compares nothing else are preferred.
    """
    told: dict[str, str] = {}
    found: dict[str, dict[tuple[str, str], list[dict[str, Any] | None]]] = {}
    for i, model in enumerate(audit.models):
        for metric in metrics(audit):
            one = interval(model, metric.name, "total")
            names = list(dict.fromkeys(row.get("metric", one["rate"]) for row in one["by_group"]))
            for name, text in zip(names, metric.rates or names, strict=False):
                told.setdefault(name, text)
            for row in one["by_group"]:
                groups = found.setdefault(row.get("metric", one["rate"]), {})
                key = (str(row.get("column") or ""), str(row["group"]))
                places = groups.setdefault(key, [None] * len(audit.models))
                if places[i] is None or "metric" not in row:
                    places[i] = row
    return [
        RateTable(name, told[name], [GroupRate(*key, tuple(places)) for key, places in groups.items()])
        for name, groups in found.items()
    ]


class CoefficientRow(NamedTuple):
    """A coefficient under each model."""

    feature: str
    found: tuple[dict[str, Any] | None, ...]

    @property
    def size(self) -> float:
        """The larger of its absolute values."""
        return max((abs(one["estimate"]) for one in self.found if one and one["estimate"] is not None), default=0.0)


def coefficients(audit: Audit) -> list[CoefficientRow]:
    """Coefficients of all models side by side, the largest first."""
    found: dict[tuple[str, int], list[dict[str, Any] | None]] = {}
    for i, model in enumerate(audit.models):
        again: Counter[str] = Counter()  # a name may come twice
        for one in model["coefficients"]:
            name = str(one["feature"])
            found.setdefault((name, again[name]), [None] * len(audit.models))[i] = one
            again[name] += 1
    rows = [CoefficientRow(name, tuple(places)) for (name, _), places in found.items()]
    return sorted(rows, key=lambda one: -one.size)


def paths(audit: Audit) -> list[tuple[Metric, str, list[list[dict[str, Any]]]]]:
    """Metric, source and looks of each model, for each path along the stream."""
    known = {metric.name: metric for metric in metrics(audit)}
    keys = dict.fromkeys((one["metric"], one["source"]) for one in audit.path)
    names = [model["name"] for model in audit.models]
    return [
        (known[metric], source, [_looks(audit.path, name, metric, source) for name in names])
        for metric, source in keys
        if metric in known
    ]


def _looks(path: Iterable[dict[str, Any]], model: str, metric: str, source: str) -> list[dict[str, Any]]:
    found = [one for one in path if (one["model"], one["metric"], one["source"]) == (model, metric, source)]
    return sorted(found, key=lambda one: int(one["rows"]))


def together(looks: Iterable[Iterable[dict[str, Any]]]) -> list[tuple[int, list[dict[str, Any]]]]:
    """Looks of all models after the same number of rows, side by side."""
    parts = [{int(one["rows"]): one for one in part} for part in looks]
    nothing = {"estimate": None, "low": None, "high": None}
    seen = sorted({rows for part in parts for rows in part})
    return [(rows, [part.get(rows, nothing) for part in parts]) for rows in seen]
