r"""Delimited text (CSV) from bytes to rows, block by block, in the memory of a few blocks.

    bytes → text → blocks of whole rows → rows → rows without white space and markers of missing values

A block must end between two rows, and whether the end of a line is one depends on every quote before it. A cut is
guessed by counting quotes, and then proved: the block is parsed with one more row, of sentinels, and if that does not
come out as the last row, then a quoted field that was cut in two has swallowed it, and another cut is tried.

`pyarrow.csv.read_csv` parses the blocks. `open_csv` would cut them too, but it reads ahead in threads that call Python,
and an interpreter that ends meanwhile crashes.

>>> from io import BytesIO
>>> text = DelimitedText("survey", BytesIO(b'age, name\n25, "Li, Ann"\n38, ?\n52\n'), Dialect())
>>> bad = BadRows(limit=1)
>>> [batch.to_pydict() for batch in text.batches(["age", "name"], bad)]
[{'age': ['25', '38'], 'name': ['Li, Ann', None]}]
>>> print(bad)
too few fields: 1, the first in line 4: '52'
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count, islice
from typing import Any, NamedTuple, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, read_csv

from surefair.tables.bad_rows import BadRows

MARKERS = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")  # after white space is trimmed

_BLOCK = 1 << 20  # bytes parsed at once; the header must end within them
_LONGEST = 1 << 24  # characters in which a row must end
_SENTINEL = "\x1aend\x1a"
_FORMATS = {b"PAR1": "Parquet", b"ARROW1": "Arrow", b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstd"}


@dataclass(frozen=True)
class Dialect:
    """How a delimited text is written."""

    names: Sequence[str] | None = None  # of the columns, where there is no header
    delimiter: str = ","
    encoding: str = "utf-8"  # as Python names it; a byte-order mark is passed over

    def __post_init__(self) -> None:
        mark = self.delimiter
        if len(mark) != 1 or not mark.isascii() or mark in '"\r\n':
            raise ValueError(f"The delimiter must be one ASCII character other than a quote; received {mark!r}.")
        try:
            "a".encode(self.encoding)
        except LookupError:
            raise ValueError(f"Unknown encoding: {self.encoding!r}. Try 'utf-8', 'latin-1' or 'utf-16'.") from None


class _Block(NamedTuple):
    """Some lines, parsed."""

    lines: str
    rows: pa.Table
    bad: list[tuple[str, str]]  # reason, and the row as it stands
    is_whole: bool  # no quoted field is cut in two

    def line_of(self, row: str) -> int:
        """Number of the line, counted from 1, in which a row first stands."""
        text = f"\n{self.lines}\n"
        return text.count("\n", 0, text.find(f"\n{row}\n") + 1)


class DelimitedText:
    """A delimited text, opened past its header; its rows can be read once.

    Parameters
    ----------
    name : str
        What messages call it.
    file : binary file object
    dialect : Dialect

    Attributes
    ----------
    schema : pyarrow.Schema
        Columns of text, named by the header or as given. A name that the header repeats is numbered: a, a.1, a.2.
    has_rows : bool
        Whether anything follows the header.
    """

    def __init__(self, name: str, file: Any, dialect: Dialect) -> None:
        self.name, self._delimiter = name, dialect.delimiter
        pieces = _decoded(name, file, dialect.encoding)
        first, second = next(pieces, ""), next(pieces, "")
        names, header = self._header(first, dialect.names, is_all=not second)
        self.schema = pa.schema([(name, pa.string()) for name in names])
        self.has_rows = bool(first[len(header) :].strip() or second)
        self._pieces = chain([first[len(header) :], second], pieces)
        self._n_lines = header.count("\n")  # that were passed

    def batches(self, columns: Sequence[str], bad: BadRows, place: str = "") -> Iterator[pa.RecordBatch]:
        """Rows as text, null where a value is missing.

        Parameters
        ----------
        columns : sequence of str
            Those wanted, in this order.
        bad : BadRows
            Where rows with too few or too many fields are counted.
        place : str
            What is put before the line of a bad row, such as the name of one file of many.
        """
        for block in self._blocks(columns):
            places: dict[str, str] = {}  # to find a line takes time, and only the first of each reason is told
            for reason, row in block.bad:
                if reason not in places:
                    places[reason] = f"{place}line {self._n_lines + block.line_of(row)}: {_short(row)}"
                bad.add(reason, 1, places[reason])
            yield from map(_cleaned, block.rows.to_batches())
            self._n_lines += block.lines.count("\n")

    def _blocks(self, columns: Sequence[str]) -> Iterator[_Block]:
        """All rows in blocks; text after the last cut that was proved is held for the next."""
        held = ""
        for piece in self._pieces:
            held = self._without_spaces_before_quotes(held + piece)
            tries = (self._parsed(held[:cut], columns) for cut in _cuts(held))
            if block := next((block for block in tries if block.is_whole), None):
                yield block
                held = held[len(block.lines) :]
            elif len(held) > _LONGEST:
                _refuse_open_quote(self.name, self._n_lines + 1)
        if held:
            last = self._parsed(held, columns)
            if not last.is_whole:  # its last row is the one that swallowed the sentinels
                _refuse_open_quote(self.name, self._n_lines + last.rows.num_rows + len(last.bad))
            yield last

    def _without_spaces_before_quotes(self, text: str) -> str:
        """Many programs write 1, "a, b"; Arrow knows a quoted field only where the quote comes first."""
        if self._delimiter == " ":
            return text
        ends = rf"[{re.escape(self._delimiter)}\n]"
        text = f"\n{text}"  # so that the first field, too, follows the end of another
        if re.search(rf' "(?:(?<={ends} ")|(?<=  "))', text):  # which is fast, and most texts have none
            # Quoted fields are matched to their ends, or the end of the text, so that nothing inside them is changed.
            text = re.sub(rf'({ends}) *("[^"]*(?:""[^"]*)*(?:"|\Z))', r"\1\2", text)
        return text[1:]

    def _parsed(self, lines: str, columns: Sequence[str]) -> _Block:
        bad: list[tuple[str, str]] = []

        def unusable(row: Any) -> str:
            if row.text.strip():  # white space alone is an empty line
                bad.append((f"too {'few' if row.actual_columns < row.expected_columns else 'many'} fields", row.text))
            return "skip"

        whole = f"{lines}\n{self._delimiter.join([_SENTINEL] * len(self.schema))}".encode()
        rows = read_csv(
            pa.py_buffer(whole),
            ReadOptions(use_threads=False, block_size=len(whole) + 1, column_names=self.schema.names),
            ParseOptions(delimiter=self._delimiter, newlines_in_values=True, invalid_row_handler=unusable),
            ConvertOptions(column_types=self.schema, include_columns=columns),
        )
        is_whole = rows.num_rows > 0 and rows.column(0)[-1].as_py() == _SENTINEL
        return _Block(lines, rows.slice(0, rows.num_rows - is_whole), bad, is_whole)

    def _header(self, text: str, names: Sequence[str] | None, is_all: bool) -> tuple[list[str], str]:
        """Columns, and the header's text, which is empty where names are given; `is_all` if no text follows."""
        header, (first, *others) = self._first_rows(text)
        if not is_all and not header.endswith("\n"):
            _refuse_open_quote(self.name, 1)
        if names is not None and len(names) in map(len, [first, *others]):  # rows of other lengths are bad rows
            return [str(name).strip() for name in names], ""
        for other in ";\t|,":
            if len(first) == 1 and other in first[0] and other != self._delimiter:
                raise ValueError(
                    f"{self.name} begins with one field that contains {other!r}: {_short(first[0])}. "
                    f"Pass delimiter={other!r} (--delimiter)."
                )
        if names is not None:
            raise ValueError(
                f"names has {len(names)} column names, and the first row of {self.name} has {len(first)} fields: "
                f"{_short(self._delimiter.join(first))}. Pass one name for each field."
            )
        return _numbered([name.strip() for name in first]), header

    def _first_rows(self, text: str) -> tuple[str, list[list[str]]]:
        """Text up to the end of the first row that is not empty; that row and a few more."""
        lines = io.StringIO(text, newline="")
        reader = csv.reader(lines, delimiter=self._delimiter, skipinitialspace=self._delimiter != " ")
        rows = (row for row in reader if "".join(row).strip())
        try:
            first = next(rows)
            return text[: lines.tell()], [first, *islice(rows, 20)]
        except StopIteration:
            raise ValueError(f"{self.name} is empty. Check that it was written to its end.") from None
        except csv.Error:  # a field of great length
            _refuse_open_quote(self.name, reader.line_num)


def _decoded(name: str, file: Any, encoding: str) -> Iterator[str]:
    """Text in pieces of about a block; every line ends in a line feed, whichever way it was written."""
    is_utf8 = codecs.lookup(encoding).name == "utf-8"
    decoder = io.IncrementalNewlineDecoder(
        codecs.getincrementaldecoder("utf-8-sig" if is_utf8 else encoding)(), translate=True
    )
    first = _filled(file)
    for magic, what in _FORMATS.items():
        if first.startswith(magic):
            raise ValueError(f"{name} holds {what} data, and CSV is expected. Unpack it, or mend its suffix.")
    n_lines = 0
    for chunk in chain([first], iter(lambda: _filled(file), b""), [b""]):
        try:
            piece = decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            line = n_lines + error.object[: error.start].count(b"\n") + 1
            raise ValueError(
                f"{name} is not in the encoding {encoding!r}: byte 0x{error.object[error.start]:02x} in line {line}. "
                "Pass its encoding, for example encoding='latin-1' (--encoding latin-1)."
            ) from None
        n_lines += piece.count("\n")
        yield piece


def _filled(file: Any) -> bytes:
    """Bytes of a whole block, or those that are left; a stream may give fewer than it is asked for."""
    chunk = bytearray()
    while len(chunk) < _BLOCK and (more := file.read(_BLOCK - len(chunk))):
        chunk += more
    return bytes(chunk)


def _cuts(text: str) -> list[int]:
    """Where a text may be cut between two rows, the likeliest place first: at a line's end outside of quotes."""
    cuts = [text.rfind("\n") + 1]
    if text.count('"', 0, cuts[0]) % 2:  # in a quoted field, it seems
        cuts.insert(0, text.rfind("\n", 0, text.rfind('"', 0, cuts[0])) + 1)
    return [cut for cut in cuts if cut]


def _numbered(names: list[str]) -> list[str]:
    """Names with a number where they repeat an earlier one, as pandas numbers them."""
    taken, found = set(names), []
    for name in names:
        if name in found:
            name = next(other for n in count(1) if (other := f"{name}.{n}") not in taken)
            taken.add(name)
        found.append(name)
    return found


def _cleaned(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Text without white space around it; null where it is a marker of missing values."""
    trimmed = [pc.utf8_trim_whitespace(column) for column in batch.columns]
    null, markers = pa.scalar(None, pa.string()), pa.array(MARKERS)
    known = [pc.if_else(pc.is_in(column, value_set=markers), null, column) for column in trimmed]
    return pa.record_batch(known, schema=batch.schema)


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "…")


def _refuse_open_quote(name: str, line: int) -> NoReturn:
    raise ValueError(
        f"{name} has a quoted field that begins in line {line} and does not end. The file may be cut short, or a quote "
        "stands alone: close it, and write a quote inside a quoted field twice."
    )
