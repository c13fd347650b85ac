"""Classifiers for constraints and learners of every form, learnt or fixed, and small samples to fit them to."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import joblib
import numpy as np

import surefair as sf

N = 700
APART = 150  # warm-up rows, or rows of a constraint set
PAPER = sf.PolynomialDecay(0.5, 0.6)  # the constraint is then fixed
FORMS: dict[str, dict[str, Any]] = {
    "equality": {},
    "tolerance": {"tolerance": 0.02},
    "penalty": {"penalty": 3.0, "sharpness": 2.0},
    "three groups": {"groups": 3},
    "three groups with tolerance": {"groups": 3, "tolerance": 0.05},
    "no constraint": {"criterion": None},
    "error rates": {"criterion": "equalized_odds"},
    "predictive values": {"criterion": "false_omission_rate"},
    "scores": {"surrogate": "scores"},
    "exponential": {"multiplier": "exponential"},
    "fixed slab": {"step_size": PAPER},
    "fixed slabs": {"step_size": PAPER, "tolerance": 0.02, "groups": 3},
    "fixed penalty": {"step_size": PAPER, "criterion": "false_positive_rate"},
    "fixed smooth penalty": {"step_size": PAPER, "criterion": "error_rate", "sharpness": 4.0},
    "fixed soft rates": {"step_size": PAPER, "criterion": "false_omission_rate"},
}
SOME = ["equality", "three groups with tolerance", "error rates", "fixed slab", "fixed penalty"]
"""Forms for tests that are too slow for all of them."""


def sample(groups: int = 2, n: int = N, seed: int = 0) -> tuple[Any, ...]:
    """Features, labels, groups and weights."""
    rng = np.random.default_rng(seed)
    z = rng.integers(groups, size=n)
    X = rng.normal(size=(n, 5))
    X[:, :2] += 0.8 * z[:, None]  # the other features leave fair models that are not trivial
    y = (X.sum(axis=1) + rng.logistic(size=n) > 0.5).astype(int)
    return X, y, z, rng.exponential(size=n)


def n_first(groups: int) -> int:
    """Rows that a fit begins with: three pairs of groups need more."""
    return APART if groups == 2 else 3 * APART // 2


def classifier(**params: Any) -> sf.FairClassifier:
    """Return a classifier with few replicates and few warm-up rows."""
    return sf.FairClassifier(
        **({"n_replicates": 100, "solver": "one_pass", "n_warmup": APART, "random_state": 3} | params)
    )


def on(backend: str | None, n_jobs: int = 2) -> Any:
    """Let joblib use a backend."""
    return nullcontext() if backend is None else joblib.parallel_config(backend=backend, n_jobs=n_jobs)


def state_of(clf: sf.FairClassifier) -> tuple[Any, ...]:
    """Bits of a fit."""
    fit = clf.model_.fit
    return [np.asarray(array).tobytes() for array in fit.state], fit.weight, clf.seed_, clf.n_rows_
