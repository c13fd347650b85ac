"""Scores follow their formulas, distances are distances, and unusable input is an error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

import surefair as sf
from surefair.inference.scoring import Coverage, coverage, mean_interval_score, wasserstein2

samples = arrays(float, st.integers(1, 12), elements=st.floats(-1e3, 1e3))


# -- Mean interval score -----------------------------------------------------------------------------------------------


def printed_score(s, low, high, alpha):
    """Compute the score by the formula in the paper."""
    N = len(s)
    above = sum((x - high) * (x > high) for x in s)
    below = sum((low - x) * (x < low) for x in s)
    return high - low + 2 / (N * alpha) * above + 2 / (N * alpha) * below


@given(s=samples, ends=st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)).map(sorted), alpha=st.floats(0.01, 0.99))
def test_the_score_follows_the_formula_of_the_paper(s, ends, alpha):
    assert mean_interval_score(s, *ends, alpha) == pytest.approx(printed_score(s, *ends, alpha), rel=1e-9, abs=1e-9)


def test_the_quantiles_have_the_smallest_score():
    s = stats.gamma(2.0).ppf((np.arange(20_000) + 0.5) / 20_000)
    best = mean_interval_score(s, *np.quantile(s, [0.05, 0.95]), alpha=0.1)
    for low in (-0.2, -0.05, 0.0, 0.05, 0.2):
        for high in (-0.5, -0.1, 0.0, 0.1, 0.5):
            ends = np.quantile(s, 0.05) + low, np.quantile(s, 0.95) + high
            assert mean_interval_score(s, *ends, alpha=0.1) >= best - 1e-9
    # The quantiles for another level have a larger score.
    assert mean_interval_score(s, *np.quantile(s, [0.05, 0.95]), alpha=0.5) > mean_interval_score(
        s, *np.quantile(s, [0.25, 0.75]), alpha=0.5
    )


def test_the_score_of_several_quantities_is_the_mean_of_their_scores():
    s = np.random.default_rng(0).normal(size=(50, 3))
    low, high = np.array([-1.0, -0.5, 0.0]), np.array([1.0, 2.0, 0.5])
    each = [mean_interval_score(s[:, j], low[j], high[j], 0.1) for j in range(3)]
    assert mean_interval_score(s, low, high, 0.1) == pytest.approx(np.mean(each))
    one_each = [mean_interval_score(s[i : i + 1, 0], s[i, 1] - 3.0, s[i, 1] + 3.0, 0.1) for i in range(50)]
    assert mean_interval_score(s[:, 0], s[:, 1] - 3.0, s[:, 1] + 3.0, 0.1) == pytest.approx(np.mean(one_each))


def test_the_score_of_an_unbounded_interval_is_infinite():
    assert mean_interval_score([0.0, 1.0], 0.0, np.inf, 0.05) == np.inf


# -- W2 ----------------------------------------------------------------------------------------------------------------


def on_a_grid(a, b):
    """Compute W2 by repeating each sample as many times as the other has values."""
    x, y = np.repeat(np.sort(a), len(b)), np.repeat(np.sort(b), len(a))
    return np.sqrt(np.mean((x - y) ** 2))


@given(a=samples, b=samples)
def test_w2_of_samples_of_different_sizes_is_that_of_repeated_samples(a, b):
    assert wasserstein2(a, b) == pytest.approx(on_a_grid(a, b), rel=1e-9, abs=1e-9)


@given(a=samples, b=samples, shift=st.floats(-1e3, 1e3), scale=st.floats(-10.0, 10.0))
def test_w2_is_a_distance_that_respects_shifts_and_scales(a, b, shift, scale):
    found = wasserstein2(a, b)
    assert found == pytest.approx(wasserstein2(b, a))
    assert wasserstein2(a, a[::-1]) == 0.0
    assert wasserstein2(a, a + shift) == pytest.approx(abs(shift), abs=1e-9)
    assert wasserstein2(a + shift, b + shift) == pytest.approx(found, rel=1e-6, abs=1e-6)
    assert wasserstein2(scale * a, scale * b) == pytest.approx(abs(scale) * found, rel=1e-6, abs=1e-6)
    assert found >= stats.wasserstein_distance(a, b) - 1e-9  # W1
    assert wasserstein2(np.repeat(a, 3), np.repeat(b, 2)) == pytest.approx(found, rel=1e-9, abs=1e-9)


def test_w2_of_huge_numbers_does_not_overflow():
    assert wasserstein2([0.0], [1e200]) == 1e200


LAWS = [
    stats.norm(0.3, 2.0), stats.uniform(-1.0, 3.0), stats.expon(0.0, 2.0), stats.gamma(0.7), stats.t(5.0, 1.0, 0.5),
    stats.logistic(1.0, 0.1), stats.beta(0.5, 0.5),
]  # fmt: skip
every_law = pytest.mark.parametrize("law", LAWS, ids=lambda law: law.dist.name)


@every_law
@pytest.mark.parametrize("n", [1, 2, 3, 40])
def test_w2_to_a_distribution_integrates_the_quantile_functions(law, n):
    x = np.sort(np.random.default_rng(n).normal(size=n))
    # The midpoints are dense near 0 and 1, where the quantile functions are steep.
    s = (np.arange(40_000) + 0.5) / 40_000
    u, dense = s**4 / (s**4 + (1 - s) ** 4), 4 * (s * (1 - s)) ** 3 / (s**4 + (1 - s) ** 4) ** 2
    lower = u < 0.5
    q = np.where(lower, law.ppf(u), law.isf(((1 - s) ** 4) / (s**4 + (1 - s) ** 4)))
    plain = np.sqrt(np.mean((x[np.minimum((u * n).astype(int), n - 1)] - q) ** 2 * dense))
    assert wasserstein2(x, law) == pytest.approx(plain, rel=2e-4)


@every_law
def test_quantiles_of_a_distribution_are_close_to_it(law):
    near = [wasserstein2(law.ppf((np.arange(n) + 0.5) / n), law) for n in (10, 1_000)]
    assert near[1] < 0.3 * near[0] < 0.3 * law.std()


def test_the_formula_for_the_normal_distribution_agrees_with_quadrature():
    x = np.random.default_rng(3).normal(size=30)
    # This is the same distribution under a name that has no formula.
    same = stats.skewnorm(0.0, 0.5, 2.0)
    assert wasserstein2(x, stats.norm(0.5, 2.0)) == pytest.approx(wasserstein2(x, same), rel=1e-8)
    # For n = 1, W2² is the mean squared distance of the distribution from a point.
    assert wasserstein2([1.0], stats.norm(0.5, 2.0)) == pytest.approx(np.sqrt(0.25 + 4.0), rel=1e-12)


def test_w2_of_a_single_point_combines_bias_and_spread():
    for law in LAWS:
        assert wasserstein2([2.0], law) == pytest.approx(np.sqrt((2.0 - law.mean()) ** 2 + law.var()), rel=1e-7)


@pytest.mark.parametrize(("m", "s"), [(0.0, 1.0), (1.0, 1.0), (-0.5, 2.0), (0.3, 0.2)])
def test_w2_of_two_normal_distributions_depends_on_means_and_standard_deviations(m, s):
    x = stats.norm(0.0, 1.0).ppf((np.arange(20_000) + 0.5) / 20_000)
    assert wasserstein2(x, stats.norm(m, s)) == pytest.approx(np.hypot(m, s - 1.0), abs=0.01)


# -- Coverage ----------------------------------------------------------------------------------------------------------


def test_coverage_has_the_exact_binomial_interval():
    found = coverage(0.5, np.r_[np.zeros(93), np.ones(7)], np.r_[np.ones(93), np.full(7, 2.0)], confidence_level=0.9)
    exact = stats.binomtest(93, 100).proportion_ci(0.9, "exact")
    assert found == pytest.approx((0.93, exact.low, exact.high, 100))
    assert isinstance(found, Coverage)


@pytest.mark.parametrize(("covered", "ends"), [(0, (0.0, 1 - 0.025**0.1)), (10, (0.025**0.1, 1.0))])
def test_coverage_limits_if_no_interval_or_every_interval_covers(covered, ends):
    low = np.where(np.arange(10) < covered, 0.0, 2.0)
    assert coverage(1.0, low, np.full(10, 3.0))[1:3] == pytest.approx(ends)


def test_coverage_of_several_quantities_is_computed_for_each():
    rng = np.random.default_rng(1)
    low = rng.normal(size=(60, 4)) - 1.0
    truth = np.array([0.0, 0.5, -1.0, 9.0])
    together = coverage(truth, low, low + 2.0)
    each = [coverage(truth[j], low[:, j], low[:, j] + 2.0) for j in range(4)]
    assert np.stack(together[:3]).T.tolist() == [list(one[:3]) for one in each]
    assert together.n == 60


def test_the_truth_may_differ_between_intervals():
    truth = np.arange(5.0)
    assert coverage(truth, truth - 1.0, truth + 1.0).share == 1.0
    assert coverage(truth[::-1], truth, truth).share == 0.2


# -- Errors and names --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "args", "message"),
    [
        (mean_interval_score, ([1.0], 0.0, 1.0, 95), "alpha must lie strictly between 0 and 1.* received 95"),
        (mean_interval_score, ([1.0], 0.0, 1.0, 0.0), "alpha must .* received 0.0"),
        (mean_interval_score, ([1.0], 0.0, 1.0, "a"), "alpha must .* received 'a'"),
        (mean_interval_score, ([], 0.0, 1.0, 0.05), "samples is empty"),
        (mean_interval_score, ([np.nan], 0.0, 1.0, 0.05), "samples holds nan, but only finite values"),
        (mean_interval_score, ([np.inf], 0.0, 1.0, 0.05), "samples holds inf, but only finite values"),
        (mean_interval_score, ([1.0], np.nan, 1.0, 0.05), "low holds NaN"),
        (mean_interval_score, ([1.0], 2.0, 1.0, 0.05), "low is above high: received low=2.0 and high=1.0"),
        (mean_interval_score, ([1.0, 2.0], [0.0] * 3, 1.0, 0.05), r"low of shape \(3,\) does not fit samples of shape"),
        (mean_interval_score, (["a"], 0.0, 1.0, 0.05), "samples must be numbers; received list"),
        (wasserstein2, ([], [1.0]), "a is empty"),
        (wasserstein2, ([1.0], []), "b is empty"),
        (wasserstein2, ([1.0], [np.nan]), "b holds nan"),
        (wasserstein2, ([[1.0]], [1.0]), r"a must be a sample of numbers.*received shape \(1, 1\)"),
        (wasserstein2, (stats.norm(), [1.0]), "a must be numbers; received rv_continuous_frozen"),
        (wasserstein2, ([1.0], stats.cauchy()), "no finite variance, so W2 is infinite; received 'cauchy'"),
        (wasserstein2, ([1.0], stats.t(2.0)), "no finite variance"),
        (wasserstein2, ([1.0], stats.poisson(3.0)), "frozen continuous distribution"),
        (wasserstein2, ([1.0], stats.norm), "frozen continuous distribution"),
        (coverage, (0.0, 0.0, 1.0), "Coverage needs several intervals; received one"),
        (coverage, (0.0, [1.0], [0.0]), "low is above high"),
        (coverage, ([0.0, 1.0], [0.0] * 3, [1.0] * 3), r"truth of shape \(2,\) does not fit limits of shape \(3,\)"),
        (coverage, (np.nan, [0.0], [1.0]), "truth holds nan"),
        (coverage, (0.0, [], []), "low is empty"),
        (coverage, (0.0, [0.0], [1.0], 1.0), "confidence_level must lie .* received 1.0"),
    ],
)  # fmt: skip
def test_unusable_input_is_an_error(function, args, message):
    with pytest.raises(ValueError, match=message):
        function(*args)


def test_limits_whose_shapes_do_not_fit_are_an_error():
    with pytest.raises(ValueError, match=r"high of shape \(2,\) does not fit limits of shape \(3,\)"):
        coverage(0.0, [0.0] * 3, [1.0] * 2)


def test_scores_are_public_names():
    assert (sf.mean_interval_score, sf.wasserstein2) == (mean_interval_score, wasserstein2)
    assert sf.scoring.coverage is coverage


@settings(max_examples=20)
@given(n=st.integers(1, 30), seed=st.integers(0, 2**32 - 1))
def test_scoring_does_not_change_its_input(n, seed):
    x = np.random.default_rng(seed).normal(size=n)
    kept = x.copy()
    wasserstein2(x, x + 1.0)
    mean_interval_score(x, -1.0, 1.0, 0.05)
    assert np.array_equal(x, kept)
