"""Random scaling needs iterates that forget within a small share of the rows."""

from __future__ import annotations

from surefair.diagnostics._diagnostic import Diagnostic, FloatArray

MEMORY = 0.05  # of the rows, within which iterates must forget; with 0.09, 95 % intervals cover 91 %


class PathTooShort(Diagnostic):
    """Random scaling gives intervals that are still too narrow."""

    advice = "Train on more rows, or use another method."


DIAGNOSTIC = PathTooShort


def check(memory: FloatArray, rows: FloatArray, n_rows: int) -> list[Diagnostic]:
    """Check how many rows iterates need to forget.

    Parameters
    ----------
    memory : ndarray of shape (K,)
        Rows that it takes to forget, after each number of rows.
    rows : ndarray of shape (K,)
        Increasing numbers of rows; the first is ``n_rows``.
    n_rows : int
    """
    enough = memory <= MEMORY * rows
    if enough[0]:
        return []
    needed = f"about {rows[enough.argmax()]:,.0f} rows are" if enough.any() else "far more rows are"
    message = (
        f"Random scaling is still too narrow: after {n_rows:,} rows, iterates need {memory[0]:,.0f} rows to forget, "
        f"which is more than a twentieth of all. With these steps {needed} needed."
    )
    return [PathTooShort(message, memory[0] / n_rows, MEMORY)]
