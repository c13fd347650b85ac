"""Pictures of intervals, in the manner of scikit-learn's displays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, Self

import matplotlib.pyplot as plt
import narwhals as nw
import numpy as np
from scipy.stats import norm

from surefair.calibration import Calibration
from surefair.criteria import get_criterion
from surefair.estimators import FairClassifier
from surefair.files import written_whole
from surefair.intervals import Interval
from surefair.streams import Batch, FloatArray, make_frame

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")  # told apart by colour-blind people, too (Okabe and Ito)
LEGEND: Any = {"framealpha": 0.85, "edgecolor": "none"}  # readable over lines
BAND = 0.02  # around the nominal level, shaded


def panels(n: int, columns: int = 1) -> tuple[Any, Any]:
    """Figure with n panels, one above the other or in several columns, and its axes."""
    size = (7.0, 4.2 if n == 1 else 3.2 * n) if columns == 1 else (5.2 * columns, 3.6 * (n // columns))
    return plt.subplots(n // columns, columns, figsize=size, layout="constrained")


def save(figure: Any, path: Path) -> None:
    """Write a figure as PNG and as SVG, the same bytes for the same picture, and close it."""
    with plt.rc_context({"svg.hashsalt": path.name}):
        for kind, options in (("png", {"dpi": 80}), ("svg", {"metadata": {"Date": None}})):
            with written_whole(path.with_name(f"{path.name}.{kind}")) as file:
                figure.savefig(file, format=kind, **options)
    plt.close(figure)


def draw_band(ax: Any, rows: Any, low: Any, high: Any, colour: str, label: str) -> None:
    """Draw limits along a stream as a band."""
    ax.fill_between(rows, low, high, color=colour, alpha=0.25, linewidth=0, label=label)


def draw_density(
    ax: Any,
    values: FloatArray,
    colour: str,
    style: str,
    label: str,
    bandwidth: float,
    limits: bool = False,
    floor: float | None = None,
) -> None:
    """Draw the density of some values by a normal kernel, reflected where they cannot fall below a floor.

    With ``limits``, their 2.5 % and 97.5 % quantiles are vertical lines.
    """
    bandwidth = bandwidth or 1e-6
    at = np.linspace(values.min() - 3.0 * bandwidth, values.max() + 3.0 * bandwidth, 400)
    at = at if floor is None else at[at >= floor]
    curve = norm.pdf(at[:, None], values, bandwidth).mean(axis=1)
    if floor is not None:
        curve += norm.pdf(at[:, None], 2.0 * floor - values, bandwidth).mean(axis=1)
    ax.plot(at, curve, style, color=colour, label=label)
    for end in np.quantile(values, (0.025, 0.975)) if limits else ():
        ax.axvline(end, color=colour, linewidth=1.0, linestyle="--")


class IntervalPathDisplay:
    """The interval for the unfairness along a stream.

    Parameters
    ----------
    rows : sequence of int
        Rows seen at each look.
    paths : mapping of str to sequence of Interval
        Paths by name, each with one interval per look: of several sources, say, or several models.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    def __init__(self, rows: Sequence[int], paths: Mapping[str, Sequence[Interval]]) -> None:
        self.rows = rows
        self.paths = paths

    @classmethod
    def from_estimator(
        cls,
        estimator: FairClassifier,
        batches: Iterable[Batch],
        X: Any,
        y: Any,
        *,
        sensitive_features: Any,
        ax: Any = None,
    ) -> Self:
        """Train on batches, and look at the interval after each.

        Parameters
        ----------
        estimator : FairClassifier
            Trained further in place.
        batches : iterable of Batch
        X, y, sensitive_features
            Evaluation rows.
        ax : matplotlib Axes, optional
        """
        rows, path = [], []
        for batch in batches:
            named = batch.feature_names is not None and hasattr(X, "columns")
            rows_in = make_frame(dict(zip(batch.feature_names or (), batch.X.T, strict=True))) if named else batch.X
            estimator.partial_fit(rows_in, batch.y, sensitive_features=batch.group)
            rows.append(batch.first_row + batch.n_rows)
            path.append(estimator.fairness_interval(X, y, sensitive_features=sensitive_features))
        name = "unconstrained" if estimator.criterion is None else get_criterion(estimator.criterion).name
        return cls(rows, {name: path}).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the first path as a line in a band, the others by dashed limits.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        """
        if len(self.rows) == 0:
            raise ValueError("There is no look to draw: pass at least one batch.")
        if ax is None:
            ax = plt.subplots(figsize=(7.0, 4.2), layout="constrained")[1]
        for i, (colour, (name, path)) in enumerate(zip(cycle(COLOURS), self.paths.items(), strict=False)):
            low, high = [interval.low for interval in path], [interval.high for interval in path]
            if i == 0:
                draw_band(ax, self.rows, low, high, colour, f"{name} interval")
                ax.plot(self.rows, [interval.estimate for interval in path], color=colour, label="estimate")
            else:
                ax.plot(self.rows, low, color=colour, linestyle="--", label=f"{name} interval")
                ax.plot(self.rows, high, color=colour, linestyle="--")
        first = next(iter(self.paths.values()))[0]
        ax.set(xscale="log", xlabel="rows seen")
        if len(self.rows) > 1:
            ax.set_xlim(self.rows[0], self.rows[-1])
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        ratio = first.metric.endswith("_ratio")
        ax.set_ylabel(f"unfairness\n({first.metric.replace('_', ' ')}{'' if ratio else ' difference'})")
        ax.set_title(f"{first.confidence_level:.0%} intervals, each for a single look", fontsize="medium")
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(**LEGEND)
        self.ax_, self.figure_ = ax, ax.figure
        return self


class CalibrationDisplay:
    """How often intervals contained what they are for, quantity by quantity.

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
        """Draw what ``sf.calibrate`` found.

        Parameters
        ----------
        calibration : Calibration
        ax : matplotlib Axes, optional
        """
        return cls(calibration).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw a dot for each coverage with its binomial interval, and a band of two points around the nominal level.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        """
        rows = nw.from_native(self.calibration.table, eager_only=True).rows(named=True)
        settings = self.calibration.settings
        level = settings["confidence_level"]
        alone = ax is None
        if alone:
            ax = plt.subplots(figsize=(7.0, 1.6 + 0.28 * len(rows)), layout="constrained")[1]
        points = f"{100.0 * level:g} % ± {100.0 * BAND:g} points"
        ax.axvspan(level - BAND, min(level + BAND, 1.0), color="0.92", zorder=0, label=points)
        ax.axvline(level, color="0.4", linewidth=1.0, linestyle="--", zorder=1)
        for colour, kind in zip(COLOURS, ("gap", "coefficient"), strict=False):
            some = [
                (i, row)
                for i, row in enumerate(rows)
                if row["kind"] == kind and row["coverage"] is not None and row["coverage"] == row["coverage"]
            ]
            share = [row["coverage"] for _, row in some]
            ends = [[abs(row[end] - row["coverage"]) for _, row in some] for end in ("coverage_low", "coverage_high")]
            style = {"fmt": "o", "color": colour, "markersize": 5, "capsize": 2}
            ax.errorbar(share, [i for i, _ in some], xerr=ends, label=f"{kind}, with 95 % limits", **style)
        names = [f"{row['quantity']}, {row['source']}" if row["kind"] == "gap" else row["quantity"] for row in rows]
        ax.set_yticks(range(len(rows)), labels=names)
        ax.set(ylim=(len(rows) - 0.5, -0.5), xlabel="share of intervals that contain the truth")
        ax.xaxis.set_major_formatter(lambda value, _: f"{100.0 * value:.3g} %")
        study = f"{settings['repetitions']:,} repetitions of {settings['n_rows']:,} rows"
        ax.set_title(
            f"{100.0 * level:g} % intervals, {settings['metric'].replace('_', ' ')}: {study}", fontsize="medium"
        )
        ax.spines[["top", "right"]].set_visible(False)
        if alone:
            ax.figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize="small")
        self.ax_, self.figure_ = ax, ax.figure
        return self


class CoefficientDisplay:
    """Coefficients with their intervals, one below the other.

    Parameters
    ----------
    table : data frame or list of dict
        With the columns feature, estimate, low, high, as ``FairClassifier.coef_interval`` returns it.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    def __init__(self, table: Any) -> None:
        self.table = table

    @classmethod
    def from_estimator(
        cls, estimator: FairClassifier, *, confidence_level: float = 0.95, method: str = "basic", ax: Any = None
    ) -> Self:
        """Draw the coefficients of a fit.

        Parameters
        ----------
        estimator : FairClassifier
            Fitted.
        confidence_level, method
            As in ``coef_interval``.
        ax : matplotlib Axes, optional
        """
        return cls(estimator.coef_interval(confidence_level, method)).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw a dot and a line for each; those whose interval contains 0 are hollow.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        """
        rows = (
            self.table if isinstance(self.table, list) else nw.from_native(self.table, eager_only=True).rows(named=True)
        )
        if ax is None:
            ax = plt.subplots(figsize=(7.0, 1.2 + 0.26 * len(rows)), layout="constrained")[1]
        ax.axvline(0.0, color="0.4", linewidth=1.0, linestyle="--")
        for i, row in enumerate(rows):
            clear = row["low"] > 0.0 or row["high"] < 0.0
            ax.plot([row["low"], row["high"]], [i, i], color=COLOURS[0])
            ax.plot(
                row["estimate"],
                i,
                "o",
                color=COLOURS[0],
                markersize=5,
                markerfacecolor=COLOURS[0] if clear else "white",
            )
        ax.set_yticks(range(len(rows)), labels=[str(row["feature"]) for row in rows])
        ax.set(ylim=(len(rows) - 0.5, -0.5), xlabel="coefficient (hollow: 0 is in its interval)")
        ax.spines[["top", "right"]].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure
        return self
