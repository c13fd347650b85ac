"""Sparse rows give the same answers as dense ones, in any kind of matrix."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import coo_matrix, csc_array, csc_matrix, csr_array, csr_matrix, hstack, lil_matrix
from sklearn.base import clone

import surefair as sf
from surefair import CRITERIA, FairClassifier, PolynomialDecay
from surefair.criteria import Slabs
from surefair.inference import theory
from surefair.inference.sources import SOURCES

DECAY = PolynomialDecay(0.1, 0.6)
N_CONSTRAINT = 120
KINDS = {kind.__name__: kind for kind in (csr_matrix, csr_array, csc_matrix, csc_array, coo_matrix, lil_matrix)}


def population(n=500, d=20, n_groups=2, seed=0):
    """Rows in which one entry in five is not 0, and one column is always 0."""
    rng = np.random.default_rng([seed, n_groups])
    z = rng.permutation(np.arange(n) % n_groups)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.2) * 10.0 ** rng.uniform(-1.0, 1.0, size=d)
    X[:, 0] = 0.5 * z + rng.normal(size=n)
    X[:, 1] = 0.0
    y = (X[:, 0] + X[:, 2:].sum(axis=1) / 10.0 + (0.5 + z) * rng.normal(size=n) > 0.5).astype(int)
    return X, y, z


X, Y, Z = population()
TEST = population(300, seed=1)


def make(criterion="demographic_parity", **parameters):
    chosen = {"n_replicates": 6, "n_constraint": N_CONSTRAINT, "random_state": 0} | parameters
    return FairClassifier(criterion, **chosen)


def feed(clf, X, cuts=(), y=Y, z=Z, **more):
    for low, high in pairwise([0, *cuts, len(y)]):
        clf.partial_fit(X[low:high], y[low:high], sensitive_features=z[low:high], classes=[0, 1], **more)
    return clf


def thetas(clf):
    coef = np.vstack([clf.coef_, clf.coef_replicates_])
    return np.column_stack([coef, np.append(clf.intercept_, clf.intercept_replicates_)])


def bits(clf):
    return clf.n_rows_, thetas(clf).tobytes(), clf.group_counts_.to_dict("list")


def assert_close(a, b, rtol=1e-9):
    """Compare coefficients, relative to the largest of all."""
    np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * np.abs(b).max())


def ask(clf, X, y=TEST[1], z=TEST[2], **question):
    return clf.fairness_interval(X, y, sensitive_features=z, **question)


CONSTRAINTS = [name for name, criterion in CRITERIA.items() if criterion.form is Slabs]
PENALTIES = [name for name, criterion in CRITERIA.items() if criterion.form not in (Slabs, None)]
each_criterion = pytest.mark.parametrize("criterion", [*CONSTRAINTS, None])
# With 21 features the 120 rows of D' are too few to whiten, so dense rows are only scaled, as sparse rows are.
each_step_size = pytest.mark.parametrize("step_size", ["auto", DECAY], ids=["auto", "decay"])


# -- The same as dense -------------------------------------------------------------------------------------------------


@each_criterion
@each_step_size
@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
@pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "no intercept"])
def test_a_fit_on_sparse_rows_equals_a_fit_on_dense_rows(criterion, step_size, loss, fit_intercept):
    clf = make(criterion, step_size=step_size, loss=loss, fit_intercept=fit_intercept)
    dense, sparse = (clone(clf).fit(rows, Y, sensitive_features=Z) for rows in (X, csr_matrix(X)))
    assert_close(thetas(sparse), thetas(dense))
    assert sparse.group_counts_.equals(dense.group_counts_)


@each_criterion
@pytest.mark.parametrize("n_groups", [3, 5])
def test_fits_with_many_groups_are_equal(criterion, n_groups):
    rows, y, z = population(n_groups=n_groups)
    parts = {"all": z, "halves": z % 2}
    dense, sparse = (make(criterion).fit(x, y, sensitive_features=parts) for x in (rows, csr_matrix(rows)))
    assert_close(thetas(sparse), thetas(dense))


@each_criterion
@each_step_size
@pytest.mark.parametrize("parameters", [{"tolerance": 0.01}, {"tolerance": 0.01, "alpha": 0.01}], ids=str)
def test_fits_with_other_parameters_and_weights_are_equal(criterion, step_size, parameters):
    weight = np.random.default_rng(5).exponential(size=len(Y))
    dense, sparse = (
        make(criterion, step_size=step_size, **parameters).fit(x, Y, sensitive_features=Z, sample_weight=weight)
        for x in (X, csr_matrix(X))
    )
    assert_close(thetas(sparse), thetas(dense))


@each_criterion
def test_answers_are_equal(criterion):
    dense, sparse = (make(criterion).fit(x, Y, sensitive_features=Z) for x in (X, csr_matrix(X)))
    rows = csr_matrix(TEST[0])
    assert np.array_equal(sparse.predict(rows), dense.predict(TEST[0]))
    assert np.array_equal(sparse.predict(TEST[0]), sparse.predict(rows))  # dense rows may be asked about too
    np.testing.assert_allclose(sparse.decision_function(rows), dense.decision_function(TEST[0]), atol=1e-9)
    np.testing.assert_allclose(sparse.predict_proba(rows), dense.predict_proba(TEST[0]), atol=1e-9)
    assert sparse.score(rows, TEST[1]) == dense.score(*TEST[:2])
    for source in SOURCES:
        weight = np.arange(300.0)
        assert ask(sparse, rows, source=source) == ask(dense, TEST[0], source=source)
        assert ask(sparse, TEST[0], source=source) == ask(sparse, rows, source=source)
        weighted = ask(sparse, rows, source=source, sample_weight=weight)
        assert weighted == ask(dense, TEST[0], source=source, sample_weight=weight)
    names = "feature", "excludes_zero"
    assert sparse.coef_interval()[[*names]].equals(dense.coef_interval()[[*names]])


@each_criterion
def test_optima_are_equal(criterion):
    dense, sparse = (make(criterion).fit(x, Y, sensitive_features=Z) for x in (X, csr_matrix(X)))
    assert_close(theory.optimum(sparse, csr_matrix(X), Y), theory.optimum(dense, X, Y), rtol=1e-5)


def test_a_fit_on_sparse_rows_that_are_only_scaled_is_near_its_optimum():
    rows, y, z = population(8000, d=4)
    clf = make(n_constraint=1000, n_replicates=20).fit(csr_matrix(rows), y, sensitive_features=z)
    assert clf.model_.fit.W.shape == (5,)
    best = theory.optimum(clf, rows, y)
    assert np.all(np.abs(thetas(clf)[0] - best) <= 6.0 * thetas(clf)[1:].std(axis=0) + 1e-3)


@pytest.mark.parametrize("tolerance", [0.0, 0.01])
def test_fit_and_replicates_stay_within_the_slabs(tolerance):
    rows, y, z = population(n_groups=3)
    clf = feed(make(tolerance=tolerance), csr_matrix(rows), y=y, z=z)
    apart = np.column_stack([rows, np.ones(500)])[:N_CONSTRAINT]
    for group in range(3):
        member = z[:N_CONSTRAINT] == group
        assert np.abs((member - member.mean()) @ apart @ thetas(clf).T / N_CONSTRAINT).max() <= tolerance + 1e-9


# -- Any kind of matrix ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_matrix_gives_the_same_bits(kind):
    clf, plain = (make().fit(x, Y, sensitive_features=Z) for x in (KINDS[kind](X), csr_matrix(X)))
    assert bits(clf) == bits(plain)
    rows = KINDS[kind](TEST[0])
    assert np.array_equal(clf.decision_function(rows), plain.decision_function(csr_matrix(TEST[0])))
    assert ask(clf, rows) == ask(plain, TEST[0])


def not_canonical(rows, seed=0):
    """Return the same matrix with unsorted entries, duplicate entries and explicit zeros."""
    rows, rng = csr_matrix(rows), np.random.default_rng(seed)
    data, indices, indptr = [], [], [0]
    for low, high in pairwise(rows.indptr):
        at, values = rows.indices[low:high], rows.data[low:high]
        at, values = np.r_[at, at[:1], 1], np.r_[values, values[:1] / 2.0, 0.0]
        values[:1] /= 2.0
        order = rng.permutation(len(at))
        data.append(values[order])
        indices.append(at[order])
        indptr.append(indptr[-1] + len(at))
    return csr_matrix((np.concatenate(data), np.concatenate(indices), indptr), shape=rows.shape)


@pytest.mark.parametrize("criterion", CONSTRAINTS)
def test_a_matrix_that_is_not_canonical_is_accepted_and_not_changed(criterion):
    rows = not_canonical(X)
    assert np.array_equal(rows.toarray(), X)
    before = [part.copy() for part in (rows.data, rows.indices, rows.indptr)]
    clf, plain = (feed(make(criterion), x, [70, 300]) for x in (rows, csr_matrix(X)))
    assert_close(thetas(clf), thetas(plain))
    np.testing.assert_allclose(clf.decision_function(rows), plain.decision_function(X))
    assert ask(clf, rows, Y, Z) == ask(plain, X, Y, Z)
    for part, old in zip((rows.data, rows.indices, rows.indptr), before, strict=True):
        assert np.array_equal(part, old)


def test_a_canonical_matrix_is_not_changed():
    rows = csr_matrix(X)
    before = rows.copy()
    ask(feed(make(), rows), rows, Y, Z)
    assert (rows != before).nnz == 0


def test_the_caller_may_overwrite_a_batch_after_the_call():
    rows, stream = csr_matrix(X), make()
    for low in range(0, 500, 50):
        batch = rows[low : low + 50].copy()
        stream.partial_fit(batch, Y[low : low + 50], sensitive_features=Z[low : low + 50], classes=[0, 1])
        batch.data[:] = np.nan
    assert bits(stream) == bits(feed(make(), rows))


def test_indices_may_be_64_bit():
    rows = csr_matrix(X)
    rows.indices, rows.indptr = rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
    assert bits(feed(make(), rows, [50, 300])) == bits(feed(make(), csr_matrix(X)))


def test_rows_and_columns_of_zeros_are_accepted():
    rows = X.copy()
    rows[::7] = 0.0
    rows[:, 3] = 0.0
    for criterion in CONSTRAINTS:
        dense, sparse = (make(criterion).fit(x, Y, sensitive_features=Z) for x in (rows, csr_matrix(rows)))
        assert_close(thetas(sparse), thetas(dense))
        assert sparse.coef_[0, 3] == 0.0


# -- Streams -----------------------------------------------------------------------------------------------------------


@each_criterion
@each_step_size
def test_any_batches_give_the_same_bits(criterion, step_size):
    rows = csr_matrix(X)
    whole = bits(feed(make(criterion, step_size=step_size), rows))
    for cuts in [(1, 60, 119, 121, 300), (120,), range(9, 500, 41)]:
        assert bits(feed(make(criterion, step_size=step_size), rows, cuts)) == whole


@pytest.mark.parametrize("criterion", CONSTRAINTS)
@pytest.mark.parametrize("n_jobs", [2, 3])
def test_threads_change_no_bit(criterion, n_jobs):
    one, more = (
        make(criterion, n_replicates=150, n_jobs=n).fit(csr_matrix(X), Y, sensitive_features=Z) for n in (1, n_jobs)
    )
    assert bits(one) == bits(more)


@each_criterion
@pytest.mark.parametrize("first", ["dense", "sparse"])
@pytest.mark.parametrize("cut", [60, 300], ids=["while D' fills", "later"])
def test_dense_and_sparse_batches_mix(criterion, first, cut):
    kinds = [np.asarray, csr_matrix] if first == "dense" else [csr_matrix, np.asarray]
    clf = feed(make(criterion), kinds[0](X[:cut]), y=Y[:cut], z=Z[:cut])
    mixed = feed(clf, kinds[1](X[cut:]), y=Y[cut:], z=Z[cut:])
    assert bits(mixed) == bits(
        feed(make(criterion), kinds[0](X))
    )  # the first batch decides whether the learner is sparse
    assert_close(thetas(mixed), thetas(feed(make(criterion), kinds[1](X))))


@pytest.mark.parametrize("criterion", CONSTRAINTS)
def test_a_constraint_set_may_be_another_kind_of_matrix(criterion):
    apart, rest = slice(0, 120), slice(120, None)
    expected = thetas(
        make(criterion).fit(X[rest], Y[rest], sensitive_features=Z[rest], constraint_set=(X[apart], Y[apart], Z[apart]))
    )
    for kind_of_rows, kind_of_set in [(csr_matrix, np.asarray), (np.asarray, csr_matrix), (csc_matrix, coo_matrix)]:
        given = kind_of_set(X[apart]), Y[apart], Z[apart]
        clf = make(criterion).fit(kind_of_rows(X[rest]), Y[rest], sensitive_features=Z[rest], constraint_set=given)
        assert_close(thetas(clf), expected)


@each_criterion
@pytest.mark.parametrize("stop", [60, 120, 333], ids=["while D' fills", "when D' is full", "later"])
@pytest.mark.parametrize("kind", [csr_matrix, csr_array])
def test_training_resumes_with_bit_identical_results(criterion, stop, kind, tmp_path):
    rows = kind(X)
    sf.save(feed(make(criterion), rows[:stop], y=Y[:stop], z=Z[:stop]), tmp_path / "clf.npz")
    clf = feed(sf.load(tmp_path / "clf.npz"), rows[stop:], y=Y[stop:], z=Z[stop:])
    assert bits(clf) == bits(feed(make(criterion), rows))
    assert ask(clf, rows, Y, Z) == ask(feed(make(criterion), rows), rows, Y, Z)


@each_criterion
def test_shards_of_sparse_rows_merge(criterion):
    given = csr_matrix(X[:120]), Y[:120], Z[:120]
    one, two = (
        make(criterion, random_state=low).fit(
            csr_matrix(X[low:high]), Y[low:high], sensitive_features=Z[low:high], constraint_set=given
        )
        for low, high in [(120, 220), (220, 500)]
    )
    expected = (100.0 * thetas(one) + 280.0 * thetas(two)) / 380.0
    assert_close(thetas(one.merge(two)), expected)
    dense = make(criterion).fit(
        X[120:], Y[120:], sensitive_features=Z[120:], constraint_set=(X[:120], Y[:120], Z[:120])
    )
    with pytest.raises(ValueError, match="constraint_set differ"):
        one.merge(dense)


# -- Bad input ---------------------------------------------------------------------------------------------------------


def spoilt(value):
    rows = csr_matrix(X[300:360])
    rows.data[5] = value
    return rows


BAD = {
    "NaN": (spoilt(np.nan), "Input X contains NaN"),
    "infinity": (spoilt(np.inf), "Input X contains infinity"),
    "another number of features": (csr_matrix(X[300:360, :7]), "X has 7 features, but FairClassifier is expecting 20"),
    "lengths": (csr_matrix(X[300:361]), "X has 61, y has 60"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("seen", [60, 300], ids=["while D' fills", "later"])
def test_a_bad_batch_is_refused_and_changes_nothing(case, seen):
    rows, message = BAD[case]
    clf = feed(make(), csr_matrix(X[:seen]), y=Y[:seen], z=Z[:seen])
    before = bits(clf)
    with pytest.raises(ValueError, match=message):
        clf.partial_fit(rows, Y[300:360], sensitive_features=Z[300:360])
    assert bits(clf) == before
    assert bits(feed(clf, csr_matrix(X[seen:]), y=Y[seen:], z=Z[seen:])) == bits(feed(make(), csr_matrix(X)))


@pytest.mark.parametrize("criterion", PENALTIES)
@each_step_size
def test_a_penalty_refuses_sparse_rows_before_anything_has_changed(criterion, step_size):
    clf = make(criterion, step_size=step_size)
    apart = X[:120], Y[:120], Z[:120]
    for call in (clf.fit, clf.partial_fit):
        for rows, given in [(csr_matrix(X), None), (csr_matrix(X), apart), (X, (csr_matrix(X), Y, Z))]:
            with pytest.raises(ValueError, match=r"needs dense rows; .* \((500|120), 20\)\. .*X\.toarray\(\)"):
                call(rows, Y, sensitive_features=Z, constraint_set=given)
    assert not hasattr(clf, "classes_")


def test_an_empty_batch_changes_nothing():
    for seen in (60, 300):
        clf = feed(make(), csr_matrix(X[:seen]), y=Y[:seen], z=Z[:seen])
        before = bits(clf)
        clf.partial_fit(csr_matrix((0, 20)), [], sensitive_features=[])
        assert bits(clf) == before


def test_features_that_are_always_0_cost_nothing():
    # with a hundred thousand features, dense rows would take 400 MB and a whitening matrix 80 GB
    wide = hstack([csr_matrix(X), csr_matrix((500, 99_980))], format="csr")
    clf = make(n_replicates=2).fit(wide, Y, sensitive_features=Z)
    narrow = make(n_replicates=2).fit(csr_matrix(X), Y, sensitive_features=Z)
    assert_close(clf.coef_[:, :20], narrow.coef_)
    assert not clf.coef_[:, 20:].any()
    assert clf.fairness_interval(wide, Y, sensitive_features=Z) == ask(narrow, X, Y, Z)
