"""What rows add to cells, against rates counted by hand; rates from cells; surrogates of decisions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from surefair import kernels
from surefair.criteria import CRITERIA, SURROGATES, Comparisons, surrogate
from surefair.criteria._comparisons import FEW

CONSTRAINED = [name for name, criterion in CRITERIA.items() if criterion.can_constrain]


@pytest.mark.parametrize("name", CONSTRAINED)
def test_cells_of_hard_decisions_give_the_rates(name):
    rng = np.random.default_rng(1)
    sizes = (2, 3)
    y = rng.choice([-1.0, 1.0], size=500)
    group = np.stack([rng.integers(size, size=500) for size in sizes], axis=1)
    decision = rng.integers(2, size=500)
    criterion = CRITERIA[name]
    c = Comparisons.of(criterion, "decisions", sizes)
    entries = c.entries(y, group)
    value = entries.constant + entries.sign * decision[:, None]
    some = entries.cell >= 0
    count = np.bincount(entries.cell[some], minlength=c.n_cells)
    mean = np.bincount(entries.cell[some], value[some], minlength=c.n_cells) / count
    found = c.rate_values(mean)
    expected = []
    for rate in criterion.rates:
        for code, size in zip(group.T, sizes, strict=True):
            table = np.zeros((size, 2, 2))
            np.add.at(table, (code, (y > 0).astype(int), decision), 1.0)
            expected += rate.of(table).tolist()
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("name", CONSTRAINED)
def test_every_pair_of_groups_of_a_column_is_compared_in_every_rate(name, surrogate):
    c = Comparisons.of(CRITERIA[name], surrogate, (2, 4))
    assert len(c.pairs) == len(CRITERIA[name].rates) * (1 + 6)
    assert len({tuple(pair) for pair in c.pairs.tolist()}) == len(c.pairs)


def test_scores_of_parity_are_linear_and_those_of_error_rates_are_hinges():
    assert Comparisons.of(CRITERIA["demographic_parity"], "scores", (2,)).kind == kernels.LINEAR
    assert Comparisons.of(CRITERIA["false_positive_rate"], "scores", (2,)).kind == kernels.HINGE


def test_rows_of_no_known_group_add_nothing():
    c = Comparisons.of(CRITERIA["equalized_odds"], "decisions", (2,))
    assert c.entries(np.array([1.0, -1.0]), np.array([[-1], [-1]])).cell.max() == -1


def test_without_a_criterion_there_is_nothing_to_compare():
    c = Comparisons.of(None, "decisions", (2,))
    assert (c.n_cells, len(c.pairs)) == (0, 0)
    assert c.entries(np.ones(3), np.zeros((3, 1), dtype=int)).cell.shape == (3, 0)


# -- Rates from cells -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONSTRAINED)
def test_shares_are_the_derivatives_of_rates_in_the_means_of_cells(name):
    c = Comparisons.of(CRITERIA[name], "decisions", (2, 3))
    mean = np.random.default_rng(0).uniform(0.2, 0.8, size=c.n_cells)
    moves = 1e-6 * np.eye(c.n_cells)
    numeric = np.stack([c.rate_values(mean + move) - c.rate_values(mean - move) for move in moves], axis=1) / 2e-6
    np.testing.assert_allclose(c.rate_sums(c.shares(mean), np.eye(c.n_cells)), numeric, atol=1e-8)


@pytest.mark.parametrize("name", CONSTRAINED)
def test_replicates_are_treated_one_by_one(name):
    c = Comparisons.of(CRITERIA[name], "decisions", (2, 3))
    mean = np.random.default_rng(0).uniform(0.2, 0.8, size=(c.n_cells, 4))
    for function in (c.shares, c.rate_values):
        np.testing.assert_array_equal(function(mean)[:, 2], function(mean[:, 2]))
    push = np.random.default_rng(1).normal(size=(len(c.pairs), 4))
    np.testing.assert_array_equal(c.by_rate(push)[:, 2], c.by_rate(push[:, 2]))


@pytest.mark.parametrize("name", CONSTRAINED)
def test_multipliers_by_rate_weigh_rates_as_multipliers_weigh_gaps(name):
    c = Comparisons.of(CRITERIA[name], "decisions", (2, 3))
    rng = np.random.default_rng(0)
    rates, push = rng.normal(size=c.n_rates), rng.normal(size=len(c.pairs))
    gaps = rates[c.pairs[:, 0]] - rates[c.pairs[:, 1]]
    assert c.by_rate(push) @ rates == pytest.approx(push @ gaps)


def test_an_empty_denominator_gives_zeros():
    c = Comparisons.of(CRITERIA["false_discovery_rate"], "decisions", (2,))
    mean = np.array([0.2, 0.1, 0.5, 0.0])
    assert c.rate_values(mean).tolist() == [0.4, 0.0]
    assert c.shares(mean)[[1, 3]].tolist() == [0.0, 0.0]


def followed(c, rows=1_000.0, gap=0.0, slope=0.0, noise=1e-4):
    """Whether the pair of two groups is followed: groups that differ by a gap and by the slope of the gap."""
    seen = np.full(2, rows)
    return c.followed(
        seen, 1.0, np.array([0.5, 0.5 + gap]), np.array([[0.0, 0.0], [slope, 0.0]]), np.full(2, noise)
    ).item()


def test_a_pair_is_followed_if_its_slope_is_more_than_chance():
    c = Comparisons.of(CRITERIA["demographic_parity"], "scores", (2,))
    chance = np.sqrt(2e-4)  # length of the slope that chance alone gives
    assert followed(c) == 0.0
    assert followed(c, slope=chance) == 0.0
    assert followed(c, slope=10.0 * chance) == 1.0
    assert followed(c, slope=-10.0 * chance) == 1.0


def test_a_pair_is_followed_if_its_gap_of_decisions_is_more_than_chance():
    decisions, scores = (Comparisons.of(CRITERIA["demographic_parity"], kind, (2,)) for kind in SURROGATES)
    error = np.sqrt(0.5 / 1_000)
    assert followed(decisions, gap=error) == 0.0
    assert followed(decisions, gap=10.0 * error) == 1.0
    assert followed(scores, gap=10.0 * error) == 0.0


def test_a_pair_with_few_rows_is_not_followed():
    c = Comparisons.of(CRITERIA["demographic_parity"], "decisions", (2,))
    assert followed(c, rows=FEW - 1.0, slope=1.0) == 0.0
    assert followed(c, rows=float(FEW), slope=1.0) == 1.0


# -- Surrogates -------------------------------------------------------------------------------------------------------

KINDS = {"decisions": kernels.DECISIONS, "linear": kernels.LINEAR, "hinge": kernels.HINGE}
SCORES = np.linspace(-2.0, 2.0, 400)  # without 0, where a hinge has its kink
SCALE = 1.3


def differences(function, score, h=1e-6):
    return (function(score + h) - function(score - h)) / (2.0 * h)


@pytest.mark.parametrize("sign", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("kind", KINDS)
def test_steep_is_the_derivative_of_the_value(kind, sign):
    steep = surrogate(KINDS[kind], 0.5, sign, SCORES, SCALE)[3]
    numeric = differences(lambda score: surrogate(KINDS[kind], 0.5, sign, score, SCALE)[0], SCORES)
    np.testing.assert_allclose(steep, numeric, atol=1e-5)


@pytest.mark.parametrize("sign", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("kind", ["decisions", "linear"])
def test_the_curvature_is_the_derivative_of_the_slope(kind, sign):
    curvature = surrogate(KINDS[kind], 0.5, sign, SCORES, SCALE)[2]
    numeric = differences(lambda score: surrogate(KINDS[kind], 0.5, sign, score, SCALE)[1], SCORES)
    np.testing.assert_allclose(curvature, numeric, atol=1e-5)


@pytest.mark.parametrize("sign", [-1.0, 0.0, 1.0])
def test_the_slope_is_the_derivative_of_a_wider_step(sign):
    slope = surrogate(kernels.DECISIONS, 0.5, sign, SCORES, SCALE)[1]
    wider = surrogate(kernels.DECISIONS, 0.5, sign, SCORES, SCALE * kernels.NARROW)[3]
    np.testing.assert_allclose(slope, wider, atol=1e-12)


@pytest.mark.parametrize("sign", [-1.0, 0.0, 1.0])
def test_the_curvature_of_a_hinge_is_the_jump_of_its_slope(sign):
    grid = np.linspace(-2.0, 2.0, 100_001)
    _, slope, curvature, _ = surrogate(kernels.HINGE, 0.0, sign, grid, SCALE)
    assert curvature.sum() * (grid[1] - grid[0]) == pytest.approx(slope[-1] - slope[0], abs=1e-6)
    assert (curvature >= 0.0).all()


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("constant", [0.0, 1.0])
def test_a_decision_that_is_clear_counts_in_full(constant, sign):
    clear = np.array([-3.0, -1.0, 1.0, 3.0]) / SCALE
    value, slope, curvature, steep = surrogate(kernels.DECISIONS, constant, sign, clear, SCALE)
    np.testing.assert_allclose(value, constant + sign * (clear > 0.0), atol=1e-12)
    for derivative in (slope, curvature, steep):
        np.testing.assert_allclose(derivative, 0.0, atol=1e-12)
    assert surrogate(kernels.DECISIONS, constant, sign, np.zeros(1), SCALE)[0].item() == constant + sign / 2.0


def test_a_negative_decision_is_one_less_a_positive_decision():
    positive, negative = (
        surrogate(kernels.DECISIONS, constant, sign, SCORES, SCALE) for constant, sign in ((0.0, 1.0), (1.0, -1.0))
    )
    np.testing.assert_allclose(positive[0] + negative[0], 1.0)
    np.testing.assert_allclose(positive[0], negative[0][::-1], atol=1e-12)


@pytest.mark.parametrize("which", [1, 3], ids=["slope", "steep"])
@pytest.mark.parametrize(("power", "moment"), [(0, 1.0), (1, 0.0), (2, 0.0), (3, 0.0)])
def test_the_kernel_is_of_fourth_order(power, moment, which):
    def integrand(u):
        return u**power * surrogate(kernels.DECISIONS, 0.0, 1.0, np.array([u]), 1.0)[which].item()

    assert quad(integrand, -1.0, 1.0, points=[-kernels.NARROW, kernels.NARROW])[0] == pytest.approx(moment, abs=1e-7)


def test_the_mean_of_a_step_differs_from_the_share_of_decisions_by_the_fourth_power_of_the_width():
    def bias(width):
        def integrand(score):
            return surrogate(kernels.DECISIONS, 0.0, 1.0, np.array([score]), 1.0 / width)[0].item() * norm.pdf(
                score, 0.7
            )

        edges = [-width, -kernels.NARROW * width, 0.0, kernels.NARROW * width, width]
        return quad(integrand, -8.0, 8.0, points=edges, limit=200, epsabs=1e-12)[0] - norm.cdf(0.7)

    assert abs(bias(2.0)) > 1e-6
    assert 12.0 < bias(2.0) / bias(1.0) < 20.0


@pytest.mark.parametrize("kind", KINDS)
def test_one_surrogate_serves_arrays_of_any_shape(kind):
    rng = np.random.default_rng(0)
    constant, sign = rng.integers(2, size=(7, 3)).astype(float), rng.integers(-1, 2, size=(7, 3)).astype(float)
    score = rng.normal(size=(7, 1))
    whole = surrogate(KINDS[kind], constant, sign, score, SCALE)
    for part in whole:
        assert part.shape == (7, 3)
    one = surrogate(KINDS[kind], constant[4, 1], sign[4, 1], score[4], SCALE)
    for part, single in zip(whole, one, strict=True):
        assert part[4, 1] == single.item()
