"""Random text either parses, to the same rows in small and large blocks, or raises an error that explains."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefair.tables import csv as reader
from surefair.tables.bad_rows import BadRows
from surefair.tables.csv import DelimitedText, Dialect

pieces = st.sampled_from([",", ";", '"', '""', "\n", "\r\n", "\r", " ", "\t", "a", "1", "é", "\x00", "\u2028", "NA"])
texts = st.lists(pieces, max_size=80).map("".join) | st.text(max_size=80)


def read(content, dialect, block):
    """Read text in blocks of some size, and return its rows, or None after an error that explains."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "_BLOCK", block)
        try:
            text = DelimitedText("rows.csv", io.BytesIO(content), dialect)
            batches = text.batches(text.schema.names, BadRows(limit=1000))
            return [row for batch in batches for row in batch.to_pylist()]
        except ValueError as error:
            message = str(error)
    assert message.endswith(".")
    return None


@settings(max_examples=10 * settings.default.max_examples)
@given(text=texts, encoding=st.sampled_from(["utf-8", "latin-1", "utf-16"]), block=st.integers(32, 64))
def test_text_parses_or_the_error_explains(text, encoding, block):
    content = f"a,b\n{text}".encode(encoding, errors="replace")
    dialect = Dialect(encoding=encoding)
    assert read(content, dialect, block) == read(content, dialect, 1 << 20)


@settings(max_examples=10 * settings.default.max_examples)
@given(content=st.binary(max_size=200))
def test_bytes_parse_or_the_error_explains(content):
    read(content, Dialect(), 64)
