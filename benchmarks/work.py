"""What all benchmarks share: seeded data, timing, facts about the machine, and where results are saved."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from datetime import date
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import sparse

ROUNDS, ALPHA = 5, 1e-4
RESULTS = Path(__file__).parents[1] / "docs" / "results"
CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
Array = np.ndarray
Call = Callable[[], object]
console = Console(width=None if sys.stdout.isatty() else 120)


class Work(NamedTuple):
    """A problem to fit, with its sizes."""

    name: str
    criterion: str | None
    d: int  # coefficients, intercept included
    replicates: int
    rows: int  # for us; a slow peer gets fewer, and we compare rows per second
    constraint_rows: int = 0  # rows that fix the constraint, as in the paper; 0 if it is learnt from all rows
    non_zeros: int | None = None  # non-zero features per row; None if rows are dense

    @property
    def learnt(self) -> bool:
        """Whether the constraint is learnt from all rows, which is the default."""
        return self.constraint_rows == 0

    @property
    def slab(self) -> bool:
        """Whether the constraint is a fixed slab."""
        return not self.learnt and self.criterion == "demographic_parity"

    @property
    def dense(self) -> bool:
        """Whether rows are dense."""
        return self.non_zeros is None


WORKS = [
    Work("parity of decisions, d=14, B=200", "demographic_parity", 14, 200, 200_000),
    Work("parity of decisions, d=100, B=200", "demographic_parity", 100, 200, 200_000),
    Work("false-positive rate of decisions, d=14, B=200", "false_positive_rate", 14, 200, 200_000),
    Work("slab, d=14, B=200", "demographic_parity", 14, 200, 200_000, constraint_rows=1_000),
    Work("slab, d=100, B=200", "demographic_parity", 100, 200, 50_000, constraint_rows=1_000),
    Work("slab, d=3, B=100", "demographic_parity", 3, 100, 500_000, constraint_rows=1_000),
    Work("penalty, 500 rows in D', d=14, B=200", "false_positive_rate", 14, 200, 20_000, constraint_rows=500),
    Work("no constraint, d=2^18, 50 non-zeros, B=100", None, 2**18, 100, 20_000, non_zeros=50),
]


class Data:
    """Training rows and rows of the constraint set, the same for every contender."""

    def __init__(self, work: Work) -> None:
        make = dense_rows if work.dense else sparse_rows
        self.work = work
        self.X, self.y, self.z = make(work, work.rows, seed=1)
        self.apart = None if work.learnt else make(work, work.constraint_rows, seed=2)

    def first(self, n: int) -> Data:
        """The same with the first n rows only."""
        some = copy(self)
        some.X, some.y, some.z = self.X[:n], self.y[:n], self.z[:n]
        return some

    def design(self, n: int) -> Any:
        """The first n rows with a column of ones for the intercept."""
        return with_ones(self.X[:n])

    @cached_property
    def centred(self) -> tuple[Any, Array, Array]:
        """The constraint rows: features with a column of ones, labels, centred group."""
        X, y, z = self.apart
        return with_ones(X), y, z - z.mean()

    @cached_property
    def x_tilde(self) -> Array:
        """The vector of the slab, shape (d,): the covariance of the features with the group."""
        X, _, z = self.centred
        return X.T @ z / len(z)

    def multipliers(self, n: int) -> Array:
        """Two-point multipliers, 0 or 2, shape (n, replicates + 1)."""
        return 2.0 * np.random.default_rng(3).integers(0, 2, (n, self.work.replicates + 1))


def with_ones(X: Any) -> Any:
    """Add the column of the intercept."""
    ones = np.ones((X.shape[0], 1))
    return sparse.hstack([X, ones], format="csr") if sparse.issparse(X) else np.hstack([X, ones])


def dense_rows(work: Work, n: int, seed: int) -> tuple[Array, Array, Array]:
    """Correlated features, logistic labels, a group that depends on important features; no intercept column."""
    rng, d = np.random.default_rng(seed), work.d - 1
    X = rng.normal(size=(n, d))
    some = d // 4 + 1
    lean = X[:, -some:].sum(axis=1) / np.sqrt(some)
    X[:, 1:] += 0.5 * X[:, :1]
    y = np.where(X @ np.linspace(-1.0, 1.0, d) / np.sqrt(work.d) + rng.logistic(size=n) > 0.0, 1, -1)
    return X, y, (lean + rng.normal(size=n) > 0.0).astype(int)


def sparse_rows(work: Work, n: int, seed: int) -> tuple[sparse.csr_matrix, Array, Array]:
    """Few non-zero features per row, some more common than others; logistic labels; a group like part of the score."""
    rng, d, k = np.random.default_rng(seed), work.d - 1, work.non_zeros or work.d
    columns = np.minimum((d * rng.random((n, k)) ** 3).astype(np.int64), d - 1)
    X = sparse.csr_matrix((rng.normal(size=n * k), (np.repeat(np.arange(n), k), columns.ravel())), (n, d))
    theta = np.random.default_rng(0).normal(size=d)
    y = np.where(X @ theta / np.sqrt(k) + rng.logistic(size=n) > 0.0, 1, -1)
    return X, y, (X[:, :1000] @ theta[:1000] + rng.normal(size=n) > 0.0).astype(int)


def steps(n: int) -> Array:
    """Step sizes of the plain loops."""
    return 0.5 * np.arange(1, n + 1) ** -0.501


@contextmanager
def cores(n: int) -> Iterator[None]:
    """Run on n cores, if the system lets a process choose; threads started meanwhile stay on them."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, CORES[-n:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def seconds(call: Call) -> float:
    """Time one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def medians(calls: Mapping[str, Call], rounds: int = ROUNDS, warm: bool = True) -> dict[str, float]:
    """Median seconds of each call over rounds in which all take turns, after one untimed call each to compile."""
    for call in calls.values() if warm else ():
        call()
    times = [[seconds(call) for call in calls.values()] for _ in range(rounds)]
    return dict(zip(calls, np.median(times, axis=0).tolist(), strict=True))


def machine() -> dict[str, object]:
    """Processor, Python, main packages, and date of a measurement."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    packages = {package: version(package) for package in ("numpy", "numba", "scikit-learn")}
    cpu = models[0] if models else platform.processor() or platform.machine()
    return {"CPU": cpu, "cores": len(CORES), "Python": platform.python_version(), **packages, "date": str(date.today())}


def keep(name: str, **tables: Sequence[Mapping[str, object]]) -> None:
    """Write tables, which are lists of rows, as JSON for the docs."""
    result = {"command": " ".join([f"python benchmarks/{name}.py", *sys.argv[1:]]), "machine": [machine()], **tables}
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"bench_{name}.json").write_text(json.dumps(result, indent=1) + "\n")


def show(title: str, rows: Iterable[Mapping[str, object]]) -> None:
    """Print rows as a table; the keys are the headings."""
    rows = list(rows)
    table = Table(title=title)
    for heading, value in rows[0].items():
        table.add_column(heading.replace("_", " "), justify="left" if isinstance(value, str) else "right")
    for row in rows:
        table.add_row(*map(shown, row.values()))
    console.print(table)


def shown(value: object) -> str:
    """Text of a cell: three or more digits, thousands separated; empty for None."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
