"""A model that decides the same for everyone shows nothing about how it treats groups."""

from __future__ import annotations

from surefair.diagnostics._diagnostic import Diagnostic


class ConstantDecisions(Diagnostic):
    """The model decides the same for everyone, so it meets any margin and shows nothing by it."""

    assumes = "The model does not decide the same for everyone."
    advice = "Give the model features that predict the label, or lower alpha."
    command_line_advice = "Give the model columns that predict the label, or lower --alpha."
    forbids_verdict = True


DIAGNOSTIC = ConstantDecisions


def check(constant: bool, model: str) -> list[Diagnostic]:
    """Report a model, given by its name, that decides the same for everyone."""
    message = f"The {model} model decides the same for everyone, so its gaps say nothing about how it treats groups."
    return [ConstantDecisions(message)] if constant else []
