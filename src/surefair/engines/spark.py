"""Spark: jobs of a session; DataFrames, as Arrow batches.

A task is done again on a cluster where its worker was lost. A master on this machine does so only where its URL says
how often a task may fail, as in ``local[4,4]``: plain ``local[4]`` gives up at once.
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

from surefair.engines._workers import comes_from, n_workers, needed, reach

QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
MASTERS = ("local", "spark://", "yarn", "k8s://", "mesos://")
SCHEMA = pa.schema([("number", pa.int64()), ("result", pa.binary())])


@contextmanager
def connect(address: str | None, n_jobs: int | None) -> Iterator[Any]:
    """Give a session."""
    sql = needed("pyspark.sql", "spark", "pyspark")
    if (session := sql.SparkSession.getActiveSession()) is not None:
        if "connect" in type(session).__module__:
            raise ValueError(
                "This process has a session of Spark Connect, on which surefair can fit DataFrames but do no other "
                "tasks. Connect to the master itself, or use another engine."
            )
        if address is not None and address != session.sparkContext.master:
            raise ValueError(
                f"This process has a Spark session with the master {session.sparkContext.master!r}, and can have only "
                f"one; received {address!r}. Stop it first, or leave the address out."
            )
        yield session
        return
    builder = sql.SparkSession.builder.appName("surefair").config(map=QUIET)
    if address is None:  # workers are of this Python, whatever is called python3, and nobody else need reach them
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    elif not address.startswith(MASTERS):
        raise ValueError(f"A Spark master is called {', '.join(MASTERS)} and so on; received {address!r}.")
    try:
        if address is not None and address.startswith("spark://"):
            reach(address)
        before = signal.getsignal(signal.SIGINT)
        session = builder.master(f"local[{n_workers(n_jobs)},4]" if address is None else address).getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)  # Spark's own talks to Java in the middle of a talk
    except Exception as error:  # of Java, or of a gateway that did not start
        why = str(error).strip().partition("\n")[0]
        raise ConnectionError(
            f"No Spark session with the master {address or 'local'!r} could be started ({why}). Is Java installed, and "
            "does the master answer?"
        ) from error
    try:
        yield session
    finally:
        with suppress(Exception):  # where it is ended in the middle of a job, that is what it complains of
            session.sparkContext.setLogLevel("OFF")
        session.stop()


def run(connection: Any, work: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
    """Do tasks in one job; results wait with the executors, or on their disks, until they are asked for."""
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
    """Whether data is a Spark DataFrame, of a session in this process or by Spark Connect."""
    return comes_from(data, ("pyspark.sql",), ("DataFrame",))


def over(data: Any, work: Callable[[int, Any], bytes], n_jobs: int | None) -> Iterator[bytes]:
    """Work on partitions in one job."""
    done = data.mapInArrow(_worked(work), "number long, result binary").persist(_level())
    try:
        done.count()
        last = -1
        for row in done.toLocalIterator():  # partition by partition
            if row.number <= last:
                raise RuntimeError(f"Spark gave partition {row.number} after partition {last}.")
            last = row.number
            yield bytes(row.result)
    finally:
        done.unpersist()


def _worked(work: Callable[[int, Any], bytes]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def worked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number = _spark().TaskContext.get().partitionId()
        yield pa.RecordBatch.from_pydict({"number": [number], "result": [work(number, batches)]}, schema=SCHEMA)

    return worked


def _level() -> Any:
    return _spark().StorageLevel.MEMORY_AND_DISK


def _spark() -> Any:
    return needed("pyspark", "spark", "pyspark")
