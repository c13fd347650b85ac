"""Labels, decisions and groups that several files measure."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture(scope="module")
def rows():
    """Truth, decision and group of 300 rows."""
    rng = np.random.default_rng(0)
    group, truth = rng.integers(2, size=(2, 300))
    decision = (rng.random(300) < 0.3 + 0.3 * truth + 0.15 * group).astype(int)
    return truth, decision, group


@pytest.fixture(scope="module")
def many():
    """Truth, decision and two sensitive columns of 2,000 rows."""
    rng = np.random.default_rng(1)
    columns = {"sex": rng.choice(["f", "m"], 2000), "age": rng.choice([20, 40, 60], 2000)}
    truth = rng.integers(2, size=2000)
    rate = 0.3 + 0.2 * truth + 0.15 * (columns["sex"] == "m") + 0.002 * columns["age"]
    return truth, (rng.random(2000) < rate).astype(int), columns
