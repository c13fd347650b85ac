"""Who had an audit done, and why: what heads its report. Everything is given, nothing is read from a clock."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

NAMES = ("title", "purpose", "author", "date")
LONGEST = 2000  # characters


def check_about(given: Mapping[str, Any]) -> dict[str, str]:
    """Return what was given of title, purpose, author and date, if it is text, and the date one.

    Examples
    --------
    >>> check_about({"title": "Loans, third quarter", "author": None, "date": "2026-10-01"})
    {'title': 'Loans, third quarter', 'date': '2026-10-01'}
    """
    found = {name: given[name] for name in NAMES if given.get(name) is not None}
    for name, value in found.items():
        if not isinstance(value, str) or not value.strip() or len(value) > LONGEST:
            shown = f"{len(value):,} characters" if isinstance(value, str) and value.strip() else repr(value)
            raise ValueError(f"{name} must be text of 1 to {LONGEST:,} characters; received {shown}.")
    if "date" in found:
        try:
            day = date.fromisoformat(found["date"])
        except ValueError:
            day = None
        if day is None or day.isoformat() != found["date"]:
            raise ValueError(f"date must be a day such as 2026-03-31; received {found['date']!r}.")
    return found
