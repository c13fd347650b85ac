"""Copies among evaluation rows: how many pairs of rows are equal, and how many independent rows of such columns show.

Discrete columns make honest rows equal. How many depends on the columns, and pairs of rows that are nearly equal tell.
The null model: rows are independent, and of two rows that agree in all columns but j and k, whether they agree in j is
independent of whether they agree in k. Then E ≈ D_j D_k / D_jk for all columns j and k: E pairs of rows are equal, D_j
differ in column j alone, and D_jk in j and k alone. Copies raise E and hardly the others.

Nine of ten estimates D_j D_k / D_jk must be too small to explain E, even times 1.5. In honest tables E is between 0.4
and 1.1 times that estimate (Adult, COMPAS, German credit, and columns that depend on a common factor). Tables of a few
discrete columns, whose honest rows are nearly all equal to others, do not show copies in this way; if a whole table
was copied, ``dependent_rows.check_multiples`` finds them.

>>> rng = np.random.default_rng(0)
>>> honest = rng.integers(3, size=(2_000, 6)).astype(float)
>>> count_copies([honest[:, [j]] for j in range(6)])
Copies(n=2000, copies=1314, excess=0.0)
>>> few = rng.normal(size=(500, 6))
>>> count_copies([np.repeat(few, 4, axis=0)[:, [j]] for j in range(6)])
Copies(n=2000, copies=1500, excess=3000.0)
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from surefair.diagnostics.dependent_rows import MOST_COPIES
from surefair.rows import Rows
from surefair.rows.sketch import count_pairs, hash_numbers

SLACK = 1.5  # times the equal pairs that pairs of columns predict
MOST_OF = 0.9  # of these predictions
MOST = 200  # columns, and pairs of columns, that are looked at


class Copies(NamedTuple):
    """Equal rows. Those of two parts of the data add, without pairs across the parts."""

    n: int  # rows
    copies: int  # rows that equal an earlier one
    excess: float  # pairs of equal rows beyond those that independent rows show

    def __add__(self, other: Copies) -> Copies:  # type: ignore[override]
        return Copies(self.n + other.n, self.copies + other.copies, self.excess + other.excess)


def copies_among(rows: Rows, columns: Sequence[Any]) -> Copies:
    """Count copies among rows; ``columns`` has, for each column of the data, the positions of its features."""
    parts = [rows.X[:, one] for one in columns] + [rows.y[:, None]]
    return count_copies([*parts, *(code[:, None].astype(np.float64) for code in rows.group.T)])


def count_copies(columns: Sequence[Any]) -> Copies:
    """Count copies among rows, given the numbers of each column (n, features)."""
    hashes = []
    before = 0
    for values in columns:
        places = np.arange(before, before + values.shape[1])
        hashes.append(hash_numbers(values, places).sum(axis=1, dtype=np.uint64))
        before += values.shape[1]
    whole = np.stack(hashes).sum(axis=0, dtype=np.uint64)
    n = len(whole)
    copies = n - len(np.unique(whole))
    equal = count_pairs(whole)
    if 2.0 * equal <= MOST_COPIES * n:  # too few to matter, whatever the others are
        return Copies(n, copies, 0.0)
    rng = np.random.default_rng(0)
    singles = _some(range(len(hashes)), rng)
    alone = {j: count_pairs(whole - hashes[j]) - equal for j in singles}
    honest = []
    for j, k in _some(combinations(singles, 2), rng):
        both = count_pairs(whole - hashes[j] - hashes[k]) - equal - alone[j] - alone[k]
        honest.append(alone[j] * alone[k] / max(both, 1.0))
    return Copies(n, copies, max(equal - SLACK * float(np.quantile(honest, MOST_OF)), 0.0))


def _some(values: Any, rng: np.random.Generator) -> list[Any]:
    """Return all values, or some at random where they are many."""
    found: list[Any] = list(values)
    if len(found) <= MOST:
        return found
    return [found[i] for i in np.sort(rng.choice(len(found), MOST, replace=False))]
