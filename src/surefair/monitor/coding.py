"""Coding: rows of a table, all as text, become groups, decisions and labels; rows that cannot be used are counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from surefair.rows import IntArray
from surefair.tables.bad_rows import BadRows

MISSING, STRANGE = -1, 2  # besides 0 and 1


class Roles(NamedTuple):
    """Which columns serve for what."""

    decision: str
    sensitive: tuple[str, ...]
    label: str | None
    id: str | None
    positive: str  # the positive decision and label
    needs_labels: bool

    @property
    def names(self) -> tuple[str, ...]:
        """All columns, each once."""
        more = [one for one in (self.label, self.id) if one is not None]
        return tuple(dict.fromkeys([self.decision, *self.sensitive, *more]))


@dataclass
class Coded:
    """Rows as codes.

    Attributes
    ----------
    groups : dict of str to pandas.Categorical
        Group of each row in each sensitive column; -1 is missing.
    decision, label : ndarray
        0, 1, ``MISSING`` or ``STRANGE``.
    ids : list of str or None
    other : str or None
        The value that is not positive, once it has been seen.
    """

    groups: dict[str, pd.Categorical]
    decision: IntArray
    label: IntArray
    ids: list[str | None] | None
    other: str | None

    @property
    def has_groups(self) -> Any:
        """Whether no group of a row is missing."""
        return np.all([column.codes >= 0 for column in self.groups.values()], axis=0)


def code(table: pa.Table, roles: Roles, other: str | None) -> Coded:
    """Code the rows of a table.

    Examples
    --------
    >>> table = pa.table({"approved": [1, 0, None], "sex": ["f", None, "m"]})
    >>> found = code(table, Roles("approved", ("sex",), None, None, "1", False), None)
    >>> found.decision.tolist(), found.has_groups.tolist(), found.other
    ([1, 0, -1], [True, False, True], '0')
    """
    columns = {name: _encoded(table[name]) for name in roles.names}
    decision, other = _binary(columns[roles.decision], roles.positive, other)
    label = np.full(len(decision), MISSING)
    if roles.label is not None:
        label, other = _binary(columns[roles.label], roles.positive, other)
    ids = None if roles.id is None else table[roles.id].cast(pa.string()).to_pylist()
    return Coded({name: columns[name] for name in roles.sensitive}, decision, label, ids, other)


def _encoded(column: Any) -> pd.Categorical:
    """Turn a column of any type into categories of text; missing values have the code -1."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    found = pc.dictionary_encode(column).combine_chunks()
    found = found.chunk(0) if isinstance(found, pa.ChunkedArray) else found
    codes = found.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    names = found.dictionary.cast(pa.string()).to_pylist()
    return pd.Categorical.from_codes(codes, pd.Index(names, dtype=object))


def _binary(column: pd.Categorical, positive: str, other: str | None) -> tuple[IntArray, str | None]:
    """Codes of decisions or labels; the first value that is not positive is the other one."""
    meaning = []
    for name in column.categories:
        other = name if other is None and name != positive else other
        meaning.append(1 if name == positive else 0 if name == other else STRANGE)
    return np.array([*meaning, MISSING], dtype=np.int64)[column.codes], other


class Ready(NamedTuple):
    """Rows that count, in order."""

    groups: dict[str, Any]
    truth: IntArray
    decision: IntArray

    def part(self, low: int, high: int) -> Ready:
        """Some of the rows."""
        groups = {name: pd.Series(column[low:high]).reset_index(drop=True) for name, column in self.groups.items()}
        return Ready(groups, self.truth[low:high], self.decision[low:high])


def ready(coded: Coded, roles: Roles, bad: BadRows) -> Ready:
    """Select the rows that count at once, where rows have no ids; the others are counted as bad rows."""
    known = (coded.decision == 0) | (coded.decision == 1)
    labelled = (coded.label == 0) | (coded.label == 1) | (not roles.needs_labels)
    add_reasons(coded, roles, np.ones(len(known), dtype=bool), bad)
    use = known & coded.has_groups & labelled
    groups = {name: column[use].remove_unused_categories() for name, column in coded.groups.items()}
    return Ready(groups, coded.label[use].clip(0, 1), coded.decision[use])


def add_reasons(coded: Coded, roles: Roles, among: Any, bad: BadRows) -> None:
    """Count why rows, among some, cannot be used; each row has one reason."""
    left = among.copy()
    other = f"a decision that is neither {roles.positive!r} nor {coded.other!r}"
    for reason, wrong in (
        ("no decision", coded.decision == MISSING),
        (other, coded.decision == STRANGE),
        ("no group", ~coded.has_groups),
        ("no label", (coded.label == MISSING) & roles.needs_labels & (roles.id is None)),
        (other.replace("a decision", "a label"), (coded.label == STRANGE) & roles.needs_labels),
    ):
        found = left & wrong
        if found.any():
            bad.add(reason, int(found.sum()), f"row {int(np.argmax(found)) + 1} of a part")
        left &= ~wrong
