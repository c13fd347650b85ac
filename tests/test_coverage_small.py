"""Intervals of level 95 % cover 95 %, in a study small enough for every run (the large ones are in the docs)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

import surefair as sf

N_STUDIES, N_ROWS, LEVEL = 400, 400, 0.95
LEAST = binom.ppf(1e-3, N_STUDIES, LEVEL) / N_STUDIES  # an exact method falls below it once in a thousand runs


def intervals(true_gap, metric, method):
    """Intervals of independent studies: two groups of equal size whose rates are 0.5 ± half the gap."""
    rng = np.random.default_rng([N_ROWS, int(100 * true_gap)])
    group = np.repeat([0, 1], N_ROWS // 2)
    truth = np.tile([0, 1], N_ROWS // 2)
    rate = 0.5 + true_gap * (0.5 - group)
    for study in range(N_STUDIES):
        decision = (rng.random(N_ROWS) < rate).astype(int)
        yield sf.fairness_interval(
            truth, decision, sensitive_features=group, metric=metric, method=method, n_replicates=500,
            random_state=study,
        )  # fmt: skip


@pytest.mark.parametrize("metric", ["demographic_parity", "false_positive_rate"])
@pytest.mark.parametrize("true_gap", [0.0, 0.1])
def test_percentile_intervals_cover_the_true_gap(true_gap, metric):
    found = list(intervals(true_gap, metric, "percentile"))
    assert np.mean([i.gap_low <= true_gap <= i.gap_high for i in found]) >= LEAST
    assert np.mean([i.low <= true_gap <= i.high for i in found]) >= LEAST
    assert np.mean([i.gap_high - i.gap_low for i in found]) < 0.35  # and not by being wide


@pytest.mark.parametrize("method", ["basic", "normal"])
def test_other_methods_cover_parity(method):
    assert np.mean([i.low == 0.0 for i in intervals(0.0, "demographic_parity", method)]) >= LEAST


def test_the_published_interval_misses_parity_almost_always():
    assert np.mean([i.low == 0.0 for i in intervals(0.0, "demographic_parity", "paper")]) < 0.05


@pytest.mark.parametrize("apart", [0.0, 0.1])
@pytest.mark.parametrize(
    ("metric", "n_groups"), [("demographic_parity", 3), ("demographic_parity", 5), ("equalized_odds", 2)]
)
def test_simultaneous_intervals_cover_the_largest_gap(metric, n_groups, apart):
    rng = np.random.default_rng([n_groups, int(100 * apart)])
    group, truth = np.repeat(np.arange(n_groups), 200), np.tile([0, 1], 100 * n_groups)
    rate = 0.4 + apart * (group == 0) * (truth == 0 if metric == "equalized_odds" else 1)
    covered = 0
    for study in range(N_STUDIES):
        decision = (rng.random(len(group)) < rate).astype(int)
        found = sf.fairness_interval(
            truth, decision, sensitive_features=group, metric=metric, n_replicates=500, random_state=study
        )
        covered += found.low <= apart <= found.high
    assert covered / N_STUDIES >= LEAST
