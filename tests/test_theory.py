from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import surefair as sf
from surefair import theory
from surefair.criteria import CRITERIA, Slab
from surefair.learners import Settings
from surefair.losses import LOSSES
from surefair.multipliers import Multipliers
from surefair.schedules import PolynomialDecay

every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


def population(seed=0, n=300):
    """Rows whose features say more of the label in one group than in the other."""
    rng = np.random.default_rng(seed)
    y, group = 2.0 * rng.integers(2, size=n) - 1.0, rng.integers(2, size=n)
    X = rng.normal(size=(n, 2)) + 0.7 * (y * (1 + group))[:, None]
    X[:, 1] += 0.5 * group
    return np.column_stack([X, np.ones(n)]), y, group


def settings(loss, D=3, **changes):
    chosen = {"alpha": 1e-3, "tolerance": 0.0, "penalty": 0.0} | changes
    return Settings(
        loss=loss, schedule=PolynomialDecay(0.5, 0.501), multipliers=Multipliers("two_point", 0), start=np.zeros(D),
        robust=True, **chosen,
    )  # fmt: skip


def value(s, theta, X, y):
    """Mean loss and ridge."""
    return s.loss.value(X @ theta, y).mean() + s.alpha * (theta @ theta) / 2.0


def gradient(s, theta, X, y):
    """Gradient of the mean loss and the ridge."""
    return s.loss.derivative(X @ theta, y) @ X / len(X) + s.alpha * theta


@every_loss
def test_without_a_constraint_the_gradient_vanishes(loss):
    X, y, _ = population()
    s = settings(loss)
    theta = theory.solve(s, Slab(np.zeros(3)), X, y)
    np.testing.assert_allclose(gradient(s, theta, X, y), 0.0, atol=1e-7)


@every_loss
def test_a_slab_that_does_not_bind_changes_nothing(loss):
    X, y, group = population()
    free = theory.solve(settings(loss), Slab(np.zeros(3)), X, y)
    slab = CRITERIA["demographic_parity"].constrain(X, y, group)
    wide = settings(loss, tolerance=1.001 * abs(slab.vector @ free))
    assert np.array_equal(theory.solve(wide, slab, X, y), free)


@every_loss
@pytest.mark.parametrize("tolerance", [0.0, 0.01])
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_on_a_face_the_gradient_points_straight_out_of_the_slab(loss, tolerance, side):
    X, y, group = population()
    slab = Slab(side * CRITERIA["demographic_parity"].constrain(X, y, group).vector)
    s = settings(loss, tolerance=tolerance)
    theta = theory.solve(s, slab, X, y)
    level = slab.vector @ theta
    assert abs(level) == pytest.approx(tolerance, abs=1e-12)
    downhill, x_tilde = -gradient(s, theta, X, y), slab.vector
    along = downhill @ x_tilde / (x_tilde @ x_tilde)
    np.testing.assert_allclose(downhill - along * x_tilde, 0.0, atol=1e-7)
    if tolerance:
        assert along * level > 0.0  # only the constraint keeps it from going on


@every_loss
@pytest.mark.parametrize("criterion", ["false_positive_rate", "false_negative_rate", "error_rate"])
@pytest.mark.parametrize("penalty", [0.5, 20.0, 500.0])
def test_with_a_penalty_no_direction_goes_down(loss, criterion, penalty):
    # a stiff penalty has its optimum on kinks, where gradients jump: so look around instead
    rng = np.random.default_rng(2)
    directions = rng.normal(size=(200, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    for seed in (1, 2, 3):
        X, y, group = population(seed)
        s = settings(loss, penalty=penalty)
        part = CRITERIA[criterion].looks_at(y)
        rows, z = y[part, None] * X[part], (group - group.mean())[part]

        def objective(theta, s=s, X=X, y=y, rows=rows, z=z):
            return value(s, theta, X, y) + s.effective_penalty * np.mean(z * np.minimum(0.0, rows @ theta)) ** 2

        theta = theory.solve(s, CRITERIA[criterion].constrain(X, y, group), X, y)
        lowest = min(objective(theta + h * d) for d in directions for h in (1e-4, 1e-3, 1e-2))
        assert lowest >= objective(theta) - 1e-6


@every_loss
def test_a_strong_penalty_pulls_the_groups_together(loss):
    X, y, group = population(seed=1)
    form = CRITERIA["false_negative_rate"].constrain(X, y, group)
    gaps = []
    for penalty in (0.0, 1.0, 20.0):
        theta = theory.solve(settings(loss, penalty=penalty), form, X, y)
        gaps.append(abs(form.gradient(theta[:, None])[:, 0] @ theta))
    assert gaps[0] > gaps[1] > gaps[2]


@every_loss
def test_columns_that_depend_on_each_other_are_no_obstacle(loss):
    X, y, _ = population()
    X = np.column_stack([X, X[:, 0] + X[:, 1]])
    s = settings(loss, D=4, alpha=0.0)
    theta = theory.solve(s, Slab(np.zeros(4)), X, y)
    np.testing.assert_allclose(gradient(s, theta, X, y), 0.0, atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_optimum_of_a_classifier_is_given_in_the_features_own_coordinates(loss, fit_intercept):
    X, y, group = population(seed=3, n=500)
    clf = sf.FairClassifier(criterion=None, loss=loss, alpha=0.0, fit_intercept=fit_intercept, n_replicates=0)
    clf.fit(X[:, :2], y, sensitive_features=group)
    rows = X if fit_intercept else X[:, :2]
    plain = minimize(lambda theta: LOSSES[loss].value(rows @ theta, y).mean(), np.zeros(rows.shape[1]), tol=1e-9)
    np.testing.assert_allclose(theory.optimum(clf, X[:, :2], y), plain.x, atol=1e-4)


@pytest.mark.parametrize("tolerance", [0.0, 0.05])
def test_optimum_of_a_classifier_obeys_its_constraint_set(tolerance):
    X, y, group = population(seed=4, n=500)
    clf = sf.FairClassifier(tolerance=tolerance, n_replicates=0)
    clf.fit(X[100:, :2], y[100:], sensitive_features=group[100:], constraint_set=(X[:100, :2], y[:100], group[:100]))
    theta = theory.optimum(clf, X[:, :2], y)
    covariance = np.cov(group[:100], X[:100] @ theta, ddof=0)[0, 1]
    assert abs(covariance) == pytest.approx(tolerance, abs=1e-10)
