"""FairClassifier: the learners behind scikit-learn's interface.

The estimator checks what comes in, and every refusal happens before anything has changed; what it learns is a ``Fit``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from numbers import Real
from typing import Any, Self

import numpy as np
import pandas as pd
from joblib import effective_n_jobs
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from surefair.criteria import Criterion, Slabs, get_criterion
from surefair.diagnostics import Diagnostic, LateGroup, Runs, check_near, check_order, issue
from surefair.inference.interval import (
    BOOTSTRAP_METHODS,
    METHODS,
    SOURCES,
    Interval,
    check_level,
    check_replicate_number,
    compared_rates,
    get_metric,
    make_interval,
    rates_of,
    reweigh,
    settled,
)
from surefair.inference.sources import Tally
from surefair.learners.multipliers import LAWS, SIGNED_LAWS, Multipliers
from surefair.learners.schedules import PolynomialDecay
from surefair.losses import LOSSES
from surefair.names import one_of
from surefair.rows.arrays import (
    CodedColumn,
    FloatArray,
    as_column,
    as_columns,
    as_table,
    as_weight,
    is_sparse,
    make_frame,
    same_length,
    some_weight,
    with_intersection,
)
from surefair.rows.groups import Census, Groups, Levels, mapped, together
from surefair.training import checks as doubts
from surefair.training.model import COVARIANCE_METHODS, Fit, Learn, Problem, Rows, begin, check_dense, fit_all

DTYPES = ["float64", "float32"]


class FairClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Linear classifier trained in one pass under a fairness criterion, with intervals for its unfairness.

    Beside the fit run bootstrap replicates: copies of the same pass whose gradients are multiplied by random weights
    of mean 1 and variance 1. Their spread imitates the randomness of training, at any moment of the stream.

    Parameters
    ----------
    criterion : str, Criterion or None, default="demographic_parity"
        What is to be equal between the groups; None for no constraint.
    loss : {"log_loss", "squared_error"}, default="log_loss"
        "squared_error" is the squared error on one-hot labels.
    tolerance : float, default=0.0
        ε: how far from 0 the covariance of group and margin may be, where the criterion constrains.
    penalty : float, default=1.0
        R₂: the weight of the penalty, where the criterion penalises.
    alpha : float, default=1e-4
        κ of the ridge term κ‖θ‖²/2. With ``step_size="auto"`` it is on the coefficients in its coordinates.
    step_size : "auto" or PolynomialDecay, default="auto"
        "auto": coordinates in which the loss curves alike in all directions, a start at the optimum of the constraint
        set, steps that cannot overshoot.
        A ``PolynomialDecay`` is the published algorithm to the letter, from θ = 0 by explicit steps.
    n_replicates : int, default=200
        Bootstrap replicates; 0 fits without intervals.
    multiplier : {"two_point", "uniform", "exponential", "normal", "poisson"}, default="two_point"
        Law of the replicates' weights.
    n_constraint : int, default=1000
        Rows set apart as constraint set when none is given: the first of the stream, in ``fit`` a fifth of all rows at
        most.
    fit_intercept : bool, default=True
        Add a column of ones, regularised like the rest.
    random_state : int, RandomState or None, default=None
        Seed of the weights.
    n_jobs : int or None, default=None
        Threads. They do not change the result by a single bit.
    sharpness : float or None, default=None
        τ of a smooth penalty: softplus(-τm)/τ stands for the kink max(0, -m). None for the kink itself.
    intersections : bool, default=False
        With several sensitive columns: let their intersection be a further one.
    feature_map : transformer or None, default=None
        Any scikit-learn transformer φ of arrays that needs no labels, for example ``RBFSampler``, for a classifier
        that is linear in φ(x). A clone of it is fitted on the constraint set and then kept.
    dtype : {"float64", "float32"}, default="float64"
        Precision of what is kept of every replicate while rows are learnt from. "float32" takes 0.6 to 0.7 of the
        time, not less memory, for dense rows and criteria that constrain (or None). It moves coefficients, of the fit
        and of replicates, by about 1e-4 of a bootstrap standard deviation after 20,000 rows and 1e-3 after a million;
        long sums and all that is asked of a fit stay in double precision. Use it where there are many replicates or
        features; keep "float64" where results are to agree to more digits than that.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Labels; the second is the positive one.
    groups_ : ndarray, dict of ndarray or None
        Groups, sorted; by column where the sensitive columns came with names.
    group_counts_ : data frame
        Every group, with its rows so far and those in the constraint set.
    coef_, intercept_ : ndarray of shape (1, n_features), (1,)
        The averaged fit.
    coef_replicates_, intercept_replicates_ : ndarray of shape (n_replicates, n_features), (n_replicates,)
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where the features came with names.
    n_rows_ : int
        Rows trained on; the rows of the constraint set are not among them.

    Examples
    --------
    >>> import surefair as sf
    >>> train, test = sf.datasets.SyntheticDI(seed=0).sample(5_000), sf.datasets.SyntheticDI(seed=1).sample(2_000)
    >>> clf = sf.FairClassifier(random_state=0).fit(train.X, train.y, sensitive_features=train.sensitive)
    >>> interval = clf.fairness_interval(test.X, test.y, sensitive_features=test.sensitive)
    >>> round(interval.estimate, 2), round(interval.low, 2), round(interval.high, 2)
    (0.03, 0.0, 0.11)
    """

    def __init__(
        self,
        criterion: str | Criterion | None = "demographic_parity",
        loss: str = "log_loss",
        tolerance: float = 0.0,
        penalty: float = 1.0,
        alpha: float = 1e-4,
        step_size: str | PolynomialDecay = "auto",
        n_replicates: int = 200,
        multiplier: str = "two_point",
        n_constraint: int = 1000,
        fit_intercept: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
        sharpness: float | None = None,
        intersections: bool = False,
        feature_map: Any = None,
        dtype: str = "float64",
    ) -> None:
        self.criterion = criterion
        self.loss = loss
        self.tolerance = tolerance
        self.penalty = penalty
        self.alpha = alpha
        self.step_size = step_size
        self.n_replicates = n_replicates
        self.multiplier = multiplier
        self.n_constraint = n_constraint
        self.fit_intercept = fit_intercept
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.sharpness = sharpness
        self.intersections = intersections
        self.feature_map = feature_map
        self.dtype = dtype

    _fit: Fit | None
    _waiting: Rows | None  # the first rows of a stream, while D' fills
    _census: Census | None  # the groups seen so far, and their rows; None where none were given
    _runs: Runs  # how often neighbours in the stream differ
    _doubts: tuple[int, list[Diagnostic]]  # what the fit is warned of at questions, and after how many rows

    # -- Training ---------------------------------------------------------------------------------------------------

    def fit(
        self, X: Any, y: Any, *, sensitive_features: Any = None, constraint_set: Any = None, sample_weight: Any = None
    ) -> Self:
        """Train in one pass over the rows, in the order given.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), data frame or sparse matrix
            Sparse rows are learnt from in work that does not grow with the number of features.
        y : array-like of shape (n_rows,)
            Labels, two values of any type.
        sensitive_features : array-like of shape (n_rows,), data frame or dict of columns, optional
            Group of each row, two or more values of any type; several columns are each constrained. Without groups
            there is nothing to compare: the fit is then unconstrained, whatever the criterion.
        constraint_set : tuple (X, y, sensitive_features) or (X, y, sensitive_features, sample_weight), optional
            Rows of their own on which the constraint is imposed. By default the first rows are set apart.
        sample_weight : array-like of shape (n_rows,), optional
            A row of twice the weight takes a step twice as long. Only the weights' ratios matter.

        Returns
        -------
        self
        """
        return self._trained(X, y, sensitive_features, constraint_set, sample_weight, Fit.learn)

    def _trained(
        self, X: Any, y: Any, sensitive_features: Any, constraint_set: Any, sample_weight: Any, learn: Learn
    ) -> Self:
        """Fit, with rows taken in by ``Fit.learn`` or what does the same elsewhere."""
        new = copy(self)
        rows, given = new._declare(X, y, sensitive_features, constraint_set, None, sample_weight)
        if len(new.classes_) == 1:
            raise ValueError(
                f"Classifier can't train when only one class is present: exactly two labels are needed, received "
                f"{new.classes_.tolist()}."
            )
        some_weight(rows.weight, "to learn from")
        n_threads = effective_n_jobs(self.n_jobs)
        new._fit = fit_all(new._problem(), rows, given, self.n_constraint, n_threads, learn)
        if new._fit.weight == 0.0:
            raise ValueError(
                "sample_weight is zero in every row that is left to train on beside the constraint set. Shuffle the "
                "rows, or pass a constraint_set."
            )
        found = [*doubts.of_constraint_set(new._fit), *doubts.of_divergence(new._fit), *new._clumps()]
        issue(found, stacklevel=3)
        return self._become(new)

    def partial_fit(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        classes: Any = None,
        constraint_set: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Go on with the pass: the next rows of the stream.

        The first call declares: ``classes`` all labels (or they are taken from y, which then must show both), and
        ``constraint_set`` the constraint set (or the first ``n_constraint`` rows of the stream become it; until there
        are as many, questions are answered from the rows so far). A group that first appears after the constraint set
        is complete is not constrained: it is counted, can be measured, and a warning says so.

        Parameters
        ----------
        X, y, sensitive_features, sample_weight
            As in ``fit``. An empty batch changes nothing.
        classes : array-like of shape (2,), optional
        constraint_set : tuple, optional
            As in ``fit``.

        Returns
        -------
        self
        """
        new = copy(self)
        if _n_rows(X) == 0 and constraint_set is None:
            return self
        if not hasattr(self, "classes_"):
            rows, given = new._declare(X, y, sensitive_features, constraint_set, classes, sample_weight)
            if len(new.classes_) == 1:
                raise ValueError(
                    f"The first batch shows the label {new.classes_.tolist()[0]!r} only. "
                    "Pass classes= with both labels in the first call to partial_fit."
                )
            if given is not None:
                new._fit = begin(new._problem(), given)
                issue(doubts.of_constraint_set(new._fit), stacklevel=2)
        else:
            if constraint_set is not None:
                raise ValueError("constraint_set can only be given in the first call to partial_fit.")
            if classes is not None and not np.array_equal(np.unique(as_column(classes, "label")), self.classes_):
                raise ValueError(f"classes={list(classes)!r} differs from the first call's {self.classes_.tolist()}.")
            rows = new._check_rows(X, y, sensitive_features, sample_weight, stream=True)
            new._runs = new._runs.after(rows.y > 0.0, rows.group)
        if new._fit is None:
            rows = rows if new._waiting is None else new._waiting.followed_by(rows)
            if rows.n < self.n_constraint:
                new._waiting = rows.copy()
                return self._become(new)
            new._waiting, new._fit = None, new._begin(rows.part(0, self.n_constraint))
            issue(doubts.of_constraint_set(new._fit), stacklevel=2)
            rows = rows.part(self.n_constraint)
        new._fit = new._fit.learn(rows, effective_n_jobs(self.n_jobs))
        issue(doubts.of_divergence(new._fit), stacklevel=2)
        return self._become(new)

    def merge(self, other: FairClassifier) -> Self:
        """Take in another shard's fit: averages weighted by rows.

        Both must be fits of the same problem: the same parameters, classes, groups and constraint set. The average of
        fits on disjoint shards has the same limit law as one pass over all rows, and so has each replicate. Give every
        shard a ``random_state`` of its own, so that their replicates are independent. Shards must be long: each has its
        own start to forget, and what is left of it does not average out. A merged fit warns of that at questions
        (``StartNotForgotten``): its intervals are then too narrow, and fewer, longer shards are needed.

        Parameters
        ----------
        other : FairClassifier

        Returns
        -------
        self
        """
        check_is_fitted(self)
        check_is_fitted(other)
        if self._fit is None or other._fit is None:
            raise ValueError("Both fits must have their constraint set complete before they can be merged.")
        mine, theirs = self._fit.problem.params, other._fit.problem.params
        free = {"n_jobs", "random_state", "feature_map"}
        differ = [name for name in mine if name not in free and mine[name] != theirs[name]]
        learnt = ("classes_", "n_features_in_", "feature_names_in_")
        differ += [name for name in learnt if not _same(getattr(self, name, None), getattr(other, name, None))]
        if not _same_groups(self._fit.problem.groups, other._fit.problem.groups):
            differ.append("groups")
        if not differ and not all(map(_same, self._fit.constraint_set, other._fit.constraint_set)):
            differ.append("constraint_set")
        if not differ and not _same(*(fit.features(fit.constraint_set.X) for fit in (self._fit, other._fit))):
            differ.append("feature_map (give it a random_state)")
        if differ:
            raise ValueError(
                f"The fits are of different problems: {', '.join(differ)} differ. Fit every shard with the same "
                "parameters and pass the same constraint_set to each."
            )
        states = zip(self._fit.state, other._fit.state, strict=True)
        if self.seed_ == other.seed_ and self._fit.state.k > 0 and all(_same(a, b) for a, b in states):
            raise ValueError("Both are the same fit of the same rows: merging them would count every row twice.")
        self._fit = self._fit.merged(other._fit)
        self._census = None if self._census is None or other._census is None else self._census.merged(other._census)
        self._runs = self._runs.merged(other._runs)
        return self

    # -- What was learnt --------------------------------------------------------------------------------------------

    @property
    def coef_(self) -> FloatArray:
        """Coefficients of the averaged fit, shape (1, n_features)."""
        fit = self._answer()
        return fit.split(fit.alone)[0].T

    @property
    def intercept_(self) -> FloatArray:
        """Intercept of the averaged fit, shape (1,)."""
        fit = self._answer()
        return fit.split(fit.alone)[1]

    @property
    def coef_replicates_(self) -> FloatArray:
        """Coefficients of the replicates, shape (n_replicates, n_features)."""
        fit = self._answer()
        return fit.split(fit.theta)[0][:, 1:].T

    @property
    def intercept_replicates_(self) -> FloatArray:
        """Intercepts of the replicates, shape (n_replicates,)."""
        fit = self._answer()
        return fit.split(fit.theta)[1][1:]

    @property
    def n_rows_(self) -> int:
        """Rows trained on."""
        return int(self._answer().state.k)

    @property
    def groups_(self) -> Any:
        """Groups seen so far: an array, or one for each column where the sensitive columns came with names."""
        check_is_fitted(self)
        return None if self._census is None else self._census.groups.public

    @property
    def group_counts_(self) -> Any:
        """One row per group: group, n (its rows so far), n_constraint (those in the constraint set), constrained."""
        check_is_fitted(self)
        if self._census is None:
            raise AttributeError("This fit had no sensitive_features, so it has no groups to count.")
        problem, rows = self._set_apart()
        assert problem.groups is not None
        apart, groups = Census.of(problem.groups).counted(rows.group), self._census.groups
        known = dict(zip(problem.groups.labels, apart.listed, strict=True))
        table = groups.table() | {
            "n": self._census.listed,
            "n_constraint": [known.get(label, 0) for label in groups.labels],
            "constrained": [problem.criterion is not None and label in known for label in groups.labels],
        }
        return make_frame(table, like=self.backend_)

    def decision_function(self, X: Any) -> FloatArray:
        """Margin θᵀx of each row; positive means the positive class.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features) or data frame

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        check_is_fitted(self)
        fit, values = self._answer(), self._check_features(X, reset=False)
        coef, intercept = fit.split(fit.alone)
        return np.asarray(mapped(fit.feature_map, values) @ coef[:, 0] + intercept[0])

    def predict(self, X: Any) -> NDArray[Any]:
        """Label of each row.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features) or data frame

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        margin = self.decision_function(X)
        return np.asarray(self.classes_[(margin > 0.0).astype(np.int64)])

    def predict_proba(self, X: Any) -> FloatArray:
        """Estimated probability of each class.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features) or data frame

        Returns
        -------
        ndarray of shape (n_rows, 2)
        """
        positive = self._answer().problem.loss.probability(self.decision_function(X))
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
    ) -> Interval:
        """Confidence interval for the unfairness, measured on held-out rows.

        The interval is for one look: looking again and again at a stream until an interval excludes a value finds one
        that wrongly does far more often than its level says.

        Parameters
        ----------
        X, y, sensitive_features
            Evaluation rows, independent of those trained on and of the constraint set. The sensitive columns may be
            other ones than those constrained.
        metric : str, Criterion or None
            What to measure, whatever was enforced; by default the criterion of the fit. A name with "_ratio" after it
            compares by ratios.
        confidence_level : float
        source : {"total", "training", "retraining", "evaluation"}
            Which uncertainty the interval covers: of training, of the evaluation rows, or of both.
        method : {"percentile", "basic", "normal", "cheap", "paper"}
            How replicates become limits. "percentile" takes quantiles of the gaps of replicates mirrored at the fit,
            which frees them from the bias of its steps. "cheap" is valid with ``n_replicates`` from 2 up, and wide with
            few. "paper" is the published version, for reproduction only.
        sample_weight : array-like of shape (n_rows,), optional

        Returns
        -------
        Interval
        """
        check_is_fitted(self)
        get_metric(metric or self.criterion or "demographic_parity")
        one_of(source, SOURCES, "source")
        one_of(method, METHODS, "method")
        check_level(confidence_level)
        fit = self._replicated()
        rows, groups = self._measured(X, y, sensitive_features, sample_weight)
        tally = Tally.of(fit, rows, groups, (source,), method, self.seed_, effective_n_jobs(self.n_jobs))
        return self._interval(fit, tally, metric, confidence_level, source)

    def tally(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any,
        sources: str | Sequence[str] = tuple(SOURCES),
        method: str = "percentile",
        sample_weight: Any = None,
    ) -> Tally:
        """Count what intervals need of some evaluation rows; tallies of several parts of the rows add.

        For source "total" each part is cut into halves, at random: parts should be of many rows, not of a few.

        Parameters
        ----------
        X, y, sensitive_features, method, sample_weight
            As in ``fairness_interval``. There may be rows of one group only, or none.
        sources : str or sequence of str
            Those that will be asked for.

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
        0.03
        """
        check_is_fitted(self)
        sources = (sources,) if isinstance(sources, str) else tuple(sources)
        if not sources:
            raise ValueError("No source is named. Name one or more, or leave sources out for all of them.")
        for source in sources:
            one_of(source, SOURCES, "source")
        one_of(method, METHODS, "method")
        fit = self._replicated()
        rows, groups = self._rows_and_groups(X, y, sensitive_features, sample_weight)
        tally = Tally.of(fit, rows, groups, sources, method, self.seed_, effective_n_jobs(self.n_jobs))
        return replace(tally, model=fit.fingerprint)

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
            Of this classifier, as it is now.
        metric, confidence_level, source
            As in ``fairness_interval``.

        Returns
        -------
        Interval
        """
        check_level(confidence_level)
        fit = self._replicated()
        if tally.n_rows != fit.state.k:
            raise ValueError(
                f"The tally is of a fit of {tally.n_rows:,} rows, and this one is of {fit.state.k:,}. Count the "
                "evaluation rows again."
            )
        if tally.model != fit.fingerprint:
            raise ValueError(f"The tally is of another fit of {tally.n_rows:,} rows. Count the evaluation rows again.")
        tally.groups.check_comparable()
        if not tally.of_fit.rows.any():
            raise ValueError("There are no evaluation rows. Count at least one row of each group.")
        some_weight(tally.of_fit.weight, "to count")
        return self._interval(fit, tally, metric, confidence_level, source)

    def _interval(
        self, fit: Fit, tally: Tally, metric: str | Criterion | None, confidence_level: float, source: str
    ) -> Interval:
        """Interval from counts; it warns at the caller's caller."""
        criterion, ratio = get_metric(metric or self.criterion or "demographic_parity")
        rates, groups, counts, trained = compared_rates(criterion, ratio), tally.groups, tally.counts(source), None
        if len(halves := tally.parts[source]) == 2:
            trained = settled(rates_of(rates, counts), np.stack([rates_of(rates, half) for half in halves]), groups)
        weighted = source in ("evaluation", "total")
        rates_b = reweigh(rates, counts, self.seed_, trained) if weighted else rates_of(rates, counts)[1:]
        found = [] if source == "evaluation" else self._found(fit)
        if fit.finite and not weighted:
            found += check_near(int(tally.near[:, 1].sum()))
        known = None if self._census is None else self._census.groups
        return make_interval(
            criterion, counts.of(0), rates_b, groups, ratio=ratio, source=source, method=tally.method,
            confidence_level=confidence_level, trained=trained, n_training=int(fit.state.k), like=self.backend_,
            trouble="" if fit.finite else doubts.DIVERGED, stacklevel=4,
            positive=self.classes_.tolist()[1], notes=_unseen(groups, known, "not seen in training"), found=found,
        )  # fmt: skip

    def coef_interval(self, confidence_level: float = 0.95, method: str = "basic") -> Any:
        """Confidence intervals for the coefficients of the optimum, each for itself.

        The optimum is that under the constraint set as it was drawn. In a small one, features that mean nothing
        correlate with groups by chance, and a constraint then truly gives them coefficients other than 0.

        Parameters
        ----------
        confidence_level : float
        method : {"basic", "percentile", "normal", "cheap", "plug_in", "random_scaling"}
            How replicates become limits: by their quantiles mirrored at the estimate, which takes away the bias that
            steps leave; by the quantiles themselves; by their standard deviation; or by their distance from the
            estimate and Student's t law, which is valid with ``n_replicates`` from 2 up.
            The last two need no replicates, but dense rows in double precision with 128 features at most. "plug_in"
            is the sandwich of Hessian and scores met on the way. "random_scaling" compares the final average with the
            averages on the way; it needs iterates that forget within few of the rows (see
            ``covariances.random_scaling``), and warns where it is still too narrow.

        Returns
        -------
        data frame
            One row per feature, then the intercept: feature, estimate, low, high, excludes_zero. In the library of the
            training data (pandas for arrays).
        """
        check_level(confidence_level)
        one_of(method, (*BOOTSTRAP_METHODS, *COVARIANCE_METHODS), "method")
        check_is_fitted(self)
        fit = self._answer() if method in COVARIANCE_METHODS else self._replicated()
        estimate, (low, high) = fit.alone, fit.limits(confidence_level, method)
        found = self._found(fit)
        if method in BOOTSTRAP_METHODS:
            found += check_replicate_number(fit.problem.n_replicates, confidence_level, method)
        if method == "random_scaling":
            found += doubts.of_random_scaling(fit)
        issue(found, stacklevel=2)
        names = list(getattr(self, "feature_names_in_", [f"x{i}" for i in range(self.n_features_in_)]))
        if fit.feature_map is not None:
            named = hasattr(fit.feature_map, "get_feature_names_out")
            count = len(fit.split(estimate)[0])
            names = list(fit.feature_map.get_feature_names_out(names)) if named else [f"map{i}" for i in range(count)]
        if fit.problem.fit_intercept:
            names.append("intercept")
        tiny = 1e-12 * np.abs(estimate).max(initial=0.0)  # a coefficient that cannot move is 0 but for rounding
        columns = {
            "feature": [str(name) for name in names],
            "estimate": estimate[:, 0].tolist(),
            "low": low.tolist(),
            "high": high.tolist(),
            "excludes_zero": ((low > tiny) | (high < -tiny)).tolist(),
        }
        return make_frame(columns, like=self.backend_)

    # -- Checks at the boundary --------------------------------------------------------------------------------------

    def _declare(
        self, X: Any, y: Any, sensitive_features: Any, constraint_set: Any, classes: Any, sample_weight: Any
    ) -> tuple[Rows, Rows | None]:
        """Check parameters and the first rows; set classes_, the groups, the seed and the features' names."""
        self._check_parameters()
        values, labels, apart = self._check_features(X, reset=True), self._check_labels(y), None
        check_dense(values, self.dtype)
        self._census = self._waiting = self._fit = None
        self._doubts = (-1, [])
        columns = None if sensitive_features is None else self._columns(sensitive_features)
        if columns is not None:
            self._take_groups(columns)
        if constraint_set is not None:
            _check_parts(constraint_set)
            with _speaking_of("constraint_set"):
                apart = self._check_labels(constraint_set[1]), self._columns(constraint_set[2])
                self._take_groups(apart[1])
        found = [labels.found] if apart is None else [labels.found, apart[0].found]
        declared = together(found, "label") if classes is None else as_column(classes, "label")
        self.classes_ = Levels.of(declared, "label").values
        if classes is not None and len(self.classes_) != 2:
            raise ValueError(f"classes must hold both labels; received {list(classes)!r}.")
        if len(self.classes_) > 2:
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {type_of_target(declared)}: "
                f"exactly two labels are needed, received {len(self.classes_)}."
            )
        rows, given = self._coded(values, labels, columns, sample_weight), None
        if apart is not None:
            with _speaking_of("constraint_set"):
                given = self._coded(self._check_features(constraint_set[0], reset=False), *apart, *constraint_set[3:])
                given = given._replace(X=csr_matrix(given.X) if is_sparse(rows.X) else given.X)
        if self._census is not None and columns is not None:
            self._census = self._census.counted(rows.group)
        self._runs = Runs.of(0 if self._census is None else len(self._census.rows)).after(rows.y > 0.0, rows.group)
        self.seed_ = _seed(self.random_state)
        return rows, given

    def _check_parameters(self) -> None:
        """Refuse parameters that mean nothing."""
        if self.criterion is not None:
            get_criterion(self.criterion)
        one_of(self.loss, LOSSES, "loss")
        one_of(self.multiplier, LAWS, "multiplier")
        if isinstance(self.step_size, str):
            one_of(self.step_size, ["auto"], "step_size")
        elif not isinstance(self.step_size, PolynomialDecay):
            raise ValueError(
                f"step_size must be 'auto' or a schedule such as sf.PolynomialDecay(0.5, 0.6); received "
                f"{self.step_size!r}."
            )
        penalised = self.criterion is not None and get_criterion(self.criterion).form is not Slabs
        if penalised and self.step_size == "auto" and self.multiplier in SIGNED_LAWS:
            raise ValueError(
                f"multiplier={self.multiplier!r} has negative weights, with which the implicit penalty step of "
                "step_size='auto' is not defined. Use 'two_point', 'exponential' or 'poisson'."
            )
        one_of(self.dtype, DTYPES, "dtype")
        if penalised and self.dtype != "float64":
            raise ValueError(
                f"dtype={self.dtype!r} is for criteria that constrain; received criterion={self.criterion!r}, which "
                "penalises, and double precision is needed to tell on which side of a kink a replicate is. Use "
                "dtype='float64', or a criterion such as 'demographic_parity'."
            )
        for name in ("fit_intercept", "intersections"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise ValueError(f"{name} must be True or False; received {getattr(self, name)!r}.")
        if self.sharpness is not None and not (isinstance(self.sharpness, Real) and 0.0 < self.sharpness < np.inf):
            raise ValueError(f"sharpness must be None or a positive number; received {self.sharpness!r}.")
        transforms = hasattr(self.feature_map, "transform") and not isinstance(self.feature_map, type)
        if self.feature_map is not None and not transforms:
            raise ValueError(
                f"feature_map must be a scikit-learn transformer, such as RBFSampler(); received {self.feature_map!r}."
            )
        for name in ("tolerance", "penalty", "alpha"):
            value = getattr(self, name)
            if not (isinstance(value, Real) and 0.0 <= float(value) < np.inf):
                raise ValueError(f"{name} must be a number, 0 or larger; received {value!r}.")
        for name, least in (("n_replicates", 0), ("n_constraint", 1)):
            value = getattr(self, name)
            if not (isinstance(value, int | np.integer) and value >= least):
                raise ValueError(f"{name} must be a whole number, {least} or larger; received {value!r}.")

    def _check_features(self, X: Any, reset: bool) -> Any:
        """Features as a finite float64 array or CSR matrix whose columns are those of the first call."""
        table = as_table(X) if hasattr(X, "columns") else None
        if table is not None:
            X = table.values if table.names is None else pd.DataFrame(table.values, columns=table.names, copy=False)
        if reset:
            self.backend_ = "pandas" if table is None else table.backend
        if not hasattr(self, "feature_names_in_") and _plain(X):  # as validate_data would, with less ado
            if reset:
                self.n_features_in_ = X.shape[1]
            if X.shape[1] == self.n_features_in_:
                return X
        checked = validate_data(
            self, X, reset=reset, dtype=np.float64, order="C", accept_sparse="csr", ensure_min_samples=int(reset)
        )
        if table is not None:
            return table.values  # the same numbers, which a frame shows read-only
        if is_sparse(checked) and not checked.has_canonical_format:
            checked = checked.copy()  # it may be the caller's own
            checked.sum_duplicates()
        return checked

    def _check_labels(self, y: Any) -> CodedColumn:
        """Labels as one column of a type that can be a class."""
        if y is None:
            raise ValueError("This FairClassifier estimator requires y to be passed, but the target y is None.")
        labels = CodedColumn.of(column_or_1d(y, warn=True) if getattr(y, "ndim", 1) == 2 else y, "label")
        if labels.found.dtype.kind == "f":
            if np.isinf(labels.found).any():
                raise ValueError("Input y contains infinity. Labels are two values, such as 0 and 1.")
            check_classification_targets(labels.found if len(labels.found) <= 2 else labels.values)
        return labels

    def _check_rows(
        self, X: Any, y: Any, sensitive_features: Any, sample_weight: Any = None, stream: bool = False
    ) -> Rows:
        """Check rows against what was declared; in a stream, new groups may appear, and rows are counted."""
        values, labels = self._check_features(X, reset=False), self._check_labels(y)
        columns = None if sensitive_features is None else self._columns(sensitive_features)
        return self._coded(values, labels, columns, sample_weight, stream)

    def _coded(
        self, values: Any, labels: CodedColumn, columns: Any, sample_weight: Any = None, stream: bool = False
    ) -> Rows:
        """Code rows whose parts are checked, each by itself."""
        n = same_length(X=range(values.shape[0]), y=labels.code)
        weight = as_weight(sample_weight, n)
        weight = np.ones(n) if weight is None else weight
        width = 0 if self._census is None else len(self._census.rows)
        if n == 0:
            return Rows(values, np.empty(0), np.empty((0, width), dtype=np.int64), weight)
        signs = np.where(Levels(self.classes_, "label").codes(labels.found) == 1, 1.0, -1.0)[labels.code]
        if columns is None:
            if stream and self._census is not None and self._fit is None:
                raise ValueError(
                    "sensitive_features is missing, and the constraint set is still being filled from the stream "
                    f"({self.n_constraint} rows are needed). Pass the group of every row until it is full."
                )
            return Rows(values, signs, np.full((n, width), -1), weight)
        if self._census is None:
            raise ValueError("The first call had no sensitive_features; fit afresh to bring them in.")
        if stream:
            before = self._census.groups
            self._take_groups(columns)
            self._runs = self._runs.recoded(self._census.groups.recode(before))
        codes = self._census.groups.codes(columns)
        same_length(X=signs, sensitive_features=codes)
        if stream:
            self._census = self._census.counted(codes)
        return Rows(values, signs, codes, weight)

    def _columns(self, sensitive_features: Any, measured: bool = False) -> Any:
        """Sensitive columns by name, in the order of those declared, as the names of intersections depend on it."""
        declared = () if self._census is None else self._census.groups.levels
        columns = as_columns(sensitive_features, order=declared)
        wanted = self.intersections and not (measured and len(columns) == 1)  # one column can be measured by itself
        return with_intersection(columns) if wanted else columns

    def _take_groups(self, columns: Any) -> None:
        """Add the groups of these columns to those known; rows that wait for D' to fill are coded anew."""
        before = self._census
        if before is None:
            found = Groups.of(columns)
            self._census = Census.of(found if self.criterion is None else found.check_few())
            return
        groups = before.groups.joined(columns)
        self._census = before.joined(groups if self.criterion is None else groups.check_few())
        if self._waiting is not None:
            recoded = zip(self._census.groups.recode(before.groups), self._waiting.group.T, strict=True)
            self._waiting = self._waiting._replace(group=np.stack([codes[old] for codes, old in recoded], axis=1))
        if self._fit is not None and self.criterion is not None:
            warn_if_late(self._census.groups, before.groups, stacklevel=6)

    def _begin(self, constraint_set: Rows) -> Fit:
        """Fit of a stream before its first row: groups that D' lacks are late, in whichever batch they come."""
        problem = self._problem()
        if problem.groups is not None and problem.criterion is not None:
            found, codes = problem.groups.among(constraint_set.group)
            if min(found.sizes) > 1:  # otherwise begin says what is wrong
                warn_if_late(problem.groups, found, stacklevel=4)
                problem, constraint_set = replace(problem, groups=found), constraint_set._replace(group=codes)
        return begin(problem, constraint_set)

    def _begun(self, constraint_set: Any) -> Self:
        """Return a copy that has its constraint set, and no rows yet."""
        new = copy(self)
        _check_parts(constraint_set)
        with _speaking_of("constraint_set"):
            X, y, sensitive_features, *weight = constraint_set
            rows, _ = new._declare(X, y, sensitive_features, None, None, *(weight or [None]))
            if len(new.classes_) == 1:
                raise ValueError(f"It must hold both labels; received {new.classes_.tolist()} only.")
        new = new._uncounted()
        new._fit = begin(new._problem(), rows)
        issue(doubts.of_constraint_set(new._fit), stacklevel=3)
        return new

    def _uncounted(self) -> Self:
        """Return a copy that knows the same groups, and has counted none of their rows."""
        new = copy(self)
        assert new._census is not None
        new._census, new._runs = Census.of(new._census.groups), Runs.of(len(new._census.rows))
        return new

    def _reseeded(self, random_state: int) -> Self:
        """Return a copy of what has begun, with another seed."""
        assert self._fit is not None
        new = copy(self)
        new.random_state, new.seed_ = random_state, _seed(random_state)
        new._fit = self._fit.reseeded(new.seed_)
        return new

    # -- Small things ------------------------------------------------------------------------------------------------

    def _problem(self, params: dict[str, Any] | None = None) -> Problem:
        """Return the parameters with names looked up; without groups there is no constraint."""
        params = self.get_params(deep=False) if params is None else params
        groups = None if self._census is None else self._census.groups
        free = params["criterion"] is None or groups is None
        return Problem(
            criterion=None if free else get_criterion(params["criterion"]),
            groups=groups,
            loss=LOSSES[params["loss"]],
            tolerance=float(params["tolerance"]),
            penalty=float(params["penalty"]),
            sharpness=None if params["sharpness"] is None else float(params["sharpness"]),
            alpha=float(params["alpha"]),
            schedule=params["step_size"] if isinstance(params["step_size"], PolynomialDecay) else None,
            n_replicates=int(params["n_replicates"]),
            multipliers=Multipliers(params["multiplier"], self.seed_),
            fit_intercept=bool(params["fit_intercept"]),
            dtype=params["dtype"],
            feature_map=params["feature_map"],
            params=params,
        )

    def _answer(self) -> Fit:
        """Fit to answer questions from: the stream's own, or one of the rows so far while all of them went into D'."""
        check_is_fitted(self)
        if self._fit is not None and self._fit.state.k > 0:
            return self._fit
        problem, rows = self._set_apart()
        try:
            return fit_all(problem, rows, None, self.n_constraint, effective_n_jobs(self.n_jobs))
        except ValueError as error:
            raise NotFittedError(f"{rows.n} rows are too few to answer yet. {error}") from error

    def _set_apart(self) -> tuple[Problem, Rows]:
        """Return the problem, and the rows that are, or are to become, its constraint set."""
        if self._fit is not None:
            return self._fit.problem, self._fit.constraint_set
        assert self._waiting is not None
        return self._problem(), self._waiting

    def _replicated(self) -> Fit:
        """Fit to answer questions about uncertainty from."""
        fit = self._answer()
        if fit.problem.n_replicates < 2:
            raise ValueError(
                f"An interval needs replicates, and this classifier has n_replicates={fit.problem.n_replicates}. "
                "Fit with n_replicates=200, say."
            )
        return fit

    def _found(self, fit: Fit) -> list[Diagnostic]:
        """What to warn of at a question about training; worked out once for a number of rows."""
        if fit is not self._fit:  # one of the rows so far, for this question only
            return [*doubts.of_training(fit), *self._clumps()]
        if self._doubts[0] != fit.state.k:
            self._doubts = int(fit.state.k), doubts.of_training(fit)
        return [*self._doubts[1], *self._clumps()]

    def _clumps(self) -> list[Diagnostic]:
        """Warn of a stream whose rows do not seem to be in random order."""
        census = self._census
        return check_order(self._runs, census.rows if census else (), [*census.groups.levels] if census else [])

    def _population(self, X: Any, y: Any, sample_weight: Any) -> tuple[Fit, Rows]:
        """Return the fit, and checked rows; for ``theory``."""
        check_is_fitted(self)
        rows = self._check_rows(X, y, None, sample_weight)
        some_weight(rows.weight, "of the population")
        return self._answer(), rows

    def _measured(self, X: Any, y: Any, sensitive_features: Any, sample_weight: Any) -> tuple[Rows, Groups]:
        """Return checked rows to measure an unfairness on, and the groups to compare."""
        rows, groups = self._rows_and_groups(X, y, sensitive_features, sample_weight)
        groups.check_comparable()
        if rows.n == 0:
            raise ValueError("There are no evaluation rows. Pass at least one row of each group.")
        some_weight(rows.weight, "to count")
        return rows, groups

    def _rows_and_groups(self, X: Any, y: Any, sensitive_features: Any, sample_weight: Any) -> tuple[Rows, Groups]:
        """Return checked rows, which may be too few to compare groups, and the groups."""
        if sensitive_features is None:
            raise ValueError("sensitive_features is needed: an unfairness is a difference between groups.")
        columns = self._columns(sensitive_features, measured=True)
        known = None if self._census is None else self._census.groups
        groups = Groups.of(columns) if known is None else known.measured_by(columns)
        rows = self._check_rows(X, y, None, sample_weight)
        codes = groups.codes(columns)
        same_length(X=rows.y, sensitive_features=codes)
        return rows._replace(group=codes), groups

    def _become(self, other: Self) -> Self:
        """Take over the state of a copy that went on, all at once; nothing in a state is ever changed in place."""
        self.__dict__.update(other.__dict__)
        if not hasattr(other, "feature_names_in_"):
            self.__dict__.pop("feature_names_in_", None)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classes_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = self.dtype != "float32"
        return tags


def _seed(random_state: Any) -> int:
    return int(check_random_state(random_state).randint(0, 2**63 - 1, dtype=np.int64))


def _same(a: Any, b: Any) -> bool:
    if is_sparse(a) and is_sparse(b):
        return bool(a.shape == b.shape and (a != b).nnz == 0)
    return not is_sparse(a) and not is_sparse(b) and bool(np.array_equal(a, b))


def _same_groups(a: Groups | None, b: Groups | None) -> bool:
    return (a is None and b is None) or (a is not None and b is not None and a.labels == b.labels)


def _check_parts(constraint_set: Any) -> None:
    parts = constraint_set if isinstance(constraint_set, tuple | list) else ()
    if len(parts) not in (3, 4) or any(part is None for part in parts[:3]):
        raise ValueError(
            "constraint_set must be a tuple (X, y, sensitive_features) or (X, y, sensitive_features, "
            f"sample_weight); received {sum(part is not None for part in parts)} parts."
        )


def _unseen(groups: Groups, before: Groups | None, where: str) -> str:
    """Say which groups are new, if any."""
    seen = set() if before is None else set(before.labels)
    columns = {column for column, _ in seen}
    new = [label for label in groups.labels if label[0] in columns and label not in seen]
    if not new:
        return ""
    shown = ", ".join(f"{group!r}" if column is None else f"{group!r} of {column!r}" for column, group in new)
    return f"{'Groups' if len(new) > 1 else 'Group'} {shown} {'were' if len(new) > 1 else 'was'} {where}"


def warn_if_late(groups: Groups, before: Groups, stacklevel: int) -> None:
    """Warn of groups that were not among those before."""
    for late in late_groups(groups, before):
        warnings.warn(late, stacklevel=stacklevel)


def late_groups(groups: Groups, before: Groups) -> list[Diagnostic]:
    """What to warn of groups that were not among those before."""
    if late := _unseen(groups, before, "not in the constraint set"):
        words = f"{late}: counted and measured, but not constrained. To constrain all, fit afresh with more rows in D'."
        return [LateGroup(words)]
    return []


def _plain(X: Any) -> bool:
    """Whether X is an array of rows just as they are needed, all of them finite."""
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
