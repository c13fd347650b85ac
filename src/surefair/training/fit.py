"""Fit: a problem set up on its first rows, and what has been learnt from the rows so far."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse import csr_matrix

from surefair import kernels
from surefair.criteria import Comparisons, Form, Slabs
from surefair.diagnostics.rare_column import Carrier
from surefair.learners import LEARNERS, Learner, learner_for
from surefair.learners.primal_dual import PrimalDualState
from surefair.learners.schedules import PolynomialDecay, automatic
from surefair.learners.stochastic_newton import Learnt, NewtonState
from surefair.names import counted
from surefair.rows import FloatArray, Groups, Names, Rows, is_sparse, pack_array, unpack_array
from surefair.storage.archive import Arrays, add_prefix, select_prefix
from surefair.storage.checks import Shape, array_of, value_of
from surefair.threads import one_blas_thread
from surefair.training import solver
from surefair.training.constraints import constrain
from surefair.training.coordinates import (
    change_coordinates,
    enough_rows,
    evened,
    second_moment,
    squared_lengths,
    whitening,
    with_ones,
)
from surefair.training.problem import Problem
from surefair.training.stationary import Stationary
from surefair.training.warm_up import WIDTH, Task, rebuild, warm_up
from surefair.training.warm_up_sparse import scaling, sparse_learner

RANK = 1e-10  # singular values below this share of the largest are rounding
CHUNK = 2**20  # numbers of dense rows in new coordinates that are held at a time (8 MiB)
MOST_DENSE = 1000  # features up to which sparse rows are made dense, some at a time
COPIES = 6  # of the rows that an exact solution holds at a time
SPARSE_CHUNK = 2**16  # sparse rows that are learnt from at a time
MOST_WEIGHT = float(np.finfo(np.float64).max)  # of all rows together
MOST_BYTES = 4 * 2**30  # of the coefficients of sparse rows under a constraint, and their sums
MOST_EXACT = 8 * 2**30  # bytes of an exact solution


@dataclass(frozen=True, eq=False)
class Fit:
    """What has been learnt; D features, intercept included.

    Attributes
    ----------
    problem : Problem
    first : Rows
        Rows that the fit began with: the warm-up rows, or the constraint set D' where that is fixed. Their names hold
        the groups that can be constrained.
    W : ndarray of shape (D, D), or (D,) for a scaling
        The learner's coordinates.
    learner : Learner
    state : NamedTuple
        The learner's state: column 0 is the fit itself, the others are replicates.
    sparse : bool
        Whether the learner takes sparse rows.
    weight : float
        Sum of the weights of the rows learnt from.
    shards : int
        Number of fits that were merged into this one; each had its own start to forget.
    columns : tuple of int or None
        First and last column of the state that rows move; None for all.
    exact : bool
        Whether the fit began with all rows there were. It does not keep their features, so it cannot be merged.
    """

    problem: Problem
    first: Rows
    W: FloatArray
    learner: Learner[Any]
    state: Any
    sparse: bool
    weight: float = 0.0
    shards: int = 1
    columns: tuple[int, int] | None = None
    exact: bool = False

    @property
    def n_rows(self) -> int:
        """Rows learnt from."""
        return int(self.state.k)

    # -- Coefficients -----------------------------------------------------------------------------------------------

    @property
    def theta(self) -> FloatArray:
        """Averaged coefficients, intercept last, shape (D, 1 + replicates); column 0 is the fit itself."""
        return self._averages(self.state)

    @property
    def coefficients(self) -> FloatArray:
        """Averaged coefficients of the fit itself, shape (D, 1), at far less cost than ``theta``."""
        return self._averages(self.without_replicates)

    @property
    def without_replicates(self) -> Any:
        """The state without its replicates."""
        return type(self.state)(self.state[0], *(array[:, :1] for array in self.state[1:]))

    @one_blas_thread()
    def _averages(self, state: Any) -> FloatArray:
        mean = self.learner.mean(state)
        if self.W.ndim == 1:
            mean *= self.W[:, None]
            return mean
        theta = np.empty_like(mean.T)
        # BLAS would round differently for different numbers of columns; this kernel does not.
        kernels.change_coordinates(np.ascontiguousarray(mean.T), np.ascontiguousarray(self.W.T), theta)
        return theta.T

    @property
    def optimum(self) -> Stationary:
        """Coefficients and multipliers of the fit, as an optimum of rows like these."""
        return Stationary(self.coefficients[:, 0], self.state.push[:, 0], np.nan, True)

    def split(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Split coefficients into those of the features and the intercepts, which are 0 where there is none."""
        return (theta[:-1], theta[-1]) if self.problem.fit_intercept else (theta, np.zeros(theta.shape[1]))

    def score(self, X: Any) -> FloatArray:
        """Scores θᵀx of rows by the fit itself, shape (n,)."""
        coef, intercept = self.split(self.coefficients)
        return np.asarray(X @ coef[:, 0] + intercept[0])

    # -- Coordinates ------------------------------------------------------------------------------------------------

    def features(self, X: Any) -> Any:
        """Return features with the column of ones for the intercept."""
        return with_ones(X, self.problem.fit_intercept)

    def to_learner(self, X: Any) -> Any:
        """Return features in the learner's coordinates."""
        if self.W.ndim == 2:
            X = X.toarray() if is_sparse(X) else np.ascontiguousarray(X)
            moved = np.empty((len(X), len(self.W)))
            kernels.change_coordinates(X, self.W, moved)  # row by row, unlike BLAS
            return moved
        X = self.features(X)
        if is_sparse(X) != self.sparse:
            X = csr_matrix(X) if self.sparse else X.toarray()
        return change_coordinates(X, self.W)

    def to_features(self, u: FloatArray) -> FloatArray:
        """Return coefficients of the features, from coefficients in the learner's coordinates."""
        return np.asarray((self.W * u.T).T if self.W.ndim == 1 else self.W @ u)

    def covariance_to_features(self, covariance: FloatArray) -> FloatArray:
        """Return the covariance of coefficients of the features, W C Wᵀ."""
        return self.to_features(self.to_features(covariance).T)

    # -- Learning ---------------------------------------------------------------------------------------------------

    @one_blas_thread()
    def learn(self, rows: Rows, n_threads: int, last: bool = False) -> Fit:
        """Learn from rows; a row's weight counts relative to the mean weight so far, including its own.

        Where this is the ``last`` use of this fit, the new fit takes over its memory.
        """
        state = self.state
        total = self.weight
        group = None
        if self.is_learnt and self.first.names.groups is not None:
            group = rows.known_among(self.first.groups)
        size = SPARSE_CHUNK if self.sparse else max(1024, CHUNK // len(self.W))
        for low in range(0, rows.n, size):
            chunk = slice(low, low + size)
            if self.is_learnt:
                relative: FloatArray | float = rows.weight[chunk] / self.first.weight.mean()
                total += float(rows.weight[chunk].sum())
            else:
                relative, total = relative_weight(rows.weight[chunk], state.k, total)
            X = self.to_learner(rows.X[chunk])
            y = np.ascontiguousarray(rows.y[chunk])
            reuse = last or low > 0
            codes = None if group is None else group[chunk]
            more = {} if rows.cluster is None else {"cluster": rows.cluster[chunk]}
            state = self.learner.step(state, X, y, relative, n_threads, reuse, self.columns, codes, **more)
        return replace(self, state=state, weight=total)

    def reseed(self, seed: int) -> Fit:
        """Return the fit before its first row, or after the warm-up rows, with other weights for its replicates."""
        settings = self.learner.settings
        if self.is_learnt:
            problem = self.problem.reseed(seed)
            learner: Any = self.learner
            return replace(self, problem=problem, learner=learner.reseeded(problem.multipliers))
        return assemble(
            self.problem.reseed(seed), self.first, self.W, self.learner.form, settings.start, settings.schedule
        )

    def regrouped(self, groups: Groups) -> Fit:
        """Return the fit with more groups; where the constraint is learnt from all rows, they will be constrained."""
        known = self.first.names.groups
        if not self.is_learnt or self.problem.criterion is None or known is None or known.labels == groups.labels:
            return self
        rows = self.first.among(groups)
        before: Any = self.learner
        learner, state = before.regrouped(self.state, task_of(self.problem, rows).comparisons, groups.recode(known))
        return replace(self, first=rows, learner=learner, state=state)

    def sealed(self) -> Fit:
        """Return the fit as an exact solution on its first rows, without their features."""
        learner: Any = self.learner
        first = replace(self.first, X=self.first.X[:, :0])
        return replace(self, first=first, learner=learner.without_features(), exact=True)

    @one_blas_thread()
    def merge(self, other: Fit) -> Fit:
        """Merge the fits of two shards of rows, whose replicates have weights of their own."""
        mine, theirs = (fit.learner.completed(fit.state) for fit in (self, other))
        state = self.learner.merge(mine, theirs)
        shards = sum(fit.shards for fit in (self, other) if fit.n_rows > 0)
        twice = float(self.first.weight.sum()) if self.is_learnt else 0.0
        return replace(self, state=state, weight=self.weight + other.weight - twice, shards=max(shards, 1))

    def block(self) -> tuple[Any, float]:
        """Return the columns of the state that rows moved, and the weight of the rows."""
        assert self.columns is not None
        k, *arrays = self.state
        return type(self.state)(k, *(array[:, slice(*self.columns)].copy() for array in arrays)), self.weight

    def join(self, blocks: list[tuple[Any, float]]) -> Fit:
        """Put blocks of columns side by side."""
        states = [state for state, _ in blocks]
        arrays = (np.concatenate(parts, axis=1) for parts in zip(*(state[1:] for state in states), strict=True))
        state = type(self.state)(states[0].k, *arrays)
        return replace(self, state=state, weight=blocks[0][1])

    # -- What to know about it --------------------------------------------------------------------------------------

    @property
    def is_learnt(self) -> bool:
        """Whether the constraint is learnt from all rows, not fixed by a set of rows."""
        return isinstance(self.learner.form, Learnt)

    @property
    def tolerance(self) -> float:
        """The tolerance in use, which is larger than that of the problem if several gaps are to be equal."""
        return float(self.learner.settings.tolerance)

    @property
    def is_newton(self) -> bool:
        """Whether the constraint is learnt by Newton's method, which keeps moments of all features."""
        return self.is_learnt and not self.sparse

    @property
    def is_rigid(self) -> bool:
        """Whether equalities fix every coefficient but the intercept, so that nothing is left to learn."""
        form = self.learner.form
        free = len(self.W) - int(self.problem.fit_intercept)
        if not isinstance(form, Slabs) or self.problem.tolerance > 0.0 or len(form.vectors) < max(free, 1):
            return False
        return int(np.linalg.matrix_rank(form.vectors, rtol=RANK)) >= free

    @property
    def is_finite(self) -> bool:
        """Whether neither the fit nor a replicate diverged."""
        _, now, _, *rest = self.state  # divergence shows in the iterates before it shows in their sums
        return all(np.isfinite(array.sum()) for array in (now, *rest))

    @property
    def fingerprint(self) -> str:
        """Hash that identifies this state."""
        digest = hashlib.sha256()
        for part in self.state:
            digest.update(np.asarray(part).tobytes())
        return digest.hexdigest()

    # -- Storage ----------------------------------------------------------------------------------------------------

    def pack(self) -> tuple[dict[str, Any], Arrays]:
        """Take the fit apart into JSON and arrays."""
        groups = self.first.names.groups
        meta = {
            "problem": self.problem.pack(),
            "groups": None if groups is None else groups.to_json(),
            "form": type(self.learner.form).__name__,
            "schedule": vars(self.learner.settings.schedule),
            "sparse": self.sparse,
            "weight": self.weight,
            "shards": self.shards,
            "exact": self.exact,
        }
        arrays = add_prefix("first", self.first.pack(), "_") | _pack_tuple("state", self.state)
        form = self.learner.form
        if isinstance(form, Learnt):
            arrays |= {"push": form.push, "ridge": form.ridge}
        else:
            arrays |= _pack_tuple("form", form)
        return meta, arrays | {"W": self.W, "start": self.learner.settings.start}

    @classmethod
    def unpack(cls, meta: dict[str, Any], arrays: Arrays, names: Names, n_features: int) -> Fit:
        """Rebuild a fit from what ``pack`` returned; the rows that it began with have these names.

        Parts that do not fit together are refused, before anything is computed with them.
        """
        form_class: Any = next((form for form, _ in LEARNERS if form.__name__ == meta["form"]), None)
        if form_class is None:
            raise ValueError(f"There is no form of constraint {meta['form']!r:.60}.")
        problem = Problem.unpack(meta["problem"])
        sparse = value_of(meta, "sparse", bool)
        exact = value_of(meta, "exact", bool)
        more: dict[str, Any] = {"weight": float(value_of(meta, "weight", (int, float), low=0.0, high=MOST_WEIGHT))}
        more |= {"shards": value_of(meta, "shards", int, low=1), "exact": exact}
        rows = Rows.unpack(select_prefix("first", arrays, "_"), names, 0 if exact else n_features)
        if problem.criterion is not None and names.groups is not None:
            names.groups.check_few()
        if not rows.n or is_sparse(rows.X) != sparse:
            raise ValueError("A fit begins with rows, which are sparse where its learner takes sparse rows.")
        D = n_features + int(problem.fit_intercept)
        start = array_of(arrays, "start", "float64", (D,))
        W = array_of(arrays, "W", "float64", (D,) * min(arrays["W"].ndim, 2))
        n_columns = 1 + problem.n_replicates
        k = int(array_of(arrays, "state_k", "int64", (), low=0, high=2**62))
        if form_class is Learnt:
            task = task_of(problem, rows)
            array_of(arrays, "push", "float64", (len(task.comparisons.pairs),))
            array_of(arrays, "ridge", "float64", (D,))
            if (W.ndim == 1) != sparse or not problem.learns:
                raise ValueError("The coordinates are not those of such a fit.")
            learner: Any = (
                sparse_learner(task, rows, W, problem.multipliers)
                if sparse
                else rebuild(task, problem, rows, arrays, exact)
            )
            fit = cls(problem, rows, W, learner, None, sparse, **more)
            kind = PrimalDualState if sparse else NewtonState
            state = _unpack_state(kind, arrays, learner.shapes(n_columns, arrays))
            learner.check(state._replace(k=k))
            return replace(fit, state=state._replace(k=k))
        schedule = PolynomialDecay(**value_of(meta, "schedule", dict))
        known = constrain(problem.criterion, rows, change_coordinates(with_ones(rows.X, problem.fit_intercept), W))
        if type(known) is not form_class:
            raise ValueError(f"The form of the constraint must be {type(known).__name__}; received {meta['form']}.")
        form = form_class(*(
            unpack_array(f"form_{name}", arrays, np.shape(one)) for name, one in known._asdict().items()
        ))  # fmt: skip
        if any(name.startswith("state_") and array.ndim and array.shape[1] not in (1, n_columns)
               for name, array in arrays.items()):  # fmt: skip
            raise ValueError(f"The state must have {n_columns} columns.")
        fit = replace(assemble(problem, rows, W, form, start, schedule), **more)
        shapes = {name: np.shape(array) for name, array in fit.state._asdict().items()}
        if "waiting" in shapes:
            waiting = len(arrays["state_waiting"])
            shapes |= {"waiting": (waiting, 1, D), "gains": (2 * waiting, n_columns)}
        return replace(fit, state=_unpack_state(type(fit.state), arrays, shapes)._replace(k=k))


Learn = Callable[..., Fit]
"""``Fit.learn``, or something that does the same elsewhere."""


@one_blas_thread()
def begin(problem: Problem, constraint_set: Rows) -> Fit:
    """Begin a fit under a constraint that the rows of D' fix: choose coordinates, constraint and start from them."""
    auto = problem.step_size is None
    y = constraint_set.y
    weight = constraint_set.weight
    X = with_ones(constraint_set.X, problem.fit_intercept)
    W = whitening(X, weight) if auto else np.ones(X.shape[1])
    moved = change_coordinates(X, W)
    form = constrain(problem.criterion, constraint_set, moved)
    start = np.zeros(X.shape[1])
    schedule = problem.step_size or automatic(float(problem.loss.curvature(0.0, 1.0)))
    if auto and enough_rows(X) and len(np.unique(y[weight > 0.0])) > 1:
        start = solver.solve(problem.settings(start, schedule), form, moved, y, weight)
        share = weight / weight.sum()
        curvature = problem.loss.curvature(moved @ start, y)
        A, c = evened(second_moment(moved, share * curvature, whole=W.ndim == 2))
        W, start = (W @ A, solve_triangular(A, start)) if W.ndim == 2 else (W * A, start / A)
        moved = change_coordinates(X, W)
        form = constrain(problem.criterion, constraint_set, moved)
        leverage = curvature / c * squared_lengths(moved)
        schedule = automatic(c, float(share @ leverage**2) / len(start), len(y))
    return assemble(problem, constraint_set, W, form, start, schedule)


class Begun(NamedTuple):
    """What the warm-up rows show: whether the problem was solved on them, and the gaps of decisions there."""

    reached: bool
    unsolved: float  # share of the replicates for which it was not
    free: FloatArray  # without a constraint, of the pairs that are constrained
    held: FloatArray  # with it
    error: FloatArray  # standard errors
    smooth: FloatArray  # the same gaps with it, in terms of the surrogate, which training bounds
    carriers: list[Carrier]  # rare columns


@one_blas_thread()
def begin_learnt(
    problem: Problem, rows: Rows, n_threads: int = 1, near: Fit | None = None
) -> tuple[Fit, Begun | None]:  # fmt: skip
    """Begin a fit whose constraint is learnt from all rows with the warm-up rows; wide ones show nothing yet.

    A fit to similar rows that is ``near`` saves work.
    """
    groups = rows.names.groups
    some = rows.y[rows.weight > 0.0]
    if len(np.unique(some)) < 2:
        raise ValueError(
            f"The first {rows.n} rows that have any weight show {len(np.unique(some))} of the two labels, and a fit "
            "begins with both classes. Shuffle the rows, or correct sample_weight."
        )
    if problem.criterion is not None and groups is not None:
        groups.check_comparable(", or use criterion=None to train without a constraint")
        _check_groups_shown(rows, groups)
    rows = rows.copy()
    if is_wide(rows.X):
        return _begin_sparse(problem, rows), None
    if is_sparse(rows.X):
        rows = replace(rows, X=rows.X.toarray())
    check_replicates(problem, rows.X.shape[1])
    X = with_ones(rows.X, problem.fit_intercept)
    begun = warm_up(
        task_of(problem, rows), X, rows, problem.multipliers, 1 + problem.n_replicates, n_threads,
        None if near is None else near.optimum,
    )  # fmt: skip
    learner: Any = begun.learner
    fit = Fit(problem, rows, begun.W, learner, begun.state, False, weight=float(rows.weight.sum()))
    return fit, Begun(begun.reached, begun.unsolved, *begun.gaps, begun.carriers)


def _begin_sparse(problem: Problem, rows: Rows) -> Fit:
    """Begin a fit with sparse rows of many features, which is not solved on them."""
    check_wide(problem, rows.X)
    W = scaling(with_ones(rows.X, problem.fit_intercept), rows.weight)
    learner: Any = sparse_learner(task_of(problem, rows), rows, W, problem.multipliers)
    state = learner.init(1 + problem.n_replicates)
    return Fit(problem, rows, W, learner, state, True, weight=float(rows.weight.sum()))


def _check_groups_shown(rows: Rows, groups: Groups) -> None:
    """Refuse first rows that show only one group of a sensitive column."""
    for code, (column, levels) in zip(rows.group.T, groups.levels.items(), strict=True):
        shown = np.unique(code[(rows.weight > 0.0) & (code >= 0)])
        if len(shown) < 2:
            of = "" if column is None else f" of {column!r}"
            which = ", ".join(repr(name) for name in levels.values[shown].tolist()) or "none"
            raise ValueError(
                f"The first {rows.n} rows, which training begins with, show {counted(len(shown), 'group')}{of} with "
                f"any weight ({which}), and a constraint compares two or more. Rows must come in random order: shuffle "
                "them, or correct sample_weight if it leaves groups out."
            )


def task_of(problem: Problem, rows: Rows) -> Task:
    """Return the problem as one whose constraint is learnt from rows like these."""
    groups = rows.names.groups
    criterion = problem.criterion if groups is not None else None
    comparisons = Comparisons.of(criterion, problem.surrogate, groups.sizes if criterion and groups else ())
    return Task(
        loss=problem.loss,
        comparisons=comparisons,
        alpha=problem.alpha,
        width=WIDTH if problem.sharpness is None else 1.0 / problem.sharpness,
        tolerance=comparisons.tolerance_of(problem.tolerance) if problem.penalty is None else problem.tolerance,
        penalty=problem.penalty or 0.0,
        fit_intercept=problem.fit_intercept,
        dtype=problem.dtype,
    )


def assemble(
    problem: Problem,
    constraint_set: Rows,
    W: FloatArray,
    form: Form,
    start: FloatArray,
    schedule: PolynomialDecay,
) -> Fit:
    """Put together a fit before its first row."""
    sparse = is_sparse(constraint_set.X)
    learner = learner_for(problem.settings(start, schedule), form, sparse)
    state = learner.init(1 + problem.n_replicates)
    return Fit(problem, constraint_set.copy(), W, learner, state, sparse)


def is_wide(X: Any) -> bool:
    """Whether rows are sparse, with too many features to make them dense."""
    return is_sparse(X) and X.shape[1] > MOST_DENSE


def check_wide(problem: Problem, X: Any) -> None:
    """Refuse what sparse rows with many features cannot do: single precision, some criteria, too much memory."""
    if problem.dtype != "float64":
        raise ValueError(
            f"dtype={problem.dtype!r} works for dense rows, and for sparse rows with at most {MOST_DENSE:,} features; "
            f"received a sparse matrix of shape {X.shape}. Use dtype='float64'."
        )
    if problem.solver == "exact":
        raise ValueError(
            f"solver='exact' works for dense rows, and for sparse rows with at most {MOST_DENSE:,} features; received "
            f"a sparse matrix of shape {X.shape}. Use solver='one_pass'."
        )
    if problem.criterion is None:
        return
    comparisons = Comparisons.of(problem.criterion, problem.surrogate, (2,))
    if comparisons.n_cells > comparisons.n_rates:
        raise ValueError(
            f"criterion={problem.criterion.name!r} conditions on the decision, which works for dense rows, and for "
            f"sparse rows with at most {MOST_DENSE:,} features; received a sparse matrix of shape {X.shape}. "
            "Reduce the features, for example by TruncatedSVD, or use a criterion that does not condition on it."
        )
    D = X.shape[1] + int(problem.fit_intercept)
    fitting = MOST_BYTES // (16 * D) - 1
    if problem.n_replicates <= fitting:
        return
    advice = "Use fewer features, for example by a FeatureHasher with a smaller n_features"
    if fitting >= 0:
        advice = f"Use n_replicates={fitting} or less, or fewer features, for example by a FeatureHasher"
    raise ValueError(
        f"{problem.n_replicates} replicates of {X.shape[1]:,} features would need "
        f"{16 * D * (1 + problem.n_replicates) / 2**30:.1f} GiB, more than {MOST_BYTES / 2**30:.0f} GiB. {advice}."
    )


def check_replicates(problem: Problem, n_features: int) -> None:
    """Refuse so many replicates that their coefficients would need too much memory."""
    need = 8 * COPIES * (n_features + 1) * (problem.n_replicates + 1)
    if need > 2 * MOST_BYTES:
        raise ValueError(
            f"{problem.n_replicates:,} replicates of {n_features:,} features would need about {need / 2**30:,.1f} GiB, "
            f"and at most {2 * MOST_BYTES // 2**30} are allowed. Use fewer replicates (n_replicates, --replicates): "
            "200 are enough for intervals of 95 %."
        )


def check_size(problem: Problem, n_rows: int, n_features: int) -> None:
    """Refuse an exact solution that would need too much memory."""
    need = 8 * n_rows * (COPIES * (n_features + 1) + problem.n_replicates + 1)
    if need > MOST_EXACT:
        raise ValueError(
            f"The exact solution on {n_rows:,} rows with {n_features:,} features and {problem.n_replicates} replicates "
            f"would need about {need / 2**30:.0f} GiB, and at most {MOST_EXACT // 2**30} are allowed. Use "
            "solver='one_pass', whose memory does not grow with the rows."
        )


def check_plain(X: Any, dtype: str) -> None:
    """Refuse what a constraint that is fixed by a set of rows cannot do."""
    fixed = "A constraint that a constraint_set or a step_size fixes, as in the paper, is for"
    if is_sparse(X):
        raise ValueError(
            f"{fixed} dense rows; received a sparse matrix of shape {X.shape}. Make the rows dense with X.toarray(), "
            "or leave out constraint_set and step_size, so that the constraint is learnt from all rows."
        )
    if dtype != "float64":
        raise ValueError(
            f"{fixed} double precision; received dtype={dtype!r}. Use dtype='float64', or leave out constraint_set "
            "and step_size, so that the constraint is learnt from all rows."
        )


def relative_weight(weight: FloatArray, k: int, total: float) -> tuple[FloatArray | float, float]:
    """Divide weights by the mean weight so far, after k rows whose weights have this total; returns the new total too.

    >>> relative_weight(np.array([1.0, 1.0]), 3, 3.0), relative_weight(np.array([2.0]), 1, 1.0)
    ((1.0, 5.0), (array([1.33333333]), 3.0))
    """
    if total == k and (weight == 1.0).all():
        return 1.0, total + len(weight)
    totals = np.cumsum(np.r_[total, weight])[1:]
    seen = k + np.arange(1.0, len(weight) + 1.0)
    return np.divide(weight * seen, totals, out=np.zeros(len(weight)), where=totals > 0.0), float(totals[-1])


def _pack_tuple(name: str, fields: Any) -> Arrays:
    """Return the fields of a NamedTuple as arrays."""
    arrays: Arrays = {}
    for field, value in fields._asdict().items():
        arrays |= pack_array(f"{name}_{field}", value)
    return arrays


def _unpack_state(kind: Any, arrays: Arrays, shapes: Mapping[str, Shape]) -> Any:
    """Rebuild the state of a learner from its arrays, which must have these shapes."""
    found = {name: array_of(arrays, f"state_{name}", "float64", shapes[name]) for name in kind._fields[1:]}
    return kind(0, **found)
