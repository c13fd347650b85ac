"""Sensitive columns and labels as they come in: one or several, of any type, looked through once.

>>> columns = as_columns({"sex": ["f", "m"], "age": [30, 40]}, intersections=True)
>>> {name: column.values.tolist() for name, column in columns.items()}
{'sex': ['f', 'm'], 'age': [30, 40], 'sex × age': ['f × 30', 'm × 40']}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from surefair.rows.arrays import Column, as_column, check_column, same_length
from surefair.rows.frames import as_frame, as_native


class CodedColumn(NamedTuple):
    """One column of groups or labels: its distinct values, and the position of each row's value among them."""

    found: Column  # distinct values, in any order
    code: NDArray[np.intp]
    declared: Column | None = None  # all categories of a categorical type, including those that no row has

    @classmethod
    def of(cls, values: Any, what: str = "group") -> CodedColumn:
        """Code a column."""
        column, code = check_column(values, what)
        if code is None and column.dtype.kind in "biufO":
            code, column = _factorise(column)
        elif code is None:  # NumPy text, which pandas would convert to objects first
            distinct = np.unique(column)
            code = np.searchsorted(distinct, column)
            column = distinct
        return cls(column, code, _categories(values))

    @property
    def values(self) -> Column:
        """Value of each row."""
        return self.found[self.code]


def as_columns(
    sensitive_features: Any, intersections: bool = False, order: Iterable[str | None] = ()
) -> dict[str | None, CodedColumn]:
    """Return sensitive columns by name; a plain array, list or series is one column without a name.

    Parameters
    ----------
    sensitive_features : sequence, array, series, data frame or dict of columns
        Categorical columns (pandas, Arrow dictionaries, polars Enum) declare their categories.
    intersections : bool
        Add a column of the groups that the columns form together. Only combinations that occur become groups.
    order : iterable of str
        Names of columns that come first, in this order, if they are present.
    """
    frame = as_frame(sensitive_features)
    columns: dict[str | None, CodedColumn] = {}
    if frame is None and not isinstance(sensitive_features, Mapping):
        if np.ndim(sensitive_features) == 2 and np.shape(sensitive_features)[1] != 1:
            raise ValueError(
                f"sensitive_features has several columns without names, shape {np.shape(sensitive_features)}. Pass a "
                "data frame or a dict of columns so that each column has a name."
            )
        columns[None] = CodedColumn.of(sensitive_features)
    else:
        given = sensitive_features if frame is None else {n: frame.get_column(n).to_native() for n in frame.columns}
        if len({str(name) for name in given}) < len(given):
            raise ValueError(f"Two sensitive columns have the same name: {list(given)}. Rename one of them.")
        for name, values in given.items():
            columns[str(name)] = CodedColumn.of(values, f"{str(name)!r} group")
    if not columns:
        raise ValueError("sensitive_features has no column. Pass at least one.")
    columns = {name: columns[name] for name in order if name in columns} | columns
    same_length(**{str(name): column.code for name, column in columns.items()})
    return with_intersection(columns) if intersections else columns


def with_intersection(columns: dict[str | None, CodedColumn]) -> dict[str | None, CodedColumn]:
    """Add a column of the groups that the sensitive columns form together."""
    if len(columns) < 2:
        raise ValueError(
            f"Intersections need two or more sensitive columns; received {len(columns)}. Pass a data frame or a "
            "dict of columns, or leave intersections out."
        )
    return columns | {" × ".join(map(str, columns)): _intersection([*columns.values()])}


def _intersection(columns: list[CodedColumn]) -> CodedColumn:
    """Join the values of each row by ×; the text is made once for each combination that occurs."""
    names = _texts(columns[0].found)
    code = columns[0].code
    for column in columns[1:]:
        texts = _texts(column.found)
        code, pairs = pd.factorize(code * len(texts) + column.code)
        names = [f"{names[pair // len(texts)]} × {texts[pair % len(texts)]}" for pair in pairs.tolist()]
    if len(set(names)) < len(names):
        raise ValueError("Values that contain ' × ' give two intersections the same name. Rename those values.")
    return CodedColumn(np.asarray(names, dtype=np.str_), code)


def _texts(values: Column) -> list[str]:
    whole = values.dtype.kind == "f" and bool(np.all(values == np.rint(values)))
    return [f"{value:.0f}" if whole else str(value) for value in values.tolist()]


def _factorise(column: Column) -> tuple[NDArray[np.intp], Column]:
    """Return codes and distinct values; two distinct numbers are found by comparisons alone, which is faster."""
    if len(column) and column.dtype.kind != "O":
        other = column != column[0]
        found = column[[0, int(other.argmax())]]
        if np.array_equal(column == found[1], other):
            return other.astype(np.intp), found
    code, found = pd.factorize(column)
    return code, found


def _categories(values: Any) -> Column | None:
    """Return the categories that a type declares. A polars Categorical declares none: all such columns share them."""
    series = as_native(values, series_only=True)
    dtype = getattr(values, "dtype", None)
    if isinstance(series, nw.Series) and series.implementation.is_pyarrow() and series.dtype == nw.Categorical:
        dtype = values.to_pandas().dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return as_column(dtype.categories.to_numpy(), "group")
    if isinstance(series, nw.Series) and isinstance(series.dtype, nw.Enum):
        return np.asarray(series.dtype.categories, dtype=np.str_)
    return None
