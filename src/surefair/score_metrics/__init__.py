"""Score metrics: what is compared between groups if a model gives scores and nothing has been decided yet.

Each file without a leading underscore defines one metric, called ``METRIC``, and has its name. To add a metric, add one
file: ``SCORE_METRICS`` finds it.

>>> SCORE_METRICS["auc"].needs_labels
True
"""

from __future__ import annotations

import importlib
import pkgutil

from surefair.score_metrics._histogram import Histogram
from surefair.score_metrics._score_metric import Measured, ScoreMetric

__all__ = ["SCORE_METRICS", "Histogram", "Measured", "ScoreMetric"]

SCORE_METRICS: dict[str, ScoreMetric] = {
    found.name: importlib.import_module(f"{__name__}.{found.name}").METRIC
    for found in pkgutil.iter_modules(__path__)
    if not found.name.startswith("_")
}
"""All score metrics by name."""
