"""Rows that cannot be used: counted for each reason, and too many of them stop the run."""

from __future__ import annotations

from typing import Any


class TooManyBadRows(ValueError):
    """More rows cannot be used than the limit allows."""


class BadRows:
    """Tally of rows that cannot be used: how many for each reason, and where the first is.

    Parameters
    ----------
    limit : int
        The largest number of such rows that does not stop the run.

    Examples
    --------
    >>> bad = BadRows(limit=2)
    >>> bad.add("too few fields", 2, "line 17: '52'")
    >>> bad.total, bad.to_dict()
    (2, [{'reason': 'too few fields', 'count': 2, 'first': "line 17: '52'"}])
    >>> bad.add("no label", 1, "row 120")
    Traceback (most recent call last):
    surefair.tables.bad_rows.TooManyBadRows: 3 rows cannot be used, and the limit is 2. no label: 1, the first in row
    120; too few fields: 2, the first in line 17: '52'. Mend the data, or raise max_bad_rows (--max-bad-rows).
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._found: dict[str, tuple[int, str]] = {}

    @property
    def total(self) -> int:
        """Number of rows that cannot be used, for any reason."""
        return sum(count for count, _ in self._found.values())

    def add(self, reason: str, count: int, where: str) -> None:
        """Count rows; `where` is the place of the first of them. Past the limit, raise `TooManyBadRows`."""
        before, first = self._found.get(reason, (0, where))
        if count:
            self._found[reason] = (before + count, first)
        if self.total > self.limit:
            raise TooManyBadRows(
                f"{self.total} {'row' if self.total == 1 else 'rows'} cannot be used, and the limit is {self.limit}. "
                f"{self}. Mend the data, or raise max_bad_rows (--max-bad-rows)."
            )

    def to_dict(self) -> list[dict[str, Any]]:
        """Reason, count and first place, sorted by reason."""
        return [{"reason": r, "count": count, "first": first} for r, (count, first) in sorted(self._found.items())]

    def __str__(self) -> str:
        return "; ".join(f"{e['reason']}: {e['count']}, the first in {e['first']}" for e in self.to_dict())
