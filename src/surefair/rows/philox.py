"""Philox4x32-10, a generator of random bits that is a function of a counter and a seed (Salmon et al., 2011)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MASK = np.uint64(0xFFFFFFFF)
_ROUND_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_KEY_INCREMENTS = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)


def philox(counter: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Turn counters into 128 random bits each: Philox4x32-10.

    Parameters
    ----------
    counter : ndarray of shape (..., 4)
        Four 32-bit words, held in uint64.
    seed : int
        64-bit key.

    Returns
    -------
    ndarray of shape (..., 4)
        Four random 32-bit words, held in uint64.

    Examples
    --------
    >>> [f"{word:08x}" for word in philox(np.zeros(4, dtype=np.uint64), seed=0)]
    ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    x0, x1, x2, x3 = np.moveaxis(np.asarray(counter, dtype=np.uint64), -1, 0)
    k0 = np.uint64(seed) & MASK
    k1 = np.uint64(seed) >> np.uint64(32)
    for _ in range(10):
        a = x0 * _ROUND_MULTIPLIERS[0]
        b = x2 * _ROUND_MULTIPLIERS[1]
        x0, x1, x2, x3 = (b >> np.uint64(32)) ^ x1 ^ k0, b & MASK, (a >> np.uint64(32)) ^ x3 ^ k1, a & MASK
        k0 = (k0 + _KEY_INCREMENTS[0]) & MASK
        k1 = (k1 + _KEY_INCREMENTS[1]) & MASK
    return np.stack([x0, x1, x2, x3], axis=-1)
