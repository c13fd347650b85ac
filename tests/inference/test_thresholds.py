"""Rates and gaps at every threshold of a score, with bands that hold together."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import binom, norm

import surefair as sf

pytestmark = pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")
AT = np.linspace(-1.5, 2.0, 15)


def draw(rng, n=400, shift=0.0, groups=2):
    group = rng.integers(groups, size=n)
    return group, rng.normal(size=n) + shift * (group == 0)


@pytest.mark.parametrize("metric", ["demographic_parity", "equalized_odds", "precision_ratio", "accuracy"])
def test_estimates_are_those_of_each_threshold_by_itself(metric):
    rng = np.random.default_rng(0)
    group, score = draw(rng, 900, 0.5, groups=3)
    truth = (score + rng.normal(size=900) > 0.3).astype(int)
    weight = rng.integers(1, 4, 900)
    asked = {"sensitive_features": {"g": group}, "metric": metric, "sample_weight": weight}
    curve = sf.threshold_curve(truth, score, thresholds=[0.4, -0.2], **asked)
    assert curve.thresholds == [-0.2, 0.4]
    for row in curve.to_frame().itertuples():
        alone = sf.fairness_interval(truth, score, threshold=row.threshold, **asked)
        assert row.estimate == pytest.approx(alone.estimate, abs=1e-12)
        assert row.low <= alone.estimate <= row.high
        mine = curve.by_pair[curve.by_pair["threshold"] == row.threshold]
        assert np.allclose(mine["gap"], alone.by_pair["gap"], atol=1e-12)
        mine = curve.by_group[curve.by_group["threshold"] == row.threshold]
        assert np.allclose(mine["rate"], alone.by_group["rate"], atol=1e-12)
        assert mine["n"].tolist() == alone.by_group["n"].tolist()


def covered(seed, n, shift, groups, truth=False):
    """Whether the bands of gaps, and of rates, contain the truth at every threshold."""
    group, score = draw(np.random.default_rng(seed), n, shift, groups)
    curve = sf.threshold_curve(None, score, sensitive_features=group, thresholds=AT, n_replicates=400)
    rate = norm.sf(AT[:, None] - np.where(np.arange(groups) == 0, shift, 0.0))
    a, b = np.triu_indices(groups, 1)
    pairs, rates = curve._by_pair, curve._by_group
    gap = (rate[:, a] - rate[:, b]).ravel()
    of_gaps = np.all((np.array(pairs["low"]) <= gap) & (gap <= np.array(pairs["high"])))
    of_rates = np.all((np.array(rates["low"]) <= rate.ravel()) & (rate.ravel() <= np.array(rates["high"])))
    return of_gaps, of_rates


@pytest.mark.parametrize(("shift", "groups"), [(0.0, 2), (0.4, 3)])
def test_bands_contain_the_truth_at_all_thresholds_together(shift, groups):
    found = np.array([covered(seed, 400, shift, groups) for seed in range(150)])
    assert (found.sum(axis=0) >= binom.ppf(1e-3, 150, 0.94)).all()


@pytest.mark.slow
@pytest.mark.parametrize(("n", "shift", "groups"), [(200, 0.0, 2), (400, 0.0, 2), (2_000, 0.3, 5), (400, 0.4, 3)])
def test_bands_contain_the_truth_at_all_thresholds_together_in_many_samples(n, shift, groups):
    found = np.array([covered(seed, n, shift, groups) for seed in range(1_000)])
    assert (found.sum(axis=0) >= binom.ppf(1e-3, 1_000, 0.95)).all()  # 928


def test_intervals_of_single_thresholds_would_not_hold_together():
    """The check above can fail: limits for one threshold at a time miss the truth somewhere far too often."""
    held = 0
    for seed in range(100):
        group, score = draw(np.random.default_rng(seed), 400)
        curve = sf.threshold_curve(None, score, sensitive_features=group, thresholds=AT, n_replicates=400)
        gaps = np.array(curve._by_pair["gap"])
        p = norm.sf(AT)
        spread = np.sqrt(p * (1 - p) * (1 / (group == 0).sum() + 1 / (group == 1).sum()))
        low, high = gaps - 1.96 * spread, gaps + 1.96 * spread
        held += np.all((low <= 0.0) & (high >= 0.0))
    assert held < binom.ppf(1e-3, 100, 0.93)


def test_verdicts_follow_the_bands():
    rng = np.random.default_rng(1)
    group, score = draw(rng, 4_000, 0.8)
    curve = sf.threshold_curve(None, score, sensitive_features=group, thresholds=[-3.0, 0.4, 3.5])
    assert curve.verdicts(0.1) == ["within margin", "violates margin", "within margin"]
    ratio = sf.threshold_curve(
        None, score, sensitive_features=group, thresholds=[-3.0, 0.4, 6.0], metric="demographic_parity_ratio"
    )
    assert ratio.verdicts(0.8) == ["within margin", "violates margin", "not enough evidence"]
    for margin in (0.0, 1.0, "x", None):
        with pytest.raises(ValueError, match="margin must lie"):
            curve.verdicts(margin)


def test_tables_json_and_words_say_the_same():
    rng = np.random.default_rng(2)
    group, score = draw(rng, 500, 0.5)
    curve = sf.threshold_curve(None, score, sensitive_features=pl.Series("g", group))
    assert isinstance(curve.to_frame(), pl.DataFrame)
    assert len(curve.thresholds) == 49
    found = json.loads(json.dumps(curve.to_dict(), allow_nan=False))
    assert len(found["curve"]) == 49
    assert len(found["by_group"]) == 98
    worst = max(found["curve"], key=lambda row: row["estimate"])
    assert f"is {worst['estimate']:.3f} at {worst['threshold']:.4g}" in curve.sentence
    assert "hold for all thresholds together" in str(curve)
    assert curve._repr_html_().count("<tr>") == 49
    assert "49 thresholds" in repr(curve)


def test_a_rate_without_rows_is_undefined_and_its_band_the_whole_range():
    group = np.array([0, 1] * 100)
    score = np.linspace(0.0, 1.0, 200)
    curve = sf.threshold_curve((score > 0.5).astype(int), score, sensitive_features=group, metric="precision",
                               thresholds=[0.5, 2.0])  # fmt: skip
    last = curve.by_pair.iloc[-1]
    assert np.isnan(last["gap"])
    assert (last["low"], last["high"]) == (-1.0, 1.0)
    assert curve.to_dict()["curve"][1]["estimate"] is None
    nowhere = sf.threshold_curve(None, score, sensitive_features=group, metric="demographic_parity_ratio",
                                 thresholds=[2.0])  # fmt: skip
    assert "defined nowhere" in nowhere.sentence


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"y_score": ["a", "b"] * 50}, "must hold numbers"),
        ({"y_score": [0.1, np.inf] * 50}, "row 1 is inf"),
        ({"y_score": [0.1, np.nan] * 50}, "NaN or missing"),
        ({"y_score": []}, "no evaluation rows"),
        ({"y_score": [0.1] * 99}, "99"),
        ({"thresholds": []}, "1 to 1,000 finite numbers"),
        ({"thresholds": [0.5, np.nan]}, "not finite"),
        ({"thresholds": 0.5}, "list of numbers"),
        ({"thresholds": range(1001)}, "received 1,001"),
        ({"metric": "accuracy"}, "needs labels"),
        ({"metric": "auc"}, "metric"),
        ({"confidence_level": 95}, "confidence_level"),
        ({"n_replicates": 1}, "n_replicates"),
        ({"sensitive_features": ["a"] * 100}, "only 1 group"),
        ({"sample_weight": [-1.0] * 100}, "weight"),
        ({"y_true": [0, 1, 2, 3] * 25}, "two labels"),
    ],
)
def test_bad_input_is_refused(change, words):
    given = {"y_true": None, "y_score": [0.2, 0.8] * 50, "sensitive_features": ["a", "b"] * 50} | change
    with pytest.raises(ValueError, match=words):
        sf.threshold_curve(given.pop("y_true"), given.pop("y_score"), **given)


def test_columns_with_names_and_intersections():
    rng = np.random.default_rng(4)
    table = pd.DataFrame({"sex": rng.choice(["f", "m"], 300), "age": rng.choice(["o", "y"], 300)})
    curve = sf.threshold_curve(
        None, rng.random(300), sensitive_features=table, intersections=True, thresholds=[0.3, 0.6]
    )
    assert set(curve.by_group["column"]) == {"sex", "age", "sex × age"}
