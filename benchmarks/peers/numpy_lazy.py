"""A NumPy loop over non-zero features only: scalars per replicate carry ridge and average."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix
from work import ALPHA, Array, Call, Data, Work, steps

NAME = "NumPy loop, lazy"
NOTE = "The same method in the lazy form that touches non-zero features only; multipliers are not timed."
PACKAGE, CORE = "numpy", True
TARGETS = {"no constraint, d=2^18, 50 non-zeros, B=100": 3}


def prepare(work: Work, data: Data) -> tuple[Call, int] | None:
    """Supports sparse rows, as many as ours, because the state and the mean would dominate the time of fewer rows."""
    if work.dense:
        return None
    X, V, eta = data.design(work.rows), data.multipliers(work.rows), steps(work.rows)
    return lambda: lazy_loop(X, data.y, V, eta), work.rows


def lazy_loop(X: csr_matrix, y: Array, V: Array, eta: Array) -> Array:
    """Dual averaging without a constraint; see learners/dual_averaging.py."""
    B = V.shape[1]
    w, U = np.zeros((X.shape[1], B)), np.zeros((X.shape[1], B))
    a, A = np.ones(B), np.zeros(B)
    for k in range(X.shape[0]):
        span = slice(X.indptr[k], X.indptr[k + 1])
        j, x = X.indices[span], X.data[span]
        move = eta[k] * V[k]
        slope = -y[k] / (1.0 + np.exp(y[k] * a * (x @ w[j])))
        A += a
        a = a * (1.0 - move * ALPHA)
        slope *= move / a
        w[j] -= np.outer(x, slope)
        U[j] += np.outer(x, A * slope)
    return (A * w + U) / X.shape[0]
