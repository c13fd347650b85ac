"""The page of a frontier; its sections are the files in ``sections/``, see ``surefair.pages.page``.

A frontier is a dict here, see ``Frontier.to_dict``, with the margin and the best point that meets it, or None.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from markupsafe import Markup

from surefair.inference.metric import get_metric
from surefair.pages import svg, text
from surefair.pages.page import render_page
from surefair.pages.scale import make_scale

ABOUT = "What does less unfairness cost? Models with different tolerances, trained and measured on the same rows."
HEIGHT = 380.0
LEFT, RIGHT, TOP, BOTTOM = 56.0, svg.WIDE - 16.0, 24.0, HEIGHT - 44.0

Found = dict[str, Any]


def name_of(point: Found) -> str:
    """Name a model by its tolerance."""
    return "no constraint" if point["tolerance"] is None else f"tolerance {point['tolerance']:g}"


class View:
    """What sections show of a frontier."""

    def __init__(self, found: Found) -> None:
        self.found = found
        self.points = found["points"]
        self.ratio = found["metric"].endswith("_ratio")
        self.level = text.percent(found["confidence_level"])
        metric = get_metric(found["metric"])
        self.title = f"{text.words(metric.criterion.name)}, {'ratio' if self.ratio else 'difference'}"
        self.name = name_of

    def number(self, value: float | None) -> str:
        """Write an unfairness."""
        return text.fixed(value, 3) if self.ratio else text.points(value)

    def cell(self, point: Found, name: str, low: str, high: str) -> Found:
        """Numbers of one cell of the table."""
        return {"estimate": point[name], "low": point[low], "high": point[high]}

    def chart(self) -> Markup:
        """Draw unfairness along, accuracy up, and the bands of both as a cross at every model."""
        points, margin = self.points, self.found["margin"]
        times = 1.0 if self.ratio else 100.0
        ends = {"ceiling": 1.0} if self.ratio else {"floor": 0.0}
        numbers = [one[name] for one in points for name in ("unfairness", "low", "high")]
        along = make_scale([*numbers, margin], times=times, most=9, **ends)
        up = make_scale(
            [one[name] for one in points for name in ("accuracy", "accuracy_low", "accuracy_high")], times=100.0
        )

        def x(value: float) -> float:
            return along.at(value, LEFT, RIGHT)

        def y(value: float) -> float:
            return up.at(value, BOTTOM, TOP)

        content = [svg.line(LEFT, y(at), RIGHT, y(at), "grid") for at, _ in up.ticks]
        content += [svg.label(tick, LEFT - 6, y(at) + 4, "tick", "end") for at, tick in up.ticks]
        content += [svg.label(tick, x(at), BOTTOM + 16, "tick", "middle") for at, tick in along.ticks]
        content.append(svg.line(LEFT, BOTTOM, RIGHT, BOTTOM, "axis-line"))
        words = "smallest ratio of rates" if self.ratio else "unfairness, in percentage points (0 is parity)"
        content.append(svg.label(words, (LEFT + RIGHT) / 2, BOTTOM + 34, "axis", "middle"))
        content.append(svg.label("accuracy, in per cent", 0, 11, "axis"))
        if margin is not None:
            content.append(svg.line(x(margin), TOP, x(margin), BOTTOM, "margin"))
            content.append(svg.label(f"margin {self.number(margin)}", x(margin), TOP - 6, "axis", "middle"))
        for one in points:
            if one["unfairness"] is None or one["low"] is None:
                continue
            at, height = x(one["unfairness"]), y(one["accuracy"])
            cross = (
                svg.line(x(one["low"]), height, x(one["high"]), height, "reach"),
                svg.line(at, y(one["accuracy_low"]), at, y(one["accuracy_high"]), "reach"),
            )
            tip = svg.tip(
                name_of(one), f"unfairness {self.number(one['unfairness'])}, accuracy {text.points(one['accuracy'])}",
                text.span(self.number(one["low"]), self.number(one["high"])), self.level,
            )  # fmt: skip
            series = 1 if one["tolerance"] is None else 0
            content.append(svg.mark(tip, series, *cross, svg.dot(series, at, height)))
            content.append(svg.label("free" if series else f"{one['tolerance']:g}", at + 7, height - 7, "value"))
        return svg.chart(svg.WIDE, HEIGHT, "Unfairness and accuracy of all models", *content)


def render(found: Found) -> str:
    """Write a frontier as an HTML page; the same frontier gives the same bytes.

    Parameters
    ----------
    found : dict
        As ``Frontier.to_dict`` returns it, with ``margin`` and ``best``.
    """
    subject = found["data"].get("name", f"{found['n_training'] + found['n']:,} rows")
    return render_page(
        __name__, {"found": found, "view": View(found)}, title="Frontier of", subject=subject, about=ABOUT,
        version=version("surefair"),
    )  # fmt: skip
