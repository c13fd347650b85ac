"""The point that a constraint from the stream leads to, found exactly on given rows.

With values f of the rates and slopes ∇f as in ``criteria/_comparisons.py``, and c the differences of pairs of groups,
it is the θ with multipliers λ for which

    ∇(mean ℓ) + κ r θ + Σ λ ∇c = 0    and, for every pair,    |c| ≤ ε, with λ = 0 inside,    or    λ = 2 R₂ c.

Under the surrogate "scores" this is the optimum of a constrained problem. Under "decisions" values are hard and slopes
are soft, so it is a stationary point that the learner shares, not a minimum. Hard values are smoothed a little here, by
a narrow logistic function, so that Newton's method applies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.special import expit

from surefair import kernels
from surefair.criteria import Comparisons, Entries, wide_slope
from surefair.losses import Loss
from surefair.rows import FloatArray

SMOOTH = 0.05  # width of smoothed decisions, relative to the spread of the scores
FLOOR = 0.1  # least curvature of the Lagrangian, relative to that of the loss
RESIDUAL = 1e-9  # size of a residual that counts as 0
STAGES = 5  # in which the tolerance comes down from the gap of the free optimum
NEWTON = 60  # steps of Newton's method in each stage, at most
TRUE = 0.3  # least share of the directions' slope that that of the values must have to be used
ROUNDS = 20  # changes of the set of pairs at the tolerance, at most


class Stationary(NamedTuple):
    """A stationary point: coefficients, the multiplier of each pair, and whether the residuals are 0."""

    theta: FloatArray  # (D,)
    push: FloatArray  # (pairs,)
    reached: bool


@dataclass(frozen=True, eq=False)
class Stationarity:
    """The conditions for a stationary point on given rows.

    Attributes
    ----------
    loss : Loss
    alpha : float
        κ of the ridge.
    ridge : ndarray of shape (D,)
        r of the ridge κ Σ r_j θ_j² / 2.
    comparisons : Comparisons
    width : float
        Width of the slope of decisions.
    X, y, weight : ndarray
        Rows; weights have mean 1.
    entries : Entries
    """

    loss: Loss
    alpha: float
    ridge: FloatArray
    comparisons: Comparisons
    width: float
    X: FloatArray
    y: FloatArray
    weight: FloatArray
    entries: Entries

    def slope_of_loss(self, theta: FloatArray) -> FloatArray:
        """Gradient of mean loss and ridge."""
        slope = self.weight * self.loss.derivative(self.X @ theta, self.y)
        return np.asarray(slope @ self.X / len(self.y) + self.alpha * self.ridge * theta)

    def curvature_of_loss(self, theta: FloatArray) -> FloatArray:
        """Hessian of mean loss and ridge."""
        bend = self.weight * self.loss.curvature(self.X @ theta, self.y)
        return np.asarray((self.X.T * bend) @ self.X / len(self.y) + np.diag(self.alpha * self.ridge + 1e-12))

    def rates(self, theta: FloatArray, narrow: float | None = None) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Rates (F,), their directions (F, D), and the curvature (n, entries) that each row adds to its rate.

        With a ``narrow`` width decisions are smoothed, and their slopes are those of the smoothed values.
        """
        c = self.comparisons
        F = c.n_rates
        value, slope, bend = surrogate(c.kind, self.entries, (self.X @ theta)[:, None], self.width, narrow)
        inverse = 1.0 / np.maximum(self._sum(np.ones_like(value))[:, 0], 1e-300)
        mean = self._sum(value)[:, 0] * inverse
        gradient = self._sum(slope, self.X) * inverse[:, None]
        share = np.ones(c.n_cells)
        found = mean[:F].copy()
        slopes = gradient[:F].copy()
        for below in range(F, c.n_cells):
            rate = c.owner[below]
            share[rate] = 1.0 / mean[below] if mean[below] > 0.0 else 0.0
            share[below] = -mean[rate] * share[rate] ** 2
            found[rate] = mean[rate] * share[rate]
            slopes[rate] = share[rate] * gradient[rate] + share[below] * gradient[below]
        return found, slopes, self.weight[:, None] * bend * (share * inverse)[self.entries.cell]

    def _sum(self, numbers: FloatArray, X: FloatArray | None = None) -> FloatArray:
        """Weighted sums over the rows of each cell of numbers (n, entries), times X; shape (C, D) or (C, 1)."""
        some = self.entries.cell >= 0
        row = np.nonzero(some)[0]
        table = csr_matrix(
            (numbers[some] * self.weight[row], (self.entries.cell[some], row)),
            shape=(self.comparisons.n_cells, len(self.y)),
        )
        return np.asarray(table @ (np.ones((len(self.y), 1)) if X is None else X))

    def curvature(self, theta: FloatArray, push: FloatArray) -> FloatArray:
        """Hessian of the Lagrangian; ratios count as if their denominators were straight."""
        pull = self.comparisons.by_rate(push)
        bend = self.rates(theta)[2]
        cell = self.entries.cell
        by_row = np.sum(np.where(cell >= 0, pull[self.comparisons.owner][cell] * bend, 0.0), axis=1)
        return np.asarray(self.curvature_of_loss(theta) + (self.X.T * by_row) @ self.X)

    def solve(self, tolerance: float = 0.0, penalty: float = 0.0) -> Stationary:
        """Find a stationary point: equal rates, rates within a tolerance, or a penalty."""
        c = self.comparisons
        J = len(c.pairs)
        theta, _, reached = self._newton(
            np.zeros(self.X.shape[1]), np.zeros(J), np.zeros(0, dtype=np.int64), np.zeros(0)
        )
        free = self._gaps(theta)
        if J == 0:
            return Stationary(theta, np.zeros(J), reached)
        if penalty > 0.0:
            return self._newton(theta, np.zeros(J), np.arange(J), np.zeros(J), 0.5 / penalty)
        push = np.zeros(J)
        held = np.arange(J) if tolerance == 0.0 else np.flatnonzero(np.abs(free) > tolerance)
        for _ in range(ROUNDS):
            goal = np.sign(free[held]) * tolerance
            before = self._gaps(theta)[held]
            for share in np.arange(1, STAGES + 1) / STAGES:
                theta, push, reached = self._newton(theta, push, held, before + share * (goal - before))
            if tolerance == 0.0:
                break
            gaps = self._gaps(theta)
            keep = held[push[held] * np.sign(gaps[held]) > -RESIDUAL]
            new = np.union1d(keep, np.flatnonzero(np.abs(gaps) > tolerance * (1.0 + 1e-6) + RESIDUAL))
            free = np.where(np.isin(np.arange(J), held), free, gaps)
            if np.array_equal(new, held):
                break
            push = np.where(np.isin(np.arange(J), new), push, 0.0)
            held = new.astype(np.int64)
        else:
            reached = False
        return Stationary(theta, push, reached)

    def _gaps(self, theta: FloatArray) -> FloatArray:
        """Differences of all pairs, of smoothed hard decisions."""
        found = self.rates(theta, self._narrow(theta))[0]
        return np.asarray(found[self.comparisons.pairs[:, 0]] - found[self.comparisons.pairs[:, 1]])

    def _narrow(self, theta: FloatArray) -> float:
        """Width of smoothed decisions."""
        spread = np.sqrt(np.average((self.X @ theta) ** 2, weights=self.weight))
        return max(SMOOTH * float(spread), 1e-9)

    def _newton(
        self, theta: FloatArray, push: FloatArray, held: NDArray[np.int64], goal: FloatArray, give: float = 0.0
    ) -> Stationary:
        """Newton's method for θ and the multipliers of some pairs, whose differences have a goal."""
        pairs = self.comparisons.pairs[held]
        best = np.inf
        for _ in range(NEWTON):
            _, soft, _ = self.rates(theta)
            values, hard, _ = self.rates(theta, self._narrow(theta))
            across = soft[pairs[:, 0]] - soft[pairs[:, 1]]
            true = hard[pairs[:, 0]] - hard[pairs[:, 1]]
            left = self.slope_of_loss(theta) + push[held] @ across
            off = values[pairs[:, 0]] - values[pairs[:, 1]] - goal - give * push[held]
            size = max(np.abs(left).max(), np.abs(off).max(initial=0.0))
            if size < RESIDUAL:
                return Stationary(theta, push, True)
            root = np.linalg.cholesky(self.curvature_of_loss(theta))
            inner = np.linalg.solve(root, np.linalg.solve(root, self.curvature(theta, push)).T)
            bends, directions = np.linalg.eigh((inner + inner.T) / 2.0)
            basis = np.linalg.solve(root.T, directions)
            inverse = (basis / np.maximum(bends, FLOOR)) @ basis.T
            along = inverse @ across.T
            matrix = across @ along + give * np.eye(len(held))
            steep = true @ along + give * np.eye(len(held))
            if np.linalg.eigvals(np.linalg.pinv(matrix) @ steep).real.min(initial=1.0) > TRUE:
                matrix = steep
                across = true
            more = np.linalg.pinv(matrix, rcond=1e-9) @ (off - across @ (inverse @ left))
            step = -inverse @ left - along @ more
            length = np.sqrt(np.average((self.X @ step) ** 2, weights=self.weight))
            share = min(1.0, 0.5 / max(length, 1e-12)) * (1.0 if size < 0.9 * best else 0.5)
            best = min(best, size)
            theta = theta + share * step
            push = push.copy()
            push[held] += share * more
        return Stationary(theta, push, False)


def surrogate(
    kind: int, entries: Entries, score: FloatArray, width: float, narrow: float | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Value, slope and curvature, in the score (n, 1), of what rows add to their cells; shape (n, entries) each."""
    sign = entries.sign
    if kind == kernels.LINEAR:
        return sign * score, sign + 0.0 * score, 0.0 * sign * score
    if kind == kernels.HINGE:
        side = sign * (sign * score > 0.0)
        return side * score, side, 0.0 * side
    if narrow is not None:
        p = expit(score / narrow)
        return entries.constant + sign * p, sign * p * (1.0 - p) / narrow, 0.0 * sign * score
    tail = 1.0 + score**2 / (kernels.TAIL * width**2)
    slope = sign * wide_slope(score, width)
    return entries.constant + sign * (score > 0.0), slope, -4.0 * slope * score / (kernels.TAIL * width**2 * tail)
