"""Learners: how θ and its replicates move. One file per algorithm; each serves some forms of constraint.

A learner is a frozen configuration with pure functions of a state: ``init``, ``step``, ``reference_step``, ``mean`` and
``merge``. A state is a NamedTuple of arrays whose columns are the fit (column 0) and its replicates. ``LEARNERS`` finds
the files that define a ``LEARNER``; the other files have what learners share.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

from surefair.criteria import Form
from surefair.learners._settings import Settings
from surefair.rows import FloatArray, IntArray

__all__ = ["LEARNERS", "Learner", "Settings", "by_form", "learner_for"]

S = TypeVar("S")


class Learner(Protocol[S]):
    """What every learner can do; its R columns are the fit and the replicates."""

    settings: Settings
    form: Any

    def init(self, n_columns: int) -> S:
        """State before the first row."""

    def step(
        self, state: S, X: Any, y: FloatArray, weight: FloatArray | float = 1.0, n_threads: int = 1,
        reuse: bool = False, columns: tuple[int, int] | None = None, group: IntArray | None = None,
    ) -> S:  # fmt: skip
        """State after the rows X (n, D), dense or sparse, with labels y = ±1 and relative weights (n,).

        Group codes (n, columns) are for learners whose constraint is learnt from the rows; others do not look at them.
        With ``reuse`` the new state may overwrite the arrays of the old one. With ``columns`` (first, last) only these
        columns move, and the others stay as they are; first is a multiple of 32.
        """

    def reference_step(
        self, state: S, x: FloatArray, y: float, weight: float = 1.0, group: IntArray | None = None
    ) -> S:
        """State after one row, in plain NumPy."""

    def mean(self, state: S) -> FloatArray:
        """Averaged iterates, shape (D, R)."""

    def completed(self, state: S) -> S:
        """State with the rows of an incomplete block taken in, by this learner's multipliers."""

    def merge(self, state: S, other: S) -> S:
        """State of two shards of rows, both completed."""


def by_form(learners: Iterable[Any]) -> dict[tuple[type[Form], bool], Any]:
    """Learners by the form of constraint that they serve, and whether rows are sparse.

    Raises
    ------
    ValueError
        If two learners serve the same form and the same kind of rows.
    """
    found: dict[tuple[type[Form], bool], Any] = {}
    for learner in learners:
        for form, sparse in learner.FORMS:
            other = found.setdefault((form, sparse), learner)
            if other is not learner:
                raise ValueError(
                    f"{other.__name__} and {learner.__name__} both serve the form {form.__name__} for "
                    f"{'sparse' if sparse else 'dense'} rows. Remove it from the FORMS of one of them."
                )
    return found


def _learners() -> Iterable[Any]:
    """Learners that the files of this folder define."""
    for found in pkgutil.iter_modules(__path__):
        if not found.name.startswith("_"):
            module = importlib.import_module(f"{__name__}.{found.name}")
            if hasattr(module, "LEARNER"):
                yield module.LEARNER


LEARNERS: dict[tuple[type[Form], bool], Any] = by_form(_learners())
"""Learners by the form of constraint that they serve, and whether rows are sparse."""


def learner_for(settings: Settings, form: Form, sparse: bool) -> Learner[Any]:
    """Return the learner for this form of constraint and for dense or sparse rows."""
    learner: Learner[Any] = LEARNERS[type(form), sparse](settings, form)
    return learner
