"""Work in several threads at the same time gives the results, and the diagnostics, of one after the other."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

import surefair as sf

N_THREADS = 4


def one_after_the_other(calls):
    return [call() for call in calls]


def side_by_side(calls):
    """Start all calls at the same moment, each in its own thread."""
    barrier = Barrier(len(calls))

    def start(call):
        barrier.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(start, calls))


def recorded(run, calls):
    """Results of calls, and all warnings that they issued, sorted."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = run(calls)
    return results, sorted(f"{one.category.__name__}: {one.message}" for one in caught)


def fit_and_ask(seed):
    """Fit, then ask; every seed has other rows and so other diagnostics."""
    n = 150 * (1 + seed)
    rows = sf.datasets.SyntheticDI(seed=seed).sample(n)
    group = np.where(np.arange(n) % 50 == 0, 2, rows.sensitive)  # a third group of few rows
    test = sf.datasets.SyntheticDI(seed=100 + seed).sample(50 + 10 * seed)
    clf = sf.FairClassifier(n_replicates=20 + 10 * seed, random_state=seed)
    clf.fit(rows.X, rows.y, sensitive_features=group)
    total = clf.fairness_interval(test.X, test.y, sensitive_features=test.sensitive)
    training = clf.fairness_interval(test.X, test.y, sensitive_features=test.sensitive, source="training")
    alone = sf.fairness_interval(test.y, clf.predict(test.X), sensitive_features=test.sensitive, pos_label=1)
    return [total.to_dict(), training.to_dict(), alone.to_dict(), [one.to_dict() for one in clf.model_.diagnostics]]


def test_fits_and_intervals_side_by_side_lose_no_diagnostic():
    calls = [lambda seed=seed: fit_and_ask(seed) for seed in range(N_THREADS)]
    expected, warned = recorded(one_after_the_other, calls)
    for _ in range(3):
        found, also_warned = recorded(side_by_side, calls)
        assert found == expected
        assert also_warned == warned
    assert {line.split(":")[0] for line in warned} >= {"TooFewReplicates", "SmallEvaluationSet", "SmallGroup"}


def test_asking_one_classifier_from_several_threads_gives_the_same_answers():
    rows = sf.datasets.SyntheticDI(seed=0).sample(2000)
    test = sf.datasets.SyntheticDI(seed=1).sample(400)
    clf = sf.FairClassifier(n_replicates=30, random_state=0, step_size=sf.PolynomialDecay(1e-4, 0.6))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf.fit(rows.X, rows.y, sensitive_features=rows.sensitive)

    def ask(source):
        return clf.fairness_interval(test.X, test.y, sensitive_features=test.sensitive, source=source).to_dict()

    calls = [lambda source=source: ask(source) for source in ("total", "training", "retraining", "evaluation")]
    found, warned = recorded(side_by_side, calls)
    expected, expected_warned = recorded(one_after_the_other, calls)
    assert found == expected
    assert warned == expected_warned
    assert [one["name"] for one in found[0]["diagnostics"]].count("StartNotForgotten") == 1


def test_audits_side_by_side_give_the_same_results(people):
    tables = [people(1500, seed=1), people(400, seed=2)]
    tables[1].loc[::50, "sex"] = "x"

    def audit(table):
        return sf.audit(table, label="high", sensitive="sex", n_replicates=30, margin=0.1).to_dict()

    calls = [lambda table=table: audit(table) for table in tables]
    expected, warned = recorded(one_after_the_other, calls)
    found, also_warned = recorded(side_by_side, calls)
    assert found == expected
    assert also_warned == warned
    violated = [{one["name"] for one in result["assumptions"] if not one["held"]} for result in found]
    assert violated[0] != violated[1]
    assert all("TooFewReplicates" in names for names in violated)


@pytest.mark.parametrize("n_threads", [2, 5])
def test_a_warning_filter_of_the_caller_applies_to_every_thread(n_threads):
    y = np.tile([0, 1], 10)
    calls = [lambda: sf.fairness_interval(y, y, sensitive_features=np.repeat([0, 1], 10))] * n_threads
    with warnings.catch_warnings():
        warnings.simplefilter("error", sf.diagnostics.SmallEvaluationSet)
        with pytest.raises(sf.diagnostics.SmallEvaluationSet):
            side_by_side(calls)
