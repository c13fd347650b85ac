"""Stochastic gradient descent with a squared penalty R₂ g(θ)² and Polyak-Ruppert averaging (the paper's DM).

For row k = 1, 2, … and each replicate b, with W_k = (x_k, y_k) and V = 1 for the fit itself:

    θ_k = θ_{k-1} - η_k V_k^b (∇L(θ_{k-1}; W_k) + 2 R₂ g ḡ)      g = g(θ_{k-1}), ḡ = ∇g(θ_{k-1})
    θ̄_k = ((k-1) θ̄_{k-1} + θ_k) / k

Two things go wrong with it when R₂ is large, and the robust form mends them. (1) The curvature 2R₂‖ḡ‖² of the
penalty is easily a hundred times the loss's, and a step that is stable for V = 1 need not be for V = 2: so take the
loss step to θ' first, and then the exact minimiser of ½‖θ - θ'‖² + ηV R₂ (ḡᵀθ)²,

    θ_k = θ' - 2ηV R₂ g / (1 + 2ηV R₂‖ḡ‖²) · ḡ     with g = ḡᵀθ'     (it needs V ≥ 0).

(2) g is kinked, the iterates scatter around their average by √η, and the mean of a kinked function over a scattered
point is not its value at the centre: the average settles where g is off by the order of η, many of its standard
deviations when the penalty is stiff. So which rows of D' are on the wrong side, and hence ḡ, is judged at the
running average (the start counting for HEAD_START rows), whose error enters only squared. The fixed point and the
limit law stay the same.

For the one-hot squared error R₂ counts twice (see losses.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from surefair import kernels
from surefair.criteria import SquaredPenalty
from surefair.learners._settings import Settings
from surefair.multipliers import LAWS
from surefair.streams import FloatArray


class SGDState(NamedTuple):
    """Fit (column 0) and replicates after k rows; D features, R columns."""

    k: int
    theta: FloatArray  # (D, R)
    total: FloatArray  # (D, R), the sum of the iterates


@dataclass(frozen=True, eq=False)
class PenalisedSGD:
    """The learner for criteria that constrain by a squared penalty.

    Examples
    --------
    >>> from surefair.losses import LOSSES
    >>> from surefair.multipliers import Multipliers
    >>> from surefair.schedules import PolynomialDecay
    >>> X, y = np.array([[1.0, 2.0], [0.5, -1.0], [2.0, 0.0]]), np.array([1.0, -1.0, 1.0])
    >>> learner = PenalisedSGD(
    ...     Settings(LOSSES["log_loss"], 1e-4, 0.0, 2.0, PolynomialDecay(1.0, 0.6), Multipliers("two_point", 0),
    ...              start=np.zeros(2), robust=False),
    ...     SquaredPenalty.on(X, y, np.array([0.5, 0.5, -0.5])),
    ... )
    >>> learner.mean(learner.step(learner.init(4), X, y)).round(3)[:, [0, 2]]
    array([[0.537, 0.92 ],
           [1.141, 2.16 ]])
    """

    settings: Settings
    form: SquaredPenalty

    FORM = SquaredPenalty

    def init(self, n_columns: int) -> SGDState:
        """State before the first row: every column at the start."""
        theta = np.repeat(self.settings.start[:, None], n_columns, axis=1)
        return SGDState(0, theta, np.zeros_like(theta))

    def step(self, state: SGDState, X: FloatArray, y: FloatArray, n_threads: int = 1) -> SGDState:
        """State after the rows X (n, D) with labels y = ±1 (n,)."""
        s = self.settings
        arrays = state.theta.copy(), state.total.copy()
        args = (
            np.ascontiguousarray(X), y, s.schedule.steps(state.k + 1, len(X)), state.k, LAWS[s.multipliers.law],
            np.uint64(s.multipliers.seed), s.loss.code, s.alpha, s.damping, self.form.rows, self.form.pulls,
            s.effective_penalty, s.start, s.robust,
        )  # fmt: skip
        kernels.on_threads(kernels.penalised_sgd, args, arrays, n_threads)
        return SGDState(state.k + len(X), *arrays)

    def reference_step(self, state: SGDState, x: FloatArray, y: float) -> SGDState:
        """State after one row, in plain NumPy: the specification of ``step``."""
        s = self.settings
        k = state.k + 1
        theta = state.theta
        step = s.schedule.steps(k, 1)[0] * s.multipliers.draw(state.k, 1, theta.shape[1])[0]
        after = theta - s.damped(step, x) * (np.outer(x, s.loss.derivative(x @ theta, y)) + s.alpha * theta)
        stiffness = 2.0 * s.effective_penalty * step
        if s.robust:
            head = kernels.HEAD_START
            gradient = self.form.gradient((head * s.start[:, None] + state.total) / (head + state.k))
            g = np.sum(gradient * after, axis=0)
            pull = stiffness * g / (1.0 + stiffness * np.sum(gradient**2, axis=0))
        else:
            gradient = self.form.gradient(theta)
            pull = stiffness * np.sum(gradient * theta, axis=0)
        theta = after - pull * gradient
        return SGDState(k, theta, state.total + theta)

    def mean(self, state: SGDState) -> FloatArray:
        """Averaged iterates θ̄, shape (D, R); before the first row, the start."""
        return state.total / state.k if state.k else state.theta

    def merge(self, state: SGDState, other: SGDState) -> SGDState:
        """State of two shards: averages, and iterates, weighted by rows."""
        k = state.k + other.k
        share = other.k / k if k else 0.0
        theta = (1.0 - share) * state.theta + share * other.theta
        return SGDState(k, theta, state.total + other.total)


LEARNER = PenalisedSGD
