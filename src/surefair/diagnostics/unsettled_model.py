"""Replicates should agree about the model."""

from __future__ import annotations

import numpy as np

from surefair.diagnostics._diagnostic import Diagnostic, FloatArray

MOST = 0.3  # root mean square distance of the nearer replicates from the fit, relative to its length
NEARER = 0.9  # share of them: a few may end in another optimum, which intervals show
TIMES = 2.5  # the same relative to what it is for as many rows and features without a constraint
FAR = 5.0  # the same for the way of the fit since the warm-up rows, relative to the spread of replicates on them


class UnsettledModel(Diagnostic):
    """The rows do not determine the model: replicates are far from the fit."""

    assumes = "The rows determine the model."
    advice = "Train on more rows, raise n_warmup or alpha, or allow a larger tolerance."
    command_line_advice = "Use more rows, raise --alpha, or allow a larger --tolerance."
    forbids_verdict = True


DIAGNOSTIC = UnsettledModel


def check(theta: FloatArray, first: FloatArray, usual: float = 0.0) -> list[Diagnostic]:
    """Check coefficients (D, 1 + B) of the fit and its replicates, now and after the warm-up rows.

    Coordinates are such that the length of coefficients is the size of the scores. ``usual`` is the root mean square
    distance of replicates from the fit that so many rows and features have without a constraint.
    """
    length = float(np.linalg.norm(theta[:, 0]))
    away = _spread(theta, NEARER)
    way = float(np.linalg.norm(theta[:, 0] - first[:, 0])) / max(_spread(first), 1e-300)
    if way > FAR:
        message = (
            f"Since the warm-up rows the fit has moved by {way:.2g} times the spread of its replicates there, so the "
            "warm-up rows were too few, or rows change over time."
        )
        return [UnsettledModel(message, way, FAR)]
    if away <= max(MOST * length, TIMES * usual):
        return []
    share = away / length if length > 0.0 else np.inf
    message = (
        f"The rows do not determine the model: the scores of replicates differ from those of the fit by {share:.2g} "
        "times the size of the scores. Where groups hardly differ, a constraint leaves many models that are almost as "
        "good."
    )
    return [UnsettledModel(message, share, MOST)]


def _spread(theta: FloatArray, share: float = 1.0) -> float:
    """Root mean square distance of replicates from the fit, over this share of them, the nearest."""
    squares = np.sort(np.sum((theta[:, 1:] - theta[:, :1]) ** 2, axis=0))
    return float(np.sqrt(np.mean(squares[: int(np.ceil(share * len(squares)))])))
