from __future__ import annotations

import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

import surefair as sf
from surefair import kernels


def test_exponential_is_accurate_to_the_last_bits():
    x = np.concatenate([np.linspace(-700.0, 700.0, 20_001), np.linspace(-2.0, 2.0, 5_001), [0.0, -0.0]])
    found = np.array([kernels.exponential(v) for v in x])
    np.testing.assert_allclose(found, np.exp(x), rtol=1e-15)


def test_exponential_is_clipped_where_a_double_would_overflow_and_keeps_what_is_not_a_number():
    assert kernels.exponential(1e6) == kernels.exponential(np.inf) == kernels.exponential(700.0)
    assert kernels.exponential(-1e6) == kernels.exponential(-np.inf) == kernels.exponential(-700.0)
    assert np.isnan(kernels.exponential(np.nan))


@pytest.mark.parametrize("intercept", [True, False])
def test_change_of_coordinates_is_a_matrix_product(intercept):
    rng = np.random.default_rng(0)
    X, W = rng.normal(size=(50, 4)), rng.normal(size=(5 if intercept else 4, 3))
    found = np.empty((50, 3))
    kernels.change_coordinates(X, W, found)
    rows = np.column_stack([X, np.ones(50)]) if intercept else X
    np.testing.assert_allclose(found, rows @ W, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("n_threads", [1, 2, 3, 8])
@pytest.mark.parametrize("n_columns", [1, 96, 97, 300])
def test_threads_share_out_every_column_once_in_whole_words(n_threads, n_columns):
    visits = np.zeros((1, n_columns))
    starts = []

    def kernel(first, last, state):
        starts.append(first)
        state[:, first:last] += 1.0

    kernels.on_threads(kernel, (), (visits,), n_threads)
    assert np.all(visits == 1.0)
    assert all(first % kernels.WORD == 0 for first in starts)


def test_an_error_in_a_thread_is_not_lost():
    def kernel(first, last, state):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        kernels.on_threads(kernel, (), (np.zeros((1, 200)),), 2)


def test_compilation_goes_without_a_cache_where_there_is_no_place_for_one(monkeypatch):
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
caching.CacheImpl._locator_classes = []  # what a read-only home amounts to

import numpy as np
import surefair as sf
from surefair import kernels

rng = np.random.default_rng(0)
X, y, z = rng.normal(size=(500, 2)), rng.integers(2, size=500), rng.integers(2, size=500)
clf = sf.FairClassifier(n_replicates=3, random_state=0).fit(X, y, sensitive_features=z)
assert not kernels.dual_averaging.stats.cache_path
print(*clf.coef_[0])
"""


@pytest.mark.filterwarnings("ignore::surefair.diagnostics.ChanceConstraint")
def test_a_home_that_cannot_be_written_is_no_obstacle():
    run = partial(subprocess.run, capture_output=True, text=True, check=False, timeout=300)
    done = run([sys.executable, "-c", NO_CACHE_ANYWHERE], env=os.environ | {"NUMBA_OPT": "1"})
    assert done.returncode == 0, done.stderr
    rng = np.random.default_rng(0)
    X, y, z = rng.normal(size=(500, 2)), rng.integers(2, size=500), rng.integers(2, size=500)
    clf = sf.FairClassifier(n_replicates=3, random_state=0).fit(X, y, sensitive_features=z)
    np.testing.assert_allclose([float(word) for word in done.stdout.split()], clf.coef_[0], rtol=1e-9)
