"""A constraint should act on differences between groups that are more than chance."""

from __future__ import annotations

from collections.abc import Sequence

from surefair.diagnostics._diagnostic import Diagnostic, first_few

CHANCE = 0.05  # p-value


class ChanceConstraint(Diagnostic):
    """The rows do not show that groups differ: a constraint would act on chance, and cost accuracy."""

    assumes = "Groups differ in ways that are more than chance."
    advice = "Train on more rows, raise tolerance, or use criterion=None."
    command_line_advice = "Use more rows, raise --tolerance, or use --criterion none."


DIAGNOSTIC = ChanceConstraint


def check(p_values: Sequence[float], names: Sequence[str | None]) -> list[Diagnostic]:
    """Check the p-value of each sensitive column for a difference between its groups."""
    equal = [
        f"groups{'' if name is None else f' of {name!r}'} (p = {p:.2g})"
        for p, name in zip(p_values, names, strict=True)
        if p > CHANCE
    ]
    if not equal:
        return []
    message = (
        f"On the constraint set, the features of {first_few(equal)} do not differ by more than chance. The constraint "
        "then acts on chance, which costs accuracy and makes no group's decisions more equal."
    )
    return [ChanceConstraint(message, max(p_values), CHANCE)]


def check_pairs(pairs: Sequence[str], beyond: bool = False) -> list[Diagnostic]:
    """Report gaps between groups, described in words, that depend on the coefficients by no more than chance.

    ``beyond`` says that some of them seem to be beyond the tolerance. Then the fit may be far from the model that more
    rows would give, because those would constrain the gap, and there is no definite verdict.
    """
    if not pairs:
        return []
    message = (
        f"As the model is now, the rows do not show more than chance in how decisions differ between "
        f"{first_few([*pairs])}. Such gaps are measured, but not constrained."
    )
    return [ChanceConstraint(message, len(pairs), 0, forbids_verdict=beyond)]
