"""Classifiers for constraints and learners of every form, and small samples to fit them to."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import joblib
import numpy as np

import surefair as sf

N = 700
APART = 150  # rows of the constraint set
FORMS = {
    "slab": {"criterion": "demographic_parity"},
    "slab with tolerance": {"criterion": "demographic_parity", "tolerance": 0.02},
    "several slabs": {"criterion": "demographic_parity", "groups": 3},
    "no constraint": {"criterion": None},
    "penalty": {"criterion": "false_positive_rate"},
    "several penalties": {"criterion": "equalized_odds", "groups": 3},
    "smooth penalty": {"criterion": "error_rate", "sharpness": 4.0},
    "soft rates": {"criterion": "false_omission_rate"},
    "steps of the paper": {"criterion": "demographic_parity", "step_size": sf.PolynomialDecay(0.5, 0.6)},
    "exponential": {"criterion": "demographic_parity", "multiplier": "exponential"},
}


def sample(groups: int = 2, n: int = N, seed: int = 0) -> tuple[Any, ...]:
    """Features, labels, groups and weights."""
    rng = np.random.default_rng(seed)
    z = rng.integers(groups, size=n)
    X = rng.normal(size=(n, 5)) + 0.3 * z[:, None]
    y = (X.sum(axis=1) + rng.logistic(size=n) > 0.5).astype(int)
    return X, y, z, rng.exponential(size=n)


def classifier(**params: Any) -> sf.FairClassifier:
    """Return a classifier with few replicates."""
    return sf.FairClassifier(**({"n_replicates": 100, "random_state": 3} | params))


def on(backend: str | None, n_jobs: int = 2) -> Any:
    """Let joblib use a backend."""
    return nullcontext() if backend is None else joblib.parallel_config(backend=backend, n_jobs=n_jobs)


def state_of(clf: sf.FairClassifier) -> tuple[Any, ...]:
    """Bits of a fit."""
    fit = clf.model_.fit
    return [np.asarray(array).tobytes() for array in fit.state], fit.weight, clf.seed_, clf.n_rows_
