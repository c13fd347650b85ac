"""The constraint set needs enough rows of every group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from surefair.diagnostics._diagnostic import Diagnostic, first_few

SMALL_GROUP = 30  # rows


class SmallConstraintSet(Diagnostic):
    """The constraint set has few rows of a group, so the constraint reflects chance there."""

    assumes = "The constraint set has enough rows of every group."
    advice = (
        "Pass a larger constraint_set, raise n_constraint (fit uses at most a fifth of the rows), or merge small "
        "groups."
    )
    command_line_advice = "Raise --constraint-rows, use more rows, or merge small groups."


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


def check_left_out(rows: Mapping[str, int], least: int) -> list[Diagnostic]:
    """Report groups that are left out of the constraint, with their rows in the constraint set."""
    return [
        SmallConstraintSet(
            f"{name[0].upper()}{name[1:]} has {n} rows in the constraint set that the criterion looks at, fewer than "
            f"{least}: it is measured, but not constrained.",
            n,
            least,
        )
        for name, n in rows.items()
    ]
