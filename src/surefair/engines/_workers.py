"""What engines have in common."""

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
"""Seconds to wait for a cluster."""


@contextmanager
def deaf() -> Iterator[None]:
    """Start processes that do not hear Ctrl-C: a terminal sends it to all of them, and it is for the first alone."""
    if threading.current_thread() is not threading.main_thread():  # which alone may say what signals do
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def reach(address: str) -> None:
    """Raise an OSError, or a ValueError, where nobody answers at an address "host:port", perhaps with a scheme."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    if not host or not port.isdigit():
        raise ValueError("it has no port")
    socket.create_connection((host.strip("[]"), int(port)), TIMEOUT).close()


def n_workers(n_jobs: int | None) -> int:
    """Workers to start: n_jobs as joblib reads it, and all cores by default.

    Examples
    --------
    >>> n_workers(3)
    3
    """
    return int(cpu_count() if n_jobs is None else effective_n_jobs(n_jobs))


def needed(module: str, engine: str, packages: str) -> Any:
    """Import a module of an optional package.

    Examples
    --------
    >>> needed("no_such_package", "dask", "dask and distributed")
    Traceback (most recent call last):
    ValueError: The engine 'dask' needs dask and distributed: pip install 'surefair[dask]'.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ValueError(f"The engine {engine!r} needs {packages}: pip install 'surefair[{engine}]'.") from error


def comes_from(data: Any, modules: tuple[str, ...], names: tuple[str, ...]) -> bool:
    """Whether the class of data, or one it is made from, has one of these names in one of these packages.

    Examples
    --------
    >>> import collections
    >>> comes_from(collections.Counter(), ("collections",), ("Counter",))
    True
    """
    return any(
        kind.__name__ in names and any(f"{kind.__module__}.".startswith(f"{module}.") for module in modules)
        for kind in type(data).__mro__
    )
