"""95 % intervals cover 95 % of the time, in a study small enough for every run (the docs have the large ones)."""

from __future__ import annotations

import numpy as np
import pytest
from batch import draw_batch
from scipy.stats import binom

import surefair as sf

N_STUDIES, N_ROWS, LEVEL = 200, 400, 0.95
LEAST = binom.ppf(1e-3, N_STUDIES, LEVEL) / N_STUDIES  # an exact method falls below it once in a thousand runs
MOST = binom.ppf(1 - 1e-3, N_STUDIES, LEVEL) / N_STUDIES


def intervals(true_gap, metric, method, n_replicates=500):
    """Intervals from independent studies of two groups of equal size, with rates 0.5 ± half the gap."""
    rng = np.random.default_rng([N_ROWS, int(100 * true_gap)])
    group = np.repeat([0, 1], N_ROWS // 2)
    truth = np.tile([0, 1], N_ROWS // 2)
    rate = 0.5 + true_gap * (0.5 - group)
    for study in range(N_STUDIES):
        decision = (rng.random(N_ROWS) < rate).astype(int)
        yield sf.fairness_interval(
            truth, decision, sensitive_features=group, metric=metric, method=method, n_replicates=n_replicates,
            random_state=study,
        )  # fmt: skip


@pytest.mark.parametrize("metric", ["demographic_parity", "false_positive_rate"])
@pytest.mark.parametrize("true_gap", [0.0, 0.1])
def test_percentile_intervals_cover_the_true_gap(true_gap, metric):
    found = list(intervals(true_gap, metric, "percentile"))
    assert np.mean([i.gap_low <= true_gap <= i.gap_high for i in found]) >= LEAST
    assert np.mean([i.low <= true_gap <= i.high for i in found]) >= LEAST
    assert np.mean([i.gap_high - i.gap_low for i in found]) < 0.35  # and not because they are wide


@pytest.mark.parametrize("method", ["basic", "normal"])
def test_other_methods_cover_parity(method):
    assert np.mean([i.low == 0.0 for i in intervals(0.0, "demographic_parity", method)]) >= LEAST


@pytest.mark.parametrize("n_replicates", [2, 5])
@pytest.mark.parametrize("metric", ["demographic_parity", "demographic_parity_ratio"])
def test_cheap_intervals_with_very_few_replicates_cover(metric, n_replicates):
    true_gap = np.log(0.55 / 0.45) if metric.endswith("ratio") else 0.1
    found = list(intervals(0.1, metric, "cheap", n_replicates))
    assert LEAST <= np.mean([i.gap_low <= true_gap <= i.gap_high for i in found]) <= MOST
    true_rate = 0.55
    rates = [i.by_group.iloc[0] for i in found]
    assert LEAST <= np.mean([rate["low"] <= true_rate <= rate["high"] for rate in rates]) <= MOST


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")  # among hundreds of fits a few raise one
@pytest.mark.parametrize("fixed", [False, True], ids=["learnt", "fixed"])
@pytest.mark.parametrize("n_replicates", [2, 5])
def test_cheap_intervals_cover_the_optimum_of_training(n_replicates, fixed):
    # rows are drawn with replacement from a population; all fits under a fixed constraint have the same constraint set
    n, repetitions = 50_000, 200
    population, apart = (
        draw_batch(sf.datasets.SyntheticDI(seed=seed), 0, size) for seed, size in ((11, n), (12, 1_000))
    )
    given, optimum, covered = (apart.X, apart.y, apart.group) if fixed else None, None, []
    whole = {"sensitive_features": population.group}
    for repetition in range(repetitions):
        rows = np.random.default_rng([n_replicates, repetition]).integers(n, size=4_000)
        clf = sf.FairClassifier(n_replicates=n_replicates, solver="one_pass", n_warmup=2_000, random_state=repetition)
        clf.fit(population.X[rows], population.y[rows], sensitive_features=population.group[rows], constraint_set=given)
        if optimum is None:
            optimum = sf.theory.optimum(clf, population.X, population.y, **whole)
        found = clf.coef_interval(method="cheap")
        covered.append((found["low"] <= optimum) & (optimum <= found["high"]))
    assert np.mean(covered, axis=0).min() >= binom.ppf(1e-3, repetitions, LEVEL) / repetitions


def test_the_published_interval_misses_parity_almost_always():
    assert np.mean([i.low == 0.0 for i in intervals(0.0, "demographic_parity", "paper")]) < 0.05


@pytest.mark.slow
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
