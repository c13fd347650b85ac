"""Forest charts: estimates with their intervals, one below the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from surefair.pages import svg
from surefair.pages.scale import Scale
from surefair.pages.text import UNDEFINED

LINE, GAP = 15.0, 9.0  # height of one mark's line, and space between rows
DENSE = (11.0, 6.0)  # the same where there are many rows
MANY = 15  # rows


class Mark(NamedTuple):
    """An estimate with its interval."""

    series: int  # 0 and 1 have their colours and shapes; 2 is neutral
    estimate: float | None
    low: float | None
    high: float | None
    tip: str
    text: str = ""  # printed beside it

    @property
    def numbers(self) -> tuple[float | None, ...]:
        """The estimate and both limits."""
        return (self.estimate, self.low, self.high)


class Row(NamedTuple):
    """A label with its marks; a row without marks is a heading."""

    label: str
    marks: tuple[Mark, ...] = ()


class Widths(NamedTuple):
    """How wide a chart is, and how much of that its labels (left) and texts (right) take."""

    chart: float = svg.HALF
    labels: float = 70.0
    texts: float = 16.0

    @property
    def start(self) -> float:
        """Where the axis begins."""
        return self.labels + 6.0

    @property
    def end(self) -> float:
        """Where the axis ends."""
        return self.chart - self.texts - 8.0


def numbers_of(rows: Sequence[Row]) -> list[float | None]:
    """All numbers that a chart of these rows shows."""
    return [value for row in rows for mark in row.marks for value in mark.numbers]


def forest(
    rows: Sequence[Row],
    scale: Scale,
    widths: Widths,
    *,
    description: str,
    axis: str,
    head: str = "",
    margin: tuple[float, str] | None = None,
    zero: bool = False,
) -> Markup:
    """Draw estimates with intervals, one below the other.

    Parameters
    ----------
    rows : sequence of Row
        If all marks of a row have the same text, it is printed once.
    scale : Scale
    widths : Widths
    description : str
        What the chart shows, for readers who cannot see it.
    axis : str
        Words below the axis.
    head : str
        Words above the texts on the right.
    margin : (float, str), optional
        Where to draw the margin, and its label.
    zero : bool
        Whether to draw a line at 0.

    Returns
    -------
    Markup
    """
    line, gap = DENSE if len(rows) > MANY else (LINE, GAP)
    top = 20.0 if margin or head else 8.0
    above: list[Markup] = []
    below: list[Markup] = []
    y = top
    for row in rows:
        height = max(LINE, len(row.marks) * line)
        above += _row(row, scale, widths, y + gap / 2, height, line)
        y += height + gap
        if len(rows) > MANY:
            below.append(svg.line(0, y, widths.chart, y, "grid"))
    bottom = y + 2.0
    below += _axis(scale, widths, top, bottom, axis)
    if head:
        below.append(svg.label(head, widths.chart, 11, "axis", "end"))
    if zero:
        x = scale.at(0.0, widths.start, widths.end)
        below.append(svg.line(x, top, x, bottom, "zero"))
    if margin:
        below += _margin(*margin, scale, widths, top, bottom)
    return svg.chart(widths.chart, y + 40, description, *below, *above)


def _row(row: Row, scale: Scale, widths: Widths, top: float, height: float, line: float) -> list[Markup]:
    """Draw the label, the marks and the texts of a row."""
    middle = top + height / 2 + 4
    if not row.marks:
        return [svg.label(svg.shorten(row.label, widths.chart / 12.0), 0, middle, "heading")]
    content = [svg.label(svg.shorten(row.label, widths.labels / 12.0), 0, middle, "label")]
    texts = {mark.text for mark in row.marks}
    for i, mark in enumerate(row.marks):
        y = top + (i + 0.5) * line
        content.append(_mark(mark, scale, widths, y, line))
        if mark.text and len(texts) > 1:
            content.append(svg.label(mark.text, widths.chart, y + 4, "value", "end"))
    if len(texts) == 1 and row.marks[0].text:
        content.append(svg.label(row.marks[0].text, widths.chart, middle, "value", "end"))
    return content


def _mark(mark: Mark, scale: Scale, widths: Widths, y: float, line: float) -> Markup:
    """Draw an estimate with its interval, or the words "not defined"."""
    start = widths.start
    end = widths.end
    shapes = [svg.element("rect", x=start, y=y - line / 2, width=end - start, height=line, class_="hit")]
    if mark.low is not None and mark.high is not None:
        kind = "reach" if mark.estimate is not None else "reach open"
        shapes.append(svg.line(scale.at(mark.low, start, end), y, scale.at(mark.high, start, end), y, kind))
    if mark.estimate is not None:
        shapes.append(svg.dot(mark.series, scale.at(mark.estimate, start, end), y))
    else:
        shapes.append(svg.label(UNDEFINED, (start + end) / 2, y + 4, "value over", "middle"))
    return svg.mark(mark.tip, mark.series, *shapes)


def _axis(scale: Scale, widths: Widths, top: float, bottom: float, words: str) -> list[Markup]:
    """Draw the lines and labels of the horizontal axis."""
    places = [(scale.at(at, widths.start, widths.end), tick) for at, tick in scale.ticks]
    lines = [svg.line(x, top, x, bottom, "grid") for x, _ in places]
    labels = [svg.label(tick, x, bottom + 15, "tick", "middle") for x, tick in places]
    return [*lines, *labels, svg.label(words, (widths.start + widths.end) / 2, bottom + 32, "axis", "middle")]


def _margin(at: float, words: str, scale: Scale, widths: Widths, top: float, bottom: float) -> list[Markup]:
    """Draw the line of the margin, with its label above."""
    x = scale.at(at, widths.start, widths.end)
    room = 3.0 * len(words)
    middle = min(max(x, widths.start + room), widths.end - room)
    return [svg.line(x, top - 4, x, bottom, "margin"), svg.label(words, middle, 11, "axis", "middle")]
