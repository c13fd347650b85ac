"""The page of a comparison; its sections are the files in ``sections/``, see ``surefair.pages.page``.

A comparison is a dict here, see ``Comparison.to_dict``.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from markupsafe import Markup

from surefair.inference.interval import UNDECIDED
from surefair.inference.metric import get_metric
from surefair.pages import svg, text
from surefair.pages.forest import Mark, Row, Widths, forest, numbers_of
from surefair.pages.page import render_page
from surefair.pages.scale import make_scale

ABOUT = (
    "Which of two models treats groups less differently? Both decided on the same rows, so they are compared in pairs."
)
NUMBERS = ("estimate", "low", "high")
ROWS = 30  # pairs or groups in one chart, so that it fits on a printed page

Found = dict[str, Any]  # a comparison, or a part of it


class View:
    """What sections show of a comparison."""

    def __init__(self, found: Found) -> None:
        self.found = found
        self.ratio = found["metric"].endswith("_ratio")
        self.level = text.percent(found["confidence_level"])
        self.names = found["names"]
        self.models = (found["a"], found["b"])
        metric = get_metric(found["metric"])
        self.title = f"{text.words(metric.criterion.name)}, {'ratio' if self.ratio else 'difference'}"
        self.rates = "; ".join(rate.words for rate in metric.rates).capitalize()
        self.badge = "undecided" if found["verdict"] == UNDECIDED else "within"
        self.unit = "difference of log ratios" if self.ratio else "percentage points"
        self.columns = [name for name in ("column", "metric") if name in found["by_pair"][0]]

    def number(self, value: float | None) -> str:
        """Write an unfairness of one model."""
        return text.fixed(value, 3) if self.ratio else text.points(value)

    def difference(self, value: float | None) -> str:
        """Write a difference."""
        return text.fixed(value, 3) if self.ratio else text.points(value)

    @property
    def more_rows(self) -> str:
        """How many more rows would settle the verdict, in words."""
        if self.found["verdict"] != UNDECIDED:
            return "none: the verdict is definite"
        needed = self.found["rows_needed"]
        return "no number of rows would settle it" if needed is None else text.whole(needed)

    def _mark(self, one: Found, series: int, head: str, write: Any, estimate: str = "estimate") -> Mark:
        value, low, high = (write(one[name]) for name in (estimate, "low", "high"))
        tip = svg.tip(head, value, text.span(low, high), self.level)
        return Mark(series, one[estimate], one["low"], one["high"], tip, f"{value} [{low}, {high}]")

    def unfairness(self) -> Markup:
        """Draw the unfairness of both models."""
        rows = [
            Row(name, (self._mark(one, i, f"unfairness of {name}", self.number),))
            for i, (name, one) in enumerate(zip(self.names, self.models, strict=True))
        ]
        ends = {"ceiling": 1.0} if self.ratio else {"floor": 0.0, "times": 100.0}
        axis = (
            "smallest ratio of rates (1 is parity)" if self.ratio else "largest gap, in percentage points (0 is parity)"
        )
        return forest(
            rows, make_scale([*numbers_of(rows), 0.95 if self.ratio else 0.01], **ends),  # type: ignore[arg-type]
            Widths(labels=78.0, texts=134.0), description="Unfairness of both models", axis=axis,
            head=f"[{self.level} interval]",
        )  # fmt: skip

    def differences(self) -> Markup:
        """Draw the difference of unfairness and, with labels, that of accuracy."""
        rows = [Row("unfairness", (self._mark(self.found, 2, "difference of unfairness", self.difference),))]
        if self.found["accuracy"] is not None and not self.ratio:
            rows.append(
                Row("accuracy", (self._mark(self.found["accuracy"], 2, "difference of accuracy", text.points),))
            )
        a, b = (svg.shorten(name, 8.0) for name in self.names)
        return forest(
            rows, make_scale([*numbers_of(rows), 0.0], times=1.0 if self.ratio else 100.0, most=5),
            Widths(labels=78.0, texts=134.0), description="Differences between the models",
            axis=f"{b} minus {a}, {self.unit}", head=f"[{self.level} interval]", zero=True,
        )  # fmt: skip

    def pairs(self, width: int = svg.WIDE) -> list[Markup]:
        """Draw the difference of the signed gaps of each pair of groups."""
        charts = []
        labels = 260.0 if width == svg.WIDE else 120.0
        pairs = self.found["by_pair"]
        for first in range(0, len(pairs), ROWS):
            rows = [
                Row(self.pair(one), (self._mark(one, 2, self.pair(one), self.difference, "difference"),))
                for one in pairs[first : first + ROWS]
            ]
            numbers = [value for value in numbers_of(rows) if value is None or abs(value) < 1e6]
            charts.append(forest(
                rows, make_scale([*numbers, 0.0], times=1.0 if self.ratio else 100.0, most=5),
                Widths(chart=width, labels=labels, texts=134.0),
                description="Difference of signed gaps by pair of groups", axis=f"difference, {self.unit}",
                head=f"[{self.level}, together]", zero=True,
            ))  # fmt: skip
        return charts

    def pair(self, one: Found) -> str:
        """Name a pair of groups, with its column and rate where there are several."""
        head = ", ".join(str(one[name]).replace("_", " ") for name in self.columns)
        return f"{head + ': ' if head else ''}{one['first']} minus {one['second']}"

    def groups(self) -> list[tuple[Found, Found]]:
        """The rate of each group under both models."""
        return list(zip(*(model["by_group"] for model in self.models), strict=True))


def render(found: Found) -> str:
    """Write a comparison as an HTML page; the same comparison gives the same bytes.

    Parameters
    ----------
    found : dict
        As ``Comparison.to_dict`` returns it.
    """
    a, b = found["names"]
    return render_page(
        __name__, {"found": found, "view": View(found)}, title="Comparison of", subject=f"{a} and {b}", about=ABOUT,
        version=version("surefair"),
    )  # fmt: skip
