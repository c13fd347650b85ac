"""Comparisons: what a criterion compares between groups, as sums that every row of a stream can be added to.

A criterion compares rates between groups. Training replaces a decision, which is a step of the score m = θᵀx, by a
function of the score, and a rate by a mean over the rows that the rate looks at. Each mean has a *cell* for each group:
a row adds its own value to the cells of its groups. A rate that conditions on the decision is a ratio of two cells.

Two surrogates for "positive" and "negative" are known:

    decisions   Φ(u) and 1 - Φ(u), a smooth step of u = m / (width · spread of the scores)
    scores      max(0, m) and max(0, -m), the paper's; for demographic parity m itself

Φ is the integral of a kernel of fourth order, (105/64)(1 - u²)²(1 - 3u²) between -1 and 1: a mean of Φ differs from the
share of positive decisions only by terms of fourth order in the width, so a tolerance for one is a tolerance for the
other. The width is relative to the spread of the scores, their root mean square, so shrinking all scores changes
nothing.

The *value* of a decision is narrow, so that it counts decisions. Its *slope*, which says in which direction a
constraint pushes θ, is wide: that of a narrow step rests on few rows, and its own derivative, which Newton's method
needs, on even fewer. Both estimate the same slope, that of the share of positive decisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from surefair import kernels
from surefair.criteria._criterion import Cells, Criterion, Rate
from surefair.criteria._forms import Slabs
from surefair.rows import FloatArray, IntArray

SURROGATES = ("decisions", "scores")

FEW = 30
"""Rows of a cell before its group is constrained, if they have equal weights; counted without the multipliers of
replicates, so that it is the same in all of them."""

CLEAR = 4.0
"""Standard errors from which on a gap of decisions is more than chance."""

SEVERAL = 0.01
"""Tolerance of several gaps, at least."""

P_VALUE = 1e-3
"""Probability that chance makes the slope of a gap as long as it is, below which the gap is constrained."""

P_RELEASE = 0.05
"""The same probability, above which a gap that was constrained is no longer."""


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

    def tolerance_of(self, tolerance: float) -> float:
        """Return the tolerance in use.

        To make several gaps exactly 0 is often next to impossible, because some combination of them hardly depends on
        the coefficients, or only by chance.
        """
        return max(tolerance, SEVERAL) if len(self.pairs) > 1 else tolerance

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

    @cached_property
    def signs(self) -> FloatArray:
        """Matrix (J, F) that turns rates into gaps: 1 for the first rate of each pair, -1 for the second."""
        found = np.zeros((len(self.pairs), self.n_rates))
        found[np.arange(len(self.pairs)), self.pairs[:, 0]] = 1.0
        found[np.arange(len(self.pairs)), self.pairs[:, 1]] = -1.0
        return found

    def gaps(self, rates: FloatArray) -> FloatArray:
        """Differences (J, …) between the rates (F, …) of each pair, or between whatever rates have."""
        return np.asarray(rates[self.pairs[:, 0]] - rates[self.pairs[:, 1]])

    def by_rate(self, push: FloatArray) -> FloatArray:
        """Sum the multipliers of pairs (J, …) by rate, with their signs; shape (F, …)."""
        pull = np.zeros((self.n_rates, *push.shape[1:]))
        np.add.at(pull, self.pairs[:, 0], push)
        np.subtract.at(pull, self.pairs[:, 1], push)
        return pull

    def places_in(self, larger: Comparisons, codes: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
        """Where the cells (C,) and pairs (J,) are among comparisons of more groups.

        Parameters
        ----------
        larger : Comparisons
            The same rates, with more groups in some columns.
        codes : sequence of ndarray
            For each column, the new code of each group.
        """
        starts = np.concatenate([[0], np.cumsum(larger.sizes)])[:-1]
        group = np.concatenate([start + code for start, code in zip(starts, codes, strict=True)])
        rates = np.arange(self.n_rates)
        rates = rates // max(self.n_groups, 1) * larger.n_groups + group[rates % max(self.n_groups, 1)]
        below = larger.below[rates[self.owner[self.n_rates :]]]
        number = {tuple(pair): place for place, pair in enumerate(larger.pairs.tolist())}
        pairs = [number[tuple(sorted(pair))] for pair in rates[self.pairs].tolist()]
        return np.concatenate([rates, below]).astype(np.int64), np.array(pairs, dtype=np.int64)

    def shares(self, mean: FloatArray) -> FloatArray:
        """Derivative of its rate in the mean of each cell, given the means, shape (C, …)."""
        share = np.ones_like(mean)
        for below in range(self.n_rates, self.n_cells):
            rate = self.owner[below]
            share[rate] = np.divide(1.0, mean[below], out=np.zeros_like(mean[below]), where=mean[below] > 0.0)
            share[below] = -mean[rate] * share[rate] ** 2
        return share

    def rate_values(self, mean: FloatArray) -> FloatArray:
        """Rates (F, …), given the means of cells (C, …)."""
        rates = mean[: self.n_rates].copy()
        for below in range(self.n_rates, self.n_cells):
            rate = self.owner[below]
            rates[rate] *= np.divide(1.0, mean[below], out=np.zeros_like(mean[below]), where=mean[below] > 0.0)
        return rates

    def rate_sums(self, share: FloatArray, cells: FloatArray) -> FloatArray:
        """Sum numbers of cells (C, …) by rate, each times its share (C,)."""
        scaled = (cells.T * share).T
        sums = scaled[: self.n_rates].copy()
        for below in range(self.n_rates, self.n_cells):
            sums[self.owner[below]] += scaled[below]
        return sums

    def looked_at(self, sizes: FloatArray, mean: FloatArray) -> FloatArray:
        """Rows that each rate looks at (F,), given the sizes and means of cells: those in its denominator."""
        found = sizes[: self.n_rates].astype(np.float64)
        for below in range(self.n_rates, self.n_cells):
            found[self.owner[below]] *= max(float(mean[below]), 0.0)
        return found

    def followed(
        self, seen: FloatArray, even: FloatArray, rates: FloatArray, slopes: FloatArray, noise: FloatArray,
        before: FloatArray | float = 0.0, n_features: int | None = None,
    ) -> FloatArray:  # fmt: skip
        """Which pairs can be constrained, 1 or 0, shape (J,).

        Both groups need enough rows, and their gap, or its slope, must be more than chance. For groups that do not
        differ the slope of the gap is noise, and a constraint on it would tie θ to a random direction.

        Parameters
        ----------
        seen : ndarray of shape (F,)
            Rows of each rate.
        even : ndarray of shape (F,)
            Rows of equal weight that are worth as much as one of these.
        rates : ndarray of shape (F,)
        slopes : ndarray of shape (F, D)
            In coordinates in which chance is about the same in all directions.
        noise : ndarray of shape (F,)
            Squared length that chance alone gives each slope on average.
        before : ndarray of shape (J,)
            Which pairs were followed so far; they need less to stay.
        n_features : int, optional
            Features that share the noise about equally; by default all of them.
        """
        one, two = self.pairs[:, 0], self.pairs[:, 1]
        length = np.sum(self.gaps(slopes) ** 2, axis=1)
        worth = seen * even
        enough = np.minimum(worth[one], worth[two]) >= FEW
        n_pairs = max(len(self.pairs), 1)  # each of them may look clear by chance
        # Decisions do not change along θ, so a slope of theirs has one direction less to point in.
        size = max(1, (n_features or slopes.shape[1]) - int(self.kind == kernels.DECISIONS))
        come, stay = (longest_by_chance(size, p_value / n_pairs) for p_value in (P_VALUE, P_RELEASE))
        differs = length > np.where(np.asarray(before) > 0.0, stay, come) * (noise[one] + noise[two])
        if self.kind == kernels.DECISIONS:
            variance = np.clip(rates * (1.0 - rates), 1e-6, None) / np.maximum(worth, 1.0)
            differs |= (rates[one] - rates[two]) ** 2 > CLEAR**2 * (variance[one] + variance[two])
        return np.asarray(enough & differs, dtype=np.float64)

    def evenness(self, weight: FloatArray, cell: IntArray) -> FloatArray:
        """Rows of equal weight that are worth as much as one row of each rate (Kish), shape (F,).

        Rows of weight 0 are none. ``cell`` (n, entries) has the cells of the rows, -1 where there is none.

        Examples
        --------
        >>> from surefair.criteria import CRITERIA
        >>> c = Comparisons.of(CRITERIA["demographic_parity"], "decisions", (3,))
        >>> c.evenness(np.array([1.0, 1.0, 0.0, 3.0, 1.0]), np.array([[0], [0], [0], [1], [1]]))
        array([1. , 0.8, 1. ])
        """
        some = cell >= 0
        each = np.broadcast_to(weight[:, None], cell.shape)[some]
        n, total, squares = (np.bincount(cell[some], of, self.n_cells) for of in (each > 0.0, each, each**2))
        even = np.divide(total**2, n * squares, out=np.ones(self.n_cells), where=squares > 0.0)
        return np.asarray(even[: self.n_rates])

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


@cache
def longest_by_chance(n_directions: int, p_value: float) -> float:
    """Squared length that chance gives a slope with this probability, relative to the average.

    Its law is χ², with as many degrees of freedom as there are directions.

    Examples
    --------
    >>> round(longest_by_chance(3, 1e-3), 2), round(longest_by_chance(300, 1e-3), 2)
    (5.42, 1.27)
    """
    return float(chdtri(n_directions, p_value) / n_directions)


def surrogate(
    kind: int, constant: Any, sign: Any, score: Any, scale: Any
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:  # fmt: skip
    """Value, slope, curvature of the slope and derivative of the value, in the score, of what a row adds to a cell.

    Parameters
    ----------
    kind : int
        Code of the surrogate.
    constant, sign : float or ndarray
        As in ``Entries``.
    score : ndarray
    scale : float or ndarray
        1 / (width · spread of the scores).

    Examples
    --------
    >>> value, slope, _, _ = surrogate(kernels.DECISIONS, 0.0, 1.0, np.array([-2.0, -0.1, 0.0, 0.1, 2.0]), 1.0)
    >>> value.round(3), slope.round(3)
    (array([0.  , 0.13, 0.5 , 0.87, 1.  ]), array([-0.   ,  1.56 ,  1.641,  1.56 , -0.   ]))
    """
    u = np.clip(score * scale, -1.0, 1.0)
    q = u**2
    inside = np.abs(score * scale) < 1.0
    if kind == kernels.LINEAR:
        slope = sign + 0.0 * score
        return sign * score, slope, 0.0 * sign * score, slope
    if kind == kernels.HINGE:
        slope = sign * (sign * score > 0.0)
        return slope * score, slope, sign**2 * inside * 0.9375 * scale * (1.0 - q) ** 2, slope
    w = np.clip(score * scale / kernels.NARROW, -1.0, 1.0)
    p = w**2
    value = constant + sign * (0.5 + w * (1.640625 + p * (-2.734375 + p * (2.296875 + p * -0.703125))))
    steep = 1.640625 * sign * scale / kernels.NARROW * (1.0 - p) ** 2 * (1.0 - 3.0 * p)
    slope = 1.640625 * sign * scale * (1.0 - q) ** 2 * (1.0 - 3.0 * q)
    return value, slope, -3.28125 * sign * scale**2 * inside * u * (1.0 - q) * (5.0 - 9.0 * q), steep


def _on_decisions(rate: Rate) -> bool:
    """Whether the denominator of a rate depends on decisions."""
    return any((truth, 1 - decision) not in rate.denominator for truth, decision in rate.denominator)
