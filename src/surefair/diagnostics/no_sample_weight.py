"""Refits with random weights need an estimator that takes weights."""

from __future__ import annotations

from surefair.diagnostics._diagnostic import Diagnostic


class NoSampleWeight(Diagnostic):
    """The estimator takes no sample weights, so refits draw rows with replacement instead."""

    assumes = "Refits can weigh rows."
    advice = (
        "Intervals remain valid, but rows repeat in refits, which matters to learners that remember single rows. Pass "
        "multiplier='resample' if you want this, or an estimator whose fit takes sample_weight."
    )
    command_line_advice = "Name an estimator whose fit takes sample_weight, if there is one."


DIAGNOSTIC = NoSampleWeight


def check(takes_weight: bool, resample: bool, estimator: str) -> list[Diagnostic]:
    """Check whether rows are drawn again although the user did not ask for it.

    Examples
    --------
    >>> [one.message for one in check(False, False, "KNeighborsClassifier")]
    ['KNeighborsClassifier takes no sample_weight, so every refit draws as many rows with replacement.']
    """
    if takes_weight or resample:
        return []
    return [NoSampleWeight(f"{estimator} takes no sample_weight, so every refit draws as many rows with replacement.")]
