"""Journal: everything that a watcher must not forget, in one SQLite file.

Counts, positions in files, ids and the path of the interval change in one transaction for each part of the data, so a
watcher that is killed continues exactly where it was: no row is counted twice, and none is lost.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import asdict, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from surefair.monitor.coding import MISSING, STRANGE, Coded, Ready, Roles, add_reasons
from surefair.monitor.following import Position
from surefair.monitor.joining import Joining, Record
from surefair.monitor.monitor import FairnessMonitor
from surefair.tables.bad_rows import BadRows

NAME = "watch.sqlite"
VERSION = 1
FATES = ("matched", "expired", "unknown", "repeated", "conflicting")
AT_ONCE = 500  # ids in one query

TABLES = """
CREATE TABLE kept (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE positions (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE bad (reason TEXT PRIMARY KEY, count INTEGER, first TEXT) WITHOUT ROWID;
CREATE TABLE path (rows INTEGER PRIMARY KEY, value TEXT);
CREATE TABLE ids (id TEXT PRIMARY KEY, number INTEGER, decided TEXT, label INTEGER) WITHOUT ROWID;
CREATE INDEX by_number ON ids (number);
"""


class Journal:
    """The file, open.

    Parameters
    ----------
    folder : Path
    settings : dict
        What must be the same whenever the watcher is started again.

    Attributes
    ----------
    monitor : FairnessMonitor
        As it was after the last transaction, and then changed by the watcher; a transaction that fails undoes this.
    """

    def __init__(self, folder: Path, settings: dict[str, Any], monitor: FairnessMonitor) -> None:
        self.monitor = monitor
        self.db = sqlite3.connect(folder / NAME, isolation_level=None)
        try:
            self._open(folder, settings)
        except sqlite3.DatabaseError as error:
            raise ValueError(
                f"{str(folder / NAME)!r} cannot be used: {error}. Restore it, or watch with a new checkpoint folder."
            ) from error

    def _open(self, folder: Path, settings: dict[str, Any]) -> None:
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("PRAGMA synchronous = NORMAL")
        if not self.db.execute("SELECT name FROM sqlite_master").fetchall():
            with self.transaction():
                for statement in TABLES.split(";"):
                    self.db.execute(statement)
                self.keep("version", VERSION)
        if (version := self.kept("version")) != VERSION:
            raise ValueError(f"{str(folder / NAME)!r} has version {version!r}; this release reads version {VERSION}.")
        if not self.positions():  # nothing was counted, so settings may change
            with self.transaction():
                self.keep("settings", json.dumps(settings))
                self.keep_monitor()
        known = json.loads(self.kept("settings"))
        for name, value in json.loads(json.dumps(settings)).items():
            if known.get(name) != value:
                raise ValueError(
                    f"The checkpoint folder {str(folder)!r} was made with {name}={known.get(name)!r}; received "
                    f"{value!r}. Use the same settings, or watch with a new checkpoint folder."
                )
        self.monitor = FairnessMonitor.load(BytesIO(self.kept("monitor")))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Do all changes or none, in the file and in the monitor."""
        before = copy(self.monitor)  # an update gives the monitor a new state, and leaves the old one as it was
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.db.execute("COMMIT")
        except BaseException:
            self.monitor = before
            self.db.rollback()
            raise

    def close(self) -> None:
        """Close the file."""
        self.db.close()

    # -- Small things -------------------------------------------------------------------------------------------------

    def kept(self, name: str, default: Any = None) -> Any:
        """Return a value."""
        found = self.db.execute("SELECT value FROM kept WHERE name = ?", (name,)).fetchone()
        return default if found is None else found[0]

    def keep(self, name: str, value: Any) -> None:
        """Keep a value."""
        self.db.execute("INSERT OR REPLACE INTO kept VALUES (?, ?)", (name, value))

    def keep_monitor(self) -> None:
        """Keep the monitor as it is."""
        file = BytesIO()
        self.monitor.save(file)
        self.keep("monitor", file.getvalue())

    def position(self, name: str) -> Position:
        """How far a file has been read."""
        found = self.db.execute("SELECT value FROM positions WHERE name = ?", (name,)).fetchone()
        return Position(name) if found is None else Position(**json.loads(found[0]))

    def positions(self) -> list[Position]:
        """All files, by name."""
        found = self.db.execute("SELECT value FROM positions ORDER BY name").fetchall()
        return [Position(**json.loads(value)) for (value,) in found]

    def keep_position(self, position: Position) -> None:
        """Keep how far a file has been read."""
        self.db.execute("INSERT OR REPLACE INTO positions VALUES (?, ?)", (position.name, json.dumps(asdict(position))))

    def rename_positions(self, moved: dict[str, Position]) -> None:
        """Keep positions under new names, which may be old names of others."""
        self.db.executemany("DELETE FROM positions WHERE name = ?", [(one.name,) for one in moved.values()])
        for name, position in moved.items():
            self.keep_position(replace(position, name=name))

    def add_bad(self, bad: BadRows) -> None:
        """Count rows that cannot be used."""
        change = "INSERT INTO bad VALUES (:reason, :count, :first) ON CONFLICT DO UPDATE SET count = count + :count"
        self.db.executemany(change, bad.to_dict())

    def bad(self) -> dict[str, int]:
        """Rows that cannot be used, by reason."""
        return dict(self.db.execute("SELECT reason, count FROM bad ORDER BY reason").fetchall())

    def add_look(self, look: dict[str, Any]) -> None:
        """Keep the interval after a number of rows."""
        self.db.execute("INSERT OR REPLACE INTO path VALUES (?, ?)", (look["rows"], json.dumps(look)))

    def path(self) -> list[dict[str, Any]]:
        """Intervals after increasing numbers of rows."""
        return [json.loads(value) for (value,) in self.db.execute("SELECT value FROM path ORDER BY rows")]

    # -- Ids ----------------------------------------------------------------------------------------------------------

    def fates(self) -> dict[str, int]:
        """What became of decisions and labels with ids."""
        return {name: self.kept(name, 0) for name in FATES} | {"waiting": self.kept("waiting", 0)}

    def join(self, coded: Coded, roles: Roles, window: int, bad: BadRows) -> Ready:
        """Join decisions and labels by id; return the rows that are complete now, in order.

        An id is known until ``window`` more decisions have come. As long as it is known, a decision or a label that
        comes again counts once, and one that contradicts it is counted and left out.
        """
        assert coded.ids is not None
        left_out = _refused(coded, roles, bad)
        known = self._known({one for one in coded.ids if one is not None})
        joining = Joining(known, self.fates(), self.kept("number", 0), window, roles.needs_labels)
        names = [[str(name) for name in column.categories] for column in coded.groups.values()]
        codes = [column.codes.tolist() for column in coded.groups.values()]
        decisions, labels = coded.decision.tolist(), coded.label.tolist()
        for row, one in enumerate(coded.ids):
            if left_out[row] or one is None:
                continue
            label = labels[row] if labels[row] in (0, 1) else None
            if decisions[row] == MISSING:
                joining.take_label(one, label)
            else:
                groups = [texts[code[row]] for texts, code in zip(names, codes, strict=True)]
                joining.take_decision(one, [groups, decisions[row]], label)
        self._write(joining)
        rows = joining.complete
        columns = {
            name: np.array([groups[i] for groups, _, _ in rows], dtype=object) for i, name in enumerate(coded.groups)
        }
        truth, decision = (np.array([row[k] for row in rows], dtype=np.int64) for k in (1, 2))
        return Ready(columns, truth, decision)

    def _known(self, ids: set[str]) -> dict[str, Record]:
        """Return what is known of these ids."""
        found: dict[str, Record] = {}
        asked = sorted(ids)
        for first in range(0, len(asked), AT_ONCE):
            some = asked[first : first + AT_ONCE]
            marks = ", ".join("?" * len(some))
            for one, number, decided, label in self.db.execute(f"SELECT * FROM ids WHERE id IN ({marks})", some):
                found[one] = Record(number, json.loads(decided), label)
        return found

    def _write(self, joining: Joining) -> None:
        """Write records, and drop those that are too old."""
        self.db.executemany("DELETE FROM ids WHERE id = ?", [(one,) for one in joining.dropped])
        rows = [(one, new.number, json.dumps(new.decided), new.label) for one, new in joining.changed.items()]
        self.db.executemany("INSERT OR REPLACE INTO ids VALUES (?, ?, ?, ?)", rows)
        old = (joining.number - joining.window,)
        (expired,) = self.db.execute("SELECT COUNT(*) FROM ids WHERE number <= ? AND label IS NULL", old).fetchone()
        self.db.execute("DELETE FROM ids WHERE number <= ?", old)
        counts = joining.counts
        counts["expired"] += expired
        counts["waiting"] -= expired
        self.keep("number", joining.number)
        for name, count in counts.items():
            self.keep(name, count)


def _refused(coded: Coded, roles: Roles, bad: BadRows) -> Any:
    """Which rows with ids cannot be used; counts why."""
    assert coded.ids is not None
    nameless = np.array([one is None for one in coded.ids], dtype=bool)
    if nameless.any():
        bad.add("no id", int(nameless.sum()), f"row {int(np.argmax(nameless)) + 1} of a part")
    only_label = (coded.decision == MISSING) & ((coded.label == 0) | (coded.label == 1)) & roles.needs_labels
    add_reasons(coded, roles, ~nameless & ~only_label, bad)
    wrong = (coded.decision == MISSING) & ~only_label
    wrong |= (coded.decision == STRANGE) | ((coded.label == STRANGE) & roles.needs_labels)
    return nameless | wrong | (~coded.has_groups & ~only_label)
