"""Alternatives: yes only where there is one, bounds, the three answers, and bad input."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

import surefair as sf
from surefair.inference.metric import get_metric
from surefair.selection import alternative as module

pytestmark = pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")


def draw(n, seed):
    """Labels depend on x1 alone, x2 stands for the group."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    X = np.column_stack([rng.normal(size=n), group + 0.5 * rng.normal(size=n)])
    y = (X[:, 0] + 0.5 * rng.normal(size=n) > 0.0).astype(int)
    return X, y, group


def ask(incumbent, rows, **more):
    X, y, group = rows
    settings = {"sensitive_features": group, "tolerances": [0.1], "n_splits": 3, "reduction": 0.05, "cost": 0.02}
    return sf.alternative(incumbent, X, y, **settings | more)


def test_yes_with_bounds_where_the_model_in_use_prefers_a_group():
    X, y, group = rows = draw(1_500, 0)
    unfair = (X[:, 0] + 0.8 * group > 0.4).astype(int)
    found = ask(unfair, rows)
    assert found.verdict == "yes"
    assert found.p_value < 0.05
    assert 0.05 < found.reduction.low < found.reduction.estimate
    assert found.accuracy.low > -0.02
    assert found.classifier().score(X, y) > 0.8
    assert "Yes, there is a linear model" in found.sentence
    assert found.to_dict()["verdict"] == "yes"
    assert len(found.by_split) == 3
    assert found.to_frame()["demanded"].tolist() == [0.05, -0.02]
    assert "p-value" in found._repr_html_()


def test_scores_with_a_threshold_are_decisions():
    X, _, group = rows = draw(800, 1)
    score = X[:, 0] + 0.8 * group
    assert ask(score, rows, threshold=0.4, n_splits=1).by_split.equals(
        ask((score >= 0.4).astype(int), rows, n_splits=1).by_split
    )


def test_no_evidence_where_the_model_in_use_is_as_good_as_any():
    X, _, _ = rows = draw(1_500, 2)
    assert ask((X[:, 0] > 0.0).astype(int), rows).verdict == "no evidence"


def test_few_rows_leave_it_open():
    X, _, group = rows = draw(60, 3)
    assert ask((X[:, 0] + 0.3 * group > 0.1).astype(int), rows).verdict == "not enough data"


def test_p_values_are_large_at_the_boundary():
    """Both demands exactly on their bounds: each test rejects at most as often as its level, both together rarely."""
    rng = np.random.default_rng(5)
    metric = get_metric("demographic_parity")
    R, n, hits = 300, 400, 0
    names = sf.FairClassifier(n_replicates=0).fit(*draw(100, 0)[:2], sensitive_features=draw(100, 0)[2])
    for _ in range(R):
        group = np.arange(n) % 2
        truth = rng.integers(0, 2, n)
        old = (rng.random(n) < 0.4 + 0.2 * group).astype(int)
        new = np.where(rng.random(n) < 0.2, old, (rng.random(n) < 0.5).astype(int))  # its gap is 0.04, on average
        rows = names.rows(np.zeros((n, 2)), truth, sensitive_features=group, need_groups=True)
        tests = module._test(rows, old, new, metric, (0, -1.0), {"reduction": 0.16, "cost": 0.9})
        hits += tests[0].p_value <= 0.05
    assert hits <= binom.ppf(0.999, R, 0.05)
    assert hits >= binom.ppf(0.001, R, 0.02)  # nor is the test far from its level


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"reduction": -0.1}, "reduction must be"),
        ({"cost": 1.0}, "cost must be"),
        ({"n_splits": 2}, "odd number"),
        ({"tolerances": [0.1, 0.1]}, "different numbers"),
        ({"metric": "demographic_parity_ratio"}, "differences of rates"),
        ({"sensitive_features": None}, "sensitive_features is missing"),
        ({"clf": sf.FairClassifier(None)}, "path of tolerances"),
    ],
)
def test_bad_input_is_refused(given, words):
    X, _, _ = rows = draw(100, 4)
    with pytest.raises(ValueError, match=words):
        ask((X[:, 0] > 0.0).astype(int), rows, **given)
