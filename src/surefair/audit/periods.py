"""Decisions of a model along the evaluation rows: counts by period, in the order of the data.

>>> from surefair.rows import Levels, Names
>>> groups = Groups({"sex": Levels(np.array(["f", "m"]), "group")})
>>> names = Names(None, Levels(np.array(["no", "yes"]), "label"), groups)
>>> rows = Rows(np.empty((800, 0)), np.ones(800), np.arange(800)[:, None] % 2, np.ones(800), names)
>>> periods = Periods.of(rows, decision=np.arange(800) < 400)
>>> (rate, *_) = periods.rates()
>>> rate.words, rate.positive, rate.total
("the share of positive decisions of group 'f' of 'sex'", array([50., 50., 50., 50.,  0.,  0.,  0.,  0.]),
 array([50., 50., 50., 50., 50., 50., 50., 50.]))
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefair.criteria import CRITERIA, Rate
from surefair.diagnostics.changing_gap import Rates
from surefair.inference.counts import count_decisions
from surefair.rows import FloatArray, Groups, Rows

NUMBER = 8  # periods that the rows of one evaluation are cut into


class Periods(NamedTuple):
    """Sums of weights, and of squared weights, by period, group, truth and decision. Periods follow each other."""

    groups: Groups
    weight: FloatArray  # (periods, groups, 2, 2)
    square: FloatArray

    @classmethod
    def of(cls, rows: Rows, decision: NDArray[np.bool_]) -> Periods:
        """Count decisions on rows in the order of the data."""
        counts = []
        for some in np.array_split(np.arange(rows.n), NUMBER):
            part = rows.part(some)
            counts.append(
                count_decisions(decision[some].astype(np.int64), part.truth, part.group, rows.groups.sizes, part.weight)
            )
        return cls(rows.groups, np.stack([one.weight for one in counts]), np.stack([one.square for one in counts]))

    def followed_by(self, other: Periods) -> Periods:
        """Append the periods of later rows."""
        groups = self.groups.joined_with(other.groups)
        both = [one._among(groups) for one in (self, other)]
        return Periods(groups, *(np.concatenate([one[i] for one in both]) for i in range(2)))

    def _among(self, groups: Groups) -> tuple[FloatArray, FloatArray]:
        """Return the same sums among more groups."""
        codes = [low + code for low, code in zip(groups.offsets, groups.recode(self.groups), strict=True)]
        wider = np.zeros((2, len(self.weight), sum(groups.sizes), 2, 2))
        wider[:, :, np.concatenate(codes)] = self.weight, self.square
        return wider[0], wider[1]

    def rates(self) -> list[Rates]:
        """Each rate of each group, beside that of all other rows of the same column.

        Rates of measure-only criteria are left out: they are complements of the others, or do not depend on decisions.
        """
        found = []
        enforceable = [criterion for criterion in CRITERIA.values() if criterion.can_constrain]
        known = {rate.name: rate for criterion in enforceable for rate in criterion.rates}
        for rate in known.values():
            for low, size in zip(self.groups.offsets, self.groups.sizes, strict=True):
                column = slice(low, low + size)
                for place in range(low, low + (1 if size == 2 else size)):  # of two groups, each is all others
                    own = self._outcomes(rate, [place])
                    others = self._outcomes(rate, [i for i in range(*column.indices(low + size)) if i != place])
                    found.append(Rates(f"the {rate.words} of {self.groups.words[place]}", *own, *others))
        return found

    def _outcomes(self, rate: Rate, groups: list[int]) -> tuple[FloatArray, FloatArray]:
        """Rows that count towards a rate, and those that enter it, as many as their weights are worth: (periods,)."""
        weight, square = (table[:, groups].sum(axis=1) for table in (self.weight, self.square))

        def total(table: FloatArray, cells: Any) -> FloatArray:
            return np.asarray(sum((table[:, t, d] for t, d in cells), np.zeros(len(table))))

        enters = total(weight, rate.denominator)
        squares = total(square, rate.denominator)
        worth = np.divide(enters, squares, out=np.zeros_like(enters), where=squares > 0.0)
        return total(weight, rate.numerator) * worth, enters * worth
