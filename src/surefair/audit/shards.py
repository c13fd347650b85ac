"""An audit in shards: what a worker does with its part of the rows. What it sends back is small, and parts add up.

Rows are read twice, and files once more for their checksums. In the first pass every worker trains both models on its
shard, from the same start and with its own multipliers; merged in the order of the shards they are the models of the
audit. In the second pass workers count the decisions of those models on the held-out rows. The result depends on the
data and on where they are cut, not on the engine or the number of workers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from io import BytesIO
from operator import add
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from surefair.audit.copies import copies_among
from surefair.audit.evaluation import Evaluation, tally_decisions
from surefair.audit.settings import AuditSettings
from surefair.inference.sources import SOURCES
from surefair.parallel.shards import FORMAT, VERSION, Packed, send, train_shard, unpack_models
from surefair.rows import FloatArray, Rows
from surefair.storage.archive import dump_archive, read_archive
from surefair.tables.files import DataFile, Piece
from surefair.tables.intake import Intake
from surefair.tables.split import side_of

PLACES = 100  # row groups from which rows are read to settle the columns


class Shard(NamedTuple):
    """A worker's part of the rows."""

    number: int
    pieces: list[Piece]


@dataclass(frozen=True, eq=False)
class Plan:
    """What every worker needs to know.

    Attributes
    ----------
    settings : AuditSettings
    intake : Intake
        Settled on the first rows.
    read : list of str
        Columns to read.
    chunk : int
        Rows taken at a time.
    held_out : float
        Rows whose side is below this are held out.
    settled : int
        Number of the first rows, on which everything was settled.
    warmup : ndarray
        Sides of the warm-up rows, which are among these.
    models : dict
        Models that have taken the warm-up rows, or trained.
    """

    settings: AuditSettings
    intake: Intake
    read: list[str]
    chunk: int
    held_out: float
    settled: int
    warmup: FloatArray
    models: Packed

    def begin(self, shard: Shard) -> Intake:
        """Return an intake for the rows of a shard."""
        first = shard.pieces[0]
        return self.intake.elsewhere(first.before + first.first, first.place)

    def parts(self, shard: Shard, intake: Intake) -> Iterator[tuple[Rows, Rows]]:
        """Rows of a shard to hold out and to train on, some at a time, without the warm-up rows."""
        for piece in shard.pieces:
            intake.place = piece.place
            for table in piece.tables(self.chunk, self.read):
                first = max(0, min(self.settled - intake.first - intake.read, table.num_rows))
                for part, known in ((table[:first], self.warmup), (table[first:], np.empty(0))):
                    if part.num_rows:
                        rows = intake.rows(part)
                        side = side_of(rows, self.settings.random_state)
                        out = side < self.held_out
                        yield rows.part(out), rows.part(~out & ~np.isin(side, known))


def sample(shards: Sequence[Shard], size: int, columns: list[str]) -> pa.Table:
    """Read about so many rows from many row groups, spread evenly over all shards."""
    groups = [
        piece._replace(row_groups=(group,)) for shard in shards for piece in shard.pieces for group in piece.row_groups
    ]
    n = min(PLACES, len(groups))
    chosen = [groups[i] for i in np.unique(np.linspace(0, len(groups) - 1, n).astype(int))]
    tables = (next(iter(group.tables(-(-size // n), columns)), None) for group in chosen)
    return pa.concat_tables([table for table in tables if table is not None]).combine_chunks()


def train(plan: Plan, shard: Shard) -> bytes:
    """Train both models on a shard."""
    settings = plan.settings
    intake = plan.begin(shard)
    models = unpack_models(plan.models)
    n_rows = 0

    def batches() -> Iterator[Rows]:
        nonlocal n_rows
        for number, (_, rows) in enumerate(plan.parts(shard, intake)):
            n_rows += rows.n
            if not settings.keep_order:
                order = np.random.default_rng([settings.random_state, 11, shard.number, number])
                rows = rows.part(order.permutation(rows.n))
            yield rows.trimmed()

    trained = train_shard(models, settings.random_state, shard.number, batches())
    return send(trained, plan.models, counted=intake.pack(), n_rows=n_rows)


def evaluate(plan: Plan, shard: Shard) -> bytes:
    """Count the decisions of both models on the held-out rows of a shard."""
    models = unpack_models(plan.models)
    intake = plan.begin(shard)

    def counted(rows: Rows) -> Evaluation:
        tallies = [tally_decisions(model, rows, [*SOURCES], 1) for model in models.values()]
        copies = copies_among(rows, plan.intake.feature_places)
        return Evaluation.of(models, rows, tallies)._replace(copies=copies)

    found = reduce(add, map(counted, _held_out(plan, shard, intake)))
    return dump_archive(FORMAT, VERSION, *found.pack())


def _held_out(plan: Plan, shard: Shard, intake: Intake) -> Iterator[Rows]:
    """Held-out rows of a shard, many at a time, because random halves of one or two rows say nothing."""
    held: Rows | None = None
    for part, _ in plan.parts(shard, intake):
        held = part.trimmed() if held is None else held.followed_by(part.trimmed())
        if held.n >= plan.chunk:
            yield held
            held = held.part(slice(0))
    if held is None:
        raise ValueError(f"{shard.pieces[0].path.name} had rows when it was opened, and has none now.")
    yield held


def read_evaluation(sent: bytes) -> Evaluation:
    """Read what ``evaluate`` sent."""
    return Evaluation.unpack(*read_archive(BytesIO(sent), FORMAT, VERSION))


def digest(path: Path) -> bytes:
    """Size and checksum of a file."""
    return json.dumps(DataFile.of(path)._asdict()).encode()
