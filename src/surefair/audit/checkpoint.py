"""Checkpoints of an audit: the newest files in a folder, each written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from types import NoneType
from typing import Any

from surefair.storage.archive import Arrays, Damaged, read_archive, write_archive
from surefair.storage.atomic import try_to_write
from surefair.storage.checks import value_of
from surefair.tables.intake import COUNTERS
from surefair.tables.split import HELD_OUT

FORMAT, VERSION = "surefair.audit-checkpoint", 7
KEPT = 2  # checkpoints
PATH: dict[str, Any] = {"model": str, "metric": str, "source": str, "rows": int, "anytime": bool}  # a point on the path

BAD: dict[str, Any] = {"reason": str, "count": int, "first": str}  # bad rows of one reason

Folder = str | os.PathLike[str]


def prepare(folder: Folder) -> None:
    """Make the folder, and try whether a file can be written there."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    try_to_write(folder)


def clean(folder: Folder) -> None:
    """Remove what a run that was killed while writing has left."""
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


def read_newest(folder: Folder) -> tuple[Path, dict[str, Any], Arrays, list[str]]:
    """Read the newest checkpoint that is not damaged: its path and content, with a sentence about each that is."""
    damaged: list[str] = []
    for path in reversed(kept(folder)):
        try:
            meta, arrays = read_archive(path, FORMAT, VERSION)
        except Damaged as error:
            damaged.append(str(error))
            continue
        return (
            path,
            meta,
            arrays,
            [f"{words} The previous checkpoint, {path.name!r}, is used instead." for words in damaged],
        )
    more = f": {' '.join(damaged)}" if damaged else "."
    raise ValueError(f"There is no checkpoint of an audit to resume in {os.fspath(folder)!r}{more}")


def check_plain(meta: dict[str, Any]) -> None:
    """Refuse plain values that no audit writes: files, and how much was read."""
    value_of(meta, "chunks", int, low=0, high=2**62)
    value_of(meta, "complete", bool)
    for file in [*value_of(meta, "files", list), *value_of(meta, "so_far", list)]:
        check_record(file, {"name": str, "size": int, "sha256": str})


def check_training(meta: dict[str, Any]) -> None:
    """Refuse plain values that no training audit writes: the path, and what was counted."""
    value_of(meta, "trained", int, low=0, high=2**62)
    value_of(meta, "crossed", bool)
    value_of(meta, "below", float, low=0.0, high=HELD_OUT)
    number = (int, float, NoneType)
    for point in value_of(meta, "path", list):
        check_record(point, PATH | dict.fromkeys(("estimate", "low", "high"), number))
    counted = value_of(meta, "counted", dict)
    value_of(counted, "read", int, low=0, high=2**62)
    for one in value_of(counted, "bad", list):
        check_record(one, BAD)
    for name in COUNTERS:
        for column in value_of(counted, name, dict):
            value_of(counted[name], column, int, low=0)


def check_record(record: Any, kinds: dict[str, Any]) -> None:
    """Refuse anything but a dict with these keys, and values of these types."""
    if not isinstance(record, dict) or record.keys() != kinds.keys():
        raise ValueError(f"A record must have {', '.join(kinds)}; received {record!r:.60}.")
    for name, kind in kinds.items():
        value_of(record, name, kind)
