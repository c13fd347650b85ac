"""Find data files, and download those that are missing.

`find` looks in the folder that you name (``folder=``, or the environment variable SUREFAIR_DATA), then in your
cache, and then downloads the file from its original address into the cache. It accepts a file only if the file's
SHA-256 is the expected one.

>>> sorted(FILES)
['adult.data', 'adult.test', 'compas-scores-two-years.csv', 'german.data']
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pooch

ENVIRONMENT_VARIABLE = "SUREFAIR_DATA"


class DataFile(NamedTuple):
    """The expected SHA-256 of a file, and the address that it was published at."""

    sha256: str
    url: str


UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
PROPUBLICA = "https://raw.githubusercontent.com/propublica/compas-analysis/master"

FILES = {
    "adult.data": DataFile(
        "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
        f"{UCI}/adult/adult.data",
    ),
    "adult.test": DataFile(
        "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
        f"{UCI}/adult/adult.test",
    ),
    "compas-scores-two-years.csv": DataFile(
        "c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d",
        f"{PROPUBLICA}/compas-scores-two-years.csv",
    ),
    "german.data": DataFile(
        "b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871",
        f"{UCI}/statlog/german/german.data",
    ),
}


class DataFileNotFoundError(FileNotFoundError):
    """A data file is in no local folder, and its download failed."""


def find(name: str, folder: str | os.PathLike[str] | None = None) -> Path:
    """Return the path of a data file; download the file if it is missing.

    Parameters
    ----------
    name : str
        A key of `FILES`.
    folder : path, optional
        Where to look first; by default the folder that ``SUREFAIR_DATA`` names.

    Raises
    ------
    ValueError
        If the named folder holds a file of this name with different content.
    DataFileNotFoundError
        If the file is missing and cannot be downloaded.

    Examples
    --------
    A file with unexpected content raises an error:

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "adult.data").write_text("39, State-gov, 77516")
    ...     find("adult.data", folder)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: ...adult.data has unexpected content: its SHA-256 is ...
    """
    named = named_folder(folder)
    if path := _from_folder(name, named):
        return path
    tried = [f"the folder set by `folder` or {ENVIRONMENT_VARIABLE}: {named or 'not set'}"]
    for place, look in (("the cache", _from_cache), ("the original address", _from_origin)):
        try:
            return look(name)
        except (OSError, ValueError) as error:
            tried.append(f"{place}: {error}")
    places = "".join(f"  - {place}\n" for place in tried)
    raise DataFileNotFoundError(f"The data file {name!r} was not found. Looked in:\n{places}{advice()}")


def find_local(name: str) -> Path | None:
    """Return the path of a data file, or None if the file would have to be downloaded.

    Raises
    ------
    ValueError
        If the folder that ``SUREFAIR_DATA`` names holds a file of this name with different content.

    Examples
    --------
    >>> path = find_local("adult.data")
    >>> path is None or path.is_file()
    True
    """
    if path := _from_folder(name, named_folder()):
        return path
    try:
        return _from_cache(name)
    except (OSError, ValueError):
        return None


def advice(names: Iterable[str] | None = None) -> str:
    """Say how to get data files, by default all of them."""
    wanted = FILES if names is None else {name: FILES[name] for name in names}
    lines = [f"  {name} (SHA-256 {file.sha256}, from {file.url})" for name, file in wanted.items()]
    first = f"Run `make data` in a checkout of surefair, or set {ENVIRONMENT_VARIABLE} to a folder with these files:"
    return "\n".join([first, *lines])


def named_folder(folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the given folder, or else the folder that ``SUREFAIR_DATA`` names, or else None."""
    named = folder or os.environ.get(ENVIRONMENT_VARIABLE)
    return Path(named) if named else None


def cache_folder() -> Path:
    """Return the folder that keeps downloaded files."""
    return Path(pooch.os_cache("surefair"))


def verify(path: Path, sha256: str) -> None:
    """Raise ValueError if a file does not have the expected SHA-256."""
    received = pooch.file_hash(str(path), alg="sha256")
    if received != sha256:
        raise ValueError(
            f"{path} has unexpected content: its SHA-256 is {received}, expected {sha256}. "
            "Replace it with the original, or delete it so that surefair downloads the original."
        )


def _from_folder(name: str, folder: Path | None) -> Path | None:
    """Return the file in this folder, or None if it is not there."""
    if folder is None or not (folder / name).is_file():
        return None
    verify(folder / name, FILES[name].sha256)
    return folder / name


def _from_cache(name: str) -> Path:
    """Return the file in the cache."""
    path = cache_folder() / name
    verify(path, FILES[name].sha256)
    return path


def _from_origin(name: str) -> Path:
    """Download the file from its original address into the cache."""
    file = FILES[name]
    downloader = pooch.HTTPDownloader(timeout=10)
    pooch.retrieve(file.url, f"sha256:{file.sha256}", fname=name, path=cache_folder(), downloader=downloader)
    return cache_folder() / name
