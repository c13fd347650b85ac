"""The solver should reach an optimum."""

from __future__ import annotations

from surefair.diagnostics._diagnostic import Diagnostic


class StoppedEarly(Diagnostic):
    """The solver stopped before it reached an optimum."""

    advice = "Raise alpha, or scale the features: the data may be separable, or features very different in size."


DIAGNOSTIC = StoppedEarly


def check(reached: bool) -> list[Diagnostic]:
    """Check whether the solver reached an optimum."""
    message = "The solver stopped before it reached the optimum, and returned the point where it stopped."
    return [] if reached else [StoppedEarly(message)]
