"""Endless streams of synthetic rows that can be read from any row on.

A stream draws its rows in blocks of 4,096. The random numbers of block j come from a counter-based generator (Philox).
Its key is made from the seed and the stream's name, and its counter starts at j · 2⁶⁴. So row k depends only on the
seed and on k, and reading the stream in slices gives bit-identical rows however it is sliced.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from operator import index
from typing import ClassVar, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from surefair.datasets.dataset import Dataset
from surefair.rows import FloatArray

BLOCK = 4096
FEATURE_NAMES = ("x1", "x2")
Integers = NDArray[np.int64]
Drawn: TypeAlias = tuple[FloatArray, Integers, Integers]
"""Features x of shape (n, 2), labels y in {-1, +1} and groups z in {0, 1}, both of shape (n,)."""


@dataclass(frozen=True)
class Stream(ABC):
    """An endless stream of independent rows (x, y, z) with two features.

    Parameters
    ----------
    seed : int
        Row k depends only on the seed and on k.
    """

    seed: int = 0
    name: ClassVar[str]
    description: ClassVar[str]

    def __post_init__(self) -> None:
        if index(self.seed) < 0:
            raise ValueError(f"seed must be 0 or more; received {self.seed}.")

    @abstractmethod
    def draw(self, rng: np.random.Generator, n: int) -> Drawn:
        """Draw n independent rows."""

    def rows(self, first: int, n: int) -> Dataset:
        """Return rows first, …, first + n - 1 of the stream, counted from 0.

        Examples
        --------
        >>> from surefair.datasets import SyntheticDI
        >>> stream = SyntheticDI(seed=0)
        >>> long = stream.rows(0, 10_000)
        >>> bool((long.y[9_000:] == stream.rows(9_000, 1_000).y).all())
        True
        """
        first = index(first)
        n = index(n)
        if first < 0 or n < 1:
            raise ValueError(f"Rows need first >= 0 and n >= 1; received first={first}, n={n}.")
        blocks = [_draw_block(self, number) for number in range(first // BLOCK, (first + n - 1) // BLOCK + 1)]
        start = first % BLOCK
        # np.concatenate copies, so callers cannot change the cached blocks.
        x, y, z = (np.concatenate(column)[start : start + n] for column in zip(*blocks, strict=True))
        X = pd.DataFrame(x, columns=list(FEATURE_NAMES))
        return Dataset(self.name, X, y, z, "y", "z", self.description)

    def batches(self, size: int = 1000, first: int = 0) -> Iterator[Dataset]:
        """Yield batches of ``size`` rows from row ``first`` on, without end.

        Examples
        --------
        >>> from surefair.datasets import SyntheticDI
        >>> stream = SyntheticDI(seed=0)
        >>> batches = stream.batches(size=100, first=500)
        >>> batch, following = next(batches), next(batches)
        >>> following.X.equals(stream.rows(600, 100).X)
        True
        """
        return (self.rows(low, size) for low in itertools.count(first, size))

    def sample(self, n: int) -> Dataset:
        """Return the first n rows.

        Examples
        --------
        >>> from surefair.datasets import SyntheticDI
        >>> SyntheticDI(seed=0).sample(3).y.tolist()
        [1, -1, 1]
        """
        return self.rows(0, n)


@lru_cache(maxsize=4)  # several small batches in a row come from the same block
def _draw_block(stream: Stream, number: int) -> Drawn:
    """Draw rows number · 4096, …, (number + 1) · 4096 - 1 of a stream."""
    key = np.random.SeedSequence(stream.seed, spawn_key=tuple(stream.name.encode()))
    philox = np.random.Philox(key=key.generate_state(2, np.uint64), counter=number << 64)
    return stream.draw(np.random.Generator(philox), BLOCK)


def gaussian(rng: np.random.Generator, mean: FloatArray, factor: FloatArray) -> FloatArray:
    """Draw one normal vector per row, mean + factor @ noise.

    Parameters
    ----------
    rng : Generator
    mean : ndarray of shape (n, 2)
    factor : ndarray of shape (n, 2, 2) or (2, 2)
        Cholesky factor of the covariance.
    """
    noise = rng.standard_normal(mean.shape)
    x: FloatArray = mean + np.einsum("...ij,...j->...i", factor, noise)
    return x
