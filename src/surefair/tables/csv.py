r"""Read delimited text (CSV) block by block, so that memory holds only a few blocks.

    bytes → text → blocks of whole rows → parsed rows → rows with text trimmed and missing values as null

A block must end between two rows, and whether the end of a line is also the end of a row depends on every quote before
it. So we guess a cut by counting quotes, and then prove it: we parse the block with an extra row of sentinels. If the
sentinels do not come back as the last row, the cut split a quoted field that swallowed them, and we try another cut.

`pyarrow.csv.read_csv` parses the blocks. `open_csv` would cut them as well, but it reads ahead in threads that call
Python, and they crash an interpreter that exits in the meantime.

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

_BLOCK = 1 << 20  # bytes parsed at once; the header must fit into them
_LONGEST = 1 << 24  # characters of the longest row
_SENTINEL = "\x1aend\x1a"
_FORMATS = {b"PAR1": "Parquet", b"ARROW1": "Arrow", b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstd"}


@dataclass(frozen=True)
class Dialect:
    """How a delimited text is written."""

    names: Sequence[str] | None = None  # column names, for text without a header
    delimiter: str = ","
    encoding: str = "utf-8"  # as Python names it; a byte-order mark is skipped

    def __post_init__(self) -> None:
        mark = self.delimiter
        if not isinstance(mark, str) or len(mark) != 1 or not mark.isascii() or mark in '"\r\n':
            raise ValueError(
                f"The delimiter must be one ASCII character other than a quote or a line end; received {mark!r}. "
                "Pass one such as ',', ';' or a tab."
            )
        try:
            "a".encode(self.encoding)
        except (LookupError, TypeError):
            raise ValueError(f"Unknown encoding: {self.encoding!r}. Try 'utf-8', 'latin-1' or 'utf-16'.") from None


class _Block(NamedTuple):
    """Lines and the rows parsed from them."""

    lines: str
    rows: pa.Table
    bad: list[tuple[str, str]]  # reason, and the text of the row
    is_whole: bool  # the cut split no quoted field

    def line_of(self, row: str) -> int:
        """Return the number of the line, counted from 1, where a row first appears."""
        text = f"\n{self.lines}\n"
        return text.count("\n", 0, text.find(f"\n{row}\n") + 1)


class DelimitedText:
    """Delimited text, read up to the end of its header; its rows can be read once.

    Parameters
    ----------
    name : str
        Name to use in messages.
    file : binary file object
    dialect : Dialect

    Attributes
    ----------
    schema : pyarrow.Schema
        Columns, all of them text, named by the header or the dialect. Names that the header repeats get numbers: a,
        a.1, a.2.
    has_rows : bool
        Whether anything follows the header.
    """

    def __init__(self, name: str, file: Any, dialect: Dialect) -> None:
        self.name = name
        self._delimiter = dialect.delimiter
        pieces = _decode(name, file, dialect.encoding)
        first = next(pieces, "")
        second = next(pieces, "")
        names, header = self._read_header(first, dialect.names, is_all=not second)
        self.schema = pa.schema([(name, pa.string()) for name in names])
        self.has_rows = bool(first[len(header) :].strip() or second)
        self._pieces = chain([first[len(header) :], second], pieces)
        self._n_lines = header.count("\n")  # lines read so far

    def batches(self, columns: Sequence[str], bad: BadRows, place: str = "") -> Iterator[pa.RecordBatch]:
        """Yield rows as text, with null for missing values.

        Parameters
        ----------
        columns : sequence of str
            Columns to return, in this order.
        bad : BadRows
            Counter of rows with too few or too many fields.
        place : str
            Text to put before the line number of a bad row, such as the name of one of several files.
        """
        for block in self._blocks(columns):
            places: dict[str, str] = {}  # finding a line takes time, and only the first for each reason is reported
            for reason, row in block.bad:
                if reason not in places:
                    places[reason] = f"{place}line {self._n_lines + block.line_of(row)}: {_shorten(row)}"
                bad.add(reason, 1, places[reason])
            yield from map(_clean, block.rows.to_batches())
            self._n_lines += block.lines.count("\n")

    def _blocks(self, columns: Sequence[str]) -> Iterator[_Block]:
        """Yield all rows in blocks; text after the last proved cut waits for the next block."""
        held = ""
        for piece in self._pieces:
            held = self._strip_spaces_before_quotes(held + piece)
            tries = (self._parse(held[:cut], columns) for cut in _find_cuts(held))
            if block := next((block for block in tries if block.is_whole), None):
                yield block
                held = held[len(block.lines) :]
            elif len(held) > _LONGEST:
                _refuse_open_quote(self.name, self._n_lines + 1)
        if held:
            last = self._parse(held, columns)
            if not last.is_whole:  # the last row is the one that swallowed the sentinels
                _refuse_open_quote(self.name, self._n_lines + last.rows.num_rows + len(last.bad))
            yield last

    def _strip_spaces_before_quotes(self, text: str) -> str:
        """Turn 1, "a, b" into 1,"a, b": Arrow recognises a quoted field only if the quote comes first."""
        if self._delimiter == " ":
            return text
        ends = rf"[{re.escape(self._delimiter)}\n]"
        text = f"\n{text}"  # so that the first field also follows the end of another
        if re.search(rf' "(?:(?<={ends} ")|(?<=  "))', text):  # this search is fast, and most texts have none
            # The pattern matches a quoted field up to its end, or the end of the text, and so changes nothing inside.
            text = re.sub(rf'({ends}) *("[^"]*(?:""[^"]*)*(?:"|\Z))', r"\1\2", text)
        return text[1:]

    def _parse(self, lines: str, columns: Sequence[str]) -> _Block:
        bad: list[tuple[str, str]] = []

        def skip(row: Any) -> str:
            if row.text.strip():  # a line of white space counts as empty
                amount = "few" if row.actual_columns < row.expected_columns else "many"
                bad.append((f"too {amount} fields", row.text))
            return "skip"

        whole = f"{lines}\n{self._delimiter.join([_SENTINEL] * len(self.schema))}".encode()
        rows = read_csv(
            pa.py_buffer(whole),
            ReadOptions(use_threads=False, block_size=len(whole) + 1, column_names=self.schema.names),
            ParseOptions(delimiter=self._delimiter, newlines_in_values=True, invalid_row_handler=skip),
            ConvertOptions(column_types=self.schema, include_columns=columns),
        )
        is_whole = rows.num_rows > 0 and rows.column(0)[-1].as_py() == _SENTINEL
        return _Block(lines, rows.slice(0, rows.num_rows - is_whole), bad, is_whole)

    def _read_header(self, text: str, names: Sequence[str] | None, is_all: bool) -> tuple[list[str], str]:
        """Return the column names and the text of the header, which is empty if the dialect has names.

        `is_all` says that no more text follows.
        """
        header, (first, *others) = self._read_first_rows(text)
        if not is_all and not header.endswith("\n"):
            _refuse_open_quote(self.name, 1)
        if names is not None and len(names) in map(len, [first, *others]):  # rows of other lengths are bad rows
            return [str(name).strip() for name in names], ""
        for other in ";\t|,":
            if len(first) == 1 and other in first[0] and other != self._delimiter:
                raise ValueError(
                    f"{self.name} begins with a single field that contains {other!r}: {_shorten(first[0])}. "
                    f"Pass delimiter={other!r} (--delimiter)."
                )
        if names is not None:
            raise ValueError(
                f"names has {len(names)} column names, but the first row of {self.name} has {len(first)} fields: "
                f"{_shorten(self._delimiter.join(first))}. Pass one name for each field."
            )
        return _number_repeats([name.strip() for name in first]), header

    def _read_first_rows(self, text: str) -> tuple[str, list[list[str]]]:
        """Return the text up to the end of the first row that is not empty, then that row and a few more."""
        lines = io.StringIO(text, newline="")
        reader = csv.reader(lines, delimiter=self._delimiter, skipinitialspace=self._delimiter != " ")
        rows = (row for row in reader if "".join(row).strip())
        try:
            first = next(rows)
            return text[: lines.tell()], [first, *islice(rows, 20)]
        except StopIteration:
            raise ValueError(f"{self.name} is empty. Check that it was written completely.") from None
        except csv.Error:  # the field is too long
            _refuse_open_quote(self.name, reader.line_num)


def _decode(name: str, file: Any, encoding: str) -> Iterator[str]:
    """Yield text in pieces of about a block, with every line end written as a line feed."""
    is_utf8 = codecs.lookup(encoding).name == "utf-8"
    decoder = io.IncrementalNewlineDecoder(
        codecs.getincrementaldecoder("utf-8-sig" if is_utf8 else encoding)(), translate=True
    )
    first = _read_block(file)
    for magic, what in _FORMATS.items():
        if first.startswith(magic):
            raise ValueError(f"{name} holds {what} data, but CSV is expected. Unpack it or correct its suffix.")
    n_lines = 0
    for chunk in chain([first], iter(lambda: _read_block(file), b""), [b""]):
        try:
            piece = decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            line = n_lines + error.object[: error.start].count(b"\n") + 1
            raise ValueError(
                f"{name} is not in the encoding {encoding!r}: byte 0x{error.object[error.start]:02x} in line {line}. "
                "Pass its encoding, for example encoding='latin-1' (--encoding latin-1)."
            ) from None
        if chunk is first:
            piece = piece.removeprefix("\ufeff")  # the byte-order mark of utf-16-le and others
        n_lines += piece.count("\n")
        yield piece


def _read_block(file: Any) -> bytes:
    """Read a whole block, or what is left; a stream may return fewer bytes than requested."""
    chunk = bytearray()
    while len(chunk) < _BLOCK and (more := file.read(_BLOCK - len(chunk))):
        chunk += more
    return bytes(chunk)


def _find_cuts(text: str) -> list[int]:
    """Return the places that may lie between two rows, the most likely first: a line end outside quotes."""
    cuts = [text.rfind("\n") + 1]
    if text.count('"', 0, cuts[0]) % 2:  # it seems to be inside a quoted field
        cuts.insert(0, text.rfind("\n", 0, text.rfind('"', 0, cuts[0])) + 1)
    return [cut for cut in cuts if cut]


def _number_repeats(names: list[str]) -> list[str]:
    """Add a number to each name that repeats an earlier one, as pandas does."""
    taken = set(names)
    found: list[str] = []
    for name in names:
        if name in found:
            name = next(other for n in count(1) if (other := f"{name}.{n}") not in taken)
            taken.add(name)
        found.append(name)
    return found


def _clean(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Trim white space, and replace markers of missing values with null."""
    trimmed = [pc.utf8_trim_whitespace(column) for column in batch.columns]
    null = pa.scalar(None, pa.string())
    markers = pa.array(MARKERS)
    known = [pc.if_else(pc.is_in(column, value_set=markers), null, column) for column in trimmed]
    return pa.record_batch(known, schema=batch.schema)


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "…")


def _refuse_open_quote(name: str, line: int) -> NoReturn:
    raise ValueError(
        f"{name} has a quoted field that begins in line {line} and does not end. The file may be cut short, or a "
        "closing quote may be missing. Close every quoted field, and double each quote inside one."
    )
