"""Replicates and theory should agree about the uncertainty of the coefficients."""

from __future__ import annotations

import numpy as np

from surefair.diagnostics._diagnostic import SELDOM, Diagnostic, FloatArray, upper_limit

DISAGREE = 1.5  # ratio of two standard deviations


class CovarianceDisagreement(Diagnostic):
    """Replicates and theory give different standard deviations."""

    assumes = "Replicates spread as theory predicts."
    advice = "Train on more rows, and use the wider of the two."
    command_line_advice = "Use more rows."


DIAGNOSTIC = CovarianceDisagreement


def check(sd: FloatArray, plug_in: FloatArray, n_replicates: int) -> list[Diagnostic]:
    """Compare standard deviations of the replicates with those of the plug-in sandwich."""
    some = (sd > 0.0) & (plug_in > 0.0)
    sd = sd[some]
    plug_in = plug_in[some]
    above = upper_limit(sd, n_replicates, SELDOM) / plug_in
    below = plug_in / upper_limit(sd, n_replicates, 1.0 - SELDOM)
    if not max(above.max(initial=0.0), below.max(initial=0.0)) > DISAGREE:
        return []
    worst = float((sd / plug_in)[np.argmax(np.maximum(above, below))])
    message = (
        f"The replicates give a coefficient {worst:.2g} times the standard deviation that the plug-in sandwich gives "
        "it, so at least one of the two is not yet near its limit."
    )
    return [CovarianceDisagreement(message, worst, DISAGREE)]
