"""Several passes through partial_fit are reported, and give no definite verdict; independent rows are not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import surefair as sf
from surefair.diagnostics import Diagnostic, RepeatedRows

pytestmark = pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")
DM = sf.datasets.SyntheticDM


def train(data, passes, shuffled=False, seed=0):
    X, y, group = np.asarray(data.X), np.asarray(data.y), np.asarray(data.sensitive)
    clf = sf.FairClassifier(n_replicates=60, n_warmup=500, random_state=0)
    rng = np.random.default_rng(seed)
    for _ in range(passes):
        order = rng.permutation(len(data.y)) if shuffled else np.arange(len(data.y))
        for part in np.array_split(order, 5):
            clf.partial_fit(X[part], y[part], sensitive_features=group[part], classes=[-1, 1])
    return clf


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("passes", [2, 10])
def test_several_passes_give_no_definite_verdict(passes, shuffled):
    data, test = DM(seed=0).sample(2_000), DM(seed=1).sample(3_000)
    clf = train(data, passes, shuffled)
    found = [one for one in clf.model_.diagnostics if isinstance(one, RepeatedRows)]
    assert len(found) == 1
    assert found[0].statistic == pytest.approx(passes - 1, abs=0.2 * passes)
    interval = clf.fairness_interval(np.asarray(test.X), test.y, sensitive_features=test.sensitive)
    assert "RepeatedRows" in {one.name for one in interval.diagnostics}
    assert interval.verdict(0.9) == "not enough evidence"


def test_the_warning_is_issued_once():
    data = DM(seed=0).sample(1_500)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", Diagnostic)
        train(data, 4)
    assert sum(issubclass(one.category, RepeatedRows) for one in caught) == 1


def test_one_pass_and_merged_shards_are_not_reported(tmp_path):
    data = DM(seed=0).sample(4_000)
    clf = train(data, 1)
    assert not [one for one in clf.model_.diagnostics if isinstance(one, RepeatedRows)]
    sf.save(clf, tmp_path / "clf.npz")
    assert sf.load(tmp_path / "clf.npz").model_.seen.n == 4_000
    parts = [np.asarray(part) for part in (data.X, data.y, data.sensitive)]
    shards = [tuple(part[i::2] for part in parts) for i in (500, 501)]
    first = tuple(part[:500] for part in parts)
    merged = sf.parallel.fit_shards(sf.FairClassifier(n_replicates=20, random_state=0), shards, warmup=first)
    assert merged.model_.seen.n == merged.n_rows_
    assert not [one for one in merged.model_.diagnostics if isinstance(one, RepeatedRows)]


KINDS = {
    "continuous": lambda rng, n: rng.normal(size=(n, 3)),
    "rounded": lambda rng, n: rng.normal(size=(n, 2)).round(1),
    "discrete": lambda rng, n: rng.integers(4, size=(n, 5)).astype(float),
    "common rows": lambda rng, n: np.where(rng.random((n, 1)) < 0.05, 0.0, rng.normal(size=(n, 3))),
    "heavy tails": lambda rng, n: rng.zipf(1.6, size=(n, 1)).clip(max=10**6).astype(float),
}


@pytest.mark.parametrize("kind", KINDS)
def test_independent_rows_seldom_look_as_if_they_came_twice(kind):
    """The null model: rows of one law. Fewer than 2 % of 500 streams are reported."""
    from surefair.diagnostics import repeated_rows
    from surefair.rows.sketch import Sketch, count_pairs, hash_rows

    rng = np.random.default_rng(0)
    found = 0
    for i in range(100):
        n = [1_000, 3_000, 10_000, 30_000][i % 4]
        hashes = hash_rows(KINDS[kind](rng, n), rng.choice([-1.0, 1.0], n))
        seen = Sketch.empty().after(hashes)
        found += len(repeated_rows.check(seen.pairs, seen.repeated, n, count_pairs(hashes[:500]), 500))
    assert found <= 1, found
