"""Comparisons: what a criterion compares between groups, as sums that every row of a stream can be added to.

A criterion compares rates between groups. Training replaces a decision, which is a step of the score m = θᵀx, by a
function of the score, and a rate by a mean over the rows that the rate looks at. Each mean has a *cell* for each group:
a row adds its own value to the cells of its groups. A rate that conditions on the decision is a ratio of two cells.

Two surrogates for "positive" and "negative" are known:

    decisions   1{m > 0} and 1{m ≤ 0}, with a bell curve of m / width for slope
    scores      max(0, m) and max(0, -m), the paper's; for demographic parity m itself

With ``decisions`` a tolerance bounds the gap of decisions itself, because values are hard; slopes are soft, because a
step has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefair import kernels
from surefair.criteria._criterion import Cells, Criterion, Rate
from surefair.criteria._forms import Slabs
from surefair.rows import FloatArray, IntArray

SURROGATES = ("decisions", "scores")


class Entries(NamedTuple):
    """What rows add to cells, shape (n, entries) each: up to so many cells per row."""

    cell: IntArray  # -1 where there is none
    constant: FloatArray  # value of the row in the cell, less that of its decision
    sign: FloatArray  # 1 if a positive decision counts, -1 if a negative one does, 0 if neither or both do


@dataclass(frozen=True, eq=False)
class Comparisons:
    """The rates of a criterion in each group of each sensitive column, and the pairs of groups to compare.

    Attributes
    ----------
    kind : int
        Code of the surrogate in the kernels.
    rates : tuple of Rate
    sizes : tuple of int
        Groups in each sensitive column.

    Examples
    --------
    >>> from surefair.criteria import CRITERIA
    >>> two = Comparisons.of(CRITERIA["equalized_odds"], "decisions", (2,))
    >>> two.pairs.tolist(), two.n_cells
    ([[0, 1], [2, 3]], 4)
    >>> two.entries(np.array([-1.0, 1.0]), np.array([[1], [0]])).cell.tolist()  # a false positive, a false negative
    [[1], [2]]
    """

    kind: int
    rates: tuple[Rate, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, criterion: Criterion | None, surrogate: str, sizes: tuple[int, ...]) -> Comparisons:
        """Return the comparisons of a criterion, or none."""
        if criterion is None:
            return cls(kernels.DECISIONS, (), sizes)
        if surrogate == "decisions":
            return cls(kernels.DECISIONS, criterion.rates, sizes)
        return cls(kernels.LINEAR if criterion.form is Slabs else kernels.HINGE, criterion.rates, sizes)

    @property
    def n_groups(self) -> int:
        """Groups of all columns."""
        return sum(self.sizes)

    @property
    def n_rates(self) -> int:
        """Rates of all groups: rate by rate, and within a rate group by group."""
        return len(self.rates) * self.n_groups

    @cached_property
    def below(self) -> IntArray:
        """For each rate of each group, the cell of its denominator; -1 where that does not depend on decisions."""
        ratio = np.repeat([_on_decisions(rate) for rate in self.rates], self.n_groups).astype(bool)
        return np.where(ratio, self.n_rates + np.cumsum(ratio) - 1, -1)

    @cached_property
    def owner(self) -> IntArray:
        """For each cell, the rate of a group that it belongs to: numerators first, then denominators."""
        return np.concatenate([np.arange(self.n_rates), np.flatnonzero(self.below >= 0)])

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.owner)

    @cached_property
    def pairs(self) -> IntArray:
        """Rates that are compared with each other, shape (pairs, 2)."""
        found = []
        for first in range(0, self.n_rates, max(self.n_groups, 1)):
            for size in self.sizes:
                found += [(first + a, first + b) for a in range(size) for b in range(a + 1, size)]
                first += size
        return np.array(found, dtype=np.int64).reshape(-1, 2)

    def by_rate(self, push: FloatArray) -> FloatArray:
        """Sum the multipliers of pairs (J, …) by rate, with their signs; shape (F, …)."""
        pull = np.zeros((self.n_rates, *push.shape[1:]))
        np.add.at(pull, self.pairs[:, 0], push)
        np.subtract.at(pull, self.pairs[:, 1], push)
        return pull

    def entries(self, y: FloatArray, group: IntArray) -> Entries:
        """Return what rows with these labels ±1 and group codes (n, columns) add; -1 is no known group."""
        truth = (y > 0.0).astype(np.int64)
        parts = [
            (np.where(looked_at[truth] & (code >= 0), at + code, -1), constant[truth], sign[truth])
            for at, column, looked_at, constant, sign in self._table
            for code in [group[:, column]]
        ]
        if not parts:
            return Entries(np.full((len(y), 0), -1), np.zeros((len(y), 0)), np.zeros((len(y), 0)))
        cell, constant, sign = (np.stack(part, axis=1) for part in zip(*parts, strict=True))
        order = np.argsort(cell < 0, axis=1, kind="stable")[:, : max(1, int((cell >= 0).sum(axis=1).max(initial=1)))]
        return Entries(*(np.take_along_axis(part, order, axis=1) for part in (cell, constant, sign)))

    @cached_property
    def _table(self) -> list[tuple[int, int, NDArray[np.bool_], FloatArray, FloatArray]]:
        """For each mean of each column: its first cell, the column, and by truth whether and how rows enter."""
        found = []
        starts = np.concatenate([[0], np.cumsum(self.sizes)])
        for number, rate in enumerate(self.rates):
            on_decisions = _on_decisions(rate)
            for column in range(len(self.sizes)):
                first = number * self.n_groups + starts[column]
                constant, sign = self._values(rate.numerator)
                looked_at = np.array([on_decisions or any(t == truth for t, _ in rate.denominator) for truth in (0, 1)])
                found.append((int(first), column, looked_at, constant, sign))
                if on_decisions:
                    below = int(self.below[first])
                    found.append((below, column, np.ones(2, dtype=bool), *self._values(rate.denominator)))
        return found

    def _values(self, cells: Cells) -> tuple[FloatArray, FloatArray]:
        """Constant and sign of rows with the labels 0 and 1, if these cells of truth × decision count."""
        positive = np.array([(truth, 1) in cells for truth in (0, 1)], dtype=np.float64)
        negative = np.array([(truth, 0) in cells for truth in (0, 1)], dtype=np.float64)
        return negative if self.kind == kernels.DECISIONS else np.zeros(2), positive - negative


def wide_slope(score: FloatArray, width: float) -> FloatArray:
    """Slope of a decision that says where to move: a bell curve much like the derivative of a logistic function."""
    return np.asarray(0.25 / width / (1.0 + score**2 / (kernels.TAIL * width**2)) ** 2)


def _on_decisions(rate: Rate) -> bool:
    """Whether the denominator of a rate depends on decisions."""
    return any((truth, 1 - decision) not in rate.denominator for truth, decision in rate.denominator)
