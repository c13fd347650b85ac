"""FairClassifier: the learners behind scikit-learn's interface.

The classifier checks what comes in, hands it to a ``Model`` and issues what the model found as warnings. Every refusal
happens before anything has changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from threading import Lock
from types import NoneType
from typing import Any, Self

import numpy as np
import pandas as pd
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted, validate_data

from surefair.criteria import Criterion
from surefair.diagnostics import Diagnostic, issue
from surefair.inference.arbitrariness import Arbitrariness, Decided
from surefair.inference.checks import coefficient_diagnostics
from surefair.inference.coefficients import COVARIANCE_METHODS, coefficient_table
from surefair.inference.cross_fit import METHOD, N_FOLDS, CrossFit
from surefair.inference.evaluation import anytime_interval, check_tally, model_interval
from surefair.inference.interval import Interval, Question
from surefair.inference.limits import BOOTSTRAP_METHODS, METHODS, check_level
from surefair.inference.metric import get_metric
from surefair.inference.sources import SOURCES, Tally
from surefair.inference.stretches import check_anytime
from surefair.learners.schedules import PolynomialDecay
from surefair.names import one_of
from surefair.rows import (
    CodedColumn,
    FloatArray,
    Groups,
    IntArray,
    Names,
    Rows,
    as_column,
    as_columns,
    as_features,
    as_keys,
    as_weight,
    check_some_weight,
    is_sparse,
    library_of,
    make_frame,
    same_length,
    together,
    with_intersection,
)
from surefair.rows.labels import check_both_labels, check_labels, label_levels
from surefair.storage.archive import Place, check_same, naming, read_archive, write_archive
from surefair.storage.checks import value_of
from surefair.training.fit import Fit, Learn, check_plain, check_wide, is_wide
from surefair.training.model import Model
from surefair.training.parameters import check_law, check_parameters, draw_seed, parameters_of, problem_of
from surefair.training.problem import Problem

FORMAT, VERSION = "surefair.FairClassifier", 12
_TAKING_OVER = Lock()  # held while a model takes the place of the one that it was trained from
LIBRARIES = ("pandas", "polars", "pyarrow", "modin", "cudf")  # of data frames

SensitiveColumns = dict[str | None, CodedColumn]


class FairClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Linear classifier under a fairness criterion, with intervals for its unfairness.

    The constraint is learnt from the same rows as the model. Bootstrap replicates run beside the fit, in which every
    row has a random weight of mean 1 and variance 1, in the loss and in the constraint. Their spread imitates the
    randomness of training, constraint included. Few rows are solved exactly; many, and streams, are learnt in one pass,
    and intervals can be asked for at any moment of it.

    Parameters
    ----------
    criterion : str, Criterion or None, default="demographic_parity"
        What should be equal between the groups; None for no constraint.
    loss : {"log_loss", "squared_error"}, default="log_loss"
        "squared_error" is the squared error on one-hot labels.
    surrogate : {"decisions", "scores"}, default="decisions"
        What the constraint compares between groups: decisions, smoothed a little, or the scores themselves, as the
        paper does. A constraint on scores can hold while decisions hardly change.
    tolerance : float, default=0.0
        The largest gap allowed between any two groups; for "decisions" a gap of decisions, such as 0.05 for five
        percentage points. If more than one gap is compared, less than 0.01 counts as 0.01.
    penalty : float or None, default=None
        R₂: the weight of a penalty on the squared gaps, which takes the place of the constraint.
    alpha : float, default=1e-4
        κ of the ridge term κ‖θ‖²/2, in units of the features and without the intercept.
    solver : {"auto", "one_pass", "exact"}, default="auto"
        "exact" solves the problem on all rows, for the fit and for each replicate with its own weights; no rows can be
        added later. "one_pass" needs memory for a few rows only. "auto" is exact in ``fit`` with up to 50,000
        rows, if rows × features × replicates is at most 4e8, and takes one pass otherwise.
    step_size : "auto" or PolynomialDecay, default="auto"
        "auto" takes Newton steps, which need no step size. A ``PolynomialDecay`` is the published algorithm to the
        letter, from θ = 0 with explicit steps; its constraint is fixed, see ``fit``.
    n_replicates : int, default=200
        Bootstrap replicates; 0 fits without intervals.
    multiplier : {"auto", "two_point", "uniform", "exponential", "normal", "poisson"}, default="auto"
        Law of the replicates' weights. "auto" is "two_point" in one pass and "exponential" for an exact solution.
    n_warmup : int, default=4000
        First rows, on which the problem is solved exactly before the fit continues in one pass; at least ten for each
        feature, and up to 2.5 times as many if more than two pairs of groups are compared. They are trained on and
        counted like all others. Under a ``PolynomialDecay`` they are the constraint set instead: in ``fit`` at most a
        fifth of all rows, and not trained on.
    fit_intercept : bool, default=True
        Add a column of ones.
    intersections : bool, default=False
        With several sensitive columns: treat the groups that they form together as a further column.
    sharpness : float or None, default=None
        Inverse width of the slope of a smoothed decision, relative to the spread of the scores; None for 1.33. Where
        the constraint is fixed, τ of a penalty whose kinks max(0, -m) are rounded to softplus(-τm)/τ; None for kinks.
    dtype : {"float64", "float32"}, default="float64"
        Precision in which replicates meet each row. "float32" takes less time with many replicates, not less memory.
        Sums over rows, and all answers, stay in double precision, so results hardly differ. It is for rows that are
        dense, or sparse with at most 1,000 features, and not for a fixed constraint.
    random_state : int, RandomState or None, default=None
        Seed of the weights.
    n_jobs : int or None, default=None
        Threads. Results are bit-identical for any number of threads.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Labels; the second is the positive one.
    groups_ : ndarray, dict of ndarray or None
        Groups, sorted; by column where the sensitive columns have names.
    group_counts_ : data frame
        Every group, with its rows so far and whether it is constrained.
    coef_, intercept_ : ndarray of shape (1, n_features), (1,)
        The fit.
    coef_replicates_, intercept_replicates_ : ndarray of shape (n_replicates, n_features), (n_replicates,)
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where the features have names.
    n_rows_ : int
        Rows trained on; a constraint set is not among them.
    model_ : Model
        Everything learnt so far, as one frozen value.

    Examples
    --------
    >>> import surefair as sf
    >>> train, test = sf.datasets.SyntheticDI(seed=0).sample(5_000), sf.datasets.SyntheticDI(seed=1).sample(2_000)
    >>> clf = sf.FairClassifier(random_state=0).fit(train.X, train.y, sensitive_features=train.sensitive)
    >>> interval = clf.fairness_interval(test.X, test.y, sensitive_features=test.sensitive)
    >>> round(interval.estimate, 2), round(interval.low, 2), round(interval.high, 2)
    (0.01, 0.0, 0.03)
    """

    model_: Model

    def __init__(
        self,
        criterion: str | Criterion | None = "demographic_parity",
        *,
        loss: str = "log_loss",
        surrogate: str = "decisions",
        tolerance: float = 0.0,
        penalty: float | None = None,
        alpha: float = 1e-4,
        solver: str = "auto",
        step_size: str | PolynomialDecay = "auto",
        n_replicates: int = 200,
        multiplier: str = "auto",
        n_warmup: int = 4000,
        fit_intercept: bool = True,
        intersections: bool = False,
        sharpness: float | None = None,
        dtype: str = "float64",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.criterion = criterion
        self.loss = loss
        self.surrogate = surrogate
        self.tolerance = tolerance
        self.penalty = penalty
        self.alpha = alpha
        self.solver = solver
        self.step_size = step_size
        self.n_replicates = n_replicates
        self.multiplier = multiplier
        self.n_warmup = n_warmup
        self.fit_intercept = fit_intercept
        self.intersections = intersections
        self.sharpness = sharpness
        self.dtype = dtype
        self.random_state = random_state
        self.n_jobs = n_jobs

    # -- Training ---------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        constraint_set: Any = None,
        sample_weight: Any = None,
        clusters: Any = None,
    ) -> Self:
        """Train on the rows: exactly if there are few, else in one pass, in the order given.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), data frame or sparse matrix
            Sparse rows with more than 1,000 features are learnt in small steps, and the work for a row grows with its
            non-zero features only. At most a fifth of them are warm-up rows, which scale the features; with
            ``criterion=None`` these are not trained on.
        y : array-like of shape (n_rows,)
            Labels, two values of any type.
        sensitive_features : array-like of shape (n_rows,), data frame or dict of columns
            Group of each row, two or more values of any type; with several columns, each is constrained. It is required
            unless ``criterion=None``.
        constraint_set : tuple (X, y, sensitive_features) or (X, y, sensitive_features, sample_weight), optional
            Further rows that fix the constraint, as in the paper: it is about scores on these rows, ``tolerance``
            bounds the covariance of group and score, and criteria of errors take a penalty (by default of weight 1).
            Intervals are then given the constraint set. By default the constraint is learnt from all rows.
        sample_weight : array-like of shape (n_rows,), optional
            A row of twice the weight counts twice as much, in the loss and in all rates, but is still one row. Only the
            ratios of the weights matter.
        clusters : array-like of shape (n_rows,), optional
            What each row belongs to, for example a person with several rows. In a replicate, rows of one cluster share
            their weight, so intervals are as wide as the number of clusters warrants. It needs rows that are dense, or
            sparse with at most 1,000 features, and no fixed constraint.

        Returns
        -------
        self
        """
        return fit_by(self, Fit.learn, X, y, sensitive_features, constraint_set, sample_weight, clusters)

    def partial_fit(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        classes: Any = None,
        constraint_set: Any = None,
        sample_weight: Any = None,
        clusters: Any = None,
    ) -> Self:
        """Continue the pass with the next rows of the stream.

        The first call declares the labels (``classes``, or those in y, which must then show both). Until there are
        ``n_warmup`` rows, questions are answered from the rows so far. A group that first appears later is constrained
        as soon as it has enough rows.

        Parameters
        ----------
        X, y, sensitive_features, sample_weight, clusters
            As in ``fit``. An empty batch changes nothing.
        classes : array-like of shape (2,), optional
        constraint_set : tuple, optional
            As in ``fit``.

        Returns
        -------
        self
        """
        if _n_rows(X) == 0 and constraint_set is None:
            return self
        new = copy(self)
        before = self.__dict__.get("model_")
        known: tuple[Diagnostic, ...] = ()
        if before is None:
            model, rows, given = new._declare(
                X, y, sensitive_features, constraint_set, classes, sample_weight, clusters
            )
            if len(model.labels.values) == 1:
                raise ValueError(
                    f"The first batch shows only the label {model.labels.values.tolist()[0]!r}. "
                    "Pass classes= with both labels in the first call to partial_fit."
                )
            model = model if given is None else model.begin(given)
        else:
            if constraint_set is not None:
                raise ValueError("constraint_set can only be given in the first call to partial_fit.")
            if classes is not None and not np.array_equal(np.unique(as_column(classes, "label")), self.classes_):
                raise ValueError(f"classes={list(classes)!r} differs from the first call's {self.classes_.tolist()}.")
            model = before
            known = model.diagnostics
            rows = next_rows(new, X, y, sensitive_features, sample_weight, clusters)
        model = model.take(rows, effective_n_jobs(self.n_jobs))
        said = {(one.name, one.message) for one in known}  # numbers may change from batch to batch
        issue([one for one in model.diagnostics if (one.name, one.message) not in said])
        with _TAKING_OVER:
            if self.__dict__.get("model_") is not before:
                raise RuntimeError(
                    "Another thread has changed this classifier in the meantime, so this batch was not taken. Feed "
                    "batches one after the other, or fit them in parallel with sf.parallel.fit_shards."
                )
            return take_over(self, model, new.library_)

    def merge(self, other: FairClassifier) -> Self:
        """Take in the fit of another shard: averages weighted by rows.

        Both must be fits of the same problem, with the same parameters, classes and groups, that began with the same
        warm-up rows, which count once: ``sf.parallel.fit_shards`` makes such fits. The average of fits on disjoint
        shards has the same limit law as one pass over all rows, and so has each replicate. Give every shard its own
        ``random_state``, so that their replicates are independent. Shards must be long, and far fewer than the square
        root of the number of rows.

        Parameters
        ----------
        other : FairClassifier

        Returns
        -------
        self
        """
        if not isinstance(other, FairClassifier):
            raise TypeError(f"merge takes a FairClassifier; received {type(other).__name__}.")
        check_is_fitted(self)
        check_is_fitted(other)
        self.model_ = self.model_.merge(other.model_)
        return self

    # -- What was learnt --------------------------------------------------------------------------------------------

    @classmethod
    def from_model(cls, model: Model) -> FairClassifier:
        """Make a classifier from a model, for example one that was merged elsewhere.

        Examples
        --------
        >>> import surefair as sf
        >>> data = sf.datasets.SyntheticDI(seed=0).sample(2_000)
        >>> clf = sf.FairClassifier(random_state=0).fit(data.X, data.y, sensitive_features=data.sensitive)
        >>> bool((sf.FairClassifier.from_model(clf.model_).coef_ == clf.coef_).all())
        True
        """
        return take_over(cls(**parameters_of(model.problem)), model, "pandas")

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels; the second is the positive one."""
        if not hasattr(self, "model_"):
            raise AttributeError("This classifier is not fitted yet, so it has no classes_.")
        return self.model_.labels.values

    @property
    def seed_(self) -> int:
        """Seed of the replicates' weights."""
        return self.model_.seed

    @property
    def coef_(self) -> FloatArray:
        """Coefficients of the fit, shape (1, n_features)."""
        fit = self.answer().trained
        return fit.split(fit.coefficients)[0].T

    @property
    def intercept_(self) -> FloatArray:
        """Intercept of the fit, shape (1,)."""
        fit = self.answer().trained
        return fit.split(fit.coefficients)[1]

    @property
    def coef_replicates_(self) -> FloatArray:
        """Coefficients of the replicates, shape (n_replicates, n_features)."""
        fit = self.answer().trained
        return fit.split(fit.theta)[0][:, 1:].T

    @property
    def intercept_replicates_(self) -> FloatArray:
        """Intercepts of the replicates, shape (n_replicates,)."""
        fit = self.answer().trained
        return fit.split(fit.theta)[1][1:]

    @property
    def n_rows_(self) -> int:
        """Rows trained on."""
        return self.answer().n_rows

    @property
    def groups_(self) -> Any:
        """Groups seen so far: an array, or one array for each column where the sensitive columns have names."""
        check_is_fitted(self)
        return None if self.model_.groups is None else self.model_.groups.public

    @property
    def group_counts_(self) -> Any:
        """One row per group: group, n (its rows so far), constrained."""
        check_is_fitted(self)
        if self.model_.groups is None:
            raise AttributeError("This fit had no sensitive_features, so it has no groups to count.")
        counts = self.model_.group_counts()
        columns = {name: [one[name] for one in counts.values()] for name in ("n", "constrained")}
        return make_frame(self.model_.groups.table() | columns, like=self.library_)

    def answer(self) -> Model:
        """Return the model that answers questions: ``model_``, or one of the rows so far while these are few."""
        check_is_fitted(self)
        try:
            return self.model_.answer()
        except ValueError as error:
            n = self.model_.first.n
            rows = "row is" if n == 1 else "rows are"
            raise NotFittedError(f"{n} {rows} too few to answer yet. Pass more rows to partial_fit.") from error

    def decision_function(self, X: Any) -> FloatArray:
        """Score θᵀx of each row; a positive score means the positive class.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features) or data frame

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        fit = self.answer().trained
        return fit.score(self._check_features(X, reset=False))

    def predict(self, X: Any) -> NDArray[Any]:
        """Label of each row.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features) or data frame

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        score = self.decision_function(X)
        return np.asarray(self.classes_[(score > 0.0).astype(np.int64)])

    def predict_proba(self, X: Any) -> FloatArray:
        """Estimated probability of each class.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features) or data frame

        Returns
        -------
        ndarray of shape (n_rows, 2)
        """
        check_is_fitted(self)
        positive = self.model_.problem.loss.probability(self.decision_function(X))
        return np.stack([1.0 - positive, positive], axis=1)

    # -- Intervals --------------------------------------------------------------------------------------------------

    def fairness_interval(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any,
        metric: str | Criterion | None = None,
        confidence_level: float = 0.95,
        source: str = "total",
        method: str = "percentile",
        sample_weight: Any = None,
        clusters: Any = None,
        anytime: bool = False,
    ) -> Interval:
        """Confidence interval for the unfairness, measured on held-out rows.

        The interval is valid for one look, unless ``anytime`` is true. If you look at a stream again and again until an
        interval excludes a value, you will find one that wrongly does far more often than its level says.

        Parameters
        ----------
        X, y, sensitive_features
            Evaluation rows, independent of the training rows. The sensitive columns may differ from those that are
            constrained.
        metric : str, Criterion or None
            What to measure, whatever was constrained; by default the criterion of the fit. "_ratio" after the name
            compares by ratios.
        confidence_level : float
        source : {"total", "training", "retraining", "evaluation"}
            Which uncertainty the interval covers: that of training ("training", or "retraining" for the gap of a model
            trained again from scratch on as many new rows), of the evaluation rows, or of training and evaluation
            together.
        method : {"percentile", "basic", "normal", "cheap", "paper"}
            How replicates become limits. "percentile" takes quantiles of the gaps of replicates; where the constraint
            is fixed, of replicates mirrored at the fit, which removes the bias of its steps. "cheap" is valid from 2
            replicates on, and wide with few. "paper" is the published version, for reproduction only.
        sample_weight : array-like of shape (n_rows,), optional
        clusters : array-like of shape (n_rows,), optional
            What each evaluation row belongs to, for example a person with several rows. Rows of one cluster may depend
            on each other; limits of the sources "evaluation" and "total" then use Student's t law.
        anytime : bool
            Whether the interval must hold at all looks together, as often as you ask for it while rows come in. It is
            wider. For source "evaluation", where the model stays the same and evaluation rows are added in the order
            in which they come, it is exact; for "training" and "total", where the model trains on, it is an
            approximation for many rows. The sentence of the interval says which.

        Returns
        -------
        Interval
        """
        check_is_fitted(self)
        question = self._question(metric, source, method, confidence_level)
        model = self._replicated()
        if anytime:
            check_anytime(method, sample_weight=sample_weight if source == "evaluation" else None, clusters=clusters)
        _check_method(method, source, clusters)
        rows = self.rows(
            X, y, sensitive_features=sensitive_features, sample_weight=sample_weight, clusters=clusters,
            need_groups=True,
        )  # fmt: skip
        if anytime:
            n_threads = effective_n_jobs(self.n_jobs)
            return self._issued(anytime_interval(model, rows, question, n_threads, self.library_))
        tally = Tally.of(model, rows, (source,), method, effective_n_jobs(self.n_jobs))
        return self._issued(model_interval(model, tally, question, self.library_))

    def tally(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any,
        sources: str | Sequence[str] = tuple(SOURCES),
        method: str = "percentile",
        sample_weight: Any = None,
        clusters: Any = None,
    ) -> Tally:
        """Count what intervals need from some evaluation rows; tallies of several parts of the rows add.

        For source "total" each part is split into random halves, so parts should have many rows.

        Parameters
        ----------
        X, y, sensitive_features, method, sample_weight, clusters
            As in ``fairness_interval``. The rows may be of one group only, and there may be none.
        sources : str or sequence of str
            Sources that will be asked for.

        Returns
        -------
        Tally

        Examples
        --------
        >>> import surefair as sf
        >>> train, test = sf.datasets.SyntheticDI(seed=0).sample(5_000), sf.datasets.SyntheticDI(seed=1).sample(2_000)
        >>> clf = sf.FairClassifier(random_state=0).fit(train.X, train.y, sensitive_features=train.sensitive)
        >>> parts = [
        ...     clf.tally(test.X[i::2], test.y[i::2], sensitive_features=test.sensitive[i::2]) for i in range(2)
        ... ]
        >>> interval = clf.tallied_interval(parts[0] + parts[1])
        >>> round(interval.estimate, 2)
        0.01
        """
        check_is_fitted(self)
        sources = (sources,) if isinstance(sources, str) else tuple(sources)
        if not sources:
            raise ValueError("sources is empty. Name one or more, or leave it out for all of them.")
        for source in sources:
            one_of(source, SOURCES, "source")
        one_of(method, METHODS, "method")
        for source in sources:
            _check_method(method, source, clusters)
        model = self._replicated()
        rows = self._evaluation_rows(X, y, sensitive_features, sample_weight, clusters)
        return Tally.of(model, rows, sources, method, effective_n_jobs(self.n_jobs), fingerprint=True)

    def tallied_interval(
        self,
        tally: Tally,
        *,
        metric: str | Criterion | None = None,
        confidence_level: float = 0.95,
        source: str = "total",
    ) -> Interval:
        """Confidence interval for the unfairness, from evaluation rows that were counted: see ``fairness_interval``.

        Parameters
        ----------
        tally : Tally
            Counted with this classifier in its present state.
        metric, confidence_level, source
            As in ``fairness_interval``.

        Returns
        -------
        Interval
        """
        question = self._question(metric, source, tally.method, confidence_level)
        model = self._replicated()
        check_tally(model, tally)
        check_some_weight(tally.of_fit.weight, "to count")
        return self._issued(model_interval(model, tally, question, self.library_))

    def cross_fit_interval(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any,
        metric: str | Criterion | None = None,
        confidence_level: float = 0.95,
        source: str = "total",
        n_folds: int = N_FOLDS,
        sample_weight: Any = None,
        clusters: Any = None,
    ) -> Interval:
        """Interval for unfairness where rows are few: every row serves for training and for evaluation.

        Rows are dealt into folds. A model is trained on all folds but one, exactly, and decides on that one; the
        decisions on all folds are counted together. The interval is for the mean of the gaps of these models, each
        trained on a share of 1 - 1 / ``n_folds`` of the rows. The classifier itself is not changed, and need not be
        fitted.

        Parameters
        ----------
        X, y, sensitive_features, sample_weight, clusters
            As in ``fit``. Rows of one cluster are in one fold.
        metric : str, Criterion or None
            By default the criterion.
        confidence_level : float
        source : {"training", "retraining", "evaluation", "total"}
            What moves from replicate to replicate, as in ``fairness_interval``. In "total" a row has the same weight
            in training and in evaluation, so it can be narrower than "evaluation".
        n_folds : int
            Number of folds, 2 or more.

        Returns
        -------
        Interval

        Examples
        --------
        >>> import surefair as sf
        >>> data = sf.datasets.SyntheticDI(seed=0).sample(1_000)
        >>> clf = sf.FairClassifier(tolerance=0.1, random_state=0)
        >>> interval = clf.cross_fit_interval(data.X, data.y, sensitive_features=data.sensitive)
        >>> interval.low <= interval.estimate <= interval.high
        True
        """
        if not (isinstance(n_folds, int | np.integer) and n_folds >= 2):
            raise ValueError(f"n_folds must be a whole number, 2 or larger; received {n_folds!r}.")
        if self.step_size != "auto":
            raise ValueError("Cross-fitting solves the problem exactly, so step_size must be 'auto'.")
        check_law(self.multiplier, "cross-fitting, which solves the problem exactly")
        if self.n_replicates < 2:
            raise ValueError(
                f"An interval needs two replicates or more; received n_replicates={self.n_replicates}. Use 200."
            )
        check_groups_given(sensitive_features)
        one_of(source, SOURCES, "source")
        new, model, rows, _ = declare(self, X, y, sensitive_features, None, sample_weight, clusters)
        asked = get_metric(metric or model.problem.criterion or "demographic_parity")
        question = Question(asked, source, METHOD, check_level(confidence_level))
        found = CrossFit.of(model.problem, rows, int(n_folds), effective_n_jobs(self.n_jobs))
        interval = found.interval(question, new.library_)
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
        >>> train, test = sf.datasets.SyntheticDI(seed=0).sample(2_000), sf.datasets.SyntheticDI(seed=1).sample(2_000)
        >>> clf = sf.FairClassifier(random_state=0).fit(train.X, train.y, sensitive_features=train.sensitive)
        >>> found = clf.arbitrariness(test.X, sensitive_features=test.sensitive)
        >>> found.low < found.estimate < found.high
        True
        """
        check_is_fitted(self)
        check_level(confidence_level)
        model = self._replicated()
        groups, codes = self._measured_groups(sensitive_features)
        groups.check_comparable()
        values = self._check_features(X, reset=False)
        n = same_length(X=range(values.shape[0]), sensitive_features=codes)
        positive = np.asarray(model.trained.features(values) @ model.replicates > 0.0)
        weight = as_weight(sample_weight, n)
        check_some_weight(weight, "to count")
        decided = Decided(positive, codes, weight)
        return Arbitrariness.of(decided, groups, self.library_, confidence_level, model.n_rows)

    def coef_interval(self, confidence_level: float = 0.95, method: str = "basic") -> Any:
        """Confidence intervals for the coefficients of the optimum, each separately.

        The optimum is that of the population, under the population's constraint. If you fix the constraint by a
        ``constraint_set``, it is the optimum under that constraint: in a small set, features that mean nothing
        correlate with groups by chance, and the constraint then truly gives them coefficients other than 0.

        Parameters
        ----------
        confidence_level : float
        method : {"basic", "percentile", "normal", "cheap", "plug_in", "random_scaling"}
            How replicates become limits: "basic" mirrors their quantiles at the estimate, which removes the bias of the
            steps; "percentile" takes the quantiles themselves; "normal" uses their standard deviation; "cheap" uses
            their distance from the estimate with Student's t law, which is valid from 2 replicates on.
            The last two need no replicates, but dense rows, or sparse ones with at most 1,000 features; where the
            constraint is fixed, at most 128 features. "plug_in" is the sandwich of Hessian and scores met on the way.
            "random_scaling" compares the fit with the fits on the way.

        Returns
        -------
        data frame
            One row per feature, then the intercept: feature, estimate, low, high, excludes_zero. It is in the library
            of the training data (pandas for arrays).
        """
        check_level(confidence_level)
        one_of(method, (*BOOTSTRAP_METHODS, *COVARIANCE_METHODS), "method")
        model = self.answer() if method in COVARIANCE_METHODS else self._replicated()
        table = coefficient_table(model, model.features, confidence_level, method)
        issue(coefficient_diagnostics(model, confidence_level, method))
        return make_frame(table, like=self.library_)

    def _question(self, metric: Any, source: str, method: str, confidence_level: float) -> Question:
        measured = get_metric(metric or self.model_.problem.criterion or "demographic_parity")
        one_of(source, SOURCES, "source")
        one_of(method, METHODS, "method")
        return Question(measured, source, method, check_level(confidence_level))

    def _replicated(self) -> Model:
        """Model to answer questions about uncertainty from."""
        model = self.answer()
        if model.problem.n_replicates < 2:
            raise ValueError(
                f"An interval needs replicates, and this classifier has n_replicates={model.problem.n_replicates}. "
                "Fit with n_replicates=200, for example."
            )
        return model

    def _issued(self, interval: Interval) -> Interval:
        """Return an interval and issue its diagnostics as warnings."""
        issue(interval.diagnostics)
        return interval

    # -- Rows -------------------------------------------------------------------------------------------------------

    def rows(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        clusters: Any = None,
        need_groups: bool = False,
    ) -> Rows:
        """Check rows and code them as this fitted classifier does.

        Parameters
        ----------
        X, y, sensitive_features, sample_weight, clusters
            As in ``fairness_interval``; without sensitive features the rows have no groups.
        need_groups : bool
            Whether sensitive features are required.

        Returns
        -------
        Rows
        """
        check_is_fitted(self)
        if sensitive_features is None and not need_groups:
            rows = self._code(X, y, None, sample_weight, clusters)
            check_some_weight(rows.weight, "in the population")
            return rows
        rows = self._evaluation_rows(X, y, sensitive_features, sample_weight, clusters)
        rows.groups.check_comparable()
        if rows.n == 0:
            raise ValueError("There are no evaluation rows. Pass at least one row of each group.")
        check_some_weight(rows.weight, "to count")
        return rows

    def _evaluation_rows(
        self, X: Any, y: Any, sensitive_features: Any, sample_weight: Any, clusters: Any = None
    ) -> Rows:
        """Check and code evaluation rows, which may be too few to compare groups."""
        groups, codes = self._measured_groups(sensitive_features)
        rows = self._code(X, y, None, sample_weight, clusters)
        same_length(X=rows.y, sensitive_features=codes)
        return replace(rows, group=codes, names=rows.names._replace(groups=groups))

    def _measured_groups(self, sensitive_features: Any) -> tuple[Groups, IntArray]:
        """Groups of evaluation rows, and the code of each row's group in each column."""
        check_groups_given(sensitive_features)
        known = self.model_.groups
        columns = self._columns(sensitive_features, known, measured=True)
        groups = Groups.of(columns) if known is None else known.measured_by(columns)
        return groups, groups.codes(columns)

    def _code(self, X: Any, y: Any, columns: SensitiveColumns | None, sample_weight: Any, clusters: Any = None) -> Rows:
        """Check rows, and code them by the labels and groups that are known, and any new groups."""
        values = self._check_features(X, reset=False)
        model = self.model_
        groups = model.groups
        if columns is not None and groups is not None and values.shape[0]:
            groups = groups.joined(columns)
        names = Names(model.features, model.labels, groups)
        return _coded(values, check_labels(y), columns, sample_weight, names, clusters)

    def _declare(
        self,
        X: Any,
        y: Any,
        sensitive_features: Any,
        constraint_set: Any,
        classes: Any,
        sample_weight: Any,
        clusters: Any = None,
    ) -> tuple[Model, Rows, Rows | None]:
        """Check parameters and the first rows; returns a model before its first row, the rows and a constraint set."""
        check_parameters(self, fixed=constraint_set is not None)
        if self.solver == "exact" and (constraint_set is not None or self.step_size != "auto"):
            raise ValueError(
                "solver='exact' learns the constraint from all rows, and constraint_set or a step_size fixes it. Leave "
                "these out, or use solver='auto'."
            )
        values = self._check_features(X, reset=True)
        labels = check_labels(y)
        fixed = constraint_set is not None or self.step_size != "auto"
        if clusters is not None and (fixed or is_wide(values)):
            raise ValueError(
                "clusters works for a constraint that is learnt from all rows, and for rows that are dense, or sparse "
                "with at most 1,000 features. Leave out constraint_set and step_size, or reduce the features."
            )
        if fixed:
            check_plain(values, self.dtype)
        elif is_wide(values):
            check_wide(problem_of(self, seed=0), values)
        if sensitive_features is None and constraint_set is None and self.criterion is not None:
            raise ValueError(
                f"criterion={self.criterion!r} compares groups, and sensitive_features is missing. Pass the group of "
                "each row as sensitive_features=, or use criterion=None for a fit without a constraint."
            )
        columns = None if sensitive_features is None else self._columns(sensitive_features)
        groups = None if columns is None else Groups.of(columns)
        apart: tuple[CodedColumn, SensitiveColumns] | None = None
        if constraint_set is not None:
            _check_parts(constraint_set, "constraint_set")
            with _speaking_of("constraint_set"):
                apart = check_labels(constraint_set[1]), self._columns(constraint_set[2], groups)
                groups = Groups.of(apart[1]) if groups is None else groups.joined(apart[1])
        if groups is not None and self.criterion is not None:
            groups.check_few()
        found = [labels.found] if apart is None else [labels.found, apart[0].found]
        declared = together(found, "y and the constraint set") if classes is None else as_column(classes, "label")
        names = Names(self._feature_names(), label_levels(declared, classes), groups)
        rows = _coded(values, labels, columns, sample_weight, names, clusters)
        given = None
        if apart is not None:
            with _speaking_of("constraint_set"):
                features = self._check_features(constraint_set[0], reset=False)
                check_plain(features, self.dtype)
                weight = constraint_set[3] if len(constraint_set) > 3 else None
                given = _coded(features, *apart, weight, names)
        return Model.of(problem_of(self, draw_seed(self.random_state)), names, values.shape[1]), rows, given

    # -- Checks -----------------------------------------------------------------------------------------------------

    def _check_features(self, X: Any, reset: bool) -> Any:
        """Return features as a finite float64 array or CSR matrix whose columns are those of the first call."""
        values = None
        if reset:
            self.library_ = library_of(X) if hasattr(X, "columns") else "pandas"
        if hasattr(X, "columns"):
            values, names = as_features(X)
            X = values if names is None else pd.DataFrame(values, columns=names, copy=False)
        if isinstance(X, np.ma.MaskedArray):
            X = np.ma.filled(X.astype(np.float64), np.nan)  # masked values are refused like other missing ones
        if not hasattr(self, "feature_names_in_") and _is_plain(X):  # a shortcut for what validate_data would do
            if reset:
                self.n_features_in_ = X.shape[1]
            if X.shape[1] == self.n_features_in_:
                return X
        checked = validate_data(
            self, X, reset=reset, dtype=np.float64, order="C", accept_sparse="csr", ensure_min_samples=int(reset)
        )
        if values is not None:
            return values  # the same numbers; a data frame would show them read-only
        if is_sparse(checked) and not checked.has_canonical_format:
            checked = checked.copy()  # it may be the caller's own
            checked.sum_duplicates()
        return checked

    def _columns(
        self, sensitive_features: Any, known: Groups | None = None, measured: bool = False
    ) -> SensitiveColumns:
        """Return sensitive columns by name, in the known order, because the names of intersections depend on it."""
        columns = as_columns(sensitive_features, order=() if known is None else known.levels)
        wanted = self.intersections and not (measured and len(columns) == 1)  # a single column can be measured too
        return with_intersection(columns) if wanted else columns

    # -- Small things -----------------------------------------------------------------------------------------------

    def _feature_names(self) -> tuple[str, ...] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else tuple(str(name) for name in names)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = self.step_size == "auto"
        return tags


def save(clf: FairClassifier, path: Place) -> None:
    """Write a classifier to a file, to resume later with bit-identical results.

    The file holds plain arrays and JSON, nothing that could run. At a path, an older file stays until the new one is
    complete.

    Parameters
    ----------
    clf : FairClassifier
        Unfitted, fitted, or in the middle of a stream.
    path : path or binary file object

    Examples
    --------
    >>> import surefair as sf
    >>> data = sf.datasets.SyntheticDI(seed=0).sample(2_000)
    >>> clf = sf.FairClassifier(random_state=0).fit(data.X, data.y, sensitive_features=data.sensitive)
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     save(clf, folder + "/clf.npz")
    ...     again = load(folder + "/clf.npz")
    >>> bool((again.coef_ == clf.coef_).all())
    True
    """
    if not isinstance(clf, FairClassifier):
        raise TypeError(f"save takes a FairClassifier; received {type(clf).__name__}.")
    fit = clf.model_.fit if hasattr(clf, "model_") else None
    check_parameters(clf, fixed=fit is not None and not fit.is_learnt)
    write_archive(path, FORMAT, VERSION, *_taken_apart(clf))


def _taken_apart(clf: FairClassifier) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Take a classifier apart into JSON and arrays."""
    state = clf.random_state
    kept = None if state is None or not isinstance(state, int | np.integer) else int(state)  # the model has the seed
    problem = problem_of(clf, seed=0).pack() | {"random_state": kept, "n_jobs": clf.n_jobs}
    meta: dict[str, Any] = {"params": problem, "library": None, "model": None}
    arrays: dict[str, NDArray[Any]] = {}
    if hasattr(clf, "model_"):
        meta["library"] = clf.library_
        meta["model"], arrays = clf.model_.pack()
    return meta, arrays


def load(path: Place) -> FairClassifier:
    """Read a classifier from a file that ``save`` wrote.

    Parameters
    ----------
    path : path or binary file object

    Returns
    -------
    FairClassifier
    """
    meta, arrays = read_archive(path, FORMAT, VERSION)
    with naming(path):
        return _rebuilt(meta, arrays)


def _rebuilt(meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> FairClassifier:
    """Rebuild a classifier from what ``_taken_apart`` returned, if everything fits together."""
    params = dict(value_of(meta, "params", dict))
    own = {
        name: value_of({name: params.pop(name, None)}, name, (int, NoneType), low=low, high=high)
        for name, low, high in (("random_state", 0, 2**32 - 1), ("n_jobs", -1024, 1024))
    }
    clf = FairClassifier(**parameters_of(Problem.unpack(params)), **own)
    model = None if meta["model"] is None else Model.unpack(value_of(meta, "model", dict), arrays)
    check_parameters(clf, fixed=model is not None and model.fit is not None and not model.fit.is_learnt)
    if model is not None:
        if model.fit is None and model.waiting is None:
            raise ValueError("The model has no rows.")
        take_over(clf, model, one_of(meta["library"], LIBRARIES, "library of data frames"))
    check_same((meta, arrays), _taken_apart(clf))
    return clf


# -- For other modules: what they need of a classifier beside its model ----------------------------------------------


def fit_by(
    clf: FairClassifier,
    learn: Learn,
    X: Any,
    y: Any,
    sensitive_features: Any = None,
    constraint_set: Any = None,
    sample_weight: Any = None,
    clusters: Any = None,
) -> FairClassifier:
    """Do what ``fit`` does, with ``learn`` in place of ``Fit.learn``: on other machines, for example."""
    new, model, rows, given = declare(clf, X, y, sensitive_features, constraint_set, sample_weight, clusters)
    model = model.train(rows, given, effective_n_jobs(clf.n_jobs), learn)
    if model.trained.weight == 0.0:
        raise ValueError(
            "sample_weight is zero in every row that is left to train on beside the constraint set. Shuffle the rows."
        )
    issue([*model.diagnostics, *model.order_diagnostics()])
    return take_over(clf, model, new.library_)


def declare(
    clf: FairClassifier,
    X: Any,
    y: Any,
    sensitive_features: Any,
    constraint_set: Any,
    sample_weight: Any,
    clusters: Any = None,
) -> tuple[FairClassifier, Model, Rows, Rows | None]:
    """Check and code what ``fit`` takes; returns a copy of the classifier, a model before its first row, and rows."""
    new = copy(clf)
    model, rows, given = new._declare(X, y, sensitive_features, constraint_set, None, sample_weight, clusters)
    check_both_labels(model.labels)
    check_some_weight(rows.weight, "to learn from")
    return new, model, rows, given


def check_groups_given(sensitive_features: Any) -> None:
    """Refuse to measure unfairness without groups."""
    if sensitive_features is None:
        raise ValueError(
            "sensitive_features is missing: unfairness is a difference between groups. Pass the group of each row."
        )


def next_rows(
    clf: FairClassifier, X: Any, y: Any, sensitive_features: Any = None, sample_weight: Any = None, clusters: Any = None
) -> Rows:
    """Check and code the next rows of a stream, in which new groups may appear."""
    known = clf.model_.groups
    if sensitive_features is None:
        model = clf.model_
        learns = model.problem.learns if model.fit is None else model.fit.is_learnt
        if known is not None and model.problem.criterion is not None and (learns or model.fit is None):
            until = "." if learns else f" until the constraint set has its {model.n_first:,} rows."
            raise ValueError(
                "sensitive_features is missing, and the constraint is learnt from "
                f"{'every row' if learns else 'the first rows'}. Pass the group of each row{until}"
            )
        return clf._code(X, y, None, sample_weight, clusters)
    if known is None:
        raise ValueError("The first call had no sensitive_features. Fit again with groups from the start.")
    return clf._code(X, y, clf._columns(sensitive_features, known), sample_weight, clusters)


def begin(clf: FairClassifier, warmup: Any) -> FairClassifier:
    """Return a copy, on one thread, that has taken its warm-up rows and no others yet; for fits in parts.

    The warm-up rows are a tuple (X, y, sensitive_features) or (X, y, sensitive_features, sample_weight), or ``Rows``
    that are checked and coded already. Under a ``PolynomialDecay`` they are the constraint set.
    """
    new = copy(clf)
    new.n_jobs = 1
    if isinstance(warmup, Rows):
        check_parameters(clf)
        rows = warmup
        model = Model.of(problem_of(clf, draw_seed(clf.random_state)), rows.names, rows.X.shape[1])
        new.library_ = "pandas"
    else:
        _check_parts(warmup, "warmup")
        with _speaking_of("warmup"):
            X, y, sensitive_features, *weight = warmup
            model, rows, _ = new._declare(X, y, sensitive_features, None, None, *(weight or [None]))
            if len(model.labels.values) == 1:
                raise ValueError(f"It must have both labels; received only {model.labels.values.tolist()}.")
    model = model.begin_with(rows)
    issue(model.diagnostics)
    return take_over(new, model, new.library_)


def take_over(clf: FairClassifier, model: Model, library: str) -> FairClassifier:
    """Let a classifier take over a model, and show what scikit-learn expects of a fitted classifier."""
    clf.model_ = model
    clf.library_ = library
    clf.n_features_in_ = model.n_features
    clf.__dict__.pop("feature_names_in_", None)
    if model.features is not None:
        clf.feature_names_in_ = np.asarray(model.features, dtype=object)
    return clf


def _check_method(method: str, source: str, clusters: Any) -> None:
    """Refuse methods that evaluation rows in clusters do not have."""
    if clusters is not None and SOURCES[source].evaluation and method != "percentile":
        raise ValueError(
            f"With clusters, limits of source {source!r} do not depend on the method; received method={method!r}. "
            "Leave method out."
        )


def _coded(
    values: Any,
    labels: CodedColumn,
    columns: SensitiveColumns | None,
    sample_weight: Any,
    names: Names,
    clusters: Any = None,
) -> Rows:
    """Code rows whose parts were checked separately."""
    n = same_length(X=range(values.shape[0]), y=labels.code)
    weight = as_weight(sample_weight, n)
    cluster = None if clusters is None else as_keys(clusters, "cluster")
    same_length(X=range(n), clusters=cluster)
    width = 0 if names.groups is None else len(names.groups.levels)
    y = np.where(names.labels.codes(labels.found) == 1, 1.0, -1.0)[labels.code] if n else np.empty(0)
    group = np.full((n, width), -1)
    if n and columns is not None and names.groups is not None:
        group = names.groups.codes(columns)
        same_length(X=y, sensitive_features=group)
    return Rows(values, y, group, weight, names, cluster=cluster)


def _check_parts(rows: Any, name: str) -> None:
    parts = rows if isinstance(rows, tuple | list) else ()
    if len(parts) not in (3, 4) or any(part is None for part in parts[:3]):
        raise ValueError(
            f"{name} must be a tuple (X, y, sensitive_features) or (X, y, sensitive_features, "
            f"sample_weight); received {sum(part is not None for part in parts)} parts."
        )


def _is_plain(X: Any) -> bool:
    """Whether X is an array of rows exactly as needed, all of them finite."""
    if type(X) is not np.ndarray or X.dtype != np.float64 or X.ndim != 2 or X.size == 0 or not X.flags.c_contiguous:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(X.sum()))


def _n_rows(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


@contextmanager
def _speaking_of(what: str) -> Iterator[None]:
    """Say in errors which of several inputs is meant."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from error
