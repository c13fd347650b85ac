"""More than one worker: replicates in blocks over the same rows, or rows in shards. The mapping only, no mathematics.

Blocks of replicates are exact: every worker takes in the same rows and carries some of the columns of the state, and
side by side they are, bit for bit, what one process would have made. Shards of rows are statistical: every worker fits
its own rows, and ``FairClassifier.merge`` has the same limit law as one pass over all of them, not the same bits.

Work goes through joblib, so that ``joblib.parallel_config(backend=..., n_jobs=...)`` says where: in processes, threads,
or on other machines by a backend of Dask or Ray. Both the constraint set and what is chosen on it (coordinates, start,
steps) are settled here, once, and sent along: linear algebra may round otherwise elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from surefair import doubts, kernels
from surefair.diagnostics import issue
from surefair.estimators import FairClassifier
from surefair.fits import Fit, Rows

Span = tuple[int, int]


def fit_replicates(
    clf: FairClassifier,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any = None,
    constraint_set: Any = None,
    sample_weight: Any = None,
    n_blocks: int | None = None,
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
        return _joined(fit, _in_blocks(_block, fit, clf.n_jobs, n_blocks, fit, rows))

    return clf._trained(X, y, sensitive_features, constraint_set, sample_weight, learn)


def fit_replicates_stream(
    clf: FairClassifier, batches: Callable[[], Iterable[Any]], *, constraint_set: Any, n_blocks: int | None = None
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
        As in :func:`fit_replicates`.

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
    found = _in_blocks(_stream_block, new._fit, clf.n_jobs, n_blocks, new, batches)
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
    new = clf._begun(constraint_set)
    new.n_jobs, whole = 1, isinstance(clf.random_state, int | np.integer)
    seed = int(clf.random_state) if whole else new.seed_
    tasks = ((new._reseeded(shard_seed(seed, i)), part, i) for i, part in enumerate(partitions))
    merged, *others = _mapped(_shard, clf.n_jobs, tasks) or [None]
    if merged is None:
        raise ValueError("There are no partitions. Pass at least one tuple (X, y, sensitive_features).")
    for other in others:
        merged.merge(other)
    if merged._fit.state.k > 0:
        issue(merged._found(merged._fit), stacklevel=2)
    merged.n_jobs, merged.random_state = clf.n_jobs, clf.random_state
    return clf._become(merged)


def shard_seed(random_state: int, number: int) -> int:
    """Return the ``random_state`` of a partition, from that of the classifier and the partition's number, from 0 on.

    >>> shard_seed(0, 0), shard_seed(0, 1)
    (3757552657, 673228719)
    """
    return int(np.random.SeedSequence(random_state, spawn_key=(number,)).generate_state(1)[0])


def _mapped(function: Callable[..., Any], n_jobs: int | None, tasks: Iterable[tuple[Any, ...]]) -> list[Any]:
    """What the function makes of each task, in their order; memory that is shared is copied where it is written to."""
    found: list[Any] = Parallel(n_jobs=n_jobs, mmap_mode="c")(delayed(function)(*task) for task in tasks)
    return found


def _in_blocks(
    function: Callable[..., Any], fit: Fit, n_jobs: int | None, n_blocks: int | None, *args: Any
) -> list[Any]:
    """What the function makes of its arguments for each block of columns."""
    if n_blocks is not None and not (isinstance(n_blocks, int | np.integer) and n_blocks > 0):
        raise ValueError(f"n_blocks must be None or a whole number, 1 or larger; received {n_blocks!r}.")
    spans = kernels.spans((0, 1 + fit.problem.n_replicates), n_blocks or effective_n_jobs(n_jobs))
    return _mapped(function, n_jobs, ((*args, span) for span in spans))


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


def _shard(clf: FairClassifier, partition: Any, number: int) -> FairClassifier:
    """Fit one partition."""
    try:
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
