"""A model that decides the same for nearly everyone shows nothing about how it treats groups."""

from __future__ import annotations

from collections.abc import Sequence

from surefair.diagnostics._diagnostic import Diagnostic

SHARE = 0.01  # of the rows that get the rarer decision
OF_LABELS = 0.1  # the same, relative to the share of the rarer label


class ConstantDecisions(Diagnostic):
    """The model decides the same for everyone, or nearly so: it meets any margin and shows nothing by it."""

    assumes = "The model does not decide the same for nearly everyone."
    advice = "Raise tolerance, give the model features that predict the label, or lower alpha."
    command_line_advice = "Raise --tolerance, give the model columns that predict the label, or lower --alpha."
    forbids_verdict = True


DIAGNOSTIC = ConstantDecisions


def check(decisions: Sequence[float], labels: Sequence[float]) -> list[Diagnostic]:
    """Check how many rows get each of the two decisions, given how many have each of the two labels.

    Examples
    --------
    >>> [one.message for one in check([995.0, 5.0], [700.0, 300.0])]
    ['The model makes the rarer decision for only 0.5 % of the rows, so its gaps say little about how it treats \
groups.']
    >>> check([995.0, 5.0], [990.0, 10.0])  # a rare outcome
    []
    """
    n = sum(decisions)
    share = min(decisions) / n if n > 0.0 else 1.0
    if share > 0.0 and (share >= SHARE or share >= OF_LABELS * min(labels) / n):
        return []
    found = "decides the same for everyone, so its gaps say nothing"
    if share > 0.0:
        found = f"makes the rarer decision for only {100.0 * share:.2g} % of the rows, so its gaps say little"
    return [ConstantDecisions(f"The model {found} about how it treats groups.", share, SHARE)]
