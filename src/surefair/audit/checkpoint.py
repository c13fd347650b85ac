"""Checkpoints of an audit: the newest files in a folder, each written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from surefair.storage.archive import Arrays, Damaged, read_archive, write_archive

FORMAT, VERSION = "surefair.audit-checkpoint", 4
KEPT = 2  # checkpoints

Folder = str | os.PathLike[str]


def prepare(folder: Folder) -> None:
    """Make the folder, and remove what a run that was killed while writing has left."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for scratch in Path(folder).glob(".[0-9]*.npz.*"):
        scratch.unlink(missing_ok=True)


def kept(folder: Folder) -> list[Path]:
    """Checkpoints in a folder, the newest last."""
    return sorted(Path(folder).glob("[0-9]*.npz"))


def write(folder: Folder, number: int, n_rows: int, meta: dict[str, Any], arrays: Arrays) -> None:
    """Write a checkpoint, and remove all but the last few."""
    try:
        write_archive(Path(folder) / f"{number:09d}.npz", FORMAT, VERSION, meta, arrays)
    except OSError as error:
        before = kept(folder)
        good = f"The previous one, {before[-1].name!r}, is good" if before else "There is no previous one"
        raise OSError(
            f"The checkpoint after {n_rows:,} rows could not be written to {os.fspath(folder)!r}: "
            f"{error.strerror or error}. {good}. Make room, then continue with sf.resume (on the "
            "command line: surefair resume)."
        ) from error
    for old in kept(folder)[:-KEPT]:
        old.unlink(missing_ok=True)


def read_newest(folder: Folder) -> tuple[dict[str, Any], Arrays, list[str]]:
    """Read the newest checkpoint that is not damaged, with a sentence about each that is."""
    damaged: list[str] = []
    for path in reversed(kept(folder)):
        try:
            meta, arrays = read_archive(path, FORMAT, VERSION)
        except Damaged as error:
            damaged.append(str(error))
            continue
        return meta, arrays, [f"{words} The previous checkpoint, {path.name!r}, is used instead." for words in damaged]
    more = f": {' '.join(damaged)}" if damaged else "."
    raise ValueError(f"There is no checkpoint of an audit to resume in {os.fspath(folder)!r}{more}")
