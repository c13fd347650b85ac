"""Intervals for metrics of scores, such as the area under the ROC curve of each group, from a histogram of scores."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t

from surefair.diagnostics import one_decision, small_evaluation_set, tied_scores
from surefair.inference.clusters import degrees_of_freedom
from surefair.inference.interval import Context, Estimates, Interval, ScoreQuestion, interval_of
from surefair.inference.limits import Gaps, Pairs, mover, single_limits, vanishes
from surefair.inference.metric import ScoreMeasure
from surefair.inference.moves import GapMoves, between
from surefair.inference.sample import Input, decide, relative_weight, weight_notes
from surefair.rows import (
    FloatArray,
    Groups,
    as_column,
    as_columns,
    library_of,
    same_length,
)
from surefair.score_metrics import Histogram, Measured

SHOWN_ERROR = 5e-4
"""Resolution error of the bins from which on the sentence says how large it is."""


class Scored(NamedTuple):
    """A histogram of scores, with the names of what is in it."""

    histogram: Histogram
    groups: Groups
    positive: Any
    library: str
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, y_true: Any, score: Any, metric: ScoreMeasure, given: Input) -> Scored:
        """Check scores, labels and groups, and count them."""
        for name in ("clusters", "strata", "threshold"):
            if getattr(given, name) is not None:
                raise ValueError(
                    f"The metric {metric.name!r} looks at scores and takes no {name}. Leave {name} out, or use a "
                    "metric of decisions, such as 'demographic_parity'."
                )
        if y_true is None and metric.needs_labels:
            raise ValueError(
                f"y_true is None, and the metric {metric.name!r} needs labels. Pass the labels, or use "
                "metric='mean_score', which needs none."
            )
        scores = _numbers(score, metric)
        columns = as_columns(given.sensitive_features, given.intersections)
        truth, positive = np.zeros(len(scores), dtype=np.int64), None
        if y_true is not None:
            truth, _, positive = decide(y_true, [y_true], "", given.pos_label, None)
        first = next(iter(columns.values()))
        n = same_length(y_true=truth, y_pred=scores, sensitive_features=first.code)
        groups = Groups.of(columns).check_comparable()
        weight = relative_weight(given.sample_weight, n)
        some = weight > 0.0
        codes = groups.codes(columns)[some]
        histogram = Histogram.of(scores[some], truth[some], codes, groups.sizes, weight[some])
        like = given.sensitive_features
        like = next(iter(like.values())) if isinstance(like, dict) else like
        return cls(histogram, groups, positive, library_of(like), weight_notes(n - int(some.sum()), n))

    def interval(self, metric: ScoreMeasure, confidence_level: float, n_draws: int, seed: int) -> Interval:
        """Interval for the largest gap between groups."""
        measured = metric.score_metric.measure(self.histogram)
        pairs = Pairs.of(self.groups, metric.ratio)
        estimates = score_estimates(metric, measured, pairs, confidence_level, n_draws, seed)
        error = float(np.max(measured.error))
        notes = self.notes
        if error >= SHOWN_ERROR:
            moved = f"Scores are counted in bins, which moves the value of a group by at most {error:.2g}"
            notes = (*notes, f"{moved}; limits allow it")
        worth = measured.worth[self.groups.compared]
        found = tuple(small_evaluation_set.check_rows(worth, self.groups.compared_words, metric.score_metric.name))
        constant = tuple(one_decision.check_scores(self.histogram.least.min(), self.histogram.most.max()))
        tied = () if measured.above is None or constant else tuple(tied_scores.check(measured.above))
        found = (*found, *constant, *tied)
        context = Context(positive=self.positive, library=self.library, notes=". ".join(notes), diagnostics=found)
        question = ScoreQuestion(metric, "evaluation", "normal", confidence_level)
        n = int(self.histogram.rows[: self.groups.sizes[0]].sum())
        return interval_of(question, estimates, self.groups, n, context)


def score_estimates(
    metric: ScoreMeasure, measured: Measured, pairs: Pairs, confidence_level: float, n_draws: int, seed: int
) -> Estimates:
    """Values and gaps with limits; those of several gaps hold together.

    Limits use Student's t law with Welch's degrees of freedom. Where rows are few, they are at least as wide as those
    made of the exact limits of a share of as many rows, whose variance no mean of numbers between 0 and 1 exceeds; for
    the difference of two means, of the limits of both. They allow for the resolution of the bins, which
    ``by_group`` shows.
    """
    signed = metric.score_metric.signed
    value = measured.value[None]
    moved = _gap_moves(measured, pairs, n_draws, seed)
    half, level = moved.half_width(confidence_level)
    a, b = pairs.first, pairs.second
    error = measured.error[None]
    if pairs.ratio:
        error = np.divide(error, value, out=np.zeros_like(error), where=np.nan_to_num(value) > 0.0)
    half = half + error[:, a] + error[:, b]
    scaled = pairs.scale(value)
    gap = pairs.gap(scaled)
    least_low, least_high = mover(scaled, _exact(measured, signed, level), pairs)
    few = (measured.few > 0.0)[None] | vanishes(measured.spread)
    wider = few[:, a] | few[:, b]
    low = np.where(wider, np.fmin(gap - half, least_low), gap - half)
    high = np.where(wider, np.fmax(gap + half, least_high), gap + half)
    sure = ~np.isnan(gap) & ~np.isnan(half)
    gaps = Gaps(_clipped(gap, pairs, signed), _clipped(low, pairs, signed), _clipped(high, pairs, signed), sure)

    spread = np.sqrt(np.sum((measured.mix * measured.spread) ** 2, axis=1))[None]
    reach = t.isf((1.0 - confidence_level) / 2.0, _freedom(measured)) * spread + measured.error
    exact_low, exact_high = _exact(measured, signed, confidence_level)
    bottom = -1.0 if signed else 0.0
    rate_low = np.where(few, np.fmin(value - reach, exact_low), value - reach).clip(bottom, 1.0)
    rate_high = np.where(few, np.fmax(value + reach, exact_high), value + reach).clip(bottom, 1.0)
    unknown = np.isnan(reach) | np.isnan(value)
    rate_low, rate_high = np.where(unknown, bottom, rate_low), np.where(unknown, 1.0, rate_high)
    return Estimates(
        measured.n[None].astype(np.int64), value, rate_low, rate_high, gaps, np.zeros_like(gap), moved.spread,
        by_group={"resolution": measured.error[None]},
    )  # fmt: skip


def _clipped(gap: FloatArray, pairs: Pairs, signed: bool) -> FloatArray:
    """Clip gaps to their range."""
    return np.clip(gap, -2.0, 2.0) if signed else pairs.finish(gap)


def _gap_moves(measured: Measured, pairs: Pairs, n_draws: int, seed: int) -> GapMoves:
    """How gaps move by chance: normal draws for what they have in common, and their exact spreads."""
    spread = np.nan_to_num(measured.spread)
    mix = measured.mix
    if pairs.ratio:  # of the logarithm
        value = np.nan_to_num(measured.value)
        mix = np.divide(mix, value[:, None], out=np.zeros_like(mix), where=value[:, None] > 0.0)
    off = (spread * np.random.default_rng(seed).standard_normal((n_draws, len(spread)))) @ mix.T
    a, b = pairs.first, pairs.second
    exact = np.sqrt(np.sum(((mix[a] - mix[b]) * spread) ** 2, axis=1))
    unknown = np.isnan(measured.spread)[a] | np.isnan(measured.spread)[b]
    anywhere = np.full((1, len(a)), np.inf)
    moved = between(off[:, None], pairs, degrees_of_freedom(off[:, None], _freedom(measured), anywhere, pairs))
    return moved._replace(spread=np.where(unknown, np.nan, exact)[None])


def _freedom(measured: Measured) -> FloatArray:
    return np.asarray(np.maximum(measured.worth - 1.0, 1.0)[None])


def _exact(measured: Measured, signed: bool, level: float) -> tuple[FloatArray, FloatArray]:
    """Exact limits of a share of as many rows, or of the difference of two, shape (1, groups)."""
    if measured.parts is not None:
        parts = np.nan_to_num(measured.parts)
        (low_a, low_b), (high_a, high_b) = single_limits(measured.worth * np.stack([parts, 1.0 - parts]), level)
        a, b = parts
        low = measured.value - np.hypot(a - low_a, high_b - b)
        return low[None], (measured.value + np.hypot(high_a - a, b - low_b))[None]
    share = np.nan_to_num((measured.value + 1.0) / 2.0 if signed else measured.value)
    low, high = single_limits(measured.worth * np.stack([share, 1.0 - share])[:, None], level)
    return (2.0 * low - 1.0, 2.0 * high - 1.0) if signed else (low, high)


def as_scores(score: Any, needed: str) -> FloatArray:
    """Scores as finite numbers; ``needed`` begins the error for anything else."""
    column = as_column(score, "score")
    if column.dtype.kind not in "biuf":
        raise ValueError(f"{needed}; received {column[:3].tolist()}, for example.")
    found = column.astype(np.float64)
    if len(found) == 0:
        raise ValueError("There are no evaluation rows. Pass at least one row of each group.")
    if not np.isfinite(found).all():
        row = int(np.argmin(np.isfinite(found)))
        raise ValueError(f"The score in row {row} is {found[row]}. Scores must be finite; drop the row or correct it.")
    return found


def _numbers(score: Any, metric: ScoreMeasure) -> FloatArray:
    """Scores as numbers, between 0 and 1 where the metric needs it."""
    found = as_scores(score, f"The metric {metric.name!r} needs scores")
    if metric.score_metric.needs_probabilities and (found.min() < 0.0 or found.max() > 1.0):
        raise ValueError(
            f"The metric {metric.name!r} needs scores between 0 and 1; received scores from {found.min():g} to "
            f"{found.max():g}. Turn them into probabilities, or use 'auc' or 'scoring_rate', which take any numbers."
        )
    return found
