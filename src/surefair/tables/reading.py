"""How a table is read: the form of a CSV file, unusable rows, and which columns must be there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import Any

import numpy as np
import pyarrow as pa

from surefair.names import one_of
from surefair.tables.bad_rows import BadRows
from surefair.tables.source import DataSource, open_source
from surefair.tables.values import is_number, is_text, to_number

NUMBERS = ("weights", "score")
"""Roles of columns that must hold numbers."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a table is read.

    Attributes
    ----------
    names : tuple of str or None
        Names of the columns of a CSV file without a header.
    delimiter, encoding : str
        Delimiter (None for a comma, or a tab in .tsv files) and encoding of a CSV file.
    max_bad_rows : int
        Rows that cannot be used; more of them are an error.
    """

    names: tuple[str, ...] | None = None
    delimiter: str | None = None
    encoding: str = "utf-8"
    max_bad_rows: int = 100

    def open(self, data: Any, bad: BadRows) -> DataSource:
        """Open data for reading."""
        more = {} if self.delimiter is None else {"delimiter": self.delimiter}
        return open_source(data, names=self.names, encoding=self.encoding, bad=bad, **more)

    def _as_tuples(self, *names: str) -> None:
        """Keep sequences as tuples, also where a single name or value was given."""
        for name in names:
            value = getattr(self, name)
            single = isinstance(value, (str, Number, np.bool_))
            as_tuple = value if value is None else (value,) if single else tuple(value)
            object.__setattr__(self, name, as_tuple)


def check_columns(named: Mapping[str, Sequence[str | None]], schema: pa.Schema, free: Sequence[str] = ()) -> None:
    """Refuse columns that are not in the data, or whose type cannot serve.

    Parameters
    ----------
    named : mapping of str to sequence of str
        Columns by their role.
    schema : pyarrow.Schema
    free : sequence of str
        Roles in which any type will do.
    """
    for what, names in named.items():
        for name in names:
            if name is not None:
                _check_header(name, schema.names)
                kind = schema.field(one_of(name, schema.names, f"column for {what}")).type
                if what not in free and not _can_serve(kind, what):
                    raise ValueError(
                        f"Column {name!r} has type {kind}, which cannot be used for {what}. Convert it to text or "
                        "numbers."
                    )


def _check_header(name: str, known: Sequence[str]) -> None:
    """Refuse an unknown name with a hint if the other names look like a row rather than a header."""
    if name not in known and any(in_order(word)[0] is False for word in known):
        raise ValueError(
            f"There is no column {name!r}. The first line is {', '.join(map(repr, known[:6]))}, ...: if the file has "
            "no header, pass the names of its columns (names, --names)."
        )


def _can_serve(kind: pa.DataType, what: str) -> bool:
    """Whether a column of this type has values to compare, or numbers where these are needed."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    dated = pa.types.is_temporal(kind) and not pa.types.is_interval(kind)
    return is_text(kind) or is_number(kind) or (what not in NUMBERS and dated)


def in_order(word: str) -> tuple[bool, float, str]:
    """Sort numbers by size, and words after them."""
    number = to_number(word)
    number = np.nan if number is None else number
    return (True, 0.0, word) if np.isnan(number) else (False, number, word)


def is_same_word(word: str, asked: str) -> bool:
    """Whether a word is the one asked for, as text, as a number, or as true or false.

    Examples
    --------
    >>> is_same_word("1", "1.0"), is_same_word("true", "True"), is_same_word("yes", "Yes")
    (True, True, False)
    """
    same_number = not in_order(word)[0] and in_order(word)[:2] == in_order(asked)[:2]
    return word == asked or same_number or (word == asked.lower() and word in ("true", "false"))
