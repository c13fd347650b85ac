"""A scorer by which scikit-learn's searches choose between models: the less unfair, the higher the score."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics._scorer import _Scorer

from surefair.criteria import Criterion
from surefair.inference.counts import rates_of
from surefair.inference.limits import Pairs
from surefair.inference.metric import get_metric
from surefair.inference.sample import Input, Sample


def fairness_scorer(
    metric: str | Criterion = "demographic_parity", *, pos_label: Any = None, intersections: bool = False
) -> Any:
    """Make a scorer from a fairness metric, for ``GridSearchCV`` and the like.

    The score is minus the unfairness; for a ratio, it is the ratio. So higher is better. scikit-learn passes the groups
    of each fold to the scorer by metadata routing, which you have to enable and request as in the example. A search by
    this score alone prefers models that decide the same for everyone: use it beside accuracy, with ``refit`` set to a
    function or to the name of one of several scores.

    Parameters
    ----------
    metric : str or Criterion
        What is compared between the groups; "_ratio" after the name compares by ratios.
    pos_label : value, optional
        The positive label; by default the second of the estimator's ``classes_``.
    intersections : bool
        Whether to also compare the groups that several sensitive columns form together.

    Returns
    -------
    scorer
        Called with an estimator, X, y, and ``sensitive_features``; ``sample_weight`` is optional. NaN where the rate of
        a group is undefined.

    Examples
    --------
    >>> import sklearn
    >>> import surefair as sf
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import GridSearchCV
    >>> data = sf.datasets.SyntheticDM(seed=0).sample(500)
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     scoring = {
    ...         "fairness": sf.fairness_scorer("false_positive_rate").set_score_request(sensitive_features=True),
    ...         "accuracy": "accuracy",
    ...     }
    ...     search = GridSearchCV(LogisticRegression(), {"C": [0.001, 1.0]}, scoring=scoring, refit="accuracy")
    ...     search = search.fit(data.X, data.y, sensitive_features=data.sensitive)
    >>> bool((search.cv_results_["mean_test_fairness"] < 0.0).all())
    True
    """
    get_metric(metric)  # which says so now if there is none of this name
    given = {"metric": metric, "intersections": intersections}
    return _FairnessScorer(_score, 1, given if pos_label is None else given | {"pos_label": pos_label}, "predict")


class _FairnessScorer(_Scorer):  # type: ignore[misc]
    """A scorer that knows the positive label from the estimator, even if a fold has rows of one label only."""

    def _score(self, method_caller: Any, estimator: Any, X: Any, y_true: Any, **kwargs: Any) -> float:
        classes = np.asarray(getattr(estimator, "classes_", []))
        if "pos_label" not in self._kwargs and len(classes) == 2:
            kwargs |= {"pos_label": classes.tolist()[1]}
        return float(super()._score(method_caller, estimator, X, y_true, **kwargs))


def _score(
    y_true: Any,
    y_pred: Any,
    *,
    metric: str | Criterion,
    intersections: bool,
    pos_label: Any = None,
    sensitive_features: Any = None,
    sample_weight: Any = None,
) -> float:
    """Minus the unfairness of some predictions, or the ratio."""
    if sensitive_features is None:
        raise ValueError(
            "The fairness scorer received no sensitive_features. Enable metadata routing with "
            "sklearn.set_config(enable_metadata_routing=True), call set_score_request(sensitive_features=True) on the "
            "scorer, and pass sensitive_features to the fit method of the search."
        )
    measured = get_metric(metric)
    given = Input(sensitive_features, intersections, sample_weight, pos_label=pos_label)
    sample = Sample.of(y_true, [y_pred], given, measured.name if measured.needs_labels else "")
    pairs = Pairs.of(sample.about.groups, measured.ratio)
    gap = pairs.finish(pairs.gap(pairs.scale(rates_of(measured.rates, sample.counts.of(0)))))
    largest = float(np.max(np.abs(gap)))
    return float(np.exp(-largest)) if measured.ratio else -largest
