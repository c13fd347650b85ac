"""The unfairness of both models of an audit, metric by metric."""

from __future__ import annotations

from typing import Any, Self

from surefair.audit.result import Audit, find_interval
from surefair.plotting.drawing import COLOURS, LEGEND, MARKERS, Display, draw_dot, new_axes, percent


class AuditDisplay(Display):
    """The unfairness of both models of an audit in each metric, with its interval and the margin.

    Parameters
    ----------
    audit : Audit

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    def __init__(self, audit: Audit) -> None:
        self.audit = audit

    @classmethod
    def from_audit(cls, audit: Audit, *, source: str | None = None, ax: Any = None) -> Self:
        """Draw an audit.

        Parameters
        ----------
        audit : Audit
            Result of ``surefair.audit``, or of ``Audit.from_json``.
        source, ax
            As in ``plot``.
        """
        return cls(audit).plot(ax=ax, source=source)

    def plot(self, ax: Any = None, *, source: str | None = None) -> Self:
        """Draw a dot and a line for each metric and model; the dot is hollow if the unfairness is undefined.

        If the first metric with a verdict is a ratio, ratios are drawn, otherwise differences: they have other scales.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default on a new figure whose height fits the number of metrics.
        source : {"total", "training", "retraining", "evaluation"}, optional
            What the intervals cover; by default "total" for models that were trained, and "evaluation" for decisions
            and scores.
        """
        audit = self.audit
        first = audit.interval(source=source)  # refuses an unknown source
        source, ratio = first["source"], first["metric"].endswith("_ratio")
        names = dict.fromkeys(one["metric"] for one in audit.models[0]["intervals"])
        metrics = [name for name in names if name.endswith("_ratio") == ratio]
        alone = ax is None
        if alone:
            ax = new_axes(height=1.7 + 0.42 * len(metrics))
        for i, model in enumerate(audit.models):
            for j, metric in enumerate(metrics):
                y = j + 0.3 * (i - (len(audit.models) - 1) / 2.0)
                self._draw(ax, find_interval(model, metric, source), y, i)
            ax.plot([], [], marker=MARKERS[i], color=COLOURS[i], label=f"{model['name']} model")
        margin = audit.settings.get("margin")
        if margin is not None:
            ax.axvline(margin, color="0.25", linewidth=1.0, linestyle="--", label=f"margin {margin:g}")
        ax.set_yticks(range(len(metrics)), labels=[metric.replace("_", " ") for metric in metrics])
        ax.set(ylim=(len(metrics) - 0.5, -0.5), xlim=(None, 1.0) if ratio else (0.0, None))
        level = percent(audit.settings["confidence_level"])
        ax.set_xlabel(f"{'smallest ratio of rates' if ratio else 'largest gap between groups'}, {level} intervals")
        verdict = "" if audit.verdict is None else f": {audit.verdict}"
        ax.set_title(f"{audit.data['name']}{verdict}", fontsize="medium", parse_math=False)
        if alone:
            ax.figure.legend(loc="outside lower center", ncols=3, **LEGEND)
        else:
            ax.legend(**LEGEND)
        return self._finish(ax)

    def _draw(self, ax: Any, one: dict[str, Any], y: float, series: int) -> None:
        """Draw one interval; limits that are missing are those of the whole range."""
        low = 0.0 if one["low"] is None else one["low"]
        high = 1.0 if one["high"] is None else one["high"]
        known = one["estimate"] is not None
        at = one["estimate"] if known else (low + high) / 2.0
        draw_dot(ax, at, low, high, y, COLOURS[series], known, marker=MARKERS[series])


DISPLAY = AuditDisplay
