"""Archives: arrays and JSON in one file, versioned, checksummed, written atomically, and free of code and pickle.

An archive is a NumPy ``.npz`` file. One of its arrays holds the JSON text as bytes, with the SHA-256 of all the others.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import nullcontext
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from surefair.storage.atomic import written_whole

Arrays = dict[str, NDArray[Any]]
Place = str | os.PathLike[str] | IO[bytes]
"""Where an archive is: a path or a binary file object."""


class Damaged(ValueError):
    """The file is not an archive, or its content is damaged."""


def write_archive(path: Place, kind: str, version: int, meta: dict[str, Any], arrays: Arrays) -> None:
    """Write arrays and JSON to a file; an existing file is replaced only once the new one is complete.

    Parameters
    ----------
    path : path or binary file object
    kind : str
        Name of the format; a reader must ask for the same one.
    version : int
        Version of the format.
    meta : dict
        Anything that JSON can hold.
    arrays : dict of str to ndarray

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_archive(folder + "/a.npz", "example", 1, {"name": "a"}, {"x": np.arange(3)})
    ...     meta, arrays = read_archive(folder + "/a.npz", "example", 1)
    >>> meta["name"], arrays["x"]
    ('a', array([0, 1, 2]))
    """
    digests = {name: _sha256(array) for name, array in arrays.items()}
    text = json.dumps(meta | {"format": kind, "version": version, "sha256": digests})
    described = np.frombuffer(text.encode(), dtype=np.uint8)
    with written_whole(path) if isinstance(path, str | os.PathLike) else nullcontext(path) as file:
        np.savez(file, allow_pickle=False, meta=described, meta_sha256=np.array(_sha256(described)), **arrays)


def dump_archive(kind: str, version: int, meta: dict[str, Any], arrays: Arrays) -> bytes:
    """Return an archive as bytes, ready to send; ``read_archive`` reads them from a ``BytesIO``."""
    file = BytesIO()
    write_archive(file, kind, version, meta, arrays)
    return file.getvalue()


def add_prefix(prefix: str, arrays: Arrays, between: str = "/") -> Arrays:
    """Put a prefix and a slash before the name of each array, so that several sets fit into one archive."""
    return {f"{prefix}{between}{name}": array for name, array in arrays.items()}


def select_prefix(prefix: str, arrays: Arrays, between: str = "/") -> Arrays:
    """Return the arrays to which ``add_prefix`` gave this prefix, under their original names.

    Examples
    --------
    >>> both = add_prefix("a", {"x": np.ones(1)}) | add_prefix("b", {"y": np.ones(1)})
    >>> [*select_prefix("a", both)]
    ['x']
    """
    start = f"{prefix}{between}"
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}


def select_changed(arrays: Arrays, known: Arrays) -> Arrays:
    """Return the arrays that differ from the known array of the same name, or have none.

    Examples
    --------
    >>> [*select_changed({"x": np.arange(2), "y": np.ones(1)}, {"x": np.arange(2), "y": np.zeros(1)})]
    ['y']
    """
    return {name: array for name, array in arrays.items() if name not in known or not _same(array, known[name])}


def _same(a: NDArray[Any], b: NDArray[Any]) -> bool:
    return a.dtype == b.dtype and np.array_equal(a, b)


def read_archive(path: Place, kind: str, version: int) -> tuple[dict[str, Any], Arrays]:
    """Return the JSON and the arrays of a file that ``write_archive`` wrote.

    A damaged file raises ``Damaged``; a file of another kind or version raises a plain ``ValueError``.
    """
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else str(getattr(path, "name", "the file"))
    try:
        with (
            Path(path).open("rb") if isinstance(path, str | os.PathLike) else nullcontext(path) as file,
            np.load(file, allow_pickle=False) as archive,
        ):
            arrays: Arrays = {name: archive[name] for name in archive.files}
        text = arrays.pop("meta")
        intact = str(arrays.pop("meta_sha256")) == _sha256(text)
        meta: dict[str, Any] = json.loads(text.tobytes())
    except FileNotFoundError:
        raise
    except Exception as error:  # zipfile and NumPy raise a dozen types for a damaged file
        raise Damaged(
            f"{name!r} is not a surefair file, or it is damaged. Use another copy, or save it again."
        ) from error
    if meta.get("format") != kind or meta.get("version") != version:
        raise ValueError(
            f"{name!r} has format {meta.get('format')!r}, version {meta.get('version')!r}; this release "
            f"reads {kind!r}, version {version}. Read it with the release that wrote it, or fit again."
        )
    damaged = [part for part, digest in meta["sha256"].items() if part not in arrays or _sha256(arrays[part]) != digest]
    if not intact or damaged:
        what = ", ".join(damaged) or "its description"
        raise Damaged(f"{name!r} is damaged: {what} fails its checksum. Use another copy, or save it again.")
    return meta, arrays


def _sha256(array: NDArray[Any]) -> str:
    described = f"{array.dtype.str}{array.shape}".encode()
    return hashlib.sha256(described + np.ascontiguousarray(array).tobytes()).hexdigest()
