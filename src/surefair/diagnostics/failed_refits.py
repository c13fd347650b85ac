"""Refits must succeed: those that fail may be the ones that differ most."""

from __future__ import annotations

from collections.abc import Mapping

from surefair.diagnostics._diagnostic import Diagnostic


class FailedRefits(Diagnostic):
    """Some refits failed, so intervals rest on the others."""

    assumes = "All refits succeed."
    advice = (
        "Intervals that cover training leave the failed refits out, although these may be the ones that differ most, "
        "and give no definite verdict. Find out why they failed."
    )
    command_line_advice = "Find out why refits failed, for example a rare category that some of them lack."
    forbids_verdict = True


DIAGNOSTIC = FailedRefits


def check(failures: Mapping[int, str], n_replicates: int) -> list[Diagnostic]:
    """Check whether refits failed, given the reason of each by its number, from 1 on.

    Examples
    --------
    >>> [one.message for one in check({4: "ValueError: one class only"}, 10)]
    ['1 of 10 refits failed: number 4 (ValueError: one class only).']
    """
    if not failures:
        return []
    first, reason = next(iter(failures.items()))
    more = f", and numbers {', '.join(map(str, [*failures][1:6]))}" if len(failures) > 1 else ""
    more += f" and {len(failures) - 6} more" if len(failures) > 6 else ""
    message = f"{len(failures)} of {n_replicates} refits failed: number {first} ({reason}){more}."
    return [FailedRefits(message, len(failures), 0)]
