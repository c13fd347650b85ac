"""Which rows are held out for evaluation, and which serve for training.

A row's side is a number in [0, 1) that follows from its position in the data, or from the value of a column, so that
rows of one person have the same side. The quarter of the rows with the smallest numbers is held out. If these are
too many to keep in memory, those with the largest numbers go back to training, and so do later rows with numbers as
large. So the held-out rows are a random sample whatever the length of the data, and no value is ever on two sides.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from surefair.rows import FloatArray, Rows
from surefair.rows.philox import MASK, philox

SPLIT = 2  # purpose of these random numbers; training and evaluation draw others from the same seed
SETTLING = 3  # the same for the rows on which columns are settled
HELD_OUT = 0.25  # share of the rows, as long as they are not too many to keep
MOST_ROWS = 100_000  # held out
MOST_BYTES = 2**27  # held out


def sides(keys: NDArray[np.uint64], seed: int, purpose: int = SPLIT) -> FloatArray:
    """Return a number in [0, 1) for each key, as if drawn at random.

    Examples
    --------
    >>> sides(np.arange(3, dtype=np.uint64), seed=0).round(3)
    array([0.864, 0.729, 0.516])
    """
    zero = np.zeros_like(keys)
    counter = np.stack([keys & MASK, keys >> np.uint64(32), zero, zero + np.uint64(purpose)], axis=-1)
    words = philox(counter, seed % 2**64)
    return np.asarray((words[:, 0] << np.uint64(21) ^ words[:, 1] >> np.uint64(11)) * 2.0**-53)


def side_of(rows: Rows, seed: int) -> FloatArray:
    """Side of each row."""
    assert rows.key is not None
    return sides(rows.key, seed)


def share_held_out(n_rows: int, n_features: int) -> float:
    """Share of the rows to hold out, where their number is known beforehand."""
    return min(HELD_OUT, _most(n_features) / max(n_rows, 1))


def _most(n_features: int) -> int:
    """The most rows to hold out."""
    return min(MOST_ROWS, MOST_BYTES // (8 * n_features))


def hold_out(held: Rows | None, rows: Rows, seed: int, below: float = HELD_OUT) -> tuple[Rows, Rows, float]:
    """Return all rows held out so far, those to train on, and the number below which the sides of later ones must be.

    The number falls when rows go back to training, so that no later row of the same value is held out again.
    """
    out = side_of(rows, seed) < below
    held = rows.part(out) if held is None else held.followed_by(rows.part(out))
    rows = rows.part(~out)
    most = _most(rows.X.shape[1])
    if held.n > most:
        side = side_of(held, seed)
        below = float(np.partition(side, most)[most])
        keep = side < below
        if not keep.any():
            raise ValueError(
                f"More than {most:,} rows are in one cluster. Name a cluster column with more values, or none."
            )
        held, rows = held.part(keep), rows.followed_by(held.part(~keep))
    return held, rows, below
