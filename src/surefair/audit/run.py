"""From a file to an Audit: one pass, in bounded memory, that can stop and go on.

Rows are read in chunks. The first chunk is the warm-up: it settles how columns become features and which labels there
are, and gives the constraint set D'. Of every chunk some rows are held out; the others are shuffled, and both models
train on them. Between two chunks the state is small and complete: that is where a checkpoint is written, and where an
audit that was stopped goes on, to the same bits.
"""

from __future__ import annotations

import json
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial, reduce
from importlib.metadata import version
from operator import add
from pathlib import Path
from threading import Lock
from typing import Any, Self

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
from joblib import effective_n_jobs

from surefair import engines
from surefair.audit import findings
from surefair.audit.evaluation import Evaluation, tallied
from surefair.audit.result import Audit, Settings
from surefair.classifier import FairClassifier, late_groups
from surefair.criteria import get_criterion
from surefair.diagnostics import DependentRows, Diagnostic, SmallConstraintSet, told
from surefair.inference.interval import SOURCES, Interval, plain
from surefair.inference.sources import Tally
from surefair.names import one_of
from surefair.parallel import shards
from surefair.parallel.shards import Plan, Shard, learn
from surefair.storage.archive import Arrays, Damaged, prefixed, read_archive, under, write_archive
from surefair.storage.checkpoints import pack, unpack
from surefair.tables.encoder import Features
from surefair.tables.intake import Intake, columns_to_read, in_order
from surefair.tables.source import BadRows, Source, open_source
from surefair.tables.split import FEW, Rows, constraint_rows, hold_out, share_held_out

CHUNK = 50_000  # rows
VALUES = 30  # of a column to split by, held out
LEAST = 50  # rows to train on, below which there is nothing to say
FIRST_LOOK, APART = 500, 1.4  # training rows before the first look along the stream, and between two, as a factor
PATH_SOURCES = ("total", "training")  # looked at along the stream
MODELS = ("constrained", "unconstrained")
SHARD_ROWS, MOST_SHARDS = 1_000_000, 64  # on a cluster, unless told: rows of a shard at least, and shards at most
SECONDS = 60.0  # between two checkpoints, unless told
KEPT = 2  # checkpoints
FORMAT, VERSION = "surefair.audit-checkpoint", 2

ONE_AT_A_TIME = Lock()  # audits of one process: what is warned of is caught for all threads together

Folder = str | os.PathLike[str]


def audit(
    data: Any,
    label: str,
    sensitive: str | Sequence[str],
    criterion: str | None = "demographic_parity",
    *,
    checkpoint: Folder | None = None,
    n_jobs: int | None = None,
    engine: str = "local",
    address: str | None = None,
    **settings: Any,
) -> Audit:
    """Train a constrained and an unconstrained model on a file, and say how alike they treat groups.

    Parameters
    ----------
    data : path, "-", file object or data frame
        CSV (also compressed), Parquet or Arrow file, or a folder of such files; "-" is standard input.
    label : str
        Column of the label, of two values.
    sensitive : str or sequence of str
        Columns of the groups.
    criterion : str or None
        What the constrained model is held to.
    checkpoint : path, optional
        Folder to keep the state in, once a minute; ``resume`` goes on from there.
    n_jobs : int, optional
        Threads; of shards, workers on this machine.
    engine : {"local", "dask", "ray", "spark"}
        Where shards of a folder of Parquet files are read: in processes of this machine, or on a cluster that sees the
        same files. The result is the same. On the engine local, without ``shard_rows``, the data are one stream.
    address : str, optional
        Of the cluster; by default the one this process is connected to, or else one on this machine.
    **settings
        Everything else: see ``Settings``.

    Returns
    -------
    Audit

    Examples
    --------
    >>> import surefair as sf
    >>> data = sf.datasets.SyntheticDI(seed=0).sample(5_000)
    >>> table = pd.DataFrame(data.X, columns=["x1", "x2"]).assign(label=data.y, group=data.sensitive)
    >>> found = sf.audit(table, label="label", sensitive="group", margin=0.2)
    >>> found.verdict
    'within margin'
    """
    asked = Settings(label=label, sensitive=sensitive, criterion=criterion, **settings)  # type: ignore[arg-type]
    check_engine(asked, engine, address, checkpoint)
    running = Running.begin(data, asked, checkpoint, in_shards=engine != "local")
    if running.settings.shard_rows is None:
        return running.run(checkpoint=checkpoint, n_jobs=n_jobs)
    return running.run_in_shards(engine, address, n_jobs=n_jobs)


def check_engine(settings: Settings, engine: str, address: str | None, checkpoint: Folder | None) -> None:
    """Refuse what does not go together."""
    one_of(engine, engines.ENGINES, "engine")
    if engine == "local" and address is not None:
        raise ValueError(f"The engine local is on this machine and has no address; received {address!r}.")
    if (engine != "local" or settings.shard_rows is not None) and checkpoint is not None:
        raise ValueError(
            "An audit in shards keeps no checkpoints: an engine works lost shards out again. Leave out checkpoint "
            "(--checkpoint), or read the data as one stream: on the engine local, without shard_rows (--shard-rows)."
        )


def resume(checkpoint: Folder, data: Any = None, *, n_jobs: int | None = None) -> Audit:
    """Go on with an audit from its newest checkpoint.

    Parameters
    ----------
    checkpoint : path
        Folder that ``audit`` kept its state in.
    data : path, "-", file object or data frame, optional
        The same data again; by default the file that the audit began with.
    n_jobs : int, optional

    Returns
    -------
    Audit
        The same as of an audit that was never stopped.
    """
    return Running.restore(checkpoint, data).run(checkpoint=checkpoint, n_jobs=n_jobs)


class Running:
    """An audit under way: what it knows between two chunks.

    Attributes
    ----------
    settings : Settings
    source : Source
    intake : Intake
        Makes rows of tables; settled on the first chunk.
    models : dict of str to FairClassifier
    held : Rows or None
        Rows held out for evaluation.
    apart : ndarray
        Sides of the rows of D'.
    chunks, shards, trained, set_aside : int
        Chunks or shards read, rows trained on, and rows not used since they belong with rows of D'.
    """

    PLAIN = ("files", "chunks", "trained", "set_aside", "path", "complete")  # JSON as they are

    def __init__(self, data: Any, settings: Settings, place: str | None, in_shards: bool = False) -> None:
        bad = BadRows(settings.max_bad_rows)
        more = {} if settings.delimiter is None else {"delimiter": settings.delimiter}
        self.source: Source = open_source(data, names=settings.names, encoding=settings.encoding, bad=bad, **more)
        if in_shards and settings.shard_rows is None:
            rows = -(-(self.source.n_rows or 0) // MOST_SHARDS)
            settings = replace(settings, shard_rows=max(SHARD_ROWS, rows))
        self.settings, self.place = settings, place  # where the data are found again
        self.columns = columns_to_read(settings, self.source.schema)
        self.files = [] if settings.shard_rows else [file._asdict() for file in self.source.files()]
        self.intake = Intake(settings, bad, self.source.place)
        self.models: dict[str, FairClassifier] = {}
        self.held: Rows | None = None
        self.apart = np.empty(0)
        self.chunks = self.shards = self.trained = self.set_aside = 0
        self.path: list[dict[str, Any]] = []
        self.warned: set[str] = set()
        self.complete = False
        self.n_jobs = 1

    # -- Beginning, stopping, going on --------------------------------------------------------------------------------

    @classmethod
    def begin(cls, data: Any, settings: Settings, checkpoint: Folder | None = None, *, in_shards: bool = False) -> Self:
        """Open the data, to be read as one stream, or in shards that are as long as they should be."""
        if checkpoint is not None and _kept(checkpoint):
            raise ValueError(
                f"{os.fspath(checkpoint)!r} holds the checkpoint of an audit. Go on with that by surefair resume, or "
                "name another folder."
            )
        place = str(data) if isinstance(data, str | os.PathLike) else None
        return cls(data, settings, place if place in (None, "-") else str(Path(place).resolve()), in_shards)

    @classmethod
    def restore(cls, checkpoint: Folder, data: Any = None) -> Self:
        """Open the data again, with the state of the newest checkpoint that is whole."""
        meta, arrays = _newest(checkpoint)
        place = meta["place"]
        if data is None and place is None:
            raise ValueError("This audit was of a data frame or a file object. Pass the same data again.")
        running = cls(place if data is None else data, Settings(**meta["settings"]), place)
        if place == "-" and not running._is_stream:
            raise ValueError(
                "This audit was of standard input. Pass the same bytes there again, with --data - or none."
            )
        if _contents(running.files) != _contents(meta["files"]):  # of a stream, of its first bytes
            raise ValueError(
                f"The data are not those of the checkpoint: {_listed(meta['files'])} then, {_listed(running.files)} "
                "now. Go on with the same data, or begin afresh."
            )
        running._unpack(meta, arrays)
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
        """Read to the end, or until told to stop.

        Parameters
        ----------
        checkpoint : path, optional
            Folder for checkpoints.
        seconds, every : float, int
            A checkpoint is written after so many seconds, or after so many rows.
        n_jobs : int, optional
        progress : callable
            Told the number of rows read, after each chunk.
        stop : callable
            Asked after each chunk whether to stop.
        """
        if checkpoint is not None:
            Path(checkpoint).mkdir(parents=True, exist_ok=True)
            for scratch in Path(checkpoint).glob(".[0-9]*.npz.*"):  # of a run that was killed while it wrote
                scratch.unlink(missing_ok=True)
        self.n_jobs, last, kept, stopped = effective_n_jobs(n_jobs), time.monotonic(), self.intake.read, False
        with ONE_AT_A_TIME, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for number, table in enumerate(self.source.tables(CHUNK, self.columns)):
                if number == 0:
                    self.intake.settle(table, self.columns)
                if number < self.chunks:
                    continue
                if stopped:  # and there is more to read
                    break
                self._take(table)
                self.warned |= {told(one.message) for one in caught if isinstance(one.message, Diagnostic)}
                caught.clear()
                progress(self.intake.read)
                stopped = stop()
                due = time.monotonic() - last > seconds if every is None else self.intake.read - kept >= every
                if checkpoint is not None and due:
                    self._save(Path(checkpoint))
                    last, kept = time.monotonic(), self.intake.read
            else:
                self.complete = True
            if checkpoint is not None and self.chunks:
                self._save(Path(checkpoint))
            return self._result()

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
            Told the number of rows trained on so far or not used, after each shard.
        stop : callable
            Asked after each shard, in both passes, whether to give up.
        """
        size = self.settings.shard_rows or SHARD_ROWS
        tasks = [Shard(number, pieces) for number, pieces in enumerate(self.source.shards(size))]
        with (
            ONE_AT_A_TIME,
            warnings.catch_warnings(record=True) as caught,
            engines.connected(engine, address, n_jobs) as run,
        ):
            warnings.simplefilter("always")
            plan, apart, merged = self._planned(), 0, dict[str, FairClassifier]()
            self.warned |= {told(one.message) for one in caught if isinstance(one.message, Diagnostic)}
            for found in _until(stop, run(partial(shards.train, plan), tasks)):
                shard = shards.trained(plan, found)
                if not merged:
                    merged = shard.models
                elif shard.n_rows:
                    merged = {name: merged[name].merge(clf) for name, clf in shard.models.items()}
                self.intake.add(shard.counted)
                self.trained, self.shards = self.trained + shard.n_rows, self.shards + 1
                apart += shard.apart
                progress(self.intake.read)
            new, begun = (models["constrained"]._census for models in (merged, self.models))
            if self.settings.criterion is not None and new is not None and begun is not None:
                self.warned |= {*map(told, late_groups(new.groups, begun.groups))}
            self.models = merged
            self.set_aside = apart - merged["constrained"].n_constraint
            plan = replace(plan, models=shards.packed(merged))
            parts = _until(stop, run(partial(shards.evaluate, plan), tasks))
            evaluation = reduce(add, map(shards.evaluated, parts))
            self.files = [json.loads(file) for file in run(shards.digest, self.source.paths)]
            self.source.check_unchanged()
            self.complete = True
            return self._concluded(evaluation, dependent=self.settings.split_by is not None)

    def _planned(self) -> Plan:
        """Settle everything on the first rows; workers count these with the others."""
        intake = self.intake
        table = next(self.source.tables(CHUNK, self.columns))
        intake.settle(table, self.columns)
        rows = intake.rows(table)
        held_out = share_held_out(self.source.n_rows or 0, rows.X.shape[1])
        self.held = rows.part(rows.side < held_out)
        self._begin(rows.part(rows.side >= held_out))
        self.intake = intake.elsewhere(0, self.source.place)
        return Plan(self.intake, self.columns, CHUNK, held_out, self.apart, shards.packed(self.models))

    def _save(self, folder: Path) -> None:
        """Write a checkpoint; all but the last few are removed."""
        try:
            write_archive(folder / f"{self.chunks:09d}.npz", FORMAT, VERSION, *self._pack())
        except OSError as error:
            before = _kept(folder)
            good = f"The one before, {before[-1].name!r}, is good: make" if before else "There is none before. Make"
            raise OSError(
                f"The checkpoint after {self.intake.read:,} rows could not be written to {str(folder)!r}: "
                f"{error.strerror or error}. {good} room, then go on by surefair resume."
            ) from error
        for old in _kept(folder)[:-KEPT]:
            old.unlink(missing_ok=True)

    def _pack(self) -> tuple[dict[str, Any], Arrays]:
        """Take the state apart into JSON and arrays."""
        assert self.held is not None
        meta: dict[str, Any] = {name: getattr(self, name) for name in self.PLAIN}
        meta |= {"settings": asdict(self.settings), "place": self.place, "models": {}}
        meta |= {"warned": sorted(self.warned), "counted": self.intake.pack()}
        codes, words = zip(*(pd.factorize(column) for column in self.held.groups), strict=True)
        meta |= {"words": [one.tolist() for one in words]}
        arrays: Arrays = {"apart": self.apart, "groups": np.stack(codes)}
        arrays |= {name: getattr(self.held, name) for name in ("X", "y", "weight", "side")}
        for name, clf in self.models.items():
            meta["models"][name], parts = pack(clf)
            arrays |= prefixed(name, parts)
        return meta, arrays

    def _unpack(self, meta: dict[str, Any], arrays: Arrays) -> None:
        """Put the state together again; features are settled anew when the first chunk is read."""
        for name in self.PLAIN:
            setattr(self, name, meta[name])
        self.warned = set(meta["warned"])
        self.intake.add(meta["counted"])
        self.apart = arrays["apart"]
        words = [np.asarray(one, dtype=object) for one in meta["words"]]
        groups = np.stack([one[code] for one, code in zip(words, arrays["groups"], strict=True)])
        self.held = Rows(arrays["X"], arrays["y"], groups, arrays["weight"], arrays["side"])
        self.models = {name: unpack(packed, under(name, arrays)) for name, packed in meta["models"].items()}

    # -- One chunk ----------------------------------------------------------------------------------------------------

    def _take(self, table: pa.Table) -> None:
        """Hold out some rows of a chunk, and train on the others."""
        settings = self.settings
        self.held, rows = hold_out(self.held, self.intake.rows(table))
        if self.chunks == 0:
            rows = self._begin(rows)
        elif settings.split_by is not None:
            known = np.isin(rows.side, self.apart)
            self.set_aside += int(known.sum())
            rows = rows.part(~known)
        if not settings.keep_order:
            rows = rows.part(np.random.default_rng([settings.random_state, 11, self.chunks]).permutation(rows.n))
        self._learn(rows)
        self.chunks += 1

    def _begin(self, rows: Rows) -> Rows:
        """Make both models, give them the constraint set D' out of the first rows, and return the rows to train on."""
        settings, held = self.settings, self.held
        assert held is not None
        for name, groups in zip(settings.sensitive, np.concatenate([held.groups, rows.groups], axis=1), strict=True):
            if len(found := sorted(set(groups.tolist()))) < 2:
                raise ValueError(
                    f"The sensitive column {name!r} shows {len(found)} group{''.join(f', {g!r},' for g in found)} in "
                    f"the first {self.intake.read:,} rows, and two or more are compared. If the data are sorted by it, "
                    "shuffle them; otherwise name another column."
                )
        few = f", or too few values of {settings.split_by!r} to split by" if settings.split_by is not None else ""
        held_none = held.n == 0 and settings.shard_rows is None  # of very many rows, hardly one is among the first
        if rows.n < LEAST or held_none or rows.y.all() or not rows.y.any():
            raise ValueError(
                f"There are too few rows{few}: {rows.n} to train on and {held.n} held out, of {self.intake.read} read; "
                f"{LEAST} or more of both labels are needed to train on."
            )
        criterion = None if settings.criterion is None else get_criterion(settings.criterion)
        chosen, told = constraint_rows(rows, settings.n_constraint, criterion, settings.sensitive)
        for name, groups in zip(settings.sensitive, rows.groups[:, chosen], strict=True):
            if criterion is not None and len(set(groups.tolist())) < 2:
                raise ValueError(
                    f"There are too few rows for a constraint on {name!r}, of {self.intake.read} read: two groups or "
                    f"more need {FEW} rows in the constraint set that the criterion looks at. Use more rows, raise "
                    "n_constraint (--constraint-rows), merge small groups, or leave the criterion out."
                )
        for words in told:
            warnings.warn(SmallConstraintSet(words), stacklevel=2)
        self.apart = np.unique(rows.side[chosen])
        spent = np.isin(rows.side, self.apart) if settings.split_by is not None else chosen
        n = len(np.unique(held.side))
        if settings.split_by is not None and settings.shard_rows is None and n < VALUES:
            raise ValueError(
                f"Of {settings.split_by!r}, too few values are held out: {n}, and {VALUES} are needed. Split by a "
                "column of more values, or by none."
            )
        if spent.all():
            raise ValueError(f"There are too few rows{few}: none is left to train on, of {self.intake.read} read.")
        self.set_aside += int((spent & ~chosen).sum())
        shared: dict[str, Any] = {
            name: getattr(settings, name)
            for name in ("loss", "tolerance", "penalty", "alpha", "n_replicates", "random_state")
        } | {"n_constraint": int(chosen.sum())}
        for name in MODELS:
            self.models[name] = FairClassifier(settings.criterion if name == "constrained" else None, **shared)
        self._each(
            partial(learn, rows=rows.part(chosen), sensitive=settings.sensitive)
        )  # the first rows of a stream become D'
        return rows.part(~spent)

    def _learn(self, rows: Rows) -> None:
        """Train both models, with looks on the way."""
        done = 0
        while done < rows.n:
            look = _next_look(self.trained)
            part = rows.part(slice(done, done + look - self.trained))
            self._each(partial(learn, rows=part, sensitive=self.settings.sensitive))
            done, self.trained = done + part.n, self.trained + part.n
            if self.trained == look:
                self._look()

    def _each(self, work: Callable[[FairClassifier], Any]) -> list[Any]:
        """Do the same with each model, side by side where there are threads for it."""
        for clf in self.models.values():
            clf.n_jobs = max(1, self.n_jobs // len(MODELS))
        if self.n_jobs == 1:
            return [work(clf) for clf in self.models.values()]
        with ThreadPoolExecutor(len(MODELS)) as pool:
            return list(pool.map(work, self.models.values()))

    # -- What comes out -----------------------------------------------------------------------------------------------

    def _tally(self, clf: FairClassifier, sources: Sequence[str]) -> Tally:
        """Count the decisions of a model, as it is now, on the rows held out so far."""
        assert self.held is not None
        return tallied(clf, self.held, self.settings.sensitive, sources)

    def _interval(self, clf: FairClassifier, tally: Tally, metric: str, source: str) -> Interval:
        level, (_, positive) = self.settings.confidence_level, self.intake.labels
        found = clf.tallied_interval(tally, metric=metric, source=source, confidence_level=level)
        words = f"The positive label is {positive!r}."
        return replace(found, sentence=found.sentence.replace("The positive label is True.", words))

    def _look(self) -> None:
        """Count decisions, and note the unfairness of both models along the stream."""
        self._note(self._each(lambda clf: self._tally(clf, PATH_SOURCES)))

    def _note(self, tallies: Iterable[Tally]) -> None:
        """Note the unfairness of both models and its intervals."""
        metric = self.settings.judged[0]
        for (name, clf), tally in zip(self.models.items(), tallies, strict=True):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # on the way; what counts is the end
                intervals = [self._interval(clf, tally, metric, source) for source in PATH_SOURCES]
            for one in intervals:
                what = {"model": name, "metric": metric, "source": one.source, "rows": self.trained}
                self.path.append(what | {key: plain(getattr(one, key)) for key in ("estimate", "low", "high")})

    def _result(self) -> Audit:
        """Measure both models on the rows held out, and sum up."""
        settings, held = self.settings, self.held
        if held is None:
            raise ValueError("There is no row in the data.")
        tallies = self._each(lambda clf: self._tally(clf, tuple(SOURCES)))
        dependent = settings.split_by is not None and len(np.unique(held.side)) < held.n
        return self._concluded(Evaluation.of(self.models, held, tallies), dependent)

    def _concluded(self, evaluation: Evaluation, dependent: bool) -> Audit:
        """Sum up, from what was counted on the rows held out."""
        settings, features, (_, positive) = self.settings, self.intake.features, self.intake.labels
        assert features is not None
        if settings.shard_rows is None and (not self.path or self.path[-1]["rows"] != self.trained):
            self._note(evaluation.tallies.values())
        if dependent:
            words = (
                f"Rows with the same {settings.split_by!r} are not independent of each other: intervals are too narrow."
            )
            self.warned.add(told(DependentRows(f"{words} There is no definite verdict; keep one row of each for one.")))
        level, (_, right, square) = settings.confidence_level, evaluation
        models = [
            findings.model_told(
                name,
                clf,
                [
                    self._interval(clf, evaluation.tallies[name], metric, source)
                    for metric in settings.measured
                    for source in SOURCES
                ],
                accuracy,
                features.names,
                evaluation.constant(name),
                dependent,
                settings,
            )
            for (name, clf), accuracy in zip(
                self.models.items(), findings.accuracies(right, square, level), strict=True
            )
        ]
        verdict = None
        if settings.margin is not None:
            verdict = findings.overall(one["verdict"] for one in models[0]["verdicts"])
        groups = self._groups_told(evaluation.groups)
        rows = {"read": self.intake.read + self.intake.bad.total - self.intake.own_bad, "training": self.trained}
        rows |= {"constraint": sum(one["constraint"] for one in groups if one["column"] == settings.sensitive[0])}
        software = ("numpy", "numba", "scikit-learn", "pyarrow")
        return Audit(
            sentence=findings.sentence(settings, models, positive, verdict, self.complete),
            verdict=verdict,
            complete=self.complete,
            settings=settings.to_dict() | {"labels": [*self.intake.labels]},
            data={"name": self.source.name, "kind": self.source.kind, "files": self._files_read()}
            | ({"shards": self.shards} if self.shards else {}),
            rows=rows | {"evaluation": evaluation.n, "set_aside": self.set_aside, "bad": self.intake.bad.to_dict()},
            columns=self._columns_told(features),
            groups=groups,
            models=models,
            price=findings.price(right, square, level),
            path=self.path,
            assumptions=findings.assumptions(
                [*self.warned, *(words for model in models for words in model["warnings"])]
            ),
            versions={"surefair": version("surefair"), "python": platform.python_version()}
            | {name: version(name) for name in software},
        )

    def _files_read(self) -> list[dict[str, Any]]:
        """Files with their checksums; of a stream, those of the bytes that passed."""
        return [file._asdict() for file in self.source.files()] if self._is_stream else self.files

    @property
    def _is_stream(self) -> bool:
        return self.source.kind == "csv" and self.source.n_bytes is None

    def _columns_told(self, features: Features) -> list[dict[str, Any]]:
        """What became of each column."""
        settings, told = self.settings, []
        roles = {settings.label: "label", settings.weights: "weights", settings.split_by: "split"}
        roles |= dict.fromkeys(settings.sensitive, "sensitive")
        for name in self.source.schema.names:
            column, n, note = features.columns.get(name), 0, features.left_out.get(name, "")
            if column is not None:
                n, all_of_them = int(features.kept[name].sum()), len(features.kept[name])
                note = "" if n == all_of_them else f"{all_of_them - n} of {all_of_them} features follow from others"
            role = roles.get(name) or ("left out" if n == 0 and note else "dropped" if column is None else column.role)
            told.append({
                "name": name, "role": role, "features": n, "missing": self.intake.missing[name],
                "unseen": self.intake.unseen[name], "note": note,
            })  # fmt: skip
        return told

    def _groups_told(self, seen: dict[Any, int]) -> list[dict[str, Any]]:
        """Rows of each group, those that only evaluation rows have included."""
        known = {}
        for row in nw.from_native(self.models["constrained"].group_counts_, eager_only=True).rows(named=True):
            rows = {
                "training": row["n"] - row["n_constraint"],
                "constraint": row["n_constraint"],
                "constrained": row["constrained"],
            }
            known[row["column"], row["group"]] = rows
        nobody = {"training": 0, "constraint": 0, "constrained": False}
        keys = sorted({*known, *seen}, key=lambda key: (self.settings.sensitive.index(key[0]), in_order(key[1])))
        return [
            {"column": key[0], "group": key[1]} | known.get(key, nobody) | {"evaluation": seen.get(key, 0)}
            for key in keys
        ]


def _kept(folder: Folder) -> list[Path]:
    """Checkpoints in a folder, the newest last."""
    return sorted(Path(folder).glob("[0-9]*.npz"))


def _newest(folder: Folder) -> tuple[dict[str, Any], Arrays]:
    """Read the newest checkpoint that is whole."""
    damaged: list[str] = []
    for path in reversed(_kept(folder)):
        try:
            found = read_archive(path, FORMAT, VERSION)
        except Damaged as error:
            damaged.append(str(error))
            continue
        for words in damaged:
            warnings.warn(f"{words} The checkpoint before it, {path.name!r}, is used.", stacklevel=3)
        return found
    told = f": {' '.join(damaged)}" if damaged else "."
    raise ValueError(f"There is no checkpoint of an audit to go on from in {os.fspath(folder)!r}{told}")


def _contents(files: list[dict[str, Any]]) -> list[tuple[int, str]]:
    """Size and checksum of files, which may have got other names."""
    return [(file["size"], file["sha256"]) for file in files]


def _listed(files: list[dict[str, Any]]) -> str:
    told = [f"{file['name']!r} of {file['size']:,} bytes, SHA-256 {file['sha256'][:12]}…" for file in files[:3]]
    return ", ".join(told) + (f" and {len(files) - 3} more" if len(files) > 3 else "")


def _until(stop: Callable[[], bool], results: Iterable[bytes]) -> Iterator[bytes]:
    """Results, until told to give up."""
    for result in results:
        yield result
        if stop():
            raise KeyboardInterrupt


def _next_look(trained: int) -> int:
    """The next number of training rows to look after.

    Examples
    --------
    >>> [_next_look(trained) for trained in (0, 500, 700, 10_000)]
    [500, 700, 979, 10330]
    """
    look = float(FIRST_LOOK)
    while int(look) <= trained:
        look *= APART
    return int(look)
