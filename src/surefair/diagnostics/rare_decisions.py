"""A rate that is constrained should not rest on a handful of rows."""

from __future__ import annotations

from collections.abc import Mapping

from surefair.diagnostics._diagnostic import Diagnostic, first_few

LEAST = 10  # rows of a group that count in its rate, and rows that do not


class RareDecisions(Diagnostic):
    """In a group that is constrained, only a handful of rows count in the rate, or all but a handful do."""

    assumes = "The constrained rate of every group rests on enough rows."
    advice = "Train on more rows, merge small groups, or allow a larger tolerance."
    command_line_advice = "Use more rows, merge small groups, or allow a larger --tolerance."


DIAGNOSTIC = RareDecisions


def check(rows: Mapping[str, float]) -> list[Diagnostic]:
    """Check the rarer side of each constrained rate: rows of the group that count in it, or that do not.

    Examples
    --------
    >>> check({"group 'a'": 240.0})
    []
    >>> print(check({"group 'a'": 240.0, "group 'b'": 3.2})[0].message)
    The constrained rate of group 'b' rests on about 3 rows, all others being on the other side of the decision. At \
least 10 are needed for intervals of training that cover as often as their level says.
    """
    few = [name for name, n in rows.items() if n < LEAST]
    if not few:
        return []
    least = min(rows.values())
    message = (
        f"The constrained rate of {first_few(few)} rests on about {least:.0f} rows, all others being on the other side "
        f"of the decision. At least {LEAST} are needed for intervals of training that cover as often as their level "
        "says."
    )
    return [RareDecisions(message, least, LEAST)]
