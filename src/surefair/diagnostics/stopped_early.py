"""The solver should reach an optimum."""

from __future__ import annotations

from surefair.diagnostics._diagnostic import Diagnostic


class StoppedEarly(Diagnostic):
    """The solver stopped before it reached an optimum."""

    assumes = "The solver reaches the optimum on the first rows."
    advice = (
        "Raise tolerance or alpha, or train on more rows: the constraint may leave only models that decide the same "
        "for nearly everyone, the labels may be separable, or features may be very different in size."
    )
    command_line_advice = "Raise --tolerance or --alpha, or use more rows."
    forbids_verdict = True


DIAGNOSTIC = StoppedEarly


def check(reached: bool) -> list[Diagnostic]:
    """Check whether the solver reached an optimum."""
    message = "The solver stopped before it reached the optimum, and returned the point where it stopped."
    return [] if reached else [StoppedEarly(message)]
