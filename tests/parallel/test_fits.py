"""Many workers: blocks of replicates give the bits of one process; shards of rows give its law."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from functools import partial

import joblib
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy.sparse import csr_matrix
from sklearn.kernel_approximation import RBFSampler

import surefair as sf
from surefair.cli import main
from surefair.diagnostics import StartNotForgotten
from surefair.parallel.blocks import fit_replicates, fit_replicates_stream, fit_shards, shard_seed

N, APART = 700, 150
FORMS = {
    "slab": {"criterion": "demographic_parity"},
    "slab with tolerance": {"criterion": "demographic_parity", "tolerance": 0.02},
    "several slabs": {"criterion": "demographic_parity", "groups": 3},
    "no constraint": {"criterion": None},
    "penalty": {"criterion": "false_positive_rate"},
    "several penalties": {"criterion": "equalized_odds", "groups": 3},
    "smooth penalty": {"criterion": "error_rate", "sharpness": 4.0},
    "soft rates": {"criterion": "false_omission_rate"},
    "as published": {"criterion": "demographic_parity", "step_size": sf.PolynomialDecay(0.5, 0.6)},
    "exponential": {"criterion": "demographic_parity", "multiplier": "exponential"},
}
SINGLE = {"float32": {"dtype": "float32"}, "float32, several slabs": {"dtype": "float32", "groups": 3}}


def sample(groups=2, n=N, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.integers(groups, size=n)
    X = rng.normal(size=(n, 5)) + 0.3 * z[:, None]
    y = (X.sum(axis=1) + rng.logistic(size=n) > 0.5).astype(int)
    return X, y, z, rng.exponential(size=n)


def classifier(**params):
    return sf.FairClassifier(**({"n_replicates": 100, "random_state": 3} | params))


def on(backend, n_jobs=2):
    return nullcontext() if backend is None else joblib.parallel_config(backend=backend, n_jobs=n_jobs)


def state_of(clf):
    return [np.asarray(array).tobytes() for array in clf._fit.state], clf._fit.weight, clf.seed_, clf.n_rows_


def whole_and_blocks(params, sparse, weighted, backend, n_blocks):
    """A classifier fitted in one process, one fitted in blocks, and rows to go on with."""
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
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", FORMS)
def test_blocks_of_replicates_are_the_fit_of_one_process(name, sparse, n_blocks):
    one, many, *_ = whole_and_blocks(FORMS[name], sparse, n_blocks == 2, "threading", n_blocks)
    assert state_of(many) == state_of(one)


@pytest.mark.parametrize("n_blocks", [1, 2, 7])
@pytest.mark.parametrize("name", SINGLE)
def test_blocks_of_replicates_in_single_precision(name, n_blocks):
    one, many, *_ = whole_and_blocks(SINGLE[name], False, True, "threading", n_blocks)
    assert state_of(many) == state_of(one)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", ["slab", "several slabs", "penalty", "soft rates"])
def test_blocks_in_other_processes_answer_and_go_on_as_one_process_does(name, sparse, tmp_path):
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


def test_rows_that_processes_share_in_memory():
    # more than a megabyte: joblib then maps arrays to memory, which a kernel must be able to take
    X, y, z, _ = sample(n=30_000)
    one = classifier(n_replicates=40).fit(X, y, sensitive_features=z)
    with on("loky"):
        many = fit_replicates(classifier(n_replicates=40), X, y, sensitive_features=z)
    assert state_of(many) == state_of(one)


def test_many_features():
    # projections by BLAS are rounded otherwise where it has other threads: workers are sent them ready-made
    rng = np.random.default_rng(0)
    X = csr_matrix(rng.normal(size=(300, 30_000)) * (rng.random((300, 30_000)) < 0.02))
    y, z = rng.integers(2, size=300), rng.integers(3, size=300)
    one = classifier(n_replicates=40).fit(X, y, sensitive_features=z)
    with joblib.parallel_config(backend="loky", n_jobs=2, inner_max_num_threads=1):
        many = fit_replicates(classifier(n_replicates=40), X, y, sensitive_features=z)
    assert state_of(many) == state_of(one)


@pytest.mark.parametrize("n_replicates", [0, 1, 31, 32])
def test_any_number_of_replicates(n_replicates):
    X, y, z, _ = sample()
    one = classifier(n_replicates=n_replicates).fit(X, y, sensitive_features=z)
    many = fit_replicates(classifier(n_replicates=n_replicates), X, y, sensitive_features=z, n_blocks=4)
    assert state_of(many) == state_of(one)


def test_a_constraint_set_and_a_feature_map_go_along():
    X, y, z, _ = sample()
    rows, apart = {"sensitive_features": z[APART:]}, (X[:APART], y[:APART], z[:APART])
    params = {"feature_map": RBFSampler(n_components=8, random_state=0)}
    one = classifier(**params).fit(X[APART:], y[APART:], **rows, constraint_set=apart)
    many = fit_replicates(classifier(**params), X[APART:], y[APART:], **rows, constraint_set=apart, n_blocks=2)
    assert state_of(many) == state_of(one)


def test_covariances_of_the_fit_itself_come_with_its_block():
    one, many, *_ = whole_and_blocks(FORMS["slab"], False, False, "threading", 4)
    for method in ("plug_in", "random_scaling"):
        pd.testing.assert_frame_equal(many.coef_interval(method=method), one.coef_interval(method=method))


def test_bad_rows_are_refused_as_fit_refuses_them_and_leave_nothing_behind():
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
def test_a_stream_that_every_worker_reads_afresh(name, backend):
    params = dict(FORMS[name])
    groups = params.pop("groups", 2)
    X, y, z, _ = sample(groups)
    apart = X[:APART], y[:APART], z[:APART]
    one = classifier(**params)
    for i, (A, b, c, w) in enumerate(stream([100, 0, 301, 50], groups, weighted=True)):
        one.partial_fit(A, b, sensitive_features=c, sample_weight=w, constraint_set=None if i else apart)
    many, batches = classifier(**params), partial(stream, [100, 0, 301, 50], groups, weighted=True)
    with on(backend):
        assert fit_replicates_stream(many, batches, constraint_set=apart, n_blocks=3) is many
    assert state_of(many) == state_of(one)
    assert many.get_params() == one.get_params()
    pd.testing.assert_frame_equal(many.group_counts_, one.group_counts_)


def test_a_stream_that_is_not_the_same_in_every_worker_is_refused():
    X, y, z, _ = sample()
    lengths = iter([[100], [90]])
    clf = classifier()
    with pytest.raises(ValueError, match=r"the same rows in every worker; received \[90, 100\] rows"):
        fit_replicates_stream(clf, lambda: stream(next(lengths)), constraint_set=(X, y, z), n_blocks=2)
    assert not hasattr(clf, "classes_")


# -- Rows in shards ---------------------------------------------------------------------------------------------------


def partitions(n=3, weighted=False, seed=5):
    X, y, z, w = sample(seed=seed)
    return [(X[i::n], y[i::n], z[i::n], *([w[i::n]] if weighted else [])) for i in range(n)]


def apart(groups=2):
    X, y, z, _ = sample(groups)
    return X[:APART], y[:APART], z[:APART]


def given(part):
    return part


@pytest.mark.parametrize("name", ["slab", "penalty", "soft rates"])
def test_shards_are_the_same_bits_wherever_they_are_fitted(name):
    parts, states = partitions(weighted=True), []
    for backend, form in [(None, parts), ("threading", iter(parts)), ("loky", [partial(given, p) for p in parts])]:
        clf = classifier(**FORMS[name])
        with on(backend):
            assert fit_shards(clf, form, constraint_set=apart()) is clf
        states.append(state_of(clf))
    assert states[0] == states[1] == states[2]
    assert clf.n_rows_ == N
    assert clf.get_params() == classifier(**FORMS[name]).get_params()
    assert clf.group_counts_["n"].sum() == N


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_one_shard_is_a_fit_with_the_seed_of_that_shard(name, sparse):
    params = dict(FORMS[name])
    groups = params.pop("groups", 2)
    (X, y, z, w), (A, b, c) = sample(groups, seed=5), apart(groups)
    X, A = (csr_matrix(X), csr_matrix(A)) if sparse else (X, A)
    one = classifier(**params, random_state=shard_seed(3, 0))
    one.fit(X, y, sensitive_features=z, sample_weight=w, constraint_set=(A, b, c))
    found = fit_shards(classifier(**params), [(X, y, z, w)], constraint_set=(A, b, c))
    assert state_of(found) == state_of(one)
    assert np.array_equal(found.coef_replicates_, one.coef_replicates_)


def test_shards_are_merged_as_by_hand():
    parts, (A, b, c) = partitions(), apart()
    by_hand = [
        classifier(random_state=shard_seed(3, i)).fit(X, y, sensitive_features=z, constraint_set=(A, b, c))
        for i, (X, y, z) in enumerate(parts)
    ]
    expected = by_hand[0].merge(by_hand[1]).merge(by_hand[2])
    assert state_of(fit_shards(classifier(), parts, constraint_set=(A, b, c))) == state_of(expected)


def test_seeds_of_shards_differ_by_shard_and_by_classifier():
    seeds = {shard_seed(state, number) for state in range(20) for number in range(50)}
    assert len(seeds) == 1000
    free = [fit_shards(classifier(random_state=None), partitions(), constraint_set=apart()) for _ in range(2)]
    assert not np.array_equal(free[0].coef_replicates_, free[1].coef_replicates_)
    assert np.array_equal(free[0].coef_, free[1].coef_)


def test_a_partition_without_rows_counts_for_nothing():
    parts = partitions(2)
    empty = tuple(part[:0] for part in parts[0])
    full, with_empty = (fit_shards(classifier(), p, constraint_set=apart()) for p in (parts, [*parts, empty]))
    assert with_empty.n_rows_ == full.n_rows_
    np.testing.assert_allclose(with_empty.coef_replicates_, full.coef_replicates_, rtol=1e-11, atol=1e-13)


SOURCES = {"slab": sf.datasets.SyntheticDI, "penalty": sf.datasets.SyntheticDM}


def drawn(source, seed, n):
    data = source(seed=seed).sample(n)
    return data.X.to_numpy(), np.asarray(data.y), np.asarray(data.sensitive)


@pytest.mark.parametrize("name", SOURCES)
def test_the_estimate_of_shards_is_near_that_of_one_pass_and_their_spread_is_alike(name):
    (X, y, z), D, test = (drawn(SOURCES[name], seed, n) for seed, n in enumerate([48_000, 1_000, 2_000]))
    one, clf = (classifier(**FORMS[name], n_replicates=200) for _ in range(2))
    one.fit(X, y, sensitive_features=z, constraint_set=D)
    with warnings.catch_warnings():
        warnings.simplefilter("error", StartNotForgotten)
        fit_shards(clf, [(X[i::3], y[i::3], z[i::3]) for i in range(3)], constraint_set=D)
    spread, other = (c.coef_replicates_.std(axis=0) for c in (one, clf))
    # two independent fits would differ by √2 standard deviations or so; these have seen the same rows
    assert (np.abs(clf.coef_ - one.coef_)[0] < spread).all()
    # a standard deviation by 200 replicates has a relative error of 1/√400: that of a ratio of two of them, times four
    assert (np.abs(np.log(other / spread)) < 4.0 / np.sqrt(200)).all()
    ask = [c.fairness_interval(*test[:2], sensitive_features=test[2]) for c in (one, clf)]
    assert abs(ask[0].estimate - ask[1].estimate) < ask[0].high - ask[0].low


def test_shards_too_short_to_forget_their_start_are_warned_of(tmp_path):
    # labels that can almost be told without error: the flattest direction takes 100,000 rows or so
    (X, y, z), D = drawn(sf.datasets.SyntheticDI, 0, 24_000), drawn(sf.datasets.SyntheticDI, 1, 1_000)
    one = classifier(**FORMS["penalty"]).fit(X, y, sensitive_features=z, constraint_set=D)
    clf = classifier(**FORMS["penalty"])
    with pytest.warns(StartNotForgotten, match="merged fits: on more in each"):
        fit_shards(clf, [(X[i::10], y[i::10], z[i::10]) for i in range(10)], constraint_set=D)
    assert (clf.coef_replicates_.std(axis=0) < 0.7 * one.coef_replicates_.std(axis=0)).all()  # why the warning is due
    sf.save(clf, tmp_path / "clf.npz")
    with pytest.warns(StartNotForgotten):
        sf.load(tmp_path / "clf.npz").coef_interval()


def missing():
    raise FileNotFoundError("part-7.parquet")


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_the_error_of_a_partition_says_which_it_was(backend):
    parts, clf = partitions(), classifier()
    X, y, z = parts[1]
    bad = [parts[0], (np.where(X > 2.0, np.nan, X), y, z), parts[2]]
    with on(backend):
        with pytest.raises(ValueError, match=r"Partition 1: Input X contains NaN"):
            fit_shards(clf, bad, constraint_set=apart())
        with pytest.raises(ValueError, match=r"Partition 2: Rows must come as a tuple .*received tuple of 2 parts"):
            fit_shards(clf, [*parts[:2], (X, y)], constraint_set=apart())
        with pytest.raises(FileNotFoundError) as caught:
            fit_shards(clf, [parts[0], missing], constraint_set=apart())
    assert "It was raised by partition 1." in caught.value.__notes__
    assert not hasattr(clf, "classes_")


def test_what_shards_need():
    X, y, z = apart()
    with pytest.raises(ValueError, match="There are no partitions"):
        fit_shards(classifier(), [], constraint_set=(X, y, z))
    with pytest.raises(ValueError, match=r"constraint_set must be a tuple .* received 2 parts"):
        fit_shards(classifier(), partitions(), constraint_set=(X, y))
    with pytest.raises(ValueError, match=r"constraint_set: It must hold both labels; received \[1\] only"):
        fit_shards(classifier(), partitions(), constraint_set=(X[y == 1], y[y == 1], z[y == 1]))
    with pytest.raises(ValueError, match=r"constraint_set: .*NaN"):
        fit_shards(classifier(), partitions(), constraint_set=(np.full_like(X, np.nan), y, z))


# -- Merging ----------------------------------------------------------------------------------------------------------


def nothing_yet():
    """A fit with its constraint set, and no rows."""
    return fit_shards(classifier(random_state=9), [tuple(part[:0] for part in apart())], constraint_set=apart())


def shard(number):
    X, y, z = partitions()[number]
    return classifier(random_state=number).fit(X, y, sensitive_features=z, constraint_set=apart())


def test_a_fit_without_rows_is_the_identity_of_merging():
    expected = shard(0)
    for found in (shard(0).merge(nothing_yet()), nothing_yet().merge(shard(0))):
        assert found.n_rows_ == expected.n_rows_
        np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(found.coef_replicates_, expected.coef_replicates_, rtol=1e-11, atol=1e-13)
        assert found.group_counts_["n"].tolist() == expected.group_counts_["n"].tolist()


def run(*arguments):
    return CliRunner().invoke(main, ["merge", *map(str, arguments)])


@pytest.fixture
def files(tmp_path):
    for i in range(3):
        sf.save(shard(i), tmp_path / f"{i}.npz")
    return [tmp_path / f"{i}.npz" for i in range(3)]


def test_files_of_shards_are_merged_by_the_command_line(files, tmp_path):
    done = run(*files, "--out", tmp_path / "all.npz")
    assert (done.exit_code, done.output) == (0, f"3 fits of 700 rows: {tmp_path / 'all.npz'}\n")
    assert state_of(sf.load(tmp_path / "all.npz")) == state_of(shard(0).merge(shard(1)).merge(shard(2)))


def test_what_the_command_line_cannot_merge(files, tmp_path):
    out = tmp_path / "all.npz"
    (tmp_path / "no.npz").write_bytes(b"no")
    X, y, z = partitions()[0]
    sf.save(classifier(alpha=0.5).fit(X, y, sensitive_features=z, constraint_set=apart()), tmp_path / "other.npz")
    sf.save(classifier(), tmp_path / "unfitted.npz")
    for arguments, code, words in [
        (files[:1], 2, "two files at least"),
        ([files[0], tmp_path / "no.npz"], 1, "no.npz' is not a surefair file"),
        ([files[0], files[0]], 1, "count every row twice"),
        ([files[0], tmp_path / "other.npz"], 1, "other.npz: The fits are of different problems: alpha differ"),
        ([files[0], tmp_path / "unfitted.npz"], 1, "unfitted.npz: This FairClassifier instance is not fitted yet"),
        ([files[0], tmp_path / "absent.npz"], 2, "does not exist"),
    ]:
        done = run(*arguments, "--out", out)
        assert done.exit_code == code
        assert words in " ".join(done.output.split())
    assert not out.exists()
