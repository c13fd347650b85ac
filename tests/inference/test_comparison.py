"""Two models on the same rows: paired differences, their limits, verdicts and words."""

from __future__ import annotations

import json
import math

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom

import surefair as sf
from surefair.inference.limits import Gaps
from surefair.inference.pairing import unfairness_limits

pytestmark = pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")


def draw(seed, n=2000, gaps=(0.0, 0.0), agree=0.9, groups=2):
    """Truth, decisions of two models, and group."""
    rng = np.random.default_rng(seed)
    group, truth, u, v = rng.integers(groups, size=n), rng.integers(2, size=n), rng.random(n), rng.random(n)
    again = rng.random(n) < 2.0 * (1.0 - agree)
    a, b = (0.45 + gap * (group == groups - 1) for gap in gaps)
    return truth, (u < a).astype(int), (np.where(again, v, u) < b).astype(int), group


def comparison(rows, **options):
    truth, a, b, group = rows
    return sf.compare(truth, a, b, sensitive_features=group, **{"n_replicates": 200} | options)


@pytest.mark.parametrize("metric", ["demographic_parity", "equalized_odds", "precision", "accuracy_ratio"])
@pytest.mark.parametrize("weighted", [False, True])
def test_estimates_are_differences_of_those_of_each_model(metric, weighted):
    rows = draw(1, gaps=(0.2, 0.05), groups=3)
    weight = np.random.default_rng(0).exponential(size=2000) if weighted else None
    found = comparison(rows, metric=metric, sample_weight=weight)
    a, b = (
        sf.fairness_interval(
            rows[0], one, sensitive_features=rows[3], metric=metric, sample_weight=weight, n_replicates=200
        )
        for one in rows[1:3]
    )
    for mine, theirs in ((found.a, a), (found.b, b)):
        numbers = [(one.estimate, one.low, one.high) for one in (mine, theirs)]
        assert numbers[0] == pytest.approx(numbers[1], rel=1e-9)
    scale = (lambda x: -math.log(x)) if metric.endswith("ratio") else (lambda x: x)
    assert found.estimate == pytest.approx(scale(b.estimate) - scale(a.estimate), rel=1e-12)
    assert found.by_pair["difference"].tolist() == pytest.approx((b.by_pair["gap"] - a.by_pair["gap"]).tolist())
    right = [np.average(rows[0] == one, weights=weight) for one in rows[1:3]]
    assert found.accuracy.estimate == pytest.approx(right[1] - right[0], rel=1e-12)
    assert found.low <= found.estimate <= found.high
    assert found.agreement == pytest.approx(np.average(rows[1] == rows[2], weights=weight))


def test_the_spread_of_a_paired_difference_is_mc_nemars():
    truth, a, b, group = draw(2)
    found = comparison((truth, a, b, group))
    variance = sum(np.var((b - a)[group == g]) / np.sum(group == g) for g in (0, 1))
    width = found.by_pair["high"][0] - found.by_pair["low"][0]
    assert width == pytest.approx(2 * 1.95996 * np.sqrt(variance), rel=1e-4)
    right = (truth == b).astype(float) - (truth == a)
    half = (found.accuracy.high - found.accuracy.low) / 2
    assert half == pytest.approx(1.95996 * right.std() / np.sqrt(2000), rel=1e-4)


def test_a_paired_interval_is_at_most_half_as_wide_as_two_separate_ones():
    found = comparison(draw(3, gaps=(0.1, 0.1)))
    assert found.agreement == pytest.approx(0.9, abs=0.02)
    separate = np.hypot(found.a.high - found.a.low, found.b.high - found.b.low)
    assert found.by_pair["high"][0] - found.by_pair["low"][0] < 0.5 * separate
    assert found.high - found.low < 0.5 * separate


@pytest.mark.parametrize(
    ("gaps", "groups", "n", "options"),
    [
        ((0.0, 0.0), 2, 800, {}),
        ((0.1, 0.1), 2, 800, {}),
        ((0.15, -0.05), 3, 1200, {}),
        ((0.1, 0.1), 2, 800, {"metric": "demographic_parity_ratio"}),
        ((0.1, 0.1), 2, 800, {"metric": "precision"}),
        ((0.1, 0.1), 2, 1200, {"clusters": np.arange(1200) // 4}),
    ],
    ids=["parity", "equal gaps", "three groups", "ratio", "precision", "clusters"],
)
def test_coverage(gaps, groups, n, options):
    repetitions = 80
    metric = options.get("metric", "demographic_parity")
    sizes = [0.0 if metric == "precision" else abs(gap) for gap in gaps]
    truth = sizes[1] - sizes[0]
    covered = 0
    for seed in range(repetitions):
        found = comparison(draw([4, seed], n, gaps, groups=groups), **options)
        covered += found.low <= truth + 1e-12 <= found.high + 2e-12
    assert covered >= binom.ppf(1e-4, repetitions, 0.93)


def test_verdicts_and_rows_needed():
    clear = comparison(draw(5, n=5000, gaps=(0.2, 0.05)), names=("old", "new"))
    assert clear.verdict == "new is less unfair"
    assert clear.rows_needed() == 0
    truth, a, b, group = draw(5, n=5000, gaps=(0.2, 0.05))
    assert comparison((truth, b, a, group)).verdict == "a is less unfair"
    open_question = comparison(draw(6, n=400, gaps=(0.12, 0.10)))
    assert open_question.verdict == "not enough evidence"
    more = open_question.rows_needed()
    assert 100 < more < 100_000
    assert comparison((truth, a, a, group)).rows_needed() == math.inf


def test_models_that_agree_everywhere_may_still_differ_elsewhere():
    truth, a, _, group = draw(7, n=1000)
    found = comparison((truth, a, a, group))
    assert found.estimate == found.accuracy.estimate == 0.0
    assert 0.003 < found.high < 0.03
    assert found.low == -found.high
    assert 0.002 < found.accuracy.high < 0.01


def test_without_a_rate_the_interval_is_the_whole_range():
    truth, a, b, group = draw(11, groups=3)
    found = comparison((truth, a, np.where(group == 2, 0, b), group), metric="precision")
    assert (found.low, found.high) == (-1.0, 1.0)
    assert found.verdict == "not enough evidence"
    assert found.rows_needed() == math.inf
    assert "group 2 has no evaluation row" in found.b.reason


def test_swapping_the_models_flips_the_difference():
    truth, a, b, group = draw(8, gaps=(0.15, 0.02), groups=3)
    one, other = comparison((truth, a, b, group)), comparison((truth, b, a, group))
    assert (one.estimate, one.low, one.high) == pytest.approx(
        (-other.estimate, -other.high, -other.low), rel=0.02, abs=0.002
    )


def test_a_column_in_which_both_models_are_at_parity_changes_little():
    rng = np.random.default_rng(0)
    band, sex, chance = rng.integers(0, 2, 20_000), rng.integers(0, 2, 20_000), rng.random(20_000)
    a, b = (chance < np.where(band == 0, 0.25, 0.10)).astype(int), (chance < 0.12).astype(int)
    alone, beside = (
        sf.compare(None, a, b, sensitive_features=columns) for columns in ({"band": band}, {"band": band, "sex": sex})
    )
    assert beside.low == pytest.approx(alone.low, abs=0.01)
    assert beside.high == pytest.approx(alone.high, abs=0.02)


@pytest.mark.parametrize("seed", range(5))
def test_limits_of_the_difference_of_unfairnesses_hold_wherever_their_ingredients_do(seed):
    rng = np.random.default_rng(seed)
    for _ in range(300):
        true_a, true_b = rng.normal(scale=0.1, size=(2, 2, 3))
        ingredients = []
        for value in (true_b - true_a, true_b + true_a):
            low, high = (np.abs(rng.normal(scale=0.1, size=(2, 3))) for _ in range(2))
            ingredients.append(Gaps(value, value - low, value + high, np.ones((2, 3), dtype=bool)))
        low, high = unfairness_limits(*ingredients)
        truth = np.abs(true_b).max() - np.abs(true_a).max()
        assert low - 1e-12 <= truth <= high + 1e-12


def test_scores_labels_and_tables():
    truth, a, b, group = draw(9)
    rng = np.random.default_rng(0)
    scores = [0.5 * one + 0.5 * rng.random(2000) for one in (a, b)]
    found = sf.compare(truth, *scores, sensitive_features=pl.Series(group), threshold=0.5, n_replicates=100)
    plain = comparison((truth, a, b, group), n_replicates=100)
    assert (found.low, found.high) == (plain.low, plain.high)
    assert isinstance(found.by_pair, pl.DataFrame)
    assert found.to_frame()["quantity"].to_list()[2:] == ["difference of unfairness", "difference of accuracy"]
    written = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert written["accuracy"]["low"] == found.accuracy.low
    assert written["a"]["metric"] == "demographic_parity"
    assert "the unfairness of b minus that of a" in str(found)
    assert "difference of accuracy" in found._repr_html_()
    assert repr(found).startswith("<demographic_parity, b minus a, 0.95: ")
    unlabelled = sf.compare(None, a, b, sensitive_features=group, n_replicates=100)
    assert unlabelled.accuracy is None
    assert (unlabelled.low, unlabelled.high) == pytest.approx((plain.low, plain.high), rel=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y_pred_b": [0, 1]}, "inconsistent numbers of samples"),
        ({"y_pred_b": np.arange(2000) % 3}, r"Exactly two labels are needed; received 3: 0, 1, 2"),
        ({"y_pred_b": np.full(2000, np.nan)}, "decision column contains NaN or missing values"),
        ({"metric": "accuracy", "y_true": None}, "y_true is None, and the metric 'accuracy' needs labels"),
        ({"names": ("x", "x")}, r"names must be two different names for the two models; received \('x', 'x'\)"),
        ({"confidence_level": 95}, "confidence_level must lie strictly between 0 and 1"),
    ],
)
def test_what_cannot_be_compared_is_refused(change, message):
    truth, a, b, group = draw(10)
    options = {"y_true": truth, "y_pred_a": a, "y_pred_b": b, "sensitive_features": group} | change
    with pytest.raises(ValueError, match=message):
        sf.compare(**options)


@pytest.mark.filterwarnings("ignore::surefair.diagnostics.SmallEvaluationSet")
@pytest.mark.parametrize(
    ("a", "b", "estimate", "difference"),
    [
        ([0, 1, 0, 1], [0, 1, 0, 1], 0.0, 0.0),
        ([0, 1, 0, 1], [0, 1, 1, 1], -np.inf, np.inf),
        ([0, 1, 0, 1], [1, 0, 1, 0], np.nan, np.inf),
        ([0, 0, 0, 0], [0, 1, 1, 1], np.nan, np.nan),
    ],
    ids=["identical", "one infinite", "both infinite", "one undefined"],
)
def test_infinite_ratios_are_infinite_or_undefined(a, b, estimate, difference):
    found = sf.compare(
        None, a * 25, b * 25, sensitive_features=["a", "b"] * 50, metric="demographic_parity_ratio", pos_label=1
    )
    assert [found.estimate, found.low, found.high] == pytest.approx([estimate, -np.inf, np.inf], nan_ok=True)
    assert found.by_pair["difference"].tolist() == pytest.approx([difference], nan_ok=True)
    assert found.by_pair[["low", "high"]].to_numpy().tolist() == [[-np.inf, np.inf]]
    assert ("is undefined" in found.sentence) == ("undefined" in repr(found)) == np.isnan(estimate)
    assert "nan" not in found.sentence


def test_an_interval_near_parity_says_why_it_is_symmetric():
    rng = np.random.default_rng(21)
    group = np.array(["x", "y"] * 500)
    a = (rng.random(1_000) < 0.4).astype(int)
    b = np.where(rng.random(1_000) < 0.1, 1 - a, a)
    near = sf.compare(None, a, b, sensitive_features=group)
    assert near.low == -near.high
    assert "symmetric about 0 because these rows do not show which sign the gaps have" in near.sentence
    far = np.where(group == "x", 1, a)
    apart = sf.compare(None, far, np.where(group == "x", 1, b), sensitive_features=group)
    assert apart.low != -apart.high
    assert "symmetric" not in apart.sentence


def test_a_comparison_becomes_json_and_a_page_with_charts(tmp_path):
    rng = np.random.default_rng(22)
    y, a, b = (rng.random((3, 600)) < 0.4).astype(int)
    groups = {"sex <b>": rng.choice(["f", "m"], 600), "age": rng.choice(["1", "2", "3"], 600)}
    for metric in ("equalized_odds", "demographic_parity_ratio"):
        found = sf.compare(y, a, b, sensitive_features=groups, metric=metric, names=("old & tried", "new"))
        found.to_json(tmp_path / "c.json")
        found.to_html(tmp_path / "c.html")
        written = json.loads((tmp_path / "c.json").read_text())
        assert written == {"format": "surefair.Comparison", "version": 1} | found.to_dict()
        page = (tmp_path / "c.html").read_text()
        assert page.count("<svg") >= 4
        assert "old &amp; tried" in page
        assert "sex <b>" not in page
        for one in found.to_dict()["a"]["by_group"]:  # the number of rows of each group is shown
            assert f'<td class="num">{one["n"]:,}</td>' in page


def test_a_page_shows_what_is_not_defined(tmp_path):
    group = ["x", "y"] * 100
    found = sf.compare([1, 0] * 100, [1, 0] * 100, [0, 1] * 100, sensitive_features=group, metric="error_rate_ratio")
    found.to_html(tmp_path / "c.html")
    assert "not defined" in (tmp_path / "c.html").read_text()
