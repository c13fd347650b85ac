"""Pictures of intervals, in the manner of scikit-learn's displays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from textwrap import fill
from typing import Any, Self

import matplotlib.pyplot as plt
import narwhals as nw
import numpy as np
from joblib import effective_n_jobs
from scipy.stats import norm

from surefair.calibration import Calibration
from surefair.classifier import FairClassifier
from surefair.criteria import Criterion, get_criterion
from surefair.inference.interval import SOURCES, Interval, compared_rates, get_metric, rates_of
from surefair.inference.theory import GapLaw
from surefair.rows.arrays import Batch, FloatArray, make_frame
from surefair.storage.atomic import written_whole

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")  # told apart by colour-blind people, too (Okabe and Ito)
LEGEND: Any = {"framealpha": 0.85, "edgecolor": "none"}  # readable over lines
MARKERS = ("o", "s", "^", "D")
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
    method: str = "linear",
) -> None:
    """Draw the density of some values by a normal kernel, reflected where they cannot fall below a floor.

    With ``limits``, their 2.5 % and 97.5 % quantiles, by NumPy's ``method``, are vertical lines.
    """
    bandwidth = bandwidth or 1e-6
    at = np.linspace(values.min() - 3.0 * bandwidth, values.max() + 3.0 * bandwidth, 400)
    at = at if floor is None else at[at >= floor]
    curve = norm.pdf(at[:, None], values, bandwidth).mean(axis=1)
    if floor is not None:
        curve += norm.pdf(at[:, None], 2.0 * floor - values, bandwidth).mean(axis=1)
    ax.plot(at, curve, style, color=colour, label=label)
    for end in np.quantile(values, (0.025, 0.975), method=method) if limits else ():  # type: ignore[call-overload]
        ax.axvline(end, color=colour, linewidth=1.0, linestyle="--")


def _draw_dot(ax: Any, at: float, low: float, high: float, y: float, colour: str, filled: bool, **more: Any) -> None:
    """Draw a horizontal line from low to high with a dot on it, in row y."""
    ax.plot([low, high], [y, y], color=colour)
    style = {"linestyle": "", "marker": "o", "markersize": 5, "color": colour} | more
    ax.plot([at], [y], markerfacecolor=colour if filled else "white", **style)


def _as_rows(table: Any) -> list[dict[str, Any]]:
    """Rows of a data frame of any library."""
    return table if isinstance(table, list) else nw.from_native(table, eager_only=True).rows(named=True)


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
        rows = _as_rows(self.calibration.table)
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
        rows = _as_rows(self.table)
        if ax is None:
            ax = plt.subplots(figsize=(7.0, 1.2 + 0.26 * len(rows)), layout="constrained")[1]
        ax.axvline(0.0, color="0.4", linewidth=1.0, linestyle="--")
        for i, row in enumerate(rows):
            clear = row["low"] > 0.0 or row["high"] < 0.0
            _draw_dot(ax, row["estimate"], row["low"], row["high"], i, COLOURS[0], clear)
        ax.set_yticks(range(len(rows)), labels=[str(row["feature"]) for row in rows])
        ax.set(ylim=(len(rows) - 0.5, -0.5), xlabel="coefficient (hollow: 0 is in its interval)")
        ax.spines[["top", "right"]].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


class FairnessIntervalDisplay:
    """The rate of each group with its interval, one below the other.

    Parameters
    ----------
    interval : Interval
        As ``FairClassifier.fairness_interval`` and ``surefair.fairness_interval`` return it.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from surefair import fairness_interval
    >>> group, decision = ["a", "b"] * 500, [0, 0, 0, 1, 1, 1, 0, 1] * 125
    >>> interval = fairness_interval([0, 1] * 500, decision, sensitive_features=group)
    >>> display = FairnessIntervalDisplay(interval).plot()
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
    ['a  (n = 500)', 'b  (n = 500)']
    >>> plt.close(display.figure_)
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
        """Measure a fit on held-out rows, and draw.

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
        """Draw a dot and a line for each group; an undefined rate is hollow, on a line over its whole range.

        Several rates have a colour and a marker each, and the numbers of rows of a group are in the same order. Groups
        are below the name of their sensitive column, where columns have names.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure, as high as there are groups.
        """
        table = _as_rows(self.interval.by_group)
        rates = list(dict.fromkeys(row.get("metric", self.interval.rate) for row in table))
        by_column: dict[Any, dict[Any, list[dict[str, Any]]]] = {}
        for row in table:
            by_column.setdefault(row.get("column"), {}).setdefault(row["group"], []).append(row)
        labels: list[str] = []  # of groups, and of columns above theirs
        headings, dots = [], []
        for column, groups in by_column.items():
            if column is not None:
                headings.append(len(labels))
                labels.append(str(column))
            for group, rows in groups.items():
                dots += [(len(labels), column, row) for row in rows]
                labels.append(_with_numbers(str(group), [row["n"] for row in rows]))
        heights = np.array([0.45 + 0.55 * len(label.split("\n")) for label in labels])  # 1 for a single line
        middle = np.cumsum(heights) - heights / 2.0 - 0.5
        title, alone = _told(self.interval, several=len(table) > 2), ax is None
        if alone:
            width = max(len(line) for label in labels for line in label.split("\n"))
            height = 1.2 + 0.2 * title.count("\n") + heights.sum() * max(0.3, 0.18 * len(rates))
            ax = plt.subplots(figsize=(5.8 + 0.08 * width, height), layout="constrained")[1]
        columns = list(by_column)
        undefined = False
        for i, column, row in dots:
            name = row.get("metric", self.interval.rate)
            j = rates.index(name)
            known = row["rate"] is not None and row["rate"] == row["rate"]
            undefined |= not known
            at = row["rate"] if known else (row["low"] + row["high"]) / 2.0
            colour = COLOURS[(j if len(rates) > 1 else columns.index(column)) % len(COLOURS)]
            y = middle[i] + 0.6 * ((j + 0.5) / len(rates) - 0.5)
            _draw_dot(ax, at, row["low"], row["high"], y, colour, known, marker=MARKERS[j % len(MARKERS)])
        ax.set_yticks(middle, labels=labels, parse_math=False)  # names may hold dollars
        for i in headings:
            ax.get_yticklabels()[i].set_fontweight("bold")
            ax.yaxis.get_major_ticks()[i].tick1line.set_visible(False)
        level = f"{100.0 * self.interval.confidence_level:g} %"
        what = self.interval.rate.replace("_", " ") if len(rates) == 1 else "rate"
        note = " (hollow: undefined)" if undefined else ""
        ax.set(ylim=(heights.sum() - 0.5, -0.5), xlabel=f"{what}, each with its own {level} interval{note}")
        ax.set_title(title, fontsize="medium", parse_math=False)
        ax.spines[["top", "right"]].set_visible(False)
        if len(rates) > 1:
            colours = list(zip(rates, cycle(COLOURS), cycle(MARKERS), strict=False))
            handles = [ax.plot([], [], m, ls="-", color=c, label=rate.replace("_", " "))[0] for rate, c, m in colours]
            place = {"loc": "outside lower center", "ncols": 2} if alone else {}
            (ax.figure if alone else ax).legend(handles=handles, **LEGEND, **place)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _with_numbers(group: str, n: list[int]) -> str:
    """Name of a group, long ones in several lines, with the rows that enter its rates.

    Examples
    --------
    >>> _with_numbers("Female", [3201, 3201]), _with_numbers("Female", [3201, 98])
    ('Female  (n = 3,201)', 'Female  (n = 3,201 / 98)')
    """
    numbers = " / ".join(f"{one:,}" for one in (n if len(set(n)) > 1 else n[:1]))
    return f"{fill(group, 30)}  (n = {numbers})"


def _told(interval: Interval, several: bool) -> str:
    """Metric, unfairness with its interval, between whom, what the source is, and what is not defined, in lines."""
    name, ratio = interval.metric.replace("_", " "), interval.metric.endswith("_ratio")
    number = "undefined" if np.isnan(interval.estimate) else f"{interval.estimate:.3f}"
    level = f"{100.0 * interval.confidence_level:g} % interval [{interval.low:.3f}, {interval.high:.3f}]"
    told = [f"{name if ratio else f'{name}: unfairness'} {number}, {level}"]
    if several and number != "undefined":
        among = "" if interval.column is None else f" of {interval.column}"
        (a, b), rate = interval.pair, interval.rate.replace("_", " ")
        told.append(f"between {a} and {b}{among}, in their {rate}")
    told.append(f"source {interval.source}: {SOURCES[interval.source]}")
    told += [f"not all is defined: {interval.reason}"] if interval.reason else []
    return "\n".join(fill(line, 72) for line in told)


class DensityDisplay:
    """How the gaps of replicates, or of repeated fits, are distributed.

    Parameters
    ----------
    samples : mapping of str to array-like
        Gaps by name: first those observed, then others to compare them with.
    theory : GapLaw, optional
        Their limit law, as ``surefair.inference.theory.gap_law`` returns it.
    estimate : float, optional
        The gap of the fit itself.
    what : str
        What the gaps are.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> gaps = np.random.default_rng(0).normal(0.2, 0.02, size=(2, 300))
    >>> display = DensityDisplay({"observed": gaps[0], "another seed": gaps[1]}).plot()
    >>> [text.get_text() for text in display.ax_.get_legend().get_texts()]
    ['observed', 'another seed', '95 % of each']
    >>> plt.close(display.figure_)
    """

    def __init__(
        self,
        samples: Mapping[str, Any],
        theory: GapLaw | None = None,
        *,
        estimate: float | None = None,
        what: str = "gap",
    ) -> None:
        self.samples = samples
        self.theory = theory
        self.estimate = estimate
        self.what = what

    @classmethod
    def from_estimator(
        cls,
        estimator: FairClassifier,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any,
        metric: str | Criterion | None = None,
        theory: GapLaw | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw the signed gaps of the replicates on these rows; of one rate, between two groups.

        The replicates are mirrored at the fit, as for percentile intervals, and the limits are those of the interval
        with source "training".

        Parameters
        ----------
        estimator : FairClassifier
            Fitted.
        X, y, sensitive_features
            Evaluation rows.
        metric : str, Criterion or None
            What is compared, one rate by its difference; by default the criterion of the fit.
        theory : GapLaw, optional
            Limit law to compare with.
        ax : matplotlib Axes, optional
        """
        interval = estimator.fairness_interval(
            X, y, sensitive_features=sensitive_features, metric=metric, source="training"
        )
        pairs = len(_as_rows(interval.by_pair))
        if pairs != 1 or interval.metric.endswith("_ratio"):
            raise ValueError(
                f"A density is drawn of the difference of one rate between two groups; received {interval.metric!r}, "
                f"which compares {pairs} pair(s) of groups and rates. Take one rate (false_positive_rate for "
                "equalized_odds, say) by its difference, and two groups of one column at a time."
            )
        if interval.reason:
            raise ValueError(f"There is no density of the gap to draw: {interval.reason}.")
        gaps = _gaps_of_replicates(estimator, X, y, sensitive_features, metric)
        first, second = interval.pair
        what = f"gap ({interval.rate.replace('_', ' ')} of {first} minus that of {second})"
        return cls({f"{len(gaps):,} replicates": gaps}, theory, estimate=interval.gap, what=what).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw a density for each, all smoothed alike, with the limits that 95 % of it are between as dashed lines.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        """
        curves = {name: np.asarray(values, dtype=np.float64) for name, values in self.samples.items()}
        if not curves:
            raise ValueError("There are no gaps to draw: pass at least one sample.")
        for name, values in curves.items():
            if values.ndim != 1 or len(values) < 2 or not np.isfinite(values).all():
                raise ValueError(
                    f"The gaps of {name!r} must be two or more finite numbers in one dimension; received an array of "
                    f"shape {values.shape} with {np.count_nonzero(~np.isfinite(values))} that are not finite."
                )
        observed = next(iter(curves.values()))
        bandwidth = float(observed.std()) * len(observed) ** -0.2
        if self.theory is not None:
            law = self.theory
            normal = norm.ppf((np.arange(2000) + 0.5) / 2000, law.mean, law.sd)
            curves[f"limit law, {law.n:,} rows"] = law.gaps if len(law.gaps) else normal
        if ax is None:
            ax = panels(1)[1]
        looks = zip(curves.items(), cycle(COLOURS), cycle(("-", "-.", ":")), strict=False)
        for (name, values), colour, style in looks:
            draw_density(ax, values, colour, style, name, bandwidth, limits=True, method="weibull")  # as in intervals
        ax.plot([], [], "--", color="0.4", linewidth=1.0, label="95 % of each" if len(curves) > 1 else "95 % of them")
        if self.estimate is not None:
            ax.axvline(self.estimate, color="black", linewidth=1.0, label=f"the fit, {self.estimate:.3f}")
        left, right = ax.get_xlim()
        if left < 0.0 < right:
            ax.axvline(0.0, color="0.4", linewidth=1.0, linestyle=":", label="parity")
        ax.set(ylabel="density", ylim=(0.0, None))
        ax.set_xlabel(self.what, parse_math=False)  # names may hold dollars
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(**LEGEND)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _gaps_of_replicates(
    estimator: FairClassifier, X: Any, y: Any, sensitive_features: Any, metric: str | Criterion | None
) -> FloatArray:
    """Gaps of one rate between two groups, of the replicates mirrored at the fit."""
    rates = compared_rates(*get_metric(metric or estimator.criterion or "demographic_parity"))
    rows, groups = estimator._measured(X, y, sensitive_features, None)
    threads = effective_n_jobs(estimator.n_jobs)
    counts = estimator._replicated().decisions(rows, groups.sizes, "training", "percentile", threads)
    first, second = rates_of(rates, counts)[1:, 0].T
    return np.asarray(first - second)
