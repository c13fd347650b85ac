"""Every group needs enough rows to be constrained."""

from __future__ import annotations

from collections.abc import Mapping

from surefair.diagnostics._diagnostic import Diagnostic, first_few


class SmallGroup(Diagnostic):
    """A group has too few rows that the criterion looks at: it is measured, but not constrained."""

    assumes = "Every group has enough rows to be constrained."
    advice = "Train on more rows, merge small groups, or leave rows of such groups out."
    command_line_advice = "Use more rows, or merge small groups."


DIAGNOSTIC = SmallGroup


def check(rows: Mapping[str, int], least: int) -> list[Diagnostic]:
    """Report groups, or rates of groups, described in words, with too few rows that the criterion looks at."""
    small = [name for name, n in rows.items() if n < least]
    if not small:
        return []
    have = "have" if len(small) > 1 else "has"
    message = (
        f"{first_few(small)} {have} fewer than {least} rows that the criterion looks at, so far: measured, but not "
        "constrained."
    )
    message = message[0].upper() + message[1:]
    return [SmallGroup(message, min(rows.values()), least)]
