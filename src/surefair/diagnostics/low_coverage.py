"""Some learners have intervals that contain the truth less often than their level says, as far as was measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from surefair.diagnostics._diagnostic import Diagnostic

LEAST = 0.92
"""Measured coverage of intervals of level 95 % below which a learner is named."""

MEASURED: dict[str, float] = {}
"""Lowest coverage over the sources that ``studies/learners.py`` measured, by the class of a learner."""


class LowCoverage(Diagnostic):
    """Intervals of this kind of learner contained the truth less often than their level says in our studies."""

    assumes = "Intervals of this kind of learner reach their confidence level."
    advice = "Measure the coverage on your own data with sf.calibrate."
    command_line_advice = "Measure the coverage on your own data with sf.calibrate, in Python."


DIAGNOSTIC = LowCoverage


def check(learners: Iterable[str], measured: Mapping[str, float] = MEASURED) -> list[Diagnostic]:
    """Check the names of the classes of a learner and of its parts, given the coverage that was measured for some.

    Examples
    --------
    >>> check(["LogisticRegression"])
    []
    """
    known = [(measured[name], name) for name in learners if measured.get(name, 1.0) < LEAST]
    if not known:
        return []
    share, name = min(known)
    message = (
        f"In our studies, intervals of level 95 % for {name} contained the truth {100.0 * share:.0f} % of the time."
    )
    return [LowCoverage(message, share, LEAST)]
