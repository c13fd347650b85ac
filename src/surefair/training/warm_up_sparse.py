"""From the first rows of a sparse stream with many features to a learner: the scales of the features.

Features are only scaled, θ = Wu with W a number for each feature, so that rows stay sparse. The ridge κ‖u‖²/2 is on the
scaled coefficients, the intercept among them; so the point that training converges to depends a little on the draw of
the warm-up rows, through W.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from surefair.learners.multipliers import Multipliers, row_numbers
from surefair.learners.primal_dual import PrimalDual
from surefair.learners.schedules import automatic
from surefair.learners.stochastic_newton import Beginning, Learnt
from surefair.rows import FloatArray, Rows
from surefair.training.coordinates import change_coordinates, with_ones
from surefair.training.warm_up import Task

OFTEN = 10.0
"""Rows that a feature is taken to occur in, at least, where it is scaled."""


def scaling(X: Any, weight: FloatArray) -> FloatArray:
    """Coordinates W (D,) in which features have the mean square 1 on the warm-up rows X, CSR.

    A feature that occurs in fewer than OFTEN rows is scaled as if it occurred in so many, with typical values in the
    others. So a value that happens to be small does not blow up those that follow, and a feature that has not occurred
    yet has a scale, too.

    Examples
    --------
    >>> from scipy.sparse import csr_matrix
    >>> X = csr_matrix(np.column_stack([np.full(40, 2.0), np.arange(40) == 7, np.zeros(40)]))
    >>> scaling(X, np.ones(40)).round(3)
    array([0.5  , 1.049, 1.009])
    """
    share = weight / weight.sum()
    used = X[weight > 0.0]
    often = used.getnnz(axis=0)
    typical = float(np.mean(used.data**2)) if used.nnz else 1.0
    square = np.asarray(X.power(2).T @ share) + np.maximum(OFTEN - often, 0.0) * typical / used.shape[0]
    return np.asarray(1.0 / np.sqrt(square))


def sparse_learner(task: Task, rows: Rows, W: FloatArray, multipliers: Multipliers) -> PrimalDual:
    """Return the learner that begins with sparse warm-up rows, in the coordinates W."""
    c = task.comparisons
    settings = task.settings(np.zeros(len(W)), automatic(float(task.loss.curvature(0.0, 1.0))), multipliers)
    moved = change_coordinates(with_ones(rows.X, task.fit_intercept), W)
    first = Beginning(
        moved, rows.y, rows.weight / rows.weight.mean(), rows.group[:, : len(c.sizes)], row_numbers(0, len(rows.y))
    )
    return PrimalDual(settings, Learnt(c, task.width, np.full(len(W), task.alpha), np.zeros(len(c.pairs)), first))
