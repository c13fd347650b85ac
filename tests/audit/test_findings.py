"""What an audit finds: numbers against ones computed by hand, and sentences against what they should say."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, norm
from sklearn.linear_model import LogisticRegression

import surefair as sf
from surefair.audit import findings
from surefair.audit.evaluation import Evaluation
from surefair.audit.settings import AuditSettings
from surefair.datasets import SyntheticDI
from surefair.diagnostics import DIAGNOSTICS, TooFewReplicates
from surefair.inference.interval import UNDECIDED, VIOLATES, WITHIN

# -- Verdicts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verdicts", [*product([WITHIN, VIOLATES, UNDECIDED], repeat=3)])
def test_one_violation_is_enough_and_one_undecided_metric_rules_out_within(verdicts):
    found = findings.overall(verdicts)
    assert (found == VIOLATES) == (VIOLATES in verdicts)
    assert (found == WITHIN) == all(one == WITHIN for one in verdicts)
    assert found in (WITHIN, VIOLATES, UNDECIDED)


def evaluation(constrained, unconstrained, weight):
    """Evaluation of two models, given which of their decisions are right."""
    first, second = ((~right, right) for right in (constrained, unconstrained))
    right = np.array([[weight @ (a & b) for b in second] for a in first])
    return Evaluation({"constrained": None, "unconstrained": None}, right, float(weight @ weight))


def price(unconstrained, constrained, weight, level):
    return findings.price(evaluation(constrained, unconstrained, np.asarray(weight, dtype=float)), level)


def accuracy(right, weight, level):
    found = findings.accuracies(evaluation(right, ~right, weight), level)
    assert found["constrained"]["estimate"] + found["unconstrained"]["estimate"] == pytest.approx(1.0)
    return found["constrained"]


# -- The price ---------------------------------------------------------------------------------------------------------


def test_the_price_is_a_paired_difference():
    """Of ten rows, only the unconstrained model is right on three, and only the constrained one on one."""
    free = np.array([1, 1, 1, 0, 1, 1, 1, 1, 0, 0], dtype=bool)
    held = np.array([0, 0, 0, 1, 1, 1, 1, 1, 0, 0], dtype=bool)
    found = price(free, held, np.ones(10), 0.95)
    # Half a row more in each of the four cells makes 3.5 and 1.5 of 12: mean 2/12, its variance (5 - 12 (2/12)²)/12².
    middle = 2 / 12
    half = 1.959963984540054 * (5 - 12 * (2 / 12) ** 2) ** 0.5 / 12
    assert found == pytest.approx({"estimate": 0.2, "low": middle - half, "high": middle + half}, rel=1e-12)


def test_a_row_of_weight_2_moves_the_price_as_much_as_two_rows():
    rng = np.random.default_rng(0)
    free, held = rng.random((2, 400)) < [[0.8], [0.7]]
    weight = rng.integers(1, 4, 400)
    found = price(free, held, weight.astype(float), 0.9)
    twice = price(np.repeat(free, weight), np.repeat(held, weight), np.ones(weight.sum()), 0.9)
    assert found["estimate"] == pytest.approx(twice["estimate"], rel=1e-12)
    assert found["high"] - found["low"] > twice["high"] - twice["low"]  # weights are not more rows
    assert found == pytest.approx(price(free, held, 7.0 * weight, 0.9), rel=1e-12)


def test_models_that_agree_on_a_few_rows_may_still_differ():
    right = np.array([True, False, True])
    found = price(right, right, np.ones(3), 0.95)
    assert found["estimate"] == 0.0
    assert found["low"] == -found["high"] < -0.3


def test_the_price_of_models_that_hardly_disagree_covers():
    """They differ on one row in 500, so many draws have no such row; the limits must not be certain of 0."""
    rng = np.random.default_rng(2)
    hits = 0
    for _ in range(500):
        lost = rng.random(500) < 0.002
        one = price(np.ones(500, bool), ~lost, np.ones(500), 0.95)
        hits += one["low"] <= 0.002 <= one["high"]
    assert hits >= binom.ppf(1e-4, 500, 0.93)


def test_the_interval_of_the_price_covers():
    """The truth is 0.1; of 500 intervals, the number that contain it is binomial."""
    rng = np.random.default_rng(1)
    n = 400
    hits = 0
    for _ in range(500):
        u = rng.random(n)
        found = price(u < 0.75, (u > 0.05) & (u < 0.7), np.ones(n), 0.9)
        hits += found["low"] <= 0.1 <= found["high"]
    assert abs(hits / 500 - 0.9) < 4.0 * np.sqrt(0.9 * 0.1 / 500)


# -- Accuracy ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.83, 1.0])
@pytest.mark.parametrize("n", [1, 10, 1000])
def test_the_limits_of_accuracy_contain_the_estimate(share, n):
    correct = np.arange(n) < round(share * n)
    found = accuracy(correct, np.ones(n), 0.95)
    assert found["estimate"] == correct.mean()
    assert 0.0 <= found["low"] <= found["estimate"] <= found["high"] <= 1.0
    assert found["low"] < found["high"]


def test_weights_make_accuracy_less_certain_unless_they_are_equal():
    correct = np.arange(500) % 4 > 0
    even, scaled = (accuracy(correct, np.full(500, w), 0.95) for w in (1.0, 3.5))
    assert scaled == pytest.approx(even, rel=1e-9)
    assert even["estimate"] == 0.75
    half = norm.ppf(0.975) * np.sqrt(0.75 * 0.25 / 500)
    assert even["low"] == pytest.approx(0.75 - half, abs=0.01)
    uneven = accuracy(correct, np.random.default_rng(0).exponential(size=500), 0.95)
    assert uneven["high"] - uneven["low"] > 1.2 * (even["high"] - even["low"])


# -- Sentences ---------------------------------------------------------------------------------------------------------


PAIRS = ({"first": "f", "second": "m", "low": -0.3, "high": -0.1},)


def sentence(
    metric="demographic_parity", rate="selection rate", verdict=None, complete=True, limits=(), pairs=PAIRS,
    constant=False, **settings,
):  # fmt: skip
    """Sentence about two models with given limits."""
    limits = limits or ((0.012, 0.0, 0.034), (0.2, 0.15, 0.251))
    models = [
        {"intervals": [
            {"metric": metric, "source": source, "estimate": e if source == "total" else 0.999, "low": low,
             "high": high, "pair": ["f", "m"], "column": "sex", "rate": rate,
             "by_group": [{"column": "sex", "group": "f", "rate": 0.25}, {"column": "sex", "group": "m", "rate": None}],
             "by_pair": pairs}
            for source in ("training", "total")
        ], "constant": constant, "verdicts": [
            {"metric": metric, "margin": settings.get("margin"), "verdict": verdict, "reason": ""}
        ]}
        for e, low, high in limits
    ]  # fmt: skip
    asked = AuditSettings(label="income", sensitive="sex", metric=(metric,), **settings)
    return findings.sentence(asked, models, ">50K", verdict, complete)


def rate_of(metric):
    return sf.CRITERIA[metric].rates[0].name


def test_the_sentence_of_a_difference():
    assert sentence(rate=rate_of("demographic_parity")) == (
        "A linear model trained on these data with the constraint has a share of positive decisions of 25.0 % in "
        "group 'f' and of an unknown share in group 'm' of 'sex': 1.2 percentage points apart (with 95 % "
        "confidence, between 0.0 and 3.4); without the constraint, the largest difference is 20.0 percentage "
        "points (between 15.0 and 25.1). Positive is income = '>50K'."
    )


def test_the_sentence_names_the_pair_that_most_clearly_differs():
    pairs = [
        *PAIRS,
        {"first": "f", "second": "x", "low": 0.2, "high": 0.4},
        {"first": "m", "second": "x", "low": None, "high": None},
    ]
    found = sentence(rate=rate_of("demographic_parity"), pairs=pairs)
    assert "over all pairs of groups; the groups that most clearly differ are 'f' and 'x')" in found
    assert "clearly" not in sentence(rate=rate_of("demographic_parity"), pairs=[*PAIRS, pairs[-1]])


def test_a_model_that_decides_the_same_for_everyone_has_no_verdict():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"x": rng.normal(size=2000), "high": (rng.random(2000) < 0.05).astype(int), "sex": rng.integers(0, 3, 2000)}
    )
    found = sf.audit(
        table.assign(x=table["x"] + table["sex"]), label="high", sensitive="sex", margin=0.5, n_replicates=40
    )
    assert found.model()["constant"]
    assert found.verdict == UNDECIDED
    assert found.sentence.endswith("decides the same for everyone, so this says nothing about how it treats groups.")


def test_the_sentence_of_a_ratio_has_no_percentage_points():
    found = sentence(
        "demographic_parity_ratio", rate_of("demographic_parity"), WITHIN, margin=0.8, confidence_level=0.9,
        limits=((0.93, 0.86, 0.991), (0.5, 0.4, 0.6)),
    )  # fmt: skip
    assert ": in the ratio 0.93 (with" in found
    assert "(with 90 % confidence, between 0.86 and 0.99)" in found
    assert "the smallest ratio is 0.50 (between 0.40 and 0.60)" in found
    assert found.endswith(" The ratio is within the margin of 0.80.")
    assert "percentage" not in found


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (WITHIN, " The difference is within the margin of 5.0 percentage points."),
        (VIOLATES, " The difference violates the margin of 5.0 percentage points."),
        (UNDECIDED, " These rows do not show whether the difference is within the margin of 5.0 percentage points."),
    ],
)
def test_the_sentence_ends_with_the_verdict(verdict, words):
    assert sentence(rate=rate_of("demographic_parity"), verdict=verdict, margin=0.05).endswith(words)


def test_the_sentence_of_an_audit_that_was_stopped_says_so():
    whole, partial = (sentence(rate=rate_of("demographic_parity"), complete=complete) for complete in (True, False))
    assert partial == f"So far, before all rows were read: {whole}"


def test_the_sentence_gives_no_number_for_an_undefined_rate():
    found = sentence(rate=rate_of("demographic_parity"), limits=((None, 0.0, 1.0), (0.1, 0.0, 0.2)))
    assert ": how far they are apart cannot be said; without" in found
    assert "None" not in found


def test_the_sentence_names_all_metrics(people):
    found = sf.audit(
        people(2000),
        label="high",
        sensitive="sex",
        metric=["demographic_parity", "error_rate"],
        margin=0.3,
        n_replicates=40,
    )
    assert found.sentence.endswith(f"Judged together with error rate: {found.verdict}.")
    assert "a share of positive decisions of" in found.sentence
    verdicts = {one["metric"]: one["verdict"] for one in found.model()["verdicts"]}
    assert set(verdicts) == {"demographic_parity", "error_rate"}
    assert found.verdict == findings.overall(verdicts.values())


def test_the_sentence_mentions_a_constraint_only_if_there_is_one():
    assert "constraint" not in sentence(rate=rate_of("demographic_parity"), criterion=None)


# -- Assumptions -------------------------------------------------------------------------------------------------------


def test_every_assumption_of_an_audit_is_listed_and_held_unless_a_diagnostic_says_otherwise():
    fixed = {"LateGroup", "SmallConstraintSet", "StartNotForgotten", "StepBias", "StepTooSmall"}  # constraints only
    fixed |= {"FewClusters", "OneDecision", "TiedScores"}  # audits of decisions and scores, or of rows in clusters
    fixed |= {"FailedRefits", "LowCoverage", "NoSampleWeight"}  # refits of other classifiers
    first = TooFewReplicates("a.", 5.0, 39.0)
    second = TooFewReplicates("b.", 5.0, 39.0)
    found = findings.assumptions([second, first, first])
    expected = [name for name, kind in DIAGNOSTICS.items() if kind.assumes and name not in fixed]
    assert [one["name"] for one in found] == expected
    assert [one["name"] for one in found if not one["held"]] == ["TooFewReplicates"]
    assert [one["diagnostics"] for one in found if one["diagnostics"]] == [[first.to_dict(), second.to_dict()]]
    assert all(one["assumes"] for one in found)


# -- Plausibility -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def audited(people):
    return sf.audit(people(8000), label="high", sensitive="sex", margin=0.1, n_replicates=100)


def test_the_constraint_reduces_unfairness_and_costs_accuracy(audited):
    """Not by chance: the interval of one model's unfairness lies below that of the other."""
    held, free = (audited.interval("demographic_parity", model=name) for name in ("constrained", "unconstrained"))
    assert held["high"] < free["low"]
    assert audited.price["high"] > 0.0


def test_another_library_finds_the_same_unfairness_without_a_constraint(audited, people):
    """A logistic regression of scikit-learn on other rows lies within the limits of the audit."""
    rows = people(20_000, seed=1)
    fresh = people(50_000, seed=2)
    X, X_new = (table[["age", "hours"]].to_numpy() for table in (rows, fresh))
    positive = LogisticRegression().fit(X, rows["high"]).predict(X_new)
    rates = [positive[(fresh["sex"] == sex).to_numpy()].mean() for sex in ("f", "m")]
    found = audited.interval("demographic_parity", model="unconstrained")
    assert found["low"] <= rates[1] - rates[0] <= found["high"]
    accuracy = (positive == fresh["high"]).mean()
    limits = audited.model("unconstrained")["accuracy"]
    assert limits["low"] - 0.01 < accuracy < limits["high"] + 0.01


def test_the_numbers_of_an_audit_agree_with_each_other(audited):
    for model in audited.models:
        accuracy = model["accuracy"]
        assert accuracy["low"] < accuracy["estimate"] < accuracy["high"]
        for one in model["intervals"]:
            assert 0.0 <= one["low"] <= one["high"] <= 1.0
            assert one["n"] == audited.rows["evaluation"]
        assert [row["feature"] for row in model["coefficients"]][-1] == "intercept"
    held, free = (model["accuracy"]["estimate"] for model in audited.models)
    assert audited.price["estimate"] == pytest.approx(free - held, abs=1e-12)
    assert audited.price["low"] <= audited.price["estimate"] <= audited.price["high"]


@pytest.mark.slow
def test_without_a_true_difference_the_verdict_does_not_violate():
    """Groups are random, so in five data sets no gap of 10 points is found."""
    for seed in range(5):
        rows = SyntheticDI(seed=seed).sample(2000)
        lot = np.random.default_rng(seed).integers(0, 2, 2000)
        table = pd.DataFrame(rows.X).assign(y=np.asarray(rows.y), lot=lot)
        found = sf.audit(table, label="y", sensitive="lot", margin=0.1, n_replicates=50, allow_leakage=True)
        assert found.verdict != VIOLATES
