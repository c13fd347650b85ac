"""Labels that features predict without error leave the coefficients undetermined."""

from __future__ import annotations

from surefair.diagnostics._diagnostic import Diagnostic, FloatArray

CERTAIN = 0.04  # mean of p(1 - p) at the optimum, relative to that of labels that no feature predicts


class SeparableData(Diagnostic):
    """The features predict the labels (almost) without error, so coefficients grow without bound."""

    assumes = "The features do not predict the labels without error."
    advice = "Raise alpha, use loss='squared_error', or drop a feature that gives the label away."
    command_line_advice = "Raise --alpha, use --loss squared_error, or --drop a column that gives the label away."


DIAGNOSTIC = SeparableData


def check(
    scores: FloatArray, y: FloatArray, weight: FloatArray, variance: FloatArray, separable: bool
) -> list[Diagnostic]:
    """Check labels ±1 against scores at the optimum, whose variances p(1 - p) are given."""
    share = weight / weight.sum()
    wrong = (y * scores <= 0.0) & (weight > 0.0)
    positive = float(share @ (y > 0.0))
    left = float(share @ variance) / max(positive * (1.0 - positive), 1e-12)
    almost = scores.any() and (left < CERTAIN or not wrong.any())
    if not (almost or separable):
        return []
    how = "a hyperplane separates them" if separable else f"only {left:.2g} of their variance is left"
    message = (
        f"In the first rows, the features predict the labels (almost) without error: {how}. The ridge and very few "
        "rows then decide the coefficients."
    )
    return [SeparableData(message, left, CERTAIN)]
