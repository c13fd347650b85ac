"""Some learners have intervals that contain the truth less often than their level says, as far as was measured."""

from __future__ import annotations

from collections.abc import Iterable

from surefair.diagnostics._diagnostic import Diagnostic

LEAST = 0.92
"""Measured coverage of intervals of level 95 % below which a learner is named."""

MEASURED: dict[str, float] = {}
"""Lowest coverage that ``studies/learners.py`` measured over the sources, for learners in which it is below LEAST."""


class LowCoverage(Diagnostic):
    """Intervals of this kind of learner contained the truth less often than their level says in our studies."""

    assumes = "Intervals of this kind of learner reach their confidence level."
    advice = "Measure the coverage on your own data with sf.calibrate."
    command_line_advice = "Measure the coverage on your own data with sf.calibrate, in Python."


DIAGNOSTIC = LowCoverage


def check(learners: Iterable[str]) -> list[Diagnostic]:
    """Check the names of the classes of a learner and of its parts.

    Examples
    --------
    >>> check(["LogisticRegression"])
    []
    """
    known = [(MEASURED[name], name) for name in learners if name in MEASURED]
    if not known:
        return []
    share, name = min(known)
    message = (
        f"In our studies, intervals of level 95 % for {name} contained the truth {100.0 * share:.0f} % of the time."
    )
    return [LowCoverage(message, share, LEAST)]
