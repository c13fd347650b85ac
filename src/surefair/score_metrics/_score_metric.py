"""What a score metric is: a value for each group, measured from a histogram of scores, with its spread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from surefair.rows import FloatArray
from surefair.score_metrics._histogram import Histogram

LEAST_ROWS = 15
"""Rows on either side of a mean, as many as its value makes of them, below which limits must be exact."""


class Measured(NamedTuple):
    """Values of a score metric: arrays of shape (groups,)."""

    value: FloatArray  # NaN where undefined
    spread: FloatArray  # standard deviation, before the values of other groups play a part
    n: FloatArray  # rows that enter the value
    worth: FloatArray  # rows of which a share would vary at least as much, for exact limits
    few: FloatArray  # 1 where rows are so few that exact limits are needed
    error: FloatArray  # what the width of the bins may add or take away
    mix: FloatArray  # (groups, groups): how chance in one group moves the values of others; mostly the identity
    parts: FloatArray | None = None  # (2, groups): means between 0 and 1 whose difference the value is, if it is one
    above: float | None = None  # share of all rows above their median, if values are about scores above it


@dataclass(frozen=True)
class ScoreMetric:
    """What is compared between groups of scores.

    Attributes
    ----------
    name : str
        Name of the metric; also the name of its file.
    words : str
        Short description, for reports.
    measure : function
        Measures the values of all groups from a histogram.
    needs_labels : bool
    needs_probabilities : bool
        Whether scores must lie between 0 and 1.
    signed : bool
        Whether values lie between -1 and 1, not between 0 and 1; such values have no ratios.
    """

    name: str
    words: str
    measure: Callable[[Histogram], Measured]
    needs_labels: bool = False
    needs_probabilities: bool = False
    signed: bool = False


def divide(above: FloatArray, below: FloatArray) -> FloatArray:
    """Divide; NaN where there is nothing to divide by."""
    return np.asarray(np.divide(above, below, out=np.full(np.shape(above), np.nan), where=below > 0.0))


def is_few(value: FloatArray, worth: FloatArray) -> FloatArray:
    """1 where few rows lie on a side of a mean of numbers between 0 and 1, which is then skewed, and 0 elsewhere.

    Examples
    --------
    >>> is_few(np.array([0.5, 0.01]), np.array([100.0, 100.0]))
    array([0., 1.])
    """
    return np.asarray(np.fmin(value, 1.0 - value) * worth < LEAST_ROWS, dtype=np.float64)


def mean_of(values: FloatArray, histogram: Histogram) -> Measured:
    """Mean of a value of each cell, shape (groups, 2, bins), with its spread.

    Parameters
    ----------
    values : ndarray of shape (groups, 2, bins)
    histogram : Histogram
    """
    weight = histogram.weight.sum(axis=(1, 2))
    mean = divide((histogram.weight * values).sum(axis=(1, 2)), weight)
    n = histogram.n.sum(axis=1)
    off = (values - mean[:, None, None]) ** 2
    variance = divide(np.nansum(histogram.square * off, axis=(1, 2)), weight**2) * divide(n, n - 1.0)
    worth = np.nan_to_num(divide(weight**2, histogram.square.sum(axis=(1, 2))))
    return Measured(mean, np.sqrt(variance), n, worth, is_few(mean, worth), np.zeros(len(mean)), np.eye(len(mean)))
