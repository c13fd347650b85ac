"""DecisionTally: everything that is kept of the rows, as counts. Tallies of two parts of the rows add.

For each subject (a column of decisions, or scores with a threshold) there is a table: stratum × group × label ×
decision. Rows in clusters also have such a table for every replicate, in which a cluster counts 0 or 2 times, as its
hash says. Scores have a histogram. The size of all this does not depend on the number of rows.

Words have codes in the order in which they appear. So a tally knows the words of each axis, and adding two of them
brings both to the same axes first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefair.audit.decisions.axes import Axes, Words, check_size, check_two, places
from surefair.audit.decisions.combinations import Combinations, count_combinations, intersect
from surefair.audit.decisions.intake import SCORED, Chunk, DecisionIntake
from surefair.audit.decisions.settings import DecisionSettings
from surefair.inference.cluster_counts import count_clusters
from surefair.inference.counts import Counts
from surefair.rows import Distinct, FloatArray, IntArray
from surefair.rows.distinct import NONE
from surefair.score_metrics import Histogram
from surefair.storage.archive import Arrays, add_prefix, select_prefix
from surefair.storage.checks import array_of, value_of

MOST_BINS = 2**23  # cells of a histogram of scores: half a gibibyte
MOST_KEYS = 4096  # clusters whose rows are counted


class Replicated(NamedTuple):
    """Rows of a subject in clusters."""

    replicates: FloatArray  # (B, strata, groups, 3, 2)
    distinct: Distinct  # of the cells (groups, 3, 2), numbered through


class Keys(NamedTuple):
    """The clusters with the smallest hashes, and how many rows each has."""

    key: NDArray[np.uint64]
    rows: IntArray

    @classmethod
    def of(cls, key: NDArray[np.uint64], rows: IntArray | None = None) -> Keys:
        """Count the rows of each cluster, and keep those with the smallest hashes."""
        found, place = np.unique(key, return_inverse=True)
        counted = np.bincount(place, rows, minlength=len(found)).astype(np.int64)
        return cls(found[:MOST_KEYS], counted[:MOST_KEYS])

    def __add__(self, other: Keys) -> Keys:  # type: ignore[override]
        return Keys.of(np.concatenate([self.key, other.key]), np.concatenate([self.rows, other.rows]))

    @property
    def size(self) -> float:
        """Number of clusters: exact for few, estimated for many."""
        n = len(self.key)
        return float(n) if n < MOST_KEYS else (MOST_KEYS - 1) / (float(self.key[-1]) * 2.0**-64)


@dataclass(frozen=True, eq=False)
class DecisionTally:
    """Counts of decisions and scores.

    Attributes
    ----------
    axes : Axes
    census : ndarray of shape (2, groups, 3)
        Number and weight of the rows of each group by label, with or without a decision.
    tables : tuple of Counts
        Of each subject with decisions; arrays of shape ``axes.shape``.
    replicated : tuple of Replicated
        The same for rows in clusters; empty without clusters.
    keys : Keys or None
        Clusters.
    scores : tuple of Histogram
        Of the rows with a label, whose truth is a code of ``axes.labels``, and of those without; empty without scores.
    weights : tuple of float
        Smallest and largest weight.
    """

    axes: Axes
    census: FloatArray
    tables: tuple[Counts, ...]
    replicated: tuple[Replicated, ...] = ()
    keys: Keys | None = None
    scores: tuple[Histogram, ...] = ()
    weights: tuple[float, float] = (1.0, 1.0)

    @classmethod
    def of(cls, chunk: Chunk, intake: DecisionIntake) -> DecisionTally:
        """Count some rows."""
        settings = intake.settings
        columns = (chunk.strata, *chunk.groups, chunk.truth, *chunk.decisions)
        found = count_combinations(columns, _sizes(intake), chunk.weight)
        strata, *others = found.codes
        n_columns = len(chunk.groups)
        groups, (truth, *decisions) = others[:n_columns], others[n_columns:]
        crossed: IntArray | None = None
        words = [tuple(intake.words[name]) for name in settings.sensitive]
        if settings.intersections:
            crossed, names = intersect(groups, words)
            words.append(names)
            groups = [*groups, crossed]
        decided = [tuple(intake.words[name]) for name in settings.decision]
        decided += [SCORED] if settings.threshold is not None else []
        axes = Axes(_of(intake, settings.strata), tuple(words), _of(intake, settings.label), tuple(decided))
        axes = check_size(axes, settings)
        number = np.stack([code + low for code, low in zip(groups, axes.offsets, strict=True)], axis=1)
        tables = tuple(_table(axes.shape, strata, number, truth, decision, found) for decision in decisions)
        tally = cls(axes, _census(number, truth, axes, found), tables, weights=found.weights)
        if chunk.key is None and chunk.score is None:
            return tally
        by_row = np.stack([one.codes + low for one, low in zip(chunk.groups, axes.offsets, strict=False)], axis=1)
        if crossed is not None:
            by_row = np.column_stack([by_row, axes.offsets[-1] + crossed[found.place]])
        return tally._with_clusters(chunk, by_row, settings)._with_scores(chunk, by_row - np.array(axes.offsets))

    def _with_clusters(self, chunk: Chunk, number: IntArray, settings: DecisionSettings) -> DecisionTally:
        """Count rows by cluster too."""
        key = chunk.key
        if key is None:
            return self
        weight = np.ones(chunk.n) if chunk.weight is None else chunk.weight
        base = (chunk.strata.codes[:, None] * self.axes.shape[1] + number) * 3 + chunk.truth.codes[:, None]
        replicated = []
        for coded in chunk.decisions:
            decision = coded.codes
            some = decision < 2
            cell = base[some] * 2 + decision[some, None]
            found = count_clusters(
                cell, self.axes.shape, key[some], weight[some], settings.n_replicates, settings.random_state
            )
            replicated.append(Replicated(found.replicates, found.distinct))
        return replace(self, replicated=tuple(replicated), keys=Keys.of(key))

    def _with_scores(self, chunk: Chunk, codes: IntArray) -> DecisionTally:
        """Count scores too, given the group of each row in each column."""
        score = chunk.score
        if score is None:
            return self
        truth = chunk.truth.codes
        weight = np.ones(chunk.n) if chunk.weight is None else chunk.weight
        scores = []
        for some in (~np.isnan(score) & (truth < 2), ~np.isnan(score) & (truth == 2)):
            of_rows = score[some], truth[some] % 2, codes[some], self.axes.sizes, weight[some]
            scores.append(Histogram.of(*of_rows))
        return replace(self, scores=tuple(scores))

    def __add__(self, other: DecisionTally) -> DecisionTally:
        axes = self.axes.joined(other.axes)
        check_two(axes)
        one, two = self.among(axes), other.among(axes)
        scores = tuple(a + b for a, b in zip(one.scores, two.scores, strict=True))
        if scores and sum(axes.sizes) * len(scores[0].bins) > MOST_BINS:
            raise ValueError(
                f"There are {len(scores[0].bins):,} bins of scores for each of {sum(axes.sizes)} groups, too many to "
                "keep in memory. Round the scores, for example to 3 digits, or name fewer groups."
            )
        return DecisionTally(
            axes,
            one.census + two.census,
            tuple(a + b for a, b in zip(one.tables, two.tables, strict=True)),
            tuple(
                Replicated(a.replicates + b.replicates, a.distinct + b.distinct)
                for a, b in zip(one.replicated, two.replicated, strict=True)
            ),
            None if one.keys is None or two.keys is None else one.keys + two.keys,
            scores,
            (min(one.weights[0], two.weights[0]), max(one.weights[1], two.weights[1])),
        )

    def among(self, axes: Axes) -> DecisionTally:
        """The same counts along axes with more words."""
        old = self.axes
        if axes == old:
            return self
        strata = places(old.strata, axes.strata) if old.strata else np.zeros(1, dtype=np.int64)
        parts = zip(old.groups, axes.groups, axes.offsets, strict=True)
        groups = np.concatenate([low + places(mine, all_) for mine, all_, low in parts])
        labels = places(old.labels, axes.labels)
        census = np.zeros((2, sum(axes.sizes), 3))
        known = np.append(np.arange(len(labels)), 2)
        census[:, groups[:, None], np.append(labels, 2)] = self.census[:, :, known]
        tables = []
        replicated = []
        for j, (mine, all_) in enumerate(zip(old.decisions, axes.decisions, strict=True)):
            to = np.ix_(strata, groups, np.append(labels, 2), places(mine, all_))
            tables.append(Counts(*(_spread(table, axes.shape, to, known) for table in self.tables[j])))
            if self.replicated:
                one = self.replicated[j]
                wide = _spread(one.replicates, (len(one.replicates), *axes.shape), to, known)
                replicated.append(Replicated(wide, _spread_keys(one.distinct, old.shape[1:], axes.shape[1:], to[1:])))
        scores = self.scores
        if scores:
            scores = (
                _spread_scores(scores[0], axes.sizes, groups, labels),
                _spread_scores(scores[1], axes.sizes, groups, np.array([0])),
            )
        return replace(
            self, axes=axes, census=census, tables=tuple(tables), replicated=tuple(replicated), scores=scores
        )

    # -- On disk ------------------------------------------------------------------------------------------------------

    def pack(self) -> tuple[dict[str, Any], Arrays]:
        """Take the tally apart into JSON and arrays."""
        meta = {"axes": self.axes._asdict(), "weights": self.weights}
        arrays: Arrays = {"census": self.census}
        for j, table in enumerate(self.tables):
            arrays |= add_prefix(f"table {j}", table._asdict())
        for j, one in enumerate(self.replicated):
            arrays |= add_prefix(f"clusters {j}", {"replicates": one.replicates, "smallest": one.distinct.smallest})
        if self.keys is not None:
            arrays |= add_prefix("keys", self.keys._asdict())
        for j, histogram in enumerate(self.scores):
            arrays |= add_prefix(f"scores {j}", {name: getattr(histogram, name) for name in HISTOGRAM})
        return meta, arrays

    @classmethod
    def unpack(cls, meta: dict[str, Any], arrays: Arrays, settings: DecisionSettings) -> DecisionTally:
        """Rebuild a tally from what ``pack`` returned, checked."""
        axes = _read_axes(value_of(meta, "axes", dict), settings)
        weights = value_of(meta, "weights", list)
        if len(weights) != 2 or not all(type(one) is float for one in weights):
            raise ValueError(f"'weights' must be two numbers; received {weights!r:.60}.")
        census = array_of(arrays, "census", "float64", (2, sum(axes.sizes), 3), low=0.0)
        tables = tuple(
            Counts(*(array_of(arrays, f"table {j}/{name}", "float64", axes.shape, low=0.0) for name in Counts._fields))
            for j in range(len(axes.decisions))
        )
        replicated: tuple[Replicated, ...] = ()
        keys = None
        if settings.clusters is not None:
            replicated = tuple(_read_clusters(arrays, j, axes, settings) for j in range(len(axes.decisions)))
            key = array_of(arrays, "keys/key", "uint64", (None,))
            keys = Keys(key, array_of(arrays, "keys/rows", "int64", (len(key),), low=1))
        scores: tuple[Histogram, ...] = ()
        if settings.score is not None:
            scores = tuple(_read_scores(select_prefix(f"scores {j}", arrays), axes) for j in range(2))
        return cls(axes, census, tables, replicated, keys, scores, (weights[0], weights[1]))


HISTOGRAM = ("bins", "rows", "weight", "square", "total", "least", "most")


def _read_axes(found: dict[str, Any], settings: DecisionSettings) -> Axes:
    axes = Axes(
        tuple(value_of(found, "strata", list)),
        tuple(map(tuple, value_of(found, "groups", list))),
        tuple(value_of(found, "labels", list)),
        tuple(map(tuple, value_of(found, "decisions", list))),
    )
    every = (axes.strata, axes.labels, *axes.groups, *axes.decisions)
    if any(len({*words}) < len(words) or not all(type(word) is str for word in words) for words in every):
        raise ValueError("The words of an axis must be different texts.")
    columns = len(settings.sensitive) + settings.intersections
    if len(axes.groups) != columns or len(axes.decisions) != len(settings.counted):
        raise ValueError("The counts have other columns than the audit.")
    check_two(axes)
    return check_size(axes, settings)


def _read_clusters(arrays: Arrays, j: int, axes: Axes, settings: DecisionSettings) -> Replicated:
    shape = (settings.n_replicates, *axes.shape)
    replicates = array_of(arrays, f"clusters {j}/replicates", "float64", shape, low=0.0)
    cells = int(np.prod(axes.shape[1:]))
    smallest = array_of(arrays, f"clusters {j}/smallest", "uint64", (cells, None))
    return Replicated(replicates, Distinct(smallest))


def _read_scores(arrays: Arrays, axes: Axes) -> Histogram:
    bins = array_of(arrays, "bins", "int64", (None,))
    shape = (sum(axes.sizes), 2, len(bins))
    tables = [array_of(arrays, name, "float64", shape) for name in HISTOGRAM[1:5]]
    return Histogram(
        axes.sizes, bins, *tables, *(array_of(arrays, name, "float64", bins.shape) for name in HISTOGRAM[5:])
    )


# -- Counting ---------------------------------------------------------------------------------------------------------


def _sizes(intake: DecisionIntake) -> tuple[int, ...]:
    """Number of codes of each column: stratum, groups, label, decisions."""
    settings = intake.settings
    groups = [max(1, len(intake.words[name])) for name in settings.sensitive]
    strata = 1 if settings.strata is None else max(1, len(intake.words[settings.strata]))
    sizes = (strata, *groups, 3, *(3 for _ in settings.counted))
    if np.prod([float(size) for size in sizes]) >= 2.0**62:
        raise ValueError("The sensitive columns have too many values together. Name fewer columns, or merge values.")
    return sizes


def _of(intake: DecisionIntake, name: str | None) -> Words:
    return () if name is None else tuple(intake.words[name])


def _table(
    shape: tuple[int, ...], strata: IntArray, groups: IntArray, truth: IntArray, decision: IntArray, found: Combinations
) -> Counts:
    """Counts of one subject, from combinations; those without a decision are left out."""
    some = decision < 2
    cell = ((strata[some, None] * shape[1] + groups[some]) * 3 + truth[some, None]) * 2 + decision[some, None]
    n_cells = int(np.prod(shape))

    def add_up(values: FloatArray) -> FloatArray:
        total = np.bincount(cell.ravel(), np.repeat(values[some], groups.shape[1]), minlength=n_cells)
        return np.asarray(total, dtype=np.float64).reshape(shape)

    return Counts(*map(add_up, found.counts))


def _census(groups: IntArray, truth: IntArray, axes: Axes, found: Combinations) -> FloatArray:
    """Number and weight of the rows of each group by label: (2, groups, 3)."""
    cell = (groups * 3 + truth[:, None]).ravel()
    n_cells = sum(axes.sizes) * 3
    sums = [np.bincount(cell, np.repeat(one, groups.shape[1]), minlength=n_cells) for one in found.counts[:2]]
    return np.asarray(np.stack(sums), dtype=np.float64).reshape(2, -1, 3)


def _spread(table: FloatArray, shape: tuple[int, ...], to: tuple[Any, ...], labels: IntArray) -> FloatArray:
    """Copy a table (..., strata, groups, 3, 2) to its places in a larger one; ``labels`` are those in use."""
    wide = np.zeros(shape)
    wide[(..., *to)] = table[..., labels, :][..., : to[-1].size]
    return wide


def _spread_keys(distinct: Distinct, before: tuple[int, ...], shape: tuple[int, ...], to: tuple[Any, ...]) -> Distinct:
    """Copy the keys of cells (groups, 3, 2) to their places among more cells."""
    size = distinct.smallest.shape[1]
    wide = np.full((*shape, size), NONE)
    known = np.append(np.arange(to[1].size - 1), 2)
    wide[to] = distinct.smallest.reshape(*before, size)[:, known][:, :, : to[2].size]
    return Distinct(wide.reshape(-1, size))


def _spread_scores(histogram: Histogram, sizes: tuple[int, ...], groups: IntArray, labels: IntArray) -> Histogram:
    """Copy a histogram to its places among more groups, with labels in another order."""

    def spread(table: FloatArray) -> FloatArray:
        wide = np.zeros((sum(sizes), 2, table.shape[2]))
        wide[np.ix_(groups, labels)] = table[:, : len(labels)]
        return wide

    old = (histogram.rows, histogram.weight, histogram.square, histogram.total)
    rows, weight, square, total = map(spread, old)
    return Histogram(sizes, histogram.bins, rows, weight, square, total, histogram.least, histogram.most)
