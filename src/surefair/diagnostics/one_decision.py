"""Decisions or scores that are all the same show nothing about how groups are treated."""

from __future__ import annotations

from collections.abc import Sequence

from surefair.diagnostics._diagnostic import Diagnostic


class OneDecision(Diagnostic):
    """All audited decisions, or scores, are the same: they meet any margin and show nothing by it."""

    assumes = "The audited decisions or scores are not all the same."
    advice = "Check the column, or the threshold."
    command_line_advice = advice
    forbids_verdict = True


DIAGNOSTIC = OneDecision


def check(decisions: Sequence[float]) -> list[Diagnostic]:
    """Check how many rows get each of the two decisions.

    Examples
    --------
    >>> [one.message for one in check([995.0, 0.0])], check([994.0, 1.0])
    (['All decisions are the same, so they say nothing about how groups are treated.'], [])
    """
    if min(decisions) > 0.0:
        return []
    return [OneDecision("All decisions are the same, so they say nothing about how groups are treated.")]


def check_scores(least: float, most: float) -> list[Diagnostic]:
    """Check the smallest and the largest score.

    Examples
    --------
    >>> [one.message for one in check_scores(0.5, 0.5)], check_scores(0.4, 0.5)
    (['All scores are the same, so they say nothing about how groups are treated.'], [])
    """
    if least < most:
        return []
    return [OneDecision("All scores are the same, so they say nothing about how groups are treated.")]
