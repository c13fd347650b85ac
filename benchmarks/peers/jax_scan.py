"""JAX: the NumPy loop written as a compiled ``lax.scan`` over rows, in float64 on one thread."""

from __future__ import annotations

import os
from functools import partial

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import jax
import jax.numpy as jnp
from work import ALPHA, Call, Data, Work, steps

NAME = "JAX scan"
NOTE = "The NumPy loop as a compiled scan in float64, multipliers drawn in one call; compiled for one size of data."
PACKAGE, CORE = "jax", True
TARGETS = {"slab, d=14, B=200": 3.5, "slab, d=100, B=200": 3, "slab, d=3, B=100": 2.5}
jax.config.update("jax_enable_x64", True)


def prepare(work: Work, data: Data) -> tuple[Call, int] | None:
    """Supports fixed slabs."""
    if not work.slab:
        return None
    rows = 100_000_000 // (work.d + 10) // work.replicates
    arrays = [jnp.asarray(array, float) for array in (data.design(rows), data.y[:rows], steps(rows))]
    x_tilde, key = jnp.asarray(data.x_tilde), jax.random.key(0)
    return lambda: fit(*arrays, x_tilde, key, columns=work.replicates + 1).block_until_ready(), rows


@partial(jax.jit, static_argnames="columns")
def fit(X: jax.Array, y: jax.Array, eta: jax.Array, x_tilde: jax.Array, key: jax.Array, columns: int) -> jax.Array:
    """Dual averaging under a slab of tolerance 0."""
    square = x_tilde @ x_tilde

    def step(state: tuple, row: tuple) -> tuple:
        s, mean = state
        x, y, eta, V, k = row
        theta = jnp.outer(x_tilde, x_tilde @ s / square) - s
        slope = -y / (1.0 + jnp.exp(y * (x @ theta)))
        s = s + eta * V * (jnp.outer(x, slope) + ALPHA * theta)
        return (s, mean + (theta - mean) / (k + 1)), None

    V = 2.0 * jax.random.bernoulli(key, shape=(len(X), columns))
    zeros = jnp.zeros((X.shape[1], columns))
    return jax.lax.scan(step, (zeros, zeros), (X, y, eta, V, jnp.arange(len(X))))[0][1]
