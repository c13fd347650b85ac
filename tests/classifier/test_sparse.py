"""Sparse rows: few features give the results of dense rows; many features are for fits without a constraint."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest
from scipy.sparse import coo_matrix, csc_array, csc_matrix, csr_array, csr_matrix, lil_matrix, random_array

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
    """Sparse rows with more features than can be made dense."""
    rng = np.random.default_rng(seed)
    X = csr_matrix(random_array((n, d), density=0.01, rng=rng, data_sampler=rng.normal))
    y = (np.asarray(X[:, :50].sum(axis=1)).ravel() + 0.5 * rng.normal(size=n) > 0.0).astype(int)
    return X, y, rng.integers(0, 2, n)


def make(criterion="demographic_parity", **parameters):
    return FairClassifier(criterion, **{"n_replicates": 6, "n_warmup": 500, "random_state": 0} | parameters)


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


@pytest.mark.parametrize(("rows", "criterion"), [(population(), "demographic_parity"), (wide(), None)])
def test_batches_and_restarts_do_not_change_a_bit(rows, criterion):
    X, y, z = csr_matrix(rows[0]), rows[1], rows[2]
    whole, parts = make(criterion), make(criterion)
    whole.partial_fit(X, y, sensitive_features=z, classes=[0, 1])
    for low in range(0, len(y), 350):
        part = slice(low, low + 350)
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


@pytest.mark.parametrize("criterion", ["demographic_parity", "false_positive_rate"])
@pytest.mark.parametrize("way", ["fit", "partial_fit"])
def test_many_features_with_a_constraint_are_refused_before_anything_changes(criterion, way):
    X, y, z = wide()
    clf = make(criterion)
    with pytest.raises(ValueError, match=r"at most 1,000 features; received a sparse matrix of shape \(2000, 3000\)"):
        getattr(clf, way)(X, y, sensitive_features=z)
    assert not hasattr(clf, "model_")


def test_many_features_in_single_precision_are_refused():
    X, y, _ = wide()
    with pytest.raises(ValueError, match="dtype='float32' works for dense rows"):
        make(None, dtype="float32").fit(X, y)


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
