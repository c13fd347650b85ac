"""A penalised problem may have several local optima."""

from __future__ import annotations

from surefair.diagnostics._diagnostic import Diagnostic


class LocalOptima(Diagnostic):
    """A penalised problem has several local optima."""

    advice = "Look at all of them with theory.optima, or lower the penalty."


DIAGNOSTIC = LocalOptima
