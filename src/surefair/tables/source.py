r"""Data of any size as Arrow tables of a fixed number of rows, one after the other; never all at once.

A CSV, Parquet or Arrow file, a folder of them, standard input or a data frame becomes a `Source`, whose tables hold the
same rows wherever files, blocks and row groups begin and end.

>>> from io import BytesIO
>>> source = open_source(BytesIO(b"age, sex\n25, f\n38, ?\n52\n61, m\n"), bad=BadRows(limit=1))
>>> [table.to_pydict() for table in source.tables(size=2)]
[{'age': ['25', '38'], 'sex': ['f', None]}, {'age': ['61'], 'sex': ['m']}]
"""

from __future__ import annotations

import difflib
import hashlib
import io
import os
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate, zip_longest
from pathlib import Path
from typing import IO, Any, NamedTuple
from urllib.parse import unquote

import narwhals as nw
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

from surefair.names import one_of
from surefair.tables.bad_rows import BadRows, TooManyBadRows
from surefair.tables.csv import MARKERS, DelimitedText, Dialect

__all__ = ["CODECS", "KINDS", "MARKERS", "BadRows", "DataFile", "Piece", "Source", "TooManyBadRows", "open_source"]

KINDS = {".csv": "csv", ".tsv": "csv", ".txt": "csv", ".data": "csv", ".parquet": "parquet", ".pq": "parquet"}
KINDS |= {".feather": "arrow", ".arrow": "arrow", ".ipc": "arrow"}
CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4", ".br": "brotli"}  # after a suffix of CSV

_KNOWN = f"{', '.join(KINDS)}, and CSV compressed as {', '.join(f'.csv{codec}' for codec in CODECS)}"
_FORMATS = {"parquet": ds.ParquetFileFormat(), "arrow": ds.IpcFileFormat()}
_BATCH = 1 << 16  # rows of Parquet or Arrow decoded at once


class DataFile(NamedTuple):
    """One file that was read, as anyone can check it: `sha256sum` prints the same."""

    name: str  # without its folder
    size: int  # bytes
    sha256: str

    @classmethod
    def of(cls, path: Path) -> DataFile:
        """Read a file to its end."""
        with path.open("rb") as file:
            return cls(path.name, path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


class Piece(NamedTuple):
    """Some row groups of a Parquet file, one after another."""

    path: Path
    name: str  # of the file, with the folders that name columns
    keys: dict[str, str]  # columns that its folders name
    row_groups: tuple[int, ...]
    first: int  # number of its first row in its file
    before: int  # rows in the files before

    def tables(self, size: int, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Tables of `size` rows each, the last one of those that are left."""
        inside = [column for column in columns if column not in self.keys]
        batches = _parquet(self.path, inside, [*self.row_groups])
        return _cut((_with_keys(batch, self.keys, columns) for batch in batches), size)

    def place(self, number: int) -> str:
        """What people call the place of a row, given its number in the whole data."""
        return f"{self.name}, row {number - self.before + 1:,}"


class Source:
    """Rows from one place, in their order.

    Attributes
    ----------
    name : str
        What people call it: a file's or folder's name, "standard input", "pandas data frame".
    kind : str
        "csv", "parquet", "arrow" or "frame".
    schema : pyarrow.Schema
        Columns and their types; every column of a CSV file is text.
    n_rows : int or None
        Number of rows; of CSV known once `tables` has come to its end.
    n_bytes : int or None
        Size of all files together; None where there is no file.
    """

    n_bytes: int | None = None

    def __init__(self, name: str, kind: str, schema: pa.Schema, n_rows: int | None) -> None:
        self.name, self.kind, self.schema, self.n_rows = name, kind, schema.remove_metadata(), n_rows
        _check_names(schema.names, name)
        if n_rows == 0:
            raise ValueError(f"{name} has columns but no rows. Check that it was written to its end.")

    def files(self) -> list[DataFile]:
        """Name, size and SHA-256 of each file; of standard input, of the bytes read so far."""
        raise NotImplementedError

    def position(self) -> float | None:
        """Share of the bytes read so far, between 0 and 1, of CSV files; None where it is not known."""
        return None

    def place(self, number: int) -> str:
        """What people call the place of a row, given its number."""
        return f"row {number + 1:,}"

    @property
    def paths(self) -> list[Path]:
        """Files that are read, for workers that may be in another folder."""
        return []

    def check_unchanged(self) -> None:
        """Refuse files that are not as they were when they were opened."""

    def shards(self, size: int) -> list[list[Piece]]:
        """Rows of Parquet files cut into shards of `size` rows or more, of whole row groups, in their order."""
        raise ValueError(
            f"Only Parquet is read in shards, on many workers at once; {self.name} is of kind {self.kind!r}. Convert "
            "it to a folder of Parquet files, or read it as one stream: without shard_rows (--shard-rows), on the "
            "engine local."
        )

    def tables(self, size: int, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Tables of `size` rows each, the last one of those that are left.

        Parameters
        ----------
        size : int
            Rows per table.
        columns : sequence of str, optional
            Columns wanted, in this order; all by default.
        """
        if size < 1:
            raise ValueError(f"A table needs a row or more; received {size=}.")
        if columns is not None and not len(columns):
            raise ValueError("No column is asked for. Name one or more, or leave columns out for all of them.")
        known = self.schema.names
        wanted = known if columns is None else [one_of(column, known, f"column of {self.name}") for column in columns]
        return self._tables(size, [*dict.fromkeys(wanted)])

    def _tables(self, size: int, columns: list[str]) -> Iterator[pa.Table]:
        n_rows = 0
        for table in _cut(self._batches(columns), size):
            n_rows += table.num_rows
            yield table
        if not n_rows:
            raise ValueError(
                f"No row of {self.name} can be used: none has a field for each column. Check its delimiter."
            )
        self.n_rows = n_rows

    def _batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Rows in batches of any size."""
        raise NotImplementedError


def open_source(
    data: Any, *, names: Sequence[str] | None = None, delimiter: str = ",", encoding: str = "utf-8", bad: BadRows
) -> Source:
    """Open data of any form for reading; only headers and footers are read yet.

    Parameters
    ----------
    data : path, binary file object or data frame
        A file whose suffix tells its kind (CSV: .csv, .tsv, .txt, .data, also compressed as .csv.gz, .bz2, .zst, .lz4
        or .br; Parquet: .parquet, .pq; Arrow: .feather, .arrow, .ipc); a folder of files of one kind, perhaps in
        folders ``column=value``; "-" for CSV on standard input; CSV in a binary file object; or a data frame of any
        library that narwhals knows, whose index is dropped.
    names : sequence of str, optional
        Column names of CSV without a header.
    delimiter : str
        One character between the fields of CSV. The comma stands for a tab where a file is .tsv.
    encoding : str
        Of CSV, as Python names it. A byte-order mark is passed over.
    bad : BadRows
        Where the rows of CSV with too few or too many fields are counted.

    Examples
    --------
    >>> import pandas as pd
    >>> source = open_source(pd.DataFrame({"age": [25, 38, 52]}), bad=BadRows(limit=0))
    >>> source.name, source.kind, source.n_rows
    ('pandas data frame', 'frame', 3)
    """
    dialect = Dialect(names, delimiter, encoding)
    if isinstance(data, str) and data == "-":
        data = sys.stdin.buffer
    if hasattr(data, "read"):
        return _Stream(data, dialect, bad)
    if not isinstance(data, str | os.PathLike):
        return _Frame(data)
    paths = _paths(Path(data))
    kind = _one_kind(paths)
    if kind == "csv":
        return _DelimitedFiles(Path(data), paths, dialect, bad)
    if names is not None:
        raise ValueError(f"names is for CSV without a header; {paths[0].name} names its columns itself. Leave it out.")
    return _ColumnarFiles(Path(data), paths, kind)


class _Frame(Source):
    """A data frame, as one Arrow table."""

    def __init__(self, data: Any) -> None:
        try:
            frame = nw.from_native(data, eager_only=True, pass_through=True)
            if not isinstance(frame, nw.DataFrame):
                raise ValueError(
                    f"Data must be a file, a folder, '-' or a data frame; received {type(data).__name__}. "
                    "Pass a path, collect a lazy frame, or put arrays into a data frame with column names."
                )
            if not all(isinstance(name, str) for name in frame.columns):
                raise ValueError(f"Column names must be text; received {frame.columns}. Rename the columns.")
            self._table = nw.maybe_reset_index(frame).to_arrow().replace_schema_metadata(None)
        except nw.exceptions.DuplicateError as error:
            raise ValueError(f"Every column needs a name of its own ({error}). Rename the columns.") from None
        except pa.ArrowException as error:
            raise ValueError(f"The data frame has no Arrow form ({error}). Give each column one type.") from None
        name = f"{frame.implementation.value} data frame"
        super().__init__(name, "frame", self._table.schema, self._table.num_rows)

    def files(self) -> list[DataFile]:
        hashed = _Hashed()
        with pa.ipc.new_stream(pa.PythonFile(hashed, "w"), self.schema) as writer:
            for table in _cut(self._table.to_batches(), _BATCH):  # the same bytes, in whichever pieces the frame is
                writer.write_table(table)
        return [hashed.as_file(self.name)]

    def _batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        yield from self._table.select(columns).to_batches()


class _Stream(Source):
    """CSV on standard input or in a file object; it can be read once."""

    def __init__(self, file: Any, dialect: Dialect, bad: BadRows) -> None:
        self._hashed, self._bad = _Hashed(file), bad
        self._text: DelimitedText | None = DelimitedText("standard input", self._hashed, dialect)
        super().__init__("standard input", "csv", self._text.schema, None if self._text.has_rows else 0)

    def files(self) -> list[DataFile]:
        return [self._hashed.as_file(self.name)]

    def _batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        if self._text is None:
            raise ValueError(f"{self.name} can be read only once. Save it to a file to read it again.")
        text, self._text = self._text, None
        yield from text.batches(columns, self._bad)


class _Files(Source):
    """Files of one kind, perhaps in folders that name columns."""

    def __init__(self, path: Path, paths: list[Path], kind: str) -> None:
        self._paths, self._keys = paths, [_keys(file, path) for file in paths]
        self._named = [file.name if file == path else str(file.relative_to(path)) for file in paths]
        self._stamps = [_stamp(file) for file in paths]
        self.n_bytes = sum(size for size, _ in self._stamps)
        schemas, counts = zip(*[self._head(file, kind) for file in paths], strict=True)
        n_rows = None if None in counts else sum(counts)
        self._starts = [*accumulate((count or 0 for count in counts), initial=0)][:-1]  # where files tell
        super().__init__(path.name or path.resolve().name, kind, _same_columns(paths, schemas, self._keys), n_rows)

    def files(self) -> list[DataFile]:
        return [DataFile.of(path) for path in self._paths]

    @property
    def paths(self) -> list[Path]:
        return [path.absolute() for path in self._paths]

    def check_unchanged(self) -> None:
        for path, stamp in zip(self._paths, self._stamps, strict=True):
            if _stamp(path) != stamp:
                raise ValueError(f"{path.name} was changed while it was read. Begin afresh, on files that stay.")

    def _batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        for path, keys in zip(self._paths, self._keys, strict=True):
            # Where only folders' names are asked for, some column must still tell how many rows there are.
            inside = [column for column in columns if column not in keys] or self.schema.names[:1]
            for batch in self._rows(path, inside):
                yield _with_keys(batch, keys, columns)

    def _head(self, path: Path, kind: str) -> tuple[pa.Schema, int | None]:
        """Columns of one file, without those that its folders name, and how many rows it has, if it tells."""
        raise NotImplementedError

    def _rows(self, path: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Rows of one file, with these of its columns."""
        raise NotImplementedError


class _ColumnarFiles(_Files):
    """Parquet or Arrow files."""

    def _head(self, path: Path, kind: str) -> tuple[pa.Schema, int | None]:
        with _readable(path, kind):
            fragment = _fragment(path, kind)
            _check_names(fragment.physical_schema.names, path.name)  # Arrow counts no rows under names that repeat
            return fragment.physical_schema, fragment.count_rows()

    def _rows(self, path: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
        if self.kind == "parquet":
            yield from _parquet(path, columns)
            return
        with _readable(path, self.kind):
            yield from _fragment(path, "arrow").to_batches(columns=columns, batch_size=_BATCH, batch_readahead=1)

    def place(self, number: int) -> str:
        if len(self._paths) == 1:
            return super().place(number)
        file = bisect_right(self._starts, number) - 1
        return f"{self._named[file]}, row {number - self._starts[file] + 1:,}"

    def shards(self, size: int) -> list[list[Piece]]:
        if self.kind != "parquet":
            return super().shards(size)
        found: list[list[Piece]] = [[]]
        room = size
        for path, name, keys, before in zip(self.paths, self._named, self._keys, self._starts, strict=True):
            with _readable(path, "parquet"):
                footer = pq.read_metadata(path)
            lengths = [footer.row_group(i).num_rows for i in range(footer.num_row_groups)]
            groups: list[int] = []
            for i, length in enumerate(lengths):
                groups.append(i)
                room -= length
                if room <= 0 or i + 1 == len(lengths):
                    first = sum(lengths[: groups[0]])
                    found[-1].append(Piece(path, name, keys, tuple(groups), first, before))
                    groups = []
                if room <= 0:
                    found.append([])
                    room = size
        last = found.pop()
        if found:
            found[-1] += last  # the rows that are left are too few for a shard
        return found or [last]


def _parquet(path: Path, columns: list[str], row_groups: list[int] | None = None) -> Iterator[pa.RecordBatch]:
    """Rows of a Parquet file, or of some of its row groups; a fragment of a data set would hold whole row groups."""
    with _readable(path, "parquet"), pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
        yield from file.iter_batches(_BATCH, row_groups, columns or file.schema_arrow.names[:1])


def _with_keys(batch: pa.RecordBatch, keys: dict[str, str], columns: Sequence[str]) -> pa.RecordBatch:
    """Columns of a batch, and those that folders name."""
    chosen = [pa.repeat(keys[name], len(batch)) if name in keys else batch.column(name) for name in columns]
    return pa.record_batch(chosen, names=[*columns])


class _DelimitedFiles(_Files):
    """CSV files, perhaps compressed."""

    def __init__(self, path: Path, paths: list[Path], dialect: Dialect, bad: BadRows) -> None:
        self._dialect, self._bad, self._n_read = dialect, bad, 0
        super().__init__(path, paths, "csv")

    def position(self) -> float | None:
        return min(1.0, self._n_read / self.n_bytes) if self.n_bytes else None

    @contextmanager
    def _opened(self, path: Path) -> Iterator[tuple[DelimitedText, IO[bytes]]]:
        """A file past its header, and its bytes as they are stored."""
        is_tsv = ".tsv" in path.name.lower() and self._dialect.delimiter == ","
        dialect = replace(self._dialect, delimiter="\t") if is_tsv else self._dialect
        codec = CODECS.get(path.suffix.lower())
        with _readable(path, codec or "csv"), path.open("rb") as file:
            unpacked = pa.CompressedInputStream(pa.PythonFile(file, "r"), codec) if codec else file
            yield DelimitedText(path.name, unpacked, dialect), file

    def _head(self, path: Path, kind: str) -> tuple[pa.Schema, int | None]:
        with self._opened(path) as (text, _):
            return text.schema, None if text.has_rows else 0

    def _batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        self._n_read = 0
        yield from super()._batches(columns)

    def _rows(self, path: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
        before, place = self._n_read, f"{path.name}, " if len(self._paths) > 1 else ""
        with self._opened(path) as (text, file):
            for batch in text.batches(columns, self._bad, place):
                self._n_read = before + file.tell()
                yield batch
        self._n_read = before + path.stat().st_size


class _Hashed(io.RawIOBase):
    """Bytes that pass on their way from a file, or from Arrow to nowhere, counted and hashed."""

    def __init__(self, file: Any = None) -> None:
        self._file, self._size, self._digest = file, 0, hashlib.sha256()

    def read(self, n: int = -1) -> bytes:
        chunk: bytes = self._file.read(n)
        if isinstance(chunk, str):
            raise ValueError("The file object gives text, and bytes are needed. Open the file with mode 'rb'.")
        self.write(chunk)
        return chunk

    def writable(self) -> bool:
        return True

    def write(self, chunk: Any) -> int:
        self._size += len(chunk)
        self._digest.update(chunk)
        return len(chunk)

    def as_file(self, name: str) -> DataFile:
        return DataFile(name, self._size, self._digest.hexdigest())


def _stamp(path: Path) -> tuple[int, int]:
    """Size of a file, and when it was last written to."""
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns


def _fragment(path: Path, kind: str) -> ds.Fragment:
    return _FORMATS[kind].make_fragment(str(path), LocalFileSystem())


@contextmanager
def _readable(path: Path, kind: str) -> Iterator[None]:
    """Say of a file that cannot be decoded which one it is."""
    try:
        yield
    except (FileNotFoundError, PermissionError):  # which name the file themselves
        raise
    except (pa.ArrowException, OSError) as error:
        reason = " ".join(str(error).rpartition(": ")[2].replace(str(path), path.name).split()).rstrip(".")
        what = f"{path.name} is not a {kind.capitalize()} file, or is cut short ({reason})"
        raise ValueError(f"{what}. Fetch or write it again.") from None


def _cut(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.Table]:
    """Tables of a fixed number of rows, each column in one piece."""
    held: list[pa.RecordBatch] = []
    room = size
    for batch in batches:
        while batch.num_rows >= room:
            yield pa.Table.from_batches([*held, batch.slice(0, room)]).combine_chunks()
            batch, held, room = batch.slice(room), [], size
        if batch.num_rows:
            held.append(batch)
            room -= batch.num_rows
    if held:
        yield pa.Table.from_batches(held).combine_chunks()


def _paths(path: Path) -> list[Path]:
    """The file itself, or the files of a folder, sorted by name; each can be opened and is not empty."""
    try:
        paths = list(_inside(path)) if path.is_dir() else [path]
        for file in paths:
            with file.open("rb") as opened:
                if not opened.read(1):
                    raise ValueError(f"{file.name} is empty. Check that it was written to its end.")
    except FileNotFoundError:
        around = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        close = difflib.get_close_matches(path.name, around, n=3)
        hint = f"Did you mean {' or '.join(map(repr, close))}?" if close else "Check its name and folder."
        raise FileNotFoundError(f"There is no file {str(path)!r}. {hint}") from None
    except PermissionError as error:
        raise PermissionError(f"You may not read {error.filename!r}. Ask its owner for permission.") from None
    if not paths:
        raise ValueError(f"The folder {str(path)!r} holds no file that can be read. Known are {_KNOWN}.")
    return paths


def _inside(folder: Path) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith((".", "_")):
            continue
        if not entry.is_dir():
            yield entry
        elif "=" in entry.name:
            yield from _inside(entry)
        else:
            what = f"The folder {folder.name!r} holds another, {entry.name!r}"
            raise ValueError(
                f"{what}. Only folders 'column=value' are read, and those that begin with '_' passed over."
            )


def _one_kind(paths: list[Path]) -> str:
    names = {_kind(path): path.name for path in reversed(paths)}  # the first file of each kind
    if len(names) > 1:
        found = ", ".join(f"{name} is {kind}" for kind, name in reversed(names.items()))
        raise ValueError(f"The folder holds files of several kinds: {found}. Keep one kind in a folder.")
    return _kind(paths[0])


def _kind(path: Path) -> str:
    *_, before, suffix = ["", "", *(suffix.lower() for suffix in path.suffixes)]
    kind = KINDS.get(before if suffix in CODECS else suffix)
    if kind is None or (suffix in CODECS and kind != "csv"):
        what = f"The suffix of {path.name!r} does not tell what it holds"
        raise ValueError(f"{what}. Known are {_KNOWN}. Rename it, or pass CSV as standard input ('-').")
    return kind


def _keys(file: Path, path: Path) -> dict[str, str]:
    """Columns that the names of folders below `path` give, as in year=2024/data.csv."""
    parts = [part.partition("=") for part in file.relative_to(path).parts[:-1]]
    return {unquote(column): unquote(value) for column, _, value in parts}


def _same_columns(paths: list[Path], schemas: Iterable[pa.Schema], keys: list[dict[str, str]]) -> pa.Schema:
    """Columns of the first file, with those that its folders name; refuse a file with others."""
    wholes = []
    for path, schema, key in zip(paths, schemas, keys, strict=True):
        wholes.append(pa.schema([(field.name, field.type) for field in schema] + [(name, pa.string()) for name in key]))
        _check_names(wholes[-1].names, path.name, key)
        mine, first = ([f"{field.name!r} ({field.type})" for field in whole] for whole in (wholes[-1], wholes[0]))
        for found, wanted in zip_longest(mine, first, fillvalue="nothing"):
            if found != wanted:
                what = f"{path.name} has other columns than {paths[0].name}: {found} in place of {wanted}"
                raise ValueError(f"{what}. Files in a folder must have the same columns, in one order and of one type.")
    return wholes[0]


def _check_names(names: Iterable[str], where: str, keys: Iterable[str] = ()) -> None:
    """Refuse columns without a name, or with one that is taken."""
    seen: set[str] = set()
    for number, name in enumerate(names, start=1):
        if not name:
            raise ValueError(f"Column {number} of {where} has no name. Name it, or pass names for all columns.")
        if name in seen:
            origin = ", one of them from the name of its folder" if name in keys else ""
            raise ValueError(f"{where} has two columns {name!r}{origin}. Rename one of them.")
        seen.add(name)
