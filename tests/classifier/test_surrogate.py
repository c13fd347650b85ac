"""A constraint that is learnt from all rows: what ``surrogate="decisions"`` or ``"scores"`` and a tolerance do."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.stats import binom

import surefair as sf

TRAIN = sf.datasets.SyntheticDI(seed=0).sample(6_000)
TEST = sf.datasets.SyntheticDI(seed=1).sample(20_000)
X, Y, Z = np.asarray(TRAIN.X), np.asarray(TRAIN.y), np.asarray(TRAIN.sensitive)
OTHER = np.asarray(TEST.X), np.asarray(TEST.y), np.asarray(TEST.sensitive)
quiet = pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")  # free, these rows are almost separable


def classifier(**more):
    return sf.FairClassifier(
        **{"tolerance": 0.05, "n_replicates": 40, "solver": "one_pass", "n_warmup": 2_000, "random_state": 0} | more
    )


def fitted(**more):
    return classifier(**more).fit(X, Y, sensitive_features=Z)


def in_batches(clf, cuts):
    for low, high in zip([0, *cuts], [*cuts, len(Y)], strict=True):
        clf.partial_fit(X[low:high], Y[low:high], sensitive_features=Z[low:high], classes=[-1, 1])
    return clf


@quiet
@pytest.mark.parametrize("surrogate", ["decisions", "scores"])
@pytest.mark.parametrize("criterion", ["demographic_parity", "equalized_odds", None])
def test_batches_threads_and_replicates_change_no_bit(criterion, surrogate):
    whole = fitted(criterion=criterion, surrogate=surrogate)
    parts = in_batches(classifier(criterion=criterion, surrogate=surrogate, n_jobs=2), [1, 700, 2_001, 2_033, 5_999])
    assert np.array_equal(parts.coef_replicates_, whole.coef_replicates_)
    few = fitted(criterion=criterion, surrogate=surrogate, n_replicates=7)
    assert np.array_equal(few.coef_replicates_, whole.coef_replicates_[:7])


def test_training_resumes_from_a_file_with_bit_identical_results():
    whole = in_batches(classifier(), [3_001])
    half = classifier().partial_fit(X[:3_001], Y[:3_001], sensitive_features=Z[:3_001], classes=[-1, 1])
    file = BytesIO()
    sf.save(half, file)
    file.seek(0)
    again = sf.load(file).partial_fit(X[3_001:], Y[3_001:], sensitive_features=Z[3_001:])
    assert np.array_equal(again.coef_replicates_, whole.coef_replicates_)


def test_all_rows_are_trained_on_and_counted():
    clf = fitted()
    assert clf.n_rows_ == 6_000
    assert clf.group_counts_["n"].sum() == 6_000
    assert clf.group_counts_["constrained"].all()


@pytest.mark.parametrize("tolerance", [0.0, 0.05, 0.2])
def test_the_tolerance_bounds_the_gap_of_decisions_on_other_rows(tolerance):
    clf = fitted(tolerance=tolerance, n_replicates=0)
    rows, _, group = OTHER
    decision = clf.predict(rows) == 1
    assert abs(decision[group == 0].mean() - decision[group == 1].mean()) == pytest.approx(tolerance, abs=0.025)


def test_three_spreads_agree():
    clf = fitted(n_replicates=200)
    bootstrap = clf.coef_replicates_.std(axis=0)
    table = clf.coef_interval(method="plug_in")
    plug_in = ((table["high"] - table["low"]) / 2.0 / 1.96).to_numpy()[:2]
    rows, labels, group = OTHER
    limit = sf.theory.asymptotic_covariance(clf, rows, labels, sensitive_features=group)
    np.testing.assert_allclose(plug_in, bootstrap, rtol=0.25)
    np.testing.assert_allclose(np.sqrt(np.diag(limit)[:2] / 6_000), bootstrap, rtol=0.25)


def test_one_pass_ends_at_the_exact_optimum_of_all_rows():
    one_pass = fitted(n_replicates=200)
    exact = fitted(n_replicates=0, n_warmup=6_000)  # all rows are warm-up rows, on which the problem is solved
    spread = one_pass.coef_replicates_.std(axis=0)
    assert (np.abs(one_pass.coef_ - exact.coef_)[0] < 0.3 * spread).all()


@quiet
def test_a_late_group_joins_almost_as_if_it_had_been_declared():
    rng = np.random.default_rng(3)
    group = np.where((Z == 1) & (np.arange(6_000) > 2_500) & (rng.random(6_000) < 0.5), 2, Z)
    late = classifier(n_replicates=5)
    for low in range(0, 6_000, 500):
        part = slice(low, low + 500)
        late.partial_fit(X[part], Y[part], sensitive_features=group[part], classes=[-1, 1])
    declared = classifier(n_replicates=5).fit(X, Y, sensitive_features=group)
    assert late.group_counts_["constrained"].all()
    np.testing.assert_allclose(late.coef_, declared.coef_, rtol=2e-3)


def test_warm_up_rows_count_once_in_merged_fits():
    first = X[:2_000], Y[:2_000], Z[:2_000]
    parts = [(X[i::2], Y[i::2], Z[i::2]) for i in (2_000, 2_001)]
    merged = sf.parallel.fit_shards(classifier(n_replicates=100), parts, warmup=first)
    whole = fitted(n_replicates=100)
    assert merged.n_rows_ == 6_000
    spread = whole.coef_replicates_.std(axis=0)
    assert (np.abs(merged.coef_ - whole.coef_)[0] < 0.5 * spread).all()
    np.testing.assert_allclose(merged.coef_replicates_.std(axis=0), spread, rtol=0.3)


@quiet
def test_scores_are_another_constraint_than_decisions():
    decisions, scores, free = (
        fitted(criterion=criterion, surrogate=surrogate, tolerance=0.0, n_replicates=0)
        for criterion, surrogate in [
            ("demographic_parity", "decisions"),
            ("demographic_parity", "scores"),
            (None, "scores"),
        ]
    )
    score = scores.decision_function(X)
    difference = score[Z == 0].mean() - score[Z == 1].mean()
    unconstrained = free.decision_function(X)
    assert abs(difference) < 0.02 * abs(unconstrained[Z == 0].mean() - unconstrained[Z == 1].mean())
    assert np.abs(scores.coef_ - decisions.coef_).max() > 0.1


def test_sparse_rows_with_few_features_are_learnt_from_as_dense_ones():
    dense = classifier(n_replicates=5).fit(X, Y, sensitive_features=Z)
    sparse = classifier(n_replicates=5).fit(csr_matrix(X), Y, sensitive_features=Z)
    assert np.array_equal(sparse.coef_replicates_, dense.coef_replicates_)


def test_every_batch_needs_groups():
    clf = classifier().partial_fit(X[:3_000], Y[:3_000], sensitive_features=Z[:3_000], classes=[-1, 1])
    before = clf.model_
    with pytest.raises(ValueError, match="the constraint is learnt from every row"):
        clf.partial_fit(X[3_000:], Y[3_000:])
    assert clf.model_ is before


def test_first_rows_with_one_label_are_refused():
    order = np.argsort(Y, kind="stable")
    with pytest.raises(ValueError, match="show 1 of the two labels"):
        classifier().fit(X[order], Y[order], sensitive_features=Z[order])


@quiet
def test_groups_that_do_not_differ_are_not_constrained():
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(6_000, 3))
    labels = (rng.random(6_000) < 1.0 / (1.0 + np.exp(-rows[:, 0]))).astype(int)
    with pytest.warns(sf.diagnostics.ChanceConstraint, match="not constrained"):
        clf = classifier(tolerance=0.0).fit(rows, labels, sensitive_features=rng.integers(0, 2, 6_000))
    assert not clf.group_counts_["constrained"].any()


@quiet
def test_a_constraint_that_changes_hardly_any_decision_is_reported_and_gives_no_verdict():
    with pytest.warns(sf.diagnostics.IneffectiveConstraint, match="leaves most of a gap"):
        clf = fitted(tolerance=0.0, penalty=1e-4)
    rows, labels, group = OTHER
    interval = clf.fairness_interval(rows, labels, sensitive_features=group)
    assert any(isinstance(one, sf.diagnostics.IneffectiveConstraint) for one in interval.diagnostics)


@quiet
@pytest.mark.parametrize(("width", "reported"), [(0.0, True), (0.5, False)])
def test_decisions_beyond_the_tolerance_on_the_training_rows_are_reported(width, reported):
    rng = np.random.default_rng(0)
    group = rng.integers(2, size=20_000)
    shares = 0.3 + 0.25 * group[:, None] * np.linspace(1.0, 0.0, 6)
    rows = (rng.random((20_000, 6)) < shares) + width * rng.normal(size=(20_000, 6))
    labels = rows @ np.linspace(1.0, 0.4, 6) - 1.2 + rng.logistic(size=20_000) > 0.0
    clf = classifier(tolerance=0.05, n_replicates=0, solver="exact").fit(rows, labels, sensitive_features=group)
    decided = clf.predict(rows)
    gap = abs(decided[group == 0].mean() - decided[group == 1].mean())
    assert (gap > 0.07) == reported
    names = {one.name for one in clf.model_.diagnostics}
    assert ("CoarseScores" in names) == reported


@quiet
def test_a_model_that_the_rows_do_not_determine_gives_no_verdict():
    rng = np.random.default_rng(3)
    group = rng.integers(2, size=4_000)
    labels = 2 * rng.integers(2, size=4_000) - 1
    rows = rng.normal(size=(4_000, 2)) + np.column_stack([0.5 * labels + 0.3 * group, 0.3 * labels])
    clf = classifier(criterion="equalized_odds", tolerance=0.0, n_warmup=1_000)
    clf.fit(rows, labels, sensitive_features=group)
    with pytest.warns(sf.diagnostics.UnsettledModel):
        interval = clf.fairness_interval(rows, labels, sensitive_features=group)
    assert interval.verdict(0.5) == "not enough evidence"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "criterion"),
    [(sf.datasets.SyntheticDI, "demographic_parity"), (sf.datasets.SyntheticDM, "false_positive_rate")],
)
def test_intervals_cover_with_everything_drawn_again(data, criterion):
    repetitions = 100
    rows = data(seed=7).sample(50_000)
    clf = sf.FairClassifier(criterion, tolerance=0.05, solver="one_pass", n_warmup=2_000, n_replicates=99)
    found = sf.calibrate(
        clf, rows.X, rows.y, sensitive_features=rows.sensitive, n_rows=6_000, n_evaluation=2_000,
        repetitions=repetitions, n_jobs=2, progress=False,
    )  # fmt: skip
    least = binom.ppf(1e-4, repetitions, 0.93) / repetitions
    assert (found.table["coverage"] >= least).all()
