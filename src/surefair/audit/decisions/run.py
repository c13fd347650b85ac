"""From a file of decisions or scores to an Audit: one pass, in bounded memory, that can be stopped and resumed."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from importlib.metadata import version
from io import BytesIO
from operator import add
from typing import Any

import pyarrow as pa

from surefair.audit.checkpoint import BAD, check_record
from surefair.audit.decisions.evidence import subjects_of
from surefair.audit.decisions.findings import CHECKED, Sentences, describe_groups, find
from surefair.audit.decisions.groups import ShownGroups
from surefair.audit.decisions.intake import DecisionIntake
from surefair.audit.decisions.settings import DecisionSettings
from surefair.audit.decisions.tally import DecisionTally
from surefair.audit.findings import assumptions, overall
from surefair.audit.result import Audit
from surefair.audit.shards import Shard
from surefair.audit.stream import Run, Stream
from surefair.names import counted
from surefair.storage.archive import Arrays, add_prefix, dump_archive, read_archive, select_prefix
from surefair.storage.checks import value_of
from surefair.tables.intake import with_last
from surefair.tables.positive import two_values

CHUNK = 2**18  # rows read at a time
CLUSTER_CHUNK = 2**16  # the same where rows are in clusters, whose replicates take memory
SENT = ("surefair.decisions", 1)  # format of what a worker sends


class RunningDecisions(Stream):
    """An audit of decisions under way.

    Attributes
    ----------
    settings : DecisionSettings
    source : DataSource
    intake : DecisionIntake
        Turns tables into codes.
    tally : DecisionTally or None
        The counts so far.
    """

    KIND = "decisions"

    settings: DecisionSettings

    def __init__(self, data: Any, settings: DecisionSettings, place: str | None, in_shards: bool = False) -> None:
        super().__init__(data, settings, place, in_shards)
        self.intake = DecisionIntake(self.settings, self.bad, self.source.place)
        self.tally: DecisionTally | None = None
        self.source.coded = [name for name in self.read if name not in (settings.clusters, settings.score)]

    @property
    def n_read(self) -> int:
        """Rows read."""
        return self.intake.read

    @property
    def _size(self) -> int:
        """Rows of a chunk."""
        return CHUNK if self.settings.clusters is None else CLUSTER_CHUNK

    def _tables(self) -> Iterator[tuple[pa.Table, bool]]:
        return with_last(self.source.tables(self._size, self.read))

    def _take(self, table: pa.Table, is_last: bool) -> None:
        """Count the rows of a chunk."""
        found = DecisionTally.of(self.intake.chunk(table), self.intake)
        self.tally = found if self.tally is None else self.tally + found
        self.chunks += 1

    # -- Checkpoints --------------------------------------------------------------------------------------------------

    @classmethod
    def _settings_of(cls, found: dict[str, Any]) -> DecisionSettings:
        return DecisionSettings(**found)

    def _check_meta(self, meta: dict[str, Any]) -> None:
        counted = value_of(meta, "counted", dict)
        value_of(counted, "read", int, low=0, high=2**62)
        for one in value_of(counted, "bad", list):
            check_record(one, BAD)
        for name in DecisionIntake.COUNTERS:
            for column in value_of(counted, name, dict):
                value_of(counted[name], column, int, low=0)
        value_of(meta, "unit", (float, type(None)))

    def _pack(self) -> tuple[dict[str, Any], Arrays]:
        assert self.tally is not None
        meta, arrays = super()._pack()
        described, parts = self.tally.pack()
        meta |= {"counted": self.intake.pack(), "unit": self.intake.weight_unit, "tally": described}
        return meta, arrays | add_prefix("tally", parts)

    def _unpack(self, meta: dict[str, Any], arrays: Arrays) -> None:
        super()._unpack(meta, arrays)
        self.intake.add(meta["counted"])
        self.intake.weight_unit = meta["unit"]
        described = value_of(meta, "tally", dict)
        self.tally = DecisionTally.unpack(described, select_prefix("tally", arrays), self.settings)
        self.intake.know(self.tally.axes)

    # -- Shards -------------------------------------------------------------------------------------------------------

    def _take_shards(self, tasks: list[Shard], run: Run, progress: Callable[[int], None]) -> None:
        """Let workers count shards, and add up what they send."""
        if self.settings.weights is not None:
            self.intake.settle_weights(next(self.source.tables(self._size, self.read)))
        intake = self.intake.elsewhere(0, _nowhere)
        for sent in run(partial(count_shard, intake, self.read, self.source.coded, self._size), tasks):
            meta, arrays = read_archive(BytesIO(sent), *SENT)
            found = DecisionTally.unpack(meta["tally"], arrays, self.settings)
            self.tally = found if self.tally is None else self.tally + found
            self.intake.add(meta["counted"])
            self.shards += 1
            progress(self.n_read)

    # -- The result ---------------------------------------------------------------------------------------------------

    def _result(self) -> Audit:
        """Turn counts into intervals, and sum up."""
        settings, tally = self.settings, self.tally
        if tally is None or not tally.census[0].any():
            why = "; ".join(f"{counted(one['count'], 'row')}: {one['reason']}" for one in self.bad.to_dict())
            raise ValueError(
                f"There is no row to count in the data{f' ({why})' if why else ''}. Check the columns, and that the "
                "file was written to its end."
            )
        shown = ShownGroups.of(tally, settings)
        labels: tuple[str, ...] = ()
        if settings.label is not None:
            labels = two_values(tally.axes.labels, settings.positive, settings.label, "label").words
        subjects = subjects_of(tally, shown, settings, sum(self.intake.zero.values()))
        found = [find(subject) for subject in subjects]
        models = [one.values for one in found]
        verdict = None
        if settings.margins:
            verdict = overall(one["verdict"] for model in models for one in model["verdicts"])
        groups = describe_groups(tally, shown, labels)
        census = tally.census[0, : tally.axes.sizes[0]]
        evaluation = int(census.sum())
        checked = CHECKED if settings.score is None else (*CHECKED, "TiedScores")
        return Audit(
            kind=self.KIND,
            sentence=str(Sentences(settings, models, [*labels], verdict, self.complete)),
            verdict=verdict,
            complete=self.complete,
            settings=settings.to_dict() | {"labels": [*labels]},
            data=self._describe_data(),
            rows={
                "read": self.intake.n_rows, "training": 0, "evaluation": evaluation, "bad": self.bad.to_dict(),
                "folds": None, "labelled": int(census[:, :2].sum()) if labels else None,
            },
            columns=self._describe_columns(),
            groups=groups,
            models=models,
            price=None,
            comparisons=[],
            path=[],
            assumptions=assumptions([d for one in found for d in one.diagnostics], checked),
            versions={"surefair": version("surefair"), "python": platform.python_version()}
            | {name: version(name) for name in ("numpy", "pyarrow")},
        )  # fmt: skip

    def _describe_columns(self) -> list[dict[str, Any]]:
        """How each column was used."""
        roles = self.settings.roles()
        return [
            {"name": name, "role": roles[name], "features": 0, "missing": self.intake.missing[name], "unseen": 0,
             "note": "", "encoding": None}
            for name in self.source.schema.names
            if name in roles
        ]  # fmt: skip


def count_shard(intake: DecisionIntake, read: list[str], coded: Sequence[str], size: int, shard: Shard) -> bytes:
    """Count the rows of a shard."""
    first = shard.pieces[0]
    intake = intake.elsewhere(first.before + first.first, first.place)

    def parts() -> Iterator[DecisionTally]:
        for piece in shard.pieces:
            intake.place = piece.place
            for table in piece.tables(size, read, coded):
                yield DecisionTally.of(intake.chunk(table), intake)

    meta, arrays = reduce(add, parts()).pack()
    return dump_archive(*SENT, {"tally": meta, "counted": intake.pack()}, arrays)


def _nowhere(number: int) -> str:
    return f"row {number + 1:,}"
