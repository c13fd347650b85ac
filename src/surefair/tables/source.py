r"""Read data of any size as Arrow tables with a fixed number of rows, one table at a time.

`open_source` turns a CSV, Parquet or Arrow file, a folder of such files, standard input or a data frame into a
`DataSource`. Its tables hold the same rows wherever files, blocks and row groups begin and end.

>>> from io import BytesIO
>>> source = open_source(BytesIO(b"age, sex\n25, f\n38, ?\n52\n61, m\n"), bad=BadRows(limit=1))
>>> [table.to_pydict() for table in source.tables(size=2)]
[{'age': ['25', '38'], 'sex': ['f', None]}, {'age': ['61'], 'sex': ['m']}]
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import IO, Any, NamedTuple

import narwhals as nw
import numpy as np
import pyarrow as pa

from surefair.names import one_of
from surefair.tables.bad_rows import BadRows
from surefair.tables.csv import DelimitedText, Dialect
from surefair.tables.files import (
    BATCH_ROWS,
    CODECS,
    DataFile,
    FoundFile,
    Piece,
    add_keys,
    check_names,
    combine_schemas,
    cut_batches,
    find_files,
    find_kind,
    naming_file,
    read_arrow,
    read_head,
    read_parquet,
    row_group_sizes,
)
from surefair.tables.split import SETTLING, sides


class Sample(NamedTuple):
    """Rows drawn over the whole data."""

    table: pa.Table
    n_rows: int  # of the whole data


class DataSource:
    """Rows of one data set, in order.

    Attributes
    ----------
    name : str
        Name for messages: that of a file or folder, "standard input", "pandas data frame".
    kind : str
        "csv", "parquet", "arrow" or "frame".
    schema : pyarrow.Schema
        Columns and their types; every column of a CSV file is text.
    n_rows : int or None
        Number of rows; for CSV it is None until `tables` has reached the end.
    n_bytes : int or None
        Size of all files together; None if there are no files.
    coded : sequence of str
        Columns whose text is read from Parquet files as dictionaries, which is faster where few values repeat.
    """

    n_bytes: int | None = None
    coded: Sequence[str] = ()

    def __init__(self, name: str, kind: str, schema: pa.Schema, n_rows: int | None) -> None:
        self.name = name
        self.kind = kind
        self.schema = schema.remove_metadata()
        self.n_rows = n_rows
        check_names(schema.names, name)
        if n_rows == 0:
            raise ValueError(f"{name} has columns but no rows. Check that it was written completely.")

    def files(self) -> list[DataFile]:
        """Return name, size and SHA-256 of each file; for standard input, of the bytes read so far."""
        raise NotImplementedError

    def position(self) -> float | None:
        """Return the share of the bytes of CSV files read so far, between 0 and 1, or None if it is unknown."""
        return None

    def place(self, number: int) -> str:
        """Describe where a row is, given its number."""
        return f"row {number + 1:,}"

    @property
    def paths(self) -> list[Path]:
        """Absolute paths of the files, for workers that may run in another folder."""
        return []

    def check_unchanged(self) -> None:
        """Raise an error if a file has changed since it was opened."""

    def shards(self, size: int) -> list[list[Piece]]:
        """Cut Parquet files into shards of whole row groups, in order, each of `size` rows or more."""
        raise ValueError(
            f"Only Parquet files can be read in shards by several workers; {self.name} is of kind {self.kind!r}. "
            "Convert it to a folder of Parquet files, or read it as one stream: leave out shard_rows (--shard-rows) "
            "and use the engine 'local'."
        )

    def tables(self, size: int, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Return an iterator over tables of `size` rows each; the last one has the rows that are left.

        Parameters
        ----------
        size : int
            Rows per table.
        columns : sequence of str, optional
            Columns to read, in this order; all by default.
        """
        if size < 1:
            raise ValueError(f"A table needs at least one row; received {size=}. Pass a size of 1 or more.")
        if columns is not None and not len(columns):
            raise ValueError("columns is empty. Name at least one column, or leave columns out to read all of them.")
        known = self.schema.names
        wanted = known if columns is None else [one_of(column, known, f"column of {self.name}") for column in columns]
        return self._tables(size, [*dict.fromkeys(wanted)])

    def _tables(self, size: int, columns: list[str]) -> Iterator[pa.Table]:
        n_rows = 0
        for table in cut_batches(self._batches(columns), size):
            n_rows += table.num_rows
            yield table
        if not n_rows:
            raise ValueError(
                f"No row of {self.name} can be used: all have too few or too many fields. Check the delimiter."
            )
        self.n_rows = n_rows

    def _batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield rows in batches of any size."""
        raise NotImplementedError

    def sample(self, size: int, columns: Sequence[str]) -> Sample | None:
        """Read all rows once more, and return so many of them, drawn at random over the whole data, in order.

        Which rows are drawn follows from their number alone, so it does not depend on the form of the data. None if the
        data can be read only once.

        Parameters
        ----------
        size : int
        columns : sequence of str

        Examples
        --------
        >>> source = open_source(pa.table({"x": range(10_000)}), bad=BadRows(limit=0))
        >>> source.sample(3, ["x"]).table["x"].to_pylist()
        [298, 5702, 9964]
        """
        with self._again() as again:
            return None if again is None else _draw(again.tables(BATCH_ROWS, columns), size)

    @contextmanager
    def _again(self) -> Iterator[DataSource | None]:
        """Give a source that reads the same rows and counts no bad ones, or None."""
        yield self


def _draw(tables: Iterator[pa.Table], size: int) -> Sample:
    """Draw so many rows; memory holds a few tables."""
    before = 0
    kept: pa.Table | None = None
    place = np.empty(0)
    for table in tables:
        numbers = np.arange(before, before + table.num_rows, dtype=np.uint64)
        before += table.num_rows
        kept = table if kept is None else pa.concat_tables([kept, table])
        place = np.concatenate([place, sides(numbers, 0, SETTLING)])
        if len(place) > size:
            chosen = np.sort(np.argpartition(place, size - 1)[:size])
            kept = kept.take(pa.array(chosen))
            place = place[chosen]
    assert kept is not None
    return Sample(kept.combine_chunks(), before)


def open_source(
    data: Any, *, names: Sequence[str] | None = None, delimiter: str = ",", encoding: str = "utf-8", bad: BadRows
) -> DataSource:
    """Open data of any form for reading; this reads only headers and footers.

    Parameters
    ----------
    data : path, binary file object or data frame
        A file, whose suffix says what kind it is (CSV: .csv, .tsv, .txt, .data, also compressed as .csv.gz, .bz2, .zst,
        .lz4 or .br; Parquet: .parquet, .pq; Arrow: .feather, .arrow, .ipc); a folder of files of one kind, which may
        lie in subfolders ``column=value``; "-" for CSV on standard input; CSV in a binary file object; or a data frame
        of any library that narwhals supports, without its index.
    names : sequence of str, optional
        Column names for CSV without a header.
    delimiter : str
        One character that separates the fields of CSV. In a .tsv file the comma stands for a tab.
    encoding : str
        Encoding of CSV, as Python names it. A byte-order mark is skipped.
    bad : BadRows
        Counter of the CSV rows with too few or too many fields.

    Examples
    --------
    >>> import pandas as pd
    >>> source = open_source(pd.DataFrame({"age": [25, 38, 52]}), bad=BadRows(limit=0))
    >>> source.name, source.kind, source.n_rows
    ('pandas data frame', 'frame', 3)
    """
    dialect = Dialect(names, delimiter, encoding)
    if isinstance(data, str) and data == "-":
        if sys.stdin is None or getattr(sys.stdin, "closed", False):
            raise ValueError("Standard input is closed. Pass the data to it, or name a file.")
        data = sys.stdin.buffer
    if hasattr(data, "read"):
        return _Stream(data, dialect, bad)
    if not isinstance(data, str | os.PathLike):
        return _Frame(data)
    path = Path(data)
    found = find_files(path)
    kind = find_kind(found)
    if kind == "csv":
        return _DelimitedFiles(path, found, dialect, bad)
    if names is not None:
        raise ValueError(
            f"names is for CSV without a header, but {found[0].path.name} already names its columns. Leave names out."
        )
    return _ColumnarFiles(path, found, kind)


class _Frame(DataSource):
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
            raise ValueError(f"Column names must be unique ({error}). Rename the columns.") from None
        except pa.ArrowException as error:
            raise ValueError(
                f"The data frame cannot be converted to Arrow ({error}). Give each column a single type."
            ) from None
        name = f"{frame.implementation.value} data frame"
        super().__init__(name, "frame", self._table.schema, self._table.num_rows)

    def files(self) -> list[DataFile]:
        hashed = _HashedBytes()
        with pa.ipc.new_stream(pa.PythonFile(hashed, "w"), self.schema) as writer:
            # Tables of a fixed size give the same bytes however the frame is cut into chunks.
            for table in cut_batches(self._table.to_batches(), BATCH_ROWS):
                writer.write_table(table)
        return [hashed.as_file(self.name)]

    def _batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        yield from self._table.select(columns).to_batches()


class _Stream(DataSource):
    """CSV on standard input or in a file object; it can be read once."""

    def __init__(self, file: Any, dialect: Dialect, bad: BadRows) -> None:
        self._hashed = _HashedBytes(file)
        self._dialect = dialect
        self._start = file.tell() if _can_seek(file) else None
        self._bad = bad
        self._text: DelimitedText | None = DelimitedText("standard input", self._hashed, dialect)
        super().__init__("standard input", "csv", self._text.schema, None if self._text.has_rows else 0)

    def files(self) -> list[DataFile]:
        return [self._hashed.as_file(self.name)]

    def _batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        text = self._text
        if text is None:
            raise ValueError(f"{self.name} can be read only once. Save it to a file to read it again.")
        self._text = None
        yield from text.batches(columns, self._bad)

    @contextmanager
    def _again(self) -> Iterator[DataSource | None]:
        if self._start is None:
            yield None
            return
        file = self._hashed.file
        here = file.tell()
        file.seek(self._start)
        try:
            yield _Stream(file, self._dialect, _uncounted())
        finally:
            file.seek(here)


class _Files(DataSource):
    """Files of one kind, which may lie in subfolders that name columns."""

    def __init__(self, path: Path, found: list[FoundFile], kind: str) -> None:
        self._files = found
        self.n_bytes = sum(size for size, _ in (file.stamp for file in found))
        heads = [self._head(file.path, kind) for file in found]
        counts = [count for _, count in heads]
        known = [count for count in counts if count is not None]
        self._starts = [*accumulate((count or 0 for count in counts), initial=0)][:-1]  # where counts are known
        schema = combine_schemas(found, [schema for schema, _ in heads])
        name = path.name or path.resolve().name
        super().__init__(name, kind, schema, sum(known) if len(known) == len(counts) else None)

    def files(self) -> list[DataFile]:
        return [DataFile.of(file.path) for file in self._files]

    @property
    def paths(self) -> list[Path]:
        return [file.path.absolute() for file in self._files]

    def check_unchanged(self) -> None:
        for file in self._files:
            if not file.is_unchanged:
                raise ValueError(
                    f"{file.path.name} was changed while it was read. Start again, and leave the files as they are."
                )

    def _batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        for file in self._files:
            # If only columns of subfolders are wanted, some column of the file must still say how many rows there are.
            inside = [column for column in columns if column not in file.keys] or self.schema.names[:1]
            for batch in self._rows(file.path, inside):
                yield add_keys(batch, file.keys, columns)

    def _head(self, path: Path, kind: str) -> tuple[pa.Schema, int | None]:
        """Return the columns of a file, without those of its subfolders, and its number of rows if that is known."""
        raise NotImplementedError

    def _rows(self, path: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file, with these of its columns."""
        raise NotImplementedError


class _ColumnarFiles(_Files):
    """Parquet or Arrow files."""

    def _head(self, path: Path, kind: str) -> tuple[pa.Schema, int | None]:
        return read_head(path, kind)

    def _rows(self, path: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
        if self.kind == "parquet":
            return read_parquet(path, columns, coded=self.coded)
        return read_arrow(path, columns)

    def place(self, number: int) -> str:
        if len(self._files) == 1:
            return super().place(number)
        file = bisect_right(self._starts, number) - 1
        return f"{self._files[file].name}, row {number - self._starts[file] + 1:,}"

    def shards(self, size: int) -> list[list[Piece]]:
        if self.kind != "parquet":
            return super().shards(size)
        found: list[list[Piece]] = [[]]
        room = size
        for file, before in zip(self._files, self._starts, strict=True):
            path = file.path.absolute()
            lengths = row_group_sizes(path)
            groups: list[int] = []
            for i, length in enumerate(lengths):
                groups.append(i)
                room -= length
                if room <= 0 or i + 1 == len(lengths):
                    first = sum(lengths[: groups[0]])
                    found[-1].append(Piece(path, file.name, file.keys, tuple(groups), first, before))
                    groups = []
                if room <= 0:
                    found.append([])
                    room = size
        last = found.pop()
        if found:
            found[-1] += last  # the rows that are left are too few for a shard
        return found or [last]


class _DelimitedFiles(_Files):
    """CSV files, which may be compressed."""

    def __init__(self, path: Path, found: list[FoundFile], dialect: Dialect, bad: BadRows) -> None:
        self._dialect = dialect
        self._bad = bad
        self._n_read = 0
        super().__init__(path, found, "csv")

    def position(self) -> float | None:
        return min(1.0, self._n_read / self.n_bytes) if self.n_bytes else None

    @contextmanager
    def _again(self) -> Iterator[DataSource | None]:
        again = copy(self)
        again._bad = _uncounted()
        yield again

    @contextmanager
    def _opened(self, path: Path) -> Iterator[tuple[DelimitedText, IO[bytes]]]:
        """Open a file; give its text, past the header, and the stored bytes."""
        is_tsv = ".tsv" in path.name.lower() and self._dialect.delimiter == ","
        dialect = replace(self._dialect, delimiter="\t") if is_tsv else self._dialect
        codec = CODECS.get(path.suffix.lower())
        with naming_file(path, codec or "csv"), path.open("rb") as file:
            unpacked = pa.CompressedInputStream(pa.PythonFile(file, "r"), codec) if codec else file
            yield DelimitedText(path.name, unpacked, dialect), file

    def _head(self, path: Path, kind: str) -> tuple[pa.Schema, int | None]:
        with self._opened(path) as (text, _):
            return text.schema, None if text.has_rows else 0

    def _batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        self._n_read = 0
        yield from super()._batches(columns)

    def _rows(self, path: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
        before = self._n_read
        place = f"{path.name}, " if len(self._files) > 1 else ""
        with self._opened(path) as (text, file):
            for batch in text.batches(columns, self._bad, place):
                self._n_read = before + file.tell()
                yield batch
        self._n_read = before + path.stat().st_size


def _uncounted() -> BadRows:
    """Return a counter for rows that are counted elsewhere."""
    return BadRows(limit=sys.maxsize)


def _can_seek(file: Any) -> bool:
    """Whether a file object can go back to where it is now."""
    try:
        return bool(file.seekable()) and file.tell() >= 0
    except (AttributeError, OSError, ValueError):
        return False


class _HashedBytes(io.RawIOBase):
    """Count and hash the bytes that are read from a file, or that Arrow writes here."""

    def __init__(self, file: Any = None) -> None:
        self.file = file
        self._size = 0
        self._digest = hashlib.sha256()

    def read(self, n: int = -1) -> bytes:
        chunk: bytes = self.file.read(n)
        if isinstance(chunk, str):
            raise ValueError("The file object returns text, but bytes are needed. Open the file with mode 'rb'.")
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
