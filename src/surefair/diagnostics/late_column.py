"""Columns should look the same in all parts of the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from scipy.stats import hypergeom

from surefair.diagnostics._diagnostic import SELDOM, Diagnostic, first_few

SHARE = 0.01  # of the rows may contradict the use of a column; a more common value gets its own feature


class Column(NamedTuple):
    """How many rows do not fit the use of a column, among those that settled it and among all."""

    words: str  # what was settled, and that {} of {} rows do not fit it
    settling: int  # of the rows that settled it
    changed: int  # of all rows
    new: float = 0.0  # share of all rows that may be new by chance, such as rare words


class LateColumn(Diagnostic):
    """A column changes along the data: what was settled about it on some rows does not fit the others."""

    assumes = "Columns look the same in all parts of the data."
    advice = (
        "Shuffle the rows, draw warm-up rows from all of them, or pass a file or a data frame in place of a stream: "
        "its columns are settled on all parts."
    )
    command_line_advice = "Shuffle the rows, or pass a file in place of a pipe: its columns are settled on all parts."
    forbids_verdict = True


DIAGNOSTIC = LateColumn


def check(columns: Sequence[Column], n_settling: int, n_rows: int) -> list[Diagnostic]:
    """Check how many rows do not fit what was settled about each column.

    The null model: rows are in random order, so the settling rows are a random sample of all rows, and the number of
    them that do not fit has a hypergeometric law. A column has changed if that number is too small by chance, and the
    share of all rows is large enough to have had a feature. All columns together give a false alarm with probability
    0.001 at most.

    Parameters
    ----------
    columns : sequence of Column
    n_settling, n_rows : int
        Rows that settled the columns, and all rows.

    Examples
    --------
    >>> late = Column("'x' was left out (constant, 0 in the first 100 rows), but {} of {} rows contradict that", 0, 90)
    >>> [one.message for one in check([late], 100, 200)]
    ["Columns change along the data: 'x' was left out (constant, 0 in the first 100 rows), but 90 of 200 rows \
contradict that."]
    >>> check([late], 200, 200)
    []
    """
    if n_settling >= n_rows:
        return []
    found = []
    for one in columns:
        chance = hypergeom.cdf(one.settling, n_rows, max(one.changed, one.settling), n_settling)
        if one.changed > (SHARE + one.new) * n_rows and chance < SELDOM / len(columns):
            found.append(one)
    if not found:
        return []
    found.sort(key=lambda one: -one.changed)
    words = first_few([one.words.format(f"{one.changed:,}", f"{n_rows:,}") for one in found])
    return [LateColumn(f"Columns change along the data: {words}.", found[0].changed / n_rows, SHARE)]
