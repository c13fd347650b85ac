"""Synthetic rows with disparate mistreatment: the negatives of one group look like positives.

y = ±1 and z = 0, 1 are independent, each with equal probabilities, and with S = [[3, 1], [1, 3]]

    x | y = +1        ~ N([ 2,  2], S)
    x | y = -1, z = 0 ~ N([ 1,  1], S)
    x | y = -1, z = 1 ~ N([-2, -2], S).

Zafar, Valera, Gomez Rodriguez and Gummadi (2017), Fairness beyond disparate treatment and disparate impact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from surefair.datasets.dataset import About, Dataset
from surefair.datasets.stream import Drawn, Stream, gaussian

MEAN = np.array([[[1.0, 1.0], [2.0, 2.0]], [[-2.0, -2.0], [2.0, 2.0]]])  # [z, positive]
FACTOR = np.linalg.cholesky(np.array([[3.0, 1.0], [1.0, 3.0]]))


@dataclass(frozen=True)
class SyntheticDM(Stream):
    """An endless stream of rows with disparate mistreatment that can be read from any row on.

    Parameters
    ----------
    seed : int
        Row k depends only on the seed and on k.

    Examples
    --------
    >>> data = SyntheticDM(seed=0).rows(first=10**12, n=2)
    >>> data.y.tolist(), data.sensitive.tolist(), data.X.round(3).to_numpy().tolist()
    ([-1, -1], [0, 0], [[0.068, 1.386], [0.791, 3.54]])
    """

    name: ClassVar[str] = "synthetic_dm"
    description: ClassVar[str] = "Synthetic rows with disparate mistreatment (Zafar et al. 2017)."

    def draw(self, rng: np.random.Generator, n: int) -> Drawn:
        """Draw n independent rows."""
        positive, z = rng.integers(2, size=(2, n))
        x = gaussian(rng, MEAN[z, positive], FACTOR)
        return x, 2 * positive - 1, z


def load_synthetic_dm(n: int = 10_000, seed: int = 0) -> Dataset:
    """Return the first n rows of `SyntheticDM`.

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
    >>> data = load_synthetic_dm(n=10_000)
    >>> round(float(data.X["x1"].mean()), 4)
    0.7192
    """
    return SyntheticDM(seed).sample(n)


DATASET = load_synthetic_dm
ABOUT = About(None, 2, "y", "z", "synthetic, Zafar et al. 2017")
