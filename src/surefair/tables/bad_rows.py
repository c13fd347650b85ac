"""Count the rows that cannot be used, by reason, and stop the run when there are too many."""

from __future__ import annotations

from typing import Any

from surefair.names import counted


class TooManyBadRows(ValueError):
    """The data have more unusable rows than the limit allows."""


class BadRows:
    """Number of unusable rows for each reason, and where the first of them is.

    Parameters
    ----------
    limit : int
        Largest number of unusable rows that does not stop the run.

    Examples
    --------
    >>> bad = BadRows(limit=2)
    >>> bad.add("too few fields", 2, "line 17: '52'")
    >>> bad.total, bad.to_dict()
    (2, [{'reason': 'too few fields', 'count': 2, 'first': "line 17: '52'"}])
    >>> bad.add("no label", 1, "row 120")
    Traceback (most recent call last):
    surefair.tables.bad_rows.TooManyBadRows: 3 rows cannot be used, and the limit is 2. no label: 1, the first in row
    120; too few fields: 2, the first in line 17: '52'. Fix the data or raise max_bad_rows (--max-bad-rows).
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._found: dict[str, tuple[int, str]] = {}

    @property
    def total(self) -> int:
        """Number of unusable rows, over all reasons."""
        return sum(count for count, _ in self._found.values())

    def add(self, reason: str, count: int, where: str) -> None:
        """Count unusable rows, the first of them at `where`; raise `TooManyBadRows` beyond the limit."""
        before, first = self._found.get(reason, (0, where))
        if count:
            self._found[reason] = (before + count, first)
        if self.total > self.limit:
            raise TooManyBadRows(
                f"{counted(self.total, 'row')} cannot be used, and the limit is {self.limit}. "
                f"{self}. Fix the data or raise max_bad_rows (--max-bad-rows)."
            )

    def to_dict(self) -> list[dict[str, Any]]:
        """Return reason, count and place of the first row, sorted by reason."""
        found = sorted(self._found.items())
        return [{"reason": reason, "count": count, "first": first} for reason, (count, first) in found]

    def __str__(self) -> str:
        return "; ".join(f"{one['reason']}: {one['count']}, the first in {one['first']}" for one in self.to_dict())
