"""Detector: raise an alarm when a gap has moved beyond the margin, with a known rate of false alarms.

As long as every gap is within the margin, the rows of two groups a and b in one block, which is an update or several
short ones, give

    F = exp[λᵃ sᵃ − λᵇ sᵇ − max nᵃ ψ(λᵃ, pᵃ) + nᵇ ψ(−λᵇ, pᵇ)],    ψ(λ, p) = log(1 − p + p exp λ),

where sᵍ of nᵍ rows count towards the rate of group g, the tilts are λᵃ = t/πᵃ and λᵇ = t/πᵇ with the shares π of these
rows, and the maximum is over all rates whose gap is the margin. The expectation of F is at most 1. Rates may change
from row to row: ψ is concave in p, so what counts is the gap between the two averages of the rates over the rows of the
block. Averages can differ although the gap is 0 at every moment, if rates and shares of groups drift together within a
block; then alarms may be more frequent than stated. From one block to the next, rates may change in any way that keeps
these gaps within the margin.

Shiryaev and Roberts' recursion R ← (1 + R) F then grows by at most 1 in each update on average, for every tilt, pair
and direction, and so does their mean. An alarm is raised when the mean reaches ``run_length``, so the average number of
updates between false alarms is at least ``run_length``. After an alarm the detector starts again.

Updates with few rows wait until ``BLOCK`` rows of both groups of a pair are there. A pair takes part from the update in
which the second of its groups first appears; what came before does not count for it, and the mean is over the pairs
that take part. So alarms follow from the rows of each update, and it does not matter in which batches these came.

Two streams, one after the other, compose: R = Rᴬ Fᴮ + Rᴮ and F = Fᴬ Fᴮ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefair.inference.limits import Pairs
from surefair.inference.metric import Metric
from surefair.names import counted
from surefair.rows import FloatArray, Groups, IntArray
from surefair.storage.archive import Arrays
from surefair.storage.checks import array_of, value_of

BLOCK = 20
"""Rows of each group of a pair that are looked at together, at least."""

TILTS = 0.004 * 2.0 ** np.arange(8)
STEEPEST = 30.0  # largest tilt
HALVINGS = 26  # the error is of the order of the squared width that is left
MOST_ALARMS = 1000
"""Alarms that are kept; older ones are counted only."""


class Alarm(NamedTuple):
    """A gap has moved beyond the margin.

    Attributes
    ----------
    update : int
        Number of the update that raised the alarm. In a monitor that took in another by ``merge``, updates and rows of
        the other are numbered on from its own.
    n : int
        Rows that had been counted when it ended.
    column : str or None
        Sensitive column, where columns have names.
    rate : str
    first, second : value
        Groups with the higher and the lower rate.
    statistic : float
        Mean of the detector's statistics, at least ``run_length``.
    """

    update: int
    n: int
    column: str | None
    rate: str
    first: Any
    second: Any
    statistic: float

    def __str__(self) -> str:
        of = "" if self.column is None else f" of {self.column!r}"
        return (
            f"Update {self.update:,} ({counted(self.n, 'row')}): the {self.rate} of group {self.first!r}{of} is above "
            f"that of group {self.second!r} by more than the margin allows."
        )


@dataclass(frozen=True, eq=False)
class Detector:
    """State of the detector; its size depends on the numbers of groups and rates only.

    Attributes
    ----------
    metric : Metric
    margin, run_length : float
    groups : Groups
    seen : ndarray of bool, shape (groups,)
        Groups that have appeared in an update that has ended.
    gathered : ndarray of shape (groups, 2, 2)
        Rows of the update that has not ended.
    waiting : ndarray of shape (rates, pairs, 2, 2)
        For both groups of each pair, rows that wait for more: those that count towards the rate, and all.
    log_r, log_f : ndarray of shape (2, rates, pairs, tilts)
        Logarithms of R and F. Direction 0 is that the first group's rate is the higher one.
    n_updates, n_alarms : int
    alarms : tuple of Alarm
        The latest ones.
    """

    metric: Metric
    margin: float
    run_length: float
    groups: Groups
    seen: NDArray[np.bool_]
    gathered: IntArray
    waiting: IntArray
    log_r: FloatArray
    log_f: FloatArray
    n_updates: int = 0
    n_alarms: int = 0
    alarms: tuple[Alarm, ...] = ()

    @classmethod
    def of(cls, metric: Metric, margin: float, run_length: float, groups: Groups) -> Detector:
        """Start before the first update."""
        G = sum(groups.sizes)
        shape = (len(metric.rates), len(Pairs.of(groups, False).first))
        seen, gathered = np.zeros(G, dtype=bool), np.zeros((G, 2, 2), dtype=np.int64)
        waiting = np.zeros((*shape, 2, 2), dtype=np.int64)
        state = (2, *shape, len(TILTS))
        never = np.full(state, -np.inf)
        return cls(metric, margin, run_length, groups, seen, gathered, waiting, never, np.zeros(state))

    @property
    def statistic(self) -> float:
        """Mean of R over directions, rates, pairs that take part, and tilts."""
        return float(np.exp(self._log_statistic))

    @property
    def _log_statistic(self) -> float:
        directions, rates, _, tilts = self.log_r.shape
        size = directions * rates * tilts * np.count_nonzero(self._take_part(self.seen))
        return float(np.logaddexp.reduce(self.log_r, axis=None) - np.log(max(1, size)))

    def _take_part(self, seen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Whether both groups of each pair have appeared, shape (pairs,)."""
        pairs = Pairs.of(self.groups, False)
        return np.asarray(seen[pairs.first] & seen[pairs.second])

    def gather(self, table: IntArray) -> Detector:
        """Take counts, shape (groups, 2, 2), that belong to an update that has not ended."""
        return replace(self, gathered=self.gathered + table)

    def _of_pairs(self, tables: IntArray) -> IntArray:
        """Counts (..., groups, 2, 2) as counts of pairs (..., rates, pairs, 2, 2)."""
        pairs = Pairs.of(self.groups, False)
        both = np.stack([pairs.first, pairs.second], axis=1)
        tallies = np.stack([np.stack(rate.tally(tables), axis=-1) for rate in self.metric.rates], axis=-3)
        return np.asarray(tallies[..., both, :], dtype=np.int64)

    def update(self, tables: IntArray, rows: Sequence[int]) -> Detector:
        """Take the counts of some updates, one after the other.

        Parameters
        ----------
        tables : ndarray of shape (updates, groups, 2, 2)
        rows : sequence of int
            Number of rows after each update.
        """
        tables = np.concatenate([tables[:1] + self.gathered, tables[1:]])
        seen = self.seen | np.logical_or.accumulate(tables.any(axis=(2, 3)), axis=0)  # after each update
        waiting = self.waiting
        ready, counts = [], []
        for table, known in zip(self._of_pairs(tables), seen, strict=True):
            waiting = waiting + table * self._take_part(known)[:, None, None]
            ready.append((waiting[..., 1] >= BLOCK).all(axis=-1))
            counts.append(waiting[ready[-1]])
            waiting = np.where(ready[-1][..., None, None], 0, waiting)
        ends = np.cumsum([len(one) for one in counts])[:-1]
        gains = np.split(
            _log_factors(np.concatenate(counts).astype(np.float64), self.margin, self.metric.ratio), ends, 1
        )
        moved = replace(
            self, gathered=np.zeros_like(self.gathered), waiting=waiting, log_r=self.log_r.copy(),
            log_f=self.log_f.copy(),
        )  # fmt: skip
        for some, gain, known, n in zip(ready, gains, seen, rows, strict=True):
            moved.log_r[:, some] = np.logaddexp(0.0, moved.log_r[:, some]) + gain
            moved.log_f[:, some] += gain
            moved = replace(moved, seen=known, n_updates=moved.n_updates + 1)._alarmed(n)
        return moved

    def _alarmed(self, n: int) -> Detector:
        """Raise an alarm and start again, if the statistic is large enough."""
        log_statistic = self._log_statistic
        if log_statistic < np.log(self.run_length):
            return self
        direction, rate, pair, _ = np.unravel_index(int(np.argmax(self.log_r)), self.log_r.shape)
        pairs = Pairs.of(self.groups, False)
        ends = [self.groups.labels[side[pair]] for side in (pairs.first, pairs.second)][:: 1 if direction == 0 else -1]
        (column, first), (_, second) = ends
        statistic = float(np.exp(min(log_statistic, 700.0)))
        name = self.metric.rates[int(rate)].name
        alarm = Alarm(self.n_updates, n, column, name, first, second, statistic)
        never = np.full_like(self.log_r, -np.inf)
        alarms = (*self.alarms, alarm)[-MOST_ALARMS:]
        return replace(self, log_r=never, log_f=never.copy(), n_alarms=self.n_alarms + 1, alarms=alarms)

    def among(self, groups: Groups) -> Detector:
        """Keep the state, with more groups."""
        if groups is self.groups:
            return self
        wider = Detector.of(self.metric, self.margin, self.run_length, groups)
        new, old = Pairs.of(groups, False), Pairs.of(self.groups, False)
        parts = zip(groups.offsets, groups.recode(self.groups), strict=True)
        code = np.concatenate([low + one for low, one in parts])
        place = {pair: i for i, pair in enumerate(zip(new.first.tolist(), new.second.tolist(), strict=True))}
        where = [place[pair] for pair in zip(code[old.first].tolist(), code[old.second].tolist(), strict=True)]
        wider.seen[code] = self.seen
        wider.gathered[code] = self.gathered
        wider.waiting[:, where] = self.waiting
        wider.log_r[:, :, where] = self.log_r
        if self.n_alarms:
            wider.log_f[:] = -np.inf  # what was before an alarm does not come back
        wider.log_f[:, :, where] = self.log_f
        told = {"n_updates": self.n_updates, "n_alarms": self.n_alarms, "alarms": self.alarms}
        return replace(wider, **told)  # type: ignore[arg-type]

    def merge(self, other: Detector, n: int, n_other: int) -> Detector:
        """Continue with another stream's updates, as if they came after these.

        Updates and rows of its alarms are numbered on from this stream's. The two updates that have not ended become
        one.

        Parameters
        ----------
        other : Detector
        n, n_other : int
            Rows of this stream, and of the other.
        """
        groups = self.groups.joined_with(other.groups)
        a, b = self.among(groups), other.among(groups)
        later = tuple(one._replace(update=one.update + a.n_updates, n=one.n + n) for one in b.alarms)
        merged = replace(
            a, seen=a.seen | b.seen, gathered=a.gathered + b.gathered, waiting=a.waiting + b.waiting,
            log_r=np.logaddexp(a.log_r + b.log_f, b.log_r), log_f=a.log_f + b.log_f,
            n_updates=a.n_updates + b.n_updates, n_alarms=a.n_alarms + b.n_alarms,
            alarms=(*a.alarms, *later)[-MOST_ALARMS:],
        )  # fmt: skip
        return merged._alarmed(n + n_other)

    def pack(self) -> tuple[dict[str, Any], Arrays]:
        """Take the state apart into JSON and arrays; groups are kept with the counts."""
        meta = {
            "n_updates": self.n_updates,
            "n_alarms": self.n_alarms,
            "alarms": [one._asdict() for one in self.alarms],
        }
        arrays = {"seen": self.seen.astype(np.int64), "gathered": self.gathered}
        return meta, arrays | {"waiting": self.waiting, "log_r": self.log_r, "log_f": self.log_f}

    def unpack(self, meta: dict[str, Any], arrays: Arrays) -> Detector:
        """Continue from what ``pack`` returned; this detector has the same settings and groups, and no updates."""
        alarms = tuple(
            Alarm(
                value_of(one, "update", int, 0), value_of(one, "n", int, 0), value_of(one, "column", (str, type(None))),
                value_of(one, "rate", str), value_of(one, "first", (str, int, float, bool)),
                value_of(one, "second", (str, int, float, bool)), value_of(one, "statistic", float),
            )
            for one in value_of(meta, "alarms", list)
        )  # fmt: skip
        return replace(
            self, alarms=alarms,
            seen=array_of(arrays, "seen", "int64", self.seen.shape, 0, 1).astype(bool),
            gathered=array_of(arrays, "gathered", "int64", self.gathered.shape, 0),
            waiting=array_of(arrays, "waiting", "int64", self.waiting.shape, 0),
            log_r=array_of(arrays, "log_r", "float64", self.log_r.shape),
            log_f=array_of(arrays, "log_f", "float64", self.log_f.shape),
            n_updates=value_of(meta, "n_updates", int, 0), n_alarms=value_of(meta, "n_alarms", int, len(alarms)),
        )  # fmt: skip


def _log_factors(counts: FloatArray, margin: float, ratio: bool) -> FloatArray:
    """Log F of some pairs with counts (pairs, 2, 2), for both directions and all tilts: (2, pairs, tilts).

    Examples
    --------
    >>> counts = np.array([[[60.0, 100.0], [30.0, 100.0]]])
    >>> _log_factors(counts, margin=0.1, ratio=False).max(axis=2).round(1)
    array([[ 3.9],
           [-0.3]])
    """
    both = np.stack([counts, counts[:, ::-1]])[..., None]  # (2, pairs, sides, kinds, 1)
    (s_a, n_a), (s_b, n_b) = np.moveaxis(both[:, :, 0], 2, 0), np.moveaxis(both[:, :, 1], 2, 0)
    offset, slope, last = (0.0, 1.0 / margin, margin) if ratio else (margin, 1.0, 1.0 - margin)
    n = n_a + n_b
    tilt_a = (TILTS * n / n_a / slope).clip(max=STEEPEST)
    tilt_b = (TILTS * n / n_b).clip(max=STEEPEST)
    rise, fall = np.expm1(tilt_a), np.expm1(-tilt_b)

    def steepness(q: FloatArray) -> FloatArray:
        moved = offset + slope * q
        return np.asarray(n_a * rise * slope / (1.0 + moved * rise) + n_b * fall / (1.0 + q * fall))

    low = np.zeros(np.broadcast_shapes(tilt_a.shape, tilt_b.shape))
    high = np.full_like(low, last)
    for _ in range(HALVINGS):  # the function is concave
        q = (low + high) / 2.0
        rises = steepness(q) > 0.0
        low = np.where(rises, q, low)
        high = np.where(rises, high, q)
    most = n_a * np.log1p((offset + slope * high).clip(max=1.0) * rise) + n_b * np.log1p(high * fall)
    most = most + np.abs(steepness(high)) * (high - low)  # no less than the maximum
    return np.asarray(tilt_a * s_a - tilt_b * s_b - most)
