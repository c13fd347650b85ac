"""What an interval says: limits, tables, ratios, sentences, and what it does with few rows or none."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binom
from scipy.stats import t as student_t

import surefair as sf
from surefair.criteria import CRITERIA, Criterion, Rate, Slabs
from surefair.diagnostics import TooFewReplicates
from surefair.inference.counts import Counts, count_decisions, rates_of
from surefair.inference.interval import Context, Question, make_interval
from surefair.inference.limits import FEW, METHODS, fold, limits
from surefair.inference.metric import get_metric
from surefair.inference.sources import SOURCES, reweigh
from surefair.rows import Groups, as_columns

LIMITS = ("low", "high", "gap_low", "gap_high")
SPREADS = ("spread_training", "spread_evaluation")
OF_PAIRS = ("gap", "low", "high", *SPREADS)
RATIOS = [f"{name}_ratio" for name in CRITERIA]
SINGLE = [name for name, criterion in CRITERIA.items() if len(criterion.rates) == 1]

every_metric = pytest.mark.parametrize("metric", CRITERIA)
every_ratio = pytest.mark.parametrize("metric", RATIOS)
every_metric_and_ratio = pytest.mark.parametrize("metric", [*CRITERIA, *RATIOS])
every_method = pytest.mark.parametrize("method", METHODS)


def interval_of(rows, **options):
    truth, decision, group = rows
    return sf.fairness_interval(truth, decision, sensitive_features=group, **({"n_replicates": 200} | options))


def from_counts(
    tables,
    metric="demographic_parity",
    source="evaluation",
    rates_b=None,
    *,
    method="percentile",
    confidence_level=0.95,
    n_replicates=500,
    seed=0,
    groups=None,
    **context,
):
    """Interval from counts, shape (groups, truth, decision)."""
    tables = np.array(tables, dtype=float)
    metric = get_metric(metric)
    if rates_b is None:
        rates_b = reweigh(metric.rates, repeated(tables, 1 + n_replicates), seed)
    names = groups or [f"g{i}" for i in range(len(tables))]
    return make_interval(
        Question(metric, source, method, confidence_level),
        Counts(tables, tables, tables),
        Groups.of(as_columns(names)),
        rates_b,
        context=Context(**context),
    )


def repeated(tables, times):
    tables = np.asarray(tables, dtype=float)
    return Counts(*[np.broadcast_to(tables, (times, *tables.shape))] * 3)


def decided(counted, n):
    """Counts for groups with this many positive decisions among n rows, all with a negative label."""
    return [[[rows - x, x], [0, 0]] for x, rows in zip(counted, n, strict=True)]


def numbers(interval):
    return tuple(getattr(interval, name) for name in ("estimate", "gap", *LIMITS))


# -- One gap, by every method ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", SINGLE)
@every_method
def test_the_limits_of_one_gap_come_from_its_replicates_by_the_method(rows, metric, method):
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
    # an undefined pair does not take a share of the level
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
    # equal replicates claim that nothing is uncertain
    tables, rates_b = decided([4] * n_groups, [12] * n_groups), np.full((2, 1, n_groups), 1.0 / 3.0)
    found = from_counts(tables, metric, rates_b=rates_b, method="cheap")
    low, high = plain_clopper_pearson(4, 12)
    assert found.by_group[["low", "high"]].iloc[0].tolist() == pytest.approx([low, high])
    l1, u1 = plain_clopper_pearson(4, 12, 1.0 - 0.05 / len(found.by_pair))
    scale = np.log if metric.endswith("ratio") else float
    assert found.gap_high == pytest.approx(np.hypot(scale(u1) - scale(1 / 3), scale(1 / 3) - scale(l1)))
    assert found.gap_low == pytest.approx(-found.gap_high)


@pytest.mark.parametrize(
    ("level", "method", "n_groups", "needed"),
    [
        (0.95, "percentile", 2, 39), (0.95, "basic", 3, 39), (0.9, "percentile", 2, 19), (0.99, "basic", 2, 199),
        (0.95, "normal", 3, 19), (0.95, "normal", 2, 2), (0.95, "cheap", 2, 2), (0.99, "cheap", 3, 2),
    ],
)  # fmt: skip
def test_a_diagnostic_reports_too_few_replicates_for_the_level(level, method, n_groups, needed):
    tables = decided([50] * n_groups, [100] * n_groups)
    options = {"method": method, "confidence_level": level}
    assert from_counts(tables, n_replicates=needed, **options).diagnostics == ()
    if needed > 2:
        (found,) = from_counts(tables, n_replicates=needed - 1, **options).diagnostics
        words = f"{needed - 1} replicates are too few for a {method} interval at level {level}, which needs {needed}"
        assert isinstance(found, TooFewReplicates)
        assert found.message.startswith(words)
        assert (found.statistic, found.threshold) == (needed - 1, needed)


@every_method
def test_a_higher_level_gives_a_wider_interval(rows, method):
    narrow, wide = (interval_of(rows, method=method, confidence_level=level) for level in (0.8, 0.99))
    assert wide.gap_low < narrow.gap_low < narrow.gap_high < wide.gap_high
    assert wide.low <= narrow.low <= narrow.high <= wide.high


@every_metric
def test_limits_stay_between_the_smallest_and_largest_possible_gap(metric):
    truth, group = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    for method in METHODS:
        for decision in ([0, 1, 0, 1], [1, 0, 1, 0], [1, 1, 1, 1]):
            found = interval_of((truth, np.array(decision), group), metric=metric, method=method, pos_label=1)
            assert -1.0 <= found.gap_low <= found.gap_high <= 1.0
            assert 0.0 <= found.low <= found.high <= 1.0
            assert found.by_group["low"].min() >= 0.0
            assert found.by_group["high"].max() <= 1.0


# -- What cannot be measured -------------------------------------------------------------------------------------------


@every_method
@pytest.mark.parametrize(
    ("metric", "truth"), [("false_positive_rate", 1), ("false_negative_rate", 0)], ids=["no negatives", "no positives"]
)
def test_an_undefined_rate_gives_the_whole_range_and_a_reason(rows, method, metric, truth):
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
def test_a_rate_that_is_undefined_in_some_replicates_gives_the_whole_range(method):
    fit = np.full((2, 2, 2), 5)
    replicates = repeated(fit, 30).rows.copy()
    replicates[3, 1, :, 1] = 0  # one replicate decides nothing positive in the second group
    rates_b = rates_of(CRITERIA["false_discovery_rate"].rates, Counts(*[replicates] * 3))
    found = from_counts(fit, "false_discovery_rate", source="training", rates_b=rates_b, method=method)
    assert (found.low, found.high, found.gap_low, found.gap_high) == (0.0, 1.0, -1.0, 1.0)
    assert "undefined in some replicates" in found.reason
    assert found.estimate == 0.0


@every_method
def test_a_diverged_fit_gives_the_whole_range(method):
    found = from_counts(np.full((3, 2, 2), 50), trouble="it diverged", method=method)
    assert (found.estimate, found.low, found.high, found.reason) == (0.0, 0.0, 1.0, "it diverged")
    for frame, least in ((found.by_group, 0.0), (found.by_pair, -1.0)):
        assert frame["low"].tolist() == [least] * 3
        assert frame["high"].tolist() == [1.0] * 3


@every_method
@pytest.mark.parametrize("metric", ["demographic_parity", "demographic_parity_ratio"])
def test_a_group_without_rows_does_not_affect_the_gaps_of_the_others(method, metric):
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
    assert "(the same is true of 2 other groups)" in found.reason


@settings(max_examples=30)
@given(
    n=st.lists(st.sampled_from([0, 1, 3, 40]), min_size=2, max_size=5),
    metric=st.sampled_from([*CRITERIA, *RATIOS]),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_declared_group_is_in_the_tables_with_its_counts(n, metric, seed):
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(len(n)), n)
    columns = pd.Series(pd.Categorical.from_codes(group, [f"g{i}" for i in range(len(n))]))
    if sum(n) == 0:
        return
    truth, decision = rng.integers(2, size=(2, sum(n)))
    found = interval_of((truth, decision, columns), metric=metric, pos_label=1, n_replicates=50)
    rates = get_metric(metric).rates
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


# -- Results -----------------------------------------------------------------------------------------------------------


@every_metric
def test_to_dict_survives_json(rows, metric):
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


class _Page(HTMLParser):
    """Collects the tags and the text of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        assert not attrs
        self.tags.add(tag)

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize("metric", ["demographic_parity", "demographic_parity_ratio"])
def test_notebooks_show_names_of_groups_as_text_not_as_html(metric):
    names = ["<b>&amp;", '"<script>alert(1)</script>']
    found = from_counts(decided([2, 5], [10, 10]), metric, groups=names)
    page = _Page(found._repr_html_())
    assert page.tags == {"div", "p", "table", "tr", "th", "td"}
    assert all(repr(name) in page.text for name in names)
    assert found.sentence in page.text
    assert f"{found.estimate:.4f} [{found.low:.4f}, {found.high:.4f}]" in page.text
    (diagnostic,) = found.diagnostics  # few rows
    assert str(diagnostic) in page.text


def test_an_interval_cannot_be_changed(rows):
    found = interval_of(rows)
    with pytest.raises(AttributeError):
        found.low = 0.0
    assert replace(found, low=0.0).low == 0.0


@pytest.mark.parametrize("source", SOURCES)
def test_the_sentence_says_what_is_estimated(source):
    found = from_counts(
        np.full((2, 2, 2), 5), "error_rate", source, np.full((9, 1, 2), 0.5), groups=["x", "y"], confidence_level=0.9,
        notes="Group 'z' was not seen in training",
    )  # fmt: skip
    assert SOURCES[source].estimates in found.sentence
    assert found.sentence.startswith(
        f"The unfairness is 0.000 (90 % confidence interval {found.low:.3f} to {found.high:.3f}): the absolute gap, "
    )
    assert "\n" not in found.sentence
    assert (
        f"the gap is the {CRITERIA['error_rate'].rates[0].words} of group 'x' minus that of group 'y'" in found.sentence
    )
    assert found.sentence.endswith(f"is for {SOURCES[source].estimates}. Group 'z' was not seen in training.")


def test_the_sentence_about_a_ratio_says_what_parity_is(rows):
    assert interval_of(rows, metric="error_rate_ratio").sentence.startswith("The ratio of rates, where 1 is parity, is")


def test_the_sentence_names_the_pair_the_columns_and_the_rates(many):
    found = interval_of(many, metric="equalized_odds")
    assert "the largest absolute gap between any two groups of any of the columns 'sex', 'age'" in found.sentence
    assert "in any of the rates false_positive_rate, false_negative_rate" in found.sentence
    words = {rate.name: rate.words for rate in CRITERIA["equalized_odds"].rates}[found.rate]
    a, b = found.pair
    assert f"the {words} of group {a!r} of {found.column!r} minus that of group {b!r}." in found.sentence


# -- Many groups, several columns --------------------------------------------------------------------------------------


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
        # and each gap is covered about equally often
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
    rates = get_metric(metric).rates
    names = ["column", *["metric"] * (len(rates) > 1)]
    assert list(found.by_group.columns) == [*names, "group", "n", "rate", "low", "high"]
    assert list(found.by_pair.columns) == [*names, "first", "second", *OF_PAIRS]
    assert len(found.by_group) == len(rates) * (2 + 3 + 6)
    assert len(found.by_pair) == len(rates) * (1 + 3 + 15)
    assert set(found.by_group["column"]) == {"sex", "age", "sex × age"}
    assert found.by_group["group"].tolist()[:6] == ["f", "m", "20", "40", "60", "f × 20"]  # all of one type
    assert found.column == "sex × age"
    assert found.to_frame()["column"].tolist() == ["sex × age"]
    assert found.n == 2000
    assert found.by_group.groupby(names)["n"].sum().nunique() == len(rates)  # every row counts once in every column


FOUR = np.random.default_rng(7).integers(20, 200, size=(4, 2, 2))
of_four = cache(lambda metric: from_counts(FOUR, metric))


@every_metric_and_ratio
@given(order=st.permutations(range(4)))
def test_renaming_the_groups_changes_no_number(metric, order):
    plain, renamed = of_four(metric), from_counts(FOUR[np.array(order)], metric)
    for name in ("estimate", "low", "high"):
        assert getattr(renamed, name) == pytest.approx(getattr(plain, name), abs=1e-9)
    assert {order[int(g[1])] for g in renamed.pair} == {int(g[1]) for g in plain.pair}


def test_a_copy_of_a_column_only_widens_the_interval(rows):
    truth, decision, group = rows
    one, two = (interval_of((truth, decision, columns)) for columns in ({"a": group}, {"a": group, "b": group}))
    assert two.estimate == one.estimate
    assert two.low <= one.low
    assert two.high >= one.high


@pytest.mark.parametrize("method", METHODS)
def test_the_published_interval_takes_quantiles_of_the_largest_gaps_of_the_replicates(many, method):
    truth, decision, columns = many
    found = interval_of((truth, decision, columns["age"]), method=method, random_state=3)
    assert found.low <= found.estimate <= found.high
    codes = Groups.of(as_columns(columns["age"])).codes(as_columns(columns["age"]))
    fit, rates = count_decisions(decision, truth, codes, (3,)), CRITERIA["demographic_parity"].rates
    rates_b = reweigh(rates, repeated(fit.rows, 201), seed=3)[:, 0]
    printed = limits(found.estimate, rates_b.max(axis=1) - rates_b.min(axis=1), 0.95, "percentile")
    assert ((found.low, found.high) == pytest.approx(printed)) == (method == "paper")


# -- Ratios ------------------------------------------------------------------------------------------------------------


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
    assert "the smaller rate divided by the larger" in found.sentence
    assert f"ratio {found.estimate:.4f} [{found.low:.4f}, {found.high:.4f}]" in repr(found)
    assert f"is {found.estimate:.3f} (95 % confidence interval {found.low:.3f} to {found.high:.3f})" in str(found)
    assert f"Log ratio {found.gap:.4f}, interval [{found.gap_low:.4f}, {found.gap_high:.4f}]." in str(found)


@pytest.mark.parametrize("method", ["percentile", "basic", "normal"])
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


def test_a_criterion_that_the_user_defines_is_measured(rows):
    rate = Rate("agreement", "share of decisions that are true", ((0, 0), (1, 1)), ((0, 0), (0, 1), (1, 0), (1, 1)))
    found = interval_of(rows, metric=Criterion("agreement", (rate,), Slabs))
    assert found.gap == pytest.approx(-interval_of(rows, metric="error_rate").gap)


# -- Few rows ----------------------------------------------------------------------------------------------------------


def plain_clopper_pearson(x, n, level=0.95):
    tail = (1.0 - level) / 2.0
    low = 0.0 if x == 0 else beta.ppf(tail, x, n - x + 1)
    high = 1.0 if x == n else beta.ppf(1.0 - tail, x + 1, n - x)
    return low, high


@pytest.mark.parametrize("n", [1, 3, 20, 500])
def test_a_rate_of_few_rows_has_exact_limits(n):
    for x in {0, 1, n // 2, n}:
        found = from_counts(decided([x, 150], [n, 300]), n_replicates=4000)
        limits_found = found.by_group[["low", "high"]].iloc[0].tolist()
        if min(x, n - x) < FEW:
            assert limits_found == pytest.approx(plain_clopper_pearson(x, n), abs=1e-9)
        else:
            assert limits_found == pytest.approx(beta.ppf([0.025, 0.975], x + 0.5, n - x + 0.5), abs=0.005)


def test_the_limits_of_a_gap_combine_the_exact_limits_of_its_rates_if_rows_are_few():
    found = from_counts(decided([1, 150], [3, 300]), n_replicates=4000)
    (l1, u1), (l2, u2) = plain_clopper_pearson(1, 3), beta.ppf([0.025, 0.975], 150.5, 150.5)
    gap = 1 / 3 - 0.5
    assert found.gap_low == pytest.approx(gap - np.hypot(1 / 3 - l1, u2 - 0.5), abs=1e-9)
    assert found.gap_high == pytest.approx(gap + np.hypot(u1 - 1 / 3, 0.5 - l2), abs=1e-9)


def test_many_rows_of_little_weight_are_few():
    # one of the 400 rows in the first group has nearly all the weight
    group, decision = np.repeat([0, 1], 400), np.tile([0, 1], 400)
    weight = np.where(np.arange(800) == 0, 1e6, 1.0)
    low, high = interval_of((decision, decision, group), sample_weight=weight).by_group[["low", "high"]].iloc[0]
    assert low < 1e-9
    assert high > 0.9


def test_intervals_without_evaluation_noise_need_no_exact_limits():
    rates_b = 0.5 + 0.001 * np.random.default_rng(9).normal(size=(99, 1, 2))
    for source in ("training", "retraining"):
        found = from_counts(decided([1, 1], [2, 2]), source=source, rates_b=rates_b)
        assert found.gap_high - found.gap_low < 0.01


@pytest.mark.parametrize("metric", ["demographic_parity", "demographic_parity_ratio"])
@pytest.mark.parametrize("n", [(60, 3), (4, 4), (20, 20)])
def test_intervals_of_few_rows_cover(metric, n):
    # the exact coverage: the interval of every possible outcome, weighted by its probability
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
