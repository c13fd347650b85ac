"""Watching: follow a source of decisions, count every row exactly once, and say at any time what is known."""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

import pandas as pd

from surefair.inference.interval import plain
from surefair.monitor.coding import Ready, Roles, code, ready
from surefair.monitor.detector import Alarm
from surefair.monitor.following import (
    Changed,
    Columns,
    Part,
    Position,
    can_grow,
    check_same_file,
    is_complete,
    is_same,
    listed,
    read_lines,
    read_new,
    read_stream,
)
from surefair.monitor.journal import Journal
from surefair.monitor.monitor import FairnessMonitor
from surefair.monitor.status import write_status
from surefair.names import counted
from surefair.rows import IntArray
from surefair.storage.atomic import try_to_write
from surefair.storage.lock import locked
from surefair.tables.bad_rows import TooManyBadRows
from surefair.tables.csv import Dialect
from surefair.tables.reading import in_order

POSITIVE = "1"
"""The positive decision and label, if nobody says which it is."""

FIRST = 64  # rows of the first look that is kept for the chart
PER_OCTAVE = 4  # looks that are kept while rows double
STATUS_SECONDS = 5.0  # between two status pages while there is much to read


@dataclass(frozen=True)
class WatchSettings:
    """What to watch.

    Attributes
    ----------
    source : str
        A CSV file that may grow, a folder, or "-" for standard input.
    decision, label, id : str
        Columns; ``label`` and ``id`` may be None.
    sensitive : tuple of str
    margin, metric, confidence_level, run_length, update_rows
        As in ``FairnessMonitor``.
    positive : str, optional
        The positive decision and label, as text. By default the second in sorted order, as in an audit. A watcher must
        know it before the first row, so it then takes "1", and refuses values of which "1" is not the second.
    window : int
        Decisions after which an id is forgotten.
    delimiter, encoding : str
        Of CSV.
    max_bad_rows : int
        Rows that may be unusable before the watcher stops.
    """

    source: str
    decision: str
    sensitive: tuple[str, ...]
    margin: float
    label: str | None = None
    id: str | None = None
    metric: str = "demographic_parity"
    confidence_level: float = 0.95
    run_length: float = 10_000
    update_rows: int = 1000
    positive: str | None = None
    window: int = 1_000_000
    delimiter: str = ","
    encoding: str = "utf-8"
    max_bad_rows: int = 1000

    def monitor(self) -> FairnessMonitor:
        """Start a monitor with these settings."""
        return FairnessMonitor(
            self.metric, margin=self.margin, confidence_level=self.confidence_level, run_length=self.run_length,
            update_rows=self.update_rows, pos_label=self.positive_word,
        )  # fmt: skip

    def check(self) -> Roles:
        """Check the settings, and return which columns serve for what."""
        needs_labels = self.monitor().needs_labels
        if needs_labels and self.label is None:
            raise ValueError(f"The metric {self.metric!r} needs labels. Name their column by label (--label).")
        if not self.sensitive:
            raise ValueError("Name at least one sensitive column (--sensitive).")
        if len({self.decision, *self.sensitive, self.label, self.id} - {None}) < len(self._columns):
            raise ValueError(f"A column can serve for one thing only; received {', '.join(self._columns)}.")
        if self.window < 1 or self.update_rows < 1:
            raise ValueError("window and update_rows must be 1 or larger.")
        return Roles(self.decision, self.sensitive, self.label, self.id, self.positive_word, needs_labels)

    @property
    def positive_word(self) -> str:
        """The positive decision and label."""
        return POSITIVE if self.positive is None else self.positive

    def check_other(self, other: str | None) -> None:
        """Refuse a second value that would be the positive one in an audit, if nobody said which is positive."""
        if self.positive is None and other is not None and in_order(other) > in_order(POSITIVE):
            raise ValueError(
                f"A decision or label is {other!r}, so {POSITIVE!r} is not the second value in sorted order. Say which "
                "value is positive (--positive)."
            )

    @property
    def _columns(self) -> list[str]:
        return [one for one in (self.decision, *self.sensitive, self.label, self.id) if one is not None]


class Watcher:
    r"""Follow a source, with its state in a checkpoint folder.

    Parameters
    ----------
    settings : WatchSettings
    folder : Path
        Checkpoint folder, which only one watcher uses at a time. The status files are written there, too.
    on_alarm : callable, optional
        Called with every new alarm, after it has been written down.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "log.csv").write_text("approved,sex\n" + "1,f\n0,m\n" * 100)
    ...     watched = WatchSettings(str(Path(folder, "log.csv")), "approved", ("sex",), margin=0.2)
    ...     with Watcher(watched, Path(folder, "state")) as watcher:
    ...         _ = watcher.step()
    ...         watcher.monitor.verdict
    'violates margin'
    """

    def __init__(
        self, settings: WatchSettings, folder: Path, on_alarm: Callable[[Alarm, dict[str, Any]], None] | None = None
    ) -> None:
        self.settings = settings
        self.folder = folder
        self.on_alarm = on_alarm
        self.roles = settings.check()
        self._columns = Columns(self.roles.names, Dialect(None, settings.delimiter, settings.encoding))
        self._held: dict[str, IO[bytes]] = {}  # growing files, open, so that a file that is renamed is read to its end
        self._written = -1.0

    def __enter__(self) -> Watcher:
        self.folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as opened:
            opened.enter_context(locked(self.folder, "watcher"))
            try_to_write(self.folder)
            self.journal = Journal(self.folder, self._identity, self.settings.monitor())
            opened.callback(self.journal.close)
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        for file in self._held.values():
            file.close()
        self._opened.close()

    @property
    def _identity(self) -> dict[str, Any]:
        """Settings that decide what is counted; the others may change between two starts."""
        kept = asdict(self.settings)
        for name in ("max_bad_rows", "encoding", "delimiter"):
            del kept[name]
        kept["positive"] = self.settings.positive_word
        kept["source"] = "-" if self.settings.source == "-" else os.path.realpath(self.settings.source)
        return kept

    @property
    def monitor(self) -> FairnessMonitor:
        """The monitor as it is now."""
        return self.journal.monitor

    # -- Steps --------------------------------------------------------------------------------------------------------

    def step(self, stop: Callable[[], bool] = lambda: False) -> bool:
        """Read what is new, and write the status; returns whether there was anything new."""
        try:
            return self._step(stop)
        except sqlite3.Error as error:
            raise OSError(
                f"The checkpoint in {str(self.folder)!r} cannot be written: {error}. Nothing is lost. Make room, and "
                "start again."
            ) from error

    def _step(self, stop: Callable[[], bool]) -> bool:
        found = False
        for part in self._new_parts(stop):
            self._count(part)
            found = True
            if self._untold() or time.monotonic() - self._written > STATUS_SECONDS:
                self.write_status()
            self._tell_alarms()
            if stop():
                break
        if found or self._written < 0:
            self.write_status()
        self._tell_alarms()
        return found

    def _new_parts(self, stop: Callable[[], bool]) -> Iterator[Part]:
        source = self.settings.source
        if source == "-":
            yield from read_stream(sys.stdin.fileno(), self._columns, stop)
            return
        path = Path(source)
        if not path.exists() and not self.journal.positions():
            raise FileNotFoundError(f"There is no file or folder {source!r}. Check its name.")
        if path.is_dir():
            files = listed(path)
            self._follow_renamed(files)
            for file in files:
                yield from self._of_folder(file)
        elif path.exists():  # between two steps of a rotation there may be no file
            yield from self._of_file(path)

    def _follow_renamed(self, files: list[Path]) -> None:
        """Give positions of files that were renamed in a folder their new names."""
        inodes = {file.name: file.stat().st_ino for file in files}
        strangers = [file for file in files if self.journal.position(file.name).inode != inodes[file.name]]
        if not strangers:
            return
        lost = {one.inode: one for one in self.journal.positions() if inodes.get(one.name) != one.inode}
        moved = {}
        for file in strangers:
            position = lost.get(inodes[file.name])
            if position is not None and is_same(file, position):
                moved[file.name] = position
        if moved:
            with self.journal.transaction():
                self.journal.rename_positions(moved)

    def _of_folder(self, path: Path) -> Iterator[Part]:
        """Read a file in a folder."""
        position = self.journal.position(path.name)
        if can_grow(path) or position.head or is_complete(path):
            yield from read_new(path, position, self._columns)

    def _of_file(self, path: Path) -> Iterator[Part]:
        """Read a file that grows; if it was rotated, first read the old one to its end."""
        position = self.journal.position(path.name)
        if not can_grow(path):
            yield from read_new(path, position, self._columns)
            return
        if path.name not in self._held:
            self._held[path.name] = _open_again(path, position)
        held = self._held[path.name]
        yield from read_lines(held, position, self._columns)
        now = path.stat()
        if os.path.samestat(os.fstat(held.fileno()), now) or now.st_size == 0:
            return  # while the new file is empty, whoever writes may still be writing to the old one
        yield from read_lines(held, self.journal.position(path.name), self._columns, ended=True)
        position = replace(Position(path.name), rows=self.journal.position(path.name).rows)
        with self.journal.transaction():
            self.journal.keep_position(position)
            self.journal.keep("rotations", self.journal.kept("rotations", 0) + 1)
        self._held.pop(path.name).close()  # only now: the old file may be deleted already
        self._held[path.name] = path.open("rb")
        yield from read_lines(self._held[path.name], position, self._columns)

    # -- Counting -----------------------------------------------------------------------------------------------------

    def _count(self, part: Part) -> None:
        """Count the rows of a part, all or none."""
        journal, bad = self.journal, part.bad
        with journal.transaction():
            coded = code(part.table, self.roles, journal.kept("other"))
            self.settings.check_other(coded.other)
            if coded.ids is None:
                rows = ready(coded, self.roles, bad)
            else:
                rows = journal.join(coded, self.roles, self.settings.window, bad)
            self._feed(rows, coded.other)
            journal.keep("other", coded.other)
            journal.keep_position(part.position)
            journal.add_bad(bad)
            self._check_bad()
            journal.keep_monitor()

    def _feed(self, rows: Ready, other: str | None) -> None:
        """Pass rows to the monitor, with a look at the interval whenever so many rows are there."""
        low = 0
        while low < len(rows.decision):
            end = min(len(rows.decision), low + next_look(self.monitor.n) - self.monitor.n)
            part = rows.part(low, end)
            truth = self._words(part.truth, other) if self.roles.needs_labels else None
            self.monitor.update(self._words(part.decision, other), sensitive_features=part.groups, y_true=truth)
            low = end
            if self.monitor.n == next_look(self.monitor.n - 1) and self.monitor.is_comparable:
                interval = self.monitor.interval()
                look = {name: getattr(interval, name) for name in ("estimate", "low", "high", "reason")}
                look["verdict"] = interval.verdict(self.settings.margin)
                self.journal.add_look({"rows": self.monitor.n} | plain(look))

    def _words(self, codes: IntArray, other: str | None) -> pd.Series:
        """Decisions or labels as they are written."""
        positive = self.settings.positive_word
        names = pd.Index([other or f"not {positive}", positive])
        return pd.Series(pd.Categorical.from_codes(codes, names))

    def _check_bad(self) -> None:
        bad = self.journal.bad()
        if sum(bad.values()) > self.settings.max_bad_rows:
            listed_reasons = "; ".join(f"{reason}: {count:,}" for reason, count in bad.items())
            raise TooManyBadRows(
                f"{counted(sum(bad.values()), 'row')} cannot be used, and the limit is {self.settings.max_bad_rows:,}. "
                f"{listed_reasons}. Fix the data or raise max_bad_rows (--max-bad-rows)."
            )

    # -- What is written ----------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Everything that is known, ready for JSON; the counts do not depend on when rows were read."""
        journal = self.journal
        files = [{"name": one.name, "rows": one.rows} for one in journal.positions()]
        found = self.monitor.to_dict()
        counts = found.pop("counts")
        kept = ("rows", "updates", "alarms")
        return found | {
            "watch": asdict(self.settings)
            | {"sensitive": [*self.settings.sensitive], "positive": self.settings.positive_word},
            "counts": {name: counts[name] for name in kept}, "labels": journal.fates(),
            "bad_rows": journal.bad(), "files": files, "rotations": journal.kept("rotations", 0),
            "path": journal.path(),
        }  # fmt: skip

    def write_status(self) -> None:
        """Write status.json, status.html and metrics.prom, each completely or not at all."""
        write_status(self.status(), self.folder)
        self._written = time.monotonic()

    def _tell_alarms(self) -> None:
        """Pass on alarms that nobody has been told of; after a crash, the last one may be told twice."""
        untold = self._untold()
        for number, alarm in enumerate(untold, self.monitor.counts["alarms"] - len(untold) + 1):
            if self.on_alarm is not None:
                self.on_alarm(alarm, self.monitor.to_dict())
            with self.journal.transaction():
                self.journal.keep("told", number)

    def _untold(self) -> tuple[Alarm, ...]:
        """Alarms that nobody has been told of."""
        new = self.monitor.counts["alarms"] - self.journal.kept("told", 0)
        return self.monitor.alarms[-new:] if new else ()


def _open_again(path: Path, position: Position) -> IO[bytes]:
    """Open the file that was read before; if it was renamed, it is beside the one that has its name now."""
    if position.inode and path.stat().st_ino != position.inode:
        for other in sorted(path.parent.iterdir()):
            if other.is_file() and other.stat().st_ino == position.inode:
                return other.open("rb")
        _check_copy(path, position)
    return path.open("rb")


def _check_copy(path: Path, position: Position) -> None:
    """Accept a copy of the file that was read before, with the same first bytes; refuse any other file."""
    with path.open("rb") as file:
        try:
            check_same_file(file, position)
        except Changed:
            raise Changed(
                f"{path.name} was replaced while nobody watched, and the old file, of which {position.offset:,} bytes "
                "were counted, is not beside it. Put it there under any name, or watch with a new checkpoint folder."
            ) from None


def next_look(n: int) -> int:
    """Number of rows, above n, at which the interval is kept for the chart.

    Examples
    --------
    >>> [next_look(n) for n in (0, 64, 76, 1000)]
    [64, 76, 90, 1024]
    """
    k = 0
    while (look := int(FIRST * 2.0 ** (k / PER_OCTAVE))) <= n:
        k += 1
    return look
