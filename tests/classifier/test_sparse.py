"""Sparse rows: few features give the results of dense rows; many features are learnt in small steps."""

from __future__ import annotations

from io import BytesIO

import joblib
import numpy as np
import pytest
from scipy.sparse import coo_matrix, csc_array, csc_matrix, csr_array, csr_matrix, hstack, lil_matrix, random_array

import surefair as sf
from surefair import FairClassifier, PolynomialDecay

KINDS = {kind.__name__: kind for kind in (csr_matrix, csr_array, csc_matrix, csc_array, coo_matrix, lil_matrix)}
pytestmark = pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")


def population(n=1_500, d=20, seed=0):
    """Rows in which one entry in five is not 0, and one column is always 0."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 2, n)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.2)
    X[:, 0] = z + rng.normal(size=n)
    X[:, 1] = 0.0
    return X, (X[:, 0] + X[:, 2:].sum(axis=1) + rng.normal(size=n) > 0.5).astype(int), z


def wide(n=2_000, d=3_000, seed=0):
    """Sparse rows with more features than can be made dense, whose groups do not differ."""
    rng = np.random.default_rng(seed)
    X = csr_matrix(random_array((n, d), density=0.01, rng=rng, data_sampler=rng.normal))
    y = (np.asarray(X[:, :50].sum(axis=1)).ravel() + 0.5 * rng.normal(size=n) > 0.0).astype(int)
    return X, y, rng.integers(0, 2, n)


def unequal(n, seed=0, d=5_000, n_groups=2):
    """Sparse rows with 20 non-zeros or so in 5,000 features; groups differ in how often they have five of them."""
    rng = np.random.default_rng(seed)
    z = rng.integers(n_groups, size=n)
    share = 0.3 + 0.3 * z[:, None] / (n_groups - 1) * (np.arange(20) < 5)
    often = csr_matrix((rng.random((n, 20)) < share).astype(float))
    places = rng.integers(d - 20, size=(n, 13))
    seldom = csr_matrix((np.ones(13 * n), (np.repeat(np.arange(n), 13), places.ravel())), (n, d - 20))
    theta = 0.3 * np.random.default_rng(0).normal(size=d)
    theta[:5] = 1.0
    X = csr_matrix(hstack([often, seldom]))
    return X, (X @ theta - 2.2 + rng.logistic(size=n) > 0.0).astype(int), z


def make(criterion="demographic_parity", **parameters):
    return FairClassifier(
        criterion, **{"n_replicates": 6, "solver": "one_pass", "n_warmup": 500, "random_state": 0} | parameters
    )


def thetas(clf):
    coef = np.vstack([clf.coef_, clf.coef_replicates_])
    return np.column_stack([coef, np.append(clf.intercept_, clf.intercept_replicates_)])


X, Y, Z = population()


@pytest.mark.parametrize("criterion", ["demographic_parity", "equalized_odds", None])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_few_features_give_the_bits_of_dense_rows(kind, criterion):
    dense = make(criterion).fit(X, Y, sensitive_features=Z)
    sparse = make(criterion).fit(kind(X), Y, sensitive_features=Z)
    assert (thetas(sparse) == thetas(dense)).all()
    assert sparse.n_rows_ == len(Y)
    test = population(400, seed=1)
    one, two = (
        clf.fairness_interval(rows, test[1], sensitive_features=test[2], metric="demographic_parity")
        for clf, rows in ((dense, test[0]), (sparse, kind(test[0])))
    )
    assert (one.gap, one.gap_low, one.gap_high) == (two.gap, two.gap_low, two.gap_high)


@pytest.mark.parametrize(
    ("rows", "criterion"),
    [(population(), "demographic_parity"), (wide(), None), (unequal(12_000), "demographic_parity")],
)
def test_batches_and_restarts_do_not_change_a_bit(rows, criterion):
    X, y, z = csr_matrix(rows[0]), rows[1], rows[2]
    whole, parts = make(criterion), make(criterion)
    whole.partial_fit(X, y, sensitive_features=z, classes=[0, 1])
    size = len(y) // 4 - 7
    for low in range(0, len(y), size):
        part = slice(low, low + size)
        parts.partial_fit(X[part], y[part], sensitive_features=z[part], classes=[0, 1])
        file = BytesIO()
        sf.save(parts, file)
        file.seek(0)
        parts = sf.load(file)
    assert (thetas(parts) == thetas(whole)).all()
    assert parts.n_rows_ == whole.n_rows_


def test_the_callers_matrix_stays_as_it_is():
    rows = csr_matrix(X)
    before = rows.copy()
    make().fit(rows, Y, sensitive_features=Z)
    assert (rows != before).nnz == 0


def test_many_features_are_learnt_without_a_constraint():
    X, y, z = wide(6_000)
    clf = make(None, n_replicates=20).fit(X, y, sensitive_features=z)
    test = wide(2_000, seed=1)
    assert clf.score(test[0], test[1]) > 0.55  # five standard errors above chance
    assert clf.n_rows_ == 6_000 - 6_000 // 5  # the first rows are set apart to scale the features
    assert clf.coef_replicates_.std(axis=0)[:50].min() > 0.0


# -- Many features with a constraint ----------------------------------------------------------------------------------


TRAIN = unequal(30_000)
TEST = unequal(20_000, seed=1)


def trained(criterion="demographic_parity", **parameters):
    """Train on the rows of groups that differ."""
    return make(criterion, **parameters).fit(TRAIN[0], TRAIN[1], sensitive_features=TRAIN[2])


def gap_of(clf, rows=TEST):
    positive = clf.predict(rows[0])
    return abs(positive[rows[2] == 1].mean() - positive[rows[2] == 0].mean())


def test_a_constraint_brings_the_gap_of_decisions_near_the_tolerance():
    free = trained(None, n_replicates=0)
    assert gap_of(free) > 0.15
    for tolerance in (0.0, 0.05):
        clf = trained(tolerance=tolerance, n_replicates=0)
        assert gap_of(clf) < tolerance + 0.03
        assert clf.score(TEST[0], TEST[1]) > free.score(TEST[0], TEST[1]) - 0.1
        assert clf.n_rows_ == 30_000  # the first rows are trained on, too
        assert all(one["constrained"] for one in clf.model_.group_counts().values())


@pytest.mark.parametrize(
    "parameters",
    [{"penalty": 50.0}, {"surrogate": "scores"}, {"loss": "squared_error"}, {"fit_intercept": False}],
    ids=str,
)
def test_a_constraint_has_the_same_options_as_for_dense_rows(parameters):
    assert gap_of(trained(n_replicates=0, **parameters)) < 0.08


@pytest.mark.parametrize("multiplier", ["two_point", "uniform", "exponential", "normal", "poisson"])
def test_intervals_come_from_replicates(multiplier):
    clf = trained(multiplier=multiplier, tolerance=0.05, n_replicates=40)
    for source in ("training", "retraining", "evaluation", "total"):
        found = clf.fairness_interval(TEST[0], TEST[1], sensitive_features=TEST[2], source=source)
        assert 0.01 < found.gap_high - found.gap_low < 0.15
    for method in ("basic", "percentile", "normal", "cheap"):
        table = clf.coef_interval(method=method)
        assert (table["low"] < table["high"])[:20].all()


@pytest.mark.parametrize("method", ["plug_in", "random_scaling"])
def test_intervals_without_replicates_are_refused(method):
    with pytest.raises(
        ValueError, match=r"more than 1,000 features; received 5,001 features\. Use a method that needs"
    ):
        trained().coef_interval(method=method)


@pytest.mark.parametrize("name", ["optimum", "optima", "asymptotic_covariance"])
def test_the_optimum_of_a_population_is_refused(name):
    with pytest.raises(ValueError, match=r"at most 1,000 features; .* 5,001 features\. Reduce the features"):
        getattr(sf.theory, name)(trained(), TEST[0], TEST[1], sensitive_features=TEST[2])


def test_threads_and_the_number_of_replicates_do_not_change_a_bit():
    some = thetas(trained())
    assert (thetas(trained(n_replicates=70))[:7] == some).all()
    assert (thetas(trained(n_replicates=70, n_jobs=2))[:7] == some).all()


def test_blocks_of_replicates_have_the_same_bits():
    clf = make(n_replicates=70)
    with joblib.parallel_config(backend="threading", n_jobs=1):
        blocks = sf.parallel.fit_replicates(clf, TRAIN[0], TRAIN[1], sensitive_features=TRAIN[2], n_blocks=3)
    assert (thetas(blocks) == thetas(trained(n_replicates=70))).all()


def test_only_ratios_of_weights_matter_and_rows_without_weight_do_not_count():
    X, y, z = (part[:6_000] for part in TRAIN)
    weighted = make(n_replicates=0).fit(X, y, sensitive_features=z, sample_weight=np.full(6_000, 2.0))
    plain = make(n_replicates=0).fit(X, y, sensitive_features=z)
    np.testing.assert_allclose(thetas(weighted), thetas(plain), atol=1e-9)
    with pytest.raises(ValueError, match="show 1 group with any weight"):
        make(n_replicates=0).fit(X, y, sensitive_features=z, sample_weight=1.0 - z)


def test_a_group_that_comes_late_is_constrained():
    X, y, z = unequal(40_000, n_groups=3)
    early = (z < 2) | (np.arange(40_000) > 15_000)
    X, y, z = X[early], y[early], z[early]
    clf = make(n_replicates=2)
    for low in range(0, len(y), 9_000):
        part = slice(low, low + 9_000)
        clf.partial_fit(X[part], y[part], sensitive_features=z[part], classes=[0, 1])
    assert clf.model_.group_counts()[None, 2]["constrained"]
    test = unequal(20_000, seed=1, n_groups=3)
    rates = [clf.predict(test[0])[test[2] == group].mean() for group in range(3)]
    assert np.ptp(rates) < 0.1


def test_shards_merge():
    first, *parts = (tuple(part[low : low + 10_000] for part in TRAIN) for low in (0, 10_000, 20_000))
    clf = sf.parallel.fit_shards(make(n_replicates=20), parts, warmup=first)
    assert clf.n_rows_ == 30_000
    assert gap_of(clf) < 0.06
    file = BytesIO()
    sf.save(clf, file)
    file.seek(0)
    assert (thetas(sf.load(file)) == thetas(clf)).all()


@pytest.mark.parametrize("way", ["fit", "partial_fit"])
def test_more_memory_than_there_may_be_is_refused_before_anything_changes(way):
    X = csr_matrix((100, 2**22))
    y = np.arange(100) % 2
    clf = make(n_replicates=100)
    with pytest.raises(ValueError, match=r"would need 6\.3 GiB, more than 4 GiB\. Use n_replicates=62 or less"):
        getattr(clf, way)(X, y, sensitive_features=y)
    assert not hasattr(clf, "model_")
    with pytest.raises(ValueError, match="Use fewer features"):
        make(n_replicates=0).fit(csr_matrix((100, 2**29)), y, sensitive_features=y)


@pytest.mark.parametrize("criterion", ["false_discovery_rate", "false_omission_rate"])
def test_criteria_that_condition_on_the_decision_are_refused(criterion):
    clf = make(criterion)
    with pytest.raises(ValueError, match=r"conditions on the decision.*received a sparse matrix.*Reduce the features"):
        clf.partial_fit(*TRAIN[:2], sensitive_features=TRAIN[2])
    assert not hasattr(clf, "model_")


@pytest.mark.parametrize("criterion", ["demographic_parity", None])
def test_many_features_in_single_precision_are_refused(criterion):
    X, y, z = wide()
    with pytest.raises(ValueError, match=r"dtype='float32' works for dense rows.*Use dtype='float64'"):
        make(criterion, dtype="float32").fit(X, y, sensitive_features=z)


# -- Refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fixed", [{"step_size": PolynomialDecay(0.1, 0.6)}, {}])
def test_a_fixed_constraint_refuses_sparse_rows(fixed):
    given = {} if fixed else {"constraint_set": (X[:200], Y[:200], Z[:200])}
    clf = make(**fixed)
    with pytest.raises(ValueError, match="dense rows; received a sparse matrix"):
        clf.fit(csr_matrix(X), Y, sensitive_features=Z, **given)
    assert not hasattr(clf, "model_")


@pytest.mark.parametrize("what", ["NaN", "infinity", "another number of features", "lengths"])
def test_a_bad_batch_is_refused_and_changes_nothing(what):
    clf = make().fit(csr_matrix(X), Y, sensitive_features=Z)
    before = thetas(clf)
    bad = X[:50].copy()
    bad[3, 5] = {"NaN": np.nan, "infinity": np.inf}.get(what, 0.0)
    rows = csr_matrix(bad[:, :-1] if what == "another number of features" else bad)
    with pytest.raises(ValueError):  # noqa: PT011, the words are scikit-learn's
        clf.partial_fit(rows, Y[: 49 if what == "lengths" else 50], sensitive_features=Z[:50])
    assert (thetas(clf) == before).all()
