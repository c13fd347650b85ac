"""Diagnostics are values: they compare, pickle and survive JSON; each is issued once, at the line of the caller."""

from __future__ import annotations

import copy
import json
import pickle
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest

import surefair as sf
from surefair.diagnostics import (
    DIAGNOSTICS,
    Diagnostic,
    boundary_constraint,
    chance_constraint,
    changing_gap,
    coarse_scores,
    constant_decisions,
    covariance_disagreement,
    degenerate_replicates,
    dependent_rows,
    entangled_gaps,
    exceeded_tolerance,
    failed_refits,
    few_clusters,
    few_rows_near_boundary,
    ineffective_constraint,
    issue,
    late_column,
    late_group,
    low_coverage,
    no_sample_weight,
    one_decision,
    path_too_short,
    rare_column,
    rare_decisions,
    repeated_rows,
    separable_data,
    small_constraint_set,
    small_evaluation_set,
    small_group,
    start_not_forgotten,
    step_bias,
    step_too_large,
    step_too_small,
    stopped_early,
    tied_scores,
    time_dependence,
    too_few_replicates,
    uninformative_model,
    unsettled_model,
)
from surefair.diagnostics.time_dependence import Runs

DI, DM = sf.datasets.SyntheticDI, sf.datasets.SyntheticDM
PAPER = sf.PolynomialDecay(0.5, 0.6)  # the constraint is then fixed

ONE = np.ones(1)
NO_GROUPS = np.zeros((1000, 0), dtype=np.int64)
SIGNS = np.tile([-1.0, 1.0], 50)


def runs_of(label):
    return Runs.of(0).after(np.asarray(label), NO_GROUPS)


# What each check returns for numbers that violate its assumption, and for numbers that do not.


def three_tables(right, wrong, times):
    """Rows of weight 3 by truth and decision, of which the second label is the rarer one: numbers, weights, squares."""
    table = times * np.array([[600.0, wrong], [200.0, right]])
    return table, 3.0 * table, 9.0 * table


def beside(value, away):
    """A coefficient of a fit, with two replicates beside it."""
    return np.array([[value, value + away, value - away]])


def rates_of_halves(early, late, n=1000.0):
    """Rates of a group that change from the early to the late rows, beside others that do not."""
    rows = np.full(8, n / 8)
    return changing_gap.Rates("a", np.repeat([early, late], 4) * rows, rows, 0.5 * rows, rows)


CHECKS = {
    "BoundaryConstraint": [
        (lambda push: boundary_constraint.check(0 * ONE, ONE, push * ONE, ONE, 0.1), 0.0, 10.0),
        (lambda touched: boundary_constraint.check_touching(touched, 0.1), 1, 0),
    ],
    "ChanceConstraint": [
        (lambda p: chance_constraint.check([p, 0.001], ["age", "sex"]), 0.5, 0.001),
        (chance_constraint.check_pairs, ["group 'a' and group 'b'"], []),
    ],
    "ChangingGap": [
        (lambda p: changing_gap.check([rates_of_halves(p, 0.5)]), 0.7, 0.5),
        (lambda n: changing_gap.check([rates_of_halves(0.7, 0.5, n)]), 1000.0, 40.0),
        (lambda p: changing_gap.check([rates_of_halves(p, 0.5, 1e6)]), 0.7, 0.54),
    ],
    "CoarseScores": [
        (lambda gap: coarse_scores.check(gap * ONE, 0.05 * ONE, 0.007 * ONE, 0.05), 0.088, 0.076),
        (lambda smooth: coarse_scores.check(0.088 * ONE, smooth * ONE, 0.007 * ONE, 0.05), 0.05, 0.062),
        (lambda error: coarse_scores.check(0.088 * ONE, 0.05 * ONE, error * ONE, 0.05), 0.007, 0.02),
        (lambda tolerance: coarse_scores.check(-0.088 * ONE, 0.0 * ONE, 0.007 * ONE, tolerance), 0.05, 0.07),
    ],
    "ConstantDecisions": [
        (lambda n: constant_decisions.check([1000.0 - n, n], [700.0, 300.0]), 5.0, 10.0),
        (lambda labels: constant_decisions.check([995.0, 5.0], labels), [700.0, 300.0], [990.0, 10.0]),
    ],
    "CovarianceDisagreement": [(lambda sd: covariance_disagreement.check(sd * ONE, ONE, 200), 3.0, 1.0)],
    "DegenerateReplicates": [
        (lambda n: degenerate_replicates.check(np.arange(50.0)[None] % n), 2, 50),
        (lambda n: degenerate_replicates.check_gap(np.arange(50.0) % n), 2, 50),
        (lambda rigid: degenerate_replicates.check_freedom(rigid, "3", 2), True, False),
    ],
    "DependentRows": [
        (dependent_rows.check, "person", None),
        (lambda excess: dependent_rows.check_copies(1000, 100, excess), 51.0, 50.0),
    ],
    "EntangledGaps": [(lambda length: entangled_gaps.check(np.array([80.0, length])), 16.0, 17.0)],
    "ExceededTolerance": [(lambda low: exceeded_tolerance.check(low, 0.05), 0.08, 0.07)],
    "FewClusters": [
        (lambda n: few_clusters.check(np.array([[n, 40.0]]), ["group 'a'", "group 'b'"], ["accuracy"]), 9.0, 10.0)
    ],
    "FewRowsNearBoundary": [(few_rows_near_boundary.check, 29, 30)],
    "IneffectiveConstraint": [
        (lambda held: ineffective_constraint.check(0.2 * ONE, held * ONE, 0.01 * ONE, 0.0, 4000), 0.19, 0.1),
        (lambda error: ineffective_constraint.check(0.2 * ONE, 0.19 * ONE, error * ONE, 0.0, 4000), 0.01, 0.1),
        (lambda tolerance: ineffective_constraint.check(0.2 * ONE, 0.19 * ONE, 0.01 * ONE, tolerance, 4000), 0.0, 0.19),
        (lambda held: ineffective_constraint.check(0.2 * ONE, held * ONE, 0.01 * ONE, 0.0, 4000, True), 0.17, 0.15),
    ],
    "LateColumn": [
        (lambda settling: late_column.check([late_column.Column("{} of {}", settling, 500)], 1000, 10_000), 0, 50),
        (lambda n: late_column.check([late_column.Column("{} of {}", 0, n)], 1000, 10_000), 101, 100),
        (lambda new: late_column.check([late_column.Column("{} of {}", 0, 500, new)], 1000, 10_000), 0.0, 0.05),
        (lambda n: late_column.check([late_column.Column("{} of {}", 0, 500)], 1000, n), 10_000, 1000),
    ],
    "OneDecision": [(lambda n: one_decision.check([1000.0, n]), 0.0, 1.0)],
    "TiedScores": [(tied_scores.check, 0.24, 0.25)],
    "LateGroup": [(late_group.check, "Group 'c' was not in the constraint set", "")],
    "LocalOptima": [],  # see test_diagnostics.py
    "PathTooShort": [
        (lambda memory: path_too_short.check(memory * np.ones(2), np.array([1e3, 1e6]), 1000), 500.0, 5.0)
    ],
    "RareColumn": [
        (lambda left: rare_column.check([rare_column.Carrier(0, 12, 0.31, 0.0, left)], ["x7"], 4000), 0.25, 0.1),
        # a constraint that changes next to nothing rests on nothing
        (lambda free: rare_column.check([rare_column.Carrier(0, 7, free, 0.2, 0.215)], ["x7"], 800), 0.22, 0.24),
        (lambda left: rare_column.check([rare_column.Carrier(0, 7, 0.2001, 0.2, left)], ["x7"], 800), 0.19, 0.199),
    ],
    "RareDecisions": [(lambda n: rare_decisions.check({"group 'a'": 99.0, "group 'b'": n}), 9.0, 10.0)],
    "RepeatedRows": [
        (lambda first: repeated_rows.check(1e4, 1.0, 20_000, first, 4_000), 0.0, 400.0),
        (lambda pairs: repeated_rows.check(pairs, 1.0, 20_000, 0.0, 4_000), 2e3, 1e3),
        (lambda share: repeated_rows.check(1e4, share, 20_000, 0.0, 4_000), 0.2, 0.05),
        (lambda n: repeated_rows.check(1e4, 1.0, n, 0.0, 4_000), 20_000, 4_000),
    ],
    "SeparableData": [
        (lambda scale: separable_data.check(scale * SIGNS, SIGNS, np.ones(100), np.full(100, 0.2), False), 1.0, -1.0),
        (lambda left: separable_data.check(-SIGNS, SIGNS, np.ones(100), np.full(100, left), False), 0.001, 0.2),
        (lambda yes: separable_data.check(-SIGNS, SIGNS, np.ones(100), np.full(100, 0.2), yes), True, False),
    ],
    "SmallConstraintSet": [
        (lambda n: small_constraint_set.check([n, 100], ["group 'a'", "group 'b'"]), 29, 30),
    ],
    "SmallEvaluationSet": [
        (lambda n: small_evaluation_set.check(np.full((2, 1, 1), n / 2), ["group 'a'"], ["accuracy"]), 28, 30),
        (
            lambda n: small_evaluation_set.check(np.array([n, 100.0]).reshape(2, 1, 1), ["group 'a'"], ["accuracy"]),
            2.0,
            3.0,
        ),
    ],
    "SmallGroup": [(lambda n: small_group.check({"group 'a'": n, "group 'b'": 100}, 30), 29, 30)],
    "StartNotForgotten": [(lambda bias: start_not_forgotten.check(bias * ONE, ONE), 0.6, 0.4)],
    "StepBias": [(lambda off: step_bias.check(off * ONE, ONE, 200), 2.0, 0.5)],
    "StepTooLarge": [
        (lambda off: step_too_large.check(off * ONE, ONE, ONE, 200), 10.0, 0.0),
        (lambda sd: step_too_large.check(0 * ONE, sd * ONE, ONE, 200), 5.0, 1.0),
        (step_too_large.check_finite, False, True),
    ],
    "StepTooSmall": [(step_too_small.check, 0.5, 1.5)],
    "StoppedEarly": [
        (stopped_early.check, False, True),
        (lambda unsolved: stopped_early.check(True, unsolved), 0.06, 0.05),
    ],
    "TimeDependence": [
        (lambda length: time_dependence.check(runs_of(np.arange(1000) // length % 2), (), []), 100, 1),
        (lambda root: time_dependence.check_path(root * ONE, ONE, 200), 5.0, 0.4),
    ],
    "FailedRefits": [(lambda failures: failed_refits.check(failures, 10), {3: "ValueError: no rows"}, {})],
    "LowCoverage": [(lambda share: low_coverage.check(["Tree"], {"Tree": share}), 0.91, 0.93)],
    "NoSampleWeight": [(lambda takes: no_sample_weight.check(takes, False, "Learner"), False, True)],
    "TooFewReplicates": [(lambda n: too_few_replicates.check(n, 0.95, "percentile"), 38, 39)],
    "UninformativeModel": [
        (lambda right: uninformative_model.check(*three_tables(right, 50.0, 1.0)), 60.0, 80.0),
        (lambda times: uninformative_model.check(*three_tables(60.0, 50.0, times)), 1.0, 10.0),
    ],
    "UnsettledModel": [
        (lambda away: unsettled_model.check(beside(1.0, away), beside(1.0, away)), 0.31, 0.29),
        (lambda start: unsettled_model.check(beside(1.0, 0.1), beside(start, 0.1)), 0.4, 0.6),
    ],
}
WITHOUT_NUMBERS = [
    *(CHECKS[name][0][0] for name in ("DependentRows", "LateGroup", "NoSampleWeight", "OneDecision")),
    stopped_early.check,
    step_too_large.check_finite,
    CHECKS["DegenerateReplicates"][2][0],
]

every_check = pytest.mark.parametrize(
    ("name", "check", "bad", "good"), [(name, *case) for name, cases in CHECKS.items() for case in cases]
)
every_kind = pytest.mark.parametrize("kind", DIAGNOSTICS.values(), ids=DIAGNOSTICS)


def example(kind, **changes):
    return kind(**{"message": "Something was found.", "statistic": 2.0, "threshold": 1.0} | changes)


def few_of_one_group(n):
    """Rows of three groups, the last of which has ten rows."""
    rows = DI(seed=0).sample(n)
    return replace(rows, sensitive=np.where(np.arange(n) % (n // 10) == 5, 2, rows.sensitive))


# -- Checks -----------------------------------------------------------------------------------------------------------


def test_every_diagnostic_has_a_check_here():
    assert set(CHECKS) == set(DIAGNOSTICS)


@every_check
def test_a_check_returns_its_diagnostic_for_a_violation_and_nothing_otherwise(name, check, bad, good):
    (one,) = check(bad)
    assert one.name == type(one).__name__ == name
    assert check(good) == []


@every_check
def test_a_message_is_a_sentence_and_has_its_numbers(name, check, bad, good):
    (one,) = check(bad)
    assert not one.message[0].islower()
    assert one.message.endswith(".")
    assert (one.statistic is None) == (one.threshold is None)
    assert (one.statistic is None) == (check in WITHOUT_NUMBERS)


# -- Words ------------------------------------------------------------------------------------------------------------


@every_kind
def test_a_diagnostic_says_what_to_do(kind):
    one = example(kind)
    assert str(one) == f"Something was found. {one.advice}"
    assert one.advice.endswith(".")
    assert kind.__doc__
    if kind.assumes:
        assert kind.assumes.endswith(".")
    if kind.command_line_advice:
        assert kind.assumes
        assert kind.command_line_advice.endswith(".")


@every_kind
def test_advice_for_the_command_line_names_options_of_the_command_line(kind):
    words = kind.command_line_advice
    assert "=" not in words
    assert not any(name in words for name in ("n_replicates", "n_warmup", "constraint_set", "step_size", "source="))


@every_kind
def test_advice_for_the_command_line_is_not_what_the_command_does_anyway(kind):
    from surefair.cli.audit import command

    defaults = {name: str(option.default) for option in command.params for name in option.opts}
    for name, value in re.findall(r"(--[a-z-]+) (\w+)", kind.command_line_advice):
        assert defaults.get(name) != value


@every_kind
def test_a_diagnostic_is_a_warning_that_can_be_filtered_by_its_class(kind):
    assert issubclass(kind, Diagnostic)
    assert issubclass(kind, UserWarning)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", kind)
        warnings.warn(example(kind), stacklevel=1)
    assert getattr(sf.diagnostics, kind.__name__) is kind


# -- Values -----------------------------------------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("forbids_verdict", [None, True, False])
@pytest.mark.parametrize("statistic", [None, 2.5, np.inf, np.nan])
def test_a_diagnostic_survives_json_and_pickle(kind, forbids_verdict, statistic):
    one = example(kind, statistic=statistic, forbids_verdict=forbids_verdict)
    plain = json.loads(json.dumps(one.to_dict(), allow_nan=False))
    assert plain["name"] == kind.__name__
    assert plain["forbids_verdict"] == (kind.forbids_verdict if forbids_verdict is None else forbids_verdict)
    for again in (Diagnostic.from_dict(plain), pickle.loads(pickle.dumps(one)), copy.deepcopy(one)):
        assert type(again) is kind
        assert again == one
        assert hash(again) == hash(one)
        assert str(again) == str(one)
        assert again.to_dict() == plain


@every_kind
def test_diagnostics_are_equal_if_all_their_values_are(kind):
    one = example(kind)
    assert one == example(kind)
    others = [
        example(kind, message="Something else was found."),
        example(kind, statistic=3.0),
        example(kind, threshold=0.5),
        example(kind, forbids_verdict=not kind.forbids_verdict),
        *(example(other) for other in DIAGNOSTICS.values() if other is not kind),
    ]
    assert one not in others
    assert one != str(one)
    assert len({one, example(kind), *others}) == 1 + len(others)


def test_numbers_of_any_kind_become_python_floats():
    one = Diagnostic("Found.", np.float64(1.0), np.int64(2))
    assert type(one.statistic) is type(one.threshold) is float


def test_decisions_that_are_all_the_same_are_not_said_to_be_few():
    groups = ["a", "b"] * 500
    with pytest.warns(sf.diagnostics.OneDecision, match="All decisions are the same"):
        found = sf.fairness_interval(None, np.ones(1000, dtype=int), sensitive_features=groups, pos_label=1)
    assert [one.name for one in found.diagnostics] == ["OneDecision"]
    assert found.verdict(0.1) == "not enough evidence"


def test_a_group_without_evaluation_rows_is_said_to_have_none():
    sides = np.array([[[0.0, 2.0, 1.0]], [[0.0, 22.0, 0.0]]])
    (found,) = small_evaluation_set.check(sides, ["group 'f'", "group 'm'", "group 'x'"], ["accuracy"])
    assert found.message == (
        "Few evaluation rows enter a rate: group 'f' has no rows in accuracy, group 'm' has 24 rows in accuracy (2 "
        "with the rarer outcome), group 'x' has 1 row in accuracy (0 with the rarer outcome). Limits of small groups "
        "are exact, which keeps the confidence level but makes them wide. Limits of a group without rows are the whole "
        "range."
    )
    (empty,) = small_evaluation_set.check(np.zeros((2, 1, 1)), ["group 'f'"], ["accuracy"])
    assert "exact" not in empty.message


def test_few_rows_and_few_clusters_are_those_of_a_rate_and_a_group():
    rng = np.random.default_rng(0)
    group = np.repeat(["a", "b"], [400, 100])
    y_true = (np.arange(500) % 2) * (np.arange(500) < 440)  # group b has 20 positive labels
    y_pred = (rng.random(500) < 0.5).astype(int)
    with pytest.warns(sf.diagnostics.SmallEvaluationSet) as warned:
        sf.fairness_interval(y_true, y_pred, sensitive_features=group, metric="equalized_odds")
    (message,) = (str(one.message) for one in warned)
    assert "enter a rate: group 'b' has 20 rows in false_negative_rate (" in message
    with pytest.warns(sf.diagnostics.FewClusters) as warned:
        sf.fairness_interval(
            y_true, y_pred, sensitive_features=group, metric="equalized_odds", clusters=np.arange(500) // 5
        )
    (message,) = (str(one.message) for one in warned)
    assert "enter a rate: group 'b' has 8 in false_negative_rate. " in message


def test_only_these_diagnostics_always_forbid_a_verdict():
    forbidding = {name for name, kind in DIAGNOSTICS.items() if kind.forbids_verdict}
    assert forbidding == {
        "ChangingGap", "ConstantDecisions", "DependentRows", "FailedRefits", "IneffectiveConstraint", "LateColumn",
        "OneDecision", "RepeatedRows", "StartNotForgotten", "StoppedEarly", "TiedScores", "TooFewReplicates",
        "UninformativeModel", "UnsettledModel",
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore::surefair.diagnostics.RareDecisions")
@pytest.mark.parametrize("fixed", [False, True], ids=["learnt", "fixed"])
def test_a_saved_model_keeps_its_diagnostics(fixed, tmp_path):
    rows = DI(seed=0).sample(400) if fixed else few_of_one_group(400)
    params = {"n_warmup": 40, "step_size": PAPER} if fixed else {"solver": "one_pass", "n_warmup": 100}
    clf = sf.FairClassifier(n_replicates=2, random_state=0, **params)
    with pytest.warns(sf.diagnostics.SmallConstraintSet if fixed else sf.diagnostics.SmallGroup):
        clf.partial_fit(rows.X[:300], rows.y[:300], sensitive_features=rows.sensitive[:300])
    sf.save(clf, tmp_path / "clf.npz")
    again = sf.load(tmp_path / "clf.npz")
    assert again.model_.diagnostics == clf.model_.diagnostics
    again.partial_fit(rows.X[300:], rows.y[300:], sensitive_features=rows.sensitive[300:])  # issues none again
    names = [[one.name for one in each.model_.diagnostics] for each in (again, clf)]
    assert names[0] == names[1]


# -- Verdicts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("far", "settled"), [(10, True), (14, False)])
def test_a_tenth_of_the_replicates_may_end_in_another_optimum(far, settled):
    theta = np.ones((1, 101))
    theta[0, 1:] += np.where(np.arange(100) < far, 2.0, 0.05)
    assert (not unsettled_model.check(theta, theta)) == settled


@pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")
def test_a_fit_that_has_not_converged_gives_no_verdict():
    apart = DI(seed=9).sample(1000)
    test = DI(seed=8).sample(2000)

    def shard(seed):
        rows = DI(seed=seed).sample(2000)
        clf = sf.FairClassifier(n_replicates=50, random_state=seed, step_size=sf.PolynomialDecay(0.5, 0.501))
        given = (apart.X, apart.y, apart.sensitive)
        return clf.fit(rows.X, rows.y, sensitive_features=rows.sensitive, constraint_set=given)

    def ask(clf):
        interval = clf.fairness_interval(test.X, test.y, sensitive_features=test.sensitive)
        assert "StartNotForgotten" in [one.name for one in interval.diagnostics]
        return interval.verdict(0.9)

    alone = shard(0)
    assert ask(alone) == "not enough evidence"
    assert ask(alone.merge(shard(1))) == "not enough evidence"


# -- Warnings ---------------------------------------------------------------------------------------------------------


def issued(call):
    """Warnings that a call issues, and its value."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = call()
    return caught, value


def here(call):
    """Diagnostics that a lambda issues; each must point at the line of the lambda, and none may come twice."""
    caught, _ = issued(call)
    assert {(one.filename, one.lineno) for one in caught} == {(__file__, call.__code__.co_firstlineno)}
    assert len({one.message for one in caught}) == len(caught)
    return {one.message.name for one in caught}


def test_equal_diagnostics_are_issued_once():
    one = sf.diagnostics.TooFewReplicates("Few.")
    again = sf.diagnostics.TooFewReplicates("Few.")
    other = sf.diagnostics.TooFewReplicates("Fewer.")
    caught, _ = issued(lambda: issue([one, other, again]))
    assert [warning.message for warning in caught] == [one, other]


def test_a_diagnostic_that_is_raised_leaves_no_trace_in_the_one_that_is_kept():
    one = sf.diagnostics.TooFewReplicates("Few.")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(sf.diagnostics.TooFewReplicates) as raised:
                issue([one])
            assert raised.value is not one
    assert one.__traceback__ is None


def test_displays_issue_diagnostics_at_the_line_of_the_caller():
    rows = DI(seed=0).sample(400)
    clf = sf.FairClassifier(n_replicates=10, random_state=0)
    issued(lambda: clf.fit(rows.X, rows.y, sensitive_features=rows.sensitive))
    assert "TooFewReplicates" in here(lambda: sf.plotting.CoefficientDisplay.from_estimator(clf))


def test_training_and_asking_issue_diagnostics_once_at_the_line_of_the_caller():
    rows = few_of_one_group(400)
    X, y, z = np.asarray(rows.X), np.asarray(rows.y), np.asarray(rows.sensitive)
    clf = sf.FairClassifier(n_replicates=10, random_state=0)
    names = here(lambda: clf.fit(X, y, sensitive_features=z))
    assert names == {one.name for one in clf.model_.diagnostics} == {"SmallGroup", "RareDecisions"}
    assert "TooFewReplicates" in here(lambda: clf.coef_interval())
    assert "SmallEvaluationSet" in here(lambda: clf.fairness_interval(X[:20], y[:20], sensitive_features=z[:20]))
    _, tally = issued(lambda: clf.tally(X[:20], y[:20], sensitive_features=z[:20]))
    assert "SmallEvaluationSet" in here(lambda: clf.tallied_interval(tally))
    assert "SmallEvaluationSet" in here(lambda: sf.fairness_interval(y[:20], y[:20], sensitive_features=z[:20]))


def test_a_stream_issues_each_diagnostic_when_it_is_new():
    rows = DI(seed=0).sample(600)
    X, y = np.asarray(rows.X), np.asarray(rows.y)
    z = np.array(["a", "b"])[np.asarray(rows.sensitive).astype(int)]
    z[400:] = np.where(np.arange(200) % 2 == 0, "c", z[400:])
    clf = sf.FairClassifier(n_replicates=10, random_state=0, n_warmup=50, loss="squared_error", step_size=PAPER)
    assert not issued(lambda: clf.partial_fit(X[:40], y[:40], sensitive_features=z[:40]))[0]  # these rows wait
    first = here(lambda: clf.partial_fit(X[40:300], y[40:300], sensitive_features=z[40:300]))
    assert "SmallConstraintSet" in first
    assert not issued(lambda: clf.partial_fit(X[300:400], y[300:400], sensitive_features=z[300:400]))[0]
    assert here(lambda: clf.partial_fit(X[400:500], y[400:500], sensitive_features=z[400:500])) == {"LateGroup"}
    assert not issued(lambda: clf.partial_fit(X[500:], y[500:], sensitive_features=z[500:]))[0]


def test_theory_issues_diagnostics_at_the_line_of_the_caller():
    rows = DM(seed=11).sample(4000)
    apart = DM(seed=11).rows(10**6, 500)
    clf = sf.FairClassifier("false_omission_rate", penalty=20.0, n_replicates=0, random_state=0)
    given = (apart.X, apart.y, apart.sensitive)
    clf.fit(rows.X, rows.y, sensitive_features=rows.sensitive, constraint_set=given)
    assert here(lambda: sf.theory.optimum(clf, rows.X, rows.y)) == {"LocalOptima"}
    assert here(lambda: sf.theory.asymptotic_covariance(clf, rows.X, rows.y)) == {"LocalOptima"}
    assert here(lambda: sf.theory.paper_covariance(clf, rows.X, rows.y)) == {"LocalOptima"}
    z = rows.sensitive
    assert here(lambda: sf.theory.gap_law(clf, rows.X, rows.y, sensitive_features=z, n=100)) == {"LocalOptima"}


def test_parallel_fits_issue_diagnostics_at_the_line_of_the_caller():
    rows = DI(seed=0).sample(800)
    X, y, z = np.asarray(rows.X), np.asarray(rows.y), np.asarray(rows.sensitive)
    clf = sf.FairClassifier(n_replicates=10, random_state=0, step_size=sf.PolynomialDecay(1e-4, 0.6))
    few = (X[:40], y[:40], z[:40])
    parts = [(X[40::2], y[40::2], z[40::2]), (X[41::2], y[41::2], z[41::2])]
    fit_replicates, fit_shards = sf.parallel.fit_replicates, sf.parallel.fit_shards
    whole = X[40:], y[40:]
    assert "SmallConstraintSet" in here(lambda: clf.fit(*whole, sensitive_features=z[40:], constraint_set=few))
    more = {"sensitive_features": z[40:], "constraint_set": few}
    assert "SmallConstraintSet" in here(lambda: fit_replicates(clf, *whole, **more))
    names = here(lambda: fit_shards(clf, parts, warmup=few))
    assert {"SmallConstraintSet", "StartNotForgotten"} <= names
    clf = sf.FairClassifier(n_replicates=10, random_state=0)
    z = np.where(np.arange(800) % 100 == 5, 2, z)
    more = {"sensitive_features": z[40:]}
    assert "SmallGroup" in here(lambda: clf.fit(*whole, **more))
    assert "SmallGroup" in here(lambda: fit_replicates(clf, *whole, **more))
    parts = [(X[part], y[part], z[part]) for part in (slice(0, 200), slice(200, 500), slice(500, None))]
    assert "SmallGroup" in here(lambda: fit_shards(clf, parts[1:], warmup=parts[0]))
