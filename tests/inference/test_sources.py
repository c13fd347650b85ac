"""What each source counts and how its replicates vary; and that counts of parts of the rows add up."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, kstest

import surefair as sf
from surefair.criteria import CRITERIA
from surefair.inference.counts import Counts, count_decisions, rates_of
from surefair.inference.limits import METHODS
from surefair.inference.sources import SOURCES, Tally, parts, replicate_coefficients, reweigh, settle
from surefair.rows import Groups, as_columns

pytestmark = pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")

TRAIN = sf.datasets.SyntheticDI(seed=0).sample(3_000)
TEST = sf.datasets.SyntheticDI(seed=1).sample(1_200)
WORDS = np.array(["a", "longer"])[np.asarray(TEST.sensitive, dtype=int)]


@pytest.fixture(scope="module")
def clf():
    groups = np.array(["a", "longer"])[np.asarray(TRAIN.sensitive, dtype=int)]
    return sf.FairClassifier(random_state=0, n_replicates=60).fit(TRAIN.X, TRAIN.y, sensitive_features=groups)


# -- Which models are counted, and on which rows -----------------------------------------------------------------------


def coefficients(B=5):
    """Coefficients of a fit (first) and of B replicates."""
    return np.random.default_rng(0).normal(size=(3, 1 + B))


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("method", METHODS)
def test_the_fit_comes_first_for_every_source(source, method):
    theta = coefficients()
    found = replicate_coefficients(source, method, theta)
    assert np.array_equal(found[:, 0], theta[:, 0])
    assert found.shape == ((3, 1) if source == "evaluation" else theta.shape)


@pytest.mark.parametrize("source", ["training", "total"])
def test_percentiles_mirror_replicates_at_the_fit(source):
    theta = coefficients()
    fit = theta[:, :1]
    found = replicate_coefficients(source, "percentile", theta, mirrored=True)[:, 1:]
    np.testing.assert_allclose(found - fit, fit - theta[:, 1:])


@pytest.mark.parametrize("source", ["training", "total"])
@pytest.mark.parametrize("method", ["percentile", "basic", "normal", "cheap", "paper"])
def test_methods_take_replicates_as_they_are_unless_mirrored(source, method):
    theta = coefficients()
    assert np.array_equal(replicate_coefficients(source, method, theta), theta)


@pytest.mark.parametrize("method", ["percentile", "basic", "normal", "cheap"])
def test_retraining_spreads_replicates_around_the_fit_by_the_root_of_two(method):
    theta = coefficients()
    found = replicate_coefficients("retraining", method, theta)[:, 1:]
    np.testing.assert_allclose(found.mean(axis=1), theta[:, 0])  # two fits share the bias of the steps
    np.testing.assert_allclose(found.std(axis=1), np.sqrt(2.0) * theta[:, 1:].std(axis=1))


def test_published_retraining_keeps_the_bias_of_the_replicates():
    theta = coefficients()
    fit = theta[:, :1]
    found = replicate_coefficients("retraining", "paper", theta)[:, 1:]
    np.testing.assert_allclose(found - fit, np.sqrt(2.0) * (theta[:, 1:] - fit))


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("method", METHODS)
def test_only_total_is_counted_in_halves(clf, source, method):
    rows = clf.rows(TEST.X, TEST.y, sensitive_features=WORDS)
    found = parts(source, method, rows, seed=3)
    assert len(found) == (2 if source == "total" and method != "paper" else 1)
    scores = np.concatenate([part.X for part in found])
    assert sorted(scores.tolist()) == sorted(rows.X.tolist())  # every row is in one part
    again = parts(source, method, rows, seed=3)
    assert all(np.array_equal(one.X, two.X) for one, two in zip(found, again, strict=True))


def test_another_seed_draws_other_halves(clf):
    rows = clf.rows(TEST.X, TEST.y, sensitive_features=WORDS)
    (one, _), (other, _) = (parts("total", "percentile", rows, seed) for seed in (3, 4))
    assert one.X.shape != other.X.shape or not np.array_equal(one.X, other.X)
    assert abs(one.n - 600) < 100


def test_a_source_says_what_varies():
    varies = {name: (source.training, source.evaluation) for name, source in SOURCES.items()}
    assert varies == {
        "training": (True, False),
        "retraining": (True, False),
        "evaluation": (False, True),
        "total": (True, True),
    }
    assert len({source.estimates for source in SOURCES.values()}) == 4


# -- Tallies -----------------------------------------------------------------------------------------------------------


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
def test_a_tally_gives_the_same_interval_as_the_rows(clf, source, metric):
    whole = tallied(clf, slice(None))
    expected = clf.fairness_interval(TEST.X, TEST.y, sensitive_features=WORDS, metric=metric, source=source)
    assert clf.tallied_interval(whole, metric=metric, source=source).to_dict() == expected.to_dict()


@pytest.mark.parametrize("weight", [None, np.arange(1_200) % 4])
@pytest.mark.parametrize("cuts", [[600], [1, 2, 1_199], [0, 500]])
def test_tallies_of_parts_add(clf, cuts, weight):
    tallies = [tallied(clf, slice(*ends), weight) for ends in zip([0, *cuts], [*cuts, 1_200], strict=True)]
    whole, summed = tallied(clf, slice(None), weight), sum(tallies)
    same(whole, summed)
    np.testing.assert_allclose(summed.near, whole.near, rtol=1e-12)
    for source in ("training", "retraining", "evaluation"):  # for "total", halves are drawn within each part
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


def test_adding_the_tally_of_no_rows_changes_nothing(clf):
    a, nothing = tallied(clf, slice(None)), tallied(clf, slice(0))
    same(a, a + nothing)
    same(a, nothing + a)


def test_a_group_may_occur_in_one_part_only(clf):
    late = np.where(np.arange(1_200) < 300, "new", WORDS)
    summed = tallied(clf, slice(300), groups=late) + tallied(clf, slice(300, None), groups=late)
    same(tallied(clf, slice(None), groups=late), summed)
    other_way = tallied(clf, slice(300, None), groups=late) + tallied(clf, slice(300), groups=late)
    same(summed, other_way)
    assert [label for _, label in other_way.groups.labels] == ["a", "longer", "new"]


def test_a_tally_survives_packing_to_arrays_and_json(clf):
    whole = tallied(clf, slice(None))
    meta, arrays = whole.pack()
    again = Tally.unpack(json.loads(json.dumps(meta)), arrays)
    for source in SOURCES:
        one, two = (clf.tallied_interval(tally, source=source).to_dict() for tally in (whole, again))
        assert one == two
    same(whole + whole, again + whole)


def test_tallies_that_do_not_fit_are_refused(clf):
    whole = tallied(clf, slice(None))
    other = sf.FairClassifier(random_state=0, n_replicates=60)
    other.fit(TRAIN.X[:2_000], TRAIN.y[:2_000], sensitive_features=TRAIN.sensitive[:2_000])
    with pytest.raises(ValueError, match="The tally belongs to a fit of 3,000 rows, and this fit has 2,000"):
        other.tallied_interval(whole)
    with pytest.raises(ValueError, match="one model, method and set of sources"):
        whole + clf.tally(TEST.X, TEST.y, sensitive_features=WORDS, sources=["training"])
    with pytest.raises(ValueError, match="not counted for source 'total', only for training"):
        clf.tallied_interval(clf.tally(TEST.X, TEST.y, sensitive_features=WORDS, sources=["training"]))
    with pytest.raises(ValueError, match="no evaluation rows"):
        clf.tallied_interval(tallied(clf, slice(0)))
    other = sf.FairClassifier(random_state=1, n_replicates=60)  # trained on the same rows with other weights
    other.fit(TRAIN.X, TRAIN.y, sensitive_features=np.array(["a", "longer"])[np.asarray(TRAIN.sensitive, dtype=int)])
    with pytest.raises(ValueError, match="belongs to another fit of 3,000 rows"):
        other.tallied_interval(whole)
    with pytest.raises(ValueError, match=r"one of model \w{8} trained on 3,000 rows"):
        whole + tallied(other, slice(None))
    with pytest.raises(ValueError, match="sources is empty"):
        clf.tally(TEST.X, TEST.y, sensitive_features=WORDS, sources=[])
    assert [*clf.tally(TEST.X, TEST.y, sensitive_features=WORDS, sources="total").parts] == ["total"]
    with pytest.raises(ValueError, match="source"):
        clf.tally(TEST.X, TEST.y, sensitive_features=WORDS, sources=["testing"])


# -- Reweighted evaluation rows ----------------------------------------------------------------------------------------


def repeated(tables, times):
    tables = np.asarray(tables, dtype=float)
    return Counts(*[np.broadcast_to(tables, (times, *tables.shape))] * 3)


@pytest.mark.parametrize("metric", CRITERIA)
def test_reweighted_rates_follow_the_beta_law_of_jeffreys(metric):
    counts, rates = np.array([[[0, 3], [40, 400]], [[1, 1], [2, 2]]]), CRITERIA[metric].rates
    drawn = reweigh(rates, repeated(counts, 4001), seed=1)
    for j, rate in enumerate(rates):
        for group, (above, below) in enumerate(zip(*rate.tally(counts), strict=True)):
            assert kstest(drawn[:, j, group], beta(above + 0.5, below - above + 0.5).cdf).pvalue > 1e-4


@given(seed=st.integers(0, 2**63 - 1), few=st.integers(1, 20))
def test_a_replicate_does_not_depend_on_how_many_there_are(seed, few):
    tables, rates = np.random.default_rng(seed).integers(50, size=(21, 2, 2, 2)), CRITERIA["equalized_odds"].rates
    counts = Counts(*[tables.astype(float)] * 3)
    assert np.array_equal(reweigh(rates, counts.of(slice(1 + few)), seed), reweigh(rates, counts, seed)[:few])


def test_rates_and_groups_are_weighted_independently():
    drawn = reweigh(CRITERIA["equalized_odds"].rates, repeated(np.full((3, 2, 2), 10), 4001), seed=2)
    correlations = np.corrcoef(drawn.reshape(4000, 6).T) - np.eye(6)
    assert np.abs(correlations).max() <= 4.5 / np.sqrt(4000)


COMPLEMENTS = {
    "accuracy": "error_rate", "true_positive_rate": "false_negative_rate",
    "true_negative_rate": "false_positive_rate", "precision": "false_discovery_rate",
}  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("metric", COMPLEMENTS)
def test_limits_of_complements_mirror_each_other(clf, source, metric):
    weight = np.random.default_rng(5).integers(1, 4, len(TEST.y))
    one, other = (
        clf.fairness_interval(
            TEST.X, TEST.y, sensitive_features=WORDS, metric=name, source=source, sample_weight=weight
        )
        for name in (metric, COMPLEMENTS[metric])
    )
    close = {"rel": 0, "abs": 1e-12}
    assert (one.low, one.high) == pytest.approx((other.low, other.high), **close)
    assert one.by_pair["low"].tolist() == pytest.approx((-other.by_pair["high"]).tolist(), **close)
    assert one.by_group["low"].tolist() == pytest.approx((1.0 - other.by_group["high"]).tolist(), **close)


def test_weighted_rates_spread_as_weighted_means_do():
    # the variance of a weighted rate is Σ cᵢ² (xᵢ - r)² / C², even if weights depend on decisions
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


# -- What both halves of the evaluation rows show ----------------------------------------------------------------------


def halved(apart, noise, n_replicates=4000):
    """Rates of two groups, fit first: they move together, apart, and by the noise of the rows in each half."""
    rng = np.random.default_rng(0)
    moves = rng.normal(size=(n_replicates, 1)) * 0.05 + apart * rng.normal(size=(n_replicates, 1)) * [0.5, -0.5]
    halves = moves + noise * rng.normal(size=(2, n_replicates, 2))
    halves = np.array([0.4, 0.5]) + np.concatenate([np.zeros((2, 1, 2)), halves], axis=1)
    return halves.mean(axis=0)[:, None], halves[:, :, None]


TWO = Groups.of(as_columns(np.array([0, 1])))


@pytest.mark.parametrize("apart", [0.0, 0.01, 0.03])
@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_gaps_spread_as_much_as_both_halves_show(apart, noise):
    trained, halves = halved(apart, noise)
    found = settle(trained, halves, TWO)[:, 0]
    gap = found[:, 0] - found[:, 1]
    assert gap.std() == pytest.approx(apart, rel=0.05, abs=0.006)
    assert (trained[1:, 0, 0] - trained[1:, 0, 1]).std() == pytest.approx(np.hypot(apart, noise), rel=0.05)
    assert found.mean(axis=1).std() == pytest.approx(trained[1:, 0].mean(axis=1).std())  # in common


def test_an_undefined_rate_does_not_affect_other_groups():
    trained, halves = halved(0.02, 0.01, 200)
    third = np.full_like(trained[..., :1], np.nan)
    three = Groups.of(as_columns(np.array([0, 1, 2])))
    found = settle(np.concatenate([trained, third], axis=-1), np.concatenate([halves, [third] * 2], axis=-1), three)
    np.testing.assert_allclose(found[..., :2], settle(trained, halves, TWO))
    assert np.isnan(found[..., 2]).all()


def test_a_group_without_evaluation_rows_does_not_affect_the_total_of_others():
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
