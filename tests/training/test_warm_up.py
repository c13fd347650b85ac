"""Coordinates and start of a constraint from the stream, and the coverage of what follows from them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

import surefair as sf
from surefair.criteria import CRITERIA, Comparisons
from surefair.learners.multipliers import Multipliers
from surefair.losses import LOSSES
from surefair.training.warm_up import Task, warm_up


def draw(n, seed):
    """Rows of the synthetic stream with unequal groups: features with ones, labels ±1, group codes."""
    data = sf.datasets.SyntheticDI(seed=seed).sample(n)
    codes = [np.unique(part, return_inverse=True)[1] for part in (data.y, data.sensitive)]
    return np.column_stack([data.X, np.ones(n)]), 2.0 * codes[0] - 1.0, codes[1][:, None]


def task(criterion="demographic_parity", **more):
    comparisons = Comparisons.of(None if criterion is None else CRITERIA[criterion], "decisions", (2,))
    return Task(LOSSES["log_loss"], comparisons, 1e-3, **more)


def fit(problem, data, n_columns, seed, n_warm_up=1_000):
    X, y, group = data
    begun, W = warm_up(
        problem, *(part[:n_warm_up] for part in data), np.ones(n_warm_up), Multipliers("two_point", seed)
    )
    return W @ begun.mean(begun.step(begun.init(n_columns), X @ W, y, group=group))


def gaps(theta, X, group):
    positive = X @ theta > 0.0
    return positive[group[:, 0] == 0].mean(axis=0) - positive[group[:, 0] == 1].mean(axis=0)


def test_without_a_constraint_the_loss_has_one_curvature_in_all_directions():
    X, y, group = draw(2_000, 0)
    problem = task(None)
    learner, W = warm_up(problem, X, y, group, np.ones(2_000), Multipliers("two_point", 0))
    theta = W @ learner.settings.start
    H = W.T @ problem.on(X, y, group, np.ones(2_000)).curvature_of_loss(theta) @ W
    np.testing.assert_allclose(H, H[0, 0] * np.eye(3), atol=1e-6 * H[0, 0])


def test_the_ridge_is_that_of_the_features_without_the_intercept():
    X, y, group = draw(2_000, 0)
    learner, W = warm_up(task(), X * [1.0, 100.0, 1.0], y, group, np.ones(2_000), Multipliers("two_point", 0))
    u = np.array([0.3, -0.4, 2.0])
    assert learner.form.ridge @ u**2 == pytest.approx(np.sum((W @ u)[:2] ** 2))


def test_columns_that_follow_from_others_do_no_harm():
    X, y, group = draw(5_000, 0)
    twice = np.column_stack([X[:, 0], X])
    theta = fit(task(), (twice, y, group), 3, 0)
    assert np.isfinite(theta).all()
    assert abs(gaps(theta[:, 0], X[:, [0, 0, 1, 2]], group)) < 0.05


@pytest.mark.parametrize("tolerance", [0.0, 0.1])
def test_one_pass_ends_near_the_exact_solution_on_the_same_rows(tolerance):
    problem = task(tolerance=tolerance)
    data = draw(20_000, 3)
    theta = fit(problem, data, 40, 0)
    exact = problem.on(*data, np.ones(20_000)).solve(tolerance)
    assert exact.reached
    off = (theta[:, 0] - exact.theta) / theta[:, 1:].std(axis=1)
    assert np.abs(off).max() < 1.0
    X, _, group = draw(40_000, 4)
    assert abs(gaps(theta[:, 0], X, group)) == pytest.approx(tolerance, abs=0.025)


@pytest.mark.slow
def test_with_everything_drawn_again_intervals_cover_the_gap_of_the_population():
    problem = task(tolerance=0.05)
    population = draw(200_000, 10**6)
    X, _, group = (part[:10_000] for part in population)
    truth = gaps(problem.on(*population, np.ones(200_000)).solve(0.05).theta, X, group)
    repetitions = 100
    found = [fit(problem, draw(5_000, seed), 80, seed) for seed in range(repetitions)]
    covered = again = 0
    fits = np.array([gaps(theta[:, 0], X, group) for theta in found])
    for r, theta in enumerate(found):
        low, high = np.quantile(gaps(2.0 * theta[:, :1] - theta[:, 1:], X, group), [0.025, 0.975], method="weibull")
        covered += low <= truth <= high
        middle = theta[:, 1:].mean(axis=1, keepdims=True)
        moved = theta[:, :1] + np.sqrt(2.0) * (theta[:, 1:] - middle)
        low, high = np.quantile(gaps(moved, X, group), [0.025, 0.975], method="weibull")
        again += low <= fits[(r + 1) % repetitions] <= high
    least = binom.ppf(1e-4, repetitions, 0.93)
    assert covered >= least
    assert again >= least
