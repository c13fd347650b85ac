"""Axes: the words of groups, strata, labels and decisions, in the order in which they appear."""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

import numpy as np

from surefair.audit.decisions.settings import DecisionSettings
from surefair.rows import IntArray

MOST_CELLS = 10**6  # strata times groups
MOST_NUMBERS = 2**26  # in the tables of all replicates of a subject: half a gibibyte

Words = tuple[str, ...]


class Axes(NamedTuple):
    """The words of each axis, in the order of their codes."""

    strata: Words  # none without strata
    groups: tuple[Words, ...]  # of each sensitive column and, if asked for, of their intersections
    labels: Words  # two at most
    decisions: tuple[Words, ...]  # of each subject, two at most

    @property
    def sizes(self) -> tuple[int, ...]:
        """Groups of each column."""
        return tuple(len(words) for words in self.groups)

    @property
    def offsets(self) -> tuple[int, ...]:
        """Number of the first group of each column, where all columns are numbered together."""
        return tuple(accumulate(self.sizes, initial=0))[:-1]

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Shape of a table: strata, groups, label (no, yes, none) and decision, in the order of appearance."""
        return max(1, len(self.strata)), sum(self.sizes), 3, 2

    def joined(self, other: Axes) -> Axes:
        """Add the words of other axes."""
        groups = tuple(_union(mine, theirs) for mine, theirs in zip(self.groups, other.groups, strict=True))
        decisions = tuple(_union(mine, theirs) for mine, theirs in zip(self.decisions, other.decisions, strict=True))
        return Axes(_union(self.strata, other.strata), groups, _union(self.labels, other.labels), decisions)


def _union(mine: Words, theirs: Words) -> Words:
    return mine if mine == theirs else tuple(dict.fromkeys([*mine, *theirs]))


def check_two(axes: Axes) -> None:
    """Refuse labels or decisions with more than two values, which two parts of the rows can have together."""
    for words in (axes.labels, *axes.decisions):
        if len(words) > 2:
            raise ValueError(
                f"Labels and decisions must have two values; one column has {', '.join(map(repr, words))}. Keep or "
                "merge two of them."
            )


def check_size(axes: Axes, settings: DecisionSettings) -> Axes:
    """Return the axes if tables along them fit into memory."""
    S, G, *_ = axes.shape
    if S * G > MOST_CELLS:
        raise ValueError(
            f"There are {S:,} strata and {G:,} groups, too many to keep a count of each in memory. Merge strata or "
            "groups."
        )
    if settings.clusters is not None and S * G * 6 * settings.n_replicates > MOST_NUMBERS:
        raise ValueError(
            f"With clusters, {S:,} strata and {G:,} groups need too much memory for {settings.n_replicates:,} "
            "replicates. Merge strata or groups, or lower n_replicates (--replicates)."
        )
    return axes


def places(words: Words, among: Words) -> IntArray:
    """Place of each word among more words."""
    place = {word: code for code, word in enumerate(among)}
    return np.array([place[word] for word in words], dtype=np.int64)
