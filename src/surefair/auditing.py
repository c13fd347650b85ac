"""From a file to an Audit: one pass, in bounded memory, that can stop and go on.

Rows are read in chunks. The first chunk is the warm-up: it settles how columns become features and which labels there
are, and gives the constraint set D'. Of every chunk some rows are held out; the others are shuffled, and both models
train on them. Between two chunks the state is small and complete: that is where a checkpoint is written, and where an
audit that was stopped goes on, to the same bits.
"""

from __future__ import annotations

import os
import platform
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import Any, Self

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
from joblib import effective_n_jobs
from numpy.typing import NDArray

from surefair import findings
from surefair.archives import Arrays, Damaged, read_archive, write_archive
from surefair.audits import Audit, Settings
from surefair.checkpoints import pack, unpack
from surefair.criteria import get_criterion
from surefair.diagnostics import DependentRows, Diagnostic, SmallConstraintSet
from surefair.estimators import FairClassifier
from surefair.features import MISSING, Features, as_numbers, as_words, is_number, is_text, plain_column
from surefair.intervals import SOURCES, Interval, plain
from surefair.names import one_of
from surefair.reading import BadRows, Source, open_source
from surefair.splitting import FEW, Rows, constraint_rows, hold_out, sides

CHUNK = 50_000  # rows
VALUES = 30  # of a column to split by, held out
LEAST = 50  # rows to train on, below which there is nothing to say
FIRST_LOOK, APART = 500, 1.4  # training rows before the first look along the stream, and between two, as a factor
PATH_SOURCES = ("total", "training")  # looked at along the stream
MODELS = ("constrained", "unconstrained")
SECONDS = 60.0  # between two checkpoints, unless told
KEPT = 2  # checkpoints
FORMAT, VERSION = "surefair.audit-checkpoint", 1

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
        Threads.
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
    return Running.begin(data, asked, checkpoint).run(checkpoint=checkpoint, n_jobs=n_jobs)


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
    features : Features or None
        None before the first chunk.
    labels : tuple of str
        The negative and the positive one.
    models : dict of str to FairClassifier
    held : Rows or None
        Rows held out for evaluation.
    apart : ndarray
        Sides of the rows of D'.
    chunks, read, trained, set_aside : int
        Chunks and rows read, rows trained on, and rows not used since they belong with rows of D'.
    """

    PLAIN = ("files", "labels", "chunks", "read", "trained", "set_aside", "path", "complete")  # JSON as they are

    def __init__(self, data: Any, settings: Settings, place: str | None) -> None:
        self.settings, self.place = settings, place  # where the data are found again
        self.bad = BadRows(settings.max_bad_rows)
        more = {} if settings.delimiter is None else {"delimiter": settings.delimiter}
        self.source: Source = open_source(data, names=settings.names, encoding=settings.encoding, bad=self.bad, **more)
        self.columns = _columns(settings, self.source.schema)
        self.files = [file._asdict() for file in self.source.files()]
        self.features: Features | None = None
        self.labels: tuple[str, ...] = ()
        self.models: dict[str, FairClassifier] = {}
        self.held: Rows | None = None
        self.apart = np.empty(0)
        self.chunks = self.read = self.trained = self.set_aside = 0
        self.own: set[str] = set()  # reasons for bad rows that are found here, not by the reader
        self.missing: Counter[str] = Counter()
        self.unseen: Counter[str] = Counter()
        self.path: list[dict[str, Any]] = []
        self.warned: set[str] = set()
        self.complete = False
        self.n_jobs = 1

    # -- Beginning, stopping, going on --------------------------------------------------------------------------------

    @classmethod
    def begin(cls, data: Any, settings: Settings, checkpoint: Folder | None = None) -> Self:
        """Open the data."""
        if checkpoint is not None and _kept(checkpoint):
            raise ValueError(
                f"{os.fspath(checkpoint)!r} holds the checkpoint of an audit. Go on with that by surefair resume, or "
                "name another folder."
            )
        place = str(data) if isinstance(data, str | os.PathLike) else None
        return cls(data, settings, place if place in (None, "-") else str(Path(place).resolve()))

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
        self.n_jobs, last, kept, stopped = effective_n_jobs(n_jobs), time.monotonic(), self.read, False
        with ONE_AT_A_TIME, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for number, table in enumerate(self.source.tables(CHUNK, self.columns)):
                if number == 0:
                    self._settle(table)
                if number < self.chunks:
                    continue
                if stopped:  # and there is more to read
                    break
                self._take(table)
                self.warned |= {_told(one.message) for one in caught if isinstance(one.message, Diagnostic)}
                caught.clear()
                progress(self.read)
                stopped = stop()
                due = time.monotonic() - last > seconds if every is None else self.read - kept >= every
                if checkpoint is not None and due:
                    self._save(Path(checkpoint))
                    last, kept = time.monotonic(), self.read
            else:
                self.complete = True
            if checkpoint is not None and self.chunks:
                self._save(Path(checkpoint))
            return self._result()

    def _save(self, folder: Path) -> None:
        """Write a checkpoint; all but the last few are removed."""
        try:
            write_archive(folder / f"{self.chunks:09d}.npz", FORMAT, VERSION, *self._pack())
        except OSError as error:
            before = _kept(folder)
            good = f"The one before, {before[-1].name!r}, is good: make" if before else "There is none before. Make"
            raise OSError(
                f"The checkpoint after {self.read:,} rows could not be written to {str(folder)!r}: "
                f"{error.strerror or error}. {good} room, then go on by surefair resume."
            ) from error
        for old in _kept(folder)[:-KEPT]:
            old.unlink(missing_ok=True)

    def _pack(self) -> tuple[dict[str, Any], Arrays]:
        """Take the state apart into JSON and arrays."""
        assert self.held is not None
        meta: dict[str, Any] = {name: getattr(self, name) for name in self.PLAIN}
        meta |= {"settings": asdict(self.settings), "place": self.place, "models": {}}
        meta |= {"warned": sorted(self.warned), "missing": dict(self.missing), "unseen": dict(self.unseen)}
        meta |= {"bad": [one for one in self.bad.to_dict() if one["reason"] in self.own]}
        codes, words = zip(*(pd.factorize(column) for column in self.held.groups), strict=True)
        meta |= {"words": [one.tolist() for one in words]}
        arrays: Arrays = {"apart": self.apart, "groups": np.stack(codes)}
        arrays |= {name: getattr(self.held, name) for name in ("X", "y", "weight", "side")}
        for name, clf in self.models.items():
            meta["models"][name], parts = pack(clf)
            arrays |= {f"{name}/{part}": array for part, array in parts.items()}
        return meta, arrays

    def _unpack(self, meta: dict[str, Any], arrays: Arrays) -> None:
        """Put the state together again; features are settled anew when the first chunk is read."""
        for name in self.PLAIN:
            setattr(self, name, meta[name])
        self.warned, self.missing, self.unseen = set(meta["warned"]), Counter(meta["missing"]), Counter(meta["unseen"])
        self.own = {one["reason"] for one in meta["bad"]}
        for one in meta["bad"]:
            self.bad.add(one["reason"], one["count"], one["first"])
        self.apart = arrays["apart"]
        words = [np.asarray(one, dtype=object) for one in meta["words"]]
        groups = np.stack([one[code] for one, code in zip(words, arrays["groups"], strict=True)])
        self.held = Rows(arrays["X"], arrays["y"], groups, arrays["weight"], arrays["side"])
        for name, packed in meta["models"].items():
            parts = {key.removeprefix(f"{name}/"): part for key, part in arrays.items() if key.startswith(f"{name}/")}
            self.models[name] = unpack(packed, parts)

    # -- One chunk ----------------------------------------------------------------------------------------------------

    def _settle(self, table: pa.Table) -> None:
        """Settle features and labels on the warm-up rows."""
        settings = self.settings
        code, words = as_words(plain_column(table, settings.label))
        count = Counter(words[code].tolist())
        found = sorted((word for word in count if word != MISSING), key=_in_order)
        if len(found) != 2:
            told = ", ".join(f"{word!r} ({count[word]:,} rows)" for word in found[:10])
            hint = "Keep or merge two of them." if len(found) > 2 else "If the data are sorted by it, shuffle them."
            raise ValueError(
                f"The label {settings.label!r} must have two values; the first {table.num_rows:,} rows show "
                f"{len(found)}: {told or 'none'}{' and so on' if len(found) > 10 else ''}. {hint}"
            )
        if settings.positive is not None:
            meant = [word for word in found if _alike(word, settings.positive)] or [settings.positive]
            one_of(meant[0], found, f"value of the label {settings.label!r}")
            found = sorted(found, key=lambda word: word == meant[0])
        self.labels = tuple(found)
        taken = {settings.label, settings.weights, settings.split_by}
        taken |= set() if settings.include_sensitive else {*settings.sensitive}
        self.features = Features.fit(table, settings.features or [name for name in self.columns if name not in taken])

    def _take(self, table: pa.Table) -> None:
        """Hold out some rows of a chunk, and train on the others."""
        settings = self.settings
        self.held, rows = hold_out(self.held, self._usable(table))
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

    def _usable(self, table: pa.Table) -> Rows:
        """Rows of a table that can be used, as numbers; the others are counted, each for the first reason found."""
        assert self.features is not None
        settings, n, (no, yes) = self.settings, table.num_rows, self.labels
        encoded = self.features.encode(table)
        bad, numbers = dict(encoded.bad), self.read + np.arange(n)

        def column(name: str, reason: str) -> tuple[NDArray[np.intp], NDArray[Any]]:
            code, words = as_words(plain_column(table, name))
            bad[reason] = (words == MISSING)[code]
            return code, words

        code, words = column(settings.label, f"no label {settings.label!r}")
        known = np.array([word in (no, yes, MISSING) for word in words.tolist()], dtype=bool)
        bad[f"a label {settings.label!r} other than {no!r} and {yes!r}"] = ~known[code]
        y, groups = (words == yes)[code], np.empty((len(settings.sensitive), n), dtype=object)
        for i, name in enumerate(settings.sensitive):
            code, words = column(name, f"no value of the sensitive column {name!r}")
            groups[i] = words[code]
        weight, keys = np.ones(n), numbers.astype(np.uint64)
        if settings.weights is not None:
            weight, _ = as_numbers(plain_column(table, settings.weights))
            bad[f"a weight {settings.weights!r} that is missing, negative or infinite"] = ~(
                np.isfinite(weight) & (weight >= 0.0)
            )
        if settings.split_by is not None:
            code, words = column(settings.split_by, f"no value of {settings.split_by!r} to split by")
            keys = pd.util.hash_array(words, categorize=False)[code]
        good = np.ones(n, dtype=bool)
        for reason, rows in bad.items():
            if (rows := rows & good).any():
                good &= ~rows
                self.own.add(reason)
                whole = " of those with all fields" if self.bad.total > self._own_bad() else ""
                self.bad.add(reason, int(rows.sum()), f"row {numbers[rows.argmax()] + 1:,}{whole}")
        for tally, found in ((self.missing, encoded.missing), (self.unseen, encoded.unseen)):
            tally.update({name: int((rows & good).sum()) for name, rows in found.items()})
        self.read += n
        return Rows(encoded.X, y, groups, weight, sides(keys, settings.random_state)).part(good)

    def _begin(self, rows: Rows) -> Rows:
        """Make both models, give them the constraint set D' out of the first rows, and return the rows to train on."""
        settings, held = self.settings, self.held
        assert held is not None
        for name, groups in zip(settings.sensitive, np.concatenate([held.groups, rows.groups], axis=1), strict=True):
            if len(found := sorted(set(groups.tolist()))) < 2:
                raise ValueError(
                    f"The sensitive column {name!r} shows {len(found)} group{''.join(f', {g!r},' for g in found)} in "
                    f"the first {self.read:,} rows, and two or more are compared. If the data are sorted by it, "
                    "shuffle them; otherwise name another column."
                )
        few = f", or too few values of {settings.split_by!r} to split by" if settings.split_by is not None else ""
        if rows.n < LEAST or held.n == 0 or rows.y.all() or not rows.y.any():
            raise ValueError(
                f"There are too few rows{few}: {rows.n} to train on and {held.n} held out, of {self.read} read; "
                f"{LEAST} or more of both labels are needed to train on."
            )
        criterion = None if settings.criterion is None else get_criterion(settings.criterion)
        chosen, told = constraint_rows(rows, settings.n_constraint, criterion, settings.sensitive)
        for name, groups in zip(settings.sensitive, rows.groups[:, chosen], strict=True):
            if criterion is not None and len(set(groups.tolist())) < 2:
                raise ValueError(
                    f"There are too few rows for a constraint on {name!r}, of {self.read} read: two groups or more "
                    f"need {FEW} rows in the constraint set that the criterion looks at. Use more rows, raise "
                    "n_constraint (--constraint-rows), merge small groups, or leave the criterion out."
                )
        for words in told:
            warnings.warn(SmallConstraintSet(words), stacklevel=2)
        self.apart = np.unique(rows.side[chosen])
        spent = np.isin(rows.side, self.apart) if settings.split_by is not None else chosen
        if settings.split_by is not None and (n := len(np.unique(held.side))) < VALUES:
            raise ValueError(
                f"Of {settings.split_by!r}, too few values are held out: {n}, and {VALUES} are needed. Split by a "
                "column of more values, or by none."
            )
        if spent.all():
            raise ValueError(f"There are too few rows{few}: none is left to train on, of {self.read} read.")
        self.set_aside += int((spent & ~chosen).sum())
        shared: dict[str, Any] = {
            name: getattr(settings, name)
            for name in ("loss", "tolerance", "penalty", "alpha", "n_replicates", "random_state")
        } | {"n_constraint": int(chosen.sum())}
        for name in MODELS:
            self.models[name] = FairClassifier(settings.criterion if name == "constrained" else None, **shared)
        self._each(partial(self._fit, rows=rows.part(chosen)))  # the first rows of a stream become D'
        return rows.part(~spent)

    def _learn(self, rows: Rows) -> None:
        """Train both models, with looks on the way."""
        done = 0
        while done < rows.n:
            look = _next_look(self.trained)
            part = rows.part(slice(done, done + look - self.trained))
            self._each(partial(self._fit, rows=part))
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

    def _fit(self, clf: FairClassifier, rows: Rows) -> None:
        clf.partial_fit(
            rows.X, rows.y, sensitive_features=self._groups(rows), classes=[False, True], sample_weight=rows.weight
        )

    def _groups(self, rows: Rows) -> dict[str, NDArray[Any]]:
        return dict(zip(self.settings.sensitive, rows.groups, strict=True))

    # -- What comes out -----------------------------------------------------------------------------------------------

    def _interval(self, clf: FairClassifier, metric: str, source: str) -> Interval:
        """Interval of a model as it is now, on the rows held out so far."""
        assert self.held is not None
        X, y, _, weight, _ = self.held
        found = clf.fairness_interval(
            X, y, sensitive_features=self._groups(self.held), metric=metric, source=source,
            confidence_level=self.settings.confidence_level, sample_weight=weight,
        )  # fmt: skip
        positive = f"The positive label is {self.labels[1]!r}."
        return replace(found, sentence=found.sentence.replace("The positive label is True.", positive))

    def _look(self) -> None:
        """Note the unfairness of both models and its intervals, along the stream."""
        metric = self.settings.judged[0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on the way; what counts is the end
            found = self._each(lambda clf: [self._interval(clf, metric, source) for source in PATH_SOURCES])
        for name, intervals in zip(self.models, found, strict=True):
            for one in intervals:
                what = {"model": name, "metric": metric, "source": one.source, "rows": self.trained}
                self.path.append(what | {key: plain(getattr(one, key)) for key in ("estimate", "low", "high")})

    def _result(self) -> Audit:
        """Measure both models on the rows held out, and sum up."""
        settings, held, features = self.settings, self.held, self.features
        if held is None or features is None:
            raise ValueError("There is no row in the data.")
        if not self.path or self.path[-1]["rows"] != self.trained:
            self._look()
        kinds = [(metric, source) for metric in settings.measured for source in SOURCES]
        measured = self._each(lambda clf: [self._interval(clf, *kind) for kind in kinds])
        decided = [clf.predict(held.X) for clf in self.models.values()]
        right = [decision == held.y for decision in decided]
        dependent = settings.split_by is not None and len(np.unique(held.side)) < held.n
        if dependent:
            words = (
                f"Rows with the same {settings.split_by!r} are not independent of each other: intervals are too narrow."
            )
            self.warned.add(
                _told(DependentRows(f"{words} There is no definite verdict; keep one row of each for one."))
            )
        models = [
            findings.model_told(
                name,
                clf,
                intervals,
                decision == held.y,
                held.weight,
                features.names,
                len({*decision}) == 1,
                dependent,
                settings,
            )
            for (name, clf), intervals, decision in zip(self.models.items(), measured, decided, strict=True)
        ]
        verdict = None
        if settings.margin is not None:
            verdict = findings.overall(one["verdict"] for one in models[0]["verdicts"])
        groups = self._groups_told()
        rows = {"read": self.read + self.bad.total - self._own_bad(), "training": self.trained}
        rows |= {"constraint": sum(one["constraint"] for one in groups if one["column"] == settings.sensitive[0])}
        software = ("numpy", "numba", "scikit-learn", "pyarrow")
        return Audit(
            sentence=findings.sentence(settings, models, self.labels[1], verdict, self.complete),
            verdict=verdict,
            complete=self.complete,
            settings=settings.to_dict() | {"labels": [*self.labels]},
            data={"name": self.source.name, "kind": self.source.kind, "files": self._files_read()},
            rows=rows | {"evaluation": held.n, "set_aside": self.set_aside, "bad": self.bad.to_dict()},
            columns=self._columns_told(features),
            groups=groups,
            models=models,
            price=findings.price(right[1], right[0], held.weight, settings.confidence_level),
            path=self.path,
            assumptions=findings.assumptions(
                [*self.warned, *(words for model in models for words in model["warnings"])]
            ),
            versions={"surefair": version("surefair"), "python": platform.python_version()}
            | {name: version(name) for name in software},
        )

    def _own_bad(self) -> int:
        return sum(one["count"] for one in self.bad.to_dict() if one["reason"] in self.own)

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
                "name": name, "role": role, "features": n, "missing": self.missing[name],
                "unseen": self.unseen[name], "note": note,
            })  # fmt: skip
        return told

    def _groups_told(self) -> list[dict[str, Any]]:
        """Rows of each group, those that only evaluation rows have included."""
        assert self.held is not None
        seen: Counter[tuple[str, str]] = Counter()
        for name, column in self._groups(self.held).items():
            seen.update((name, group) for group in column.tolist())
        told = {}
        for row in nw.from_native(self.models["constrained"].group_counts_, eager_only=True).rows(named=True):
            rows = {
                "training": row["n"] - row["n_constraint"],
                "constraint": row["n_constraint"],
                "constrained": row["constrained"],
            }
            told[row["column"], row["group"]] = rows
        nobody = {"training": 0, "constraint": 0, "constrained": False}
        keys = sorted({*told, *seen}, key=lambda key: (self.settings.sensitive.index(key[0]), _in_order(key[1])))
        return [{"column": key[0], "group": key[1]} | told.get(key, nobody) | {"evaluation": seen[key]} for key in keys]


def _columns(settings: Settings, schema: pa.Schema) -> list[str]:
    """Columns to read, in the order of the data."""
    known = schema.names
    named = {
        "label": (settings.label,), "sensitive": settings.sensitive, "features": settings.features or (),
        "drop": settings.drop, "weights": (settings.weights,), "split_by": (settings.split_by,),
    }  # fmt: skip
    for what, names in named.items():
        for name in names:
            if name is not None:
                _check_header(name, known)
                kind = schema.field(one_of(name, known, f"column for {what}")).type
                if what not in ("features", "drop") and not _serves(kind, what):
                    raise ValueError(f"Column {name!r} is of type {kind}, which cannot serve for {what}. Convert it.")
    needed = {name for what, names in named.items() if what != "drop" for name in names}
    if settings.features is None:
        needed |= {*known} - {*settings.drop}
    return [name for name in known if name in needed]


def _check_header(name: str, known: Sequence[str]) -> None:
    """Refuse a name that is not there with a hint, where the others look like a row rather than a header."""
    if name not in known and any(_in_order(word)[0] is False for word in known):
        raise ValueError(
            f"There is no column {name!r}. The first line reads {', '.join(map(repr, known[:6]))} and so on: if the "
            "file has no header, give the names of its columns (names, --names)."
        )


def _serves(kind: pa.DataType, what: str) -> bool:
    """Whether a column of this type has values to compare, or as weights numbers."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    dated = pa.types.is_temporal(kind) and not pa.types.is_interval(kind)
    return is_text(kind) or is_number(kind) or (what != "weights" and dated)


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


def _in_order(word: str) -> tuple[bool, float, str]:
    """Sort numbers by size, and words after them."""
    try:
        number = float(word)
    except ValueError:
        number = np.nan
    return (True, 0.0, word) if np.isnan(number) else (False, number, word)


def _alike(word: str, asked: str) -> bool:
    """Whether a word is the one asked for, as text, as a number, or as true or false."""
    same_number = not _in_order(word)[0] and _in_order(word)[:2] == _in_order(asked)[:2]
    return word == asked or same_number or (word == asked.lower() and word in ("true", "false"))


def _told(message: Warning | str) -> str:
    return f"{type(message).__name__}: {message}"
