"""Evaluation needs enough rows of every group, on both sides of its rate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from surefair.diagnostics._diagnostic import Diagnostic, FloatArray, first_few
from surefair.names import counted

SMALL_GROUP = 30  # rows
SMALL_SIDE = 3  # rows on a side of a rate


class SmallEvaluationSet(Diagnostic):
    """There are few evaluation rows of a group, or of a decision in it: its limits are exact, and wide."""

    assumes = "There are enough evaluation rows of every group and decision."
    advice = (
        f"Pass more evaluation rows ({SMALL_GROUP} of each group, and {SMALL_SIDE} on each side of its rate), or merge "
        "small groups."
    )
    command_line_advice = "Use more rows, or merge small groups."


DIAGNOSTIC = SmallEvaluationSet


def check(sides: FloatArray, names: Sequence[str], rates: Sequence[str]) -> list[Diagnostic]:
    """Check the number of evaluation rows of each group.

    A rate whose rows all have the same outcome, in all groups, needs enough rows only: more of them would not bring
    another outcome.

    Parameters
    ----------
    sides : ndarray of shape (2, rates, groups)
        Rows that count towards each rate, and the other rows that enter it; weighted rows count what they are worth.
    names : sequence of str
        The groups in words.
    rates : sequence of str
        Names of the rates.

    Examples
    --------
    >>> names = ["group 'a'", "group 'b'"]
    >>> [one.message for one in check(np.array([[[40.0, 1.0]], [[60.0, 99.0]]]), names, ["accuracy"])]
    ["Few evaluation rows enter a rate: group 'b' has 100 rows in accuracy (1 with the rarer outcome). Limits of small \
groups are exact, which keeps the confidence level but makes them wide."]
    >>> check(np.array([[[0.0, 0.0]], [[60.0, 99.0]]]), names, ["accuracy"])
    []
    """
    rows = np.rint(sides.sum(axis=0))
    least = np.rint(sides.min(axis=0))
    varies = sides.sum(axis=2).min(axis=0) > 0.0
    small = np.argwhere((rows < SMALL_GROUP) | ((least < SMALL_SIDE) & varies[:, None]))
    found = [
        f"{names[g]} has {_rows(int(rows[j, g]), int(least[j, g]) if varies[j] else None, rates[j])}" for j, g in small
    ]
    if not found:
        return []
    message = f"Few evaluation rows enter a rate: {first_few(found)}."
    if any(rows[j, g] > 0.0 for j, g in small):
        message += " Limits of small groups are exact, which keeps the confidence level but makes them wide."
    if rows.min() == 0.0:
        message += " Limits of a group without rows are the whole range."
    return [SmallEvaluationSet(message, rows.min(), SMALL_GROUP)]


def check_rows(rows: FloatArray, names: Sequence[str], metric: str) -> list[Diagnostic]:
    """Check the number of evaluation rows of each group, shape (groups,), where nothing is decided about them.

    Examples
    --------
    >>> [one.message for one in check_rows(np.array([400.0, 12.0]), ["group 'a'", "group 'b'"], "auc")]
    ["Few evaluation rows enter auc: group 'b' has 12. Limits of small groups are wide."]
    """
    found = [f"{names[g]} has {int(rows[g])}" for g in np.flatnonzero(np.rint(rows) < SMALL_GROUP).tolist()]
    if not found:
        return []
    message = f"Few evaluation rows enter {metric}: {first_few(found)}. Limits of small groups are wide."
    return [SmallEvaluationSet(message, rows.min(), SMALL_GROUP)]


def _rows(n: int, rarer: int | None, rate: str) -> str:
    if n == 0:
        return f"no rows in {rate}"
    return f"{counted(n, 'row')} in {rate}" + ("" if rarer is None else f" ({rarer} with the rarer outcome)")
