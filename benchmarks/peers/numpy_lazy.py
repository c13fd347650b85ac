"""A NumPy loop over non-zero features only: scalars per replicate carry ridge, projection and average.

It learns under a slab that 200 rows fix, which is less work than to learn the constraint from all rows.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix
from work import ALPHA, Array, Call, Data, Work, steps

NAME = "NumPy loop, lazy"
NOTE = "Dual averaging under a fixed slab, which touches non-zero features only; multipliers are not timed."
PACKAGE, CORE = "numpy", True
TARGETS: dict[str, float] = {}
FIXED = 200  # rows that fix the slab


def prepare(work: Work, data: Data) -> tuple[Call, int] | None:
    """Supports sparse rows, as many as ours, because the state and the mean would dominate the time of fewer rows."""
    if work.dense:
        return None
    X, V, eta = data.design(work.rows), data.multipliers(work.rows), steps(work.rows)
    group = data.z[:FIXED] - data.z[:FIXED].mean()
    x_tilde = X[:FIXED].T @ group / FIXED
    return lambda: lazy_loop(X, data.y, x_tilde, V, eta), work.rows


def lazy_loop(X: csr_matrix, y: Array, x_tilde: Array, V: Array, eta: Array) -> Array:
    """Dual averaging under a slab of tolerance 0; see learners/dual_averaging.py."""
    B = V.shape[1]
    w, U, x_tilde = np.zeros((X.shape[1], B)), np.zeros((X.shape[1], B)), x_tilde / np.linalg.norm(x_tilde)
    a, A, beta, t, C = np.ones(B), np.zeros(B), np.zeros(B), np.zeros(B), np.zeros(B)
    for k in range(X.shape[0]):
        span = slice(X.indptr[k], X.indptr[k + 1])
        j, x = X.indices[span], X.data[span]
        slab_x = x_tilde[j] @ x
        c = a * t + beta
        margin = a * (x @ w[j]) + (beta - c) * slab_x
        move = eta[k] * V[k]
        A += a
        C += beta - c
        a = a * (1.0 - move * ALPHA)
        beta = beta - move * ALPHA * (beta - c)
        slope = move / a * (-y[k] / (1.0 + np.exp(y[k] * margin)))
        t -= slope * slab_x
        w[j] -= np.outer(x, slope)
        U[j] += np.outer(x, A * slope)
    return (A * w + U + np.outer(x_tilde, C)) / X.shape[0]
