from __future__ import annotations

from pathlib import Path

import pooch
import pytest
from hypothesis import HealthCheck, settings

from surefair.datasets import _files

PLACES = (Path(__file__).parents[1].parent / "shared" / "data", Path(pooch.os_cache("surefair")))

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
    "checkpoints",
    "covariances",
    "criteria",
    "estimators",
    "fairlearn",
    "float32",
    "groups",
    "intervals",
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
def data_folder() -> Path:
    """A folder that holds the real data files; tests that need it are skipped where there is none."""
    for place in PLACES:
        if all((place / name).is_file() for name in _files.FILES):
            return place
    pytest.skip(f"needs {', '.join(_files.FILES)} in one of {', '.join(map(str, PLACES))}")
