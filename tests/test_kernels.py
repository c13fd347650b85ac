from __future__ import annotations

import inspect
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import surefair as sf
from surefair import kernels
from surefair.criteria import Slabs, SquaredPenalty
from surefair.learners import Settings, learner_for, multipliers
from surefair.learners.multipliers import Multipliers
from surefair.learners.schedules import PolynomialDecay
from surefair.losses import LOSSES
from surefair.threads import on_threads


def test_exponential_is_accurate_to_the_last_bits():
    x = np.concatenate([np.linspace(-700.0, 700.0, 20_001), np.linspace(-2.0, 2.0, 5_001), [0.0, -0.0]])
    found = np.array([kernels.exponential(v) for v in x])
    np.testing.assert_allclose(found, np.exp(x), rtol=1e-15)


def test_exponential_is_clipped_before_it_overflows_and_keeps_nan():
    assert kernels.exponential(1e6) == kernels.exponential(np.inf) == kernels.exponential(700.0)
    assert kernels.exponential(-1e6) == kernels.exponential(-np.inf) == kernels.exponential(-700.0)
    assert np.isnan(kernels.exponential(np.nan))


def test_exponential_in_single_precision():
    x = np.concatenate([np.linspace(-87.0, 87.0, 20_001), np.linspace(-2.0, 2.0, 5_001)]).astype(np.float32)
    exponential = kernels.exponential_single
    found = np.array([exponential(v) for v in x])
    np.testing.assert_allclose(found, np.exp(x.astype(np.float64)), rtol=2.5e-7)
    assert exponential(np.float32(1e6)) == exponential(np.float32(np.inf)) == exponential(np.float32(87.0))
    assert exponential(np.float32(-1e6)) == exponential(np.float32(-np.inf)) == exponential(np.float32(-87.0))
    assert np.isnan(exponential(np.float32(np.nan)))


@pytest.mark.parametrize("intercept", [True, False])
def test_change_of_coordinates_is_a_matrix_product(intercept):
    rng = np.random.default_rng(0)
    X, W = rng.normal(size=(50, 4)), rng.normal(size=(5 if intercept else 4, 3))
    found = np.empty((50, 3))
    kernels.change_coordinates(X, W, found)
    rows = np.column_stack([X, np.ones(50)]) if intercept else X
    np.testing.assert_allclose(found, rows @ W, rtol=1e-13, atol=1e-13)


def test_no_function_takes_more_than_ten_parameters():
    functions = {name: getattr(value, "py_func", value) for name, value in vars(kernels).items()}
    own = {name: f for name, f in functions.items() if inspect.isfunction(f) and f.__module__ == kernels.__name__}
    assert {"dual_averaging", "dual_averaging_sparse", "count_positive", "_fold"} <= set(own)
    assert {name for name, f in own.items() if len(inspect.signature(f).parameters) > 10} == set()


def learner_with(loss, law, form, sparse):
    """A learner whose loss and law have codes of their own."""
    settings = Settings(
        loss, 1e-4, 0.0, 1.0, None, PolynomialDecay(1.0, 0.6), Multipliers(law, 0), np.zeros(2), robust=False
    )
    return learner_for(settings, form, sparse)


@pytest.mark.parametrize("case", ["slabs", "sparse", "penalty"])
def test_learners_refuse_unknown_codes(monkeypatch, case):
    sparse = case == "sparse"
    kind = csr_matrix if sparse else np.asarray
    form = SquaredPenalty(np.eye(2), np.ones((1, 2))) if case == "penalty" else Slabs(np.ones((1 - sparse, 2)))
    loss = LOSSES["log_loss"]
    monkeypatch.setitem(multipliers.LAWS, "new", 5)
    rows = kind(np.eye(2)), np.array([1.0, -1.0])
    for code in (-1, 2):
        learner = learner_with(replace(loss, code=code), "two_point", form, sparse)
        with pytest.raises(ValueError, match="Unknown code of a loss"):
            learner.step(learner.init(3), *rows)
    learner = learner_with(loss, "new", form, sparse)
    with pytest.raises(ValueError, match="Unknown code of a law"):
        learner.step(learner.init(3), *rows)


@pytest.mark.parametrize("size", [1, 5, 70])
def test_sums_of_squares_are_those_of_the_rows_in_any_batches(size):
    rng = np.random.default_rng(size)
    X, factor = rng.normal(size=(41, size)), rng.exponential(size=41)
    whole, parts = np.zeros((2, size, size))
    kernels.add_outer(X, factor, whole)
    for part in (slice(0, 3), slice(3, 4), slice(4, 30), slice(30, 41)):
        kernels.add_outer(X[part], factor[part], parts)
    assert np.array_equal(parts, whole)
    np.testing.assert_allclose(whole, np.triu((X.T * factor) @ X), rtol=1e-12, atol=1e-12)


def test_rows_are_added_to_their_cells():
    cell, factor = np.array([[0, 2], [2, -1], [-1, -1]]), np.array([[1.0, 2.0], [3.0, 9.0], [9.0, 9.0]])
    found = np.zeros((3, 2))
    kernels.add_by_cell(cell, factor, np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]]), found)
    assert found.tolist() == [[1.0, 10.0], [0.0, 0.0], [8.0, 80.0]]


def test_every_registered_loss_and_law_is_known_to_the_kernels():
    for loss in LOSSES.values():
        for law in multipliers.LAWS.values():
            kernels.check_codes(loss.code, law)
    assert len(set(multipliers.LAWS.values())) == len(multipliers.LAWS)


@pytest.mark.parametrize("n_threads", [1, 2, 3, 8])
@pytest.mark.parametrize("n_columns", [1, 96, 97, 300])
def test_each_column_goes_to_one_thread_in_whole_words(n_threads, n_columns):
    visits = np.zeros((1, n_columns))
    starts = []

    def kernel(first, last, state):
        starts.append(first)
        state[:, first:last] += 1.0

    on_threads(kernel, (), (visits,), n_threads)
    assert np.all(visits == 1.0)
    assert all(first % kernels.WORD == 0 for first in starts)


def test_an_error_in_a_thread_is_raised():
    def kernel(first, last, state):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        on_threads(kernel, (), (np.zeros((1, 200)),), 2)


def test_kernels_compile_without_a_cache_if_there_is_no_place_for_it(monkeypatch):
    njit, attempts = kernels.njit, []

    def refuse(cache=False, **options):
        attempts.append(cache)
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(**options)

    monkeypatch.setattr(kernels, "njit", refuse)
    assert kernels.compiled(lambda x: x + 1.0)(2.0) == 3.0
    assert attempts == [True, False]


NO_CACHE_ANYWHERE = """
from numba.core import caching
caching.CacheImpl._locator_classes = []  # as if no folder were writable

import numpy as np
import surefair as sf
from surefair import kernels

rng = np.random.default_rng(0)
X, y, z = rng.normal(size=(500, 2)), rng.integers(2, size=500), rng.integers(2, size=500)
clf = sf.FairClassifier(n_replicates=3, random_state=0).fit(X, y, sensitive_features=z)
assert not kernels.dual_averaging.stats.cache_path
print(*clf.coef_[0])
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::surefair.diagnostics.ChanceConstraint")
def test_a_classifier_trains_without_a_writable_home():
    run = partial(subprocess.run, capture_output=True, text=True, check=False, timeout=300)
    done = run([sys.executable, "-c", NO_CACHE_ANYWHERE], env=os.environ | {"NUMBA_OPT": "1"})
    assert done.returncode == 0, done.stderr
    rng = np.random.default_rng(0)
    X, y, z = rng.normal(size=(500, 2)), rng.integers(2, size=500), rng.integers(2, size=500)
    clf = sf.FairClassifier(n_replicates=3, random_state=0).fit(X, y, sensitive_features=z)
    np.testing.assert_allclose([float(word) for word in done.stdout.split()], clf.coef_[0], rtol=1e-9)
