"""Rows of a synthetic stream as plain arrays, for tests that cut, shuffle and change them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from surefair.datasets.stream import Stream


class Batch(NamedTuple):
    """Features, labels and groups of some rows."""

    X: Any
    y: Any
    group: Any

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.y)

    def part(self, low: int, high: int | None = None) -> Batch:
        """Rows low, …, high - 1."""
        return Batch(self.X[low:high], self.y[low:high], self.group[low:high])


def draw_batch(stream: Stream, first: int, n: int) -> Batch:
    """Draw rows first, …, first + n - 1 of a stream."""
    data = stream.rows(first, n)
    return Batch(np.ascontiguousarray(data.X), data.y, data.sensitive)
