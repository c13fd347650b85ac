"""Counts of what is met while tables are read: rows, unusable rows by reason, and counters by column. They add."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from surefair.tables.bad_rows import BadRows


class Counting:
    """Counts rows, and those that cannot be used.

    Attributes
    ----------
    first, read : int
        Number, in the whole data, of the first row that comes here, and how many have come.
    bad : BadRows
    own : set of str
        Reasons for bad rows that were found here, not by the reader.
    place : callable
        Describes the place of a row, given its number in the whole data.
    """

    COUNTERS: ClassVar[tuple[str, ...]] = ()  # attributes that are Counters by column

    def __init__(self, bad: BadRows, place: Callable[[int], str]) -> None:
        self.bad = bad
        self.place = place
        self.first = 0
        self._forget()

    def _forget(self) -> None:
        self.read = 0
        self.own: set[str] = set()

    def elsewhere(self, first: int, place: Callable[[int], str]) -> Self:
        """Return the same for another part of the data, which begins with this row; nothing is counted yet."""
        new = copy(self)
        new.first = first
        new.place = place
        new.bad = BadRows(self.bad.limit)
        new._forget()
        return new

    def count_bad(self, bad: Mapping[str, NDArray[np.bool_]], numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Count bad rows, each under the first reason found; returns which rows are good."""
        good = np.ones(len(numbers), dtype=bool)
        for reason, rows in bad.items():
            if (rows := rows & good).any():
                good &= ~rows
                self.own.add(reason)
                whole = " of those with all fields" if self.bad.total > self.own_bad else ""
                self.bad.add(reason, int(rows.sum()), f"{self.place(int(numbers[rows.argmax()]))}{whole}")
        return good

    @property
    def own_bad(self) -> int:
        """Bad rows that were found here."""
        return sum(one["count"] for one in self.bad.to_dict() if one["reason"] in self.own)

    @property
    def n_rows(self) -> int:
        """Rows of the data so far, with those that the reader could not use."""
        return self.read + self.bad.total - self.own_bad

    def pack(self) -> dict[str, Any]:
        """Return the counts, ready for JSON."""
        bad = [one for one in self.bad.to_dict() if one["reason"] in self.own]
        return {"read": self.read, "bad": bad} | {name: dict(getattr(self, name)) for name in self.COUNTERS}

    def add(self, packed: dict[str, Any]) -> None:
        """Add what was counted before, or elsewhere."""
        self.read += packed["read"]
        for name in self.COUNTERS:
            getattr(self, name).update(packed[name])
        for one in packed["bad"]:
            self.own.add(one["reason"])
            self.bad.add(one["reason"], one["count"], one["first"])
