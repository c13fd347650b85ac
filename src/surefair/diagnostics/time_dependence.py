"""Rows should come in no particular order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from surefair.diagnostics._diagnostic import SELDOM, Diagnostic, FloatArray, first_few, ratio, upper_limit
from surefair.storage.checks import array_of

IntArray = NDArray[np.int64]

CLUMPED = 0.8  # share of the changes between neighbours that independent rows would show
CLUMPED_SD = 4.0  # standard deviations below that number of changes


class TimeDependence(Diagnostic):
    """Labels or groups come in clumps, or the fit drifts along the stream."""

    assumes = "Labels and groups do not come in clumps, and the fit does not drift."
    advice = (
        "If several rows belong to one person, pass clusters: shuffling would only hide that. If rows are just sorted, "
        "shuffle them; if they change over time, use rows of one period."
    )
    command_line_advice = (
        "If several rows belong to one person, name the column with --clusters: shuffling would only hide that. If "
        "rows are just sorted, shuffle them; if they change over time, use rows of one period."
    )


DIAGNOSTIC = TimeDependence


class Runs(NamedTuple):
    """How often neighbours in a stream differ, in their label and in each sensitive column."""

    last: IntArray  # (1 + columns,), codes of the last row; -1 where none is known
    pairs: IntArray  # (1 + columns,), pairs of neighbours where both are known
    changes: IntArray  # (1 + columns,), pairs of neighbours that differ
    labels: IntArray  # (2,), rows of each label

    @classmethod
    def of(cls, columns: int) -> Runs:
        """Start before the first row."""
        zeros = np.zeros(1 + columns, dtype=np.int64)
        return cls(zeros - 1, zeros, zeros, np.zeros(2, dtype=np.int64))

    def after(self, label: NDArray[Any], group: IntArray) -> Runs:
        """Add more rows: labels 0 or 1, and groups (n, columns).

        Examples
        --------
        >>> runs = Runs.of(1).after(np.array([0, 1]), np.array([[0], [0]]))
        >>> runs.after(np.array([0, 0]), np.array([[0], [1]])).changes
        array([2, 1])
        """
        if len(label) == 0:
            return self
        codes = np.vstack([self.last, np.column_stack([label.astype(np.int64), group])])
        known = (codes[1:] >= 0) & (codes[:-1] >= 0)
        changes = ((codes[1:] != codes[:-1]) & known).sum(axis=0)
        labels = self.labels + np.bincount(codes[1:, 0], minlength=2)
        return Runs(codes[-1], self.pairs + known.sum(axis=0), self.changes + changes, labels)

    def recode(self, codes: Sequence[NDArray[Any]]) -> Runs:
        """Give the groups of each column new codes."""
        last = [code[old] if old >= 0 else -1 for code, old in zip(codes, self.last[1:], strict=True)]
        return self._replace(last=np.array([self.last[0], *last], dtype=np.int64))

    @classmethod
    def unpack(cls, arrays: Mapping[str, NDArray[Any]], sizes: Sequence[int]) -> Runs:
        """Rebuild runs from their arrays, with so many groups in each sensitive column."""
        last = array_of(arrays, "last", "int64", (1 + len(sizes),), low=-1)
        if (last >= np.array([2, *sizes])).any():
            raise ValueError("'last' holds a group that is not among the groups.")
        pairs, changes = (array_of(arrays, name, "int64", last.shape, low=0) for name in ("pairs", "changes"))
        return cls(last, pairs, changes, array_of(arrays, "labels", "int64", (2,), low=0))

    def merge(self, other: Runs) -> Runs:
        """Add the runs of another stream, neither of which continues the other."""
        sums = (mine + theirs for mine, theirs in zip(self[1:], other[1:], strict=True))
        return Runs(np.full_like(self.last, -1), *sums)

    def without(self, other: Runs) -> Runs:
        """Take away the runs of rows that were counted here too."""
        return Runs(self.last, *(mine - theirs for mine, theirs in zip(self[1:], other[1:], strict=True)))


def check(runs: Runs, groups: Sequence[IntArray], names: Sequence[str | None]) -> list[Diagnostic]:
    """Check whether labels or groups come in clumps.

    Parameters
    ----------
    runs : Runs
    groups : sequence of ndarray
        Number of rows of each group, for each sensitive column.
    names : sequence of str or None
        Names of the sensitive columns.
    """
    clumped = []
    least = 1.0
    whats = ["labels", *("groups" if name is None else f"groups of {name!r}" for name in names)]
    for what, counts, pairs, changes in zip(whats, (runs.labels, *groups), runs.pairs, runs.changes, strict=True):
        mean, sd = _expected_changes(counts.astype(np.float64), int(pairs))
        if changes < CLUMPED * mean and changes < mean - CLUMPED_SD * sd:
            least = min(least, float(changes / mean))
            clumped.append(f"{what} change {int(changes)} times where independent rows would change {mean:.0f} times")
    if not clumped:
        return []
    message = (
        f"Rows seem to be sorted, or to come in clumps: {first_few(clumped)}. Intervals are valid for independent rows."
    )
    return [TimeDependence(message, least, CLUMPED)]


def check_path(scaling: FloatArray, sd: FloatArray, n_replicates: int) -> list[Diagnostic]:
    """Check whether the average wandered farther than its replicates say, which happens when a stream drifts.

    Over independent rows of one law, V̂ / n over the variance of a coefficient has the law of ∫ b(t)² dt, b a Brownian
    bridge. Its mean is 1/6, and its tail, to a few percent, P(> x) = 2√2 Φ(-π√x): only a large difference is beyond
    chance.

    Parameters
    ----------
    scaling : ndarray of shape (D,)
        √(V̂ / n), see ``inference.covariance.random_scaling``.
    sd : ndarray of shape (D,)
        Standard deviations of the replicates.
    n_replicates : int
    """
    root = float(ratio(scaling, upper_limit(sd, n_replicates, 1.0 - SELDOM)).max(initial=0.0))
    if not 2.0 * 2.0**0.5 * ndtr(-np.pi * root) * len(sd) < SELDOM:
        return []
    times = float(ratio(scaling, sd).max()) * 6.0**0.5
    message = (
        f"The path of the average (random scaling) gives a coefficient {times:.2g} times the standard deviation that "
        "its replicates give it, which chance does not explain: the stream drifts, or its rows depend on each other, "
        "and replicates cannot see that."
    )
    return [TimeDependence(message, times, 1.0)]


def _expected_changes(counts: FloatArray, pairs: int) -> tuple[float, float]:
    """Mean and standard deviation of the changes among so many neighbours when rows are in random order.

    Examples
    --------
    >>> mean, sd = _expected_changes(np.array([50.0, 50.0]), 99)
    >>> round(mean, 2), round(sd, 2)
    (50.0, 4.97)
    """
    n, two, three = (float(np.sum(counts**power)) for power in (1, 2, 3))
    if n < 2.0:
        return 0.0, 0.0
    mean = (n**2 - two) / (n * (n - 1.0))
    variance = (two * (two + n * (n + 1.0)) - 2.0 * n * three - n**3) / (n**2 * (n - 1.0))
    return pairs * mean, float(np.sqrt(max(variance, 0.0) * pairs / (n - 1.0)))
