"""The rate of each group with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from math import isnan
from textwrap import fill
from typing import Any, NamedTuple, Self

import numpy as np

from surefair.classifier import FairClassifier
from surefair.criteria import Criterion
from surefair.inference.interval import Interval
from surefair.inference.sources import SOURCES
from surefair.plotting.drawing import COLOURS, LEGEND, MARKERS, Display, draw_dot, new_axes, percent, records
from surefair.rows import FloatArray


class FairnessIntervalDisplay(Display):
    """The rate of each group with its interval, one below the other.

    Parameters
    ----------
    interval : Interval
        Result of ``FairClassifier.fairness_interval`` or ``surefair.fairness_interval``.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from surefair import fairness_interval
    >>> group = ["a", "b"] * 500
    >>> decision = [0, 0, 0, 1, 1, 1, 0, 1] * 125
    >>> interval = fairness_interval([0, 1] * 500, decision, sensitive_features=group)
    >>> display = FairnessIntervalDisplay(interval).plot()
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
    ['a  (n = 500)', 'b  (n = 500)']
    """

    def __init__(self, interval: Interval) -> None:
        self.interval = interval

    @classmethod
    def from_estimator(
        cls,
        estimator: FairClassifier,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any,
        metric: str | Criterion | None = None,
        confidence_level: float = 0.95,
        source: str = "total",
        method: str = "percentile",
        sample_weight: Any = None,
        ax: Any = None,
    ) -> Self:
        """Measure a fitted classifier on held-out rows and draw the result.

        Parameters
        ----------
        estimator : FairClassifier
            Fitted.
        X, y, sensitive_features
            Evaluation rows.
        metric, confidence_level, source, method, sample_weight
            As in ``FairClassifier.fairness_interval``.
        ax : matplotlib Axes, optional
        """
        interval = estimator.fairness_interval(
            X, y, sensitive_features=sensitive_features, metric=metric, confidence_level=confidence_level,
            source=source, method=method, sample_weight=sample_weight,
        )  # fmt: skip
        return cls(interval).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw a dot and a line for each group; an undefined rate is a hollow dot on a line over its whole range.

        Each rate has its own colour and marker, and the row counts of a group are in the same order. Named sensitive
        columns are headings above their groups.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default on a new figure whose height fits the number of groups.
        """
        interval = self.interval
        table = records(interval.by_group)
        rates = list(dict.fromkeys(row.get("metric", interval.rate) for row in table))
        layout = _arrange(table)
        title = _title(interval, several=len(table) > 2)
        alone = ax is None
        if alone:
            longest = max(len(line) for label in layout.labels for line in label.split("\n"))
            height = 1.2 + 0.2 * title.count("\n") + layout.heights.sum() * max(0.3, 0.18 * len(rates))
            ax = new_axes(5.8 + 0.08 * longest, height)
        undefined = _draw_rates(ax, layout, rates, interval.rate)
        ax.set_yticks(layout.middles, labels=layout.labels, parse_math=False)  # names may contain dollar signs
        for i in layout.headings:
            ax.get_yticklabels()[i].set_fontweight("bold")
            ax.yaxis.get_major_ticks()[i].tick1line.set_visible(False)
        what = interval.rate.replace("_", " ") if len(rates) == 1 else "rate"
        note = " (hollow: undefined)" if undefined else ""
        level = percent(interval.confidence_level)
        ax.set(ylim=(layout.heights.sum() - 0.5, -0.5))
        ax.set_xlabel(f"{what}, with a separate {level} interval per group{note}")
        ax.set_title(title, fontsize="medium", parse_math=False)
        if len(rates) > 1:
            _add_legend(ax, rates, below=alone)
        return self._finish(ax)


class _Layout(NamedTuple):
    """What stands on the y axis, from top to bottom."""

    labels: list[str]  # groups, each column's below a heading with the column's name
    headings: list[int]  # which labels are headings
    dots: list[tuple[int, int, dict[str, Any]]]  # label, number of its column, row of the table

    @property
    def heights(self) -> FloatArray:
        """Height of each label: 1 for a single line of text."""
        return np.array([0.45 + 0.55 * len(label.split("\n")) for label in self.labels])

    @property
    def middles(self) -> FloatArray:
        """Where each label is on the axis."""
        heights = self.heights
        return np.asarray(np.cumsum(heights) - heights / 2.0 - 0.5)


def _arrange(table: list[dict[str, Any]]) -> _Layout:
    """Put groups below their columns, in the order of the table."""
    by_column: dict[Any, dict[Any, list[dict[str, Any]]]] = {}
    for row in table:
        by_column.setdefault(row.get("column"), {}).setdefault(row["group"], []).append(row)
    layout = _Layout([], [], [])
    for number, (column, groups) in enumerate(by_column.items()):
        if column is not None:
            layout.headings.append(len(layout.labels))
            layout.labels.append(str(column))
        for group, rows in groups.items():
            layout.dots.extend((len(layout.labels), number, row) for row in rows)
            layout.labels.append(_with_numbers(str(group), [row["n"] for row in rows]))
    return layout


def _draw_rates(ax: Any, layout: _Layout, rates: Sequence[str], only_rate: str) -> bool:
    """Draw all rates, coloured by rate if there are several and otherwise by column; return if any is undefined."""
    middles = layout.middles
    undefined = False
    for label, column, row in layout.dots:
        j = rates.index(row.get("metric", only_rate))
        known = row["rate"] is not None and not isnan(row["rate"])
        undefined |= not known
        at = row["rate"] if known else (row["low"] + row["high"]) / 2.0
        colour = COLOURS[(j if len(rates) > 1 else column) % len(COLOURS)]
        y = middles[label] + 0.6 * ((j + 0.5) / len(rates) - 0.5)
        draw_dot(ax, at, row["low"], row["high"], y, colour, known, marker=MARKERS[j % len(MARKERS)])
    return undefined


def _add_legend(ax: Any, rates: Sequence[str], below: bool) -> None:
    """Name the rates, below the axes or inside them."""
    styles = zip(rates, cycle(COLOURS), cycle(MARKERS), strict=False)
    handles = [
        ax.plot([], [], marker, linestyle="-", color=colour, label=rate.replace("_", " "))[0]
        for rate, colour, marker in styles
    ]
    if below:
        ax.figure.legend(handles=handles, loc="outside lower center", ncols=2, **LEGEND)
    else:
        ax.legend(handles=handles, **LEGEND)


def _with_numbers(group: str, n: list[int]) -> str:
    """Name of a group, wrapped if long, with the number of rows behind each of its rates.

    Examples
    --------
    >>> _with_numbers("Female", [3201, 3201]), _with_numbers("Female", [3201, 98])
    ('Female  (n = 3,201)', 'Female  (n = 3,201 / 98)')
    """
    numbers = " / ".join(f"{one:,}" for one in (n if len(set(n)) > 1 else n[:1]))
    return f"{fill(group, 30)}  (n = {numbers})"


def _title(interval: Interval, several: bool) -> str:
    """Say how unfair the model is, between which groups if there are several, and what the interval estimates."""
    name = interval.metric.replace("_", " ")
    ratio = interval.metric.endswith("_ratio")
    subject = name if ratio else f"{name}: unfairness"
    number = "undefined" if isnan(interval.estimate) else f"{interval.estimate:.3f}"
    limits = f"{percent(interval.confidence_level)} interval [{interval.low:.3f}, {interval.high:.3f}]"
    lines = [f"{subject} {number}, {limits}"]
    if several and number != "undefined":
        first, second = interval.pair
        extreme = "smallest ratio" if ratio else "largest gap"
        column = "" if interval.column is None else f" ({interval.column})"
        lines.append(f"{extreme}: {interval.rate.replace('_', ' ')} of {first} versus {second}{column}")
    lines.append(f"source {interval.source}: {SOURCES[interval.source].estimates}")
    if interval.reason:
        lines.append(f"partly undefined: {interval.reason}")
    return "\n".join(fill(line, 72) for line in lines)


DISPLAY = FairnessIntervalDisplay
