"""What each tolerance buys in unfairness and costs in accuracy."""

from __future__ import annotations

from typing import Any, Self

from surefair.classifier import FairClassifier
from surefair.plotting.drawing import COLOURS, LEGEND, Display, new_axes, percent
from surefair.selection.frontier import Frontier, frontier

NEAR = 0.04  # distance of two places, relative to the picture, at which their labels would overlap


class FrontierDisplay(Display):
    """Unfairness and accuracy of the models of a frontier, with the bands that hold for all of them.

    Parameters
    ----------
    frontier : Frontier
        Result of ``surefair.frontier``.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import surefair as sf
    >>> data = sf.datasets.SyntheticDI(seed=0).sample(2_000)
    >>> clf = sf.FairClassifier(n_replicates=60, random_state=0)
    >>> found = sf.frontier(clf, data.X, data.y, sensitive_features=data.sensitive, tolerances=[0.3, 0.1])
    >>> FrontierDisplay(found).plot(margin=0.5).ax_.get_ylabel()
    'accuracy'
    """

    def __init__(self, frontier: Frontier) -> None:
        self.frontier = frontier

    @classmethod
    def from_estimator(
        cls, estimator: FairClassifier, X: Any, y: Any, *, sensitive_features: Any, margin: float | None = None,
        ax: Any = None, **options: Any,
    ) -> Self:  # fmt: skip
        """Train the models of a frontier and draw it.

        Parameters
        ----------
        estimator : FairClassifier
        X, y, sensitive_features
            As in ``surefair.frontier``.
        margin, ax
            As in ``plot``.
        **options
            Other arguments of ``surefair.frontier``.
        """
        found = frontier(estimator, X, y, sensitive_features=sensitive_features, **options)
        return cls(found).plot(ax=ax, margin=margin)

    def plot(self, ax: Any = None, *, margin: float | None = None) -> Self:
        """Draw a dot for each model, a cross for its bands, and a line along the path.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        margin : float, optional
            Draw a line at the margin, and ring the most accurate model that meets it with confidence.
        """
        found = self.frontier
        ax = new_axes(7.0, 4.6) if ax is None else ax
        x = [point.interval.estimate for point in found.points]
        y = [point.accuracy.estimate for point in found.points]
        ax.plot(x, y, color=COLOURS[0], linewidth=1.2, alpha=0.6, zorder=1)
        level = percent(found.confidence_level)
        for point, at, up in zip(found.points, x, y, strict=True):
            free = point.tolerance is None
            colour = COLOURS[1] if free else COLOURS[0]
            ax.plot([point.low, point.high], [up, up], color=colour, alpha=0.45, linewidth=2.2, zorder=2)
            ax.plot([at, at], [*point.accuracy_band], color=colour, alpha=0.45, linewidth=2.2, zorder=2)
            label = "no constraint" if free else "with a tolerance" if point is found.points[1] else None
            ax.plot([at], [up], "s" if free else "o", color=colour, markersize=6, label=label, zorder=3)
        for at_label, words in self._labels(x, y).items():
            ax.annotate(words, at_label, xytext=(5, 5), textcoords="offset points", fontsize="small")
        if margin is not None:
            ax.axvline(margin, color="0.25", linewidth=1.0, linestyle="--", label=f"margin {margin:g}")
            best = found.best(margin)
            if best is not None:
                place = [best.interval.estimate], [best.accuracy.estimate]
                ring = {"markersize": 15, "markerfacecolor": "none", "markeredgewidth": 1.6, "linestyle": ""}
                ax.plot(*place, "o", color=COLOURS[2], label="best that meets the margin", **ring)
        ratio = found.metric.endswith("_ratio")
        ax.set_xlabel("smallest ratio of rates" if ratio else "unfairness (largest gap between groups)")
        ax.set_ylabel("accuracy")
        title = f"{found.metric.replace('_', ' ')}: {level} bands hold for all models together"
        ax.set_title(title, fontsize="medium")
        ax.legend(fontsize="small", **LEGEND)
        return self._finish(ax)

    def _labels(self, x: list[float], y: list[float]) -> dict[tuple[float, float], str]:
        """What stands beside each place; models that are drawn at nearly the same place share a label."""
        found: dict[tuple[float, float], list[str]] = {}
        wide, high = (NEAR * max(max(values) - min(values), 1e-9) for values in (x, y))
        for point, at, up in zip(self.frontier.points, x, y, strict=True):
            near = (place for place in found if abs(place[0] - at) < wide and abs(place[1] - up) < high)
            words = "free" if point.tolerance is None else f"{point.tolerance:g}"
            found.setdefault(next(near, (at, up)), []).append(words)
        return {place: ", ".join(words) for place, words in found.items()}


DISPLAY = FrontierDisplay
