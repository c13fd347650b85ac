"""Run work in parallel: on this machine with joblib, or on a Dask, Ray or Spark cluster. One file per engine.

An engine carries work to its workers and results back, and knows nothing about classifiers. Each file has four
functions:

``connect(address, n_jobs)``
    Context manager that gives what ``run`` needs. With an address, it connects to that cluster. Without one, it uses
    the connection that this process already has and leaves it open; if there is none, it starts a cluster of ``n_jobs``
    workers on this machine and stops it on exit.
``run(connection, work, tasks)``
    Call ``work`` on each task in parallel, and yield the results one at a time, in the order of the tasks.
``owns(data)``
    Whether data is a data set of this engine. This imports nothing.
``over(data, work, n_jobs)``
    Call ``work(number, frames)`` on each partition of a data set, where it is stored, and yield the results, as bytes,
    one at a time, in the order of the partitions. ``frames`` is a pandas or Arrow frame, or an iterable of them.
    Partitions without rows may be skipped.

Each engine handles workers that die: Dask, Ray and Spark run their tasks again, and joblib a few times. Errors of the
work itself are not retried. A ``ValueError``, ``OSError`` or ``MemoryError`` comes back as data, and is raised again
here with the worker's traceback as its cause.
"""

from __future__ import annotations

import builtins
import importlib
import json
import pkgutil
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import partial
from typing import Any, Protocol, cast

from surefair.names import one_of

ENGINES = tuple(found.name for found in pkgutil.iter_modules(__path__) if not found.name.startswith("_"))
"""Names of the engines."""

Run = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
"""Function of work and tasks that yields results."""

FOREIGN = ("joblib", "concurrent", "distributed", "dask", "ray", "py4j", "pyspark")
"""Packages whose errors come from an engine and not from the work."""

_FAILED = b"surefair:failed:8f1c2a5e\n"


class Engine(Protocol):
    """The functions of an engine's file."""

    def connect(self, address: str | None, n_jobs: int | None) -> AbstractContextManager[Any]:
        """Connect to a cluster, or start one."""

    def run(self, connection: Any, work: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        """Call work on each task."""

    def owns(self, data: Any) -> bool:
        """Whether data is a data set of this engine."""

    def over(self, data: Any, work: Callable[[int, Any], bytes], n_jobs: int | None) -> Iterator[bytes]:
        """Call work on each partition."""


class EngineFailed(RuntimeError):
    """An engine gave up, for example because its workers keep dying."""


class WorkerTraceback(Exception):
    """The traceback of an error on a worker, as text; it is the cause of the error raised here."""


def get_engine(name: str) -> Engine:
    """Return an engine by name; its packages are imported when it is first used.

    Examples
    --------
    >>> get_engine("dask").owns([1, 2])
    False
    """
    return cast(Engine, importlib.import_module(f"{__name__}.{one_of(name, ENGINES, 'engine')}"))


@contextmanager
def connected(engine: str, address: str | None = None, n_jobs: int | None = None) -> Iterator[Run]:
    """Connect to an engine, and give a function that runs tasks on it.

    Parameters
    ----------
    engine : {"local", "dask", "ray", "spark"}
    address : str, optional
        Address of a Dask scheduler or a Ray cluster, or the URL of a Spark master.
    n_jobs : int, optional
        Number of workers if a cluster is started here; by default one for each core of this machine. For "local" it
        is joblib's ``n_jobs``.

    Yields
    ------
    callable
        Function of work and tasks that yields the result of each task, in order.

    Examples
    --------
    >>> with connected("local", n_jobs=2) as run:
    ...     list(run(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    found = get_engine(engine)
    with found.connect(address, n_jobs) as connection, ExitStack() as begun:  # ends unfinished runs, then disconnects
        yield lambda work, tasks: begun.enter_context(
            closing(_raise_failures(found.run(connection, partial(_attempt, work), tasks)))
        )


def over(data: Any, work: Callable[[int, Any], bytes], n_jobs: int | None = None) -> Iterator[bytes]:
    """Call work on each partition of a data set of any engine; the items of a plain iterable are partitions.

    Parameters
    ----------
    data : Dask DataFrame or Bag, Ray Dataset, Spark DataFrame or iterable
    work : callable
        Function of a partition's number and its rows that returns bytes.
    n_jobs : int, optional
        As in `connected`.

    Examples
    --------
    >>> list(over(["ab", "c"], lambda number, part: f"{number}{part}".encode()))
    [b'0ab', b'1c']
    """
    local_last = sorted(ENGINES, key="local".__eq__)  # data sets of a cluster may be iterables as well
    for engine in map(get_engine, local_last):
        if engine.owns(data):
            return _raise_failures(engine.over(data, partial(_attempt, work), n_jobs))
    raise ValueError(
        "data must be a Dask DataFrame or Bag, a Ray Dataset, a Spark DataFrame, or an iterable of partitions; "
        f"received {type(data).__name__}. Put a single frame in a list."
    )


def _attempt(work: Callable[..., Any], *task: Any) -> Any:
    """Run one task on a worker, and return likely errors as data, since each engine wraps errors differently."""
    try:
        return work(*task)
    except (ValueError, OSError, MemoryError) as error:
        arguments: list[Any] = [str(error)]
        if isinstance(error, OSError) and error.errno is not None:
            arguments = [error.errno, error.strerror, error.filename]
        kinds = [kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins"]
        kind = "ValueError" if isinstance(error, UnicodeError) else kinds[0]  # UnicodeError takes other arguments
        notes = getattr(error, "__notes__", [])
        return _FAILED + json.dumps([kind, arguments, notes, traceback.format_exc()], default=str).encode()


def _raise_failures(results: Iterator[Any]) -> Generator[Any, None, None]:
    """Yield results, and raise the first failure among them."""
    try:
        for result in results:
            if isinstance(result, bytes) and result.startswith(_FAILED):
                kind, arguments, notes, trace = json.loads(result.removeprefix(_FAILED))
                error: Exception = getattr(builtins, kind)(*arguments)
                for note in notes:
                    error.add_note(note)
                raise error from WorkerTraceback(f"\n{trace}")
            yield result
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in FOREIGN or isinstance(error, ValueError | OSError):
            raise
        reason = (str(error).strip() or "no reason given").partition("\n")[0]
        raise EngineFailed(
            f"The engine gave up ({type(error).__name__}: {reason}). If its workers died, they may have run out of "
            "memory: give them more, or run fewer at a time."
        ) from error
    finally:
        if isinstance(results, Generator):
            results.close()  # cancels the remaining tasks now, not when the error is garbage-collected
