"""Archives: arrays and JSON in one file, versioned, checksummed, written atomically, and free of code and pickle.

An archive is a NumPy ``.npz`` file. One of its arrays holds the JSON text as bytes, with the SHA-256 of all the others.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from io import BytesIO
from typing import IO, Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np
from numpy.typing import NDArray

from surefair.storage.atomic import written_whole
from surefair.storage.regular import open_regular

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
    if objects := [name for name, array in arrays.items() if array.dtype.hasobject]:
        raise ValueError(f"Arrays of Python objects are not written: {', '.join(objects)}. Pass numbers or text.")
    digests = {name: _sha256(array) for name, array in arrays.items()}
    text = json.dumps(meta | {"format": kind, "version": version, "sha256": digests})
    described = np.frombuffer(text.encode(), dtype=np.uint8)
    with written_whole(path) if isinstance(path, str | os.PathLike) else nullcontext(path) as file:
        members: dict[str, Any] = {"meta": described, "meta_sha256": np.array(_sha256(described)), **arrays}
        np.savez(file, **members)


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

    A damaged file raises ``Damaged``; a file of another kind or version raises a plain ``ValueError``. Nothing is
    unpacked, and an array is made only if the file holds all its bytes, so memory is bounded by the size of the file.
    """
    name = name_of(path)
    try:
        with open_regular(path) if isinstance(path, str | os.PathLike) else nullcontext(path) as file:
            arrays = _read_members(file)
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
    digests = meta["sha256"] if isinstance(meta.get("sha256"), dict) else {}
    damaged = sorted(
        part for part in {*digests, *arrays} if part not in arrays or _sha256(arrays[part]) != digests.get(part)
    )
    if not intact or damaged:
        what = ", ".join(damaged) or "its description"
        raise Damaged(f"{name!r} is damaged: {what} fails its checksum. Use another copy, or save it again.")
    return {key: value for key, value in meta.items() if key not in ("format", "version", "sha256")}, arrays


def name_of(path: Place) -> str:
    """Name of a file for messages."""
    return os.fspath(path) if isinstance(path, str | os.PathLike) else str(getattr(path, "name", "the file"))


@contextmanager
def naming(path: Place) -> Iterator[None]:
    """Turn whatever goes wrong with the content of a file into one ``ValueError`` that names the file."""
    try:
        yield
    except Exception as error:
        reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise ValueError(
            f"{name_of(path)!r} has content that does not fit together. {reason} Use another copy, or save it again."
        ) from error


def check_same(found: tuple[dict[str, Any], Arrays], again: tuple[dict[str, Any], Arrays]) -> None:
    """Refuse content that differs from what would be written again: something was added to it, or left out."""
    (meta, arrays), (other_meta, other_arrays) = found, again
    if json.loads(json.dumps(other_meta)) != meta or other_arrays.keys() != arrays.keys():
        strange = sorted(arrays.keys() ^ other_arrays.keys()) or ["its description"]
        raise ValueError(f"Something was added, or is missing: {', '.join(strange[:3])}.")


def _read_members(file: IO[bytes]) -> Arrays:
    """Read the arrays of a zip file whose members are stored as they are."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    with ZipFile(file) as archive:
        members = archive.infolist()
        names = [member.filename.removesuffix(".npy") for member in members]
        stored = all(
            member.compress_type == ZIP_STORED and member.file_size == member.compress_size for member in members
        )
        if len({*names}) < len(names) or not stored or sum(member.file_size for member in members) > size:
            raise ValueError("A member is compressed, repeated, or larger than the file.")
        return {name: _read_array(archive.read(member)) for name, member in zip(names, members, strict=True)}


def _read_array(content: bytes) -> NDArray[Any]:
    """Read an array in NumPy's format, if it holds plain numbers or text and is complete."""
    file = BytesIO(content)
    header = {
        (1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0
    }[np.lib.format.read_magic(file)]  # fmt: skip
    shape, in_columns, dtype = header(file)
    count = math.prod(shape)
    if dtype.kind not in "biufU" or min(shape, default=0) < 0 or len(content) - file.tell() != count * dtype.itemsize:
        raise ValueError("An array is cut short, or holds neither numbers nor text.")
    if count == 0:
        return np.empty(shape, dtype)
    flat = np.frombuffer(content, dtype, count, file.tell())
    return np.array(flat.reshape(shape, order="F" if in_columns else "C"), order="C")


def _sha256(array: NDArray[Any]) -> str:
    described = f"{array.dtype.str}{array.shape}".encode()
    return hashlib.sha256(described + np.ascontiguousarray(array).tobytes()).hexdigest()
