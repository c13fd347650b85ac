"""FairClassifier against a plain NumPy loop: both learners, in one run, by alternating medians.

The loop is what a careful NumPy user would write: one row at a time, vectorised over the replicates, multipliers
drawn in blocks beforehand (and not timed). Ours is the public path, ``FairClassifier.fit`` on one thread,
multipliers included.

    python benchmarks/numpy_loop.py
"""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

import surefair as sf

ROUNDS, ALPHA = 5, 1e-4
Array = np.ndarray
OUT = Path(__file__).parents[1] / "docs" / "results" / "bench_numpy.json"


class Work(NamedTuple):
    """One line of the benchmark."""

    name: str
    criterion: str
    d: int  # coefficients, intercept included
    replicates: int
    constraint_rows: int
    rows: int  # for ours; the loop gets fewer, and rates are compared
    loop_rows: int
    target: float


WORKS = [
    Work("slab, d=14, B=200", "demographic_parity", 14, 200, 1000, 200_000, 3_000, 15),
    Work("slab, d=100, B=200", "demographic_parity", 100, 200, 1000, 50_000, 1_500, 12),
    Work("slab, d=3, B=100", "demographic_parity", 3, 100, 1000, 500_000, 5_000, 20),
    Work("penalty, 500 rows in D', d=14, B=200", "false_positive_rate", 14, 200, 500, 50_000, 800, 8),
]


def make_rows(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Correlated features, logistic labels, a group that depends on the features; no intercept column."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d - 1))
    X[:, 1:] += 0.5 * X[:, :1]
    y = np.where(X @ np.linspace(-1.0, 1.0, d - 1) / np.sqrt(d) + rng.logistic(size=n) > 0.0, 1, -1)
    z = (X[:, 0] + rng.normal(size=n) > 0.0).astype(int)
    return X, y, z


def numpy_slab(X: Array, y: Array, x_tilde: Array, V: Array, eta: Array, tolerance: float = 0.0) -> Array:
    """Dual averaging under a slab, vectorised over replicates."""
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


def numpy_penalty(X: Array, y: Array, rows: Array, weights: Array, V: Array, eta: Array, penalty: float = 1.0) -> Array:
    """SGD with a squared penalty, vectorised over replicates."""
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


def seconds(call: Callable[[], object]) -> float:
    """Time one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure(work: Work) -> dict[str, object]:
    """Rows per second of both, medians of alternating rounds."""
    X, y, z = make_rows(work.rows, work.d, seed=1)
    apart = make_rows(work.constraint_rows, work.d, seed=2)
    Xc, yc, zc = np.column_stack([apart[0], np.ones(len(apart[1]))]), apart[1], apart[2] - apart[2].mean()
    small = np.column_stack([X[: work.loop_rows], np.ones(work.loop_rows)])
    V = 2.0 * np.random.default_rng(3).integers(0, 2, (work.loop_rows, work.replicates + 1))
    eta = 0.5 * np.arange(1, work.loop_rows + 1) ** -0.501
    if work.criterion == "demographic_parity":
        loop = lambda: numpy_slab(small, y, zc @ Xc / len(Xc), V, eta)  # noqa: E731
    else:
        part = yc < 0
        loop = lambda: numpy_penalty(small, y, -Xc[part], zc[part] / part.sum(), V, eta)  # noqa: E731
    one, two = (
        sf.FairClassifier(work.criterion, n_replicates=work.replicates, random_state=0, n_jobs=n_jobs)
        for n_jobs in (1, 2)
    )
    one.fit(X[:100], y[:100], sensitive_features=z[:100], constraint_set=apart)  # compile
    calls = [
        lambda: one.fit(X, y, sensitive_features=z, constraint_set=apart),
        lambda: two.fit(X, y, sensitive_features=z, constraint_set=apart),
        loop,
    ]
    single, double, plain = np.median([[seconds(call) for call in calls] for _ in range(ROUNDS)], axis=0)
    mine, theirs = work.rows / single, work.loop_rows / plain
    return {
        "work": work.name,
        "ratio": mine / theirs,
        "target": work.target,
        "rows": work.rows,
        "rows_per_second": mine,
        "numpy_rows_per_second": theirs,
        "two_threads_over_one": single / double,
    }


def main() -> None:
    """Measure, print and keep."""
    with threadpool_limits(1):
        lines = [measure(work) for work in WORKS]
    table = Table(title="FairClassifier.fit over a plain NumPy loop, float64, one thread")
    for heading in ("work", "ratio", "target", "rows", "rows/s", "NumPy rows/s", "two threads over one"):
        table.add_column(heading, justify="left" if heading == "work" else "right")
    for line in lines:
        values = [line["rows"], line["rows_per_second"], line["numpy_rows_per_second"]]
        table.add_row(
            str(line["work"]), f"{line['ratio']:.1f}x", f"{line['target']:.0f}x", *(f"{v:,.0f}" for v in values),
            f"{line['two_threads_over_one']:.2f}x",
        )  # fmt: skip
    Console(width=None if sys.stdout.isatty() else 110).print(table)
    machine = {"machine": platform.machine(), "python": platform.python_version(), "numpy": np.__version__}
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({"date": str(date.today()), **machine, "rows": lines}, indent=1) + "\n")


if __name__ == "__main__":
    main()
