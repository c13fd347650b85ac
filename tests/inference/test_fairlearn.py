"""Estimates agree with fairlearn and scikit-learn, up to rounding, for every metric that both packages have."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fairlearn import metrics as fm
from sklearn.metrics import accuracy_score, precision_score, zero_one_loss

import surefair as sf


def base_rate(y_true, y_pred, sample_weight=None):
    return np.average(y_true, weights=sample_weight)


RATES = {
    "demographic_parity": fm.selection_rate,
    "false_positive_rate": fm.false_positive_rate,
    "false_negative_rate": fm.false_negative_rate,
    "error_rate": zero_one_loss,
    "true_positive_rate": fm.true_positive_rate,
    "true_negative_rate": fm.true_negative_rate,
    "precision": precision_score,
    "accuracy": accuracy_score,
    "base_rate": base_rate,
}

every_rate = pytest.mark.parametrize("metric", RATES)
every_weight = pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
every_number_of_groups = pytest.mark.parametrize("n_groups", [2, 3, 5])


def rows(n_groups, weighted, n_rows=400):
    """Truth, decision, group and weight."""
    rng = np.random.default_rng([n_groups, weighted])
    group, truth = rng.integers(n_groups, size=n_rows), rng.integers(2, size=n_rows)
    decision = (rng.random(n_rows) < 0.2 + 0.4 * truth + 0.05 * group).astype(int)
    return truth, decision, group, rng.exponential(size=n_rows) if weighted else None


def estimate(truth, decision, group, weight, metric, **options):
    found = sf.fairness_interval(
        truth, decision, sensitive_features=group, metric=metric, sample_weight=weight, n_replicates=20, **options
    )
    return found, pytest.approx(found.estimate, rel=1e-12, abs=1e-12)


def frame_of(metric, truth, decision, group, weight):
    return fm.MetricFrame(
        metrics=RATES[metric], y_true=truth, y_pred=decision, sensitive_features=group,
        sample_params=None if weight is None else {"sample_weight": weight},
    )  # fmt: skip


@every_weight
@every_number_of_groups
@pytest.mark.parametrize("criterion", ["demographic_parity", "equalized_odds"])
def test_differences_and_ratios_of_criteria(criterion, n_groups, weighted):
    truth, decision, group, weight = rows(n_groups, weighted)
    for metric, theirs in ((criterion, "difference"), (f"{criterion}_ratio", "ratio")):
        value = getattr(fm, f"{criterion}_{theirs}")(truth, decision, sensitive_features=group, sample_weight=weight)
        assert value == estimate(truth, decision, group, weight, metric)[1]


@every_weight
@every_number_of_groups
@every_rate
def test_differences_and_ratios_of_single_rates(metric, n_groups, weighted):
    truth, decision, group, weight = rows(n_groups, weighted)
    theirs = frame_of(metric, truth, decision, group, weight)
    found, close = estimate(truth, decision, group, weight, metric)
    assert theirs.difference() == close
    assert theirs.by_group.tolist() == pytest.approx(found.by_group["rate"].tolist(), rel=1e-12)
    assert theirs.ratio() == estimate(truth, decision, group, weight, f"{metric}_ratio")[1]


@every_rate
def test_a_rate_of_zero_makes_a_ratio_of_zero(metric):
    truth, decision, group, _ = rows(3, False)
    decision = np.where(group == 0, truth, decision)  # no errors in the first group
    theirs = frame_of(metric, truth, decision, group, None)
    assert theirs.ratio() == estimate(truth, decision, group, None, f"{metric}_ratio")[1]
    assert theirs.difference() == estimate(truth, decision, group, None, metric)[1]


@every_weight
@every_rate
def test_intersections_of_two_columns(metric, weighted):
    truth, decision, group, weight = rows(5, weighted, n_rows=2000)
    columns = pd.DataFrame({"a": group % 2, "b": np.array(["x", "y", "z"])[group // 2]})
    theirs = frame_of(metric, truth, decision, columns, weight)
    found, close = estimate(truth, decision, columns, weight, metric, intersections=True)
    by_group = theirs.by_group.dropna()  # fairlearn also lists empty intersections
    both = found.by_group[found.by_group["column"] == "a × b"]
    assert both["group"].tolist() == [f"{a} × {b}" for a, b in by_group.index]
    assert by_group.tolist() == pytest.approx(both["rate"].tolist(), rel=1e-12)
    alone = [frame_of(metric, truth, decision, columns[name], weight).difference() for name in columns]
    assert max(theirs.difference(), *alone) == close


@every_weight
@every_rate
def test_rows_whose_group_is_missing_are_a_group(metric, weighted):
    truth, decision, group, weight = rows(3, weighted)
    names = pd.Series(np.array(["a", "b", None])[group]).fillna("unknown")  # fairlearn drops rows without a group
    found, close = estimate(truth, decision, names, weight, metric)
    assert frame_of(metric, truth, decision, names, weight).difference() == close
    assert found.n == len(truth)
