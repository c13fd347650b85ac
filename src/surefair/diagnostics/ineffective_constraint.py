"""A constraint should change decisions."""

from __future__ import annotations

import numpy as np

from surefair.diagnostics._diagnostic import Diagnostic, FloatArray

SHARE = 0.8  # of the gap without the constraint that may be left, where that gap is clear
CLEAR = 3.0  # standard errors


class IneffectiveConstraint(Diagnostic):
    """The constraint holds for what it compares, and hardly changes the gap of decisions."""

    assumes = "The constraint changes decisions."
    advice = "Use surrogate='decisions', a smaller tolerance or a larger penalty, or leave out rare features."
    command_line_advice = "Use a smaller --tolerance or a larger --penalty, or leave out rare columns with --drop."
    forbids_verdict = True


DIAGNOSTIC = IneffectiveConstraint


def check(free: FloatArray, held: FloatArray, error: FloatArray, tolerance: float) -> list[Diagnostic]:
    """Check the gaps of decisions on the warm-up rows, without the constraint and with it.

    Parameters
    ----------
    free, held, error : ndarray of shape (pairs,)
        Gaps without and with the constraint, and their standard error.
    tolerance : float
    """
    clear = np.abs(free) > tolerance + CLEAR * error
    left = np.abs(held) - tolerance > SHARE * (np.abs(free) - tolerance)
    if not (clear & left).any():
        return []
    worst = int(np.argmax(np.where(clear & left, np.abs(held), -1.0)))
    message = (
        f"The constraint hardly changes decisions: on the first rows a gap is {abs(held[worst]):.3f} with it and "
        f"{abs(free[worst]):.3f} without it."
    )
    return [IneffectiveConstraint(message, abs(held[worst]), tolerance)]
