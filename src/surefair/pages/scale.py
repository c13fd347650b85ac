"""Axes: where a value stands, and round ticks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from surefair.pages.text import fixed


class Scale(NamedTuple):
    """The range of an axis, and its ticks with their labels."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]

    def at(self, value: float, start: float, end: float) -> float:
        """Place a value between start and end; values outside the range go to the nearer end.

        Examples
        --------
        >>> Scale(0.0, 2.0, ()).at(0.5, 100.0, 200.0)
        125.0
        """
        share = (value - self.low) / (self.high - self.low)
        return start + min(max(share, 0.0), 1.0) * (end - start)


def make_scale(
    values: Iterable[float | None],
    floor: float | None = None,
    ceiling: float | None = None,
    times: float = 1.0,
    most: int = 6,
) -> Scale:
    """Make an axis with round ticks that covers some values.

    Parameters
    ----------
    values : iterable of float or None
    floor, ceiling : float, optional
        Where the axis begins or ends; by default a little beyond the values.
    times : float
        Factor of the tick labels: 100 for percentage points.
    most : int
        Largest number of ticks.

    Returns
    -------
    Scale

    Examples
    --------
    >>> [label for _, label in make_scale([0.024, 0.201], floor=0.0, times=100.0).ticks]
    ['0', '5', '10', '15', '20']
    """
    known = [value for value in values if value is not None]
    low = min(known, default=0.0) if floor is None else floor
    high = max(known, default=1.0) if ceiling is None else ceiling
    spare = 0.04 * (high - low) or 0.05
    if floor is None:
        low -= spare
    if ceiling is None:
        high += spare
    step, digits = _round_step((high - low) * times, most)
    first = math.ceil(low * times / step - 1e-9)
    last = math.floor(high * times / step + 1e-9)
    ticks = tuple((i * step / times, fixed(i * step, digits)) for i in range(first, last + 1))
    return Scale(low, high, ticks)


def _round_step(size: float, most: int) -> tuple[float, int]:
    """Smallest of 1, 2, 5, 10, ... that fits fewer than ``most`` times into a size, and the digits its labels need."""
    smallest = math.floor(math.log10(size)) - 1
    steps = [(factor, power) for power in range(smallest, smallest + 3) for factor in (1, 2, 5)]
    factor, power = next(step for step in steps if size / (step[0] * 10.0 ** step[1]) < most)
    return factor * 10.0**power, max(0, -power)


def log_ticks(low: int, high: int) -> list[int]:
    """Round counts for a logarithmic axis, at most seven.

    Examples
    --------
    >>> log_ticks(400, 12_000)
    [500, 1000, 2000, 5000, 10000]
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        ticks = [factor * 10**power for power in powers for factor in factors if low <= factor * 10**power <= high]
        if 2 <= len(ticks) <= 6:
            return ticks
    return ticks if len(ticks) > 6 else sorted({low, high})
