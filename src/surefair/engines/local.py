"""Run work with joblib: on this machine, or where ``joblib.parallel_config(backend=..., n_jobs=...)`` says."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from itertools import islice
from typing import Any

from joblib import Parallel, delayed, effective_n_jobs
from joblib.externals.loky.process_executor import TerminatedWorkerError
from joblib.parallel import get_active_backend

from surefair.engines._workers import ignore_interrupts

AHEAD = 16
"""Tasks in a wave for each worker."""

TRIES = 4
"""How often a task is started before we give up on workers that die."""


@contextmanager
def connect(address: str | None, n_jobs: int | None) -> Iterator[int | None]:
    """Give joblib's n_jobs, since there is nothing to connect to."""
    if address is not None:
        raise ValueError(f"The engine 'local' takes no address; received {address!r}. Leave the address out.")
    yield n_jobs


def run(connection: int | None, work: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
    """Call work on each task."""
    return _in_waves(work, ((task,) for task in tasks), connection)


def owns(data: Any) -> bool:
    """Whether data is an iterable of partitions, and not a single frame, path or dict."""
    return isinstance(data, Iterable) and not isinstance(data, str | bytes | Mapping) and not hasattr(data, "columns")


def over(data: Any, work: Callable[[int, Any], bytes], n_jobs: int | None) -> Iterator[bytes]:
    """Call work on each item of an iterable."""
    return _in_waves(work, enumerate(data), n_jobs)


def _in_waves(function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]], n_jobs: int | None) -> Iterator[Any]:
    """Run tasks wave by wave, because joblib does not wait for its results to be taken and they would pile up.

    If a worker dies, the tasks of its wave whose results are not out yet run again, a few times.
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
    """Call a function on each tuple of arguments, and yield the results in order.

    Results come one at a time if joblib's backend supports that; with Ray's backend, they come when all are ready.
    Arrays in shared memory are copied on write.

    Parameters
    ----------
    function : callable
    tasks : iterable of tuple
        Arguments of each call.
    n_jobs : int or None
        As joblib reads it.
    **options
        Further options of ``joblib.Parallel``.

    Examples
    --------
    >>> list(called(pow, [(2, 3), (3, 2)], n_jobs=None))
    [8, 9]
    """
    return_as = "generator" if get_active_backend()[0].supports_return_generator else "list"
    parallel = Parallel(n_jobs=n_jobs, mmap_mode="c", return_as=return_as, **options)
    calls = (delayed(function)(*task) for task in tasks)
    # A list is complete when the call returns, and Ctrl-C must be able to interrupt that call.
    with ignore_interrupts() if return_as == "generator" else nullcontext():
        results = parallel(calls)
    try:
        for result in results:  # noqa: UP028 (we close the generator ourselves)
            yield result
    finally:
        if isinstance(results, Generator):
            with warnings.catch_warnings():  # joblib warns about tasks that closing cancels
                warnings.simplefilter("ignore")
                results.close()
