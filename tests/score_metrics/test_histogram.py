"""Histograms of scores: bins that keep the order, sums that add, and metrics within their stated error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from surefair.score_metrics import SCORE_METRICS, Histogram
from surefair.score_metrics._histogram import LARGEST, SMALLEST, bin_of

FIELDS = ("bins", "rows", "weight", "square", "total", "least", "most")


def draw(seed, n=2000, groups=3, digits=None):
    rng = np.random.default_rng(seed)
    group, truth = rng.integers(groups, size=(n, 1)), rng.integers(2, size=n)
    score = 1.0 / (1.0 + np.exp(-truth - rng.normal(size=n) - 0.3 * group[:, 0]))
    return score if digits is None else score.round(digits), truth, group, (groups,), rng.exponential(size=n)


@given(st.lists(st.floats(-1e12, 1e12), min_size=2, max_size=50))
def test_bins_keep_the_order_of_scores(scores):
    score = np.sort(np.array(scores))
    number = bin_of(score)
    assert (np.diff(number) >= 0).all()
    for one in np.unique(number):
        part = score[number == one]
        inside = (np.abs(part) >= SMALLEST) & (np.abs(part) <= LARGEST)
        if inside.all():
            assert np.ptp(part) <= np.abs(part).max() / 4096


def test_histograms_of_two_parts_add():
    score, truth, group, sizes, weight = draw(1)
    whole = Histogram.of(score, truth, group, sizes, weight)
    parts = [Histogram.of(score[p], truth[p], group[p], sizes, weight[p]) for p in (slice(0, 700), slice(700, None))]
    for name in FIELDS:
        np.testing.assert_allclose(getattr(parts[0] + parts[1], name), getattr(whole, name), rtol=1e-13)
    np.testing.assert_array_equal((parts[1] + parts[0]).rows, whole.rows)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("digits", [None, 1], ids=["continuous", "discrete"])
@pytest.mark.parametrize("name", SCORE_METRICS)
def test_values_are_right_within_the_stated_error(name, digits, weighted):
    score, truth, group, sizes, weight = draw(2, digits=digits)
    weight = weight if weighted else np.ones(len(score))
    found = SCORE_METRICS[name].measure(Histogram.of(score, truth, group, sizes, weight))
    order = np.argsort(score, kind="stable")
    share = np.cumsum(weight[order]) / weight.sum()
    median = score[order][np.searchsorted(share, 0.5 - 1e-12)]
    for g in range(3):
        part = group[:, 0] == g
        s, y, w = score[part], truth[part], weight[part]
        expected = {
            "mean_score": np.average(s, weights=w),
            "calibration": np.average(s - y, weights=w),
            "auc": roc_auc_score(y, s, sample_weight=w),
            "scoring_rate": np.average(s > median, weights=w),
        }[name]
        assert found.value[g] == pytest.approx(expected, rel=1e-12, abs=found.error[g] + 1e-12)
    assert found.error.max() < 0.01
    if digits is not None or name in ("mean_score", "calibration"):
        assert (found.error == 0.0).all()


def test_any_scale_of_scores_gives_the_same_area():
    score, truth, group, sizes, weight = draw(3)
    for scaled in (score * 1e6, score - 5.0, np.log(score / (1.0 - score))):
        found = SCORE_METRICS["auc"].measure(Histogram.of(scaled, truth, group, sizes, weight))
        plain = SCORE_METRICS["auc"].measure(Histogram.of(score, truth, group, sizes, weight))
        np.testing.assert_allclose(found.value, plain.value, atol=float(np.max(found.error + plain.error)))


def test_spreads_are_those_of_repetitions():
    values = {name: [] for name in SCORE_METRICS}
    spreads = {name: [] for name in SCORE_METRICS}
    for seed in range(400):
        histogram = Histogram.of(*draw([4, seed], n=400, groups=2))
        for name, metric in SCORE_METRICS.items():
            found = metric.measure(histogram)
            off = (found.mix[0] - found.mix[1]) * found.spread
            values[name].append(found.value[0] - found.value[1])
            spreads[name].append(np.sum(off**2))
    for name in SCORE_METRICS:
        assert np.sqrt(np.mean(spreads[name])) == pytest.approx(np.std(values[name]), rel=0.12), name


def test_the_registry_has_the_name_of_each_metric():
    for name, metric in SCORE_METRICS.items():
        assert metric.name == name
        assert metric.words
