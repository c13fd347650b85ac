"""Columns that give something away: a feature that all but equals the label, or a group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.stats import rankdata

from surefair.rows import FloatArray
from surefair.tables.values import MISSING, as_numbers, as_words, is_number

SAME = 0.98  # share of pairs of rows, one of each kind, that a column orders rightly, from which on it gives them away
SAME_ORDER = 0.9999  # the same for a label and a number with many values, which may be a very good feature
VALUES = 20  # that a column has at most if it is not such a number
LEAST = 25  # rows of either kind


def separation(column: pa.Array, target: NDArray[np.bool_]) -> float:
    """Share of pairs of rows, one with the target and one without, that a column alone orders rightly: its AUC.

    Numbers order rows by their size, from below or above, and words by how often they come with the target
    in other rows: a word that no other row has gives nothing away.

    Examples
    --------
    >>> separation(pa.array(["a", "b", "a", "b"] * 20), np.array([True, False, True, False] * 20))
    1.0
    >>> separation(pa.array([1.0, 2.0, 3.0, 4.0] * 20), np.array([True, False, True, False] * 20))
    0.75
    """
    n = int(target.sum())
    if min(n, len(target) - n) < LEAST:
        return 0.5
    if is_number(column.type):
        values, _ = as_numbers(column)
        missing = np.isnan(values)
        fills = (-np.inf, np.inf) if missing.any() else (0.0,)
        areas = [_area(np.where(missing, fill, values), target) for fill in fills]
        return max(*areas, *(1.0 - area for area in areas))
    code, _ = as_words(column)
    others = np.bincount(code)[code] - 1
    with_target = np.bincount(code, weights=target)[code] - target
    return _area(np.where(others > 0, with_target / np.maximum(others, 1), target.mean()), target)


def _area(score: FloatArray, target: NDArray[np.bool_]) -> float:
    n = int(target.sum())
    rank = rankdata(score)[target].sum()
    return float((rank - n * (n + 1) / 2) / (n * (len(target) - n)))


def leaks(columns: dict[str, pa.Array], target: NDArray[np.bool_]) -> dict[str, float]:
    """Columns that all but equal the label, with their separation."""
    shares = {name: separation(column, target) for name, column in columns.items()}
    return {name: share for name, share in shares.items() if share >= SAME and share >= _least(columns[name])}


def proxies(columns: dict[str, pa.Array], group: NDArray[Any]) -> dict[str, tuple[Any, float]]:
    """Columns that all but equal a group, with the group and their separation."""
    found: dict[str, tuple[Any, float]] = {}
    values = np.unique(group).tolist()
    if len(values) == 2 and MISSING not in values:
        values = values[:1]  # what tells one of two groups tells the other
    for value in (value for value in values if value != MISSING):
        for name, column in columns.items():
            share = separation(column, group == value)
            if share >= SAME and (name not in found or share > found[name][1]):
                found[name] = value, share
    return found


def _least(column: pa.Array) -> float:
    """Separation from which on a column leaks the label."""
    return SAME_ORDER if is_number(column.type) and len(column.unique()) > VALUES else SAME
