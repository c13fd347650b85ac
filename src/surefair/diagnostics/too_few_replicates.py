"""Quantiles need a minimum number of replicates."""

from __future__ import annotations

import math

from surefair.diagnostics._diagnostic import Diagnostic


class TooFewReplicates(Diagnostic):
    """There are fewer replicates than a quantile at this confidence level needs."""

    assumes = "There are enough replicates for the confidence level."
    advice = "Use method='cheap', or more replicates."
    command_line_advice = "Raise --replicates."
    forbids_verdict = True


DIAGNOSTIC = TooFewReplicates


def check(n_replicates: int, confidence_level: float, method: str, several: bool = False) -> list[Diagnostic]:
    """Check whether some quantile of so few replicates lies far enough out.

    Both tails are needed; where the limits of several gaps hold together, only the tail of the farthest gap is.
    """
    tails = 0 if method == "cheap" else 2 if method != "normal" else 1 if several else 0
    needed = math.ceil(tails / (1.0 - confidence_level) - 1e-9) - 1
    if n_replicates >= needed:
        return []
    message = (
        f"{n_replicates} replicates are too few for a {method} interval at level {confidence_level:.6g}, which needs "
        f"{needed}. The interval is narrower than its level promises."
    )
    return [TooFewReplicates(message, n_replicates, needed)]
