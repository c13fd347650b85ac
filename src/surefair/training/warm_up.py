"""From the first rows of a stream to a learner: coordinates, start and steps for a constraint learnt from all rows.

The warm-up rows only say where to begin and how long steps should be. They are trained on like all others, and what
they suggest is forgotten: the point that training converges to does not depend on them. For that the ridge is defined
in units of the features, κ‖θ‖²/2 without the intercept, whatever coordinates the learner moves in.

In the learner's coordinates θ = Wu the Lagrangian has the same curvature c in all directions, as far as the warm-up
rows show it, so that one step size serves all of them. Its curvature along the constraint is at least a tenth of that
of the loss; across the constraint, where nothing needs to converge, it is that of the loss. Among such coordinates, W
is the one in which the ridge is a sum over features.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from surefair.criteria import Comparisons
from surefair.learners import Settings
from surefair.learners.multipliers import Multipliers
from surefair.learners.running_constraint import Running, RunningConstraint
from surefair.learners.schedules import automatic
from surefair.losses import Loss
from surefair.rows import FloatArray, IntArray
from surefair.training.stationary import FLOOR, Stationarity


class Task(NamedTuple):
    """A problem whose constraint is learnt from the stream."""

    loss: Loss
    comparisons: Comparisons
    alpha: float  # κ of the ridge
    width: float = 1.0  # of the slope of decisions
    tolerance: float = 0.0
    penalty: float = 0.0  # 0 for a constraint
    fit_intercept: bool = True  # whether the last column is all ones

    def on(self, X: FloatArray, y: FloatArray, group: IntArray, weight: FloatArray) -> Stationarity:
        """Return the conditions for the stationary point on given rows, in units of the features."""
        ridge = np.ones(X.shape[1])
        ridge[len(ridge) - self.fit_intercept :] = 0.0
        entries = self.comparisons.entries(y, group)
        return Stationarity(
            self.loss, self.alpha, ridge, self.comparisons, self.width, X, y, weight / weight.mean(), entries
        )


class WarmUp(NamedTuple):
    """A learner, and the coordinates W that it moves in: θ = Wu, and rows X become XW."""

    learner: RunningConstraint
    W: FloatArray


def warm_up(
    task: Task, X: FloatArray, y: FloatArray, group: IntArray, weight: FloatArray, multipliers: Multipliers
) -> WarmUp:
    """Choose coordinates, start and steps from the warm-up rows X (n, D), with the column of ones if there is one."""
    conditions = task.on(X, y, group, weight)
    begin = conditions.solve(task.tolerance, task.penalty)
    theta = begin.theta
    n, D = X.shape
    plain = _floored(conditions.curvature_of_loss(theta), 1.0 / n)
    root = np.linalg.cholesky(plain)
    inner = np.linalg.solve(root, np.linalg.solve(root, conditions.curvature(theta, begin.push)).T)
    pairs = task.comparisons.pairs[begin.push != 0.0]
    directions = conditions.rates(theta)[1]
    across = np.linalg.solve(root, (directions[pairs[:, 0]] - directions[pairs[:, 1]]).T)
    basis = np.linalg.qr(across)[0] if across.shape[1] <= D else np.eye(D)
    along = np.eye(D) - basis @ basis.T
    values, vectors = np.linalg.eigh(along @ (inner + inner.T) @ along / 2.0 + basis @ basis.T)
    even = root @ (vectors * np.maximum(values, FLOOR)) @ vectors.T @ root.T
    c = float(np.exp(np.linalg.slogdet(even)[1] / D))
    ridge, W = eigh(np.diag(conditions.ridge), even / c)  # WᵀEW = cI, and the ridge is diagonal
    moved = X @ W
    share = weight / weight.sum()
    leverage = task.loss.curvature(X @ theta, y) / c * np.sum(moved**2, axis=1)
    settings = Settings(
        loss=task.loss,
        alpha=task.alpha,
        tolerance=task.tolerance,
        penalty=task.penalty,
        sharpness=None,
        schedule=automatic(c, float(share @ leverage**2) / D, n),
        multipliers=multipliers,
        start=np.asarray(np.linalg.solve(W, theta), dtype=np.float64),
        robust=True,
    )
    form = Running(
        comparisons=task.comparisons,
        width=task.width,
        curvature=W.T @ conditions.curvature(theta, begin.push) @ W,
        ridge=np.maximum(ridge, 0.0),
        push=begin.push,
        square=float(share @ (X @ theta) ** 2),
    )
    return WarmUp(RunningConstraint(settings, form), W)


def _floored(hessian: FloatArray, least: float) -> FloatArray:
    """Return a Hessian in which no direction has less than this share of the curvature of its columns."""
    scale = np.sqrt(np.maximum(np.diag(hessian), 1e-300))
    values, vectors = np.linalg.eigh(hessian / np.outer(scale, scale))
    return np.asarray((vectors * np.maximum(values, least)) @ vectors.T * np.outer(scale, scale))
