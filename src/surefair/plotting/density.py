"""The distribution of gaps over replicates or repeated fits."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import Any, Self

import numpy as np
from scipy.stats import norm

from surefair.classifier import FairClassifier
from surefair.criteria import Criterion
from surefair.inference.counts import rates_of
from surefair.inference.interval import Interval
from surefair.inference.metric import get_metric
from surefair.inference.theory import GapLaw
from surefair.plotting.drawing import COLOURS, LEGEND, Display, draw_density, new_axes, records
from surefair.rows import FloatArray


class DensityDisplay(Display):
    """How the gaps of replicates, or of repeated fits, are distributed.

    Parameters
    ----------
    samples : mapping of str to array-like
        Named samples of gaps. The first sets how strongly all are smoothed.
    theory : GapLaw, optional
        Their limit law, as ``surefair.inference.theory.gap_law`` returns it.
    estimate : float, optional
        Gap of the fit itself.
    what : str
        Label of the x axis.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> gaps = np.random.default_rng(0).normal(0.2, 0.02, size=(2, 300))
    >>> display = DensityDisplay({"observed": gaps[0], "another seed": gaps[1]}).plot()
    >>> [text.get_text() for text in display.ax_.get_legend().get_texts()]
    ['observed', 'another seed', 'central 95 %']
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
        """Draw the signed gaps of the replicates on these rows, for one rate and two groups.

        The replicates are mirrored at the fit, as for percentile intervals, so the limits drawn are those of the
        interval with source "training".

        Parameters
        ----------
        estimator : FairClassifier
            Fitted.
        X, y, sensitive_features
            Evaluation rows.
        metric : str, Criterion or None
            A metric that compares one rate by differences; by default the criterion of the fit.
        theory : GapLaw, optional
            Limit law to compare with.
        ax : matplotlib Axes, optional
        """
        tally = estimator.tally(X, y, sensitive_features=sensitive_features, sources="training")
        interval = estimator.tallied_interval(tally, metric=metric, source="training")
        _check_one_gap(interval)
        rates = get_metric(metric or estimator.model_.problem.criterion or "demographic_parity").rates
        of_first, of_second = rates_of(rates, tally.counts("training"))[1:, 0].T
        gaps = of_first - of_second
        first, second = interval.pair
        what = f"gap ({interval.rate.replace('_', ' ')} of {first} minus that of {second})"
        return cls({f"{len(gaps):,} replicates": gaps}, theory, estimate=interval.gap, what=what).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw one density per sample, all with the same bandwidth, and dashed lines around the central 95 % of each.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default on a new figure.
        """
        curves = _checked(self.samples)
        observed = next(iter(curves.values()))
        bandwidth = float(observed.std()) * len(observed) ** -0.2
        if self.theory is not None:
            law = self.theory
            normal = norm.ppf((np.arange(2000) + 0.5) / 2000, law.mean, law.sd)
            curves[f"limit law, {law.n:,} rows"] = law.gaps if len(law.gaps) else normal
        ax = new_axes() if ax is None else ax
        looks = zip(curves.items(), cycle(COLOURS), cycle(("-", "-.", ":")), strict=False)
        for (name, values), colour, style in looks:
            # Intervals compute their quantiles with the same method, so the limits agree.
            draw_density(ax, values, colour, style, name, bandwidth, limits=True, method="weibull")
        ax.plot([], [], "--", color="0.4", linewidth=1.0, label="central 95 %")
        if self.estimate is not None:
            ax.axvline(self.estimate, color="black", linewidth=1.0, label=f"this fit ({self.estimate:.3f})")
        left, right = ax.get_xlim()
        if left < 0.0 < right:
            ax.axvline(0.0, color="0.4", linewidth=1.0, linestyle=":", label="parity")
        ax.set(ylabel="density", ylim=(0.0, None))
        ax.set_xlabel(self.what, parse_math=False)  # names may contain dollar signs
        ax.legend(**LEGEND)
        return self._finish(ax)


def _check_one_gap(interval: Interval) -> None:
    """Refuse a metric whose gap is not one defined difference."""
    pairs = len(records(interval.by_pair))
    if pairs != 1 or interval.metric.endswith("_ratio"):
        raise ValueError(
            f"A density needs the difference of one rate between two groups; received {interval.metric!r}, which "
            f"compares {pairs} pair(s) of groups and rates. Choose a metric of one rate that is not a ratio (such as "
            "false_positive_rate instead of equalized_odds) and two groups of one column."
        )
    if interval.reason:
        raise ValueError(f"There is no density to draw because the gap is undefined: {interval.reason}.")


def _checked(samples: Mapping[str, Any]) -> dict[str, FloatArray]:
    """Return the samples as arrays; refuse those without a density."""
    curves = {name: np.asarray(values, dtype=np.float64) for name, values in samples.items()}
    if not curves:
        raise ValueError("There is nothing to draw: samples is empty. Pass at least one sample of gaps.")
    for name, values in curves.items():
        if values.ndim != 1 or len(values) < 2 or not np.isfinite(values).all():
            raise ValueError(
                f"The gaps of {name!r} must be two or more finite numbers in one dimension; received an array of "
                f"shape {values.shape} in which {np.count_nonzero(~np.isfinite(values))} values are not finite."
            )
    return curves


DISPLAY = DensityDisplay
