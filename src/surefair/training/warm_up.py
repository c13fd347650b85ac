"""From the first rows of a stream to a learner: coordinates, and the optimum on these rows.

In the learner's coordinates θ = Wu the spread of the scores of the warm-up rows is ‖u‖, and the ridge is a sum over
coordinates. The ridge is defined in units of the features, κ‖θ‖²/2 without the intercept, so the point that training
converges to does not depend on the draw of the warm-up rows, except that they fix the units of the width of a decision.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from surefair import kernels
from surefair.criteria import Comparisons
from surefair.diagnostics.rare_column import RARE, Carrier
from surefair.learners import Settings
from surefair.learners.multipliers import Multipliers, row_numbers
from surefair.learners.schedules import PolynomialDecay
from surefair.learners.stochastic_newton import Beginning, Learnt, NewtonState, StochasticNewton
from surefair.losses import Loss
from surefair.rows import FloatArray, IntArray, Rows
from surefair.storage.archive import Arrays
from surefair.training.coordinates import with_ones
from surefair.training.problem import Problem
from surefair.training.stationary import PATIENCE, Conditions, Stationary

WIDTH = 0.75
"""Width of the slope of a decision, relative to the spread of the scores, unless ``sharpness`` says otherwise."""

ENOUGH = 4e-4  # residual of a replicate times √n; that moves it by about a thousandth of its distance from the fit
ROUNDING = 1e-12  # deviation from its mean, relative to its size, up to which a column is constant
VARIES = 0.01  # mean square of a coordinate, which is 1 unless features are redundant
MANY, SOME = 8_000, 4_000  # from so many rows on, the problem is first solved on about this many of them


class Task(NamedTuple):
    """A problem whose constraint is learnt from the stream."""

    loss: Loss
    comparisons: Comparisons
    alpha: float  # κ of the ridge
    width: float = WIDTH
    tolerance: float = 0.0
    penalty: float = 0.0  # 0 for a constraint
    fit_intercept: bool = True  # whether the last column is all ones
    dtype: str = "float64"

    def settings(self, start: FloatArray, schedule: PolynomialDecay, multipliers: Multipliers) -> Settings:
        """Return the settings of a learner that begins at ``start``."""
        return Settings(
            loss=self.loss,
            alpha=self.alpha,
            tolerance=self.tolerance,
            penalty=self.penalty,
            sharpness=None,
            schedule=schedule,
            multipliers=multipliers,
            start=start,
            robust=True,
        )

    def conditions(
        self, W: FloatArray, ridge: FloatArray, moved: FloatArray, y: FloatArray, group: IntArray, weight: FloatArray
    ) -> Conditions:
        """Return the conditions for an optimum on rows that are given in the coordinates W, with the ridge κr."""
        ones = np.linalg.solve(W, np.eye(len(W))[-1]) if self.fit_intercept else None
        entries = self.comparisons.entries(y, group)
        weight = weight / weight.mean()
        return Conditions(self.loss, ridge, self.comparisons, self.width, moved, y, weight, weight, entries, ones)

    def ridge(self, units: FloatArray, moved: FloatArray, weight: FloatArray) -> FloatArray:
        """Ridge κr on each coordinate, given r and the rows in these coordinates."""
        constrained = self.comparisons.kind == kernels.DECISIONS and len(self.comparisons.pairs) > 0
        return self.alpha * units + (idle_ridge(moved, weight) if constrained else 0.0)

    def solve(self, conditions: Conditions, near: Stationary | None = None) -> Stationary:
        """Find the optimum; on many rows, from the optimum on some of them, unless another point is ``near``."""
        n = len(conditions.y)
        if near is None and n > MANY:
            near = self.solve(conditions.part(slice(None, None, -(-n // SOME))))
        return conditions.solve(self.tolerance, self.effective_penalty, near)

    @property
    def effective_penalty(self) -> float:
        """R₂ as the solver takes it."""
        return self.penalty * self.loss.penalty_factor


def coordinates(
    X: FloatArray, weight: FloatArray, fit_intercept: bool, ridged: bool = True
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    """Coordinates W in which rows have the identity as second moment and the ridge is diagonal; and that ridge.

    With an intercept, columns are centred first, so that a column may lie far from 0. Directions in which the rows
    hardly vary, by less than one row's worth, are not stretched further. Without a ridge, the units of features do not
    matter.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([1e6 + rng.normal(size=(1000, 2)), np.ones(1000)])
    >>> W, _ = coordinates(X, np.ones(1000), fit_intercept=True)
    >>> bool(np.allclose((X @ W).T @ (X @ W) / 1000, np.eye(3)))
    True
    """
    n, D = X.shape
    share = weight / weight.sum()
    centred = np.eye(D)
    if fit_intercept:
        centred[-1, :-1] = -(share @ X[:, :-1])
    moved = X @ centred
    largest = np.abs(moved).max(axis=0, initial=0.0)
    constant = largest <= ROUNDING * np.abs(X).max(axis=0, initial=0.0)
    moved[:, constant] = 0.0
    largest[constant] = 1.0
    unit = moved / largest
    scale = np.sqrt(share @ unit**2)
    scale[scale == 0.0] = 1.0
    scaled = unit / scale
    values, vectors = np.linalg.eigh((scaled.T * share) @ scaled)
    second = (vectors * np.maximum(values, 1.0 / n)) @ vectors.T
    scale = scale * largest
    penalised = np.full(D, float(ridged))
    penalised[D - int(fit_intercept) :] = 0.0
    ridge, basis = eigh(np.diag(penalised / scale**2), second)
    return centred @ (basis / scale[:, None]), np.maximum(ridge, 0.0)


def idle_ridge(moved: FloatArray, weight: FloatArray) -> FloatArray:
    """Ridge on coordinates along which rows hardly vary, because features are redundant.

    Coefficients there change hardly any score, but they count in ‖u‖, which is taken for the spread of the scores. A
    large ‖u‖ would make every decision look undecided, and so meet any constraint. If such a coordinate varies in later
    rows, their loss soon outweighs the ridge.

    Examples
    --------
    >>> idle_ridge(np.array([[1.0, 0.5, 0.0], [-1.0, -0.5, 0.0]]), np.ones(2))
    array([0., 0., 1.])
    """
    square = (weight / weight.sum()) @ moved**2
    return np.where(square < VARIES, 1.0, 0.0)


class WarmedUp(NamedTuple):
    """What the warm-up rows led to."""

    learner: StochasticNewton
    state: NewtonState
    W: FloatArray  # (D, D), coordinates: θ = Wu, and rows X become XW
    reached: bool  # whether the problem was solved on them
    unsolved: float  # share of the replicates for which it was not
    gaps: tuple[FloatArray, FloatArray, FloatArray, FloatArray]  # as in ``Begun``
    carriers: list[Carrier]  # rare columns


def warm_up(
    task: Task, X: FloatArray, rows: Rows, multipliers: Multipliers, n_columns: int = 1, n_threads: int = 1,
    near: Stationary | None = None,
) -> WarmedUp:  # fmt: skip
    """Choose coordinates from the warm-up rows, and solve the problem on them.

    X (n, D) has their features, with the column of ones if there is one. ``near`` is an optimum on similar rows, in
    units of the features.
    """
    y, group, weight = rows.y, rows.group, rows.weight
    W, units = coordinates(X, weight, task.fit_intercept, task.alpha > 0.0)
    moved = X @ W
    ridge = task.ridge(units, moved, weight)
    conditions = task.conditions(W, ridge, moved, y, group, weight)
    near = None if near is None else near._replace(theta=np.asarray(np.linalg.solve(W, near.theta)))
    begin = task.solve(conditions, near)
    free_theta = conditions.free(begin.theta).theta
    free, error = conditions.decision_gaps(free_theta)
    held, _ = conditions.decision_gaps(begin.theta)
    followed = conditions.followed(conditions.tangent(begin.theta))
    on = followed > 0.0
    gaps = (free[on], held[on], error[on], conditions.gaps(begin.theta)[on])
    learner = _learner(task, begin.theta, begin.push, ridge, moved, rows, multipliers)
    carriers = _carriers(conditions, X, W, free_theta, begin) if begin.push[on].any() else []
    state, settled = learner.begin(n_columns, n_threads, followed)
    state, unsolved = _settled(task, conditions, begin, learner, state, settled)
    return WarmedUp(learner, state, W, begin.reached, unsolved / max(n_columns - 1, 1), gaps, carriers)


def _settled(
    task: Task, conditions: Conditions, fit: Stationary, learner: StochasticNewton, state: NewtonState,
    settled: NDArray[np.bool_],
) -> tuple[NewtonState, int]:  # fmt: skip
    """State in which the problem is solved for columns whose weights are too uneven for the Hessian of the fit.

    The solver looks for the optimum beside that of the fit first, then for any. Where it finds none, the column stays
    as it is, unless that is absurd. Returns for how many replicates it found none, too.
    """
    unsolved = 0
    if settled.all() and fit.reached:
        return state, unsolved
    enough = ENOUGH / np.sqrt(len(conditions.y))
    V = conditions.weight[:, None] * learner.settings.multipliers.of(learner.form.first.key, state.theta.shape[1])
    for column in np.flatnonzero(~settled | (np.arange(len(settled)) == 0)).tolist():
        own = replace(conditions, weight=V[:, column]).part(V[:, column] > 0.0)
        found = fit if column == 0 else own.beside(fit, task.tolerance, task.effective_penalty, enough, PATIENCE)
        found = found if found.reached or not fit.reached else task.solve(own)
        unsolved += column > 0 and not found.reached
        here = found._replace(theta=state.theta[:, column], push=state.push[:, column])
        if found.reached:
            best = here if settled[column] else found
        else:
            best = next((one for one in (here, found) if not own.is_absurd(one.theta)), fit)
        if best is not here:
            state = learner.moved(state, column, V[:, column], best.theta, best.push)
    return state, unsolved


def _carriers(
    conditions: Conditions, X: FloatArray, W: FloatArray, free: FloatArray, held: Stationary
) -> list[Carrier]:
    """What the coefficient of each rare column does for the gap of the pair that pulls most."""
    pair = int(np.argmax(np.abs(held.push)))
    unusual = np.sum(np.median(X, axis=0) != X, axis=0)
    theta = W @ held.theta
    before, after = (float(conditions.gaps(at)[pair]) for at in (free, held.theta))
    found = []
    for j in np.flatnonzero((unusual > 0) & (unusual < RARE * len(X)) & (theta != 0.0)).tolist():
        without = held.theta - np.linalg.solve(W, np.eye(len(W))[j]) * theta[j]
        found.append(Carrier(j, int(unusual[j]), before, after, float(conditions.gaps(without)[pair])))
    return found


def rebuild(task: Task, problem: Problem, rows: Rows, arrays: Arrays, exact: bool = False) -> StochasticNewton:
    """Rebuild a learner from its warm-up rows, of which exact fits do not keep the features, and what they led to."""
    X = rows.X if exact else with_ones(rows.X, problem.fit_intercept) @ arrays["W"]
    return _learner(task, arrays["start"], arrays["push"], arrays["ridge"], X, rows, problem.multipliers)


def _learner(
    task: Task, start: FloatArray, push: FloatArray, ridge: FloatArray, moved: FloatArray, rows: Rows,
    multipliers: Multipliers,
) -> StochasticNewton:  # fmt: skip
    settings = task.settings(start, PolynomialDecay(1.0, 1.0), multipliers)
    weight = rows.weight / (rows.weight.mean() if rows.n else 1.0)
    key = row_numbers(0, rows.n) if rows.cluster is None else rows.cluster
    first = Beginning(moved, rows.y, weight, rows.group[:, : len(task.comparisons.sizes)], key)
    return StochasticNewton(settings, Learnt(task.comparisons, task.width, ridge, push, first, task.dtype))
