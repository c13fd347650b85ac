"""Synthetic rows with disparate impact: the group depends on the features, and through them on the label.

y = ±1 with equal probability, and x given y = ±1 is normal with density f₊ or f₋. With x' = R(π/3) x, which rotates x
by 60°,

    P(z = 1 | x) = f₊(x') / (f₊(x') + f₋(x')).

Zafar, Valera, Gomez Rodriguez and Gummadi (2017), Fairness constraints: mechanisms for fair classification.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit

from surefair.datasets.dataset import About, Dataset
from surefair.datasets.stream import Drawn, Stream, gaussian
from surefair.rows import FloatArray

# First y = -1, then y = +1.
MEAN = np.array([[-1.5, -1.5], [1.5, 1.5]])
COVARIANCE = np.array([[[0.6, 0.1], [0.1, 0.4]], [[0.4, 0.2], [0.2, 0.3]]])
FACTOR = np.linalg.cholesky(COVARIANCE)
ROTATION = np.array([[np.cos(np.pi / 3), -np.sin(np.pi / 3)], [np.sin(np.pi / 3), np.cos(np.pi / 3)]])


@dataclass(frozen=True)
class SyntheticDI(Stream):
    """An endless stream of rows with disparate impact that can be read from any row on.

    Parameters
    ----------
    seed : int
        Row k depends only on the seed and on k.

    Examples
    --------
    >>> stream = SyntheticDI(seed=0)
    >>> data = stream.rows(first=5000, n=2)
    >>> data.y.tolist(), data.sensitive.tolist(), data.X.round(3).to_numpy().tolist()
    ([1, 1], [1, 1], [[1.777, 1.781], [0.793, 1.012]])
    >>> len(next(stream.batches(size=1000)))
    1000
    """

    name: ClassVar[str] = "synthetic_di"
    description: ClassVar[str] = "Synthetic rows with disparate impact (Zafar et al. 2017): z depends on x."

    def draw(self, rng: np.random.Generator, n: int) -> Drawn:
        """Draw n independent rows."""
        positive = rng.integers(2, size=n)
        x = gaussian(rng, MEAN[positive], FACTOR[positive])
        rotated = np.einsum("ij,nj->ni", ROTATION, x)
        p = expit(_log_density(rotated, 1) - _log_density(rotated, 0))
        z = (rng.random(n) < p).astype(np.int64)
        return x, 2 * positive - 1, z


def _log_density(x: FloatArray, positive: int) -> FloatArray:
    """Return the logarithm of f₊ (positive=1) or f₋ (positive=0) at each row of x, up to a common constant."""
    centred = x - MEAN[positive]
    squared = np.einsum("ni,ij,nj->n", centred, np.linalg.inv(COVARIANCE[positive]), centred)
    density: FloatArray = -0.5 * squared - 0.5 * np.log(np.linalg.det(COVARIANCE[positive]))
    return density


def load_synthetic_di(n: int = 10_000, seed: int = 0) -> Dataset:
    """Return the first n rows of `SyntheticDI`.

    Parameters
    ----------
    n : int
        Number of rows.
    seed : int
        Seed of the stream.

    Returns
    -------
    Dataset
        Features x1 and x2; labels y in {-1, +1}; groups z in {0, 1}.

    Examples
    --------
    >>> round(float(load_synthetic_di(n=10_000).sensitive.mean()), 4)
    0.4205
    """
    return SyntheticDI(seed).sample(n)


DATASET = load_synthetic_di
ABOUT = About(None, 2, "y", "z", "synthetic, Zafar et al. 2017")
