"""Exact optima: derivatives, conditions, a general optimiser, and the gaps of decisions that follow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from learnt_problems import CONSTRAINED, Data, equal_rows, synthetic_rows, task_of, unequal_rows
from scipy.optimize import minimize

from surefair import kernels
from surefair.criteria import CRITERIA, SURROGATES
from surefair.datasets import SyntheticDI, load_adult
from surefair.learners.geometry import multipliers, solved
from surefair.losses import LOSSES
from surefair.training.stationary import BETTER, _levels
from surefair.training.warm_up import coordinates

RATIOS = ("false_discovery_rate", "false_omission_rate")
WITH_KINKS = [(name, surrogate) for name in CONSTRAINED for surrogate in SURROGATES]
SMOOTH = [(name, "decisions") for name in CONSTRAINED] + [("demographic_parity", "scores")]
POINT = np.array([0.5, 0.7, -0.3, 0.2])


def conditions(criterion="demographic_parity", surrogate="decisions", loss="log_loss", data=None, n=2_000, **more):
    """Return a problem in coordinates in which the rows have the identity as second moment."""
    data = unequal_rows(n, seed=1, weighted=True) if data is None else data
    sizes = tuple(int(codes.max()) + 1 for codes in data.group.T)
    task = task_of(criterion, surrogate, loss, sizes, **more)
    W, ridge = coordinates(data.X, data.weight, True)
    return task.conditions(W, task.alpha * ridge, data.X @ W, data.y, data.group, data.weight)


def derivative(function, theta, h=1e-5):
    """Central differences, with the coordinates of θ last."""
    return np.stack([(function(theta + h * e) - function(theta - h * e)) / (2.0 * h) for e in np.eye(len(theta))], -1)


def gaps_of(problem, theta):
    rates = problem.tangent(theta).rates
    return rates[problem.comparisons.pairs[:, 0]] - rates[problem.comparisons.pairs[:, 1]]


def across(problem, theta):
    slopes = problem.tangent(theta).slopes
    return slopes[problem.comparisons.pairs[:, 0]] - slopes[problem.comparisons.pairs[:, 1]]


# -- Derivatives ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_gradient_and_hessian_of_the_loss_are_its_derivatives(loss):
    problem = conditions(None, loss=loss, alpha=0.3)
    np.testing.assert_allclose(problem.loss_gradient(POINT), derivative(problem.value, POINT), atol=1e-8)
    np.testing.assert_allclose(problem.loss_hessian(POINT), derivative(problem.loss_gradient, POINT), atol=1e-8)


@pytest.mark.parametrize(("criterion", "surrogate"), SMOOTH)
def test_steep_is_the_derivative_of_rates(criterion, surrogate):
    problem = conditions(criterion, surrogate)
    expected = derivative(lambda theta: problem.tangent(theta).rates, POINT)
    np.testing.assert_allclose(problem.tangent(POINT).steep, expected, atol=1e-6)
    assert np.abs(expected).max() > 0.01


@pytest.mark.parametrize(("criterion", "surrogate"), SMOOTH)
def test_slopes_of_cells_are_the_derivative_of_their_values_with_a_wider_step(criterion, surrogate):
    problem = conditions(criterion, surrogate)
    wide = replace(problem, width=problem.width / kernels.NARROW)
    expected = derivative(lambda theta: wide.tangent(theta).mean, POINT)
    np.testing.assert_allclose(problem.tangent(POINT).cells, expected, atol=1e-6)


@pytest.mark.parametrize("criterion", CONSTRAINED)
def test_slopes_of_scores_are_their_derivatives_up_to_the_rows_at_the_kink(criterion):
    problem = conditions(criterion, "scores")
    expected = derivative(lambda theta: problem.tangent(theta).rates, POINT, h=1e-7)
    np.testing.assert_allclose(problem.tangent(POINT).slopes, expected, atol=1e-4)
    np.testing.assert_array_equal(problem.tangent(POINT).slopes, problem.tangent(POINT).steep)


@pytest.mark.parametrize(("criterion", "surrogate"), [case for case in SMOOTH if case[0] not in RATIOS])
def test_the_hessian_of_the_constraint_is_the_derivative_of_its_slope(criterion, surrogate):
    problem = conditions(criterion, surrogate)
    pull = np.linspace(-1.0, 2.0, problem.comparisons.n_rates)
    found = problem.constraint_hessian(POINT, pull, problem.tangent(POINT))
    expected = derivative(lambda theta: pull @ problem.tangent(theta).slopes, POINT)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose(found, found.T, atol=1e-12)
    assert (np.abs(expected).max() > 0.01) == (surrogate == "decisions")


@pytest.mark.parametrize("criterion", ["false_positive_rate", "error_rate"])
def test_the_hessian_of_a_hinge_is_the_density_of_rows_at_the_kink(criterion):
    problem = conditions(criterion, "scores", n=200_000)
    pull = np.array([1.0, 0.4])
    found = problem.constraint_hessian(POINT, pull, problem.tangent(POINT))
    expected = derivative(lambda theta: pull @ problem.tangent(theta).slopes, POINT, h=0.05)
    assert np.linalg.norm(found - expected) < 0.1 * np.linalg.norm(expected)


@pytest.mark.parametrize("criterion", CONSTRAINED)
def test_shrinking_all_scores_does_not_change_rates_of_decisions(criterion):
    problem = conditions(criterion)
    tangent, smaller = problem.tangent(POINT), problem.tangent(0.01 * POINT)
    np.testing.assert_allclose(smaller.rates, tangent.rates, rtol=1e-12)
    np.testing.assert_allclose(tangent.slopes @ POINT, 0.0, atol=1e-12)
    np.testing.assert_allclose(tangent.steep @ POINT, 0.0, atol=1e-12)


@pytest.mark.parametrize(("criterion", "surrogate"), WITH_KINKS)
def test_a_weight_counts_like_copies_of_a_row(criterion, surrogate):
    data = unequal_rows(300, seed=2)
    times = np.arange(300) % 3
    twice = data._replace(**{name: np.repeat(getattr(data, name), times, axis=0) for name in data._fields})
    W, ridge = coordinates(data.X, data.weight, True)
    task = task_of(criterion, surrogate)
    weighted, copied = (
        task.conditions(W, ridge, rows.X @ W, rows.y, rows.group, rows.weight)
        for rows in (data._replace(weight=times.astype(float)), twice)
    )
    assert weighted.value(POINT) == pytest.approx(copied.value(POINT))
    of_weights, of_copies = (one.tangent(POINT)._asdict() for one in (weighted, copied))
    for name in of_weights.keys() - {"noise"}:
        np.testing.assert_allclose(of_weights[name], of_copies[name], rtol=1e-9, atol=1e-12)
    assert (of_weights["noise"] > of_copies["noise"]).all()  # a row of twice the weight is still one row


# -- Conditions -------------------------------------------------------------------------------------------------------


def assert_optimal(problem, found, tolerance, penalty=0.0):
    """Check constraint, stationarity and the signs of multipliers."""
    assert found.reached
    on = problem.followed(problem.tangent(found.theta), np.asarray(found.push != 0.0, dtype=np.float64)) > 0.0
    gap = gaps_of(problem, found.theta)
    gradient = problem.loss_gradient(found.theta) + (found.push * on) @ across(problem, found.theta)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-8)
    assert not found.push[~on].any()
    if penalty > 0.0:
        np.testing.assert_allclose(found.push[on], 2.0 * penalty * gap[on], atol=1e-6)
        return
    assert np.abs(gap[on]).max(initial=0.0) < tolerance + 1e-8
    pushed = found.push != 0.0
    np.testing.assert_allclose(np.abs(gap[pushed]), tolerance, atol=1e-8)
    if tolerance > 0.0:
        assert (np.sign(found.push[pushed]) == np.sign(gap[pushed])).all()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("tolerance", [0.0, 0.05])
@pytest.mark.parametrize(("criterion", "surrogate"), SMOOTH)
def test_solutions_are_stationary_and_within_the_tolerance(criterion, surrogate, tolerance, loss):
    problem = conditions(criterion, surrogate, loss)
    found = problem.solve(tolerance)
    assert_optimal(problem, found, tolerance)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("criterion", "surrogate"), SMOOTH)
def test_solutions_with_a_penalty_are_stationary(criterion, surrogate, loss):
    problem = conditions(criterion, surrogate, loss)
    found = problem.solve(penalty=2.0)
    assert_optimal(problem, found, 0.0, 2.0)
    extra = 2.0 * np.sum(gaps_of(problem, found.theta) ** 2)
    assert found.value == pytest.approx(problem.value(found.theta) + extra)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("tolerance", [0.0, 0.1])
def test_parity_of_scores_is_what_a_general_optimiser_finds(loss, tolerance):
    problem = conditions(surrogate="scores", loss=loss)
    found = problem.solve(tolerance)
    signs = (1.0, -1.0)
    bounds = [{"type": "ineq", "fun": lambda theta, s=s: tolerance - s * gaps_of(problem, theta)[0]} for s in signs]
    if tolerance == 0.0:
        bounds = [{"type": "eq", "fun": lambda theta: gaps_of(problem, theta)}]
    expected = minimize(problem.value, POINT, constraints=bounds, method="SLSQP", options={"ftol": 1e-14})
    assert expected.success
    np.testing.assert_allclose(found.theta, expected.x, atol=1e-5)
    assert found.value == pytest.approx(expected.fun, abs=1e-9)


@pytest.mark.parametrize("criterion", ["demographic_parity", "false_positive_rate"])
def test_no_other_point_with_the_same_gap_of_decisions_is_much_better(criterion):
    problem = conditions(criterion)
    found = problem.solve(0.05)
    free = conditions(None).solve()
    bounds = [{"type": "ineq", "fun": lambda theta, s=s: 0.05 - s * gaps_of(problem, theta)[0]} for s in (1.0, -1.0)]
    starts = [found.theta, free.theta, found.theta + 0.1 * POINT]
    ends = [minimize(problem.value, start, constraints=bounds, method="SLSQP") for start in starts]
    best = min(end.fun for end in ends if end.success)
    assert found.value - best < 0.1 * (found.value - free.value)


@pytest.mark.parametrize("loss", LOSSES)
def test_without_a_constraint_the_solution_is_what_a_general_optimiser_finds(loss):
    problem = conditions(None, loss=loss, alpha=0.1)
    expected = minimize(problem.value, np.zeros(4), jac=problem.loss_gradient, tol=1e-10)
    np.testing.assert_allclose(problem.solve().theta, expected.x, atol=1e-6)


@pytest.mark.parametrize(("criterion", "surrogate"), WITH_KINKS)
def test_a_wide_tolerance_gives_the_free_optimum(criterion, surrogate):
    problem = conditions(criterion, surrogate)
    free = conditions(None).solve()
    widest = np.abs(gaps_of(problem, free.theta)).max()
    wide = problem.solve(widest + 1e-9)
    np.testing.assert_array_equal(wide.theta, free.theta)
    np.testing.assert_array_equal(wide.theta, problem.free().theta)
    assert not wide.push.any()
    assert wide.value == free.value


def test_a_penalty_grows_into_a_constraint():
    problem = conditions()
    ends = [problem.solve(penalty=weight) for weight in (0.1, 1.0, 10.0, 1e3, 1e6)]
    gaps = [abs(gaps_of(problem, end.theta)[0]) for end in ends]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[0] > 0.1
    equal = problem.solve()
    np.testing.assert_allclose(ends[-1].theta, equal.theta, atol=1e-3)
    np.testing.assert_allclose(ends[-1].push, equal.push, rtol=1e-3)


def test_a_smaller_tolerance_costs_more():
    problem = conditions()
    ends = [problem.solve(tolerance) for tolerance in (0.2, 0.1, 0.05, 0.0)]
    values = [end.value for end in ends]
    assert values == sorted(values)
    assert len(set(values)) == 4
    sizes = [abs(end.push[0]) for end in ends]  # the multiplier is the price of the tolerance
    assert sizes == sorted(sizes)
    price = (values[1] - values[0]) / 0.1
    assert sizes[0] < price < sizes[1]


@pytest.mark.parametrize("seed", range(3))
def test_no_optimum_is_clearly_better_than_the_first(seed):
    problem = conditions(data=synthetic_rows(SyntheticDI, 2_000, seed))
    ends = problem.optima(0.0)
    assert len(ends) == 4
    assert ends[0].reached
    values = [end.value for end in ends if end.reached]
    assert min(values) >= BETTER * ends[0].value
    assert max(values) > 1.1 * ends[0].value  # the problem has several optima
    assert problem.solve(0.0).value == ends[0].value


@pytest.mark.parametrize("seed", [3, 9, 15, 58, 73, 131])  # the solver tries tolerances half-way to the one asked for
def test_all_ends_are_within_the_tolerance_that_was_asked_for(seed):
    rng = np.random.default_rng(seed)
    n_groups, n, d = rng.integers(2, 5), int(rng.choice([300, 600, 1000])), int(rng.integers(1, 5))
    group = rng.integers(0, n_groups, n)
    X = rng.normal(size=(n, d)) + (group[:, None] - n_groups / 2) * rng.choice([0.3, 1.0, 2.0])
    y = np.where(X @ np.ones(d) / np.sqrt(d) + rng.normal(size=n) + rng.choice([0, 1.5]) > 0.0, 1.0, -1.0)
    tolerance = float(rng.choice([0.005, 0.01, 0.02, 0.05]))
    task = task_of(str(rng.choice(["demographic_parity", "equalized_odds"])), sizes=(int(n_groups),))
    X = np.column_stack([X, np.ones(n)])
    W, ridge = coordinates(X, np.ones(n), True)
    problem = task.conditions(W, ridge, X @ W, y, group[:, None], np.ones(n))
    for end in problem.optima(tolerance):
        on = problem.followed(problem.tangent(end.theta), np.asarray(end.push != 0.0, dtype=np.float64))
        assert not end.reached or np.abs(problem.gaps(end.theta) * on).max(initial=0.0) < tolerance + 1e-8


def test_small_steps_do_not_lead_past_a_better_optimum(data_folder):
    """In these rows of Adult the tightened free optimum selects hardly anyone, and a better optimum does not."""
    adult = load_adult(data_folder)
    draw = np.random.default_rng(5).integers(0, len(adult.y), 4_000)
    X = np.column_stack([adult.X.to_numpy()[draw], np.ones(4_000)])
    y, group = (np.unique(np.asarray(part)[draw], return_inverse=True)[1] for part in (adult.y, adult.sensitive))
    problem = conditions(loss="squared_error", data=Data(X, 2.0 * y - 1.0, group[:, None], np.ones(4_000)))
    found = problem.solve(0.0)
    in_steps = problem._tighten(problem.free().theta, _levels(0.1, 0.0, 0.0)).end
    assert found.reached
    assert in_steps.reached
    assert found.value < 0.99 * in_steps.value
    assert np.mean(problem.X @ in_steps.theta > 0.0) < 0.02
    assert np.mean(problem.X @ found.theta > 0.0) > 0.05


@pytest.mark.parametrize("seed", [151, 188])
def test_a_model_that_decides_the_same_for_nearly_everyone_gives_way_to_a_better_one(seed):
    rng = np.random.default_rng(seed)
    D = rng.integers(2, 5)
    slope = 0.6 * rng.uniform(-1.2, 1.2, D)
    shift = rng.uniform(0.0, 1.5, D) * (rng.random(D) < 0.6)
    level = rng.uniform(0.3, 1.2)
    group = (rng.random(3_000) < 0.35).astype(int)
    X = rng.normal(size=(3_000, D)) + shift * group[:, None]
    score = X @ slope
    y = np.where(level + score - score.mean() + rng.logistic(size=3_000) > 0.0, 1.0, -1.0)
    problem = conditions(data=Data(np.column_stack([X, np.ones(3_000)]), y, group[:, None], np.ones(3_000)))
    first, *others = problem.optima()
    positive = [np.mean(problem.X @ end.theta > 0.0) for end in (first, *others)]
    assert max(positive[1:]) > 0.999
    assert positive[0] < 0.95
    assert BETTER * min(end.value for end in others) < first.value < min(end.value for end in others)


@pytest.mark.parametrize("sizes", [(3,), (2, 3)])
def test_all_pairs_of_groups_are_within_the_tolerance(sizes):
    data = unequal_rows(4_000, sizes, seed=1)
    problem = conditions(data=data)
    found = problem.solve(0.05)
    free = conditions(None, data=data).solve()
    assert np.abs(gaps_of(problem, free.theta)).min() > 0.1
    assert problem.followed(problem.tangent(found.theta)).all()
    assert_optimal(problem, found, 0.05)


def test_with_three_groups_equality_leaves_only_what_chance_alone_could_change():
    data = unequal_rows(4_000, (3,), seed=1)  # the slopes of the three gaps are nearly parallel
    problem = conditions(data=data)
    found = problem.solve(0.0)
    free = conditions(None, data=data).solve()
    assert found.reached
    assert np.abs(gaps_of(problem, found.theta)).max() < 0.03
    assert np.abs(gaps_of(problem, free.theta)).min() > 0.1
    assert np.abs(found.push).max() < 10.0


@pytest.mark.parametrize("tolerance", [0.0, 0.05, 0.2])
def test_the_gap_of_decisions_is_the_tolerance(tolerance):
    data = synthetic_rows(SyntheticDI, 20_000)
    problem = conditions(data=data)
    found = problem.solve(tolerance)
    assert found.reached

    def hard(theta):
        positive = problem.X @ theta > 0.0
        return positive[data.group[:, 0] == 1].mean() - positive[data.group[:, 0] == 0].mean()

    assert abs(hard(conditions(None, data=data).solve().theta)) > 0.3
    assert abs(hard(found.theta)) == pytest.approx(tolerance, abs=0.02)


def test_groups_that_do_not_differ_have_no_multiplier():
    free = [conditions(None, data=equal_rows(1_000, seed)).solve() for seed in range(10)]
    found = [conditions(data=equal_rows(1_000, seed)).solve() for seed in range(10)]
    assert sum(end.push.any() for end in found) <= 1
    for one, two in zip(found, free, strict=True):
        if not one.push.any():
            np.testing.assert_allclose(one.theta, two.theta, atol=1e-6)


@pytest.mark.parametrize(("criterion", "surrogate"), WITH_KINKS)
def test_gaps_of_decisions_and_their_errors_are_those_of_counted_decisions(criterion, surrogate):
    data = unequal_rows(1_000, (2, 3), seed=1)
    problem = conditions(criterion, surrogate, data=data)
    found, error = problem.decision_gaps(POINT)
    decision = (problem.X @ POINT > 0.0).astype(int)
    rates, variances = [], []
    for rate in CRITERIA[criterion].rates:
        for codes, size in zip(data.group.T, (2, 3), strict=True):
            table = np.zeros((size, 2, 2))
            np.add.at(table, (codes, (data.y > 0.0).astype(int), decision), 1.0)
            share = rate.of(table)
            rates += share.tolist()
            variances += (share * (1.0 - share) / rate.tally(table)[1]).tolist()
    one, two = problem.comparisons.pairs.T
    np.testing.assert_allclose(found, np.array(rates)[one] - np.array(rates)[two])
    np.testing.assert_allclose(error, np.sqrt(np.array(variances)[one] + np.array(variances)[two]), rtol=1e-6)


# -- Multipliers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tolerance", [0.0, 0.3])
@pytest.mark.parametrize("give", [0.0, 0.7])
def test_multipliers_bring_gaps_within_the_tolerance(tolerance, give):
    rng = np.random.default_rng(0)
    c = task_of(sizes=(3, 2)).comparisons
    for _ in range(10):
        root = rng.normal(size=(5, 6))
        gram, rates = root @ root.T, rng.normal(size=5)
        on = np.array([1.0, 0.0, 1.0, 1.0])
        push = multipliers(c, gram, rates, on, tolerance, give, np.zeros(4))
        if tolerance == 0.0:
            np.testing.assert_allclose(solved(c, gram, on, give) @ rates, push, atol=1e-9)
        left = (c.gaps(rates - gram @ c.by_rate(push)) - give * push)[on > 0.0]
        kept = push[on > 0.0]
        assert push[1] == 0.0
        assert np.abs(left).max() < tolerance + 1e-8
        np.testing.assert_allclose(left[kept != 0.0], tolerance * np.sign(kept[kept != 0.0]), atol=1e-8)
