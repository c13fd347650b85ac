"""JointIntervals: several metrics of the same decisions, judged together.

Whoever looks at eight metrics at level 95 % finds one that seems to violate its margin far more often than in 5 % of
the cases. So "violates" needs limits that hold for all metrics together: every gap of every metric has limits at the
same multiple of its own spread, and that multiple is large enough for all gaps to stay within their limits in 95 % of
the replicates (max-t). A replicate has one random weight per cell of group, truth and decision, so metrics that share
cells move together in it, and two metrics that say the same cost no more than one. Where groups are small, the multiple
is a little larger, because spreads are estimated.

"Within" needs no correction: all metrics must be within their margins, and if one is not, then the interval of this one
alone is wrong at most 5 % of the time (intersection-union).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm, t

from surefair.inference.interval import UNDECIDED, VIOLATES, WITHIN, Interval, plain
from surefair.pages.summary import summary
from surefair.rows import FloatArray, make_frame

Margins = float | Mapping[str, float]
LEAST_FREEDOM = 30.0  # degrees of freedom of the smallest groups, whose limits are exact


@dataclass(frozen=True, eq=False, repr=False)
class JointIntervals:
    """Intervals for several metrics of the same decisions, and a verdict on all of them.

    Attributes
    ----------
    intervals : tuple of Interval
        One for each metric, each at the confidence level by itself.
    joint : tuple of Interval
        The same metrics with wider limits, which hold together at the confidence level; ``confidence_level`` of each
        is its own, higher level.
    confidence_level : float
    sentence : str

    Examples
    --------
    >>> import surefair as sf
    >>> group, decision = ["a", "b"] * 500, [0, 0, 0, 1, 1, 1, 0, 1] * 125
    >>> found = sf.joint_intervals(
    ...     [0, 1] * 500, decision, sensitive_features=group, metric=["demographic_parity", "accuracy"])
    >>> found["accuracy"].metric, len(found)
    ('accuracy', 2)
    >>> found.verdict(0.4), found.verdicts({"demographic_parity": 0.4, "accuracy": 0.1})
    ('violates margin', {'demographic_parity': 'violates margin', 'accuracy': 'within margin'})
    """

    intervals: tuple[Interval, ...]
    joint: tuple[Interval, ...]
    confidence_level: float
    sentence: str
    _library: str

    def __iter__(self) -> Iterator[Interval]:
        return iter(self.intervals)

    def __len__(self) -> int:
        return len(self.intervals)

    def __getitem__(self, metric: str) -> Interval:
        found = {one.metric: one for one in self.intervals}
        if metric not in found:
            raise KeyError(f"There is no interval for the metric {metric!r}, only for {', '.join(found)}.")
        return found[metric]

    def __repr__(self) -> str:
        return "\n".join(repr(one) for one in self.intervals)

    def __str__(self) -> str:
        return self.sentence

    def verdicts(self, margin: Margins) -> dict[str, str]:
        """Verdict on each metric.

        Parameters
        ----------
        margin : float or dict of str to float
            As in ``Interval.verdict``; one for all metrics, or one for each.

        Returns
        -------
        dict
            "within margin" if the metric's interval is, "violates margin" if its joint limits are beyond the margin,
            and "not enough evidence" otherwise.
        """
        margins = self._margins(margin)
        found = {}
        for one, wide in zip(self.intervals, self.joint, strict=True):
            alone, together = one.verdict(margins[one.metric]), wide.verdict(margins[one.metric])
            found[one.metric] = alone if alone != VIOLATES else together
        return found

    def verdict(self, margin: Margins) -> str:
        """Say whether all metrics are within their margins, as far as these intervals show.

        Each definite verdict is wrong with a probability of at most one minus the confidence level, however many
        metrics there are.

        Parameters
        ----------
        margin : float or dict of str to float
            As in ``verdicts``.

        Returns
        -------
        {"within margin", "violates margin", "not enough evidence"}
        """
        found = {*self.verdicts(margin).values()}
        return VIOLATES if VIOLATES in found else WITHIN if found == {WITHIN} else UNDECIDED

    def _margins(self, margin: Margins) -> dict[str, float]:
        names = [one.metric for one in self.intervals]
        if isinstance(margin, Mapping):
            if {*margin} != {*names}:
                raise ValueError(
                    f"margin must have one entry for each metric: {', '.join(names)}; received "
                    f"{', '.join(map(str, margin)) or 'none'}."
                )
            return dict(margin)
        if len({name.endswith("_ratio") for name in names}) > 1:
            raise ValueError(
                "One margin cannot apply to differences and ratios. Pass a dict with one margin for each metric: "
                f"{', '.join(names)}."
            )
        return dict.fromkeys(names, margin)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; an undefined or infinite number becomes None."""
        return {
            "confidence_level": plain(self.confidence_level),
            "sentence": self.sentence,
            "intervals": [one.to_dict() for one in self.intervals],
            "joint": [one.to_dict() for one in self.joint],
        }

    def to_frame(self) -> Any:
        """Return one row per metric: metric, estimate, low and high alone, and joint_low and joint_high."""
        table: dict[str, list[Any]] = {"metric": [one.metric for one in self.intervals]}
        for name in ("estimate", "low", "high"):
            table[name] = [getattr(one, name) for one in self.intervals]
        for name in ("low", "high"):
            table[f"joint_{name}"] = [getattr(one, name) for one in self.joint]
        return make_frame(table, like=self._library)

    def _repr_html_(self) -> str:
        rows = {
            one.metric: f"{one.estimate:.4f} [{one.low:.4f}, {one.high:.4f}], jointly [{wide.low:.4f}, {wide.high:.4f}]"
            for one, wide in zip(self.intervals, self.joint, strict=True)
        }
        notes = dict.fromkeys(str(found) for one in self.intervals for found in one.diagnostics)
        return summary(self.sentence, rows, list(notes))


def joint_levels(
    farthest: FloatArray, single: list[bool], rows: list[float], confidence_level: float
) -> list[float]:  # fmt: skip
    """Level of each metric at which the limits of all metrics hold together.

    Limits that hold together are far out, where it shows that spreads are estimated. So the common multiple of the
    spreads is raised, for each metric, as Student's t law with the rows of its smallest group asks for.

    Parameters
    ----------
    farthest : ndarray of shape (metrics, B)
        Largest movement of a gap of each metric in each replicate, in multiples of its spread.
    single : list of bool
        Whether a metric has a single gap.
    rows : list of float
        Rows that enter a rate of each metric in the smallest group.
    confidence_level : float

    Examples
    --------
    >>> Z = np.abs(np.random.default_rng(0).standard_normal((2, 20_000)))
    >>> both = [True, True]
    >>> [round(level, 3) for level in joint_levels(Z, both, [1e6, 1e6], 0.95)]  # independent: the root of 0.95
    [0.976, 0.976]
    >>> [round(level, 3) for level in joint_levels(Z, both, [1e6, 100.0], 0.95)]
    [0.976, 0.978]
    """
    c = float(np.quantile(farthest.max(axis=0), confidence_level, method="weibull"))
    found = []
    for moved, one, n in zip(farthest, single, rows, strict=True):
        own = float(t.isf(norm.sf(c), max(n - 1.0, LEAST_FREEDOM)))
        common, raised = (
            1.0 - 2.0 * float(norm.sf(at)) if one else np.count_nonzero(moved <= at) / (len(moved) + 1.0)
            for at in (c, own)
        )
        most = 1.0 - (2.0 if one else 1.0) / (len(moved) + 1.0)  # for which there are enough replicates
        found.append(max(confidence_level, common, min(raised, most)))
    return found


def joint_sentence(intervals: tuple[Interval, ...], confidence_level: float) -> str:
    """Name the metric with the largest unfairness of each kind, in words."""
    level = f"{100.0 * confidence_level:.6g} %"
    found = []
    for ratio in (False, True):
        some = [one for one in intervals if one.metric.endswith("_ratio") == ratio and not np.isnan(one.estimate)]
        if some:
            worst = min(some, key=lambda one: one.estimate) if ratio else max(some, key=lambda one: one.estimate)
            what = "smallest ratio" if ratio else "largest unfairness"
            words = f"the {what} is {worst.estimate:.3f}, in {worst.metric} ({worst.low:.3f} to {worst.high:.3f})"
            found.append(words)
    largest = " and ".join(found) or "none of them is defined"
    return (
        f"Among {len(intervals)} metrics, {largest}. Each interval has a confidence level of {level} by itself; a "
        "violation of a margin is judged by joint limits, which allow for the number of metrics."
    )
