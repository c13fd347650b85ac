"""The order of rows: sorted streams, streams that drift, and counts of changes between neighbours."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, norm

import surefair as sf
from surefair.diagnostics import TimeDependence, UnsettledModel, time_dependence
from surefair.diagnostics.time_dependence import Runs
from surefair.parallel import fit_shards

DI = sf.datasets.SyntheticDI


def stream(n=4000, by=None, seed=0):
    """Rows of a stream; all but the first thousand are sorted by label or group if asked."""
    rows = DI(seed=seed).sample(n)
    X, y, group = np.asarray(rows.X), np.asarray(rows.y), np.asarray(rows.sensitive)
    if by is not None:
        order = np.r_[:1000, 1000 + np.argsort((y if by == "label" else group)[1000:], kind="stable")]
        X, y, group = X[order], y[order], group[order]
    return X, y, group


@pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")  # sorted rows cause others too
@pytest.mark.parametrize("by", ["label", "group"])
def test_sorted_rows_are_reported(by):
    X, y, group = stream(by=by)
    what = "labels" if by == "label" else "groups of 'sex'"
    with pytest.warns(TimeDependence, match=rf"{what} change .* times.*pass clusters.*shuffle them"):
        clf = sf.FairClassifier(random_state=0, n_replicates=50).fit(X, y, sensitive_features={"sex": group})
    with pytest.warns(TimeDependence):
        interval = ask_sex(clf)
    assert "TimeDependence" in [one.name for one in interval.diagnostics]


def ask_sex(clf):
    X, y, group = stream(2000, seed=1)
    return clf.fairness_interval(X, y, sensitive_features={"sex": group})


@pytest.mark.parametrize("fixed", [False, True], ids=["learnt", "fixed"])
def test_a_stream_that_drifts_is_reported(fixed):
    """One coefficient grows along the stream, which neither labels nor groups show; shuffled rows are fine."""
    rng, n = np.random.default_rng(0), 20_000
    X = rng.normal(size=(n, 3))
    score = X @ [1.0, 0.5, 0.0] + X[:, 0] * np.linspace(-0.4, 0.4, n)
    y = rng.random(n) < 1.0 / (1.0 + np.exp(-score))
    shuffled = rng.permutation(n)
    sample = shuffled[:1000]

    def fitted(order):
        clf = sf.FairClassifier(None, solver="one_pass", n_replicates=100, random_state=0)
        given = (X[sample], y[sample], np.zeros(1000)) if fixed else None
        return clf.fit(X[order], y[order], constraint_set=given)

    with pytest.warns(TimeDependence, match=r"the stream drifts.*pass clusters.*shuffle them") as caught:
        fitted(np.arange(n)).coef_interval()
    assert len(caught) == 1
    if not fixed:  # the warm-up rows differ from the others
        with pytest.warns(TimeDependence, match="the stream drifts"):
            fitted(X[:, 2].argsort()).coef_interval()
    fitted(shuffled).coef_interval()  # a warning would be an error


def test_a_stream_far_from_its_warm_up_rows_is_reported():
    rng, n = np.random.default_rng(0), 20_000
    X = rng.normal(size=(n, 2))
    score = X[:, 0] * np.where(np.arange(n) < 4_000, -1.0, 1.0)
    y = rng.random(n) < 1.0 / (1.0 + np.exp(-score))
    clf = sf.FairClassifier(None, solver="one_pass", n_replicates=100, random_state=0).fit(X, y)
    with pytest.warns(UnsettledModel, match="or rows change over time"):
        clf.coef_interval()


def test_the_threshold_for_drift_follows_the_tail_of_brownian_bridges():
    """Among random walks tied at both ends, as many exceed the threshold as the law of the check says."""
    walks = np.random.default_rng(0).normal(size=(20_000, 200)).cumsum(axis=1) / np.sqrt(200)
    squares = np.mean((walks - walks[:, -1:] * np.arange(1, 201) / 200) ** 2, axis=1)
    for chance in (0.01, 0.001):
        sd = np.pi / norm.isf(chance / (2.0 * np.sqrt(2.0)))  # of scaling 1
        beyond = np.count_nonzero(np.sqrt(squares) * sd > 1.0)
        low, high = binom.ppf([0.005, 0.995], 20_000, chance)
        assert low <= beyond <= 1.1 * high


def test_short_clumps_are_reported_and_independent_rows_are_not():
    rng = np.random.default_rng(0)
    for length, reported in ((1, False), (3, True)):
        label = np.repeat(rng.integers(0, 2, 6000 // length), length)
        runs = Runs.of(0).after(label, np.zeros((6000, 0), dtype=np.int64))
        assert bool(time_dependence.check(runs, (), [])) == reported


def test_changes_are_counted_across_batches_checkpoints_and_merges(tmp_path):
    X, y, group = stream(4000)
    whole = sf.FairClassifier(random_state=0, n_replicates=2)
    whole.partial_fit(X, y, sensitive_features=group)
    parts = sf.FairClassifier(random_state=0, n_replicates=2)
    for low in range(0, 4000, 77):
        part = slice(low, low + 77)
        parts.partial_fit(X[part], y[part], sensitive_features=group[part])
        if low == 770:
            sf.save(parts, tmp_path / "clf.npz")
            parts = sf.load(tmp_path / "clf.npz")
    expected = [3999, 3999], [np.count_nonzero(np.diff(y)), np.count_nonzero(np.diff(group))]
    for clf in (whole, parts):
        assert (clf.model_.runs.pairs.tolist(), clf.model_.runs.changes.tolist()) == expected
        assert clf.model_.runs.labels.tolist() == [np.count_nonzero(y < 0), np.count_nonzero(y > 0)]

    apart = X[:1000], y[:1000], group[:1000]
    shards = []
    for part in (slice(1000, 2500), slice(2500, 4000)):
        clf = sf.FairClassifier(random_state=part.start, n_replicates=2)
        shards.append(clf.partial_fit(X[part], y[part], sensitive_features=group[part], constraint_set=apart))
    both = shards[0].merge(shards[1])
    assert both.model_.runs.pairs.tolist() == [2998, 2998]
    assert both.model_.runs.changes[0] == np.count_nonzero(np.diff(y[1000:2500])) + np.count_nonzero(np.diff(y[2500:]))
    assert both.model_.runs.last.tolist() == [-1, -1]

    first, *parts = (tuple(column[part] for column in (X, y, group)) for part in
                     (slice(1000), slice(1000, 2500), slice(2500, 4000)))  # fmt: skip
    learnt = fit_shards(sf.FairClassifier(random_state=0, n_replicates=50), parts, warmup=first)
    # Neighbours in the warm-up rows count once; the last of these rows is a neighbour of the first row of each shard.
    assert learnt.model_.runs.pairs.tolist() == [3999, 3999]
    changes = np.count_nonzero(np.diff(y[:2500])) + np.count_nonzero(np.diff(np.r_[y[999], y[2500:]]))
    assert learnt.model_.runs.changes[0] == changes


@pytest.mark.filterwarnings("ignore::surefair.diagnostics.SeparableData")
def test_changes_are_counted_when_new_groups_appear_and_groups_are_missing():
    X, y, _ = stream(600)
    group = np.array(["m", "n"] * 300)
    clf = sf.FairClassifier(None, random_state=0, n_replicates=2, solver="one_pass", n_warmup=100)
    clf.partial_fit(X[:200], y[:200], sensitive_features=group[:200])
    late = np.r_[["n", "a", "a"], group[203:400]]  # "n" was the last group; "a" sorts before it and shifts its code
    clf.partial_fit(X[200:400], y[200:400], sensitive_features=late)
    clf.partial_fit(X[400:], y[400:])
    everything = np.r_[group[:200], late]
    assert clf.model_.runs.pairs.tolist() == [599, 399]
    assert clf.model_.runs.changes[1] == np.count_nonzero(everything[1:] != everything[:-1])
    assert clf.model_.runs.last[1] == -1
