"""What is counted about the two models of an audit on held-out rows. Evaluations of two parts, in order, add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefair.audit.copies import Copies
from surefair.audit.pairs import PairedCounts
from surefair.audit.periods import Periods
from surefair.diagnostics import Diagnostic, time_dependence
from surefair.diagnostics.time_dependence import Runs
from surefair.inference.cross_fit import CrossFit
from surefair.inference.sources import Tally
from surefair.rows import FloatArray, Groups, Rows
from surefair.storage.archive import Arrays, add_prefix, select_prefix
from surefair.training.model import Model

METHOD = "percentile"
"""Method of the intervals of an audit."""


def tally_decisions(model: Model, rows: Rows, sources: Sequence[str], n_threads: int) -> Tally:
    """Count the decisions of a model on rows; groups that only training has seen are known too."""
    model = model.answer()
    rows = rows if model.groups is None else rows.among(model.groups.joined_with(rows.groups))
    return Tally.of(model, rows, sources, METHOD, n_threads)


def _together(rows: Rows, right: Sequence[NDArray[np.bool_]]) -> FloatArray:
    """Weight of the rows by whether the first model is right, and whether the second is."""
    first, second = right
    return np.array([[float(rows.weight @ (a & b)) for b in (~second, second)] for a in (~first, first)])


class Evaluation(NamedTuple):
    """Counts of decisions, and how often the models are right together."""

    tallies: Mapping[str, Any]  # by model: a Tally or, where rows are few, a CrossFit
    right: FloatArray  # (2, 2), weight of the rows by whether the first model is right, and whether the second is
    square: float  # sum of squared weights
    periods: Mapping[str, Periods] = {}  # by model: decisions along the rows
    copies: Copies = Copies(0, 0, 0.0)
    pairs: PairedCounts | None = None  # decisions of both models together
    runs: Runs = Runs.of(0)  # how often neighbours in the data differ

    @classmethod
    def of(cls, models: Mapping[str, Model], rows: Rows, tallies: Sequence[Tally]) -> Evaluation:
        """Evaluate on the rows that the tallies were counted on."""
        decisions = {name: model.answer().trained.score(rows.X) > 0.0 for name, model in models.items()}
        return cls._of(dict(zip(models, tallies, strict=True)), rows, decisions)

    @classmethod
    def _of(cls, tallies: Mapping[str, Any], rows: Rows, decisions: Mapping[str, NDArray[np.bool_]]) -> Evaluation:
        right = _together(rows, [decision == (rows.y > 0.0) for decision in decisions.values()])
        periods = {name: Periods.of(rows, decision) for name, decision in decisions.items()}
        constrained, free = decisions.values()
        pairs = PairedCounts.of(rows, free, constrained)
        runs = Runs.of(rows.group.shape[1]).after(rows.truth, rows.group)
        return cls(tallies, right, float(rows.weight @ rows.weight), periods, pairs=pairs, runs=runs)

    @classmethod
    def crossed(cls, models: Mapping[str, Model], rows: Rows, n_threads: int) -> Evaluation:
        """Evaluate by cross-fitting, on the rows that the models were trained on."""
        fits = {name: CrossFit.of(model.problem, rows, n_threads=n_threads) for name, model in models.items()}
        return cls._of(fits, rows, {name: fit.decision > 0 for name, fit in fits.items()})

    def __add__(self, other: Evaluation) -> Evaluation:  # type: ignore[override]
        tallies = {name: tally + other.tallies[name] for name, tally in self.tallies.items()}
        periods = {name: one.followed_by(other.periods[name]) for name, one in self.periods.items()}
        copies = self.copies + other.copies
        assert self.pairs is not None
        assert other.pairs is not None
        pairs = self.pairs + other.pairs
        right, square = self.right + other.right, self.square + other.square
        return Evaluation(tallies, right, square, periods, copies, pairs, self.runs.merge(other.runs))

    def check_order(self) -> list[Diagnostic]:
        """Check whether labels or groups come in clumps in the data, whatever the order of training."""
        rows = self.groups
        columns = [*dict.fromkeys(column for column, _ in rows)]
        counts = [np.array([n for (column, _), n in rows.items() if column == name]) for name in columns]
        return time_dependence.check(self.runs, counts, columns)

    @property
    def n(self) -> int:
        """Number of rows."""
        tally = next(iter(self.tallies.values()))
        return int(tally.of_fit.rows[: tally.groups.sizes[0]].sum())  # each row counts once in every column

    @property
    def groups(self) -> dict[tuple[Any, Any], int]:
        """Rows of each group, by column and group."""
        tally = next(iter(self.tallies.values()))
        return {label: int(rows.sum()) for label, rows in zip(tally.groups.labels, tally.of_fit.rows, strict=True)}

    @property
    def base_rates(self) -> dict[tuple[Any, Any], float | None]:
        """Share of positive labels of each group, by column and group."""
        tally = next(iter(self.tallies.values()))
        labels = tally.of_fit.weight.sum(axis=2)
        shares = (float(one[1] / one.sum()) if one.sum() > 0.0 else None for one in labels)
        return dict(zip(tally.groups.labels, shares, strict=True))

    @property
    def folds(self) -> int | None:
        """Folds of cross-fitting; None where rows were held out."""
        tally = next(iter(self.tallies.values()))
        return len(tally.models) if isinstance(tally, CrossFit) else None

    def is_constant(self, model: str) -> bool:
        """Whether a model decides the same for everyone."""
        return bool((self.tallies[model].of_fit.rows.sum(axis=(0, 1)) == 0.0).any())

    def pack(self) -> tuple[dict[str, Any], Arrays]:
        """Take the evaluation apart into JSON and arrays."""
        meta: dict[str, Any] = {"square": self.square, "tallies": {}, "groups": {}, "copies": self.copies}
        assert self.pairs is not None
        meta["paired"] = self.pairs.groups.to_json()
        arrays: Arrays = {"right": self.right, "paired": self.pairs.table}
        arrays |= add_prefix("runs", self.runs._asdict())
        for name, tally in self.tallies.items():
            meta["tallies"][name], parts = tally.pack()
            arrays |= add_prefix(name, parts)
            periods = self.periods[name]
            meta["groups"][name] = periods.groups.to_json()
            arrays |= add_prefix(f"along {name}", {"weight": periods.weight, "square": periods.square})
        return meta, arrays

    @classmethod
    def unpack(cls, meta: dict[str, Any], arrays: Arrays) -> Evaluation:
        """Rebuild an evaluation from what ``pack`` returned."""
        tallies = {name: Tally.unpack(packed, select_prefix(name, arrays)) for name, packed in meta["tallies"].items()}
        periods = {
            name: Periods(Groups.from_json(groups), **select_prefix(f"along {name}", arrays))
            for name, groups in meta["groups"].items()
        }
        pairs = PairedCounts(Groups.from_json(meta["paired"]), arrays["paired"])
        runs = Runs(**select_prefix("runs", arrays))
        return cls(tallies, arrays["right"], meta["square"], periods, Copies(*meta["copies"]), pairs, runs)
