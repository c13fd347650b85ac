"""Columns that are not used: the reason, and which rows contradict it.

A reason is found on some rows only. A column that is constant there may vary elsewhere, so every chunk is compared with
the reason again.

>>> reason = Constant("constant, 0 in the first 3 rows", 0.0)
>>> reason.contradicts(pa.array([0, 1, None, 0])).tolist()
[False, True, True, False]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa

from surefair.tables.values import MISSING, BoolArray, as_numbers, as_words, is_number, is_text


@dataclass(frozen=True)
class LeftOut:
    """A column that is left out for a reason that no value can contradict, such as its type.

    Attributes
    ----------
    reason : str
    """

    reason: str

    def contradicts(self, column: pa.Array) -> BoolArray:
        """Return which rows contradict the reason."""
        return np.zeros(len(column), dtype=bool)


@dataclass(frozen=True)
class Constant(LeftOut):
    """A column with one value in every row, or in nearly every row; rows with another value contradict that.

    Attributes
    ----------
    value : float or str
        A missing value is the word for it.
    """

    value: float | str

    def contradicts(self, column: pa.Array) -> BoolArray:
        """Return which rows have another value."""
        if isinstance(self.value, float):
            values, _ = as_numbers(column)
            return np.asarray(values != self.value)
        if not (is_text(column.type) or is_number(column.type)):  # only a missing value can be the constant one
            return np.asarray(column.is_valid())
        code, words = as_words(column)
        return np.asarray(words != self.value)[code]


@dataclass(frozen=True)
class NotFinite(LeftOut):
    """A column of numbers of which none is finite."""

    def contradicts(self, column: pa.Array) -> BoolArray:
        """Return which rows have a finite number."""
        values, _ = as_numbers(column)
        return np.asarray(np.isfinite(values))


@dataclass(frozen=True)
class Dates(LeftOut):
    """A column of dates; other words contradict that."""

    def contradicts(self, column: pa.Array) -> BoolArray:
        """Return which rows hold another word than a date."""
        code, words = as_words(column)
        if are_dates(words.tolist()):
            return np.zeros(len(column), dtype=bool)
        return np.array([word != MISSING and not are_dates([word]) for word in words.tolist()], dtype=bool)[code]


@dataclass(frozen=True)
class Identifier(LeftOut):
    """A column with a different value in nearly every row; values that come again in the same chunk contradict that.

    Attributes
    ----------
    whole : bool
        Whether the values are whole numbers, so that others contradict that too.
    """

    whole: bool = False

    def contradicts(self, column: pa.Array) -> BoolArray:
        """Return which rows repeat the value of an earlier row, or are no whole numbers where others are."""
        code, words = as_words(column)
        again = pd.Series(code).duplicated().to_numpy() | (words == MISSING)[code]
        if self.whole:
            values, _ = as_numbers(column)
            again |= ~(values == np.rint(values))
        return np.asarray(again)


def are_dates(words: list[str]) -> bool:
    """Whether all words, apart from the one for missing values, are dates in the format of ISO 8601."""
    try:
        return len(pa.array([word for word in words if word != MISSING]).cast(pa.timestamp("s"))) > 0
    except pa.ArrowInvalid:
        return False
