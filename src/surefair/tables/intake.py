"""From tables to rows that can be used: features, labels, groups and weights, with all that was met on the way counted.

Which columns become which features, and which labels there are, is settled on the first table and then stays. Counts of
two parts of the data add.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from surefair.audit.result import Settings
from surefair.names import one_of
from surefair.tables.bad_rows import BadRows
from surefair.tables.encoder import MISSING, Features, as_numbers, as_words, is_number, is_text, plain_column
from surefair.tables.split import Rows, sides


class Intake:
    """How tables become rows, and what was met.

    Attributes
    ----------
    settings : Settings
    features : Features or None
        None before the first table.
    labels : tuple of str
        The negative and the positive one.
    first, read : int
        Number, in the whole data, of the first row that comes here, and how many have come.
    bad : BadRows
    own : set of str
        Reasons for bad rows that are found here, not by the reader.
    missing, unseen : Counter
        Rows without a value, and with one that the first table does not have, by column.
    place : callable
        What people call the place of a row, given its number in the whole data.
    """

    def __init__(self, settings: Settings, bad: BadRows, place: Callable[[int], str]) -> None:
        self.settings, self.bad, self.place = settings, bad, place
        self.features: Features | None = None
        self.labels: tuple[str, ...] = ()
        self.first = self.read = 0
        self.own: set[str] = set()
        self.missing: Counter[str] = Counter()
        self.unseen: Counter[str] = Counter()

    def elsewhere(self, first: int, place: Callable[[int], str]) -> Intake:
        """Return one for another part of the data, which begins with this row: settled alike, with nothing counted."""
        new = copy(self)
        new.first, new.read, new.place, new.bad = first, 0, place, BadRows(self.bad.limit)
        new.own, new.missing, new.unseen = set(), Counter(), Counter()
        return new

    def settle(self, table: pa.Table, columns: Sequence[str]) -> None:
        """Settle labels and features on the first table, of these columns."""
        settings = self.settings
        code, words = as_words(plain_column(table, settings.label))
        count = Counter(words[code].tolist())
        found = sorted((word for word in count if word != MISSING), key=in_order)
        if len(found) != 2:
            told = ", ".join(f"{word!r} ({count[word]:,} rows)" for word in found[:10])
            hint = "Keep or merge two of them." if len(found) > 2 else "If the data are sorted by it, shuffle them."
            raise ValueError(
                f"The label {settings.label!r} must have two values; the first {table.num_rows:,} rows show "
                f"{len(found)}: {told or 'none'}{' and so on' if len(found) > 10 else ''}. {hint}"
            )
        if settings.positive is not None:
            meant = [word for word in found if _alike(word, settings.positive)] or [settings.positive]
            one_of(meant[0], found, f"value of the label {settings.label!r}")
            found = sorted(found, key=lambda word: word == meant[0])
        self.labels = tuple(found)
        taken = {settings.label, settings.weights, settings.split_by}
        taken |= set() if settings.include_sensitive else {*settings.sensitive}
        self.features = Features.fit(table, settings.features or [name for name in columns if name not in taken])

    def rows(self, table: pa.Table) -> Rows:
        """Rows of a table that can be used, as numbers; the others are counted, each for the first reason found."""
        assert self.features is not None
        settings, n, (no, yes) = self.settings, table.num_rows, self.labels
        encoded = self.features.encode(table)
        bad, numbers = dict(encoded.bad), self.first + self.read + np.arange(n)

        def column(name: str, reason: str) -> tuple[NDArray[np.intp], NDArray[Any]]:
            code, words = as_words(plain_column(table, name))
            bad[reason] = (words == MISSING)[code]
            return code, words

        code, words = column(settings.label, f"no label {settings.label!r}")
        known = np.array([word in (no, yes, MISSING) for word in words.tolist()], dtype=bool)
        bad[f"a label {settings.label!r} other than {no!r} and {yes!r}"] = ~known[code]
        y, groups = (words == yes)[code], np.empty((len(settings.sensitive), n), dtype=object)
        for i, name in enumerate(settings.sensitive):
            code, words = column(name, f"no value of the sensitive column {name!r}")
            groups[i] = words[code]
        weight, keys = np.ones(n), numbers.astype(np.uint64)
        if settings.weights is not None:
            weight, _ = as_numbers(plain_column(table, settings.weights))
            bad[f"a weight {settings.weights!r} that is missing, negative or infinite"] = ~(
                np.isfinite(weight) & (weight >= 0.0)
            )
        if settings.split_by is not None:
            code, words = column(settings.split_by, f"no value of {settings.split_by!r} to split by")
            keys = pd.util.hash_array(words, categorize=False)[code]
        good = np.ones(n, dtype=bool)
        for reason, rows in bad.items():
            if (rows := rows & good).any():
                good &= ~rows
                self.own.add(reason)
                whole = " of those with all fields" if self.bad.total > self.own_bad else ""
                self.bad.add(reason, int(rows.sum()), f"{self.place(int(numbers[rows.argmax()]))}{whole}")
        for tally, found in ((self.missing, encoded.missing), (self.unseen, encoded.unseen)):
            tally.update({name: int((rows & good).sum()) for name, rows in found.items()})
        self.read += n
        return Rows(encoded.X, y, groups, weight, sides(keys, settings.random_state)).part(good)

    @property
    def own_bad(self) -> int:
        """Bad rows that were found here."""
        return sum(one["count"] for one in self.bad.to_dict() if one["reason"] in self.own)

    def pack(self) -> dict[str, Any]:
        """What was counted, as JSON."""
        bad = [one for one in self.bad.to_dict() if one["reason"] in self.own]
        return {"read": self.read, "bad": bad, "missing": dict(self.missing), "unseen": dict(self.unseen)}

    def add(self, packed: dict[str, Any]) -> None:
        """Add what was counted before, or elsewhere."""
        self.read += packed["read"]
        self.missing.update(packed["missing"])
        self.unseen.update(packed["unseen"])
        for one in packed["bad"]:
            self.own.add(one["reason"])
            self.bad.add(one["reason"], one["count"], one["first"])


def columns_to_read(settings: Settings, schema: pa.Schema) -> list[str]:
    """Columns to read, in the order of the data."""
    known = schema.names
    named = {
        "label": (settings.label,), "sensitive": settings.sensitive, "features": settings.features or (),
        "drop": settings.drop, "weights": (settings.weights,), "split_by": (settings.split_by,),
    }  # fmt: skip
    for what, names in named.items():
        for name in names:
            if name is not None:
                _check_header(name, known)
                kind = schema.field(one_of(name, known, f"column for {what}")).type
                if what not in ("features", "drop") and not _serves(kind, what):
                    raise ValueError(f"Column {name!r} is of type {kind}, which cannot serve for {what}. Convert it.")
    needed = {name for what, names in named.items() if what != "drop" for name in names}
    if settings.features is None:
        needed |= {*known} - {*settings.drop}
    return [name for name in known if name in needed]


def _check_header(name: str, known: Sequence[str]) -> None:
    """Refuse a name that is not there with a hint, where the others look like a row rather than a header."""
    if name not in known and any(in_order(word)[0] is False for word in known):
        raise ValueError(
            f"There is no column {name!r}. The first line reads {', '.join(map(repr, known[:6]))} and so on: if the "
            "file has no header, give the names of its columns (names, --names)."
        )


def _serves(kind: pa.DataType, what: str) -> bool:
    """Whether a column of this type has values to compare, or as weights numbers."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    dated = pa.types.is_temporal(kind) and not pa.types.is_interval(kind)
    return is_text(kind) or is_number(kind) or (what != "weights" and dated)


def in_order(word: str) -> tuple[bool, float, str]:
    """Sort numbers by size, and words after them."""
    try:
        number = float(word)
    except ValueError:
        number = np.nan
    return (True, 0.0, word) if np.isnan(number) else (False, number, word)


def _alike(word: str, asked: str) -> bool:
    """Whether a word is the one asked for, as text, as a number, or as true or false."""
    same_number = not in_order(word)[0] and in_order(word)[:2] == in_order(asked)[:2]
    return word == asked or same_number or (word == asked.lower() and word in ("true", "false"))
