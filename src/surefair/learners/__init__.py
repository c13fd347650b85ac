"""Learners: how θ and its replicates move. One file per algorithm; each obeys one form of constraint.

A learner is a frozen configuration with pure functions of a state (a NamedTuple of arrays whose columns are the fit,
column 0, and its replicates): ``init``, ``step``, ``reference_step``, ``mean`` and ``merge``.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any, Protocol, TypeVar

from surefair.criteria import Form
from surefair.learners._settings import Settings
from surefair.streams import FloatArray

__all__ = ["LEARNERS", "Learner", "Settings", "learner_for"]

S = TypeVar("S")


class Learner(Protocol[S]):
    """What every learner offers; R columns are the fit and its replicates."""

    settings: Settings
    form: Any

    def init(self, n_columns: int) -> S:
        """State before the first row."""

    def step(self, state: S, X: FloatArray, y: FloatArray, n_threads: int = 1) -> S:
        """State after the rows X (n, D) with labels y = ±1 (n,)."""

    def reference_step(self, state: S, x: FloatArray, y: float) -> S:
        """State after one row, in plain NumPy."""

    def mean(self, state: S) -> FloatArray:
        """Averaged iterates, shape (D, R)."""

    def merge(self, state: S, other: S) -> S:
        """State of two shards of rows."""


LEARNERS: dict[type[Form], Any] = {
    (learner := importlib.import_module(f"{__name__}.{found.name}").LEARNER).FORM: learner
    for found in pkgutil.iter_modules(__path__)
    if not found.name.startswith("_")
}


def learner_for(settings: Settings, form: Form) -> Learner[Any]:
    """Return the learner that obeys this form of constraint."""
    learner: Learner[Any] = LEARNERS[type(form)](settings, form)
    return learner
