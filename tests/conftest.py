from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, settings

from surefair.datasets import _files, about

SHARED = Path(__file__).parents[1].parent / "shared" / "data"
PLACES = list(dict.fromkeys(place for place in (_files.named_folder(), SHARED, _files.cache_folder()) if place))

# The same examples in every run: a law that fails here fails everywhere.
settings.register_profile(
    "surefair",
    max_examples=10,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("surefair")

# Files whose tests get by with so few rows and replicates that warnings are in place; elsewhere they are errors.
FEW = [
    "bits",
    "save",
    "covariance",
    "criteria",
    "fits",
    "classifier",
    "fairlearn",
    "float32",
    "groups",
    "interval",
    "maps",
    "paper",
    "plotting",
    "projection",
    "robustness",
    "sparse",
    "verdict",
    "weights",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests on few rows be."""
    for item in items:
        if item.path.stem.removeprefix("test_") in FEW:
            item.add_marker(pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic"), append=False)


@pytest.fixture(scope="session")
def folder_of() -> Callable[..., Path]:
    """Give a folder that holds the files of some data sets; tests that need them are skipped where there is none."""

    def folder(*names: str) -> Path:
        files = [file for name in names for file in about(name).files]
        for place in PLACES:
            if all((place / file).is_file() for file in files):
                return place
        pytest.skip(f"needs {', '.join(files)} in one of {', '.join(map(str, PLACES))}")

    return folder


@pytest.fixture(scope="session")
def data_folder(folder_of: Callable[..., Path]) -> Path:
    """A folder that holds the files of Adult and COMPAS."""
    return folder_of("adult", "compas")


@pytest.fixture(scope="session")
def people() -> Callable[..., pd.DataFrame]:
    """Give a table to audit, of people whose income goes with age, and age with sex."""

    def table(n: int, seed: int = 0) -> pd.DataFrame:
        rng = np.random.default_rng(seed)
        male, hours = rng.random(n) < 0.5, rng.normal(size=n).round(4)
        age = (rng.normal(size=n) + 0.8 * male).round(4)
        job = rng.choice(["clerk", "cook", "judge", "pilot"], n, p=[0.5, 0.3, 0.15, 0.05])
        high = age + 0.5 * hours + rng.normal(size=n) > 0.4
        return pd.DataFrame(
            {"age": age, "hours": hours, "job": job, "sex": np.where(male, "m", "f"), "high": high.astype(int)}
        )

    return table
