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
from scipy.stats import beta, kstest

import surefair as sf
from surefair.counts import count_decisions
from surefair.criteria import CRITERIA, Criterion, Slab
from surefair.intervals import METHODS, SOURCES, fold, gap_interval, limits, reweigh

LIMITS = ("low", "high", "gap_low", "gap_high")

every_metric = pytest.mark.parametrize("metric", CRITERIA)
every_method = pytest.mark.parametrize("method", METHODS)


@pytest.fixture(scope="module")
def rows():
    """Truth, decision and group of 300 rows."""
    rng = np.random.default_rng(0)
    group, truth = rng.integers(2, size=(2, 300))
    decision = (rng.random(300) < 0.3 + 0.3 * truth + 0.15 * group).astype(int)
    return truth, decision, group


def interval_of(rows, **options):
    truth, decision, group = rows
    return sf.fairness_interval(truth, decision, sensitive_features=group, **({"n_replicates": 200} | options))


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
    middle, half = np.mean(found["normal"]), np.diff(found["normal"])[0] / 2.0
    z = {0.5: 0.6744898, 0.8: 1.2815516, 0.95: 1.9599640, 0.999: 3.2905267}[level]
    np.testing.assert_allclose((middle, half), (estimate, z * np.std(sample, ddof=1)), rtol=1e-6)


def test_limits_of_many_numbers_are_the_limits_of_each():
    rng = np.random.default_rng(1)
    estimates, samples = rng.normal(size=3), rng.normal(size=(50, 3))
    for method in METHODS[:3]:
        together = np.array(limits(estimates, samples, 0.9, method))
        each = [limits(estimates[j], samples[:, j], 0.9, method) for j in range(3)]
        np.testing.assert_allclose(together.T, each)


@every_metric
@every_method
def test_an_interval_is_made_of_its_replicates_by_the_method(rows, metric, method):
    truth, decision, group = rows
    criterion = CRITERIA[metric]
    fit = count_decisions(decision, truth, group, 2)
    rates_b = reweigh(criterion, np.broadcast_to(fit, (151, 2, 2, 2)), seed=9)
    found = interval_of(rows, metric=metric, method=method, n_replicates=150, random_state=9, confidence_level=0.9)
    rates = criterion.rates(fit)
    gap, gap_b = rates[0] - rates[1], rates_b[:, 0] - rates_b[:, 1]
    signed = limits(gap, gap_b, 0.9, "percentile" if method == "paper" else method)
    unfair = limits(abs(gap), abs(gap_b), 0.9, "percentile") if method == "paper" else fold(*signed)
    assert numbers(found) == pytest.approx((abs(gap), gap, *unfair, *signed))
    assert found.by_group["rate"].tolist() == pytest.approx(rates.tolist())
    assert found.by_group["n"].tolist() == criterion.tally(fit)[1].tolist()
    assert (found.metric, found.method, found.source, found.n) == (metric, method, "evaluation", 300)


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
    counts = np.array([[[0, 3], [40, 400]], [[1, 1], [2, 2]]])
    above, below = CRITERIA[metric].tally(counts)
    rates = reweigh(CRITERIA[metric], np.broadcast_to(counts, (4001, 2, 2, 2)), seed=1)
    for group in range(2):
        law = beta(above[group] + 0.5, below[group] - above[group] + 0.5)
        assert kstest(rates[:, group], law.cdf).pvalue > 1e-4


@given(seed=st.integers(0, 2**63 - 1), few=st.integers(1, 20))
def test_a_replicate_of_the_weights_does_not_depend_on_how_many_there_are(seed, few):
    counts, criterion = np.random.default_rng(seed).integers(50, size=(21, 2, 2, 2)), CRITERIA["error_rate"]
    assert np.array_equal(reweigh(criterion, counts[: 1 + few], seed), reweigh(criterion, counts, seed)[:few])


def test_groups_are_weighted_independently():
    rates = reweigh(CRITERIA["error_rate"], np.full((4001, 2, 2, 2), 10), seed=2)
    assert abs(np.corrcoef(rates.T)[0, 1]) <= 4.5 / np.sqrt(4000)


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
    assert renamed.by_group["group"].tolist() == groups
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
    criterion = Criterion(
        name="false_discovery_rate",
        rate="share of the truly negative among positive decisions",
        numerator=((0, 1),),
        denominator=((0, 1), (1, 1)),
        form=Slab,
    )
    fit = np.full((2, 2, 2), 5)
    replicates = np.repeat(fit[None], 30, axis=0)
    replicates[3, 1, :, 1] = 0  # one replicate decides nothing positive in the second group
    found = gap_interval(
        criterion,
        fit,
        criterion.rates(replicates),
        groups=["a", "b"],
        source="training",
        method=method,
        confidence_level=0.95,
    )
    assert (found.low, found.high, found.gap_low, found.gap_high) == (0.0, 1.0, -1.0, 1.0)
    assert "undefined in some replicates" in found.reason
    assert found.estimate == 0.0


# -- Results --------------------------------------------------------------------------------------------------------


@every_metric
def test_an_interval_goes_through_json_and_back(rows, metric):
    found = interval_of(rows, metric=metric)
    back = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert back == found.to_dict()
    assert [back[name] for name in LIMITS] == [getattr(found, name) for name in LIMITS]
    assert [set(row) for row in back["by_group"]] == [{"group", "n", "rate", "low", "high"}] * 2
    assert back["sentence"] == found.sentence
    assert f"{found.estimate:.4f}" in str(found)


@pytest.mark.parametrize("series", [pd.Series, pl.Series, lambda values: pa.chunked_array([values])])
def test_frames_come_in_the_library_of_the_groups(rows, series):
    truth, decision, group = rows
    column = series(np.array(["f", "m"])[group].tolist())
    found = sf.fairness_interval(truth, decision, sensitive_features=column, n_replicates=50)
    library = type(column).__module__.split(".")[0]
    for frame in (found.to_frame(), found.by_group):
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
    counts = np.full((2, 2, 2), 5)
    found = gap_interval(
        CRITERIA["error_rate"], counts, np.full((9, 2), 0.5), groups=["x", "y"], source=source,
        method="percentile", confidence_level=0.9,
    )  # fmt: skip
    assert SOURCES[source] in found.sentence
    assert "0.9 interval" in found.sentence
    assert CRITERIA["error_rate"].rate in found.sentence


# -- Refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"metric": "demografic_parity"}, "Unknown metric: 'demografic_parity'. Did you mean 'demographic_parity'?"),
        ({"metric": "zzz"}, "Unknown metric: 'zzz'. Known: 'demographic_parity'"),
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
        ([0, 1], [0, 1], ["a", "a"], "Exactly two groups are needed; received 1: 'a'"),
        ([0, 1, 0], [0, 1, 1], ["a", "b", "c"], "Exactly two groups are needed; received 3"),
        ([0, 1], [0.2, 0.8], ["a", "b"], "together hold 4 values"),
        ([0, 0], [0, 0], ["a", "b"], "Exactly two labels are needed; received 1"),
        ([0, np.nan], [0, 1], ["a", "b"], "label column contains NaN"),
        ([0, 1], [0, 1], ["a", None], "group column contains NaN or missing"),
    ],
)
def test_rows_that_cannot_be_measured_are_refused(y_true, y_pred, group, message):
    with pytest.raises(ValueError, match=message):
        sf.fairness_interval(y_true, y_pred, sensitive_features=group)
