"""Tables of decisions and scores."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest


@pytest.fixture(scope="session")
def decided():
    """A function that makes a table of decisions: men, and those who are fit, are selected more often."""

    def table(n=3000, seed=0):
        rng = np.random.default_rng(seed)
        sex = rng.choice(["f", "m"], n)
        fit = rng.integers(0, 2, n)
        score = np.clip(rng.random(n) * 0.7 + 0.2 * fit + 0.1 * (sex == "m"), 0.0, 1.0).round(6)
        return pd.DataFrame({
            "sex": sex, "race": rng.choice(["a", "b", "c"], n, p=[0.6, 0.35, 0.05]), "fit": fit, "score": score,
            "hired": (score > 0.5).astype(int), "promoted": np.where(rng.random(n) < 0.5, "no", "yes"),
            "person": rng.integers(0, n // 5, n), "job": rng.choice(["clerk", "cook"], n),
            "w": rng.choice([0.5, 1.0, 2.0], n),
        })  # fmt: skip

    return table
