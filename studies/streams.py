"""Streams of decisions whose rates are known, in orders that try to mislead, and looks at them as they come."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from surefair.criteria import CRITERIA
from surefair.inference.anytime import LogE, PairCounts, difference_lowest
from surefair.inference.limits import Pairs
from surefair.inference.stretches import Stretches
from surefair.rows import Groups, Levels

ORDERS = ("random", "blocks", "adaptive")
FEWEST = 30  # rows of each group before a fixed interval is asked for


class Streams(NamedTuple):
    """Rows of several streams: arrays of shape (rows, streams)."""

    rates: NDArray[np.float64]  # true rate of each group
    group: NDArray[np.int64]
    decision: NDArray[np.int64]


def draw(rates: tuple[float, ...], n: int, n_streams: int, order: str, seed: int) -> Streams:
    """Draw streams.

    In the order "random" the next row is of any group; "blocks" has 1,000 rows of one group after the other; "adaptive"
    mostly takes the next row from the group whose rate has been overestimated most, as somebody would who wants the
    gap to look larger than it is.
    """
    rng = np.random.default_rng(seed)
    p = np.array(rates)
    K, each = len(p), np.arange(n_streams)
    group = np.empty((n, n_streams), dtype=np.int64)
    decision = np.empty_like(group)
    positive, seen = np.zeros((2, n_streams, K))
    for row in range(n):
        code = rng.integers(K, size=n_streams)
        if order == "blocks":
            code = np.full(n_streams, row // 1000 % K)
        elif order == "adaptive":
            off = np.divide(positive, seen, out=np.zeros_like(seen), where=seen > 0) - p
            code = np.where(rng.random(n_streams) < 0.2, code, off.argmax(axis=1))
        yes = rng.random(n_streams) < p[code]
        positive[each, code] += yes
        seen[each, code] += 1.0
        group[row], decision[row] = code, yes
    return Streams(p, group, decision)


class Excluded(NamedTuple):
    """Whether the true gap of some pair was ever outside its interval, shape (streams,)."""

    anytime: NDArray[np.bool_]
    fixed: NDArray[np.bool_]


def ever_excluded(streams: Streams, looks: NDArray[np.int64], level: float = 0.95) -> Excluded:
    """Look at all pairs of groups after so many rows, and note where a true gap is excluded.

    Fixed intervals are those of Agresti and Caffo, divided among the pairs by Bonferroni's rule.
    """
    K, n_streams = len(streams.rates), streams.group.shape[1]
    groups = Groups({None: Levels(np.arange(K), "group")})
    pairs = Pairs.of(groups, ratio=False)
    found = [Stretches.of(CRITERIA["demographic_parity"].rates, groups) for _ in range(n_streams)]
    anytime, fixed = np.zeros((2, n_streams), dtype=bool)
    for start, end in pairwise([0, *looks.tolist()]):
        for i, stretches in enumerate(found):
            group, decision = streams.group[start:end, i], streams.decision[start:end, i]
            found[i] = stretches.add(group[:, None], 0 * decision, decision)
        asked = [i for i in range(n_streams) if found[i].is_settled and not anytime[i]]
        if asked:
            anytime[asked] = _excluded([found[i] for i in asked], pairs, streams.rates, 1.0 - level)
        tables = np.stack([stretches.total.sum(axis=1) for stretches in found])
        fixed |= _fixed_excluded(tables, pairs, streams.rates, 1.0 - level)
    return Excluded(anytime, fixed)


def _excluded(found: list[Stretches], pairs: Pairs, rates: NDArray[np.float64], alpha: float) -> NDArray[np.bool_]:
    """Whether sequences exclude a true gap: only where E is large at the true rates themselves can it be so."""
    parts = [one.pair_counts(pairs) for one in found]
    longest = max(part.rows.shape[2] for part in parts)
    filled = [_filled(part, longest) for part in parts]
    every = PairCounts(*(np.concatenate(part, axis=1) for part in zip(*filled, strict=True)))
    threshold = np.concatenate([one.thresholds(pairs, alpha) for one in found])
    a, b = (np.tile(rates[side], len(found)) for side in (pairs.first, pairs.second))
    beyond = LogE(every).at(np.stack([a, b]), np.ones((2, len(a)))).value >= threshold
    if beyond.any():
        some = PairCounts(*(part[:, beyond] for part in every))
        beyond[beyond] = difference_lowest(LogE(some), (a - b)[beyond]).value >= threshold[beyond]
    return np.asarray(beyond.reshape(len(found), -1).any(axis=1))


def _filled(part: PairCounts, longest: int) -> PairCounts:
    """Add empty stretches."""
    more = ((0, 0), (0, 0), (0, longest - part.rows.shape[2]))
    return PairCounts(
        np.pad(part.counted, more), np.pad(part.rows, more), np.pad(part.share, more, constant_values=0.5)
    )


def _fixed_excluded(
    tables: NDArray[np.int64], pairs: Pairs, rates: NDArray[np.float64], alpha: float
) -> NDArray[np.bool_]:
    n = tables.sum(axis=2)
    rate = (tables[..., 1] + 1.0) / (n + 2.0)
    variance = rate * (1.0 - rate) / (n + 2.0)
    a, b = pairs.first, pairs.second
    off = np.abs(rate[:, a] - rate[:, b] - (rates[a] - rates[b]))
    z = norm.isf(alpha / 2.0 / len(a))
    enough = (n[:, a] >= FEWEST) & (n[:, b] >= FEWEST)
    return np.asarray((enough & (off > z * np.sqrt(variance[:, a] + variance[:, b]))).any(axis=1))
