"""Measure how the time of a sparse row under a constraint grows with its non-zero features: it should be proportional.

The time of a row is the difference between fits of many and of few rows, so that it does not include the warm-up rows,
the memory of 2^18 features and their averages. Fits with ``criterion=None`` are there for comparison.

    python benchmarks/sparse.py
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, hstack
from threadpoolctl import threadpool_limits
from work import Array, Call, Work, console, cores, keep, medians, show, sparse_rows

import surefair as sf

NON_ZEROS = (25, 50, 100)
FEW, MANY = 10_000, 40_000
WORKS = [
    Work(f"{criterion or 'no constraint'}, {non_zeros} non-zeros", criterion, 2**18, 100, MANY, non_zeros=non_zeros)
    for criterion in ("demographic_parity", None)
    for non_zeros in NON_ZEROS
]


def unequal_rows(work: Work) -> tuple[Any, Array, Array]:
    """Rows in which five features show the group, which decides a third of the labels, so that the constraint acts."""
    X, y, z = sparse_rows(work, MANY, seed=1)
    rng = np.random.default_rng(2)
    shows = csr_matrix((rng.random((MANY, 5)) < 0.2 + 0.4 * z[:, None]).astype(float))
    return hstack([shows, X[:, 5:]], format="csr"), np.where(rng.random(MANY) < 1 / 3, 2 * z - 1, y), z


def fits(work: Work) -> dict[str, Call]:
    """Fits of few and of many rows; both have the same number of warm-up rows."""
    X, y, z = unequal_rows(work)

    def fit(n: int) -> Any:
        clf = sf.FairClassifier(work.criterion, n_replicates=work.replicates, n_warmup=FEW, random_state=0)
        clf = clf.partial_fit(X[:FEW], y[:FEW], sensitive_features=z[:FEW], classes=[-1, 1])
        return clf.partial_fit(X[FEW:n], y[FEW:n], sensitive_features=z[FEW:n]) if n > FEW else clf

    return {f"{work.name}, {n} rows": partial(fit, n) for n in (FEW, MANY)}


def main() -> None:
    """Measure, print, and save."""
    rows: list[dict[str, object]] = []
    with cores(1), threadpool_limits(1):
        for work in WORKS:
            with console.status(work.name):
                few, many = medians(fits(work), rounds=3).values()
            took = (many - few) / (MANY - FEW)
            first = rows[len(rows) // len(NON_ZEROS) * len(NON_ZEROS)] if len(rows) % len(NON_ZEROS) else None
            ratio = 1.0 if first is None else took * 1e6 / float(str(first["microseconds_per_row"]))
            rows.append(
                {
                    "criterion": work.criterion or "none",
                    "non_zeros": work.non_zeros,
                    "microseconds_per_row": took * 1e6,
                    "ratio_to_25": ratio,
                }
            )
    show(f"Sparse rows of {2**18:,} features, {WORKS[0].replicates} replicates, one core", rows)
    keep("sparse", rows=rows)


if __name__ == "__main__":
    main()
