"""The warm-up rows of a sparse stream: scales and steps."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from learnt_problems import task_of, unequal_rows
from scipy.sparse import csr_matrix

from surefair.learners.multipliers import Multipliers
from surefair.learners.schedules import automatic
from surefair.losses import LOSSES
from surefair.training.warm_up_sparse import OFTEN, scaling, sparse_learner


def test_frequent_features_have_the_mean_square_1():
    data = unequal_rows(500, weighted=True)
    W = scaling(csr_matrix(data.X), data.weight)
    np.testing.assert_allclose(data.weight @ (data.X * W) ** 2 / data.weight.sum(), 1.0, rtol=1e-12)


def test_a_change_of_units_of_a_frequent_feature_cancels():
    data = unequal_rows(500)
    units = np.array([100.0, 0.01, -3.0, 1.0])
    before, after = (scaling(csr_matrix(X), data.weight) for X in (data.X, data.X * units))
    np.testing.assert_allclose(np.abs(data.X * units * after), np.abs(data.X * before), rtol=1e-12)


def test_rare_features_are_scaled_as_if_they_had_typical_values_in_more_rows():
    n = 400
    X = np.zeros((n, 4))
    X[:, 0] = 2.0
    X[7, 1] = 1e-6  # a value that happens to be small must not blow up those that follow
    X[:3, 2] = 2.0
    W = scaling(csr_matrix(X), np.ones(n))
    expected = np.sqrt(n / OFTEN) / 2.0
    np.testing.assert_allclose(W, [0.5, expected, expected, expected], rtol=0.06)


def test_rows_without_weight_do_not_count():
    data = unequal_rows(100)
    weight = np.ones(100)
    weight[50:] = 0.0
    X = csr_matrix(data.X)
    np.testing.assert_allclose(scaling(X, weight), scaling(X[:50], np.ones(50)), rtol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_learner_begins_at_0_with_steps_for_the_curvature_there(loss):
    data = unequal_rows(300, weighted=True)
    rows = SimpleNamespace(X=csr_matrix(data.X[:, :-1]), y=data.y, group=data.group, weight=7.0 * data.weight)
    W = scaling(csr_matrix(data.X), data.weight)
    learner = sparse_learner(task_of(loss=loss), rows, W, Multipliers("two_point", 0))
    np.testing.assert_allclose(learner.form.first.X.toarray(), data.X * W, rtol=1e-12)
    assert learner.form.first.weight.mean() == pytest.approx(1.0)
    assert not learner.settings.start.any()
    assert learner.settings.schedule == automatic(float(LOSSES[loss].curvature(0.0, 1.0)))
