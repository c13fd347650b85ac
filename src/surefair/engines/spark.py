"""Run work as jobs of a Spark session; data sets are DataFrames, read as Arrow batches.

A cluster runs a task again if its worker is lost. A master on this machine does so only if its URL says how often a
task may fail, as in ``local[4,4]``; plain ``local[4]`` gives up at once.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa

from surefair.engines._workers import check_reachable, import_extra, is_instance_of, n_workers

QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
MASTERS = ("local", "spark://", "yarn", "k8s://", "mesos://")
SCHEMA = pa.schema([("number", pa.int64()), ("result", pa.binary())])


@contextmanager
def connect(address: str | None, n_jobs: int | None) -> Iterator[Any]:
    """Give a session."""
    sql = import_extra("pyspark.sql", "spark", "pyspark")
    if (session := sql.SparkSession.getActiveSession()) is not None:
        if "connect" in type(session).__module__:
            raise ValueError(
                "This process has a Spark Connect session, on which surefair can fit DataFrames but cannot run other "
                "tasks. Connect to the master itself, or use another engine."
            )
        if address is not None and address != session.sparkContext.master:
            raise ValueError(
                f"This process has a Spark session with the master {session.sparkContext.master!r}, and can have only "
                f"one; received {address!r}. Stop the session first, or leave the address out."
            )
        yield session
        return
    builder = sql.SparkSession.builder.appName("surefair").config(map=QUIET)
    if address is None:  # workers use this Python, not any python3, and only this machine needs to reach them
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    elif not address.startswith(MASTERS):
        raise ValueError(
            f"The URL of a Spark master starts with {', '.join(MASTERS)}; received {address!r}. Correct it."
        )
    try:
        if address is not None and address.startswith("spark://"):
            check_reachable(address)
        before = signal.getsignal(signal.SIGINT)
        session = builder.master(f"local[{n_workers(n_jobs)},4]" if address is None else address).getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)  # Spark's handler would call Java in the middle of another call
    except Exception as error:  # from Java, or because the gateway did not start
        why = str(error).strip().partition("\n")[0]
        raise ConnectionError(
            f"No Spark session with the master {address or 'local'!r} could be started ({why}). Check that Java is "
            "installed and that the master answers."
        ) from error
    try:
        yield session
    finally:
        with suppress(Exception):  # Spark complains if it is stopped in the middle of a job
            session.sparkContext.setLogLevel("OFF")
        session.stop()


def run(connection: Any, work: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
    """Call work on each task in one job; results stay with the executors or on their disks until they are fetched."""
    tasks = list(tasks)
    if not tasks:
        return
    done = connection.sparkContext.parallelize(tasks, len(tasks)).map(work)
    done.persist(_level())
    try:
        done.count()
        yield from done.toLocalIterator()
    finally:
        done.unpersist()


def owns(data: Any) -> bool:
    """Whether data is a Spark DataFrame, from a session in this process or from Spark Connect."""
    return is_instance_of(data, ("pyspark.sql",), ("DataFrame",))


def over(data: Any, work: Callable[[int, Any], bytes], n_jobs: int | None) -> Iterator[bytes]:
    """Call work on each partition in one job."""
    done = data.mapInArrow(_on_partition(work), "number long, result binary").persist(_level())
    try:
        done.count()
        last = -1
        for row in done.toLocalIterator():  # one partition at a time
            if row.number <= last:
                raise RuntimeError(f"Spark returned partition {row.number} after partition {last}.")
            last = row.number
            yield bytes(row.result)
    finally:
        done.unpersist()


def _on_partition(work: Callable[[int, Any], bytes]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Wrap work as a function of a partition's batches that yields its number and result as one row."""

    def on_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number = _spark().TaskContext.get().partitionId()
        yield pa.RecordBatch.from_pydict({"number": [number], "result": [work(number, batches)]}, schema=SCHEMA)

    return on_partition


def _level() -> Any:
    return _spark().StorageLevel.MEMORY_AND_DISK


def _spark() -> Any:
    return import_extra("pyspark", "spark", "pyspark")
