"""What a criterion is: rates to measure in each group, and a form of constraint that pulls them together.

A criterion supplies data, never compiled code. A rate is told by the cells of the table *truth × decision* that make
its numerator and denominator; the constraint is one of the forms in ``_forms.py``, which the learners know how to obey.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefair.criteria._forms import Form, Members
from surefair.rows.arrays import FloatArray

Cells = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Rate:
    """A share of rows, told by their truth and the decision on them.

    Attributes
    ----------
    name : str
    words : str
        What it is, in words.
    numerator, denominator : tuple of (truth, decision)
        Cells whose counts make the rate, each 0 or 1.

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
        """Rate of each group, shape (..., group); NaN where the denominator is empty."""
        above, below = self.tally(counts)
        return np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0.0)

    def looks_at(self, y: FloatArray) -> NDArray[np.bool_]:
        """Which rows, by their label ±1, can enter the rate."""
        truths = {truth for truth, _ in self.denominator}
        return np.where(y > 0.0, 1 in truths, 0 in truths)


@dataclass(frozen=True)
class Criterion:
    """A fairness criterion for a binary decision.

    Attributes
    ----------
    name : str
    rates : tuple of Rate
        What is to be equal between the groups.
    form : Slabs, SquaredPenalty or SoftRatePenalty, the class
        The form of its constraint.
    ratio_rates : tuple of Rate
        What is compared by ratios, where that is not the same; otherwise empty.
    """

    name: str
    rates: tuple[Rate, ...]
    form: type[Form]
    ratio_rates: tuple[Rate, ...] = ()

    def constrain(self, X: Any, y: FloatArray, members: Members) -> Form:
        """Constraint on a constraint set D': rows X (n, D), dense or sparse, labels ±1, and groups."""
        return self.form.on(X, y, members, self.rates)
