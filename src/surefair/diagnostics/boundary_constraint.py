"""A constraint should clearly hold the model back, or clearly not."""

from __future__ import annotations

import numpy as np

from surefair.diagnostics._diagnostic import Diagnostic, FloatArray
from surefair.names import counted

CLEAR = 3.0  # standard errors at which a constraint clearly holds the optimum back, or clearly does not


class BoundaryConstraint(Diagnostic):
    """The optimum touches a constraint that hardly holds it back, so its distribution is not normal."""

    assumes = "The constraint clearly holds the model back, or clearly does not."
    advice = "Choose a smaller or larger tolerance, or train on more rows."
    command_line_advice = "Choose a smaller or larger --tolerance, or use more rows."


DIAGNOSTIC = BoundaryConstraint


def check(room: FloatArray, sd: FloatArray, push: FloatArray, error: FloatArray, tolerance: float) -> list[Diagnostic]:
    """Check constraints that neither clearly hold the optimum back nor clearly leave it free.

    Parameters
    ----------
    room, sd : ndarray of shape (S,)
        Distance of the fit from each face, and the spread of its replicates across it.
    push, error : ndarray of shape (S,)
        Multiplier of each face, and its standard error.
    tolerance : float
    """
    touching = int(np.count_nonzero((room <= CLEAR * sd) & ~(push > CLEAR * error)))
    if not touching:
        return []
    message = (
        f"It is unclear whether {counted(touching, 'constraint')} with tolerance {tolerance:g} would hold the optimum "
        "back. Near such a boundary the distribution of the coefficients is not normal."
    )
    return [BoundaryConstraint(message, touching, 0)]


def check_touching(touched: int, tolerance: float) -> list[Diagnostic]:
    """Check slabs that the optimum of a population touches with multiplier 0."""
    if not touched:
        return []
    message = (
        f"The optimum touches {counted(touched, 'slab')} of tolerance {tolerance:g} without a push: in the limit it is "
        "on the face half of the time, and its law is not normal. The law returned ignores the face."
    )
    return [BoundaryConstraint(message, touched, 0)]
