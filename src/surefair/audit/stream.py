"""What every audit of a file shares: one pass over the data in chunks, with checkpoints, that can stop and resume.

Between two chunks the state is small and complete. That is where a checkpoint is written, and where an audit that was
stopped resumes, with bit-identical results.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from types import NoneType
from typing import Any, ClassVar, NoReturn, Self

import pyarrow as pa
from joblib import effective_n_jobs

from surefair import engines
from surefair.audit import checkpoint as checkpoints
from surefair.audit.checkpoint import Folder
from surefair.audit.result import Audit
from surefair.audit.shards import Shard, digest
from surefair.storage.archive import Arrays, check_same, naming
from surefair.storage.atomic import refuse_inside
from surefair.storage.checks import value_of
from surefair.storage.lock import locked
from surefair.tables.bad_rows import BadRows
from surefair.tables.source import DataSource

SHARD_ROWS = 1_000_000  # rows of a shard on a cluster, at least, by default
MOST_SHARDS = 64  # shards on a cluster by default
SECONDS = 60.0  # between two checkpoints by default

Run = Callable[[Callable[[Shard], bytes], list[Shard]], Iterator[bytes]]
"""Lets workers do something with each shard, and passes on what they send, in order."""


class Stream:
    """An audit under way: what it knows between two chunks.

    A subclass says what to do with a chunk (``_take``), how its state is written and read (``_pack``, ``_unpack``), and
    what follows from it (``_result``).

    Attributes
    ----------
    settings : Any
        What was asked for; how the data are read is in it too.
    source : DataSource
    chunks, shards : int
        Chunks or shards read.
    """

    KIND: ClassVar[str]  # of audit, written into checkpoints
    PLAIN: ClassVar[tuple[str, ...]] = ("files", "so_far", "chunks", "complete")  # written to JSON as they are

    def __init__(self, data: Any, settings: Any, place: str | None, in_shards: bool = False) -> None:
        self.bad = BadRows(settings.max_bad_rows)
        self.source: DataSource = settings.open(data, self.bad)
        if in_shards and settings.shard_rows is None:
            rows = -(-(self.source.n_rows or 0) // MOST_SHARDS)
            settings = replace(settings, shard_rows=max(SHARD_ROWS, rows))
        self.settings = settings
        self.place = place  # where the data are found again
        self.read = settings.to_read(self.source.schema)
        self.files = [] if settings.shard_rows else self._describe_files()
        self.so_far: list[dict[str, Any]] = []  # what was read of a stream up to the last chunk, with its checksum
        self.chunks = 0
        self.shards = 0
        self.complete = False
        self.notes: list[str] = []  # about damaged checkpoints
        self.n_jobs = 1

    # -- What differs between audits ----------------------------------------------------------------------------------

    @property
    def n_read(self) -> int:
        """Rows read."""
        raise NotImplementedError

    def _tables(self) -> Iterator[tuple[pa.Table, bool]]:
        """Yield the chunks, each with whether it is the last."""
        raise NotImplementedError

    def _take(self, table: pa.Table, is_last: bool) -> None:
        """Take a chunk."""
        raise NotImplementedError

    def _check_columns(self) -> None:
        """Refuse a checkpoint that does not fit what the first chunk shows."""

    def _pack(self) -> tuple[dict[str, Any], Arrays]:
        """Take the state apart into JSON and arrays."""
        meta: dict[str, Any] = {name: getattr(self, name) for name in self.PLAIN}
        return meta | {"kind": self.KIND, "settings": self.settings.to_dict(), "place": self.place}, {}

    def _unpack(self, meta: dict[str, Any], arrays: Arrays) -> None:
        """Rebuild the state from what ``_pack`` returned."""
        for name in self.PLAIN:
            setattr(self, name, meta[name])

    @classmethod
    def _settings_of(cls, found: dict[str, Any]) -> Any:
        """Return the settings that a checkpoint has, checked."""
        raise NotImplementedError

    def _check_meta(self, meta: dict[str, Any]) -> None:
        """Refuse plain values that no audit of this kind writes."""

    def _result(self) -> Audit:
        """Sum up."""
        raise NotImplementedError

    def _take_shards(self, tasks: list[Shard], run: Run, progress: Callable[[int], None]) -> None:
        """Let workers read the shards, and put together what they send."""
        raise NotImplementedError

    def _sharded_result(self) -> Audit:
        """Sum up, after all shards were read."""
        return self._result()

    # -- Beginning, stopping, resuming --------------------------------------------------------------------------------

    @classmethod
    def begin(cls, data: Any, settings: Any, checkpoint: Folder | None = None, *, in_shards: bool = False) -> Self:
        """Open the data, to be read as one stream or in shards."""
        if checkpoint is not None and checkpoints.kept(checkpoint):
            raise ValueError(
                f"{os.fspath(checkpoint)!r} holds the checkpoint of an audit. Continue it with sf.resume "
                "(on the command line: surefair resume), or name another folder."
            )
        if checkpoint is not None:
            refuse_inside(checkpoint, data, "folder of checkpoints")
        place = str(data) if isinstance(data, str | os.PathLike) else None
        return cls(data, settings, place if place in (None, "-") else os.path.realpath(place), in_shards)

    @classmethod
    def restore(cls, checkpoint: Folder, data: Any = None) -> Self:
        """Open the data again, with the state of the newest checkpoint that is not damaged."""
        path, meta, arrays, notes = checkpoints.read_newest(checkpoint)
        with naming(path):
            if value_of(meta, "kind", str) != cls.KIND:
                raise ValueError(f"This is not a checkpoint of an audit of {cls.KIND}.")
            place = value_of(meta, "place", (str, NoneType))
            settings = cls._settings_of(value_of(meta, "settings", dict))
            checkpoints.check_plain(meta)
        if data is None and place is None:
            raise ValueError("This was an audit of a data frame or a file object. Pass the same data again.")
        running = cls(place if data is None else data, settings, place)
        if place == "-" and not running.is_stream:
            raise ValueError(
                "This was an audit of standard input. Pass the same bytes to standard input again, and leave out data "
                "(--data) or make it '-'."
            )
        if _contents(running.files) != _contents(meta["files"]):  # for a stream, of its first bytes
            raise ValueError(
                f"The data are not those of the checkpoint: {_listed(meta['files'])} then, {_listed(running.files)} "
                "now. Continue with the same data, or start a new audit."
            )
        with naming(path):
            running._check_meta(meta)
            running._unpack(meta, arrays)
            check_same((meta, arrays), running._pack())
        running.notes = notes
        return running

    def run(
        self,
        *,
        checkpoint: Folder | None = None,
        seconds: float = SECONDS,
        every: int | None = None,
        n_jobs: int | None = None,
        progress: Callable[[int], None] = lambda rows: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Audit:
        """Read to the end, or until asked to stop.

        Parameters
        ----------
        checkpoint : path, optional
            Folder for checkpoints.
        seconds, every : float, int
            A checkpoint is written after so many seconds, or after so many rows.
        n_jobs : int, optional
        progress : callable
            Called with the number of rows read, after each chunk.
        stop : callable
            Called after each chunk; returns whether to stop.
        """
        if checkpoint is None:
            return self._run(None, seconds, every, n_jobs, progress, stop)
        checkpoints.prepare(checkpoint)
        with locked(checkpoint):
            return self._run(checkpoint, seconds, every, n_jobs, progress, stop)

    def run_in_shards(
        self,
        engine: str = "local",
        address: str | None = None,
        *,
        n_jobs: int | None = None,
        progress: Callable[[int], None] = lambda rows: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Audit:
        """Read shards on many workers, to the end.

        Parameters
        ----------
        engine, address, n_jobs
            As in ``audit``.
        progress : callable
            Called with the number of rows read so far, after each shard.
        stop : callable
            Called after each shard; returns whether to give up.
        """
        tasks = self._tasks()
        with engines.connected(engine, address, n_jobs) as run:
            self._take_shards(tasks, lambda work, some: _until(stop, run(work, some)), progress)
            self.files = [json.loads(file) for file in run(digest, self.source.paths)]
            self.source.check_unchanged()
            self.complete = True
            return self._sharded_result()

    def _tasks(self) -> list[Shard]:
        size = self.settings.shard_rows or SHARD_ROWS
        return [Shard(number, pieces) for number, pieces in enumerate(self.source.shards(size))]

    def _run(
        self,
        checkpoint: Folder | None,
        seconds: float,
        every: int | None,
        n_jobs: int | None,
        progress: Callable[[int], None],
        stop: Callable[[], bool],
    ) -> Audit:
        """Read to the end, or until asked to stop, as the only one who writes to the folder of checkpoints."""
        if checkpoint is not None:
            checkpoints.clean(checkpoint)
        self.n_jobs = effective_n_jobs(n_jobs)
        last = time.monotonic()
        saved = self.n_read
        stopped = False
        number = -1
        for number, (table, is_last) in enumerate(self._tables()):
            if number < self.chunks:
                self._check_columns()
                if self.is_stream and number + 1 == self.chunks and self._describe_files() != self.so_far:
                    self._refuse_stream()
                continue
            if stopped:  # and there is more to read
                break
            self._take(table, is_last)
            self.so_far = self._describe_files() if self.is_stream else []
            progress(self.n_read)
            stopped = stop()
            due = time.monotonic() - last > seconds if every is None else self.n_read - saved >= every
            if checkpoint is not None and due:
                self.source.check_unchanged()
                self._save(checkpoint)
                last = time.monotonic()
                saved = self.n_read
        else:
            if number + 1 < self.chunks:
                self._refuse_stream()
            self.complete = True
        self._check_unchanged()
        if checkpoint is not None and self.chunks:
            self._save(checkpoint)
        return self._result()

    def _save(self, folder: Folder) -> None:
        checkpoints.write(folder, self.chunks, self.n_read, *self._pack())

    @property
    def is_stream(self) -> bool:
        """Whether the data can be read once only."""
        return self.source.kind == "csv" and self.source.n_bytes is None

    def _describe_files(self) -> list[dict[str, Any]]:
        """Name, size and checksum of each file; of a stream, what was read of it so far."""
        return [file._asdict() for file in self.source.files()]

    def _describe_data(self) -> dict[str, Any]:
        """Name, kind and files of the data, and the number of shards, where they were read in shards."""
        files = self._describe_files() if self.is_stream else self.files
        data = {"name": self.source.name, "kind": self.source.kind, "files": files}
        return data | ({"shards": self.shards} if self.shards else {})

    def _check_unchanged(self) -> None:
        """Refuse data that have changed since they were opened: their size, time or checksum."""
        self.source.check_unchanged()
        if not self.is_stream and _contents(now := self._describe_files()) != _contents(self.files):
            raise ValueError(
                f"The data were changed while they were read: {_listed(self.files)} at the start, {_listed(now)} at "
                "the end. Start again, and leave the data as they are."
            )

    def _refuse_stream(self) -> NoReturn:
        """Refuse a stream whose bytes differ from those that were read up to the checkpoint, or that ends before."""
        raise ValueError(
            f"The data are not those of the checkpoint: {_listed(self.so_far)} were read up to it then, and "
            f"{_listed(self._describe_files())} now. Continue with the same data, or start a new audit."
        )


def _until(stop: Callable[[], bool], results: Iterable[bytes]) -> Iterator[bytes]:
    """Pass results on, until asked to give up."""
    for result in results:
        yield result
        if stop():
            raise KeyboardInterrupt


def _contents(files: list[dict[str, Any]]) -> list[tuple[int, str]]:
    """Size and checksum of files, whose names may have changed."""
    return [(file["size"], file["sha256"]) for file in files]


def _listed(files: list[dict[str, Any]]) -> str:
    shown = [f"{file['name']!r} of {file['size']:,} bytes, SHA-256 {file['sha256'][:12]}…" for file in files[:3]]
    return ", ".join(shown) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
