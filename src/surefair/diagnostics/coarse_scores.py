"""Scores should be fine enough that a constraint on smoothed decisions is one on decisions."""

from __future__ import annotations

import numpy as np

from surefair.diagnostics._diagnostic import Diagnostic, FloatArray

ROOM = 0.02  # gap beyond the tolerance that smoothing may leave


class CoarseScores(Diagnostic):
    """Many rows share a score close to the boundary, so decisions differ more between groups than training asks for."""

    assumes = "The tolerance bounds the gap of decisions on the training rows."
    advice = "Ask for a smaller tolerance (sf.frontier compares several), or add a feature with many values."
    command_line_advice = "Ask for a smaller --tolerance (`surefair frontier` compares several)."


DIAGNOSTIC = CoarseScores


def check(held: FloatArray, error: FloatArray, tolerance: float) -> list[Diagnostic]:
    """Check the gaps of decisions on the warm-up rows under the constraint.

    Training bounds a smooth version of the same gaps on the same rows, so the two differ by much less than the standard
    error unless many rows share a score.

    Parameters
    ----------
    held, error : ndarray of shape (pairs,)
        Gaps and their standard errors.
    tolerance : float

    Examples
    --------
    >>> [one.message for one in check(np.array([0.01, -0.088]), np.array([0.007, 0.007]), 0.05)]
    ['On the first rows a gap of decisions is 0.088, and the tolerance is 0.05: many rows share a score close to the \
boundary, and decisions about them change all at once.']
    """
    size = np.abs(held)
    if not (size > tolerance + ROOM + error).any():
        return []
    worst = float(np.max(np.where(size > tolerance + ROOM + error, size, 0.0)))
    message = (
        f"On the first rows a gap of decisions is {worst:.3f}, and the tolerance is {tolerance:g}: many rows share a "
        "score close to the boundary, and decisions about them change all at once."
    )
    return [CoarseScores(message, worst, tolerance)]
