"""One thread of linear algebra while surefair computes, and the user's setting before and after."""

from threading import Event, Thread

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import surefair as sf
from surefair.threads import one_blas_thread


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_the_setting_is_restored_after_an_error():
    with threadpool_limits(2, "blas"):
        with pytest.raises(ZeroDivisionError), one_blas_thread():
            1 / 0
        assert blas_threads() == {2}


def test_the_first_to_end_does_not_change_the_setting_for_the_others():
    begun, may_end = Event(), Event()

    def other():
        with one_blas_thread():
            begun.set()
            may_end.wait(10)

    with threadpool_limits(2, "blas"):
        thread = Thread(target=other)
        thread.start()
        begun.wait(10)
        with one_blas_thread():
            pass
        assert blas_threads() == {1}
        may_end.set()
        thread.join()
        assert blas_threads() == {2}


@pytest.mark.filterwarnings("ignore::surefair.diagnostics.ChanceConstraint")
@pytest.mark.parametrize("solver", ["exact", "one_pass"])
def test_fits_do_not_depend_on_the_users_threads_of_linear_algebra(solver):
    rng = np.random.default_rng(0)
    z = rng.integers(3, size=960)
    X = rng.normal(size=(960, 80)) + 0.1 * z[:, None]
    y = (X[:, :5].sum(axis=1) + rng.logistic(size=960) > 0.0).astype(int)
    found = []
    for n_threads in (1, 2):
        clf = sf.FairClassifier(solver=solver, n_replicates=20, n_warmup=810, random_state=0)
        with threadpool_limits(n_threads, "blas"):
            found.append(clf.fit(X, y, sensitive_features=z).coef_replicates_)
            assert blas_threads() == {n_threads}
    assert np.array_equal(*found)
