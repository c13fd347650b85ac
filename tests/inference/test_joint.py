"""Several metrics are judged together: wrong alarms are as rare as promised, and no correction is made in vain."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom

import surefair as sf

METRICS = [
    "demographic_parity", "false_positive_rate", "false_negative_rate", "error_rate", "false_discovery_rate",
    "false_omission_rate", "equalized_odds", "base_rate",
]  # fmt: skip


def draw(seed, n=1000, gap=0.0, groups=2):
    rng = np.random.default_rng(seed)
    group, truth = rng.integers(groups, size=n), rng.integers(2, size=n)
    return truth, (rng.random(n) < 0.3 + 0.3 * truth + gap * (group == 0)).astype(int), group


def joint(rows, **options):
    truth, decision, group = rows
    options = {"metric": METRICS, "n_replicates": 400} | options
    return sf.joint_intervals(truth, decision, sensitive_features=group, **options)


@pytest.mark.parametrize("more", [{}, {"clusters": True}, {"strata": True}], ids=["rows", "clusters", "strata"])
def test_wrong_alarms_over_eight_metrics_at_parity(more):
    n = 40
    alarms = np.zeros(2, dtype=int)
    for seed in range(n):
        columns = {name: np.arange(1000) // 4 if name == "clusters" else np.arange(1000) % 3 for name in more}
        found = joint(draw([1, seed]), n_replicates=200, **columns)
        alarms += [any(one.low > 0.0 for one in found), any(one.low > 0.0 for one in found.joint)]
    assert alarms[1] <= binom.ppf(1 - 1e-3, n, 0.05)
    assert alarms[0] > 2 * alarms[1]


def test_metrics_that_say_the_same_cost_nothing():
    rows = draw(2)
    one, other = joint(rows, metric=["accuracy", "error_rate"]).joint
    assert one.confidence_level == pytest.approx(0.95, abs=0.01)
    assert one.estimate == pytest.approx(other.estimate)


def test_intervals_by_themselves_are_those_of_single_metrics():
    rows = draw(3, gap=0.1, groups=3)
    found = joint(rows, metric=["demographic_parity", "precision_ratio"])
    for one in found:
        alone = sf.fairness_interval(*rows[:2], sensitive_features=rows[2], metric=one.metric, n_replicates=400)
        assert one == alone
    for one, wide in zip(found, found.joint, strict=True):
        assert wide.confidence_level > one.confidence_level
        assert wide.low <= one.low <= one.high <= wide.high
    assert found["precision_ratio"].metric == "precision_ratio"


def test_verdicts():
    found = joint(draw(4, n=4000, gap=0.15), metric=["demographic_parity", "false_negative_rate"])
    assert found.verdict(0.05) == "violates margin"
    assert found.verdict(0.4) == "within margin"
    assert found.verdict({"demographic_parity": 0.4, "false_negative_rate": 0.15}) == "not enough evidence"
    assert found.verdicts({"demographic_parity": 0.4, "false_negative_rate": 0.15}) == {
        "demographic_parity": "within margin", "false_negative_rate": "not enough evidence",
    }  # fmt: skip


def test_a_violation_needs_joint_limits_and_the_rest_does_not():
    found = joint(draw(5, n=1500, gap=0.1))
    one = max(found, key=lambda one: one.low)
    wide = found.joint[[*found].index(one)]
    between = (one.low + wide.low) / 2.0  # beyond the margin alone, but not jointly
    assert one.verdict(between) == "violates margin"
    assert found.verdicts(between)[one.metric] == "not enough evidence"


def test_tables_and_words():
    truth, decision, group = draw(6)
    found = sf.joint_intervals(
        truth, decision, sensitive_features=pl.Series(group), metric=METRICS[:2], n_replicates=100
    )
    assert isinstance(found.to_frame(), pl.DataFrame)
    assert found.to_frame().columns == ["metric", "estimate", "low", "high", "joint_low", "joint_high"]
    assert json.loads(json.dumps(found.to_dict()))["joint"][1]["metric"] == "false_positive_rate"
    assert "Among 2 metrics, the largest unfairness is" in str(found)
    assert "jointly" in found._repr_html_()
    assert len(repr(found).splitlines()) == len(found) == 2


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ("accuracy", "metric must be a list of different metrics; received 'accuracy'"),
        ([], r"metric must be a list of different metrics; received \[\]"),
        (["accuracy", "accuracy"], "list of different metrics"),
        (["accuracy", "acuracy"], "Did you mean 'accuracy'"),
    ],
)
def test_metrics_that_cannot_be_used_are_refused(metrics, message):
    with pytest.raises(ValueError, match=message):
        joint(draw(7), metric=metrics)


def test_margins_that_do_not_match_are_refused():
    found = joint(draw(8), metric=["accuracy", "accuracy_ratio"])
    with pytest.raises(ValueError, match=r"One margin cannot apply to differences and ratios\. Pass a dict"):
        found.verdict(0.1)
    with pytest.raises(ValueError, match="one entry for each metric: accuracy, accuracy_ratio; received accuracy"):
        found.verdict({"accuracy": 0.1})
    with pytest.raises(KeyError, match="no interval for the metric 'precision', only for accuracy"):
        found["precision"]


@pytest.mark.filterwarnings("ignore::surefair.diagnostics.SmallEvaluationSet")
def test_a_metric_without_any_movement_does_not_stand_in_the_way():
    with pytest.warns(sf.diagnostics.OneDecision):
        found = joint(([0, 1] * 50, [0] * 100, ["a", "a", "b", "b"] * 25), metric=["demographic_parity", "accuracy"])
    assert [one.estimate for one in found] == [0.0, 0.0]
