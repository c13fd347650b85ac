"""Waiting: decisions whose labels come later, by id, and what became of labels and ids.

The oldest decisions expire when too many wait, so memory is bounded. An id is known as long as its decision waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from surefair.rows import IntArray
from surefair.storage.archive import Arrays
from surefair.storage.checks import array_of, value_of

Decision = tuple[int, ...]
"""Codes of the groups of a row, then the decision on it, 0 or 1."""


@dataclass
class Fates:
    """What became of decisions and labels.

    Attributes
    ----------
    matched : int
        Labels that met their decision.
    expired : int
        Decisions that waited too long.
    unknown : int
        Labels whose id is not waiting.
    repeated : int
        Decisions that came again, with the same groups and the same decision, while they waited; they count once.
    conflicting : int
        Decisions whose id waits with other groups or another decision; the first one counts.
    """

    matched: int = 0
    expired: int = 0
    unknown: int = 0
    repeated: int = 0
    conflicting: int = 0

    def __add__(self, other: Fates) -> Fates:
        return Fates(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))


@dataclass
class Waiting:
    """Decisions that wait for their labels, oldest first."""

    most: int
    decisions: dict[str, Decision] = field(default_factory=dict)
    fates: Fates = field(default_factory=Fates)

    def copy(self) -> Waiting:
        """Return a copy, so that an error leaves the original as it was."""
        return Waiting(self.most, dict(self.decisions), self.fates + Fates())

    def put(self, ids: Sequence[str], decisions: Iterable[Decision], labelled: Sequence[bool]) -> list[int]:
        """Let decisions without a label wait, and return the places of those that count now.

        A decision that waits, and comes again with its label, waits no longer and counts now. The oldest decisions
        expire if too many wait.
        """
        places = []
        for place, (one, decision) in enumerate(zip(ids, decisions, strict=True)):
            known = self.decisions.get(one)
            if known is not None and known != decision:
                self.fates.conflicting += 1
                continue
            self.fates.repeated += known is not None
            if labelled[place]:
                self.decisions.pop(one, None)
                places.append(place)
            else:
                self.decisions[one] = decision
            if len(self.decisions) > self.most:
                self.decisions.pop(next(iter(self.decisions)))
                self.fates.expired += 1
        return places

    def take(self, ids: Sequence[str]) -> tuple[list[int], list[Decision]]:
        """Take out the decisions of these ids: positions of the ids that waited, and their decisions."""
        places, found = [], []
        for place, one in enumerate(ids):
            decision = self.decisions.pop(one, None)
            if decision is not None:
                places.append(place)
                found.append(decision)
        self.fates.matched += len(found)
        self.fates.unknown += len(ids) - len(found)
        return places, found

    def recoded(self, codes: Sequence[IntArray]) -> Waiting:
        """Give groups their new codes, column by column."""
        moved = {
            one: (*(int(code[group]) for code, group in zip(codes, decision[:-1], strict=True)), decision[-1])
            for one, decision in self.decisions.items()
        }
        return Waiting(self.most, moved, self.fates)

    def merge(self, other: Waiting) -> Waiting:
        """Let the decisions of another stream wait here, too."""
        merged = self.copy()
        merged.fates = merged.fates + other.fates
        merged.put([*other.decisions], other.decisions.values(), [False] * len(other.decisions))
        return merged

    def pack(self, columns: int) -> tuple[dict[str, Any], Arrays]:
        """Take apart into JSON and arrays."""
        table = np.array([*self.decisions.values()], dtype=np.int64).reshape(-1, columns + 1)
        ids = np.array([*self.decisions], dtype=np.str_)
        return {"fates": vars(self.fates).copy()}, {"ids": ids, "decisions": table}

    @classmethod
    def unpack(cls, most: int, sizes: Sequence[int], meta: dict[str, Any], arrays: Arrays) -> Waiting:
        """Rebuild what ``pack`` returned."""
        found = value_of(meta, "fates", dict)
        fates = Fates(*(value_of(found, one.name, int, 0) for one in fields(Fates)))
        table = array_of(arrays, "decisions", "int64", (None, len(sizes) + 1), 0)
        ids = arrays.get("ids", np.empty(0))
        if ids.dtype.kind != "U" or ids.shape != (len(table),) or len(np.unique(ids)) < len(ids):
            raise ValueError("Ids of waiting decisions must be different texts, one for each.")
        if len(table) and (table.max(axis=0) >= np.array([*sizes, 2])).any():
            raise ValueError("Waiting decisions have groups that are unknown.")
        decisions = dict(zip(ids.tolist(), map(tuple, table.tolist()), strict=True))
        return cls(most, decisions, fates)
