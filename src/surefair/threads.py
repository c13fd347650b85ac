"""How computations share the processor: threads over blocks of replicates, and one thread of linear algebra in each.

Linear algebra on several threads rounds by their number, so results would depend on the machine. It is also slow for
matrices as small as ours: threads of a BLAS library wait for each other in a loop, and on a busy machine a fit of a few
thousand rows takes ten times as long. So surefair keeps the library to one thread while it computes, and sets threads
of its own over replicates, whose results do not depend on how many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from threading import Lock
from typing import Any

from threadpoolctl import OpenBLASController, ThreadpoolController

from surefair.kernels import WORD


class _Limit:
    """The limit on the threads of linear algebra, which all computations of this process share.

    The library has one setting for all threads of the process. The first computation to begin sets it to one, and the
    last to end restores it, so that no computation sees it change. Either may happen on any thread, but threadpoolctl
    obeys only the thread that last set a limit, so each takes control first and gives it up afterwards.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.computing = 0
        self.controller: Any = None
        self.limiter: Any = None

    def enter(self) -> None:
        with self.lock:
            self.computing += 1
            if self.computing == 1:
                self.controller = self.controller or ThreadpoolController()  # it takes long to find the libraries
                with self._in_control():
                    self.limiter = self.controller.limit(limits=1, user_api="blas")

    def leave(self) -> None:
        with self.lock:
            self.computing -= 1
            if self.computing == 0:
                with self._in_control():
                    self.limiter.restore_original_limits()

    @contextmanager
    def _in_control(self) -> Iterator[None]:
        OpenBLASController.clear_controlling_thread(force=True)
        yield
        OpenBLASController.clear_controlling_thread(force=True)


_limit = _Limit()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep linear algebra to one thread within a block, or as a decorator within a function.

    Examples
    --------
    >>> from threadpoolctl import threadpool_info
    >>> with one_blas_thread():
    ...     {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}
    {1}
    """
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()


def spans(columns: tuple[int, int], n: int) -> list[tuple[int, int]]:
    """Divide columns first, …, last - 1 into at most n parts that begin at multiples of 32; ``first`` is one, too.

    >>> spans((0, 201), 3), spans((64, 70), 3)
    ([(0, 64), (64, 128), (128, 201)], [(64, 70)])
    """
    first, last = columns
    n_words = -(-(last - first) // WORD)
    n = max(1, min(n, n_words))
    edges = [min(last, first + WORD * (n_words * i // n)) for i in range(n + 1)]
    return [span for span in pairwise(edges) if span[0] < span[1]]


def on_threads(
    kernel: Callable[..., Any], args: tuple[Any, ...], state: tuple[Any, ...], n_threads: int,
    columns: tuple[int, int] | None = None,
) -> Any:  # fmt: skip
    """Call ``kernel(*args, first, last, *state)`` on several threads, each with a part of the columns.

    By default the columns are those of the first array of the state; pass ``columns`` (first, last) for some of them.
    Returns what the kernel returns, which must not depend on the columns.
    """
    parts = spans((0, state[0].shape[1]) if columns is None else columns, n_threads)
    if len(parts) == 1:
        return kernel(*args, *parts[0], *state)
    with ThreadPoolExecutor(len(parts)) as pool:
        calls = [pool.submit(kernel, *args, *part, *state) for part in parts]
        results = [call.result() for call in calls]
        return results[0]
