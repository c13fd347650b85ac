"""Scoring rate: scores above the median of all rows are equally frequent in all groups.

The median is estimated too. If chance puts too many rows above it, it rises, and the rate of each group falls in
proportion to the group's density of scores at the median, relative to that of all rows. The median may lie within a bin
whose scores differ; then the part of the bin above it is taken to be the same in all groups, which adds or takes away
at most the group's share of rows in that bin. ``TiedScores`` appears if many rows share the median.
"""

import numpy as np

from surefair.rows import FloatArray
from surefair.score_metrics._histogram import Histogram
from surefair.score_metrics._score_metric import Measured, ScoreMetric, divide, is_few

TIED = 2.0  # share of rows at the median, times the root of their number, from which on the median stays where it is


def measure(histogram: Histogram) -> Measured:
    """Share of the scores of each group above the median of all."""
    weight = histogram.weight.sum(axis=1)  # (groups, bins)
    total = weight.sum(axis=1)
    every = weight[: histogram.sizes[0]].sum(axis=0)
    share = every / every.sum()
    at = int(np.searchsorted(np.cumsum(share), 0.5 - 1e-12))
    above = float(share[at + 1 :].sum())
    part = float(histogram.blurred[at]) * (0.5 - above) / share[at] if share[at] > 0.0 else 0.0
    value = divide(weight[:, at + 1 :].sum(axis=1) + part * weight[:, at], total)
    worth = np.nan_to_num(divide(total**2, histogram.square.sum(axis=(1, 2))))
    variance = np.divide(value * (1.0 - value), worth, out=np.full_like(value, np.nan), where=worth > 0.0)
    error = histogram.blurred[at] * max(part, 1.0 - part) * np.nan_to_num(divide(weight[:, at], total))
    n = histogram.n.sum(axis=1)
    moves = _pulls(weight, share, at, histogram, float(n[: histogram.sizes[0]].sum()))
    return Measured(value, np.sqrt(variance), n, worth, is_few(value, worth), error, moves, above=above)


def _pulls(weight: FloatArray, share: FloatArray, at: int, histogram: Histogram, n: float) -> FloatArray:
    """How chance in one group moves the rates of all groups of its column through the median, (groups, groups)."""
    mix = np.eye(len(weight))
    if not histogram.blurred[at] and share[at] > TIED / np.sqrt(n):
        return mix
    reach = 0.5 * n**-0.2
    middle = np.cumsum(share) - share / 2.0
    near = (np.abs(middle - 0.5) <= reach) | (np.arange(len(share)) == at)
    total = weight.sum(axis=1)
    density = np.nan_to_num(divide(weight[:, near].sum(axis=1), total)) / share[near].sum()
    first = 0
    for size in histogram.sizes:
        column = slice(first, first + size)
        mix[column, column] -= np.outer(density[column], total[column] / total[column].sum())
        first += size
    return mix


METRIC = ScoreMetric("scoring_rate", "share of scores above the median of all rows", measure)
