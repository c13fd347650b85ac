"""Fits are bit-identical on every engine: blocks of replicates to one process, partitions to ``fit_shards``."""

from __future__ import annotations

import os
import signal

import joblib
import numpy as np
import pandas as pd
import pytest
from fits import state_of

import surefair as sf
from surefair.parallel import blocks, fit_partitions, fit_replicates, fit_replicates_stream, fit_shards, partitions

FEATURES = ["a", "b", "c"]
ROLES = {"label": "hired", "sensitive": "sex", "features": FEATURES}


def classifier(**params):
    return sf.FairClassifier(
        **({"n_replicates": 200, "solver": "one_pass", "n_warmup": 200, "random_state": 3} | params)
    )


def deadly(function, marker):
    """Return a function that kills the first process that calls it."""

    def killed(*args):
        if not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args)

    return killed


# -- Replicates in blocks ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows(people):
    table = people(600, 0)
    return table[FEATURES], table["hired"], {"sensitive_features": table["sex"], "sample_weight": table["weight"]}


@pytest.fixture(scope="module")
def one(rows):
    X, y, more = rows
    return classifier().fit(X, y, **more)


@pytest.fixture
def backend(request):
    """Prepare a joblib backend, and return its name."""
    name = request.param
    if name in ("dask", "ray"):
        request.getfixturevalue(name)
    if name == "ray":
        from ray.util.joblib import register_ray

        register_ray()
    return name


@pytest.mark.parametrize("n_blocks", [1, 2, 7])
def test_blocks_on_an_engine_are_bit_identical_to_one_process(engine, n_blocks, rows, one):
    X, y, more = rows
    many = fit_replicates(classifier(), X, y, **more, n_blocks=n_blocks, engine=engine)
    assert state_of(many) == state_of(one)
    assert np.array_equal(many.coef_, one.coef_)
    assert np.array_equal(many.coef_replicates_, one.coef_replicates_)


@pytest.mark.parametrize("n_blocks", [1, 2, 7])
@pytest.mark.parametrize("backend", ["loky", "threading", "dask", "ray"], indirect=True)
def test_blocks_on_a_joblib_backend_are_bit_identical_to_one_process(backend, n_blocks, rows, one):
    X, y, more = rows
    with joblib.parallel_config(backend=backend, n_jobs=2):
        many = fit_replicates(classifier(), X, y, **more, n_blocks=n_blocks)
    assert state_of(many) == state_of(one)
    assert np.array_equal(many.coef_replicates_, one.coef_replicates_)


def test_workers_of_an_engine_read_a_stream_as_local_ones_do(engine, rows, people):
    X, y, more = rows
    weight, table = more["sample_weight"], people(150, 9)
    first = table[FEATURES], table["hired"], table["sex"]

    def batches():
        for low in (0, 250, 500):
            part = slice(low, low + 250)
            yield X[part], y[part], more["sensitive_features"][part], weight[part]

    found, here = (
        fit_replicates_stream(classifier(), batches, warmup=first, n_blocks=3, engine=name)
        for name in (engine, "local")
    )
    assert state_of(found) == state_of(here)


def test_blocks_of_a_dead_worker_run_again(engine, rows, one, monkeypatch, tmp_path):
    X, y, more = rows
    monkeypatch.setattr(blocks, "_block", deadly(blocks._block, tmp_path / "died"))
    many = fit_replicates(classifier(), X, y, **more, n_blocks=3, engine=engine)
    assert (tmp_path / "died").exists()
    assert state_of(many) == state_of(one)


# -- Partitions -------------------------------------------------------------------------------------------------------


def by_shards(parts, first, sensitive=("sex",), weight=None):
    """Fit the same partitions with ``fit_shards``."""

    def rows(table):
        return table[FEATURES], table["hired"], table[[*sensitive]], *([] if weight is None else [table[weight]])

    return fit_shards(classifier(), [rows(part) for part in parts], warmup=rows(first))


def same(found, expected):
    assert state_of(found) == state_of(expected)
    pd.testing.assert_frame_equal(found.group_counts_, expected.group_counts_)
    assert found.get_params() == classifier().get_params()


def test_partitions_are_fitted_like_shards(dataset, people):
    parts, first = [people(300, seed) for seed in (1, 2, 3)], people(150, 0)
    clf = classifier()
    assert fit_partitions(clf, dataset(parts), **ROLES, warmup=first) is clf
    same(clf, by_shards(parts, first))


def test_partitions_with_weights_several_groups_and_an_empty_partition(dataset, people):
    parts, first = [people(n, seed) for seed, n in enumerate((200, 0, 300), start=1)], people(150, 0)
    asked = {"label": "hired", "sensitive": ["sex", "region"], "weights": "weight"}
    found = fit_partitions(classifier(), dataset(parts), **asked, warmup=first)
    assert found.n_rows_ == 150 + 500
    assert list(found.feature_names_in_) == FEATURES
    same(found, by_shards(parts, first, ("sex", "region"), "weight"))


def test_partitions_of_a_dead_worker_run_again(engine, people, request, monkeypatch, tmp_path):
    from_frames = {"dask": "dask_bag", "ray": "ray_dataset", "spark": "spark_frame"}
    datasets = request.config.pluginmanager.get_plugin(str(request.path.parent / "conftest.py"))
    parts, first = [people(300, seed) for seed in (1, 2, 3)], people(150, 0)
    data = getattr(datasets, from_frames[engine])(request.getfixturevalue(engine), parts)
    monkeypatch.setattr(partitions, "_fit_partition", deadly(partitions._fit_partition, tmp_path / "died"))
    found = fit_partitions(classifier(), data, **ROLES, warmup=first)
    assert (tmp_path / "died").exists()
    same(found, by_shards(parts, first))


def test_the_error_names_the_first_bad_row(dataset, people):
    parts, clf = [people(300, seed) for seed in (1, 2, 3)], classifier()
    parts[2].loc[[117, 200], "b"] = np.nan
    with pytest.raises(ValueError, match=r"^Partition 2, row 118: no finite number in 'b'\. Fill in") as caught:
        fit_partitions(clf, dataset(parts), **ROLES, warmup=people(150, 0))
    assert type(caught.value) is ValueError
    assert not hasattr(clf, "classes_")


# -- Calibration ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def calibrated(people):
    def calibrated():
        table = people(2_000, 0)
        asked = {"n_rows": 300, "n_evaluation": 200, "repetitions": 3, "progress": False, "n_jobs": 2}
        clf = classifier(n_replicates=20)
        return sf.calibrate(clf, table[FEATURES], table["hired"], sensitive_features=table["sex"], **asked).to_dict()

    return calibrated


@pytest.mark.parametrize("backend", ["loky", "dask", "ray"], indirect=True)
def test_calibration_is_the_same_on_every_joblib_backend(backend, calibrated):
    with joblib.parallel_config(backend=backend, n_jobs=2):
        found = calibrated()
    assert found == calibrated()
