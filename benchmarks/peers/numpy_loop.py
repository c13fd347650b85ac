"""A plain NumPy loop: one row at a time, vectorised over the replicates."""

from __future__ import annotations

import numpy as np
from work import ALPHA, Array, Call, Data, Work, steps

NAME = "NumPy loop"
NOTE = "The same method, row by row, vectorised over replicates; multipliers are drawn beforehand and not timed."
PACKAGE, CORE = "numpy", True
TARGETS = {
    "slab, d=14, B=200": 30,
    "slab, d=100, B=200": 22,
    "slab, d=3, B=100": 42,
}


def prepare(work: Work, data: Data) -> tuple[Call, int] | None:
    """Supports both learners of a fixed constraint."""
    if work.learnt:
        return None
    rows = 40_000_000 // (work.d + 20) // work.replicates if work.slab else 1_500
    X, y, V, eta = data.design(rows), data.y, data.multipliers(rows), steps(rows)
    if not work.slab:
        Xc, yc, zc = data.centred
        part = yc < 0
        return lambda: penalty_loop(X, y, -Xc[part], zc[part] / part.sum(), V, eta), rows
    return lambda: slab_loop(X, y, data.x_tilde, V, eta), rows


def slab_loop(X: Array, y: Array, x_tilde: Array, V: Array, eta: Array, tolerance: float = 0.0) -> Array:
    """Dual averaging under a slab."""
    n, d = X.shape
    s, mean = np.zeros((d, V.shape[1])), np.zeros((d, V.shape[1]))
    square = x_tilde @ x_tilde
    for k in range(n):
        x = X[k]
        q = -(x_tilde @ s)
        theta = -s - np.outer(x_tilde, (q - np.clip(q, -tolerance, tolerance)) / square)
        slope = -y[k] / (1.0 + np.exp(y[k] * (x @ theta)))
        s += eta[k] * V[k] * (np.outer(x, slope) + ALPHA * theta)
        mean += (theta - mean) / (k + 1)
    return mean


def penalty_loop(X: Array, y: Array, rows: Array, weights: Array, V: Array, eta: Array, penalty: float = 1.0) -> Array:
    """SGD with a squared penalty."""
    n, d = X.shape
    theta, mean = np.zeros((d, V.shape[1])), np.zeros((d, V.shape[1]))
    pulls = (weights[:, None] * rows).T
    for k in range(n):
        x = X[k]
        slope = -y[k] / (1.0 + np.exp(y[k] * (x @ theta)))
        theta -= eta[k] * V[k] * (np.outer(x, slope) + ALPHA * theta)
        gradient = pulls @ (rows @ theta < 0.0)
        stiff = 2.0 * penalty * eta[k] * V[k]
        g = (gradient * theta).sum(axis=0)
        theta -= stiff * g / (1.0 + stiff * (gradient**2).sum(axis=0)) * gradient
        mean += (theta - mean) / (k + 1)
    return mean
