"""How rates and gaps move in replicates, to first order.

A replicate is a table of counts with random weights. It moves a rate r = X / N by (Xᵇ - r Nᵇ) / N, which is linear in
the table. So one table gives the movements of all rates, metrics and models with what they have in common.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.stats import norm, t

from surefair.criteria import Rate
from surefair.inference.counts import Counts, rates_of
from surefair.inference.limits import ROUNDING, Pairs
from surefair.rows import FloatArray

MOST_DRAWS = 2**24
"""Random numbers that are held in memory."""


def normal_tables(counts: Counts, n_draws: int, seed: int) -> FloatArray:
    """Tables of counts with random weights of independent rows: one normal number per cell, shape (draws, ...)."""
    n_draws = max(200, min(n_draws, MOST_DRAWS // counts.square.size))
    Z = np.random.default_rng(seed).standard_normal((n_draws, *counts.square.shape))
    return np.asarray(counts.weight + np.sqrt(counts.square) * Z)


def rate_moves(rates: tuple[Rate, ...], counts: Counts, tables: FloatArray) -> FloatArray:
    """Movement of each rate in each table, shape (B, rates, groups); NaN where a rate is undefined.

    Examples
    --------
    >>> from surefair.criteria import CRITERIA
    >>> counts = Counts(*[np.array([[[6.0, 2.0], [1.0, 1.0]]])] * 3)
    >>> table = np.array([[[[6.0, 3.0], [1.0, 1.0]]]])  # one more row is a false positive
    >>> rate_moves(CRITERIA["demographic_parity"].rates, counts, table)
    array([[[0.07]]])
    """
    measured = rates_of(rates, counts)
    found = []
    for rate, r in zip(rates, measured, strict=True):
        above, below = rate.tally(tables)
        total = rate.tally(counts.weight)[1]
        off = above - np.nan_to_num(r) * below
        found.append(np.divide(off, total, out=np.full_like(off, np.nan), where=total > 0.0))
    return np.stack(found, axis=1)


class GapMoves(NamedTuple):
    """How gaps move in the replicates: their spread, degrees of freedom, and the farthest of all in each replicate."""

    spread: FloatArray  # (rates, pairs)
    freedom: FloatArray  # (rates, pairs)
    farthest: FloatArray  # (B,), in multiples of the spread of a gap

    def half_width(self, confidence_level: float) -> tuple[FloatArray, float]:
        """Half the width of limits that hold for all gaps together, and the level of each gap."""
        c = float(norm.isf((1.0 - confidence_level) / 2.0))
        if self.spread.size > 1:
            c = max(c, float(np.quantile(self.farthest, confidence_level, method="weibull")))
        tail = float(norm.sf(c))
        return t.isf(tail, self.freedom) * self.spread, 1.0 - 2.0 * tail


def gap_moves(apart: Callable[[int, int], FloatArray], freedom: FloatArray) -> GapMoves:
    """Collect the movements of all gaps.

    Parameters
    ----------
    apart : function
        Returns the movement of the gap of a rate and a pair, shape (B,).
    freedom : ndarray of shape (rates, pairs)
        Degrees of freedom of each gap.
    """
    spread = np.empty_like(freedom)
    farthest: FloatArray = np.zeros(1)
    for j, p in np.ndindex(spread.shape):
        moved = apart(j, p)
        spread[j, p] = np.sqrt(np.mean(moved**2))
        varies = spread[j, p] > ROUNDING
        far = np.divide(np.abs(moved), spread[j, p], out=np.zeros_like(moved), where=varies)
        farthest = np.maximum(farthest, far)
    return GapMoves(spread, freedom, farthest)


def between(off: FloatArray, pairs: Pairs, freedom: FloatArray | None = None) -> GapMoves:
    """Movements of all gaps, from those of the rates, shape (B, rates, groups)."""
    a, b = pairs.first, pairs.second
    freedom = np.full((off.shape[1], len(a)), np.inf) if freedom is None else freedom
    return gap_moves(lambda j, p: off[:, j, a[p]] - off[:, j, b[p]], freedom)
