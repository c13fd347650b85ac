"""Coordinates of a constraint that is learnt from all rows, what does not depend on them, and coverage."""

from __future__ import annotations

import numpy as np
import pytest
from learnt_problems import USES, begin, exact, synthetic_rows, task_of, unequal_rows
from scipy.stats import binom

import surefair as sf
from surefair.criteria import SURROGATES
from surefair.datasets import SyntheticDI
from surefair.losses import LOSSES
from surefair.training.warm_up import coordinates


def second_moment(data, W):
    moved = data.X @ W
    return (moved.T * data.weight) @ moved / data.weight.sum()


def ridge_of(theta, fit_intercept):
    return np.sum(theta[: len(theta) - int(fit_intercept)] ** 2)


# -- Coordinates ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("scale", [(1.0, 1.0, 1.0, 1.0), (1e-6, 1.0, 1e6, 1.0), (1e-150, 1e150, 1.0, 1.0)], ids=str)
def test_rows_have_the_identity_as_second_moment_and_the_ridge_is_a_sum_over_coordinates(scale, fit_intercept):
    data = unequal_rows(500, weighted=True)
    data = data._replace(X=data.X * scale)
    W, ridge = coordinates(data.X, data.weight, fit_intercept)
    np.testing.assert_allclose(second_moment(data, W), np.eye(4), atol=1e-9)
    assert (ridge >= 0.0).all()
    if max(scale) < 1e10:
        u = np.array([0.3, -0.4, 2.0, 0.7])
        assert ridge @ u**2 == pytest.approx(ridge_of(W @ u, fit_intercept), rel=1e-6)


def test_the_spread_of_scores_is_the_length_of_the_coefficients():
    data = unequal_rows(500, weighted=True)
    W, _ = coordinates(data.X, data.weight, True)
    u = np.array([0.3, -0.4, 2.0, 0.7])
    assert np.average((data.X @ W @ u) ** 2, weights=data.weight) == pytest.approx(u @ u)


def test_only_the_intercept_is_free_of_the_ridge():
    data = unequal_rows(500)
    W, ridge = coordinates(data.X, data.weight, True)
    assert np.count_nonzero(ridge < 1e-12) == 1
    np.testing.assert_allclose((W @ np.eye(4)[np.argmin(ridge)])[:3], 0.0, atol=1e-9)
    assert (coordinates(data.X, data.weight, False)[1] > 1e-3).all()


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_columns_that_follow_from_others_or_are_zero_are_stretched_by_one_rows_worth_at_most(fit_intercept):
    data = unequal_rows(500)
    X = np.column_stack([data.X[:, 0], data.X[:, 0] + data.X[:, 1], np.zeros(500), data.X])
    data = data._replace(X=X)
    W, ridge = coordinates(X, data.weight, fit_intercept)
    assert np.isfinite(W).all()
    assert np.isfinite(ridge).all()
    assert np.linalg.matrix_rank(W) == 7
    values = np.linalg.eigvalsh(second_moment(data, W))
    np.testing.assert_allclose(values[-4:], 1.0, atol=1e-6)
    np.testing.assert_allclose(values[:3], 0.0, atol=1e-6)
    assert np.linalg.norm(W, 2) < 100.0 * np.sqrt(500)
    u = np.linspace(-1.0, 1.0, 7)
    assert ridge @ u**2 == pytest.approx(ridge_of(W @ u, fit_intercept), rel=1e-6)


def test_one_row_with_another_value_is_not_stretched_further_than_others():
    data = unequal_rows(400)
    rare = np.zeros(400)
    rare[7] = 1e-3
    W, _ = coordinates(np.column_stack([rare, data.X]), data.weight, True)
    moved = np.column_stack([rare, data.X]) @ W
    assert np.linalg.norm(moved[7]) < 2.0 * np.sqrt(400)


@pytest.mark.parametrize("n", [1, 3])
def test_fewer_rows_than_columns_still_have_coordinates(n):
    data = unequal_rows(n)
    W, ridge = coordinates(data.X, data.weight, True)
    assert np.isfinite(W).all()
    assert np.isfinite(ridge).all()
    assert np.linalg.matrix_rank(W) == 4


# -- What does not depend on units ------------------------------------------------------------------------------------

CHANGES = {
    "scaling": np.diag([100.0, 0.01, -3.0, 1.0]),
    "rotation": np.block(
        [[np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0], np.zeros((3, 1))], [np.zeros((1, 3)), 1.0]]
    ),
    "shift": np.eye(4) + np.outer([0.0, 0.0, 0.0, 1.0], [2.0, -1.0, 5.0, 0.0]),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("change", CHANGES)
def test_without_a_ridge_scores_do_not_depend_on_the_units_of_features(change, surrogate, use):
    data = unequal_rows(1_500, seed=1, weighted=True)
    changed = data._replace(X=data.X @ CHANGES[change])
    task = task_of(surrogate=surrogate, alpha=0.0, **USES[use])
    found = []
    for rows in (data, changed):
        learner, W, reached = begin(task, rows.part(0, 1_000))
        assert reached
        rest = rows.part(1_000).moved(W)
        theta = learner.mean(learner.step(learner.init(5), rest.X, rest.y, rest.weight, group=rest.group))
        found.append(rows.X @ W @ np.column_stack([learner.settings.start, theta]))
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)


def test_with_a_ridge_scores_depend_on_the_units_of_features():
    data = unequal_rows(1_000, seed=1)
    scores = []
    for scale in (1.0, 0.1):
        rows = data._replace(X=data.X * [scale, scale, scale, 1.0])
        learner, W, _ = begin(task_of(alpha=0.1), rows)
        scores.append(rows.X @ W @ learner.settings.start)
    assert np.abs(scores[0] - scores[1]).max() > 0.1


@pytest.mark.parametrize("loss", LOSSES)
def test_the_ridge_does_not_depend_on_the_draw_of_the_warm_up_rows(loss):
    data = unequal_rows(2_000, seed=1)
    task = task_of(None, loss=loss, alpha=0.1)
    found = []
    for first in (data.part(0, 200), data.part(200, 1_000)):
        learner, W, _ = begin(task, first)
        found.append(W @ exact(task, learner, W, data).solve().theta)
    np.testing.assert_allclose(found[0], found[1], atol=1e-7)


@pytest.mark.parametrize("use", USES)
def test_columns_that_follow_from_others_do_no_harm(use):
    data = unequal_rows(3_000, seed=1)
    twice = data._replace(X=np.column_stack([data.X[:, 0], np.zeros(3_000), data.X]))
    task = task_of(alpha=1e-3, **USES[use])
    scores = []
    for rows in (data, twice):
        learner, W, _ = begin(task, rows.part(0, 1_000))
        rest = rows.part(1_000).moved(W)
        theta = learner.mean(learner.step(learner.init(3), rest.X, rest.y, rest.weight, group=rest.group))
        assert np.isfinite(theta).all()
        scores.append(rest.X @ theta)
    np.testing.assert_allclose(scores[0], scores[1], atol=0.05)


def test_weights_of_the_warm_up_rows_have_mean_1():
    data = unequal_rows(500, weighted=True)
    found = [begin(task_of(), data._replace(weight=scale * data.weight))[0] for scale in (1.0, 7.0)]
    for learner in found:
        assert learner.form.first.weight.mean() == pytest.approx(1.0)
    np.testing.assert_allclose(found[0].settings.start, found[1].settings.start, atol=1e-9)


# -- Coverage ---------------------------------------------------------------------------------------------------------


def gaps_of(theta, data):
    positive = data.X @ theta > 0.0
    return positive[data.group[:, 0] == 1].mean(axis=0) - positive[data.group[:, 0] == 0].mean(axis=0)


@pytest.mark.slow
def test_with_everything_drawn_again_intervals_cover_the_gap_of_the_population():
    task = task_of(tolerance=0.05)
    population = synthetic_rows(SyntheticDI, 100_000, seed=10**6)
    learner, W, _ = begin(task, population.part(0, 10_000))
    evaluation = population.part(0, 10_000)
    truth = gaps_of(W @ exact(task, learner, W, population).solve(0.05).theta, evaluation)
    repetitions = 80
    covered = 0
    for seed in range(repetitions):
        data = synthetic_rows(SyntheticDI, 4_000, seed)
        learner, W, _ = begin(task, data.part(0, 1_000), seed=seed)
        rest = data.part(1_000).moved(W)
        state = learner.step(learner.init(81), rest.X, rest.y, rest.weight, group=rest.group)
        found = gaps_of(W @ learner.mean(state), evaluation)
        low, high = 2.0 * found[0] - np.quantile(found[1:], [0.975, 0.025], method="weibull")
        covered += low <= truth <= high
    assert covered >= binom.ppf(1e-3, repetitions, 0.93)


def test_a_constant_column_changes_nothing():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 300)
    X = rng.normal(size=(300, 4)) + 0.5 * group[:, None]
    y = (X[:, 0] + rng.normal(size=300) > 0.3).astype(int)
    plain, more = (
        sf.FairClassifier(random_state=0, n_replicates=2).fit(rows, y, sensitive_features=group).coef_[0]
        for rows in (X, np.column_stack([X, np.full(300, 7.1), np.full(300, -0.1)]))
    )
    np.testing.assert_allclose(more, [*plain, 0.0, 0.0], rtol=1e-6, atol=1e-9)


@pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")
@pytest.mark.parametrize("seed", [11, 12, 53, 56])
def test_a_fit_to_columns_with_codes_is_no_worse_than_where_the_solver_stopped(seed):
    """Rows with the code 1e6 let one coefficient grow without loss, which blurs all other decisions."""
    rng = np.random.default_rng(seed)
    group = (rng.random(800) < 0.15).astype(int)
    X = rng.normal(size=(800, 6))
    X[:, 0] -= 0.6 * group
    for column in (4, 5):
        X[rng.random(800) < 0.01, column] = 1e6
    y = (X[:, :4].sum(axis=1) + 2.5 + rng.logistic(size=800) > 0.0).astype(int)
    y[X[:, 4] > 1e5] = 0
    free, held = (
        sf.FairClassifier(criterion, n_replicates=20, random_state=0).fit(X, y, sensitive_features=group)
        for criterion in (None, "demographic_parity")
    )
    assert held.score(X, y) > free.score(X, y) - 0.02
    scores = X @ held.coef_replicates_.T + held.intercept_replicates_
    loss = np.mean(np.logaddexp(0.0, np.where(y[:, None] == 1, -scores, scores)), axis=0)
    assert loss.max() < 0.75  # that of θ = 0 is 0.69, with the weights of a replicate about as much
