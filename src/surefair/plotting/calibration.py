"""How often intervals contained the truth."""

from __future__ import annotations

from math import isfinite
from typing import Any, Self

from surefair.calibration import Calibration
from surefair.pages.text import shown
from surefair.plotting.drawing import COLOURS, Display, new_axes, percent, records

BAND = 0.02  # half the width of the shaded band around the nominal level


class CalibrationDisplay(Display):
    """How often intervals contained the truth, one line per quantity.

    Parameters
    ----------
    calibration : Calibration

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    def __init__(self, calibration: Calibration) -> None:
        self.calibration = calibration

    @classmethod
    def from_calibration(cls, calibration: Calibration, ax: Any = None) -> Self:
        """Draw the result of ``sf.calibrate``.

        Parameters
        ----------
        calibration : Calibration
        ax : matplotlib Axes, optional
        """
        return cls(calibration).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw each coverage as a dot with its binomial interval, and a band of ±2 points around the nominal level.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default on a new figure.
        """
        rows = records(self.calibration.table)
        settings = self.calibration.settings
        level = settings["confidence_level"]
        alone = ax is None
        if alone:
            ax = new_axes(height=1.6 + 0.28 * len(rows))
        points = f"{percent(level)} ± {100.0 * BAND:g} points"
        ax.axvspan(level - BAND, min(level + BAND, 1.0), color="0.92", zorder=0, label=points)
        ax.axvline(level, color="0.4", linewidth=1.0, linestyle="--", zorder=1)
        for colour, kind in zip(COLOURS, ("gap", "coefficient"), strict=False):
            _draw_coverages(ax, rows, kind, colour)
        names = [f"{row['quantity']}, {row['source']}" if row["kind"] == "gap" else row["quantity"] for row in rows]
        ax.set_yticks(range(len(rows)), labels=[shown(name).replace("$", r"\$") for name in names])
        ax.set(ylim=(len(rows) - 0.5, -0.5), xlabel="share of intervals that contain the truth")
        ax.xaxis.set_major_formatter(lambda value, _: f"{100.0 * value:.3g} %")
        study = f"{settings['repetitions']:,} repetitions of {settings['n_rows']:,} rows"
        metric = settings["metric"].replace("_", " ")
        ax.set_title(f"{percent(level)} intervals for {metric}: {study}", fontsize="medium")
        if alone:
            ax.figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize="small")
        return self._finish(ax)


def _draw_coverages(ax: Any, rows: list[dict[str, Any]], kind: str, colour: str) -> None:
    """Draw the coverages of one kind of quantity, where they are defined."""
    defined = [
        (i, row)
        for i, row in enumerate(rows)
        if row["kind"] == kind and row["coverage"] is not None and isfinite(row["coverage"])
    ]
    share = [row["coverage"] for _, row in defined]
    ends = [[abs(row[end] - row["coverage"]) for _, row in defined] for end in ("coverage_low", "coverage_high")]
    style = {"fmt": "o", "color": colour, "markersize": 5, "capsize": 2}
    ax.errorbar(share, [i for i, _ in defined], xerr=ends, label=f"{kind}, with 95 % interval", **style)


DISPLAY = CalibrationDisplay
