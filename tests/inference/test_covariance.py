"""Covariances computed from a trace, and the law of random scaling."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom

from surefair.inference.covariance import moments, random_scaling, random_scaling_quantile
from surefair.learners.trace import fresh


@pytest.mark.parametrize(("level", "expected"), [(0.90, 5.323), (0.95, 6.747), (0.98, 8.613), (0.99, 10.017)])
def test_quantiles_agree_with_the_published_table(level, expected):
    # Abadir and Paruolo (1997), as printed in Lee, Liao, Seo and Shin; 8.613 is the one-sided 99 % point
    assert random_scaling_quantile(level) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("level", [0.05, 0.5, 0.8, 0.999, 1.0 - 1e-6])
def test_quantiles_solve_the_integral(level):
    c = random_scaling_quantile(level)

    def integrand(phi):
        s = c / np.cos(phi)
        return np.sqrt(s / np.sinh(s)) if s < 700.0 else 0.0

    tail = 2.0 / np.pi * quad(integrand, 0.0, np.pi / 2.0, epsabs=1e-15, epsrel=1e-12, limit=200)[0]
    assert tail == pytest.approx(1.0 - level, rel=1e-6)


def test_quantiles_agree_with_simulated_brownian_motion():
    rng, n, repetitions = np.random.default_rng(0), 500, 20_000
    W = np.cumsum(rng.normal(size=(repetitions, n)), axis=1) / np.sqrt(n)
    bridge = W - W[:, -1:] * np.arange(1, n + 1) / n
    inside = np.abs(W[:, -1]) <= random_scaling_quantile(0.9) * np.sqrt((bridge**2).mean(axis=1))
    assert binom.ppf(5e-4, repetitions, 0.9) <= inside.sum() <= binom.ppf(1.0 - 5e-4, repetitions, 0.9)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, np.nan])
def test_an_invalid_level_is_refused(level):
    with pytest.raises(ValueError, match="confidence_level must lie between 0 and 1; received"):
        random_scaling_quantile(level)


def test_an_empty_trace_has_neither_moments_nor_a_path():
    with pytest.raises(ValueError, match="need at least 4 rows; received fewer"):
        moments(fresh(3))
    with pytest.raises(ValueError, match="needs at least 16 rows after the warm-up rows; received 5"):
        random_scaling(fresh(3), np.zeros(3), 5)
