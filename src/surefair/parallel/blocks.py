"""Blocks of replicates: every worker takes the same rows and carries some of the columns of the state.

Side by side the blocks are, bit for bit, what one process would have made. Work goes through joblib, so that
``joblib.parallel_config(backend=..., n_jobs=...)`` decides where: in processes, threads, or on other machines. Another
engine of ``surefair.engines`` can do it too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from joblib import cpu_count, effective_n_jobs

from surefair import engines
from surefair.classifier import FairClassifier, begin, fit_by, take_over
from surefair.diagnostics import issue
from surefair.parallel.batches import code_batch
from surefair.rows import Rows
from surefair.threads import spans
from surefair.training.fit import Fit
from surefair.training.model import Model

Span = tuple[int, int]


def fit_replicates(
    clf: FairClassifier,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any = None,
    constraint_set: Any = None,
    sample_weight: Any = None,
    clusters: Any = None,
    n_blocks: int | None = None,
    engine: str = "local",
) -> FairClassifier:
    """Do what ``clf.fit`` does with the replicates in blocks, on many workers, with bit-identical results.

    Parameters
    ----------
    clf : FairClassifier
    X, y, sensitive_features, constraint_set, sample_weight, clusters
        As in ``FairClassifier.fit``. Every worker is sent all rows.
    n_blocks : int, optional
        Number of blocks, by default as many as workers. Blocks consist of whole words of 32 replicates, so 200
        replicates make at most 7 blocks.
    engine : {"local", "dask", "ray", "spark"}
        "local" is joblib. Another engine uses the client or session of this process, or starts ``clf.n_jobs`` workers.

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
        return fit.join(_in_blocks(partial(_block, fit, rows), fit, clf.n_jobs, n_blocks, engine))

    return fit_by(clf, learn, X, y, sensitive_features, constraint_set, sample_weight, clusters)


def fit_replicates_stream(
    clf: FairClassifier,
    batches: Callable[[], Iterable[Any]],
    *,
    warmup: Any,
    n_blocks: int | None = None,
    engine: str = "local",
) -> FairClassifier:
    """Do what ``clf.partial_fit`` does over the batches of a stream with the replicates in blocks, bit-identically.

    Parameters
    ----------
    clf : FairClassifier
    batches : callable
        Called once in every worker, it returns the stream from its beginning: tuples (X, y, sensitive_features) or
        (X, y, sensitive_features, sample_weight), the same ones in every worker.
    warmup : tuple
        The first rows of the stream, (X, y, sensitive_features) or (X, y, sensitive_features, sample_weight), with both
        labels; they are not among the batches.
    n_blocks : int, optional
    engine : {"local", "dask", "ray", "spark"}
        Both as in :func:`fit_replicates`.

    Returns
    -------
    clf

    Examples
    --------
    >>> import surefair as sf
    >>> first = sf.datasets.SyntheticDI(seed=1).sample(1_000)
    >>> def batches():
    ...     for data in (sf.datasets.SyntheticDI(seed=0).sample(1_000), sf.datasets.SyntheticDI(seed=2).sample(500)):
    ...         yield data.X, data.y, data.sensitive
    >>> clf = sf.FairClassifier(random_state=0)
    >>> fit_replicates_stream(clf, batches, warmup=(first.X, first.y, first.sensitive), n_blocks=2).n_rows_
    2500
    """
    begun = begin(clf, warmup)
    fit = begun.model_.trained
    found = _in_blocks(partial(_stream_block, begun, batches), fit, clf.n_jobs, n_blocks, engine)
    rows = {int(state.k) for _, (state, _) in found}
    if len(rows) > 1:
        raise ValueError(f"batches must give the same rows in every worker; received {sorted(rows)} rows.")
    model = found[0][0]
    fit = fit if model.groups is None else fit.regrouped(model.groups)
    model = replace(model, fit=fit.join([block for _, block in found]))
    issue([one for one in model.diagnostics if one not in begun.model_.diagnostics])
    return take_over(clf, model, begun.library_)


def _in_blocks(
    work: Callable[[Span], Any], fit: Fit, n_jobs: int | None, n_blocks: int | None, engine: str
) -> list[Any]:
    """Do the work for each block of columns."""
    if n_blocks is not None and not (isinstance(n_blocks, int | np.integer) and n_blocks > 0):
        raise ValueError(f"n_blocks must be None or a whole number, 1 or larger; received {n_blocks!r}.")
    workers = effective_n_jobs(n_jobs) if engine == "local" or n_jobs is not None else cpu_count()
    columns = spans((0, 1 + fit.problem.n_replicates), n_blocks or workers)
    with engines.connected(engine, n_jobs=n_jobs) as run:
        return list(run(work, columns))


def _block(fit: Fit, rows: Rows, columns: Span) -> tuple[Any, float]:
    """Carry some columns through rows."""
    return replace(fit, columns=columns).learn(rows, 1).block()


def _stream_block(
    begun: FairClassifier, batches: Callable[[], Iterable[Any]], columns: Span
) -> tuple[Model, tuple[Any, float]]:
    """Carry some columns through a stream; returns the model without its fit, and the columns."""
    clf = copy(begun)
    clf.model_ = replace(clf.model_, fit=replace(clf.model_.trained, columns=columns))
    for batch in batches():
        clf.model_ = clf.model_.take(code_batch(clf, batch))
    return replace(clf.model_, fit=None), clf.model_.trained.block()
