"""BootstrapClassifier: any scikit-learn classifier, refitted with random weights.

The class checks what comes in, fits the estimator and its refits, and issues what was found as warnings. What the
refits say about unfairness is computed in ``inference/refits.py``.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone, is_regressor
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, get_tags, indexable
from sklearn.utils._metadata_requests import _routing_enabled
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    get_routing_for_object,
    process_routing,
)
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import (
    _check_method_params,
    _num_samples,
    check_is_fitted,
    has_fit_parameter,
    validate_data,
)

from surefair.classifier import check_groups_given
from surefair.criteria import Criterion
from surefair.diagnostics import Diagnostic, failed_refits, issue, low_coverage, no_sample_weight
from surefair.engines.local import called
from surefair.inference.arbitrariness import Arbitrariness
from surefair.inference.interval import Interval, Question
from surefair.inference.limits import check_level
from surefair.inference.metric import Metric, get_metric
from surefair.inference.refits import METHODS, Refits, Trained
from surefair.inference.sample import Input, Sample, check_clusters
from surefair.inference.sources import SOURCES
from surefair.learners.multipliers import LAWS, SIGNED_LAWS, Multipliers
from surefair.names import one_of
from surefair.rows import (
    FloatArray,
    IntArray,
    as_keys,
    as_weight,
    check_some_weight,
    same_length,
)
from surefair.rows.labels import check_both_labels, check_labels, label_levels
from surefair.training.parameters import draw_seed

RESAMPLE = "resample"
MULTIPLIERS = (*(law for law in LAWS if law not in SIGNED_LAWS), RESAMPLE)
LOOKED_AT = 2000  # training rows on which two fits with different seeds are compared


def _has(method: str) -> Any:
    """Whether the fitted estimator, or else the one that was given, has a method."""
    return available_if(lambda self: hasattr(getattr(self, "estimator_", self.estimator), method))


class BootstrapClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Any scikit-learn classifier, with intervals for its unfairness that cover training.

    The estimator is fitted once, and then again with random weights of the rows, or on rows that are drawn again. The
    first fit makes the predictions; the spread of the refits shows how much the model would change if it were trained
    on other rows. Ten refits are enough for intervals.

    Parameters
    ----------
    estimator : classifier
        Classifier or Pipeline with two classes. If its ``fit`` takes no ``sample_weight``, refits draw rows with
        replacement, and a diagnostic says so. In a Pipeline, the weights go to the last step; with metadata routing,
        to the steps that request them.
    n_replicates : int, default=10
        Number of refits. Two are the least; with 100 or more, intervals are percentiles.
    multiplier : {"exponential", "two_point", "poisson", "resample"}, default="exponential"
        Law of the random weights, with mean 1 and variance 1. "resample" draws rows with replacement, which reaches
        every step of a Pipeline.
    random_state : int, RandomState or None, default=None
        Seed of the weights, and of the random numbers of the refits. The first fit keeps the estimator's own
        ``random_state``, if it has one that is not None.
    n_jobs : int or None, default=None
        Refits that run in parallel, by joblib. ``joblib.parallel_config`` sends them to another backend.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Labels; the second is the positive one.
    estimator_ : classifier
        The fit.
    estimators_ : list of classifier
        The refits that succeeded.
    failures_ : dict of int to str
        Why refits failed, by their number from 1 on.
    seed_noise_ : bool
        Whether two fits to the same rows differ, because the learner draws random numbers.
    n_rows_ : int
        Rows trained on.
    diagnostics_ : tuple of Diagnostic
        What was found in training.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where the features have names.

    Examples
    --------
    >>> import surefair as sf
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> train, test = sf.datasets.SyntheticDM(seed=0).sample(2_000), sf.datasets.SyntheticDM(seed=1).sample(2_000)
    >>> clf = sf.BootstrapClassifier(DecisionTreeClassifier(max_depth=3), random_state=0).fit(train.X, train.y)
    >>> interval = clf.fairness_interval(test.X, test.y, sensitive_features=test.sensitive)
    >>> interval.source, interval.low < interval.estimate < interval.high
    ('total', True)
    """

    classes_: NDArray[Any]
    estimator_: Any
    estimators_: list[Any]
    failures_: dict[int, str]
    diagnostics_: tuple[Diagnostic, ...]

    def __init__(
        self,
        estimator: Any,
        *,
        n_replicates: int = 10,
        multiplier: str = "exponential",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.n_replicates = n_replicates
        self.multiplier = multiplier
        self.random_state = random_state
        self.n_jobs = n_jobs

    # -- Training ---------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        clusters: Any = None,
        **fit_params: Any,
    ) -> Self:
        """Fit the estimator, and then its refits.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix, of n_rows rows
            Whatever the estimator takes.
        y : array-like of shape (n_rows,)
            Labels, two values of any type.
        sensitive_features : array-like of shape (n_rows,), data frame or dict of columns, optional
            Group of each row, for an estimator whose ``fit`` takes them, such as ``FairClassifier`` or those of
            fairlearn. Others learn without groups: leave it out.
        sample_weight : array-like of shape (n_rows,), optional
        clusters : array-like of shape (n_rows,), optional
            What each row belongs to, for example a person with several rows. Rows of one cluster get the same weight.
        **fit_params
            Further parameters of the estimator's ``fit``. Those with one entry per row are drawn again with the rows.

        Returns
        -------
        self
        """
        new = fit_copy(self, X, y, sensitive_features, sample_weight, clusters, fit_params)
        self.__dict__.update(new.__dict__)
        issue(self.diagnostics_)
        return self

    # -- Predictions ------------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> NDArray[Any]:
        """Label of each row, by the fit.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        return np.asarray(self._checked(X).predict(X))

    @_has("predict_proba")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> FloatArray:
        """Estimated probability of each class, by the fit.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix

        Returns
        -------
        ndarray of shape (n_rows, 2)
        """
        return np.asarray(self._checked(X).predict_proba(X))

    @_has("decision_function")  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> FloatArray:
        """Score of each row, by the fit.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        return np.asarray(self._checked(X).decision_function(X))

    def _checked(self, X: Any) -> Any:
        """Return the fit, if these rows have its features."""
        check_is_fitted(self)
        if len(getattr(X, "shape", (0, 0))) == 2:  # otherwise the estimator says what is wrong
            validate_data(self, X, reset=False, skip_check_array=True)
        return self.estimator_

    # -- Intervals --------------------------------------------------------------------------------------------------

    def fairness_interval(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any,
        metric: str | Criterion = "demographic_parity",
        confidence_level: float = 0.95,
        source: str = "total",
        method: str = "auto",
        sample_weight: Any = None,
        clusters: Any = None,
        intersections: bool = False,
    ) -> Interval:
        """Confidence interval for the unfairness, measured on held-out rows.

        Parameters
        ----------
        X, y, sensitive_features
            Evaluation rows, independent of the training rows. ``y`` may be None if the metric needs no labels.
        metric : str or Criterion
            What to measure; "_ratio" after the name compares by ratios.
        confidence_level : float
        source : {"total", "training", "retraining", "evaluation"}
            Which uncertainty the interval covers. "total" and "training" are for the mean gap of the models that this
            learner trains on so many rows, in the population or on these rows; "retraining" for the gap, on these rows,
            of a model trained again on as many new rows; "evaluation" for the gap of this very model.
        method : {"auto", "cheap", "percentile"}
            How refits become limits: by Student's t law, which is valid from two refits on, or by percentiles. "auto"
            is "cheap" with fewer than 100 refits.
        sample_weight, clusters : array-like of shape (n_rows,), optional
            Weight of each evaluation row, and what it belongs to.
        intersections : bool
            Whether to also compare the groups that several sensitive columns form together.

        Returns
        -------
        Interval
        """
        measured = get_metric(metric)
        one_of(source, SOURCES, "source")
        one_of(method, METHODS, "method")
        question = Question(measured, source, method, check_level(confidence_level))
        given = Input(sensitive_features, intersections, sample_weight, clusters)
        refits = self.refits(X, y, given, measured, only_fit=source == "evaluation")
        interval = refits.interval(question)
        issue(interval.diagnostics)
        return interval

    def arbitrariness(
        self, X: Any, *, sensitive_features: Any, confidence_level: float = 0.95, sample_weight: Any = None
    ) -> Arbitrariness:
        """Estimate how often two models that are trained on different rows disagree about a person, by group.

        Parameters
        ----------
        X, sensitive_features
            Evaluation rows, independent of the training rows.
        confidence_level : float
        sample_weight : array-like of shape (n_rows,), optional

        Returns
        -------
        Arbitrariness

        Examples
        --------
        >>> import surefair as sf
        >>> from sklearn.linear_model import LogisticRegression
        >>> train, test = sf.datasets.SyntheticDM(seed=0).sample(500), sf.datasets.SyntheticDM(seed=1).sample(2_000)
        >>> clf = sf.BootstrapClassifier(LogisticRegression(), random_state=0).fit(train.X, train.y)
        >>> found = clf.arbitrariness(test.X, sensitive_features=test.sensitive)
        >>> 0.0 < found.low < found.estimate < found.high < 0.1
        True
        """
        check_level(confidence_level)
        given = Input(sensitive_features, sample_weight=sample_weight)
        refits = self.refits(X, None, given, get_metric("demographic_parity"))
        if refits.n < 2:
            raise ValueError(f"Two refits are needed, and this classifier has {refits.n}. Fit with n_replicates=10.")
        return refits.arbitrariness(confidence_level)

    def refits(self, X: Any, y: Any, given: Input, metric: Metric, only_fit: bool = False) -> Refits:
        """Decide on evaluation rows with the fit and its refits; with the fit alone where that is enough.

        Parameters
        ----------
        X, y
            As in ``fairness_interval``.
        given : Input
        metric : Metric
        only_fit : bool

        Returns
        -------
        Refits
        """
        self._checked(X)
        check_groups_given(given.sensitive_features)
        if not only_fit and self.n_replicates < 2:
            raise ValueError(
                f"An interval needs refits, and this classifier has n_replicates={self.n_replicates}. Fit with "
                "n_replicates=10, for example."
            )
        truth = None
        if y is not None:
            labels = check_labels(y, "BootstrapClassifier")
            truth = self._levels.codes(labels.found)[labels.code]
        models = [self.estimator_, *([] if only_fit else self.estimators_)]
        positive = self.classes_.tolist()[1]
        decisions = [(np.asarray(model.predict(X)) == positive).astype(np.int64) for model in models]
        sample = Sample.of(truth, decisions, given._replace(pos_label=1), metric.name if metric.needs_labels else "")
        diagnostics = (*self.diagnostics_, *low_coverage.check(_names_in(self.estimator)))
        trained = Trained(self.n_rows_, self.n_units_, self.seed_noise_, self.seed_, diagnostics)
        return Refits(sample.called(positive), trained)

    # -- For scikit-learn -------------------------------------------------------------------------------------------

    def get_metadata_routing(self) -> MetadataRouter:
        """Say which metadata the estimator requests."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return MetadataRouter(owner=self).add(estimator=self.estimator, method_mapping=mapping)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator).input_tags
        tags.input_tags.sparse = inner.sparse
        tags.input_tags.allow_nan = inner.allow_nan
        tags.classifier_tags.multi_class = False
        return tags


# -- Training ---------------------------------------------------------------------------------------------------------


def fit_copy(
    clf: BootstrapClassifier, X: Any, y: Any, sensitive_features: Any = None, sample_weight: Any = None,
    clusters: Any = None, fit_params: dict[str, Any] | None = None,
) -> BootstrapClassifier:  # fmt: skip
    """Return a fitted copy of a classifier, without a word about what was found; parameters are those of ``fit``."""
    check_parameters(clf)
    new = copy(clf)
    validate_data(new, X, skip_check_array=True)
    labels = check_labels(y, "BootstrapClassifier")
    levels = label_levels(labels.found)
    n = same_length(X=range(_num_samples(X)), y=labels.code)
    check_both_labels(levels)
    weight = None if sample_weight is None else as_weight(sample_weight, n)
    units = _Units.of(clusters, n)
    keyword = keyword_of(clf.estimator, "sample_weight")
    name = type(clf.estimator).__name__
    if weight is not None:
        check_some_weight(weight, "to learn from")
        if keyword is None:
            raise ValueError(f"{name} takes no sample_weight. Leave it out, or use another estimator.")
    seed = draw_seed(clf.random_state)
    resample = clf.multiplier == RESAMPLE or keyword is None
    (X,) = indexable(X)
    rows = _Training(X, levels.values[levels.codes(labels.found)[labels.code]], weight, keyword)
    params = _params(clf, sensitive_features, fit_params or {})
    first = _seeded(clone(clf.estimator), seed, only_missing=True)
    new.estimator_ = first.fit(X, rows.y, **params, **rows.weighted(None))
    new.classes_ = levels.values
    new._levels = levels
    V = None if resample else units.weights(Multipliers(clf.multiplier, seed), 1 + clf.n_replicates)
    new.seed_noise_ = _differs_by_seed(clf, new.estimator_, rows, params, seed)
    tasks = (
        (clf.estimator, rows, params, b, seed,
         units.drawn(seed, b) if V is None else None, None if V is None else V[:, b])
        for b in range(1, 1 + clf.n_replicates)
    )  # fmt: skip
    found = list(called(_refit, tasks, clf.n_jobs))
    new.estimators_ = [one for one in found if not isinstance(one, _Failure)]
    new.failures_ = {b + 1: one.reason for b, one in enumerate(found) if isinstance(one, _Failure)}
    if clf.n_replicates and not new.estimators_:
        raise ValueError(f"All {clf.n_replicates} refits failed, the first with {new.failures_[1]}.")
    new.n_rows_ = n
    new.n_units_ = units.n
    new.seed_ = seed
    found_here = [*no_sample_weight.check(keyword is not None, clf.multiplier == RESAMPLE, name)]
    found_here += failed_refits.check(new.failures_, clf.n_replicates)
    new.diagnostics_ = tuple(found_here)
    return new


def check_parameters(clf: BootstrapClassifier) -> None:
    """Refuse parameters that make no sense."""
    one_of(clf.multiplier, MULTIPLIERS, "multiplier")
    if not (isinstance(clf.n_replicates, int | np.integer) and clf.n_replicates >= 0):
        raise ValueError(f"n_replicates must be a whole number, 0 or larger; received {clf.n_replicates!r}.")
    if isinstance(clf.estimator, type) or not (hasattr(clf.estimator, "fit") and hasattr(clf.estimator, "predict")):
        raise TypeError(
            "estimator must be a classifier with fit and predict, such as LogisticRegression(); received "
            f"{clf.estimator!r}."
        )
    try:
        clone(clf.estimator)
    except (TypeError, RuntimeError, AttributeError) as error:
        raise TypeError(
            f"The estimator cannot be cloned, and every refit needs a copy: {error} Give it get_params and "
            "set_params, for example by deriving it from sklearn.base.BaseEstimator."
        ) from error
    if is_regressor(clf.estimator):
        raise ValueError(f"{type(clf.estimator).__name__} is a regressor. Pass a classifier.")


def _params(clf: BootstrapClassifier, sensitive_features: Any, fit_params: dict[str, Any]) -> dict[str, Any]:
    """Parameters of the estimator's fit, other than the weights."""
    given = dict(fit_params)
    if sensitive_features is not None:
        keyword = keyword_of(clf.estimator, "sensitive_features")
        if keyword is None:
            raise ValueError(
                f"{type(clf.estimator).__name__} learns without groups: its fit takes no sensitive_features. "
                "Leave it out here, and pass it to fairness_interval."
            )
        given[keyword] = sensitive_features
    if fit_params and _routing_enabled():
        return dict(process_routing(clf, "fit", **given)["estimator"]["fit"])
    return given


def _differs_by_seed(clf: BootstrapClassifier, fit: Any, rows: _Training, params: dict[str, Any], seed: int) -> bool:
    """Whether a second fit to the same rows, with other random numbers, decides differently."""
    if clf.n_replicates == 0 or not _draws_random_numbers(clf.estimator):
        return False
    again = _refit(clf.estimator, rows, params, 0, seed, None, None)
    some = _safe_indexing(rows.X, np.arange(min(LOOKED_AT, len(rows.y))))
    return isinstance(again, _Failure) or bool((again.predict(some) != fit.predict(some)).any())


# -- Refits -----------------------------------------------------------------------------------------------------------


class _Failure(NamedTuple):
    """Why a refit failed."""

    reason: str


class _Training(NamedTuple):
    """Rows to train on."""

    X: Any
    y: NDArray[Any]
    weight: FloatArray | None
    keyword: str | None  # by which the estimator takes weights

    def weighted(self, multipliers: FloatArray | None) -> dict[str, FloatArray]:
        """Weights of the rows, times multipliers, by the keyword of the estimator; empty without any."""
        if self.keyword is None or (self.weight is None and multipliers is None):
            return {}
        weight = np.ones(len(self.y)) if self.weight is None else self.weight
        return {self.keyword: weight if multipliers is None else weight * multipliers}


class _Units(NamedTuple):
    """Independent units of the training rows: the rows themselves, or clusters."""

    n: int
    keys: NDArray[np.uint64] | None  # cluster of each row
    n_rows: int

    @classmethod
    def of(cls, clusters: Any, n_rows: int) -> _Units:
        if clusters is None:
            return cls(n_rows, None, n_rows)
        keys = as_keys(clusters, "cluster")
        same_length(X=range(n_rows), clusters=keys)
        n = len(np.unique(keys))
        check_clusters(n)
        return cls(n, keys, n_rows)

    def weights(self, multipliers: Multipliers, n_columns: int) -> FloatArray:
        """Random weights of the rows, shape (n_rows, n_columns)."""
        if self.keys is None:
            return multipliers.draw(0, self.n_rows, n_columns)
        return multipliers.of(self.keys, n_columns)

    def drawn(self, seed: int, b: int) -> IntArray:
        """Rows of a refit that draws units with replacement."""
        chosen = np.random.default_rng([seed, b]).integers(0, self.n, self.n)
        if self.keys is None:
            return chosen
        _, place = np.unique(self.keys, return_inverse=True)
        order = np.argsort(place, kind="stable")
        members = np.split(order, np.cumsum(np.bincount(place))[:-1])
        return np.concatenate([members[unit] for unit in chosen])


def _refit(
    estimator: Any, rows: _Training, params: dict[str, Any], b: int, seed: int, drawn: IntArray | None,
    multipliers: FloatArray | None,
) -> Any:  # fmt: skip
    """Fit a copy of the estimator with its own random numbers: to rows that are drawn, or with random weights."""
    try:
        model = _seeded(clone(estimator), seed, b)
        if drawn is None:
            return model.fit(rows.X, rows.y, **params, **rows.weighted(multipliers))
        params = _check_method_params(rows.X, params, drawn)
        weight = rows.weighted(None)
        weight = {name: values[drawn] for name, values in weight.items()}
        return model.fit(_safe_indexing(rows.X, drawn), rows.y[drawn], **params, **weight)
    except Exception as error:  # whatever it is, the other refits go on
        words = " ".join(str(error).split())
        return _Failure(f"{type(error).__name__}: {words[:200]}")


def _seeded(estimator: Any, seed: int, b: int = 0, only_missing: bool = False) -> Any:
    """Set every random_state of an estimator, for the b-th refit; or only those that are None, for the fit."""
    rng = np.random.default_rng([seed, 1 if only_missing else 2, b])
    found = {}
    for name, value in sorted(estimator.get_params(deep=True).items()):
        if name.rpartition("__")[2] == "random_state":
            number = int(rng.integers(0, 2**31))
            if value is None or not only_missing:
                found[name] = number
    return estimator.set_params(**found) if found else estimator


def _draws_random_numbers(estimator: Any) -> bool:
    """Whether an estimator may draw random numbers: ours and scikit-learn's then have a random_state."""
    names = [name for name in estimator.get_params(deep=True) if name.rpartition("__")[2] == "random_state"]
    return bool(names) or not type(estimator).__module__.startswith(("sklearn.", "surefair."))


def keyword_of(estimator: Any, name: str) -> str | None:
    """Keyword by which the fit of an estimator takes something; in a Pipeline, that of its last step.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> keyword_of(make_pipeline(StandardScaler(), LogisticRegression()), "sample_weight")
    'logisticregression__sample_weight'
    """
    if isinstance(estimator, Pipeline) and not _routing_enabled():
        step, last = estimator.steps[-1]
        inner = keyword_of(last, name)
        return None if inner is None else f"{step}__{inner}"
    if has_fit_parameter(estimator, name):
        return name
    if _routing_enabled() and get_routing_for_object(estimator).consumes("fit", {name}):
        return name
    takes_any = any(one.kind is one.VAR_KEYWORD for one in inspect.signature(estimator.fit).parameters.values())
    fairlearn = type(estimator).__module__.startswith("fairlearn.")  # its reductions pass groups on as **kwargs
    return name if name == "sensitive_features" and takes_any and fairlearn else None


def _names_in(estimator: Any) -> Iterator[str]:
    """Names of the classes of an estimator and of the estimators in it."""
    yield type(estimator).__name__
    for value in estimator.get_params(deep=True).values():
        if hasattr(value, "fit") and not isinstance(value, type):
            yield type(value).__name__
