"""Steps must add up to enough to reach the optimum."""

from __future__ import annotations

from surefair.diagnostics._diagnostic import Diagnostic

REACH = 1.0  # sum of the steps times the smallest curvature; below it, iterates are hardly halfway


class StepTooSmall(Diagnostic):
    """The steps add up to too little to reach the optimum."""

    assumes = "The steps are large enough to reach the optimum."
    advice = "Train on more rows, or take a larger eta0 if you chose the schedule."


DIAGNOSTIC = StepTooSmall


def check(reach: float) -> list[Diagnostic]:
    """Check the sum of the steps times the smallest curvature."""
    if reach >= REACH:
        return []
    message = (
        f"The steps add up to only {reach:.2g} of the way to the optimum in the flattest direction, so the fit has not "
        "arrived there."
    )
    return [StepTooSmall(message, reach, REACH)]
