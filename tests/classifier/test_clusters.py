"""Rows in clusters: several rows of one person share their weight in every replicate."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import binom

import surefair as sf
from surefair.diagnostics import FewClusters
from surefair.learners.multipliers import Multipliers
from surefair.rows import as_keys

ASKED = {"tolerance": 0.05, "random_state": 0, "n_replicates": 60}
SOLVERS = pytest.mark.parametrize("solver", ["exact", "one_pass"])


def copied(n, times, seed=0):
    """Rows of n people, each of which comes several times, in random order, and the people."""
    data = sf.datasets.SyntheticDI(seed=seed).sample(n)
    order = np.random.default_rng(seed).permutation(np.tile(np.arange(n), times))
    return data.X.to_numpy()[order], data.y[order], data.sensitive[order], order


@SOLVERS
def test_copies_of_people_are_worth_no_more_than_the_people(solver):
    X, y, group, person = copied(800, 6)
    once = np.unique(person, return_index=True)[1]
    one = sf.FairClassifier(**ASKED, solver="exact").fit(X[once], y[once], sensitive_features=group[once])
    many = sf.FairClassifier(**ASKED, solver=solver).fit(X, y, sensitive_features=group, clusters=person)
    naive = sf.FairClassifier(**ASKED, solver=solver).fit(X, y, sensitive_features=group)
    np.testing.assert_array_equal(many.coef_, naive.coef_)
    sd, known, wrong = (clf.coef_replicates_.std(axis=0) for clf in (many, one, naive))
    np.testing.assert_allclose(sd, known, rtol=0.35)  # sixty replicates of each
    assert (wrong < 0.6 * known).all()
    assert many.model_.n_clusters == 800


def test_rows_of_a_cluster_have_its_multipliers():
    key = as_keys(["a", "b", "a"], "cluster")
    V = Multipliers("exponential", 3).of(key, 40)
    np.testing.assert_array_equal(V[0], V[2])
    assert (V[0, 1:] != V[1, 1:]).all()


def test_bits_do_not_depend_on_batches_or_restarts(tmp_path):
    X, y, group, person = copied(500, 4)
    asked = ASKED | {"solver": "one_pass", "n_warmup": 600, "n_replicates": 40}
    whole = sf.FairClassifier(**asked).fit(X, y, sensitive_features=group, clusters=person)
    clf = sf.FairClassifier(**asked)
    for low in range(0, len(y), 333):
        some = slice(low, low + 333)
        clf.partial_fit(X[some], y[some], sensitive_features=group[some], clusters=person[some], classes=[-1, 1])
        sf.save(clf, tmp_path / "clf.npz")
        clf = sf.load(tmp_path / "clf.npz")
    np.testing.assert_array_equal(clf.coef_replicates_, whole.coef_replicates_)
    assert clf.model_.n_clusters == 500


@pytest.mark.parametrize("source", ["evaluation", "total"])
def test_evaluation_rows_in_clusters_widen_intervals(source):
    train = sf.datasets.SyntheticDI(seed=0).sample(4_000)
    clf = sf.FairClassifier(**ASKED | {"tolerance": 0.4})
    clf.fit(train.X.to_numpy(), train.y, sensitive_features=train.sensitive)
    X, y, group, person = copied(500, 4, seed=1)
    once = np.unique(person, return_index=True)[1]
    asked = {"source": source, "clusters": person}
    found = clf.fairness_interval(X, y, sensitive_features=group, **asked)
    people = clf.fairness_interval(X[once], y[once], sensitive_features=group[once], source=source)
    assert found.method == "clusters"
    assert found.estimate == pytest.approx(people.estimate)
    assert found.spread_evaluation == pytest.approx(people.spread_evaluation, rel=0.1)
    assert found.verdict(0.8) == "within margin"
    halves = [slice(0, 900), slice(900, None)]
    parts = [clf.tally(X[h], y[h], sensitive_features=group[h], sources=source, clusters=person[h]) for h in halves]
    together = clf.tallied_interval(parts[0] + parts[1], source=source)
    assert together.gap == pytest.approx(found.gap)
    assert together.spread_evaluation == pytest.approx(found.spread_evaluation, rel=0.1)


def test_clusters_of_one_row_are_as_independent_rows():
    train, test = (sf.datasets.SyntheticDI(seed=seed).sample(3_000) for seed in (0, 1))
    clf = sf.FairClassifier(**ASKED | {"n_replicates": 200}).fit(train.X, train.y, sensitive_features=train.sensitive)
    asked = {"sensitive_features": test.sensitive}
    plain, alone = (
        clf.fairness_interval(test.X, test.y, **asked, clusters=clusters) for clusters in (None, np.arange(3_000))
    )
    assert alone.gap_high - alone.gap_low == pytest.approx(plain.gap_high - plain.gap_low, rel=0.15)


@pytest.mark.filterwarnings("ignore::surefair.diagnostics.RareDecisions")
def test_folds_keep_clusters_together():
    X, y, group, person = copied(300, 4)
    clf = sf.FairClassifier(**ASKED)
    naive = clf.cross_fit_interval(X, y, sensitive_features=group)
    found = clf.cross_fit_interval(X, y, sensitive_features=group, clusters=person)
    assert found.gap_high - found.gap_low > 1.5 * (naive.gap_high - naive.gap_low)


def population(n, rng, effect):
    """People with five rows each, whose scores and labels share an effect of the person."""
    person = np.repeat(np.arange(n), 5)
    group = rng.integers(2, size=n)[person]
    common = rng.normal(size=(n, 2))[person]
    X = np.sqrt(effect) * common + np.sqrt(1 - effect) * rng.normal(size=(5 * n, 2)) + 0.4 * group[:, None]
    score = 1.5 * (X[:, 0] - 0.4 + np.sqrt(effect) * rng.normal(size=n)[person])
    return X, np.where(rng.random(5 * n) < 1.0 / (1.0 + np.exp(-score)), 1, -1), group, person


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # a few fits of 2,000 rows do not settle, and count like the others
@SOLVERS
def test_intervals_cover_with_clusters_and_not_without(solver):
    """Everything is drawn anew: the gap of the optimum is covered, at 95 %, and far less often by naive intervals."""
    X, y, group, person = population(60_000, np.random.default_rng(99), 0.7)
    asked = {"tolerance": 0.1, "n_replicates": 79, "n_warmup": 1_000}
    best = sf.FairClassifier(**asked | {"n_replicates": 0}, solver="one_pass", random_state=0)
    best.fit(X, y, sensitive_features=group, clusters=person)
    decided = best.predict(X) > 0
    truth = decided[group == 0].mean() - decided[group == 1].mean()
    held, naive, R = 0, 0, 80
    for r in range(R):
        rng = np.random.default_rng([7, r])
        X, y, group, person = population(400, rng, 0.7)
        test = population(300, rng, 0.7)
        for known in (True, False):
            clf = sf.FairClassifier(**asked, solver=solver, random_state=r)
            order = rng.permutation(len(y))  # rows that come in clumps are reported, unless clusters are known
            clf.fit(X[order], y[order], sensitive_features=group[order], clusters=person[order] if known else None)
            one = clf.fairness_interval(*test[:2], sensitive_features=test[2], clusters=test[3] if known else None)
            held += known and one.gap_low <= truth <= one.gap_high
            naive += not known and one.gap_low <= truth <= one.gap_high
    assert held >= binom.ppf(0.005, R, 0.93)
    assert naive < binom.ppf(0.05, R, 0.93)


def test_few_clusters_are_reported():
    train = sf.datasets.SyntheticDI(seed=0).sample(2_000)
    clf = sf.FairClassifier(**ASKED).fit(train.X, train.y, sensitive_features=train.sensitive)
    with pytest.warns(FewClusters, match="Few clusters enter a rate"):
        clf.fairness_interval(train.X, train.y, sensitive_features=train.sensitive, clusters=np.arange(2_000) % 6)


@pytest.mark.filterwarnings("ignore::surefair.diagnostics.RareDecisions")
def test_bad_clusters_are_refused():
    X, y, group, person = copied(300, 2)
    clf = sf.FairClassifier(**ASKED | {"n_replicates": 20}, n_warmup=200, solver="one_pass")
    with pytest.raises(ValueError, match="clusters"):
        clf.fit(X, y, sensitive_features=group, clusters=person[:-1])
    with pytest.raises(ValueError, match="learnt from all rows"):
        clf.fit(X, y, sensitive_features=group, clusters=person, constraint_set=(X[:100], y[:100], group[:100]))
    with pytest.raises(ValueError, match=r"at most 1,000 features"):
        clf.fit(csr_array((600, 2_000)), y, sensitive_features=group, clusters=person)
    clf.partial_fit(X, y, sensitive_features=group, clusters=person)
    before = clf.coef_replicates_
    with pytest.raises(ValueError, match="Pass clusters with every batch"):
        clf.partial_fit(X, y, sensitive_features=group)
    np.testing.assert_array_equal(clf.coef_replicates_, before)
    with pytest.raises(ValueError, match="do not depend on the method"):
        clf.fairness_interval(X, y, sensitive_features=group, clusters=person, method="normal")
    with pytest.raises(ValueError, match="is for independent rows"):
        clf.coef_interval(method="plug_in")
    with pytest.raises(ValueError, match=r"needs 10 clusters"):
        clf.set_params(solver="auto").cross_fit_interval(X, y, sensitive_features=group, clusters=person % 8)
