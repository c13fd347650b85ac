"""Steps leave a bias, which must be small compared with the uncertainty."""

from __future__ import annotations

import numpy as np

from surefair.diagnostics._diagnostic import SELDOM, Diagnostic, FloatArray, ratio, upper_limit

OFF_CENTRE = 1.0  # standard deviations between the fit and the mean of its replicates


class StepBias(Diagnostic):
    """The steps leave a coefficient off by its standard deviation or more."""

    assumes = "No coefficient is off by as much as its uncertainty because of the steps."
    advice = (
        "method='basic' of coef_interval and method='percentile' of fairness_interval correct for it, with wider "
        "intervals; other methods do not. Train on more rows, or tame features with far-out values (take logarithms)."
    )


DIAGNOSTIC = StepBias


def check(off: FloatArray, sd: FloatArray, n_replicates: int) -> list[Diagnostic]:
    """Check the bias: replicates have it twice, so their mean lies as far from the fit as the fit from the optimum."""
    clear = np.maximum(np.abs(off) - 2.0 * sd / np.sqrt(n_replicates), 0.0)
    if not ratio(clear, upper_limit(sd, n_replicates, 1.0 - SELDOM)).max(initial=0.0) > OFF_CENTRE:
        return []
    worst = float(ratio(np.abs(off), sd).max())
    message = (
        f"The steps leave a coefficient off by {worst:.2g} standard deviations, as happens with far-out feature values."
    )
    return [StepBias(message, worst, OFF_CENTRE)]
