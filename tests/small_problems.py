"""Small problems with known rows, for tests of the exact solver and of what is computed at its solutions."""

from __future__ import annotations

import numpy as np

from surefair.criteria import CRITERIA, Members, Slabs, linearise
from surefair.learners import Settings
from surefair.learners.multipliers import Multipliers
from surefair.learners.schedules import PolynomialDecay
from surefair.training import solver

PENALISED = [name for name, criterion in CRITERIA.items() if criterion.form not in (None, Slabs)]


def population(seed=0, n=300, sizes=(2,), D=2):
    """Rows whose features predict the label better in some groups than in others; the last feature is 1."""
    rng = np.random.default_rng(seed)
    y, codes = 2.0 * rng.integers(2, size=n) - 1.0, np.stack([rng.integers(k, size=n) for k in sizes], axis=1)
    X = rng.normal(size=(n, D)) + 0.7 * (y * (1 + codes[:, 0]))[:, None]
    X[:, 1] += 0.5 * codes.sum(axis=1)
    return np.column_stack([X, np.ones(n)]), y, codes


def constrain(criterion, X, y, codes, weight=None):
    sizes = tuple(int(code.max()) + 1 for code in codes.T)
    return CRITERIA[criterion].constrain(X, y, Members(codes, sizes, np.ones(len(y)) if weight is None else weight))


def solve(s, form, X, y, weight=None):
    return solver.solve(s, form, X, y, np.ones(len(y)) if weight is None else weight)


def problem(loss, D=3, **changes):
    chosen = {"alpha": 1e-3, "tolerance": 0.0, "penalty": 0.0, "sharpness": None} | changes
    return Settings(
        loss=loss, schedule=PolynomialDecay(0.5, 0.501), multipliers=Multipliers("two_point", 0), start=np.zeros(D),
        robust=True, **chosen,
    )  # fmt: skip


def value(s, theta, X, y, weight=None):
    """Mean loss and ridge."""
    return np.average(s.loss.value(X @ theta, y), weights=weight) + s.alpha * (theta @ theta) / 2.0


def penalised(s, form, theta, X, y, weight=None):
    """The whole objective, with kinks, or rounded where the settings have a sharpness."""
    g, _ = linearise(form, theta[:, None], s.sharpness)
    return value(s, theta, X, y, weight) + s.effective_penalty * np.sum(g**2)


def steps_around(D, n=200):
    """Random steps from a point, of several lengths."""
    directions = np.random.default_rng(2).normal(size=(n, D))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    return [h * direction for direction in directions for h in (1e-4, 1e-3, 1e-2)]
