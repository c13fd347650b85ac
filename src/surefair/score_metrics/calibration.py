"""Calibration in the large: scores exceed the share of truly positive rows by the same amount in all groups."""

import numpy as np

from surefair.score_metrics._histogram import Histogram
from surefair.score_metrics._score_metric import Measured, ScoreMetric, mean_of


def measure(histogram: Histogram) -> Measured:
    """Mean of score minus label; the sums of the bins make it exact."""
    label = np.array([0.0, 1.0])[:, None]
    found = mean_of(histogram.mean - label, histogram)
    positive = mean_of(np.broadcast_to(label, histogram.mean.shape), histogram)
    score = mean_of(histogram.mean, histogram)
    return found._replace(few=np.fmax(positive.few, score.few), parts=np.stack([score.value, positive.value]))


METRIC = ScoreMetric(
    "calibration", "mean score minus the share of truly positive rows", measure,
    needs_labels=True, needs_probabilities=True, signed=True,
)  # fmt: skip
