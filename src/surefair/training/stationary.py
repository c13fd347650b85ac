"""The exact optimum, on given rows, of the problem whose constraint is learnt from the stream.

    minimise  mean ℓ(θᵀx, y) + κ Σ r_j θ_j² / 2   under   |c_p(θ)| ≤ ε for all pairs p,   or with R₂ Σ c_p(θ)² added

where c_p is the difference of a rate between two groups (see ``criteria/_comparisons.py``), averaged over these rows.
Coordinates are such that the spread of the scores is ‖θ‖. Loss and constraint are smooth, so this is solved by
sequential quadratic programming. The constraint is not convex and there may be several optima; a model that decides the
same for nearly everyone is often one of them. The solver tightens the tolerance step by step, from the free optimum and
from the same with a shifted intercept. It keeps the end that the free optimum leads to, unless another one is better by
more than 2 %.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefair import kernels
from surefair.criteria import Comparisons, Entries, surrogate
from surefair.learners.stochastic_newton import combinations, floored_inverse, lifted, noise_of_pairs, solved
from surefair.losses import Loss
from surefair.rows import FloatArray, IntArray

RESIDUAL = 1e-10  # size of a residual that counts as 0
NEARLY = 1e-6  # size of a residual that is good enough if it does not shrink any more
STAGES = (0.8, 0.6, 0.4, 0.2)  # shares of the gap of the free optimum in which the tolerance comes down
STEPS = 80  # of Newton's method in each stage, at most
SWEEPS = 2000  # over the pairs of groups, at most
BETTER = 0.98  # share of the objective below which another optimum is clearly better
SHARES = (0.1, 0.9)  # of positive decisions from which the solver begins besides those of the free optimum


class Stationary(NamedTuple):
    """An optimum: coefficients, the multiplier of each pair, the objective, and whether the solver reached it."""

    theta: FloatArray  # (D,)
    push: FloatArray  # (pairs,)
    value: float
    reached: bool


class Tangent(NamedTuple):
    """Rates of groups at some coefficients: values, slopes, and what depends on the cells."""

    rates: FloatArray  # (F,)
    slopes: FloatArray  # (F, D)
    steep: FloatArray  # (F, D), derivatives of the rates
    mean: FloatArray  # (C,), values of cells
    cells: FloatArray  # (C, D), slopes of cells
    share: FloatArray  # (C,), derivative of its rate in the mean of each cell
    noise: FloatArray  # (F,), squared length that chance alone gives each slope


@dataclass(frozen=True, eq=False)
class Conditions:
    """The conditions for an optimum on given rows.

    Attributes
    ----------
    loss : Loss
    ridge : ndarray of shape (D,)
        κ r.
    comparisons : Comparisons
    width : float
        Width of a decision, relative to the spread of the scores.
    X, y, weight : ndarray
        Rows; weights have mean 1.
    entries : Entries
    ones : ndarray of shape (D,) or None
        Coefficients with which every row has the score 1, if there is an intercept.
    """

    loss: Loss
    ridge: FloatArray
    comparisons: Comparisons
    width: float
    X: FloatArray
    y: FloatArray
    weight: FloatArray
    entries: Entries
    ones: FloatArray | None = None

    def value(self, theta: FloatArray) -> float:
        """Mean loss and ridge."""
        loss = np.mean(self.weight * self.loss.value(self.X @ theta, self.y))
        return float(loss + (self.ridge * theta) @ theta / 2.0)

    def tangent(self, theta: FloatArray) -> Tangent:
        """Rates at θ and their slopes."""
        c = self.comparisons
        score = self.X @ theta
        value, slope, _, steep = self._surrogate(theta, score)
        sizes = self._sum(np.ones_like(value))[:, 0]
        inverse = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0.0)
        mean = self._sum(value)[:, 0] * inverse
        z = self._turned(theta, score)
        cells = self._sum(slope, z) * inverse[:, None]
        noise = self._sum(slope**2, np.sum(z**2, axis=1, keepdims=True))[:, 0] * inverse**2
        share = c.shares(mean)
        slopes = c.rate_sums(share, cells)
        derivative = c.rate_sums(share, self._sum(steep, z) * inverse[:, None])
        return Tangent(c.rate_values(mean), slopes, derivative, mean, cells, share, c.rate_sums(share**2, noise))

    def _surrogate(self, theta: FloatArray, score: FloatArray) -> tuple[FloatArray, ...]:
        spread = np.linalg.norm(theta)
        scale = 1.0 / (self.width * spread) if spread > 0.0 else 0.0
        return surrogate(self.comparisons.kind, self.entries.constant, self.entries.sign, score[:, None], scale)

    def _turned(self, theta: FloatArray, score: FloatArray) -> FloatArray:
        """Rows less what they share with the change of the spread: x - m θ / ‖θ‖²."""
        square = theta @ theta
        if self.comparisons.kind != kernels.DECISIONS or square == 0.0:
            return self.X
        return np.asarray(self.X - np.outer(score, theta / square))

    def _sum(self, numbers: FloatArray, X: FloatArray | None = None) -> FloatArray:
        """Weighted sums over the rows of each cell of numbers (n, entries), times X; shape (C, columns of X)."""
        some, row, cell = self._members
        weighted = numbers[some] * self.weight[row]
        if X is None:
            sums = np.bincount(cell, weights=weighted, minlength=self.comparisons.n_cells)
            return np.asarray(sums[:, None], dtype=np.float64)
        table = np.zeros((self.comparisons.n_cells, len(self.y)))
        table[cell, row] = weighted  # a row is in a cell once
        return np.asarray(table @ X)

    @cached_property
    def _members(self) -> tuple[NDArray[np.bool_], IntArray, IntArray]:
        """Which entries are in a cell; their rows, and their cells."""
        some = self.entries.cell >= 0
        return some, np.nonzero(some)[0], self.entries.cell[some]

    def loss_gradient(self, theta: FloatArray) -> FloatArray:
        """Gradient of mean loss and ridge."""
        slope = self.weight * self.loss.derivative(self.X @ theta, self.y)
        return np.asarray(slope @ self.X / len(self.y) + self.ridge * theta)

    def loss_hessian(self, theta: FloatArray) -> FloatArray:
        """Hessian of mean loss and ridge."""
        bend = self.weight * self.loss.curvature(self.X @ theta, self.y)
        return np.asarray((self.X.T * bend) @ self.X / len(self.y) + np.diag(self.ridge + 1e-10))

    def constraint_hessian(self, theta: FloatArray, pull: FloatArray, tangent: Tangent) -> FloatArray:
        """Hessian of Σ pull · rate; ratios count as if their denominators were straight."""
        c = self.comparisons
        score = self.X @ theta
        _, slope, bend, _ = self._surrogate(theta, score)
        sizes = self._sum(np.ones_like(slope))[:, 0]
        by_cell = pull[c.owner] * tangent.share / np.where(sizes > 0.0, sizes, np.inf)
        cell = self.entries.cell
        part = np.where(cell >= 0, by_cell[cell], 0.0) * self.weight[:, None]
        curl = np.sum(part * bend, axis=1)
        along = np.sum(part * slope, axis=1)
        z = self._turned(theta, score)
        found = (z.T * curl) @ z
        square = theta @ theta
        if c.kind == kernels.DECISIONS and square > 0.0:
            v = theta / square
            drift = along @ self.X
            found -= np.outer(drift, v) + np.outer(v, drift)
            found -= (along @ score) * (np.eye(len(theta)) / square - 3.0 * np.outer(v, v))
        return np.asarray(found)

    def influences(
        self, theta: FloatArray, push: FloatArray, tangent: Tangent
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """What each row adds to the Lagrangian's gradient (n, D) and to cells (n, C), and the cells' shares (C,)."""
        c = self.comparisons
        score = self.X @ theta
        value, slope, _, _ = self._surrogate(theta, score)
        share = self._sum(np.ones_like(value))[:, 0] / len(self.y)
        pull = c.by_rate(push)[c.owner] * tangent.share
        pull = np.divide(pull, share, out=np.zeros_like(pull), where=share > 0.0)
        rho = np.zeros((len(self.y), c.n_cells))
        psi = self.loss.derivative(score, self.y)[:, None] * self.X
        z = self._turned(theta, score)
        for cell, f, bend in zip(self.entries.cell.T, value.T, slope.T, strict=True):
            i = np.flatnonzero(cell >= 0)
            g = cell[i]
            rho[i, g] += f[i] - tangent.mean[g]
            psi[i] += pull[g, None] * (bend[i, None] * z[i] - tangent.cells[g])
        return psi * self.weight[:, None], rho * self.weight[:, None], share

    def followed(self, tangent: Tangent, before: FloatArray | float = 0.0) -> FloatArray:
        """Which pairs are constrained: groups with enough rows, whose gap depends on θ by more than chance; (J,)."""
        c = self.comparisons
        some = (self.entries.cell >= 0) & (self.weight[:, None] > 0.0)
        seen = np.bincount(self.entries.cell[some], minlength=c.n_cells)[: c.n_rates]
        return c.followed(
            c.looked_at(seen.astype(np.float64), tangent.mean), tangent.rates, tangent.slopes, tangent.noise, before
        )

    def decision_gaps(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Gaps of the decisions themselves, and their standard errors, (J,) each."""
        c = self.comparisons
        decision = (self.X @ theta > 0.0)[:, None]
        negative = self.entries.sign < 0.0
        value = np.where(self.entries.sign == 0.0, self.entries.constant, np.where(negative, ~decision, decision))
        sizes = self._sum(np.ones_like(value, dtype=np.float64))[:, 0]
        mean = np.divide(self._sum(value.astype(np.float64))[:, 0], sizes, out=np.zeros_like(sizes), where=sizes > 0.0)
        rates = c.rate_values(mean)
        variance = rates * (1.0 - rates) / np.maximum(c.looked_at(sizes, mean), 1.0)
        one, two = c.pairs[:, 0], c.pairs[:, 1]
        return rates[one] - rates[two], np.sqrt(np.maximum(variance[one] + variance[two], 0.0))

    def solve(self, tolerance: float = 0.0, penalty: float = 0.0) -> Stationary:
        """Find the optimum: equal rates, rates within a tolerance, or a penalty."""
        return self.optima(tolerance, penalty)[0]

    def optima(self, tolerance: float = 0.0, penalty: float = 0.0) -> list[Stationary]:
        """Ends of the solver from all starts: first the one from the free optimum, unless others are clearly better."""
        free = self.free()
        gaps = self._gaps(self.tangent(free.theta))
        if len(gaps) == 0 or (penalty == 0.0 and np.abs(gaps).max() <= tolerance):
            return [free]
        starts = [free.theta]
        if self.ones is not None:
            score = self.X @ free.theta
            starts += [free.theta - np.quantile(score, 1.0 - share) * self.ones for share in SHARES]
        first, *others = (self._tighten(start, tolerance, penalty) for start in starts)
        others.sort(key=lambda end: (not end.reached, end.value))
        better = [end for end in others if end.reached and (not first.reached or end.value < BETTER * first.value)]
        return [*better, first, *(end for end in others if not any(end is one for one in better))]

    def free(self) -> Stationary:
        """Optimum without a constraint."""
        theta = np.zeros(self.X.shape[1])
        left = np.inf
        for _ in range(STEPS):
            gradient = self.loss_gradient(theta)
            left = float(np.abs(gradient).max())
            if left < RESIDUAL:
                break
            theta = theta + _short(np.asarray(-np.linalg.solve(self.loss_hessian(theta), gradient)), 2.0)
        J = len(self.comparisons.pairs)
        return Stationary(theta, np.zeros(J), self.value(theta), left < NEARLY)

    def gaps(self, theta: FloatArray) -> FloatArray:
        """Gaps in terms of the surrogate, (J,)."""
        return self._gaps(self.tangent(theta))

    def _gaps(self, tangent: Tangent) -> FloatArray:
        pairs = self.comparisons.pairs
        return np.asarray(tangent.rates[pairs[:, 0]] - tangent.rates[pairs[:, 1]])

    def _tighten(self, theta: FloatArray, tolerance: float, penalty: float) -> Stationary:
        """Descend from a start while the tolerance comes down."""
        gap = float(np.abs(self._gaps(self.tangent(theta))).max())
        push = np.zeros(len(self.comparisons.pairs))
        if penalty > 0.0:
            ways = [(0.0, 0.5 / weight) for weight in (penalty / 100.0, penalty / 10.0, penalty)]
        else:
            ways = [(max(share * gap, tolerance), 0.0) for share in (*STAGES, 0.0)]
        reached = False
        for level, give in ways:
            theta, push, reached = self._newton(theta, push, level, give)
        extra = 0.0 if penalty == 0.0 else penalty * float(np.sum(self._gaps(self.tangent(theta)) ** 2))
        return Stationary(theta, push, self.value(theta) + extra, reached)

    def _newton(
        self, theta: FloatArray, push: FloatArray, tolerance: float, give: float
    ) -> tuple[FloatArray, FloatArray, bool]:
        """Sequential quadratic programming for θ and multipliers at one tolerance."""
        c = self.comparisons
        left = best = np.inf
        on = np.asarray(push != 0.0, dtype=np.float64)
        for _ in range(STEPS):
            tangent = self.tangent(theta)
            on = self.followed(tangent, on)
            push = push * on
            across = (tangent.slopes[c.pairs[:, 0]] - tangent.slopes[c.pairs[:, 1]]) * on[:, None]
            gap = self._gaps(tangent)
            slope = self.loss_gradient(theta)
            plain = self.loss_hessian(theta)
            inverse = floored_inverse(plain, self.constraint_hessian(theta, c.by_rate(push), tangent))
            steep = (tangent.steep[c.pairs[:, 0]] - tangent.steep[c.pairs[:, 1]]) * on[:, None]
            lift, _ = lifted(c, inverse, across, steep)
            gram = lift @ across.T
            noise = noise_of_pairs(c, tangent.noise, inverse)
            goal = np.clip(gap - give * push, -tolerance, tolerance)
            slack = on * np.where(np.abs(push) > 0.0, np.abs(gap - give * push - np.sign(push) * tolerance), 0.0)
            over = on * np.abs(gap - give * push - goal)
            if tolerance == 0.0 and on.any():
                kept = combinations(gram, on, noise)
                over = np.abs(kept.T @ (gap - give * push)[on > 0.0])
                slack = np.zeros(0)
            left = max(np.abs(slope + push @ across).max(), over.max(initial=0.0), slack.max(initial=0.0))
            if left < RESIDUAL:
                return theta, push, True
            new = multipliers(gram, gap - lift @ slope, on, tolerance, give, push, noise)
            step = -inverse @ (slope + new @ across)
            short = _short(step, max(0.5, 0.2 * float(np.linalg.norm(theta)))) * (1.0 if left < 0.9 * best else 0.5)
            size = float(np.linalg.norm(step))
            best = min(best, left)
            if not np.isfinite(short).all():
                return theta, push, False
            theta = theta + short
            push = push + (new - push) * (float(np.linalg.norm(short)) / size if size > 0.0 else 1.0)
        return theta, push, left < NEARLY


def multipliers(
    gram: FloatArray, gap: FloatArray, on: FloatArray, tolerance: float, give: float, push: FloatArray,
    noise: FloatArray,
) -> FloatArray:  # fmt: skip
    """Multipliers of the pairs that are on; ``gap`` is that without any."""
    if tolerance == 0.0:
        return np.asarray(solved(gram, on, give, noise) @ gap)
    new = push * on
    for _ in range(SWEEPS):
        before = new.copy()
        for p in np.flatnonzero(on):
            left = gap[p] - gram[p] @ new + gram[p, p] * new[p]
            size = gram[p, p] + give
            new[p] = np.sign(left) * max(abs(left) - tolerance, 0.0) / size if size > 0.0 else 0.0
        if np.abs(new - before).max(initial=0.0) <= 1e-13 * np.abs(new).max(initial=0.0):
            break
    return np.asarray(new)


def _short(step: FloatArray, most: float) -> FloatArray:
    """Return a step, or the part of it that has this length."""
    length = float(np.linalg.norm(step))
    return step * (most / length) if length > most else step
