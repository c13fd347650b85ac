"""Stochastic gradient descent with a penalty R₂ Σⱼ gⱼ(θ)² and Polyak-Ruppert averaging (the paper's DM, with J = 1).

For row k = 1, 2, … and each replicate b, with W_k = (x_k, y_k) and V = 1 for the fit itself:

    θ_k = θ_{k-1} - η_k V_k^b (∇L(θ_{k-1}; W_k) + 2 R₂ Σⱼ gⱼ ∇gⱼ)      g and ∇g at θ_{k-1}
    θ̄_k = ((k-1) θ̄_{k-1} + θ_k) / k

Two things go wrong if R₂ is large, and the robust form corrects them. (1) The curvature 2R₂‖∇g‖² of the penalty is
easily a hundred times that of the loss, and a step that is stable for V = 1 need not be stable for V = 2. So the robust
form first takes the loss step to θ', and then the exact minimiser of ½‖θ - θ'‖² + ηV R₂ Σⱼ ĝⱼ(θ)², with ĝ linear,

    θ_k = θ' - Gᵀλ    (I + 2ηV R₂ G Gᵀ) λ = 2ηV R₂ ĝ(θ')    rows of G: the gradients     (this needs V ≥ 0).

(2) g has kinks, and the iterates scatter around their average by √η. The mean of a kinked function over scattered
points is not its value at their centre, so the average settles where g is off by the order of η: many of its standard
deviations if the penalty is stiff. So the robust form linearises g at the running average, where it also decides which
rows of D' are on the wrong side (the start counts for HEAD_START rows). The error of that average enters only squared:
ĝ(θ) = g + ∇gᵀ(θ - point). The fixed point and the limit law stay the same.

With the one-hot squared error R₂ counts twice (see losses/squared_error.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from surefair import kernels
from surefair.criteria import Penalty, SoftRatePenalty, SquaredPenalty, linearise
from surefair.learners import trace as traces
from surefair.learners._settings import Settings, own
from surefair.rows import FloatArray, IntArray
from surefair.threads import on_threads


class SGDState(NamedTuple):
    """Fit (column 0) and replicates after k rows; D features, R columns."""

    k: int
    theta: FloatArray  # (D, R)
    total: FloatArray  # (D, R), sum of the iterates
    trace: FloatArray  # (3, 1, D + 2, D + 2): trace of the fit, see trace.py


@dataclass(frozen=True, eq=False)
class PenalisedSGD:
    """The learner with a penalty, for dense rows.

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
    def kinks(self) -> kernels.Kinks:
        """The penalty as the kernel takes it; rows and weights of zeros change nothing."""
        s = self.settings
        m, D = self.form.rows.shape
        more = -m % kernels.BLOCK
        rows = np.pad(np.ascontiguousarray(self.form.rows), [(0, more), (0, D % 2)])
        weights = np.pad(self.form.weights, [(0, 0), (0, more)])
        return kernels.Kinks(rows, weights, self.form.contrasts, s.sharpness or 0.0, s.effective_penalty, s.robust)

    def init(self, n_columns: int) -> SGDState:
        """State before the first row: every column at the start."""
        theta = np.repeat(self.settings.start[:, None], n_columns, axis=1)
        return SGDState(0, theta, np.zeros_like(theta), traces.fresh(len(theta)))

    def step(
        self, state: SGDState, X: Any, y: FloatArray, weight: FloatArray | float = 1.0, n_threads: int = 1,
        reuse: bool = False, columns: tuple[int, int] | None = None, group: IntArray | None = None,
    ) -> SGDState:  # fmt: skip
        """State after the rows X (n, D) with labels y = ±1 and relative weights."""
        s = self.settings
        theta, total, trace = own(state[1:], reuse)
        batch = s.batch(X, y, weight, state.k)
        room = traces.room(trace, state.k, len(y), X.shape[1], columns)
        args = (batch, s.objective(), self.kinks, kernels.Record(s.start, *room))
        on_threads(kernels.penalised_sgd, args, (theta, total), n_threads, columns)
        traces.add(trace, s.loss, batch.X, y, weight, *room, state.k)
        return SGDState(state.k + len(y), theta, total, trace)

    def reference_step(
        self, state: SGDState, x: FloatArray, y: float, weight: float = 1.0, group: IntArray | None = None
    ) -> SGDState:
        """State after one row, in plain NumPy: the specification of ``step``."""
        s = self.settings
        k = state.k + 1
        theta = state.theta
        step = s.schedule.steps(k, 1)[0] * weight * s.multipliers.draw(state.k, 1, theta.shape[1])[0]
        after = theta - s.damped(step, x) * (np.outer(x, s.loss.derivative(x @ theta, y)) + s.alpha * theta)
        stiffness = 2.0 * s.effective_penalty * step
        if s.robust:
            head = kernels.HEAD_START
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
        score = x @ state.theta[:, 0]
        trace = traces.reference_add(state.trace, s.loss, x, y, weight, score, total[:, 0], k, s.start)
        return SGDState(k, theta, total, trace)

    def mean(self, state: SGDState) -> FloatArray:
        """Averaged iterates θ̄, shape (D, R); before the first row, the start."""
        return state.total / state.k if state.k else state.theta.copy()

    def completed(self, state: SGDState) -> SGDState:
        """State as it is: what waiting rows add is known."""
        return state

    def merge(self, state: SGDState, other: SGDState) -> SGDState:
        """State of two shards: averages and iterates weighted by rows, traces one after the other."""
        k = state.k + other.k
        share = other.k / k if k else 0.0
        theta = (1.0 - share) * state.theta + share * other.theta
        gone = state.total[:, 0] - state.k * self.settings.start
        trace = traces.merged(state.trace, other.trace, gone, state.k)
        return SGDState(k, theta, state.total + other.total, trace)


LEARNER = PenalisedSGD
