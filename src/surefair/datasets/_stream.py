"""Endless synthetic rows that can be entered anywhere.

Rows are drawn in blocks of 4,096. The random numbers of block j come from a counter-based generator (Philox)
whose key is made of the seed and the name of the law, and whose counter starts at j · 2⁶⁴. So row k depends
on the seed and on k alone, and any slicing of the stream gives the same bits.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from operator import index
from typing import ClassVar, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from surefair.datasets._dataset import Dataset
from surefair.rows.arrays import Batch, FloatArray

BLOCK = 4096
FEATURE_NAMES = ("x1", "x2")
Integers = NDArray[np.int64]


class Rows(NamedTuple):
    """Features of shape (n, 2), labels in {-1, +1} and groups in {0, 1}, both of shape (n,)."""

    x: FloatArray
    y: Integers
    z: Integers


@dataclass(frozen=True)
class Stream(ABC):
    """A law of (x, y, z) with two features, and the endless stream of its rows for a seed."""

    seed: int = 0
    name: ClassVar[str]
    description: ClassVar[str]

    def __post_init__(self) -> None:
        if index(self.seed) < 0:
            raise ValueError(f"seed must be 0 or more; received {self.seed}.")

    @abstractmethod
    def draw(self, rng: np.random.Generator, n: int) -> Rows:
        """Draw n independent rows of the law."""

    def rows(self, first: int, n: int) -> Batch:
        """Rows first, ..., first + n - 1 of the stream, counted from 0.

        Examples
        --------
        >>> from surefair.datasets import SyntheticDI
        >>> stream = SyntheticDI(seed=0)
        >>> bool((stream.rows(0, 10_000).X[9_000:] == stream.rows(9_000, 1_000).X).all())
        True
        """
        return Batch(*self._slice(first, n), index(first), FEATURE_NAMES)

    def batches(self, size: int = 1000, first: int = 0) -> Iterator[Batch]:
        """Batches of ``size`` rows from row ``first`` on, without end.

        Examples
        --------
        >>> from surefair.datasets import SyntheticDI
        >>> stream = SyntheticDI(seed=0).batches(size=100, first=500)
        >>> next(stream).first_row, next(stream).first_row
        (500, 600)
        """
        return (self.rows(low, size) for low in itertools.count(first, size))

    def sample(self, n: int) -> Dataset:
        """Return the first n rows as a data set.

        Examples
        --------
        >>> from surefair.datasets import SyntheticDI
        >>> SyntheticDI(seed=0).sample(3).y.tolist()
        [1, -1, 1]
        """
        x, y, z = self._slice(0, n)
        X = pd.DataFrame(x, columns=list(FEATURE_NAMES))
        return Dataset(self.name, X, y, z, "y", "z", self.description)

    def _slice(self, first: int, n: int) -> Rows:
        first, n = index(first), index(n)
        if first < 0 or n < 1:
            raise ValueError(f"Rows need first >= 0 and n >= 1; received first={first}, n={n}.")
        blocks = [draw_block(self, j) for j in range(first // BLOCK, (first + n - 1) // BLOCK + 1)]
        start = first % BLOCK
        # np.concatenate copies, so that callers never hold a block of the cache.
        return Rows(*(np.concatenate(column)[start : start + n] for column in zip(*blocks, strict=True)))


@lru_cache(maxsize=4)  # small batches ask for the same block again and again
def draw_block(stream: Stream, number: int) -> Rows:
    """Draw the rows number · 4096, ..., (number + 1) · 4096 - 1 of a stream."""
    key = np.random.SeedSequence(stream.seed, spawn_key=tuple(stream.name.encode()))
    philox = np.random.Philox(key=key.generate_state(2, np.uint64), counter=number << 64)
    return stream.draw(np.random.Generator(philox), BLOCK)


def gaussian(rng: np.random.Generator, mean: FloatArray, factor: FloatArray) -> FloatArray:
    """One normal vector per row, mean + factor @ noise.

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
