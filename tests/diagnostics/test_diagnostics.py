"""Every planted violation is reported by its own diagnostic, which says what to do; clean data have hardly any."""

from __future__ import annotations

import json
import warnings
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import surefair as sf
from surefair.diagnostics import (
    DIAGNOSTICS,
    BoundaryConstraint,
    ChanceConstraint,
    ConstantDecisions,
    CovarianceDisagreement,
    DegenerateReplicates,
    Diagnostic,
    EntangledGaps,
    FewRowsNearBoundary,
    LateGroup,
    LocalOptima,
    PathTooShort,
    SeparableData,
    SmallConstraintSet,
    SmallEvaluationSet,
    SmallGroup,
    StartNotForgotten,
    StepBias,
    StepTooLarge,
    StepTooSmall,
    StoppedEarly,
    TooFewReplicates,
    UninformativeModel,
    covariance_disagreement,
    entangled_gaps,
    start_not_forgotten,
)
from surefair.training import solver, stationary

DI, DM = sf.datasets.SyntheticDI, sf.datasets.SyntheticDM
PAPER = sf.PolynomialDecay(0.5, 0.6)  # the constraint is then fixed


def found(call):
    """Classes of the diagnostics that a call issues, with their texts, and what the call returns."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = call()
    assert all(isinstance(one.message, Diagnostic) for one in caught), [str(one.message) for one in caught]
    return {type(one.message): str(one.message) for one in caught}, value


def fit(data, criterion="demographic_parity", n=4000, seed=0, n_replicates=100, constraint_set=None, **params):
    """Fit a classifier to the first rows of a stream."""
    rows = data(seed=seed).sample(n)
    clf = sf.FairClassifier(criterion, n_replicates=n_replicates, random_state=seed, **params)
    return clf.fit(rows.X, rows.y, sensitive_features=rows.sensitive, constraint_set=constraint_set)


def rows_of(data, n=1000, seed=777):
    """Rows that fix a constraint."""
    rows = data(seed=seed).sample(n)
    return rows.X, rows.y, rows.sensitive


def ask(clf, data, n=2000, seed=10_000, **how):
    rows = data(seed=seed).sample(n)
    return clf.fairness_interval(rows.X, rows.y, sensitive_features=rows.sensitive, **how)


# -- Clean data --------------------------------------------------------------------------------------------------------

CLEAN = {
    "parity": (DI, "demographic_parity", "log_loss", 4000),
    "parity, more rows": (DI, "demographic_parity", "log_loss", 8000),
    "parity, squared error": (DI, "demographic_parity", "squared_error", 4000),
    "false positives": (DM, "false_positive_rate", "log_loss", 6000),
    "false negatives, squared error": (DM, "false_negative_rate", "squared_error", 6000),
    "two rates": (DM, "equalized_odds", "log_loss", 6000),
    "free": (DM, None, "log_loss", 5000),
}
UNCLEAN = ("false positives", "false negatives, squared error", "two rates")
"""Problems that are not clean if the constraint is learnt. The scores of positive rows do not depend on the group, as
ChanceConstraint says; equal false-positive rates mean hardly any positive decision, as SmallEvaluationSet says."""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["exact", "one pass", "fixed"])
def test_clean_data_have_hardly_any_diagnostics(way):
    alarms, n = Counter(), 0
    for name, (data, criterion, loss, rows) in CLEAN.items():
        if name in UNCLEAN and way != "fixed":
            continue
        params = {"loss": loss} | ({"solver": "one_pass"} if way == "one pass" else {})
        for seed in range(20):

            def everything(data=data, criterion=criterion, params=params, rows=rows, seed=seed):
                given = rows_of(data, 1000, 777 + seed) if way == "fixed" else None
                several = 5 if way == "one pass" else 1  # a stream is long; then more rows lie near the boundary
                clf = fit(data, criterion, several * rows, seed, **params, constraint_set=given)
                clf.coef_interval()
                for source in ("total", "training", "retraining", "evaluation"):
                    ask(clf, data, several * 2000, 10_000 + seed, source=source)

            names, _ = found(everything)
            alarms.update(f"{kind.__name__}, {name}" for kind in names)
            alarms["any"] += bool(names)
            n += 1
    assert alarms["any"] <= binom.ppf(0.99, n, 0.05), alarms


# -- Training ----------------------------------------------------------------------------------------------------------


def test_start_not_forgotten():
    clf = fit(DI, step_size=sf.PolynomialDecay(0.5, 0.501))
    with pytest.warns(StartNotForgotten, match="Train on more rows"):
        clf.coef_interval()
    with pytest.warns(StartNotForgotten):
        interval = ask(clf, DI)
    (one,) = interval.diagnostics
    assert one.name == "StartNotForgotten"
    assert one.statistic > one.threshold == start_not_forgotten.BIAS
    assert json.loads(json.dumps(interval.to_dict()))["diagnostics"] == [one.to_dict()]
    assert not found(lambda: ask(clf, DI, source="evaluation"))[0]  # that interval is for the model as it is


def test_start_not_forgotten_is_reported_where_simulations_show_a_bias():
    """With nearly separable rows under a penalty, averages are off by more than a standard deviation."""
    apart, fired = rows_of(DI), 0
    for seed in range(12):
        _, clf = found(lambda seed=seed: fit(DI, "false_positive_rate", 1000, seed, constraint_set=apart))
        fired += StartNotForgotten in found(clf.coef_interval)[0]
    assert fired >= 8


def test_the_predicted_bias_agrees_with_simulations():
    """With explicit steps from 0, the mean of many fits is off the optimum by the predicted bias."""
    population = DI(seed=3).sample(100_000)
    steps = sf.PolynomialDecay(0.003, 0.501)
    n = 4000
    rng = np.random.default_rng(0)
    fits = []
    X, y = np.asarray(population.X), np.asarray(population.y)
    for _ in range(30):
        i = rng.integers(0, len(y), n)
        clf = sf.FairClassifier(None, loss="squared_error", step_size=steps, n_replicates=0, alpha=0.0).fit(X[i], y[i])
        fits.append(np.append(clf.coef_, clf.intercept_))
    star = sf.theory.optimum(clf, X, y)
    X = np.column_stack([X, np.ones(len(X))])
    values, vectors = np.linalg.eigh(2.0 * X.T @ X / len(X))
    k = np.arange(clf.n_rows_ + 1.0)
    left = start_not_forgotten.remaining_share(values, k, steps.total(k))
    predicted = vectors @ (left * (vectors.T @ -star))
    off, error = np.mean(fits, axis=0) - star, np.std(fits, axis=0, ddof=1) / np.sqrt(30)
    assert np.abs(predicted).max() > 20 * error.max()
    assert np.all(np.abs(off - predicted) < 4 * error + 0.05 * np.abs(predicted).max())


def test_step_too_small():
    clf = fit(DI, step_size=sf.PolynomialDecay(1e-4, 0.6))
    names, _ = found(clf.coef_interval)
    assert set(names) == {StepTooSmall, StartNotForgotten}
    assert "a larger eta0" in names[StepTooSmall]


def test_step_too_large():
    clf = fit(DM, None, step_size=sf.PolynomialDecay(20.0, 0.501))
    with pytest.warns(StepTooLarge, match=r"Replicates spread .* smaller eta0") as caught:
        clf.coef_interval()
    assert len(caught) == 1
    with pytest.warns(StepTooLarge, match="diverged"):
        clf = fit(DM, None, loss="squared_error", step_size=sf.PolynomialDecay(1e6, 0.501))
    with pytest.warns(StepTooLarge, match="diverged"):
        interval = ask(clf, DM)
    assert (interval.low, interval.high) == (0.0, 1.0)


def test_step_bias():
    """A few rows lie far out and do not follow the line of the others; damped steps hardly move towards them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 2))
    far = rng.random(20_000) < 0.003
    y = np.where(X[:, 0] + rng.normal(size=20_000) > 0.0, 1, -1)
    X[far] *= 30.0

    def fitted(X, y):
        clf = sf.FairClassifier(None, loss="squared_error", random_state=0, n_replicates=100)
        return clf.fit(X[1000:], y[1000:], constraint_set=(X[:1000], y[:1000], np.zeros(1000)))

    with pytest.warns(StepBias, match=r"correct for it.*more rows") as caught:
        fitted(X, y).coef_interval()
    assert len(caught) == 1
    assert not found(fitted(X[~far], y[~far]).coef_interval)[0]


def test_degenerate_replicates():
    rng = np.random.default_rng(0)
    X, y, group = rng.normal(size=(400, 1)), rng.integers(0, 2, 400), rng.integers(0, 2, 400)
    X[:, 0] += group
    with pytest.warns(DegenerateReplicates, match=r"fix the coefficients of all 1 features at 0.*Raise tolerance"):
        sf.FairClassifier(random_state=0).fit(X, y, sensitive_features=group, constraint_set=(X, y, group))
    for seed in range(40):  # as many groups as features leave one coefficient free, whatever the rounding of the rank
        rng = np.random.default_rng(seed)
        X, y, group = rng.normal(size=(1000, 3)), rng.integers(0, 2, 1000), rng.integers(0, 3, 1000)
        X += np.eye(3)[group]
        clf = sf.FairClassifier(n_replicates=2, random_state=0)
        clf.fit(X, y, sensitive_features=group, constraint_set=(X, y, group))
    rows = DI(seed=0).sample(1400)
    apart = rows.X[:1000], rows.y[:1000], rows.sensitive[:1000]
    weight = np.eye(400)[200]
    clf = sf.FairClassifier(random_state=0)
    clf.fit(rows.X[1000:], rows.y[1000:], sensitive_features=rows.sensitive[1000:], constraint_set=apart,
            sample_weight=weight)  # fmt: skip
    with pytest.warns(DegenerateReplicates, match=r"Only 2 of 200 replicates are distinct.*more rows"):
        clf.coef_interval()


def test_a_constraint_that_only_constant_decisions_meet_is_reported():
    """Where the only feature differs between groups, decisions are equal only if they are the same for everyone."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 6000)
    X = rng.normal(size=(6000, 1)) + 2.0 * group[:, None]
    y = X[:, 0] + rng.normal(size=6000) > 1.0
    clf = sf.FairClassifier(n_replicates=50, random_state=0)
    names, interval = found(
        lambda: clf.fit(X[:5000], y[:5000], sensitive_features=group[:5000]).fairness_interval(
            X[5000:], y[5000:], sensitive_features=group[5000:]
        )
    )
    assert "Raise tolerance" in names[ConstantDecisions]
    assert interval.verdict(0.5) == "not enough evidence"


def test_few_rows_near_the_boundary_and_a_degenerate_gap():
    clf = fit(DI, n=20_000)
    names, interval = found(lambda: ask(clf, DI, 60, source="training"))
    assert set(names) == {FewRowsNearBoundary, DegenerateReplicates, UninformativeModel}
    assert "more evaluation rows" in names[FewRowsNearBoundary]
    assert "pass more evaluation rows" in names[DegenerateReplicates]
    assert {type(one) for one in interval.diagnostics} == set(names)
    assert not found(lambda: ask(clf, DI, 2000, source="training"))[0]


def test_boundary_constraint():
    rows = DM(seed=777).sample(2000)
    apart, clf = (rows.X, rows.y, rows.sensitive), fit(DM, None, n=20_000, n_replicates=0)
    free = clf.decision_function(rows.X)
    group = np.asarray(rows.sensitive).astype(float)
    touched = float(abs(np.mean((group - group.mean()) * free)))
    with pytest.warns(BoundaryConstraint, match="smaller or larger tolerance"):
        fit(DM, n=20_000, constraint_set=apart, tolerance=touched).coef_interval()
    for times in (0.0, 0.5, 2.0):
        clf = fit(DM, n=20_000, constraint_set=apart, tolerance=times * touched)
        assert not found(clf.coef_interval)[0]


def test_boundary_constraint_that_is_learnt():
    clf = fit(DM, None, n=20_000, n_replicates=0)
    rows = DM(seed=0).sample(20_000)
    positive = clf.decision_function(rows.X) > 0.0
    group = np.asarray(rows.sensitive)
    gap = float(abs(positive[group == 1].mean() - positive[group == 0].mean()))
    with pytest.warns(BoundaryConstraint, match="smaller or larger tolerance"):
        fit(DM, n=20_000, tolerance=gap).coef_interval(method="plug_in")
    assert not found(fit(DM, n=20_000, tolerance=gap).coef_interval)[0]  # replicates meet the constraint too
    for times in (0.5, 2.0):
        clf = fit(DM, n=20_000, tolerance=times * gap)
        assert not found(lambda clf=clf: clf.coef_interval(method="plug_in"))[0]


def test_covariance_disagreement():
    clf = fit(DI, step_size=sf.PolynomialDecay(20.0, 0.501), seed=3)
    with pytest.warns(CovarianceDisagreement, match="Train on more rows") as caught:
        clf.coef_interval()
    assert len(caught) == 1
    ones = np.ones(3)
    assert not covariance_disagreement.check(ones, 1.2 * ones, 200)
    assert covariance_disagreement.check(ones, 2.0 * ones, 200)
    assert not covariance_disagreement.check(ones, 2.0 * ones, 5)  # five replicates are too few to show it


def test_path_too_short():
    apart = rows_of(DM)
    clf = fit(DM, None, n_replicates=0, constraint_set=apart)
    with pytest.warns(PathTooShort, match=r"still too narrow.*Train on more") as caught:
        clf.coef_interval(method="random_scaling")
    assert not found(lambda: clf.coef_interval(method="plug_in"))[0]
    wanted = int(str(caught[0].message).split("about ")[1].split(" rows")[0].replace(",", ""))
    longer = fit(DM, None, n=int(1.3 * wanted), n_replicates=0, constraint_set=apart)
    assert not found(lambda: longer.coef_interval(method="random_scaling"))[0]
    newton = fit(DM, None, n=6000, n_replicates=0, solver="one_pass")  # it has nothing to forget
    assert not found(lambda: newton.coef_interval(method="random_scaling"))[0]


@pytest.mark.parametrize("kind", ["no replicates", "wide"])
def test_fits_without_replicates_or_trace_are_checked_too(kind):
    """The sandwich replaces replicates, and the constraint set replaces a trace."""
    rows = DM(seed=0).sample(30_000)
    more = {"n_replicates": 50}
    method = "normal"
    X = np.asarray(rows.X)
    if kind == "no replicates":
        more, method = {"n_replicates": 0}, "plug_in"
    else:
        X = np.column_stack([X, np.random.default_rng(0).normal(size=(30_000, 130))])
    D = X[:2000], rows.y[:2000], rows.sensitive[:2000]
    for step_size, expected in ((sf.PolynomialDecay(1e-5, 0.6), {StepTooSmall, StartNotForgotten}), ("auto", set())):
        clf = sf.FairClassifier(None, loss="squared_error", step_size=step_size, random_state=0, **more)
        clf.fit(X[2000:], rows.y[2000:], constraint_set=D)
        assert set(found(lambda clf=clf: clf.coef_interval(method=method))[0]) == expected


def test_two_replicates_do_not_cause_other_diagnostics():
    """The standard deviation of two replicates is often tiny; the checks allow for its uncertainty."""
    kinds = Counter()
    for seed in range(25):
        clf = fit(DI, n=5000, n_replicates=2, seed=seed)
        kinds.update([*found(lambda clf=clf: clf.coef_interval(method="cheap"))[0]])
    assert sum(kinds.values()) <= binom.ppf(0.99, 25, 0.05)


# -- Data --------------------------------------------------------------------------------------------------------------


def test_small_constraint_set():
    rows = DI(seed=0).sample(500)
    few = (rows.X[:50], rows.y[:50], rows.sensitive[:50])
    with pytest.warns(SmallConstraintSet, match=r"group 1 has \d+; with fewer than 30.*Pass a larger") as caught:
        fit(DI, "demographic_parity", 4000, constraint_set=few)
    assert caught[0].filename == __file__
    clf = sf.FairClassifier("false_positive_rate", n_warmup=400, random_state=0, loss="squared_error", step_size=PAPER)
    clf.partial_fit(rows.X[:300], rows.y[:300], sensitive_features=rows.sensitive[:300])
    with pytest.warns(SmallConstraintSet, match="that the criterion looks at, group 1 has"):
        clf.partial_fit(rows.X[300:], rows.y[300:], sensitive_features=rows.sensitive[300:])
    more = DI(seed=1).sample(500)
    clf.partial_fit(more.X, more.y, sensitive_features=more.sensitive)  # it is reported once


def test_small_group():
    rows = DM(seed=0).sample(6000)
    group = np.array(["a", "b"])[np.asarray(rows.sensitive).astype(int)]
    group[[*range(20), 4050]] = "c"
    clf = sf.FairClassifier(random_state=0, n_replicates=2, solver="one_pass", n_warmup=2000, tolerance=0.1)
    with pytest.warns(SmallGroup, match=r"Group 'c' has fewer than 30 rows.*not constrained\. Train on more") as caught:
        clf.partial_fit(rows.X[:4000], rows.y[:4000], sensitive_features=group[:4000])
    assert len(caught) == 1
    assert clf.group_counts_.set_index("group")["constrained"].to_dict() == {"a": True, "b": True, "c": False}
    clf.partial_fit(rows.X[4000:4100], rows.y[4000:4100], sensitive_features=group[4000:4100])  # it is reported once
    X = rows.X[4100:] + 0.5
    clf.partial_fit(X, rows.y[4100:], sensitive_features=np.where(np.arange(1900) % 2 == 0, "c", "a"))
    assert not clf.model_.diagnostics
    assert clf.group_counts_["constrained"].all()


def test_a_label_that_a_group_lacks_is_reported_under_criteria_that_look_at_it():
    rows = DM(seed=0).sample(5000)
    y = np.where(np.asarray(rows.sensitive) == 0, 1, np.asarray(rows.y))
    clf = sf.FairClassifier("false_positive_rate", random_state=0, n_replicates=2)
    with pytest.warns(SmallGroup, match=r"Group 0 has fewer than 30 rows that the criterion looks at") as caught:
        clf.fit(rows.X, y, sensitive_features=rows.sensitive)
    assert len(caught) == 1
    assert not clf.group_counts_["constrained"].any()


def test_small_evaluation_set():
    clf = fit(DI)
    with pytest.warns(UninformativeModel), pytest.warns(SmallEvaluationSet, match="Pass more evaluation rows"):
        ask(clf, DI, 60)
    y, group = [0, 1] * 100, ["a"] * 180 + ["b"] * 20
    with pytest.warns(SmallEvaluationSet, match=r"'b' has 20 rows in selection_rate \(10 with") as caught:
        interval = sf.fairness_interval(y, y, sensitive_features=group)
    assert caught[0].filename == __file__
    assert [one.name for one in interval.diagnostics] == ["SmallEvaluationSet"]
    assert not sf.fairness_interval(y, y, sensitive_features=["a", "a", "b", "b"] * 50).diagnostics


def test_separable_data():
    rows = DI(seed=0).sample(4000)
    score = np.asarray(rows.X) @ [1.0, -1.0]
    clear = np.abs(score) > 0.3
    rare = np.random.default_rng(0).random(4000) < 0.01
    for X, y in ((rows.X, rows.y), (rows.X[clear], score[clear] > 0.0), (rows.X, rows.X["x1"] > 0.0)):
        for step_size in ("auto", PAPER):
            with pytest.warns(SeparableData, match="Raise alpha"):
                sf.FairClassifier(None, step_size=step_size, n_replicates=2, random_state=0).fit(X, y)
        sf.FairClassifier(None, loss="squared_error", random_state=0).fit(X, y)
    sf.FairClassifier(None, random_state=0).fit(rows.X, rare)  # the features do not predict them


def test_chance_constraint():
    """Random groups are at parity already, and a constraint with tolerance 0 only costs accuracy."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3))
    y, group = X[:, 0] + rng.normal(size=4000) > 0.0, rng.integers(0, 2, 4000)
    apart = np.column_stack([X[:, 0], X[:, 1] + group, X[:, 2]])

    def fit(X, **how):
        given = {"constraint_set": (X[:1000], y[:1000], group[:1000])} if how.pop("fixed", False) else {}
        clf = sf.FairClassifier(n_replicates=2, random_state=0, **how)
        return found(lambda: clf.fit(X, y, sensitive_features=group, **given))[0]

    for how, words in (
        ({"fixed": True}, "groups (p = "),
        ({"step_size": PAPER}, "groups (p = "),
        ({}, "in how decisions differ between group 0 and group 1"),
    ):
        names = fit(X, **how)
        assert set(names) == {ChanceConstraint}
        assert words in names[ChanceConstraint]
        assert "raise tolerance" in names[ChanceConstraint]
        assert not fit(apart, **how)
    assert not fit(X, fixed=True, tolerance=1.0)


def test_entangled_gaps():
    """Groups that differ in one way only leave one way to change the gaps of positive and of negative rows."""

    def fit(apart, n=6000, seed=5, **how):
        rng = np.random.default_rng(seed)
        group, X = rng.integers(0, 2, n), rng.normal(size=(n, 4))
        y = X[:, 0] + 0.8 * X[:, 1] + rng.normal(size=n) > 0.0
        X[:, 2] += 0.5 * y + (group * y if apart else group)
        X[:, 3] += (0.5 * y + group * ~y) if apart else 0.0
        clf = sf.FairClassifier("equalized_odds", n_replicates=20, random_state=0, **how)
        names, _ = found(lambda: clf.fit(X, y, sensitive_features=group))
        return names, clf.model_.fit.learner.lengths(clf.model_.fit.state)

    for how in ({"solver": "exact"}, {"solver": "one_pass"}):
        names, lengths = fit(False, **how)
        assert "hardly depends on the coefficients" in names[EntangledGaps]
        assert lengths[0] > 40.0
        assert lengths[1] < 3.0
        names, lengths = fit(True, **how)
        assert not names
        assert lengths[1] > entangled_gaps.WEAK
    assert not fit(False, tolerance=0.05)[0]
    names, _ = fit(True, n=3000)
    assert "hardly depends on the coefficients" in names[EntangledGaps]


def test_diagnostics_know_that_several_gaps_are_not_made_exactly_equal():
    rng = np.random.default_rng(0)
    n = 20_000
    group, X = rng.integers(0, 3, n), rng.normal(size=(n, 4))
    X[:, 0] += 0.12 * (group == 1)
    y = 2.0 * X[:, 0] + X[:, 1] + rng.logistic(size=n) > 4.5
    for tolerance in (0.0, 0.01):
        clf = sf.FairClassifier(tolerance=tolerance, n_replicates=50, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EntangledGaps)
            clf.fit(X, y, sensitive_features=group)
        interval = clf.fairness_interval(X, y, sensitive_features=group)
        assert "IneffectiveConstraint" not in [one.name for one in interval.diagnostics]


def test_a_group_that_no_constrained_pair_contains_is_named():
    rng = np.random.default_rng(1)
    n = 3000
    group, X = rng.integers(0, 3, n), rng.normal(size=(n, 4))
    X[:, 0] += 1.0 * (group == 1) + 0.5 * (group == 2)
    y = X.sum(axis=1) + rng.logistic(size=n) > 0.5
    group[group == 2] = np.where(rng.random((group == 2).sum()) < 0.05, 2, 0)  # too few to tell them apart
    clf = sf.FairClassifier(n_replicates=20, random_state=0)
    names, _ = found(lambda: clf.fit(X, y, sensitive_features=group))
    assert clf.group_counts_["constrained"].tolist() == [True, True, False]
    assert "group 2" in names[ChanceConstraint]


def test_too_few_replicates():
    with pytest.warns(TooFewReplicates, match="Use method='cheap'"):
        fit(DI, n_replicates=20).coef_interval()
    assert not found(fit(DI, n_replicates=39).coef_interval)[0]


def test_late_group():
    rows = DI(seed=0).sample(3000)
    group = np.array(["a", "b"])[np.asarray(rows.sensitive).astype(int)]
    clf = sf.FairClassifier(random_state=0, n_replicates=2, n_warmup=1000, step_size=PAPER)
    clf.partial_fit(rows.X[:2000], rows.y[:2000], sensitive_features=group[:2000])
    late = np.where(np.arange(1000) % 10 == 0, "c", group[2000:])
    with pytest.warns(LateGroup, match=r"Group 'c' was not in the constraint set.*fit again") as caught:
        clf.partial_fit(rows.X[2000:], rows.y[2000:], sensitive_features=late)
    assert len(caught) == 1
    assert [one.name for one in clf.model_.diagnostics] == ["LateGroup"]
    more = DI(seed=1).sample(1000)
    clf.partial_fit(more.X, more.y, sensitive_features=late)  # it is reported once
    assert clf.group_counts_.set_index("group")["constrained"].to_dict() == {"a": True, "b": True, "c": False}
    for criterion in (None, "demographic_parity"):  # there is nothing to miss, or the late group is constrained too
        clf = sf.FairClassifier(
            criterion, random_state=0, n_replicates=2, solver="one_pass", n_warmup=1000, loss="squared_error"
        )
        clf.partial_fit(rows.X[:2000], rows.y[:2000], sensitive_features=group[:2000])
        found(lambda clf=clf: clf.partial_fit(rows.X[2000:], rows.y[2000:], sensitive_features=late))
        assert "LateGroup" not in {one.name for one in clf.model_.diagnostics}


def test_rare_decisions():
    """The features nearly separate the labels, so few negative rows of the small group are decided wrongly."""
    for n, rare in ((20_000, True), (60_000, False)):
        rows = DI(seed=0).sample(n)
        clf = sf.FairClassifier("false_positive_rate", tolerance=0.08, n_replicates=2, random_state=0, solver="exact")
        clf.set_params(loss="squared_error")
        names, _ = found(lambda clf=clf, rows=rows: clf.fit(rows.X, rows.y, sensitive_features=rows.sensitive))
        assert (sf.diagnostics.RareDecisions in names) == rare


def test_local_optima():
    rows = DM(seed=11).sample(4000)
    apart = DM(seed=11).rows(10**6, 500)
    given = (apart.X, apart.y, apart.sensitive)
    clf = fit(DM, "false_omission_rate", seed=11, n_replicates=0, penalty=20.0, constraint_set=given)
    with pytest.warns(LocalOptima, match="Look at all of them with theory.optima") as caught:
        sf.theory.optimum(clf, rows.X, rows.y)
    assert len(caught) == 1
    weak = fit(DM, "false_omission_rate", seed=11, n_replicates=0, penalty=0.1, constraint_set=given)
    assert not found(lambda: sf.theory.optimum(weak, rows.X, rows.y))[0]


def test_stopped_early(monkeypatch):
    rows = DM(seed=11).sample(4000)
    fixed = fit(DM, None, seed=11, n_replicates=0, constraint_set=rows_of(DM))
    learnt = fit(DM, tolerance=0.1, seed=11, n_replicates=0)
    for clf in (fixed, learnt):
        assert not found(lambda clf=clf: sf.theory.optimum(clf, rows.X, rows.y, sensitive_features=rows.sensitive))[0]
    monkeypatch.setattr(solver, "MAX_NEWTON", 0)
    monkeypatch.setattr(solver, "MAX_ITERATIONS", 1)
    monkeypatch.setattr(stationary, "STEPS", 1)
    for clf in (fixed, learnt):
        with pytest.warns(StoppedEarly, match=r"stopped before it reached the optimum.*Raise tolerance or alpha"):
            sf.theory.optimum(clf, rows.X, rows.y, sensitive_features=rows.sensitive)
    assert StoppedEarly in found(lambda: fit(DM, tolerance=0.1, seed=11, n_replicates=0))[0]


# -- Audits ------------------------------------------------------------------------------------------------------------


def audit(table, **settings):
    """Audit a table with few replicates; returns the result and the names of diagnostics that were found."""
    audited = sf.audit(table, label="high", sensitive="sex", n_replicates=50, margin=0.9, **settings)
    return audited, {one["name"] for one in audited.assumptions if not one["held"]}


def test_constant_decisions(people):
    table = people(6000).drop(columns=["job"])
    audited, names = audit(table)
    assert "ConstantDecisions" not in names
    assert audited.verdict == "within margin"
    rng = np.random.default_rng(0)
    rare = (rng.random(6000) < 0.02).astype(int)
    noise = pd.DataFrame({"x": rng.normal(size=6000), "sex": table["sex"], "high": rare})
    audited, names = audit(noise)
    assert "ConstantDecisions" in names
    assert audited.verdict == "not enough evidence"


def test_a_model_that_predicts_nothing_gets_no_verdict(people):
    rng = np.random.default_rng(0)
    noise = pd.DataFrame({name: rng.normal(size=6000) for name in "abcdefgh"})
    noise = noise.assign(sex=people(6000)["sex"], high=(rng.random(6000) < 0.49).astype(int))
    audited, names = audit(noise, tolerance=0.05)
    assert "UninformativeModel" in names
    assert "ConstantDecisions" not in names
    assert audited.verdict == "not enough evidence"


def test_an_audit_lists_only_assumptions_that_it_makes(people):
    audited, _ = audit(people(6000))
    assert all(DIAGNOSTICS[one["name"]].command_line_advice for one in audited.assumptions)


def test_dependent_rows(people):
    table = people(6000).drop(columns=["job"])
    alone, together = np.arange(6000), np.arange(6000) // 2
    audited, names = audit(table.assign(person=alone), clusters="person")
    assert "DependentRows" not in names
    assert audited.verdict == "within margin"
    audited, names = audit(table.assign(person=together), clusters="person")
    assert "DependentRows" not in names  # intervals know which rows belong together
    assert audited.verdict == "within margin"
    assert audited.comparisons[0]["verdict"] == "not enough evidence"  # the comparison of the models does not
    copies = pd.concat([table, table.head(1_500)])
    audited, names = audit(copies)
    assert "DependentRows" in names
    assert audited.verdict == "not enough evidence"
