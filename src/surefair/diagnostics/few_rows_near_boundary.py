"""The gap moves smoothly only if many kinds of rows lie near the decision boundary."""

from __future__ import annotations

from surefair.diagnostics._diagnostic import Diagnostic

NEAR = 30  # kinds of evaluation rows that replicates disagree about


class FewRowsNearBoundary(Diagnostic):
    """Replicates disagree about few kinds of evaluation rows, so the gap moves in jumps."""

    assumes = "Enough kinds of evaluation rows lie near the decision boundary."
    advice = "Pass more evaluation rows, use features with more values, or ask for source='total'."
    command_line_advice = "Use more rows, or features with more values."


DIAGNOSTIC = FewRowsNearBoundary


def check(kinds: int) -> list[Diagnostic]:
    """Check how many kinds of evaluation rows models disagree about."""
    if kinds >= NEAR:
        return []
    message = (
        f"Replicates disagree about only {kinds} kinds of evaluation rows near the decision boundary; {NEAR} or more "
        "are needed for a gap that moves smoothly. It moves in jumps, and intervals may cover more or less often than "
        "their level."
    )
    return [FewRowsNearBoundary(message, kinds, NEAR)]
