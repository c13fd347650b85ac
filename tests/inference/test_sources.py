"""Counts of parts of the evaluation rows add up to the counts, and the intervals, of all of them."""

from __future__ import annotations

import json

import numpy as np
import pytest

import surefair as sf
from surefair.inference.sources import Tally

pytestmark = pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")

TRAIN, TEST = sf.datasets.SyntheticDI(seed=0).sample(3_000), sf.datasets.SyntheticDI(seed=1).sample(1_200)
SOURCES = ("total", "training", "retraining", "evaluation")
WORDS = np.array(["a", "longer"])[np.asarray(TEST.sensitive, dtype=int)]


@pytest.fixture(scope="module")
def clf():
    groups = np.array(["a", "longer"])[np.asarray(TRAIN.sensitive, dtype=int)]
    return sf.FairClassifier(random_state=0, n_replicates=60).fit(TRAIN.X, TRAIN.y, sensitive_features=groups)


def tallied(clf, rows, weight=None, groups=WORDS):
    return clf.tally(
        TEST.X[rows],
        TEST.y[rows],
        sensitive_features=groups[rows],
        sample_weight=None if weight is None else weight[rows],
    )


def same(one, two):
    assert {*one.parts} == {*two.parts}
    for source in one.parts:
        for a, b in zip(one.counts(source), two.counts(source), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("metric", ["demographic_parity", "equalized_odds", "error_rate_ratio"])
def test_one_tally_gives_the_interval_of_the_rows(clf, source, metric):
    whole = tallied(clf, slice(None))
    expected = clf.fairness_interval(TEST.X, TEST.y, sensitive_features=WORDS, metric=metric, source=source)
    assert clf.tallied_interval(whole, metric=metric, source=source).to_dict() == expected.to_dict()


@pytest.mark.parametrize("weight", [None, np.arange(1_200) % 4])
@pytest.mark.parametrize("cuts", [[600], [1, 2, 1_199], [0, 500]])
def test_parts_add(clf, cuts, weight):
    parts = [tallied(clf, slice(*ends), weight) for ends in zip([0, *cuts], [*cuts, 1_200], strict=True)]
    whole, summed = tallied(clf, slice(None), weight), sum(parts)
    same(whole, summed)
    np.testing.assert_allclose(summed.near, whole.near, rtol=1e-12)
    for source in ("training", "retraining", "evaluation"):  # of source total, halves are drawn in each part
        one, two = (clf.tallied_interval(tally, source=source).to_dict() for tally in (whole, summed))
        assert one == two
    one, two = (clf.tallied_interval(tally) for tally in (whole, summed))
    assert one.estimate == two.estimate
    assert abs(one.high - two.high) < 0.25 * (one.high - one.low)


def test_addition_is_commutative_and_associative(clf):
    a, b, c = (tallied(clf, slice(i, None, 3)) for i in range(3))
    for other in (b + (a + c), (c + b) + a):
        same(a + b + c, other)
        np.testing.assert_array_equal((a + b + c).near[:, 1], other.near[:, 1])


def test_rows_without_any_are_an_identity(clf):
    a, nothing = tallied(clf, slice(None)), tallied(clf, slice(0))
    same(a, a + nothing)
    same(a, nothing + a)


def test_a_group_of_one_part_only(clf):
    late = np.where(np.arange(1_200) < 300, "new", WORDS)
    summed = tallied(clf, slice(300), groups=late) + tallied(clf, slice(300, None), groups=late)
    same(tallied(clf, slice(None), groups=late), summed)
    other_way = tallied(clf, slice(300, None), groups=late) + tallied(clf, slice(300), groups=late)
    same(summed, other_way)
    assert [label for _, label in other_way.groups.labels] == ["a", "longer", "new"]


def test_it_travels_as_arrays_and_json(clf):
    whole = tallied(clf, slice(None))
    meta, arrays = whole.pack()
    again = Tally.unpack(json.loads(json.dumps(meta)), arrays)
    for source in SOURCES:
        one, two = (clf.tallied_interval(tally, source=source).to_dict() for tally in (whole, again))
        assert one == two
    same(whole + whole, again + whole)


def test_refusals(clf):
    whole = tallied(clf, slice(None))
    other = sf.FairClassifier(random_state=0, n_replicates=60)
    other.fit(TRAIN.X[:2_000], TRAIN.y[:2_000], sensitive_features=TRAIN.sensitive[:2_000])
    with pytest.raises(ValueError, match="of a fit of 2,400 rows, and this one is of 1,600"):
        other.tallied_interval(whole)
    with pytest.raises(ValueError, match="one model, method and sources"):
        whole + clf.tally(TEST.X, TEST.y, sensitive_features=WORDS, sources=["training"])
    with pytest.raises(ValueError, match="not of source 'total' but of training"):
        clf.tallied_interval(clf.tally(TEST.X, TEST.y, sensitive_features=WORDS, sources=["training"]))
    with pytest.raises(ValueError, match="no evaluation rows"):
        clf.tallied_interval(tallied(clf, slice(0)))
    other = sf.FairClassifier(random_state=1, n_replicates=60)  # as many rows
    other.fit(TRAIN.X, TRAIN.y, sensitive_features=np.array(["a", "longer"])[np.asarray(TRAIN.sensitive, dtype=int)])
    with pytest.raises(ValueError, match="of another fit of 2,400 rows"):
        other.tallied_interval(whole)
    with pytest.raises(ValueError, match=r"one of model \w{8} of 2,400 training rows"):
        whole + tallied(other, slice(None))
    with pytest.raises(ValueError, match="No source is named"):
        clf.tally(TEST.X, TEST.y, sensitive_features=WORDS, sources=[])
    assert [*clf.tally(TEST.X, TEST.y, sensitive_features=WORDS, sources="total").parts] == ["total"]
    with pytest.raises(ValueError, match="source"):
        clf.tally(TEST.X, TEST.y, sensitive_features=WORDS, sources=["testing"])
