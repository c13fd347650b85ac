"""What every learner is told, whatever its algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from surefair import kernels
from surefair.learners.multipliers import Multipliers
from surefair.learners.schedules import PolynomialDecay
from surefair.losses import Loss
from surefair.rows.arrays import FloatArray, is_sparse


@dataclass(frozen=True, eq=False)
class Settings:
    """The problem, in the coordinates the learner works in, and how to step.

    Attributes
    ----------
    loss : Loss
    alpha : float
        κ of the ridge κ‖θ‖²/2.
    tolerance : float
        ε of a slab.
    penalty : float
        R₂ of a penalty.
    sharpness : float or None
        τ of a penalty with rounded kinks; None for kinks.
    schedule : PolynomialDecay
        Step sizes η_k.
    multipliers : Multipliers
        Weights V of the replicates.
    start : ndarray of shape (D,)
        Where the fit and all replicates begin.
    robust : bool
        Step for step as in the paper where false. Where true, steps that a stiff row, ridge or penalty would overshoot
        are shortened as an implicit step shortens them: the step η becomes η / (1 + η (h‖x‖² + κ)), and the penalty
        step is exactly implicit. The h is the curvature of a parabola above the loss that touches it at the row's
        margin at the start: the same for both labels, so that what is shortened still averages out.
    dtype : {"float64", "float32"}
        Numbers that a learner under slabs keeps of dense rows; others keep double precision.
    """

    loss: Loss
    alpha: float
    tolerance: float
    penalty: float
    sharpness: float | None
    schedule: PolynomialDecay
    multipliers: Multipliers
    start: FloatArray
    robust: bool
    dtype: str = "float64"

    def stiffness(self, X: Any) -> FloatArray:
        """How much each row shortens its step: h‖x‖² + κ, or 0 for explicit steps; shape (n,)."""
        out = np.zeros(X.shape[0])
        if self.robust and is_sparse(X):
            rows = X.indptr, X.indices, X.data
            kernels.stiffness_sparse(*rows, self.loss.code, self.alpha, self.start, out)
        elif self.robust:
            kernels.stiffness(np.ascontiguousarray(X), self.loss.code, self.alpha, self.start, out)
        return out

    def damped(self, step: FloatArray, x: FloatArray) -> FloatArray:
        """Steps ηV as they are taken at the row x."""
        stiffness = self.loss.majorant(x @ self.start) * (x @ x) + self.alpha if self.robust else 0.0
        return np.asarray(step / (1.0 + stiffness * step))

    @property
    def effective_penalty(self) -> float:
        """R₂ as the learner's coordinates see it."""
        return self.penalty * self.loss.penalty_factor


def own(arrays: tuple[FloatArray, ...], reuse: bool) -> tuple[FloatArray, ...]:
    """Arrays of a state that a kernel may overwrite: copies, or themselves where they are not needed any more.

    The first two, (features, columns) of one type, lie side by side feature by feature: of rows that touch few of them,
    half as many places in memory have to be fetched.
    """
    w, U, *rest = arrays
    if w.dtype != U.dtype:
        return arrays if reuse else tuple(array.copy() for array in arrays)
    if reuse and w.base is not None and w.base is U.base:
        return arrays
    pair = np.stack([w, U], axis=1)
    return pair[:, 0], pair[:, 1], *(array.copy() for array in rest)
