"""Settings that every learner has, and how learners pass arrays to kernels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from surefair import kernels
from surefair.criteria import Comparisons
from surefair.learners.multipliers import LAWS, Multipliers
from surefair.learners.schedules import PolynomialDecay
from surefair.losses import Loss
from surefair.rows import FloatArray, is_sparse


@dataclass(frozen=True, eq=False)
class Settings:
    """The problem in the learner's coordinates, and the steps to take.

    Attributes
    ----------
    loss : Loss
    alpha : float
        κ of the ridge κ‖θ‖²/2.
    tolerance : float
        ε of the slabs.
    penalty : float
        R₂ of the penalty.
    sharpness : float or None
        τ of a penalty with rounded kinks; None for sharp kinks.
    schedule : PolynomialDecay
        Step sizes η_k.
    multipliers : Multipliers
        Weights V of the rows in replicates.
    start : ndarray of shape (D,)
        Where the fit and all replicates begin.
    robust : bool
        If false, learners take the paper's explicit steps. If true, they shorten steps that would overshoot because of
        a stiff row, ridge or penalty, as an implicit step would: the step η becomes η / (1 + η (h‖x‖² + κ)), and the
        penalty step is exactly implicit. Here h is the curvature of a parabola above the loss that touches it at the
        score of the row at the start. It is the same for both labels, so shortened steps still average out.
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

    def stiffness(self, X: Any) -> FloatArray:
        """How much each row shortens its step: h‖x‖² + κ, or 0 with explicit steps; shape (n,)."""
        if not self.robust:
            return np.zeros(X.shape[0])
        squares = X.power(2) if is_sparse(X) else X**2
        lengths = row_products(squares, np.ones(X.shape[1]))
        return np.asarray(self.loss.majorant(row_products(X, self.start)) * lengths + self.alpha)

    def damped(self, step: FloatArray, x: FloatArray) -> FloatArray:
        """Steps ηV, shortened by the stiffness of the row x."""
        stiffness = self.loss.majorant(x @ self.start) * (x @ x) + self.alpha if self.robust else 0.0
        return np.asarray(step / (1.0 + stiffness * step))

    def among(self, comparisons: Comparisons) -> Settings:
        """Return the settings for these comparisons, which may be more than before."""
        return self if self.penalty > 0.0 else replace(self, tolerance=comparisons.tolerance_of(self.tolerance))

    @property
    def effective_penalty(self) -> float:
        """R₂ times the number of times that the loss counts a penalty."""
        return self.penalty * self.loss.penalty_factor

    def batch(self, X: Any, y: FloatArray, weight: FloatArray | float, k: int) -> Any:
        """Return the rows after the first k as kernels take them: a ``kernels.Batch`` or ``kernels.SparseBatch``."""
        steps = self.schedule.steps(k + 1, len(y)) * weight
        stiff = self.stiffness(X)
        if is_sparse(X):
            return kernels.SparseBatch(X.indptr, X.indices, X.data, y, steps, stiff, k)
        return kernels.Batch(np.ascontiguousarray(X), y, steps, stiff, k)

    def objective(self) -> kernels.Objective:
        """Return loss, ridge and multipliers as kernels take them."""
        law = LAWS[self.multipliers.law]
        return kernels.Objective(self.loss.code, self.alpha, law, np.uint64(self.multipliers.seed))


def row_products(X: Any, v: FloatArray) -> FloatArray:
    """Products xᵀv of rows, dense or sparse, with a vector; BLAS would round differently for different numbers of rows.

    >>> row_products(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, -1.0]))
    array([-1., -1.])
    """
    if is_sparse(X):
        return np.asarray(X @ v)  # row by row
    out = np.empty((len(X), 1))
    kernels.change_coordinates(np.ascontiguousarray(X), np.ascontiguousarray(v)[:, None], out)
    return out[:, 0]


def own(arrays: tuple[FloatArray, ...], reuse: bool) -> tuple[FloatArray, ...]:
    """Arrays of a state that a kernel may overwrite: the arrays themselves with ``reuse``, otherwise copies.

    The first two arrays, (features, columns), are interleaved by feature. A sparse row then fetches half as many places
    in memory.
    """
    w, U, *rest = arrays
    if reuse and w.base is not None and w.base is U.base:
        return arrays
    pair = np.stack([w, U], axis=1)
    return pair[:, 0], pair[:, 1], *(array.copy() for array in rest)
