"""Losses of one row, as functions of its margin m = θᵀx and its label y = ±1.

``squared_error`` is the paper's squared loss on one-hot labels. Its parameter is a matrix with rows Θ₁ and Θ₂, but
everything that reaches a decision depends on w = Θ₁ - Θ₂ alone, and w moves by itself: it descends
(y - wᵀx)² + κ‖w‖²/2. Only a penalty on the decision must be counted twice, because it enters both rows with opposite
signs.

>>> LOSSES["log_loss"].derivative(np.array([0.0, 2.0]), 1.0)
array([-0.5       , -0.11920292])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from surefair.rows.arrays import FloatArray

_Function = Callable[[Any, Any], FloatArray]


@dataclass(frozen=True)
class Loss:
    """A loss and what the learners need to know of it.

    Attributes
    ----------
    name : str
    code : int
        How the compiled kernels call it.
    value, derivative, curvature : callable (margin, y) -> ndarray
        The loss and its first two derivatives in the margin.
    probability : callable margin -> ndarray
        Probability of the positive class that a margin stands for.
    majorant : callable margin -> ndarray
        Curvature of the parabola that touches the loss at a margin, for either label, and lies above it everywhere
        (Jaakkola and Jordan's for log loss: at most 1/4, and less for far margins).
    penalty_factor : float
        How often a penalty on the decision counts (2 for one-hot squared error, see above).
    """

    name: str
    code: int
    value: _Function
    derivative: _Function
    curvature: _Function
    probability: Callable[[FloatArray], FloatArray]
    majorant: Callable[[Any], FloatArray]
    penalty_factor: float


def _log(m: Any, y: Any) -> FloatArray:
    return np.asarray(np.logaddexp(0.0, -y * m))


def _log_derivative(m: Any, y: Any) -> FloatArray:
    return np.asarray(-y * expit(-y * m))


def _log_curvature(m: Any, y: Any) -> FloatArray:
    return np.asarray(expit(m) * expit(-m))


def _log_probability(m: FloatArray) -> FloatArray:
    return np.asarray(expit(m))


def _log_majorant(m: Any) -> FloatArray:
    m = np.abs(m)
    near, far = 0.25 - m**2 / 48.0 + m**4 / 480.0, np.tanh(m / 2.0) / (2.0 * np.maximum(m, 1e-2))
    return np.asarray(np.where(m < 1e-2, near, far))


def _squared(m: Any, y: Any) -> FloatArray:
    return np.asarray((y - m) ** 2)


def _squared_derivative(m: Any, y: Any) -> FloatArray:
    return np.asarray(-2.0 * (y - m))


def _squared_curvature(m: Any, y: Any) -> FloatArray:
    return np.full_like(m, 2.0)


def _squared_majorant(m: Any) -> FloatArray:
    return np.full_like(m, 2.0)


def _squared_probability(m: FloatArray) -> FloatArray:
    return np.clip((1.0 + m) / 2.0, 0.0, 1.0)


LOSSES = {
    "log_loss": Loss(
        "log_loss", 0, _log, _log_derivative, _log_curvature, _log_probability, _log_majorant, penalty_factor=1.0
    ),
    "squared_error": Loss(
        "squared_error", 1, _squared, _squared_derivative, _squared_curvature, _squared_probability,
        _squared_majorant, penalty_factor=2.0,
    ),
}  # fmt: skip
