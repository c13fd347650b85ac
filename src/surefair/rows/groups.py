"""Raw columns to codes: labels and groups of any type, in one or several columns, become small integers.

>>> levels = Levels.of(np.array(["no", "yes", "no"]), "label")
>>> levels.codes(np.array(["yes", "no"]))
array([1, 0])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.base import clone

from surefair.rows.arrays import CodedColumn, Column, is_sparse

MAX_GROUPS = 100
"""Groups that one sensitive column may have: all their pairs are compared."""


@dataclass(frozen=True, eq=False)
class Levels:
    """The declared values of a column, sorted; a value's place is its code.

    Attributes
    ----------
    values : ndarray of shape (n_levels,)
    what : str
        What the column is, for error messages.
    """

    values: Column
    what: str

    @classmethod
    def of(cls, column: Column, what: str) -> Levels:
        """Levels found in a column."""
        try:
            long = len(column) > 1000 and column.dtype.kind in "biuf"
            return cls(np.unique(pd.unique(column) if long else column), what)
        except TypeError:
            kinds = sorted({type(value).__name__ for value in column})
            raise ValueError(
                f"The {what} column mixes types that cannot be sorted ({', '.join(kinds)}). Convert it to one type."
            ) from None

    def codes(self, column: Column) -> NDArray[np.int64]:
        """Code of each entry; a value that was not declared is an error."""
        if column.dtype.kind == self.values.dtype.kind and column.dtype.kind != "O":
            codes = np.searchsorted(self.values, column).clip(max=len(self.values) - 1)
            if np.array_equal(self.values[codes], column):
                return codes.astype(np.int64, copy=False)
        found = Levels.of(column, self.what).values
        known = {value: code for code, value in enumerate(self.values.tolist())}
        unknown = [value for value in found.tolist() if value not in known]
        if unknown:
            raise ValueError(
                f"The {self.what} column contains {_listed(unknown)}, never declared before: the {self.what}s are "
                f"{_listed(self.values.tolist())}. Drop those rows, or fit afresh with every {self.what} declared."
            )
        codes = np.array([known[value] for value in found.tolist()], dtype=np.int64)
        return codes[np.searchsorted(found, column)]

    def cover(self, column: CodedColumn) -> bool:
        """Whether there is nothing new in a column: no value, and no type."""
        known = set(self.values.tolist())
        parts = [part for part in (column.found, column.declared) if part is not None]
        return all(part.dtype == self.values.dtype and known.issuperset(part.tolist()) for part in parts)

    def to_json(self) -> dict[str, Any]:
        """Type and values, as text, numbers or Booleans."""
        kind, values = self.values.dtype, self.values.tolist()
        if kind.kind not in "biufUO" or not all(isinstance(value, bool | int | float | str) for value in values):
            raise ValueError(f"Labels and groups of type {kind} cannot be saved; use text, numbers or Booleans.")
        return {"dtype": kind.str, "values": values}

    @classmethod
    def from_json(cls, levels: dict[str, Any], what: str) -> Levels:
        """Levels that ``to_json`` wrote."""
        return cls(np.asarray(levels["values"], dtype=levels["dtype"]), what)

    def two(self) -> Levels:
        """The same, if there are exactly two."""
        if len(self.values) != 2:
            raise ValueError(
                f"Exactly two {self.what}s are needed; received {len(self.values)}: {_listed(self.values.tolist())}."
            )
        return self


@dataclass(frozen=True, eq=False)
class Groups:
    """The declared groups of one or several sensitive columns.

    Where groups of all columns are numbered through, the groups of the first column come first.

    Attributes
    ----------
    levels : dict of str or None to Levels
        Groups of each column; a column given plainly has no name.

    Examples
    --------
    >>> from surefair.rows.arrays import as_columns
    >>> columns = as_columns({"sex": ["m", "f"], "age": ["old", "old"]})
    >>> groups = Groups.of(columns)
    >>> groups.labels, groups.codes(columns).tolist()
    ([('sex', 'f'), ('sex', 'm'), ('age', 'old')], [[1, 0], [0, 0]])
    """

    levels: dict[str | None, Levels]

    @classmethod
    def of(cls, columns: Mapping[str | None, CodedColumn]) -> Groups:
        """Groups found in the columns, and those that categorical columns declare."""
        return cls({name: _levels(name, column) for name, column in columns.items()})

    def joined(self, columns: Mapping[str | None, CodedColumn]) -> Groups:
        """The same groups, and any new ones of these columns; this very object where there are none."""
        matched = self._match(columns)
        if all(levels.cover(matched[name]) for name, levels in self.levels.items()):
            return self
        return Groups({name: _levels(name, matched[name], levels) for name, levels in self.levels.items()})

    def joined_with(self, other: Groups) -> Groups:
        """The same groups, and any new ones of others of the same columns; this very object where there are none."""
        return self.joined({name: CodedColumn.of(levels.values) for name, levels in other.levels.items()})

    def to_json(self) -> list[dict[str, Any]]:
        """Columns, each with its name, its type and its groups."""
        return [{"column": name} | levels.to_json() for name, levels in self.levels.items()]

    @classmethod
    def from_json(cls, columns: list[dict[str, Any]]) -> Groups:
        """Groups that ``to_json`` wrote."""
        return cls({column["column"]: Levels.from_json(column, "group") for column in columns})

    def measured_by(self, columns: Mapping[str | None, CodedColumn]) -> Groups:
        """Groups of these columns, whichever they are; those known of the columns declared are among them."""
        if None in {*columns, *self.levels}:
            ((column, *_), (levels, *_)) = columns.values(), self.levels.values()
            strange = not set(column.found.tolist()) & set(levels.values.tolist())
            other = len(columns) == len(self.levels) == 1 and set(columns) != set(self.levels) and strange
            return Groups.of(columns) if other else self.joined(columns)
        return Groups({name: _levels(name, column, self.levels.get(name)) for name, column in columns.items()})

    def codes(self, columns: Mapping[str | None, CodedColumn]) -> NDArray[np.int64]:
        """Code of each row's group within each column, shape (n_rows, columns)."""
        matched = self._match(columns).items()
        return np.stack([self.levels[name].codes(column.found)[column.code] for name, column in matched], axis=1)

    def among(self, codes: NDArray[np.int64]) -> tuple[Groups, NDArray[np.int64]]:
        """The groups that occur among these codes (n_rows, columns), and the codes of the same rows in them."""
        found, recoded = {}, []
        for (name, levels), code in zip(self.levels.items(), codes.T, strict=True):
            present, new = np.unique(code, return_inverse=True)
            found[name] = Levels(levels.values[present], levels.what)
            recoded.append(new)
        return Groups(found), np.stack(recoded, axis=1)

    def recode(self, before: Groups) -> list[NDArray[np.int64]]:
        """For each column, the code of each group that had a code before."""
        return [levels.codes(before.levels[name].values) for name, levels in self.levels.items()]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of groups in each column."""
        return tuple(len(levels.values) for levels in self.levels.values())

    @property
    def offsets(self) -> tuple[int, ...]:
        """Number of the first group of each column, numbered through."""
        return tuple(accumulate(self.sizes, initial=0))[:-1]

    @property
    def labels(self) -> list[tuple[str | None, Any]]:
        """Column and value of each group, numbered through; values that JSON does not know are text."""
        return [(name, value) for name, levels in self.levels.items() for value in _plain(levels.values)]

    @property
    def words(self) -> list[str]:
        """Each group in words, numbered through."""
        return [f"group {value!r}" + ("" if name is None else f" of {name!r}") for name, value in self.labels]

    def table(self, places: Iterable[int] | None = None, heading: str = "group") -> dict[str, list[Any]]:
        """Columns of a tidy table with one row per group, or per place in the list of groups: name, if any, and value.

        Examples
        --------
        >>> Groups({"sex": Levels(np.array(["f", "m"]), "group")}).table()
        {'column': ['sex', 'sex'], 'group': ['f', 'm']}
        """
        labels = self.labels
        alike = len({type(value) for _, value in labels}) == 1  # a column of a frame is of one type
        labels = labels if places is None else [labels[place] for place in places]
        table = {} if None in self.levels else {"column": [name for name, _ in labels]}
        return table | {heading: [value if alike else str(value) for _, value in labels]}

    @property
    def public(self) -> Any:
        """Groups as the estimator shows them: an array for a plain column, otherwise a dict of arrays by name."""
        values = {name: levels.values for name, levels in self.levels.items()}
        return values.get(None, values)

    def check_comparable(self) -> Groups:
        """Return the same, if every column has groups to compare, and not too many."""
        for name, levels in self.levels.items():
            if (n := len(levels.values)) < 2:
                raise ValueError(
                    f"{_called(name)} holds {n} group only, {_listed(_plain(levels.values))}, and two or more are "
                    "needed. Drop the column, or use criterion=None for a fit with no constraint."
                )
        return self.check_few()

    def check_few(self) -> Groups:
        """Return the same, if no column has too many groups to compare."""
        for name, levels in self.levels.items():
            if (n := len(levels.values)) > MAX_GROUPS:
                raise ValueError(
                    f"{_called(name)} holds {n} different values, and at most {MAX_GROUPS} groups can be compared. "
                    "Bin numbers, for example with pandas.cut, or merge rare values."
                )
        return self

    def _match(self, columns: Mapping[str | None, CodedColumn]) -> dict[str | None, CodedColumn]:
        """Columns in the order of those declared, found by name; of single columns, one may lack the name."""
        if len(columns) == len(self.levels) == 1 and None in {*columns, *self.levels}:
            return dict(zip(self.levels, columns.values(), strict=True))
        if set(columns) != set(self.levels):
            raise ValueError(
                f"sensitive_features must be {_columns(self.levels)}, as at first; received {_columns(columns)}."
            )
        return {name: columns[name] for name in self.levels}


@dataclass(frozen=True, eq=False)
class Census:
    """Groups, and how many rows of each were seen.

    Examples
    --------
    >>> census = Census.of(Groups({None: Levels(np.array(["a", "b"]), "group")}))
    >>> census.counted(np.array([[0], [1], [1]])).listed
    [1, 2]
    """

    groups: Groups
    rows: tuple[NDArray[np.int64], ...]  # for each column, the rows of each group

    @classmethod
    def of(cls, groups: Groups) -> Census:
        """Groups before their first row."""
        return cls(groups, tuple(np.zeros(size, dtype=np.int64) for size in groups.sizes))

    def counted(self, codes: NDArray[np.int64]) -> Census:
        """The same with more rows, given by their codes (n_rows, columns)."""
        added = (np.bincount(code, minlength=len(rows)) for code, rows in zip(codes.T, self.rows, strict=True))
        return Census(self.groups, tuple(rows + more for rows, more in zip(self.rows, added, strict=True)))

    def joined(self, groups: Groups) -> Census:
        """The same rows among more groups."""
        if groups is self.groups:
            return self
        wider = Census.of(groups)
        for rows, codes, counted in zip(wider.rows, groups.recode(self.groups), self.rows, strict=True):
            rows[codes] = counted
        return wider

    def merged(self, other: Census) -> Census:
        """Groups and rows of both."""
        groups = self.groups.joined_with(other.groups)
        both = zip(self.joined(groups).rows, other.joined(groups).rows, strict=True)
        return Census(groups, tuple(mine + theirs for mine, theirs in both))

    @property
    def listed(self) -> list[int]:
        """Rows of each group, numbered through."""
        return [int(n) for rows in self.rows for n in rows]


def _levels(name: str | None, column: CodedColumn, known: Levels | None = None) -> Levels:
    """Levels of one sensitive column: those known, its values, and those it declares."""
    what = "group" if name is None else f"{name!r} group"
    parts = (None if known is None else known.values, column.found, column.declared)
    return Levels.of(together([part for part in parts if part is not None], what), what)


def _called(name: str | None) -> str:
    return "The group column" if name is None else f"The sensitive column {name!r}"


def _columns(columns: Mapping[str | None, Any]) -> str:
    """Words for one plain column, or for columns with names."""
    return "one plain column" if None in columns else f"the columns {_listed([*columns])} by name"


def _plain(values: Column) -> list[Any]:
    """Values as Python's text, numbers and truth values; anything else (an interval, a date) as text."""
    listed = values.tolist() if values.dtype.kind in "biufUO" else list(values)
    return [value if isinstance(value, str | int | float) else str(value) for value in listed]


def fitted_map(transformer: Any, X: Any) -> Any:
    """Fresh copy of a scikit-learn transformer, fitted on rows; None stays None."""
    return None if transformer is None else clone(transformer).fit(X)


def mapped(transformer: Any, X: Any) -> Any:
    """Rows as a fitted transformer maps them, a float64 array or CSR matrix; as they are where there is none."""
    if transformer is None:
        return X
    found: Any = transformer.transform(X)
    found = csr_matrix(found, dtype=np.float64) if is_sparse(found) else np.ascontiguousarray(found, dtype=np.float64)
    if found.ndim != 2 or found.shape[0] != X.shape[0]:
        raise ValueError(
            f"The feature_map must give one row of features for each row; received shape {found.shape} for "
            f"{X.shape[0]} rows. Use a transformer that does."
        )
    if not np.isfinite(found.data if is_sparse(found) else found).all():
        raise ValueError(
            "The feature_map gives NaN or infinite values for some of these rows. Mend the rows, or the map."
        )
    return found


def together(columns: list[Column], what: str) -> Column:
    """One column after the other, if they are all text or none is.

    Examples
    --------
    >>> together([np.array([1, 2]), np.array([True])], "label")
    array([1, 2, 1])
    """
    if len({column.dtype.kind == "U" for column in columns if len(column)}) > 1:
        kinds = " and ".join(str(column.dtype) for column in columns)
        raise ValueError(
            f"The {what} columns are of different types, text and numbers: {kinds}. Convert them to one type."
        )
    return np.concatenate([column for column in columns if len(column)] or columns)


def _listed(values: list[object], most: int = 10) -> str:
    """Values as text, cut off after ``most``."""
    shown = ", ".join(repr(value) for value in values[:most])
    return shown + (f" and {len(values) - most} more" if len(values) > most else "")
