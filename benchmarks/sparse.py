"""Sparse rows: FairClassifier against dense NumPy, and against a NumPy loop over the non-zeros, in one run.

The dense loop is the plain one, row by row and vectorised over the replicates, on features most of which are 0. The
second keeps the lazy form that touches non-zero features only, as a careful NumPy user would. Ours is the public path,
``FairClassifier.fit`` on one thread, multipliers included.

    python benchmarks/sparse.py
"""

from __future__ import annotations

import json
import platform
import sys
from datetime import date
from pathlib import Path

import numpy as np
from numpy_loop import ALPHA, numpy_slab, seconds
from rich.console import Console
from rich.table import Table
from scipy.sparse import csr_matrix
from threadpoolctl import threadpool_limits

import surefair as sf

ROUNDS, D, NON_ZEROS, REPLICATES, ROWS, LOOP_ROWS, DENSE_ROWS, CONSTRAINT_ROWS = 5, 2**18, 50, 100, 20_000, 300, 2, 200
TARGET = 5_000
OUT = Path(__file__).parents[1] / "docs" / "results" / "bench_sparse.json"
Array = np.ndarray


def make_rows(n: int, seed: int) -> tuple[csr_matrix, Array, Array]:
    """Rows with 50 non-zero features of 2^18, common ones more often; logistic labels; a group that leans on them."""
    rng = np.random.default_rng(seed)
    columns = np.minimum((D * rng.random((n, NON_ZEROS)) ** 3).astype(np.int64), D - 1)
    X = csr_matrix((rng.normal(size=n * NON_ZEROS), (np.repeat(np.arange(n), NON_ZEROS), columns.ravel())), (n, D))
    theta = np.random.default_rng(0).normal(size=D)
    y = np.where(X @ theta / np.sqrt(NON_ZEROS) + rng.logistic(size=n) > 0.0, 1, -1)
    return X, y, (X[:, :1000].sum(axis=1).A1 + rng.normal(size=n) > 0.0).astype(int)


def numpy_lazy(X: csr_matrix, y: Array, x_tilde: Array, V: Array, eta: Array) -> Array:
    """Dual averaging under a slab with tolerance 0, touching non-zero features only; see learners/dual_averaging.py."""
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


def main() -> None:
    """Measure, print and keep."""
    X, y, z = make_rows(ROWS, seed=1)
    apart = make_rows(CONSTRAINT_ROWS, seed=2)
    zc = apart[2] - apart[2].mean()
    x_tilde = apart[0].T @ zc / len(zc)
    eta = 0.5 * np.arange(1, ROWS + 1) ** -0.501
    V = 2.0 * np.random.default_rng(3).integers(0, 2, (LOOP_ROWS, REPLICATES + 1))
    dense = X[:DENSE_ROWS].toarray()
    one, two = (sf.FairClassifier(n_replicates=REPLICATES, random_state=0, n_jobs=jobs) for jobs in (1, 2))
    one.fit(X[:100], y[:100], sensitive_features=z[:100], constraint_set=apart)  # compile
    calls = [
        lambda: one.fit(X, y, sensitive_features=z, constraint_set=apart),
        lambda: two.fit(X, y, sensitive_features=z, constraint_set=apart),
        lambda: numpy_lazy(X[:LOOP_ROWS], y, x_tilde, V, eta),
        lambda: numpy_slab(dense, y, x_tilde, V[:DENSE_ROWS], eta),
    ]
    with threadpool_limits(1):
        single, double, lazy, plain = np.median([[seconds(call) for call in calls] for _ in range(ROUNDS)], axis=0)
    mine = ROWS / single
    line = {
        "work": f"slab, d=2^18, {NON_ZEROS} non-zeros, B={REPLICATES}",
        "over_dense": mine * plain / DENSE_ROWS,
        "target": TARGET,
        "over_lazy": mine * lazy / LOOP_ROWS,
        "rows": ROWS,
        "rows_per_second": mine,
        "two_threads_over_one": single / double,
    }
    table = Table(title="FairClassifier.fit on sparse rows, float64, one thread")
    for heading in ("work", "over dense NumPy", "target", "over lazy NumPy", "rows/s", "two threads over one"):
        table.add_column(heading, justify="left" if heading == "work" else "right")
    table.add_row(
        str(line["work"]), f"{line['over_dense']:,.0f}x", f"{TARGET:,}x", f"{line['over_lazy']:.1f}x", f"{mine:,.0f}",
        f"{line['two_threads_over_one']:.2f}x",
    )  # fmt: skip
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    machine = {"machine": platform.machine(), "python": platform.python_version(), "numpy": np.__version__}
    OUT.write_text(json.dumps({"date": str(date.today()), **machine, "rows": [line]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
