"""Words and numbers of a column, whatever its Arrow type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from surefair.rows import FloatArray

BoolArray = NDArray[np.bool_]

FAR = 100  # powers of 2 from 1 that weights may be away

MISSING = "\0(missing)"
"""The word that stands for missing values. No word of the data begins with a NUL, so "(missing)" is like any other."""


def says_unknown(word: str) -> bool:
    """Whether the word for a group says that the group is not known."""
    return word.strip().casefold() == "unknown"


def plain_column(table: pa.Table, name: str) -> pa.Array:
    """Return a column of a table as one array; text of any type, also in a dictionary, becomes plain strings."""
    column = table.column(name).combine_chunks()
    column = column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column.cast(pa.string()) if is_text(column.type) and column.type != pa.string() else column


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_number(kind: pa.DataType) -> bool:
    """Whether a column of this type holds numbers; Booleans count as numbers."""
    kinds = pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean
    return any(is_one(kind) for is_one in kinds)


def as_numbers(column: pa.Array) -> tuple[FloatArray, BoolArray | None]:
    """Return the numbers of a column, and which rows hold other text, or None if no row does.

    Missing values and other text are NaN.
    """
    try:
        numbers = column.cast(pa.float64(), safe=False)
    except pa.ArrowInvalid:
        code, words = as_words(column)
        known = [to_number(word) for word in words.tolist()]
        wrong = np.array([number is None for number in known]) & (words != MISSING)
        return np.array([np.nan if number is None else number for number in known])[code], wrong[code]
    return np.array(numbers.to_numpy(zero_copy_only=False)), None


def to_number(word: str) -> float | None:
    """Return the number that a word writes, or None."""
    if "_" in word:  # Python reads 18_25 as a number; people do not
        return None
    try:
        return float(word)
    except ValueError:
        return None


def as_words(column: pa.Array) -> tuple[NDArray[np.intp], NDArray[Any]]:
    r"""Return the place of each row's word among the distinct words, and these; missing values share one word.

    Examples
    --------
    >>> code, words = as_words(pa.array(["b", "a", None, "-0.0", "0.0"]))
    >>> words[code].tolist()
    ['b', 'a', '\x00(missing)', '0.0', '0.0']
    """
    if pa.types.is_floating(column.type):  # NaN is missing, not a word
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    column = column if is_text(column.type) else column.cast(pa.string())
    found = column.dictionary_encode(null_encoding="encode")
    words = [MISSING if word is None else plain_word(word) for word in found.dictionary.to_pylist()]
    code, distinct = pd.factorize(np.asarray(words, dtype=object))
    return code[found.indices.to_numpy()], distinct


def plain_word(word: str) -> str:
    """Return a word without NULs at its ends (NumPy does not keep them at the end), and a zero without its sign."""
    word = word.strip("\0")
    return word[1:] if word.startswith("-") and to_number(word) == 0.0 else word


def as_codes(column: pa.Array) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[Any]]:
    r"""Return what ``as_words`` returns, in two steps: a code of each row, and for each code the place of its word.

    Only distinct values become words, so it is fast for numbers and for columns that are dictionaries already.

    Examples
    --------
    >>> code, place, words = as_codes(pa.array([2, 1, None, 2]))
    >>> words[place[code]].tolist()
    ['2', '1', '\x00(missing)', '2']
    """
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    values = coded.dictionary
    place, words = as_words(values.cast(pa.string()) if is_text(values.type) else values)
    indices = coded.indices
    if indices.null_count:
        indices = indices.fill_null(pa.scalar(len(values), indices.type))
        words = np.append(words, MISSING)
        place = np.append(place, len(words) - 1)
    return indices.to_numpy(zero_copy_only=False), place, words


def weight_unit(weight: NDArray[np.float64]) -> float:
    """Return 1, or a power of 2 by which to divide weights so large or small that their squares would be lost.

    >>> weight_unit(np.array([0.5, 3.0])), weight_unit(np.array([1e300])) == 2.0**996
    (1.0, True)
    """
    known = weight[np.isfinite(weight) & (weight > 0.0)]
    exponent = int(np.frexp(known.max(initial=0.0))[1]) if len(known) else 0
    return float(2.0 ** (exponent - 1)) if abs(exponent) > FAR else 1.0
