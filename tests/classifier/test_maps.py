"""A feature map: any transformer of scikit-learn's, fitted on the constraint set and then kept."""

from __future__ import annotations

import copy
import pickle
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csc_matrix, csr_matrix
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.kernel_approximation import RBFSampler
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    PolynomialFeatures,
    StandardScaler,
)

import surefair as sf
from surefair import CRITERIA, FairClassifier, PolynomialDecay
from surefair.datasets import SyntheticDM
from surefair.inference import theory
from surefair.inference.interval import SOURCES

STREAM = SyntheticDM(seed=0)
TRAIN, TEST, D_PRIME = STREAM.rows(0, 600), STREAM.rows(10**6, 400), STREAM.rows(2 * 10**6, 120)
DECAY = PolynomialDecay(0.2, 0.6)
FOURIER = RBFSampler(gamma=0.2, n_components=10, random_state=0)
MAPS = {
    "random Fourier features": FOURIER,
    "scaled, then random": make_pipeline(StandardScaler(), FOURIER),
    "polynomials": make_pipeline(StandardScaler(), PolynomialFeatures(2, include_bias=False)),
    "sparse bins": KBinsDiscretizer(4, strategy="uniform"),
}
EXACT = ["polynomials", "sparse bins"]  # maps that treat each row alike, however many there are


def make(criterion="demographic_parity", **parameters):
    return FairClassifier(criterion, **{"n_replicates": 5, "n_constraint": 120, "random_state": 0} | parameters)


def train(clf, rows=TRAIN, X=None, method="fit", **more):
    return getattr(clf, method)(rows.X if X is None else X, rows.y, sensitive_features=rows.group, **more)


def feed(clf, rows=TRAIN, cuts=()):
    for low, high in pairwise([0, *cuts, rows.n_rows]):
        classes = {} if hasattr(clf, "classes_") else {"classes": [-1, 1]}
        train(clf, rows.part(low, high), method="partial_fit", **classes)
    return clf


def ask(clf, rows=TEST, X=None, **question):
    return clf.fairness_interval(rows.X if X is None else X, rows.y, sensitive_features=rows.group, **question)


def apart(X=D_PRIME.X):
    return X, D_PRIME.y, D_PRIME.group


def thetas(clf):
    coef = np.vstack([clf.coef_, clf.coef_replicates_])
    return np.column_stack([coef, np.append(clf.intercept_, clf.intercept_replicates_)])


def bits(clf):
    return clf.n_rows_, thetas(clf).tobytes(), clf.group_counts_.to_dict("list")


each_map = pytest.mark.parametrize("name", MAPS)


# -- What it does ------------------------------------------------------------------------------------------------------


@each_map
@pytest.mark.parametrize("criterion", [*CRITERIA, None])
@pytest.mark.parametrize("step_size", ["auto", DECAY], ids=["auto", "decay"])
def test_a_map_is_the_same_as_mapping_by_hand(name, criterion, step_size):
    clf = train(make(criterion, step_size=step_size, feature_map=MAPS[name]), constraint_set=apart())
    by_hand, plain = clone(MAPS[name]).fit(D_PRIME.X), make(criterion, step_size=step_size)
    train(plain, X=by_hand.transform(TRAIN.X), constraint_set=apart(by_hand.transform(D_PRIME.X)))
    X = by_hand.transform(TEST.X)
    np.testing.assert_allclose(thetas(clf), thetas(plain), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(clf.decision_function(TEST.X), plain.decision_function(X), rtol=1e-7, atol=1e-9)
    assert np.array_equal(clf.predict(TEST.X), plain.predict(X))
    np.testing.assert_allclose(clf.predict_proba(TEST.X), plain.predict_proba(X), atol=1e-9)
    for source in SOURCES:
        assert ask(clf, source=source) == ask(plain, X=X, source=source)


def test_a_map_bends_the_boundary():
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(4000, 2)), rng.integers(2, size=4000)
    y = (np.sum(X**2, axis=1) > 1.4).astype(int)  # a ring that no line finds
    parameters = {"n_constraint": 1000, "n_replicates": 0}
    straight, bent = (
        make(feature_map=feature_map, **parameters).fit(X, y, sensitive_features=z).score(X, y)
        for feature_map in (None, RBFSampler(n_components=50, random_state=0))
    )
    assert straight < 0.65
    assert bent > 0.9


@each_map
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_shapes(name, fit_intercept):
    clf = train(make(feature_map=MAPS[name], fit_intercept=fit_intercept))
    n_mapped = clone(MAPS[name]).fit(TRAIN.X[:120]).transform(TRAIN.X).shape[1]
    assert clf.n_features_in_ == 2
    assert clf.coef_.shape == (1, n_mapped)
    assert clf.coef_replicates_.shape == (5, n_mapped)
    assert len(clf.coef_interval()) == n_mapped + fit_intercept
    assert theory.optimum(clf, TRAIN.X, TRAIN.y).shape == (n_mapped + fit_intercept,)


def test_fit_and_replicates_keep_to_the_slab():
    clf = train(make(feature_map=FOURIER), constraint_set=apart())
    phi = np.column_stack([clone(FOURIER).fit(D_PRIME.X).transform(D_PRIME.X), np.ones(120)])
    assert np.abs((D_PRIME.group - D_PRIME.group.mean()) @ phi @ thetas(clf).T / 120).max() <= 1e-9


# -- Names -------------------------------------------------------------------------------------------------------------


class Nameless(MaxAbsScaler):
    get_feature_names_out = property()


NAMES = {
    "random": (FOURIER, [f"rbfsampler{i}" for i in range(10)]),
    "scaled": (StandardScaler(), ["x0", "x1"]),
    "polynomials": (PolynomialFeatures(2, include_bias=False), ["x0", "x1", "x0^2", "x0 x1", "x1^2"]),
    "nameless": (FunctionTransformer(np.tanh), ["map0", "map1"]),
    "no names at all": (Nameless(), ["map0", "map1"]),
}


@pytest.mark.parametrize("case", NAMES)
def test_coefficients_are_named_by_the_map(case):
    feature_map, names = NAMES[case]
    assert train(make(feature_map=feature_map)).coef_interval()["feature"].tolist() == [*names, "intercept"]


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_names_of_the_features_reach_the_map(library):
    frame = library({"age": TRAIN.X[:, 0], "height": TRAIN.X[:, 1]})
    clf = train(make(feature_map=PolynomialFeatures(2, include_bias=False)), X=frame)
    table = clf.coef_interval()
    assert isinstance(table, library)
    assert list(table["feature"]) == ["age", "height", "age^2", "age height", "height^2", "intercept"]
    assert clf.feature_names_in_.tolist() == ["age", "height"]


# -- Streams -----------------------------------------------------------------------------------------------------------


@each_map
@pytest.mark.parametrize("criterion", ["demographic_parity", "equalized_odds"])
def test_any_cutting_into_batches_is_one_pass(name, criterion):
    whole = feed(make(criterion, feature_map=MAPS[name]))
    for cuts in [(120,), (1, 60, 119, 121, 350), range(10, 600, 37)]:
        stream = feed(make(criterion, feature_map=MAPS[name]), cuts=cuts)
        np.testing.assert_allclose(thetas(stream), thetas(whole), rtol=1e-9, atol=1e-12)
        assert (bits(stream) == bits(whole)) or name not in EXACT


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("n_seen", [80, 119])
def test_questions_while_the_constraint_set_fills_are_answered_by_a_fit_of_the_rows_so_far(name, n_seen):
    asked = feed(make(feature_map=MAPS[name]), TRAIN.part(0, n_seen))
    assert bits(asked)[:2] == bits(train(make(feature_map=MAPS[name]), TRAIN.part(0, n_seen)))[:2]
    assert bits(feed(asked, TRAIN.part(n_seen))) == bits(feed(make(feature_map=MAPS[name])))


def test_a_map_that_cannot_be_fitted_yet_is_no_fit_yet():
    clf = feed(make(feature_map=StandardScaler()), TRAIN.part(0, 3))
    with pytest.raises(NotFittedError, match="3 rows are too few to answer yet"):
        clf.predict(TEST.X)
    assert bits(feed(clf, TRAIN.part(3))) == bits(feed(make(feature_map=StandardScaler())))


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda clf: pickle.loads(pickle.dumps(clf))])
def test_a_copy_goes_on_as_the_original_would(name, copied):
    clf = feed(make(feature_map=MAPS[name]), TRAIN.part(0, 300))
    assert bits(feed(copied(clf), TRAIN.part(300))) == bits(feed(clf, TRAIN.part(300)))


# -- The transformer ---------------------------------------------------------------------------------------------------


def test_the_callers_transformer_is_never_fitted():
    feature_map = StandardScaler()
    clf = train(make(feature_map=feature_map))
    feed(make(feature_map=feature_map))
    assert clf.feature_map is feature_map
    assert not hasattr(feature_map, "mean_")


def test_a_transformer_changed_afterwards_changes_nothing_that_was_learnt():
    clf = feed(make(feature_map=clone(FOURIER)), TRAIN.part(0, 300))
    before = clf.predict_proba(TEST.X)
    clf.set_params(feature_map__gamma=5.0)
    assert np.array_equal(clf.predict_proba(TEST.X), before)
    feed(clf, TRAIN.part(300))
    np.testing.assert_allclose(thetas(clf), thetas(feed(make(feature_map=FOURIER), cuts=[300])))


def test_a_clone_has_the_map_and_nothing_learnt():
    clf = train(make(feature_map=FOURIER))
    twin = clone(clf)
    assert twin.feature_map.get_params() == FOURIER.get_params()
    assert twin.feature_map is not clf.feature_map
    with pytest.raises(NotFittedError):
        twin.coef_
    assert bits(train(twin)) == bits(clf)


def test_parameters_of_the_map_can_be_searched():
    search = GridSearchCV(make(None, feature_map=FOURIER), {"feature_map__gamma": [0.01, 0.5]}, cv=2)
    search.fit(TRAIN.X, TRAIN.y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_.feature_map.gamma == search.best_params_["feature_map__gamma"]


KINDS = {
    "single precision": FunctionTransformer(lambda X: X.astype(np.float32)),
    "a frame": StandardScaler().set_output(transform="pandas"),
    "Fortran's order": FunctionTransformer(np.asfortranarray),
    "a list": FunctionTransformer(lambda X: X.tolist()),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_what_a_map_gives_may_be_of_any_kind(kind, fit_intercept):
    clf = train(make(feature_map=KINDS[kind], fit_intercept=fit_intercept), constraint_set=apart())
    by_hand = clone(KINDS[kind]).fit(D_PRIME.X)
    X, given = (np.asarray(by_hand.transform(rows.X), dtype=float) for rows in (TRAIN, D_PRIME))
    plain = train(make(fit_intercept=fit_intercept), X=X, constraint_set=apart(given))
    np.testing.assert_allclose(thetas(clf), thetas(plain), rtol=1e-9)
    assert ask(clf) == ask(plain, X=np.asarray(by_hand.transform(TEST.X), dtype=float))


@pytest.mark.parametrize("kind", [csr_matrix, csc_matrix])
@pytest.mark.parametrize("criterion", ["demographic_parity", "equalized_odds", "false_discovery_rate"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_map_may_make_rows_sparse_or_take_sparse_ones(kind, criterion, fit_intercept):
    parameters = {"step_size": DECAY, "fit_intercept": fit_intercept}
    plain = train(make(criterion, **parameters), X=csr_matrix(TRAIN.X))
    sparse = train(make(criterion, feature_map=FunctionTransformer(kind, accept_sparse=True), **parameters))
    np.testing.assert_allclose(thetas(sparse), thetas(plain), rtol=1e-9)
    assert ask(sparse) == ask(plain)
    scaled = train(make(criterion, feature_map=MaxAbsScaler(), **parameters), X=kind(TRAIN.X))
    dense = train(make(criterion, feature_map=MaxAbsScaler(), **parameters))
    np.testing.assert_allclose(thetas(scaled), thetas(dense), rtol=1e-7)
    assert ask(scaled, X=kind(TEST.X)) == ask(dense)


# -- Shards, files -----------------------------------------------------------------------------------------------------


@each_map
def test_shards_with_the_same_map_merge(name):
    one, two = (
        train(make(feature_map=MAPS[name], random_state=low), TRAIN.part(low, high), constraint_set=apart())
        for low, high in [(0, 200), (200, 600)]
    )
    expected = (thetas(one) + 2.0 * thetas(two)) / 3.0
    np.testing.assert_allclose(thetas(one.merge(two)), expected, rtol=1e-9, atol=1e-12)


def test_shards_with_different_maps_do_not_merge():
    def shard(feature_map, low):
        return train(make(feature_map=feature_map), TRAIN.part(low, low + 300), constraint_set=apart())

    chance = RBFSampler(n_components=10)  # another map each time
    for one, two in [(chance, chance), (FOURIER, StandardScaler()), (FOURIER, None), (None, FOURIER)]:
        with pytest.raises(ValueError, match=r"different problems: feature_map \(give it a random_state\) differ"):
            shard(one, 0).merge(shard(two, 300))


def test_a_map_cannot_be_saved(tmp_path):
    fitted = train(make(feature_map=FOURIER))
    for clf in (
        make(feature_map=FOURIER),
        fitted,
        clone(fitted),
        train(make(feature_map=FOURIER)).set_params(feature_map=None),
    ):
        with pytest.raises(ValueError, match="with a feature_map cannot be saved: a file holds no code and no pickle"):
            sf.save(clf, tmp_path / "clf.npz")
    assert list(tmp_path.iterdir()) == []


# -- Bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("feature_map", ["rbf", np.tanh, 3, RBFSampler], ids=repr)
def test_what_does_not_transform_is_refused(method, feature_map):
    clf = make(feature_map=feature_map)
    with pytest.raises(ValueError, match="feature_map must be a scikit-learn transformer, such as RBFSampler"):
        train(clf, method=method)
    assert vars(clf) == clf.get_params(deep=False)


@pytest.mark.parametrize("seen", [80, 300], ids=["while D' fills", "later"])
def test_a_bad_batch_is_as_if_it_had_never_been(seen):
    feature_map = MAPS["polynomials"]
    clf = feed(make(feature_map=feature_map), TRAIN.part(0, seen))
    before = bits(clf)
    for X, message in [(np.ones((60, 3)), "X has 3 features, but"), (np.full((60, 2), np.nan), "contains NaN")]:
        with pytest.raises(ValueError, match=message):
            train(clf, TRAIN.part(300, 360), X=X, method="partial_fit")
        assert bits(clf) == before
    assert bits(feed(clf, TRAIN.part(seen))) == bits(feed(make(feature_map=feature_map)))


def test_an_error_of_the_map_changes_nothing():
    def positive(X):
        if (X < -1e6).any():
            raise ValueError("the logarithm of what?")
        return np.log1p(np.exp(X))

    clf = feed(make(feature_map=FunctionTransformer(positive)), TRAIN.part(0, 300))
    before = bits(clf)
    with pytest.raises(ValueError, match="logarithm of what"):
        train(clf, TRAIN.part(300), X=TRAIN.X[300:] - 1e9, method="partial_fit")
    assert bits(clf) == before


def test_a_map_that_gives_nan_is_refused_and_nothing_changes():
    rng = np.random.default_rng(0)
    X, y, z = np.abs(rng.normal(size=(400, 3))) + 0.1, rng.integers(2, size=400), rng.integers(2, size=400)
    clf = FairClassifier(feature_map=FunctionTransformer(np.log), n_constraint=100, n_replicates=3, random_state=0)
    clf.partial_fit(X, y, sensitive_features=z)
    before = clf.coef_replicates_
    with np.errstate(invalid="ignore"), pytest.raises(ValueError, match="feature_map gives NaN or infinite values"):
        clf.partial_fit(-X[:5], y[:5], sensitive_features=z[:5])
    with np.errstate(invalid="ignore"), pytest.raises(ValueError, match="feature_map gives NaN or infinite values"):
        clf.fit(-X, y, sensitive_features=z)
    assert np.array_equal(clf.coef_replicates_, before)
    one_row = FairClassifier(feature_map=FunctionTransformer(lambda X: X[:1]), random_state=0)
    with pytest.raises(ValueError, match=r"one row of features for each row; received shape \(1, 3\)"):
        one_row.fit(X, y, sensitive_features=z)
