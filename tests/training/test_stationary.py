"""Stationary points: against a general optimiser, the gaps that they reach, and what the learner converges to."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from surefair.criteria import CRITERIA, Comparisons
from surefair.losses import LOSSES
from surefair.training.stationary import Stationarity

rng = np.random.default_rng(0)
N = 3_000
X = np.column_stack([rng.normal(size=(N, 3)), np.ones(N)])
GROUP = (X[:, 0] + rng.normal(size=N) > 0.0).astype(np.int64)[:, None]
THREE = np.where(X[:, 2] + rng.normal(size=N) > 1.0, 2, GROUP[:, 0])[:, None]
Y = np.where(X[:, 0] + 0.8 * X[:, 1] + 0.5 * X[:, 2] + rng.logistic(size=N) > 0.0, 1.0, -1.0)
RIDGE = np.array([1.0, 1.0, 1.0, 0.0])


def conditions(criterion="demographic_parity", surrogate="decisions", loss="log_loss", group=GROUP, width=1.0):
    c = Comparisons.of(None if criterion is None else CRITERIA[criterion], surrogate, (int(group.max()) + 1,))
    return Stationarity(LOSSES[loss], 1e-2, RIDGE, c, width, X, Y, np.ones(N), c.entries(Y, group))


def rates(theta, group, rows=slice(None)):
    positive = (X @ theta > 0.0)[rows]
    return np.array([positive[group[rows, 0] == g].mean() for g in range(group.max() + 1)])


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("tolerance", [0.0, 0.1])
def test_parity_of_scores_is_the_optimum_that_a_general_optimiser_finds(loss, tolerance):
    problem = conditions(surrogate="scores", loss=loss)
    found = problem.solve(tolerance)
    apart = X[GROUP[:, 0] == 0].mean(axis=0) - X[GROUP[:, 0] == 1].mean(axis=0)

    def objective(theta):
        return LOSSES[loss].value(X @ theta, Y).mean() + 0.5 * 1e-2 * RIDGE @ theta**2

    bounds = [{"type": "ineq", "fun": lambda theta, s=s: tolerance - s * (apart @ theta)} for s in (1.0, -1.0)]
    if tolerance == 0.0:
        bounds = [{"type": "eq", "fun": lambda theta: apart @ theta}]
    expected = minimize(objective, np.zeros(4), constraints=bounds, method="SLSQP", options={"ftol": 1e-14})
    assert found.reached
    np.testing.assert_allclose(found.theta, expected.x, atol=1e-5)


@pytest.mark.parametrize("criterion", ["demographic_parity", "false_positive_rate", "false_negative_rate"])
@pytest.mark.parametrize("tolerance", [0.0, 0.05])
def test_the_tolerance_bounds_the_gap_of_decisions(criterion, tolerance):
    look = {"demographic_parity": slice(None), "false_positive_rate": Y < 0.0, "false_negative_rate": Y > 0.0}
    found = conditions(criterion).solve(tolerance)
    free = conditions(None).solve()
    assert found.reached
    assert abs(np.ptp(rates(free.theta, GROUP, look[criterion]))) > 0.1
    assert np.ptp(rates(found.theta, GROUP, look[criterion])) == pytest.approx(tolerance, abs=0.015)


def test_three_groups_are_all_within_the_tolerance():
    found = conditions(group=THREE).solve(0.05)
    assert found.reached
    assert np.ptp(rates(found.theta, THREE)) == pytest.approx(0.05, abs=0.015)


def test_a_loose_tolerance_changes_nothing():
    free, loose = conditions(None).solve(), conditions().solve(0.9)
    np.testing.assert_allclose(loose.theta, free.theta, atol=1e-8)
    assert not loose.push.any()


def test_a_penalty_grows_into_a_constraint():
    gaps = [np.ptp(rates(conditions().solve(penalty=weight).theta, GROUP)) for weight in (0.1, 1.0, 10.0, 1e4)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 0.01


def test_the_curvature_is_the_derivative_of_the_conditions():
    problem = conditions()
    theta = np.array([0.4, 0.7, 0.2, -0.1])
    push = np.array([0.6])

    def slope(theta):
        soft = problem.rates(theta)[1]
        return problem.slope_of_loss(theta) + 0.6 * (soft[0] - soft[1])

    numeric = np.stack([(slope(theta + 1e-5 * e) - slope(theta - 1e-5 * e)) / 2e-5 for e in np.eye(4)], axis=1)
    np.testing.assert_allclose(problem.curvature(theta, push), numeric, atol=1e-6)
