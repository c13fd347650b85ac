"""From replicates to an interval for the unfairness.

Everything is computed for the *signed* gap (rate of the first group minus rate of the second) and only then folded to
its absolute value: quantiles of |gap| would exclude 0 almost always, even for a model exactly at parity.

What moves from replicate to replicate says what the interval covers; the words are in ``SOURCES``. Evaluation rows are
reweighted as in the Bayesian bootstrap: every row gets an Exp(1) weight of its own in every replicate. The weights of
the n rows that count towards a group's rate add up to a Gamma(n) number, which is drawn directly, from the seekable
uniform number of (seed, group, replicate), and so do those of the rows that do not count towards it. Both get half a
row extra (Jeffreys' prior), without which a rate of 0 among three rows would claim to be 0 for certain.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from secrets import randbits
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv
from scipy.stats import norm

from surefair.counts import Counts, count_decisions
from surefair.criteria import Criterion, get_criterion
from surefair.encoding import Levels, together
from surefair.multipliers import EVALUATION, uniforms
from surefair.names import one_of
from surefair.streams import FloatArray, as_column, make_frame, same_length

SOURCES = {
    "training": "the gap, on these evaluation rows, of the optimum that training estimates",
    "retraining": "the gap, on these evaluation rows, of a model trained afresh on as many new rows",
    "evaluation": "the gap, in the population, of this very model",
    "total": "the gap, in the population, of the optimum that training estimates",
}
"""What an interval of each source estimates."""

METHODS = ("percentile", "basic", "normal", "paper")


@dataclass(frozen=True, eq=False, repr=False)
class Interval:
    """A confidence interval for the unfairness of a model.

    Attributes
    ----------
    estimate, low, high : float
        Unfairness: the absolute gap.
    gap, gap_low, gap_high : float
        Signed gap: rate of the first group minus rate of the second; 0 is parity.
    by_group : data frame
        One row per group: group, n (rows that enter its rate), rate, low, high.
    metric, source, method : str
    confidence_level : float
    n : int
        Evaluation rows.
    reason : str
        Why the interval is the whole range, where it is; otherwise empty.
    sentence : str
        What is estimated, in words.
    """

    estimate: float
    low: float
    high: float
    gap: float
    gap_low: float
    gap_high: float
    by_group: Any
    metric: str
    source: str
    method: str
    confidence_level: float
    n: int
    reason: str
    sentence: str

    def __repr__(self) -> str:
        gap = f"gap {self.gap:.4f} [{self.gap_low:.4f}, {self.gap_high:.4f}]"
        unfairness = f"unfairness {self.estimate:.4f} [{self.low:.4f}, {self.high:.4f}]"
        return f"<{self.metric}, {self.source}, {self.confidence_level:.6g}: {gap}, {unfairness}>"

    def __str__(self) -> str:
        gap = f"Gap {self.gap:.4f}, interval [{self.gap_low:.4f}, {self.gap_high:.4f}]"
        unfairness = f"unfairness {self.estimate:.4f}, interval [{self.low:.4f}, {self.high:.4f}]"
        return f"{self.sentence} {gap}; {unfairness}."

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Interval) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def to_dict(self) -> dict[str, Any]:
        """Plain values only, ready for JSON; an undefined number is None."""
        fields = {name: _plain(getattr(self, name)) for name in self.__dataclass_fields__}
        rows = nw.from_native(self.by_group, eager_only=True).rows(named=True)
        fields["by_group"] = [{name: _plain(value) for name, value in row.items()} for row in rows]
        return fields

    def to_frame(self) -> Any:
        """One row: metric, source, method, confidence_level, n, unfairness and gap with their limits."""
        names = ("metric", "source", "method", "confidence_level", "n", "estimate", "low", "high")
        signed = ("gap", "gap_low", "gap_high", "reason")
        return make_frame({name: [getattr(self, name)] for name in names + signed}, like=self.by_group)


def _plain(value: Any) -> Any:
    """Convert a NumPy scalar to Python's own type, and NaN to None."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and np.isnan(value) else value


def check_level(confidence_level: float) -> float:
    """Return the confidence level if it lies strictly between 0 and 1."""
    if not (isinstance(confidence_level, Real) and 0.0 < float(confidence_level) < 1.0):
        raise ValueError(
            f"confidence_level must lie strictly between 0 and 1, for example 0.95; received {confidence_level!r}."
        )
    return float(confidence_level)


def limits(
    estimate: FloatArray, replicates: FloatArray, confidence_level: float, method: str
) -> tuple[FloatArray, FloatArray]:
    """Interval limits from replicates along the first axis.

    ``percentile`` takes quantiles of the replicates, ``basic`` mirrors them at the estimate, ``normal`` uses their
    spread. Quantiles are at ranks p(B+1), so that B replicates and the truth, if exchangeable, give the exact level.

    Examples
    --------
    >>> low, high = limits(np.array(5.0), np.arange(1.0, 200.0), 0.95, "percentile")
    >>> float(low), float(high)
    (5.0, 195.0)
    """
    if method == "normal":
        half = norm.ppf((1.0 + confidence_level) / 2.0) * replicates.std(axis=0, ddof=1)
        return estimate - half, estimate + half
    tails = [(1.0 - confidence_level) / 2.0, (1.0 + confidence_level) / 2.0]
    low, high = np.quantile(replicates, tails, axis=0, method="weibull")
    return (2.0 * estimate - high, 2.0 * estimate - low) if method == "basic" else (low, high)


def reweigh(criterion: Criterion, counts: Counts, seed: int) -> FloatArray:
    """Rates of each replicate with its evaluation rows reweighted.

    Parameters
    ----------
    criterion : Criterion
    counts : ndarray of shape (1 + B, groups, 2, 2)
        Counts of the fit, then of its replicates.
    seed : int

    Returns
    -------
    ndarray of shape (B, groups)
    """
    B, n_groups = len(counts) - 1, counts.shape[1]
    above, below = criterion.tally(counts)
    u = uniforms(seed, 0, 2 * n_groups, B + 1, EVALUATION)[:, 1:].reshape(n_groups, 2, B)
    u = u[_places(counts[0])].transpose(1, 2, 0)  # (above or not, B, groups)
    counted, others = gammaincinv(above[1:] + 0.5, u[0]), gammaincinv((below - above)[1:] + 0.5, u[1])
    return np.asarray(counted / (counted + others))


def _places(fit: Counts) -> NDArray[np.intp]:
    """Place of each group when they are sorted by their counts: its random numbers then follow it under any name."""
    order = sorted(range(len(fit)), key=lambda group: fit[group].ravel().tolist())
    return np.argsort(order)


def gap_interval(
    criterion: Criterion,
    fit: Counts,
    rates_b: FloatArray,
    *,
    groups: list[Any],
    source: str,
    method: str,
    confidence_level: float,
    like: Any = None,
    trouble: str = "",
) -> Interval:
    """Interval for the gap between two groups.

    Parameters
    ----------
    criterion : Criterion
        What is measured.
    fit : ndarray of shape (2, 2, 2)
        Counts of the fit itself.
    rates_b : ndarray of shape (B, 2)
        Rates of the groups in the replicates.
    groups : list
        Names of the groups.
    like : data frame, optional
        Whose library the tables are given in.
    trouble : str
        Why the replicates say nothing, if they do not; the interval is then the whole range.
    """
    rates = criterion.rates(fit)
    gap, gap_b = rates[0] - rates[1], rates_b[:, 0] - rates_b[:, 1]
    below = criterion.tally(fit)[1].astype(int)
    empty = [name for name, rows in zip(groups, below, strict=True) if rows == 0]
    undefined = np.isnan(rates) | np.isnan(rates_b).any(axis=0) | bool(trouble)
    low, high = limits(rates, rates_b, confidence_level, "percentile" if method == "paper" else method)
    if source in ("evaluation", "total"):  # a rate of 0 or 1 is possible however few rows showed it
        low, high = np.fmin(low, rates), np.fmax(high, rates)
    low, high = np.where(undefined, 0.0, low.clip(0.0, 1.0)), np.where(undefined, 1.0, high.clip(0.0, 1.0))
    if undefined.any():
        gap_low, gap_high, unfair_low, unfair_high = -1.0, 1.0, 0.0, 1.0
        no_rows = f"group {empty[0]!r} has no evaluation row that enters the {criterion.rate}" if empty else ""
        reason = trouble or no_rows or f"the {criterion.rate} is undefined in some replicates"
    else:
        reason = ""
        signed_method = "percentile" if method == "paper" else method
        g_low, g_high = limits(np.asarray(gap), gap_b, confidence_level, signed_method)
        if source in ("evaluation", "total"):
            g_low, g_high = np.fmin(g_low, gap), np.fmax(g_high, gap)
        gap_low, gap_high = float(np.clip(g_low, -1.0, 1.0)), float(np.clip(g_high, -1.0, 1.0))
        unfair_low, unfair_high = fold(gap_low, gap_high)
        if method == "paper":
            p_low, p_high = limits(np.asarray(abs(gap)), np.abs(gap_b), confidence_level, "percentile")
            unfair_low, unfair_high = float(p_low), float(p_high)
    table = make_frame(
        {"group": groups, "n": below.tolist(), "rate": rates.tolist(), "low": low.tolist(), "high": high.tolist()},
        like=like,
    )
    sentence = (
        f"{confidence_level:.6g} interval for {SOURCES[source]}; the gap is the {criterion.rate} of group "
        f"{groups[0]!r} minus that of group {groups[1]!r}, the unfairness its absolute value."
    )
    return Interval(
        estimate=float(abs(gap)), low=unfair_low, high=unfair_high, gap=float(gap), gap_low=gap_low, gap_high=gap_high,
        by_group=table, metric=criterion.name, source=source, method=method, confidence_level=confidence_level,
        n=int(fit.sum()), reason=reason, sentence=sentence,
    )  # fmt: skip


def fold(low: float, high: float) -> tuple[float, float]:
    """Interval for |gap| from an interval for the signed gap.

    Examples
    --------
    >>> fold(-0.03, 0.01), fold(-0.3, -0.1)
    ((0.0, 0.03), (0.1, 0.3))
    """
    return (0.0 if low <= 0.0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))


def fairness_interval(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    metric: str | Criterion = "demographic_parity",
    pos_label: Any = None,
    confidence_level: float = 0.95,
    method: str = "percentile",
    n_replicates: int = 2000,
    random_state: int | None = 0,
) -> Interval:
    """Interval for the unfairness of any model's predictions, over the evaluation rows alone.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_rows,)
        Labels and decisions, two values of any type.
    sensitive_features : array-like of shape (n_rows,)
        Group of each row, two values of any type.
    metric : str or Criterion
        What is compared between the groups.
    pos_label : value, optional
        The positive label; by default the second in sorted order.
    confidence_level : float
    method : {"percentile", "basic", "normal", "paper"}
        How replicates become limits. "paper" is the published version, for reproduction only.
    n_replicates : int
    random_state : int or None
        Seed: same data, same seed, same interval. None takes a new one each time.

    Returns
    -------
    Interval

    Examples
    --------
    >>> interval = fairness_interval(
    ...     y_true=[1, 0, 1, 0, 1, 0, 1, 0] * 20, y_pred=[1, 0, 1, 1, 0, 0, 1, 0] * 20,
    ...     sensitive_features=["a", "a", "a", "a", "b", "b", "b", "b"] * 20,
    ... )
    >>> round(interval.estimate, 2), round(interval.low, 2), round(interval.high, 2)
    (0.5, 0.36, 0.62)
    """
    criterion = get_criterion(metric, "metric")
    one_of(method, METHODS, "method")
    check_level(confidence_level)
    if not (isinstance(n_replicates, int | np.integer) and n_replicates >= 2):
        raise ValueError(f"n_replicates must be a whole number, 2 or larger; received {n_replicates!r}.")
    true, predicted = as_column(y_true, "label"), as_column(y_pred, "decision")
    group = as_column(sensitive_features, "group")
    if same_length(y_true=true, y_pred=predicted, sensitive_features=group) == 0:
        raise ValueError("There are no evaluation rows. Pass at least one row of each group.")
    labels = Levels.of(together([true, predicted], "label"), "label")
    if pos_label is not None and pos_label not in labels.values.tolist() and len(labels.values) > 1:
        raise ValueError(f"pos_label={pos_label!r} is not among the labels {labels.values.tolist()}.")
    if len(labels.values) > 2 and predicted.dtype.kind == "f":
        raise ValueError(
            f"y_pred and y_true together hold {len(labels.values)} values; if y_pred are scores or probabilities, pass "
            "the decisions made from them."
        )
    if len(labels.values) > 2 or pos_label is None:
        labels.two()
    positive = labels.values[-1] if pos_label is None else pos_label
    groups = Levels.of(group, "group").two()
    truth, decision = (true == positive).astype(np.int64), (predicted == positive).astype(np.int64)
    fit = count_decisions(decision, truth, groups.codes(group), 2)
    if random_state is not None and not (isinstance(random_state, int | np.integer) and 0 <= random_state < 2**64):
        raise ValueError(f"random_state must be None or a whole number from 0 up; received {random_state!r}.")
    seed = randbits(63) if random_state is None else int(random_state)
    rates_b = reweigh(criterion, np.broadcast_to(fit, (1 + n_replicates, *fit.shape)), seed)
    return gap_interval(
        criterion, fit, rates_b, groups=groups.values.tolist(), source="evaluation", method=method,
        confidence_level=confidence_level, like=sensitive_features,
    )  # fmt: skip
