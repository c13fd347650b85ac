"""Stretches: counts of a stream of decisions from which a confidence sequence follows. Counts of two streams add.

How wide a sequence is depends on how well the shares of the groups were known before the rows came (see
``anytime.py``). Nobody has to say them: the first ``FIRST`` rows count with equal shares, and after 64, 128, 256, ...
rows the shares so far are rounded and used for the rows that follow. Until then, a group that is new counts with the
share of the largest one. A stretch is all rows that were counted with the same shares. A stream whose shares stay the
same soon adds all its rows to one stretch. So everything follows from the rows before and their order: limits are
exact, and it does not matter in which batches the rows came.

The level is divided among the pairs of groups that were seen when the first rows were in. A small part of it,
``LATE``, is kept for groups that appear later: half of what is left for each new group.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefair.criteria import Rate
from surefair.inference.anytime import PairCounts, difference_limits, rate_limits, ratio_limits
from surefair.inference.counts import Counts, effective_sides, rates_of
from surefair.inference.interval import NO_CONTEXT, Context, Estimates, Interval, Question, interval_of
from surefair.inference.limits import Gaps, Pairs, gap_spreads
from surefair.rows import FloatArray, Groups, IntArray
from surefair.storage.archive import Arrays
from surefair.storage.checks import array_of, value_of

FIRST = 64
"""Rows before which there is no interval; the groups among them are compared at the full level."""

LATE = 0.02
"""Part of the error probability that is kept for groups that appear later."""

OCTAVE = 8
"""Steps into which a factor of two is divided where shares are rounded."""

SMALLEST = 12 * OCTAVE  # steps by which the smallest share can differ from the largest

EXACT = "anytime"
"""Method of intervals that hold at all times, exactly."""

EXACT_NOTE = "The interval holds at all times together, so you may look as often as you like; this is exact"


def check_anytime(method: str = "percentile", score_metric: str = "", **given: Any) -> None:
    """Refuse what has no anytime interval: a method, a metric of scores, weights, clusters or strata.

    Examples
    --------
    >>> check_anytime(clusters=[1, 1, 2])
    Traceback (most recent call last):
    ValueError: There is no anytime interval with clusters: rows of one cluster depend on each other. Leave clusters
    out, or use anytime=False and look once.
    """
    reasons = {
        "sample_weight": "it is exact only for rows that count once",
        "clusters": "rows of one cluster depend on each other",
        "strata": "a gap that is combined from strata is not the difference of two rates",
    }
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"There is no anytime interval with {name}: {reasons[name]}. Leave {name} out, or use "
                "anytime=False and look once."
            )
    if score_metric:
        raise ValueError(
            f"There is no anytime interval for the metric {score_metric!r}, because it looks at scores. Use a metric "
            "of decisions, such as 'demographic_parity', or use anytime=False and look once."
        )
    if method != "percentile":
        raise ValueError(f"Anytime limits do not depend on the method; received method={method!r}. Leave method out.")


@dataclass(frozen=True, eq=False)
class Stretches:
    """Counts of a stream's decisions, by the shares of groups that were expected.

    Attributes
    ----------
    rates : tuple of Rate
        What is compared; shares are those of the rows that enter each rate.
    groups : Groups
    n : int
        Rows so far.
    seen : tuple of int
        Groups in the order in which they appeared.
    n_first : int
        How many of them share the main part of the level; 0 until they are settled.
    steps : ndarray of shape (stretches, rates, groups)
        Rounded shares: how many eighths of an octave each lies below the largest in its column.
    tables : ndarray of shape (stretches, groups, 2, 2)
        Rows of each group, truth and decision.
    current : int
        The stretch that the next rows belong to.
    """

    rates: tuple[Rate, ...]
    groups: Groups
    n: int
    seen: tuple[int, ...]
    n_first: int
    steps: IntArray
    tables: IntArray
    current: int

    @classmethod
    def of(cls, rates: tuple[Rate, ...], groups: Groups) -> Stretches:
        """Start counting at zero."""
        G = sum(groups.sizes)
        steps = np.zeros((1, len(rates), G), dtype=np.int64)
        return cls(rates, groups, 0, (), 0, steps, np.zeros((1, G, 2, 2), dtype=np.int64), 0)

    @property
    def total(self) -> IntArray:
        """All counts, shape (groups, 2, 2)."""
        return np.asarray(self.tables.sum(axis=0))

    @property
    def is_settled(self) -> bool:
        """Whether there are enough rows for an interval."""
        return self.n_first > 0

    # -- Adding rows --------------------------------------------------------------------------------------------------

    def add(self, codes: IntArray, truth: IntArray, decision: IntArray) -> Stretches:
        """Count rows, in the order in which they came.

        Parameters
        ----------
        codes : ndarray of shape (n_rows, columns)
            Group of each row in each sensitive column.
        truth, decision : ndarray of shape (n_rows,)
            0 or 1.

        Examples
        --------
        >>> from surefair.criteria import CRITERIA
        >>> from surefair.rows import Levels
        >>> groups = Groups({None: Levels(np.array(["a", "b"]), "group")})
        >>> start = Stretches.of(CRITERIA["demographic_parity"].rates, groups)
        >>> row = np.arange(1000)
        >>> start.add((row % 2)[:, None], row * 0, row // 2 % 2).total[:, 0].tolist()
        [[250, 250], [250, 250]]
        """
        found = self
        cell = self._cell(codes, truth, decision)
        group = cell // 4
        done = 0
        while done < len(cell):
            end = min(len(cell), done + found.next_boundary - found.n)
            found = found._count(group[done:end], cell[done:end])
            done = end
        return found

    def _cell(self, codes: IntArray, truth: IntArray, decision: IntArray) -> IntArray:
        """Cell of each row in each sensitive column, numbered through."""
        return np.asarray(4 * (codes + np.array(self.groups.offsets)) + (2 * truth + decision)[:, None])

    def tables_of(self, codes: IntArray, truth: IntArray, decision: IntArray, part: IntArray, n_parts: int) -> IntArray:
        """Counts of rows by part, without keeping them; shape (parts, groups, 2, 2)."""
        size = self.total.size
        cell = part[:, None] * size + self._cell(codes, truth, decision)
        return np.bincount(cell.ravel(), minlength=n_parts * size).reshape(n_parts, *self.total.shape)

    @property
    def next_boundary(self) -> int:
        """Number of rows at which shares are looked at again: 64, 128, 256, and so on."""
        return FIRST << max(0, (self.n // FIRST).bit_length())

    def _count(self, group: IntArray, cell: IntArray) -> Stretches:
        """Count rows of one stretch."""
        added = np.bincount(cell.ravel(), minlength=self.total.size).reshape(self.total.shape)
        tables = self.tables.copy()
        tables[self.current] += added
        counted = replace(self, n=self.n + len(cell), tables=tables, seen=self._seen(group, added))
        return counted.renewed() if counted.n == self.next_boundary else counted

    def _seen(self, group: IntArray, added: IntArray) -> tuple[int, ...]:
        """Groups in the order of their first row."""
        new = np.setdiff1d(np.flatnonzero(added.any(axis=(1, 2))), self.seen)
        if len(new) == 0:
            return self.seen
        found, place = np.unique(group.ravel(), return_index=True)
        order = [g for _, g in sorted(zip(place.tolist(), found.tolist(), strict=True)) if g in new]
        return (*self.seen, *order)

    def renewed(self) -> Stretches:
        """Look at the shares so far, for the rows that follow, and settle which groups came first."""
        columns = self._columns
        several = all(np.count_nonzero(columns[list(self.seen)] == c) > 1 for c in range(len(self.groups.sizes)))
        n_first = self.n_first or (len(self.seen) if several and self.n >= FIRST else 0)
        rows = np.stack([rate.tally(self.total)[1] for rate in self.rates]) + 1.0
        largest = np.stack([rows[:, columns == c].max(axis=1) for c in range(len(self.groups.sizes))], axis=1)
        steps = np.rint(OCTAVE * np.log2(largest[:, columns] / rows)).astype(np.int64).clip(0, SMALLEST)
        steps[:, [g for g in range(len(columns)) if g not in self.seen]] = 0  # as if nobody knew that they will come
        return replace(self, n_first=n_first)._with_stretch(steps)

    def _with_stretch(self, steps: IntArray) -> Stretches:
        """Make the stretch with these shares the current one."""
        same = np.flatnonzero((self.steps == steps).all(axis=(1, 2)))
        if len(same):
            return replace(self, current=int(same[0]))
        empty = np.zeros((1, *self.tables.shape[1:]), dtype=np.int64)
        tables = np.concatenate([self.tables, empty])
        return replace(self, steps=np.concatenate([self.steps, steps[None]]), tables=tables, current=len(self.steps))

    @property
    def _columns(self) -> IntArray:
        """Number of the sensitive column that each group belongs to."""
        return np.repeat(np.arange(len(self.groups.sizes)), self.groups.sizes)

    # -- More groups, two streams -------------------------------------------------------------------------------------

    def among(self, groups: Groups) -> Stretches:
        """Keep the counts, with more groups."""
        if groups is self.groups:
            return self
        parts = zip(groups.offsets, groups.recode(self.groups), strict=True)
        codes = np.concatenate([low + code for low, code in parts])
        G = sum(groups.sizes)
        steps = np.zeros((*self.steps.shape[:2], G), dtype=np.int64)
        steps[..., codes] = self.steps
        tables = np.zeros((len(self.tables), G, 2, 2), dtype=np.int64)
        tables[:, codes] = self.tables
        seen = tuple(int(codes[g]) for g in self.seen)
        return replace(self, groups=groups, steps=steps, tables=tables, seen=seen)

    def merge(self, other: Stretches) -> Stretches:
        """Add the counts of another stream."""
        groups = self.groups.joined_with(other.groups)
        merged, others = self.among(groups), other.among(groups)
        for steps, table in zip(others.steps, others.tables, strict=True):
            merged = merged._with_stretch(steps)
            tables = merged.tables.copy()
            tables[merged.current] += table
            merged = replace(merged, tables=tables)
        seen = (*merged.seen, *(g for g in others.seen if g not in merged.seen))
        return replace(merged, n=self.n + other.n, seen=seen).renewed()

    # -- Intervals ----------------------------------------------------------------------------------------------------

    def pair_counts(self, pairs: Pairs) -> PairCounts:
        """Counts of all rates and pairs, numbered together."""
        both = np.stack([pairs.first, pairs.second])
        tallies = np.stack([np.stack(rate.tally(self.tables)) for rate in self.rates])  # (rates, 2, stretches, groups)
        size = 0.5 ** (self.steps / OCTAVE)  # (stretches, rates, groups)

        def of_pairs(table: NDArray[Any]) -> NDArray[Any]:
            """Turn (rates, stretches, groups) into (2, rates · pairs, stretches)."""
            found = np.moveaxis(table[..., both], 1, -1)  # (rates, 2, pairs, stretches)
            return np.moveaxis(found, 1, 0).reshape(2, -1, len(self.tables))

        share = of_pairs(np.moveaxis(size, 0, 1))
        return PairCounts(of_pairs(tallies[:, 0]), of_pairs(tallies[:, 1]), share / share.sum(axis=0))

    def pair_weights(self, pairs: Pairs) -> FloatArray:
        """Part of the error probability that each pair gets in each rate, shape (pairs,)."""
        place = np.full(sum(self.groups.sizes), len(self.seen))
        place[list(self.seen)] = np.arange(len(self.seen))
        later = np.maximum(place[pairs.first], place[pairs.second])  # when the second of both appeared
        late = later - self.n_first + 1
        mass = np.where(late > 0, LATE * 0.5 ** np.maximum(late, 0), 1.0 - LATE)
        together = np.array([np.count_nonzero(later == one if one >= self.n_first else late <= 0) for one in later])
        return np.asarray(np.where(later < len(self.seen), mass / together, 0.0) / len(self.rates))

    def thresholds(self, pairs: Pairs, alpha: float) -> FloatArray:
        """Log E from which on a gap is excluded, for each pair; a group without rows has none."""
        weight = alpha * self.pair_weights(pairs)
        return -np.log(np.where(weight > 0.0, weight, 1e-300))

    def interval(self, question: Question, context: Context = NO_CONTEXT) -> Interval:
        """Interval for the largest gap between groups, which holds at all times."""
        if not self.is_settled and not context.trouble:
            trouble = f"there is no interval before {FIRST} rows that show two groups of every sensitive column"
            context = context._replace(trouble=trouble)
        note = EXACT_NOTE
        context = context._replace(notes=". ".join(part for part in (context.notes, note) if part))
        question = question._replace(method=EXACT)
        return interval_of(question, self._estimates(question), self.groups, self.n, context)

    def _estimates(self, question: Question) -> Estimates:
        alpha = 1.0 - question.confidence_level
        counts = Counts(*(self.total.astype(np.float64) for _ in range(3)))
        pairs = Pairs.of(self.groups, question.metric.ratio)
        measured = rates_of(self.rates, counts)
        gap = pairs.gap(pairs.scale(measured))
        threshold = np.tile(self.thresholds(pairs, alpha), len(self.rates))
        limits = ratio_limits if pairs.ratio else difference_limits
        low, high = (ends.reshape(gap.shape) for ends in limits(self.pair_counts(pairs), threshold))
        low, high = np.fmin(low, gap), np.fmax(high, gap)
        gaps = Gaps(pairs.finish(gap), low, high, ~np.isnan(gap))
        above, below = (np.stack(part) for part in zip(*(rate.tally(counts.rows) for rate in self.rates), strict=True))
        ends = rate_limits(above, below, alpha)
        spreads = gap_spreads(measured, None, effective_sides(self.rates, counts), pairs)
        return Estimates(below.astype(np.int64), measured, *ends, gaps, *spreads)

    # -- Files --------------------------------------------------------------------------------------------------------

    def pack(self) -> tuple[dict[str, Any], Arrays]:
        """Take the counts apart into JSON and arrays."""
        meta = {"groups": self.groups.to_json(), "n": self.n, "n_first": self.n_first, "current": self.current}
        return meta, {"seen": np.array(self.seen, dtype=np.int64), "steps": self.steps, "tables": self.tables}

    @classmethod
    def unpack(cls, rates: tuple[Rate, ...], meta: dict[str, Any], arrays: Arrays) -> Stretches:
        """Rebuild what ``pack`` returned; numbers that do not fit together are refused."""
        groups = Groups.from_json(value_of(meta, "groups", list))
        G = sum(groups.sizes)
        steps = array_of(arrays, "steps", "int64", (None, len(rates), G), 0, SMALLEST)
        tables = array_of(arrays, "tables", "int64", (len(steps), G, 2, 2), 0)
        seen = tuple(array_of(arrays, "seen", "int64", (None,), 0, G - 1).tolist())
        n = value_of(meta, "n", int, 0)
        n_first = value_of(meta, "n_first", int, 0, len(seen))
        current = value_of(meta, "current", int, 0, len(steps) - 1)
        columns = np.split(tables.sum(axis=(0, 2, 3)), groups.offsets[1:])
        if len({*seen}) < len(seen) or any(int(column.sum()) != n for column in columns):
            raise ValueError(f"The counts do not add up to {n} rows in every sensitive column.")
        return cls(rates, groups, n, seen, n_first, steps, tables, current)
