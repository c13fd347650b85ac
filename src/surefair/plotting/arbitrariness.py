"""How often two models that are trained on different rows disagree, by group."""

from __future__ import annotations

from typing import Any, Self

from surefair.inference.arbitrariness import Arbitrariness
from surefair.plotting.drawing import COLOURS, Display, draw_dot, new_axes, percent, records


class ArbitrarinessDisplay(Display):
    """The probability that two fresh models disagree about a row, for each group with its interval.

    Parameters
    ----------
    arbitrariness : Arbitrariness
        Result of ``FairClassifier.arbitrariness`` or ``BootstrapClassifier.arbitrariness``.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import surefair as sf
    >>> data = sf.datasets.SyntheticDI(seed=0).sample(2_000)
    >>> clf = sf.FairClassifier(n_replicates=60, random_state=0)
    >>> clf = clf.fit(data.X, data.y, sensitive_features=data.sensitive)
    >>> found = clf.arbitrariness(data.X, sensitive_features=data.sensitive)
    >>> [label.get_text() for label in ArbitrarinessDisplay(found).plot().ax_.get_yticklabels()][0]
    'all rows  (n = 2,000)'
    """

    def __init__(self, arbitrariness: Arbitrariness) -> None:
        self.arbitrariness = arbitrariness

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, *, sensitive_features: Any, ax: Any = None, **options: Any) -> Self:
        """Measure a fitted classifier on held-out rows and draw the result.

        Parameters
        ----------
        estimator : FairClassifier or BootstrapClassifier
            Fitted.
        X, sensitive_features
            Evaluation rows.
        ax : matplotlib Axes, optional
        **options
            Other arguments of the classifier's ``arbitrariness``.
        """
        return cls(estimator.arbitrariness(X, sensitive_features=sensitive_features, **options)).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw a dot and a line for all rows and for each group.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        """
        found = self.arbitrariness
        rows = records(found.by_group)
        ax = new_axes(6.2, 1.3 + 0.32 * (len(rows) + 1)) if ax is None else ax
        labels = [f"all rows  (n = {found.n:,})"]
        draw_dot(ax, found.estimate, found.low, found.high, 0.0, COLOURS[1], True)
        for y, row in enumerate(rows, start=1):
            column = f"{row['column']} = " if "column" in row else ""
            labels.append(f"{column}{row['group']}  (n = {row['n']:,})")
            if row["n"]:
                draw_dot(ax, row["estimate"], row["low"], row["high"], float(y), COLOURS[0], True)
        ax.set_yticks(range(len(labels)), labels=labels, parse_math=False)
        ax.set(ylim=(len(labels) - 0.5, -0.5), xlim=(0.0, None))
        ax.set_xlabel(f"probability that two fresh models disagree, with {percent(found.confidence_level)} intervals")
        ax.set_title(f"Models trained on {found.n_training:,} rows", fontsize="medium")
        return self._finish(ax)


DISPLAY = ArbitrarinessDisplay
