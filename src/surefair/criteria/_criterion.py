"""What a criterion is: the rates to compare between groups and, if training can enforce it, a form of constraint.

A criterion supplies data, never compiled code. A rate is defined by the cells of the table *truth × decision* that
make up its numerator and its denominator. The constraint has one of the forms in ``_forms.py``, which learners know.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefair.criteria._forms import Form, Members
from surefair.rows import FloatArray

Cells = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Rate:
    """A share of rows, defined by their true labels and the decisions on them.

    Attributes
    ----------
    name : str
    words : str
        Short description of the rate, for reports.
    numerator, denominator : tuple of (truth, decision)
        Cells whose counts add up to the numerator and the denominator; truth and decision are 0 or 1.

    Examples
    --------
    A table of counts, group × truth × decision:

    >>> from surefair.criteria import CRITERIA
    >>> (rate,) = CRITERIA["false_positive_rate"].rates
    >>> rate.of(np.array([[[60, 20], [10, 30]], [[40, 10], [25, 25]]]))
    array([0.25, 0.2 ])
    """

    name: str
    words: str
    numerator: Cells
    denominator: Cells

    def tally(self, counts: NDArray[np.floating] | NDArray[np.integer]) -> tuple[FloatArray, FloatArray]:
        """Numerators and denominators, from counts of shape (..., group, truth, decision)."""
        total = [np.sum([counts[..., t, d] for t, d in cells], axis=0) for cells in (self.numerator, self.denominator)]
        return np.asarray(total[0], dtype=np.float64), np.asarray(total[1], dtype=np.float64)

    def of(self, counts: NDArray[np.floating] | NDArray[np.integer]) -> FloatArray:
        """Rate of each group, shape (..., group); NaN if the denominator is 0."""
        above, below = self.tally(counts)
        return np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0.0)

    @property
    def depends_on_truth(self) -> bool:
        """Whether the true labels matter: a selection rate can be measured without them."""
        sides = (self.numerator, self.denominator)
        return any({(1 - truth, decision) for truth, decision in cells} != {*cells} for cells in sides)

    def looks_at(self, y: FloatArray) -> NDArray[np.bool_]:
        """Which rows can enter the rate, given their labels ±1."""
        truths = {truth for truth, _ in self.denominator}
        return np.where(y > 0.0, 1 in truths, 0 in truths)


@dataclass(frozen=True)
class Criterion:
    """A fairness criterion for a binary decision.

    Attributes
    ----------
    name : str
        Name of the criterion; also the name of its file.
    rates : tuple of Rate
        Rates that the criterion wants to be equal in all groups.
    form : Slabs, SquaredPenalty or SoftRatePenalty, the class, or None
        Form of the constraint. With None the criterion is measure-only: metrics can measure it, but no classifier can
        train with it.
    ratio_rates : tuple of Rate
        Rates that the ratio metric compares, if they differ from ``rates``; otherwise empty.

    Examples
    --------
    A measure-only criterion:

    >>> rate = Rate("true_negative_rate", "share of negative decisions among the truly negative",
    ...             numerator=((0, 0),), denominator=((0, 0), (0, 1)))
    >>> Criterion("true_negative_rate", (rate,)).can_constrain
    False
    """

    name: str
    rates: tuple[Rate, ...]
    form: type[Form] | None = None
    ratio_rates: tuple[Rate, ...] = ()

    @property
    def can_constrain(self) -> bool:
        """Whether a classifier can train with this criterion."""
        return self.form is not None

    def constrain(self, X: Any, y: FloatArray, members: Members) -> Form:
        """Constraint on a constraint set D': rows X (n, D), dense or sparse, labels ±1, and groups.

        Raises
        ------
        ValueError
            If the criterion is measure-only.
        """
        if self.form is None:
            raise ValueError(
                f"The criterion {self.name!r} can only be measured: it has no form of constraint, so a classifier "
                "cannot train with it. Train with another criterion or with criterion=None, and pass "
                f"metric={self.name!r} to fairness_interval."
            )
        return self.form.on(X, y, members, self.rates)
