"""Step sizes η_k, and the coordinates in which the automatic ones are good.

>>> PolynomialDecay(0.5, 0.501).steps(first=1, n=3)
array([0.5       , 0.35330841, 0.28835817])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse import diags_array

from surefair.rows.arrays import FloatArray, is_sparse


@dataclass(frozen=True)
class PolynomialDecay:
    """Steps η_k = eta0 · (k + offset)^-power, where k = 1, 2, … counts rows.

    Given to :class:`~surefair.FairClassifier` it means the paper's algorithm to the letter: from θ = 0, in the
    features as they come, by explicit steps. The central limit theorem behind the intervals needs 1/2 < power < 1.

    Parameters
    ----------
    eta0 : float
        Scale, positive.
    power : float
        Speed of decay.
    offset : float, default=0
        Rows that count as already seen.
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
        """Steps η_first, …, of n rows."""
        return np.asarray(self.eta0 * (np.arange(first, first + n) + self.offset) ** -self.power)

    def total(self, n: FloatArray) -> FloatArray:
        """Sums of the first n steps, by an integral.

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

Averages keep a bias of the order of the mean step, and the bias of the start until the steps add up to several times 1.
The power 2/3 lets both fade faster than the spread, n^-½: 0.501 would leave the former a constant share of it.
"""

CALM = 0.1
"""A first step is so short that it lets multiply the variance of a row's step by 1 + CALM at most.

Longer ones would let the first rows, and whether a replicate has them at all, decide for hundreds of rows to come.
"""


def automatic(curvature: float, roughness: float = 0.0, n_rows: int = 0) -> PolynomialDecay:
    """Steps of ``step_size="auto"`` for a loss and rows like those of a constraint set.

    Parameters
    ----------
    curvature : float
        Of the loss, in all directions.
    roughness : float
        Mean of squared leverages over the number of coefficients: D + 2 for normal rows, more where rows stick out.
    n_rows : int
        Rows that the start was made of. The steps begin as if no more than so many had been seen.

    Examples
    --------
    >>> automatic(0.25, roughness=10.0, n_rows=1_000)
    PolynomialDecay(eta0=1.0, power=0.67, offset=125.0)
    """
    offset = (AUTO.eta0 * roughness / CALM) ** (1.0 / AUTO.power)
    return PolynomialDecay(AUTO.eta0 / curvature, AUTO.power, min(offset, float(n_rows)))


def whitening(X: Any, weight: FloatArray) -> FloatArray:
    """Coordinates in which one step size serves all directions: W with mean of (Wᵀx)(Wᵀx)ᵀ = I over the rows.

    Each column is scaled by its root mean square, and what is left is decorrelated. Directions that the rows hardly
    show (correlation eigenvalues below one row's worth) are not blown up further. With fewer than ten rows per
    column, or sparse rows, there is only the scaling.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_rows, D)
        Warm-up rows, intercept included.
    weight : ndarray of shape (n_rows,)

    Returns
    -------
    ndarray of shape (D, D), or (D,) for a scaling

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 2)) @ np.array([[1.0, 3.0], [0.0, 4.0]])
    >>> W = whitening(X, np.ones(1000))
    >>> ((X @ W).T @ (X @ W) / 1000).round(12) + 0.0
    array([[1., 0.],
           [0., 1.]])
    """
    n, D = X.shape
    if n == 0 or weight.sum() == 0.0:
        return np.ones(D)
    share = weight / weight.sum()
    largest = abs(X).max(axis=0)
    largest = np.asarray(largest.todense()).ravel() if is_sparse(X) else largest
    largest[largest == 0.0] = 1.0
    unit = X @ diags_array(1.0 / largest) if is_sparse(X) else X / largest
    scale = largest * np.sqrt(share @ unit**2 if not is_sparse(X) else unit.power(2).T @ share)
    scale[scale == 0.0] = 1.0
    if is_sparse(X) or not enough_rows(X):
        return np.asarray(1.0 / scale)
    scaled = X / scale
    values, vectors = np.linalg.eigh((scaled.T * share) @ scaled)
    root = np.linalg.cholesky((vectors * np.maximum(values, 1.0 / n)) @ vectors.T)
    return np.asarray(solve_triangular(root, np.eye(D), lower=True).T / scale[:, None])


def evened(hessian: FloatArray) -> tuple[FloatArray, float]:
    """Coordinates A of determinant 1 in which a loss curves alike in all directions, AᵀHA = cI; and the curvature c.

    Directions with less than a thousandth of the largest curvature are not blown up further.

    Parameters
    ----------
    hessian : ndarray of shape (D, D), or (D,) for its diagonal

    Returns
    -------
    A : ndarray of shape (D, D), upper triangular, or (D,) for a scaling
    c : float

    Examples
    --------
    >>> A, c = evened(np.array([[4.0, 2.0], [2.0, 5.0]]))
    >>> (A.T @ np.array([[4.0, 2.0], [2.0, 5.0]]) @ A).round(9) + 0.0, round(c, 9)
    (array([[4., 0.], [0., 4.]]), 4.0)
    """
    values, vectors = (hessian, None) if hessian.ndim == 1 else np.linalg.eigh(hessian)
    values = np.maximum(values, values.max() / 1000.0)
    c = float(np.exp(np.log(values).mean()))
    if vectors is None:
        return np.sqrt(c / values), c
    root = np.linalg.cholesky((vectors * (values / c)) @ vectors.T)
    return np.asarray(solve_triangular(root, np.eye(len(root)), lower=True).T), c


def enough_rows(X: Any) -> bool:
    """Whether warm-up rows are enough to whiten and to start from: ten per column."""
    n, D = X.shape
    return bool(n >= 10 * D)
