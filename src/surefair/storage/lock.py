"""A folder that one process at a time writes to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

try:
    import fcntl
except ImportError:  # Windows, where folders have no locks
    fcntl = None  # type: ignore[assignment]


@contextmanager
def locked(folder: str | os.PathLike[str], who: str = "audit") -> Iterator[None]:
    """Hold the lock of a folder; while somebody else holds it, this is an error, which says who that is.

    The lock is the operating system's, on the folder itself: nothing is written, and it is freed when its holder ends,
    however that happens.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, locked(folder):
    ...     try:
    ...         with locked(folder):
    ...             pass
    ...     except OSError as error:
    ...         print("refused:", "Another audit is writing to" in str(error))
    refused: True
    """
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(
                f"Another {who} is writing to {os.fspath(folder)!r}. Wait until it ends, or name another folder."
            ) from None
        yield
    finally:
        os.close(handle)
