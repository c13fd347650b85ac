"""Raw columns to codes: labels and groups of any type become small integers.

>>> levels = Levels.of(np.array(["no", "yes", "no"]), "label")
>>> levels.codes(np.array(["yes", "no"]))
array([1, 0])
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefair.streams import Column


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
            return cls(np.unique(column), what)
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

    def two(self) -> Levels:
        """The same, if there are exactly two."""
        if len(self.values) != 2:
            raise ValueError(
                f"Exactly two {self.what}s are needed; received {len(self.values)}: {_listed(self.values.tolist())}."
            )
        return self


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
