"""Dual averaging under a slab, Θ = {|x̃ᵀθ| ≤ ε} (the paper's Algorithms 1 and 2 for DI).

For row k = 1, 2, … and each replicate b, with W_k = (x_k, y_k) and V = 1 for the fit itself:

    θ_k = Π_Θ(-s_{k-1})
    s_k = s_{k-1} + η_k V_k^b ∇L(θ_k; W_k)            ∇L = ℓ'(θᵀx, y) x + κθ
    θ̄_k = ((k-1) θ̄_{k-1} + θ_k) / k

Π_Θ is closed form: Π_Θ(p) = p - c x̃ with c = (x̃ᵀp ∓ ε) / ‖x̃‖² where |x̃ᵀp| > ε, else c = 0.

The lazy form of the kernel. Write p = -s = a w + β x̃, so that a row changes w by a multiple of x alone:

    a ← (1 - ηVκ) a,    β ← (1 - ηVκ) β + ηVκ c,    w ← w - δ x    with δ = ηVℓ' / a (the new a).

The sum of the iterates needs Σ a_k w_k. With A_k = a_1 + … + a_k, summation by parts gives
Σ_{j≤k} a_j w_j = A_k w_{k+1} + U with U = Σ_{j≤k} A_j δ_j x_j, and the rest is C x̃ with C = Σ (β_j - c_j).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from surefair import kernels
from surefair.criteria import Slab
from surefair.learners._settings import Settings
from surefair.multipliers import LAWS
from surefair.streams import FloatArray


class DualState(NamedTuple):
    """Fit (column 0) and replicates after k rows, in the lazy form; D features, R columns."""

    k: int
    w: FloatArray  # (D, R)
    U: FloatArray  # (D, R)
    scalars: FloatArray  # (5, R): a, β, t = x̃ᵀw, A, C


@dataclass(frozen=True, eq=False)
class DualAveraging:
    """The learner for criteria that constrain by a slab.

    Examples
    --------
    >>> from surefair.losses import LOSSES
    >>> from surefair.multipliers import Multipliers
    >>> from surefair.schedules import PolynomialDecay
    >>> learner = DualAveraging(
    ...     Settings(LOSSES["log_loss"], 1e-4, 0.0, 0.0, PolynomialDecay(1.0, 0.6), Multipliers("two_point", 0),
    ...              start=np.zeros(2), robust=False),
    ...     Slab(np.array([0.3, -0.1])),
    ... )
    >>> X, y = np.array([[1.0, 2.0], [0.5, -1.0], [2.0, 0.0]]), np.array([1.0, -1.0, 1.0])
    >>> state = learner.step(learner.init(4), X, y)
    >>> learner.mean(state).round(3)[:, [0, 2]]
    array([[0.25 , 0.483],
           [0.749, 1.449]])
    """

    settings: Settings
    form: Slab

    FORM = Slab

    def init(self, n_columns: int) -> DualState:
        """State before the first row: every column at the start."""
        p = np.repeat(self.settings.start[:, None], n_columns, axis=1)
        return self._state(0, p, np.zeros_like(p))

    def step(self, state: DualState, X: FloatArray, y: FloatArray, n_threads: int = 1) -> DualState:
        """State after the rows X (n, D) with labels y = ±1 (n,)."""
        s = self.settings
        arrays = state.w.copy(), state.U.copy(), state.scalars.copy()
        args = (
            np.ascontiguousarray(X), y, s.schedule.steps(state.k + 1, len(X)), state.k, LAWS[s.multipliers.law],
            np.uint64(s.multipliers.seed), s.loss.code, s.alpha, s.damping, self.form.vector, s.tolerance,
        )  # fmt: skip
        kernels.on_threads(kernels.dual_averaging, args, arrays, n_threads)
        return DualState(state.k + len(X), *arrays)

    def reference_step(self, state: DualState, x: FloatArray, y: float) -> DualState:
        """State after one row, in plain NumPy: the specification of ``step``."""
        s = self.settings
        k = state.k + 1
        p, total = self._plain(state)
        V = s.multipliers.draw(state.k, 1, p.shape[1])[0]
        theta = self.project(p)
        step = s.damped(s.schedule.steps(k, 1)[0] * V, x)
        p = p - step * (np.outer(x, s.loss.derivative(x @ theta, y)) + s.alpha * theta)
        return self._state(k, p, total + theta)

    def project(self, p: FloatArray) -> FloatArray:
        """Nearest points of the slab to the columns of p."""
        slab = self.form.vector
        square = slab @ slab
        if square == 0.0:
            return p
        q = slab @ p
        over = q - np.clip(q, -self.settings.tolerance, self.settings.tolerance)
        return np.asarray(p - np.outer(slab, over / square))

    def mean(self, state: DualState) -> FloatArray:
        """Averaged iterates θ̄, shape (D, R); before the first row, the start."""
        p, total = self._plain(state)
        return total / state.k if state.k else self.project(p)

    def merge(self, state: DualState, other: DualState) -> DualState:
        """State of two shards: averages, and dual points, weighted by rows."""
        (p, total), (p_, total_) = self._plain(state), self._plain(other)
        k = state.k + other.k
        share = other.k / k if k else 0.0
        return self._state(k, (1.0 - share) * p + share * p_, total + total_)

    def _plain(self, state: DualState) -> tuple[FloatArray, FloatArray]:
        """Dual points -s and sums of iterates, out of the lazy form."""
        a, beta, _, A, C = state.scalars
        slab = self.form.vector
        return a * state.w + np.outer(slab, beta), A * state.w + state.U + np.outer(slab, C)

    def _state(self, k: int, p: FloatArray, total: FloatArray) -> DualState:
        """Return the lazy form with a = 1, β = A = C = 0."""
        scalars = np.zeros((5, p.shape[1]))
        scalars[0], scalars[2] = 1.0, np.sum(self.form.vector[:, None] * p, axis=0)  # unlike BLAS, column by column
        return DualState(k, p, total, scalars)


LEARNER = DualAveraging
