"""Which of the two values of a column is the positive one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from surefair.names import one_of
from surefair.rows import IntArray
from surefair.tables.reading import in_order, is_same_word

Words = Sequence[str]


class Positive(NamedTuple):
    """The two values of a column, in order: first the negative one."""

    words: tuple[str, str]
    order: IntArray  # code of each of them in a tally


def two_values(words: Words, asked: Words, column: str, what: str) -> Positive:
    """Say which of the values of a column is positive.

    Parameters
    ----------
    words : sequence of str
        The values that occur, at most two.
    asked : sequence of str
        What the user calls positive.
    column, what : str
        The column, and whether it is a label or a decision.

    Examples
    --------
    >>> two_values(("yes", "no"), (), "hired", "decision").words, two_values(("1", "0"), ("0",), "y", "label").words
    (('no', 'yes'), ('1', '0'))
    """
    meant = [word for word in words if any(is_same_word(word, one) for one in asked)]
    if len(meant) > 1:
        raise ValueError(f"Both values of {column!r} are named as positive: {meant[0]!r} and {meant[1]!r}. Name one.")
    found = sorted(words, key=lambda word: (word in meant, in_order(word)))
    if not found:
        raise ValueError(f"No row has a value of the {what} {column!r}. Check the column.")
    if len(found) == 1 and not asked:
        raise ValueError(
            f"All rows have the same {what} {column!r}: {found[0]!r}. Say which value is positive (positive, "
            "--positive) if that is right."
        )
    if len(found) == 1:
        found = ["(other)", *found] if meant else [*found, asked[0]]
    order = [words.index(word) if word in words else 1 for word in found]
    return Positive((found[0], found[1]), np.array(order))


def check_positive(asked: Words, columns: Sequence[Words]) -> None:
    """Refuse a positive value that no column has.

    Parameters
    ----------
    asked : sequence of str
        What the user calls positive.
    columns : sequence of sequences of str
        The values of each column; a column with one value may well lack the positive one.

    Examples
    --------
    >>> check_positive(("yes", "1"), [("no", "yes"), ("0", "1")])
    """
    known = {word for words in columns for word in words}
    if not all(len(words) == 2 for words in columns if words):
        return
    for one in asked:
        if not any(is_same_word(word, one) for word in known):
            one_of(one, sorted(known, key=in_order), "positive value")
