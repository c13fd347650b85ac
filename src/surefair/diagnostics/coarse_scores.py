"""Scores should be fine enough that a constraint on smoothed decisions is one on decisions."""

from __future__ import annotations

import numpy as np

from surefair.diagnostics._diagnostic import Diagnostic, FloatArray

ROOM = 0.02  # by which the gap of decisions may exceed the tolerance, and the gap that training bounds


class CoarseScores(Diagnostic):
    """The decisions differ more between groups than their smooth version, which the tolerance bounds in training."""

    assumes = "The tolerance bounds the gap of decisions on the training rows."
    advice = (
        "Add a feature with many values or, unless tolerance is 0, try a smaller one (sf.frontier compares several)."
    )
    command_line_advice = (
        "Add a column with many values or, unless --tolerance is 0, try a smaller one (`surefair frontier`)."
    )


DIAGNOSTIC = CoarseScores


def check(held: FloatArray, smooth: FloatArray, error: FloatArray, tolerance: float) -> list[Diagnostic]:
    """Check the gaps on the warm-up rows under the constraint.

    The gap of decisions and that of their smooth version come from the same rows, so they differ by much less than the
    standard error unless many rows share a score.

    Parameters
    ----------
    held, smooth, error : ndarray of shape (pairs,)
        Gaps of decisions and of their smooth version, and standard errors.
    tolerance : float

    Examples
    --------
    >>> gap, smooth, error = np.array([0.01, -0.088]), np.array([0.01, -0.05]), np.array([0.007, 0.007])
    >>> [one.message for one in check(gap, smooth, error, 0.05)]
    ['On the first rows a gap of decisions is 0.088, and the tolerance is 0.05. Training bounds a smooth version of \
decisions, which differs from them where many rows share a score close to the boundary.']
    """
    size = np.abs(held)
    beyond = size > np.maximum(np.abs(smooth), tolerance) + ROOM + error
    if not beyond.any():
        return []
    worst = float(size[beyond].max())
    message = (
        f"On the first rows a gap of decisions is {worst:.3f}, and the tolerance is {tolerance:g}. Training bounds a "
        "smooth version of decisions, which differs from them where many rows share a score close to the boundary."
    )
    return [CoarseScores(message, worst, tolerance)]
