"""Area under the ROC curve: scores rank truly positive above truly negative rows equally well in all groups.

The area is the probability that a positive row of a group has a higher score than a negative row of it; equal scores
count half. Its variance is that of DeLong, DeLong and Clarke-Pearson (1988). Pairs of rows in one bin count half, so
bins add or take away at most half the share of pairs that are in one bin without being equal.
"""

import numpy as np

from surefair.score_metrics._histogram import Histogram
from surefair.score_metrics._score_metric import Measured, ScoreMetric, divide, is_few


def measure(histogram: Histogram) -> Measured:
    """Area under the curve of each group."""
    weight = histogram.weight
    total = weight.sum(axis=2)
    n = histogram.n
    below = np.cumsum(weight, axis=2) - weight / 2.0  # rows with lower scores, and half of those with equal ones
    share = np.nan_to_num(divide(below, np.broadcast_to(total[:, :, None], below.shape)))
    value = divide((weight[:, 1] * share[:, 0]).sum(axis=1), total[:, 1])
    value = np.where(total[:, 0] > 0.0, value, np.nan)
    variance = np.zeros(len(value))
    for truth, won in ((1, share[:, 0]), (0, 1.0 - share[:, 1])):
        off = np.nansum(histogram.square[:, truth] * (won - value[:, None]) ** 2, axis=1)
        variance += divide(off, total[:, truth] ** 2) * divide(n[:, truth], n[:, truth] - 1.0)
    together = (weight[:, 0] * weight[:, 1] * histogram.blurred).sum(axis=1)
    error = np.nan_to_num(divide(together / 2.0, total[:, 0] * total[:, 1]))
    worth = np.nan_to_num(divide(total**2, histogram.square.sum(axis=2))).min(axis=1)
    return Measured(value, np.sqrt(variance), n.sum(axis=1), worth, is_few(value, worth), error, np.eye(len(value)))


METRIC = ScoreMetric("auc", "area under the ROC curve", measure, needs_labels=True)
