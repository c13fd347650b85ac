"""Input from outside becomes NumPy: features as one float64 matrix, labels and groups as one column each.

>>> as_column(["b", "a"], "label")
array(['b', 'a'], dtype='<U1')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Number
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, issparse

from surefair.rows.frames import as_frame, as_native
from surefair.storage.checks import Shape, array_of

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Column = NDArray[Any]


def as_features(X: Any) -> tuple[FloatArray, tuple[str, ...] | None]:
    """Return features as a float64 matrix, and their names where the columns have names.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features) or data frame

    Examples
    --------
    >>> import polars as pl
    >>> as_features(pl.DataFrame({"a": [1, 2], "b": [0.5, 0.25]}))[1]
    ('a', 'b')
    """
    frame = as_frame(X)
    if frame is None:
        values = np.asarray(X, dtype=np.float64)
        if values.ndim != 2:
            raise ValueError(
                f"Features must be a table of shape (rows, features); received {values.ndim} dimension(s), "
                f"shape {values.shape}. Use X.reshape(1, -1) for one row and X.reshape(-1, 1) for one feature."
            )
        return values, None
    for name, dtype in frame.schema.items():
        if not (dtype.is_numeric() or dtype == nw.Boolean):
            raise ValueError(
                f"Column {name!r} has type {dtype}, and features must be numbers. "
                "Encode it first, for example with sklearn.preprocessing.OneHotEncoder, or leave it out."
            )
    columns = [frame.get_column(name).cast(nw.Float64).to_numpy() for name in frame.columns]
    values = np.stack(columns, axis=1) if columns else np.empty((len(frame), 0))
    names = tuple(frame.columns) if all(isinstance(name, str) for name in frame.columns) else None
    return np.ascontiguousarray(values), names


def as_column(values: Any, what: str) -> Column:
    """Return one column of labels or groups as an array, in the type it came in.

    Parameters
    ----------
    values : sequence, array or series
    what : str
        What the column holds, for error messages.
    """
    found, code = check_column(values, what)
    return found if code is None else found[code]


def check_column(values: Any, what: str) -> tuple[Column, NDArray[np.intp] | None]:
    """Check one column for missing values and mixed types.

    Returns
    -------
    values : ndarray
        All values; for text, the distinct values only, because they are fewer to check.
    code : ndarray or None
        For text, the position of each entry among the distinct values.
    """
    if values is None or isinstance(values, str | bytes | Number):
        raise ValueError(f"The {what} column must be a column of values; received {values!r}. Pass the column itself.")
    if isinstance(values, Mapping) or isinstance(as_native(values), nw.DataFrame):
        raise ValueError(f"The {what} column must be one column; received a table. Pass one of its columns.")
    code: NDArray[np.intp] | None = None
    if isinstance(values, pd.Series) and isinstance(values.dtype, pd.StringDtype | pd.CategoricalDtype):
        code, found = pd.factorize(values)
        column = np.asarray(found)
    elif (column := _one_dimension(values, what)).dtype == object and pd.api.types.infer_dtype(column) == "string":
        code, column = pd.factorize(column)
    missing = pd.isna(column) if code is None else code < 0
    if isinstance(values, np.ma.MaskedArray):
        missing = missing | np.ma.getmaskarray(values).reshape(len(values))
    if missing.any():
        numbers = column.dtype.kind in "biufc"
        replace = "" if numbers or what == "label" else ", or replace missing values by a value such as 'unknown'"
        raise ValueError(
            f"The {what} column contains NaN or missing values (the first in row {int(np.argmax(missing))}). Drop "
            f"those rows{replace}."
        )
    if column.dtype == object and (texts := [isinstance(value, str) for value in column]) and any(texts):
        if not all(texts):
            raise ValueError(f"The {what} column mixes text and other types. Convert it to one type.")
        column = column.astype(np.str_)
    return column, code


def _one_dimension(values: Any, what: str) -> Column:
    """Return one column as an array of one dimension."""
    series = as_native(values, series_only=True)
    column = series.to_numpy() if isinstance(series, nw.Series) else np.asarray(values)
    if isinstance(values, list | tuple) and column.dtype.kind == "U":
        column = np.asarray(values, dtype=object)  # the entries as they were before NumPy turned all into text
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        hint = " Pass one column of it, for example [:, 1]." if column.ndim == 2 else ""
        raise ValueError(f"The {what} column must have one dimension; received shape {column.shape}.{hint}")
    return column.astype(column.dtype.newbyteorder("="), copy=False)


def as_keys(values: Any, what: str) -> NDArray[np.uint64]:
    """Return a 64-bit number for each entry of a column, which entries with the same text share.

    It depends on the text alone, so parts of a column can be numbered separately, on different machines.

    Examples
    --------
    >>> keys = as_keys([17, 18, 17], "cluster")
    >>> keys.tolist() == as_keys(["17", "18", "17"], "cluster").tolist(), bool(keys[0] == keys[2])
    (True, True)
    """
    found, code = check_column(values, what)
    if code is None:
        code, found = pd.factorize(found)
    words = np.array([str(value) for value in found.tolist()], dtype=object)
    return np.asarray(pd.util.hash_array(words, categorize=False)[code], dtype=np.uint64)


def as_weight(sample_weight: Any, n: int) -> FloatArray:
    """Return the sample weights of n rows; ones where none are given.

    Examples
    --------
    >>> as_weight([1, 0.5], 2), as_weight(None, 2)
    (array([1. , 0.5]), array([1., 1.]))
    """
    if sample_weight is None:
        return np.ones(n)
    column = as_column(sample_weight, "sample_weight")
    try:
        weight = column.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"sample_weight must hold numbers; received {column[:3].tolist()}, for example.") from None
    if len(weight) != n:
        raise ValueError(f"sample_weight has {len(weight)} entries, and there are {n} rows. Pass one weight per row.")
    bad = ~np.isfinite(weight) | (weight < 0.0)
    if bad.any():
        row = int(np.argmax(bad))
        what = "negative" if weight[row] < 0.0 and np.isfinite(weight[row]) else "infinite"
        raise ValueError(
            f"sample_weight is {what} in row {row}: {weight[row]}. Weights must be finite and not negative; drop the "
            "row, or give it the weight 0."
        )
    return np.ascontiguousarray(weight)


def check_some_weight(weight: FloatArray, purpose: str) -> None:
    """Refuse weights that are all 0."""
    if not weight.any():
        raise ValueError(
            f"sample_weight is zero in every row, so there is no row {purpose}. Leave sample_weight out or correct it."
        )


def is_sparse(X: Any) -> bool:
    """Whether X is a SciPy sparse matrix or array."""
    return bool(issparse(X))


def pack_array(name: str, value: Any) -> dict[str, NDArray[Any]]:
    """Return an array under its name, and a sparse matrix as the arrays that it consists of.

    Examples
    --------
    >>> from scipy.sparse import csr_matrix
    >>> packed = pack_array("X", csr_matrix([[0.0, 2.0]]))
    >>> sorted(packed), unpack_array("X", packed).toarray()
    (['X_data', 'X_indices', 'X_indptr', 'X_shape'], array([[0., 2.]]))
    """
    if not is_sparse(value):
        return {name: np.asarray(value)}
    parts = {"data": value.data, "indices": value.indices, "indptr": value.indptr, "shape": value.shape}
    return {f"{name}_{part}": np.asarray(array) for part, array in parts.items()}


def unpack_array(name: str, arrays: Mapping[str, NDArray[Any]], shape: Shape | None = None) -> Any:
    """Return what ``pack_array`` took apart: numbers in double precision, of this shape if it is given."""
    if name in arrays:
        return arrays[name] if shape is None else array_of(arrays, name, "float64", shape)
    given = array_of(arrays, f"{name}_shape", "int64", (2,), low=0).tolist()
    rows, columns = given
    if shape is not None and (shape[0] not in (None, rows) or shape[1] not in (None, columns)):
        raise ValueError(f"{name!r} must be a sparse matrix of shape {shape}; received {tuple(given)}.")
    data = array_of(arrays, f"{name}_data", "float64", (None,))
    kind = str(arrays[f"{name}_indices"].dtype)
    if kind not in ("int32", "int64"):
        raise ValueError(f"The indices of {name!r} must be whole numbers; received {kind}.")
    indices = array_of(arrays, f"{name}_indices", kind, data.shape, low=0, high=columns - 1)
    indptr = array_of(arrays, f"{name}_indptr", kind, (rows + 1,), low=0, high=len(data))
    if indptr[0] != 0 or indptr[-1] != len(data) or (np.diff(indptr) < 0).any():
        raise ValueError(f"The rows of {name!r} do not follow each other.")
    return csr_matrix((data, indices, indptr), shape=(rows, columns))


def same_length(**columns: Sequence[Any] | Column | None) -> int:
    """Return the common length of all columns given, or refuse them.

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


def sum_in_order(numbers: FloatArray) -> FloatArray:
    """Sum over rows (n, R), one after the other: other sums would round differently for different R.

    >>> sum_in_order(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([4., 6.])
    """
    return np.asarray(np.add.accumulate(numbers, axis=0)[-1])
