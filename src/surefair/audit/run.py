"""From a file to an Audit: one pass, in bounded memory, that can be stopped and resumed.

Rows are read in chunks. The first chunk settles how columns become features and which labels there are, and supplies
the warm-up rows. Some rows of every chunk are held out; the others are shuffled, and both models train on them. Between
two chunks the state is small and complete. That is where a checkpoint is written, and where an audit that was stopped
resumes, with bit-identical results.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial, reduce
from importlib.metadata import version
from operator import add
from typing import Any

import numpy as np
import pyarrow as pa

from surefair.audit import checkpoint as checkpoints
from surefair.audit import findings, shards
from surefair.audit.copies import copies_among
from surefair.audit.evaluation import Evaluation, tally_decisions
from surefair.audit.result import Audit
from surefair.audit.settings import AuditSettings
from surefair.audit.shards import Plan, Shard
from surefair.audit.stream import Run, Stream
from surefair.diagnostics import Diagnostic, dependent_rows
from surefair.diagnostics.changing_gap import ChangingGap
from surefair.inference.asymptotic import ASYMPTOTIC
from surefair.inference.cross_fit import CrossFit
from surefair.inference.interval import plain
from surefair.inference.sources import SOURCES, Tally
from surefair.parallel.shards import merge_models, pack_models, receive
from surefair.rows import Groups, Names, Rows
from surefair.rows.sketch import hash_rows
from surefair.storage.archive import Arrays, add_prefix, select_prefix
from surefair.tables.intake import CHUNK, HINT, Intake, settled_tables
from surefair.tables.reading import in_order
from surefair.tables.source import Sample
from surefair.tables.split import HELD_OUT, hold_out, share_held_out, side_of
from surefair.training.model import Model
from surefair.training.parameters import draw_seed, problem_of

CLUSTERS = 30  # that must be held out
LEAST = 50  # rows to train on
MOST_CROSSED = 10_000  # rows that serve for training and for evaluation, by cross-fitting
FIRST_LOOK = 500  # training rows before the first look along the stream
APART = 1.4  # factor between two looks
PATH_SOURCES = ("total", "training")  # looked at along the stream
MODELS = ("constrained", "unconstrained")


class Running(Stream):
    """A training audit under way: what it knows between two chunks.

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

    KIND = "training"
    PLAIN = (*Stream.PLAIN, "trained", "path", "crossed", "below")

    settings: AuditSettings

    def __init__(self, data: Any, settings: AuditSettings, place: str | None, in_shards: bool = False) -> None:
        super().__init__(data, settings, place, in_shards)
        self.intake = Intake(self.settings, self.bad, self.source.place)
        self.models: dict[str, Model] = {}
        self.held: Rows | None = None
        self.below = HELD_OUT  # rows with a smaller side are held out
        self.trained = 0
        self.path: list[dict[str, Any]] = []
        self.crossed = False  # whether every held-out row was trained on as well, for cross-fitting
        self.evaluation: Evaluation | None = None

    @property
    def n_read(self) -> int:
        """Rows read."""
        return self.intake.read

    def _tables(self) -> Iterator[tuple[pa.Table, bool]]:
        return settled_tables(self.source, self.intake, self.read, CHUNK)

    @classmethod
    def _settings_of(cls, found: dict[str, Any]) -> AuditSettings:
        return AuditSettings(**found)

    def _check_meta(self, meta: dict[str, Any]) -> None:
        checkpoints.check_training(meta)

    def _check_columns(self) -> None:
        """Refuse a checkpoint with other features or labels than the data have."""
        model = self.models["constrained"]
        assert self.intake.encoder is not None
        if model.features != self.intake.encoder.names or model.labels.values.tolist() != [*self.intake.labels]:
            raise ValueError("The checkpoint has other features or labels than the data. Start a new audit.")

    def _take_shards(self, tasks: list[Shard], run: Run, progress: Callable[[int], None]) -> None:
        """Let workers train on the shards, and then count the decisions of the merged models."""
        plan = self._plan()
        merged: Mapping[str, Model] | None = None
        for sent in run(partial(shards.train, plan), tasks):
            models, counts = receive(sent, plan.models)
            merged = merge_models(merged, models)
            self.intake.add(counts["counted"])
            self.trained += counts["n_rows"]
            self.shards += 1
            progress(self.intake.read)
        assert merged is not None
        self.models = dict(merged)
        plan = replace(plan, models=pack_models(self.models))
        self.evaluation = reduce(add, map(shards.read_evaluation, run(partial(shards.evaluate, plan), tasks)))

    def _sharded_result(self) -> Audit:
        assert self.evaluation is not None
        return self._conclude(self.evaluation)

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

    def _pack(self) -> tuple[dict[str, Any], Arrays]:
        """Take the state apart into JSON and arrays."""
        assert self.held is not None
        meta, arrays = super()._pack()
        meta |= {"models": {}, "counted": self.intake.pack(), "groups": self.held.groups.to_json()}
        arrays |= add_prefix("held", self.held.pack())
        for name, model in self.models.items():
            meta["models"][name], parts = model.pack()
            arrays |= add_prefix(name, parts)
        return meta, arrays

    def _unpack(self, meta: dict[str, Any], arrays: Arrays) -> None:
        """Rebuild the state; features are settled again when the first chunk is read."""
        super()._unpack(meta, arrays)
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
        self.crossed = few and rows.n <= MOST_CROSSED and settings.clusters is None
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
        return self.models["constrained"].n_first_of(rows)

    def _begin(self, warmup: Rows) -> None:
        """Let both models begin with their warm-up rows."""
        self._each(lambda model, n_threads: model.begin_with(warmup))
        self.trained += warmup.n

    def _check_first(self, rows: Rows) -> None:
        """Refuse first rows that show too few groups, labels or rows, or hold out too few clusters."""
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
        if settings.clusters is not None and settings.shard_rows is None and n < CLUSTERS:
            raise ValueError(
                f"Too few clusters are held out: {n} values of {settings.clusters!r}, and {CLUSTERS} are needed. Name "
                "a cluster column with more values, or none."
            )

    def _few_values(self) -> str:
        column = self.settings.clusters
        return "" if column is None else f", or too few values of the cluster column {column!r}"

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
            return self._conclude(self.evaluation)
        self.evaluation = Evaluation.of(self.models, held, self._count(tuple(SOURCES)))._replace(copies=copies)
        return self._conclude(self.evaluation)

    def evaluated(self, name: str) -> tuple[Model, ...]:
        """The models whose decisions were counted under this name: one, or one for each fold of cross-fitting."""
        assert self.evaluation is not None
        tally = self.evaluation.tallies[name]
        return tally.models if isinstance(tally, CrossFit) else (self.models[name].answer(),)

    def _conclude(self, evaluation: Evaluation) -> Audit:
        """Sum up, from what was counted on the held-out rows."""
        settings = self.settings
        if settings.shard_rows is None and (not self.path or self.path[-1]["rows"] != self.trained):
            self._note(evaluation.tallies.values())
        common = self.intake.late_columns()
        if settings.clusters is None:  # otherwise intervals know that rows repeat
            found_copies = dependent_rows.check_copies(*evaluation.copies)
            common += found_copies or self._check_multiples()
            common += evaluation.check_order()
        found = [findings.find(name, model, evaluation, common, settings) for name, model in self.models.items()]
        models = [one.values for one in found]
        diagnostics = [*common, *(d for one in found for d in one.diagnostics)]
        diagnostics += [d for model in self.models.values() for d in model.diagnostics]
        checked = (*findings.CHECKED, *(() if settings.clusters is None else ("FewClusters",)))
        about_rows = [*common, *(d for d in diagnostics if isinstance(d, ChangingGap))]
        about_rows += dependent_rows.check(settings.clusters)  # the comparison of both models does not know clusters
        verdict = None
        if settings.margins:
            verdict = findings.overall(one["verdict"] for one in models[0]["verdicts"])
        groups = self._describe_groups(evaluation)
        rows = {"read": self.intake.n_rows, "training": self.trained}
        return Audit(
            kind=self.KIND,
            sentence=findings.sentence(settings, models, self.intake.labels[1], verdict, self.complete),
            verdict=verdict,
            complete=self.complete,
            settings=settings.to_dict() | {"labels": [*self.intake.labels]},
            data=self._describe_data(),
            rows=rows
            | {
                "evaluation": evaluation.n,
                "bad": self.intake.bad.to_dict(),
                "folds": evaluation.folds,
                "labelled": evaluation.n,
            },
            columns=self._describe_columns(),
            groups=groups,
            models=models,
            price=findings.price(evaluation, settings.confidence_level),
            comparisons=[] if evaluation.pairs is None else evaluation.pairs.compare(settings, about_rows),
            path=self.path,
            assumptions=findings.assumptions(diagnostics, checked),
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
            more = {"base_rate": base.get(key), "compared": True, "note": ""}
            found.append({"column": key[0], "group": key[1]} | rows | more)
        return found


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
