"""Intervals for the decisions of any model, from the evaluation rows alone."""

from __future__ import annotations

import warnings
from numbers import Real
from secrets import randbits
from typing import Any, NamedTuple

import numpy as np

from surefair.criteria import Criterion
from surefair.diagnostics import issue
from surefair.inference.counts import Counts, count_decisions
from surefair.inference.interval import Context, Interval, Question, make_interval
from surefair.inference.limits import METHODS, check_level
from surefair.inference.metric import Metric, get_metric
from surefair.inference.sources import reweigh
from surefair.names import one_of
from surefair.rows import (
    Column,
    Groups,
    IntArray,
    Levels,
    as_column,
    as_columns,
    as_weight,
    check_some_weight,
    library_of,
    same_length,
    together,
)


def fairness_interval(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    metric: str | Criterion = "demographic_parity",
    pos_label: Any = None,
    threshold: float | None = None,
    sample_weight: Any = None,
    intersections: bool = False,
    confidence_level: float = 0.95,
    method: str = "percentile",
    n_replicates: int = 2000,
    random_state: int | None = 0,
) -> Interval:
    """Interval for the unfairness of any model's predictions, from the evaluation rows alone.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,) or None
        Labels, two values of any type; None if the metric needs no labels, as demographic parity.
    y_pred : array-like of shape (n_rows,)
        Decisions, with the same two values; or scores, with a threshold.
    sensitive_features : array-like of shape (n_rows,), data frame or dict of columns
        Group of each row, values of any type, in one or several columns.
    metric : str or Criterion
        What is compared between the groups; "_ratio" after the name compares by ratios.
    pos_label : value, optional
        The positive label; by default the second in sorted order.
    threshold : float, optional
        ``y_pred`` holds scores, and a score of at least this much is a positive decision.
    sample_weight : array-like of shape (n_rows,), optional
        How much each row counts.
    intersections : bool
        Whether to also compare the groups that several sensitive columns form together.
    confidence_level : float
    method : {"percentile", "basic", "normal", "cheap", "paper"}
        How replicates become limits, for a gap between two groups and for every rate separately. With several gaps,
        the limits hold together, in the same way for all methods but "cheap", which is valid with 2 replicates or more,
        and wide with few. "paper" is the published version, for reproduction only.
    n_replicates : int
        2 or more; a warning says if there are too few for the method.
    random_state : int or None
        Seed. The same data and seed give the same interval; None draws a new seed each time.

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
    measured = get_metric(metric)
    one_of(method, METHODS, "method")
    check_level(confidence_level)
    _check_numbers(n_replicates, random_state)
    columns = as_columns(sensitive_features, intersections)
    decided = _decide(y_true, y_pred, measured, pos_label, threshold)
    first = next(iter(columns.values()))
    n = same_length(y_true=decided.truth, y_pred=decided.decision, sensitive_features=first.code)
    groups = Groups.of(columns).check_comparable()
    weight = as_weight(sample_weight, n)
    check_some_weight(weight, "to count")
    counts = count_decisions(decided.decision, decided.truth, groups.codes(columns), groups.sizes, weight)
    seed = randbits(63) if random_state is None else int(random_state)
    same = Counts(*(np.broadcast_to(table, (1 + n_replicates, *table.shape)) for table in counts))
    rates_b = reweigh(measured.rates, same, seed)
    like = next(iter(sensitive_features.values())) if isinstance(sensitive_features, dict) else sensitive_features
    context = Context(positive=decided.positive, library=library_of(like))
    question = Question(measured, "evaluation", method, confidence_level)
    interval = make_interval(question, counts, groups, rates_b, context=context)
    issue(interval.diagnostics)
    return interval


def _check_numbers(n_replicates: Any, random_state: Any) -> None:
    if not (isinstance(n_replicates, int | np.integer) and n_replicates >= 2):
        raise ValueError(f"n_replicates must be a whole number, 2 or larger; received {n_replicates!r}.")
    if random_state is not None and not (isinstance(random_state, int | np.integer) and 0 <= random_state < 2**64):
        raise ValueError(f"random_state must be None or a whole number, 0 or larger; received {random_state!r}.")


class _Decided(NamedTuple):
    """Labels and decisions as 0 and 1, and the label that is 1."""

    truth: IntArray
    decision: IntArray
    positive: Any


def _decide(y_true: Any, y_pred: Any, metric: Metric, pos_label: Any, threshold: Any) -> _Decided:
    """Turn labels and predictions into 0 and 1."""
    predicted = as_column(y_pred, "decision" if threshold is None else "score")
    _check_threshold(threshold, predicted)
    if y_true is None and metric.needs_labels:
        raise ValueError(
            f"y_true is None, and the metric {metric.name!r} needs labels. Pass the labels, or use "
            "metric='demographic_parity', which needs none."
        )
    true = predicted if y_true is None else as_column(y_true, "label")  # without labels, any serve: none is looked at
    if len(true) == len(predicted) == 0:
        raise ValueError("There are no evaluation rows. Pass at least one row of each group.")
    if y_true is None and threshold is not None:
        return _Decided(np.zeros(len(predicted), dtype=np.int64), (predicted >= threshold).astype(np.int64), None)
    both = true if threshold is not None else together([true, predicted], "y_true and y_pred")
    labels = Levels.of(both, "label")
    values = labels.values.tolist()
    if pos_label is not None and pos_label not in values and len(values) > 1:
        raise ValueError(f"pos_label={pos_label!r} is not one of the labels {values}. Pass one of them.")
    if pos_label is not None and pos_label not in values and pos_label != 1:  # 1 is positive wherever there are only 0s
        warnings.warn(
            f"No row has the label pos_label={pos_label!r}: all have {values[0]!r}. If that is a mistake, pass another "
            "pos_label.",
            stacklevel=3,
        )
    if threshold is None and len(values) > 2 and predicted.dtype.kind == "f":
        raise ValueError(
            f"y_pred and y_true together have {len(values)} values. If y_pred holds scores or probabilities, pass a "
            "threshold, for example threshold=0.5, to turn them into decisions."
        )
    if len(values) > 2 or pos_label is None:
        labels.check_two()
    positive = values[-1] if pos_label is None else pos_label
    decision = predicted == positive if threshold is None else predicted >= threshold
    return _Decided((true == positive).astype(np.int64), decision.astype(np.int64), positive)


def _check_threshold(threshold: Any, predicted: Column) -> None:
    if threshold is None:
        return
    if not (isinstance(threshold, Real) and np.isfinite(float(threshold))):
        raise ValueError(f"threshold must be a finite number, for example 0.5; received {threshold!r}.")
    if predicted.dtype.kind not in "biuf":
        raise ValueError(
            f"With a threshold, y_pred must hold numbers; received {predicted[:3].tolist()}, for example. "
            "Leave the threshold out if y_pred holds decisions."
        )
