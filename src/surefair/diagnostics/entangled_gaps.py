"""Several gaps that are made 0 together, or nearly so, should not be nearly the same gap.

Where their slopes are nearly parallel, some combination of the gaps hardly depends on the coefficients. To make it 0 is
like regression with a weak instrument: coefficients are biased, and depend on the draw of the rows by more than
replicates show. The threshold is that of Stock and Yogo (2005) for one instrument: below it, a 95 % interval may cover
less than 90 %.
"""

from __future__ import annotations

from surefair.diagnostics._diagnostic import Diagnostic, FloatArray

WEAK = 16.38  # squared length of a slope, relative to what chance gives it on average


class EntangledGaps(Diagnostic):
    """Several gaps can hardly be changed independently, so other rows could lead to quite different coefficients."""

    assumes = "The gaps that are made 0, or nearly so, can be changed independently."
    advice = "Train on more rows, allow a larger tolerance, or use a criterion with fewer rates."
    command_line_advice = "Use more rows, allow a larger --tolerance, or use a criterion with fewer rates."


DIAGNOSTIC = EntangledGaps


def check(lengths: FloatArray) -> list[Diagnostic]:
    """Check the combinations of gaps that are made 0.

    Parameters
    ----------
    lengths : ndarray of shape (M,)
        Squared lengths of their slopes, relative to what chance gives them on average, longest first.

    Examples
    --------
    >>> import numpy as np
    >>> check(np.array([80.0, 20.0]))
    []
    >>> check(np.array([0.5]))  # a single gap is not entangled
    []
    >>> print(check(np.array([80.0, 0.5]))[0].message)
    A combination of the gaps hardly depends on the coefficients: by 0.5 times what chance gives; 16.4 would be enough.
    """
    if len(lengths) < 2 or lengths[-1] >= WEAK:
        return []
    weakest = max(float(lengths[-1]), 0.0)
    message = (
        f"A combination of the gaps hardly depends on the coefficients: by {weakest:.3g} times what chance gives; "
        f"{WEAK:.1f} would be enough."
    )
    return [EntangledGaps(message, weakest, WEAK)]
