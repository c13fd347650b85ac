"""Labels and groups of any type, in one or several columns, become small integers.

>>> levels = Levels.of(np.array(["no", "yes", "no"]), "label")
>>> levels.codes(np.array(["yes", "no"]))
array([1, 0])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from types import NoneType
from typing import Any

import numpy as np
import pandas as pd

from surefair.rows.arrays import Column, IntArray
from surefair.rows.columns import CodedColumn
from surefair.storage.checks import value_of

MAX_GROUPS = 100
"""The most groups that one sensitive column may have, because all pairs are compared."""

WIDEST = 1000  # letters that a type may allow for beyond those that values have


@dataclass(frozen=True, eq=False)
class Levels:
    """The known values of a column, sorted; the position of a value is its code.

    Attributes
    ----------
    values : ndarray of shape (n_levels,)
    what : str
        What the column holds, for error messages.
    """

    values: Column
    what: str

    @classmethod
    def of(cls, column: Column, what: str) -> Levels:
        """Collect the distinct values of a column."""
        try:
            long = len(column) > 1000 and column.dtype.kind in "biuf"
            return cls(np.unique(pd.unique(column) if long else column), what)
        except TypeError:
            kinds = sorted({type(value).__name__ for value in column})
            raise ValueError(
                f"The {what} column mixes types that cannot be sorted ({', '.join(kinds)}). Convert it to one type."
            ) from None

    def codes(self, column: Column) -> IntArray:
        """Return the code of each entry; an unknown value is an error."""
        if column.dtype.kind == self.values.dtype.kind and column.dtype.kind != "O":
            codes = np.searchsorted(self.values, column).clip(max=len(self.values) - 1)
            if np.array_equal(self.values[codes], column):
                return codes.astype(np.int64, copy=False)
        found = Levels.of(column, self.what).values
        known = {value: code for code, value in enumerate(self.values.tolist())}
        unknown = [value for value in found.tolist() if value not in known]
        if unknown:
            raise ValueError(
                f"The {self.what} column contains undeclared values: {_listed(unknown)}. Declared are "
                f"{_listed(self.values.tolist())}. Drop those rows, or fit again with every {self.what} declared."
            )
        codes = np.array([known[value] for value in found.tolist()], dtype=np.int64)
        return codes[np.searchsorted(found, column)]

    def cover(self, column: CodedColumn) -> bool:
        """Whether every value of a column is known, in the same type."""
        known = set(self.values.tolist())
        parts = [part for part in (column.found, column.declared) if part is not None]
        return all(part.dtype == self.values.dtype and known.issuperset(part.tolist()) for part in parts)

    def to_json(self) -> dict[str, Any]:
        """Return type and values as text, numbers or Booleans."""
        kind, values = self.values.dtype, self.values.tolist()
        if kind.kind not in "biufUO" or not all(isinstance(value, bool | int | float | str) for value in values):
            raise ValueError(f"Labels and groups of type {kind} cannot be saved. Use text, numbers or Booleans.")
        return {"dtype": kind.str, "values": values}

    @classmethod
    def from_json(cls, levels: dict[str, Any], what: str) -> Levels:
        """Read what ``to_json`` wrote; values that are not distinct are refused."""
        values = value_of(levels, "values", list)
        dtype = np.dtype(value_of(levels, "dtype", str))
        if dtype.kind not in "biufUO" or not all(type(value) in (bool, int, float, str) for value in values):
            raise ValueError(f"Values of a {what} must be text, numbers or Booleans; received type {dtype}.")
        if dtype.kind == "U" and dtype.itemsize > 4 * max(WIDEST, *map(len, map(str, values)), 0):
            raise ValueError(f"Values of a {what} are shorter than their type, {dtype}, says.")
        found = np.asarray(values, dtype=dtype)
        if found.tolist() != values or len(np.unique(found)) != len(values):
            raise ValueError(f"Values of a {what} must be distinct, and of type {dtype}.")
        return cls(found, what)

    def check_two(self) -> Levels:
        """Return self if there are exactly two values."""
        if len(self.values) != 2:
            raise ValueError(
                f"Exactly two {self.what}s are needed; received {len(self.values)}: {_listed(self.values.tolist())}. "
                "Keep two of them, or merge values."
            )
        return self


@dataclass(frozen=True, eq=False)
class Groups:
    """The known groups of one or several sensitive columns.

    Where groups of all columns are numbered together, the groups of the first column come first.

    Attributes
    ----------
    levels : dict of str or None to Levels
        Groups of each column; the name is None for a column that came without one.
    pairs : tuple of (int, int), or None
        Pairs of groups to compare, with the groups of all columns numbered together; None for all pairs within each
        column. Groups in no pair are measured and shown, but not compared.

    Examples
    --------
    >>> from surefair.rows.columns import as_columns
    >>> columns = as_columns({"sex": ["m", "f"], "age": ["old", "old"]})
    >>> groups = Groups.of(columns)
    >>> groups.labels, groups.codes(columns).tolist()
    ([('sex', 'f'), ('sex', 'm'), ('age', 'old')], [[1, 0], [0, 0]])
    """

    levels: dict[str | None, Levels]
    pairs: tuple[tuple[int, int], ...] | None = None

    @classmethod
    def of(cls, columns: Mapping[str | None, CodedColumn]) -> Groups:
        """Collect the groups in the columns, and those that categorical columns declare."""
        return cls({name: _levels(name, column) for name, column in columns.items()})

    def joined(self, columns: Mapping[str | None, CodedColumn]) -> Groups:
        """Add the groups of these columns; returns self if there is no new one."""
        matched = self._match(columns)
        if all(levels.cover(matched[name]) for name, levels in self.levels.items()):
            return self
        return Groups({name: _levels(name, matched[name], levels) for name, levels in self.levels.items()})

    def joined_with(self, other: Groups) -> Groups:
        """Add the groups of another set of the same columns; returns self if there is no new one."""
        if other is self:
            return self
        return self.joined({name: CodedColumn.of(levels.values) for name, levels in other.levels.items()})

    def to_json(self) -> list[dict[str, Any]]:
        """Return each column with its name, type and groups."""
        return [{"column": name} | levels.to_json() for name, levels in self.levels.items()]

    @classmethod
    def from_json(cls, columns: list[dict[str, Any]]) -> Groups:
        """Read what ``to_json`` wrote."""
        found = {value_of(column, "column", (str, NoneType)): Levels.from_json(column, "group") for column in columns}
        if len(found) < len(columns) or not found or (None in found and len(found) > 1):
            raise ValueError("Sensitive columns must have different names.")
        return cls(found)

    def measured_by(self, columns: Mapping[str | None, CodedColumn]) -> Groups:
        """Return the groups of these columns, including groups that are known from before."""
        if None in {*columns, *self.levels}:
            ((column, *_), (levels, *_)) = columns.values(), self.levels.values()
            strange = not set(column.found.tolist()) & set(levels.values.tolist())
            other = len(columns) == len(self.levels) == 1 and set(columns) != set(self.levels) and strange
            return Groups.of(columns) if other else self.joined(columns)
        return Groups({name: _levels(name, column, self.levels.get(name)) for name, column in columns.items()})

    def codes(self, columns: Mapping[str | None, CodedColumn]) -> IntArray:
        """Return the code of each row's group within each column, shape (n_rows, columns)."""
        matched = self._match(columns).items()
        return np.stack([self.levels[name].codes(column.found)[column.code] for name, column in matched], axis=1)

    def among(self, codes: IntArray) -> tuple[Groups, IntArray]:
        """Keep only the groups that occur among these codes (n_rows, columns); returns them with the new codes."""
        found, recoded = {}, []
        for (name, levels), code in zip(self.levels.items(), codes.T, strict=True):
            present, new = np.unique(code, return_inverse=True)
            found[name] = Levels(levels.values[present], levels.what)
            recoded.append(new)
        return Groups(found), np.stack(recoded, axis=1)

    def recode(self, before: Groups) -> list[IntArray]:
        """Return, for each column, the new code of each old code."""
        return [levels.codes(before.levels[name].values) for name, levels in self.levels.items()]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of groups in each column."""
        return tuple(len(levels.values) for levels in self.levels.values())

    @property
    def offsets(self) -> tuple[int, ...]:
        """Number of the first group of each column, where all columns are numbered together."""
        return tuple(accumulate(self.sizes, initial=0))[:-1]

    @property
    def labels(self) -> list[tuple[str | None, Any]]:
        """Column and value of each group of all columns; values that JSON cannot hold become text."""
        return [(name, value) for name, levels in self.levels.items() for value in _plain(levels.values)]

    @property
    def words(self) -> list[str]:
        """Each group in words, for all columns."""
        return [f"group {value!r}" + ("" if name is None else f" of {name!r}") for name, value in self.labels]

    @property
    def compared(self) -> list[int]:
        """Positions of the groups that are compared with another."""
        if self.pairs is None:
            return list(range(sum(self.sizes)))
        return sorted({place for pair in self.pairs for place in pair})

    @property
    def compared_words(self) -> list[str]:
        """Each group that is compared, in words."""
        words = self.words
        return [words[place] for place in self.compared]

    def table(self, places: Iterable[int] | None = None, heading: str = "group") -> dict[str, list[Any]]:
        """Return columns of a tidy table: one row per group, or one row for each of the positions given.

        Examples
        --------
        >>> Groups({"sex": Levels(np.array(["f", "m"]), "group")}).table()
        {'column': ['sex', 'sex'], 'group': ['f', 'm']}
        """
        labels = self.labels
        same_type = len({type(value) for _, value in labels}) == 1  # a column of a data frame has one type
        labels = labels if places is None else [labels[place] for place in places]
        table = {} if None in self.levels else {"column": [name for name, _ in labels]}
        return table | {heading: [value if same_type else str(value) for _, value in labels]}

    @property
    def public(self) -> Any:
        """Groups as the classifier shows them: an array for a column without a name, else a dict of arrays by name."""
        values = {name: levels.values for name, levels in self.levels.items()}
        return values.get(None, values)

    def check_comparable(self, otherwise: str = "") -> Groups:
        """Return self if every column has two or more groups, and not too many; ``otherwise`` ends the advice."""
        for name, levels in self.levels.items():
            if (n := len(levels.values)) < 2:
                raise ValueError(
                    f"{_called(name)} has only {n} group, {_listed(_plain(levels.values))}, and a comparison needs two "
                    f"or more. Add rows of another group, or choose another column{otherwise}."
                )
        return self.check_few()

    def check_few(self) -> Groups:
        """Return self if no column has too many groups to compare."""
        for name, levels in self.levels.items():
            if (n := len(levels.values)) > MAX_GROUPS:
                raise ValueError(
                    f"{_called(name)} has {n} different values, and at most {MAX_GROUPS} groups can be compared. "
                    "Bin numbers, for example with pandas.cut, or merge rare values."
                )
        return self

    def _match(self, columns: Mapping[str | None, CodedColumn]) -> dict[str | None, CodedColumn]:
        """Put columns into the known order, by name; a single column may come without its name."""
        if len(columns) == len(self.levels) == 1 and None in {*columns, *self.levels}:
            return dict(zip(self.levels, columns.values(), strict=True))
        if set(columns) != set(self.levels):
            raise ValueError(
                f"sensitive_features must be {_columns(self.levels)}, as in the first call; received "
                f"{_columns(columns)}. Pass the same columns."
            )
        return {name: columns[name] for name in self.levels}


@dataclass(frozen=True, eq=False)
class Census:
    """Groups, and how many rows of each have been seen.

    Examples
    --------
    >>> census = Census.of(Groups({None: Levels(np.array(["a", "b"]), "group")}))
    >>> census.count(np.array([[0], [1], [1]])).counts
    [1, 2]
    """

    groups: Groups
    rows: tuple[IntArray, ...]  # number of rows of each group, by column

    @classmethod
    def of(cls, groups: Groups) -> Census:
        """Start counting at zero."""
        return cls(groups, tuple(np.zeros(size, dtype=np.int64) for size in groups.sizes))

    def count(self, codes: IntArray) -> Census:
        """Count more rows, given by their codes (n_rows, columns); rows without a group, code -1, are not counted."""
        added = (np.bincount(code[code >= 0], minlength=len(n)) for code, n in zip(codes.T, self.rows, strict=True))
        return Census(self.groups, tuple(n + more for n, more in zip(self.rows, added, strict=True)))

    def among(self, groups: Groups) -> Census:
        """Keep the counts, with more groups."""
        if groups is self.groups:
            return self
        wider = Census.of(groups)
        for rows, codes, counted in zip(wider.rows, groups.recode(self.groups), self.rows, strict=True):
            rows[codes] = counted
        return wider

    def merge(self, other: Census) -> Census:
        """Add the groups and rows of another census."""
        groups = self.groups.joined_with(other.groups)
        both = zip(self.among(groups).rows, other.among(groups).rows, strict=True)
        return Census(groups, tuple(mine + theirs for mine, theirs in both))

    def without(self, other: Census) -> Census:
        """Take away the rows of another census, which were counted here too."""
        counted = other.among(self.groups.joined_with(other.groups)).rows
        return Census(self.groups, tuple(mine - theirs for mine, theirs in zip(self.rows, counted, strict=True)))

    @property
    def counts(self) -> list[int]:
        """Rows of each group, for all columns."""
        return [int(n) for rows in self.rows for n in rows]


def _levels(name: str | None, column: CodedColumn, known: Levels | None = None) -> Levels:
    """Return the levels of one sensitive column: known ones, those that occur, and those that its type declares."""
    what = "group" if name is None else f"{name!r} group"
    parts = (None if known is None else known.values, column.found, column.declared)
    return Levels.of(together([part for part in parts if part is not None], f"The {what} columns"), what)


def _called(name: str | None) -> str:
    return "The group column" if name is None else f"The sensitive column {name!r}"


def _columns(columns: Mapping[str | None, Any]) -> str:
    """Describe the columns in words."""
    return "one column without a name" if None in columns else f"the columns {_listed([*columns])} by name"


def _plain(values: Column) -> list[Any]:
    """Return values as Python text, numbers and Booleans; anything else (an interval, a date) becomes text."""
    listed = values.tolist() if values.dtype.kind in "biufUO" else list(values)
    return [value if isinstance(value, str | int | float) else str(value) for value in listed]


def together(columns: list[Column], called: str) -> Column:
    """Concatenate columns, which must be all text or all something else; error messages name them as ``called``.

    Examples
    --------
    >>> together([np.array([1, 2]), np.array([True])], "The labels")
    array([1, 2, 1])
    """
    if len({column.dtype.kind == "U" for column in columns if len(column)}) > 1:
        kinds = " and ".join("text" if column.dtype.kind == "U" else str(column.dtype) for column in columns)
        raise ValueError(f"{called} have different types: {kinds}. Convert them to one type.")
    return np.concatenate([column for column in columns if len(column)] or columns)


def _listed(values: list[object], most: int = 10) -> str:
    """List values as text, cut off after ``most``."""
    shown = ", ".join(repr(value) for value in values[:most])
    return shown + (f" and {len(values) - most} more" if len(values) > most else "")
