"""From checked rows to a fit: set up on the constraint set D', then take in rows.

A ``Fit`` is pure data and is replaced as a whole, never changed, so that an error leaves nothing half-updated.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.sparse import csr_matrix, hstack, vstack
from scipy.stats import norm

from surefair import kernels
from surefair.criteria import Criterion, Form, Members, Slabs
from surefair.inference import interval as intervals
from surefair.inference import theory
from surefair.inference.counts import Counts, count
from surefair.learners import Learner, Settings, learner_for
from surefair.learners import trace as covariances
from surefair.learners.dual_averaging import DualAveraging
from surefair.learners.multipliers import Multipliers
from surefair.learners.schedules import PolynomialDecay, automatic, enough_rows, evened, whitening
from surefair.losses import Loss
from surefair.rows.arrays import FloatArray, is_sparse
from surefair.rows.groups import Groups, fitted_map, mapped

RANK = 1e-10  # of the largest singular value: what is below is rounding
COVARIANCE_METHODS = ("plug_in", "random_scaling")
"""How limits of coefficients are read off the pass itself, without replicates."""

CHUNK = 2**20  # numbers of dense rows in new coordinates that are held at a time (8 MiB)
SPARSE_CHUNK = 2**16  # sparse rows that are taken in at a time


class Rows(NamedTuple):
    """Checked and coded rows."""

    X: Any  # (n, d), a float64 array or CSR matrix
    y: FloatArray  # (n,), labels ±1
    group: NDArray[np.int64]  # (n, sensitive columns), group codes; -1 where none is given
    weight: FloatArray  # (n,)

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.y)

    def part(self, low: int, high: int | None = None) -> Rows:
        """Rows low, …, high - 1."""
        return Rows._make(column[low:high] for column in self)

    def halves(self, seed: int) -> tuple[Rows, Rows]:
        """Two parts, of half of the rows each, drawn at random."""
        first = np.zeros(self.n, dtype=np.bool_)
        first[np.random.default_rng(seed).permutation(self.n)[: self.n // 2]] = True
        return Rows._make(column[first] for column in self), Rows._make(column[~first] for column in self)

    def copy(self) -> Rows:
        """The same rows in memory of their own."""
        return Rows._make(column.copy() for column in self)

    def followed_by(self, other: Rows) -> Rows:
        """These rows, then the other ones, in the kind of these."""
        more = other.X.toarray() if is_sparse(other.X) and not is_sparse(self.X) else other.X
        X = vstack([self.X, more], format="csr") if is_sparse(self.X) else np.concatenate([self.X, more])
        return Rows(X, *(np.concatenate(pair) for pair in zip(self[1:], other[1:], strict=True)))


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be learnt, and how: the classifier's parameters with names looked up."""

    criterion: Criterion | None
    groups: Groups | None
    loss: Loss
    tolerance: float
    penalty: float
    sharpness: float | None
    alpha: float
    schedule: PolynomialDecay | None  # None for "auto"
    n_replicates: int
    multipliers: Multipliers
    fit_intercept: bool
    dtype: str
    feature_map: Any  # a scikit-learn transformer, or None
    params: dict[str, Any]  # the constructor's parameters, of which all this was made


class Fit(NamedTuple):
    """What has been learnt; D features after the feature map, intercept included."""

    problem: Problem
    constraint_set: Rows
    feature_map: Any  # fitted on D'
    W: FloatArray  # the learner's coordinates: (D, D), or (D,) where they are only scaled
    learner: Learner[Any]
    state: Any
    sparse: bool  # which kind of rows the learner takes
    weight: float  # sum of the weights of the rows trained on
    shards: int = 1  # fits that this one was merged of, each with a start of its own to forget
    columns: tuple[int, int] | None = None  # of the state, those that rows carry on; None for all

    @property
    def theta(self) -> FloatArray:
        """Averaged coefficients, intercept last, shape (D, 1 + replicates): column 0 is the fit itself."""
        return self._averaged(self.state)

    @property
    def alone(self) -> FloatArray:
        """Averaged coefficients of the fit itself, shape (D, 1); with many features and replicates, far less work."""
        return self._averaged(self.itself)

    @property
    def itself(self) -> Any:
        """State without the replicates."""
        return type(self.state)(self.state[0], *(array[:, :1] for array in self.state[1:]))

    def _averaged(self, state: Any) -> FloatArray:
        mean = self.learner.mean(state)
        if self.W.ndim == 1:
            mean *= self.W[:, None]
            return mean
        theta = np.empty_like(mean.T)
        kernels.change_coordinates(np.ascontiguousarray(mean.T), np.ascontiguousarray(self.W.T), theta)  # unlike BLAS
        return theta.T

    @property
    def plug_in(self) -> tuple[FloatArray, FloatArray]:
        """Hessian of loss and ridge, and covariance of the scores, each (D, D), in the learner's coordinates.

        Rows are not reduced to the directions that constraints leave, and a penalty is in neither.
        """
        hessian, scores = covariances.moments(self.trace)
        return hessian + self.problem.alpha * np.eye(len(hessian)), scores

    @property
    def plug_in_covariance(self) -> FloatArray:
        """Covariance of the averaged coefficients by the sandwich of ``plug_in``, (D, D)."""
        return self.sandwich(*self.plug_in)

    def sandwich(self, hessian: FloatArray, scores: FloatArray) -> FloatArray:
        """Covariance of the averaged coefficients, (D, D), from moments in the learner's coordinates.

        Which faces of slabs hold the optimum is seen from the last iterate: it ends on them, and an average, which has
        begun elsewhere, only comes near.
        """
        learner, itself = self.learner, self.itself
        at = learner.iterate(itself) if isinstance(learner, DualAveraging) else learner.mean(itself)
        covariance = theory.sandwich(learner.settings, learner.form, at[:, 0], hessian, scores) / self.state.k
        return self.back(self.back(covariance).T)

    @property
    def scaling(self) -> FloatArray:
        """Random-scaling matrix of the averaged coefficients, (D, D); see ``covariances.random_scaling``."""
        trace, k = self.trace, self.state.k
        total = k * (self.learner.mean(self.itself)[:, 0] - self.learner.settings.start)
        return self.back(self.back(covariances.random_scaling(trace, total, k)).T)

    def limits(self, confidence_level: float, method: str) -> tuple[FloatArray, FloatArray]:
        """Limits of the coefficients of the optimum, each for itself, by replicates or by a covariance."""
        if method not in COVARIANCE_METHODS:
            theta = self.theta
            return intervals.limits(theta[:, 0], theta[:, 1:].T, confidence_level, method)
        if method == "plug_in":
            quantile, squares = norm.ppf((1.0 + confidence_level) / 2.0), np.diag(self.plug_in_covariance)
        else:
            quantile = covariances.random_scaling_quantile(confidence_level)
            squares = np.diag(self.scaling) / self.state.k
        half = quantile * np.sqrt(np.maximum(squares, 0.0))  # of a coefficient that cannot move, 0 up to rounding
        estimate = self.alone[:, 0]
        return estimate - half, estimate + half

    @property
    def traced(self) -> bool:
        """Whether what the fit has been through was kept."""
        return self.state.k >= kernels.BLOCK and len(getattr(self.state, "trace", ())) > 0

    @property
    def trace(self) -> FloatArray:
        """What the fit itself has been through, where that is kept."""
        if self.state.k == 0:
            raise ValueError("Covariances are read off a pass over rows; received none yet. Take in rows first.")
        trace = getattr(self.state, "trace", covariances.nothing())
        if not len(trace):
            rows = "sparse" if self.sparse else f"dense, with {len(self.W)} features, dtype={self.problem.dtype!r}"
            raise ValueError(
                f"Covariances are kept of dense rows with {covariances.FEATURES} features at most, intercept included, "
                f"in double precision; received rows that are {rows}. Use the replicates, or X.toarray() and "
                "dtype='float64'."
            )
        return np.asarray(trace)

    def split(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Coefficients of the features, and intercepts, 0 where there is none."""
        return (theta[:-1], theta[-1]) if self.problem.fit_intercept else (theta, np.zeros(theta.shape[1]))

    def features(self, X: Any) -> Any:
        """Features that the coefficients belong to: the map's, where there is one, and 1 for the intercept."""
        return with_ones(mapped(self.feature_map, X), self.problem)

    def moved(self, X: Any) -> Any:
        """Features in the learner's coordinates."""
        X = mapped(self.feature_map, X)
        if self.W.ndim == 2:
            X = X.toarray() if is_sparse(X) else np.ascontiguousarray(X)
            moved = np.empty((len(X), len(self.W)))
            kernels.change_coordinates(X, self.W, moved)  # unlike BLAS, row by row
            return moved
        X = with_ones(X, self.problem)
        if is_sparse(X) != self.sparse:
            X = csr_matrix(X) if self.sparse else X.toarray()
        return change_coordinates(X, self.W)

    def back(self, u: FloatArray) -> FloatArray:
        """Coefficients of the features, from those in the learner's coordinates."""
        return np.asarray((self.W * u.T).T if self.W.ndim == 1 else self.W @ u)

    def learn(self, rows: Rows, n_threads: int, last: bool = False) -> Fit:
        """Fit after these rows, too; a row's weight counts relative to the mean weight so far, its own included.

        Where this is the ``last`` use of this fit, its memory goes over to the next.
        """
        state, total = self.state, self.weight
        size = SPARSE_CHUNK if is_sparse(rows.X) else max(1024, CHUNK // len(self.W))
        for low in range(0, rows.n, size):
            chunk = rows.part(low, low + size)
            relative, total = _relative(chunk.weight, state.k, total)
            y = np.ascontiguousarray(chunk.y)
            X, reuse = self.moved(chunk.X), last or low > 0
            state = self.learner.step(state, X, y, relative, n_threads, reuse, self.columns)
        return self._replace(state=state, weight=total)

    def reseeded(self, seed: int) -> Fit:
        """Fit of the same problem before its first row, whose replicates have other weights."""
        problem, told = replace(self.problem, multipliers=replace(self.problem.multipliers, seed=seed)), self.learner
        start, schedule = told.settings.start, told.settings.schedule
        return assemble(problem, self.constraint_set, self.feature_map, self.W, told.form, start, schedule, self.sparse)

    def merged(self, other: Fit) -> Fit:
        """Fit of two shards of rows."""
        state, weight = self.learner.merge(self.state, other.state), self.weight + other.weight
        shards = sum(fit.shards for fit in (self, other) if fit.state.k > 0)
        return self._replace(state=state, weight=weight, shards=max(shards, 1))

    @property
    def rigid(self) -> bool:
        """Whether equalities fix every coefficient but the intercept: nothing is left to learn."""
        form = self.learner.form
        free = len(self.W) - int(self.problem.fit_intercept)
        if not isinstance(form, Slabs) or self.problem.tolerance > 0.0 or len(form.vectors) < max(free, 1):
            return False
        return int(np.linalg.matrix_rank(form.vectors, rtol=RANK)) >= free

    @property
    def fingerprint(self) -> str:
        """Of its state, by which to know it again wherever it was sent."""
        digest = hashlib.sha256()
        for part in self.state:
            digest.update(np.asarray(part).tobytes())
        return digest.hexdigest()

    @property
    def finite(self) -> bool:
        """Whether neither the fit nor a replicate diverged."""
        _, now, _, *rest = self.state  # what diverges shows in the iterates before their sums
        return all(np.isfinite(array.sum()) for array in (now, *rest))

    def decisions(self, rows: Rows, sizes: tuple[int, ...], source: str, method: str, n_threads: int) -> Counts:
        """Counts of the decisions of the fit (first) and its replicates on evaluation rows, as a source needs them.

        Steps leave a bias of the order of their size and of the variance of the gradients, which is twice as large in
        replicates: what these lie beside the fit, the fit lies beside the optimum. Mirrored at the fit, for
        percentiles, they lie around the optimum. Models trained afresh have the same bias as the fit.
        """
        theta = self.theta
        fit, replicates = theta[:, :1], theta[:, 1:]
        if source == "evaluation":
            theta = fit
        elif source == "retraining":  # two independent fits have the same bias and differ by √2 times the spread of one
            middle = fit if method == "paper" else replicates.mean(axis=1, keepdims=True)
            theta = np.hstack([fit, fit + np.sqrt(2.0) * (replicates - middle)])
        elif method == "percentile":
            theta = np.hstack([fit, 2.0 * fit - replicates])
        truth = (rows.y > 0.0).astype(np.int64)
        weight = None if (rows.weight == 1.0).all() else rows.weight
        counts = count(theta, mapped(self.feature_map, rows.X), truth, rows.group, sizes, weight, n_threads)
        return Counts(*(np.broadcast_to(c, (1 + self.problem.n_replicates, *c.shape[1:])) for c in counts))


Learn = Callable[..., Fit]
"""``Fit.learn``, or what does the same elsewhere."""


def begin(problem: Problem, constraint_set: Rows) -> Fit:
    """Choose coordinates, constraint and start from the rows of D'."""
    auto, (raw, y, _, weight) = problem.schedule is None, constraint_set
    feature_map = fitted_map(problem.feature_map, raw)
    X = with_ones(mapped(feature_map, raw), problem)
    check_dense(X, problem.dtype)
    W = whitening(X, weight) if auto else np.ones(X.shape[1])
    moved = change_coordinates(X, W)
    form, start = _constrain(problem, constraint_set, moved), np.zeros(X.shape[1])
    schedule = problem.schedule or automatic(float(problem.loss.curvature(0.0, 1.0)))
    if auto and enough_rows(X) and len(np.unique(y[weight > 0.0])) > 1:
        start = theory.solve(_settings(problem, start, schedule), form, moved, y, weight)
        share, curvature = weight / weight.sum(), problem.loss.curvature(moved @ start, y)
        A, c = evened(_second_moment(moved, share * curvature, whole=W.ndim == 2))
        W, start = (W @ A, solve_triangular(A, start)) if W.ndim == 2 else (W * A, start / A)
        moved = change_coordinates(X, W)
        form, leverage = _constrain(problem, constraint_set, moved), curvature / c * _squared_lengths(moved)
        schedule = automatic(c, float(share @ leverage**2) / len(start), len(y))
    return assemble(problem, constraint_set, feature_map, W, form, start, schedule, is_sparse(X))


def assemble(
    problem: Problem,
    constraint_set: Rows,
    feature_map: Any,
    W: FloatArray,
    form: Form,
    start: FloatArray,
    schedule: PolynomialDecay,
    sparse: bool,
) -> Fit:
    """Fit before its first row."""
    learner = learner_for(_settings(problem, start, schedule), form, sparse)
    state = learner.init(1 + problem.n_replicates)
    return Fit(problem, constraint_set.copy(), feature_map, W, learner, state, sparse, weight=0.0)


def _settings(problem: Problem, start: FloatArray, schedule: PolynomialDecay) -> Settings:
    """What the learner is told."""
    return Settings(
        loss=problem.loss,
        alpha=problem.alpha,
        tolerance=problem.tolerance,
        penalty=problem.penalty,
        sharpness=problem.sharpness,
        schedule=schedule,
        multipliers=problem.multipliers,
        start=start,
        robust=problem.schedule is None,
        dtype=problem.dtype,
    )


def check_dense(X: Any, dtype: str) -> None:
    """Refuse sparse rows in single precision."""
    if dtype == "float32" and is_sparse(X):
        raise ValueError(
            f"dtype='float32' is for dense rows; received a sparse matrix of shape {X.shape}, whose lazy bookkeeping "
            "needs double precision. Use dtype='float64', or make the rows dense with X.toarray()."
        )


def _relative(weight: FloatArray, k: int, total: float) -> tuple[FloatArray | float, float]:
    """Weights over the mean weight so far, after k rows whose weights have this total; and the new total.

    >>> _relative(np.array([1.0, 1.0]), 3, 3.0), _relative(np.array([2.0]), 1, 1.0)
    ((1.0, 5.0), (array([1.33333333]), 3.0))
    """
    if total == k and (weight == 1.0).all():
        return 1.0, total + len(weight)
    totals = np.cumsum(np.r_[total, weight])[1:]
    seen = k + np.arange(1.0, len(weight) + 1.0)
    return np.divide(weight * seen, totals, out=np.zeros(len(weight)), where=totals > 0.0), float(totals[-1])


def fit_all(
    problem: Problem, rows: Rows, constraint_set: Rows | None, n_constraint: int, n_threads: int,
    learn: Learn = Fit.learn,
) -> Fit:  # fmt: skip
    """Fit of a whole data set: without a constraint set its first rows are set apart, a fifth of them at most."""
    if constraint_set is None:
        apart = min(n_constraint, rows.n // 5)
        constraint_set, rows = rows.part(0, apart), rows.part(apart)
    return learn(begin(problem, constraint_set), rows, n_threads, last=True)


def with_ones(X: Any, problem: Problem) -> Any:
    """Features, and a column of ones where there is an intercept."""
    if not problem.fit_intercept:
        return X
    ones = np.ones((X.shape[0], 1))
    return hstack([X, csr_matrix(ones)], format="csr") if is_sparse(X) else np.hstack([X, ones])


def change_coordinates(X: Any, W: FloatArray) -> Any:
    """Rows in new coordinates, dense or sparse as they were; sparse ones can only be scaled."""
    if not is_sparse(X):
        return X * W if W.ndim == 1 else X @ W
    return csr_matrix((X.data * W[X.indices], X.indices, X.indptr), shape=X.shape)


def _second_moment(X: Any, weight: FloatArray, whole: bool) -> FloatArray:
    """Σ wᵢ xᵢxᵢᵀ, or its diagonal."""
    if whole:
        return np.asarray((X.T * weight) @ X)
    return np.asarray((X.power(2) if is_sparse(X) else X**2).T @ weight)


def _squared_lengths(X: Any) -> FloatArray:
    return np.asarray((X.power(2) if is_sparse(X) else X**2).sum(axis=1)).ravel()


def _constrain(problem: Problem, constraint_set: Rows, moved: Any) -> Form:
    """Impose the criterion on D', whose features are given in the learner's coordinates."""
    _, y, group, weight = constraint_set
    criterion, groups = problem.criterion, problem.groups
    if criterion is None or groups is None:
        return Slabs(np.zeros((0, moved.shape[1])))
    groups.check_comparable()
    for code, (column, levels) in zip(group.T, groups.levels.items(), strict=True):
        of = "" if column is None else f" of {column!r}"
        for number, name in enumerate(levels.values.tolist()):
            rows = (code == number) & (weight > 0.0)
            if not rows.any():
                raise ValueError(
                    f"The constraint set of {len(y)} rows has no row of group {name!r}{of}. Shuffle the rows, raise "
                    "n_constraint, pass a constraint_set with rows of every group, merge small groups, or drop a "
                    "category that no row has."
                )
            if not all((rate.looks_at(y) & rows).any() for rate in criterion.rates):
                raise ValueError(
                    f"The constraint set of {len(y)} rows has no row of group {name!r}{of} with a label that the "
                    f"criterion {criterion.name!r} looks at. Raise n_constraint, pass a larger constraint_set, or "
                    "merge small groups."
                )
    return criterion.constrain(moved, y, Members(group, groups.sizes, weight))
