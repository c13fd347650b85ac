"""A constraint should not rest on the coefficient of a rare column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from surefair.diagnostics._diagnostic import Diagnostic

RARE = 0.01  # share of the rows that differ from the most common value of a column
CARRIES = 0.5  # share of what the constraint changes that one coefficient may account for
MATTERS = 0.01  # least gap that a coefficient must account for


class Carrier(NamedTuple):
    """What one coefficient does for the constraint."""

    column: int  # its number
    rows: int  # that differ from the most common value of the column
    free: float  # gap without the constraint, in terms of the surrogate
    held: float  # gap with it
    without: float  # gap with it, and with the coefficient of the column set to 0


class RareColumn(Diagnostic):
    """The coefficient of a rare column meets the constraint, while decisions about most rows do not change."""

    assumes = "The constraint does not rest on a rare column."
    advice = "Leave the column out, or merge its rare values into a common one."
    command_line_advice = "Leave the column out with --drop, or merge its rare values into a common one."


DIAGNOSTIC = RareColumn


def check(columns: Sequence[Carrier], names: Sequence[str], n: int) -> list[Diagnostic]:
    """Report the rare column, among n rows, whose coefficient accounts for too much of what the constraint changes.

    ``names`` are those of all columns.

    Examples
    --------
    >>> [one.message for one in check([Carrier(0, 12, 0.31, 0.0, 0.25)], ["x7"], 4_000)]
    ["The constraint rests on the column 'x7', in which 12 of 4,000 rows differ from the others: without its \
coefficient, what the constraint compares would differ by 0.25 between groups, not by 0."]
    """
    some = [one for one in columns if one.free != one.held and abs(one.without - one.held) >= MATTERS]
    carried = [(abs(one.without - one.held) / abs(one.free - one.held), one) for one in some]
    share, worst = max(carried, key=lambda pair: pair[0], default=(0.0, None))
    if worst is None or share < CARRIES:
        return []
    message = (
        f"The constraint rests on the column {names[worst.column]!r}, in which {worst.rows:,} of {n:,} rows differ "
        f"from the others: without its coefficient, what the constraint compares would differ by "
        f"{abs(worst.without):.2g} between groups, not by {abs(worst.held):.2g}."
    )
    return [RareColumn(message, share, CARRIES)]
