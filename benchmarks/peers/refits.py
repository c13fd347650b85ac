"""The bootstrap of Virny and many papers: one LogisticRegression per resample of the rows."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression
from work import Call, Data, Work

NAME = "LogisticRegression refits"
NOTE = "A model fitted to convergence per resample of rows held in memory; three are timed and scaled to B + 1."
PACKAGE, CORE = "scikit-learn", False
TARGETS: dict[str, float] = {}
REFITS = 3


def prepare(work: Work, data: Data) -> tuple[Call, float] | None:
    """Has no constraint; one kind of work is enough."""
    if not work.slab:
        return None
    rng, n = np.random.default_rng(0), min(work.rows, 100_000)
    X, y = data.X[:n], data.y[:n]

    def fit() -> None:
        for _ in range(REFITS):
            drawn = rng.integers(0, n, n)
            LogisticRegression().fit(X[drawn], y[drawn])

    return fit, n * REFITS / (work.replicates + 1)  # B + 1 refits would take that much longer for n rows
