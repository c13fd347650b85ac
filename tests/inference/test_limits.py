"""Limits from replicates, for single numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefair.inference.limits import BOOTSTRAP_METHODS, fold, limits


@settings(max_examples=200)
@given(ends=st.tuples(st.floats(-1.0, 1.0), st.floats(-1.0, 1.0)).map(sorted), share=st.floats(0.0, 1.0))
def test_folding_keeps_every_absolute_value_and_adds_no_other(ends, share):
    low, high = fold(*ends)
    inside = min(max(ends[0] + share * (ends[1] - ends[0]), ends[0]), ends[1])
    assert low <= abs(inside) <= high
    # a gap in the signed interval reaches each end
    assert high in {abs(end) for end in ends}
    assert low in {abs(end) for end in ends} or (low == 0.0 and ends[0] <= 0.0 <= ends[1])


def plain_quantile(sample, p):
    """Interpolate between the order statistics next to rank p(B + 1)."""
    ordered, rank = sorted(sample), p * (len(sample) + 1)
    below = int(np.floor(rank))
    if below < 1 or below >= len(ordered):
        return ordered[0] if below < 1 else ordered[-1]
    return ordered[below - 1] + (rank - below) * (ordered[below] - ordered[below - 1])


@pytest.mark.parametrize("B", [2, 19, 200])
@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.999])
def test_limits_follow_the_plain_formulas(B, level):
    sample, estimate = np.random.default_rng(B).normal(size=B), 0.3
    tail = (1.0 - level) / 2.0
    low, high = plain_quantile(sample, tail), plain_quantile(sample, 1.0 - tail)
    found = {method: limits(np.array(estimate), sample, level, method) for method in ("percentile", "basic", "normal")}
    np.testing.assert_allclose(found["percentile"], (low, high))
    np.testing.assert_allclose(found["basic"], (2 * estimate - high, 2 * estimate - low))
    student = {2: 4.30265, 19: 2.09302, 200: 1.97190}[B]
    cheap = limits(np.array(estimate), sample, 0.95, "cheap")
    half = student * np.sqrt(np.mean((sample - estimate) ** 2))
    np.testing.assert_allclose(cheap, (estimate - half, estimate + half), rtol=1e-5)
    middle, half = np.mean(found["normal"]), np.diff(found["normal"])[0] / 2.0
    z = {0.5: 0.6744898, 0.8: 1.2815516, 0.95: 1.9599640, 0.999: 3.2905267}[level]
    np.testing.assert_allclose((middle, half), (estimate, z * np.std(sample, ddof=1)), rtol=1e-6)


def test_limits_of_several_numbers_are_the_limits_of_each():
    rng = np.random.default_rng(1)
    estimates, samples = rng.normal(size=3), rng.normal(size=(50, 3))
    for method in BOOTSTRAP_METHODS:
        together = np.array(limits(estimates, samples, 0.9, method))
        each = [limits(estimates[j], samples[:, j], 0.9, method) for j in range(3)]
        np.testing.assert_allclose(together.T, each)


@pytest.mark.parametrize(("B", "wider"), [(2, 1.95), (5, 1.25), (200, 1.0)])
def test_cheap_intervals_are_wider_with_fewer_replicates(B, wider):
    # the mean ratio of the widths is t_B E|χ_B|/√B over the normal quantile
    low, high = limits(np.zeros(20_000), np.random.default_rng(B).normal(size=(B, 20_000)), 0.95, "cheap")
    assert np.mean(high - low) / (2.0 * 1.96) == pytest.approx(wider, abs=0.02)
