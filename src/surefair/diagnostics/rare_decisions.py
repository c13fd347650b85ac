"""A rate that is constrained should not rest on a handful of rows."""

from __future__ import annotations

from collections.abc import Mapping

from surefair.diagnostics._diagnostic import Diagnostic, first_few

LEAST = 10  # rows of a group with each decision, among those that its rate looks at


class RareDecisions(Diagnostic):
    """In a group that is constrained, only a handful of rows count in the rate, or all but a handful do."""

    assumes = "The constrained rate of every group rests on enough rows."
    advice = "Train on more rows, merge small groups, or allow a larger tolerance."
    command_line_advice = "Use more rows, merge small groups, or allow a larger --tolerance."


DIAGNOSTIC = RareDecisions


def check(rows: Mapping[str, float]) -> list[Diagnostic]:
    """Check the rows of each constrained rate that have the rarer decision.

    Examples
    --------
    >>> check({"group 'a'": 240.0})
    []
    >>> print(check({"group 'a'": 240.0, "group 'b'": 3.2})[0].message)
    Constrained rates rest on few rows with the rarer decision: 3 for group 'b'. With fewer than 10, intervals of \
training may not cover as often as their level says.
    """
    few = [f"{int(n)} for {name}" for name, n in rows.items() if n < LEAST]
    if not few:
        return []
    message = (
        f"Constrained rates rest on few rows with the rarer decision: {first_few(few)}. With fewer than {LEAST}, "
        "intervals of training may not cover as often as their level says."
    )
    return [RareDecisions(message, min(rows.values()), LEAST)]
