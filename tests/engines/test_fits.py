"""A fit is the same bits on every engine: replicates in blocks as in one process, partitions as by ``fit_shards``."""

from __future__ import annotations

import os
import signal
from functools import partial

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import surefair as sf
from surefair.diagnostics import LateGroup
from surefair.parallel import blocks as distributed
from surefair.parallel.blocks import fit_partitions, fit_replicates, fit_replicates_stream, fit_shards

FEATURES = ["a", "b", "c"]
ROLES = {"label": "hired", "sensitive": "sex", "features": FEATURES}


def classifier(**params):
    return sf.FairClassifier(**({"n_replicates": 200, "random_state": 3} | params))


def state_of(clf):
    return [np.asarray(array).tobytes() for array in clf._fit.state], clf._fit.weight, clf.seed_, clf.n_rows_


def deadly(function, marker):
    """A function whose first caller is killed."""

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
    """Name of a backend of joblib, made ready."""
    name = request.param
    if name in ("dask", "ray"):
        request.getfixturevalue(name)
    if name == "ray":
        from ray.util.joblib import register_ray

        register_ray()
    return name


@pytest.mark.parametrize("n_blocks", [1, 2, 7])
def test_blocks_on_an_engine_are_the_fit_of_one_process(engine, n_blocks, rows, one):
    X, y, more = rows
    many = fit_replicates(classifier(), X, y, **more, n_blocks=n_blocks, engine=engine)
    assert state_of(many) == state_of(one)
    assert np.array_equal(many.coef_, one.coef_)
    assert np.array_equal(many.coef_replicates_, one.coef_replicates_)


@pytest.mark.parametrize("n_blocks", [1, 2, 7])
@pytest.mark.parametrize("backend", ["loky", "threading", "dask", "ray"], indirect=True)
def test_blocks_on_a_backend_of_joblib_are_the_fit_of_one_process(backend, n_blocks, rows, one):
    X, y, more = rows
    with joblib.parallel_config(backend=backend, n_jobs=2):
        many = fit_replicates(classifier(), X, y, **more, n_blocks=n_blocks)
    assert state_of(many) == state_of(one)
    assert np.array_equal(many.coef_replicates_, one.coef_replicates_)


def test_a_stream_that_workers_of_an_engine_read(engine, rows, people):
    X, y, more = rows
    weight, apart = more["sample_weight"], people(150, 9)
    D = apart[FEATURES], apart["hired"], apart["sex"]

    def batches():
        for low in (0, 250, 500):
            part = slice(low, low + 250)
            yield X[part], y[part], more["sensitive_features"][part], weight[part]

    found, here = (
        fit_replicates_stream(classifier(), batches, constraint_set=D, n_blocks=3, engine=name)
        for name in (engine, "local")
    )
    assert state_of(found) == state_of(here)


def test_blocks_of_a_worker_that_dies(engine, rows, one, monkeypatch, tmp_path):
    X, y, more = rows
    monkeypatch.setattr(distributed, "_block", deadly(distributed._block, tmp_path / "died"))
    many = fit_replicates(classifier(), X, y, **more, n_blocks=3, engine=engine)
    assert (tmp_path / "died").exists()
    assert state_of(many) == state_of(one)


# -- Partitions -------------------------------------------------------------------------------------------------------


def by_shards(parts, apart, sensitive=("sex",), weight=None):
    """What ``fit_shards`` makes of the same partitions."""

    def rows(table):
        return table[FEATURES], table["hired"], table[[*sensitive]], *([] if weight is None else [table[weight]])

    return fit_shards(classifier(), [rows(part) for part in parts], constraint_set=rows(apart))


def same(found, expected):
    assert state_of(found) == state_of(expected)
    pd.testing.assert_frame_equal(found.group_counts_, expected.group_counts_)
    assert found.get_params() == classifier().get_params()


def test_partitions_are_fitted_as_shards(dataset, people):
    parts, apart = [people(300, seed) for seed in (1, 2, 3)], people(150, 0)
    clf = classifier()
    assert fit_partitions(clf, dataset(parts), **ROLES, constraint_set=apart) is clf
    same(clf, by_shards(parts, apart))


def test_partitions_with_weights_several_columns_and_nothing_in_one(dataset, people):
    parts, apart = [people(n, seed) for seed, n in enumerate((200, 0, 300), start=1)], people(150, 0)
    asked = {"label": "hired", "sensitive": ["sex", "region"], "sample_weight": "weight"}
    found = fit_partitions(classifier(), dataset(parts), **asked, constraint_set=apart)
    assert found.n_rows_ == 500
    assert list(found.feature_names_in_) == FEATURES
    same(found, by_shards(parts, apart, ("sex", "region"), "weight"))


def test_partitions_of_a_worker_that_dies(engine, people, request, monkeypatch, tmp_path):
    from_frames = {"dask": "dask_bag", "ray": "ray_dataset", "spark": "spark_frame"}
    datasets = request.config.pluginmanager.get_plugin(str(request.path.parent / "conftest.py"))
    parts, apart = [people(300, seed) for seed in (1, 2, 3)], people(150, 0)
    data = getattr(datasets, from_frames[engine])(request.getfixturevalue(engine), parts)
    monkeypatch.setattr(distributed, "_partition", deadly(distributed._partition, tmp_path / "died"))
    found = fit_partitions(classifier(), data, **ROLES, constraint_set=apart)
    assert (tmp_path / "died").exists()
    same(found, by_shards(parts, apart))


def test_the_first_bad_row_is_named(dataset, people):
    parts, clf = [people(300, seed) for seed in (1, 2, 3)], classifier()
    parts[2].loc[[117, 200], "b"] = np.nan
    with pytest.raises(ValueError, match=r"^Partition 2, row 118: no finite number in 'b'\. Fill in") as caught:
        fit_partitions(clf, dataset(parts), **ROLES, constraint_set=people(150, 0))
    assert type(caught.value) is ValueError
    assert not hasattr(clf, "classes_")


def test_a_constraint_set_does_not_come_back(people, monkeypatch):
    sizes, blob = [], distributed.archived
    monkeypatch.setattr(distributed, "archived", lambda *args: sizes.append(len(made := blob(*args))) or made)
    clf, apart = classifier(n_replicates=0), people(20_000, 0)
    fit_partitions(clf, [people(300, 1), people(300, 2)], **ROLES, constraint_set=apart)
    sent, *back = sizes
    assert sent > 20_000 * 3 * 8
    assert max(back) < 20_000


# -- Partitions on this machine ---------------------------------------------------------------------------------------


def stored(parts, folder):
    """Paths of Parquet files."""
    for number, part in enumerate(parts):
        part.to_parquet(folder / f"part-{number}.parquet", row_group_size=70)
    return [folder / f"part-{number}.parquet" for number in range(len(parts))]


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_an_iterable_of_anything_that_holds_rows(people, tmp_path, n_jobs):
    parts, apart = [people(300, seed) for seed in (1, 2, 3)], people(150, 0)
    tables = [pa.Table.from_pandas(part) for part in parts]
    paths, expected = stored(parts, tmp_path), by_shards(parts, apart)
    for data in (
        parts,
        iter(tables),
        [table.combine_chunks().to_batches()[0] for table in tables],
        [table.to_batches(41) for table in tables],
        paths,
        map(str, paths),
        [partial(pd.read_parquet, path) for path in paths],
    ):
        found = fit_partitions(classifier(n_jobs=n_jobs), data, **ROLES, constraint_set=apart)
        assert state_of(found) == state_of(expected)


def test_bad_rows_of_files(people, tmp_path):
    def mended(column, row, value):
        part = people(300, 2)
        part.loc[row - 1, column] = value
        paths = stored([people(300, 1), part], tmp_path)
        return fit_partitions(classifier(), paths, **asked, constraint_set=people(150, 0))

    asked = {**ROLES, "sample_weight": "weight"}
    for column, row, value, words in [
        ("a", 1, np.nan, "no finite number in 'a'"),
        ("c", 300, np.inf, "no finite number in 'c'"),
        ("hired", 71, "perhaps", "The label column contains 'perhaps', never declared before"),
        ("sex", 18, None, r"The 'sex' group column contains NaN or missing values\. Drop"),
        ("weight", 200, -1.0, r"sample_weight is negative: -1\.0"),
    ]:
        with pytest.raises(ValueError, match=rf"^Partition 1, row {row} \(of file part-1.parquet\): {words}"):
            mended(column, row, value)


def test_what_is_wrong_with_a_whole_column_names_no_row(people, tmp_path):
    part, apart = people(300, 2), people(150, 0)
    for wrong, words in [
        (part.drop(columns="b"), "There is no column 'b'; the columns are 'a', 'c', "),
        (part.assign(b="x"), "Column 'b' is of type String, and features must be numbers.*surefair audit"),
        (part.assign(sex=1), "The 'sex' group columns are of different types, text and numbers"),
        (part.assign(b=np.nan), "Input X contains NaN"),
        (part.to_numpy(), "Rows must come as data frames or Arrow tables; received ndarray"),
    ]:
        with pytest.raises(ValueError, match=f"^Partition 1: {words}"):
            fit_partitions(classifier(), [part, wrong], **ROLES, constraint_set=apart)
    (tmp_path / "part.parquet").write_bytes(b"no")
    with pytest.raises(ValueError, match=r"^Partition 0 \(of file part.parquet\): "):
        fit_partitions(classifier(), [tmp_path / "part.parquet"], **ROLES, constraint_set=apart)
    with pytest.raises(FileNotFoundError) as caught:
        fit_partitions(classifier(), [tmp_path / "absent.parquet"], **ROLES, constraint_set=apart)
    assert caught.value.__notes__ == ["It was raised by partition 0."]


def test_what_partitions_need(people):
    part, apart = people(300, 1), people(150, 0)
    fit = partial(fit_partitions, classifier(), [part], label="hired", sensitive="sex")
    with pytest.raises(ValueError, match="constraint_set: There is no column 'hired'"):
        fit(constraint_set=apart.drop(columns="hired"))
    with pytest.raises(ValueError, match="constraint_set: Column 'd' is of type String"):
        fit(constraint_set=apart.assign(d="x"))
    with pytest.raises(ValueError, match=r"constraint_set: Rows must come as data frames .* received tuple"):
        fit(constraint_set=(1, 2, 3))
    with pytest.raises(ValueError, match="There are no partitions"):
        fit_partitions(classifier(), [], **ROLES, constraint_set=apart)


def test_a_group_that_a_worker_meets_late_is_warned_of_here(people, recwarn):
    parts, apart = [people(300, 1), people(300, 2)], people(150, 0)
    parts[1].loc[5:9, "sex"] = "x"
    with pytest.warns(LateGroup, match="'x' of 'sex' was not in the constraint set"):
        clf = fit_partitions(classifier(n_jobs=2), parts, **ROLES, constraint_set=apart)
    assert clf.group_counts_["n"].sum() == 600
    assert "x" in clf.group_counts_["group"].tolist()


# -- The laboratory ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def calibrated(people):
    def calibrated():
        table = people(2_000, 0)
        asked = {"n_rows": 300, "n_evaluation": 200, "repetitions": 3, "progress": False, "n_jobs": 2}
        clf = classifier(n_replicates=20)
        return sf.calibrate(clf, table[FEATURES], table["hired"], sensitive_features=table["sex"], **asked).to_dict()

    return calibrated


@pytest.mark.parametrize("backend", ["loky", "dask", "ray"], indirect=True)
def test_calibration_on_a_backend_of_joblib(backend, calibrated):
    with joblib.parallel_config(backend=backend, n_jobs=2):
        found = calibrated()
    assert found == calibrated()
