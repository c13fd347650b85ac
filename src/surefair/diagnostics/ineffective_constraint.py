"""A constraint should change decisions."""

from __future__ import annotations

import numpy as np

from surefair.diagnostics._diagnostic import Diagnostic, FloatArray

SHARE = 0.5  # of the gap without a constraint that may be left, where that gap is clear
PENALISED = 0.8  # the same under a penalty, which is meant to leave some of it
CLEAR = 3.0  # standard errors


class IneffectiveConstraint(Diagnostic):
    """The constraint holds for what it compares, and leaves most of the gap of decisions."""

    assumes = "The constraint changes decisions."
    advice = (
        "Leave out features with rare or extreme values, use surrogate='decisions', or ask for a larger penalty or, "
        "unless tolerance is 0, a smaller one."
    )
    command_line_advice = (
        "Leave out columns with rare or extreme values with --drop, or ask for a larger --penalty or, unless it is 0, "
        "a smaller --tolerance."
    )
    forbids_verdict = True


DIAGNOSTIC = IneffectiveConstraint


def check(
    free: FloatArray, held: FloatArray, error: FloatArray, tolerance: float, n: int, penalised: bool = False,
    forbids: bool = True,
) -> list[Diagnostic]:  # fmt: skip
    """Check the gaps of decisions on the warm-up rows, without the constraint and with it.

    Parameters
    ----------
    free, held, error : ndarray of shape (pairs,)
        Gaps without and with the constraint, and their standard error.
    tolerance : float
    n : int
        Number of warm-up rows.
    penalised : bool
        Whether there is a penalty instead of a tolerance.
    forbids : bool
        Whether there is no definite verdict then.
    """
    share = PENALISED if penalised else SHARE
    clear = np.abs(free) > tolerance + CLEAR * error
    left = np.abs(held) - tolerance > share * (np.abs(free) - tolerance)
    if not (clear & left).any():
        return []
    worst = int(np.argmax(np.where(clear & left, np.abs(held), -1.0)))
    message = (
        f"The constraint leaves most of a gap of decisions: on {n:,} training rows it is {abs(held[worst]):.3f} with "
        f"the constraint and {abs(free[worst]):.3f} without."
    )
    return [IneffectiveConstraint(message, abs(held[worst]), tolerance, forbids_verdict=forbids)]
