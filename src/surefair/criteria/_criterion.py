"""What a criterion is: a rate per group to measure, and a form of constraint that pulls the rates together.

A criterion supplies data, never compiled code. The rate is told by the cells of the table *truth × decision* that make
its numerator and denominator; the constraint is one of the two forms below, which the learners know how to obey.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefair.streams import FloatArray


class Slab(NamedTuple):
    """The constraint |x̃ᵀθ| ≤ ε."""

    vector: FloatArray  # x̃, shape (D,); all zeros constrains nothing

    @classmethod
    def on(cls, X: FloatArray, y: FloatArray, z: FloatArray) -> Slab:
        """x̃ = mean of z x: the covariance of group and margin is x̃ᵀθ."""
        return cls(z @ X / len(X))


class SquaredPenalty(NamedTuple):
    """The penalty R₂ g(θ)² with g(θ) = Σᵢ wᵢ min(0, rᵢᵀθ): the groups' mean margins on the wrong side, compared.

    Between kinks g is linear, g(θ) = ḡᵀθ with ḡ the sum of the ``pulls`` wᵢ rᵢ over the rows with rᵢᵀθ < 0.
    """

    rows: FloatArray  # rᵢ = yᵢ xᵢ, shape (m, D)
    weights: FloatArray  # wᵢ, shape (m,)
    pulls: FloatArray  # wᵢ rᵢ, shape (m, D), on a grid

    @classmethod
    def on(cls, X: FloatArray, y: FloatArray, z: FloatArray) -> SquaredPenalty:
        """Wᵢ = zᵢ / m over the m rows given; rows that are all zeros never pull and are left out."""
        some = X.any(axis=1)
        rows, weights = y[some, None] * X[some], z[some] / len(z)
        return cls(rows, weights, on_grid(weights[:, None] * rows))

    def gradient(self, theta: FloatArray) -> FloatArray:
        """Gradient ḡ of g at each column of θ, shape (D, columns); rows on a kink pull nothing."""
        return self.pulls.T @ (self.rows @ theta < 0.0)


Form = Slab | SquaredPenalty


def on_grid(A: FloatArray) -> FloatArray:
    """Round each column to multiples of a power of two, so coarse that sums of any rows are exact in any order.

    Which rows pull changes with θ; exact sums let a kernel add and remove single rows for ever and still hold, to the
    last bit, what a fresh sum would give.

    Examples
    --------
    >>> A = on_grid(np.random.default_rng(0).normal(size=(1000, 1)))
    >>> bool(A.sum() == A[::-1].cumsum()[-1] == A[:500].sum() + A[500:].sum())
    True
    """
    largest = np.abs(A).sum(axis=0)
    grid = 2.0 ** (np.ceil(np.log2(np.where(largest > 0.0, largest, 1.0))) - 52)
    return np.asarray(np.rint(A / grid) * grid)


@dataclass(frozen=True)
class Criterion:
    """A fairness criterion for a binary decision.

    Attributes
    ----------
    name : str
    rate : str
        The rate it compares, in words.
    numerator, denominator : tuple of (truth, decision)
        Cells whose counts make the rate, each 0 or 1.
    form : Slab or SquaredPenalty, the class
        The form of its constraint; ``form.on(X, y, z)`` makes one of rows, labels ±1 and centred groups.

    Examples
    --------
    A table of counts, group × truth × decision:

    >>> from surefair.criteria import CRITERIA
    >>> counts = np.array([[[60, 20], [10, 30]], [[40, 10], [25, 25]]])
    >>> CRITERIA["false_positive_rate"].rates(counts)
    array([0.25, 0.2 ])
    """

    name: str
    rate: str
    numerator: tuple[tuple[int, int], ...]
    denominator: tuple[tuple[int, int], ...]
    form: type[Form]

    def tally(self, counts: NDArray[np.floating] | NDArray[np.integer]) -> tuple[FloatArray, FloatArray]:
        """Numerators and denominators of the rates, from counts of shape (..., group, truth, decision)."""
        total = [np.sum([counts[..., t, d] for t, d in cells], axis=0) for cells in (self.numerator, self.denominator)]
        return np.asarray(total[0], dtype=np.float64), np.asarray(total[1], dtype=np.float64)

    def rates(self, counts: NDArray[np.floating] | NDArray[np.integer]) -> FloatArray:
        """Rate of each group, shape (..., group); NaN where the denominator is empty."""
        above, below = self.tally(counts)
        return np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0.0)

    def looks_at(self, y: FloatArray) -> NDArray[np.bool_]:
        """Which rows, by their label ±1, can enter the rate."""
        return np.isin(y > 0.0, [truth == 1 for truth, _ in self.denominator])

    def constrain(self, X: FloatArray, y: FloatArray, group: NDArray[np.integer]) -> Form:
        """Constraint on a constraint set D': groups are centred over all of D', rows are those looked at."""
        part = self.looks_at(y)
        z = group - group.mean()
        return self.form.on(X[part], y[part], z[part])
