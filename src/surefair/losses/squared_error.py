"""Squared error: (y - s)², the paper's squared loss on one-hot labels.

The paper's parameter is a matrix with rows Θ₁ and Θ₂, but decisions depend only on w = Θ₁ - Θ₂, and the updates of w
do not involve anything else: w descends (y - wᵀx)² + κ‖w‖²/2. Only a penalty on the decision counts twice, because it
enters both rows with opposite signs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from surefair import kernels
from surefair.losses._loss import Loss
from surefair.rows import FloatArray


def value(s: Any, y: Any) -> FloatArray:
    """(y - s)²."""
    return np.asarray((y - s) ** 2)


def derivative(s: Any, y: Any) -> FloatArray:
    """Return -2 (y - s)."""
    return np.asarray(-2.0 * (y - s))


def curvature(s: Any, y: Any) -> FloatArray:
    """Second derivative: always 2."""
    return np.full_like(s, 2.0)


def probability(s: FloatArray) -> FloatArray:
    """(1 + s) / 2, clipped to between 0 and 1."""
    return np.clip((1.0 + s) / 2.0, 0.0, 1.0)


def majorant(s: Any) -> FloatArray:
    """Curvature of the loss itself: a parabola is its own majorant."""
    return np.full_like(s, 2.0)


LOSS = Loss(
    "squared_error", kernels.SQUARED_ERROR, value, derivative, curvature, probability, majorant, penalty_factor=2.0
)
