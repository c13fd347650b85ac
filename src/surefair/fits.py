"""From checked rows to a fit: set up on the constraint set D', then take in rows.

A ``Fit`` is pure data and is replaced as a whole, never changed, so that an error leaves nothing half-updated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefair import kernels, theory
from surefair.counts import Counts, count
from surefair.criteria import Criterion, Form, Slab
from surefair.learners import Learner, Settings, learner_for
from surefair.losses import Loss
from surefair.multipliers import Multipliers
from surefair.schedules import AUTO, PolynomialDecay, enough_rows, whitening
from surefair.streams import FloatArray

CHUNK = 2**20  # numbers of rows in new coordinates that are held at a time (8 MiB)


class Rows(NamedTuple):
    """Checked and coded rows."""

    X: FloatArray  # (n, d)
    y: FloatArray  # (n,), labels ±1
    group: NDArray[np.int64]  # (n,), group codes; -1 where there are no groups

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.X)

    def part(self, low: int, high: int | None = None) -> Rows:
        """Rows low, …, high - 1."""
        return Rows(self.X[low:high], self.y[low:high], self.group[low:high])

    def copy(self) -> Rows:
        """The same rows in memory of their own."""
        return Rows(self.X.copy(), self.y.copy(), self.group.copy())

    def followed_by(self, other: Rows) -> Rows:
        """These rows, then the other ones."""
        return Rows(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be learnt, and how: the classifier's parameters with names looked up."""

    criterion: Criterion | None
    groups: tuple[Any, ...]
    loss: Loss
    tolerance: float
    penalty: float
    alpha: float
    schedule: PolynomialDecay | None  # None for "auto"
    n_replicates: int
    multipliers: Multipliers
    fit_intercept: bool
    params: dict[str, Any]  # the constructor's parameters, of which all this was made


class Fit(NamedTuple):
    """What has been learnt."""

    problem: Problem
    constraint_set: Rows
    W: FloatArray  # (d + 1, d + 1): the learner's coordinates; (d, d) without an intercept
    learner: Learner[Any]
    state: Any

    @property
    def theta(self) -> FloatArray:
        """Averaged coefficients, intercept last, shape (d + 1, 1 + replicates): column 0 is the fit itself."""
        mean = np.ascontiguousarray(self.learner.mean(self.state).T)
        theta = np.empty_like(mean)
        kernels.change_coordinates(mean, np.ascontiguousarray(self.W.T), theta)  # column by column, unlike BLAS
        return theta.T

    @property
    def intercepts(self) -> FloatArray:
        """Intercepts, shape (1 + replicates,)."""
        theta = self.theta
        return theta[-1] if self.problem.fit_intercept else np.zeros(theta.shape[1])

    def learn(self, rows: Rows, n_threads: int) -> Fit:
        """Fit after these rows, too."""
        state = self.state
        size = max(1024, CHUNK // len(self.W))
        for low in range(0, rows.n, size):
            chunk = rows.part(low, low + size)
            moved = np.empty((chunk.n, self.W.shape[1]))
            kernels.change_coordinates(np.ascontiguousarray(chunk.X), self.W, moved)
            state = self.learner.step(state, moved, np.ascontiguousarray(chunk.y), n_threads)
        return self._replace(state=state)

    @property
    def finite(self) -> bool:
        """Whether neither the fit nor a replicate diverged."""
        return bool(np.isfinite(self.learner.mean(self.state)).all())

    def decisions(self, rows: Rows, source: str) -> Counts:
        """Counts of the decisions of the fit (first) and its replicates on evaluation rows, as a source needs them."""
        theta = self.theta
        fit = theta[:, :1]
        if source == "retraining":  # two independent fits differ by √2 times the spread of one
            theta = fit + np.sqrt(2.0) * (theta - fit)
        if source == "evaluation":
            theta = fit
        counts = count(theta, with_ones(rows.X, self.problem), (rows.y > 0.0).astype(int), rows.group, 2)
        return np.broadcast_to(counts, (1 + self.problem.n_replicates, *counts.shape[1:]))


def begin(problem: Problem, constraint_set: Rows) -> Fit:
    """Choose coordinates, constraint and start from the rows of D'."""
    auto = problem.schedule is None
    X, y = with_ones(constraint_set.X, problem), constraint_set.y
    W = whitening(X) if auto else np.eye(X.shape[1])
    form = _constrain(problem, constraint_set._replace(X=X @ W))
    fit = assemble(problem, constraint_set, W, form, np.zeros(X.shape[1]))
    if auto and enough_rows(X) and len(np.unique(y)) == 2:
        start = theory.solve(fit.learner.settings, form, X @ W, y)
        return assemble(problem, constraint_set, W, form, start)
    return fit


def assemble(problem: Problem, constraint_set: Rows, W: FloatArray, form: Form, start: FloatArray) -> Fit:
    """Fit before its first row."""
    settings = Settings(
        loss=problem.loss,
        alpha=problem.alpha,
        tolerance=problem.tolerance,
        penalty=problem.penalty,
        schedule=problem.schedule or AUTO,
        multipliers=problem.multipliers,
        start=start,
        robust=problem.schedule is None,
    )
    learner = learner_for(settings, form)
    return Fit(problem, constraint_set.copy(), W, learner, learner.init(1 + problem.n_replicates))


def fit_all(problem: Problem, rows: Rows, constraint_set: Rows | None, n_constraint: int, n_threads: int) -> Fit:
    """Fit of a whole data set: without a constraint set its first rows are set apart, a fifth of them at most."""
    if constraint_set is None:
        apart = min(n_constraint, rows.n // 5)
        constraint_set, rows = rows.part(0, apart), rows.part(apart)
    return begin(problem, constraint_set).learn(rows, n_threads)


def with_ones(X: FloatArray, problem: Problem) -> FloatArray:
    """Features, and a column of ones where there is an intercept."""
    return np.column_stack([X, np.ones(len(X))]) if problem.fit_intercept else X


def _constrain(problem: Problem, constraint_set: Rows) -> Form:
    """Impose the criterion on D', given in the learner's coordinates."""
    X, y, group = constraint_set
    criterion = problem.criterion
    if criterion is None:
        return Slab(np.zeros(X.shape[1]))
    if len(problem.groups) != 2:
        raise ValueError(
            f"Exactly two groups are needed for a constraint; received {len(problem.groups)}: "
            f"{list(problem.groups)!r}. Pass criterion=None to fit without a constraint."
        )
    for code, name in enumerate(problem.groups):
        if not np.any(group == code):
            raise ValueError(
                f"The constraint set of {len(X)} rows has no row of group {name!r}. Shuffle the rows, raise "
                "n_constraint, or pass a constraint_set with rows of both groups."
            )
        if not np.any(criterion.looks_at(y) & (group == code)):
            raise ValueError(
                f"The constraint set of {len(X)} rows has no row of group {name!r} with a label that the criterion "
                f"{criterion.name!r} looks at. Raise n_constraint, or pass a larger constraint_set."
            )
    return criterion.constrain(X, y, group)
