"""Rows as they come to a worker: tuples of arrays, or data frames whose columns have roles."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import pyarrow as pa

from surefair.classifier import FairClassifier, next_rows
from surefair.rows import Rows

PROBES = 16
"""Rows tried to tell a bad row from a bad column."""


def code_batch(clf: FairClassifier, batch: Any) -> Rows:
    """Check and code a batch that is a tuple of arrays."""
    if not isinstance(batch, tuple | list) or len(batch) not in (3, 4):
        raise ValueError(
            "Rows must come as a tuple (X, y, sensitive_features) or (X, y, sensitive_features, sample_weight); "
            f"received {type(batch).__name__}{f' of {len(batch)} parts' if isinstance(batch, tuple | list) else ''}."
        )
    X, y, sensitive_features, *weight = batch
    return next_rows(clf, X, y, sensitive_features, weight[0] if weight else None)


class Roles(NamedTuple):
    """Which columns of a data frame serve for what; features are numbers and are used as they are."""

    label: str
    sensitive: tuple[str, ...]
    features: tuple[str, ...]
    weights: str | None

    @property
    def others(self) -> tuple[str, ...]:
        """Columns that are not features."""
        return self.label, *self.sensitive, *([] if self.weights is None else [self.weights])

    def batch(self, frame: nw.DataFrame[Any]) -> tuple[Any, ...]:
        """Features, labels, groups and weights of a data frame."""
        schema = frame.schema
        for name in (*self.features, *self.others):
            if name not in schema:
                raise ValueError(f"There is no column {name!r}; the columns are {', '.join(map(repr, schema))}.")
        for name in self.features:
            if not (schema[name].is_numeric() or schema[name] == nw.Boolean):
                raise ValueError(
                    f"Column {name!r} has type {schema[name]}, and features must be numbers. Encode it first, leave it "
                    "out with drop=, or pass the path of a file as warmup, so that columns are encoded as "
                    "`surefair audit` does."
                )
        groups = {name: frame.get_column(name).to_native() for name in self.sensitive}
        weight = None if self.weights is None else frame.get_column(self.weights).to_native()
        return frame.select(self.features).to_native(), frame.get_column(self.label).to_native(), groups, weight


def as_frame(rows: Any) -> nw.DataFrame[Any]:
    """Return rows as a narwhals data frame."""
    rows = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    frame = nw.from_native(rows, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        raise ValueError(
            f"Rows must come as data frames or Arrow tables; received {type(rows).__name__}. Convert them first."
        )
    return frame


def first_bad(clf: FairClassifier, roles: Roles, frame: nw.DataFrame[Any], error: ValueError) -> tuple[int | None, str]:
    """Find the first row of a data frame that is refused, counted from 1, and why; None if it is not about a row."""

    def refused(low: int, high: int) -> str | None:
        X, y, groups, weight = roles.batch(frame[low:high])
        try:
            next_rows(clf, X, y, groups, weight)
        except ValueError as found:  # the row that it names is not that of the partition
            return re.sub(r" \(the first in row \d+\)| in row \d+", "", str(found))
        return None

    n = len(frame)
    if refused(0, n) is None or (n > 1 and all(refused(i, i + 1) for i in range(0, n, max(1, n // PROBES)))):
        return None, str(error)
    good, bad = 0, n  # the first `good` rows are accepted, the first `bad` are not
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (good, middle) if refused(0, middle) else (middle, bad)
    row = frame[bad - 1 : bad]
    values = {name: row.get_column(name).to_list()[0] for name in roles.features}
    if gaps := [name for name, value in values.items() if value is None or not np.isfinite(value)]:
        listed = ", ".join(map(repr, gaps))
        return bad, (
            f"no finite number in {listed}. Fill in or drop such rows, or pass the path of a file as warmup, "
            "so that missing values are handled as `surefair audit` does."
        )
    return bad, refused(0, bad) or str(error)
