"""Many rows share the median score, so hardly any lie above it."""

from __future__ import annotations

from surefair.diagnostics._diagnostic import Diagnostic

LEAST_ABOVE = 0.25


class TiedScores(Diagnostic):
    """Far fewer than half of the scores lie above their median: rates of scores above it show little."""

    assumes = "About half of the scores lie above their median."
    advice = "Pass a threshold, use metric='mean_score', or pass decisions if the scores have two values only."
    command_line_advice = "Pass --threshold, or --metric mean_score; if the scores have two values, pass --decision."
    forbids_verdict = True


DIAGNOSTIC = TiedScores


def check(above: float) -> list[Diagnostic]:
    """Check the share of all rows whose score is certainly above the median.

    Examples
    --------
    >>> [len(check(above)) for above in (0.5, 0.3, 0.1)]
    [0, 0, 1]
    """
    if above >= LEAST_ABOVE:
        return []
    message = (
        f"Only {100.0 * above:.1f} % of the rows have a score above the median of all rows, because many share the "
        "median, so a comparison of these shares between groups says little."
    )
    return [TiedScores(message, above, LEAST_ABOVE)]
