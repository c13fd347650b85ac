"""The solver should reach an optimum."""

from __future__ import annotations

from surefair.diagnostics._diagnostic import Diagnostic

MOST = 0.05  # share of the replicates for which there may be no optimum


class StoppedEarly(Diagnostic):
    """The solver stopped before it reached an optimum."""

    assumes = "The solver reaches the optimum on the first rows, for the fit and for its replicates."
    advice = (
        "Raise tolerance or alpha, or train on more rows: the constraint may leave only models that decide the same "
        "for nearly everyone, the labels may be separable, or features may be very different in size."
    )
    command_line_advice = "Raise --tolerance or --alpha, or use more rows."
    forbids_verdict = True


DIAGNOSTIC = StoppedEarly


def check(reached: bool, unsolved: float = 0.0) -> list[Diagnostic]:
    """Check whether the solver reached an optimum for the fit, and for all but a share ``unsolved`` of its replicates.

    Examples
    --------
    >>> check(reached=True, unsolved=0.02)
    []
    >>> print(check(reached=True, unsolved=0.29)[0].message)
    The solver reached no optimum for 29 % of the replicates. They stay near the fit, so intervals may be too narrow.
    """
    if not reached:
        message = "The solver stopped before it reached the optimum, and returned the point where it stopped."
        return [StoppedEarly(message)]
    if unsolved <= MOST:
        return []
    message = (
        f"The solver reached no optimum for {100.0 * unsolved:.0f} % of the replicates. They stay near the fit, so "
        "intervals may be too narrow."
    )
    return [StoppedEarly(message, unsolved, MOST)]
