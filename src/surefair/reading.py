r"""Data of any size as Arrow tables of a fixed number of rows, one after the other; never all at once.

A CSV, Parquet or Arrow file, a folder of them, standard input or a data frame becomes a `Source`, whose tables hold the
same rows wherever files, blocks and row groups begin and end. CSV is cut into blocks here and parsed by
`pyarrow.csv.read_csv`, since `open_csv` reads ahead in threads that call Python, and an interpreter that ends meanwhile
crashes; Parquet is decoded by `ParquetFile.iter_batches`, since `pyarrow.dataset` holds whole row groups.

>>> from io import BytesIO
>>> source = open_source(BytesIO(b"age, sex\n25, f\n38, ?\n52\n61, m\n"), bad=BadRows(limit=1))
>>> [table.to_pydict() for table in source.tables(size=2)]
[{'age': ['25', '38'], 'sex': ['f', None]}, {'age': ['61'], 'sex': ['m']}]
"""

from __future__ import annotations

import codecs
import csv
import difflib
import hashlib
import io
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from urllib.parse import unquote

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv_parser
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from surefair.names import one_of

MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")  # of CSV, after white space is trimmed
KINDS = {".csv": "csv", ".tsv": "csv", ".txt": "csv", ".data": "csv", ".parquet": "parquet", ".pq": "parquet"}
KINDS |= {".feather": "arrow", ".arrow": "arrow", ".ipc": "arrow"}
CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4", ".br": "brotli"}  # after a suffix of CSV

_FORMATS = {b"PAR1": "Parquet", b"ARROW1": "Arrow", b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstd"}
_STDIN = "standard input"
_HEAD, _BLOCK, _LONGEST = 1 << 20, 1 << 22, 1 << 24  # bytes: to find a header, to parse at once, of a row at most
_BATCH = 1 << 16  # rows of Parquet or Arrow decoded at once
_END = "\x1aend\x1a"  # follows each block of CSV as a row of its own: an open quote would swallow it


class DataFile(NamedTuple):
    """One file that was read, as anyone can check it: `sha256sum` prints the same."""

    name: str  # without its folder
    size: int  # bytes
    sha256: str


class TooManyBadRows(ValueError):
    """More rows cannot be used than the limit allows."""


class BadRows:
    """Tally of rows that cannot be used: how many for each reason, and where the first is.

    Parameters
    ----------
    limit : int
        The largest number of such rows that does not stop the run.

    Examples
    --------
    >>> bad = BadRows(limit=2)
    >>> bad.add("too few fields", 2, "line 17: '52'")
    >>> bad.total, bad.to_dict()
    (2, [{'reason': 'too few fields', 'count': 2, 'first': "line 17: '52'"}])
    >>> bad.add("no label", 1, "row 120")
    Traceback (most recent call last):
    surefair.reading.TooManyBadRows: 3 rows cannot be used, and the limit is 2. no label: 1, the first in row 120; too
    few fields: 2, the first in line 17: '52'. Mend the data, or raise max_bad_rows (--max-bad-rows).
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._found: dict[str, tuple[int, str]] = {}

    @classmethod
    def from_dict(cls, found: Iterable[Mapping[str, Any]], limit: int) -> BadRows:
        """Tally restored from what `to_dict` gave."""
        bad = cls(limit)
        bad._found = {entry["reason"]: (entry["count"], entry["first"]) for entry in found}
        return bad

    @property
    def total(self) -> int:
        """Number of rows that cannot be used, for any reason."""
        return sum(count for count, _ in self._found.values())

    def add(self, reason: str, count: int, where: str) -> None:
        """Count rows; `where` is the place of the first of them. Past the limit, raise `TooManyBadRows`."""
        before, first = self._found.get(reason, (0, where))
        if count:
            self._found[reason] = (before + count, first)
        if self.total > self.limit:
            found = "; ".join(f"{e['reason']}: {e['count']}, the first in {e['first']}" for e in self.to_dict())
            raise TooManyBadRows(
                f"{self.total} {'row' if self.total == 1 else 'rows'} cannot be used, and the limit is {self.limit}. "
                f"{found}. Mend the data, or raise max_bad_rows (--max-bad-rows)."
            )

    def to_dict(self) -> list[dict[str, Any]]:
        """Reason, count and first place, sorted by reason."""
        return [{"reason": r, "count": count, "first": first} for r, (count, first) in sorted(self._found.items())]


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

    def __init__(self, name: str, kind: str, schema: pa.Schema, n_rows: int | None, paths: Sequence[Path] = ()) -> None:
        self.name, self.kind, self.schema, self.n_rows = name, kind, schema.remove_metadata(), n_rows
        self.n_bytes = sum(path.stat().st_size for path in paths) if paths else None
        self._paths = paths
        _distinct(schema.names, name)
        if n_rows == 0:
            raise ValueError(f"{name} has columns but no rows. Check that it was written to its end.")

    def files(self) -> list[DataFile]:
        """Name, size and SHA-256 of each file; of standard input, of the bytes read so far."""
        found = []
        for path in self._paths:
            with path.open("rb") as file:
                found.append(DataFile(path.name, path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()))
        return found

    def position(self) -> float | None:
        """Share of the bytes read so far, between 0 and 1, of CSV files; None where it is not known."""
        return None

    def tables(self, size: int, columns: Sequence[str] | None = None, start: int = 0) -> Iterator[pa.Table]:
        """Tables of `size` rows each, the last one of those that are left.

        Parameters
        ----------
        size : int
            Rows per table.
        columns : sequence of str, optional
            Columns wanted, in this order; all by default.
        start : int
            Number of the first table wanted; those before it are skipped. Their bad rows are counted again.
        """
        if size < 1 or start < 0:
            raise ValueError(f"A table needs a row or more, and the first is number 0; received {size=}, {start=}.")
        if columns is not None and not len(columns):
            raise ValueError("No column is asked for. Name one or more, or leave columns out for all of them.")
        known = self.schema.names
        wanted = known if columns is None else [one_of(column, known, f"column of {self.name}") for column in columns]
        return _cut(self._batches([*dict.fromkeys(wanted)], start * size), size)

    def _batches(self, columns: list[str], skip: int) -> Iterator[pa.RecordBatch]:
        """Rows from number `skip` on, in batches of any size."""
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
    if isinstance(data, str) and data == "-":
        data = sys.stdin.buffer
    form = _form(names, delimiter, encoding)
    if hasattr(data, "read"):
        return _Csv(_STDIN, form, bad, stream=data)
    if not isinstance(data, str | os.PathLike):
        return _Frame(data)
    paths = _paths(Path(data))
    first, kind = paths[0], _kind(paths[0])
    for path in paths:
        if path.stat().st_size == 0:
            raise ValueError(f"{path.name} is empty. Check that it was written to its end.")
        if _kind(path) != kind:
            raise ValueError(
                f"The folder {Path(data).name!r} holds files of several kinds: {first.name} is {kind}, {path.name} is "
                f"{_kind(path)}. Keep one kind in a folder."
            )
    folder = Path(data) if Path(data).is_dir() else first.parent
    name = Path(data).name or Path(data).resolve().name
    if kind == "csv":
        return _Csv(name, form, bad, paths, folder)
    if names is not None:
        raise ValueError(f"names is for CSV without a header; {first.name} names its columns itself. Leave names out.")
    return _Columnar(name, kind, paths, folder)


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
        passed = _Passed()
        with pa.ipc.new_stream(pa.PythonFile(passed, "w"), self.schema) as writer:
            for table in _cut(self._table.to_batches(), _BATCH):
                writer.write_table(table)
        return [passed.as_file(self.name)]

    def _batches(self, columns: list[str], skip: int) -> Iterator[pa.RecordBatch]:
        yield from self._table.select(columns).slice(skip).to_batches()


class _Columnar(Source):
    """Parquet or Arrow files."""

    def __init__(self, name: str, kind: str, paths: list[Path], folder: Path) -> None:
        schemas, self._lengths = [], []
        for path in paths:
            with _readable(path, kind):
                file = ds.dataset(str(path), format=kind)
                schemas.append(file.schema)
                self._lengths.append(file.count_rows())
        self._folder = folder
        super().__init__(name, kind, _same_columns(schemas, paths, folder), sum(self._lengths), paths)

    def _batches(self, columns: list[str], skip: int) -> Iterator[pa.RecordBatch]:
        read = _parquet if self.kind == "parquet" else _arrow
        for path, n_rows in zip(self._paths, self._lengths, strict=True):
            if skip < n_rows:
                keys = _keys(path, self._folder)
                inside = [column for column in columns if column not in keys] or self.schema.names[:1]
                with _readable(path, self.kind):
                    for batch in read(path, inside, skip):
                        yield _chosen(batch, columns, keys)
            skip = max(0, skip - n_rows)


def _parquet(path: Path, columns: list[str], skip: int) -> Iterator[pa.RecordBatch]:
    """Rows of a Parquet file; row groups before the first row wanted are not decoded."""
    with pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
        first = 0
        while skip >= (n_rows := file.metadata.row_group(first).num_rows):
            first, skip = first + 1, skip - n_rows
        groups = list(range(first, file.num_row_groups))
        yield from _after(skip, file.iter_batches(_BATCH, row_groups=groups, columns=columns))


def _arrow(path: Path, columns: list[str], skip: int) -> Iterator[pa.RecordBatch]:
    file = ds.dataset(str(path), format="arrow")
    yield from _after(skip, file.to_batches(columns=columns, batch_size=_BATCH, batch_readahead=1))


class _Csv(Source):
    """CSV files or one stream, parsed block by block; bad rows are counted and left out."""

    def __init__(
        self,
        name: str,
        form: _Form,
        bad: BadRows,
        paths: Sequence[Path] = (),
        folder: Path = Path(),
        stream: Any = None,
    ) -> None:
        self._form, self._bad, self._folder = form, bad, folder
        self._passed = _Passed(stream)
        self._stream = None if paths else _Text(name, form, self._passed)
        texts = [self._stream] if self._stream else []
        for path in paths:
            with path.open("rb") as file:
                texts.append(self._text(path, _Passed(file)))
        schemas = [_strings(text.names) for text in texts]
        schema = _same_columns(schemas, paths, folder) if paths else schemas[0]
        super().__init__(name, "csv", schema, None if any(text.has_rows for text in texts) else 0, paths)

    def files(self) -> list[DataFile]:
        return super().files() if self._paths else [self._passed.as_file(self.name)]

    def position(self) -> float | None:
        return min(1.0, self._passed.size / self.n_bytes) if self.n_bytes else None

    def _text(self, path: Path, passed: _Passed) -> _Text:
        tab = ".tsv" in path.name.lower() and self._form.delimiter == ","
        return _Text(path.name, self._form._replace(delimiter="\t") if tab else self._form, passed, path.suffix)

    def _texts(self) -> Iterator[tuple[_Text, dict[str, str]]]:
        """Each file, opened past its header, with the columns that its folders name."""
        if not self._paths:
            if self._stream is None:
                raise ValueError(f"{self.name} can be read only once. Save it to a file to read it again.")
            text, self._stream = self._stream, None
            yield text, {}
            return
        self._passed = passed = _Passed()
        for path in self._paths:
            with path.open("rb") as passed.file:
                yield self._text(path, passed), _keys(path, self._folder)

    def _batches(self, columns: list[str], skip: int) -> Iterator[pa.RecordBatch]:
        n_rows = 0
        for text, keys in self._texts():
            for batch in self._parsed(text, [column for column in columns if column not in keys] or text.names[:1]):
                fresh = batch.slice(min(skip, batch.num_rows))
                skip -= batch.num_rows - fresh.num_rows
                n_rows += batch.num_rows
                yield _cleaned(_chosen(fresh, columns, keys))
        if not n_rows:
            raise ValueError(f"No row of {self.name} can be used: {self._bad.to_dict()}. Check its delimiter.")
        self.n_rows = n_rows

    def _parsed(self, text: _Text, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Good rows of one file as they stand, block by block; the bad ones are counted."""
        place = f"{text.name}, " if len(self._paths) > 1 else ""
        line, block = text.line, b""
        while more := text.read(_BLOCK):
            block += more
            for cut in [len(block)] if text.at_end else _cuts(block):
                found = _Block.parsed(block[:cut], text, columns)
                if found.is_whole:
                    break
            else:
                if text.at_end:
                    _open_quote(text.name, line + found.rows.num_rows + len(found.bad))
                if len(block) > _LONGEST:
                    _open_quote(text.name, line + 1)
                continue
            places: dict[str, str] = {}
            for reason, row in found.bad:
                if reason not in places:
                    places[reason] = f"{place}line {line + found.line_of(row)}: {_short(row)}"
                self._bad.add(reason, 1, places[reason])
            yield from found.rows.to_batches()
            line += block.count(b"\n", 0, cut)
            block = block[cut:]


class _Passed:
    """Bytes that pass on their way from a file or to it, counted and hashed."""

    closed = False

    def __init__(self, file: Any = None) -> None:
        self.file, self.size, self._digest = file, 0, hashlib.sha256()

    def read(self, n: int) -> bytes:
        chunk: bytes = self.file.read(n)
        if isinstance(chunk, str):
            raise ValueError("The file object gives text, and bytes are needed. Open the file with mode 'rb'.")
        self.write(chunk)
        return chunk

    def write(self, chunk: bytes) -> None:
        self.size += len(chunk)
        self._digest.update(chunk)

    def flush(self) -> None:
        """Arrow asks for it; nothing is held back."""

    def close(self) -> None:
        """Arrow asks for it; the file is closed by whoever opened it."""

    def as_file(self, name: str) -> DataFile:
        return DataFile(name, self.size, self._digest.hexdigest())


def _cuts(block: bytes) -> list[int]:
    """Where a block may be cut between two rows, the likeliest place first: at a line's end outside of quotes."""
    end = b"\n" if b"\n" in block else b"\r"
    cuts = [block.rfind(end) + 1]
    if block.count(b'"', 0, cuts[0]) % 2:  # in a quoted field, it seems
        cuts.insert(0, block.rfind(end, 0, block.rfind(b'"', 0, cuts[0])) + 1)
    return [cut for cut in cuts if cut]


class _Block(NamedTuple):
    """Some lines of CSV, parsed."""

    lines: bytes
    rows: pa.Table
    bad: list[tuple[str, str]]  # reason, and the row as it stands
    is_whole: bool  # no quote is left open

    @classmethod
    def parsed(cls, lines: bytes, text: _Text, columns: list[str]) -> _Block:
        bad: list[tuple[str, str]] = []

        def unusable(row: Any) -> str:
            few = row.actual_columns < row.expected_columns
            if row.text.strip():  # white space alone is an empty line
                bad.append(("too few fields" if few else "too many fields", row.text))
            return "skip"

        whole = lines + b"\n" + text.delimiter.join([_END] * len(text.names)).encode()
        rows = csv_parser.read_csv(
            pa.py_buffer(whole),
            csv_parser.ReadOptions(use_threads=False, block_size=len(whole) + 1, column_names=text.names),
            csv_parser.ParseOptions(delimiter=text.delimiter, newlines_in_values=True, invalid_row_handler=unusable),
            csv_parser.ConvertOptions(column_types=_strings(text.names), include_columns=columns),
        )
        is_whole = rows.num_rows > 0 and rows.column(0)[-1].as_py() == _END
        return cls(lines, rows.slice(0, rows.num_rows - is_whole), bad, is_whole)

    def line_of(self, row: str) -> int:
        """Number of the line, counted from 1, in which a row first stands."""
        place = re.search(rb"(?<![^\r\n])" + re.escape(row.encode()) + rb"(?![^\r\n])", self.lines)
        return self.lines.count(b"\n", 0, place.start() if place else 0) + 1


class _Form(NamedTuple):
    """How CSV is written."""

    names: list[str] | None
    delimiter: str
    encoding: str


def _form(names: Sequence[str] | None, delimiter: str, encoding: str) -> _Form:
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
        raise ValueError(f"The delimiter must be one ASCII character other than a quote; received {delimiter!r}.")
    try:
        "a".encode(encoding)
    except LookupError:
        raise ValueError(f"Unknown encoding: {encoding!r}. Pass 'utf-8', 'latin-1', 'cp1252' or 'utf-16'.") from None
    utf8 = codecs.lookup(encoding).name == "utf-8"
    return _Form(
        None if names is None else [str(name).strip() for name in names], delimiter, "utf-8-sig" if utf8 else encoding
    )


class _Text:
    """One CSV file as Arrow reads it: decompressed, checked against its encoding, in UTF-8, past its header.

    Attributes
    ----------
    names : list of str
        Columns, from the header or as given.
    has_rows : bool
        Whether anything follows the header.
    line : int
        Number of lines up to the end of the header.
    """

    def __init__(self, name: str, form: _Form, passed: _Passed, suffix: str = "") -> None:
        self.name, self.delimiter = name, form.delimiter
        self._codec = CODECS.get(suffix.lower())
        self._bytes = pa.CompressedInputStream(pa.PythonFile(passed, "r"), self._codec) if self._codec else passed
        self._encoding, self._decoder = form.encoding, codecs.getincrementaldecoder(form.encoding)()
        self._ready, self._over, self._n_lines = bytearray(), False, 0
        self.names, self.line, self.has_rows = self._header(form.names)

    @property
    def at_end(self) -> bool:
        """Whether all was read."""
        return self._over and not self._ready

    def read(self, n: int) -> bytes:
        """The next bytes, n of them or those that are left."""
        self._fill(n + 1)  # one more, to know whether these are the last
        chunk = bytes(self._ready[:n])
        del self._ready[:n]
        return chunk

    def _fill(self, n: int) -> None:
        while len(self._ready) < n and not self._over:
            chunk = self._next()
            if not (self._ready or self._n_lines):
                for magic, what in _FORMATS.items():
                    if chunk.startswith(magic):
                        raise ValueError(
                            f"{self.name} holds {what} data, and CSV is expected. Unpack it, or pass the path of a "
                            "file whose suffix says so."
                        )
            try:
                text = self._decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                line = self._n_lines + error.object[: error.start].count(b"\n") + 1
                raise ValueError(
                    f"{self.name} is not in the encoding {self._encoding.removesuffix('-sig')!r}: byte "
                    f"0x{error.object[error.start]:02x} in line {line}. Pass its encoding, for example "
                    "encoding='latin-1' (--encoding latin-1)."
                ) from None
            self._n_lines += text.count("\n")
            self._ready += text.encode()
            self._over = not chunk

    def _next(self) -> bytes:
        try:
            return bytes(self._bytes.read(_HEAD))
        except OSError as error:
            if self._codec is None:
                raise
            raise ValueError(
                f"{self.name} is not a {self._codec} file, or is cut short ({error}). Fetch or write it again."
            ) from None

    def _header(self, names: list[str] | None) -> tuple[list[str], int, bool]:
        """Columns, number of lines of the header and whether more follows; the header is passed over."""
        self._fill(_HEAD)
        text = io.StringIO(self._ready.decode(), newline="")  # whole characters, as they were just encoded
        reader = csv.reader(text, delimiter=self.delimiter)
        rows = (row for row in reader if "".join(row).strip())
        try:
            first = next(rows)
            line, header = reader.line_num, text.getvalue()[: text.tell()]
            some = list(islice(rows, 20))
        except StopIteration:
            raise ValueError(f"{self.name} is empty. Check that it was written to its end.") from None
        except csv.Error:  # a field of great length
            _open_quote(self.name, reader.line_num)
        if not self._over and not header.endswith(("\n", "\r")):
            _open_quote(self.name, 1)
        if names is not None and len(names) in map(len, [first, *some]):  # rows of other lengths are bad rows
            return names, 0, True
        for other in ";\t|,":
            if len(first) == 1 and other in first[0] and other != self.delimiter:
                raise ValueError(
                    f"{self.name} begins with one field that contains {other!r}: {_short(first[0])}. "
                    f"Pass delimiter={other!r} (--delimiter)."
                )
        if names is not None:
            raise ValueError(
                f"names has {len(names)} column names, and the first row of {self.name} has {len(first)} fields: "
                f"{_short(self.delimiter.join(first))}. Pass one name for each field."
            )
        del self._ready[: len(header.encode())]
        return [name.strip() for name in first], line, bool(some) or not self._over


def _open_quote(name: str, line: int) -> NoReturn:
    raise ValueError(
        f"{name} has a quoted field that begins in line {line} and does not end. The file may be cut short, or a quote "
        "stands alone: close it, and write a quote inside a quoted field twice."
    )


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "…")


def _chosen(batch: pa.RecordBatch, columns: list[str], keys: Mapping[str, str]) -> pa.RecordBatch:
    """Columns in the order asked for, of the rows and of their folders' names."""
    chosen = [pa.repeat(keys[name], len(batch)) if name in keys else batch.column(name) for name in columns]
    return pa.record_batch(chosen, names=columns)


def _cleaned(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Text without white space around it; null where it is a marker of missing values."""
    trimmed = [pc.utf8_trim_whitespace(column) for column in batch.columns]
    missing = [pc.is_in(column, value_set=pa.array(MISSING)) for column in trimmed]
    null = pa.scalar(None, pa.string())
    return pa.record_batch([pc.if_else(m, null, t) for m, t in zip(missing, trimmed, strict=True)], schema=batch.schema)


def _strings(names: Iterable[str]) -> pa.Schema:
    return pa.schema([(name, pa.string()) for name in names])


def _after(skip: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches without their first rows."""
    for batch in batches:
        yield batch.slice(min(skip, batch.num_rows))
        skip = max(0, skip - batch.num_rows)


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
    """The file itself, or the files of a folder, sorted by name."""
    if path.is_dir():
        if not (found := list(_inside(path))):
            raise ValueError(f"The folder {str(path)!r} holds no file that can be read. Known are {_known()}.")
        return found
    if not path.exists():
        around = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        close = difflib.get_close_matches(path.name, around, n=3)
        hint = f"Did you mean {' or '.join(map(repr, close))}?" if close else "Check its name and folder."
        raise FileNotFoundError(f"There is no file {str(path)!r}. {hint}")
    return [path]


def _inside(folder: Path) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith((".", "_")):
            continue
        if not entry.is_dir():
            yield entry
        elif "=" in entry.name:
            yield from _inside(entry)
        else:
            raise ValueError(
                f"The folder {folder.name!r} holds another, {entry.name!r}. Only folders 'column=value' are read; move "
                "it away, or give it a name that begins with '_'."
            )


def _kind(path: Path) -> str:
    *_, before, suffix = ["", "", *(suffix.lower() for suffix in path.suffixes)]
    kind = KINDS.get(suffix) or (KINDS.get(before) if suffix in CODECS else None)
    if kind is None or (suffix in CODECS and kind != "csv"):
        raise ValueError(
            f"The suffix of {path.name!r} does not tell what it holds. Known are {_known()}. Rename it, or pass CSV as "
            "standard input ('-')."
        )
    return kind


def _known() -> str:
    return f"{', '.join(KINDS)}, and CSV compressed as {', '.join(f'.csv{codec}' for codec in CODECS)}"


@contextmanager
def _readable(path: Path, kind: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        reason = str(error).rpartition(": ")[2].replace(str(path), path.name).rstrip(".")
        raise ValueError(
            f"{path.name} is not a {kind.capitalize()} file, or is cut short ({reason}). Fetch or write it again."
        ) from None


def _keys(path: Path, folder: Path) -> dict[str, str]:
    """Columns that the names of folders give, as in year=2024/data.csv."""
    parts = [part.partition("=") for part in path.relative_to(folder).parts[:-1]]
    return {unquote(column): unquote(value) for column, _, value in parts}


def _same_columns(schemas: Sequence[pa.Schema], paths: Sequence[Path], folder: Path) -> pa.Schema:
    """Columns of the first file, with those that its folders name; refuse a file with others."""
    wholes: list[list[tuple[str, Any]]] = []
    for schema, path in zip(schemas, paths, strict=True):
        keys = _keys(path, folder)
        wholes.append([(field.name, field.type) for field in schema] + [(key, pa.string()) for key in keys])
        _distinct([name for name, _ in wholes[-1]], path.name, keys)
        for mine, first in zip_longest(wholes[-1], wholes[0]):
            if mine != first:
                texts = ["nothing" if column is None else f"{column[0]!r} ({column[1]})" for column in (mine, first)]
                raise ValueError(
                    f"{path.name} has other columns than {paths[0].name}: {texts[0]} in place of {texts[1]}. Files "
                    "in a folder must have the same columns, in the same order and of the same types."
                )
    return pa.schema(wholes[0])


def _distinct(names: Iterable[str], where: str, keys: Iterable[str] = ()) -> None:
    """Refuse columns without a name, or with one that is taken."""
    seen: set[str] = set()
    for number, name in enumerate(names, start=1):
        if not name:
            raise ValueError(f"Column {number} of {where} has no name. Name it, or pass names for all columns.")
        if name in seen:
            origin = ", one of them from the name of its folder" if name in keys else ""
            raise ValueError(f"{where} has two columns {name!r}{origin}. Rename one of them.")
        seen.add(name)
