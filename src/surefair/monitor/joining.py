"""Joining: decisions and labels that come separately meet by id, within a window of decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class Record:
    """What is known of an id: the number of its decision, groups and decision, and the label."""

    number: int
    decided: list[Any]
    label: int | None


class Joining:
    """Decisions and labels of one part of the data, joined row by row."""

    def __init__(
        self, known: dict[str, Record], counts: dict[str, int], number: int, window: int, needs_labels: bool
    ) -> None:
        self.known = known
        self.counts = counts
        self.number = number
        self.window = window
        self.needs_labels = needs_labels
        self.changed: dict[str, Record] = {}
        self.dropped: set[str] = set()
        self.complete: list[tuple[list[str], int, int]] = []  # groups, label and decision

    def _find(self, one: str) -> Record | None:
        """Return what is known of an id, unless it is too old."""
        record = self.known.get(one)
        if record is None or record.number > self.number - self.window:
            return record
        self.counts["expired"] += record.label is None
        self.counts["waiting"] -= record.label is None
        del self.known[one]
        self.changed.pop(one, None)
        self.dropped.add(one)
        return None

    def take_decision(self, one: str, decided: list[Any], label: int | None) -> None:
        """Take a decision, perhaps with its label."""
        record = self._find(one)
        if record is None:
            self.number += 1
            record = self.known[one] = self.changed[one] = Record(self.number, decided, None)
            self.counts["waiting"] += 1
            label = label if self.needs_labels else label or 0
        elif record.decided != decided or (self.needs_labels and _differ(record.label, label)):
            self.counts["conflicting"] += 1
            return
        else:
            self.counts["repeated"] += 1
        if label is not None and record.label is None:
            self._finish(one, record, label)

    def take_label(self, one: str, label: int | None) -> None:
        """Take a label that came later than its decision."""
        record = self._find(one)
        if record is None:
            self.counts["unknown"] += 1
        elif record.label is None and label is not None:
            self.counts["matched"] += 1
            self._finish(one, record, label)
        else:
            self.counts["repeated" if record.label == label else "conflicting"] += 1

    def _finish(self, one: str, record: Record, label: int) -> None:
        self.counts["waiting"] -= 1
        record.label = label
        self.changed[one] = record
        self.complete.append((record.decided[0], label, record.decided[1]))


def _differ(known: int | None, label: int | None) -> bool:
    return known is not None and label is not None and known != label
