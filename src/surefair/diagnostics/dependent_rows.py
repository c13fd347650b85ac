"""Rows should be independent of each other."""

from __future__ import annotations

from surefair.diagnostics._diagnostic import Diagnostic

MOST_COPIES = 0.1  # of an evaluation row, on average; intervals are then 5 % too narrow


class DependentRows(Diagnostic):
    """Several rows belong together, for example to one person, so intervals are too narrow."""

    assumes = "Rows are independent of each other."
    advice = "Keep one row of each unit to get a definite verdict."
    command_line_advice = "Keep one row of each unit to get a definite verdict."
    forbids_verdict = True


DIAGNOSTIC = DependentRows


def check_copies(n: int, copies: int, excess: float) -> list[Diagnostic]:
    """Report evaluation rows that are copies of others.

    Parameters
    ----------
    n, copies : int
        Rows, and how many of them equal an earlier one.
    excess : float
        Pairs of equal rows beyond those that independent rows of such columns show, see ``audit/copies.py``.

    Examples
    --------
    >>> [one.message for one in check_copies(2_000, 1_500, 3_000.0)]
    ['75 % of the evaluation rows equal an earlier one, and more rows are equal than independent rows of such columns \
would be: rows were copied, so intervals are too narrow.']
    """
    each = 2.0 * excess / max(n, 1)
    if each <= MOST_COPIES:
        return []
    message = (
        f"{100.0 * copies / n:.2g} % of the evaluation rows equal an earlier one, and more rows are equal than "
        "independent rows of such columns would be: rows were copied, so intervals are too narrow."
    )
    return [DependentRows(message, each, MOST_COPIES)]


def check(dependent: bool, column: str | None) -> list[Diagnostic]:
    """Report rows that share a cluster, which intervals of a training audit treat as independent."""
    if not dependent:
        return []
    message = f"Rows with the same {column!r} are not independent of each other, so intervals are too narrow."
    return [DependentRows(message)]
