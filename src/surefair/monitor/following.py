"""Following: read what is new in a growing CSV file, a folder into which files drop, or standard input.

A CSV file is read up to its last complete line; what follows waits until the line has its end. Parquet, Arrow and
compressed files are read once they are complete. A ``Position`` says how far a file has been read, with checksums of
its first bytes and of those just before the position, so that a file that was cut, rewritten or replaced is noticed
before anything is counted.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from select import select
from typing import IO, NamedTuple

import pyarrow as pa

from surefair.tables.bad_rows import BadRows
from surefair.tables.csv import DelimitedText, Dialect
from surefair.tables.files import CODECS, KINDS, find_files, find_kind
from surefair.tables.source import open_source

PART = 1 << 20
"""Bytes of CSV, or rows of other files divided by 16, that are read at once."""

LONGEST = 1 << 24  # bytes of the longest line
HEAD, TAIL = 4096, 256  # bytes that are checked
PATIENCE = 0.5  # seconds between two looks whether to stop


@dataclass(frozen=True)
class Position:
    """How far a file has been read.

    Attributes
    ----------
    name : str
        Name of the file, with its subfolder.
    inode : int
        By which the operating system knows the file, whatever its name.
    offset : int
        Bytes of a CSV file, rows of any other, that were read.
    rows : int
        Rows that were read from it.
    size : int
        Its size when it was last read.
    done : bool
        Whether it was read to its end, and cannot grow.
    head, tail : str
        Checksums of the first bytes, and of those before the position.
    """

    name: str
    inode: int = 0
    offset: int = 0
    rows: int = 0
    size: int = 0
    done: bool = False
    head: str = ""
    tail: str = ""


class Part(NamedTuple):
    """Some rows that are new, and the position after them."""

    table: pa.Table
    position: Position
    bad: BadRows


class Columns(NamedTuple):
    """The columns to read, and how text is written."""

    names: tuple[str, ...]
    dialect: Dialect


class Changed(ValueError):
    """A file is not the one that was read before."""


def can_grow(path: Path) -> bool:
    """Whether a file is CSV that is not compressed."""
    return path.suffix.lower() not in CODECS and KINDS.get(path.suffix.lower(), "csv") == "csv"


def listed(folder: Path) -> list[Path]:
    """Return the files of a folder, sorted by name; those that begin with a dot or an underscore are left out."""
    known = [entry for entry in folder.iterdir() if entry.is_file() and not entry.name.startswith((".", "_"))]
    return sorted(entry for entry in known if entry.suffix.lower() in (*KINDS, *CODECS))


def read_new(path: Path, position: Position, columns: Columns) -> Iterator[Part]:
    """Yield the rows of a file after a position, some at a time.

    Raises
    ------
    Changed
        If the file is not the one that was read before, or was changed.
    """
    if can_grow(path):
        with path.open("rb") as file:
            yield from read_lines(file, position, columns)
    else:
        yield from _read_whole(path, position, columns)


# -- CSV --------------------------------------------------------------------------------------------------------------


def read_lines(file: IO[bytes], position: Position, columns: Columns, ended: bool = False) -> Iterator[Part]:
    """Yield the new rows of an open CSV file, up to its last complete line; if it has ended, all."""
    status = os.fstat(file.fileno())
    check_same_file(file, position)
    file.seek(0)
    header = b"" if columns.dialect.names else file.readline(LONGEST)
    if header and not header.endswith(b"\n"):
        return  # the header is not complete yet
    position = replace(position, inode=status.st_ino, offset=max(position.offset, len(header)))
    while chunk := _complete_lines(file, position, ended):
        bad = BadRows(limit=sys.maxsize)
        if cut_off := chunk.count(b'"') % 2:
            bad.add("a quoted field that does not end", 1, f"byte {position.offset + 1:,} of {position.name}")
        table = parse(header if cut_off else header + chunk, position.name, columns, bad)
        offset = position.offset + len(chunk)
        head, tail = _checksums(file, offset)
        position = replace(
            position, offset=offset, rows=position.rows + table.num_rows + bad.total, size=max(status.st_size, offset),
            head=head, tail=tail,
        )  # fmt: skip
        yield Part(table, position, bad)


def _complete_lines(file: IO[bytes], position: Position, ended: bool) -> bytes:
    """Read lines from a position on, up to a line end that is not inside a quoted field, or to the end of the file."""
    size = PART
    while True:
        file.seek(position.offset)
        chunk = file.read(size)
        if end := last_row_end(chunk):
            return chunk[:end]
        if len(chunk) < size:
            return chunk if ended else b""
        if size >= LONGEST:
            raise ValueError(
                f"{position.name} has a line, or a quoted field, of more than {LONGEST:,} bytes after byte "
                f"{position.offset:,}. Close every quoted field."
            )
        size *= 4


def last_row_end(chunk: bytes) -> int:
    r"""Return where the last complete row ends, which is after a line end outside quotes; 0 if there is none.

    Examples
    --------
    >>> last_row_end(b'1,a\n2,"b\n'), last_row_end(b'1,a\n2,b'), last_row_end(b'1,a')
    (4, 4, 0)
    """
    end = chunk.rfind(b"\n") + 1
    while end and chunk.count(b'"', 0, end) % 2:
        end = chunk.rfind(b"\n", 0, end - 1) + 1
    return end


def parse(text: bytes, name: str, columns: Columns, bad: BadRows) -> pa.Table:
    """Parse CSV that begins with its header, or has the names that the dialect gives."""
    delimited = DelimitedText(name, BytesIO(text), columns.dialect)
    check_columns(delimited.schema.names, columns.names, name)
    batches = [*delimited.batches([*columns.names], bad)]
    return pa.Table.from_batches(batches, pa.schema([(one, pa.string()) for one in columns.names]))


def check_columns(found: Sequence[str], wanted: Sequence[str], name: str) -> None:
    """Refuse a file that lacks a column."""
    if missing := [one for one in wanted if one not in found]:
        raise ValueError(
            f"{name} has no column {missing[0]!r}; it has {', '.join(map(repr, found))}. Name one of these columns."
        )


def check_same_file(file: IO[bytes], position: Position) -> None:
    """Refuse a CSV file that has shrunk, or whose bytes before the position have changed."""
    size = os.fstat(file.fileno()).st_size
    if size < position.offset:
        raise Changed(
            f"{position.name} has shrunk from at least {position.offset:,} bytes to {size:,}, so rows that were "
            "counted are gone. Restore it, begin a new log under another name, or watch with a new checkpoint folder."
        )
    if position.head and _checksums(file, position.offset) != (position.head, position.tail):
        raise Changed(
            f"{position.name} was changed in its first {position.offset:,} bytes, which were counted before. Restore "
            "it, or watch with a new checkpoint folder."
        )


def _checksums(file: IO[bytes], offset: int) -> tuple[str, str]:
    """Checksums of the first bytes of a file, and of those before an offset."""
    file.seek(0)
    head = file.read(min(HEAD, offset))
    start = max(0, offset - TAIL)
    file.seek(start)
    tail = file.read(offset - start)
    return hashlib.sha256(head).hexdigest(), hashlib.sha256(tail).hexdigest()


# -- Files that are read as a whole -----------------------------------------------------------------------------------


def _read_whole(path: Path, position: Position, columns: Columns) -> Iterator[Part]:
    """Yield the rows of a file that cannot grow, after those that were read before."""
    status = path.stat()
    stamp = _stamp(status)
    if position.head and position.head != stamp:
        raise Changed(
            f"{position.name} was changed after {position.rows:,} of its rows were counted. Give every file its own "
            "name, and move it into the folder when it is complete."
        )
    if position.done:
        return
    bad = BadRows(limit=sys.maxsize)
    dialect = columns.dialect
    source = open_source(path, names=dialect.names, delimiter=dialect.delimiter, encoding=dialect.encoding, bad=bad)
    check_columns(source.schema.names, columns.names, position.name)
    position = replace(position, inode=status.st_ino, size=status.st_size, head=stamp)
    read = 0
    for table in source.tables(PART // 16, columns.names):
        new = table.slice(max(0, position.offset - read))
        read += table.num_rows
        if new.num_rows:
            position = replace(position, offset=read, rows=position.rows + new.num_rows)
            yield Part(new, position, BadRows(limit=sys.maxsize))
    yield Part(table.slice(0, 0), replace(position, done=True, rows=position.rows + bad.total), bad)


def _stamp(status: os.stat_result) -> str:
    """Checksum of the size of a file and of when it was changed."""
    return hashlib.sha256(f"{status.st_size} {status.st_mtime_ns}".encode()).hexdigest()


def is_same(path: Path, position: Position) -> bool:
    """Whether a file is the one that was read up to a position, under whatever name."""
    if not position.head:
        return False
    if not can_grow(path):
        return position.head == _stamp(path.stat())
    with path.open("rb") as file:
        try:
            check_same_file(file, position)
        except Changed:
            return False
    return True


def is_complete(path: Path) -> bool:
    """Whether a file that cannot grow opens; it may be half written."""
    try:
        find_kind(find_files(path))
        open_source(path, bad=BadRows(limit=0))
    except (ValueError, OSError):
        return False
    return True


# -- Standard input ---------------------------------------------------------------------------------------------------


def read_stream(number: int, columns: Columns, stop: Callable[[], bool]) -> Iterator[Part]:
    """Yield the rows of standard input, given by its file number, as they come, until somebody asks to stop.

    At its end, the last line counts without a line end.
    """
    position = Position("standard input")
    header: bytes | None = b"" if columns.dialect.names else None
    held = b""
    more = True
    while more and not stop():
        if not select([number], [], [], PATIENCE)[0]:
            continue
        chunk = os.read(number, PART)
        more = bool(chunk)
        held += chunk
        if len(held) > LONGEST:
            raise ValueError(f"Standard input has a line, or a quoted field, of more than {LONGEST:,} bytes.")
        end = last_row_end(held) if more else len(held)
        if header is None and end:
            cut = held.find(b"\n") + 1 or len(held)
            header, held, end = held[:cut], held[cut:], end - cut
        if header is None or not end:
            continue
        bad = BadRows(limit=sys.maxsize)
        table = parse(header + held[:end], position.name, columns, bad)
        held = held[end:]
        position = replace(position, rows=position.rows + table.num_rows + bad.total)
        yield Part(table, position, bad)
