"""Every group should be in the constraint set."""

from __future__ import annotations

from surefair.diagnostics._diagnostic import Diagnostic


class LateGroup(Diagnostic):
    """A group is not in the constraint set: it is counted and measured, but not constrained."""

    assumes = "Every group is in the constraint set."
    advice = "To constrain every group, fit again with more rows in the constraint set."


DIAGNOSTIC = LateGroup


def check(late: str) -> list[Diagnostic]:
    """Report groups, described in words, that are not in the constraint set; an empty text means there are none."""
    return [LateGroup(f"{late}. It is counted and measured, but not constrained.")] if late else []
