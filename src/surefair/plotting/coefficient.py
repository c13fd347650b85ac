"""Coefficients with their intervals."""

from __future__ import annotations

from typing import Any, Self

from surefair.classifier import FairClassifier
from surefair.plotting.drawing import COLOURS, Display, draw_dot, new_axes, records


class CoefficientDisplay(Display):
    """Coefficients with their intervals, one below the other.

    Parameters
    ----------
    table : data frame or list of dict
        Table with the columns feature, estimate, low and high, as ``FairClassifier.coef_interval`` returns it.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> rows = [{"feature": "age", "estimate": 0.4, "low": 0.1, "high": 0.7}]
    >>> display = CoefficientDisplay(rows).plot()
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
    ['age']
    """

    def __init__(self, table: Any) -> None:
        self.table = table

    @classmethod
    def from_estimator(
        cls, estimator: FairClassifier, *, confidence_level: float = 0.95, method: str = "basic", ax: Any = None
    ) -> Self:
        """Draw the coefficients of a fitted classifier.

        Parameters
        ----------
        estimator : FairClassifier
            Fitted.
        confidence_level, method
            As in ``FairClassifier.coef_interval``.
        ax : matplotlib Axes, optional
        """
        return cls(estimator.coef_interval(confidence_level, method)).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw a dot and a line for each coefficient; the dot is hollow if the interval contains 0.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default on a new figure.
        """
        rows = records(self.table)
        if ax is None:
            ax = new_axes(height=1.2 + 0.26 * len(rows))
        ax.axvline(0.0, color="0.4", linewidth=1.0, linestyle="--")
        for i, row in enumerate(rows):
            excludes_zero = row["low"] > 0.0 or row["high"] < 0.0
            draw_dot(ax, row["estimate"], row["low"], row["high"], i, COLOURS[0], excludes_zero)
        ax.set_yticks(range(len(rows)), labels=[str(row["feature"]) for row in rows])
        ax.set(ylim=(len(rows) - 0.5, -0.5), xlabel="coefficient (hollow: the interval contains 0)")
        return self._finish(ax)


DISPLAY = CoefficientDisplay
