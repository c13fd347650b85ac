"""Which rows serve for what: training, the constraint set D', or evaluation.

A row's side is a number in [0, 1) that follows from its place in the data, or from the value of a column, so that rows
of one person have the same. Rows with the smallest numbers are held out for evaluation: a quarter, as long as they are
not too many to keep, and beyond that those with the largest of the numbers go back to training. So whatever the length
of the data, the rows held out are a random sample of it, and no row was ever on two sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefair.criteria import Criterion
from surefair.rows.arrays import FloatArray

BoolArray = NDArray[np.bool_]

HELD_OUT = 0.25  # share of the rows, as long as they are not too many to keep
MOST_ROWS, MOST_BYTES = 100_000, 2**27  # held out
CONSTRAINT_ROWS, PER_FEATURE, MOST_CONSTRAINT = 1_000, 100, 5_000  # in D', unless told
FEW = 10  # rows of a group in D', below which it is measured but not constrained


class Rows(NamedTuple):
    """Rows that can be used."""

    X: FloatArray
    y: BoolArray  # whether the label is the positive one
    groups: NDArray[Any]  # (sensitive columns, n_rows), words
    weight: FloatArray
    side: FloatArray

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.y)

    def by_column(self, sensitive: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Groups of each sensitive column, by its name."""
        return dict(zip(sensitive, self.groups, strict=True))

    def part(self, rows: Any) -> Rows:
        """Some of the rows."""
        return Rows(self.X[rows], self.y[rows], self.groups[:, rows], self.weight[rows], self.side[rows])

    def followed_by(self, other: Rows) -> Rows:
        """These rows, then the others."""
        pairs = zip(self, other, strict=True)
        return Rows(*(np.concatenate(pair, axis=1 if pair[0].dtype == object else 0) for pair in pairs))


def sides(keys: NDArray[np.uint64], seed: int) -> FloatArray:
    """Number in [0, 1) for each key, as if drawn at random: the mixing of SplitMix64, twice.

    Examples
    --------
    >>> sides(np.arange(3, dtype=np.uint64), seed=0).round(3)
    array([0.578, 0.036, 0.991])
    """
    x = keys + np.uint64((seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) % 2**64)
    for _ in range(2):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = (x ^ (x >> np.uint64(31))) + np.uint64(0x9E3779B97F4A7C15)
    return np.asarray((x >> np.uint64(11)) * 2.0**-53)


def share_held_out(n_rows: int, n_features: int) -> float:
    """Share of the rows to hold out, where it is known beforehand how many there are."""
    return min(HELD_OUT, _most(n_features) / max(n_rows, 1))


def _most(n_features: int) -> int:
    """Rows to hold out at most."""
    return min(MOST_ROWS, MOST_BYTES // (8 * n_features))


def hold_out(held: Rows | None, rows: Rows) -> tuple[Rows, Rows]:
    """Rows held out so far and from now on, and those to train on."""
    out = rows.side < HELD_OUT
    held, rows = rows.part(out) if held is None else held.followed_by(rows.part(out)), rows.part(~out)
    most = _most(rows.X.shape[1])
    if held.n > most:
        keep = held.side <= np.partition(held.side, most - 1)[most - 1]
        if keep.sum() > most:  # more than one row of a value: without the last value
            keep = held.side < held.side[keep].max()
        if not keep.any():
            raise ValueError(
                f"More than {most:,} rows have one value of the column to split by. Split by another, or by none."
            )
        held, rows = held.part(keep), rows.followed_by(held.part(~keep))
    return held, rows


def constraint_rows(
    rows: Rows, asked: int | None, criterion: Criterion | None, sensitive: Sequence[str]
) -> tuple[BoolArray, list[str]]:
    """Which of the first rows make the constraint set D', and what to say of groups that are too small for it.

    A group of which the criterion sees hardly a row in D' would be constrained by chance, or not at all; its rows are
    left for training, so that it counts as one that appears later: it is measured, but not constrained.
    """
    wanted = asked or min(max(CONSTRAINT_ROWS, PER_FEATURE * rows.X.shape[1]), MOST_CONSTRAINT)
    n = max(1, min(wanted, rows.n // 5))
    chosen, few = rows.side <= np.partition(rows.side, n - 1)[n - 1], dict[tuple[str, str], int]()
    looked_at = [] if criterion is None else [rate.looks_at(np.where(rows.y, 1.0, -1.0)) for rate in criterion.rates]
    groups = {(name, group): column == group for name, column in zip(sensitive, rows.groups, strict=True)
              for group in sorted(set(column.tolist()))}  # fmt: skip
    before = -1
    while before < len(few):  # rows of one column's groups are rows of another's
        before = len(few)
        for key, here in groups.items():
            least = min((int((chosen & here & part).sum()) for part in looked_at), default=FEW)
            if key not in few and least < FEW:
                chosen, few[key] = chosen & ~here, least
    return chosen, [
        f"Group {group!r} of {name!r} has {least} rows in the constraint set that the criterion looks at, fewer than "
        f"{FEW}: it is measured, but not constrained."
        for (name, group), least in few.items()
    ]
