"""Blocks of replicates on many workers are bit-identical to a fit in one process."""

from __future__ import annotations

from functools import partial

import joblib
import numpy as np
import pandas as pd
import pytest
from fits import APART, FORMS, classifier, on, sample, state_of
from scipy.sparse import csr_matrix

import surefair as sf
from surefair.parallel import fit_replicates, fit_replicates_stream

KINDS = [
    *((name, False) for name in FORMS),
    ("slab", True),
    ("several slabs", True),
]  # form, and whether rows are sparse


def whole_and_blocks(params, sparse, weighted, backend, n_blocks):
    """A classifier fitted in one process, one fitted in blocks, and more rows."""
    params = dict(params)
    X, y, z, w = sample(params.pop("groups", 2))
    X = csr_matrix(X * (np.abs(X) > 0.5)) if sparse else X
    rows = {"sensitive_features": z[:600], "sample_weight": w[:600] if weighted else None}
    one = classifier(**params).fit(X[:600], y[:600], **rows)
    many = classifier(**params)
    with on(backend):
        assert fit_replicates(many, X[:600], y[:600], **rows, n_blocks=n_blocks) is many
    return one, many, (X[600:], y[600:]), z[600:]


# -- Replicates in blocks ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_blocks", [1, 2, 7])
@pytest.mark.parametrize(("name", "sparse"), KINDS)
def test_blocks_are_bit_identical_to_one_process(name, sparse, n_blocks):
    one, many, *_ = whole_and_blocks(FORMS[name], sparse, n_blocks == 2, "threading", n_blocks)
    assert state_of(many) == state_of(one)


@pytest.mark.parametrize("name", ["slab", "several slabs", "penalty", "soft rates"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_blocks_in_other_processes_answer_save_and_continue_like_one_process(name, sparse, tmp_path):
    if (name, sparse) not in KINDS:
        pytest.skip("a penalty needs dense rows")
    one, many, (X, y), z = whole_and_blocks(FORMS[name], sparse, True, "loky", 3)
    assert state_of(many) == state_of(one)
    assert np.array_equal(many.coef_replicates_, one.coef_replicates_)
    assert many.n_rows_ == one.n_rows_
    ask = {"sensitive_features": z}
    assert many.fairness_interval(X, y, **ask).to_dict() == one.fairness_interval(X, y, **ask).to_dict()
    pd.testing.assert_frame_equal(many.coef_interval(), one.coef_interval())
    pd.testing.assert_frame_equal(many.group_counts_, one.group_counts_)
    sf.save(many, tmp_path / "clf.npz")
    again = sf.load(tmp_path / "clf.npz")
    for clf in (one, many, again):
        clf.partial_fit(X, y, **ask)
    assert state_of(again) == state_of(many) == state_of(one)


def test_processes_can_share_rows_in_memory():
    # joblib maps arrays of more than a megabyte to memory, and kernels must accept such arrays.
    X, y, z, _ = sample(n=30_000)
    one = classifier(n_replicates=40).fit(X, y, sensitive_features=z)
    with on("loky"):
        many = fit_replicates(classifier(n_replicates=40), X, y, sensitive_features=z)
    assert state_of(many) == state_of(one)


def test_workers_do_not_repeat_projections():
    # BLAS rounds projections differently with another number of threads, so workers get them from this process.
    rng = np.random.default_rng(0)
    X = csr_matrix(rng.normal(size=(300, 30_000)) * (rng.random((300, 30_000)) < 0.02))
    y = rng.integers(2, size=300)
    z = rng.integers(3, size=300)
    one = classifier(n_replicates=40).fit(X, y, sensitive_features=z)
    with joblib.parallel_config(backend="loky", n_jobs=2, inner_max_num_threads=1):
        many = fit_replicates(classifier(n_replicates=40), X, y, sensitive_features=z)
    assert state_of(many) == state_of(one)


@pytest.mark.parametrize("n_replicates", [0, 1, 31, 32])
def test_blocks_work_with_any_number_of_replicates(n_replicates):
    X, y, z, _ = sample()
    one = classifier(n_replicates=n_replicates).fit(X, y, sensitive_features=z)
    many = fit_replicates(classifier(n_replicates=n_replicates), X, y, sensitive_features=z, n_blocks=4)
    assert state_of(many) == state_of(one)


def test_blocks_take_a_constraint_set():
    X, y, z, _ = sample()
    more = {"sensitive_features": z[APART:], "constraint_set": (X[:APART], y[:APART], z[:APART])}
    one = classifier().fit(X[APART:], y[APART:], **more)
    many = fit_replicates(classifier(), X[APART:], y[APART:], **more, n_blocks=2)
    assert state_of(many) == state_of(one)


def test_covariances_of_the_fit_come_with_the_first_block():
    one, many, *_ = whole_and_blocks(FORMS["slab"], False, False, "threading", 4)
    for method in ("plug_in", "random_scaling"):
        pd.testing.assert_frame_equal(many.coef_interval(method=method), one.coef_interval(method=method))


def test_an_error_leaves_the_classifier_unfitted():
    X, y, z, _ = sample()
    clf = classifier()
    with pytest.raises(ValueError, match="NaN"):
        fit_replicates(clf, np.where(X > 2.0, np.nan, X), y, sensitive_features=z)
    assert not hasattr(clf, "classes_")
    for wrong in (0, -1, 1.5):
        with pytest.raises(ValueError, match="n_blocks must be None or a whole number, 1 or larger; received"):
            fit_replicates(clf, X, y, sensitive_features=z, n_blocks=wrong)


# -- Replicates in blocks over a stream -------------------------------------------------------------------------------


def stream(lengths, groups=2, weighted=False):
    X, y, z, w = sample(groups, seed=1)
    low = 0
    for length in lengths:
        part = slice(low, low + length)
        yield (X[part], y[part], z[part], *([w[part]] if weighted else []))
        low += length


@pytest.mark.parametrize("backend", ["threading", "loky"])
@pytest.mark.parametrize("name", ["slab", "several slabs", "penalty", "soft rates"])
def test_every_worker_reads_the_stream_from_its_beginning(name, backend):
    params = dict(FORMS[name])
    groups = params.pop("groups", 2)
    X, y, z, _ = sample(groups)
    apart = X[:APART], y[:APART], z[:APART]
    one = classifier(**params)
    for i, (A, b, c, w) in enumerate(stream([100, 0, 301, 50], groups, weighted=True)):
        one.partial_fit(A, b, sensitive_features=c, sample_weight=w, constraint_set=None if i else apart)
    many = classifier(**params)
    batches = partial(stream, [100, 0, 301, 50], groups, weighted=True)
    with on(backend):
        assert fit_replicates_stream(many, batches, constraint_set=apart, n_blocks=3) is many
    assert state_of(many) == state_of(one)
    assert many.get_params() == one.get_params()
    pd.testing.assert_frame_equal(many.group_counts_, one.group_counts_)


def test_a_stream_that_differs_between_workers_is_refused():
    X, y, z, _ = sample()
    lengths = iter([[100], [90]])
    clf = classifier()
    with pytest.raises(ValueError, match=r"the same rows in every worker; received \[90, 100\] rows"):
        fit_replicates_stream(clf, lambda: stream(next(lengths)), constraint_set=(X, y, z), n_blocks=2)
    assert not hasattr(clf, "classes_")
