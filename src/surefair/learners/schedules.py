"""Step sizes η_k as a function of the row number k.

>>> PolynomialDecay(0.5, 0.501).steps(first=1, n=3)
array([0.5       , 0.35330841, 0.28835817])
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surefair.rows import FloatArray


@dataclass(frozen=True)
class PolynomialDecay:
    """Steps η_k = eta0 · (k + offset)^-power, where k = 1, 2, … counts rows.

    A :class:`~surefair.FairClassifier` with this ``step_size`` runs the paper's algorithm to the letter: it starts at
    θ = 0, uses the features as they are, and takes explicit steps. The intervals need 1/2 < power < 1, because the
    central limit theorem behind them does.

    Parameters
    ----------
    eta0 : float
        Scale; positive.
    power : float
        How fast steps decay, between 0 and 1.
    offset : float, default=0
        Number of rows to count as already seen; not negative.
    """

    eta0: float
    power: float
    offset: float = 0.0

    def __post_init__(self) -> None:
        if not (self.eta0 > 0.0 and np.isfinite(self.eta0)):
            raise ValueError(f"eta0 must be a positive number; received {self.eta0!r}.")
        if not 0.0 <= self.power <= 1.0:
            raise ValueError(
                f"power must lie between 0 and 1; received {self.power!r}. The intervals need 0.5 < power < 1."
            )
        if not self.offset >= 0.0:
            raise ValueError(f"offset must not be negative; received {self.offset!r}.")
        for name in ("eta0", "power", "offset"):
            object.__setattr__(self, name, float(getattr(self, name)))

    def steps(self, first: int, n: int) -> FloatArray:
        """Steps η_first, η_first+1, … for n rows."""
        return np.asarray(self.eta0 * (np.arange(first, first + n) + self.offset) ** -self.power)

    def total(self, n: FloatArray) -> FloatArray:
        """Sum of the first n steps, approximated by an integral.

        Examples
        --------
        >>> steps = PolynomialDecay(0.5, 0.6)
        >>> round(float(steps.total(np.array(100.0))), 2), round(float(steps.steps(1, 100).sum()), 2)
        (6.96, 6.92)
        """
        low, high = 0.5 + self.offset, n + 0.5 + self.offset
        if self.power == 1.0:
            return np.asarray(self.eta0 * np.log(high / low))
        left = 1.0 - self.power
        return np.asarray(self.eta0 * (high**left - low**left) / left)


AUTO = PolynomialDecay(0.25, 2.0 / 3.0)
"""Steps of ``step_size="auto"``, in coordinates in which the loss has curvature 1.

The average iterate has a bias of the order of the mean step, and also the bias of the start until the steps add up to
several times 1. With the power 2/3 both biases vanish faster than the standard error n^-½; with 0.501 the first would
stay a constant share of it.
"""

CALM = 0.1
"""The first step is so short that it inflates the variance of a row's step by at most 1 + CALM.

Longer first steps would let the first rows, and whether a replicate has them at all, dominate hundreds of later rows.
"""


def automatic(curvature: float, roughness: float = 0.0, n_rows: int = 0) -> PolynomialDecay:
    """Steps of ``step_size="auto"`` for the loss and the warm-up rows of a problem.

    Parameters
    ----------
    curvature : float
        Curvature of the loss, the same in all directions.
    roughness : float
        Mean squared leverage over the number of coefficients: D + 2 for normal rows, more with outlying rows.
    n_rows : int
        Number of rows that the start was computed from; the largest offset of the steps.

    Examples
    --------
    >>> automatic(0.25, roughness=10.0, n_rows=1_000)
    PolynomialDecay(eta0=1.0, power=0.67, offset=125.0)
    """
    offset = (AUTO.eta0 * roughness / CALM) ** (1.0 / AUTO.power)
    return PolynomialDecay(AUTO.eta0 / curvature, AUTO.power, min(offset, float(n_rows)))
