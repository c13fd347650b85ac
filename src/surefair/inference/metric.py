"""Metric: what is compared between groups, and whether by differences or by ratios.

>>> metric = get_metric("error_rate_ratio")
>>> metric.criterion.name, metric.ratio, metric.name
('error_rate', True, 'error_rate_ratio')
"""

from __future__ import annotations

from typing import NamedTuple

from surefair.criteria import CRITERIA, Criterion, Rate
from surefair.names import one_of
from surefair.score_metrics import SCORE_METRICS, ScoreMetric

RATIO = "_ratio"


class Metric(NamedTuple):
    """A criterion as a measure: the rates that are compared, by differences or by ratios."""

    criterion: Criterion
    ratio: bool = False

    @property
    def name(self) -> str:
        """Name of the criterion, with "_ratio" after it for ratios."""
        return self.criterion.name + RATIO * self.ratio

    @property
    def rates(self) -> tuple[Rate, ...]:
        """Rates that are compared."""
        return self.criterion.ratio_rates if self.ratio and self.criterion.ratio_rates else self.criterion.rates

    @property
    def rate_names(self) -> list[str]:
        """Names of the rates."""
        return [rate.name for rate in self.rates]

    @property
    def needs_labels(self) -> bool:
        """Whether some rate depends on the true labels."""
        return any(rate.depends_on_truth for rate in self.rates)


class ScoreMeasure(NamedTuple):
    """A metric of scores, compared by differences or by ratios."""

    score_metric: ScoreMetric
    ratio: bool = False

    @property
    def name(self) -> str:
        """Name of the metric, with "_ratio" after it for ratios."""
        return self.score_metric.name + RATIO * self.ratio

    @property
    def rates(self) -> tuple[ScoreMetric, ...]:
        """What is compared: the metric itself."""
        return (self.score_metric,)

    @property
    def needs_labels(self) -> bool:
        """Whether the true labels matter."""
        return self.score_metric.needs_labels


def score_metric_names() -> list[str]:
    """Names of all metrics of scores, and of their ratios."""
    return [*SCORE_METRICS, *(f"{name}{RATIO}" for name, metric in SCORE_METRICS.items() if not metric.signed)]


def any_metric(metric: str | Criterion) -> Metric | ScoreMeasure:
    """Look up a metric of decisions or of scores by its name.

    Examples
    --------
    >>> any_metric("auc_ratio").name, any_metric("accuracy").name
    ('auc_ratio', 'accuracy')
    """
    if isinstance(metric, Criterion | Metric):
        return get_metric(metric)
    name = one_of(metric, [*metric_names(), *score_metric_names()], "metric")
    if name not in score_metric_names():
        return get_metric(name)
    return ScoreMeasure(SCORE_METRICS[name.removesuffix(RATIO)], name.endswith(RATIO))


def get_metric(metric: str | Criterion | Metric) -> Metric:
    """Look up a metric by its name; a criterion is measured by differences."""
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, Criterion):
        return Metric(metric)
    name = one_of(metric, metric_names(), "metric")
    return Metric(CRITERIA[name.removesuffix(RATIO)], name.endswith(RATIO) and name not in CRITERIA)


def metric_names() -> list[str]:
    """Names of all metrics: every criterion, and every criterion with "_ratio" after its name."""
    return [*CRITERIA, *(f"{name}{RATIO}" for name in CRITERIA)]
