"""Data frames of any library that narwhals knows (pandas, polars, pyarrow, ...), in and out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np


def as_native(values: Any, **kinds: bool) -> Any:
    """Return a frame or series of any library as a narwhals one, and anything else unchanged."""
    is_plain = isinstance(values, np.ndarray | list | tuple)  # a quick answer; narwhals takes longer to say no
    return values if is_plain else nw.from_native(values, pass_through=True, **kinds)


def as_frame(X: Any) -> nw.DataFrame[Any] | None:
    """Return a data frame of any library as a narwhals one, and None for anything else."""
    try:
        frame = as_native(X, eager_only=True)
    except nw.exceptions.DuplicateError as error:
        raise ValueError(f"Two columns have the same name ({error}). Rename one of them.") from error
    return frame if isinstance(frame, nw.DataFrame) else None


def library_of(values: Any) -> str:
    """Name of the library that a frame or series comes from; "pandas" for anything else.

    Examples
    --------
    >>> import polars as pl
    >>> library_of(pl.DataFrame({"a": [1]})), library_of([[1.0]])
    ('polars', 'pandas')
    """
    native = nw.from_native(values, eager_only=True, allow_series=True, pass_through=True)
    return native.implementation.value if isinstance(native, nw.DataFrame | nw.Series) else "pandas"


def make_frame(columns: Mapping[str, Sequence[Any]], like: Any = None) -> Any:
    """Make a data frame in the library of ``like``.

    Parameters
    ----------
    columns : dict of str to sequence
    like : str, data frame or series, optional
        The name of a library, or something that comes from it; pandas for anything else.

    Examples
    --------
    >>> make_frame({"a": [1, 2]}, like="polars").shape
    (2, 1)
    """
    library = like if isinstance(like, str) else library_of(like)
    return nw.from_dict(dict(columns), backend=library).to_native()  # type: ignore[arg-type]
