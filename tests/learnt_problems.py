"""Rows and problems for tests of a constraint that is learnt from all rows."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from surefair.criteria import CRITERIA, Comparisons
from surefair.learners.multipliers import Multipliers
from surefair.losses import LOSSES
from surefair.rows import Levels, Names, Rows
from surefair.training.warm_up import Task, warm_up

CONSTRAINED = [name for name, criterion in CRITERIA.items() if criterion.can_constrain]
USES = {"equality": {}, "tolerance": {"tolerance": 0.05}, "penalty": {"penalty": 5.0}}


def every_second(*factors):
    """Every second combination of the values of some factors, such that any three values meet."""
    places = product(*(range(len(factor)) for factor in factors))
    return [tuple(factor[i] for factor, i in zip(factors, at, strict=True)) for at in places if sum(at) % 2 == 0]


class Data(NamedTuple):
    """Rows of a stream: features with a column of ones, labels ±1, group codes and weights."""

    X: np.ndarray
    y: np.ndarray
    group: np.ndarray
    weight: np.ndarray

    def part(self, low, high=None):
        return Data(*(array[low:high] for array in self))

    def moved(self, W):
        return self._replace(X=self.X @ W)


def unequal_rows(n, sizes=(2,), seed=0, weighted=False):
    """Rows of groups that differ in their features, in the share of positive labels, and in what labels depend on."""
    rng = np.random.default_rng(seed)
    group = np.stack([rng.integers(size, size=n) for size in sizes], axis=1)
    step = (group - (np.array(sizes) - 1) / 2.0).sum(axis=1)
    X = rng.normal(size=(n, 3))
    X[:, 0] += 1.5 * step
    X[:, 1] -= 0.8 * step
    y = np.where(X[:, 0] + 1.5 * X[:, 1] - 2.0 * step * X[:, 2] + 2.0 * step + rng.logistic(size=n) > 0.5, 1.0, -1.0)
    return Data(np.column_stack([X, np.ones(n)]), y, group, rng.uniform(0.5, 1.5, size=n) if weighted else np.ones(n))


def equal_rows(n, seed=0):
    """Rows of two groups that do not differ."""
    X, y, group, weight = unequal_rows(n, seed=seed)
    return Data(X, y, np.random.default_rng(seed + 10**6).integers(2, size=group.shape), weight)


def synthetic_rows(stream, n, seed=0):
    """Rows of a synthetic stream with two groups."""
    data = stream(seed=seed).sample(n)
    y, group = (np.unique(part, return_inverse=True)[1] for part in (data.y, data.sensitive))
    return Data(np.column_stack([data.X, np.ones(n)]), 2.0 * y - 1.0, group[:, None], np.ones(n))


def task_of(criterion="demographic_parity", surrogate="decisions", loss="log_loss", sizes=(2,), alpha=1e-3, **more):
    """Return a task, with the criterion and the loss by name."""
    comparisons = Comparisons.of(None if criterion is None else CRITERIA[criterion], surrogate, sizes)
    return Task(LOSSES[loss], comparisons, alpha, **more)


def begin(task, first, law="two_point", seed=3):
    """Solve on the warm-up rows: the learner, its coordinates, and whether that was solved."""
    rows = Rows(first.X, first.y, first.group, first.weight, Names(None, Levels(np.array([-1, 1]), "label"), None))
    found = warm_up(task, first.X, rows, Multipliers(law, seed))
    return found.learner, found.W, found.reached


def exact(task, learner, W, data, multipliers=1.0):
    """Return the conditions for the optimum on all rows, in the learner's coordinates, with more weights."""
    return task.conditions(W, learner.form.ridge, data.X @ W, data.y, data.group, data.weight * multipliers)
