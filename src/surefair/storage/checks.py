"""Check the content of a file before it is used: types, shapes and ranges of arrays, and of values from JSON.

An archive's checksums show that it is not damaged, not that it makes sense: anybody can write one. Compiled code does
not check the bounds of arrays, so whatever reaches it must fit together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Shape = tuple[int | None, ...]
"""Shape of an array; None where any length will do."""


def array_of(
    arrays: Mapping[str, NDArray[Any]],
    name: str,
    dtype: str,
    shape: Shape,
    low: float | None = None,
    high: float | None = None,
) -> NDArray[Any]:
    """Return an array that has this type and shape, and whose values lie within limits, if there are any.

    Without limits, a number may also be infinite or NaN. The result is contiguous.

    Examples
    --------
    >>> array_of({"x": np.arange(3)}, "x", "int64", (None,), low=0).tolist()
    [0, 1, 2]
    >>> array_of({"x": np.arange(3)}, "x", "int64", (4,))
    Traceback (most recent call last):
    ValueError: 'x' must be an array of int64 of shape (4,); received int64 of shape (3,).
    """
    found = arrays.get(name)
    if found is None:
        raise ValueError(f"The array {name!r} is missing.")
    fits = len(found.shape) == len(shape) and all(n is None or n == m for n, m in zip(shape, found.shape, strict=True))
    if found.dtype != np.dtype(dtype) or not fits:
        wanted = "(" + ", ".join("any" if n is None else str(n) for n in shape) + ("," if len(shape) == 1 else "") + ")"
        raise ValueError(
            f"{name!r} must be an array of {dtype} of shape {wanted}; received {found.dtype} of shape {found.shape}."
        )
    if found.size and ((low is not None and not found.min() >= low) or (high is not None and not found.max() <= high)):
        limits = f"{'no limit' if low is None else f'{low:g}'} to {'no limit' if high is None else f'{high:g}'}"
        raise ValueError(f"{name!r} must hold numbers from {limits}; received {found.min()} to {found.max()}.")
    return np.asarray(found, order="C")


def value_of(
    values: Mapping[str, Any], name: str, kinds: Any, low: float | None = None, high: float | None = None
) -> Any:
    """Return a value from JSON that has one of these types and, if it is a number, lies within limits.

    Examples
    --------
    >>> value_of({"rows": 3}, "rows", int, low=0)
    3
    >>> value_of({"rows": True}, "rows", int)
    Traceback (most recent call last):
    ValueError: 'rows' must be of type int; received True.
    """
    if name not in values:
        raise ValueError(f"The value {name!r} is missing.")
    value = values[name]
    wanted = kinds if isinstance(kinds, tuple) else (kinds,)
    if type(value) not in wanted:
        raise ValueError(
            f"{name!r} must be of type {' or '.join(kind.__name__ for kind in wanted)}; received {value!r:.60}."
        )
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and not ((low is None or value >= low) and (high is None or value <= high)):
        raise ValueError(f"{name!r} must lie from {low} to {high}; received {value!r}.")
    return value
