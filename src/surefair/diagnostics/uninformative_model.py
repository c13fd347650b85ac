"""A model that is not better than one which always decides the same shows nothing about how it treats groups."""

from __future__ import annotations

import numpy as np

from surefair.diagnostics._diagnostic import Diagnostic, FloatArray

SURE = 1.645  # standard errors by which a model must be better: one-sided, at 5 %


class UninformativeModel(Diagnostic):
    """The model is not shown to be right more often than one that decides the more common label for everyone."""

    assumes = "The model is right more often than one that decides the same for everyone."
    advice = "Give the model features that predict the label, raise tolerance, or evaluate on more rows."
    command_line_advice = "Give the model columns that predict the label, raise --tolerance, or use more rows."
    forbids_verdict = True


DIAGNOSTIC = UninformativeModel


def check(rows: FloatArray, weight: FloatArray, square: FloatArray) -> list[Diagnostic]:
    """Check numbers of rows by truth and decision, their weights and their squared weights, (2, 2) each.

    A model differs from one that always decides the more common label only on the rows for which it decides the rarer
    one, and there it must be right more often than wrong.

    Examples
    --------
    >>> counts = np.array([[620.0, 60.0], [230.0, 90.0]])
    >>> check(counts, counts, counts)
    []
    >>> counts = np.array([[600.0, 80.0], [230.0, 90.0]])
    >>> [one.message for one in check(counts, counts, counts)]
    ['Of the 170 rows for which the model decides the rarer label, 53 % have it, so it is not shown to be right more \
often than a model that decides the other label for everyone.']
    """
    rarer = int(np.argmin(weight.sum(axis=1)))
    total = float(weight[:, rarer].sum())
    share = float(weight[rarer, rarer] / total) if total > 0.0 else 0.0
    worth = total**2 / square[:, rarer].sum() if total > 0.0 else 0.0  # rows of equal weight that would say as much
    better = (2.0 * share - 1.0) * np.sqrt(worth)
    if better > SURE:
        return []
    n = rows[:, rarer].sum()
    message = (
        f"Of the {n:,.0f} rows for which the model decides the rarer label, {100.0 * share:.0f} % have it, so it is "
        "not shown to be right more often than a model that decides the other label for everyone."
    )
    return [UninformativeModel(message, better, SURE)]
