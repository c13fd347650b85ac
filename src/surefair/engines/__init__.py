"""Where work is done: on this machine by joblib, or on a cluster of Dask, Ray or Spark. One file per engine.

An engine carries work to its workers and results back, and knows nothing of classifiers. Each file has four names:

``connect(address, n_jobs)``
    Context manager of what ``run`` needs. With an address it connects to that cluster. Without one it takes the
    connection that this process has, and leaves it alone after; where there is none, it starts a cluster of
    ``n_jobs`` workers on this machine, and ends it on the way out.
``run(connection, work, tasks)``
    What ``work`` makes of each task: computed in parallel, in the order of the tasks, one at a time.
``owns(data)``
    Whether data is a data set of this engine. Nothing is imported to tell.
``over(data, work, n_jobs)``
    What ``work(number, frames)`` makes of each partition of a data set, where it lies; as bytes, in the order of the
    partitions, one at a time. ``frames`` is a frame of pandas' or Arrow's, or an iterable of such. A partition without
    rows may be left out.

A worker that dies is the engine's own business: Dask, Ray and Spark do its tasks again, and joblib gives up. Errors of
the work itself are not repeated: a ``ValueError``, ``OSError`` or ``MemoryError`` comes back as data, is raised here as
it was there, and has the traceback as its cause.
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
"""From work and tasks to results."""

FOREIGN = ("joblib", "concurrent", "distributed", "dask", "ray", "py4j", "pyspark")
"""Where errors of the engines themselves come from."""

_FAILED = b"surefair:failed:8f1c2a5e\n"


class Engine(Protocol):
    """What the file of an engine offers."""

    def connect(self, address: str | None, n_jobs: int | None) -> AbstractContextManager[Any]:
        """Connect to a cluster, or start one."""

    def run(self, connection: Any, work: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        """Do tasks."""

    def owns(self, data: Any) -> bool:
        """Whether data is a data set of this engine."""

    def over(self, data: Any, work: Callable[[int, Any], bytes], n_jobs: int | None) -> Iterator[bytes]:
        """Work on partitions."""


class EngineFailed(RuntimeError):
    """An engine gave up, for a reason of its own: workers that die again and again, for example."""


class Elsewhere(Exception):
    """The traceback of an error on a worker, as text: the cause of the error raised here."""


def get_engine(name: str) -> Engine:
    """Return an engine by name; what it is made of is imported when it is used.

    Examples
    --------
    >>> get_engine("dask").owns([1, 2])
    False
    """
    return cast(Engine, importlib.import_module(f"{__name__}.{one_of(name, ENGINES, 'engine')}"))


@contextmanager
def connected(engine: str, address: str | None = None, n_jobs: int | None = None) -> Iterator[Run]:
    """Give a function that does tasks on an engine.

    Parameters
    ----------
    engine : {"local", "dask", "ray", "spark"}
    address : str, optional
        Of the cluster: a Dask scheduler's, a Ray cluster's, or a Spark master URL.
    n_jobs : int, optional
        Workers of a cluster that is started here; by default as many as this machine has cores. For "local" it is
        joblib's ``n_jobs``.

    Yields
    ------
    callable
        From work and tasks to what the work makes of each task, in their order.

    Examples
    --------
    >>> with connected("local", n_jobs=2) as run:
    ...     list(run(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    found = get_engine(engine)
    with found.connect(address, n_jobs) as connection, ExitStack() as begun:  # what is left is let go before the end
        yield lambda work, tasks: begun.enter_context(
            closing(_raised(found.run(connection, partial(_attempt, work), tasks)))
        )


def over(data: Any, work: Callable[[int, Any], bytes], n_jobs: int | None = None) -> Iterator[bytes]:
    """Work on each partition of a data set of any engine; a plain iterable is one whose items are partitions.

    Examples
    --------
    >>> list(over(["ab", "c"], lambda number, part: f"{number}{part}".encode()))
    [b'0ab', b'1c']
    """
    last = sorted(ENGINES, key="local".__eq__)  # a cluster's data set may be an iterable, too
    for engine in map(get_engine, last):
        if engine.owns(data):
            return _raised(engine.over(data, partial(_attempt, work), n_jobs))
    raise ValueError(
        "data must be a Dask DataFrame or Bag, a Ray Dataset, a Spark DataFrame, or an iterable of partitions; "
        f"received {type(data).__name__}. Put a single frame in a list."
    )


def _attempt(work: Callable[..., Any], *task: Any) -> Any:
    """Do one task on a worker. Engines wrap errors each in their own way, so the likely ones go as data."""
    try:
        return work(*task)
    except (ValueError, OSError, MemoryError) as error:
        told: list[Any] = [str(error)]
        if isinstance(error, OSError) and error.errno is not None:
            told = [error.errno, error.strerror, error.filename]
        kinds = [kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins"]
        kind = "ValueError" if isinstance(error, UnicodeError) else kinds[0]  # which needs other arguments
        notes, trace = getattr(error, "__notes__", []), traceback.format_exc()
        return _FAILED + json.dumps([kind, told, notes, trace], default=str).encode()


def _raised(results: Iterator[Any]) -> Generator[Any, None, None]:
    """Results as they are; the first failure among them is raised."""
    try:
        for result in results:
            if isinstance(result, bytes) and result.startswith(_FAILED):
                kind, told, notes, trace = json.loads(result.removeprefix(_FAILED))
                error: Exception = getattr(builtins, kind)(*told)
                for note in notes:
                    error.add_note(note)
                raise error from Elsewhere(f"\n{trace}")
            yield result
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in FOREIGN or isinstance(error, ValueError | OSError):
            raise
        reason = (str(error).strip() or "no reason given").partition("\n")[0]
        raise EngineFailed(
            f"The engine gave up ({type(error).__name__}: {reason}). If its workers died, they may have been short of "
            "memory: give them more, or have fewer at a time."
        ) from error
    finally:
        if isinstance(results, Generator):
            results.close()  # what is left on workers is let go now, not when the error is forgotten
