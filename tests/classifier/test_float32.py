"""Single precision moves results by far less than the spread of replicates."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import surefair as sf
from surefair import FairClassifier, kernels
from surefair.criteria import CRITERIA, Slabs

PROBLEMS = {
    "no criterion": {"criterion": None},
    "equality": {"tolerance": 0.0},
    "slab": {"tolerance": 0.02},
    "slab, strong ridge": {"tolerance": 0.05, "alpha": 0.01},
    "slack": {"tolerance": 5.0},
}


def rows(n, d, n_groups=2, seed=0):
    rng = np.random.default_rng(seed)
    X, z = rng.normal(size=(n, d)), rng.integers(n_groups, size=n)
    X[:, 0] += z
    return X, (X[:, 0] + 0.5 * z + 0.3 * X[:, 1] + rng.logistic(size=n) > 0.0).astype(int), z


def both(data, **params):
    X, y, z = data
    params = {"random_state": 0} | params
    return [FairClassifier(**params, dtype=dtype).fit(X, y, sensitive_features=z) for dtype in ("float64", "float32")]


def shifts(double, single):
    """Largest differences of the replicates, and of the fit, in standard deviations of the bootstrap."""
    replicates = [np.c_[clf.coef_replicates_, clf.intercept_replicates_] for clf in (double, single)]
    fits = [np.r_[clf.coef_[0], clf.intercept_] for clf in (double, single)]
    spread = replicates[0].std(axis=0)
    return np.abs((replicates[0] - replicates[1]) / spread).max(), np.abs((fits[0] - fits[1]) / spread).max()


@pytest.mark.parametrize("d", [3, 14])
@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
@pytest.mark.parametrize("params", PROBLEMS.values(), ids=PROBLEMS)
def test_coefficients_and_intervals_agree_with_double_precision(params, loss, d):
    double, single = both(rows(20_000, d), loss=loss, **params)
    assert max(shifts(double, single)) < 6e-4  # at most 1.2e-4 when measured
    ends = [np.stack([frame["low"], frame["high"]]) for frame in (double.coef_interval(), single.coef_interval())]
    assert np.abs((ends[0] - ends[1]) / (ends[0][1] - ends[0][0])).max() < 1e-3
    test = rows(5_000, d, seed=1)
    one, other = (clf.fairness_interval(test[0], test[1], sensitive_features=test[2]) for clf in (double, single))
    assert abs(one.low - other.low) + abs(one.high - other.high) < 1e-3 * (one.high - one.low)


@pytest.mark.parametrize("tolerance", [0.0, 0.02])
def test_coefficients_for_several_groups_agree(tolerance):
    assert max(shifts(*both(rows(20_000, 6, n_groups=4), tolerance=tolerance))) < 6e-4


@pytest.mark.slow
@pytest.mark.parametrize("params", PROBLEMS.values(), ids=PROBLEMS)
def test_a_long_stream_does_not_stagnate(params):
    # late steps shrink θ by less than single precision can represent: by 5e-4 · 1e-4 of 1
    double, single = both(rows(1_000_000, 3), n_replicates=8, **params)
    assert max(shifts(double, single)) < 5e-3  # at most 6e-4 when measured


def test_an_equality_holds_as_in_double_precision():
    X, y, z = rows(50_000, 5)
    for clf in both((X, y, z), n_replicates=3):
        apart, centred = X[:1000] @ clf.coef_replicates_.T, z[:1000] - z[:1000].mean()
        assert np.abs(centred @ apart / 1000).max() < 1e-13


@pytest.mark.parametrize("params", [{"multiplier": law} for law in ("uniform", "exponential", "normal", "poisson")])
def test_coefficients_with_every_multiplier_agree(params):
    assert max(shifts(*both(rows(5_000, 4), **params))) < 6e-4


def test_coefficients_with_explicit_steps_agree():
    assert max(shifts(*both(rows(5_000, 4), step_size=sf.PolynomialDecay(0.5, 0.6)))) < 6e-4


def test_batches_threads_and_the_number_of_replicates_change_no_bit():
    X, y, z = rows(3_000, 14)
    whole = FairClassifier(random_state=0, n_replicates=300, dtype="float32", n_jobs=2)
    whole.partial_fit(X, y, sensitive_features=z)
    parts = FairClassifier(random_state=0, n_replicates=77, dtype="float32")
    for part in np.split(np.arange(len(y)), [1001, 1003, 1260, 2222]):
        parts.partial_fit(X[part], y[part], sensitive_features=z[part], classes=[0, 1])
    assert np.array_equal(parts.coef_, whole.coef_)
    assert np.array_equal(parts.coef_replicates_, whole.coef_replicates_[:77])


@pytest.mark.parametrize("stop", [500, 1_000, 1_001, 1_300, 2_047])
@pytest.mark.parametrize("tolerance", [0.0, 0.02])
def test_training_resumes_with_bit_identical_results(tmp_path, stop, tolerance):
    X, y, z = rows(2_500, 4)

    def feed(clf, low, high):
        return clf.partial_fit(X[low:high], y[low:high], sensitive_features=z[low:high])

    params = {"tolerance": tolerance, "n_replicates": 20, "random_state": 0, "dtype": "float32"}
    clf = feed(FairClassifier(**params), 0, stop)
    sf.save(clf, tmp_path / "clf.npz")
    again = sf.load(tmp_path / "clf.npz")
    assert again.dtype == "float32"
    if clf.model_.fit is not None:
        dtypes = [[array.dtype for array in one.model_.fit.state[1:]] for one in (again, clf)]
        assert dtypes[0] == dtypes[1]
    whole = feed(FairClassifier(**params), 0, 2_500)
    assert np.array_equal(feed(again, stop, 2_500).coef_replicates_, whole.coef_replicates_)


def test_shards_of_the_same_precision_merge():
    X, y, z = rows(6_000, 4)
    apart = X[:1000], y[:1000], z[:1000]

    def shard(dtype, low, high, seed):
        clf = FairClassifier(random_state=seed, dtype=dtype, tolerance=0.02)
        return clf.fit(X[low:high], y[low:high], sensitive_features=z[low:high], constraint_set=apart)

    double, single = (shard(t, 1000, 3000, 0).merge(shard(t, 3000, 6000, 1)) for t in ("float64", "float32"))
    assert max(shifts(double, single)) < 6e-4
    with pytest.raises(ValueError, match="dtype differ"):
        single.merge(shard("float64", 1000, 3000, 2))


def test_dtype_is_a_parameter_and_results_are_float64():
    clf = clone(FairClassifier(dtype="float32"))
    assert clf.get_params()["dtype"] == "float32"
    assert FairClassifier().dtype == "float64"
    X, y, z = rows(600, 3)
    assert clf.fit(X, y, sensitive_features=z).coef_.dtype == np.float64


@pytest.mark.parametrize("dtype", ["float16", "single", np.float32, None])
def test_an_unknown_dtype_is_refused(dtype):
    with pytest.raises(ValueError, match=r"Unknown dtype: .* Known: 'float64', 'float32'"):
        FairClassifier(dtype=dtype).fit(*rows(100, 3)[:2])


@pytest.mark.parametrize("name", [name for name, criterion in CRITERIA.items() if criterion.form not in (Slabs, None)])
def test_a_criterion_that_penalises_is_refused(name):
    X, y, z = rows(100, 3)
    with pytest.raises(ValueError, match=f"criterion='{name}', which penalises.* Use dtype='float64'"):
        FairClassifier(name, dtype="float32").fit(X, y, sensitive_features=z)


def test_sparse_rows_are_refused_before_anything_has_changed():
    X, y, z = rows(3_000, 3)
    clf = FairClassifier(dtype="float32")
    sparse = r"for dense rows only; received a sparse matrix of shape .* Use dtype='float64'"
    for call in (clf.fit, clf.partial_fit):
        with pytest.raises(ValueError, match=sparse):
            call(csr_matrix(X), y, sensitive_features=z)
    with pytest.raises(ValueError, match=sparse):
        clf.fit(X, y, sensitive_features=z, constraint_set=(csr_matrix(X), y, z))
    assert not hasattr(clf, "classes_")


def test_exponential_in_single_precision():
    x = np.concatenate([np.linspace(-87.0, 87.0, 20_001), np.linspace(-2.0, 2.0, 5_001)]).astype(np.float32)
    found = np.array([kernels.exponential_single(v) for v in x])
    np.testing.assert_allclose(found, np.exp(x.astype(np.float64)), rtol=2.5e-7)
    exponential = kernels.exponential_single
    assert exponential(np.float32(1e6)) == exponential(np.float32(np.inf)) == exponential(np.float32(87.0))
    assert exponential(np.float32(-1e6)) == exponential(np.float32(-np.inf)) == exponential(np.float32(-87.0))
    assert np.isnan(exponential(np.float32(np.nan)))


ONE_PASS = "a weight makes a step longer; as with SGDClassifier, one pass is not a pass over repeated or removed rows"


@parametrize_with_checks(
    [FairClassifier(None, n_replicates=5, dtype="float32")],
    expected_failed_checks=lambda clf: {"check_sample_weight_equivalence_on_dense_data": ONE_PASS},
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)
