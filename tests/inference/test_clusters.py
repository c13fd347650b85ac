"""Rows in clusters: counts that add, limits that hold with few clusters, and clear words where they cannot."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

import surefair as sf
from surefair.diagnostics import FewClusters
from surefair.inference.cluster_counts import count_clusters
from surefair.rows import as_keys
from surefair.rows.distinct import MOST_KEYS, Distinct


def draw(seed, n_clusters, n_rows, correlation, rates=(0.3, 0.3), spanning=False):
    """Decision, group and cluster of each row; rows of a cluster have a beta-binomial correlation."""
    rng = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(n_clusters), n_rows)
    group = rng.integers(len(rates), size=len(cluster)) if spanning else cluster % len(rates)
    rate = np.array(rates)[np.arange(n_clusters) % len(rates)] if not spanning else np.full(n_clusters, rates[0])
    if correlation > 0.0:
        spread = (1.0 - correlation) / correlation
        rate = rng.beta(rate * spread, (1.0 - rate) * spread)
    return (rng.random(len(cluster)) < rate[cluster]).astype(int), group, cluster


def interval_of(decision, group, cluster, **options):
    options = {"pos_label": 1, "n_replicates": 400} | options
    return sf.fairness_interval(decision, decision, sensitive_features=group, clusters=cluster, **options)


# -- Counts -----------------------------------------------------------------------------------------------------------


def test_counts_of_two_parts_add_even_if_clusters_are_in_both():
    rng = np.random.default_rng(0)
    cell, key = rng.integers(12, size=(500, 1)), as_keys(rng.integers(60, size=500), "cluster")
    whole, one, two = (
        count_clusters(cell[part], (1, 3, 2, 2), key[part], np.ones(500)[part], 130, seed=3)
        for part in (slice(None), slice(0, 200), slice(200, None))
    )
    both = one + two
    for mine, theirs in zip([*whole.counts, whole.replicates, *whole.distinct],
                            [*both.counts, both.replicates, *both.distinct], strict=True):  # fmt: skip
        np.testing.assert_array_equal(mine, theirs)


def test_replicates_do_not_depend_on_how_many_there_are():
    cell, key = np.zeros((40, 1), dtype=int), as_keys(np.arange(40) // 2, "cluster")
    few, many = (count_clusters(cell, (1, 1), key, np.ones(40), B, seed=1).replicates for B in (7, 300))
    np.testing.assert_array_equal(few, many[:7])


def test_many_clusters_are_counted_to_a_few_per_cent():
    keys = as_keys(np.arange(50_000), "cluster")
    found = Distinct.of(np.arange(50_000) % 2, keys, 2)
    assert found.size([0, 1]) == pytest.approx(50_000, rel=0.1)
    assert found.size([0]) == pytest.approx(25_000, rel=0.1)
    assert Distinct.of(np.zeros(MOST_KEYS - 1, dtype=int), keys[: MOST_KEYS - 1], 1).size([0]) == MOST_KEYS - 1


# -- Limits -----------------------------------------------------------------------------------------------------------


def test_the_spread_is_that_of_the_usual_sandwich():
    decision, group, cluster = draw(1, 60, 7, 0.4, (0.3, 0.5))
    weight = np.random.default_rng(2).exponential(size=len(decision))
    found = interval_of(decision, group, cluster, sample_weight=weight, n_replicates=20_000)
    variance = 0.0
    for g in (0, 1):
        part = group == g
        rate = np.average(decision[part], weights=weight[part])
        sums = np.bincount(cluster[part], weight[part] * (decision[part] - rate))
        variance += np.sum(sums**2) / weight[part].sum() ** 2 * 30 / 29
    assert found.spread_evaluation == pytest.approx(np.sqrt(variance), rel=0.02)


def test_copies_of_a_row_in_one_cluster_say_no_more_than_the_row():
    decision, group, _ = draw(3, 400, 1, 0.0, (0.3, 0.5))
    once = sf.fairness_interval(decision, decision, sensitive_features=group, pos_label=1)
    copies = [np.repeat(column, 6) for column in (decision, group, np.arange(400))]
    found = interval_of(*copies, n_replicates=2000)
    assert found.estimate == pytest.approx(once.estimate)
    assert found.high - found.low == pytest.approx(once.high - once.low, rel=0.06)
    naive = sf.fairness_interval(copies[0], copies[0], sensitive_features=copies[1], pos_label=1)
    assert found.high - found.low > 2.2 * (naive.high - naive.low)


@pytest.mark.parametrize("metric", ["demographic_parity_ratio", "accuracy", "equalized_odds", "precision"])
def test_other_metrics_groups_weights_and_columns(metric):
    rng = np.random.default_rng(4)
    cluster = rng.integers(150, size=3000)
    truth, decision = rng.integers(2, size=(2, 3000))
    columns = {"a": cluster % 3, "b": rng.integers(2, size=3000)}
    options = {"sensitive_features": columns, "metric": metric, "sample_weight": rng.exponential(size=3000)}
    found = sf.fairness_interval(truth, decision, clusters=cluster, intersections=True, **options)
    plain = sf.fairness_interval(truth, decision, intersections=True, **options)
    assert found.estimate == pytest.approx(plain.estimate, rel=1e-12)
    assert found.by_pair["gap"].tolist() == pytest.approx(plain.by_pair["gap"].tolist(), rel=1e-12)
    assert found.by_group["clusters"].tolist()[:3] == [50, 50, 50]
    assert 0.5 < (found.high - found.low) / (plain.high - plain.low) < 2.0


def test_a_shared_effect_of_clusters_that_span_groups_cancels():
    decision, group, cluster = draw(5, 40, 50, 0.4, (0.5, 0.5), spanning=True)
    spanning = interval_of(decision, group, cluster)
    apart = interval_of(decision, group, cluster * 2 + group)
    assert spanning.spread_evaluation < 0.5 * apart.spread_evaluation


@pytest.mark.parametrize(
    ("n_clusters", "n_rows", "correlation", "rates"),
    [(10, 50, 0.1, (0.3, 0.3)), (30, 5, 0.5, (0.3, 0.4)), (100, 5, 0.1, (0.3, 0.3, 0.3, 0.3, 0.4))],
    ids=["10 clusters", "30 clusters", "5 groups"],
)
def test_coverage(n_clusters, n_rows, correlation, rates):
    n = 200
    truth = max(rates) - min(rates)
    covered = 0
    for seed in range(n):
        found = interval_of(*draw([6, seed], n_clusters, n_rows, correlation, rates))
        covered += found.low <= truth + 1e-12 <= found.high + 2e-12
    assert covered >= binom.ppf(1e-4, n, 0.93)


test_coverage = pytest.mark.filterwarnings("ignore::surefair.diagnostics.FewClusters")(test_coverage)


def test_clusters_that_all_have_the_same_rate_do_not_make_it_certain():
    decision, group = np.tile([0, 1, 1, 0], 100), np.repeat([0, 1], 200)
    found = interval_of(decision, group, np.arange(400) // 4)
    assert found.estimate == found.low == 0.0
    assert found.high > 0.05


# -- Words ------------------------------------------------------------------------------------------------------------


def test_few_clusters_are_reported_and_one_says_nothing():
    decision, group, cluster = draw(7, 24, 20, 0.2)
    with pytest.warns(FewClusters, match="group 1 has 1"):
        found = interval_of(decision, group, np.where(group == 1, 1000, cluster))
    assert (found.low, found.high) == (0.0, 1.0)
    assert found.by_group["clusters"].tolist() == [12, 1]
    assert found.verdict(0.2) == "not enough evidence"
    assert "in 24 clusters" in interval_of(decision, group, cluster).sentence
    assert interval_of(decision, group, cluster).verdict(0.9) == "within margin"


def test_clusters_of_one_row_are_independent_rows():
    decision, group, _ = draw(8, 300, 1, 0.0)
    found = interval_of(decision, group, np.arange(300))
    plain = sf.fairness_interval(decision, decision, sensitive_features=group, pos_label=1, n_replicates=400)
    assert (found.low, found.high) == (plain.low, plain.high)
    assert "Every cluster has one row, so rows count as independent." in found.sentence


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clusters": np.zeros(300)}, "All rows are in one cluster.* Pass rows of several clusters"),
        ({"clusters": [1, 2]}, "inconsistent numbers of samples: sensitive_features has 300, clusters has 2"),
        ({"clusters": np.where(np.arange(300) == 4, np.nan, 1.0)}, r"cluster column contains NaN .* in row 4"),
        ({"clusters": np.arange(300) // 2, "method": "cheap"}, "With clusters, limits do not depend on the method"),
    ],
    ids=["one", "length", "missing", "method"],
)
def test_clusters_that_cannot_be_used_are_refused(options, message):
    decision = np.arange(300) % 2
    with pytest.raises(ValueError, match=message):
        sf.fairness_interval(decision, decision, sensitive_features=np.arange(300) % 3, **options)


def test_a_spread_of_rounding_errors_makes_nothing_certain():
    group, cluster = np.repeat([0, 1], 120), np.repeat(np.arange(40), 6)
    decision = np.r_[np.tile([1, 1, 0, 0, 0, 0], 20), np.tile([1, 1, 1, 1, 0, 0], 20)]  # the same in all clusters
    plain = interval_of(decision, group, cluster)
    weight = np.full(240, 0.1)
    weight[0:120:6] = weight[120::6] = 0.3
    weighted = interval_of(decision, group, cluster, sample_weight=weight)
    assert plain.gap_low == pytest.approx(-0.4531, abs=0.01)
    assert weighted.gap_high - weighted.gap_low > 0.2
