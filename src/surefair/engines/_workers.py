"""Functions that the engines share."""

from __future__ import annotations

import importlib
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from joblib import cpu_count, effective_n_jobs

TIMEOUT = 10.0
"""Seconds to wait until a cluster answers."""


@contextmanager
def ignore_interrupts() -> Iterator[None]:
    """Let processes that start inside ignore Ctrl-C: a terminal sends it to all, but only this process handles it."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread can set signal handlers
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def check_reachable(address: str) -> None:
    """Raise an OSError or a ValueError if nothing answers at "host:port" or "scheme://host:port"."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    if not host or not port.isdigit():
        raise ValueError("it has no port")
    socket.create_connection((host.strip("[]"), int(port)), TIMEOUT).close()


def n_workers(n_jobs: int | None) -> int:
    """Return the number of workers to start: n_jobs as joblib reads it, and one for each core by default.

    Examples
    --------
    >>> n_workers(3)
    3
    """
    return int(cpu_count() if n_jobs is None else effective_n_jobs(n_jobs))


def import_extra(module: str, engine: str, packages: str) -> Any:
    """Import a module of an optional package, and say how to install it if it is missing.

    Examples
    --------
    >>> import_extra("no_such_package", "dask", "dask and distributed")
    Traceback (most recent call last):
    ValueError: The engine 'dask' needs dask and distributed. Run: pip install 'surefair[dask]'.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ValueError(f"The engine {engine!r} needs {packages}. Run: pip install 'surefair[{engine}]'.") from error


def is_instance_of(data: Any, modules: tuple[str, ...], names: tuple[str, ...]) -> bool:
    """Whether the class of data, or a base class, has one of these names in one of these packages.

    Examples
    --------
    >>> import collections
    >>> is_instance_of(collections.Counter(), ("collections",), ("Counter",))
    True
    """
    return any(
        kind.__name__ in names and any(f"{kind.__module__}.".startswith(f"{module}.") for module in modules)
        for kind in type(data).__mro__
    )
