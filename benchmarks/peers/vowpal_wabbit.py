"""Vowpal Wabbit's own online bootstrap, run by its driver over a cache file."""

from __future__ import annotations

import tempfile
from pathlib import Path

import vowpalwabbit
from scipy.sparse import csr_matrix
from work import Call, Data, Work

NAME = "Vowpal Wabbit bootstrap"
NOTE = "Plain SGD with Poisson weights in float32, rows from a binary cache made beforehand; no fairness constraint."
PACKAGE, CORE = "vowpalwabbit", True
TARGETS = {
    "slab, d=14, B=200": 21,
    "slab, d=100, B=200": 11,
    "slab, d=3, B=100": 21,
    "no constraint, d=2^18, 50 non-zeros, B=100": 1.2,
}


def prepare(work: Work, data: Data) -> tuple[Call, int] | None:
    """Write the rows as text, let VW convert them to its cache, and time a pass over it; VW adds the intercept."""
    if work.dense and not work.slab:
        return None
    rows = 200_000_000 // ((work.non_zeros or work.d) + 60) // work.replicates
    folder = tempfile.TemporaryDirectory()
    text, X = Path(folder.name) / "rows.txt", csr_matrix(data.X[:rows])
    with text.open("w") as file:
        for k, label in enumerate(data.y[:rows]):
            span = slice(X.indptr[k], X.indptr[k + 1])
            pairs = zip(X.indices[span], X.data[span], strict=True)
            file.write(f"{label} | {' '.join(f'{j}:{value:.9g}' for j, value in pairs)}\n")
    common = f"--quiet --sgd --loss_function logistic -d {text} --cache_file {text}.cache"
    vowpalwabbit.Workspace(common).finish()

    def fit() -> None:
        learner = vowpalwabbit.Workspace(f"{common} --bootstrap {work.replicates} --random_seed 1")
        learner.finish()
        if learner.get_weighted_examples() != rows:
            raise RuntimeError(f"Vowpal Wabbit saw {learner.get_weighted_examples()} rows of {rows} in {folder.name}.")

    return fit, rows
