"""Rates of groups and gaps between them at every threshold of a score."""

from __future__ import annotations

from itertools import cycle
from typing import Any, Self

from surefair.criteria import Criterion
from surefair.inference.thresholds import ThresholdCurve, threshold_curve
from surefair.plotting.drawing import COLOURS, LEGEND, Display, draw_band, panels, percent, records

STYLES = ("-", "--", "-.", ":")
MOST_GROUPS = 8  # lines in the upper panel


class ThresholdDisplay(Display):
    """Rates of groups and unfairness at every threshold of a score, with bands that hold together.

    Parameters
    ----------
    curve : ThresholdCurve
        Result of ``surefair.threshold_curve``.

    Attributes
    ----------
    ax_ : matplotlib Axes
        That of the unfairness.
    rates_ax_ : matplotlib Axes or None
        That of the rates; None if axes were passed to ``plot``.
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import surefair as sf
    >>> curve = sf.threshold_curve(None, [0.1, 0.4, 0.6, 0.9] * 50, sensitive_features=["a", "b", "b", "a"] * 50)
    >>> ThresholdDisplay(curve).plot(margin=0.1).ax_.get_xlabel()
    'threshold of the score'
    """

    def __init__(self, curve: ThresholdCurve) -> None:
        self.curve = curve

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_score: Any,
        *,
        sensitive_features: Any,
        metric: str | Criterion = "demographic_parity",
        margin: float | None = None,
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Measure scores at every threshold and draw the result.

        Parameters
        ----------
        y_true, y_score, sensitive_features, metric
            As in ``surefair.threshold_curve``.
        margin, ax
            As in ``plot``.
        **options
            Other arguments of ``surefair.threshold_curve``.
        """
        curve = threshold_curve(y_true, y_score, sensitive_features=sensitive_features, metric=metric, **options)
        return cls(curve).plot(ax=ax, margin=margin)

    def plot(self, ax: Any = None, *, margin: float | None = None) -> Self:
        """Draw the rate of each group above, and the unfairness with its band below.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw the unfairness alone; by default both panels go on a new figure.
        margin : float, optional
            Draw a line at the margin.
        """
        curve = self.curve
        self.rates_ax_ = None
        if ax is None:
            _, (self.rates_ax_, ax) = panels(2)
            self._plot_rates(self.rates_ax_)
        rows = records(curve.to_frame())
        at = [row["threshold"] for row in rows]
        ratio = curve.metric.endswith("_ratio")
        level = percent(curve.confidence_level)
        draw_band(ax, at, [row["low"] for row in rows], [row["high"] for row in rows], COLOURS[0], f"{level} band")
        ax.plot(at, [row["estimate"] for row in rows], color=COLOURS[0], label="estimate")
        if margin is not None:
            ax.axhline(margin, color="0.25", linewidth=1.0, linestyle="--", label=f"margin {margin:g}")
        ax.set(ylim=(None, 1.0) if ratio else (0.0, None), xlabel="threshold of the score")
        ax.set_ylabel("smallest ratio of rates" if ratio else "largest gap between groups")
        title = f"{curve.metric.replace('_', ' ')}: the {level} band holds for all thresholds together"
        ax.set_title(title, fontsize="medium")
        ax.legend(**LEGEND)
        return self._finish(ax)

    def _plot_rates(self, ax: Any) -> None:
        """Draw the rate of each group with its band; only lines where there are many groups."""
        curve = self.curve
        by_line: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in records(curve.by_group):
            by_line.setdefault((row.get("column"), row["group"], row.get("metric")), []).append(row)
        rates = list(dict.fromkeys(key[2] for key in by_line))
        groups = list(dict.fromkeys(key[:2] for key in by_line))
        colours = dict(zip(groups, cycle(COLOURS), strict=False))
        for key, rows in by_line.items():
            column, group, rate = key
            at = [row["threshold"] for row in rows]
            label = f"{'' if column is None else f'{column} = '}{group} (n = {max(row['n'] for row in rows):,})"
            label += "" if rate is None else f", {rate.replace('_', ' ')}"
            style = STYLES[rates.index(rate) % len(STYLES)]
            colour = colours[key[:2]]
            ax.plot(at, [row["rate"] for row in rows], style, color=colour, label=label.replace("$", r"\$"))
            if len(by_line) <= MOST_GROUPS:
                low, high = ([row[end] for row in rows] for end in ("low", "high"))
                ax.fill_between(at, low, high, color=colour, alpha=0.15, linewidth=0)
        ax.set(ylim=(0.0, 1.0), ylabel="rate")
        ax.spines[["top", "right"]].set_visible(False)
        if len(by_line) <= 2 * MOST_GROUPS:
            ax.legend(fontsize="small", ncols=1 + len(by_line) // MOST_GROUPS, **LEGEND)


DISPLAY = ThresholdDisplay
