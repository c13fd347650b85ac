"""Start one local cluster each of Dask, Ray and Spark; skip the tests of a package that is not installed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

CLUSTERS = ["dask", "ray", "spark"]
KINDS = ["dask frame", "dask bag", "ray", "spark"]
SRC = str(Path(__file__).parents[2] / "src")

IGNORED = [
    "ignore::surefair.diagnostics.Diagnostic",  # fits on few rows
    r"ignore:`use_\w+` is deprecated:DeprecationWarning",  # Ray warns about its own settings
    "ignore:PySpark does not yet fully support pandas:FutureWarning",  # only tests use mapInPandas
]


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent == Path(__file__).parent:
            for line in IGNORED:
                item.add_marker(pytest.mark.filterwarnings(line), append=False)


def needs(package):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed: make test-distributed")


@pytest.fixture(scope="session", autouse=True)
def surroundings():
    """Let workers find surefair and use the same Python."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [SRC, os.environ.get("PYTHONPATH")])))
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # otherwise Ray warns about a future change
        yield


@pytest.fixture(scope="session")
def dask(surroundings):
    for package in ("dask", "distributed"):
        needs(package)
    import distributed

    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="session")
def ray(surroundings):
    needs("ray")
    import ray

    ray.init("local", num_cpus=2, include_dashboard=False, logging_level="error", log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield ray
    ray.shutdown()


@pytest.fixture(scope="session")
def spark(surroundings):
    needs("pyspark")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java, which is not installed")
    from pyspark.sql import SparkSession

    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.host": "127.0.0.1"}
    session = SparkSession.builder.master("local[2,4]").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("OFF")  # tests kill workers
    yield session
    session.stop()


@pytest.fixture(params=CLUSTERS)
def engine(request):
    """Return the name of an engine whose cluster is running."""
    request.getfixturevalue(request.param)
    return request.param


@pytest.fixture(params=KINDS)
def dataset(request):
    """Return a function that turns frames into a data set with these partitions."""
    kind, context = request.param, request.getfixturevalue(request.param.split()[0])
    return lambda parts: DATASETS[kind](context, parts)


def dask_frame(client, parts):
    import dask
    import dask.dataframe

    return dask.dataframe.from_delayed([dask.delayed(part) for part in parts], meta=parts[0][:0])


def dask_bag(client, parts):
    import dask
    import dask.bag

    return dask.bag.from_delayed([dask.delayed(pa.Table.from_pandas(part).to_batches(97)) for part in parts])


def ray_dataset(ray, parts):
    return ray.data.from_arrow([pa.Table.from_pandas(part) for part in parts])


def spark_frame(session, parts):
    def partition(batches):
        for batch in batches:
            for number in batch["id"]:
                yield parts[number]

    kinds = {"f": "double", "i": "long"}
    schema = ", ".join(f"{name} {kinds.get(kind.kind, 'string')}" for name, kind in parts[0].dtypes.items())
    return session.range(0, len(parts), 1, len(parts)).mapInPandas(partition, schema)


DATASETS = {"dask frame": dask_frame, "dask bag": dask_bag, "ray": ray_dataset, "spark": spark_frame}


@pytest.fixture(scope="session")
def people():
    """Return a function that makes a table of people, with groups as text and as numbers, and weights."""

    def table(n, seed):
        rng = np.random.default_rng(seed)
        sex, region = rng.integers(2, size=n), rng.integers(3, size=n)
        X = rng.normal(size=(n, 3))
        X[:, 0] += 0.8 * sex
        y = X.sum(axis=1) + rng.logistic(size=n) > 0.5
        columns = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "hired": np.where(y, "yes", "no")}
        groups = {"sex": np.where(sex == 1, "m", "f"), "region": region, "weight": rng.exponential(size=n)}
        return pd.DataFrame(columns | groups)

    return table
