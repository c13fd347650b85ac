"""Find the data files at a path, check that they fit together, and read the rows of Parquet and Arrow files.

A path is one file or a folder of files of one kind. A subfolder named ``column=value`` adds that column to the rows of
the files inside it.
"""

from __future__ import annotations

import difflib
import errno
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

from surefair.storage.regular import open_regular

KINDS = {".csv": "csv", ".tsv": "csv", ".txt": "csv", ".data": "csv", ".parquet": "parquet", ".pq": "parquet"}
KINDS |= {".feather": "arrow", ".arrow": "arrow", ".ipc": "arrow"}
CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4", ".br": "brotli"}  # after a suffix of CSV
BATCH_ROWS = 1 << 16
"""Rows of Parquet or Arrow decoded at once."""

_SUPPORTED = f"{', '.join(KINDS)}, and CSV compressed as {', '.join(f'.csv{codec}' for codec in CODECS)}"
_FORMATS = {"parquet": ds.ParquetFileFormat(), "arrow": ds.IpcFileFormat()}


class DataFile(NamedTuple):
    """Name, size and checksum of a file that was read; `sha256sum` prints the same checksum."""

    name: str  # without the folder
    size: int  # bytes
    sha256: str

    @classmethod
    def of(cls, path: Path) -> DataFile:
        """Read a file to its end."""
        with path.open("rb") as file:
            return cls(path.name, path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


class FoundFile(NamedTuple):
    """A file found at the path that was opened."""

    path: Path
    name: str  # with its subfolders
    keys: dict[str, str]  # columns and values from the names of its subfolders
    stamp: tuple[int, int]  # size and time of the last change

    @property
    def is_unchanged(self) -> bool:
        """Whether the file still has the same size and time of the last change."""
        return _stamp(self.path) == self.stamp


class Piece(NamedTuple):
    """Consecutive row groups of a Parquet file."""

    path: Path
    name: str  # name of the file, with its subfolders
    keys: dict[str, str]  # columns and values from the names of its subfolders
    row_groups: tuple[int, ...]
    first: int  # number of the first row within the file
    before: int  # rows in the files before this one

    def tables(self, size: int, columns: Sequence[str], coded: Sequence[str] = ()) -> Iterator[pa.Table]:
        """Yield tables of `size` rows each; the last one has the rows that are left.

        Text in the columns `coded` is read as dictionaries, which is faster where few values repeat.
        """
        inside = [column for column in columns if column not in self.keys]
        batches = read_parquet(self.path, inside, [*self.row_groups], coded)
        return cut_batches((add_keys(batch, self.keys, columns) for batch in batches), size)

    def place(self, number: int) -> str:
        """Describe where a row is, given its number in the whole data."""
        return f"{self.name}, row {number - self.before + 1:,}"


# -- Find files -------------------------------------------------------------------------------------------------------


def find_files(path: Path) -> list[FoundFile]:
    """Return the file at a path, or the files of a folder sorted by name; check that each opens and is not empty."""
    try:
        paths = list(_walk(path)) if path.is_dir() else [path]
        for file in paths:
            with open_regular(file, "Pass it to standard input ('-').") as opened:
                if not opened.read(1):
                    raise ValueError(f"{file.name} is empty. Check that it was written completely.")
    except FileNotFoundError:
        neighbours = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        close = difflib.get_close_matches(path.name, neighbours, n=3)
        hint = f"Did you mean {' or '.join(map(repr, close))}?" if close else "Check its name and folder."
        raise FileNotFoundError(f"There is no file {str(path)!r}. {hint}") from None
    except PermissionError as error:
        raise PermissionError(f"No permission to read {error.filename!r}. Ask its owner for access.") from None
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise ValueError(f"{error.filename!r} is a link that leads back to itself. Remove it.") from None
    if not paths:
        raise ValueError(f"The folder {str(path)!r} has no file to read. Supported suffixes: {_SUPPORTED}.")
    return [_describe(file, path) for file in paths]


def _walk(folder: Path, above: tuple[Path, ...] = ()) -> Iterator[Path]:
    """Yield the files of a folder and its subfolders ``column=value``, sorted by name; ``above`` it lie others."""
    real = folder.resolve()
    if real in above:
        raise ValueError(f"The folder {folder.name!r} is a link to a folder above it. Remove the link.")
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith((".", "_")):
            continue
        if not entry.is_dir():
            yield entry
        elif "=" in entry.name:
            yield from _walk(entry, (*above, real))
        else:
            raise ValueError(
                f"The folder {folder.name!r} contains the folder {entry.name!r}, but only subfolders 'column=value' "
                "are read. Move it, or put '_' before its name so that it is skipped."
            )


def _describe(file: Path, path: Path) -> FoundFile:
    name = file.name if file == path else str(file.relative_to(path))
    parts = [part.partition("=") for part in file.relative_to(path).parts[:-1]]
    keys = {unquote(column): unquote(value) for column, _, value in parts}
    return FoundFile(file, name, keys, _stamp(file))


def _stamp(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns


def find_kind(files: Sequence[FoundFile]) -> str:
    """Return the kind that all files share: "csv", "parquet" or "arrow"."""
    first = {_kind(file.path): file.path.name for file in reversed(files)}  # the first file of each kind
    if len(first) > 1:
        found = ", ".join(f"{name} is {kind}" for kind, name in reversed(first.items()))
        raise ValueError(f"The folder contains files of several kinds: {found}. Keep one kind in a folder.")
    return _kind(files[0].path)


def _kind(path: Path) -> str:
    *_, before, suffix = ["", "", *(suffix.lower() for suffix in path.suffixes)]
    kind = KINDS.get(before if suffix in CODECS else suffix)
    if kind is None or (suffix in CODECS and kind != "csv"):
        raise ValueError(
            f"The suffix of {path.name!r} does not say what kind of file it is. Supported suffixes: {_SUPPORTED}. "
            "Rename the file, or pass CSV on standard input ('-')."
        )
    return kind


# -- Columns ----------------------------------------------------------------------------------------------------------


def combine_schemas(files: Sequence[FoundFile], schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Return the columns that all files share, with those of their subfolders; raise an error if files differ."""
    wholes = []
    for file, schema in zip(files, schemas, strict=True):
        own = [(field.name, field.type) for field in schema]
        wholes.append(pa.schema(own + [(name, pa.string()) for name in file.keys]))
        check_names(wholes[-1].names, file.path.name, file.keys)
        _check_same(files[0], wholes[0], file, wholes[-1])
    return wholes[0]


def _check_same(first: FoundFile, expected: pa.Schema, file: FoundFile, schema: pa.Schema) -> None:
    """Raise an error if a file has other columns than the first one."""
    ours, theirs = ([f"{field.name!r} ({field.type})" for field in fields] for fields in (schema, expected))
    for found, wanted in zip_longest(ours, theirs, fillvalue="nothing"):
        if found != wanted:
            raise ValueError(
                f"{file.path.name} has other columns than {first.path.name}: {found} in place of {wanted}. Files in a "
                "folder must have the same columns, in the same order and with the same types."
            )


def check_names(names: Iterable[str], where: str, keys: Iterable[str] = ()) -> None:
    """Raise an error if a column has no name, or the name of another column; `keys` come from subfolders."""
    seen: set[str] = set()
    for number, name in enumerate(names, start=1):
        if not name:
            raise ValueError(f"Column {number} of {where} has no name. Name it, or pass names for all columns.")
        if name in seen:
            origin = ", one of them from the name of its folder" if name in keys else ""
            raise ValueError(f"{where} has two columns {name!r}{origin}. Rename one of them.")
        seen.add(name)


def add_keys(batch: pa.RecordBatch, keys: dict[str, str], columns: Sequence[str]) -> pa.RecordBatch:
    """Return these columns of a batch; those in `keys` have the same value in every row."""
    chosen = [pa.repeat(keys[name], len(batch)) if name in keys else batch.column(name) for name in columns]
    return pa.record_batch(chosen, names=[*columns])


# -- Read rows --------------------------------------------------------------------------------------------------------


def read_head(path: Path, kind: str) -> tuple[pa.Schema, int]:
    """Return the columns and the number of rows of a Parquet or Arrow file."""
    with naming_file(path, kind):
        fragment = _fragment(path, kind)
        check_names(fragment.physical_schema.names, path.name)  # Arrow cannot count rows if names repeat
        return fragment.physical_schema, fragment.count_rows()


def row_group_sizes(path: Path) -> list[int]:
    """Return the number of rows in each row group of a Parquet file."""
    with naming_file(path, "parquet"):
        footer = pq.read_metadata(path)
    return [footer.row_group(i).num_rows for i in range(footer.num_row_groups)]


def read_parquet(
    path: Path, columns: list[str], row_groups: list[int] | None = None, coded: Sequence[str] = ()
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a Parquet file, or of some of its row groups; text in the columns `coded` as dictionaries.

    A fragment of a `pyarrow.dataset` would keep whole row groups in memory.
    """
    more = {"buffer_size": 1 << 20, "pre_buffer": False, "read_dictionary": [*coded]}
    with naming_file(path, "parquet"), pq.ParquetFile(path, **more) as file:
        yield from file.iter_batches(BATCH_ROWS, row_groups, columns or file.schema_arrow.names[:1])


def read_arrow(path: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an Arrow file."""
    with naming_file(path, "arrow"):
        yield from _fragment(path, "arrow").to_batches(columns=columns, batch_size=BATCH_ROWS, batch_readahead=1)


def _fragment(path: Path, kind: str) -> ds.Fragment:
    return _FORMATS[kind].make_fragment(str(path), LocalFileSystem())


@contextmanager
def naming_file(path: Path, kind: str) -> Iterator[None]:
    """Name the file in the error if it cannot be decoded."""
    try:
        yield
    except (FileNotFoundError, PermissionError):  # these name the file themselves
        raise
    except (pa.ArrowException, OSError) as error:
        reason = " ".join(str(error).rpartition(": ")[2].replace(str(path), path.name).split()).rstrip(".")
        what = f"{path.name} is not a {kind.capitalize()} file, or is cut short ({reason})"
        raise ValueError(f"{what}. Download or write it again.") from None


def cut_batches(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.Table]:
    """Yield tables of `size` rows, each column in one chunk; the last table has the rows that are left."""
    held: list[pa.RecordBatch] = []
    room = size
    for batch in batches:
        rest = batch
        while rest.num_rows >= room:
            yield pa.Table.from_batches([*held, rest.slice(0, room)]).combine_chunks()
            rest = rest.slice(room)
            held = []
            room = size
        if rest.num_rows:
            held.append(rest)
            room -= rest.num_rows
    if held:
        yield pa.Table.from_batches(held).combine_chunks()
