"""What the fit itself has been through, kept so that its covariance can be read off beside the bootstrap.

The *trace* holds three sums of squares Σ z zᵀ, on and above their diagonals, each (D + 2, D + 2):

    0   z = √(w h) x                 Hessian of the loss, the first D numbers
    1   z = (w ψ x, 1)               scores, their sum and their number, the first D + 1
    2   z = (S_k - k start, k, 1)    the path of the sums S_k = θ_1 + … + θ_k of iterates

Here w is a row's relative weight, and h and ψ are the loss's curvature and derivative at the margin of the iterate that
the row meets; rows are as they come, not reduced to a subspace that constraints leave. To cost little, the moments
take one row of every four, whose place follows no period, and the path has points k = 16, 32, …. The moments lead to
the sandwich, the path to random scaling (Lee, Liao, Seo and Shin, 2022, Fast and robust online inference with
stochastic gradient descent via random scaling).

Traces merge exactly: the sums of a second shard go on where those of the first end, S = s + S_k and k = n + k, which
is a linear map of z. So a path, unlike a mean, depends on which shard comes first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from surefair import kernels
from surefair.losses import Loss
from surefair.rows.arrays import FloatArray

FEATURES = 128  # the most features that a trace is kept of: its cost grows with their square
HESSIAN, SCORES, PATH = range(3)
NODES = (np.arange(400) + 0.5) * (np.pi / 800.0)  # midpoints between 0 and π/2


def fresh(n_features: int) -> FloatArray:
    """Trace before the first row, shape (3, 1, D + 2, D + 2), shared by all columns; empty for many features.

    >>> fresh(3).shape, fresh(FEATURES + 1).shape
    ((3, 1, 5, 5), (0, 1, 0, 0))
    """
    return np.zeros((3, 1, n_features + 2, n_features + 2)) if n_features <= FEATURES else nothing()


def nothing() -> FloatArray:
    """Trace of a fit that keeps none."""
    return np.zeros((0, 1, 0, 0))


def room(
    trace: FloatArray, k: int, n_rows: int, n_features: int, columns: tuple[int, int] | None = None
) -> tuple[FloatArray, FloatArray]:
    """Room for what a kernel tells of the n rows after the first k: margins (n,), and S_k - k start (points, D).

    There is nothing to tell where the fit itself is not among the columns that are carried.
    """
    if not len(trace) or (columns is not None and columns[0] > 0):
        return np.empty(0), np.empty((0, n_features))
    return np.empty(n_rows), np.empty(((k + n_rows) // kernels.STRIDE - k // kernels.STRIDE, n_features))


def sampled(k: int, n: int) -> NDArray[np.int64]:
    """Which of the n rows after the first k are taken for the moments: one of every four.

    The golden ratio sends it to each place equally often, also along rows that come in turns.

    >>> sampled(0, 20), sampled(10, 10)
    (array([ 0,  6,  8, 15, 17]), array([5, 7]))
    """
    blocks = np.arange(k // kernels.BLOCK, -(-(k + n) // kernels.BLOCK))
    rows = kernels.BLOCK * blocks + (blocks * 2654435769 % 2**32 >> 30) - k
    return rows[(rows >= 0) & (rows < n)]


def add(
    trace: FloatArray, loss: Loss, X: FloatArray, y: FloatArray, weight: FloatArray | float, margins: FloatArray,
    sums: FloatArray, k: int,
) -> None:  # fmt: skip
    """Add what the rows after the first k have to tell, in place; kernels have left margins and sums in ``room``."""
    if not len(margins):
        return
    at, n = sampled(k, len(y)), len(sums)
    margins, y, weight = margins[at], y[at], np.broadcast_to(weight, len(y))[at]
    with np.errstate(over="ignore", invalid="ignore"):  # a fit may diverge; whoever reads it is told
        bend, slope = np.sqrt(weight * loss.curvature(margins, y)), weight * loss.derivative(margins, y)
    kernels.add_squares(X, at, bend, np.empty((len(at), 0)), trace[HESSIAN, 0])
    kernels.add_squares(X, at, slope, np.ones((len(at), 1)), trace[SCORES, 0])
    numbers, tail = np.arange(n), np.ones((n, 2))
    tail[:, 0] = kernels.STRIDE * (k // kernels.STRIDE + 1 + numbers)
    kernels.add_squares(sums, numbers, np.ones(n), tail, trace[PATH, 0])


def reference_add(
    trace: FloatArray, loss: Loss, x: FloatArray, y: float, weight: float, margin: Any, total: FloatArray, k: int,
    start: FloatArray,
) -> FloatArray:  # fmt: skip
    """Trace after row k, in plain NumPy: the specification of ``add``."""
    if not len(trace):
        return trace
    D, new = len(x), trace.copy()
    if len(sampled(k - 1, 1)):
        z = np.sqrt(weight * loss.curvature(margin, y)) * x
        new[HESSIAN, 0, :D, :D] += np.triu(np.outer(z, z))
        z = np.r_[weight * loss.derivative(margin, y) * x, 1.0]
        new[SCORES, 0, : D + 1, : D + 1] += np.triu(np.outer(z, z))
    if k % kernels.STRIDE == 0:
        z = np.r_[total - k * start, k, 1.0]
        new[PATH, 0] += np.triu(np.outer(z, z))
    return new


def merged(trace: FloatArray, other: FloatArray, total: FloatArray, k: int) -> FloatArray:
    """Trace of two shards, the first of k rows whose iterates, less their start, have this total."""
    if not len(trace) or not len(other):
        return nothing()
    D, onward = len(total), np.eye(len(total) + 2)
    onward[:D, D + 1], onward[D, D + 1] = total, k
    new = trace + other
    new[PATH, 0] = trace[PATH, 0] + np.triu(onward @ _full(other[PATH, 0]) @ onward.T)
    return new


def moments(trace: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Hessian of the mean loss, and covariance of the scores about their mean, by the rows taken.

    Parameters
    ----------
    trace : ndarray of shape (3, 1, D + 2, D + 2)

    Returns
    -------
    hessian : ndarray of shape (D, D)
        Mean of w h x xᵀ, without the ridge.
    scores : ndarray of shape (D, D)
        Covariance of w ψ x.
    """
    D = trace.shape[2] - 2
    count = trace[SCORES, 0, D, D]
    if count < 1.0:
        raise ValueError(f"The moments of the loss need {kernels.BLOCK} rows at least. Take in more rows.")
    hessian, scores = _full(trace[HESSIAN, 0]) / count, _full(trace[SCORES, 0]) / count
    return hessian[:D, :D], scores[:D, :D] - np.outer(scores[D, :D], scores[D, :D])


def mean_score(trace: FloatArray) -> tuple[FloatArray, int]:
    """Mean of w ψ x over the rows taken, shape (D,), and their number."""
    D = trace.shape[2] - 2
    count = trace[SCORES, 0, D, D]
    return trace[SCORES, 0, :D, D] / count, int(count)


def random_scaling(trace: FloatArray, total: FloatArray, k: int) -> FloatArray:
    """Random-scaling matrix V̂ = k⁻² Σ_j j² (θ̄_j - θ̄_k)(θ̄_j - θ̄_k)ᵀ after k rows, by the points of the path.

    √k (θ̄ - θ*) / √V̂, coordinate by coordinate, has the limit law of :func:`random_scaling_quantile`, once k is many
    times the number of rows in which the iterates forget, some 1 / (η_k h); before, V̂ is too small.

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
    path, D = _full(trace[PATH, 0]), len(total)
    count = path[D + 1, D + 1]
    if count < 1.0:
        raise ValueError(f"Random scaling needs {kernels.STRIDE} rows at least; received {k}. Take in more rows.")
    bridge = np.hstack([np.eye(D), -total[:, None] / k])  # of (S_j, j): S_j - (j / k) S_k
    return np.asarray(bridge @ path[: D + 1, : D + 1] @ bridge.T / (k * count))  # points are k / count rows apart


def random_scaling_quantile(confidence_level: float) -> float:
    """Critical value c of random scaling: |√n (θ̄ - θ*)| ≤ c √V̂ with this probability, in the limit.

    The law is that of W(1) / (∫ (W(t) - t W(1))² dt)^½ with a Brownian motion W: a normal number over the root of an
    independent one, whose Laplace transform is known, E exp(-s²/2 ∫) = (s / sinh s)^½. With Craig's form of the
    normal tail, P(|·| > c) is the mean of (s / sinh s)^½ at s = c / cos φ over φ between 0 and π/2; the integrand is
    smooth and flat at both ends, so that midpoints give it to the last digits.

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
    s = s[s < 1000.0]  # beyond, nothing is left
    return float(np.sqrt(2.0 * s * np.exp(-s) / -np.expm1(-2.0 * s)).sum() / len(NODES))


def _full(upper: FloatArray) -> FloatArray:
    """Symmetric matrix, from what is on and above its diagonal."""
    return np.asarray(np.triu(upper) + np.triu(upper, 1).T)
