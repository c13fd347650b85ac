"""On other rows, the gap should be near the tolerance that training enforced."""

from __future__ import annotations

from surefair.diagnostics._diagnostic import Diagnostic

ROOM = 0.02  # gap beyond the tolerance that smoothing alone may leave


class ExceededTolerance(Diagnostic):
    """The gap on the evaluation rows is clearly larger than the tolerance that the constraint enforced in training."""

    assumes = "The constraint holds on other rows too."
    advice = "Train on more rows, or check that training and evaluation rows come from the same population."
    command_line_advice = "Use more rows, and shuffle them."


DIAGNOSTIC = ExceededTolerance


def check(low: float, tolerance: float) -> list[Diagnostic]:
    """Check the lower limit of the unfairness on evaluation rows, measured as it was constrained."""
    if not low > tolerance + ROOM:
        return []
    message = f"The unfairness on these rows is at least {low:.3f}, and the tolerance in training was {tolerance:g}."
    return [ExceededTolerance(message, low, tolerance)]
