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
from surefair.rows.arrays import FloatArray

__all__ = ["LEARNERS", "Learner", "Settings", "learner_for"]

S = TypeVar("S")


class Learner(Protocol[S]):
    """What every learner offers; R columns are the fit and its replicates."""

    settings: Settings
    form: Any

    def init(self, n_columns: int) -> S:
        """State before the first row."""

    def step(
        self, state: S, X: Any, y: FloatArray, weight: FloatArray | float = 1.0, n_threads: int = 1,
        reuse: bool = False, columns: tuple[int, int] | None = None,
    ) -> S:  # fmt: skip
        """State after the rows X (n, D), dense or sparse, with labels y = ±1 and relative weights (n,).

        Where ``reuse``, it may take over the memory of the state before. Where ``columns`` (first, last) are given,
        only they are carried through the rows, and the others stay where they were; first is a multiple of 32.
        """

    def reference_step(self, state: S, x: FloatArray, y: float, weight: float = 1.0) -> S:
        """State after one row, in plain NumPy."""

    def mean(self, state: S) -> FloatArray:
        """Averaged iterates, shape (D, R)."""

    def merge(self, state: S, other: S) -> S:
        """State of two shards of rows."""


LEARNERS: dict[tuple[type[Form], bool], Any] = {
    form: learner
    for found in pkgutil.iter_modules(__path__)
    if not found.name.startswith("_")
    for learner in [getattr(importlib.import_module(f"{__name__}.{found.name}"), "LEARNER", None)]
    if learner is not None
    for form in learner.FORMS
}
"""Learners by the form of constraint they obey, and whether rows are sparse."""


def learner_for(settings: Settings, form: Form, sparse: bool) -> Learner[Any]:
    """Return the learner that obeys this form of constraint, for dense or sparse rows."""
    learner: Learner[Any] = LEARNERS[type(form), sparse](settings, form)
    return learner
