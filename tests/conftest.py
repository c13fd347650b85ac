from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, settings

from surefair.datasets import about
from surefair.datasets.files import cache_folder, named_folder

ROOT = Path(__file__).parents[1]
PLACES = [named_folder(), ROOT / "data", ROOT.parent / "shared" / "data", cache_folder()]

# By default hypothesis tries the same examples in every run, so that a test fails for everyone or for no one.
# `make fuzz` selects the profile "fuzz", which tries many new ones.
settings.register_profile(
    "surefair",
    max_examples=10,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile(
    "fuzz", settings.get_profile("surefair"), max_examples=500, derandomize=False, print_blob=True
)
settings.load_profile("surefair")

# These files use so few rows and replicates that diagnostics are expected; in other files a diagnostic is an error.
FEW = [
    "bits",
    "save",
    "covariance",
    "criteria",
    "blocks",
    "partitions",
    "classifier",
    "fairlearn",
    "groups",
    "interval",
    "paper",
    "plotting",
    "projection",
    "robustness",
    "sparse",
    "verdict",
    "weights",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore diagnostics in tests with few rows."""
    for item in items:
        if item.path.stem.removeprefix("test_") in FEW:
            item.add_marker(pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic"), append=False)


@pytest.fixture(scope="session")
def folder_of() -> Callable[..., Path]:
    """A function that returns a folder with the files of some data sets, or skips the test if there is none."""

    def folder(*names: str) -> Path:
        files = [file for name in names for file in about(name).files]
        for place in PLACES:
            if place is not None and all((place / file).is_file() for file in files):
                return place.absolute()
        pytest.skip(f"needs {', '.join(files)}: run `make data`, or set SUREFAIR_DATA to the folder with these files")

    return folder


@pytest.fixture(scope="session")
def data_folder(folder_of: Callable[..., Path]) -> Path:
    """A folder with the files of Adult and COMPAS."""
    return folder_of("adult", "compas")


@pytest.fixture(scope="session")
def people() -> Callable[..., pd.DataFrame]:
    """A function that makes a table to audit: income depends on age, and age depends on sex."""

    def table(n: int, seed: int = 0) -> pd.DataFrame:
        rng = np.random.default_rng(seed)
        male = rng.random(n) < 0.5
        hours = rng.normal(size=n).round(4)
        age = (rng.normal(size=n) + 0.8 * male).round(4)
        job = rng.choice(["clerk", "cook", "judge", "pilot"], n, p=[0.5, 0.3, 0.15, 0.05])
        high = age + 0.5 * hours + rng.normal(size=n) > 0.4
        return pd.DataFrame(
            {"age": age, "hours": hours, "job": job, "sex": np.where(male, "m", "f"), "high": high.astype(int)}
        )

    return table
