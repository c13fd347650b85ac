"""What is counted, on rows held out, of the two models of an audit. Evaluations of two parts of the rows add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from surefair.classifier import FairClassifier
from surefair.inference.sources import Tally
from surefair.rows.arrays import FloatArray
from surefair.storage.archive import Arrays, prefixed, under
from surefair.tables.split import Rows


def tallied(clf: FairClassifier, rows: Rows, sensitive: Sequence[str], sources: Sequence[str]) -> Tally:
    """Count the decisions of a model on rows."""
    groups = rows.by_column(sensitive)
    return clf.tally(rows.X, rows.y, sensitive_features=groups, sources=sources, sample_weight=rows.weight)


class Evaluation(NamedTuple):
    """Counts of decisions, and how often the models are right together."""

    tallies: Mapping[str, Tally]  # by model
    right: FloatArray  # (2, 2), weight of the rows by whether the first model is right, and whether the second is
    square: float  # sum of squared weights

    @classmethod
    def of(cls, models: Mapping[str, FairClassifier], rows: Rows, tallies: Sequence[Tally]) -> Evaluation:
        """Evaluate on some rows, of which the tallies are."""
        decided = [clf.predict(rows.X) if rows.n else np.zeros(0, dtype=bool) for clf in models.values()]
        first, second = (decision == rows.y for decision in decided)
        right = np.array([[float(rows.weight @ (a & b)) for b in (~second, second)] for a in (~first, first)])
        return cls(dict(zip(models, tallies, strict=True)), right, float(rows.weight @ rows.weight))

    def __add__(self, other: Evaluation) -> Evaluation:  # type: ignore[override]
        tallies = {name: tally + other.tallies[name] for name, tally in self.tallies.items()}
        return Evaluation(tallies, self.right + other.right, self.square + other.square)

    @property
    def n(self) -> int:
        """Number of rows."""
        tally = next(iter(self.tallies.values()))
        return int(tally.of_fit.rows[: tally.groups.sizes[0]].sum())  # each counts once in every column

    @property
    def groups(self) -> dict[tuple[Any, Any], int]:
        """Rows of each group, by column and group."""
        tally = next(iter(self.tallies.values()))
        return {label: int(rows.sum()) for label, rows in zip(tally.groups.labels, tally.of_fit.rows, strict=True)}

    def constant(self, model: str) -> bool:
        """Whether a model decides the same for everyone."""
        return bool((self.tallies[model].of_fit.rows.sum(axis=(0, 1)) == 0.0).any())

    def pack(self) -> tuple[dict[str, Any], Arrays]:
        """Take it apart into JSON and arrays."""
        meta: dict[str, Any] = {"square": self.square, "tallies": {}}
        arrays: Arrays = {"right": self.right}
        for name, tally in self.tallies.items():
            meta["tallies"][name], parts = tally.pack()
            arrays |= prefixed(name, parts)
        return meta, arrays

    @classmethod
    def unpack(cls, meta: dict[str, Any], arrays: Arrays) -> Evaluation:
        """Put it together again."""
        tallies = {name: Tally.unpack(packed, under(name, arrays)) for name, packed in meta["tallies"].items()}
        return cls(tallies, arrays["right"], meta["square"])
