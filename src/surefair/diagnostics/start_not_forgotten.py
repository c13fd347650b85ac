"""Training must run long enough for its starting point not to matter."""

from __future__ import annotations

import numpy as np

from surefair.diagnostics._diagnostic import Diagnostic, FloatArray, ratio

BIAS = 0.5  # standard deviations: 95 % intervals that are off by this much cover 92 %


class StartNotForgotten(Diagnostic):
    """The fit has not converged: its starting point still affects the result."""

    assumes = "The fit has converged: its starting point no longer matters."
    advice = (
        "Train on more rows (in merged fits, on more rows in each part), or take larger steps if you chose the "
        "schedule."
    )
    forbids_verdict = True


DIAGNOSTIC = StartNotForgotten


def remaining_share(curvature: FloatArray, rows: FloatArray, steps: FloatArray) -> FloatArray:
    """Share of the start that is left in the average of the iterates, in directions of given curvature λ.

    The mean of exp(-λ(η_1 + … + η_k)) over the rows k.

    Parameters
    ----------
    curvature : ndarray of shape (D,)
    rows : ndarray of shape (K,)
        Increasing numbers of rows k; the last one is the number of all rows.
    steps : ndarray of shape (K,)
        Sums of the first k steps.

    Examples
    --------
    >>> rows = np.arange(0.0, 10_001.0)
    >>> remaining_share(np.array([0.0, 1.0]), rows, 0.01 * rows).round(4)
    array([1.  , 0.01])
    """
    left = np.exp(-np.outer(curvature, steps))
    return np.asarray(np.trapezoid(left, rows, axis=1) / rows[-1])


def check(bias: FloatArray, sd: FloatArray, what: str = "a coefficient") -> list[Diagnostic]:
    """Check the bias that the start leaves in each coefficient."""
    worst = float(ratio(np.abs(bias), sd).max(initial=0.0))
    if not worst > BIAS:
        return []
    message = (
        f"The fit has not converged: its starting point still moves {what} by about "
        f"{worst:.2g} standard deviations, and intervals do not show that."
    )
    return [StartNotForgotten(message, worst, BIAS)]
