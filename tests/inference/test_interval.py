from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binom, kstest
from scipy.stats import t as student_t

import surefair as sf
from surefair.criteria import CRITERIA, Criterion, Rate, Slabs
from surefair.diagnostics import TooFewReplicates
from surefair.inference.counts import Counts, count_decisions
from surefair.inference.interval import (
    BOOTSTRAP_METHODS,
    FEW,
    METHODS,
    SOURCES,
    compared_rates,
    fold,
    get_metric,
    limits,
    make_interval,
    rates_of,
    reweigh,
    settled,
)
from surefair.rows.arrays import as_columns
from surefair.rows.groups import Groups

LIMITS = ("low", "high", "gap_low", "gap_high")
SPREADS = ("spread_training", "spread_evaluation")
OF_PAIRS = ("gap", "low", "high", *SPREADS)
RATIOS = [f"{name}_ratio" for name in CRITERIA]
SINGLE = [name for name, criterion in CRITERIA.items() if len(criterion.rates) == 1]

every_metric = pytest.mark.parametrize("metric", CRITERIA)
every_ratio = pytest.mark.parametrize("metric", RATIOS)
every_metric_and_ratio = pytest.mark.parametrize("metric", [*CRITERIA, *RATIOS])
every_method = pytest.mark.parametrize("method", METHODS)


@pytest.fixture(scope="module")
def rows():
    """Truth, decision and group of 300 rows."""
    rng = np.random.default_rng(0)
    group, truth = rng.integers(2, size=(2, 300))
    decision = (rng.random(300) < 0.3 + 0.3 * truth + 0.15 * group).astype(int)
    return truth, decision, group


@pytest.fixture(scope="module")
def many():
    """Truth, decision and two sensitive columns of 2,000 rows."""
    rng = np.random.default_rng(1)
    columns = {"sex": rng.choice(["f", "m"], 2000), "age": rng.choice([20, 40, 60], 2000)}
    truth = rng.integers(2, size=2000)
    rate = 0.3 + 0.2 * truth + 0.15 * (columns["sex"] == "m") + 0.002 * columns["age"]
    return truth, (rng.random(2000) < rate).astype(int), columns


def interval_of(rows, **options):
    truth, decision, group = rows
    return sf.fairness_interval(truth, decision, sensitive_features=group, **({"n_replicates": 200} | options))


def from_counts(tables, metric="demographic_parity", source="evaluation", rates_b=None, n_replicates=500, **options):
    """Interval of counts given as (group, truth, decision)."""
    tables = np.array(tables, dtype=float)
    criterion, ratio = get_metric(metric)
    rates = compared_rates(criterion, ratio)
    counts = Counts(tables, tables, tables)
    if rates_b is None:
        rates_b = reweigh(rates, repeated(tables, 1 + n_replicates), seed=options.pop("seed", 0))
    groups = options.pop("groups", [f"g{i}" for i in range(len(tables))])
    groups = Groups.of(as_columns(groups))
    settings = {"method": "percentile", "confidence_level": 0.95} | options
    return make_interval(criterion, counts, rates_b, groups, ratio=ratio, source=source, **settings)


def repeated(tables, times):
    tables = np.asarray(tables, dtype=float)
    return Counts(*[np.broadcast_to(tables, (times, *tables.shape))] * 3)


def decided(counted, n):
    """Counts of groups with so many positive decisions among n rows, all truly negative."""
    return [[[rows - x, x], [0, 0]] for x, rows in zip(counted, n, strict=True)]


def numbers(interval):
    return tuple(getattr(interval, name) for name in ("estimate", "gap", *LIMITS))


# -- Folding --------------------------------------------------------------------------------------------------------


@settings(max_examples=200)
@given(ends=st.tuples(st.floats(-1.0, 1.0), st.floats(-1.0, 1.0)).map(sorted), share=st.floats(0.0, 1.0))
def test_folding_keeps_every_absolute_value_and_adds_none(ends, share):
    low, high = fold(*ends)
    inside = min(max(ends[0] + share * (ends[1] - ends[0]), ends[0]), ends[1])
    assert low <= abs(inside) <= high
    # both ends are reached by a gap of the signed interval
    assert high in {abs(end) for end in ends}
    assert low in {abs(end) for end in ends} or (low == 0.0 and ends[0] <= 0.0 <= ends[1])


# -- Limits ---------------------------------------------------------------------------------------------------------


def plain_quantile(sample, p):
    """Between the order statistics next to rank p(B + 1)."""
    ordered, rank = sorted(sample), p * (len(sample) + 1)
    below = int(np.floor(rank))
    if below < 1 or below >= len(ordered):
        return ordered[0] if below < 1 else ordered[-1]
    return ordered[below - 1] + (rank - below) * (ordered[below] - ordered[below - 1])


@pytest.mark.parametrize("B", [2, 19, 200])
@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.999])
def test_limits_are_those_of_the_plain_formulas(B, level):
    sample, estimate = np.random.default_rng(B).normal(size=B), 0.3
    tail = (1.0 - level) / 2.0
    low, high = plain_quantile(sample, tail), plain_quantile(sample, 1.0 - tail)
    found = {method: limits(np.array(estimate), sample, level, method) for method in METHODS[:3]}
    np.testing.assert_allclose(found["percentile"], (low, high))
    np.testing.assert_allclose(found["basic"], (2 * estimate - high, 2 * estimate - low))
    student = {2: 4.30265, 19: 2.09302, 200: 1.97190}[B]
    cheap = limits(np.array(estimate), sample, 0.95, "cheap")
    half = student * np.sqrt(np.mean((sample - estimate) ** 2))
    np.testing.assert_allclose(cheap, (estimate - half, estimate + half), rtol=1e-5)
    middle, half = np.mean(found["normal"]), np.diff(found["normal"])[0] / 2.0
    z = {0.5: 0.6744898, 0.8: 1.2815516, 0.95: 1.9599640, 0.999: 3.2905267}[level]
    np.testing.assert_allclose((middle, half), (estimate, z * np.std(sample, ddof=1)), rtol=1e-6)


def test_limits_of_many_numbers_are_the_limits_of_each():
    rng = np.random.default_rng(1)
    estimates, samples = rng.normal(size=3), rng.normal(size=(50, 3))
    for method in BOOTSTRAP_METHODS:
        together = np.array(limits(estimates, samples, 0.9, method))
        each = [limits(estimates[j], samples[:, j], 0.9, method) for j in range(3)]
        np.testing.assert_allclose(together.T, each)


@pytest.mark.parametrize("metric", SINGLE)
@every_method
def test_an_interval_of_one_gap_is_made_of_its_replicates_by_the_method(rows, metric, method):
    truth, decision, group = rows
    (rate,) = CRITERIA[metric].rates
    fit = count_decisions(decision, truth, group[:, None], (2,)).rows
    rates_b = reweigh((rate,), repeated(fit, 151), seed=9)[:, 0]
    found = interval_of(rows, metric=metric, method=method, n_replicates=150, random_state=9, confidence_level=0.9)
    rates = rate.of(fit)
    gap, gap_b = rates[0] - rates[1], rates_b[:, 0] - rates_b[:, 1]
    signed = limits(gap, gap_b, 0.9, "percentile" if method == "paper" else method)
    unfair = limits(abs(gap), abs(gap_b), 0.9, "percentile") if method == "paper" else fold(*signed)
    assert numbers(found) == pytest.approx((abs(gap), gap, *unfair, *signed))
    assert found.by_group["rate"].tolist() == pytest.approx(rates.tolist())
    assert found.by_group["n"].tolist() == rate.tally(fit)[1].tolist()
    spreads = [0.0, found.spread_evaluation]
    assert found.by_pair.iloc[0].tolist() == [0, 1, found.gap, found.gap_low, found.gap_high, *spreads]
    assert (found.metric, found.method, found.source, found.n) == (metric, method, "evaluation", 300)
    assert (found.pair, found.column, found.rate) == ((0, 1), None, rate.name)


@pytest.mark.parametrize(("B", "wider"), [(2, 1.95), (5, 1.25), (200, 1.0)])
def test_cheap_intervals_are_wider_the_fewer_the_replicates(B, wider):
    # by t_B E|χ_B|/√B over the normal quantile, on average
    low, high = limits(np.zeros(20_000), np.random.default_rng(B).normal(size=(B, 20_000)), 0.95, "cheap")
    assert np.mean(high - low) / (2.0 * 1.96) == pytest.approx(wider, abs=0.02)


@pytest.mark.parametrize("ratio", [False, True])
def test_cheap_limits_of_several_gaps_have_their_level_by_bonferroni(ratio):
    rng, metric = np.random.default_rng(6), "demographic_parity" + "_ratio" * ratio
    rates_b = 0.5 + rng.normal(scale=0.01, size=(5, 1, 3))
    found = from_counts(np.full((3, 2, 2), 50), metric, source="training", rates_b=rates_b, method="cheap")
    value = np.log(2.0 * rates_b[:, 0]) if ratio else rates_b[:, 0]
    gap_b = value[:, [0, 0, 1]] - value[:, [1, 2, 2]]
    half = student_t(5).ppf(1.0 - 0.025 / 3.0) * np.sqrt(np.mean(gap_b**2, axis=0))
    np.testing.assert_allclose(found.by_pair["high"], half)
    np.testing.assert_allclose(found.by_pair["low"], -half)
    # a pair that is undefined takes no part of the level
    empty = from_counts(
        decided([50, 50, 50, 0], [100, 100, 100, 0]),
        source="training",
        rates_b=np.concatenate([rates_b, np.full((5, 1, 1), np.nan)], axis=2),
        method="cheap",
    )
    assert empty.by_pair["high"].tolist()[0] == pytest.approx(
        student_t(5).ppf(1.0 - 0.025 / 3.0) * np.sqrt(np.mean((rates_b[:, 0, 0] - rates_b[:, 0, 1]) ** 2))
    )


@pytest.mark.parametrize("metric", ["demographic_parity", "demographic_parity_ratio"])
@pytest.mark.parametrize("n_groups", [2, 3])
def test_cheap_limits_of_few_rows_are_at_least_the_exact_ones(metric, n_groups):
    # replicates all alike say that nothing is uncertain
    tables, rates_b = decided([4] * n_groups, [12] * n_groups), np.full((2, 1, n_groups), 1.0 / 3.0)
    alike = from_counts(tables, metric, rates_b=rates_b, method="cheap")
    low, high = plain_clopper_pearson(4, 12)
    assert alike.by_group[["low", "high"]].iloc[0].tolist() == pytest.approx([low, high])
    l1, u1 = plain_clopper_pearson(4, 12, 1.0 - 0.05 / len(alike.by_pair))
    scale = np.log if metric.endswith("ratio") else float
    assert alike.gap_high == pytest.approx(np.hypot(scale(u1) - scale(1 / 3), scale(1 / 3) - scale(l1)))
    assert alike.gap_low == pytest.approx(-alike.gap_high)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("level", "method", "n_groups", "needed"),
    [
        (0.95, "percentile", 2, 39), (0.95, "basic", 3, 39), (0.9, "percentile", 2, 19), (0.99, "basic", 2, 199),
        (0.95, "normal", 3, 19), (0.95, "normal", 2, 2), (0.95, "cheap", 2, 2), (0.99, "cheap", 3, 2),
    ],
)  # fmt: skip
def test_replicates_too_few_for_a_level_are_warned_of(level, method, n_groups, needed):
    options = {"method": method, "confidence_level": level}
    from_counts(decided([50] * n_groups, [100] * n_groups), n_replicates=needed, **options)
    if needed > 2:
        words = f"{needed - 1} replicates are too few for a {method} interval of level {level}, which needs {needed}"
        with pytest.warns(TooFewReplicates, match=words):
            from_counts(decided([50] * n_groups, [100] * n_groups), n_replicates=needed - 1, **options)


def test_the_warning_names_the_line_that_asked(rows):
    with pytest.warns(TooFewReplicates, match="Use method='cheap', or more replicates") as caught:
        sf.fairness_interval(rows[0], rows[1], sensitive_features=rows[2], n_replicates=10)
    assert [warning.filename for warning in caught] == [__file__]
    assert issubclass(TooFewReplicates, sf.diagnostics.Diagnostic)


@every_method
def test_a_higher_level_gives_a_wider_interval(rows, method):
    narrow, wide = (interval_of(rows, method=method, confidence_level=level) for level in (0.8, 0.99))
    assert wide.gap_low < narrow.gap_low < narrow.gap_high < wide.gap_high
    assert wide.low <= narrow.low <= narrow.high <= wide.high


@every_metric
def test_limits_stay_within_what_a_rate_can_be(metric):
    truth, group = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    for method in METHODS:
        for decision in ([0, 1, 0, 1], [1, 0, 1, 0], [1, 1, 1, 1]):
            found = interval_of((truth, np.array(decision), group), metric=metric, method=method, pos_label=1)
            assert -1.0 <= found.gap_low <= found.gap_high <= 1.0
            assert 0.0 <= found.low <= found.high <= 1.0
            assert found.by_group["low"].min() >= 0.0
            assert found.by_group["high"].max() <= 1.0


# -- Reweighted evaluation rows -------------------------------------------------------------------------------------


@every_metric
def test_reweighted_rates_follow_jeffreys_beta_law(metric):
    counts, rates = np.array([[[0, 3], [40, 400]], [[1, 1], [2, 2]]]), CRITERIA[metric].rates
    drawn = reweigh(rates, repeated(counts, 4001), seed=1)
    for j, rate in enumerate(rates):
        for group, (above, below) in enumerate(zip(*rate.tally(counts), strict=True)):
            assert kstest(drawn[:, j, group], beta(above + 0.5, below - above + 0.5).cdf).pvalue > 1e-4


@given(seed=st.integers(0, 2**63 - 1), few=st.integers(1, 20))
def test_a_replicate_of_the_weights_does_not_depend_on_how_many_there_are(seed, few):
    tables, rates = np.random.default_rng(seed).integers(50, size=(21, 2, 2, 2)), CRITERIA["equalized_odds"].rates
    counts = Counts(*[tables.astype(float)] * 3)
    assert np.array_equal(reweigh(rates, counts.of(slice(1 + few)), seed), reweigh(rates, counts, seed)[:few])


def test_rates_and_groups_are_weighted_independently():
    drawn = reweigh(CRITERIA["equalized_odds"].rates, repeated(np.full((3, 2, 2), 10), 4001), seed=2)
    correlations = np.corrcoef(drawn.reshape(4000, 6).T) - np.eye(6)
    assert np.abs(correlations).max() <= 4.5 / np.sqrt(4000)


def test_weighted_rates_spread_as_weighted_means_do():
    # Var of a weighted rate is Σ cᵢ² (xᵢ - r)² / C², also where weights go with what is counted
    rng = np.random.default_rng(3)
    decision, group = rng.integers(2, size=800), np.repeat([0, 1], 400)
    weight = rng.exponential(size=800) * np.where(decision == 1, 3.0, 1.0)
    counts = count_decisions(decision, np.zeros(800, int), group[:, None], (2,), weight)
    rates = CRITERIA["demographic_parity"].rates
    drawn = reweigh(rates, Counts(*(np.broadcast_to(t, (4001, *t.shape)) for t in counts)), seed=4)[:, 0]
    for g in range(2):
        c, x = weight[group == g], decision[group == g]
        r = np.average(x, weights=c)
        assert rates_of(rates, counts)[0, g] == pytest.approx(r)
        assert drawn[:, g].mean() == pytest.approx(r, abs=0.01)
        assert drawn[:, g].std() == pytest.approx(np.sqrt(np.sum(c**2 * (x - r) ** 2)) / c.sum(), rel=0.06)


@every_metric_and_ratio
@pytest.mark.parametrize("weight", [1.0, 2.0, 0.3])
def test_equal_weights_are_no_weights(many, metric, weight):
    plain, weighted = (interval_of(many, metric=metric, sample_weight=c) for c in (None, np.full(2000, weight)))
    assert numbers(weighted) == pytest.approx(numbers(plain), rel=1e-9)
    assert weighted.pair == plain.pair


@every_metric_and_ratio
def test_a_weight_of_a_whole_number_estimates_what_as_many_rows_would(rows, metric):
    weight = np.random.default_rng(5).integers(4, size=300)
    weighted = interval_of(rows, metric=metric, sample_weight=weight)
    many_rows = interval_of([np.repeat(column, weight) for column in rows], metric=metric)
    assert (weighted.estimate, weighted.gap) == pytest.approx((many_rows.estimate, many_rows.gap), rel=1e-12)
    assert weighted.n == 300
    # but does not claim to know as much
    assert weighted.gap_high - weighted.gap_low > 1.1 * (many_rows.gap_high - many_rows.gap_low)


def test_rows_of_weight_zero_are_counted_and_change_nothing(rows):
    truth, decision, group = (np.concatenate([column, column[:50]]) for column in rows)
    weight = np.repeat([1.0, 0.0], [300, 50])
    found = interval_of((truth, decision, group), sample_weight=weight)
    assert numbers(found)[:2] == pytest.approx(numbers(interval_of(rows))[:2])
    assert found.n == found.by_group["n"].sum() == 350


@every_metric
def test_same_seed_same_numbers_other_seed_other_numbers(rows, metric):
    first, again, other = (interval_of(rows, metric=metric, random_state=seed) for seed in (5, 5, 6))
    assert numbers(first) == numbers(again)
    assert (first.estimate, first.gap) == (other.estimate, other.gap)
    assert all(getattr(first, name) != getattr(other, name) for name in ("high", "gap_low", "gap_high"))


# -- Labels and groups of any type ----------------------------------------------------------------------------------


@every_metric
@pytest.mark.parametrize(
    ("labels", "groups"),
    [(["no", "yes"], ["f", "m"]), ([False, True], [10, 20]), ([-1, 1], [0.5, 1.5]), ([1.0, 2.0], [False, True])],
    ids=["strings", "booleans", "signs", "floats"],
)
def test_the_names_of_labels_and_groups_change_nothing(rows, metric, labels, groups):
    truth, decision, group = rows
    renamed = sf.fairness_interval(
        np.array(labels)[truth], np.array(labels)[decision], sensitive_features=np.array(groups)[group], metric=metric,
        n_replicates=200,
    )  # fmt: skip
    assert numbers(renamed) == numbers(interval_of(rows, metric=metric))
    assert renamed.by_group["group"].tolist() == groups * len(CRITERIA[metric].rates)
    assert all(repr(name) in renamed.sentence for name in groups)


@every_metric
def test_swapping_the_names_of_the_groups_flips_the_gap(rows, metric):
    truth, decision, group = rows
    one, other = interval_of(rows, metric=metric), interval_of((truth, decision, 1 - group), metric=metric)
    assert (other.gap, other.estimate) == (-one.gap, one.estimate)
    assert (other.gap_low, other.gap_high) == pytest.approx((-one.gap_high, -one.gap_low), abs=1e-12)


def test_nothing_seen_excludes_nothing():
    group = np.repeat([0, 1], [5000, 20])
    found = sf.fairness_interval(np.zeros(5020), np.zeros(5020), sensitive_features=group, pos_label=1)
    assert found.low == found.estimate == 0.0
    assert (found.by_group["low"] == 0.0).all()


def test_the_positive_label_is_the_second_or_the_one_that_is_named(rows):
    default = interval_of(rows)
    assert numbers(interval_of(rows, pos_label=1)) == numbers(default)
    assert interval_of(rows, pos_label=0).gap == pytest.approx(-default.gap)
    mirrored = interval_of(rows, metric="false_positive_rate", pos_label=0)
    assert mirrored.gap == pytest.approx(interval_of(rows, metric="false_negative_rate").gap)


def test_a_named_positive_label_need_not_occur():
    found = sf.fairness_interval([0] * 8, [0] * 8, sensitive_features=["a", "b"] * 4, pos_label=1, n_replicates=50)
    assert (found.estimate, found.reason) == (0.0, "")


@pytest.mark.parametrize(
    ("y_true", "y_pred"), [(["0", "1"], [0, 1]), ([0, 1], ["0", "1"]), ([True, False], ["True", "False"])]
)
def test_labels_and_decisions_of_different_types_are_never_compared(y_true, y_pred):
    with pytest.raises(ValueError, match=r"label|type"):
        sf.fairness_interval(y_true * 10, y_pred * 10, sensitive_features=["a", "a", "b", "b"] * 5)


def test_booleans_and_numbers_are_compared_by_value(rows):
    truth, decision, group = rows
    assert numbers(interval_of((truth, decision.astype(bool), group))) == numbers(interval_of(rows))
    assert numbers(interval_of((truth.astype(float), decision, group))) == numbers(interval_of(rows))


# -- What cannot be measured ----------------------------------------------------------------------------------------


@every_method
@pytest.mark.parametrize(
    ("metric", "truth"), [("false_positive_rate", 1), ("false_negative_rate", 0)], ids=["no negatives", "no positives"]
)
def test_an_undefined_rate_is_the_whole_range_with_a_reason(rows, method, metric, truth):
    found = interval_of((np.where(rows[2] == 1, truth, rows[0]), rows[1], rows[2]), metric=metric, method=method)
    assert (found.low, found.high, found.gap_low, found.gap_high) == (0.0, 1.0, -1.0, 1.0)
    assert np.isnan(found.estimate)
    assert np.isnan(found.gap)
    assert "group 1 has no evaluation row" in found.reason
    assert found.by_group["group"].tolist() == [0, 1]
    assert found.by_group["n"].tolist() == [int(((rows[2] == 0) & (rows[0] != truth)).sum()), 0]
    assert found.by_group[["low", "high"]].iloc[1].tolist() == [0.0, 1.0]
    assert found.by_group["high"].iloc[0] < 1.0
    json.dumps(found.to_dict(), allow_nan=False)


@every_method
def test_a_rate_undefined_in_some_replicates_is_the_whole_range_too(method):
    fit = np.full((2, 2, 2), 5)
    replicates = repeated(fit, 30).rows.copy()
    replicates[3, 1, :, 1] = 0  # one replicate decides nothing positive in the second group
    rates_b = rates_of(CRITERIA["false_discovery_rate"].rates, Counts(*[replicates] * 3))
    found = from_counts(fit, "false_discovery_rate", source="training", rates_b=rates_b, method=method)
    assert (found.low, found.high, found.gap_low, found.gap_high) == (0.0, 1.0, -1.0, 1.0)
    assert "undefined in some replicates" in found.reason
    assert found.estimate == 0.0


@every_method
def test_trouble_makes_every_interval_the_whole_range(method):
    found = from_counts(np.full((3, 2, 2), 50), trouble="it diverged", method=method)
    assert (found.estimate, found.low, found.high, found.reason) == (0.0, 0.0, 1.0, "it diverged")
    for frame, least in ((found.by_group, 0.0), (found.by_pair, -1.0)):
        assert frame["low"].tolist() == [least] * 3
        assert frame["high"].tolist() == [1.0] * 3


@every_method
@pytest.mark.parametrize("metric", ["demographic_parity", "demographic_parity_ratio"])
def test_a_group_without_rows_leaves_what_the_others_show(method, metric):
    found = from_counts(decided([80, 40, 0], [100, 100, 0]), metric, method=method)
    without = from_counts(decided([80, 40], [100, 100]), metric, method=method)
    assert (found.estimate, found.pair) == (without.estimate, ("g0", "g1"))
    assert found.by_group["n"].tolist() == [100, 100, 0]
    assert found.by_group[["low", "high"]].iloc[2].tolist() == [0.0, 1.0]
    assert np.isnan(found.by_group["rate"].iloc[2])
    assert found.reason.startswith("group 'g2' has no evaluation row that enters the share of positive decisions: ")
    assert found.by_pair["gap"].isna().tolist() == [False, True, True]
    if metric == "demographic_parity":
        assert found.low > 0.1
        assert found.high == 1.0
        assert found.by_pair[["low", "high"]].iloc[1].tolist() == [-1.0, 1.0]
    else:
        assert found.low == 0.0
        assert found.high < 0.9
        assert found.by_pair[["low", "high"]].iloc[1].tolist() == [-np.inf, np.inf]
    json.dumps(found.to_dict(), allow_nan=False)


def test_several_groups_without_rows_are_counted_in_the_reason():
    found = from_counts(decided([80, 40, 0, 0, 0], [100, 100, 0, 0, 0]))
    assert "group 'g2' has no evaluation row" in found.reason
    assert "(nor have 2 other groups)" in found.reason


@settings(max_examples=30)
@given(
    n=st.lists(st.sampled_from([0, 1, 3, 40]), min_size=2, max_size=5),
    metric=st.sampled_from([*CRITERIA, *RATIOS]),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_group_that_is_declared_comes_out_with_its_counts(n, metric, seed):
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(len(n)), n)
    columns = pd.Series(pd.Categorical.from_codes(group, [f"g{i}" for i in range(len(n))]))
    if sum(n) == 0:
        return
    truth, decision = rng.integers(2, size=(2, sum(n)))
    found = interval_of((truth, decision, columns), metric=metric, pos_label=1, n_replicates=50)
    rates = compared_rates(*get_metric(metric))
    counts = count_decisions(decision, truth, group[:, None], (len(n),))
    assert found.by_group["group"].tolist() == [f"g{i}" for i in range(len(n))] * len(rates)
    assert found.by_group["n"].tolist() == np.concatenate([rate.tally(counts.rows)[1] for rate in rates]).tolist()
    assert len(found.by_pair) == len(rates) * len(n) * (len(n) - 1) // 2
    assert 0.0 <= found.low <= found.high <= 1.0
    if not np.isnan(found.estimate):
        assert found.low <= found.estimate <= found.high
    empty = found.by_group[found.by_group["n"] == 0]
    assert (empty["low"] == 0.0).all()
    assert (empty["high"] == 1.0).all()
    assert empty["rate"].isna().all()
    assert bool(found.reason) >= bool(len(empty))
    json.dumps(found.to_dict(), allow_nan=False)


# -- Results --------------------------------------------------------------------------------------------------------


@every_metric
def test_an_interval_goes_through_json_and_back(rows, metric):
    found = interval_of(rows, metric=metric)
    back = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert back == found.to_dict()
    assert [back[name] for name in LIMITS] == [getattr(found, name) for name in LIMITS]
    several = {"metric"} if len(CRITERIA[metric].rates) > 1 else set()
    assert all(set(row) == {"group", "n", "rate", "low", "high"} | several for row in back["by_group"])
    assert all(set(row) == {"first", "second", *OF_PAIRS} | several for row in back["by_pair"])
    assert [back[name] for name in SPREADS] == [0.0, found.spread_evaluation]
    assert (back["n"], back["n_training"]) == (300, 0)
    assert len(back["by_group"]) == 2 * len(back["by_pair"]) == 2 * len(CRITERIA[metric].rates)
    assert back["pair"] == [0, 1]
    assert back["sentence"] == found.sentence
    assert f"{found.estimate:.4f}" in str(found)


@pytest.mark.parametrize("series", [pd.Series, pl.Series, lambda values: pa.chunked_array([values])])
def test_frames_come_in_the_library_of_the_groups(rows, series):
    truth, decision, group = rows
    column = series(np.array(["f", "m"])[group].tolist())
    found = sf.fairness_interval(truth, decision, sensitive_features=column, n_replicates=50)
    library = type(column).__module__.split(".")[0]
    for frame in (found.to_frame(), found.by_group, found.by_pair):
        assert type(frame).__module__.split(".")[0] == library
    assert found.to_frame().shape[0] == 1
    row = found.to_frame().to_pylist()[0] if library == "pyarrow" else found.to_frame()
    for name in ("metric", "n", "estimate", "gap", *LIMITS):
        assert (row[name] if library == "pyarrow" else row[name][0]) == getattr(found, name)


def test_an_interval_cannot_be_changed(rows):
    found = interval_of(rows)
    with pytest.raises(AttributeError):
        found.low = 0.0
    assert replace(found, low=0.0).low == 0.0


@pytest.mark.parametrize("source", SOURCES)
def test_the_sentence_says_what_is_estimated(source):
    found = from_counts(
        np.full((2, 2, 2), 5), "error_rate", source, np.full((9, 1, 2), 0.5), groups=["x", "y"], confidence_level=0.9,
        notes="More could be said",
    )  # fmt: skip
    assert SOURCES[source] in found.sentence
    assert found.sentence.startswith("0.9 interval for ")
    assert (
        f"the gap is the {CRITERIA['error_rate'].rates[0].words} of group 'x' minus that of group 'y'" in found.sentence
    )
    assert found.sentence.endswith("the unfairness its absolute value. More could be said.")


def test_the_sentence_names_the_pair_the_columns_and_the_rates(many):
    found = interval_of(many, metric="equalized_odds")
    assert "the largest absolute gap between any two groups of any of the columns 'sex', 'age'" in found.sentence
    assert "in any of the rates false_positive_rate, false_negative_rate" in found.sentence
    words = {rate.name: rate.words for rate in CRITERIA["equalized_odds"].rates}[found.rate]
    a, b = found.pair
    assert f"the {words} of group {a!r} of {found.column!r} minus that of group {b!r}." in found.sentence


# -- Many groups, several columns -----------------------------------------------------------------------------------


def test_the_unfairness_is_the_largest_gap_and_its_pair_is_named():
    found = from_counts(decided([20, 50, 90, 60], [100] * 4))
    assert found.estimate == pytest.approx(0.7)
    assert found.pair == ("g0", "g2")
    assert found.gap == pytest.approx(-0.7)
    row = found.by_pair[(found.by_pair["first"] == "g0") & (found.by_pair["second"] == "g2")].iloc[0]
    assert (row["gap"], row["low"], row["high"]) == (found.gap, found.gap_low, found.gap_high)
    folded = [fold(*ends) for ends in zip(found.by_pair["low"], found.by_pair["high"], strict=True)]
    assert (found.low, found.high) == (max(low for low, _ in folded), max(high for _, high in folded))


def test_limits_of_several_gaps_hold_together_in_the_replicates():
    rng = np.random.default_rng(6)
    rates_b = 0.5 + rng.normal(scale=[0.01, 0.02, 0.05, 0.1], size=(999, 1, 4))
    for method in ("percentile", "basic", "normal", "paper"):
        found = from_counts(np.full((4, 2, 2), 50), source="training", rates_b=rates_b, method=method)
        first, second = np.triu_indices(4, 1)
        gap_b = rates_b[:, 0, first] - rates_b[:, 0, second]
        low, high = found.by_pair["low"].to_numpy(), found.by_pair["high"].to_numpy()
        assert ((low <= gap_b) & (gap_b <= high)).all(axis=1).mean() == pytest.approx(0.95, abs=0.002)
        # each as often as any other
        alone = ((low <= gap_b) & (gap_b <= high)).mean(axis=0)
        assert alone.max() - alone.min() < 0.02


def test_limits_that_hold_together_are_wider(many):
    truth, decision, columns = many
    alone = interval_of((truth, decision, columns["sex"]))
    together = interval_of(many)
    row = together.by_pair[together.by_pair["column"] == "sex"].iloc[0]
    assert row["gap"] == alone.gap
    assert row["high"] - row["low"] > 1.1 * (alone.gap_high - alone.gap_low)


@every_metric_and_ratio
def test_several_columns_and_their_intersections(many, metric):
    found = interval_of(many, metric=metric, intersections=True)
    rates = compared_rates(*get_metric(metric))
    names = ["column", *["metric"] * (len(rates) > 1)]
    assert list(found.by_group.columns) == [*names, "group", "n", "rate", "low", "high"]
    assert list(found.by_pair.columns) == [*names, "first", "second", *OF_PAIRS]
    assert len(found.by_group) == len(rates) * (2 + 3 + 6)
    assert len(found.by_pair) == len(rates) * (1 + 3 + 15)
    assert set(found.by_group["column"]) == {"sex", "age", "sex × age"}
    assert found.by_group["group"].tolist()[:6] == ["f", "m", "20", "40", "60", "f × 20"]  # of one type
    assert found.column == "sex × age"
    assert found.to_frame()["column"].tolist() == ["sex × age"]
    assert found.n == 2000
    assert found.by_group.groupby(names)["n"].sum().nunique() == len(rates)  # every row in every column


def test_a_pair_keeps_the_type_of_its_groups(many):
    truth, decision, columns = many
    assert interval_of((truth, decision, {"age": columns["age"]})).pair == (20, 60)
    assert interval_of((truth, decision, {"age": columns["age"]})).by_group["group"].tolist() == [20, 40, 60]


@every_metric_and_ratio
@given(order=st.permutations(range(4)))
def test_renaming_the_groups_changes_no_number(metric, order):
    rng = np.random.default_rng(7)
    tables = rng.integers(20, 200, size=(4, 2, 2))
    plain, renamed = from_counts(tables, metric), from_counts(tables[np.array(order)], metric)
    for name in ("estimate", "low", "high"):
        assert getattr(renamed, name) == pytest.approx(getattr(plain, name), abs=1e-9)
    assert {order[int(g[1])] for g in renamed.pair} == {int(g[1]) for g in plain.pair}


def test_a_copy_of_a_column_only_widens(rows):
    truth, decision, group = rows
    one, two = (interval_of((truth, decision, columns)) for columns in ({"a": group}, {"a": group, "b": group}))
    assert two.estimate == one.estimate
    assert two.low <= one.low
    assert two.high >= one.high


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_columns_come_from_any_table_and_answers_in_its_library(many, make):
    truth, decision, columns = many
    table = make({"sex": columns["sex"].tolist(), "age": columns["age"].tolist()})
    found = interval_of((truth, decision, table), intersections=True)
    assert found == interval_of(many, intersections=True)
    library = "pandas" if make is dict else type(table).__module__.split(".")[0]
    for frame in (found.to_frame(), found.by_group, found.by_pair):
        assert type(frame).__module__.split(".")[0] == library
    series = {name: pl.Series(values) for name, values in columns.items()}
    assert isinstance(interval_of((truth, decision, series)).by_group, pl.DataFrame)


def test_bins_are_groups(many):
    truth, decision, columns = many
    found = interval_of((truth, decision, pd.cut(pd.Series(columns["age"]), [0, 30, 90, 120])))
    assert found.by_group["group"].tolist() == ["(0, 30]", "(30, 90]", "(90, 120]"]
    assert found.by_group["n"].tolist() == [int((columns["age"] < 30).sum()), int((columns["age"] > 30).sum()), 0]
    assert "group '(90, 120]' has no evaluation row" in found.reason


def test_a_hundred_groups_are_compared_and_more_are_refused():
    rng = np.random.default_rng(8)
    truth, decision, group = rng.integers(2, size=3000), rng.integers(2, size=3000), np.arange(3000)
    found = interval_of((truth, decision, group % 100))
    assert len(found.by_pair) == 4950
    with pytest.raises(ValueError, match="holds 101 different values, and at most 100"):
        interval_of((truth, decision, group % 101))


@pytest.mark.parametrize("method", METHODS)
def test_the_published_interval_is_of_the_replicates_largest_gaps(many, method):
    truth, decision, columns = many
    found = interval_of((truth, decision, columns["age"]), method=method, random_state=3)
    assert found.low <= found.estimate <= found.high
    codes = Groups.of(as_columns(columns["age"])).codes(as_columns(columns["age"]))
    fit, rates = count_decisions(decision, truth, codes, (3,)), CRITERIA["demographic_parity"].rates
    rates_b = reweigh(rates, repeated(fit.rows, 201), seed=3)[:, 0]
    printed = limits(found.estimate, rates_b.max(axis=1) - rates_b.min(axis=1), 0.95, "percentile")
    assert ((found.low, found.high) == pytest.approx(printed)) == (method == "paper")


# -- Ratios ---------------------------------------------------------------------------------------------------------


@every_ratio
def test_a_ratio_is_the_smaller_rate_over_the_larger(many, metric):
    found = interval_of(many, metric=metric)
    rates = found.by_group.groupby(["column", *(["metric"] if "metric" in found.by_group else [])])["rate"]
    assert found.metric == metric
    assert found.estimate == pytest.approx((rates.min() / rates.max()).min(), rel=1e-12)
    assert found.estimate == pytest.approx(np.exp(-abs(found.gap)))
    assert 0.0 <= found.low <= found.estimate <= found.high <= 1.0


@pytest.mark.parametrize("name", SINGLE)
def test_a_ratio_of_two_groups_is_folded_from_the_logarithms(rows, name):
    found = interval_of(rows, metric=f"{name}_ratio")
    low, high = fold(found.gap_low, found.gap_high)
    assert (found.low, found.high) == pytest.approx((np.exp(-high), np.exp(-low)))
    assert "the logarithm of" in found.sentence
    assert "the smaller rate over the larger" in found.sentence
    assert f"ratio {found.estimate:.4f} [{found.low:.4f}, {found.high:.4f}]" in repr(found)
    assert f"ratio {found.estimate:.4f}, interval [{found.low:.4f}, {found.high:.4f}]." in str(found)


@pytest.mark.parametrize("method", METHODS[:3])
@pytest.mark.parametrize("n", [30, 2000])
def test_a_rate_of_zero_against_another_is_a_ratio_of_zero(method, n):
    for counted in ([0, n // 2], [n // 2, 0], [0, n // 2, n // 2]):
        found = from_counts(decided(counted, [n] * len(counted)), "demographic_parity_ratio", method=method)
        assert (found.estimate, found.low, found.reason) == (0.0, 0.0, "")
        assert found.gap == (-np.inf if counted[0] == 0 else np.inf)
        assert np.isinf(found.gap_low if counted[0] == 0 else found.gap_high)
        assert found.high > 0.0
        assert found.high < 1.0 or method == "basic"  # which mirrors the long tail of a rate near 0
        back = json.loads(json.dumps(found.to_dict(), allow_nan=False))
        assert back["gap"] is None


@every_method
def test_zero_over_zero_is_undefined(method):
    found = from_counts(decided([0, 0], [50, 50]), "demographic_parity_ratio", method=method)
    assert np.isnan(found.estimate)
    assert (found.low, found.high, found.gap_low, found.gap_high) == (0.0, 1.0, -np.inf, np.inf)
    assert "0 over 0 is undefined" in found.reason
    assert found.by_group["high"].max() < 0.1
    partly = from_counts(decided([0, 0, 25], [50, 50, 50]), "demographic_parity_ratio", method=method)
    assert (partly.estimate, partly.low) == (0.0, 0.0)
    assert partly.high < 0.8
    assert "0 over 0 is undefined" in partly.reason


@every_method
@pytest.mark.parametrize("n_groups", [2, 3])
def test_replicates_that_reach_zero_leave_a_ratio_open(method, n_groups):
    rates_b = np.full((40, 1, n_groups), 0.4)
    rates_b[:, 0, 0] = np.linspace(0.3, 0.5, 40)
    rates_b[:10, 0, 0] = 0.0
    found = from_counts(
        decided([40] * n_groups, [100] * n_groups), "demographic_parity_ratio", "training", rates_b, method=method
    )
    assert -np.inf in (found.gap_low, -found.gap_high)
    assert found.low == 0.0
    assert found.reason == ""


def test_equalized_odds_by_ratio_compares_true_positives(many):
    found = interval_of(many, metric="equalized_odds_ratio")
    assert set(found.by_group["metric"]) == {"false_positive_rate", "true_positive_rate"}
    assert set(interval_of(many, metric="equalized_odds").by_group["metric"]) == {
        "false_positive_rate",
        "false_negative_rate",
    }


def test_a_metric_is_a_name_or_a_criterion():
    criterion = CRITERIA["error_rate"]
    assert get_metric(criterion) == get_metric("error_rate") == (criterion, False)
    assert get_metric("error_rate_ratio") == (criterion, True)
    with pytest.raises(ValueError, match=r"Did you mean 'error_rate_ratio'.*'error_rate', .*'equalized_odds_ratio'"):
        get_metric("error_rates_ratio")


def test_a_criterion_of_ones_own_is_measured(rows):
    rate = Rate("agreement", "share of decisions that are true", ((0, 0), (1, 1)), ((0, 0), (0, 1), (1, 0), (1, 1)))
    found = interval_of(rows, metric=Criterion("agreement", (rate,), Slabs))
    assert found.gap == pytest.approx(-interval_of(rows, metric="error_rate").gap)


# -- Few rows -------------------------------------------------------------------------------------------------------


def plain_clopper_pearson(x, n, level=0.95):
    tail = (1.0 - level) / 2.0
    low = 0.0 if x == 0 else beta.ppf(tail, x, n - x + 1)
    high = 1.0 if x == n else beta.ppf(1.0 - tail, x + 1, n - x)
    return low, high


@pytest.mark.parametrize("n", [1, 3, 20, 500])
def test_a_rate_of_few_rows_has_the_exact_limits(n):
    for x in {0, 1, n // 2, n}:
        found = from_counts(decided([x, 150], [n, 300]), n_replicates=4000)
        limits_found = found.by_group[["low", "high"]].iloc[0].tolist()
        if min(x, n - x) < FEW:
            assert limits_found == pytest.approx(plain_clopper_pearson(x, n), abs=1e-9)
        else:
            assert limits_found == pytest.approx(beta.ppf([0.025, 0.975], x + 0.5, n - x + 0.5), abs=0.005)


def test_a_gap_with_a_rate_of_few_rows_is_made_of_exact_limits():
    found = from_counts(decided([1, 150], [3, 300]), n_replicates=4000)
    (l1, u1), (l2, u2) = plain_clopper_pearson(1, 3), beta.ppf([0.025, 0.975], 150.5, 150.5)
    gap = 1 / 3 - 0.5
    assert found.gap_low == pytest.approx(gap - np.hypot(1 / 3 - l1, u2 - 0.5), abs=1e-9)
    assert found.gap_high == pytest.approx(gap + np.hypot(u1 - 1 / 3, 0.5 - l2), abs=1e-9)


def test_many_rows_of_little_weight_are_few():
    # 400 rows in the first group, and one of them with all the weight
    group, decision = np.repeat([0, 1], 400), np.tile([0, 1], 400)
    weight = np.where(np.arange(800) == 0, 1e6, 1.0)
    low, high = interval_of((decision, decision, group), sample_weight=weight).by_group[["low", "high"]].iloc[0]
    assert low < 1e-9
    assert high > 0.9


def test_training_alone_needs_no_exact_limits():
    rates_b = 0.5 + 0.001 * np.random.default_rng(9).normal(size=(99, 1, 2))
    for source in ("training", "retraining"):
        found = from_counts(decided([1, 1], [2, 2]), source=source, rates_b=rates_b)
        assert found.gap_high - found.gap_low < 0.01


@pytest.mark.parametrize("metric", ["demographic_parity", "demographic_parity_ratio"])
@pytest.mark.parametrize("n", [(60, 3), (4, 4), (20, 20)])
def test_intervals_of_few_rows_cover(metric, n):
    # exactly: the interval of every possible outcome, weighted by its probability
    outcomes = np.stack(np.meshgrid(*(np.arange(rows + 1) for rows in n), indexing="ij"), axis=-1)
    ends = np.empty((*outcomes.shape[:2], 2))
    for x in np.ndindex(outcomes.shape[:2]):
        found = from_counts(decided(x, n), metric, seed=x[0] * 100 + x[1], n_replicates=200)
        ends[x] = found.gap_low, found.gap_high
    for p in (0.02, 0.1, 0.3, 0.5, 0.8, 0.97):
        for q in (0.02, 0.2, 0.5, 0.9):
            gap = np.log(p / q) if metric.endswith("ratio") else p - q
            covers = (ends[..., 0] <= gap) & (gap <= ends[..., 1])
            law = binom.pmf(np.arange(n[0] + 1), n[0], p), binom.pmf(np.arange(n[1] + 1), n[1], q)
            assert law[0] @ covers @ law[1] >= 0.92


# -- Refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"metric": "demografic_parity"}, "Unknown metric: 'demografic_parity'. Did you mean 'demographic_parity'?"),
        ({"metric": "zzz"}, "Unknown metric: 'zzz'. Known: 'demographic_parity'.*'error_rate_ratio'"),
        ({"threshold": np.nan}, "threshold must be a finite number.* received nan"),
        ({"threshold": "half"}, "threshold must be a finite number.* received 'half'"),
        ({"intersections": True}, "Intersections need two or more sensitive columns"),
        ({"sample_weight": np.zeros(300)}, "sample_weight is zero in every row"),
        ({"sample_weight": -np.ones(300)}, "sample_weight is negative in row 0"),
        ({"sample_weight": [1.0]}, "sample_weight has 1 entries, and there are 300 rows"),
        ({"sample_weight": np.full(300, np.inf)}, "sample_weight is infinite in row 0"),
        ({"random_state": -1}, "random_state must be None or a whole number"),
        ({"metric": 3}, "Unknown metric: 3"),
        ({"method": "percentil"}, "Unknown method: 'percentil'. Did you mean 'percentile'?"),
        ({"confidence_level": 0.0}, "confidence_level must lie strictly between 0 and 1.* received 0.0"),
        ({"confidence_level": 1.0}, "confidence_level must .* received 1.0"),
        ({"confidence_level": 95}, "confidence_level must .* received 95"),
        ({"confidence_level": np.nan}, "confidence_level must .* received nan"),
        ({"n_replicates": 1}, "2 or larger; received 1"),
        ({"pos_label": "yes"}, r"pos_label='yes' is not among the labels \[0, 1\]"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_options_that_mean_nothing_are_refused(rows, option, message):
    with pytest.raises(ValueError, match=message):
        interval_of(rows, **option)


@pytest.mark.parametrize(
    ("y_true", "y_pred", "group", "message"),
    [
        ([0, 1, 1], [0, 1], ["a", "b"], "inconsistent numbers of samples: y_true has 3, y_pred has 2"),
        ([0, 1], [0, 1], ["a"], "sensitive_features has 1"),
        ([], [], [], "no evaluation rows"),
        ([0, 1], [0, 1], ["a", "a"], "The group column holds 1 group only, 'a'"),
        ([0, 1], [0, 1], {"sex": ["a", "b"], "age": [1, 1]}, "The sensitive column 'age' holds 1 group only, 1"),
        ([0, 1], [0, 1], np.array([["a", "b"], ["c", "d"]]), "pass a data frame or a dict of columns"),
        ([0, 1], [0.2, 0.8], ["a", "b"], "together hold 4 values; if y_pred are scores .* pass threshold=0.5"),
        ([0, 0], [0, 0], ["a", "b"], "Exactly two labels are needed; received 1"),
        ([0, np.nan], [0, 1], ["a", "b"], "label column contains NaN"),
        ([0, 1], [0, 1], ["a", None], "group column contains NaN or missing"),
    ],
)
def test_rows_that_cannot_be_measured_are_refused(y_true, y_pred, group, message):
    with pytest.raises(ValueError, match=message):
        sf.fairness_interval(y_true, y_pred, sensitive_features=group)


# -- Scores ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("series", [list, np.array, pd.Series, pl.Series])
@pytest.mark.parametrize("labels", [["no", "yes"], [0, 1]])
def test_scores_become_decisions_at_the_threshold(rows, series, labels):
    truth, decision, group = rows
    scores = np.where(decision == 1, 0.5, 0.49)  # a score at the threshold is a positive decision
    named = np.array(labels)[truth]
    found = sf.fairness_interval(named, series(scores), sensitive_features=group, n_replicates=200, threshold=0.5)
    assert numbers(found) == numbers(interval_of(rows))
    flipped = sf.fairness_interval(
        named, scores, sensitive_features=group, threshold=0.5, metric="false_positive_rate", pos_label=labels[0]
    )
    assert flipped.by_group["n"].tolist() == [int((truth[group == g] == 1).sum()) for g in (0, 1)]


def test_a_threshold_needs_scores(rows):
    truth, _, group = rows
    with pytest.raises(
        ValueError, match=r"y_pred must be numbers; received \['a', 'a', 'a'\].*Leave the threshold out"
    ):
        sf.fairness_interval(truth, ["a"] * 300, sensitive_features=group, threshold=0.5)
    with pytest.raises(ValueError, match="score column contains NaN"):
        sf.fairness_interval(truth, [np.nan] * 300, sensitive_features=group, threshold=0.5)
    with pytest.raises(ValueError, match="Exactly two labels are needed; received 3"):
        sf.fairness_interval([0, 1, 2] * 100, np.zeros(300), sensitive_features=group, threshold=0.5)


# -- What both halves of the evaluation rows show ---------------------------------------------------------------------


def halved(apart, noise, n_replicates=4000):
    """Rates of two groups that move together, apart, and by the noise of the rows of each half; fit first."""
    rng = np.random.default_rng(0)
    moves = rng.normal(size=(n_replicates, 1)) * 0.05 + apart * rng.normal(size=(n_replicates, 1)) * [0.5, -0.5]
    halves = moves + noise * rng.normal(size=(2, n_replicates, 2))
    halves = np.array([0.4, 0.5]) + np.concatenate([np.zeros((2, 1, 2)), halves], axis=1)
    return halves.mean(axis=0)[:, None], halves[:, :, None]


TWO = Groups.of(as_columns(np.array([0, 1])))


@pytest.mark.parametrize("apart", [0.0, 0.01, 0.03])
@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_gaps_spread_as_both_halves_show(apart, noise):
    trained, halves = halved(apart, noise)
    found = settled(trained, halves, TWO)[:, 0]
    gap = found[:, 0] - found[:, 1]
    assert gap.std() == pytest.approx(apart, rel=0.05, abs=0.006)
    assert (trained[1:, 0, 0] - trained[1:, 0, 1]).std() == pytest.approx(np.hypot(apart, noise), rel=0.05)
    assert found.mean(axis=1).std() == pytest.approx(trained[1:, 0].mean(axis=1).std())  # together as before


def test_an_undefined_rate_leaves_those_of_other_groups_alone():
    trained, halves = halved(0.02, 0.01, 200)
    third = np.full_like(trained[..., :1], np.nan)
    three = Groups.of(as_columns(np.array([0, 1, 2])))
    found = settled(np.concatenate([trained, third], axis=-1), np.concatenate([halves, [third] * 2], axis=-1), three)
    np.testing.assert_allclose(found[..., :2], settled(trained, halves, TWO))
    assert np.isnan(found[..., 2]).all()


def test_a_group_without_evaluation_rows_leaves_the_total_of_others_alone():
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(3000, 2)), rng.choice(list("abc"), 3000)
    y = X[:, 0] + rng.normal(size=3000) > 0.0
    clf = sf.FairClassifier(criterion=None, random_state=0).fit(X, y, sensitive_features=group)
    some = group != "c"
    table = clf.fairness_interval(
        X[some], y[some], sensitive_features=group[some], metric="demographic_parity"
    ).by_group
    for name in "ab":
        row = table[table["group"] == name].iloc[0]
        assert 0.0 < row["rate"] - row["low"] < 0.2
        assert 0.0 < row["high"] - row["rate"] < 0.2
    assert (table["low"].iloc[2], table["high"].iloc[2]) == (0.0, 1.0)
