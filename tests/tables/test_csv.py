"""The CSV reader gives the rows that Python's csv module gives, however small the blocks in which it reads."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from surefair.tables import csv as reader
from surefair.tables.bad_rows import BadRows
from surefair.tables.csv import MARKERS, DelimitedText, Dialect

DELIMITERS = [",", ";", "\t", "|", " "]
QUOTING = {"minimal": csv.QUOTE_MINIMAL, "all": csv.QUOTE_ALL, "words": csv.QUOTE_NONNUMERIC}
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "latin-1"]

pieces = st.sampled_from([*DELIMITERS, '"', '""', "\n", "\r\n", "  ", "'", "\\", "a", "7", "é", "ß", *MARKERS])
fields = st.lists(pieces, max_size=5).map("".join) | st.sampled_from(MARKERS)


@st.composite
def tables(draw):
    """Draw rows of text, all of the same length."""
    width = draw(st.integers(1, 4))
    return draw(st.lists(st.lists(fields, min_size=width, max_size=width), min_size=1, max_size=12))


def written(table, delimiter, quoting, line_end):
    """Write a table with a header as Python's csv module does, or with a space before every quote."""
    header = [f"c{number}" for number in range(len(table[0]))]
    if quoting == "spaces":
        quoted = [['"' + field.replace('"', '""') + '"' for field in row] for row in [header, *table]]
        return "".join(f"{delimiter} ".join(row) + line_end for row in quoted)
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter, quoting=QUOTING[quoting], lineterminator=line_end).writerows([header, *table])
    return text.getvalue()


def cleaned(field):
    """Apply what the reader documents: line feeds end lines, no white space around a value, None if it is missing."""
    value = field.replace("\r\n", "\n").strip()
    return None if value in MARKERS else value


def expected_rows(text, delimiter):
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=delimiter != " ")
    _, *rows = filter(None, rows)
    return [list(map(cleaned, row)) for row in rows]


def read(content, dialect):
    text = DelimitedText("rows.csv", io.BytesIO(content), dialect)
    batches = text.batches(text.schema.names, BadRows(limit=0))
    return [list(row.values()) for batch in batches for row in batch.to_pylist()]


@settings(max_examples=10 * settings.default.max_examples)
@given(
    table=tables(),
    delimiter=st.sampled_from(DELIMITERS),
    quoting=st.sampled_from([*QUOTING, "spaces"]),
    line_end=st.sampled_from(["\n", "\r\n"]),
    encoding=st.sampled_from(ENCODINGS),
    block=st.integers(48, 120),
)
@example([['a "quoted" word', "two\nlines"]] * 9, ",", "minimal", "\r\n", "utf-16", 48)
@example([["", ""], ["  ", "?"]], "\t", "minimal", "\n", "utf-8-sig", 48)
def test_rows_are_those_of_the_csv_module(table, delimiter, quoting, line_end, encoding, block):
    if delimiter == " " and quoting == "spaces":
        quoting = "all"  # a space after a space would be an empty field
    text = written(table, delimiter, quoting, line_end)
    header = len(text.partition(line_end)[0].encode(encoding)) + 8  # must fit into a block
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "_BLOCK", max(block, header))
        rows = read(text.encode(encoding), Dialect(delimiter=delimiter, encoding=encoding))
    assert rows == expected_rows(text, delimiter)
