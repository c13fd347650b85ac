"""Replicates must differ, or their spread says nothing."""

from __future__ import annotations

import numpy as np

from surefair.diagnostics._diagnostic import Diagnostic, FloatArray
from surefair.names import counted

DISTINCT = 5  # distinct values of a gap


class DegenerateReplicates(Diagnostic):
    """Most replicates are equal, so their spread says nothing."""

    assumes = "Replicates differ from each other."
    advice = (
        "Raise tolerance, add features, train on more rows, pass more evaluation rows, or ask for source='total', "
        "which needs no quantiles."
    )
    command_line_advice = "Raise --tolerance, add features, or use more rows."


DIAGNOSTIC = DegenerateReplicates


def check(replicates: FloatArray) -> list[Diagnostic]:
    """Check whether most replicates, shape (D, B), are distinct."""
    B = replicates.shape[1]
    distinct = len(np.unique(replicates, axis=1).T)
    if distinct > B / 2:
        return []
    message = (
        f"Only {distinct} of {B} replicates are distinct, so their spread says nothing: the constraint, or weights of "
        "0, leave nothing to learn."
    )
    return [DegenerateReplicates(message, distinct, B / 2)]


def check_gap(gaps: FloatArray) -> list[Diagnostic]:
    """Check whether a gap takes enough values over its replicates."""
    distinct = len(np.unique(gaps))
    needed = max(2, min(DISTINCT, len(gaps) // 4))
    if distinct >= needed:
        return []
    message = (
        f"The gap takes only {counted(distinct, 'value')} over {len(gaps)} replicates, so its quantiles say nothing."
    )
    return [DegenerateReplicates(message, distinct, needed)]


def check_freedom(rigid: bool, n_groups: str, n_features: int) -> list[Diagnostic]:
    """Check whether equality constraints leave any coefficient free."""
    if not rigid:
        return []
    message = (
        f"Constraints for {n_groups} groups fix the coefficients of all {n_features} features at 0, so nothing is left "
        "to learn."
    )
    return [DegenerateReplicates(message)]
