"""Several gaps that are made 0 together should not be nearly the same gap.

Where their slopes are nearly parallel, some combination of the gaps hardly depends on the coefficients. To make it 0 is
like regression with a weak instrument: coefficients are biased, and depend on the draw of the rows by more than
replicates show. The threshold is that of Staiger and Stock (1997) for instruments.
"""

from __future__ import annotations

from surefair.diagnostics._diagnostic import Diagnostic, FloatArray

WEAK = 10.0  # squared length of a slope, relative to what chance gives it on average


class EntangledGaps(Diagnostic):
    """Several gaps can hardly be changed independently, so other rows could lead to quite different coefficients."""

    assumes = "The gaps that are made 0 together can be changed independently."
    advice = "Train on more rows, allow a larger tolerance, or use a criterion with fewer rates."
    command_line_advice = "Use more rows, allow a larger --tolerance, or use a criterion with fewer rates."


DIAGNOSTIC = EntangledGaps


def check(lengths: FloatArray, n_held: int, gap: float, error: float) -> list[Diagnostic]:
    """Check the combinations of gaps that an equality acts on.

    Parameters
    ----------
    lengths : ndarray of shape (M,)
        Squared lengths of their slopes, relative to what chance gives them on average, longest first.
    n_held : int
        How many of them the constraint makes 0. It leaves the others alone, where it would act on chance.
    gap, error : float
        The largest gap that is left, and its standard error.

    Examples
    --------
    >>> import numpy as np
    >>> check(np.array([80.0, 20.0]), 2, 0.0, 0.0)
    []
    >>> print(check(np.array([80.0, 0.5]), 1, 0.034, 0.01)[0].message)
    The rows show only 1 of 2 independent ways to change the gaps, so a gap of 0.034 is left.
    """
    n = len(lengths)
    if n < 2:
        return []
    if n_held < n and gap > 2.0 * error:
        ways = f"{n_held} of {n} independent ways"
        message = f"The rows show only {ways} to change the gaps, so a gap of {gap:.2g} is left."
        return [EntangledGaps(message, n_held, n)]
    weakest = float(lengths[:n_held].min(initial=WEAK))
    if weakest >= WEAK:
        return []
    message = (
        f"The constraint makes {n_held} combinations of gaps 0, and one of them hardly depends on the coefficients: by "
        f"{weakest:.2g} times what chance gives, where {WEAK:g} would be enough."
    )
    return [EntangledGaps(message, weakest, WEAK)]
