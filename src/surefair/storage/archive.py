"""One file of plain arrays and a JSON text: written atomically, versioned, checksummed, with nothing that could run.

It is a NumPy ``.npz`` archive; one of its arrays is the text, as bytes, with the SHA-256 of each of the others.
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
"""Of an archive: a path, or a binary file object."""


class Damaged(ValueError):
    """A file that is not an archive, or not whole."""


def write_archive(path: Place, kind: str, version: int, meta: dict[str, Any], arrays: Arrays) -> None:
    """Write arrays and JSON to a file; at a path, an older file stays as it was until the new one is complete.

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


def archived(kind: str, version: int, meta: dict[str, Any], arrays: Arrays) -> bytes:
    """Archive as bytes, to be sent; ``read_archive`` reads them from a ``BytesIO``."""
    file = BytesIO()
    write_archive(file, kind, version, meta, arrays)
    return file.getvalue()


def prefixed(name: str, arrays: Arrays) -> Arrays:
    """The same arrays, with a name and a slash before theirs: several such fit into one archive."""
    return {f"{name}/{part}": array for part, array in arrays.items()}


def under(name: str, arrays: Arrays) -> Arrays:
    """Arrays that ``prefixed`` put this name before, without it.

    Examples
    --------
    >>> [*under("a", prefixed("a", {"x": np.ones(1)}) | prefixed("b", {"y": np.ones(1)}))]
    ['x']
    """
    return {key.removeprefix(f"{name}/"): part for key, part in arrays.items() if key.startswith(f"{name}/")}


def changed(arrays: Arrays, known: Arrays) -> Arrays:
    """Arrays that are not the same as the known one of their name.

    Examples
    --------
    >>> [*changed({"x": np.arange(2), "y": np.ones(1)}, {"x": np.arange(2), "y": np.zeros(1)})]
    ['y']
    """
    return {name: array for name, array in arrays.items() if name not in known or not _same(array, known[name])}


def _same(a: NDArray[Any], b: NDArray[Any]) -> bool:
    return a.dtype == b.dtype and np.array_equal(a, b)


def read_archive(path: Place, kind: str, version: int) -> tuple[dict[str, Any], Arrays]:
    """Read a file that ``write_archive`` wrote; one that is damaged, or of another kind or version, is refused."""
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
    except Exception as error:  # zipfile and NumPy raise a dozen kinds for a damaged file
        raise Damaged(f"{name!r} is not a surefair file, or it is damaged.") from error
    if meta.get("format") != kind or meta.get("version") != version:
        raise ValueError(
            f"{name!r} has format {meta.get('format')!r}, version {meta.get('version')!r}; this release "
            f"reads {kind!r}, version {version}. Read it with the release that wrote it, or fit afresh."
        )
    damaged = [part for part, digest in meta["sha256"].items() if part not in arrays or _sha256(arrays[part]) != digest]
    if not intact or damaged:
        raise Damaged(f"{name!r} is damaged: {', '.join(damaged) or 'its description'} fails its checksum.")
    return meta, arrays


def _sha256(array: NDArray[Any]) -> str:
    described = f"{array.dtype.str}{array.shape}".encode()
    return hashlib.sha256(described + np.ascontiguousarray(array).tobytes()).hexdigest()
