"""An audit in shards: what a worker does with its part of the rows. Everything it sends back is small, and adds.

Rows are read twice, and files once more for their checksums. In the first pass every worker trains both models on its
shard, from the same start and with multipliers of its own; merged in the order of the shards they are the models of the
audit. In the second, workers count the decisions of those models on the rows held out. What comes out depends on the
data and on where they are cut, not on the engine nor on the number of workers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from io import BytesIO
from operator import add
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from surefair.audit.evaluation import Evaluation, tallied
from surefair.classifier import FairClassifier
from surefair.inference.interval import SOURCES
from surefair.parallel.blocks import shard_seed
from surefair.rows.arrays import FloatArray
from surefair.storage.archive import Arrays, archived, changed, prefixed, read_archive, under
from surefair.storage.checkpoints import pack, unpack
from surefair.tables.intake import Intake
from surefair.tables.source import DataFile, Piece
from surefair.tables.split import Rows

FORMAT, VERSION = "surefair.shard", 1

Packed = dict[str, tuple[dict[str, Any], Arrays]]
"""Models, taken apart."""


class Shard(NamedTuple):
    """A worker's part of the rows."""

    number: int
    pieces: list[Piece]


@dataclass(frozen=True, eq=False)
class Plan:
    """What every worker is told.

    Attributes
    ----------
    intake : Intake
        Settled on the first rows.
    columns : list of str
        To be read.
    chunk : int
        Rows taken at a time.
    held_out : float
        Rows whose side is below are held out.
    apart : ndarray
        Sides of the rows of D'.
    models : dict
        Before their first row, or trained.
    """

    intake: Intake
    columns: list[str]
    chunk: int
    held_out: float
    apart: FloatArray
    models: Packed

    def classifiers(self) -> dict[str, FairClassifier]:
        """Put the models together again."""
        return {name: unpack(*packed) for name, packed in self.models.items()}

    def rows(self, shard: Shard, intake: Intake) -> Iterator[Rows]:
        """Rows of a shard, some at a time."""
        for piece in shard.pieces:
            intake.place = piece.place
            for table in piece.tables(self.chunk, self.columns):
                yield intake.rows(table)

    def begin(self, shard: Shard) -> Intake:
        """Return an intake for the rows of a shard."""
        first = shard.pieces[0]
        return self.intake.elsewhere(first.before + first.first, first.place)


class Trained(NamedTuple):
    """What comes back of a shard that was trained on."""

    counted: dict[str, Any]  # by its intake
    apart: int  # rows that belong with D'
    n_rows: int  # trained on; models without any answer from D', and would say otherwise
    models: dict[str, FairClassifier]


def packed(models: Mapping[str, FairClassifier]) -> Packed:
    """Take models apart."""
    return {name: pack(clf) for name, clf in models.items()}


def train(plan: Plan, shard: Shard) -> bytes:
    """Train both models on a shard.

    What it warns of on the way is left to the driver, which sees it in the merged models: to catch warnings is not safe
    where a worker has several threads.
    """
    settings, intake, apart, n_rows = plan.intake.settings, plan.begin(shard), 0, 0
    seed = shard_seed(settings.random_state, shard.number)
    models = {name: clf._reseeded(seed) for name, clf in plan.classifiers().items()}
    if shard.number > 0:  # rows of D' are counted with the first
        models = {name: clf._uncounted() for name, clf in models.items()}
    for number, rows in enumerate(plan.rows(shard, intake)):
        known = np.isin(rows.side, plan.apart)
        apart += int(known.sum())
        rows = rows.part(~known & (rows.side >= plan.held_out))
        n_rows += rows.n
        if not settings.keep_order:
            order = np.random.default_rng([settings.random_state, 11, shard.number, number])
            rows = rows.part(order.permutation(rows.n))
        for clf in models.values():
            learn(clf, rows, settings.sensitive)
    meta: dict[str, Any] = {"counted": intake.pack(), "apart": apart, "n_rows": n_rows, "models": {}}
    arrays: Arrays = {}
    for name, clf in models.items():
        meta["models"][name], parts = pack(clf)
        arrays |= prefixed(name, changed(parts, plan.models[name][1]))
    return archived(FORMAT, VERSION, meta, arrays)


def trained(plan: Plan, found: bytes) -> Trained:
    """Read what ``train`` sent."""
    meta, arrays = _received(found)
    models = {
        name: unpack(meta["models"][name], known | under(name, arrays)) for name, (_, known) in plan.models.items()
    }
    return Trained(meta["counted"], meta["apart"], meta["n_rows"], models)


def evaluate(plan: Plan, shard: Shard) -> bytes:
    """Count the decisions of both models on the rows of a shard that are held out."""
    models, intake = plan.classifiers(), plan.begin(shard)

    def counted(rows: Rows) -> Evaluation:
        sensitive = intake.settings.sensitive
        return Evaluation.of(models, rows, [tallied(clf, rows, sensitive, [*SOURCES]) for clf in models.values()])

    return archived(FORMAT, VERSION, *reduce(add, map(counted, _held_out(plan, shard, intake))).pack())


def _held_out(plan: Plan, shard: Shard, intake: Intake) -> Iterator[Rows]:
    """Rows of a shard that are held out, many at a time: halves of one or two rows, as tallies draw, say nothing."""
    held: Rows | None = None
    for rows in plan.rows(shard, intake):
        part = rows.part(rows.side < plan.held_out)
        held = part if held is None else held.followed_by(part)
        if held.n >= plan.chunk:
            yield held
            held = held.part(slice(0))
    if held is None:
        raise ValueError(f"{shard.pieces[0].path.name} had rows when it was opened, and has none now.")
    yield held


def evaluated(found: bytes) -> Evaluation:
    """Read what ``evaluate`` sent."""
    return Evaluation.unpack(*_received(found))


def digest(path: Path) -> bytes:
    """Size and checksum of a file."""
    return json.dumps(DataFile.of(path)._asdict()).encode()


def learn(clf: FairClassifier, rows: Rows, sensitive: tuple[str, ...]) -> None:
    """Train a model on rows."""
    groups = rows.by_column(sensitive)
    clf.partial_fit(rows.X, rows.y, sensitive_features=groups, classes=[False, True], sample_weight=rows.weight)


def _received(found: bytes) -> tuple[dict[str, Any], Arrays]:
    return read_archive(BytesIO(found), FORMAT, VERSION)
