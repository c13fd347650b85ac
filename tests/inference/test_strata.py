"""Gaps within strata: the estimates and variances of Mantel and Haenszel, Sato, Greenland and Robins."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom
from statsmodels.stats.contingency_tables import StratifiedTable

import surefair as sf
from surefair.diagnostics import SmallEvaluationSet
from surefair.inference.strata import Table


def draw(seed, n=1000, n_strata=5, gap=0.0, groups=2):
    """Decision, group and stratum; strata differ in their rates and in their shares of groups."""
    rng = np.random.default_rng(seed)
    stratum = rng.integers(n_strata, size=n)
    share = np.linspace(0.2, 0.8, n_strata)[stratum]
    group = np.where(rng.random(n) < share, groups - 1, rng.integers(groups - 1, size=n) if groups > 2 else 0)
    rate = np.linspace(0.2, 0.6, n_strata)[stratum] + gap * (group == groups - 1)
    return (rng.random(n) < rate).astype(int), group, stratum


def interval_of(decision, group, stratum, **options):
    options = {"pos_label": 1, "n_replicates": 200} | options
    return sf.fairness_interval(decision, decision, sensitive_features=group, strata=stratum, **options)


def test_a_gap_that_strata_explain_disappears():
    decision, group, stratum = draw(0, n=20_000)
    plain = sf.fairness_interval(decision, decision, sensitive_features=group, pos_label=1)
    within = interval_of(decision, group, stratum)
    assert plain.low > 0.05
    assert within.high < 0.03
    assert within.by_pair["strata"].tolist() == [5]
    assert within.by_group["rate"].tolist() == plain.by_group["rate"].tolist()  # rates are as counted


@pytest.mark.parametrize("ratio", [False, True])
def test_one_stratum_is_no_stratum(ratio):
    decision, group, _ = draw(1, gap=0.1)
    metric = "demographic_parity" + "_ratio" * ratio
    plain = sf.fairness_interval(decision, decision, sensitive_features=group, metric=metric, pos_label=1)
    within = interval_of(decision, group, np.zeros(1000), metric=metric)
    assert within.gap == pytest.approx(plain.gap, rel=1e-12)
    assert within.spread_evaluation == pytest.approx(plain.spread_evaluation, rel=0.02)


def test_ratios_are_those_of_statsmodels():
    decision, group, stratum = draw(2, gap=0.1)
    tables = [
        [[np.sum((group == g) & (stratum == k) & (decision == d)) for d in (1, 0)] for g in (0, 1)] for k in range(5)
    ]
    theirs = StratifiedTable([np.array(table, dtype=float) for table in tables]).riskratio_pooled
    assert np.exp(interval_of(decision, group, stratum, metric="demographic_parity_ratio").gap) == pytest.approx(theirs)


@pytest.mark.parametrize("ratio", [False, True])
@pytest.mark.parametrize("sizes", [(2, 300), (60, 12), (400, 2)], ids=["few large", "some", "pairs"])
def test_variances_are_those_of_repetitions(ratio, sizes):
    n_strata, n = sizes
    rng = np.random.default_rng([3, n_strata])
    rate = rng.uniform(0.2, 0.7, size=n_strata)
    half = np.full(n_strata, n / 2.0)
    gaps, variances = [], []
    for _ in range(3000):
        x_a, x_b = rng.binomial(n // 2, rate), rng.binomial(n // 2, rate)
        table = Table(*(np.asarray(column, dtype=float) for column in (x_a, half, x_b, half)))
        gaps.append(table.gap(ratio))
        variances.append(table.variance(ratio))
    assert np.sqrt(np.mean(variances)) == pytest.approx(np.std(gaps), rel=0.05)


def test_slopes_are_derivatives():
    rng = np.random.default_rng(4)
    n_a, n_b = rng.integers(5, 20, size=(2, 6)).astype(float)
    table = Table(rng.uniform(1, 5, size=6), n_a, rng.uniform(1, 5, size=6), n_b)
    for ratio in (False, True):
        slopes = table.slopes(ratio)
        for i in range(4):
            ahead, behind = (
                Table(*(column + h * (np.arange(6) == 2) * (j == i) for j, column in enumerate(table)))
                for h in (1e-6, -1e-6)
            )
            assert (ahead.gap(ratio) - behind.gap(ratio)) / 2e-6 == pytest.approx(slopes[i][2], abs=1e-7)


def test_weights_and_clusters_change_the_variance_as_they_should():
    decision, group, stratum = draw(5, n=3000, gap=0.1)
    plain = interval_of(decision, group, stratum)
    copies = [np.repeat(column, 3) for column in (decision, group, stratum)]
    clustered = interval_of(*copies, clusters=np.repeat(np.arange(3000), 3), n_replicates=4000)
    assert clustered.gap == pytest.approx(plain.gap, rel=1e-12)
    assert clustered.spread_evaluation == pytest.approx(plain.spread_evaluation, rel=0.05)
    almost_even = interval_of(decision, group, stratum, sample_weight=1.0 + 1e-6 * np.arange(3000))
    assert almost_even.spread_evaluation == pytest.approx(plain.spread_evaluation, rel=0.02)
    uneven = interval_of(decision, group, stratum, sample_weight=np.random.default_rng(0).exponential(size=3000))
    assert uneven.spread_evaluation == pytest.approx(np.sqrt(2.0) * plain.spread_evaluation, rel=0.15)


@pytest.mark.parametrize(("n_strata", "gap", "groups", "n"), [(5, 0.1, 2, 600), (50, 0.0, 2, 600), (20, 0.1, 3, 1000)])
def test_coverage(n_strata, gap, groups, n):
    repetitions = 150
    covered = 0
    for seed in range(repetitions):
        found = interval_of(*draw([6, seed], n, n_strata, gap, groups))
        covered += found.low <= gap + 1e-12 <= found.high + 2e-12
    assert covered >= binom.ppf(1e-4, repetitions, 0.93)


def test_strata_with_one_group_are_reported():
    decision, group, stratum = draw(7)
    found = interval_of(decision, group, np.where(group == 0, stratum, stratum % 3))
    assert "within 5 strata, combined with Mantel-Haenszel weights; 2 of them" in found.sentence
    assert "rows) have only one group and add nothing." in found.sentence
    assert found.by_pair["strata"].tolist() == [3]


def test_without_a_common_stratum_the_interval_is_the_whole_range():
    decision, group, _ = draw(8)
    found = interval_of(decision, group, group)
    assert (found.low, found.high) == (0.0, 1.0)
    assert "no stratum has rows of both group 0 and group 1" in found.reason


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample_weight": np.arange(300) + 1.0}, r"needs 10 or more rows in each stratum; stratum 0 has \d of group"),
        ({"clusters": np.arange(300) // 2}, "needs 10 or more rows in each stratum"),
        ({"strata": np.arange(299)}, "inconsistent numbers of samples"),
        ({"strata": [None] * 300}, "stratum column contains NaN or missing"),
        ({"method": "basic"}, "With strata, limits do not depend on the method"),
    ],
    ids=["weights", "clusters", "length", "missing", "method"],
)
def test_strata_that_cannot_be_used_are_refused(options, message):
    decision = np.arange(300) % 2
    options = {"strata": np.arange(300) // 6} | options
    with pytest.raises(ValueError, match=message):
        sf.fairness_interval(decision, decision, sensitive_features=np.arange(300) % 3, **options)


# -- Rows that are compared -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ratio", [False, True])
def test_rows_of_strata_with_one_group_are_no_evidence(ratio):
    group = ["a"] * 500 + ["b"] * 500 + ["a"] * 2 + ["b"] * 2
    stratum = ["x"] * 500 + ["y"] * 500 + ["z"] * 4
    options = {"strata": stratum, "metric": "demographic_parity" + "_ratio" * ratio}
    with pytest.warns(SmallEvaluationSet, match="group 'a' has 2 rows"):
        found = sf.fairness_interval(None, [0, 1] * 500 + [1, 1, 0, 0], sensitive_features=group, **options)
    assert found.gap_low < 0.0
    assert found.gap_high == (np.inf if ratio else 1.0)


def clustered(n_shared, seed=0):
    """Decision, group, stratum and cluster: 20 clusters of 10 rows in each group, so many in a stratum of both."""
    group, cluster = np.repeat([0, 1], 200), np.repeat(np.arange(40), 10)
    stratum = np.where(cluster % 20 < n_shared, 2, group)
    return np.random.default_rng(seed).integers(2, size=400), group, stratum, cluster


def test_one_cluster_of_a_group_in_a_stratum_is_refused():
    decision, group, stratum, cluster = clustered(1)
    with pytest.raises(ValueError, match="needs 2 or more clusters in each stratum; stratum 2 has 1 of group 0"):
        interval_of(decision, group, stratum, clusters=cluster)


@pytest.mark.filterwarnings("ignore::surefair.diagnostics.FewClusters")
def test_only_clusters_in_strata_of_both_groups_count():
    decision, group, stratum, cluster = clustered(4)
    found = interval_of(decision, group, stratum, clusters=cluster)
    part = stratum == 2
    alone = interval_of(decision[part], group[part], stratum[part], clusters=cluster[part])
    assert found.gap == pytest.approx(alone.gap)
    assert found.gap_high - found.gap_low == pytest.approx(alone.gap_high - alone.gap_low, rel=0.1)
