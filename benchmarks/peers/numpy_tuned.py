"""The NumPy loop, optimised by hand: a sum instead of running means, buffers, a subspace for the slab."""

from __future__ import annotations

import numpy as np
from work import ALPHA, Array, Call, Data, Work, steps

NAME = "NumPy loop, tuned"
NOTE = "The NumPy loop rewritten by hand: in place, with a sum instead of a running mean, for tolerance 0 alone."
PACKAGE, CORE = "numpy", True
TARGETS: dict[str, float] = {}


def prepare(work: Work, data: Data) -> tuple[Call, int] | None:
    """Supports fixed slabs."""
    if not work.slab:
        return None
    rows = 40_000_000 // (work.d + 20) // work.replicates
    X, V, eta = data.design(rows), data.multipliers(rows), steps(rows)
    return lambda: slab_loop(X, data.y, data.x_tilde, V, eta), rows


def slab_loop(X: Array, y: Array, x_tilde: Array, V: Array, eta: Array) -> Array:
    """Dual averaging under a slab of tolerance 0."""
    s = np.zeros((X.shape[1], V.shape[1]))
    total, theta, slab = np.zeros_like(s), np.empty_like(s), x_tilde[:, None] / (x_tilde @ x_tilde)
    for k, x in enumerate(X):
        np.multiply(slab, x_tilde @ s, out=theta)
        theta -= s
        total += theta
        slope = -y[k] / (1.0 + np.exp(y[k] * (x @ theta)))
        theta *= ALPHA
        theta += x[:, None] * slope
        theta *= eta[k] * V[k]
        s += theta
    return total / len(X)
