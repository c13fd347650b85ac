"""Write a file completely or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from uuid import uuid4


def try_to_write(folder: str | os.PathLike[str]) -> None:
    """Write a small file to a folder and remove it, so that a folder that takes none is found before any work."""
    scratch = Path(folder) / f".{uuid4().hex}"
    try:
        scratch.write_bytes(b"surefair")
    except OSError as error:
        raise OSError(
            f"Nothing can be written to the folder {os.fspath(folder)!r}: {error.strerror}. Make room, ask for access, "
            "or name another folder."
        ) from error
    finally:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)


def refuse_inside(folder: str | os.PathLike[str], data: Any, what: str) -> None:
    """Refuse a folder to write to that is the data folder, or inside it: all files there are read as data.

    Parameters
    ----------
    folder : path
    data : path or anything else
        Only paths of folders matter.
    what : str
        The folder in words.
    """
    if not isinstance(data, str | os.PathLike) or not Path(data).is_dir():
        return
    if Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(data)):
        raise ValueError(
            f"The {what} {os.fspath(folder)!r} is inside the data folder {os.fspath(data)!r}, whose files are all "
            "read. Name a folder elsewhere."
        )


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file for writing; an existing file is replaced only once the new one is complete.

    Parameters
    ----------
    path : path

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with written_whole(folder + "/file") as file:
    ...         _ = file.write(b"all of it")
    ...     Path(folder, "file").read_text()
    'all of it'
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"The folder {str(path.parent)!r} to save into does not exist. Create it first.")
    scratch = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with scratch.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
