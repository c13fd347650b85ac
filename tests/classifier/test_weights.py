"""Sample weights: how much each row counts in training, in the constraint set and in evaluation."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from batch import draw_batch
from scipy.sparse import csr_matrix
from sklearn.model_selection import cross_validate

import surefair as sf
from surefair import CRITERIA, FairClassifier, PolynomialDecay
from surefair.datasets import SyntheticDM
from surefair.inference import theory
from surefair.inference.sources import SOURCES

STREAM = SyntheticDM(seed=0)
TRAIN, TEST, D_PRIME = draw_batch(STREAM, 0, 600), draw_batch(STREAM, 10**6, 400), draw_batch(STREAM, 2 * 10**6, 120)
WEIGHT = np.random.default_rng(0).exponential(size=600)
DECAY = PolynomialDecay(0.2, 0.6)


def make(criterion="demographic_parity", **parameters):
    return FairClassifier(
        criterion, **{"n_replicates": 5, "solver": "one_pass", "n_warmup": 100, "random_state": 0} | parameters
    )


def apart(weight=None, rows=D_PRIME):
    parts = rows.X, rows.y, rows.group
    return parts if weight is None else (*parts, weight)


def train(clf, rows=TRAIN, weight=None, method="fit", **more):
    return getattr(clf, method)(rows.X, rows.y, sensitive_features=rows.group, sample_weight=weight, **more)


def feed(clf, rows=TRAIN, weight=WEIGHT, cuts=()):
    for low, high in pairwise([0, *cuts, rows.n_rows]):
        classes = {} if hasattr(clf, "classes_") else {"classes": [-1, 1]}
        train(clf, rows.part(low, high), weight[low:high], "partial_fit", **classes)
    return clf


def ask(clf, rows=TEST, weight=None, **question):
    return clf.fairness_interval(rows.X, rows.y, sensitive_features=rows.group, sample_weight=weight, **question)


def thetas(clf):
    coef = np.vstack([clf.coef_, clf.coef_replicates_])
    return np.column_stack([coef, np.append(clf.intercept_, clf.intercept_replicates_)])


def bits(clf):
    return clf.n_rows_, thetas(clf).tobytes(), clf.group_counts_.to_dict("list")


CONSTRAINTS = [name for name, criterion in CRITERIA.items() if criterion.can_constrain]
each_criterion = pytest.mark.parametrize("criterion", [*CONSTRAINTS, None])
each_step_size = pytest.mark.parametrize("step_size", ["auto", DECAY], ids=["auto", "decay"])
each_training = pytest.mark.parametrize("method", ["fit", "partial_fit"])


# -- Training ----------------------------------------------------------------------------------------------------------


@each_criterion
@each_step_size
@each_training
def test_equal_weights_change_nothing(criterion, step_size, method):
    weights = None, np.full(600, 1.0), np.full(600, 4.0)
    none, once, fourfold = (bits(train(make(criterion, step_size=step_size), TRAIN, w, method)) for w in weights)
    assert once == none
    assert fourfold == none


@each_criterion
def test_only_the_ratios_of_weights_matter(criterion):
    once, eightfold, threefold = (train(make(criterion), TRAIN, factor * WEIGHT) for factor in (1.0, 8.0, 3.0))
    assert bits(eightfold) == bits(once)
    np.testing.assert_allclose(thetas(threefold), thetas(once), rtol=1e-6)


@each_criterion
@each_step_size
def test_any_batches_give_the_same_bits(criterion, step_size):
    whole = bits(feed(make(criterion, step_size=step_size)))
    for cuts in [(100,), (1, 60, 99, 101, 350), range(8, 600, 53)]:
        assert bits(feed(make(criterion, step_size=step_size), cuts=cuts)) == whole


@each_criterion
def test_under_a_schedule_the_first_rows_of_a_stream_keep_their_weights_in_the_constraint_set(criterion):
    first, rest = TRAIN.part(0, 100), TRAIN.part(100)
    given = train(make(criterion, step_size=DECAY), rest, WEIGHT[100:], constraint_set=apart(WEIGHT[:100], first))
    assert thetas(feed(make(criterion, step_size=DECAY))).tobytes() == thetas(given).tobytes()


@each_criterion
def test_in_the_warm_up_rows_a_weight_repeats_a_row(criterion):
    rows, weight = draw_batch(STREAM, 0, 3000), np.random.default_rng(1).integers(1, 3, size=3000)
    again = np.repeat(np.arange(3000), weight)
    repeated = rows._replace(X=rows.X[again], y=rows.y[again], group=rows.group[again])
    exact = {"n_warmup": 10**6, "n_replicates": 0, "tolerance": 0.1}
    weighted, expected = train(make(criterion, **exact), rows, 0.5 * weight), train(make(criterion, **exact), repeated)
    np.testing.assert_allclose(thetas(weighted), thetas(expected), rtol=1e-5)


@pytest.mark.parametrize("criterion", CONSTRAINTS)
@pytest.mark.parametrize("stop", [60, 100, 333])
def test_training_resumes_with_bit_identical_results(criterion, stop, tmp_path):
    sf.save(feed(make(criterion), TRAIN.part(0, stop)), tmp_path / "clf.npz")
    clf = feed(sf.load(tmp_path / "clf.npz"), TRAIN.part(stop), WEIGHT[stop:])
    assert bits(clf) == bits(feed(make(criterion)))


@each_criterion
def test_batches_with_and_without_weights_mix(criterion):
    mixed = feed(make(criterion), TRAIN.part(0, 300))
    train(mixed, TRAIN.part(300), None, "partial_fit")
    assert bits(mixed) == bits(feed(make(criterion), weight=np.r_[WEIGHT[:300], np.ones(300)]))


@each_criterion
def test_in_the_constraint_set_a_weight_repeats_a_row(criterion):
    weight = np.random.default_rng(1).integers(4, size=120)
    again = np.repeat(np.arange(120), weight)
    repeated = D_PRIME.X[again], D_PRIME.y[again], D_PRIME.group[again]
    clf, expected = (train(make(criterion), constraint_set=given) for given in (apart(0.5 * weight), repeated))
    np.testing.assert_allclose(thetas(clf), thetas(expected), rtol=1e-6)


@each_criterion
@each_step_size
def test_rows_of_weight_0_in_the_constraint_set_do_not_matter(criterion, step_size):
    rng = np.random.default_rng(2)
    X, y, z = (
        np.vstack([1e3 * rng.normal(size=(60, 2)), D_PRIME.X]),
        np.r_[[-1] * 60, D_PRIME.y],
        np.r_[[1] * 60, D_PRIME.group],
    )
    given = X, y, z, np.r_[np.zeros(60), np.ones(120)]
    clf, expected = (train(make(criterion, step_size=step_size), constraint_set=s) for s in (given, apart()))
    np.testing.assert_allclose(thetas(clf), thetas(expected), rtol=1e-9)


def test_a_group_of_weight_0_in_the_constraint_set_is_missing():
    with pytest.raises(ValueError, match="no row of group 1"):
        train(make(), constraint_set=apart((D_PRIME.group == 0).astype(float)))
    of_one = (D_PRIME.group == 0) | (D_PRIME.y == -1)
    with pytest.raises(ValueError, match="no row of group 1 with a label that the criterion 'false_negative_rate'"):
        train(make("false_negative_rate"), constraint_set=apart(of_one.astype(float)))


@each_training
@pytest.mark.parametrize("criterion", CONSTRAINTS)
def test_one_of_two_groups_may_not_have_weight_0(criterion, method):
    weight = (TRAIN.group == 0).astype(float)
    message = r"first 100 rows.* show 1 group with any weight \(0\), and a constraint compares two or more"
    refused(make(criterion), message, train, TRAIN, weight, method)
    assert train(make(None), TRAIN, weight, method).group_counts_["n"].sum() == 600


def test_a_group_of_weight_0_after_the_warm_up_rows_is_not_learnt_from():
    weight = ((TRAIN.group == 0) | (np.arange(600) < 100)).astype(float)
    clf = train(make("false_positive_rate", tolerance=0.1), TRAIN, weight)
    others = TRAIN._replace(X=np.where(weight[:, None] > 0.0, TRAIN.X, -7.0 * TRAIN.X))
    assert bits(clf) == bits(train(make("false_positive_rate", tolerance=0.1), others, weight))


@pytest.mark.parametrize("criterion", ["demographic_parity", "false_positive_rate"])
def test_a_third_group_of_weight_0_does_not_matter(criterion):
    rows = draw_batch(STREAM, 0, 3000)
    group = np.where(np.arange(3000) % 3 == 0, 2, rows.group)
    some = group < 2
    exact = {"n_warmup": 3000, "tolerance": 0.1}
    clf = train(make(criterion, **exact), rows._replace(group=group), some.astype(float))
    expected = train(make(criterion, **exact), rows._replace(X=rows.X[some], y=rows.y[some], group=rows.group[some]))
    assert clf.group_counts_["constrained"].tolist() == [True, True, False]
    np.testing.assert_allclose(clf.coef_, expected.coef_, rtol=1e-6)


def nothing(clf, rows, n, kind=np.asarray):
    """Take a batch of rows of weight 0."""
    more = {"sensitive_features": rows.group[:n], "sample_weight": np.zeros(n)}
    return clf.partial_fit(kind(rows.X[:n]), rows.y[:n], **more)


@each_criterion
@each_step_size
def test_under_a_fixed_constraint_a_batch_of_weight_0_is_counted_and_moves_no_iterate(criterion, step_size):
    def sums(clf):
        return clf.n_rows_ * thetas(clf)

    def fresh():
        clf = make(criterion, step_size=step_size)
        return train(clf, TRAIN, WEIGHT, "partial_fit", constraint_set=apart())

    clf = fresh()
    before = sums(clf)
    total = clf.model_.fit.weight
    here = sums(nothing(clf, TEST, 400)) - before
    assert (clf.n_rows_, clf.model_.fit.weight) == (1000, total)
    there = sums(nothing(clf, TEST, 200)) - before - here
    np.testing.assert_allclose(here / 400.0, there / 200.0, rtol=1e-9, atol=1e-9)  # the average repeats the same point
    others = TEST._replace(X=-7.0 * TEST.X, y=-TEST.y)
    np.testing.assert_allclose(thetas(nothing(fresh(), others, 400)), thetas(nothing(fresh(), TEST, 400)), rtol=1e-12)


@each_criterion
@pytest.mark.parametrize("kind", [np.asarray, csr_matrix])
def test_a_batch_of_weight_0_is_counted_and_says_nothing(criterion, kind, request):
    if criterion in ("false_discovery_rate", "error_rate"):
        reason = "a block without weight still steps towards the constraint, which is far off under this criterion here"
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))

    def fresh():
        clf = make(criterion, n_replicates=50, tolerance=0.1)
        return clf.partial_fit(kind(TRAIN.X), TRAIN.y, sensitive_features=TRAIN.group, sample_weight=WEIGHT)

    clf = fresh()
    before, total = thetas(clf), clf.model_.fit.weight
    nothing(clf, TEST, 400, kind)
    assert (clf.n_rows_, clf.model_.fit.weight) == (1000, total)
    others = TEST._replace(X=-7.0 * TEST.X, y=-TEST.y)
    np.testing.assert_allclose(thetas(nothing(fresh(), others, 400, kind)), thetas(clf), rtol=1e-9)
    assert (np.abs(thetas(clf) - before)[0] < 0.3 * before[1:].std(axis=0)).all()  # it may come nearer to its optimum


def test_under_a_schedule_weights_of_0_in_all_rows_but_the_constraint_set_are_refused():
    weight = (np.arange(len(TRAIN.y)) < 100).astype(float)
    with pytest.raises(ValueError, match="zero in every row that is left to train on"):
        train(make(step_size=DECAY), TRAIN, weight)
    assert train(make(), TRAIN, weight).n_rows_ == 600  # warm-up rows are trained on


@each_step_size
def test_a_stream_may_begin_with_some_weights_of_0(step_size):
    weight = np.r_[np.zeros(60), np.ones(540)]
    clf = feed(make(None, step_size=step_size), weight=weight, cuts=[55])
    assert np.isfinite(thetas(clf)).all()
    assert bits(clf) == bits(feed(make(None, step_size=step_size), weight=weight))


def test_weights_of_0_in_all_first_rows_are_refused_where_the_fit_begins_with_them():
    weight = np.r_[np.zeros(110), np.ones(490)]
    for criterion in ("demographic_parity", None):
        with pytest.raises(ValueError, match=r"first 100 rows that have any weight show 0 of the two labels.*Shuffle"):
            feed(make(criterion), weight=weight)
    assert np.isfinite(thetas(feed(make(None, step_size=DECAY), weight=weight, cuts=[105]))).all()
    with pytest.raises(ValueError, match="no row of group 0"):  # a constraint needs rows of positive weight
        feed(make(step_size=DECAY), weight=weight)


@pytest.mark.parametrize("criterion", ["demographic_parity", "equalized_odds", "false_discovery_rate", None])
@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
@pytest.mark.parametrize("fixed", [False, True], ids=["learnt", "fixed"])
def test_weights_lead_to_the_weighted_optimum(criterion, loss, fixed):
    # the second feature favours the label in one half of the rows, and speaks against it in the other
    rng, n = np.random.default_rng(3), 12_000
    half, z, y = rng.integers(2, size=n), rng.integers(2, size=n), 2 * rng.integers(2, size=n) - 1
    X = rng.normal(size=(n, 2)) + np.column_stack([0.5 * y + 0.3 * z, y * (half - 0.5)])
    weight = np.where(half == 1, 9.0, 1.0)
    given = X[:500], y[:500], z[:500], weight[:500]
    if fixed:
        clf = make(criterion, loss=loss, n_replicates=50)
        clf.fit(X[500:], y[500:], sensitive_features=z[500:], constraint_set=given, sample_weight=weight[500:])
    else:
        clf = make(criterion, loss=loss, n_replicates=50, n_warmup=4000, tolerance=0.02)
        clf.fit(X, y, sensitive_features=z, sample_weight=weight)
    plain, best = (theory.optimum(clf, X, y, sensitive_features=z, sample_weight=w) for w in (None, weight))
    found, spread = thetas(clf)[0], thetas(clf)[1:].std(axis=0)
    assert best[1] > plain[1] + 0.1  # so the weights matter
    assert np.all(np.abs(found - best) <= 4.0 * spread + 0.01)
    assert abs(found[1] - best[1]) < 0.2 * abs(found[1] - plain[1])


@pytest.mark.filterwarnings("ignore::surefair.diagnostics.LocalOptima")
def test_the_weighted_optimum_is_the_optimum_of_repeated_rows():
    weight = np.random.default_rng(4).integers(3, size=600)
    again = np.repeat(np.arange(600), weight)
    for criterion in CONSTRAINTS:
        clf = train(make(criterion), constraint_set=apart())
        weighted = theory.optimum(clf, TRAIN.X, TRAIN.y, sample_weight=2.0 * weight)
        np.testing.assert_allclose(weighted, theory.optimum(clf, TRAIN.X[again], TRAIN.y[again]), atol=1e-5)


# -- Evaluation --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def asked():
    return train(make("error_rate", n_replicates=20))


@pytest.mark.parametrize("metric", [*CRITERIA, *(f"{name}_ratio" for name in CRITERIA)])
@pytest.mark.parametrize("source", SOURCES)
def test_an_integer_weight_measures_like_repeated_rows(asked, metric, source):
    weight = np.random.default_rng(5).integers(4, size=400)
    again = np.repeat(np.arange(400), weight)
    weighted = ask(asked, TEST, weight, metric=metric, source=source)
    repeated = asked.fairness_interval(
        TEST.X[again], TEST.y[again], sensitive_features=TEST.group[again], metric=metric, source=source
    )
    assert weighted.estimate == pytest.approx(repeated.estimate, abs=1e-12)
    assert weighted.gap == pytest.approx(repeated.gap, abs=1e-12)
    np.testing.assert_allclose(weighted.by_group["rate"], repeated.by_group["rate"], atol=1e-12)
    if source in ("training", "retraining"):  # these sources keep the rows as they are, so limits agree too
        assert (weighted.gap_low, weighted.gap_high) == pytest.approx((repeated.gap_low, repeated.gap_high))
    elif source == "evaluation":  # a weight is not more rows; in total, copies of a row fall into both halves
        assert weighted.gap_high - weighted.gap_low > repeated.gap_high - repeated.gap_low


def test_equal_evaluation_weights_change_nothing():
    clf = train(make())
    assert ask(clf, TEST, np.ones(400)) == ask(clf)
    fourfold, plain = ask(clf, TEST, np.full(400, 4.0)), ask(clf)
    for name in ("estimate", "low", "high", "gap", "gap_low", "gap_high"):
        assert getattr(fourfold, name) == pytest.approx(getattr(plain, name))


# -- Kinds, routing ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [list, pd.Series, pl.Series, np.float32, lambda w: w[:, None]])
def test_weights_may_come_in_any_column(kind):
    whole = np.round(4.0 * WEIGHT)
    assert bits(train(make(), TRAIN, kind(whole))) == bits(train(make(), TRAIN, whole))


def test_weights_are_not_changed():
    weight = WEIGHT.copy()
    feed(make(), weight=weight)
    train(make(), TRAIN, weight)
    assert np.array_equal(weight, WEIGHT)


def test_scikit_learn_routes_weights():
    with sklearn.config_context(enable_metadata_routing=True):
        clf = make(None).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        found = cross_validate(clf, TRAIN.X, TRAIN.y, cv=2, params={"sample_weight": WEIGHT}, return_estimator=True)
        plain = cross_validate(make(None), TRAIN.X, TRAIN.y, cv=2, return_estimator=True)
    assert not np.array_equal(found["estimator"][0].coef_, plain["estimator"][0].coef_)
    assert np.isfinite(found["test_score"]).all()


# -- Bad weights -------------------------------------------------------------------------------------------------------


def spoilt(value, n=600):
    weight = np.ones(n)
    weight[7] = value
    return weight


BAD_WEIGHTS = {
    "negative": (
        lambda n: spoilt(-0.5, n),
        "sample_weight is negative in row 7: -0.5. Weights must be finite and not negative",
    ),
    "infinite": (lambda n: spoilt(np.inf, n), "sample_weight is infinite in row 7"),
    "minus infinity": (lambda n: spoilt(-np.inf, n), "sample_weight is infinite in row 7"),
    "NaN": (lambda n: spoilt(np.nan, n), r"sample_weight column contains NaN or missing values.*row 7\)"),
    "missing": (lambda n: [1.0] * (n - 1) + [None], "sample_weight column contains NaN or missing values"),
    "too short": (
        lambda n: np.ones(n - 1),
        "sample_weight has .* entries, and there are .* rows. Pass one weight per row",
    ),
    "too long": (
        lambda n: np.ones(n + 1),
        "sample_weight has .* entries, and there are .* rows. Pass one weight per row",
    ),
    "text": (lambda n: ["heavy"] * n, "sample_weight must hold numbers; received"),
    "one number": (lambda n: 2.0, "sample_weight column must be a column of values"),
    "a table": (lambda n: np.ones((n, 2)), "sample_weight column must have one dimension"),
}


def refused(clf, message, call, *args, **arguments):
    before = bits(clf) if hasattr(clf, "classes_") else vars(clf).copy()
    with pytest.raises(ValueError, match=message):
        call(clf, *args, **arguments)
    assert (bits(clf) if hasattr(clf, "classes_") else vars(clf)) == before


@pytest.mark.parametrize("case", BAD_WEIGHTS)
def test_bad_weights_are_refused_everywhere_and_change_nothing(case):
    bad, message = BAD_WEIGHTS[case]
    for method in ("fit", "partial_fit"):
        refused(make(), message, train, TRAIN, bad(600), method)
        refused(make(), f"constraint_set: .*{message}", train, TRAIN, None, method, constraint_set=apart(bad(120)))
        refused(train(make()), message, train, TRAIN, bad(600), method)
    for seen in (60, 300):
        clf = feed(make(), TRAIN.part(0, seen))
        refused(clf, message, train, TRAIN.part(seen), bad(600 - seen), "partial_fit")
        refused(clf, message, ask, TEST, bad(400))
        rows = {"X": TEST.X, "y": TEST.y, "sensitive_features": TEST.group}
        refused(clf, message, lambda clf, rows=rows: theory.optimum(clf, **rows, sample_weight=bad(400)))
        assert bits(feed(clf, TRAIN.part(seen), WEIGHT[seen:])) == bits(feed(make()))


def test_weights_of_0_in_every_row_are_refused():
    for clf in (make(), train(make())):
        refused(
            clf, "sample_weight is zero in every row, so there is no row to learn from", train, TRAIN, np.zeros(600)
        )
    clf = train(make())
    refused(clf, "sample_weight is zero in every row, so there is no row to count", ask, TEST, np.zeros(400))
    refused(clf, "no row of group", lambda clf: train(make(), constraint_set=apart(np.zeros(120))))
    refused(
        clf,
        "zero in every row, so there is no row to count",
        lambda clf: theory.optimum(clf, TEST.X, TEST.y, sensitive_features=TEST.group, sample_weight=np.zeros(400)),
    )


# -- What chance can do ------------------------------------------------------------------------------------------------


def of_chance(n, seed):
    """Rows whose features do not depend on their group."""
    rng = np.random.default_rng(seed)
    X, group = rng.normal(size=(n, 4)), rng.integers(0, 2, n)
    return X, X[:, 0] + 0.5 * X[:, 1] + rng.logistic(size=n) > 0.0, group


@pytest.mark.parametrize("solver", ["exact", "one_pass"])
def test_rows_of_weight_0_make_chance_no_smaller(solver):
    X, y, group = of_chance(15_000, 3)
    weight = (np.arange(15_000) < 1_500).astype(float)
    with_them, without = (
        FairClassifier(solver=solver, n_replicates=0, random_state=0).fit(
            X[:n], y[:n], sensitive_features=group[:n], sample_weight=weight[:n]
        )
        for n in (15_000, 1_500)
    )
    np.testing.assert_allclose(with_them.coef_, without.coef_, rtol=1e-6)
    assert not with_them.group_counts_["constrained"].any()


@pytest.mark.parametrize("solver", ["exact", "one_pass"])
def test_uneven_weights_do_not_make_chance_look_like_a_difference(solver):
    constrained = 0
    for seed in range(10):
        X, y, group = of_chance(2_000, seed)
        weight = np.exp(1.5 * np.random.default_rng(seed).normal(size=2_000))
        clf = FairClassifier(solver=solver, n_replicates=0, random_state=0)
        clf.fit(X, y, sensitive_features=group, sample_weight=weight)
        constrained += clf.group_counts_["constrained"].any()
    assert constrained == 0  # half of them, if uneven weights counted like rows
