"""Blocks of replicates on many workers are bit-identical to a fit in one process."""

from __future__ import annotations

from functools import partial

import joblib
import numpy as np
import pandas as pd
import pytest
from fits import APART, FORMS, SOME, classifier, n_first, on, sample, state_of
from scipy.sparse import csr_matrix
from threadpoolctl import threadpool_limits

import surefair as sf
from surefair.parallel import fit_replicates, fit_replicates_stream


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
@pytest.mark.parametrize("name", FORMS)
def test_blocks_are_bit_identical_to_one_process(name, n_blocks):
    one, many, *_ = whole_and_blocks(FORMS[name], False, n_blocks == 2, "threading", n_blocks)
    assert state_of(many) == state_of(one)


@pytest.mark.parametrize("name", [name for name in FORMS if "step_size" not in FORMS[name]])
def test_blocks_of_sparse_rows_are_bit_identical_to_one_process(name):
    one, many, *_ = whole_and_blocks(FORMS[name], True, True, "threading", 2)
    assert state_of(many) == state_of(one)


@pytest.mark.parametrize("name", SOME)
def test_blocks_in_other_processes_answer_save_and_continue_like_one_process(name, tmp_path):
    one, many, (X, y), z = whole_and_blocks(FORMS[name], False, True, "loky", 3)
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


def test_workers_round_as_this_process_does():
    # BLAS rounds differently with another number of threads, and workers often have another number.
    rng = np.random.default_rng(0)
    z = rng.integers(3, size=960)
    X = rng.normal(size=(960, 80)) + 0.1 * z[:, None]
    y = (X[:, :5].sum(axis=1) + rng.logistic(size=960) > 0.0).astype(int)
    with threadpool_limits(2, "blas"):
        one = classifier(n_replicates=40, n_warmup=810).fit(X, y, sensitive_features=z)
        with joblib.parallel_config(backend="loky", n_jobs=2, inner_max_num_threads=1):
            many = fit_replicates(classifier(n_replicates=40, n_warmup=810), X, y, sensitive_features=z)
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


@pytest.mark.parametrize("name", ["equality", "fixed slab"])
def test_covariances_of_the_fit_come_with_the_first_block(name):
    one, many, *_ = whole_and_blocks(FORMS[name], False, False, "threading", 4)
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
@pytest.mark.parametrize("name", SOME)
def test_every_worker_reads_the_stream_from_its_beginning(name, backend):
    params = dict(FORMS[name])
    groups = params.pop("groups", 2)
    X, y, z, w = sample(groups)
    n = n_first(groups)
    first = X[:n], y[:n], z[:n], w[:n]
    one = classifier(**params)
    fixed = "step_size" in params
    if not fixed:
        one.partial_fit(*first[:2], sensitive_features=first[2], sample_weight=first[3])
    for i, (A, b, c, w) in enumerate(stream([100, 0, 301, 50], groups, weighted=True)):
        given = first if fixed and i == 0 else None
        one.partial_fit(A, b, sensitive_features=c, sample_weight=w, constraint_set=given)
    many = classifier(**params)
    batches = partial(stream, [100, 0, 301, 50], groups, weighted=True)
    with on(backend):
        assert fit_replicates_stream(many, batches, warmup=first, n_blocks=3) is many
    assert state_of(many) == state_of(one)
    assert many.get_params() == one.get_params()
    assert many.n_rows_ == 451 + (0 if fixed else n)
    pd.testing.assert_frame_equal(many.group_counts_, one.group_counts_)


def test_groups_that_appear_late_or_are_missing_in_a_batch_are_constrained_in_every_block():
    def batches():
        for z in (np.array(["a", "b"]), np.array(["a", "c"]), np.array(["b"])):
            X, y, code, _ = sample(len(z), n=300)
            yield X, y, z[code]

    X, y, z, _ = sample()
    first = X[:APART], y[:APART], np.array(["a", "b"])[z[:APART]]
    one = classifier()
    for A, b, c in (first, *batches()):
        one.partial_fit(A, b, sensitive_features=c)
    many = fit_replicates_stream(classifier(), batches, warmup=first, n_blocks=3)
    assert state_of(many) == state_of(one)
    assert many.group_counts_["group"].tolist() == ["a", "b", "c"]
    assert many.group_counts_["constrained"].all()


def test_a_stream_that_differs_between_workers_is_refused():
    X, y, z, _ = sample()
    lengths = iter([[100], [90]])
    clf = classifier()
    with pytest.raises(ValueError, match=r"the same rows in every worker; received \[790, 800\] rows"):
        fit_replicates_stream(clf, lambda: stream(next(lengths)), warmup=(X, y, z), n_blocks=2)
    assert not hasattr(clf, "classes_")
