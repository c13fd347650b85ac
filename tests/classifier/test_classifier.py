"""FairClassifier: scikit-learn's checks, then what comes out, streams, intervals, errors and merging.

The same rows give the same bits in any batches; asking for an answer changes nothing; neither does an error.
"""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from batch import Batch, draw_batch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from surefair import CRITERIA, FairClassifier, PolynomialDecay, load, save
from surefair.criteria import Slabs, SquaredPenalty
from surefair.datasets import SyntheticDM
from surefair.diagnostics import TooFewReplicates
from surefair.inference.limits import BOOTSTRAP_METHODS, METHODS, limits
from surefair.inference.sources import SOURCES
from surefair.inference.theory import optima

NAMES = ["x1", "x2"]
STREAM = SyntheticDM(seed=0)  # both groups have negatives and positives, and are treated differently
TRAIN, TEST, D_PRIME = draw_batch(STREAM, 0, 600), draw_batch(STREAM, 10**6, 400), draw_batch(STREAM, 2 * 10**6, 120)
DECAY = PolynomialDecay(0.5, 0.6)
CONSTRAINTS = [name for name, criterion in CRITERIA.items() if criterion.can_constrain]
APART = {"constraint_set": (D_PRIME.X, D_PRIME.y, D_PRIME.group)}  # fixes the constraint
VARIANTS = [(criterion, step_size) for criterion in [*CONSTRAINTS, None] for step_size in ["auto", DECAY]]

each_variant = pytest.mark.parametrize(
    ("criterion", "step_size"), VARIANTS, ids=[f"{name}-{'auto' if s == 'auto' else 'decay'}" for name, s in VARIANTS]
)
each_training = pytest.mark.parametrize("method", ["fit", "partial_fit"])


def make(criterion="demographic_parity", **parameters):
    return FairClassifier(
        criterion, **{"n_replicates": 20, "solver": "one_pass", "n_warmup": 100, "random_state": 0} | parameters
    )


def triple(rows: Batch):
    return rows.X, rows.y, rows.group


def named(rows: Batch, names=NAMES) -> Batch:
    return rows._replace(X=pd.DataFrame(rows.X, columns=names))


def train(clf, rows: Batch, method="fit", **more):
    return getattr(clf, method)(rows.X, rows.y, sensitive_features=rows.group, **more)


def feed(clf, rows: Batch, cuts=(), **first):
    """Feed a stream in batches that end at the cuts; ``first`` goes with the first batch."""
    for low, high in pairwise([0, *sorted(cuts), rows.n_rows]):
        train(clf, rows.part(low, high), "partial_fit", **(first if low == 0 else {}))
    return clf


def ask(clf, rows: Batch = TEST, **question):
    return clf.fairness_interval(rows.X, rows.y, sensitive_features=rows.group, **question)


def bits(clf):
    """Everything that was learnt, as bits."""
    arrays = clf.classes_, clf.groups_, clf.coef_, clf.intercept_, clf.coef_replicates_, clf.intercept_replicates_
    return clf.n_rows_, *(None if array is None else (array.dtype.str, array.tobytes()) for array in arrays)


def thetas(clf):
    """θ of the fit and of each replicate, intercept last, shape (1 + B, d + 1)."""
    coef = np.vstack([clf.coef_, clf.coef_replicates_])
    return np.column_stack([coef, np.append(clf.intercept_, clf.intercept_replicates_)])


def width(interval):
    return interval.gap_high - interval.gap_low


# -- scikit-learn ----------------------------------------------------------------------------------------------------


ONE_PASS = "a weight makes a step longer; as with SGDClassifier, one pass is not a pass over repeated or removed rows"


@parametrize_with_checks(
    [
        FairClassifier(None, n_replicates=5),
        FairClassifier(None, n_replicates=5, loss="squared_error"),
        FairClassifier(None, n_replicates=5, step_size=DECAY),
    ],
    expected_failed_checks=lambda clf: (
        {
            "check_sample_weight_equivalence_on_dense_data": ONE_PASS,
            "check_sample_weight_equivalence_on_sparse_data": ONE_PASS,
        }
        if clf.step_size == DECAY
        else {}
    ),
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def test_the_default_metric_is_the_criterion_of_the_fit_whatever_the_parameters_are_now():
    clf = train(make("error_rate"), TRAIN).set_params(criterion="demographic_parity")
    assert clf.fairness_interval(TEST.X, TEST.y, sensitive_features=TEST.group).metric == "error_rate"


def test_a_clone_has_the_parameters_and_is_not_fitted():
    clf = train(make("error_rate", step_size=DECAY, penalty=3.0, n_warmup=100), TRAIN)
    twin = clone(clf)
    assert twin.get_params() == clf.get_params()
    assert vars(twin) == clf.get_params()
    with pytest.raises(NotFittedError):
        twin.coef_


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda clf: pickle.loads(pickle.dumps(clf))])
def test_a_copy_continues_with_the_same_bits_as_the_original(copied):
    clf = feed(make(), TRAIN.part(0, 300))
    twin = copied(clf)
    for stream in (clf, twin):
        train(stream, TRAIN.part(300), "partial_fit")
    assert bits(twin) == bits(clf)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("routing")
class TestMetadataRouting:
    def test_pipeline(self):
        steps = StandardScaler(), make().set_fit_request(sensitive_features=True, constraint_set=True)
        scaled = StandardScaler().fit(TRAIN.X)
        constraint_set = scaled.transform(D_PRIME.X), D_PRIME.y, D_PRIME.group
        pipeline = make_pipeline(*steps)
        pipeline.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.group, constraint_set=constraint_set)
        by_hand = train(make(), TRAIN._replace(X=scaled.transform(TRAIN.X)), constraint_set=constraint_set)
        assert bits(pipeline[-1]) == bits(by_hand)

    @pytest.mark.parametrize(
        ("clf", "grid"),
        [
            (make(), {"tolerance": [0.0, 0.5]}),
            (make("false_positive_rate"), {"penalty": [None, 10.0]}),
        ],
    )
    def test_grid_search(self, clf, grid):
        search = GridSearchCV(clf.set_fit_request(sensitive_features=True), grid, cv=2)
        search.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.group)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        assert bits(search.best_estimator_) == bits(train(clone(clf).set_params(**search.best_params_), TRAIN))

    def test_cross_validation(self):
        clf = make("error_rate").set_fit_request(sensitive_features=True, constraint_set=True)
        params = {"sensitive_features": TRAIN.group, "constraint_set": triple(D_PRIME)}
        found = cross_validate(clf, TRAIN.X, TRAIN.y, cv=3, params=params, return_estimator=True)
        assert (found["test_score"] > 0.6).all()
        assert [model.n_rows_ for model in found["estimator"]] == [400, 400, 400]
        assert all(model.groups_.tolist() == [0, 1] for model in found["estimator"])

    def test_partial_fit(self):
        clf = make().set_partial_fit_request(sensitive_features=True)
        outer = MultiOutputClassifier(clf)
        labels = [np.array([-1, 1])]
        outer.partial_fit(TRAIN.X, TRAIN.y[:, None], classes=labels, sensitive_features=TRAIN.group)
        assert bits(outer.estimators_[0]) == bits(feed(make(), TRAIN))


# -- What comes out --------------------------------------------------------------------------------------------------


@each_variant
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_shapes(criterion, step_size, fit_intercept):
    clf = train(make(criterion, step_size=step_size, fit_intercept=fit_intercept), TRAIN)
    assert clf.classes_.tolist() == [-1, 1]
    assert clf.groups_.tolist() == [0, 1]
    assert clf.n_features_in_ == 2
    assert clf.n_rows_ == (600 if step_size == "auto" else 500)  # under a schedule the first rows are set apart
    assert not hasattr(clf, "feature_names_in_")
    assert clf.coef_.shape == (1, 2)
    assert clf.intercept_.shape == (1,)
    assert clf.coef_replicates_.shape == (20, 2)
    assert clf.intercept_replicates_.shape == (20,)
    assert clf.decision_function(TEST.X).shape == clf.predict(TEST.X).shape == (400,)
    assert fit_intercept == bool(np.any(clf.intercept_replicates_))
    table = clf.coef_interval()
    assert table.columns.tolist() == ["feature", "estimate", "low", "high", "excludes_zero"]
    assert table["feature"].tolist() == ["x0", "x1", "intercept"][: 2 + fit_intercept]


@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
def test_probabilities_decisions_and_scores_agree(loss):
    clf = train(make(loss=loss), TRAIN)
    probability = clf.predict_proba(TEST.X)
    score = clf.decision_function(TEST.X)
    assert ((probability >= 0.0) & (probability <= 1.0)).all()
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    assert np.array_equal(clf.predict(TEST.X), np.where(score > 0.0, 1, -1))
    assert np.array_equal(probability[:, 1] > 0.5, score > 0.0)
    np.testing.assert_allclose(score, TEST.X @ clf.coef_[0] + clf.intercept_)


def test_intervals_of_coefficients_are_made_of_replicates():
    clf = train(make(n_replicates=99), TRAIN)
    table = clf.coef_interval(confidence_level=0.9)
    theta = thetas(clf)
    assert np.array_equal(table["estimate"], theta[0])
    mirrored = np.sort(2.0 * theta[0] - theta[1:], axis=0)
    np.testing.assert_allclose(table["low"], mirrored[4])  # ranks 5 and 95 of 99
    np.testing.assert_allclose(table["high"], mirrored[94])
    assert np.array_equal(table["excludes_zero"], table["low"] * table["high"] > 0.0)


@pytest.mark.parametrize("method", BOOTSTRAP_METHODS)
def test_intervals_of_coefficients_are_made_by_the_method(method):
    clf = train(make(n_replicates=50), TRAIN)
    table = clf.coef_interval(method=method)
    theta = thetas(clf)
    assert np.array_equal([table["low"], table["high"]], limits(theta[0], theta[1:], 0.95, method))
    assert np.array_equal(table["estimate"], theta[0])


@pytest.mark.filterwarnings("error::surefair.diagnostics.TooFewReplicates")
def test_two_replicates_are_enough_for_cheap_intervals_and_other_methods_warn():
    clf = train(make(n_replicates=2), TRAIN)
    assert ask(clf, method="cheap").method == "cheap"
    table = clf.coef_interval(method="cheap")
    theta = thetas(clf)
    half = 4.302653 * np.sqrt(np.mean((theta[1:] - theta[0]) ** 2, axis=0))  # Student's t law with 2 degrees of freedom
    np.testing.assert_allclose(table["high"] - table["estimate"], half, rtol=1e-6)
    for question in (ask, lambda clf: clf.coef_interval()):
        with pytest.warns(TooFewReplicates, match=r"2 replicates .* needs 39.* Use method='cheap'") as caught:
            question(clf)
        few = [warning.filename for warning in caught if issubclass(warning.category, TooFewReplicates)]
        assert few == [__file__]


FRAMES = {
    "pandas": (pd.DataFrame, pd.Series, lambda frame: frame.to_dict("list")),
    "polars": (pl.DataFrame, pl.Series, lambda frame: frame.to_dict(as_series=False)),
    "pyarrow": (pa.table, lambda values: pa.chunked_array([values]), lambda frame: frame.to_pydict()),
}


@pytest.mark.parametrize("library", FRAMES)
def test_every_table_has_the_names_and_the_library_of_the_features(library):
    frame, series, as_dict = FRAMES[library]
    kind = type(frame({"a": [1]}))

    def convert(rows):
        return Batch(frame(dict(zip(NAMES, rows.X.T, strict=True))), series(rows.y), series(rows.group))

    clf = train(make(), convert(TRAIN))
    interval = ask(clf, convert(TEST))
    for table in (clf.coef_interval(), interval.by_group, interval.to_frame()):
        assert isinstance(table, kind)
    assert clf.feature_names_in_.tolist() == NAMES
    assert as_dict(clf.coef_interval())["feature"] == [*NAMES, "intercept"]
    assert as_dict(interval.by_group)["group"] == [0, 1]
    from_arrays = train(make(), TRAIN)
    assert bits(clf) == bits(from_arrays)
    assert interval.to_dict() == ask(from_arrays).to_dict()
    assert isinstance(from_arrays.coef_interval(), pd.DataFrame)
    assert isinstance(ask(from_arrays).by_group, pd.DataFrame)


def test_a_new_fit_forgets_the_names_of_the_previous_one():
    clf = train(train(make(), named(TRAIN)), TRAIN)
    assert not hasattr(clf, "feature_names_in_")
    assert clf.coef_interval()["feature"].tolist() == ["x0", "x1", "intercept"]


COLUMNS = {
    "text": (["no", "yes"], list),
    "text objects": (["no", "yes"], lambda values: np.array(values, dtype=object)),
    "integers": ([3, 7], np.array),
    "Booleans": ([False, True], np.array),
    "floats": ([1.0, 2.0], np.array),
    "pandas text": (["no", "yes"], pd.Series),
    "pandas text with missing values allowed": (["no", "yes"], lambda values: pd.Series(values, dtype="string")),
    "pandas categories": (["no", "yes"], lambda values: pd.Series(values, dtype="category")),
    "pandas nullable integers": ([3, 7], lambda values: pd.Series(values, dtype="Int64")),
    "pandas nullable Booleans": ([False, True], lambda values: pd.Series(values, dtype="boolean")),
    "polars text": (["no", "yes"], pl.Series),
    "polars categories": (["no", "yes"], lambda values: pl.Series(values, dtype=pl.Categorical)),
    "pyarrow text": (["no", "yes"], pa.array),
    "pyarrow chunks of text": (["no", "yes"], lambda values: pa.chunked_array([values[:50], values[50:]])),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_labels_and_groups_may_have_any_type(kind):
    levels, column = COLUMNS[kind]

    def convert(rows):
        y, group = [levels[int(v > 0)] for v in rows.y], [levels[v] for v in rows.group]
        return Batch(rows.X, column(y), column(group))

    plain, clf = train(make(), TRAIN), train(make(), convert(TRAIN))
    assert clf.classes_.tolist() == clf.groups_.tolist() == levels
    assert np.array_equal(thetas(clf), thetas(plain))
    assert clf.predict(TEST.X).tolist() == [levels[int(v > 0)] for v in plain.predict(TEST.X)]
    assert clf.score(TEST.X, convert(TEST).y) == plain.score(*triple(TEST)[:2])
    interval = ask(clf, convert(TEST))
    assert interval.by_group["group"].tolist() == levels
    assert (interval.gap, interval.low, interval.high) == (ask(plain).gap, ask(plain).low, ask(plain).high)


# -- Bits --------------------------------------------------------------------------------------------------------------

any_cuts = st.lists(st.integers(1, TRAIN.n_rows), max_size=5)  # cuts may coincide: a batch may be empty


@cache
def bits_of_a_fit(criterion, step_size, apart=False):
    """What a fit on all rows learns, once for all cuts."""
    return bits(train(make(criterion, step_size=step_size), TRAIN, **(APART if apart else {})))


@each_variant
@given(cuts=any_cuts)
def test_a_stream_in_any_batches_equals_a_fit_on_all_its_rows(criterion, step_size, cuts):
    stream = feed(make(criterion, step_size=step_size), TRAIN, cuts, classes=[-1, 1])
    assert bits(stream) == bits_of_a_fit(criterion, step_size)


@each_variant
@given(cuts=any_cuts)
def test_a_stream_beside_a_constraint_set_equals_a_fit_on_all_its_rows(criterion, step_size, cuts):
    stream = feed(make(criterion, step_size=step_size), TRAIN, cuts, classes=[-1, 1], **APART)
    assert bits(stream) == bits_of_a_fit(criterion, step_size, apart=True)


@pytest.mark.slow
@each_variant
@given(cuts=any_cuts)
def test_batches_may_end_anywhere_in_the_first_rows(criterion, step_size, cuts):
    clf = make(criterion, step_size=step_size, n_warmup=300)
    stream = feed(clone(clf), TRAIN, cuts, classes=[-1, 1])
    if step_size == "auto":
        assert bits(stream) == bits(train(clf, TRAIN))
    else:  # the first rows are set apart: in a stream all of them, not only a fifth of all rows
        assert bits(stream) == bits(train(clf, TRAIN.part(300), constraint_set=triple(TRAIN.part(0, 300))))


def test_rows_may_come_one_by_one():
    rows = TRAIN.part(0, 250)
    one_by_one = feed(make(), rows, range(1, 250), classes=[-1, 1])
    assert bits(one_by_one) == bits(feed(make(), rows))


def test_a_long_batch_equals_many_short_ones():
    rows = draw_batch(STREAM, 0, 9000)  # more rows than change coordinates at a time
    assert bits(feed(make(n_replicates=3), rows, range(1000, 9000, 1000))) == bits(feed(make(n_replicates=3), rows))


@pytest.mark.parametrize("more", [{}, APART], ids=["learnt", "fixed"])
def test_partial_fit_continues_after_fit(more):
    clf = train(make(), TRAIN.part(0, 350), **more)
    train(clf, TRAIN.part(350), "partial_fit")
    assert bits(clf) == bits(train(make(), TRAIN, **more))


def test_fit_starts_over():
    clf = feed(make(), TEST)
    assert bits(train(clf, TRAIN)) == bits(train(make(), TRAIN))


@pytest.mark.parametrize("step_size", ["auto", DECAY], ids=["auto", "decay"])
@pytest.mark.parametrize("n_seen", [60, 299])
def test_until_there_are_enough_rows_to_begin_a_fit_on_the_rows_so_far_answers(n_seen, step_size):
    clf = make(n_warmup=300, step_size=step_size)
    asked, silent = (feed(clone(clf), TRAIN.part(0, n_seen)) for _ in range(2))
    so_far = train(clf, TRAIN.part(0, n_seen))
    assert bits(asked) == bits(so_far)
    assert ask(asked).to_dict() == ask(so_far).to_dict()
    assert asked.coef_interval().equals(so_far.coef_interval())
    assert np.array_equal(asked.predict(TEST.X), so_far.predict(TEST.X))
    for stream in (asked, silent):
        train(stream, TRAIN.part(n_seen), "partial_fit")
    assert bits(asked) == bits(silent)


@pytest.mark.parametrize("step_size", ["auto", DECAY], ids=["auto", "decay"])
@pytest.mark.parametrize("n_seen", [99, 100])
def test_intervals_have_a_width_when_the_fit_has_just_begun(n_seen, step_size):
    table = feed(make(step_size=step_size), TRAIN.part(0, n_seen)).coef_interval()
    assert (table["low"] < table["high"]).all()


@each_variant
def test_fewer_rows_than_the_warm_up_are_a_fit_like_any_other(criterion, step_size):
    rows = TRAIN.part(0, 300)
    fits = [train(make(criterion, step_size=step_size, n_warmup=n), rows) for n in (300, 301, 10**9)]
    if step_size == "auto":
        assert {bits(clf) for clf in fits} == {bits(fits[0])}
        assert fits[0].n_rows_ == 300
    else:
        assert [clf.n_rows_ for clf in fits] == [240, 240, 240]
    assert np.isfinite(thetas(fits[0])).all()
    assert 0.0 <= ask(fits[0]).low <= ask(fits[0]).high <= 1.0


@pytest.mark.parametrize("criterion", ["equalized_odds", "false_negative_rate", "false_positive_rate", None])
def test_one_pass_ends_near_the_exact_solution_on_all_rows(criterion):
    rows = draw_batch(STREAM, 0, 4000)
    one_pass, exact = (train(make(criterion, tolerance=0.1, n_warmup=n, n_replicates=100), rows) for n in (1000, 4000))
    spread = thetas(exact)[1:].std(axis=0)
    assert (np.abs(thetas(one_pass)[0] - thetas(exact)[0]) < 0.3 * spread).all()
    np.testing.assert_allclose(thetas(one_pass)[1:].std(axis=0), spread, rtol=0.3)


def test_a_stream_can_be_displayed_after_its_first_rows():
    clf = feed(make(), TRAIN.part(0, 3), classes=[-1, 1])
    assert "FairClassifier" in repr(clf)
    assert "FairClassifier" in clf._repr_html_()  # notebooks call this, and it reads every attribute


def test_the_caller_may_reuse_a_buffer_for_the_next_batch():
    buffer, stream = np.empty((50, 2)), make()
    for low in range(0, 600, 50):
        buffer[:] = TRAIN.X[low : low + 50]
        train(stream, TRAIN.part(low, low + 50)._replace(X=buffer), "partial_fit")
    assert bits(stream) == bits(feed(make(), TRAIN))


def test_the_caller_may_overwrite_a_constraint_set_after_the_call():
    X, other = D_PRIME.X.copy(), train(make(), TRAIN, **APART)
    clf = train(make(), TRAIN, constraint_set=(X, D_PRIME.y, D_PRIME.group))
    X[:] = 0.0
    with pytest.raises(ValueError, match="same fit"):  # rather than "constraint_set differ"
        clf.merge(other)


@each_variant
def test_threads_change_no_bit(criterion, step_size):
    one, two = (
        train(make(criterion, step_size=step_size, n_replicates=200, n_jobs=n), TRAIN.part(0, 300)) for n in (1, 2)
    )
    assert bits(one) == bits(two)


def test_threads_change_no_interval():
    weight = np.random.default_rng(0).random(TEST.n_rows)
    clf = train(make(n_replicates=200), TRAIN)
    one, two = (
        clf.set_params(n_jobs=n).fairness_interval(
            TEST.X, TEST.y, sensitive_features=TEST.group, metric="equalized_odds", sample_weight=weight
        )
        for n in (1, 2)
    )
    assert one == two


@each_variant
@pytest.mark.parametrize("n_replicates", [0, 10])
def test_a_replicate_does_not_depend_on_how_many_there_are(criterion, step_size, n_replicates):
    few, many = (train(make(criterion, step_size=step_size, n_replicates=n), TRAIN) for n in (n_replicates, 30))
    assert np.array_equal(thetas(few), thetas(many)[: 1 + n_replicates])


def test_the_seed_determines_the_replicates():
    assert bits(train(make(random_state=1), TRAIN)) == bits(train(make(random_state=1), TRAIN))
    other = train(make(random_state=2), TRAIN)
    assert np.array_equal(other.coef_, train(make(random_state=1), TRAIN).coef_)  # random weights move only replicates
    assert not np.array_equal(other.coef_replicates_, train(make(random_state=1), TRAIN).coef_replicates_)


# -- The constraint ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_set", "parameters"),
    [
        (True, {}),
        (True, {"loss": "squared_error"}),
        (True, {"step_size": DECAY}),
        (True, {"fit_intercept": False}),
        (False, {"step_size": DECAY}),
        (False, {"step_size": DECAY, "loss": "squared_error", "fit_intercept": False}),
    ],
)
@pytest.mark.parametrize("tolerance", [0.0, 0.02])
def test_under_a_fixed_constraint_fit_and_replicates_stay_within_the_slab(given_set, parameters, tolerance):
    def covariances(clf):
        X, _, z = triple(D_PRIME if given_set else TRAIN.part(0, 100))
        slab = (z - z.mean()) @ np.column_stack([X, np.ones(len(X))]) / len(X)
        return np.abs(thetas(clf) @ slab)

    constraint_set = triple(D_PRIME) if given_set else None
    fair = train(make(tolerance=tolerance, **parameters), TRAIN, constraint_set=constraint_set)
    free = train(make(None, **parameters), TRAIN, constraint_set=constraint_set)
    assert covariances(free).min() > 0.05  # so the constraint matters
    assert covariances(fair).max() <= tolerance + 1e-9


def gap_of_decisions(clf, rows: Batch):
    positive = clf.predict(rows.X) == 1
    return abs(positive[rows.group == 0].mean() - positive[rows.group == 1].mean())


@pytest.mark.parametrize("parameters", [{}, {"loss": "squared_error"}, {"fit_intercept": False}], ids=str)
@pytest.mark.parametrize("tolerance", [0.0, 0.1])
def test_the_tolerance_bounds_the_gap_of_decisions_in_the_rows(parameters, tolerance):
    rows = draw_batch(STREAM, 0, 3000)
    fair, free = (
        train(make(criterion, tolerance=tolerance, n_warmup=1000, **parameters), rows)
        for criterion in ("demographic_parity", None)
    )
    assert gap_of_decisions(free, rows) > 0.15  # so the constraint matters
    assert gap_of_decisions(fair, rows) == pytest.approx(tolerance, abs=0.015)


@pytest.mark.parametrize("criterion", ["false_positive_rate", "error_rate"])
@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
@pytest.mark.parametrize(
    "more", [{}, {"constraint_set": triple(draw_batch(STREAM, 5000, 600))}], ids=["learnt", "fixed"]
)
def test_a_penalty_narrows_the_gap(criterion, loss, more):
    rows = draw_batch(STREAM, 0, 3000)
    free, held = (train(make(c, loss=loss, penalty=500.0), rows, **more) for c in (None, criterion))
    assert ask(held, rows, metric=criterion).estimate < 0.6 * ask(free, rows, metric=criterion).estimate


PENALISED = [name for name in CONSTRAINTS if CRITERIA[name].form is not Slabs]
STEADY = [  # at 0 soft rates are infinitely steep, so explicit steps from there are left out
    (name, step_size)
    for name, step_size in VARIANTS
    if name in PENALISED and (step_size == "auto" or CRITERIA[name].form is SquaredPenalty)
]


@pytest.mark.parametrize(("criterion", "step_size"), STEADY)
def test_a_sharp_penalty_is_close_to_the_one_with_kinks(criterion, step_size):
    kinked = thetas(train(make(criterion, step_size=step_size), TRAIN, **APART))
    off = []
    for sharpness in (1.0, 1e3, 1e5):
        smooth = thetas(train(make(criterion, step_size=step_size, sharpness=sharpness), TRAIN, **APART))
        off.append(np.median(np.abs(smooth - kinked).max(axis=1)))  # a replicate may find another local optimum
    assert off[0] > off[1]
    assert off[0] > off[2]
    assert off[2] < 0.02 * np.abs(kinked).max()


@pytest.mark.slow
@pytest.mark.parametrize("criterion", PENALISED)
@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
def test_a_long_fit_with_a_smooth_penalty_reaches_its_optimum(criterion, loss):
    rows = draw_batch(STREAM, 10_000, 6000)
    parameters = {"loss": loss, "n_replicates": 10, "penalty": 5.0}
    clf = train(make(criterion, sharpness=1.0, **parameters), rows, **APART)
    found = thetas(clf)[0]  # soft rates have several optima, and the learner finds one near its start
    best = min((one.theta for one in optima(clf, rows.X, rows.y)), key=lambda theta: np.abs(theta - found).max())
    assert (np.abs(found - best) <= 5.0 * thetas(clf)[1:].std(axis=0)).all()
    kinked = train(make(criterion, **parameters), rows, **APART)
    assert not any(np.allclose(best, one.theta, rtol=1e-3) for one in optima(kinked, rows.X, rows.y))


@pytest.mark.parametrize(
    ("parameters", "more"), [({}, APART), ({"surrogate": "scores"}, {}), ({"criterion": None}, {})]
)
def test_sharpness_does_not_matter_where_there_is_no_decision_to_smooth(parameters, more):
    sharp, plain = (train(make(sharpness=sharpness, **parameters), TRAIN, **more) for sharpness in (3.0, None))
    assert bits(sharp) == bits(plain)


def test_the_default_sharpness_is_one_over_the_default_width():
    sharp, plain, wide = (train(make(sharpness=sharpness), TRAIN) for sharpness in (1.0 / 0.75, None, 1.0))
    assert bits(sharp) == bits(plain)
    assert not np.allclose(wide.coef_, plain.coef_)


@pytest.mark.parametrize("step_size", ["auto", DECAY])
def test_a_fit_without_a_criterion_needs_no_groups(step_size):
    free = make(None, step_size=step_size).fit(TRAIN.X, TRAIN.y)
    assert free.groups_ is None
    assert np.array_equal(thetas(free), thetas(train(make(None, step_size=step_size), TRAIN)))
    assert ask(free).to_dict() == ask(train(make(None, step_size=step_size), TRAIN)).to_dict()
    with pytest.raises(ValueError, match="sensitive_features is missing: unfairness is a difference between groups"):
        free.fairness_interval(TEST.X, TEST.y, sensitive_features=None)
    with pytest.raises(ValueError, match="group column has only 1 group, 0, and a comparison needs two or more"):
        ask(free, TEST._replace(group=np.zeros(TEST.n_rows, dtype=int)))
    with pytest.raises(ValueError, match="first call had no sensitive_features"):
        train(free, TRAIN, "partial_fit")


@each_training
@pytest.mark.parametrize("criterion", CONSTRAINTS)
def test_a_criterion_without_sensitive_features_is_refused(method, criterion):
    clf = make(criterion)
    message = f"criterion='{criterion}' compares groups, and sensitive_features is missing.*or use criterion=None"
    with pytest.raises(ValueError, match=message):
        getattr(clf, method)(TRAIN.X, TRAIN.y)
    assert vars(clf) == clf.get_params()


@each_training
def test_a_measure_only_criterion_is_refused_in_training_but_measured(method):
    criterion = replace(CRITERIA["error_rate"], name="accuracy", form=None)
    clf = make(criterion)
    with pytest.raises(ValueError, match=r"'accuracy' can be measured but not constrained.*pass metric='accuracy' to"):
        train(clf, TRAIN, method)
    assert vars(clf) == clf.get_params()
    trained = train(make(None), TRAIN, method)
    measured = ask(trained, metric=criterion)
    assert measured.metric == "accuracy"
    expected = ask(trained, metric="error_rate")
    assert (measured.gap, measured.gap_low, measured.gap_high) == (expected.gap, expected.gap_low, expected.gap_high)


@pytest.mark.parametrize("criterion", CONSTRAINTS)
def test_without_replicates_there_is_a_fit_and_no_interval(criterion):
    clf = train(make(criterion, n_replicates=0), TRAIN)
    assert clf.coef_replicates_.shape == (0, 2)
    assert clf.intercept_replicates_.shape == (0,)
    assert clf.predict(TEST.X).shape == (400,)
    for question in (lambda: ask(clf), clf.coef_interval):
        with pytest.raises(ValueError, match=r"interval needs replicates.*n_replicates=0"):
            question()


@pytest.mark.parametrize("n_seen", [60, 400], ids=["before it begins", "later"])
@pytest.mark.parametrize(
    "empty", [(np.empty((0, 2)), [], []), triple(TRAIN.part(0, 0)), (np.empty((0, 2)), np.array([]), None)]
)
def test_an_empty_batch_changes_nothing(n_seen, empty):
    clf = feed(make(), TRAIN.part(0, n_seen))
    train(clf, Batch(*empty), "partial_fit")
    assert bits(clf) == bits(feed(make(), TRAIN.part(0, n_seen)))
    train(clf, TRAIN.part(n_seen), "partial_fit")
    assert bits(clf) == bits(feed(make(), TRAIN))


# -- Intervals ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def confident():
    """A fit with many replicates, and many rows to evaluate it."""
    return train(make(None, n_replicates=400), draw_batch(STREAM, 0, 2000)), draw_batch(STREAM, 10**6, 3000)


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_says_what_it_estimates(confident, source):
    interval = ask(*confident, source=source)
    assert SOURCES[source].estimates in interval.sentence
    assert "group 0 minus that of group 1" in interval.sentence
    assert interval.sentence in str(interval)
    assert (interval.source, interval.metric, interval.n) == (source, "demographic_parity", 3000)


def test_the_estimate_is_the_gap_of_the_decisions(confident):
    clf, rows = confident
    accepted = clf.predict(rows.X) == 1
    gap = accepted[rows.group == 0].mean() - accepted[rows.group == 1].mean()
    for source in SOURCES:
        interval = ask(clf, rows, source=source)
        assert interval.gap == pytest.approx(gap)
        assert interval.estimate == abs(interval.gap)
        assert interval.gap_low <= interval.gap <= interval.gap_high


def test_total_is_as_wide_as_training_and_evaluation_together(confident):
    widths = {source: width(ask(*confident, source=source, method="normal")) for source in SOURCES}
    assert widths["total"] >= 0.9 * max(widths["training"], widths["evaluation"])
    assert widths["total"] == pytest.approx(np.hypot(widths["training"], widths["evaluation"]), rel=0.15)
    assert widths["retraining"] == pytest.approx(np.sqrt(2.0) * widths["training"], rel=0.1)


def test_methods_agree_on_widths(confident):
    by_method = {method: ask(*confident, method=method) for method in METHODS}
    assert set(by_method) == {"percentile", "basic", "normal", "cheap", "paper"}
    percentile, basic = (ask(*confident, method=method, source="evaluation") for method in ("percentile", "basic"))
    assert basic.gap_low == pytest.approx(2 * percentile.gap - percentile.gap_high)
    assert basic.gap_high == pytest.approx(2 * percentile.gap - percentile.gap_low)
    for method, interval in by_method.items():
        assert interval.method == method
        assert 0.0 <= interval.low <= interval.estimate <= interval.high <= 1.0
        assert width(interval) == pytest.approx(width(by_method["percentile"]), rel=0.2)


@pytest.mark.parametrize("source", ["training", "retraining"])
@pytest.mark.parametrize("step_size", ["auto", DECAY], ids=["auto", "decay"])
def test_percentiles_are_those_of_replicates_mirrored_where_steps_have_a_bias(confident, source, step_size):
    clf, test = confident
    if step_size != "auto":
        clf = train(make(None, n_replicates=400, step_size=step_size), draw_batch(STREAM, 0, 2000))
    fit, replicates = thetas(clf)[0], thetas(clf)[1:]
    again = fit + 2.0**0.5 * (replicates - replicates.mean(axis=0))
    mirrored = 2.0 * fit - replicates
    drawn = again if source == "retraining" else replicates if step_size == "auto" else mirrored
    decided = np.column_stack([test.X, np.ones(len(test.y))]) @ drawn.T > 0.0
    gaps = decided[test.group == 0].mean(axis=0) - decided[test.group == 1].mean(axis=0)
    interval = ask(clf, test, source=source)
    expected = np.quantile(gaps, [0.025, 0.975], method="weibull")
    assert [interval.gap_low, interval.gap_high] == pytest.approx(expected)


def test_a_higher_level_gives_a_wider_interval(confident):
    narrow, wide = (ask(*confident, confidence_level=level) for level in (0.5, 0.99))
    assert wide.gap_low < narrow.gap_low < narrow.gap_high < wide.gap_high


@pytest.mark.parametrize("metric", CRITERIA)
def test_every_criterion_can_be_the_metric(metric):
    clf = train(make("demographic_parity"), TRAIN)
    interval = ask(clf, metric=metric)
    assert interval.metric == metric
    assert interval.to_dict() == ask(clf, metric=CRITERIA[metric]).to_dict()
    assert metric not in CONSTRAINTS or ask(train(make(metric), TRAIN)).metric == metric


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    ("metric", "rows", "entering"),
    [
        ("demographic_parity", TEST.group == 0, "share of positive decisions"),
        ("false_positive_rate", (TEST.group == 0) | (TEST.y == 1), "among the truly negative"),
    ],
)
def test_a_group_without_evaluation_rows_is_kept(source, metric, rows, entering):
    X, y, z = (column[rows] for column in triple(TEST))
    interval = ask(train(make(metric), TRAIN), Batch(X, y, z), source=source)
    assert interval.by_group["group"].tolist() == [0, 1]
    assert interval.by_group["n"].tolist() == [int(np.sum((z == 0) & ((y == -1) | (metric[0] == "d")))), 0]
    assert interval.by_group["rate"].isna().tolist() == [False, True]
    assert interval.by_group.loc[1, ["low", "high"]].tolist() == [0.0, 1.0]
    assert (interval.low, interval.high, interval.gap_low, interval.gap_high) == (0.0, 1.0, -1.0, 1.0)
    assert interval.reason.startswith("group 1 has no evaluation row")
    assert entering in interval.reason


BAD_QUESTIONS = {
    "metric": ({"metric": "false_positives_rate"}, "Unknown metric.*Did you mean 'false_positive_rate'"),
    "source": ({"source": "trainig"}, "Unknown source.*Did you mean 'training'"),
    "method": ({"method": "percentil"}, "Unknown method.*Did you mean 'percentile'"),
    "level 0": ({"confidence_level": 0.0}, "strictly between 0 and 1.*received 0.0"),
    "level 95": ({"confidence_level": 95}, "strictly between 0 and 1.*received 95"),
    "level NaN": ({"confidence_level": np.nan}, "strictly between 0 and 1.*received nan"),
    "no groups": ({"sensitive_features": None}, "sensitive_features is missing"),
    "other columns of groups": (
        {"sensitive_features": {"a": TEST.group, "b": TEST.group}},
        "must be one column without a name, as in the first call; received the columns 'a', 'b' by name",
    ),
    "unknown label": ({"y": TEST.y + 1}, "label column contains undeclared values: 0, 2"),
    "lengths": ({"sensitive_features": TEST.group[1:]}, "X has 400, sensitive_features has 399"),
    "no rows": (dict(zip(("X", "y", "sensitive_features"), triple(TEST.part(0, 0)), strict=True)), "no evaluation"),
    "features": ({"X": TEST.X[:, :1]}, "X has 1 features, but FairClassifier is expecting 2"),
    "NaN": ({"X": TEST.X * np.nan}, "Input X contains NaN"),
}


@pytest.mark.parametrize("case", BAD_QUESTIONS)
def test_a_bad_question_is_refused_and_changes_nothing(case):
    changed, message = BAD_QUESTIONS[case]
    clf = train(make(), TRAIN)
    before = bits(clf)
    with pytest.raises(ValueError, match=message):
        clf.fairness_interval(**{"X": TEST.X, "y": TEST.y, "sensitive_features": TEST.group} | changed)
    assert bits(clf) == before


def test_intervals_of_coefficients_refuse_bad_levels_and_methods():
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        train(make(), TRAIN).coef_interval(confidence_level=1.0)
    with pytest.raises(ValueError, match=r"Unknown method: 'paper'\. Known: .*'cheap', 'plug_in', 'random_scaling'"):
        train(make(), TRAIN).coef_interval(method="paper")


def test_an_unfitted_classifier_answers_no_question():
    for question in (ask, lambda clf: clf.coef_interval(), lambda clf: clf.predict(TEST.X), lambda clf: clf.coef_):
        with pytest.raises(NotFittedError):
            question(make())


# -- Bad input: a clear error, and nothing has changed ----------------------------------------------------------------


def spoilt(column, value, row=3, kind=None):
    """Copy a column and change the value in one row."""
    column = np.array(column, dtype=kind or column.dtype)
    column[row] = value
    return column


BATCH = TRAIN.part(200, 260)
BAD_BATCHES = {
    "NaN in X": ({"X": spoilt(BATCH.X, np.nan)}, "Input X contains NaN"),
    "infinity in X": ({"X": spoilt(BATCH.X, -np.inf)}, "Input X contains infinity"),
    "text in X": ({"X": pd.DataFrame({"x1": BATCH.X[:, 0], "x2": ["a"] * 60})}, "'x2' has type .*must be numbers"),
    "NaN in y": ({"y": spoilt(BATCH.y, np.nan, kind=float)}, r"label column contains NaN or missing.*row 3\)"),
    "infinity in y": ({"y": spoilt(BATCH.y, np.inf, kind=float)}, "(?i)infinity"),
    "None in y": ({"y": spoilt(BATCH.y, None, kind=object)}, "label column contains NaN or missing"),
    "no y": ({"y": None}, "label|y is None"),
    "None in the groups": ({"sensitive_features": spoilt(BATCH.group, None, kind=object)}, "group column contains NaN"),
    "NA in the groups": (
        {"sensitive_features": pd.Series(["0", pd.NA] * 30, dtype="string")},
        r"group column contains NaN or missing.*row 1\)",
    ),
    "unknown label": ({"y": spoilt(BATCH.y, 7)}, "label column contains undeclared values: 7. Declared are -1, 1"),
    "labels of another type": ({"y": BATCH.y.astype(str)}, "label column contains undeclared values: '-1', '1'"),
    "another number of features": ({"X": np.ones((60, 3))}, "X has 3 features, but FairClassifier is expecting 2"),
    "one dimension": ({"X": BATCH.X[:, 0]}, "(?i)expected 2D array|must be a table"),
    "y too short": ({"y": BATCH.y[1:]}, "inconsistent numbers of samples: X has 60, y has 59"),
    "groups too long": (
        {"sensitive_features": np.ones(61, int)},
        "inconsistent.*: X has 60, sensitive_features has 61",
    ),
    "two columns of groups": (
        {"sensitive_features": np.column_stack([BATCH.group] * 2)},
        r"several columns without names, shape \(60, 2\)\. Pass a data frame or a dict",
    ),
    "other columns of groups": (
        {"sensitive_features": {"a": BATCH.group, "b": BATCH.group}},
        "must be one column without a name, as in the first call; received the columns 'a', 'b' by name",
    ),
    "another constraint set": ({"constraint_set": triple(D_PRIME)}, "only be given in the first call"),
    "other classes": ({"classes": [0, 1]}, r"classes=\[0, 1\] differs from the first call's \[-1, 1\]"),
}
BAD_AFTER_THE_FIRST = {  # bad because of what the first call declared
    "unknown label",
    "labels of another type",
    "another number of features",
    "other columns of groups",
    "another constraint set",
    "other classes",
}
each_stage = pytest.mark.parametrize("n_seen", [80, 200], ids=["before it begins", "after"])


@cache
def bits_of_a_stream(**parameters):
    """What a stream of all rows learns, once for all bad batches."""
    return bits(feed(make(**parameters), TRAIN))


@cache
def bits_after_few_warm_up_rows(method):
    return bits(train(make(n_warmup=50), TRAIN, method))


def check_refused(clf, message, rest, expected, **arguments):
    """Check that a batch is refused with a message, that nothing changes, and that the stream continues as expected."""
    before = bits(clf)
    with pytest.raises(ValueError, match=message):
        clf.partial_fit(**arguments)
    assert bits(clf) == before
    assert bits(train(clf, rest, "partial_fit")) == expected


@each_stage
@pytest.mark.parametrize("case", BAD_BATCHES)
def test_a_bad_batch_is_refused_and_changes_nothing(n_seen, case):
    changed, message = BAD_BATCHES[case]
    good = {"X": BATCH.X, "y": BATCH.y, "sensitive_features": BATCH.group}
    clf = feed(make(), TRAIN.part(0, n_seen))
    check_refused(clf, message, TRAIN.part(n_seen), bits_of_a_stream(), **good | changed)


@each_stage
@pytest.mark.parametrize("names", [["x1", "height"], ["x2", "x1"], ["x1"], ["x1", "x2", "x3"]])
def test_changed_names_of_features_are_refused(n_seen, names):
    clf = train(make(), named(TRAIN.part(0, n_seen)), "partial_fit")
    X, y, z = triple(named(BATCH._replace(X=np.ones((60, len(names)))), names))
    rest, expected = named(TRAIN.part(n_seen)), bits_of_a_stream()
    check_refused(clf, "feature names should match", rest, expected, X=X, y=y, sensitive_features=z)


def test_predict_expects_feature_names_until_a_fit_without_them():
    clf = train(make(), named(TRAIN), "fit")
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        clf.predict(TEST.X)
    train(clf, TRAIN, "fit")
    assert not hasattr(clf, "feature_names_in_")
    assert bits(clf) == bits(train(make(), TRAIN, "fit"))


def test_finite_numbers_with_an_infinite_sum_are_accepted():
    X = TRAIN.X.copy()
    X[:5] = 1.7e308
    assert make()._check_features(X, reset=True) is X
    X[5, 0] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        make()._check_features(X, reset=True)


@each_stage
def test_every_batch_needs_groups_where_the_constraint_is_learnt(n_seen):
    clf = feed(make(), TRAIN.part(0, n_seen))
    X, y, _ = triple(BATCH)
    message = "sensitive_features is missing, and the constraint is learnt from every row. Pass the group of each"
    check_refused(clf, message, TRAIN.part(n_seen), bits_of_a_stream(), X=X, y=y)


def test_groups_are_required_until_a_constraint_set_is_complete():
    clf = feed(make(step_size=DECAY), TRAIN.part(0, 60))
    X, y, _ = triple(BATCH)
    expected = bits_of_a_stream(step_size=DECAY)
    check_refused(clf, "sensitive_features is missing", TRAIN.part(60), expected, X=X, y=y)


def test_groups_may_be_left_out_once_the_constraint_is_fixed():
    clf = feed(make(step_size=DECAY), TRAIN.part(0, 100))
    clf.partial_fit(TRAIN.X[100:], TRAIN.y[100:])
    assert bits(clf) == bits(feed(make(step_size=DECAY), TRAIN))
    given_set = feed(make(), TRAIN.part(0, 100), **APART)
    given_set.partial_fit(TRAIN.X[100:], TRAIN.y[100:])
    assert bits(given_set) == bits(feed(make(), TRAIN, **APART))


def test_groups_may_be_left_out_without_a_criterion():
    clf = feed(make(None), TRAIN.part(0, 200))
    clf.partial_fit(TRAIN.X[200:], TRAIN.y[200:])
    assert bits(clf) == bits(feed(make(None), TRAIN))


@pytest.mark.parametrize("step_size", ["auto", DECAY], ids=["auto", "decay"])
def test_the_second_group_may_come_in_any_batch_until_the_fit_begins(step_size):
    order = np.argsort(TRAIN.group, kind="stable")  # all of group 0 first
    rows = Batch(*(column[order] for column in triple(TRAIN)))
    n_first = int(np.sum(rows.group == 0))
    clf = feed(make(n_warmup=n_first, step_size=step_size), rows.part(0, n_first - 10), [5, 50], classes=[-1, 1])
    model = clf.model_
    X, y, z = triple(rows.part(n_first - 10, n_first))
    with pytest.raises(ValueError, match="group column has only 1 group, 0, and a comparison needs two or more"):
        clf.partial_fit(X, y, sensitive_features=z)
    assert clf.model_ is model
    later = make(n_warmup=n_first + 50, step_size=step_size)
    assert bits(feed(clone(later), rows, [5, 50, n_first], classes=[-1, 1])) == bits(feed(later, rows))


def test_a_group_may_be_missing_in_later_batches():
    """A batch of one group only learns about that group; the order of rows within the stream is all that counts."""
    first, rest = TRAIN.part(0, 200), TRAIN.part(200)
    order = np.argsort(rest.group, kind="stable")
    rest = Batch(*(column[order] for column in triple(rest)))
    cut = int(np.sum(rest.group == 0))
    clf = train(make(), first, "partial_fit")
    for part in (rest.part(0, cut), rest.part(cut)):
        assert len(np.unique(part.group)) == 1
        train(clf, part, "partial_fit")
    whole = train(train(make(), first, "partial_fit"), rest, "partial_fit")
    assert bits(clf) == bits(whole)
    assert clf.group_counts_["n"].tolist() == [int(np.sum(TRAIN.group == z)) for z in (0, 1)]
    assert clf.n_rows_ == 600


@each_training
@pytest.mark.parametrize("case", [name for name in BAD_BATCHES if name not in BAD_AFTER_THE_FIRST])
def test_a_bad_first_call_is_refused_and_changes_nothing(method, case):
    changed, message = BAD_BATCHES[case]
    clf = make(n_warmup=50)
    with pytest.raises(ValueError, match=message):
        getattr(clf, method)(**{"X": BATCH.X, "y": BATCH.y, "sensitive_features": BATCH.group} | changed)
    assert vars(clf) == clf.get_params()
    assert bits(train(clf, TRAIN, method)) == bits_after_few_warm_up_rows(method)


def only(rows: Batch, keep) -> Batch:
    return Batch(rows.X[keep], rows.y[keep], rows.group[keep])


NEGATIVES_OF_ONE_GROUP = only(D_PRIME, (D_PRIME.y == 1) | (D_PRIME.group == 0))
ONE_GROUP = only(D_PRIME, D_PRIME.group == 1)
BAD_STARTS = {
    "one group in D'": ({}, ONE_GROUP, "no row of group 0"),
    "empty D'": ({}, D_PRIME.part(0, 0), "constraint set of 0 rows has no row of group 0"),
    "no negative of a group": (
        {"criterion": "false_positive_rate"},
        NEGATIVES_OF_ONE_GROUP,
        "no row of group 1 with a label that the criterion 'false_positive_rate' looks at",
    ),
    "NaN in D'": ({}, D_PRIME._replace(X=spoilt(D_PRIME.X, np.nan)), "Input X contains NaN"),
    "features of D'": ({}, D_PRIME._replace(X=D_PRIME.X[:, :1]), "X has 1 features, but FairClassifier is expecting 2"),
    "lengths in D'": ({}, D_PRIME._replace(y=D_PRIME.y[1:]), "X has 120, y has 119"),
    "three labels": ({}, D_PRIME._replace(y=spoilt(D_PRIME.y, 7)), "Only binary.*exactly two labels"),
    "uniform": ({"criterion": "error_rate", "multiplier": "uniform"}, D_PRIME, "'uniform' has negative weights"),
    "normal": ({"criterion": "error_rate", "multiplier": "normal"}, D_PRIME, "'normal' has negative weights"),
}


@each_training
@pytest.mark.parametrize("case", BAD_STARTS)
def test_a_bad_constraint_set_is_refused(method, case):
    parameters, constraint_set, message = BAD_STARTS[case]
    clf = make(**parameters)
    with pytest.raises(ValueError, match=message):
        train(clf, TRAIN, method, constraint_set=triple(constraint_set))
    assert vars(clf) == clf.get_params()


@each_training
def test_a_constraint_set_has_three_or_four_parts(method):
    X, y, z = triple(D_PRIME)
    for parts in [(X, y), (X, y, None), (X, y, z, np.ones(120), 1.0)]:
        n = sum(part is not None for part in parts)
        message = rf"tuple \(X, y, sensitive_features\) or \(X, y, sensitive_features, sample_weight\); received {n}"
        with pytest.raises(ValueError, match=message):
            train(make(), TRAIN, method, constraint_set=parts)
    with_weights = train(make(), TRAIN, method, constraint_set=(X, y, z, np.ones(120)))
    assert bits(with_weights) == bits(train(make(), TRAIN, method, constraint_set=(X, y, z)))


SORTED = Batch(*(column[np.argsort(TRAIN.group, kind="stable")] for column in triple(TRAIN)))  # all of group 0 first


@pytest.mark.parametrize(
    ("rows", "step_size", "message"),
    [
        (only(TRAIN, TRAIN.group == 0), "auto", "has only 1 group, 0, and a comparison needs two or more"),
        (only(TRAIN, TRAIN.group == 0), DECAY, "has only 1 group, 0, and a comparison needs two or more"),
        (SORTED, "auto", r"first 100 rows.* show 1 group with any weight \(0\).*shuffle"),
        (SORTED, DECAY, "no row of group 1"),
    ],
)
@each_training
def test_one_group_is_refused_unless_there_is_no_criterion(method, rows, step_size, message):
    clf = make(step_size=step_size)
    with pytest.raises(ValueError, match=message):
        train(clf, rows, method)
    assert vars(clf) == clf.get_params()
    assert train(make(None, step_size=step_size), rows, method).n_rows_ > 0


@pytest.mark.parametrize("criterion", CONSTRAINTS)
@pytest.mark.parametrize("label", [-1, 1])
def test_a_group_may_have_one_label_only(criterion, label):
    """Rates that look at the other label cannot be compared, so the groups are not constrained."""
    rows = TRAIN._replace(y=np.where(TRAIN.group == 1, label, TRAIN.y))
    unseen = {"false_positive_rate": -1, "false_negative_rate": 1}.get(criterion) == -label
    clf = train(make(criterion, tolerance=0.02), rows)
    free = train(make(None), rows)
    assert np.isfinite(thetas(clf)).all()
    assert clf.n_rows_ == 600
    if unseen:
        assert not clf.group_counts_["constrained"].any()
        np.testing.assert_allclose(clf.coef_, free.coef_, rtol=1e-9)
    interval = ask(clf, metric=criterion)
    assert 0.0 <= interval.low <= interval.high <= 1.0


def test_one_class_is_refused_unless_both_are_declared():
    accepted = only(TRAIN, TRAIN.y == 1)
    with pytest.raises(ValueError, match=r"only one class.*received \[1\]"):
        train(make(), accepted)
    with pytest.raises(ValueError, match=r"shows only the label 1\. Pass classes="):
        train(make(), accepted, "partial_fit")
    with pytest.raises(ValueError, match="label column contains undeclared values: -1"):
        train(make(), TRAIN, "partial_fit", classes=[0, 1])
    waiting = train(make(), accepted.part(0, 99), "partial_fit", classes=[-1, 1])
    assert waiting.classes_.tolist() == [-1, 1]
    with pytest.raises(ValueError, match=r"first 100 rows .* show 1 of the two labels.*Shuffle the rows"):
        train(waiting, accepted.part(99), "partial_fit")
    assert waiting.model_.n_rows == 0
    assert train(waiting, TRAIN, "partial_fit").n_rows_ == 699


@pytest.mark.parametrize(
    "parameters", [{"criterion": "error_rate", "step_size": DECAY}, {"criterion": "error_rate"}, {}]
)
@pytest.mark.parametrize("multiplier", ["uniform", "normal"])
def test_negative_multipliers_work_without_an_implicit_penalty(parameters, multiplier):
    assert np.isfinite(thetas(train(make(**parameters, multiplier=multiplier), TRAIN))).all()


BAD_PARAMETERS = [
    ("criterion", "demografic_parity", "Unknown criterion.*Did you mean 'demographic_parity'"),
    ("loss", "logloss", "Unknown loss.*Did you mean 'log_loss'"),
    ("multiplier", "twopoint", "Unknown multiplier.*Did you mean 'two_point'"),
    ("step_size", "autp", "Unknown step_size.*Did you mean 'auto'"),
    ("step_size", 0.1, "step_size must be 'auto' or a schedule such as .*; received 0.1"),
    ("tolerance", -0.1, "tolerance must be a number, 0 or larger; received -0.1"),
    ("tolerance", 1.0, "tolerance bounds the gap between two shares of decisions.* less than 1; received 1.0"),
    ("tolerance", 5, "tolerance bounds .*, so it must be less than 1; received 5"),
    ("tolerance", np.nan, "tolerance must be a number, 0 or larger; received nan"),
    ("surrogate", "decision", "Unknown surrogate.*Did you mean 'decisions'"),
    ("surrogate", None, "Unknown surrogate: None"),
    ("dtype", "float16", "Unknown dtype.*'float64', 'float32'"),
    ("penalty", np.inf, "penalty must be a positive number, or None for a constraint; received inf"),
    ("penalty", 0.0, "penalty must be a positive number, or None for a constraint; received 0.0"),
    ("penalty", -1.0, "penalty must be a positive number, or None for a constraint; received -1.0"),
    ("alpha", np.nan, "alpha must be a number, 0 or larger; received nan"),
    ("n_replicates", -1, "n_replicates must be a whole number, 0 or larger; received -1"),
    ("n_warmup", 0.5, "n_warmup must be a whole number, 1 or larger; received 0.5"),
    ("n_warmup", 0, "n_warmup must be a whole number, 1 or larger; received 0"),
    ("sharpness", 0.0, "sharpness must be None or a positive number; received 0.0"),
    ("sharpness", -1, "sharpness must be None or a positive number; received -1"),
    ("sharpness", np.nan, "sharpness must be None or a positive number; received nan"),
    ("sharpness", np.inf, "sharpness must be None or a positive number; received inf"),
    ("sharpness", "sharp", "sharpness must be None or a positive number; received 'sharp'"),
    ("fit_intercept", "no", "fit_intercept must be True or False; received 'no'"),
    ("intersections", "yes", "intersections must be True or False; received 'yes'"),
    ("intersections", True, "Intersections need two or more sensitive columns; received 1"),
]


@each_training
@pytest.mark.parametrize(("name", "value", "message"), BAD_PARAMETERS, ids=lambda value: f"{value}"[:20])
def test_a_bad_parameter_is_refused(method, name, value, message):
    clf = make(**{name: value})
    with pytest.raises(ValueError, match=message):
        train(clf, TRAIN, method)
    assert vars(clf) == clf.get_params()


@each_training
def test_labels_may_be_any_two_numbers(method):
    rows = TRAIN._replace(y=np.where(TRAIN.y == 1, 3.5, -7.25))
    clf = train(make(), rows, method)
    assert clf.classes_.tolist() == [-7.25, 3.5]
    assert np.array_equal(clf.coef_, train(make(), TRAIN, method).coef_)
    assert set(clf.predict(TEST.X)) == {-7.25, 3.5}
    with pytest.raises(ValueError, match=r"Only binary classification is supported.*continuous"):
        train(make(), TRAIN._replace(y=TRAIN.X[:, 0]), method)


@each_training
@pytest.mark.parametrize(
    ("parameters", "given"),
    [
        ({}, {}),
        ({"surrogate": "scores"}, {}),
        ({"criterion": "error_rate"}, APART),
        ({"criterion": "error_rate", "step_size": DECAY}, {}),
        ({"criterion": None}, {}),
    ],
    ids=str,
)
def test_a_tolerance_and_a_penalty_together_are_refused(method, parameters, given):
    clf = make(**parameters, tolerance=0.05, penalty=2.0)
    message = (
        r"penalty takes the place of a constraint; received tolerance=0.05 and penalty=2.0\. Leave one of them out"
    )
    with pytest.raises(ValueError, match=message):
        train(clf, TRAIN, method, **given)
    assert vars(clf) == clf.get_params()
    assert train(make("error_rate", penalty=2.0), TRAIN, method, **APART).n_rows_ == 600


@pytest.mark.parametrize(
    ("criterion", "ignored", "message"),
    [
        ("demographic_parity", {"penalty": 2.0}, "penalty=2.0 would have no effect.*constrained by tolerance"),
        ("false_positive_rate", {"tolerance": 0.05}, "tolerance=0.05 would have no effect.*constrained by penalty"),
    ],
)
def test_a_fixed_constraint_refuses_what_it_would_ignore(criterion, ignored, message):
    for fixed in (APART, {}):
        clf = make(criterion, step_size="auto" if fixed else DECAY, **ignored)
        with pytest.raises(ValueError, match=message):
            train(clf, TRAIN, **fixed)
        assert not hasattr(clf, "model_")
    train(make(criterion, **ignored), TRAIN)  # a constraint that is learnt takes either


@each_training
def test_a_tolerance_of_scores_may_be_large(method):
    assert train(make(tolerance=1.5, surrogate="scores"), TRAIN, method).n_rows_ == 600
    assert train(make(tolerance=1.5), TRAIN, method, **APART).n_rows_ == 600


def test_a_tolerance_that_bounds_a_covariance_survives_save_and_load(tmp_path):
    clf = train(make(tolerance=1.5), TRAIN, **APART)
    save(clf, tmp_path / "clf.npz")
    assert bits(load(tmp_path / "clf.npz")) == bits(clf)


def test_a_bad_fit_leaves_the_previous_one():
    clf = train(make(), TRAIN)
    before = bits(clf)
    with pytest.raises(ValueError, match="contains NaN"):
        train(clf, TRAIN._replace(X=spoilt(TRAIN.X, np.nan)))
    assert bits(clf) == before


def test_a_refused_call_does_not_use_the_random_state():
    clf = make(random_state=np.random.RandomState(0))
    with pytest.raises(ValueError, match="inconsistent"):
        train(clf, TRAIN._replace(y=TRAIN.y[1:]))
    assert bits(train(clf, TRAIN)) == bits(train(make(random_state=np.random.RandomState(0)), TRAIN))


# -- Merging -----------------------------------------------------------------------------------------------------------


def shard(low, high, criterion="demographic_parity", **parameters):
    """Fit to a shard of rows beside a constraint set that all shards have."""
    return train(make(criterion, **parameters), TRAIN.part(low, high), **APART)


def begun_shard(low, high, criterion="demographic_parity", **parameters):
    """Fit to a shard of rows after warm-up rows with which all shards begin."""
    first, rows = triple(D_PRIME), triple(TRAIN.part(low, high))
    clf = make(criterion, **{"n_warmup": D_PRIME.n_rows} | parameters)
    return train(clf, Batch(*map(np.concatenate, zip(first, rows, strict=True))))


@each_variant
def test_a_fit_merged_under_a_fixed_constraint_is_the_mean_weighted_by_rows(criterion, step_size):
    one, two = shard(0, 200, criterion, step_size=step_size), shard(200, 600, criterion, step_size=step_size)
    expected = (thetas(one) + 2.0 * thetas(two)) / 3.0
    untouched = bits(two)
    assert one.merge(two) is one
    np.testing.assert_allclose(thetas(one), expected, rtol=1e-9)
    assert one.n_rows_ == 600
    assert bits(two) == untouched


@pytest.mark.parametrize("criterion", [*CONSTRAINTS, None])
def test_a_merged_fit_counts_warm_up_rows_once(criterion):
    one, two = (begun_shard(*part, criterion, random_state=part[0]) for part in [(0, 200), (200, 600)])
    untouched = bits(two)
    assert one.merge(two) is one
    assert one.n_rows_ == 720
    assert one.group_counts_["n"].sum() == 720
    assert np.isfinite(thetas(one)).all()
    assert bits(two) == untouched
    train(one, TEST, "partial_fit")
    assert one.n_rows_ == 1120


def test_fits_that_begin_with_other_warm_up_rows_do_not_merge():
    one = begun_shard(0, 200)
    for other in (begun_shard(200, 600, n_warmup=110), train(make(n_warmup=120), TRAIN)):
        with pytest.raises(ValueError, match=r"different problems: (n_warmup|warm-up rows) differ.*same warm-up"):
            one.merge(other)
    fixed = shard(200, 600, n_warmup=120)  # the same rows, as a constraint set
    for mine, other in ((one, fixed), (fixed, one)):
        with pytest.raises(ValueError, match=r"different problems: .* differ"):
            mine.merge(other)


@pytest.mark.parametrize(
    ("criterion", "fixed"),
    [("false_positive_rate", False), ("error_rate", False), ("demographic_parity", True), ("error_rate", True)],
)
def test_a_merged_fit_has_the_same_law_as_one_fit_on_all_rows(criterion, fixed):
    first, rows = draw_batch(STREAM, 0, 900), draw_batch(STREAM, 10_000, 3000)

    def fitted(seed, part):
        clf = make(criterion, n_replicates=200, random_state=seed, n_warmup=900, tolerance=0.0 if fixed else 0.05)
        if fixed:
            return train(clf, part, constraint_set=triple(first))
        return train(train(clf, first, "partial_fit"), part, "partial_fit")

    whole, one, two = map(fitted, range(3), [rows, rows.part(0, 1500), rows.part(1500)])
    spread = thetas(whole)[1:].std(axis=0)
    assert (np.abs(thetas(one.merge(two))[0] - thetas(whole)[0]) < spread).all()
    np.testing.assert_allclose(thetas(one)[1:].std(axis=0), spread, rtol=0.35)


DIFFERENT = {
    "criterion": {"criterion": None},
    "loss": {"loss": "squared_error"},
    "tolerance": {"tolerance": 0.1},
    "penalty": {"penalty": 2.0},
    "alpha": {"alpha": 0.1},
    "step_size": {"step_size": DECAY},
    "n_replicates": {"n_replicates": 10},
    "multiplier": {"multiplier": "poisson"},
    "fit_intercept": {"fit_intercept": False},
    "sharpness": {"sharpness": 3.0},
    "surrogate": {"surrogate": "scores"},
    "n_warmup": {"n_warmup": 99},
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_fits_of_different_problems_do_not_merge(name):
    for fitted in (begun_shard,) if name == "penalty" else (shard, begun_shard):  # a fixed constraint takes no penalty
        one, before = fitted(0, 200), bits(fitted(0, 200))
        with pytest.raises(ValueError, match=f"different problems: {name} differ"):
            one.merge(fitted(200, 600, **DIFFERENT[name]))
        assert bits(one) == before


OTHER_DATA = {
    "classes_": lambda rows: named(rows._replace(y=rows.y > 0)),
    "groups": lambda rows: named(rows._replace(group=rows.group + 1)),
    "n_features_in_": lambda rows: named(rows._replace(X=rows.X[:, :1]), ["x1"]),
    "feature_names_in_": lambda rows: named(rows, ["x2", "x1"]),
    "constraint_set": lambda rows: named(rows.part(1)),
}


@pytest.mark.parametrize("name", OTHER_DATA)
def test_fits_of_different_data_do_not_merge(name):
    one, other = (
        train(make(tolerance=0.1), change(TRAIN), constraint_set=triple(change(D_PRIME)))
        for change in (named, OTHER_DATA[name])
    )
    with pytest.raises(ValueError, match=f"different problems: .*{name}.* differ"):
        one.merge(other)


def test_only_classifiers_of_this_package_merge():
    other = LogisticRegression().fit(TRAIN.X, TRAIN.y)
    with pytest.raises(TypeError, match="merge takes a FairClassifier; received LogisticRegression"):
        shard(0, 200).merge(other)


@pytest.mark.parametrize("of_one", [only(TRAIN, TRAIN.y == 1), only(TRAIN, TRAIN.group == 1)], ids=["label", "group"])
def test_rows_of_one_label_or_group_answer_nothing_yet(of_one):
    clf = feed(make(), of_one.part(0, 3), classes=[-1, 1])
    with pytest.raises(NotFittedError, match=r"^3 rows are too few to answer yet\. Pass more rows to partial_fit\.$"):
        _ = clf.coef_


def test_rows_that_wait_are_solved_once_for_all_questions():
    clf = feed(make(), TRAIN.part(0, 50))
    assert clf.answer() is clf.answer()
    before = clf.answer()
    clf = feed(clf, TRAIN.part(50, 60))
    assert clf.answer() is not before
    assert clf.answer().n_rows == 60


def test_only_fits_that_have_begun_merge():
    waiting = feed(make(), TRAIN.part(0, 50))
    for one, other in [(waiting, begun_shard(0, 200)), (shard(0, 200), waiting)]:
        with pytest.raises(ValueError, match=r"must have begun before they can be merged, which takes 1\d0 rows"):
            one.merge(other)
    with pytest.raises(NotFittedError):
        shard(0, 200).merge(make())


# -- Divergence --------------------------------------------------------------------------------------------------------

WILD = {"criterion": "error_rate", "loss": "squared_error", "step_size": PolynomialDecay(10.0, 0.5)}


@each_training
def test_a_step_that_is_too_large_warns(method):
    train_here = getattr(make(**WILD), method)
    with pytest.warns(RuntimeWarning, match="diverged.*step_size='auto', a smaller eta0") as caught:
        train_here(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.group)
    assert [Path(warning.filename).name for warning in caught] == [Path(__file__).name]  # the caller's line


@pytest.mark.filterwarnings("ignore:The fit or some replicates diverged")
def test_the_interval_of_a_diverged_fit_is_the_whole_range():
    interval = ask(train(make(**WILD), TRAIN))
    assert (interval.low, interval.high) == (0.0, 1.0)
    assert interval.reason
