"""More than one worker: replicates in blocks over the same rows, or rows in shards. The mapping only, no mathematics.

Blocks of replicates are exact: every worker takes in the same rows and carries some of the columns of the state, and
side by side they are, bit for bit, what one process would have made. Shards of rows are statistical: every worker fits
its own rows, and ``FairClassifier.merge`` has the same limit law as one pass over all of them, not the same bits.

Work goes through joblib, so that ``joblib.parallel_config(backend=..., n_jobs=...)`` says where: in processes, threads,
or on other machines by a backend of Dask or Ray. Or another engine of ``surefair.engines`` does it. Rows that lie on a
cluster stay there, and ``fit_partitions`` goes to them. Both the constraint set and what is chosen on it (coordinates,
start, steps) are settled here, once, and sent along: linear algebra may round otherwise elsewhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from joblib import cpu_count, effective_n_jobs

from surefair import engines, kernels
from surefair.classifier import FairClassifier, warn_if_late
from surefair.diagnostics import issue
from surefair.storage.archive import archived, changed, read_archive
from surefair.storage.checkpoints import FORMAT, VERSION, pack, unpack
from surefair.training import checks as doubts
from surefair.training.model import Fit, Rows

Span = tuple[int, int]
PROBES = 16
"""Rows tried to tell a bad row from a bad column."""


def fit_replicates(
    clf: FairClassifier,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any = None,
    constraint_set: Any = None,
    sample_weight: Any = None,
    n_blocks: int | None = None,
    engine: str = "local",
) -> FairClassifier:
    """``clf.fit`` with the replicates in blocks, one after another or on many workers: to the same bits.

    Parameters
    ----------
    clf : FairClassifier
        With a ``feature_map``, a worker's linear algebra has to round as this process's does.
    X, y, sensitive_features, constraint_set, sample_weight
        As in ``FairClassifier.fit``. Every worker is sent all rows.
    n_blocks : int, optional
        As many as workers by default. Blocks are of whole words of 32 replicates: with 200, at most 7.
    engine : {"local", "dask", "ray", "spark"}
        "local" is joblib. Another takes the client or session of this process, or starts ``clf.n_jobs`` workers.

    Returns
    -------
    clf

    Examples
    --------
    >>> import joblib, surefair as sf
    >>> data = sf.datasets.SyntheticDI(seed=0).sample(2_000)
    >>> one, many = sf.FairClassifier(random_state=0), sf.FairClassifier(random_state=0)
    >>> one = one.fit(data.X, data.y, sensitive_features=data.sensitive)
    >>> with joblib.parallel_config(backend="threading", n_jobs=2):
    ...     many = fit_replicates(many, data.X, data.y, sensitive_features=data.sensitive)
    >>> bool((many.coef_replicates_ == one.coef_replicates_).all())
    True
    """

    def learn(fit: Fit, rows: Rows, n_threads: int, last: bool) -> Fit:
        return _joined(fit, _in_blocks(partial(_block, fit, rows), fit, clf.n_jobs, n_blocks, engine))

    return clf._trained(X, y, sensitive_features, constraint_set, sample_weight, learn)


def fit_replicates_stream(
    clf: FairClassifier,
    batches: Callable[[], Iterable[Any]],
    *,
    constraint_set: Any,
    n_blocks: int | None = None,
    engine: str = "local",
) -> FairClassifier:
    """``clf.partial_fit`` over the batches of a stream with the replicates in blocks: to the same bits.

    Parameters
    ----------
    clf : FairClassifier
    batches : callable
        Called once in every worker, it gives the stream afresh: tuples (X, y, sensitive_features) or (X, y,
        sensitive_features, sample_weight), the same ones in every worker.
    constraint_set : tuple
        As in ``FairClassifier.fit``, with both labels.
    n_blocks : int, optional
    engine : {"local", "dask", "ray", "spark"}
        Both as in :func:`fit_replicates`.

    Returns
    -------
    clf

    Examples
    --------
    >>> import surefair as sf
    >>> D = sf.datasets.SyntheticDI(seed=1).sample(1_000)
    >>> def batches():
    ...     for data in (sf.datasets.SyntheticDI(seed=0).sample(1_000), sf.datasets.SyntheticDI(seed=2).sample(500)):
    ...         yield data.X, data.y, data.sensitive
    >>> clf = sf.FairClassifier(random_state=0)
    >>> fit_replicates_stream(clf, batches, constraint_set=(D.X, D.y, D.sensitive), n_blocks=2).n_rows_
    1500
    """
    new = clf._begun(constraint_set)
    new.n_jobs = 1
    assert new._fit is not None
    found = _in_blocks(partial(_stream_block, new, batches), new._fit, clf.n_jobs, n_blocks, engine)
    rows = {int(state.k) for *_, (state, _) in found}
    if len(rows) > 1:
        raise ValueError(f"batches must give the same rows in every worker; received {sorted(rows)} rows.")
    new._census, new._runs, _ = found[0]
    new._fit, new.n_jobs = _joined(new._fit, [part for *_, part in found]), clf.n_jobs
    issue(doubts.of_divergence(new._fit), stacklevel=2)
    return clf._become(new)


def fit_shards(clf: FairClassifier, partitions: Iterable[Any], *, constraint_set: Any) -> FairClassifier:
    """Fit every partition of the rows by itself, on many workers, and merge the fits in the order of the partitions.

    Partitions must be parts of the rows at random, not by time or place, and long, as each has its start to forget: see
    ``FairClassifier.merge``. It warns where they seem too short. One without rows counts for nothing.

    Parameters
    ----------
    clf : FairClassifier
    partitions : iterable
        Of tuples (X, y, sensitive_features) or (X, y, sensitive_features, sample_weight), or of callables that return
        such a tuple, so that a worker reads its own part.
    constraint_set : tuple
        As in ``FairClassifier.fit``, with both labels; the same for all partitions.

    Returns
    -------
    clf

    Examples
    --------
    >>> import surefair as sf
    >>> D, data = sf.datasets.SyntheticDI(seed=1).sample(1_000), sf.datasets.SyntheticDI(seed=0).sample(6_000)
    >>> parts = [(data.X[i::2], data.y[i::2], data.sensitive[i::2]) for i in range(2)]
    >>> clf = fit_shards(sf.FairClassifier(random_state=0), parts, constraint_set=(D.X, D.y, D.sensitive))
    >>> clf.n_rows_
    6000
    """

    def fitted(begun: FairClassifier, seed: int) -> Iterator[FairClassifier]:
        with engines.connected("local", n_jobs=clf.n_jobs) as run:
            yield from run(partial(_shard, begun, seed), enumerate(partitions))

    return _merged(clf, clf._begun(constraint_set), fitted)


def fit_partitions(
    clf: FairClassifier,
    data: Any,
    *,
    label: str,
    sensitive: str | Sequence[str],
    constraint_set: Any,
    features: Sequence[str] | None = None,
    sample_weight: str | None = None,
) -> FairClassifier:
    """Fit every partition of a data set by itself, where it lies, and merge the fits in their order.

    It is :func:`fit_shards` of the partitions, to the same bits: they must be parts of the rows at random, and long.
    How a partition is cut in batches changes nothing. Rows never come to this process: what a worker sends back is the
    state of its fit, and is merged and let go before the next.

    Parameters
    ----------
    clf : FairClassifier
        Without a ``feature_map``.
    data : Dask DataFrame or Bag of Arrow batches, Ray Dataset, Spark DataFrame, or iterable
        Partitions of a Ray Dataset are its blocks. Each item of an iterable is a partition: a data frame, an Arrow
        table or batch, the path of a Parquet file, which is read in batches by the worker, or a callable that returns
        one of these; ``clf.n_jobs`` of them are fitted at a time, by joblib.
    label : str
        Column of labels.
    sensitive : str or sequence of str
        Columns of groups.
    constraint_set : data frame
        With the same columns, and both labels. Its rows are not trained on, and must not be among those of data.
    features : sequence of str, optional
        Columns of features, numbers all; by default every other column of the constraint set.
    sample_weight : str, optional
        Column of weights.

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
    >>> clf = fit_partitions(clf, parts, label="hired", sensitive="sex", constraint_set=table(0, 1_000))
    >>> clf.n_rows_
    8000
    """
    several = (sensitive,) if isinstance(sensitive, str) else tuple(sensitive)
    columns = _Columns(label, several, () if features is None else tuple(features), sample_weight)
    try:
        frame = _frame(constraint_set)
        if features is None:
            columns = columns._replace(features=tuple(name for name in frame.columns if name not in columns.others))
        apart = columns.of(frame)
    except ValueError as error:
        raise ValueError(f"constraint_set: {error}") from error

    def fitted(begun: FairClassifier, seed: int) -> Iterator[FairClassifier]:
        meta, arrays = pack(begun)
        work = partial(_partition, archived(FORMAT, VERSION, meta, arrays), columns, seed)
        for blob in engines.over(data, work, clf.n_jobs):
            told, others = read_archive(BytesIO(blob), FORMAT, VERSION)
            yield unpack(told, arrays | others)

    return _merged(clf, clf._begun(apart), fitted)


def shard_seed(random_state: int, number: int) -> int:
    """Return the ``random_state`` of a partition, from that of the classifier and the partition's number, from 0 on.

    >>> shard_seed(0, 0), shard_seed(0, 1)
    (3757552657, 673228719)
    """
    return int(np.random.SeedSequence(random_state, spawn_key=(number,)).generate_state(1)[0])


def _merged(
    clf: FairClassifier, begun: FairClassifier, fitted: Callable[[FairClassifier, int], Iterator[FairClassifier]]
) -> FairClassifier:
    """Fit each partition from what has begun, with a seed of its own, and merge the fits in order."""
    begun.n_jobs, whole = 1, isinstance(clf.random_state, int | np.integer)
    merged: FairClassifier | None = None
    for one in fitted(begun, int(clf.random_state) if whole else begun.seed_):
        if merged is None or (_rows(merged) == 0 and _rows(one) > 0):
            merged = one
        elif _rows(one) > 0:  # one without rows would change bits by rounding, and an engine may leave it out
            merged.merge(one)
    if merged is None:
        raise ValueError("There are no partitions. Pass at least one.")
    assert merged._fit is not None
    assert merged._census is not None
    assert begun._census is not None
    if clf.criterion is not None:
        warn_if_late(merged._census.groups, begun._census.groups, stacklevel=4)
    if _rows(merged) > 0:
        issue(merged._found(merged._fit), stacklevel=3)
    merged.n_jobs, merged.random_state = clf.n_jobs, clf.random_state
    return clf._become(merged)


def _rows(clf: FairClassifier) -> int:
    assert clf._fit is not None
    return int(clf._fit.state.k)


def _in_blocks(
    work: Callable[[Span], Any], fit: Fit, n_jobs: int | None, n_blocks: int | None, engine: str
) -> list[Any]:
    """What the work makes of each block of columns."""
    if n_blocks is not None and not (isinstance(n_blocks, int | np.integer) and n_blocks > 0):
        raise ValueError(f"n_blocks must be None or a whole number, 1 or larger; received {n_blocks!r}.")
    workers = effective_n_jobs(n_jobs) if engine == "local" or n_jobs is not None else cpu_count()
    spans = kernels.spans((0, 1 + fit.problem.n_replicates), n_blocks or workers)
    with engines.connected(engine, n_jobs=n_jobs) as run:
        return list(run(work, spans))


def _block(fit: Fit, rows: Rows, columns: Span) -> tuple[Any, float]:
    """Carry some columns through rows: what they have become, and the weight of the rows."""
    return _part(fit._replace(columns=columns).learn(rows, 1))


def _stream_block(clf: FairClassifier, batches: Callable[[], Iterable[Any]], columns: Span) -> tuple[Any, ...]:
    """Carry some columns through a stream."""
    clf = copy(clf)
    assert clf._fit is not None
    clf._fit = clf._fit._replace(columns=columns)
    for batch in batches():
        _taken_in(clf, batch)
    return clf._census, clf._runs, _part(clf._fit)


def _shard(begun: FairClassifier, seed: int, task: tuple[int, Any]) -> FairClassifier:
    """Fit one partition."""
    number, partition = task
    try:
        clf = begun._reseeded(shard_seed(seed, number))
        return _taken_in(clf, partition() if callable(partition) else partition)
    except ValueError as error:
        raise ValueError(f"Partition {number}: {error}") from error
    except Exception as error:  # of a callable: a file that is not there, for example
        error.add_note(f"It was raised by partition {number}.")
        raise


def _taken_in(clf: FairClassifier, rows: Any) -> FairClassifier:
    if not isinstance(rows, tuple | list) or len(rows) not in (3, 4):
        raise ValueError(
            "Rows must come as a tuple (X, y, sensitive_features) or (X, y, sensitive_features, sample_weight); "
            f"received {type(rows).__name__}{f' of {len(rows)} parts' if isinstance(rows, tuple | list) else ''}."
        )
    X, y, sensitive_features, *weight = rows
    return clf.partial_fit(X, y, sensitive_features=sensitive_features, sample_weight=weight[0] if weight else None)


def _part(fit: Fit) -> tuple[Any, float]:
    """Columns of a state that were carried; what belongs to the fit itself has one column, and goes with its block."""
    assert fit.columns is not None
    k, *arrays = fit.state
    return type(fit.state)(k, *(array[:, slice(*fit.columns)].copy() for array in arrays)), fit.weight


def _joined(fit: Fit, parts: list[tuple[Any, float]]) -> Fit:
    """Blocks of columns side by side."""
    (first, weight), states = parts[0], [state for state, _ in parts]
    arrays = (np.concatenate(columns, axis=1) for columns in zip(*(state[1:] for state in states), strict=True))
    return fit._replace(state=type(first)(first.k, *arrays), weight=weight)


# -- Partitions on a cluster ------------------------------------------------------------------------------------------


class _Columns(NamedTuple):
    """Which columns of a frame are what."""

    label: str
    sensitive: tuple[str, ...]
    features: tuple[str, ...]
    sample_weight: str | None

    @property
    def others(self) -> tuple[str, ...]:
        """Columns that are not features."""
        return self.label, *self.sensitive, *([] if self.sample_weight is None else [self.sample_weight])

    def of(self, frame: nw.DataFrame[Any]) -> tuple[Any, ...]:
        """Features, labels, groups and weights of a frame."""
        schema = frame.schema
        for name in (*self.features, *self.others):
            if name not in schema:
                raise ValueError(f"There is no column {name!r}; the columns are {', '.join(map(repr, schema))}.")
        for name in self.features:
            if not (schema[name].is_numeric() or schema[name] == nw.Boolean):
                raise ValueError(
                    f"Column {name!r} is of type {schema[name]}, and features must be numbers. Encode it first, leave "
                    "it out by features=, or use `surefair audit`, which encodes."
                )
        groups = {name: frame.get_column(name).to_native() for name in self.sensitive}
        weight = None if self.sample_weight is None else frame.get_column(self.sample_weight).to_native()
        return frame.select(self.features).to_native(), frame.get_column(self.label).to_native(), groups, weight


def _partition(begun: bytes, columns: _Columns, seed: int, number: int, partition: Any) -> bytes:
    """Fit one partition on a worker: what is then other than it was at the beginning."""
    meta, arrays = read_archive(BytesIO(begun), FORMAT, VERSION)
    clf = unpack(meta, arrays)._reseeded(shard_seed(seed, number))
    before, row, file = 0, "", f" (of file {Path(partition).name})" if isinstance(partition, str | os.PathLike) else ""
    try:
        for frame in _frames(partition, columns):
            rows = columns.of(frame)
            try:
                _taken_in(clf, rows)
            except ValueError as error:
                bad, words = _first_bad(clf, columns, frame, error)
                row = "" if bad is None else f", row {before + bad}"
                raise ValueError(words) from error
            before += len(frame)
    except ValueError as error:
        raise ValueError(f"Partition {number}{row}{file}: {error}") from error
    except Exception as error:  # of a file that is not there, for example
        error.add_note(f"It was raised by partition {number}.")
        raise
    told, found = pack(clf)
    return archived(FORMAT, VERSION, told, changed(found, arrays))


def _frames(partition: Any, columns: _Columns) -> Iterator[nw.DataFrame[Any]]:
    """Frames of a partition, in order."""
    if isinstance(partition, str | os.PathLike):
        with pq.ParquetFile(partition) as file:
            names = [name for name in (*columns.features, *columns.others) if name in file.schema_arrow.names]
            for batch in file.iter_batches(columns=names):
                yield _frame(batch)
    elif callable(partition):
        yield from _frames(partition(), columns)
    elif isinstance(partition, Iterable) and not hasattr(partition, "columns"):
        for one in partition:
            yield _frame(one)
    else:
        yield _frame(partition)


def _frame(rows: Any) -> nw.DataFrame[Any]:
    """Rows as a frame of narwhals'."""
    rows = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    frame = nw.from_native(rows, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        raise ValueError(
            f"Rows must come as data frames or Arrow tables; received {type(rows).__name__}. Convert them first."
        )
    return frame


def _first_bad(
    clf: FairClassifier, columns: _Columns, frame: nw.DataFrame[Any], error: ValueError
) -> tuple[int | None, str]:
    """Which row of a frame is the first that is refused, from 1 on, and why; no row where it is not for a row."""

    def refused(low: int, high: int) -> str | None:
        X, y, groups, weight = columns.of(frame[low:high])
        try:
            copy(clf)._check_rows(X, y, groups, weight, stream=True)
        except ValueError as found:
            return re.sub(
                r" \(the first in row \d+\)| in row \d+", "", str(found)
            )  # which is not that of the partition
        return None

    n = len(frame)
    if refused(0, n) is None or (n > 1 and all(refused(i, i + 1) for i in range(0, n, max(1, n // PROBES)))):
        return None, str(error)
    good, bad = 0, n  # of the first rows, so many are taken, and so many are not
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (good, middle) if refused(0, middle) else (middle, bad)
    row = frame[bad - 1 : bad]
    values = {name: row.get_column(name).to_list()[0] for name in columns.features}
    if gaps := [name for name, value in values.items() if value is None or not np.isfinite(value)]:
        listed = ", ".join(map(repr, gaps))
        return bad, f"no finite number in {listed}. Fill in or drop such rows, or use `surefair audit`, which copes."
    return bad, refused(0, bad) or str(error)
