"""Write a file completely or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from uuid import uuid4


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
