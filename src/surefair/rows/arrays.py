"""Rows as they come in: arrays and data frames become batches.

Everything after this module sees NumPy: features as one float64 matrix, labels and groups as one column each, in
the type they arrived in. Data frames of any library that narwhals knows (pandas, polars, pyarrow, ...) keep their
column names and remember their library, so that answers can be given in the same one.

>>> import pandas as pd
>>> frame = pd.DataFrame({"age": [25, 38, 52], "hours": [40.0, 20.0, 60.0]})
>>> [(batch.first_row, batch.n_rows) for batch in batches(frame, y=["no", "no", "yes"], size=2)]
[(0, 2), (2, 1)]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Number
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import issparse

FloatArray = NDArray[np.float64]
Column = NDArray[Any]


class Batch(NamedTuple):
    """Some consecutive rows of a stream.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_features)
        Features, float64.
    y : ndarray of shape (n_rows,) or None
        Labels, in the type they arrived in.
    group : ndarray of shape (n_rows,) or None
        Sensitive group of each row, in the type it arrived in.
    first_row : int
        Number of the first row in its stream, counted from 0.
    feature_names : tuple of str or None
        Column names, where the rows came with names.
    """

    X: FloatArray
    y: Column | None = None
    group: Column | None = None
    first_row: int = 0
    feature_names: tuple[str, ...] | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.X)

    def part(self, low: int, high: int | None = None) -> Batch:
        """Rows low, …, high - 1 of this batch."""
        y = None if self.y is None else self.y[low:high]
        group = None if self.group is None else self.group[low:high]
        return Batch(self.X[low:high], y, group, self.first_row + low, self.feature_names)


class Table(NamedTuple):
    """A feature matrix with what is known of its columns."""

    values: FloatArray  # (n_rows, n_features)
    names: tuple[str, ...] | None
    backend: str  # the data-frame library it came from; "pandas" for arrays


def as_table(X: Any) -> Table:
    """Features as a float64 matrix, with names and origin.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features) or data frame

    Examples
    --------
    >>> import polars as pl
    >>> as_table(pl.DataFrame({"a": [1, 2], "b": [0.5, 0.25]})).names
    ('a', 'b')
    """
    frame = _frame(X)
    if frame is None:
        values = np.asarray(X, dtype=np.float64)
        if values.ndim != 2:
            raise ValueError(
                f"Features must be a table of shape (rows, features); received {values.ndim} dimension(s), "
                f"shape {values.shape}. One row is X.reshape(1, -1), one feature X.reshape(-1, 1)."
            )
        return Table(values, None, "pandas")
    for name, dtype in frame.schema.items():
        if not (dtype.is_numeric() or dtype == nw.Boolean):
            raise ValueError(
                f"Column {name!r} is of type {dtype}, and features must be numbers. "
                "Encode it first, for example with sklearn.preprocessing.OneHotEncoder, or leave it out."
            )
    columns = [frame.get_column(name).cast(nw.Float64).to_numpy() for name in frame.columns]
    values = np.stack(columns, axis=1) if columns else np.empty((len(frame), 0))
    names = tuple(frame.columns) if all(isinstance(name, str) for name in frame.columns) else None
    return Table(np.ascontiguousarray(values), names, frame.implementation.value)


def as_column(values: Any, what: str) -> Column:
    """One column of labels or groups as an array, in its own type.

    Parameters
    ----------
    values : sequence, array or series
    what : str
        What the column is, for error messages.

    Examples
    --------
    >>> as_column(["b", "a"], "label")
    array(['b', 'a'], dtype='<U1')
    """
    found, code = _checked(values, what)
    return found if code is None else found[code]


def _checked(values: Any, what: str) -> tuple[Column, NDArray[np.intp] | None]:
    """One column; of text its distinct values, and the place of each entry among them, as those are fewer to check."""
    if values is None or isinstance(values, str | bytes | Number):
        raise ValueError(f"The {what} column must be a column of values; received {values!r}. Pass the column itself.")
    if isinstance(values, Mapping) or isinstance(_native(values), nw.DataFrame):
        raise ValueError(f"The {what} column must be one column; received a table. Pass one of its columns.")
    code: NDArray[np.intp] | None = None
    if isinstance(values, pd.Series) and isinstance(values.dtype, pd.StringDtype | pd.CategoricalDtype):
        code, found = pd.factorize(values)
        column = np.asarray(found)
    elif (column := _array(values, what)).dtype == object and pd.api.types.infer_dtype(column) == "string":
        code, column = pd.factorize(column)
    missing = pd.isna(column) if code is None else code < 0
    if isinstance(values, np.ma.MaskedArray):
        missing = missing | np.ma.getmaskarray(values).reshape(len(values))
    if missing.any():
        raise ValueError(
            f"The {what} column contains NaN or missing values (the first in row {int(np.argmax(missing))}). "
            "Drop those rows, or give the missing value a name of its own."
        )
    if column.dtype == object and (texts := [isinstance(value, str) for value in column]) and any(texts):
        if not all(texts):
            raise ValueError(f"The {what} column mixes text and other types. Convert it to one type.")
        column = column.astype(np.str_)
    return column, code


def _array(values: Any, what: str) -> Column:
    """One column as an array of one dimension."""
    series = _native(values, series_only=True)
    column = series.to_numpy() if isinstance(series, nw.Series) else np.asarray(values)
    if isinstance(values, list | tuple) and column.dtype.kind == "U":
        column = np.asarray(values, dtype=object)  # as they were before NumPy made them all text
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise ValueError(f"The {what} column must have one dimension; received shape {column.shape}.")
    return column.astype(column.dtype.newbyteorder("="), copy=False)


class CodedColumn(NamedTuple):
    """One column of groups or labels, with the values that its type declares."""

    found: Column  # distinct values, in any order
    code: NDArray[np.intp]  # place of each row's value among them
    declared: Column | None = None  # every category of a categorical type, whether or not a row has it

    @classmethod
    def of(cls, values: Any, what: str = "group") -> CodedColumn:
        """Look through a column once."""
        column, code = _checked(values, what)
        if code is None and column.dtype.kind in "biufO":
            code, column = _factorised(column)
        elif code is None:  # text, which pandas would turn to objects first
            column, whole = np.unique(column), column
            code = np.searchsorted(column, whole)
        return cls(column, code, _categories(values))

    @property
    def values(self) -> Column:
        """Value of each row."""
        return self.found[self.code]


def _factorised(column: Column) -> tuple[NDArray[np.intp], Column]:
    """Place of each entry among the distinct values, and these; where they are two numbers, by comparisons alone."""
    if len(column) and column.dtype.kind != "O":
        other = column != column[0]
        found = column[[0, int(other.argmax())]]
        if np.array_equal(column == found[1], other):
            return other.astype(np.intp), found
    code, found = pd.factorize(column)
    return code, found


def as_columns(
    sensitive_features: Any, intersections: bool = False, order: Iterable[str | None] = ()
) -> dict[str | None, CodedColumn]:
    """Sensitive columns by name; a plain array, list or series is one column without a name.

    Parameters
    ----------
    sensitive_features : sequence, array, series, data frame or dict of columns
        Categorical columns (pandas, Arrow's dictionaries, polars' Enum) declare their categories.
    intersections : bool
        Add a column of the groups that the columns form together. Only those that occur: most products of categories
        would be groups of nobody.
    order : iterable of str
        Names of columns that come first, in this order, where they are given.

    Examples
    --------
    >>> columns = as_columns({"sex": ["f", "m"], "age": [30, 40]}, intersections=True)
    >>> {name: column.values.tolist() for name, column in columns.items()}
    {'sex': ['f', 'm'], 'age': [30, 40], 'sex × age': ['f × 30', 'm × 40']}
    """
    frame = _frame(sensitive_features)
    columns: dict[str | None, CodedColumn] = {}
    if frame is None and not isinstance(sensitive_features, Mapping):
        if np.ndim(sensitive_features) == 2 and np.shape(sensitive_features)[1] != 1:
            raise ValueError(
                f"sensitive_features holds several columns without names, shape {np.shape(sensitive_features)}: pass a "
                "data frame or a dict of columns so that each has a name."
            )
        columns[None] = CodedColumn.of(sensitive_features)
    else:
        given = sensitive_features if frame is None else {n: frame.get_column(n).to_native() for n in frame.columns}
        if len({str(name) for name in given}) < len(given):
            raise ValueError(f"Two sensitive columns have the same name: {list(given)}. Rename one.")
        for name, values in given.items():
            columns[str(name)] = CodedColumn.of(values, f"{str(name)!r} group")
    if not columns:
        raise ValueError("sensitive_features holds no column. Pass at least one.")
    columns = {name: columns[name] for name in order if name in columns} | columns
    same_length(**{str(name): column.code for name, column in columns.items()})
    return with_intersection(columns) if intersections else columns


def with_intersection(columns: dict[str | None, CodedColumn]) -> dict[str | None, CodedColumn]:
    """Sensitive columns, and one more of the groups that they form together."""
    if len(columns) < 2:
        raise ValueError(
            f"Intersections need two or more sensitive columns; received {len(columns)}. Pass a data frame or a "
            "dict of columns, or leave intersections out."
        )
    return columns | {" × ".join(map(str, columns)): _intersection([*columns.values()])}


def _intersection(columns: list[CodedColumn]) -> CodedColumn:
    """Text of each row's values joined by ×; written once for each combination that occurs."""
    names, code = _texts(columns[0].found), columns[0].code
    for column in columns[1:]:
        texts = _texts(column.found)
        code, pairs = pd.factorize(code * len(texts) + column.code)
        names = [f"{names[pair // len(texts)]} × {texts[pair % len(texts)]}" for pair in pairs.tolist()]
    if len(set(names)) < len(names):
        raise ValueError("Values that contain ' × ' make two intersections read alike. Rename them.")
    return CodedColumn(np.asarray(names, dtype=np.str_), code)


def _texts(values: Column) -> list[str]:
    whole = values.dtype.kind == "f" and bool(np.all(values == np.rint(values)))
    return [f"{value:.0f}" if whole else str(value) for value in values.tolist()]


def _categories(values: Any) -> Column | None:
    """Categories of a categorical column. A polars Categorical has none of its own: all such columns share them."""
    series = _native(values, series_only=True)
    dtype = getattr(values, "dtype", None)
    if isinstance(series, nw.Series) and series.implementation.is_pyarrow() and series.dtype == nw.Categorical:
        dtype = values.to_pandas().dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return as_column(dtype.categories.to_numpy(), "group")
    if isinstance(series, nw.Series) and isinstance(series.dtype, nw.Enum):
        return np.asarray(series.dtype.categories, dtype=np.str_)
    return None


def as_weight(sample_weight: Any, n: int) -> FloatArray | None:
    """Sample weights of n rows, or None where none are given.

    Examples
    --------
    >>> as_weight([1, 0.5], 2)
    array([1. , 0.5])
    """
    if sample_weight is None:
        return None
    column = as_column(sample_weight, "sample_weight")
    try:
        weight = column.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"sample_weight must be numbers; received {column[:3].tolist()} and so on.") from None
    if len(weight) != n:
        raise ValueError(f"sample_weight has {len(weight)} entries, and there are {n} rows. Pass one weight per row.")
    bad = ~np.isfinite(weight) | (weight < 0.0)
    if bad.any():
        row = int(np.argmax(bad))
        what = "negative" if weight[row] < 0.0 and np.isfinite(weight[row]) else "infinite"
        raise ValueError(
            f"sample_weight is {what} in row {row}: {weight[row]}. Weights are finite and 0 or larger; drop the "
            "row, or give it the weight 0."
        )
    return np.ascontiguousarray(weight)


def some_weight(weight: FloatArray, purpose: str) -> None:
    """Refuse weights that are all 0."""
    if not weight.any():
        raise ValueError(f"sample_weight is zero in every row: nothing is left {purpose}. Leave it out, or mend it.")


def is_sparse(X: Any) -> bool:
    """Whether X is a sparse matrix or array of SciPy's."""
    return bool(issparse(X))


def same_length(**columns: Sequence[Any] | Column | None) -> int:
    """Return the common length of all columns given, or refuse.

    Examples
    --------
    >>> same_length(X=[1, 2], y=[3, 4], sensitive_features=None)
    2
    """
    lengths = {name: len(column) for name, column in columns.items() if column is not None}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name} has {n}" for name, n in lengths.items())
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {found} rows.")
    return next(iter(lengths.values()))


def batches(
    X: Any, y: Any = None, sensitive_features: Any = None, *, size: int = 10_000, first_row: int = 0
) -> Iterator[Batch]:
    """Cut arrays or data frames into batches.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features) or data frame
    y, sensitive_features : sequence, array or series of length n_rows, optional
    size : int
        Rows per batch.
    first_row : int
        Number of the first row in its stream.

    Yields
    ------
    Batch

    Examples
    --------
    >>> [batch.X.shape for batch in batches([[1.0], [2.0], [3.0]], size=2)]
    [(2, 1), (1, 1)]
    """
    if size < 1:
        raise ValueError(f"A batch needs at least one row; received size={size}.")
    table = as_table(X)
    labels = None if y is None else as_column(y, "label")
    group = None if sensitive_features is None else as_column(sensitive_features, "group")
    n = same_length(X=table.values, y=labels, sensitive_features=group)
    whole = Batch(table.values, labels, group, first_row, table.names)
    for low in range(0, n, size):
        yield whole.part(low, low + size)


def _native(values: Any, **kinds: bool) -> Any:
    """Return a frame or series of any library as one of narwhals', and anything else as it is."""
    plain = isinstance(values, np.ndarray | list | tuple)  # told at once, unlike by narwhals
    return values if plain else nw.from_native(values, pass_through=True, **kinds)


def _frame(X: Any) -> nw.DataFrame[Any] | None:
    """Return X as a data frame of narwhals', if it is one of any library."""
    try:
        frame = _native(X, eager_only=True)
    except nw.exceptions.DuplicateError as error:
        raise ValueError(f"Every column needs a name of its own ({error}). Rename the columns.") from error
    return frame if isinstance(frame, nw.DataFrame) else None


def make_frame(columns: Mapping[str, Sequence[Any]], like: Any = None) -> Any:
    """Data frame in the library of ``like`` (a frame, a series, or a library's name); in pandas for anything else.

    Examples
    --------
    >>> make_frame({"a": [1, 2]}, like="polars").shape
    (2, 1)
    """
    if not isinstance(like, str):
        native = nw.from_native(like, eager_only=True, allow_series=True, pass_through=True)
        like = native.implementation.value if isinstance(native, nw.DataFrame | nw.Series) else "pandas"
    return nw.from_dict(dict(columns), backend=like).to_native()
