"""The interval for the unfairness as training rows come in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import Any, Self

from surefair.classifier import FairClassifier
from surefair.datasets import Dataset
from surefair.inference.interval import Interval
from surefair.plotting.drawing import COLOURS, LEGEND, Display, count_rows, draw_band, new_axes, percent


class IntervalPathDisplay(Display):
    """How the interval for the unfairness changes along a stream.

    Parameters
    ----------
    rows : sequence of int
        Number of training rows at each look.
    paths : mapping of str to sequence of Interval
        Named paths with one interval per look: one path per source, say, or per model. Anytime intervals hold at all
        looks together.
    end : Interval, optional
        An interval for a single look at the end, to be drawn there.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from itertools import islice
    >>> import surefair as sf
    >>> stream = sf.datasets.SyntheticDI(seed=0)
    >>> test = stream.rows(10**6, 1_000)
    >>> display = IntervalPathDisplay.from_estimator(
    ...     sf.FairClassifier(n_replicates=60, random_state=0),
    ...     islice(stream.batches(size=2_000), 3),
    ...     test.X,
    ...     test.y,
    ...     sensitive_features=test.sensitive,
    ... )
    >>> display.rows
    [2000, 4000, 6000]
    """

    def __init__(
        self, rows: Sequence[int], paths: Mapping[str, Sequence[Interval]], end: Interval | None = None
    ) -> None:
        self.rows = rows
        self.paths = paths
        self.end = end

    @classmethod
    def from_estimator(
        cls,
        estimator: FairClassifier,
        batches: Iterable[Dataset],
        X: Any,
        y: Any,
        *,
        sensitive_features: Any,
        ax: Any = None,
    ) -> Self:
        """Train on one batch after another and draw the anytime interval after each.

        The interval for a single look is drawn at the end, and marked as such.

        Parameters
        ----------
        estimator : FairClassifier
            Is trained in place.
        batches : iterable of Dataset
            Training rows, such as ``SyntheticDI().batches()``; any objects with X, y and sensitive will do.
        X, y, sensitive_features
            Evaluation rows.
        ax : matplotlib Axes, optional
        """
        seen = 0
        rows = []
        path = []
        for data in batches:
            estimator.partial_fit(data.X, data.y, sensitive_features=data.sensitive)
            seen += len(data.y)
            rows.append(seen)
            path.append(estimator.fairness_interval(X, y, sensitive_features=sensitive_features, anytime=True))
        end = estimator.fairness_interval(X, y, sensitive_features=sensitive_features) if path else None
        criterion = estimator.model_.problem.criterion if path else None
        name = "unconstrained" if criterion is None else criterion.name
        return cls(rows, {name: path}, end).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the first path as a line in a band and the limits of the others as dashed lines.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default on a new figure.
        """
        if len(self.rows) == 0:
            raise ValueError("There is nothing to draw: the path has no intervals. Pass at least one batch.")
        ax = new_axes() if ax is None else ax
        for i, (colour, (name, path)) in enumerate(zip(cycle(COLOURS), self.paths.items(), strict=False)):
            low = [interval.low for interval in path]
            high = [interval.high for interval in path]
            label = f"{name.replace('_', ' ')} interval"
            if i == 0:
                draw_band(ax, self.rows, low, high, colour, label)
                ax.plot(self.rows, [interval.estimate for interval in path], color=colour, label="estimate")
            else:
                ax.plot(self.rows, low, color=colour, linestyle="--", label=label)
                ax.plot(self.rows, high, color=colour, linestyle="--")
        if self.end is not None:
            ends = (self.rows[-1], self.end.low, self.end.high)
            ax.vlines(*ends, color="black", linewidth=3, clip_on=False, label="interval for one look at the end")
        count_rows(ax)
        if len(self.rows) > 1:
            ax.set_xlim(self.rows[0], self.rows[-1])
        first = next(iter(self.paths.values()))[0]
        kind = "" if first.metric.endswith("_ratio") else " difference"
        ax.set_ylabel(f"unfairness\n({first.metric.replace('_', ' ')}{kind})")
        level = percent(first.confidence_level)
        anytime = all(one.method.startswith("anytime") for path in self.paths.values() for one in path)
        words = "intervals that hold at all looks together" if anytime else "intervals, each valid for one look only"
        ax.set_title(f"{level} {words}", fontsize="medium")
        ax.legend(**LEGEND)
        return self._finish(ax)


DISPLAY = IntervalPathDisplay
