"""Mean score: all groups get the same scores on average."""

from surefair.score_metrics._histogram import Histogram
from surefair.score_metrics._score_metric import Measured, ScoreMetric, mean_of


def measure(histogram: Histogram) -> Measured:
    """Mean of the scores; the sums of the bins make it exact."""
    return mean_of(histogram.mean, histogram)


METRIC = ScoreMetric("mean_score", "mean score", measure, needs_probabilities=True)
