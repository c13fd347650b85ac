"""Steps must be small enough for training to settle."""

from __future__ import annotations

import numpy as np

from surefair.diagnostics._diagnostic import SELDOM, Diagnostic, FloatArray, ratio, upper_limit

UNSTABLE = 3.0  # times the standard deviation that theory predicts
OFF_CENTRE = 5.0  # standard deviations between the fit and the mean of its replicates

DIVERGED = "the fit or some replicates diverged, because the step is too large for this problem"


class StepTooLarge(Diagnostic, RuntimeWarning):
    """The fit or its replicates diverge or jump about."""

    assumes = "The steps are small enough for training to settle."
    advice = "Use step_size='auto', a smaller eta0, or more rows."
    command_line_advice = "Use more rows, or raise --alpha."


DIAGNOSTIC = StepTooLarge


def check(off: FloatArray, sd: FloatArray, plug_in: FloatArray, n_replicates: int) -> list[Diagnostic]:
    """Check replicates that jump about, or that lie far from the fit.

    Parameters
    ----------
    off : ndarray of shape (D,)
        Mean of the replicates minus the fit.
    sd, plug_in : ndarray of shape (D,)
        Standard deviations of the replicates, and by the plug-in sandwich.
    n_replicates : int
    """
    wide = float(ratio(upper_limit(sd, n_replicates, SELDOM), plug_in).max(initial=0.0))
    far = float(ratio(np.abs(off), upper_limit(sd, n_replicates, 1.0 - SELDOM)).max(initial=0.0))
    if wide > UNSTABLE:
        message = f"Replicates spread {wide:.2g} times as far as theory predicts."
        return [StepTooLarge(f"{message} The step is too large, or there are too few rows.", wide, UNSTABLE)]
    if far > OFF_CENTRE:
        message = f"Replicates lie {far:.2g} standard deviations away from the fit."
        return [StepTooLarge(f"{message} The step is too large, or there are too few rows.", far, OFF_CENTRE)]
    return []


def check_finite(finite: bool) -> list[Diagnostic]:
    """Check whether training diverged."""
    return [] if finite else [StepTooLarge(f"{DIVERGED[0].upper()}{DIVERGED[1:]}.")]
