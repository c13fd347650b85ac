"""Band charts: estimates with their intervals as rows come in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from surefair.pages import svg
from surefair.pages.scale import Scale, log_ticks
from surefair.pages.text import whole

WIDTH, HEIGHT = float(svg.HALF), 250.0
LEFT, RIGHT = 40.0, WIDTH - 12.0  # ends of the horizontal axis
TOP, BOTTOM = 20.0, HEIGHT - 40.0  # ends of the vertical axis


class Look(NamedTuple):
    """An estimate with its interval after a number of rows."""

    rows: int
    estimate: float | None
    low: float | None
    high: float | None
    tip: str


class Point(NamedTuple):
    """A look with all its numbers, at its place in the chart."""

    x: float
    estimate: float
    low: float
    high: float


class Canvas(NamedTuple):
    """The two axes: rows along a logarithmic one, values up the other."""

    along: Scale
    up: Scale

    def x(self, rows: float) -> float:
        """Place a number of rows."""
        return self.along.at(math.log10(max(1, rows)), LEFT + 4.0, RIGHT - 8.0)

    def y(self, value: float) -> float:
        """Place a value."""
        return self.up.at(value, BOTTOM, TOP)


def bands(
    series: Sequence[Sequence[Look]],
    scale: Scale,
    *,
    description: str,
    axis: str,
    unit: str,
    margin: tuple[float, str] | None = None,
) -> Markup:
    """Draw how estimates and their intervals change as rows come in.

    Parameters
    ----------
    series : sequence of sequences of Look
        The looks of each series, with increasing numbers of rows; at least one look in all.
    scale : Scale
        Of the estimates and limits.
    description : str
        What the chart shows, for readers who cannot see it.
    axis : str
        Words below the horizontal axis.
    unit : str
        Words above the vertical axis.
    margin : (float, str), optional
        Where to draw the margin, and its label.

    Returns
    -------
    Markup
    """
    seen = sorted({max(1, look.rows) for looks in series for look in looks})
    first, last = (seen[0], seen[-1]) if len(seen) > 1 else (seen[0] / 1.5, seen[0] * 1.5)
    canvas = Canvas(Scale(math.log10(first), math.log10(last), ()), scale)
    content = _axes(canvas, seen if len(seen) == 1 else log_ticks(seen[0], seen[-1]), axis, unit)
    if margin is not None:
        content.append(svg.line(LEFT, canvas.y(margin[0]), RIGHT, canvas.y(margin[0]), "margin"))
        content.append(svg.label(margin[1], RIGHT, 11, "axis", "end"))
    for i, looks in enumerate(series):
        for run in _runs(looks, canvas):
            content += _band(run, i)
    marks = [_look(look, i, canvas) for i, looks in enumerate(series) for look in looks]
    return svg.chart(WIDTH, HEIGHT, description, *content, *marks)


def _axes(canvas: Canvas, ticks: Sequence[int], axis: str, unit: str) -> list[Markup]:
    """Draw the lines and labels of both axes."""
    content = [svg.line(LEFT, canvas.y(at), RIGHT, canvas.y(at), "grid") for at, _ in canvas.up.ticks]
    content += [svg.label(tick, LEFT - 6, canvas.y(at) + 4, "tick", "end") for at, tick in canvas.up.ticks]
    for tick in ticks:
        x = canvas.x(tick)
        content.append(svg.line(x, BOTTOM, x, BOTTOM + 4, "axis-line"))
        content.append(svg.label(whole(tick), min(x, RIGHT - 14.0), BOTTOM + 16, "tick", "middle"))
    content.append(svg.line(LEFT, BOTTOM, RIGHT, BOTTOM, "axis-line"))
    content.append(svg.label(axis, (LEFT + RIGHT) / 2, BOTTOM + 33, "axis", "middle"))
    content.append(svg.label(unit, 0, 11, "axis"))
    return content


def _runs(looks: Sequence[Look], canvas: Canvas) -> list[list[Point]]:
    """Split looks where a number is not defined; runs of one look are left out, for they have no band."""
    runs: list[list[Point]] = [[]]
    for look in looks:
        if look.estimate is None or look.low is None or look.high is None:
            runs.append([])
        else:
            places = (canvas.y(value) for value in (look.estimate, look.low, look.high))
            runs[-1].append(Point(canvas.x(look.rows), *places))
    return [run for run in runs if len(run) > 1]


def _band(run: Sequence[Point], series: int) -> list[Markup]:
    """Draw the band between the limits, and the line of the estimates."""
    upper = [f"{point.x:.1f},{point.high:.1f}" for point in run]
    lower = [f"{point.x:.1f},{point.low:.1f}" for point in reversed(run)]
    steps = [f"{point.x:.1f},{point.estimate:.1f}" for point in run]
    return [
        svg.element("polygon", points=" ".join(upper + lower), class_=f"band series{series}"),
        svg.element("polyline", points=" ".join(steps), class_=f"line series{series}"),
    ]


def _look(look: Look, series: int, canvas: Canvas) -> Markup:
    """Draw one estimate with its interval."""
    x = canvas.x(look.rows)
    shapes = []
    if look.low is not None and look.high is not None:
        shapes.append(svg.line(x, canvas.y(look.low), x, canvas.y(look.high), "whisker"))
        shapes.append(svg.line(x, canvas.y(look.low), x, canvas.y(look.high), "hit"))
    if look.estimate is not None:
        shapes.append(svg.dot(series, x, canvas.y(look.estimate)))
    return svg.mark(look.tip, series, *shapes)
