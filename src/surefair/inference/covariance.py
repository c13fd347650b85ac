"""Covariances of the averaged coefficients, computed from the trace of the fit, without replicates.

``learners/trace.py`` says what a trace holds. Its first two sums give the moments of the sandwich covariance, its path
gives the random-scaling matrix of Lee, Liao, Seo and Shin (2022).
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from surefair import kernels
from surefair.learners.trace import GRADIENTS, HESSIAN, PATH, symmetric
from surefair.rows import FloatArray

NODES = (np.arange(400) + 0.5) * (np.pi / 800.0)  # midpoints between 0 and π/2


def moments(trace: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Hessian of the mean loss, and covariance of the gradients, over the rows that the trace has sampled.

    Parameters
    ----------
    trace : ndarray of shape (3, 1, D + 2, D + 2)

    Returns
    -------
    hessian : ndarray of shape (D, D)
        Mean of w h x xᵀ, without the ridge.
    covariance : ndarray of shape (D, D)
        Covariance of w ψ x.

    Examples
    --------
    >>> trace = np.zeros((3, 1, 3, 3))
    >>> trace[0, 0, 0, 0] = 2.0  # Σ w h x² over 10 rows
    >>> trace[1, 0, :2, :2] = [[5.0, 1.0], [0.0, 10.0]]  # Σ (w ψ x)², Σ w ψ x, and the number of rows
    >>> moments(trace)
    (array([[0.2]]), array([[0.49]]))
    """
    D = trace.shape[2] - 2
    count = trace[GRADIENTS, 0, D, D]
    if count < 1.0:
        raise ValueError(f"The moments of the loss need at least {kernels.BLOCK} rows; received fewer. Add rows.")
    hessian = symmetric(trace[HESSIAN, 0]) / count
    gradients = symmetric(trace[GRADIENTS, 0]) / count
    mean = gradients[D, :D]
    return hessian[:D, :D], gradients[:D, :D] - np.outer(mean, mean)


def mean_score(trace: FloatArray) -> tuple[FloatArray, int]:
    """Mean gradient w ψ x over the rows that the trace has sampled, shape (D,), and the number of these rows."""
    D = trace.shape[2] - 2
    count = trace[GRADIENTS, 0, D, D]
    return trace[GRADIENTS, 0, :D, D] / count, int(count)


def random_scaling(trace: FloatArray, total: FloatArray, k: int) -> FloatArray:
    """Random-scaling matrix V̂ = k⁻² Σ_j j² (θ̄_j - θ̄_k)(θ̄_j - θ̄_k)ᵀ after k rows, from the points of the path.

    √k (θ̄ - θ*) / √V̂, coordinate by coordinate, has the limit law of :func:`random_scaling_quantile` once k is many
    times the number of rows after which iterates are nearly independent, about 1 / (η_k h). With fewer rows V̂ is too
    small.

    Parameters
    ----------
    trace : ndarray of shape (3, 1, D + 2, D + 2)
    total : ndarray of shape (D,)
        Sum of the iterates, less k times their start.
    k : int
        Number of rows.

    Returns
    -------
    ndarray of shape (D, D)
    """
    path = symmetric(trace[PATH, 0])
    D = len(total)
    count = path[D + 1, D + 1]
    if count < 1.0:
        raise ValueError(
            f"Random scaling needs at least {kernels.STRIDE} rows after the warm-up rows; received {k}. Add rows, or "
            "lower n_warmup."
        )
    bridge = np.hstack([np.eye(D), -total[:, None] / k])  # maps (S_j, j) to S_j - (j / k) S_k
    return np.asarray(bridge @ path[: D + 1, : D + 1] @ bridge.T / (k * count))  # points are k / count rows apart


def random_scaling_quantile(confidence_level: float) -> float:
    """Critical value c of random scaling: |√n (θ̄ - θ*)| ≤ c √V̂ with this probability, in the limit.

    The limit law is that of W(1) / (∫ (W(t) - t W(1))² dt)^½ with a Brownian motion W: a normal variable over the root
    of an independent one whose Laplace transform is known, E exp(-s²/2 ∫) = (s / sinh s)^½. With Craig's form of the
    normal tail, P(|·| > c) is the mean of (s / sinh s)^½ at s = c / cos φ over φ between 0 and π/2. The integrand is
    smooth and flat at both ends, so the midpoint rule is accurate to the last digits.

    Examples
    --------
    >>> round(random_scaling_quantile(0.95), 3), round(random_scaling_quantile(0.90), 3)
    (6.747, 5.323)
    """
    if not 0.0 < confidence_level < 1.0:
        raise ValueError(f"confidence_level must lie between 0 and 1; received {confidence_level!r}.")
    return float(brentq(lambda c: _tail(c) - (1.0 - confidence_level), 1e-12, 1e4, xtol=1e-12, rtol=1e-14))


def _tail(c: float) -> float:
    """P(|W(1)| / (∫ (W(t) - t W(1))² dt)^½ > c)."""
    s = c / np.cos(NODES)
    s = s[s < 1000.0]  # the rest adds less than rounding
    return float(np.sqrt(2.0 * s * np.exp(-s) / -np.expm1(-2.0 * s)).sum() / len(NODES))
