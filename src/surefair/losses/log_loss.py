"""Log loss: log(1 + exp(-y s)), the loss of logistic regression."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from surefair import kernels
from surefair.losses._loss import Loss
from surefair.rows import FloatArray


def value(s: Any, y: Any) -> FloatArray:
    """log(1 + exp(-y s))."""
    return np.asarray(np.logaddexp(0.0, -y * s))


def derivative(s: Any, y: Any) -> FloatArray:
    """Return -y / (1 + exp(y s))."""
    return np.asarray(-y * expit(-y * s))


def curvature(s: Any, y: Any) -> FloatArray:
    """Second derivative p (1 - p), with p the probability."""
    return np.asarray(expit(s) * expit(-s))


def probability(s: FloatArray) -> FloatArray:
    """Logistic function of the score."""
    return np.asarray(expit(s))


def majorant(s: Any) -> FloatArray:
    """Jaakkola and Jordan's bound tanh(s/2) / (2s): 1/4 at s = 0, less at scores far from 0."""
    s = np.abs(s)
    near = 0.25 - s**2 / 48.0 + s**4 / 480.0
    far = np.tanh(s / 2.0) / (2.0 * np.maximum(s, 1e-2))
    return np.asarray(np.where(s < 1e-2, near, far))


LOSS = Loss("log_loss", kernels.LOG_LOSS, value, derivative, curvature, probability, majorant, penalty_factor=1.0)
