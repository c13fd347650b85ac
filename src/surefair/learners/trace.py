"""The trace of a fit: sums that one pass keeps, so that covariances can be computed without replicates.

A *trace* holds three sums of squares Σ z zᵀ, on and above their diagonals, each (D + 2, D + 2):

    0   z = √(w h) x                 Hessian of the loss, the first D numbers
    1   z = (w ψ x, 1)               gradients of the loss, their sum and their number, the first D + 1
    2   z = (S_k - k start, k, 1)    the path of the sums S_k = θ_1 + … + θ_k of iterates

Here w is the relative weight of a row, and h and ψ are the second and first derivative of the loss at the score of the
row under the current iterate. Rows enter whole: they are not reduced to the subspace that constraints leave. To keep
the cost low, the first two sums use one row of every four, at a place that follows no period, and the path has points
k = 16, 32, …. The first two sums give the sandwich covariance, the path gives random scaling (Lee, Liao, Seo and Shin,
2022, Fast and robust online inference with stochastic gradient descent via random scaling); ``inference/covariance.py``
computes both.

Traces merge exactly: the sums of the second shard continue where those of the first end, S = s + S_k and k = n + k,
which is a linear map of z. So a path, unlike a mean, depends on which shard comes first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefair import kernels
from surefair.losses import Loss
from surefair.rows import FloatArray

FEATURES = 128
"""A fit with more features than this keeps no trace: the cost grows with the square of their number."""

HESSIAN, GRADIENTS, PATH = range(3)


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
    """Arrays for a kernel to fill over the n rows after the first k: scores (n,), and S_k - k start (points, D).

    They are empty if the fit itself is not among the columns that the kernel moves.
    """
    if not len(trace) or (columns is not None and columns[0] > 0):
        return np.empty(0), np.empty((0, n_features))
    n_points = (k + n_rows) // kernels.STRIDE - k // kernels.STRIDE
    return np.empty(n_rows), np.empty((n_points, n_features))


def sampled(k: int, n: int) -> NDArray[np.int64]:
    """Which of the n rows after the first k enter the first two sums: one of every four.

    The golden ratio spreads the places evenly, also over rows that arrive in a periodic order.

    >>> sampled(0, 20), sampled(10, 10)
    (array([ 0,  6,  8, 15, 17]), array([5, 7]))
    """
    blocks = np.arange(k // kernels.BLOCK, -(-(k + n) // kernels.BLOCK))
    rows = kernels.BLOCK * blocks + (blocks * 2654435769 % 2**32 >> 30) - k
    return rows[(rows >= 0) & (rows < n)]


def add(
    trace: FloatArray, loss: Loss, X: FloatArray, y: FloatArray, weight: FloatArray | float, scores: FloatArray,
    sums: FloatArray, k: int,
) -> None:  # fmt: skip
    """Add the rows after the first k to the trace, in place; a kernel has filled the arrays of ``room``."""
    if not len(scores):
        return
    at = sampled(k, len(y))
    scores = scores[at]
    weight = np.broadcast_to(weight, len(y))[at]
    y = y[at]
    with np.errstate(over="ignore", invalid="ignore"):  # a fit may diverge; a diagnostic reports that
        bend = weight * loss.curvature(scores, y)
        gradients = (weight * loss.derivative(scores, y))[:, None] * X[at]
    kernels.add_outer(X[at], bend, trace[HESSIAN, 0])
    kernels.add_outer(np.column_stack([gradients, np.ones(len(at))]), np.ones(len(at)), trace[GRADIENTS, 0])
    ones = np.ones(len(sums))
    number = kernels.STRIDE * (k // kernels.STRIDE + np.cumsum(ones))
    kernels.add_outer(np.column_stack([sums, number, ones]), ones, trace[PATH, 0])


def reference_add(
    trace: FloatArray, loss: Loss, x: FloatArray, y: float, weight: float, score: Any, total: FloatArray, k: int,
    start: FloatArray,
) -> FloatArray:  # fmt: skip
    """Trace after row k, in plain NumPy: the specification of ``add``."""
    if not len(trace):
        return trace
    D = len(x)
    new = trace.copy()
    if len(sampled(k - 1, 1)):
        z = np.sqrt(weight * loss.curvature(score, y)) * x
        new[HESSIAN, 0, :D, :D] += np.triu(np.outer(z, z))
        z = np.r_[weight * loss.derivative(score, y) * x, 1.0]
        new[GRADIENTS, 0, : D + 1, : D + 1] += np.triu(np.outer(z, z))
    if k % kernels.STRIDE == 0:
        z = np.r_[total - k * start, k, 1.0]
        new[PATH, 0] += np.triu(np.outer(z, z))
    return new


def merged(trace: FloatArray, other: FloatArray, total: FloatArray, k: int) -> FloatArray:
    """Trace of two shards; ``total`` is the sum of the k iterates of the first, less k times their start."""
    if not len(trace) or not len(other):
        return nothing()
    D = len(total)
    onward = np.eye(D + 2)
    onward[:D, D + 1] = total
    onward[D, D + 1] = k
    new = trace + other
    new[PATH, 0] = trace[PATH, 0] + np.triu(onward @ symmetric(other[PATH, 0]) @ onward.T)
    return new


def symmetric(upper: FloatArray) -> FloatArray:
    """Symmetric matrix with these entries on and above its diagonal.

    >>> symmetric(np.array([[1.0, 2.0], [0.0, 3.0]]))
    array([[1., 2.],
           [2., 3.]])
    """
    return np.asarray(np.triu(upper) + np.triu(upper, 1).T)
