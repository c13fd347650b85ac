"""The exact optimum, on given rows, of the problem whose constraint is learnt from the stream.

    minimise  mean ℓ(θᵀx, y) + κ Σ r_j θ_j² / 2   under   |c_p(θ)| ≤ ε for all pairs p,   or with R₂ Σ c_p(θ)² added

where c_p is the difference of a rate between two groups (see ``criteria/_comparisons.py``), averaged over these rows.
Coordinates are such that the spread of the scores is ‖θ‖. Loss and constraint are smooth, so this is solved by
sequential quadratic programming. The constraint is not convex and there may be several optima; a model that decides the
same for nearly everyone is often one of them. The solver tightens the tolerance step by step, from the free optimum and
from the same with a shifted intercept. Once it also goes straight to the tolerance, because small steps may lead past a
better optimum. It keeps the end that the free optimum leads to, unless another one is better by more than 0.5 %. A
model that makes the same decision for nearly everyone gives way to any better one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefair import kernels
from surefair.criteria import Comparisons, Entries, surrogate
from surefair.learners.geometry import (
    floored_inverse,
    lifted,
    multipliers,
    solved,
)
from surefair.losses import Loss
from surefair.rows import FloatArray, IntArray
from surefair.threads import one_blas_thread

TINY = 1e-10  # curvature that makes a Hessian invertible
RESIDUAL = 1e-10  # size of a residual that counts as 0
LOOSE = 1e-3  # the same on the way to the tolerance
NEARLY = 1e-6  # size of a residual that is good enough if it does not shrink any more
STAGES = (0.8, 0.6, 0.4, 0.2)  # shares of the gap of the free optimum in which the tolerance comes down
WEIGHTS = (0.01, 0.1)  # shares of a penalty in which it goes up
STEPS = 80  # of Newton's method in each stage, at most
STILL = 1e-3  # share by which θ or the multipliers move, at most, while the Hessian stays as it is
PATIENCE = 12  # steps without a smaller residual after which the solver gives up a replicate
HALVES = 3  # how often the solver tries a tolerance half-way to one that it does not reach
RELEASES = 3  # how often a pair may be released in one stage: it circles if the constraint itself makes it unclear
BETTER = 0.995  # share of the objective below which another optimum is clearly better
USELESS = 0.01  # share of the rarer decision below which any better optimum is clearly better
CHEAP = 0.98  # share of the objective above which the free optimum leaves too little to gain from other starts
SAME = 1e-2  # distance, relative to the coefficients, of paths that lead to the same optimum
SHARES = (0.1, 0.9)  # of positive decisions from which the solver begins besides those of the free optimum
STRAIGHT = 0.7  # the same for the way straight to the tolerance


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
    metric: FloatArray  # (D,), 1 over the curvature of the loss along each coordinate
    noise: FloatArray  # (F,), squared length in this metric that chance alone gives each slope


class Point(NamedTuple):
    """Coefficients, and what rows have there."""

    theta: FloatArray  # (D,)
    score: FloatArray  # (n,)
    curve: FloatArray  # (n,), weight times the curvature of the loss
    turn: FloatArray  # (D,), θ / ‖θ‖² for decisions, otherwise 0: slopes are those along x - m θ / ‖θ‖²
    value: FloatArray  # (n, entries), as are the following
    slope: FloatArray
    bend: FloatArray
    steep: FloatArray


class Level(NamedTuple):
    """A problem on the way to the one that is asked for."""

    tolerance: float
    give: float  # 1 / (2 R₂) with a penalty R₂, otherwise 0


class Path(NamedTuple):
    """Where a start leads."""

    end: Stationary
    points: dict[Level, FloatArray]  # θ at each level
    useless: bool  # whether the end makes the same decision for nearly everyone

    @property
    def bound(self) -> float:
        """Objective below which another optimum is clearly better."""
        return self.end.value * (1.0 - NEARLY if self.useless else BETTER)


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
    own : ndarray of shape (n,)
        Weights without the multipliers of a replicate: a row of twice the weight is still one row.
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
    own: FloatArray
    entries: Entries
    ones: FloatArray | None = None

    def value(self, theta: FloatArray) -> float:
        """Mean loss and ridge."""
        loss = np.mean(self.weight * self.loss.value(self.X @ theta, self.y))
        return float(loss + (self.ridge * theta) @ theta / 2.0)

    def is_absurd(self, theta: FloatArray) -> bool:
        """Whether θ = 0, which knows nothing, has less loss."""
        return not self.value(theta) <= self.value(np.zeros_like(theta))

    def tangent(self, theta: FloatArray) -> Tangent:
        """Rates at θ and their slopes."""
        return self._tangent(self._at(theta))

    def _tangent(self, at: Point) -> Tangent:
        c = self.comparisons
        sizes = self._sizes
        inverse = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0.0)
        mean = self._sum(at.value)[:, 0] * inverse
        cells, steep = (self._slopes(at, numbers) * inverse[:, None] for numbers in (at.slope, at.steep))
        square = at.slope**2 * self.own[:, None]
        squares = self._sum(square, self._squares)
        if at.turn.any():
            across = self._sum(square * at.score[:, None], self.X)
            along = self._sum(square * at.score[:, None] ** 2)
            squares = squares - 2.0 * across * at.turn + along * at.turn**2
        metric = 1.0 / (at.curve @ self._squares / len(self.y) + self.ridge + TINY)
        share = c.shares(mean)
        return Tangent(
            rates=c.rate_values(mean),
            slopes=c.rate_sums(share, cells),
            steep=c.rate_sums(share, steep),
            mean=mean,
            cells=cells,
            share=share,
            metric=metric,
            noise=c.rate_sums(share**2, (squares @ metric) * inverse**2),
        )

    def _at(self, theta: FloatArray) -> Point:
        """What rows have at θ."""
        score = self.X @ theta
        square = float(theta @ theta)
        scale = 1.0 / (self.width * np.sqrt(square)) if square > 0.0 else 0.0
        turned = self.comparisons.kind == kernels.DECISIONS and square > 0.0
        turn = theta / square if turned else np.zeros_like(theta)
        entries = self.entries
        parts = surrogate(self.comparisons.kind, entries.constant, entries.sign, score[:, None], scale)
        return Point(theta, score, self.weight * self.loss.curvature(score, self.y), turn, *parts)

    def _slopes(self, at: Point, numbers: FloatArray) -> FloatArray:
        """Sums by cell of numbers (n, entries) times x - m θ / ‖θ‖², shape (C, D)."""
        sums = self._sum(numbers, self.X)
        return sums - self._sum(numbers * at.score[:, None]) * at.turn if at.turn.any() else sums

    @cached_property
    def _squares(self) -> FloatArray:
        return np.asarray(self.X**2)

    @cached_property
    def _even(self) -> FloatArray:
        return self.comparisons.evenness(self.own * (self.weight > 0.0), self.entries.cell)

    @cached_property
    def _sizes(self) -> FloatArray:
        """Weight of the rows of each cell."""
        return np.asarray(self._sum(np.ones(self.entries.cell.shape))[:, 0])

    def _sum(self, numbers: FloatArray, X: FloatArray | None = None) -> FloatArray:
        """Weighted sums over the rows of each cell of numbers (n, entries), times X; shape (C, columns of X)."""
        if X is None:
            some, row, cell = self._members
            sums = np.bincount(cell, weights=numbers[some] * self.weight[row], minlength=self.comparisons.n_cells)
            return np.asarray(sums[:, None], dtype=np.float64)
        table = np.zeros((self.comparisons.n_cells, len(self.y)))
        for each, inside in zip(numbers.T, self._inside, strict=True):
            table += inside * (each * self.weight)  # a row is in a cell once
        return np.asarray(table @ X)

    @cached_property
    def _members(self) -> tuple[NDArray[np.bool_], IntArray, IntArray]:
        """Which entries are in a cell; their rows, and their cells."""
        some = self.entries.cell >= 0
        return some, np.nonzero(some)[0], self.entries.cell[some]

    @cached_property
    def _inside(self) -> list[NDArray[np.bool_]]:
        """Which rows are in each cell by each entry, (C, n) each."""
        cells = np.arange(self.comparisons.n_cells)[:, None]
        return [cells == cell for cell in self.entries.cell.T]

    def loss_gradient(self, theta: FloatArray) -> FloatArray:
        """Gradient of mean loss and ridge."""
        return self._loss_gradient(theta, self.X @ theta)

    def _loss_gradient(self, theta: FloatArray, score: FloatArray) -> FloatArray:
        slope = self.weight * self.loss.derivative(score, self.y)
        return np.asarray(slope @ self.X / len(self.y) + self.ridge * theta)

    def loss_hessian(self, theta: FloatArray) -> FloatArray:
        """Hessian of mean loss and ridge."""
        return self._loss_hessian(self.weight * self.loss.curvature(self.X @ theta, self.y))

    def _loss_hessian(self, curve: FloatArray) -> FloatArray:
        return np.asarray((self.X.T * curve) @ self.X / len(self.y) + np.diag(self.ridge + TINY))

    def constraint_hessian(self, theta: FloatArray, pull: FloatArray, tangent: Tangent) -> FloatArray:
        """Hessian of Σ pull · rate; ratios count as if their denominators were straight."""
        return self._constraint_hessian(self._at(theta), pull, tangent)

    def _constraint_hessian(self, at: Point, pull: FloatArray, tangent: Tangent) -> FloatArray:
        c = self.comparisons
        sizes = self._sizes
        by_cell = pull[c.owner] * tangent.share / np.where(sizes > 0.0, sizes, np.inf)
        cell = self.entries.cell
        part = np.where(cell >= 0, by_cell[cell], 0.0) * self.weight[:, None]
        curl = np.sum(part * at.bend, axis=1)
        along = np.sum(part * at.slope, axis=1)
        found = (self.X.T * curl) @ self.X
        if not at.turn.any():
            return np.asarray(found)
        # Along z = x - m v, and v itself changes with θ.
        v = at.turn
        square = float(v @ v)  # 1 / ‖θ‖²
        drift = (curl * at.score + along) @ self.X
        found -= np.outer(drift, v) + np.outer(v, drift)
        found += (curl @ at.score**2 + 3.0 * (along @ at.score)) * np.outer(v, v)
        found -= (along @ at.score) * square * np.eye(len(v))
        return np.asarray(found)

    def influences(
        self, theta: FloatArray, push: FloatArray, tangent: Tangent
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """What each row adds to the Lagrangian's gradient (n, D) and to cells (n, C), and the cells' shares (C,)."""
        c = self.comparisons
        at = self._at(theta)
        share = self._sizes / len(self.y)
        pull = c.by_rate(push)[c.owner] * tangent.share
        pull = np.divide(pull, share, out=np.zeros_like(pull), where=share > 0.0)
        rho = np.zeros((len(self.y), c.n_cells))
        psi = self.loss.derivative(at.score, self.y)[:, None] * self.X
        z = self.X - np.outer(at.score, at.turn)
        for cell, f, bend in zip(self.entries.cell.T, at.value.T, at.slope.T, strict=True):
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
        looked_at = c.looked_at(seen.astype(np.float64), tangent.mean)
        slopes = tangent.slopes * np.sqrt(tangent.metric)
        return c.followed(looked_at, self._even, tangent.rates, slopes, tangent.noise, before)

    def decision_gaps(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Gaps of the decisions themselves, and their standard errors, (J,) each."""
        c = self.comparisons
        decision = (self.X @ theta > 0.0)[:, None]
        negative = self.entries.sign < 0.0
        value = np.where(self.entries.sign == 0.0, self.entries.constant, np.where(negative, ~decision, decision))
        sizes = self._sizes
        mean = np.divide(self._sum(value.astype(np.float64))[:, 0], sizes, out=np.zeros_like(sizes), where=sizes > 0.0)
        rates = c.rate_values(mean)
        squares = self._sum(np.broadcast_to(self.own[:, None], self.entries.cell.shape))[:, 0]
        sizes = np.divide(sizes**2, squares, out=np.zeros_like(sizes), where=squares > 0.0)
        variance = rates * (1.0 - rates) / np.maximum(c.looked_at(sizes, mean), 1.0)
        one, two = c.pairs[:, 0], c.pairs[:, 1]
        return rates[one] - rates[two], np.sqrt(np.maximum(variance[one] + variance[two], 0.0))

    @one_blas_thread()
    def solve(self, tolerance: float = 0.0, penalty: float = 0.0, near: Stationary | None = None) -> Stationary:
        """Find the optimum: equal rates, rates within a tolerance, or a penalty.

        An optimum of a similar problem that is ``near`` saves most of the work.
        """
        if len(self.comparisons.pairs) == 0:
            return self.free(None if near is None else near.theta)
        if near is not None and near.reached:
            found = self.beside(near, tolerance, penalty)
            if found.reached:
                return found
        return self._ends(tolerance, penalty, whole=False)[0]

    @one_blas_thread()
    def beside(
        self, near: Stationary, tolerance: float, penalty: float, enough: float = RESIDUAL, patience: int = STEPS
    ) -> Stationary:
        """Find the optimum beside a point that is near, without a look at others.

        The solver gives up after ``patience`` steps without a smaller residual.
        """
        if len(self.comparisons.pairs) == 0:
            return self.free(near.theta)
        level = _levels(0.0, tolerance, penalty)[-1]
        theta, push, reached = self._newton(near.theta, near.push, level, enough, patience)
        return Stationary(theta, push, self._objective(theta, level), reached)

    def part(self, rows: Any) -> Conditions:
        """Conditions on some of the rows."""
        weight = self.weight[rows]
        entries = Entries(*(array[rows] for array in self.entries))
        own = self.own[rows]
        return replace(self, X=self.X[rows], y=self.y[rows], weight=weight / weight.mean(), own=own, entries=entries)

    @one_blas_thread()
    def optima(self, tolerance: float = 0.0, penalty: float = 0.0) -> list[Stationary]:
        """Ends of the solver from all starts: first the one from the free optimum, unless others are clearly better."""
        return self._ends(tolerance, penalty, whole=True)

    def _ends(self, tolerance: float, penalty: float, whole: bool) -> list[Stationary]:
        """Ends of the solver; unless they are all wanted, it gives up starts that cannot lead to a better one."""
        free = self.free()
        gap = self._largest_gap(free.theta)
        if len(self.comparisons.pairs) == 0 or (penalty == 0.0 and gap <= tolerance):
            return [free]
        planned = _levels(gap, tolerance, penalty)
        first = self._tighten(free.theta, planned)
        assert first is not None
        cheap = first.end.reached and not first.useless and free.value >= CHEAP * first.end.value
        if self.ones is None or (cheap and not whole):
            return [first.end]  # no optimum has a lower value than the free one
        score = self.X @ free.theta
        *stages, last = planned
        others = []
        for share in (*SHARES, STRAIGHT):
            start = free.theta - np.quantile(score, 1.0 - share) * self.ones
            gap = self._largest_gap(start) if share in SHARES else 0.0
            levels = [level for level in stages if 0.0 < level.tolerance < gap]  # a weak penalty would lead back
            path = self._tighten(start, [*levels, last], None if whole else first)
            others += [] if path is None else [path.end]
        others.sort(key=lambda end: (not end.reached, end.value))
        better = [end for end in others if end.reached and (not first.end.reached or end.value < first.bound)]
        return [*better, first.end, *(end for end in others if not any(end is one for one in better))]

    @one_blas_thread()
    def free(self, near: FloatArray | None = None) -> Stationary:
        """Optimum without a constraint; a point that is ``near`` saves work."""
        theta = np.zeros(self.X.shape[1]) if near is None else near
        left = np.inf
        for _ in range(STEPS):
            gradient = self.loss_gradient(theta)
            left = float(np.abs(gradient).max())
            theta = theta + self._short(np.asarray(-np.linalg.solve(self.loss_hessian(theta), gradient)), 2.0)
            if left < RESIDUAL:  # and one step more, for directions in which the loss is flat
                break
        J = len(self.comparisons.pairs)
        return Stationary(theta, np.zeros(J), self.value(theta), left < NEARLY)

    def gaps(self, theta: FloatArray) -> FloatArray:
        """Gaps in terms of the surrogate, (J,)."""
        return self._gaps(self.tangent(theta))

    def _gaps(self, tangent: Tangent) -> FloatArray:
        return self.comparisons.gaps(tangent.rates)

    def _largest_gap(self, theta: FloatArray) -> float:
        return float(np.abs(self._gaps(self.tangent(theta))).max(initial=0.0))

    def _tighten(self, theta: FloatArray, levels: Sequence[Level], rival: Path | None = None) -> Path | None:
        """Descend from a start through the levels.

        If the last level is not reached, the solver tries a tolerance half-way to it. If that does not help either, the
        end is that of the last level that was reached. Returns None as soon as it is clear that the end will be that of
        a rival, or not clearly better.
        """
        push = np.zeros(len(self.comparisons.pairs))
        value = self.value(theta)
        points = {}
        end = Stationary(theta, push, value, False)
        last = levels[-1]
        waiting = list(levels)
        at = Level(np.inf, 0.0)  # the last level that was reached
        halves = 0
        while waiting:
            level = waiting.pop(0)
            theta, push, reached = self._newton(theta, push, level, RESIDUAL if level is last else LOOSE)
            value = self._objective(theta, level)
            points[level] = theta
            if reached:
                end, at = Stationary(theta, push, value, level is last), level
            elif level is last and halves < HALVES and 0.0 < last.tolerance < at.tolerance < np.inf:
                halves += 1
                theta, push = end.theta, end.push
                waiting = [Level(float(np.sqrt(at.tolerance * last.tolerance)), 0.0), last]
            if rival is not None and rival.end.reached and level in rival.points and level is not last:
                apart = np.linalg.norm(theta - rival.points[level])
                if value >= rival.bound or apart < SAME * np.linalg.norm(theta):
                    return None
        share = float(np.mean(self.weight * (self.X @ end.theta > 0.0)))
        return Path(end, points, min(share, 1.0 - share) < USELESS)

    def _objective(self, theta: FloatArray, level: Level) -> float:
        """Mean loss, ridge and penalty."""
        value = self.value(theta)
        if level.give > 0.0:
            value += 0.5 / level.give * float(np.sum(self._gaps(self.tangent(theta)) ** 2))
        return value

    @np.errstate(over="ignore", invalid="ignore")  # a search that runs away is given up
    def _newton(
        self, theta: FloatArray, push: FloatArray, level: Level, enough: float, patience: int = STEPS
    ) -> tuple[FloatArray, FloatArray, bool]:
        """Sequential quadratic programming for θ and multipliers at one level, until the residual is small enough."""
        c = self.comparisons
        tolerance, give = level
        left = best = np.inf
        on = np.asarray(push != 0.0, dtype=np.float64)
        released = np.zeros(len(on))
        latest = 0
        moved = np.inf  # since the Hessian was computed, relative to θ and to the multipliers
        for number in range(STEPS):
            at = self._at(theta)
            tangent = self._tangent(at)
            before = on
            on = self.followed(tangent, before)
            released += before > on
            if released.max(initial=0.0) >= RELEASES:
                return theta, push, False
            push = push * on
            slope = self._loss_gradient(theta, at.score)
            if moved > STILL or (before != on).any():
                plain = self._loss_hessian(at.curve)
                inverse = floored_inverse(plain, self._constraint_hessian(at, c.by_rate(push), tangent))
                moved = 0.0
            lift, _ = lifted(c, inverse, tangent.slopes, tangent.steep, on)
            gram = lift @ tangent.slopes.T
            gap = self._gaps(tangent) - give * push
            slack = np.where(push != 0.0, np.abs(gap - np.sign(push) * tolerance), 0.0)
            over = on * np.maximum(slack, np.abs(gap) - tolerance)
            pull = c.by_rate(push)
            left = max(np.abs(slope + pull @ tangent.slopes).max(), over.max(initial=0.0))
            if left < enough:
                return theta, push, True
            rates = tangent.rates - lift @ slope
            if tolerance == 0.0:
                new = solved(c, gram, on, give) @ rates
            else:
                new = multipliers(c, gram, rates, on, tolerance, give, push)
            step = -inverse @ (slope + c.by_rate(new) @ tangent.slopes)
            size = self._size(step)
            most = max(0.5, 0.2 * float(np.linalg.norm(theta)))
            closer = left < 0.9 * best
            share = (min(1.0, most / size) if size > 0.0 else 1.0) * (1.0 if closer else 0.5)
            latest = number if closer else latest
            best = min(best, left)
            if not np.isfinite(share * step).all() or number - latest > patience:
                return theta, push, left < NEARLY
            moved += share * size / max(float(np.linalg.norm(theta)), 1e-300)
            moved += share * float(np.abs(new - push).max()) / max(float(np.abs(new).max()), 1e-300)
            theta = theta + share * step
            push = push + share * (new - push)
        return theta, push, left < NEARLY

    def _size(self, step: FloatArray) -> float:
        """How much a step changes the scores, as a root mean square; its length if that is more."""
        return max(float(np.linalg.norm(step)), float(np.sqrt(np.mean(self.weight * (self.X @ step) ** 2))))

    def _short(self, step: FloatArray, most: float) -> FloatArray:
        """Return a step, or the part of it that has this size."""
        size = self._size(step)
        return step * (most / size) if size > most else step


def _levels(gap: float, tolerance: float, penalty: float) -> list[Level]:
    """Levels from a free optimum with this gap to the problem that is asked for."""
    if penalty > 0.0:
        return [Level(0.0, 0.5 / (share * penalty)) for share in (*WEIGHTS, 1.0)]
    levels = [Level(share * gap, 0.0) for share in STAGES if share * gap > tolerance]
    return [*levels, Level(tolerance, 0.0)]
