"""River: a fairness metric in River's protocol, and a FairClassifier that learns one row at a time.

Needs River: ``pip install surefair[river]``.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from surefair.classifier import FairClassifier
from surefair.inference.interval import Interval
from surefair.monitor.monitor import FairnessMonitor

try:
    from river import base, metrics
except ImportError as error:
    raise ImportError("surefair.monitor.river needs River. Install it with: pip install surefair[river]") from error

HELD = 100
"""Rows that are held back before they are counted or learnt together."""

Row = Mapping[Hashable, Any]


class Unfairness(metrics.base.Metric):  # type: ignore[misc]
    """The largest gap between groups so far, as a River metric, with an interval that is valid at all times.

    Parameters
    ----------
    metric, margin, and further settings
        As in ``FairnessMonitor``; here the positive label is True, which equals 1.

    Examples
    --------
    >>> metric = Unfairness("demographic_parity", margin=0.1)
    >>> for i in range(200):
    ...     metric.update(y_true=True, y_pred=i % 4 < 3, group="ab"[i % 2])
    >>> metric
    Unfairness: 0.5
    >>> metric.verdict
    'violates margin'
    """

    _fmt = ".4f"  # by which River prints it

    def __init__(self, metric: str = "demographic_parity", *, margin: float, **settings: Any) -> None:
        self.monitor = FairnessMonitor(metric, margin=margin, **({"update_rows": HELD} | settings))
        self._held: list[tuple[Any, Any, Any]] = []

    def update(self, y_true: Any, y_pred: Any, group: Any) -> None:
        """Take the label, the prediction and the group of one row."""
        self._held.append((y_true, y_pred, group))
        if len(self._held) >= HELD:
            self._count()

    def revert(self, y_true: Any, y_pred: Any) -> None:
        """Refuse: a confidence sequence cannot take rows back."""
        raise NotImplementedError("A confidence sequence cannot take rows back. Start a new metric.")

    def _count(self) -> None:
        if self._held:
            truth, decision, group = zip(*self._held, strict=True)
            self.monitor.update(_numbers(decision), sensitive_features=[*group], y_true=_numbers(truth))
            self._held = []

    def get(self) -> float:
        """Return the unfairness; 0 before there are two groups."""
        self._count()
        return self.interval().estimate if self.monitor.is_comparable else 0.0

    def interval(self) -> Interval:
        """Return the interval, which is valid however often you ask for it."""
        self._count()
        return self.monitor.interval()

    @property
    def verdict(self) -> str:
        """Verdict about the margin, valid at all times."""
        self._count()
        return self.monitor.verdict

    @property
    def bigger_is_better(self) -> bool:
        """Whether larger is better: only for ratios."""
        return self.monitor.metric.endswith("_ratio")

    def works_with(self, model: Any) -> bool:
        """Whether the model is a classifier."""
        return isinstance(model, base.Classifier)


def _numbers(values: tuple[Any, ...]) -> list[Any]:
    """Write True and False as 1 and 0."""
    return [int(value) if isinstance(value, bool | np.bool_) else value for value in values]


class RiverFairClassifier(base.Classifier):  # type: ignore[misc]
    """A ``FairClassifier`` that learns and predicts one row at a time; the group is one of the features.

    Rows are held back until there are some, so that they are learnt together. Until the first rows are learnt,
    predictions are None, as River has it.

    Parameters
    ----------
    classifier : FairClassifier
        Not fitted.
    sensitive : str
        Key of the group in the rows; the model does not learn from it.
    classes : tuple
        The negative and the positive label.

    Examples
    --------
    >>> model = RiverFairClassifier(FairClassifier(n_replicates=20, n_warmup=100, random_state=0), sensitive="sex")
    >>> rng = np.random.default_rng(0)
    >>> for _ in range(400):
    ...     sex = rng.choice(["f", "m"])
    ...     income = rng.normal() + (sex == "m")
    ...     model.learn_one({"income": income, "sex": sex}, bool(income + rng.normal() > 0))
    >>> model.predict_one({"income": 2.0, "sex": "f"})
    True
    """

    def __init__(self, classifier: FairClassifier, sensitive: str, classes: tuple[Any, Any] = (False, True)) -> None:
        self.classifier = classifier
        self.sensitive = sensitive
        self.classes = classes
        self._names: list[Hashable] | None = None
        self._held: list[tuple[list[float], int, Any]] = []
        self._learnt = 0

    def learn_one(self, x: Row, y: Any) -> None:
        """Learn from one row."""
        if y not in self.classes:
            raise ValueError(f"The label {y!r} is not one of the classes {self.classes}. Pass classes.")
        if self.sensitive not in x:
            raise ValueError(f"The row has no group {self.sensitive!r}; it has {', '.join(map(repr, x))}.")
        self._held.append((self._features(x), int(y == self.classes[1]), x[self.sensitive]))
        if len(self._held) >= HELD:
            features, labels, groups = zip(*self._held, strict=True)
            self.classifier.partial_fit(
                np.array(features), np.array(labels), sensitive_features=[*groups], classes=[0, 1]
            )
            self._learnt += len(self._held)
            self._held = []

    def _features(self, x: Row) -> list[float]:
        """Features in the order of the first row."""
        if self._names is None:
            self._names = [name for name in x if name != self.sensitive]
        if missing := [name for name in self._names if name not in x]:
            raise ValueError(f"The row has no feature {missing[0]!r}, which the first row had. Fill it in.")
        return [float(x[name]) for name in self._names]

    def predict_proba_one(self, x: Row, **_more: Any) -> dict[Any, float]:
        """Probability of each label; empty before anything is learnt."""
        if not self._learnt:
            return {}
        negative, positive = self.classifier.predict_proba(np.array([self._features(x)]))[0].tolist()
        return dict(zip(self.classes, (negative, positive), strict=True))

    def interval(self, X: Any, y: Any, *, sensitive_features: Any, **settings: Any) -> Interval:
        """Return the anytime interval of the classifier in training, on evaluation rows with labels 0 and 1."""
        return self.classifier.fairness_interval(X, y, sensitive_features=sensitive_features, anytime=True, **settings)
