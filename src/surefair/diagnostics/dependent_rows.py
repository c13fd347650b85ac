"""Rows should be independent of each other."""

from __future__ import annotations

from surefair.diagnostics._diagnostic import Diagnostic


class DependentRows(Diagnostic):
    """Several rows belong together, for example to one person, so intervals are too narrow."""

    assumes = "Rows are independent of each other."
    advice = "Keep one row of each unit to get a definite verdict."
    command_line_advice = "Keep one row of each unit to get a definite verdict."
    forbids_verdict = True


DIAGNOSTIC = DependentRows


def check(dependent: bool, column: str | None) -> list[Diagnostic]:
    """Report rows that share a value of the column that rows are split by."""
    if not dependent:
        return []
    message = f"Rows with the same {column!r} are not independent of each other, so intervals are too narrow."
    return [DependentRows(message)]
