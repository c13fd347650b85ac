"""Stochastic gradient descent with a penalty R₂ Σⱼ gⱼ(θ)² and Polyak-Ruppert averaging (the paper's DM, there J = 1).

For row k = 1, 2, … and each replicate b, with W_k = (x_k, y_k) and V = 1 for the fit itself:

    θ_k = θ_{k-1} - η_k V_k^b (∇L(θ_{k-1}; W_k) + 2 R₂ Σⱼ gⱼ ∇gⱼ)      g and ∇g at θ_{k-1}
    θ̄_k = ((k-1) θ̄_{k-1} + θ_k) / k

Two things go wrong with it when R₂ is large, and the robust form mends them. (1) The curvature 2R₂‖∇g‖² of the
penalty is easily a hundred times the loss's, and a step that is stable for V = 1 need not be for V = 2: so take the
loss step to θ' first, and then the exact minimiser of ½‖θ - θ'‖² + ηV R₂ Σⱼ ĝⱼ(θ)², with ĝ linear,

    θ_k = θ' - Gᵀλ    (I + 2ηV R₂ G Gᵀ) λ = 2ηV R₂ ĝ(θ')    G: the gradients, one a row     (it needs V ≥ 0).

(2) g is kinked, the iterates scatter around their average by √η, and the mean of a kinked function over a scattered
point is not its value at the centre: the average settles where g is off by the order of η, many of its standard
deviations when the penalty is stiff. So g is made linear, and which rows of D' are on the wrong side is judged, at the
running average (the start counting for HEAD_START rows), whose error enters only squared: ĝ(θ) = g + ∇gᵀ(θ - point).
The fixed point and the limit law stay the same.

For the one-hot squared error R₂ counts twice (see losses.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from surefair import kernels
from surefair.criteria import Penalty, SoftRatePenalty, SquaredPenalty, linearise, on_grid
from surefair.learners import trace as covariances
from surefair.learners._settings import Settings, own
from surefair.learners.multipliers import LAWS
from surefair.rows.arrays import FloatArray


class SGDState(NamedTuple):
    """Fit (column 0) and replicates after k rows; D features, R columns."""

    k: int
    theta: FloatArray  # (D, R)
    total: FloatArray  # (D, R), the sum of the iterates
    trace: FloatArray  # (3, 1, D + 2, D + 2): of the fit itself, see covariances.py


@dataclass(frozen=True, eq=False)
class PenalisedSGD:
    """The learner for criteria that constrain by a penalty.

    Examples
    --------
    >>> from surefair.losses import LOSSES
    >>> from surefair.learners.multipliers import Multipliers
    >>> from surefair.learners.schedules import PolynomialDecay
    >>> X, y = np.array([[1.0, 2.0], [0.5, -1.0], [2.0, 0.0]]), np.array([1.0, -1.0, 1.0])
    >>> learner = PenalisedSGD(
    ...     Settings(LOSSES["log_loss"], 1e-4, 0.0, 2.0, None, PolynomialDecay(1.0, 0.6), Multipliers("two_point", 0),
    ...              start=np.zeros(2), robust=False),
    ...     SquaredPenalty(y[:, None] * X, np.array([[0.5, 0.5, -0.5]]) / 3),
    ... )
    >>> learner.mean(learner.step(learner.init(4), X, y)).round(3)[:, [0, 2]]
    array([[0.537, 0.92 ],
           [1.141, 2.16 ]])
    """

    settings: Settings
    form: Penalty

    FORMS = ((SquaredPenalty, False), (SoftRatePenalty, False))

    @cached_property
    def pulls(self) -> FloatArray:
        """What each row of D' adds to the gradient of each kinked function, shape (L, m, D)."""
        return on_grid(self.form.weights[:, :, None] * self.form.rows)

    def init(self, n_columns: int) -> SGDState:
        """State before the first row: every column at the start."""
        theta = np.repeat(self.settings.start[:, None], n_columns, axis=1)
        return SGDState(0, theta, np.zeros_like(theta), covariances.fresh(len(theta)))

    def step(
        self, state: SGDState, X: Any, y: FloatArray, weight: FloatArray | float = 1.0, n_threads: int = 1,
        reuse: bool = False, columns: tuple[int, int] | None = None,
    ) -> SGDState:  # fmt: skip
        """State after the rows X (n, D) with labels y = ±1 and relative weights."""
        s = self.settings
        theta, total, trace = own(state[1:], reuse)
        X = np.ascontiguousarray(X)
        args = (
            X, y, s.schedule.steps(state.k + 1, len(y)) * weight, state.k,
            LAWS[s.multipliers.law], np.uint64(s.multipliers.seed), s.loss.code, s.alpha, s.stiffness(X),
            np.ascontiguousarray(self.form.rows), self.form.weights, self.pulls, self.form.contrasts,
            s.sharpness or 0.0, s.effective_penalty, s.start, s.robust,
        )  # fmt: skip
        told = covariances.room(trace, state.k, len(y), X.shape[1], columns)
        kernels.on_threads(kernels.penalised_sgd, args, (theta, total, *told), n_threads, columns)
        covariances.add(trace, s.loss, X, y, weight, *told, state.k)
        return SGDState(state.k + len(y), theta, total, trace)

    def reference_step(self, state: SGDState, x: FloatArray, y: float, weight: float = 1.0) -> SGDState:
        """State after one row, in plain NumPy: the specification of ``step``."""
        s = self.settings
        k, theta = state.k + 1, state.theta
        step = s.schedule.steps(k, 1)[0] * weight * s.multipliers.draw(state.k, 1, theta.shape[1])[0]
        after = theta - s.damped(step, x) * (np.outer(x, s.loss.derivative(x @ theta, y)) + s.alpha * theta)
        head, stiffness = kernels.HEAD_START, 2.0 * s.effective_penalty * step
        if s.robust:
            point = (head * s.start[:, None] + state.total) / (head + state.k)
            g, G = linearise(self.form, point, s.sharpness)
            g = stiffness * (g + np.einsum("jdr,dr->jr", G, after - point))
            system = np.eye(len(g)) + np.einsum("r,jdr,idr->rji", stiffness, G, G)
            pull = np.linalg.solve(system, g.T[:, :, None])[:, :, 0].T
        else:
            g, G = linearise(self.form, theta, s.sharpness)
            pull = stiffness * g
        theta = after - np.einsum("jr,jdr->dr", pull, G)
        total = state.total + theta
        trace = covariances.reference_add(
            state.trace, s.loss, x, y, weight, x @ state.theta[:, 0], total[:, 0], k, s.start
        )
        return SGDState(k, theta, total, trace)

    def mean(self, state: SGDState) -> FloatArray:
        """Averaged iterates θ̄, shape (D, R); before the first row, the start."""
        return state.total / state.k if state.k else state.theta.copy()

    def merge(self, state: SGDState, other: SGDState) -> SGDState:
        """State of two shards: averages, and iterates, weighted by rows; traces one after the other."""
        k = state.k + other.k
        share = other.k / k if k else 0.0
        theta = (1.0 - share) * state.theta + share * other.theta
        gone = state.total[:, 0] - state.k * self.settings.start
        trace = covariances.merged(state.trace, other.trace, gone, state.k)
        return SGDState(k, theta, state.total + other.total, trace)


LEARNER = PenalisedSGD
