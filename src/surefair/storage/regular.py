"""Open a file that has an end: not a pipe or a device, which may never answer."""

from __future__ import annotations

import os
import stat
from typing import IO


def open_regular(path: str | os.PathLike[str], advice: str = "Copy its content to a file, and pass that.") -> IO[bytes]:
    """Open a file for reading; a pipe or a device is refused at once, without waiting for a writer.

    Examples
    --------
    >>> open_regular(os.devnull)
    Traceback (most recent call last):
    ValueError: 'null' is a pipe or a device, which may never end. Copy its content to a file, and pass that.
    """
    file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115 (the caller closes it)
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise ValueError(f"{os.path.basename(os.fspath(path))!r} is a pipe or a device, which may never end. {advice}")


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # Windows has no pipes among files
