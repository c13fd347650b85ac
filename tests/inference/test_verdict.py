"""Verdicts are wrong no more often than their level allows, and forecasts of rows come true."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from batch import draw_batch
from scipy.special import polygamma
from scipy.stats import beta, binom

import surefair as sf
from surefair.criteria import CRITERIA
from surefair.diagnostics import ConstantDecisions, SmallEvaluationSet
from surefair.inference.counts import Counts, rates_of
from surefair.inference.interval import Context, Question, RowsNeeded, make_interval
from surefair.inference.limits import BOOTSTRAP_METHODS
from surefair.inference.metric import get_metric
from surefair.inference.sources import reweigh
from surefair.rows import Groups, as_columns

WITHIN, VIOLATES, UNKNOWN = VERDICTS = ("within margin", "violates margin", "not enough evidence")
every_method = pytest.mark.parametrize("method", BOOTSTRAP_METHODS)


def from_counts(
    counted,
    n,
    metric="demographic_parity",
    *,
    equal=False,
    seed=0,
    n_replicates=200,
    source="evaluation",
    method="percentile",
    trouble="",
):
    """Interval for this many positive decisions among n rows in each group; ``equal`` makes all replicates equal."""
    metric = get_metric(metric)
    tables = np.array([[[rows - x, x], [0, 0]] for x, rows in zip(counted, n, strict=True)], dtype=float)
    counts = Counts(tables, tables, tables)
    if equal:
        rates_b = np.broadcast_to(rates_of(metric.rates, counts), (n_replicates, len(metric.rates), len(n)))
    else:
        many = Counts(*[np.broadcast_to(tables, (1 + n_replicates, *tables.shape))] * 3)
        rates_b = reweigh(metric.rates, many, seed)
    groups = Groups.of(as_columns(list(range(len(n)))))
    question = Question(metric, source, method, 0.95)
    return make_interval(question, counts, groups, rates_b, context=Context(trouble=trouble))


def with_limits(low, high, metric="demographic_parity", **changes):
    """Interval with the given limits."""
    return replace(from_counts([40, 50], [100, 100], metric), low=low, high=high, **changes)


# -- Verdicts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.0, 0.1, WITHIN), (0.05, 0.09, WITHIN), (0.0, 0.11, UNKNOWN), (0.1, 0.2, UNKNOWN), (0.11, 0.2, VIOLATES)],
)
def test_a_verdict_says_where_the_whole_interval_is(low, high, verdict):
    assert with_limits(low, high).verdict(0.1) == verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.8, 1.0, WITHIN), (0.9, 0.95, WITHIN), (0.79, 1.0, UNKNOWN), (0.5, 0.8, UNKNOWN), (0.1, 0.79, VIOLATES)],
)
def test_the_margin_of_a_ratio_is_the_smallest_acceptable_one(low, high, verdict):
    assert with_limits(low, high, "demographic_parity_ratio").verdict(0.8) == verdict


@pytest.mark.parametrize("metric", ["demographic_parity", "demographic_parity_ratio"])
def test_an_undefined_gap_has_no_definite_verdict(metric):
    empty = from_counts([50, 0], [100, 0], metric)
    assert empty.reason
    assert empty.verdict(0.1) == empty.verdict(0.9) == UNKNOWN
    assert empty.rows_needed(0.9) == (np.inf, np.inf, np.inf)
    trouble = from_counts([50, 50], [100, 100], metric, trouble="it diverged")
    assert trouble.verdict(0.9) == UNKNOWN
    assert trouble.rows_needed(0.9) == (np.inf, np.inf, np.inf)
    # but a large gap between other groups violates the margin, whatever the empty group would show
    seen = from_counts([90, 10, 0], [100, 100, 0], metric)
    assert seen.verdict(0.3) == VIOLATES


@pytest.mark.parametrize("metric", ["demographic_parity", "demographic_parity_ratio"])
def test_a_diagnostic_that_forbids_a_verdict_leaves_it_open(metric):
    definite = from_counts([4000, 5000], [10_000, 10_000], metric)
    margins = (0.2, 0.01, 0.95)
    assert {definite.verdict(margin) for margin in margins} == {WITHIN, VIOLATES}
    harmless = SmallEvaluationSet("Few rows.")
    forbidding = ConstantDecisions("All decisions are equal.")
    assert [replace(definite, diagnostics=(harmless,)).verdict(m) for m in margins] == [
        definite.verdict(m) for m in margins
    ]
    for found in ((forbidding,), (harmless, forbidding), (SmallEvaluationSet("Few rows.", forbids_verdict=True),)):
        assert {replace(definite, diagnostics=found).verdict(margin) for margin in margins} == {UNKNOWN}


@pytest.mark.parametrize("margin", [0.0, 1.0, -0.1, 95, np.nan, np.inf, "0.1", None, True])
@pytest.mark.parametrize("question", ["verdict", "rows_needed"])
def test_invalid_margins_are_refused(margin, question):
    with pytest.raises(ValueError, match=r"margin must lie strictly between 0 and 1.* received"):
        getattr(with_limits(0.0, 0.1), question)(margin)


@pytest.mark.parametrize("source", ["training", "retraining"])
@pytest.mark.parametrize("question", ["verdict", "rows_needed"])
def test_an_interval_without_evaluation_noise_gives_no_verdict(source, question):
    found = from_counts([40, 50], [100, 100], source=source)
    with pytest.raises(ValueError, match=rf"{source}' leaves out the noise .* source='total' or source='evaluation'"):
        getattr(found, question)(0.1)


@pytest.mark.parametrize("question", ["verdict", "rows_needed"])
def test_the_published_interval_gives_no_verdict(question):
    with pytest.raises(ValueError, match=r"method='paper', does not reach its confidence level.* such as 'percentile'"):
        getattr(from_counts([40, 50], [100, 100], method="paper"), question)(0.1)


@pytest.mark.slow
@every_method
@pytest.mark.parametrize("n", [(10, 10), (12, 8), (15, 5), (19, 1), (7, 7, 6)])
def test_twenty_rows_never_show_that_a_margin_is_met(method, n):
    # every outcome; equal replicates claim the least uncertainty, so that only exact limits remain
    for counted in product(*(range(0, rows + 1, 1 if len(n) == 2 else 2) for rows in n)):
        for equal in (True, False) if counted[0] in (0, n[0]) else (True,):
            found = from_counts(counted, n, method=method, equal=equal, n_replicates=2)
            assert found.high > 0.2
            assert {found.verdict(margin) for margin in (0.01, 0.1, 0.2)} <= {UNKNOWN, VIOLATES}
        ratio = from_counts(counted, n, "demographic_parity_ratio", method=method, equal=True, n_replicates=2)
        assert ratio.verdict(0.8) != WITHIN


N_STUDIES, ALPHA = 1000, 0.05
MOST = binom.ppf(1 - 1e-3, N_STUDIES, ALPHA)  # wrong verdicts; an exact method has more once in a thousand runs


@pytest.mark.slow
@pytest.mark.parametrize(
    ("metric", "margin", "rates", "n"),
    [
        ("demographic_parity", 0.1, (0.45, 0.55), (200, 200)),
        ("demographic_parity", 0.05, (0.1, 0.15), (1600, 400)),
        ("demographic_parity", 0.1, (0.4, 0.5, 0.45), (700, 700, 600)),
        ("demographic_parity_ratio", 0.8, (0.4, 0.5), (1000, 1000)),
    ],
)
def test_definite_verdicts_are_rare_if_the_true_unfairness_is_the_margin(metric, margin, rates, n):
    rng = np.random.default_rng(len(n) + n[0])
    found = [
        from_counts(rng.binomial(n, rates), n, metric, seed=study).verdict(margin) for study in range(N_STUDIES)
    ]  # fmt: skip
    assert found.count(WITHIN) <= MOST
    assert found.count(VIOLATES) <= MOST
    # and far from the margin there is always one
    far = [from_counts(rng.binomial(10 * np.array(n), rates), 10 * np.array(n), metric, seed=s) for s in range(20)]
    narrow, wide = (0.5, 0.95) if metric.endswith("ratio") else (margin * 3.0, margin / 3.0)
    assert {interval.verdict(narrow) for interval in far} == {WITHIN}
    assert {interval.verdict(wide) for interval in far} == {VIOLATES}


# -- Forecasts ------------------------------------------------------------------------------------------------------


def test_a_definite_verdict_needs_no_more_rows():
    found = from_counts([4000, 5000], [10_000, 10_000])
    assert found.verdict(0.2) == WITHIN
    assert found.rows_needed(0.2) == found.rows_needed(0.01) == RowsNeeded(0, 0, 1.0)


@pytest.mark.parametrize("metric", ["demographic_parity", "demographic_parity_ratio"])
def test_no_number_of_rows_decides_if_the_estimate_is_the_margin(metric):
    found = from_counts([40, 50], [100, 100], metric)
    assert found.rows_needed(0.8 if metric.endswith("ratio") else 0.1) == (np.inf, np.inf, np.inf)


@pytest.mark.parametrize("counted", [(0, 5), (5, 0), (0, 5, 6)])
def test_an_infinite_gap_has_no_forecast(counted):
    found = from_counts(counted, [50] * len(counted), "demographic_parity_ratio")
    assert found.estimate == 0.0
    assert found.verdict(0.2) == UNKNOWN
    assert found.rows_needed(0.2) == (np.inf, np.inf, np.inf)


def test_replicates_that_reach_zero_leave_a_ratio_without_a_forecast():
    counts = np.array([[[60, 40], [0, 0]], [[50, 50], [0, 0]]], dtype=float)
    rates_b = np.full((50, 1, 2), 0.45) + np.random.default_rng(0).normal(scale=0.05, size=(50, 1, 2))
    trained = rates_b.copy()
    trained[:5, 0, 0] = 0.0
    question = Question(get_metric("demographic_parity_ratio"), "total", "normal", 0.95)
    groups = Groups.of(as_columns([0, 1]))
    context = Context(n_training=100)
    found = make_interval(question, Counts(counts, counts, counts), groups, rates_b, trained, context)
    assert found.spread_training == np.inf
    assert found.to_dict()["spread_training"] is None
    assert found.rows_needed(0.75) == (np.inf, np.inf, np.inf)


@pytest.mark.parametrize("mirrored", [False, True])
def test_limits_move_towards_the_gap_with_the_root_of_the_number_of_rows(mirrored):
    found = from_counts([50, 60][:: -1 if mirrored else 1], [100, 100])
    assert found.gap == pytest.approx(0.1 if mirrored else -0.1)
    outer = found.high - 0.1
    need = found.rows_needed(0.15)
    assert need.times == pytest.approx((outer / 0.05) ** 2)
    assert need == (np.inf, np.ceil((need.times - 1.0) * 200), need.times)
    inner = found.gap - found.gap_low if mirrored else found.gap_high - found.gap
    assert found.rows_needed(0.06).times == pytest.approx((inner / 0.04) ** 2)


def test_more_training_rows_and_more_evaluation_rows_both_narrow_the_interval():
    found = from_counts([500, 600], [1000, 1000])
    table = {"gap": [-0.1], "low": [-0.15], "high": [-0.05], "spread_training": [0.02], "spread_evaluation": [0.01]}
    both = replace(found, _by_pair=table, estimate=0.1, low=0.05, high=0.15, source="total", n_training=4000)
    need = both.rows_needed(0.14)  # 0.8 of the width, 0.64 of the variance: 4/k + 1 = 0.64 · 5, or 4 + 1/k
    assert need == (pytest.approx(np.ceil((4 / 2.2 - 1) * 4000)), np.inf, pytest.approx(1 / 0.64))
    need = both.rows_needed(0.145)  # 0.81 · 5 = 4.05
    assert need == pytest.approx(((4 / 3.05 - 1) * 4000, (1 / 0.05 - 1) * 2000, 1 / 0.81), abs=1.0)
    assert all(isinstance(rows, int) for rows in need[:2])
    json.dumps(both.to_dict(), allow_nan=False)


def test_near_parity_both_limits_must_come_within_the_margin():
    found = from_counts([501, 500], [1000, 1000])
    table = found.by_pair.assign(gap=0.001, low=-0.2, high=0.1).to_dict("list")
    lopsided = replace(found, _by_pair=table, low=0.0, high=0.2, estimate=0.001)
    assert lopsided.rows_needed(0.15).times == pytest.approx((0.201 / 0.151) ** 2)


def test_every_pair_must_come_within_the_margin_and_one_beyond_it_is_enough():
    # the third group is small, so its gaps are the least certain
    found = from_counts([5000, 5500, 11], [10_000, 10_000, 20])
    assert found.pair == (0, 1) or found.estimate < 0.06
    alone = from_counts([5000, 5500], [10_000, 10_000])
    assert alone.rows_needed(0.1) == (0, 0, 1.0)
    assert found.rows_needed(0.1).evaluation > 20_020 * 5
    # two large groups can show a violation, however uncertain the third is
    assert found.rows_needed(0.04).evaluation < 20_020 * 5


@pytest.mark.parametrize("frame", [pd.Series, pl.Series])
def test_forecasts_are_the_same_in_every_library(frame):
    rng = np.random.default_rng(0)
    group, y = rng.integers(2, size=500), rng.integers(2, size=500)
    found = sf.fairness_interval(y, y, sensitive_features=frame(group))
    assert found.rows_needed(0.2) == sf.fairness_interval(y, y, sensitive_features=group).rows_needed(0.2)


@pytest.mark.parametrize("metric", ["demographic_parity", "demographic_parity_ratio", "equalized_odds"])
def test_the_evaluation_spread_is_that_of_the_replicates(metric):
    rng = np.random.default_rng(1)
    group, y = rng.integers(2, size=800), rng.integers(2, size=800)
    decision = (rng.random(800) < 0.2 + 0.3 * y + 0.1 * group).astype(int)
    found = sf.fairness_interval(y, decision, sensitive_features=group, metric=metric, method="normal")
    if metric == "equalized_odds":
        assert len(found.by_pair) == 2
    else:
        half = (found.gap_high - found.gap_low) / 2.0
        assert found.spread_evaluation == pytest.approx(half / 1.96, rel=0.05)  # with 2,000 replicates
    assert (found.by_pair["spread_training"] == 0.0).all()
    assert (found.n_training, found.spread_training) == (0, 0.0)
    assert found.spread_evaluation in found.by_pair["spread_evaluation"].tolist()


def test_the_evaluation_spread_is_that_of_beta_laws():
    found, ratio = (from_counts([3, 30], [10, 50], f"demographic_parity{end}") for end in ("", "_ratio"))
    laws = beta(3.5, 7.5), beta(30.5, 20.5)
    assert found.spread_evaluation == pytest.approx(np.sqrt(laws[0].var() + laws[1].var()))
    variance = [polygamma(1, a) - polygamma(1, a + b) for a, b in ((3.5, 7.5), (30.5, 20.5))]
    assert ratio.spread_evaluation == pytest.approx(np.sqrt(sum(variance)))


def test_evaluation_forecasts_come_true():
    # with as many rows as forecast, the limits are at the margin
    rng, rates, ratios = np.random.default_rng(2), np.array([0.4, 0.5]), []
    for study in range(60):
        n = np.array([1000, 1000])
        now = from_counts(rng.binomial(n, rates), n, seed=study)
        for margin in (now.estimate + 0.02, now.estimate - 0.03):
            then = n + int(now.rows_needed(margin).evaluation) // 2
            later = from_counts(rng.binomial(then, rates), then, seed=study)
            side = later.high - later.estimate if margin > now.estimate else later.estimate - later.low
            ratios.append(side / abs(margin - now.estimate))
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.05)
    assert np.mean(np.abs(np.array(ratios) - 1.0) < 0.15) > 0.85


# -- Through a classifier -------------------------------------------------------------------------------------------


def fitted(n, seed, n_replicates=200):
    """Classifier fitted to rows of the synthetic stream."""
    rows = draw_batch(sf.datasets.SyntheticDI(seed=5), 10**6 * (1 + seed), n)
    clf = sf.FairClassifier(random_state=seed, n_replicates=n_replicates)
    return clf.fit(rows.X, rows.y, sensitive_features=rows.group)


@pytest.fixture(scope="module")
def held_out():
    rows = draw_batch(sf.datasets.SyntheticDI(seed=6), 0, 20_000)
    return {"X": rows.X, "y": rows.y, "sensitive_features": rows.group}


def test_an_interval_of_a_classifier_has_two_spreads(held_out):
    clf = fitted(4000, 0)
    total, training, retraining, evaluation = (
        clf.fairness_interval(**held_out, source=source) for source in ("total", "training", "retraining", "evaluation")
    )
    assert {found.n_training for found in (total, training, retraining, evaluation)} == {4000}
    assert 0.0 < total.spread_training <= training.spread_training  # the noise of the evaluation rows is removed
    assert total.spread_training == pytest.approx(training.spread_training, rel=0.1)
    assert retraining.spread_training == pytest.approx(np.sqrt(2.0) * training.spread_training, rel=0.1)
    assert total.spread_evaluation == evaluation.spread_evaluation > 0.0
    assert training.spread_evaluation == retraining.spread_evaluation == evaluation.spread_training == 0.0
    half = (total.gap_high - total.gap_low) / 2.0
    assert np.hypot(total.spread_training, total.spread_evaluation) == pytest.approx(half / 1.96, rel=0.2)
    assert evaluation.rows_needed(evaluation.high - 1e-4).training == np.inf


def test_training_forecasts_come_true(held_out):
    ratios = []
    for seed in range(8):
        now = fitted(4000, 2 * seed).fairness_interval(**held_out, method="normal")
        margin = now.estimate + 0.6 * (now.gap_high - now.gap)
        need = now.rows_needed(margin)
        assert need.training < np.inf
        assert 1.0 < need.times < 1.0 + need.training / 4000
        later = fitted(4000 + int(need.training), 2 * seed + 1).fairness_interval(**held_out, method="normal")
        ratios.append((later.gap_high - later.gap) / (margin - now.estimate))
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.15)


def test_a_criterion_with_two_rates_gives_a_verdict(held_out):
    found = fitted(2000, 1).fairness_interval(**held_out, metric="equalized_odds")
    assert found.verdict(0.9) in VERDICTS
    assert len(found.by_pair) == len(CRITERIA["equalized_odds"].rates)


@pytest.mark.slow
@every_method
@pytest.mark.parametrize("n_replicates", [2, 200])
def test_twenty_rows_never_show_that_a_classifier_is_within_a_margin(method, n_replicates):
    clf = fitted(2000, 3, n_replicates)
    for first in range(0, 400, 20):
        rows = draw_batch(sf.datasets.SyntheticDI(seed=6), first, 20)
        for source in ("total", "evaluation"):
            found = clf.fairness_interval(
                rows.X, rows.y, sensitive_features=rows.group, source=source, method=method
            )  # fmt: skip
            assert found.verdict(0.2) != WITHIN
