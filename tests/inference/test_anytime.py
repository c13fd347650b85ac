"""Confidence sequences: exact limits, narrow, and never wrong more often than stated, however often anyone looks."""

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar
from scipy.special import betaln, logsumexp
from scipy.stats import binom
from streams import ORDERS, draw, ever_excluded

from surefair.inference.anytime import (
    ERROR,
    MIXTURE,
    LogE,
    PairCounts,
    difference_limits,
    rate_limits,
    ratio_limits,
    tilts,
)

LOG20 = np.log([20.0])


def pair(counted, rows, share=0.5):
    table = np.array([counted, rows, [share, 1.0 - share]], dtype=float)[:, :, None, None]
    return PairCounts(*table)


def log_e(counts, p, q, r=1.0):
    """Log E of one stretch, written out from its definition."""
    t, log_weight = tilts()
    a = t / counts.share[0, 0, 0] / np.sqrt(r)
    b = -t / counts.share[1, 0, 0] * np.sqrt(r)
    (s, u), (n, m) = counts.counted[:, 0, 0], counts.rows[:, 0, 0]
    part = a * s - n * np.log1p(p * np.expm1(a)) + b * u - m * np.log1p(q * np.expm1(b))
    mixed = betaln(s + 0.5, n - s + 0.5) + betaln(u + 0.5, m - u + 0.5) - 2.0 * betaln(0.5, 0.5)
    mixed -= s * np.log(p) + (n - s) * np.log1p(-p) + u * np.log(q) + (m - u) * np.log1p(-q)
    return np.logaddexp(np.log1p(-MIXTURE) + logsumexp(part + log_weight), np.log(MIXTURE) + mixed)


def least(counts, gap):
    tiny = 1e-12
    ends = max(0.0, -gap) + tiny, min(1.0, 1.0 - gap) - tiny
    found = minimize_scalar(
        lambda q: log_e(counts, q + gap, q), bounds=ends, method="bounded", options={"xatol": 1e-12}
    )
    return found.fun


@pytest.mark.parametrize(
    ("counted", "rows", "share"),
    [
        ((300, 200), (1000, 1000), 0.5),
        ((3, 9), (40, 900), 0.1),
        ((12, 2), (5000, 5000), 0.5),
        ((80, 40), (90, 50), 0.7),
    ],
)
def test_limits_are_where_the_least_e_crosses_the_threshold(counted, rows, share):
    counts = pair(counted, rows, share)
    (low,), (high,) = difference_limits(counts, LOG20)
    gap = counted[0] / rows[0] - counted[1] / rows[1]
    upper = brentq(lambda x: least(counts, x) - LOG20[0], gap, 1.0 - 1e-6, xtol=1e-10)
    lower = brentq(lambda x: least(counts, x) - LOG20[0], -1.0 + 1e-6, gap, xtol=1e-10)
    assert upper - 1e-8 <= high <= upper + ERROR
    assert lower - ERROR <= low <= lower + 1e-8


def test_rates_of_one_narrow_the_limits_too():
    (low,), (high,) = difference_limits(pair((60, 2000), (60, 2000)), LOG20)
    assert -0.2 < low < -0.05
    assert 0.003 < high < 0.01  # the second rate is close to 1, and the first cannot be larger
    mirrored = difference_limits(pair((0, 0), (60, 2000)), LOG20)
    np.testing.assert_allclose([-mirrored[1][0], -mirrored[0][0]], [low, high], atol=2 * ERROR)


@pytest.mark.parametrize("limits", [difference_limits, ratio_limits])
def test_limits_are_found_in_a_bounded_number_of_steps(limits, monkeypatch):
    calls = []
    evaluate = LogE.at
    monkeypatch.setattr(LogE, "at", lambda self, *given: (calls.append(1), evaluate(self, *given))[1])
    rng = np.random.default_rng(7)
    n = rng.integers(1, 3000, size=(2, 200, 1))
    counted = rng.binomial(n, rng.choice([0.0, 0.01, 0.3, 0.99, 1.0], size=n.shape)).astype(float)
    share = rng.uniform(0.1, 0.9, size=(1, 200, 1))
    low, high = limits(PairCounts(counted, n.astype(float), np.concatenate([share, 1.0 - share])), np.full(200, 6.0))
    assert (low < high).all()
    assert len(calls) < 8000  # for all 200 together


def test_ratio_limits_contain_every_ratio_that_some_rates_allow():
    counts = pair((300, 200), (1000, 1000))
    (low,), (high,) = ratio_limits(counts, LOG20)

    def lowest_along(x):
        cell = np.rint(x / 0.2) * 0.2
        r = np.exp(x)
        ends = (1e-9, min(1.0, 1.0 / r) - 1e-9)
        return minimize_scalar(
            lambda q: log_e(counts, r * q, q, np.exp(cell)), bounds=ends, method="bounded", options={"xatol": 1e-12}
        ).fun

    allowed = [x for x in np.linspace(-1, 1, 401) if lowest_along(x) < LOG20[0]]
    assert low <= allowed[0] <= low + 0.006
    assert high - 0.006 <= allowed[-1] <= high


def test_groups_trade_places():
    one = pair((37, 11), (200, 90), 0.7)
    for limits in (difference_limits, ratio_limits):
        low, high = limits(one, LOG20)
        other_low, other_high = limits(one.swapped, LOG20)
        np.testing.assert_allclose([low, high], [-other_high, -other_low], atol=2 * ERROR)


def test_extreme_counts_keep_their_limits_open():
    low, high = difference_limits(pair((100, 0), (100, 100)), LOG20)
    assert (low > 0.85) & (low < 1.0)
    assert high == 1.0
    low, high = ratio_limits(pair((0, 0), (100, 100)), LOG20)
    assert np.isneginf(low)
    assert np.isposinf(high)
    low, high = ratio_limits(pair((0, 40), (100, 100)), LOG20)
    assert np.isneginf(low)
    assert high < 0.0
    assert [float(end[0]) for end in difference_limits(pair((0, 5), (0, 10)), LOG20)] == [-1.0, 1.0]


def test_stretches_with_the_same_shares_are_one():
    parts = [((30, 20), (100, 100)), ((270, 180), (900, 900))]
    several = PairCounts(*(np.concatenate(part, axis=2) for part in zip(*(pair(*one) for one in parts), strict=True)))
    whole = difference_limits(pair((300, 200), (1000, 1000)), LOG20)
    np.testing.assert_allclose(difference_limits(several, LOG20), whole, atol=2 * ERROR)


@pytest.mark.parametrize(("rate", "most"), [(0.5, 1.85), (0.3, 1.85), (0.1, 1.85), (0.01, 2.1)])
def test_width_over_the_fixed_interval(rate, most):
    n, n_samples = 5000, 100
    rng = np.random.default_rng(1)
    counted = rng.binomial(n, rate, size=(2, n_samples, 1)).astype(float)
    counts = PairCounts(counted, np.full_like(counted, n), np.full_like(counted, 0.5))
    low, high = difference_limits(counts, np.full(n_samples, np.log(20.0 / 0.98)))  # 2 % are kept for late groups
    fixed = 2 * 1.96 * np.sqrt(2 * rate * (1 - rate) / n)
    assert 1.5 < np.mean(high - low) / fixed <= most


def test_rate_limits_hold_at_all_times():
    rng = np.random.default_rng(3)
    n_streams, n, rate = 500, 1000, 0.1
    counted = np.cumsum(rng.random((n, n_streams)) < rate, axis=0)
    looks = np.unique(np.geomspace(5, n, 40).astype(int))
    ever = np.zeros(n_streams, dtype=bool)
    for look in looks:
        low, high = rate_limits(counted[look - 1].astype(float), np.full(n_streams, float(look)), 0.05)
        ever |= (rate < low) | (rate > high)
    assert ever.mean() <= binom.ppf(0.999, n_streams, 0.05) / n_streams


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("rates", [(0.3, 0.3), (0.2, 0.1)])
def test_sequences_rarely_exclude_the_truth_where_fixed_intervals_often_do(order, rates):
    n, n_streams = 2000, 100
    streams = draw(rates, n, n_streams, order, seed=4)
    found = ever_excluded(streams, np.unique(np.geomspace(20, n, 40).astype(int)))
    most = binom.ppf(0.999, n_streams, 0.05)
    assert found.anytime.sum() <= most
    if order != "blocks":  # with blocks of 1,000 rows, groups can be compared only at the last few looks
        assert found.fixed.sum() > most, "this test would not notice an interval that is valid for one look only"


def test_sequences_of_five_groups_hold_together():
    n, n_streams = 2000, 100
    found = ever_excluded(draw((0.1, 0.2, 0.2, 0.2, 0.2), n, n_streams, "adaptive", seed=5), np.arange(100, n + 1, 100))
    assert found.anytime.sum() <= binom.ppf(0.999, n_streams, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("rates", [(0.01, 0.01), (0.11, 0.01), (0.5, 0.5), (0.1, 0.2, 0.1, 0.2, 0.1)])
def test_sequences_rarely_exclude_the_truth_in_long_streams(order, rates):
    n, n_streams = 10_000, 200
    streams = draw(rates, n, n_streams, order, seed=6)
    found = ever_excluded(streams, np.unique(np.geomspace(20, n, 60).astype(int)))
    assert found.anytime.sum() <= binom.ppf(0.999, n_streams, 0.05)
