"""Confidence sequences for a model in training: they hold at all times, approximately, once there are many rows.

The error of a gap is close to an average of independent influences, one of each training row, plus an average over the
evaluation rows. The boundary of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (2024) for such averages replaces the
normal quantile of a fixed interval. Several gaps divide the error probability among them.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import lambertw

from surefair.inference.counts import Counts, effective_sides
from surefair.inference.interval import Context, Interval, Question, interval_of, replicate_estimates
from surefair.inference.limits import Pairs, is_far
from surefair.inference.sources import SOURCES
from surefair.rows import FloatArray, Groups

TUNED = 2000
"""Rows for which sequences are narrowest."""

ASYMPTOTIC = "anytime_asymptotic"
"""Method of intervals that hold at all times, approximately."""

NOTE = (
    "The interval holds at all times together, so you may look as often as you like; this is an approximation for many "
    "rows"
)


def half_width(spreads: FloatArray, rows: FloatArray, alpha: float) -> FloatArray:
    """Half widths of asymptotic confidence sequences.

    An error that is a sum of averages of independent influences, one average for each kind of rows, stays within these
    half widths at all times with a probability of about 1 - alpha if there are many rows. With one kind, it is the
    boundary of the paper; with two, the product of both mixtures bounds an ellipse, and this is its width.

    Parameters
    ----------
    spreads : ndarray of shape (kinds, ...)
        Standard error that each kind of rows contributes.
    rows : ndarray of shape (kinds,)
        Numbers of rows.
    alpha : float

    Examples
    --------
    In multiples of the standard error, where a fixed interval has 1.96:

    >>> [round(float(half_width(np.ones(1), np.array([n]), 0.05)), 2) for n in (200.0, 2000.0, 2e6)]
    [3.82, 3.04, 3.87]
    """
    tuned = float(np.real(lambertw(-(alpha**2) / math.e, -1) + 1.0))
    information = rows * -tuned / TUNED
    information = information.reshape(-1, *(1 for _ in spreads.shape[1:]))
    room = np.sum(np.log1p(information), axis=0) - 2.0 * np.log(alpha)
    return np.asarray(np.sqrt(room * np.sum(spreads**2 * (1.0 + 1.0 / information), axis=0)))


def asymptotic_interval(
    question: Question,
    counts: Counts,
    groups: Groups,
    rates_b: FloatArray,
    trained: FloatArray | None,
    context: Context,
) -> Interval:
    """Make the interval for the largest gap between groups; parameters are those of ``make_interval``.

    The source is "training" or "total", and the context says how many rows the model was trained on.
    """
    pairs = Pairs.of(groups, question.metric.ratio)
    alpha = 1.0 - question.confidence_level
    estimates = replicate_estimates(question, counts, groups, rates_b, trained)
    evaluated = SOURCES[question.source].evaluation
    n = int(counts.rows[: groups.sizes[0]].sum())
    rows = np.array([context.n_training, n] if evaluated else [context.n_training], dtype=np.float64)

    gaps = estimates.gaps
    spreads = np.stack([estimates.spread_training, estimates.spread_evaluation][: len(rows)])
    half = half_width(spreads, rows, alpha / max(1, int(np.count_nonzero(gaps.sure))))
    low = np.where(is_far(gaps.gap), -np.inf, gaps.gap - half)
    high = np.where(is_far(gaps.gap), np.inf, gaps.gap + half)
    gaps = gaps._replace(low=pairs.finish(low), high=pairs.finish(high))

    moved = rates_b if trained is None else trained
    rate = estimates.rate
    rate_spreads = [np.sqrt(np.mean((moved - rate) ** 2, axis=0))]
    if evaluated:
        counted, others = effective_sides(question.metric.rates, counts) + 0.5
        rate_spreads.append(np.sqrt(counted * others / (counted + others) ** 2 / (counted + others + 1.0)))
    reach = half_width(np.stack(rate_spreads), rows, alpha)
    ends = ((rate - reach).clip(0.0, 1.0), (rate + reach).clip(0.0, 1.0))
    low, high = (np.where(np.isnan(end), whole, end) for end, whole in zip(ends, (0.0, 1.0), strict=True))

    context = context._replace(notes=". ".join(part for part in (context.notes, NOTE) if part))
    found = estimates._replace(low=low, high=high, gaps=gaps)
    return interval_of(question._replace(method=ASYMPTOTIC), found, groups, n, context)
