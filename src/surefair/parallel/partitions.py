"""Fits of the parts of a data set, each where it lies, merged in their order: one shard trainer for all of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from surefair import engines
from surefair.classifier import FairClassifier, begin, next_rows, take_over
from surefair.diagnostics import Diagnostic, issue
from surefair.inference.checks import training_diagnostics
from surefair.parallel.batches import Roles, as_frame, code_batch, first_bad
from surefair.parallel.shards import Packed, merge_models, receive, send, train_shard, unpack_models
from surefair.rows import Rows
from surefair.tables.bad_rows import BadRows
from surefair.tables.intake import CHUNK, Columns, Intake
from surefair.tables.source import open_source
from surefair.training.model import Model

NAME = "model"  # of the one model that is trained


def fit_shards(clf: FairClassifier, partitions: Iterable[Any], *, warmup: Any) -> FairClassifier:
    """Fit every partition of the rows separately, on many workers, and merge the fits in the order of the partitions.

    All fits begin with the same warm-up rows, which count once. Partitions must be random parts of the rows, not parts
    by time or place, and long: see ``FairClassifier.merge``. A partition without rows does not count.

    Parameters
    ----------
    clf : FairClassifier
    partitions : iterable
        Tuples (X, y, sensitive_features) or (X, y, sensitive_features, sample_weight), or callables that return such a
        tuple, so that each worker reads its own part.
    warmup : tuple
        The first rows of all fits, (X, y, sensitive_features) or (X, y, sensitive_features, sample_weight), with both
        labels: a random sample of some thousand rows that are in no partition.

    Returns
    -------
    clf

    Examples
    --------
    >>> import surefair as sf
    >>> data = sf.datasets.SyntheticDI(seed=0).sample(12_000)
    >>> first, *parts = [(data.X[i::3], data.y[i::3], data.sensitive[i::3]) for i in range(3)]
    >>> clf = fit_shards(sf.FairClassifier(random_state=0), parts, warmup=first)
    >>> clf.n_rows_
    12000
    """
    begun = begin(clf, warmup)
    with engines.connected("local", n_jobs=clf.n_jobs) as run:
        work = partial(_fit_tuple, begun, _random_state(clf, begun))
        return _merge(clf, begun, run(work, enumerate(partitions)))


def fit_partitions(
    clf: FairClassifier,
    data: Any,
    *,
    label: str,
    sensitive: str | Sequence[str],
    warmup: Any,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    weights: str | None = None,
    positive: str | None = None,
    max_bad_rows: int = 0,
) -> FairClassifier:
    """Fit every partition of a data set separately, where it lies, and merge the fits in their order.

    It is :func:`fit_shards` of the partitions, with bit-identical results: they must be random parts of the rows, and
    long. The batches into which a partition is cut do not matter. Rows never come to this process: each worker sends
    back the state of its fit, which is merged and released before the next.

    If the warm-up rows are a data frame, features are numbers and are used as they are. If they are the path of a file,
    columns are read and encoded as ``surefair audit`` does: words become indicators, numbers are standardised, missing
    values are handled, and bad rows are counted. The encoder is then ``clf.encoder_``. Every row is compared with what
    the warm-up rows show about its columns; a column that changes is reported as ``LateColumn``.

    Parameters
    ----------
    clf : FairClassifier
    data : Dask DataFrame or Bag of Arrow batches, Ray Dataset, Spark DataFrame, or iterable
        The partitions of a Ray Dataset are its blocks. Each item of an iterable is a partition: a data frame, an Arrow
        table or batch, the path of a file, which the worker reads in chunks, or a callable that returns one of these;
        joblib fits ``clf.n_jobs`` of them at a time.
    label : str
        Column of labels.
    sensitive : str or sequence of str
        Columns of groups.
    warmup : data frame or path
        The first rows of all fits, with the same columns and both labels; they must not be among those of data.
    features, drop : sequence of str, optional
        Columns to learn from (by default all without another role), and columns not to learn from.
    weights : str, optional
        Column of weights.
    positive : str, optional
        The positive label, with a path as warmup; by default the second in sorted order.
    max_bad_rows : int
        Rows of a partition that cannot be used, with a path as warmup; more of them are an error.

    Returns
    -------
    clf

    Examples
    --------
    >>> import surefair as sf
    >>> def table(seed, n):
    ...     data = sf.datasets.SyntheticDI(seed=seed).sample(n)
    ...     return data.X.assign(hired=data.y, sex=data.sensitive)
    >>> parts = [table(seed, 4_000) for seed in (1, 2)]
    >>> clf = sf.FairClassifier(random_state=0)
    >>> clf = fit_partitions(clf, parts, label="hired", sensitive="sex", warmup=table(0, 4_000))
    >>> clf.n_rows_
    12000
    """
    several = (sensitive,) if isinstance(sensitive, str) else tuple(sensitive)
    encoder = None
    reader: Reader
    if isinstance(warmup, str | os.PathLike):
        columns = Columns(
            label=label, sensitive=several, features=None if features is None else tuple(features), drop=tuple(drop),
            weights=weights, positive=positive, max_bad_rows=max_bad_rows,
        )  # fmt: skip
        begun, reader = _begin_encoded(clf, columns, warmup)
        encoder = reader.intake.encoder
    else:
        begun, reader = _begin_as_is(clf, Roles(label, several, tuple(features or ()), weights), drop, warmup)
    packed: Packed = {NAME: begun.model_.pack()}
    template = copy(begun)
    work = partial(_fit_partition, template, packed, reader, _random_state(clf, begun))

    def received() -> Iterator[Model]:
        for sent in engines.over(data, work, clf.n_jobs):
            models, more = receive(sent, packed)
            reader.add(more["counted"])
            yield models[NAME]

    fitted = _merge(clf, begun, received(), reader.late_columns)
    if encoder is not None:
        fitted.encoder_ = encoder
    return fitted


# -- Readers ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FrameReader:
    """Reads data frames whose features are numbers, as they are."""

    roles: Roles

    def begin(self) -> FrameReader:
        """Return a reader for one partition."""
        return self

    def counted(self) -> dict[str, Any] | None:
        """What was counted; None, because bad rows are errors."""
        return None

    def add(self, counted: Any) -> None:
        """Add what was counted elsewhere."""

    def late_columns(self) -> list[Diagnostic]:
        """Check whether columns change: numbers that are used as they are cannot."""
        return []

    def rows(self, clf: FairClassifier, partition: Any) -> Iterator[Rows]:
        """Rows of a partition, some at a time; a bad row is named in the error."""
        before = 0
        for frame in _frames(partition):
            X, y, groups, weight = self.roles.batch(frame)
            try:
                yield next_rows(clf, X, y, groups, weight)
            except ValueError as error:
                bad, words = first_bad(clf, self.roles, frame, error)
                raise ValueError(words if bad is None else f"row {before + bad}: {words}") from error
            before += len(frame)


@dataclass(frozen=True)
class EncodedReader:
    """Reads files and frames, and encodes their columns in a way that was settled on the warm-up rows."""

    intake: Intake
    read: tuple[str, ...]

    def begin(self) -> EncodedReader:
        """Return a reader for one partition, with counts of its own."""
        return replace(self, intake=self.intake.elsewhere(0, self.intake.place))

    def counted(self) -> dict[str, Any] | None:
        """What was counted, without the bad rows, which have a limit in each partition."""
        return self.intake.pack() | {"bad": []}

    def add(self, counted: Any) -> None:
        """Add what was counted elsewhere."""
        self.intake.add(counted)

    def late_columns(self) -> list[Diagnostic]:
        """Check whether all rows fit what the warm-up rows show about the columns."""
        return self.intake.late_columns()

    def rows(self, clf: FairClassifier, partition: Any) -> Iterator[Rows]:
        """Rows of a partition, some at a time; bad rows are counted, those of all its frames together."""
        intake = self.intake
        first = True
        for part in _parts(partition):
            if not isinstance(part, str | os.PathLike) and len(as_frame(part)) == 0:
                continue
            source = intake.columns.open(part, intake.bad)  # one limit for rows that the reader and the intake refuse
            if first:
                intake.place = source.place
                first = False
            for table in source.tables(CHUNK, self.read):
                yield intake.rows(table).trimmed()


Reader = FrameReader | EncodedReader


def _begin_as_is(
    clf: FairClassifier, roles: Roles, drop: Sequence[str], warmup: Any
) -> tuple[FairClassifier, FrameReader]:
    """Begin a classifier with warm-up rows whose features are numbers."""
    try:
        frame = as_frame(warmup)
        if not roles.features:
            known = {*roles.others, *drop}
            roles = roles._replace(features=tuple(name for name in frame.columns if name not in known))
        batch = roles.batch(frame)
    except ValueError as error:
        raise ValueError(f"warmup: {error}") from error
    return begin(clf, batch), FrameReader(roles)


def _begin_encoded(clf: FairClassifier, columns: Columns, warmup: Any) -> tuple[FairClassifier, EncodedReader]:
    """Begin a classifier with warm-up rows that are read from a file."""
    bad = BadRows(columns.max_bad_rows)
    source = columns.open(warmup, bad)
    read = columns.to_read(source.schema)
    intake = Intake(columns, bad, source.place)
    table = next(source.tables(10**9, read))
    intake.settle(table, read)
    return begin(clf, intake.rows(table)), EncodedReader(intake, tuple(read))


def _frames(partition: Any) -> Iterator[nw.DataFrame[Any]]:
    """Data frames of a partition, in order."""
    for part in _parts(partition):
        if isinstance(part, str | os.PathLike):
            for table in open_source(part, bad=BadRows(0)).tables(CHUNK):
                yield as_frame(table)
        else:
            yield as_frame(part)


def _parts(partition: Any) -> Iterator[Any]:
    """Paths and data frames that a partition consists of."""
    if callable(partition):
        yield from _parts(partition())
    elif isinstance(partition, str | os.PathLike) or hasattr(partition, "columns"):
        yield partition
    elif isinstance(partition, Iterable):
        for part in partition:
            yield as_frame(part).to_native()
    else:
        yield partition


# -- One partition ----------------------------------------------------------------------------------------------------


def _fit_tuple(begun: FairClassifier, random_state: int, task: tuple[int, Any]) -> Model:
    """Fit one partition that is a tuple of arrays, or a callable that returns one."""
    number, partition = task

    def batches() -> Iterator[Rows]:
        yield code_batch(begun, partition() if callable(partition) else partition)

    with _naming(number):
        return train_shard({NAME: begun.model_}, random_state, number, batches())[NAME]


def _fit_partition(
    template: FairClassifier, packed: Packed, reader: Reader, random_state: int, number: int, partition: Any
) -> bytes:
    """Fit one partition on a worker; what is sent back is what differs from the beginning."""
    models = unpack_models(packed)
    clf = copy(template)
    clf.model_ = models[NAME]
    file = f" (of file {Path(partition).name})" if isinstance(partition, str | os.PathLike) else ""
    reader = reader.begin()
    with _naming(number, file):
        trained = train_shard(models, random_state, number, reader.rows(clf, partition))
    return send(trained, packed, counted=reader.counted())


@contextmanager
def _naming(number: int, file: str = "") -> Iterator[None]:
    """Say in errors which partition is meant."""
    try:
        yield
    except ValueError as error:
        row, colon, words = str(error).partition(": ")
        is_row = bool(colon) and row.startswith("row ")
        place = f"Partition {number}{f', {row}' if is_row else ''}{file}"
        raise ValueError(f"{place}: {words if is_row else error}") from error
    except Exception as error:  # a file that is not there, for example
        error.add_note(f"It was raised by partition {number}.")
        raise


def _random_state(clf: FairClassifier, begun: FairClassifier) -> int:
    whole = isinstance(clf.random_state, int | np.integer)
    return int(clf.random_state) if whole else begun.seed_


def _merge(
    clf: FairClassifier, begun: FairClassifier, models: Iterable[Model], check: Callable[[], list[Diagnostic]] = list
) -> FairClassifier:
    """Merge models in order, and let the classifier take over the result, with what a check of all rows finds."""
    merged = None
    for model in models:
        merged = merge_models(merged, {NAME: model})
    if merged is None:
        raise ValueError("There are no partitions. Pass at least one.")
    whole = merged[NAME]
    whole = replace(whole, found=(*whole.found, *check()))
    found = [one for one in whole.diagnostics if one not in begun.model_.diagnostics]
    if whole.n_rows > 0:
        found += [*training_diagnostics(whole.trained), *whole.order_diagnostics()]
    issue(found)
    return take_over(clf, whole, begun.library_)
