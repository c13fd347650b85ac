"""Charts as SVG for the page: plain text, the same bytes everywhere.

Lengths are in CSS pixels, with one decimal. Colours come from the page's style sheet, which knows light, dark and
print; models also differ in shape. Every mark can be pointed at or reached by keyboard, and says its value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple
from unicodedata import combining, east_asian_width

from markupsafe import Markup, escape

from surefair.audit.report import texts
from surefair.audit.report.texts import CoefficientRow, Metric, RateTable
from surefair.audit.result import Audit
from surefair.inference.interval import SOURCES

HALF, WIDE = 400, 820  # width of a chart beside another, and of one alone
LINE, GAP = 15.0, 9.0  # height of one mark's line, and space between rows
DENSE = 11.0, 6.0  # the same where there are many rows
MOST = 30  # rows of coefficients that are drawn
GROUPS = 30  # groups in one chart; it fits on a page


class Mark(NamedTuple):
    """An estimate with its interval."""

    model: int  # 0 constrained, 1 unconstrained, 2 neither
    estimate: float | None
    low: float | None
    high: float | None
    tip: str
    text: str = ""  # beside it


class Row(NamedTuple):
    """A label with its marks; without marks it is a heading."""

    label: str
    marks: tuple[Mark, ...] = ()


class Scale(NamedTuple):
    """Numbers along an axis."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]

    def at(self, value: float, start: float, end: float) -> float:
        """Place of a value on the way from start to end, which it does not leave."""
        share = (value - self.low) / (self.high - self.low)
        return start + min(max(share, 0.0), 1.0) * (end - start)


# -- Elements ----------------------------------------------------------------------------------------------------------


def element(tag: str, *content: Any, **attributes: Any) -> Markup:
    """Return an element; content and attributes are escaped, numbers get one decimal.

    Examples
    --------
    >>> print(element("text", "a < b", x=1, class_="label", data_tip='"quoted"'))
    <text x="1.0" class="label" data-tip="&#34;quoted&#34;">a &lt; b</text>
    """
    told = Markup("").join(
        Markup(' {}="{}"').format(name.rstrip("_").replace("_", "-"), _attribute(value))
        for name, value in attributes.items()
        if value is not None
    )
    inner = Markup("").join(escape(texts.shown(part)) for part in content)
    return Markup("<{tag}{told}>{inner}</{tag}>").format(tag=tag, told=told, inner=inner)


def _attribute(value: Any) -> Any:
    return texts.fixed(value, 1).replace("−", "-") if isinstance(value, int | float) else texts.shown(value)


def _text(words: str, x: float, y: float, kind: str, anchor: str = "start") -> Markup:
    return element("text", words, x=x, y=y, class_=kind, text_anchor=None if anchor == "start" else anchor)


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind)


def _mark(tip: str, model: int, *content: Markup) -> Markup:
    """Group of shapes that says its value."""
    title = element("title", tip)
    told = {"tabindex": "0", "role": "img", "aria_label": tip, "data_tip": tip}
    return element("g", title, *content, class_=f"mark m{model}", **told)


def _svg(width: float, height: float, label: str, *content: Markup) -> Markup:
    box = f"0 0 {width:.0f} {height:.0f}"
    kind = "chart wide" if width == WIDE else "chart"
    return element("svg", *content, class_=kind, viewBox=box, role="group", aria_label=label)


def _dot(model: int, x: float, y: float) -> Markup:
    """Shape of a model: a diamond for the unconstrained one, a disc for others."""
    if model != 1:
        return element("circle", cx=x, cy=y, r=4, class_="dot")
    corners = " ".join(f"{x + a:.1f},{y + b:.1f}" for a, b in ((-5, 0), (0, -5), (5, 0), (0, 5)))
    return element("polygon", points=corners, class_="dot")


def key(model: int) -> Markup:
    """Shape of a model for a legend."""
    line, dot = _line(1, 8, 25, 8, "reach"), _dot(model, 13, 8)
    return element("svg", line, dot, class_=f"key m{model}", viewBox="0 0 26 16", aria_hidden="true")


def key_margin() -> Markup:
    """Line of the margin for a legend."""
    return element("svg", _line(13, 0, 13, 16, "margin"), class_="key", viewBox="0 0 26 16", aria_hidden="true")


# -- Scales and labels -------------------------------------------------------------------------------------------------


def make_scale(
    values: Iterable[float | None],
    floor: float | None = None,
    ceiling: float | None = None,
    times: float = 1.0,
    most: int = 6,
) -> Scale:
    """Axis with round ticks over some values.

    Parameters
    ----------
    values : iterable of float or None
    floor, ceiling : float, optional
        Where the axis begins or ends.
    times : float
        Factor of the ticks' labels: 100 for percentage points.
    most : int
        Number of ticks at most.

    Examples
    --------
    >>> [label for _, label in make_scale([0.024, 0.201], floor=0.0, times=100.0).ticks]
    ['0', '5', '10', '15', '20']
    """
    known = [value for value in values if value is not None]
    low = min(known, default=0.0) if floor is None else floor
    high = max(known, default=1.0) if ceiling is None else ceiling
    spare = 0.04 * (high - low) or 0.05
    low, high = low - (spare if floor is None else 0.0), high + (spare if ceiling is None else 0.0)
    size = (high - low) * times
    power = math.floor(math.log10(size)) - 1
    steps = [(factor, power + k) for k in range(3) for factor in (1, 2, 5)]
    factor, power = next(step for step in steps if size / (step[0] * 10.0 ** step[1]) < most)
    step, digits = factor * 10.0**power, max(0, -power)
    first, last = math.ceil(low * times / step - 1e-9), math.floor(high * times / step + 1e-9)
    ticks = tuple((i * step / times, texts.fixed(i * step, digits)) for i in range(first, last + 1))
    return Scale(low, high, ticks)


def _log_ticks(low: int, high: int) -> list[int]:
    """Round numbers of rows, at most seven."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        ticks = [factor * 10**power for power in powers for factor in factors if low <= factor * 10**power <= high]
        if 2 <= len(ticks) <= 6:
            return ticks
    return ticks if len(ticks) > 6 else sorted({low, high})


def _width(words: str) -> float:
    """Width of a label in units of its size, about."""
    return sum(map(_letter_width, words))


def _letter_width(letter: str) -> float:
    if combining(letter):
        return 0.0
    if east_asian_width(letter) in "WF":
        return 1.0
    if letter in "iljtfI.,;:'|!()[] ":
        return 0.32
    if letter in "mwMW@%—":
        return 0.86
    return 0.68 if letter.isupper() or letter > "\u0500" else 0.56


def shorten(words: str, room: float) -> str:
    """Return a label cut to so many units of its size, with an ellipsis.

    Examples
    --------
    >>> shorten("occupation = Exec-managerial", 9.0)
    'occupation = Ex…'
    """
    words = " ".join(str(words).split())
    if _width(words) <= room:
        return words
    while words and _width(words) > room - 1.0:
        words = words[:-1]
    return words.rstrip() + "…"


# -- Forests -----------------------------------------------------------------------------------------------------------


def forest(
    rows: Sequence[Row],
    scale: Scale,
    *,
    label: str,
    axis: str,
    width: float = HALF,
    left: float = 70.0,
    right: float = 16.0,
    head: str = "",
    margin: tuple[float, str] | None = None,
    zero: bool = False,
    once: bool = False,
) -> Markup:
    """Estimates with intervals, one below the other.

    Parameters
    ----------
    rows : sequence of Row
    scale : Scale
    label : str
        What the chart shows, for those who do not see it.
    axis : str
        Words below the axis.
    width, left, right : float
        Of the chart, of the labels and of the texts beside the marks.
    head : str
        Above these texts.
    margin : (float, str), optional
        Where to draw the margin, and its words.
    zero : bool
        Whether to draw a line at 0.
    once : bool
        Whether texts of a row that are alike are written once.

    Returns
    -------
    Markup
    """
    line, gap = DENSE if len(rows) > GROUPS // 2 else (LINE, GAP)
    start, end, top = left + 6.0, width - right - 8.0, 20.0 if margin or head else 8.0
    content: list[Markup] = []
    below: list[Markup] = []
    y = top
    for row in rows:
        size = max(LINE, len(row.marks) * line)
        middle = y + gap / 2 + size / 2
        kind = "label" if row.marks else "heading"
        content.append(_text(shorten(row.label, (left if row.marks else width) / 12.0), 0, middle + 4, kind))
        alike = once and len({mark.text for mark in row.marks}) == 1
        for i, mark in enumerate(row.marks):
            at = y + gap / 2 + (i + 0.5) * line
            content.append(_interval_mark(mark, scale, start, end, at, line))
            if mark.text and not alike:
                content.append(_text(mark.text, width, at + 4, "value", "end"))
        if alike:
            content.append(_text(row.marks[0].text, width, middle + 4, "value", "end"))
        y += size + gap
        if len(rows) > GROUPS // 2:
            below.append(_line(0, y, width, y, "grid"))
    below += _frame(scale, start, end, top, y + 2.0, axis)
    if head:
        below.append(_text(head, width, 11, "axis", "end"))
    if zero:
        below.append(_line(scale.at(0.0, start, end), top, scale.at(0.0, start, end), y + 2.0, "zero"))
    if margin:
        x, room = scale.at(margin[0], start, end), 3.0 * len(margin[1])
        below.append(_line(x, top - 4, x, y + 2.0, "margin"))
        below.append(_text(margin[1], min(max(x, start + room), end - room), 11, "axis", "middle"))
    return _svg(width, y + 40, label, *below, *content)


def _frame(scale: Scale, start: float, end: float, top: float, bottom: float, axis: str) -> list[Markup]:
    """Lines and labels of a horizontal axis."""
    places = [(scale.at(at, start, end), tick) for at, tick in scale.ticks]
    lines = [_line(x, top, x, bottom, "grid") for x, _ in places]
    labels = [_text(tick, x, bottom + 15, "tick", "middle") for x, tick in places]
    return [*lines, *labels, _text(axis, (start + end) / 2, bottom + 32, "axis", "middle")]


def _interval_mark(mark: Mark, scale: Scale, start: float, end: float, y: float, line: float) -> Markup:
    """One mark of a forest; the words "not defined" where there is nothing to draw."""
    shapes = [element("rect", x=start, y=y - line / 2, width=end - start, height=line, class_="hit")]
    if mark.low is not None and mark.high is not None:
        kind = "reach" if mark.estimate is not None else "reach open"
        shapes.append(_line(scale.at(mark.low, start, end), y, scale.at(mark.high, start, end), y, kind))
    if mark.estimate is not None:
        shapes.append(_dot(mark.model, scale.at(mark.estimate, start, end), y))
    else:
        shapes.append(_text(texts.UNDEFINED, (start + end) / 2, y + 4, "value over", "middle"))
    return _mark(mark.tip, mark.model, *shapes)


def _tip(head: str, number: str, limits: str, level: str, more: str = "") -> str:
    return "\n".join(part for part in (head, number, f"{level} interval: {limits}", more) if part)


def _margin(metric: Metric) -> tuple[float, str] | None:
    return None if metric.margin is None else (metric.margin, f"margin {metric.number(metric.margin)}")


def _metric_scale(metric: Metric, values: Iterable[float | None], most: int = 6) -> Scale:
    """Axis of unfairness: a difference from 0 up, a ratio up to 1."""
    if metric.ratio:
        return make_scale([*values, 0.95, metric.margin], ceiling=1.0, most=most)
    return make_scale([*values, 0.01, metric.margin], floor=0.0, times=100.0, most=most)


def _axis(metric: Metric) -> str:
    return (
        "smallest ratio of rates (1 is parity)" if metric.ratio else "largest gap, in percentage points (0 is parity)"
    )


def by_source(audit: Audit, metric: Metric) -> Markup:
    """Unfairness of both models in one metric, with an interval for each source of uncertainty."""
    level, rows = texts.level(audit), []
    for source in SOURCES:
        marks = []
        for i, model in enumerate(audit.models):
            one = texts.interval(model, metric.name, source)
            numbers = [metric.number(one[part]) for part in ("estimate", "low", "high")]
            limits, reason = texts.span(*numbers[1:]), one["reason"]
            tip = _tip(
                f"{model['name']} model, {source}", f"{metric.title}: {metric.told(one['estimate'])}", limits, level,
                reason and f"Not all is defined: {reason}.",
            )  # fmt: skip
            text = numbers[0] if one["estimate"] is None else f"{numbers[0]} [{numbers[1]}, {numbers[2]}]"
            marks.append(Mark(i, one["estimate"], one["low"], one["high"], tip, text))
        rows.append(Row(source, tuple(marks)))
    values = [value for row in rows for mark in row.marks for value in (mark.estimate, mark.low, mark.high)]
    return forest(
        rows, _metric_scale(metric, values), label=f"{metric.full}: unfairness by source of uncertainty",
        axis=_axis(metric), right=110.0, head=f"[{level} interval]", margin=_margin(metric),
    )  # fmt: skip


def by_group(audit: Audit, table: RateTable) -> list[Markup]:
    """One rate of all groups under both models; several charts where there are many groups."""
    level = texts.level(audit)
    columns = dict.fromkeys(group.column for group in table.groups)
    names = [model["name"] for model in audit.models]
    values = [one[part] for group in table.groups for one in group.found if one for part in ("rate", "low", "high")]
    scale, charts = make_scale([*values, 0.01], floor=0.0, times=100.0), []
    for first in range(0, len(table.groups), GROUPS):
        rows: list[Row] = []
        column: str | None = None
        for group in table.groups[first : first + GROUPS]:
            if group.column != column and (group.column or len(columns) > 1):
                rows.append(Row(group.column))
            column, marks = group.column, []
            for i, (name, one) in enumerate(zip(names, group.found, strict=True)):
                one = one or {"rate": None, "low": None, "high": None, "n": 0}
                rate = texts.points(one["rate"]) + (" %" if one["rate"] is not None else "")
                limits = texts.span(texts.points(one["low"]), texts.points(one["high"]))
                head = f"{group.group}, {name} model"
                count = f"n = {texts.whole(one['n'])}" if one["n"] else "no evaluation row enters this rate"
                tip = _tip(head, f"{table.title}: {rate}", limits, level, count)
                marks.append(Mark(i, one["rate"], one["low"], one["high"], tip, texts.whole(one["n"])))
            rows.append(Row(group.group, tuple(marks)))
        charts.append(
            forest(
                rows,
                scale,
                label=f"{table.title} by group",
                axis="per cent",
                left=112.0,
                right=48.0,
                head="n",
                once=True,
            )
        )
    return charts


def coefficients(audit: Audit, rows: Sequence[CoefficientRow], width: int = WIDE) -> Markup:
    """Coefficients of both models."""
    level, drawn = texts.level(audit), []
    for row in rows:
        marks = []
        for i, (model, one) in enumerate(zip(audit.models, row.found, strict=True)):
            one = one or {"estimate": None, "low": None, "high": None}
            numbers = [texts.coefficient(one[part]) for part in ("estimate", "low", "high")]
            tip = _tip(f"{row.feature}\n{model['name']} model", numbers[0], texts.span(*numbers[1:]), level)
            marks.append(Mark(i, one["estimate"], one["low"], one["high"], tip))
        drawn.append(Row(row.feature, tuple(marks)))
    values = [value for row in drawn for mark in row.marks for value in (mark.estimate, mark.low, mark.high)]
    scale = make_scale([*values, 0.0], most=9 if width == WIDE else 6)
    left = 260.0 if width == WIDE else 160.0
    return forest(
        drawn, scale, label="Coefficients of both models", axis="coefficient", width=width, left=left, zero=True
    )


def accuracy(audit: Audit) -> Markup:
    """Share of right decisions of both models."""
    level, rows = texts.level(audit), []
    for i, model in enumerate(audit.models):
        one = model["accuracy"]
        numbers = [texts.points(one[part]) for part in ("estimate", "low", "high")]
        tip = _tip(f"{model['name']} model", f"Accuracy: {numbers[0]} %", texts.span(*numbers[1:]), level)
        text = f"{numbers[0]} [{numbers[1]}, {numbers[2]}]"
        rows.append(Row(model["name"], (Mark(i, one["estimate"], one["low"], one["high"], tip, text),)))
    values = [value for row in rows for mark in row.marks for value in (mark.estimate, mark.low, mark.high)]
    return forest(
        rows, make_scale(values, times=100.0, most=5), label="Accuracy of both models", axis="accuracy, in per cent",
        left=86.0, right=112.0, head=f"[{level} interval]",
    )  # fmt: skip


def price(audit: Audit) -> Markup:
    """Accuracy that the constraint costs."""
    level, one = texts.level(audit), audit.price
    numbers = [texts.points(one[part]) for part in ("estimate", "low", "high")]
    tip = _tip("price of fairness", f"{numbers[0]} percentage points of accuracy", texts.span(*numbers[1:]), level)
    text = f"{numbers[0]} [{numbers[1]}, {numbers[2]}]"
    row = Row("price", (Mark(2, one["estimate"], one["low"], one["high"], tip, text),))
    scale = make_scale([one["estimate"], one["low"], one["high"], 0.0], times=100.0, most=5)
    return forest(
        [row], scale, label="Price of fairness",
        axis="percentage points of accuracy", left=86.0, right=112.0, head=f"[{level} interval]", zero=True,
    )  # fmt: skip


# -- Path along the stream ---------------------------------------------------------------------------------------------


def path(audit: Audit, metric: Metric, source: str, looks: Sequence[Sequence[dict[str, Any]]]) -> Markup:
    """Unfairness of both models along the stream, with bands of their intervals."""
    level, width, height = texts.level(audit), float(HALF), 250.0
    start, end, top, bottom = 40.0, width - 12.0, 20.0, height - 40.0
    seen = sorted({max(1, int(one["rows"])) for part in looks for one in part})
    values = [one[name] for part in looks for one in part for name in ("estimate", "low", "high")]
    down = _metric_scale(metric, values)
    ends = (seen[0] / 1.5, seen[-1] * 1.5) if len(seen) == 1 else (seen[0], seen[-1])
    along = Scale(math.log10(ends[0]), math.log10(ends[1]), ())

    def x(rows: float) -> float:
        return along.at(math.log10(max(1, rows)), start + 4.0, end - 8.0)

    def y(value: float) -> float:
        return down.at(value, bottom, top)

    content = [_line(start, y(at), end, y(at), "grid") for at, _ in down.ticks]
    content += [_text(tick, start - 6, y(at) + 4, "tick", "end") for at, tick in down.ticks]
    for tick in seen if len(seen) == 1 else _log_ticks(seen[0], seen[-1]):
        content.append(_line(x(tick), bottom, x(tick), bottom + 4, "axis-line"))
        content.append(_text(texts.whole(tick), min(x(tick), end - 14.0), bottom + 16, "tick", "middle"))
    content.append(_line(start, bottom, end, bottom, "axis-line"))
    content.append(_text("training rows (logarithmic)", (start + end) / 2, bottom + 33, "axis", "middle"))
    content.append(_text("ratio" if metric.ratio else "percentage points", 0, 11, "axis"))
    if (margin := _margin(metric)) is not None:
        content.append(_line(start, y(margin[0]), end, y(margin[0]), "margin"))
        content.append(_text(margin[1], end, 11, "axis", "end"))
    marks: list[Markup] = []
    for i, (model, part) in enumerate(zip(audit.models, looks, strict=True)):
        for run in _runs(part):
            upper = [f"{x(one['rows']):.1f},{y(one['high']):.1f}" for one in run]
            lower = [f"{x(one['rows']):.1f},{y(one['low']):.1f}" for one in reversed(run)]
            content.append(element("polygon", points=" ".join(upper + lower), class_=f"band m{i}"))
            steps = " ".join(f"{x(one['rows']):.1f},{y(one['estimate']):.1f}" for one in run)
            content.append(element("polyline", points=steps, class_=f"line m{i}"))
        marks += [_look(one, i, model["name"], metric, level, x(one["rows"]), y) for one in part]
    return _svg(width, height, f"{metric.full}: unfairness along the stream, {source}", *content, *marks)


def _look(one: dict[str, Any], i: int, name: str, metric: Metric, level: str, x: float, y: Any) -> Markup:
    """One look at a model."""
    numbers = [metric.number(one[part]) for part in ("estimate", "low", "high")]
    head = f"{name} model after {texts.whole(one['rows'])} rows"
    tip = _tip(head, f"{metric.title}: {metric.told(one['estimate'])}", texts.span(*numbers[1:]), level)
    shapes = []
    if one["low"] is not None and one["high"] is not None:
        shapes.append(_line(x, y(one["low"]), x, y(one["high"]), "whisker"))
        shapes.append(_line(x, y(one["low"]), x, y(one["high"]), "hit"))
    if one["estimate"] is not None:
        shapes.append(_dot(i, x, y(one["estimate"])))
    return _mark(tip, i, *shapes)


def _runs(looks: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Looks next to each other at which all is defined, two or more."""
    whole = [all(one[name] is not None for name in ("estimate", "low", "high")) for one in looks]
    runs: list[list[dict[str, Any]]] = []
    for (one, first), (other, second) in pairwise(zip(looks, whole, strict=True)):
        if first and second:
            if runs and runs[-1][-1] is one:
                runs[-1].append(other)
            else:
                runs.append([one, other])
    return runs
