"""The machine it is on, by joblib: ``joblib.parallel_config(backend=..., n_jobs=...)`` says how, or where else."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from itertools import islice
from typing import Any

from joblib import Parallel, delayed, effective_n_jobs
from joblib.externals.loky.process_executor import TerminatedWorkerError
from joblib.parallel import get_active_backend

from surefair.engines._workers import deaf

AHEAD = 16
"""Tasks of a wave, for each worker."""

TRIES = 4
"""How often tasks are begun, where workers die."""


@contextmanager
def connect(address: str | None, n_jobs: int | None) -> Iterator[int | None]:
    """Nothing to connect to: what is needed is joblib's n_jobs."""
    if address is not None:
        raise ValueError(f"The engine 'local' has no address; received {address!r}. Leave it out.")
    yield n_jobs


def run(connection: int | None, work: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
    """Do tasks by joblib."""
    return _in_waves(work, ((task,) for task in tasks), connection)


def owns(data: Any) -> bool:
    """Whether data is an iterable whose items can be partitions: not a single frame, path or dict."""
    return isinstance(data, Iterable) and not isinstance(data, str | bytes | Mapping) and not hasattr(data, "columns")


def over(data: Any, work: Callable[[int, Any], bytes], n_jobs: int | None) -> Iterator[bytes]:
    """Work on the items of an iterable, as they are."""
    return _in_waves(work, enumerate(data), n_jobs)


def _in_waves(function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]], n_jobs: int | None) -> Iterator[Any]:
    """Do some tasks, then the next: joblib does not wait for who takes its results, and they would pile up.

    Those that were under way when a worker died are done again, a few times.
    """
    waiting = iter(tasks)
    while wave := list(islice(waiting, AHEAD * effective_n_jobs(n_jobs))):
        done = 0
        for tries_left in reversed(range(TRIES)):
            try:
                for result in called(function, wave[done:], n_jobs):
                    done += 1
                    yield result
                break
            except TerminatedWorkerError:
                if not tries_left:
                    raise


def called(
    function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]], n_jobs: int | None, **options: Any
) -> Iterator[Any]:
    """What a function returns for each tuple of arguments, in order; memory that is shared is copied where written to.

    One at a time where joblib's backend can; Ray's cannot, and all results are then fetched first.

    Examples
    --------
    >>> list(called(pow, [(2, 3), (3, 2)], n_jobs=None))
    [8, 9]
    """
    return_as = "generator" if get_active_backend()[0].supports_return_generator else "list"
    parallel = Parallel(n_jobs=n_jobs, mmap_mode="c", return_as=return_as, **options)
    calls = (delayed(function)(*task) for task in tasks)
    with deaf() if return_as == "generator" else nullcontext():  # a list comes when all is done
        results = parallel(calls)
    try:
        for result in results:  # noqa: UP028 (closing is for us)
            yield result
    finally:
        if isinstance(results, Generator):
            with warnings.catch_warnings():  # of tasks that are cancelled, where no more results are wanted
                warnings.simplefilter("ignore")
                results.close()
