"""Counts along a stream, and the anytime intervals that follow from them."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import surefair as sf
from surefair.criteria import CRITERIA
from surefair.inference.limits import Pairs
from surefair.inference.stretches import FIRST, Stretches
from surefair.rows import Groups, Levels

PARITY = CRITERIA["demographic_parity"].rates
ODDS = CRITERIA["equalized_odds"].rates


def groups_of(*values):
    return Groups({None: Levels(np.array(values), "group")})


def sample(n, shares=(0.7, 0.3), seed=0):
    rng = np.random.default_rng(seed)
    code = rng.choice(len(shares), size=n, p=shares)
    return code[:, None], rng.integers(2, size=n), (rng.random(n) < 0.3 + 0.2 * (code == 0)).astype(int)


def same(a, b):
    return a.pack()[0] == b.pack()[0] and all(
        np.array_equal(a.pack()[1][name], b.pack()[1][name]) for name in a.pack()[1]
    )


def test_batches_do_not_matter():
    rows = sample(1000)
    start = Stretches.of(ODDS, groups_of("a", "b"))
    whole = start.add(*rows)
    parts = start
    cuts = [0, 1, 63, 64, 65, 130, 131, 700, 1000]
    for low, high in pairwise(cuts):
        parts = parts.add(*(part[low:high] for part in rows))
    assert same(whole, parts)


def test_shares_are_learnt_from_the_rows_before():
    found = Stretches.of(PARITY, groups_of("a", "b")).add(*sample(10_000, (0.9, 0.1)))
    share = found.pair_counts(Pairs.of(found.groups, False)).share[0, 0]
    assert share[0] == 0.5  # of the first rows
    assert share[found.current] == pytest.approx(0.9, abs=0.01)
    assert found.tables[found.current].sum() > 5_000
    assert len(found.tables) < 8


def test_there_is_no_interval_before_the_first_rows():
    code, _, decision = sample(FIRST - 1)
    early = sf.fairness_interval(None, decision, sensitive_features=code[:, 0], anytime=True)
    assert (early.low, early.high) == (0.0, 1.0)
    assert "before 64 rows" in early.reason
    assert early.verdict(0.5) == "not enough evidence"


def test_a_stream_sorted_by_group_waits_for_the_second_group():
    start = Stretches.of(PARITY, groups_of("a", "b"))
    zeros = np.zeros(500, dtype=int)
    alone = start.add(zeros[:, None], zeros, zeros)
    assert not alone.is_settled
    few = alone.add(zeros[:11, None] + 1, zeros[:11], zeros[:11])
    assert not few.is_settled  # until shares are looked at again, at 512 rows
    both = few.add(zeros[11:, None] + 1, zeros[11:], zeros[11:])
    assert both.is_settled
    assert same(both, start.add(np.repeat([0, 1], 500)[:, None], np.zeros(1000, dtype=int), np.zeros(1000, dtype=int)))


def test_error_probabilities_add_up_whenever_groups_appear():
    start = Stretches.of(PARITY, groups_of(*"abcdef"))
    codes = np.r_[np.arange(100) % 3, np.full(50, 3), np.full(50, 4), np.arange(100) % 6]
    found, largest = start, 0.0
    pairs = Pairs.of(start.groups, False)
    for code in codes:
        found = found.add(np.array([[code]]), np.array([0]), np.array([0]))
        if found.is_settled:
            largest = np.maximum(largest, found.pair_weights(pairs))
    assert found.seen == (0, 1, 2, 3, 4, 5)
    assert found.n_first == 3
    assert 0.98 < largest.sum() <= 1.0
    assert (largest > 0).all()


def test_streams_merge():
    a, b = sample(900, seed=1), sample(700, seed=2)
    start = Stretches.of(PARITY, groups_of("a", "b"))
    merged = start.add(*a).merge(start.add(*b))
    assert merged.n == 1600
    assert np.array_equal(merged.total, start.add(*a).total + start.add(*b).total)
    other = Stretches.of(PARITY, groups_of("b", "c")).add(*b)
    wider = start.add(*a).merge(other)
    assert wider.groups.labels == [(None, "a"), (None, "b"), (None, "c")]
    assert wider.n_first == 2  # c came later
    assert wider.total[1:].sum() == start.add(*a).total[1].sum() + 700


def test_counts_are_saved_and_damaged_ones_refused():
    found = Stretches.of(ODDS, groups_of("a", "b")).add(*sample(300))
    meta, arrays = found.pack()
    assert same(found, Stretches.unpack(ODDS, meta, arrays))
    with pytest.raises(ValueError, match="add up to 301 rows"):
        Stretches.unpack(ODDS, meta | {"n": 301}, arrays)
    with pytest.raises(ValueError, match="'tables' must"):
        Stretches.unpack(ODDS, meta, arrays | {"tables": -arrays["tables"]})


@pytest.mark.parametrize("metric", ["demographic_parity", "precision", "equalized_odds", "true_positive_rate_ratio"])
def test_intervals_contain_the_estimate_and_are_wider_than_fixed_ones(metric):
    code, truth, decision = sample(4000)
    given = {"sensitive_features": np.array(["x", "y"])[code[:, 0]], "metric": metric}
    anytime = sf.fairness_interval(truth, decision, anytime=True, **given)
    fixed = sf.fairness_interval(truth, decision, **given)
    assert anytime.gap == fixed.gap
    assert anytime.gap_low < fixed.gap_low < fixed.gap < fixed.gap_high < anytime.gap_high
    assert anytime.method == "anytime"
    assert "holds at all times" in anytime.sentence
    assert "exact" in anytime.sentence
    for table in (anytime.by_group, anytime.by_pair):
        assert (table["low"] <= table["high"]).all()


def test_several_columns_and_their_intersections():
    code, truth, decision = sample(4000)
    frame = pd.DataFrame({"sex": np.array(["f", "m"])[code[:, 0]], "age": np.where(truth, "old", "young")})
    found = sf.fairness_interval(None, decision, sensitive_features=frame, intersections=True, anytime=True)
    assert set(found.by_pair["column"]) == {"sex", "age", "sex × age"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sample_weight": np.ones(100)}, "with sample_weight: it is exact only"),
        ({"clusters": np.arange(100)}, "with clusters: rows of one cluster"),
        ({"strata": np.arange(100) % 2}, "with strata"),
        ({"metric": "auc"}, "for the metric 'auc', because it looks at scores"),
        ({"method": "basic"}, "do not depend on the method"),
    ],
)
def test_what_is_not_valid_is_refused(given, message):
    decision = np.arange(100) % 2
    with pytest.raises(ValueError, match=message):
        sf.fairness_interval(decision, decision, sensitive_features=np.arange(100) // 50, anytime=True, **given)


@pytest.fixture(scope="module")
def trained():
    train, test = sf.datasets.SyntheticDI(seed=0).sample(4000), sf.datasets.SyntheticDI(seed=1).sample(3000)
    clf = sf.FairClassifier(random_state=0, n_replicates=100).fit(train.X, train.y, sensitive_features=train.sensitive)
    return clf, {"X": test.X, "y": test.y, "sensitive_features": test.sensitive}


def test_the_decisions_of_a_fixed_classifier_have_an_exact_sequence(trained):
    clf, rows = trained
    found = clf.fairness_interval(**rows, source="evaluation", anytime=True)
    decided = sf.fairness_interval(
        rows["y"], clf.predict(rows["X"]), sensitive_features=rows["sensitive_features"], anytime=True
    )
    assert (found.gap_low, found.gap_high) == (decided.gap_low, decided.gap_high)
    assert found.method == "anytime"


@pytest.mark.parametrize("source", ["training", "total"])
def test_a_classifier_in_training_has_an_asymptotic_sequence(trained, source):
    clf, rows = trained
    anytime, fixed = (clf.fairness_interval(**rows, source=source, anytime=one) for one in (True, False))
    assert anytime.method == "anytime_asymptotic"
    assert "approximation for many rows" in anytime.sentence
    times = (anytime.gap_high - anytime.gap_low) / (fixed.gap_high - fixed.gap_low)
    assert 1.3 < times < 2.2


def test_there_is_no_sequence_for_a_model_trained_again(trained):
    clf, rows = trained
    with pytest.raises(ValueError, match="no anytime interval for source='retraining'"):
        clf.fairness_interval(**rows, source="retraining", anytime=True)
    with pytest.raises(ValueError, match="with sample_weight"):
        clf.fairness_interval(**rows, sample_weight=np.ones(3000), source="evaluation", anytime=True)
