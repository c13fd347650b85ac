"""The sandwich covariance under slabs and penalties."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from small_problems import PENALISED, constrain, population, problem, solve

from surefair.criteria import linearise
from surefair.inference.sandwich import sandwich
from surefair.losses import LOSSES
from surefair.training.solver import Objective


@pytest.mark.parametrize("sizes", [(3,), (2, 3), (5,)], ids=str)
@pytest.mark.parametrize("tolerance", [0.0, 0.02])
def test_the_covariance_is_zero_across_every_face_that_the_optimum_lies_on(sizes, tolerance):
    X, y, codes = population(2, 600, sizes, 4)
    s, slabs = problem(LOSSES["log_loss"], 5, tolerance=tolerance), constrain("demographic_parity", X, y, codes)
    theta = solve(s, slabs, X, y)
    slope = s.loss.derivative(X @ theta, y)[:, None] * X
    hessian = (X.T * s.loss.curvature(X @ theta, y)) @ X / len(y) + s.alpha * np.eye(5)
    found = sandwich(s, slabs, theta, hessian, np.cov(slope.T, ddof=0))
    on = slabs.vectors[np.abs(slabs.vectors @ theta) >= tolerance - 1e-9]
    assert len(on) > 0
    np.testing.assert_allclose(on @ found, 0.0, atol=1e-9)
    assert np.linalg.matrix_rank(found, tol=1e-9) == 5 - np.linalg.matrix_rank(on, tol=1e-9)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("criterion", PENALISED)
def test_a_smooth_penalty_adds_its_second_derivatives(loss, criterion):
    X, y, codes = population(4)
    s, form = problem(loss, penalty=2.0, sharpness=0.5), constrain(criterion, X, y, codes)
    theta = solve(s, form, X, y)
    objective = Objective.on(s, X, y, np.ones(len(y)))

    def slope(theta, j):
        def at(theta):
            return s.effective_penalty * np.sum(linearise(form, theta[:, None], s.sharpness)[0] ** 2)

        return (at(theta + 1e-4 * np.eye(3)[j]) - at(theta - 1e-4 * np.eye(3)[j])) / 2e-4

    bend = np.array([approx_fprime(theta, slope, 1e-5, j) for j in range(3)])
    inverse = np.linalg.inv(objective.hessian(theta) + (bend + bend.T) / 2.0)
    found = sandwich(s, form, theta, objective.hessian(theta), objective.scores(theta))
    np.testing.assert_allclose(found, inverse @ objective.scores(theta) @ inverse, rtol=2e-3, atol=1e-4)
