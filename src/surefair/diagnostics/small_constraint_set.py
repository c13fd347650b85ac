"""The constraint set needs enough rows of every group."""

from __future__ import annotations

from collections.abc import Sequence

from surefair.diagnostics._diagnostic import Diagnostic, first_few

SMALL_GROUP = 30  # rows


class SmallConstraintSet(Diagnostic):
    """The constraint set has few rows of a group, so the constraint reflects chance there."""

    assumes = "The constraint set has enough rows of every group."
    advice = "Pass a larger constraint_set, or merge small groups."


DIAGNOSTIC = SmallConstraintSet


def check(rows: Sequence[int], names: Sequence[str]) -> list[Diagnostic]:
    """Check the number of rows of each group in the part of the constraint set that the criterion looks at."""
    small = [f"{name} has {n}" for n, name in zip(rows, names, strict=True) if n < SMALL_GROUP]
    if not small:
        return []
    message = (
        f"Among the rows of the constraint set that the criterion looks at, {first_few(small)}; with fewer than "
        f"{SMALL_GROUP}, the constraint mostly reflects chance."
    )
    return [SmallConstraintSet(message, min(rows), SMALL_GROUP)]
