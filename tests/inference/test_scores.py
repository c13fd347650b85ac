"""Intervals for metrics of scores."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, norm
from sklearn.metrics import roc_auc_score

import surefair as sf
from surefair.diagnostics import SmallEvaluationSet
from surefair.inference.metric import score_metric_names


def draw(seed, n=600, groups=2, gap=0.0):
    rng = np.random.default_rng(seed)
    group, truth = rng.integers(groups, size=n), (rng.random(n) < 0.4).astype(int)
    score = 1.0 / (1.0 + np.exp(0.5 - truth - rng.normal(size=n) - gap * (group == groups - 1)))
    return truth, score, group


def interval_of(rows, metric, **options):
    truth, score, group = rows
    return sf.fairness_interval(
        truth, score, sensitive_features=group, metric=metric, **{"n_replicates": 500} | options
    )


@pytest.mark.parametrize("groups", [2, 5])
def test_groups_have_the_area_of_scikit_learn(groups):
    truth, score, group = draw(1, n=2000, groups=groups)
    weight = np.random.default_rng(0).exponential(size=2000)
    found = interval_of((truth, score.round(2), group), "auc", sample_weight=weight)
    theirs = [
        roc_auc_score(truth[group == g], score[group == g].round(2), sample_weight=weight[group == g])
        for g in range(groups)
    ]
    assert found.by_group["rate"].tolist() == pytest.approx(theirs, rel=1e-12)
    assert found.estimate == pytest.approx(np.ptp(theirs), rel=1e-12)
    assert (found.by_group["resolution"] == 0.0).all()
    assert (interval_of((truth, score, group), "auc").by_group["resolution"] < 1e-3).all()


@pytest.mark.parametrize("metric", score_metric_names())
def test_every_metric_has_an_interval_with_columns_and_intersections(metric):
    truth, score, group = draw(2, n=3000, groups=3, gap=0.5)
    columns = {"a": group, "b": np.arange(3000) % 2}
    found = sf.fairness_interval(truth, score, sensitive_features=columns, metric=metric, intersections=True)
    assert found.low <= found.estimate <= found.high
    assert found.metric == metric
    assert len(found.by_group) == 3 + 2 + 6
    assert (found.by_pair["low"] <= found.by_pair["gap"]).all()
    swapped = sf.fairness_interval(truth, score, sensitive_features=2 - group, metric=metric)
    plain = sf.fairness_interval(truth, score, sensitive_features=group, metric=metric)
    assert swapped.gap == pytest.approx(-plain.gap)


@pytest.mark.parametrize("metric", ["mean_score", "scoring_rate", "auc", "calibration"])
def test_coverage_at_parity(metric):
    n = 200
    covered = sum(interval_of(draw([3, seed]), metric).low == 0.0 for seed in range(n))
    assert covered >= binom.ppf(1e-4, n, 0.93)


def test_areas_of_one_are_not_certain():
    truth = np.tile([0, 1], 20)
    with pytest.warns(SmallEvaluationSet, match="group 0 has 10"):
        found = interval_of((truth, truth * 0.5 + 0.1, np.repeat([0, 1], 20)), "auc")
    assert found.estimate == 0.0
    assert found.high > 0.2
    assert found.by_group["low"].max() < 0.75


@pytest.mark.filterwarnings("ignore::surefair.diagnostics.SmallEvaluationSet")
def test_a_group_without_positive_rows_has_no_area():
    truth, score, group = draw(4)
    found = interval_of((truth * (group == 0), score, group), "auc")
    assert (found.low, found.high) == (0.0, 1.0)
    assert "group 1 has no evaluation row" in found.reason


def test_scores_need_no_labels_for_some_metrics():
    _, score, group = draw(5)
    for metric in ("mean_score", "scoring_rate"):
        assert interval_of((None, score, group), metric) == interval_of((None, score, group), metric)
    assert interval_of((None, 300 + 500 * score, group), "scoring_rate").n == 600


@pytest.mark.parametrize(
    ("metric", "change", "message"),
    [
        ("auc", {"y_true": None}, "y_true is None, and the metric 'auc' needs labels"),
        ("mean_score", {"y_pred": np.linspace(0, 2, 600)}, "needs scores between 0 and 1; received scores from 0 to 2"),
        ("calibration", {"y_pred": np.linspace(-1, 1, 600)}, "received scores from -1 to 1. Turn them into prob"),
        ("auc", {"y_pred": np.where(np.arange(600) == 7, np.inf, 0.5)}, "The score in row 7 is inf. Scores must be"),
        (
            "auc",
            {"y_pred": ["high", "low"] * 300},
            r"'auc' needs scores; received \['high', 'low', 'high'\]",
        ),
        ("auc", {"clusters": np.arange(600) // 2}, "looks at scores and takes no clusters. Leave clusters out"),
        ("auc", {"threshold": 0.5}, "looks at scores and takes no threshold"),
        ("auc", {"y_pred": [0.5]}, "inconsistent numbers of samples"),
        ("calibration_ratio", {}, "Unknown metric: 'calibration_ratio'"),
    ],
)
def test_scores_that_cannot_be_used_are_refused(metric, change, message):
    truth, score, group = draw(6)
    options = {"y_true": truth, "y_pred": score, "sensitive_features": group, "metric": metric} | change
    with pytest.raises(ValueError, match=message):
        sf.fairness_interval(**options)


def test_rows_of_weight_zero_and_the_size_of_weights_do_not_matter():
    rng = np.random.default_rng(0)
    score, group = rng.random(200), rng.integers(2, size=200)
    plain = sf.fairness_interval(None, score, sensitive_features=group, metric="mean_score")
    padded = sf.fairness_interval(
        None, np.r_[score, score], sensitive_features=np.r_[group, group], metric="mean_score",
        sample_weight=np.repeat([1e170, 0.0], 200),
    )  # fmt: skip
    assert (padded.gap_low, padded.gap_high, padded.n) == (plain.gap_low, plain.gap_high, 200)
    assert "200 of 400 rows have the weight 0" in padded.sentence


def rare_score(rng):
    """One group of 40 rows and a large one; 2 % of the scores are high."""
    score = np.where(rng.random(2040) < 0.02, 0.99, 0.01 * rng.random(2040))
    found = interval_of((None, score, np.repeat([0, 1], [40, 2000])), "mean_score", n_replicates=200)
    return found.gap_low <= 0.0 <= found.gap_high


def rare_label(rng):
    """Calibrated scores, of which 1 % are positive."""
    score = 0.02 * rng.random(200)
    truth = (rng.random(200) < score).astype(int)
    found = interval_of((truth, score, np.repeat([0, 1], 100)), "calibration", n_replicates=200, pos_label=1)
    return found.by_group["low"][0] <= 0.0 <= found.by_group["high"][0]


def good_ranks(rng):
    """Two groups of 20 positive and 20 negative rows with an area of 0.92."""
    truth = np.tile(np.repeat([0, 1], 20), 2)
    score = rng.standard_normal(80) + np.sqrt(2.0) * norm.ppf(0.92) * truth
    found = interval_of((truth, score, np.repeat([0, 1], 40)), "auc", n_replicates=200)
    return found.by_group["low"][0] <= 0.92 <= found.by_group["high"][0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("covers", [rare_score, rare_label, good_ranks])
def test_limits_of_skewed_values_cover(covers):
    rng = np.random.default_rng(0)
    assert sum(covers(rng) for _ in range(100)) >= 95


def test_rare_labels_do_not_make_calibration_all_but_unknown():
    rng = np.random.default_rng(0)
    score = 0.02 * rng.random(2000)
    truth = (rng.random(2000) < score).astype(int)
    found = interval_of((truth, score, np.repeat([0, 1], 1000)), "calibration", pos_label=1)
    assert (found.by_group["high"] - found.by_group["low"]).max() < 0.03


def test_scores_have_one_method():
    with pytest.raises(ValueError, match=r"do not depend on the method; received method='cheap'\. Leave method out"):
        interval_of(draw(0), "auc", method="cheap")


@pytest.mark.parametrize("kind", ["two values", "clipped"])
def test_scores_that_share_their_median_give_no_verdict(kind):
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 2000)
    score = np.clip(rng.beta(8, 1, 2000) + 0.1 * group, 0.0, 0.9)
    score = (rng.random(2000) < 0.7 + 0.2 * group).astype(float) if kind == "two values" else score
    with pytest.warns(sf.diagnostics.TiedScores, match=r"Only [0-9.]+ % of the rows have a score above the median"):
        found = sf.fairness_interval(None, score, sensitive_features=group, metric="scoring_rate")
    assert found.verdict(0.05) == found.verdict(0.5) == "not enough evidence"


def test_scores_of_ten_values_have_a_scoring_rate():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 4000)
    score = np.ceil(10.0 * rng.beta(2, 2, 4000))
    found = sf.fairness_interval(None, score, sensitive_features=group, metric="scoring_rate")
    assert found.diagnostics == ()
    expected = [np.mean(score[group == k] > np.median(score)) for k in (0, 1)]
    assert found.by_group["rate"].tolist() == pytest.approx(expected, abs=1e-12)
