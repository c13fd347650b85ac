"""Rows should be independent of each other."""

from __future__ import annotations

from surefair.diagnostics._diagnostic import Diagnostic

MOST_COPIES = 0.1  # of an evaluation row, on average; intervals are then 5 % too narrow
FEWEST = 12  # distinct rows, all of which occur an even number of times with probability 0.0005 or less


class DependentRows(Diagnostic):
    """Several rows belong together, for example to one person, so intervals are too narrow."""

    assumes = "No more rows are copies of others than chance explains."
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


def check_multiples(times: int, distinct: int) -> list[Diagnostic]:
    """Report a table in which every distinct row occurs a multiple of the same number of times.

    This finds copies of a whole table even if it has a few discrete columns, whose honest rows equal each other too.
    The null model: rows are independent, so the number of times that a row occurs is even with probability 1/2 at most,
    given that it occurs, and a multiple of a larger prime less often.

    Parameters
    ----------
    times : int
        The largest number of which all counts are multiples.
    distinct : int
        Number of distinct rows.

    Examples
    --------
    >>> [one.message for one in check_multiples(20, 32)]
    ['Every distinct row occurs 20 times, or a multiple of that: the rows were copied, so intervals are too narrow.']
    >>> check_multiples(20, 3)
    []
    """
    if times < 2 or distinct < FEWEST:
        return []
    message = (
        f"Every distinct row occurs {times:,} times, or a multiple of that: the rows were copied, so intervals are too "
        "narrow."
    )
    return [DependentRows(message, float(times), 1.0)]


def check(column: str | None) -> list[Diagnostic]:
    """Report rows that share a value of the cluster column, where intervals treat rows as independent."""
    if column is None:
        return []
    message = f"Rows with the same {column!r} are not independent of each other, so intervals are too narrow."
    return [DependentRows(message)]
