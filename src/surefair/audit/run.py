"""From a file to an Audit: one pass, in bounded memory, that can be stopped and resumed.

Rows are read in chunks. The first chunk settles how columns become features and which labels there are, and supplies
the warm-up rows. Some rows of every chunk are held out; the others are shuffled, and both models train on them. Between
two chunks the state is small and complete. That is where a checkpoint is written, and where an audit that was stopped
resumes, with bit-identical results.
"""

from __future__ import annotations

import json
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial, reduce
from importlib.metadata import version
from numbers import Integral
from operator import add
from pathlib import Path
from types import NoneType
from typing import Any, NoReturn, Self

import numpy as np
import pyarrow as pa
from joblib import effective_n_jobs

from surefair import engines
from surefair.audit import checkpoint as checkpoints
from surefair.audit import findings, shards
from surefair.audit.checkpoint import Folder
from surefair.audit.copies import copies_among
from surefair.audit.evaluation import Evaluation, tally_decisions
from surefair.audit.result import Audit
from surefair.audit.settings import AuditSettings
from surefair.audit.shards import Plan, Shard
from surefair.classifier import draw_seed, problem_of
from surefair.diagnostics import Diagnostic, dependent_rows
from surefair.diagnostics.changing_gap import ChangingGap
from surefair.inference.asymptotic import ASYMPTOTIC
from surefair.inference.cross_fit import CrossFit
from surefair.inference.interval import plain
from surefair.inference.sources import SOURCES, Tally
from surefair.names import one_of
from surefair.parallel.shards import merge_models, pack_models, receive
from surefair.rows import Groups, Names, Rows
from surefair.rows.sketch import hash_rows
from surefair.storage.archive import Arrays, add_prefix, check_same, naming, select_prefix
from surefair.storage.checks import value_of
from surefair.storage.lock import locked
from surefair.tables.bad_rows import BadRows
from surefair.tables.intake import CHUNK, HINT, Intake, in_order, settled_tables
from surefair.tables.source import DataSource, Sample
from surefair.tables.split import HELD_OUT, hold_out, share_held_out, side_of
from surefair.training.model import Model

VALUES = 30  # values of a column to split by that must be held out
LEAST = 50  # rows to train on
MOST_CROSSED = 10_000  # rows that serve for training and for evaluation, by cross-fitting
FIRST_LOOK = 500  # training rows before the first look along the stream
APART = 1.4  # factor between two looks
PATH_SOURCES = ("total", "training")  # looked at along the stream
MODELS = ("constrained", "unconstrained")
SHARD_ROWS = 1_000_000  # rows of a shard on a cluster, at least, by default
MOST_SHARDS = 64  # shards on a cluster by default
SECONDS = 60.0  # between two checkpoints by default


def audit(
    data: Any,
    *,
    label: str,
    sensitive: str | Sequence[str],
    criterion: str | None = "demographic_parity",
    metrics: str | Sequence[str] = (),
    margin: float | None = None,
    positive: str | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    weights: str | None = None,
    split_by: str | None = None,
    include_sensitive: bool = False,
    allow_leakage: bool = False,
    keep_order: bool = False,
    names: Sequence[str] | None = None,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    max_bad_rows: int = 100,
    confidence_level: float = 0.95,
    loss: str = "log_loss",
    surrogate: str = "decisions",
    tolerance: float = 0.0,
    penalty: float | None = None,
    alpha: float = 1e-4,
    n_replicates: int = 200,
    random_state: int = 0,
    shard_rows: int | None = None,
    title: str | None = None,
    purpose: str | None = None,
    author: str | None = None,
    date: str | None = None,
    checkpoint: Folder | None = None,
    n_jobs: int | None = None,
    engine: str = "local",
    address: str | None = None,
) -> Audit:
    """Train a model with a constraint and one without on a file, and measure how differently they treat groups.

    Parameters
    ----------
    data : path, "-", file object or data frame
        CSV (also compressed), Parquet or Arrow file, or a folder of such files; "-" is standard input.
    label : str
        Column of the label, with two values.
    sensitive : str or sequence of str
        Columns of the groups.
    criterion : str or None
        Criterion that constrains the first model.
    metrics : str or sequence of str
        Metrics that get a verdict; by default the criterion. All criteria are measured.
    margin : float, optional
        Largest acceptable gap; for ratios, the smallest acceptable ratio.
    positive : str, optional
        The positive label; by default the second in sorted order.
    features, drop : sequence of str, optional
        Columns to learn from (by default all without another role), and columns not to learn from.
    weights : str, optional
        Column of sample weights.
    split_by : str, optional
        Column whose equal values stay together, in training or in evaluation.
    include_sensitive : bool
        Whether models also learn from the sensitive columns.
    allow_leakage : bool
        Whether models may learn from a column that all but equals the label; otherwise it stops the audit.
    keep_order : bool
        Whether training takes rows in the order of the data.
    names : sequence of str, optional
        Column names of a CSV file without a header.
    delimiter, encoding : str
        Delimiter and encoding of a CSV file.
    max_bad_rows : int
        Rows that cannot be used; more of them stop the audit.
    confidence_level, loss, surrogate, tolerance, penalty, alpha, n_replicates, random_state
        As in ``FairClassifier``.
    shard_rows : int, optional
        Smallest number of rows in a shard, to read a folder of Parquet files in shards; by default the folder is read
        as one stream.
    title, purpose, author, date : str, optional
        What heads the report. The date is a day such as "2026-03-31"; it is never taken from the clock, so that the
        same data give the same bytes.
    checkpoint : path, optional
        Folder to save the state in, once a minute; ``resume`` continues from there.
    n_jobs : int, optional
        Threads; for shards, workers on this machine.
    engine : {"local", "dask", "ray", "spark"}
        Where shards of a folder of Parquet files are read: in processes of this machine, or on a cluster that sees the
        same files. The result is the same.
    address : str, optional
        Address of the cluster; by default the one that this process is connected to, or else a new one on this machine.

    Returns
    -------
    Audit

    Examples
    --------
    >>> import pandas as pd
    >>> import surefair as sf
    >>> data = sf.datasets.SyntheticDI(seed=0).sample(5_000)
    >>> table = pd.DataFrame(data.X, columns=["x1", "x2"]).assign(label=data.y, group=data.sensitive)
    >>> found = sf.audit(table, label="label", sensitive="group", margin=0.2)
    >>> found.verdict
    'within margin'
    """
    asked = AuditSettings(**dict[str, Any](
        label=label, sensitive=sensitive, criterion=criterion, metrics=metrics, margin=margin, positive=positive,
        features=features, drop=drop, weights=weights, split_by=split_by, include_sensitive=include_sensitive,
        allow_leakage=allow_leakage, keep_order=keep_order, names=names, delimiter=delimiter, encoding=encoding,
        max_bad_rows=max_bad_rows,
        confidence_level=confidence_level, loss=loss, surrogate=surrogate, tolerance=tolerance, penalty=penalty,
        alpha=alpha, n_replicates=n_replicates, random_state=random_state, shard_rows=shard_rows,
        title=title, purpose=purpose, author=author, date=date,
    ))  # fmt: skip
    check_engine(asked, engine, address, checkpoint)
    _check_jobs(n_jobs)
    running = Running.begin(data, asked, checkpoint, in_shards=engine != "local")
    if running.settings.shard_rows is None:
        return running.run(checkpoint=checkpoint, n_jobs=n_jobs)
    return running.run_in_shards(engine, address, n_jobs=n_jobs)


def check_engine(settings: AuditSettings, engine: str, address: str | None, checkpoint: Folder | None) -> None:
    """Refuse combinations that do not work."""
    one_of(engine, engines.ENGINES, "engine")
    if engine == "local" and address is not None:
        raise ValueError(f"The engine 'local' is this machine and has no address; received {address!r}. Leave it out.")
    if (engine != "local" or settings.shard_rows is not None) and checkpoint is not None:
        raise ValueError(
            "An audit in shards writes no checkpoints, because an engine repeats lost shards. Leave out checkpoint "
            "(--checkpoint), or read the data as one stream: use the engine 'local' without shard_rows (--shard-rows)."
        )


def _check_jobs(n_jobs: int | None) -> None:
    if n_jobs is not None and (not isinstance(n_jobs, Integral) or n_jobs == 0):
        raise ValueError(f"n_jobs must be None or a whole number, or -1 for all cores, and not 0; received {n_jobs!r}.")


def resume(checkpoint: Folder, data: Any = None, *, n_jobs: int | None = None) -> Audit:
    """Resume an audit from its newest checkpoint.

    Parameters
    ----------
    checkpoint : path
        Folder in which ``audit`` saved its state.
    data : path, "-", file object or data frame, optional
        The same data again; by default the file that the audit began with.
    n_jobs : int, optional

    Returns
    -------
    Audit
        The same as if the audit had never been stopped.
    """
    _check_jobs(n_jobs)
    running = Running.restore(checkpoint, data)
    for note in running.notes:
        warnings.warn(note, stacklevel=2)
    return running.run(checkpoint=checkpoint, n_jobs=n_jobs)


class Running:
    """An audit under way: what it knows between two chunks.

    Attributes
    ----------
    settings : AuditSettings
    source : DataSource
    intake : Intake
        Turns tables into rows; settled on the first chunk.
    models : dict of str to Model
    held : Rows or None
        Rows held out for evaluation.
    chunks, shards, trained : int
        Chunks or shards read, and rows trained on.
    """

    PLAIN = (
        "files",
        "so_far",
        "chunks",
        "trained",
        "path",
        "complete",
        "crossed",
        "below",
    )  # written to JSON as they are

    def __init__(self, data: Any, settings: AuditSettings, place: str | None, in_shards: bool = False) -> None:
        bad = BadRows(settings.max_bad_rows)
        self.source: DataSource = settings.open(data, bad)
        if in_shards and settings.shard_rows is None:
            rows = -(-(self.source.n_rows or 0) // MOST_SHARDS)
            settings = replace(settings, shard_rows=max(SHARD_ROWS, rows))
        self.settings = settings
        self.place = place  # where the data are found again
        self.read = settings.to_read(self.source.schema)
        self.files = [] if settings.shard_rows else self._describe_files()
        self.so_far: list[dict[str, Any]] = []  # what was read of a stream up to the last chunk, with its checksum
        self.intake = Intake(settings, bad, self.source.place)
        self.models: dict[str, Model] = {}
        self.held: Rows | None = None
        self.below = HELD_OUT  # rows with a smaller side are held out
        self.chunks = 0
        self.shards = 0
        self.trained = 0
        self.path: list[dict[str, Any]] = []
        self.complete = False
        self.crossed = False  # whether every held-out row was trained on as well, for cross-fitting
        self.notes: list[str] = []  # about damaged checkpoints
        self.n_jobs = 1
        self.evaluation: Evaluation | None = None

    # -- Beginning, stopping, resuming --------------------------------------------------------------------------------

    @classmethod
    def begin(
        cls, data: Any, settings: AuditSettings, checkpoint: Folder | None = None, *, in_shards: bool = False
    ) -> Self:
        """Open the data, to be read as one stream or in shards."""
        if checkpoint is not None and checkpoints.kept(checkpoint):
            raise ValueError(
                f"{os.fspath(checkpoint)!r} holds the checkpoint of an audit. Continue it with sf.resume "
                "(on the command line: surefair resume), or name another folder."
            )
        place = str(data) if isinstance(data, str | os.PathLike) else None
        if place and checkpoint is not None and Path(place).is_dir() and _inside(checkpoint, place):
            raise ValueError(
                f"The folder of checkpoints {os.fspath(checkpoint)!r} is inside the data folder {place!r}, whose files "
                "are all read. Name a folder elsewhere."
            )
        return cls(data, settings, place if place in (None, "-") else os.path.realpath(place), in_shards)

    @classmethod
    def restore(cls, checkpoint: Folder, data: Any = None) -> Self:
        """Open the data again, with the state of the newest checkpoint that is not damaged."""
        path, meta, arrays, notes = checkpoints.read_newest(checkpoint)
        with naming(path):
            place = value_of(meta, "place", (str, NoneType))
            settings = AuditSettings(**value_of(meta, "settings", dict))
            checkpoints.check_plain(meta)
        if data is None and place is None:
            raise ValueError("This was an audit of a data frame or a file object. Pass the same data again.")
        running = cls(place if data is None else data, settings, place)
        if place == "-" and not running._is_stream:
            raise ValueError(
                "This was an audit of standard input. Pass the same bytes to standard input again, and leave out data "
                "(--data) or make it '-'."
            )
        if _contents(running.files) != _contents(meta["files"]):  # for a stream, of its first bytes
            raise ValueError(
                f"The data are not those of the checkpoint: {_listed(meta['files'])} then, {_listed(running.files)} "
                "now. Continue with the same data, or start a new audit."
            )
        with naming(path):
            running._unpack(meta, arrays)
            check_same((meta, arrays), running._pack())
        running.notes = notes
        return running

    def run(
        self,
        *,
        checkpoint: Folder | None = None,
        seconds: float = SECONDS,
        every: int | None = None,
        n_jobs: int | None = None,
        progress: Callable[[int], None] = lambda rows: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Audit:
        """Read to the end, or until asked to stop.

        Parameters
        ----------
        checkpoint : path, optional
            Folder for checkpoints.
        seconds, every : float, int
            A checkpoint is written after so many seconds, or after so many rows.
        n_jobs : int, optional
        progress : callable
            Called with the number of rows read, after each chunk.
        stop : callable
            Called after each chunk; returns whether to stop.
        """
        if checkpoint is None:
            return self._run(None, seconds, every, n_jobs, progress, stop)
        checkpoints.prepare(checkpoint)
        with locked(checkpoint):
            return self._run(checkpoint, seconds, every, n_jobs, progress, stop)

    def _run(
        self,
        checkpoint: Folder | None,
        seconds: float,
        every: int | None,
        n_jobs: int | None,
        progress: Callable[[int], None],
        stop: Callable[[], bool],
    ) -> Audit:
        """Read to the end, or until asked to stop, as the only one who writes to the folder of checkpoints."""
        if checkpoint is not None:
            checkpoints.clean(checkpoint)
        self.n_jobs = effective_n_jobs(n_jobs)
        last = time.monotonic()
        saved = self.intake.read
        stopped = False
        number = -1
        for number, (table, is_last) in enumerate(settled_tables(self.source, self.intake, self.read, CHUNK)):
            if number < self.chunks:
                self._check_columns()
                if self._is_stream and number + 1 == self.chunks and self._describe_files() != self.so_far:
                    self._refuse_stream()
                continue
            if stopped:  # and there is more to read
                break
            self._take(table, is_last)
            self.so_far = self._describe_files() if self._is_stream else []
            progress(self.intake.read)
            stopped = stop()
            due = time.monotonic() - last > seconds if every is None else self.intake.read - saved >= every
            if checkpoint is not None and due:
                self.source.check_unchanged()
                self._save(checkpoint)
                last = time.monotonic()
                saved = self.intake.read
        else:
            if number + 1 < self.chunks:
                self._refuse_stream()
            self.complete = True
        self._check_unchanged()
        if checkpoint is not None and self.chunks:
            self._save(checkpoint)
        return self._result()

    def _describe_files(self) -> list[dict[str, Any]]:
        """Name, size and checksum of each file; of a stream, what was read of it so far."""
        return [file._asdict() for file in self.source.files()]

    def _check_unchanged(self) -> None:
        """Refuse data that have changed since they were opened: their size, time or checksum."""
        self.source.check_unchanged()
        if not self._is_stream and _contents(now := self._describe_files()) != _contents(self.files):
            raise ValueError(
                f"The data were changed while they were read: {_listed(self.files)} at the start, {_listed(now)} at "
                "the end. Start again, and leave the data as they are."
            )

    def _check_columns(self) -> None:
        """Refuse a checkpoint with other features or labels than the data have."""
        model = self.models["constrained"]
        assert self.intake.encoder is not None
        if model.features != self.intake.encoder.names or model.labels.values.tolist() != [*self.intake.labels]:
            raise ValueError("The checkpoint has other features or labels than the data. Start a new audit.")

    def _refuse_stream(self) -> NoReturn:
        """Refuse a stream whose bytes differ from those that were read up to the checkpoint, or that ends before."""
        raise ValueError(
            f"The data are not those of the checkpoint: {_listed(self.so_far)} were read up to it then, and "
            f"{_listed(self._describe_files())} now. Continue with the same data, or start a new audit."
        )

    def run_in_shards(
        self,
        engine: str = "local",
        address: str | None = None,
        *,
        n_jobs: int | None = None,
        progress: Callable[[int], None] = lambda rows: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Audit:
        """Read shards on many workers, to the end.

        Parameters
        ----------
        engine, address, n_jobs
            As in ``audit``.
        progress : callable
            Called with the number of rows read so far, after each shard.
        stop : callable
            Called after each shard, in both passes; returns whether to give up.
        """
        tasks = self._tasks()
        with engines.connected(engine, address, n_jobs) as run:
            plan = self._plan()
            merged: Mapping[str, Model] | None = None
            for sent in _until(stop, run(partial(shards.train, plan), tasks)):
                models, counts = receive(sent, plan.models)
                merged = merge_models(merged, models)
                self.intake.add(counts["counted"])
                self.trained += counts["n_rows"]
                self.shards += 1
                progress(self.intake.read)
            assert merged is not None
            self.models = dict(merged)
            plan = replace(plan, models=pack_models(self.models))
            parts = _until(stop, run(partial(shards.evaluate, plan), tasks))
            evaluation = reduce(add, map(shards.read_evaluation, parts))
            self.files = [json.loads(file) for file in run(shards.digest, self.source.paths)]
            self.source.check_unchanged()
            self.complete = True
            return self._conclude(evaluation, dependent=self.settings.split_by is not None)

    def _tasks(self) -> list[Shard]:
        size = self.settings.shard_rows or SHARD_ROWS
        return [Shard(number, pieces) for number, pieces in enumerate(self.source.shards(size))]

    def _plan(self) -> Plan:
        """Settle columns on rows of many shards, all else on the first rows; workers count these with the others."""
        table = next(self.source.tables(CHUNK, self.read))
        n_rows = self.source.n_rows or 0
        whole = n_rows <= table.num_rows
        sample = None if whole else Sample(shards.sample(self._tasks(), CHUNK, self.read), n_rows)
        self.intake.settle(table, self.read, sample, whole)
        rows = self.intake.rows(table)
        held_out = share_held_out(self.source.n_rows or 0, rows.X.shape[1])
        side = side_of(rows, self.settings.random_state)
        self.held = rows.part(side < held_out)
        rows, side = rows.part(side >= held_out), side[side >= held_out]
        n_first = min(self._make_models(rows), rows.n)
        chosen = side <= np.partition(side, n_first - 1)[n_first - 1]
        self._begin(rows.part(chosen))
        self.intake = self.intake.elsewhere(0, self.source.place)
        packed = pack_models(self.models)
        known = np.unique(side[chosen])
        return Plan(self.settings, self.intake, self.read, CHUNK, held_out, table.num_rows, known, packed)

    def _save(self, folder: Folder) -> None:
        checkpoints.write(folder, self.chunks, self.intake.read, *self._pack())

    def _pack(self) -> tuple[dict[str, Any], Arrays]:
        """Take the state apart into JSON and arrays."""
        assert self.held is not None
        meta: dict[str, Any] = {name: getattr(self, name) for name in self.PLAIN}
        meta |= {"settings": asdict(self.settings), "place": self.place, "models": {}}
        meta |= {"counted": self.intake.pack(), "groups": self.held.groups.to_json()}
        arrays: Arrays = add_prefix("held", self.held.pack())
        for name, model in self.models.items():
            meta["models"][name], parts = model.pack()
            arrays |= add_prefix(name, parts)
        return meta, arrays

    def _unpack(self, meta: dict[str, Any], arrays: Arrays) -> None:
        """Rebuild the state; features are settled again when the first chunk is read."""
        for name in self.PLAIN:
            setattr(self, name, meta[name])
        self.intake.add(meta["counted"])
        self.models = {name: Model.unpack(meta["models"][name], select_prefix(name, arrays)) for name in MODELS}
        model, other = self.models.values()
        if (model.features, model.names.labels.values.tolist()) != (other.features, other.names.labels.values.tolist()):
            raise ValueError("The two models have other features or labels.")
        for name, one in self.models.items():
            clf = self.settings.classifier(self.settings.criterion if name == "constrained" else None)
            if differ := problem_of(clf, one.seed).differences(one.problem):
                raise ValueError(f"A model has other parameters than the audit: {', '.join(differ)}.")
        names = Names(model.features, model.labels, Groups.from_json(meta["groups"]))
        self.held = Rows.unpack(select_prefix("held", arrays), names, model.n_features)
        if self.held.key is None or [*self.held.groups.levels] != [*self.settings.sensitive]:
            raise ValueError("The held-out rows have other columns than the audit.")

    # -- One chunk ----------------------------------------------------------------------------------------------------

    def _take(self, table: pa.Table, is_last: bool) -> None:
        """Hold out some rows of a chunk, and train on the others."""
        settings = self.settings
        rows = self.intake.rows(table).trimmed()
        few = self.chunks == 0 and is_last
        self.crossed = few and rows.n <= MOST_CROSSED and settings.split_by is None
        if self.crossed:
            self.held = rows
        else:
            self.held, rows, self.below = hold_out(self.held, rows, settings.random_state, self.below)
        if not settings.keep_order:
            rows = rows.part(np.random.default_rng([settings.random_state, 11, self.chunks]).permutation(rows.n))
        if self.chunks == 0:
            n_first = self._make_models(rows)
            if few and self.models["constrained"].problem.is_exact(rows.n, rows.X.shape[1]):
                self._each(lambda model, n_threads: model.train(rows, n_threads=n_threads))
                self.trained, rows = rows.n, rows.part(slice(0, 0))
            else:
                self._begin(rows.part(slice(0, n_first)))
                rows = rows.part(slice(n_first, None))
        self._learn(rows)
        self.chunks += 1

    def _make_models(self, rows: Rows) -> int:
        """Make both models, given the first rows to train on; return how many of them they begin with."""
        settings = self.settings
        self._check_first(rows)
        for name in MODELS:
            clf = settings.classifier(settings.criterion if name == "constrained" else None)
            problem = problem_of(clf, draw_seed(settings.random_state))
            self.models[name] = Model.of(problem, rows.names, rows.X.shape[1])
        return self.models["constrained"].n_first

    def _begin(self, warmup: Rows) -> None:
        """Let both models begin with their warm-up rows."""
        self._each(lambda model, n_threads: model.begin_with(warmup))
        self.trained += warmup.n

    def _check_first(self, rows: Rows) -> None:
        """Refuse first rows that show too few groups, labels or rows, or hold out too few values to split by."""
        settings = self.settings
        held = self.held
        assert held is not None
        first = f"the first {self.intake.read:,} rows"
        for name, levels in held.groups.joined_with(rows.groups).levels.items():
            if len(found := levels.values.tolist()) < 2:
                hint = f" {HINT}" if self.intake.own_bad else ""
                raise ValueError(
                    f"The sensitive column {name!r} shows {len(found)} group{''.join(f', {g!r},' for g in found)} in "
                    f"{first}, and a comparison needs two or more. If the data are sorted by it, shuffle them; "
                    f"otherwise name another column.{hint}"
                )
        held_none = held.n == 0 and settings.shard_rows is None  # with very many rows, hardly one is among the first
        one_label = (rows.y > 0.0).all() or not (rows.y > 0.0).any()
        if rows.n < LEAST or held_none or one_label:
            raise ValueError(
                f"There are too few rows{self._few_values()}: {rows.n} to train on and {held.n} held out, of "
                f"{self.intake.read} read. Training needs {LEAST} or more, with both labels."
            )
        n = len(np.unique(side_of(held, settings.random_state)))
        if settings.split_by is not None and settings.shard_rows is None and n < VALUES:
            raise ValueError(
                f"Too few values of {settings.split_by!r} are held out: {n}, and {VALUES} are needed. Split by a "
                "column with more values, or by none."
            )

    def _few_values(self) -> str:
        column = self.settings.split_by
        return "" if column is None else f", or too few values of {column!r} to split by"

    def _learn(self, rows: Rows) -> None:
        """Train both models, with looks on the way."""
        done = 0
        while done < rows.n:
            look = _next_look(self.trained)
            part = rows.part(slice(done, done + look - self.trained)).trimmed()
            self._each(lambda model, n_threads, part=part: model.take(part, n_threads))
            done += part.n
            self.trained += part.n
            if self.trained == look:
                self._note(self._count(PATH_SOURCES))

    def _each(self, work: Callable[..., Model]) -> None:
        """Replace each model by what the work makes of it, side by side where there are threads for it."""
        self.models = dict(zip(self.models, self._map(work), strict=True))

    def _map(self, work: Callable[..., Any]) -> list[Any]:
        """What the work makes of each model."""
        n_threads = max(1, self.n_jobs // len(MODELS))
        if self.n_jobs == 1:
            return [work(model, n_threads) for model in self.models.values()]
        with ThreadPoolExecutor(len(MODELS)) as pool:
            return list(pool.map(lambda model: work(model, n_threads), self.models.values()))

    # -- The result ---------------------------------------------------------------------------------------------------

    def _count(self, sources: Sequence[str]) -> list[Tally]:
        """Count the decisions of both models, in their present state, on the rows held out so far."""
        held = self.held
        assert held is not None
        return self._map(lambda model, n_threads: tally_decisions(model, held, sources, n_threads))

    def _note(self, tallies: Iterable[Tally]) -> None:
        """Note the unfairness of both models and its intervals."""
        metric = self.settings.judged[0]
        for (name, model), tally in zip(self.models.items(), tallies, strict=True):
            for source in PATH_SOURCES:
                one = findings.ask(model, tally, metric, source, self.settings, anytime=True)
                what = {"model": name, "metric": metric, "source": source, "rows": self.trained}
                what["anytime"] = one.method == ASYMPTOTIC
                self.path.append(what | {key: plain(getattr(one, key)) for key in ("estimate", "low", "high")})

    def _result(self) -> Audit:
        """Measure both models on the held-out rows, and sum up."""
        held = self.held
        if held is None:
            raise ValueError("There is no row in the data. Check that the file was written to its end.")
        copies = copies_among(held, self.intake.feature_places)
        if self.crossed:
            self.evaluation = Evaluation.crossed(self.models, held, self.n_jobs)._replace(copies=copies)
            return self._conclude(self.evaluation, dependent=False)
        evaluation = Evaluation.of(self.models, held, self._count(tuple(SOURCES)))._replace(copies=copies)
        self.evaluation = evaluation
        units = len(np.unique(side_of(held, self.settings.random_state)))
        return self._conclude(evaluation, dependent=self.settings.split_by is not None and units < held.n)

    def evaluated(self, name: str) -> tuple[Model, ...]:
        """The models whose decisions were counted under this name: one, or one for each fold of cross-fitting."""
        assert self.evaluation is not None
        tally = self.evaluation.tallies[name]
        return tally.models if isinstance(tally, CrossFit) else (self.models[name].answer(),)

    def _conclude(self, evaluation: Evaluation, dependent: bool) -> Audit:
        """Sum up, from what was counted on the held-out rows."""
        settings = self.settings
        if settings.shard_rows is None and (not self.path or self.path[-1]["rows"] != self.trained):
            self._note(evaluation.tallies.values())
        common = dependent_rows.check(dependent, settings.split_by) + self.intake.late_columns()
        if settings.split_by is None:  # otherwise a value that repeats says it better
            found_copies = dependent_rows.check_copies(*evaluation.copies)
            common += found_copies or self._check_multiples()
        found = [findings.find(name, model, evaluation, common, settings) for name, model in self.models.items()]
        models = [one.values for one in found]
        diagnostics = [*common, *(d for one in found for d in one.diagnostics)]
        diagnostics += [d for model in self.models.values() for d in model.diagnostics]
        about_rows = [*common, *(d for d in diagnostics if isinstance(d, ChangingGap))]
        verdict = None
        if settings.margin is not None:
            verdict = findings.overall(one["verdict"] for one in models[0]["verdicts"])
        groups = self._describe_groups(evaluation)
        rows = {"read": self.intake.read + self.intake.bad.total - self.intake.own_bad, "training": self.trained}
        files = [file._asdict() for file in self.source.files()] if self._is_stream else self.files
        data = {"name": self.source.name, "kind": self.source.kind, "files": files}
        return Audit(
            sentence=findings.sentence(settings, models, self.intake.labels[1], verdict, self.complete),
            verdict=verdict,
            complete=self.complete,
            settings=settings.to_dict() | {"labels": [*self.intake.labels]},
            data=data | ({"shards": self.shards} if self.shards else {}),
            rows=rows | {"evaluation": evaluation.n, "bad": self.intake.bad.to_dict(), "folds": evaluation.folds},
            columns=self._describe_columns(),
            groups=groups,
            models=models,
            price=findings.price(evaluation, settings.confidence_level),
            comparisons=[] if evaluation.pairs is None else evaluation.pairs.compare(settings, about_rows),
            path=self.path,
            assumptions=findings.assumptions(diagnostics),
            versions={"surefair": version("surefair"), "python": platform.python_version()}
            | {name: version(name) for name in ("numpy", "numba", "scikit-learn", "pyarrow")},
        )

    def _check_multiples(self) -> list[Diagnostic]:
        """Check whether the whole table consists of copies of another one."""
        if not self.complete or self.settings.shard_rows is not None:  # some of the rows are not here
            return []
        assert self.held is not None
        seen = self.models["constrained"].seen
        if not self.crossed:
            seen = seen.after(hash_rows(self.held.X, self.held.y))
        return dependent_rows.check_multiples(seen.times, len(seen.counts))

    @property
    def _is_stream(self) -> bool:
        return self.source.kind == "csv" and self.source.n_bytes is None

    def _describe_columns(self) -> list[dict[str, Any]]:
        """How each column was used."""
        encoder = self.intake.encoder
        assert encoder is not None
        roles = self.settings.roles()
        found = []
        for name in self.source.schema.names:
            column = encoder.columns.get(name)
            n = 0
            note = encoder.left_out.get(name, "")
            if column is not None:
                n = int(encoder.kept[name].sum())
                total = len(encoder.kept[name])
                notes = [column.note, self.intake.notes.get(name, "")]
                notes += [] if n == total else [f"{total - n} of {total} features follow from others"]
                note = "; ".join(part for part in notes if part)
            role = roles.get(name) or ("left out" if n == 0 and note else "dropped" if column is None else column.role)
            found.append({
                "name": name, "role": role, "features": n, "missing": self.intake.missing[name],
                "unseen": self.intake.unseen[name], "note": note, "encoding": encoder.describe(name),
            })  # fmt: skip
        return found

    def _describe_groups(self, evaluation: Evaluation) -> list[dict[str, Any]]:
        """Rows and labels of each group, including groups that only evaluation rows have."""
        seen, base = evaluation.groups, evaluation.base_rates
        known = self.models["constrained"].group_counts()
        none = {"n": 0, "constrained": False}
        keys = sorted({*known, *seen}, key=lambda key: (self.settings.sensitive.index(key[0]), in_order(key[1])))
        found = []
        for key in keys:
            counts = known.get(key, none)
            rows = {"training": counts["n"], "evaluation": seen.get(key, 0), "constrained": counts["constrained"]}
            found.append({"column": key[0], "group": key[1]} | rows | {"base_rate": base.get(key)})
        return found


def _inside(folder: Folder, data: str) -> bool:
    return Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(data))


def _contents(files: list[dict[str, Any]]) -> list[tuple[int, str]]:
    """Size and checksum of files, whose names may have changed."""
    return [(file["size"], file["sha256"]) for file in files]


def _listed(files: list[dict[str, Any]]) -> str:
    shown = [f"{file['name']!r} of {file['size']:,} bytes, SHA-256 {file['sha256'][:12]}…" for file in files[:3]]
    return ", ".join(shown) + (f" and {len(files) - 3} more" if len(files) > 3 else "")


def _until(stop: Callable[[], bool], results: Iterable[bytes]) -> Iterator[bytes]:
    """Pass results on, until asked to give up."""
    for result in results:
        yield result
        if stop():
            raise KeyboardInterrupt


def _next_look(trained: int) -> int:
    """Return the next number of training rows to look after.

    Examples
    --------
    >>> [_next_look(trained) for trained in (0, 500, 700, 10_000)]
    [500, 700, 979, 10330]
    """
    look = float(FIRST_LOOK)
    while int(look) <= trained:
        look *= APART
    return int(look)
