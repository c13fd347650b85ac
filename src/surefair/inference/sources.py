"""All that intervals need of evaluation rows: decisions of a fit and its replicates, counted. Tallies of two parts add.

So rows can be counted where they are, on many machines, and only tables of counts travel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefair.inference.counts import Counts
from surefair.rows.arrays import FloatArray
from surefair.rows.groups import Groups
from surefair.storage.archive import Arrays
from surefair.training import checks as doubts
from surefair.training.model import Fit, Rows


@dataclass(frozen=True, eq=False)
class Tally:
    """Counts of decisions, by source of the uncertainty.

    Attributes
    ----------
    n_rows, model : int, str
        Rows that the model was trained on, and its fingerprint: a tally is of one model as it was then.
    method : str
        Of the intervals.
    groups : Groups
    parts : dict of str to tuple of Counts
        For each source the counts of the fit and its replicates; where the source is "total", on two halves of the
        rows, drawn at random.
    near : ndarray of shape (kinds, 2)
        Margins of the kinds of rows next to the decision boundary, and whether replicates disagree about them.
    """

    n_rows: int
    model: str
    method: str
    groups: Groups
    parts: Mapping[str, tuple[Counts, ...]]
    near: FloatArray

    @classmethod
    def of(
        cls, fit: Fit, rows: Rows, groups: Groups, sources: Sequence[str], method: str, seed: int, n_threads: int
    ) -> Tally:
        """Count the decisions on some rows, of a model without a fingerprint yet."""

        def counted(source: str) -> tuple[Counts, ...]:
            halved = source == "total" and method != "paper"
            asked = groups.sizes, source, method, n_threads
            return tuple(fit.decisions(part, *asked) for part in (rows.halves(seed) if halved else (rows,)))

        looked_at = fit.finite and rows.n > 0 and {*sources} - {"evaluation", "total"}
        near = doubts.near_the_boundary(fit, rows) if looked_at else np.empty((0, 2))
        parts = {source: counted(source) for source in sources}
        return cls(int(fit.state.k), "", method, groups, parts, near)

    def __add__(self, other: Tally) -> Tally:
        mine, theirs = ((tally.model, tally.method, {*tally.parts}) for tally in (self, other))
        if mine != theirs:
            raise ValueError(
                f"Tallies of one model, method and sources add; received {self._described} and {other._described}."
            )
        groups = self.groups.joined_with(other.groups)
        one, two = self._among(groups), other._among(groups)
        parts = {source: tuple(a + b for a, b in zip(one[source], two[source], strict=True)) for source in self.parts}
        near = doubts.nearest(np.concatenate([self.near, other.near]))
        return Tally(self.n_rows, self.model, self.method, groups, parts, near)

    def __radd__(self, other: Any) -> Tally:  # sum() begins with 0
        return self if other == 0 else NotImplemented

    def _among(self, groups: Groups) -> dict[str, tuple[Counts, ...]]:
        """The same counts among more groups."""
        if groups is self.groups:
            return dict(self.parts)
        codes = np.concatenate(
            [low + code for low, code in zip(groups.offsets, groups.recode(self.groups), strict=True)]
        )

        def wider(table: FloatArray) -> FloatArray:
            found = np.zeros((len(table), sum(groups.sizes), 2, 2))
            found[:, codes] = table
            return found

        return {source: tuple(Counts(*map(wider, counts)) for counts in parts) for source, parts in self.parts.items()}

    @property
    def _described(self) -> str:
        model = f"model {self.model[:8]} of {self.n_rows:,} training rows"
        return f"one of {model}, {self.method}, {', '.join(sorted(self.parts))}"

    def counts(self, source: str) -> Counts:
        """Counts on all rows."""
        if source not in self.parts:
            raise ValueError(f"This tally is not of source {source!r} but of {', '.join(self.parts)}.")
        first, *others = self.parts[source]
        for other in others:
            first = first + other
        return first

    @property
    def of_fit(self) -> Counts:
        """Counts of the decisions of the fit itself: arrays of shape (groups, 2, 2)."""
        return self.counts(next(iter(self.parts))).of(0)

    def pack(self) -> tuple[dict[str, Any], Arrays]:
        """Take it apart into JSON and arrays."""
        meta: dict[str, Any] = {"n_rows": self.n_rows, "model": self.model, "method": self.method}
        meta["groups"] = self.groups.to_json()
        meta |= {"models": len(self.counts(next(iter(self.parts))).rows)}
        tables = {
            f"{source}/{i}": np.stack([table[:1] if source == "evaluation" else table for table in counts])
            for source, parts in self.parts.items()
            for i, counts in enumerate(parts)
        }
        return meta, tables | {"near": self.near}

    @classmethod
    def unpack(cls, meta: dict[str, Any], arrays: Arrays) -> Tally:
        """Put it together again."""
        parts: dict[str, tuple[Counts, ...]] = {}
        for name in sorted(arrays.keys() - {"near"}):
            source, table = name.partition("/")[0], arrays[name]
            table = np.broadcast_to(table, (3, meta["models"], *table.shape[2:]))  # as of the fit, where alone
            parts[source] = (*parts.get(source, ()), Counts(*table))
        groups = Groups.from_json(meta["groups"])
        return cls(meta["n_rows"], meta["model"], meta["method"], groups, parts, arrays["near"])
