"""Model: a problem and everything learnt about it so far. It takes rows, merges, and packs into plain arrays.

A model is frozen: taking rows returns a new one, so an error leaves nothing half-updated.

>>> import surefair as sf
>>> data = sf.datasets.SyntheticDI(seed=0).sample(3_000)
>>> clf = sf.FairClassifier(random_state=0).fit(data.X, data.y, sensitive_features=data.sensitive)
>>> again = Model.unpack(*clf.model_.pack())
>>> bool((again.replicates == clf.model_.replicates).all()), again.n_rows
(True, 3000)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from surefair.criteria import FEW
from surefair.diagnostics import Diagnostic
from surefair.diagnostics.time_dependence import Runs
from surefair.names import counted
from surefair.rows import Census, Distinct, FloatArray, Groups, Levels, Names, Rows
from surefair.rows.distinct import MOST_KEYS
from surefair.rows.sketch import Sketch, hash_rows
from surefair.storage.archive import Arrays, add_prefix, select_prefix
from surefair.storage.checks import array_of, value_of
from surefair.training.checks import (
    check_constraint_set,
    check_divergence,
    check_first_rows,
    check_groups,
    check_late_groups,
    check_order,
    check_repeats,
)
from surefair.training.fit import (
    MOST_DENSE,
    Fit,
    Learn,
    begin,
    begin_learnt,
    check_plain,
    check_size,
    check_wide,
    is_wide,
)
from surefair.training.problem import Problem

__all__ = ["Model", "Problem"]

PER_FEATURE = 10  # warm-up rows for each coefficient, at least
PAIRS, MOST_TIMES = 2, 2.5  # with more pairs of groups to compare there are more warm-up rows, up to so many times


@dataclass(frozen=True, eq=False)
class Model:
    """What has been learnt, from which rows, and what was found on the way.

    Attributes
    ----------
    problem : Problem
    features : tuple of str or None
        Names of the features, where they have names.
    n_features : int
    labels : Levels
        The negative and the positive label.
    census : Census or None
        The groups seen so far with their number of rows; None where there are no groups.
    runs : Runs
        How often neighbours in the stream differ.
    waiting : Rows or None
        The first rows of a stream, until there are enough of them to begin with.
    fit : Fit or None
        What has been learnt; None while rows are waiting.
    found : tuple of Diagnostic
        What was found on the way: about the first rows, or about columns that change.
    seen : Sketch
        How often rows of the stream repeat.
    clusters : Distinct or None
        How many clusters the rows are in; None where rows are independent.
    """

    problem: Problem
    features: tuple[str, ...] | None
    n_features: int
    labels: Levels
    census: Census | None
    runs: Runs
    waiting: Rows | None = None
    fit: Fit | None = None
    found: tuple[Diagnostic, ...] = ()
    seen: Sketch = field(default_factory=Sketch.empty)
    clusters: Distinct | None = None

    @classmethod
    def of(cls, problem: Problem, names: Names, n_features: int) -> Model:
        """Make a model before its first row, which knows labels and groups."""
        census = None if names.groups is None else Census.of(names.groups)
        runs = Runs.of(0 if census is None else len(census.rows))
        return cls(problem, names.features, n_features, names.labels, census, runs)

    # -- What is known ------------------------------------------------------------------------------------------------

    @property
    def groups(self) -> Groups | None:
        """The groups seen so far."""
        return None if self.census is None else self.census.groups

    @property
    def names(self) -> Names:
        """Names of features, labels and groups."""
        return Names(self.features, self.labels, self.groups)

    @property
    def seed(self) -> int:
        """Seed of the replicates' weights."""
        return self.problem.seed

    @property
    def n_rows(self) -> int:
        """Rows trained on; a constraint set is not among them."""
        return 0 if self.fit is None else self.fit.n_rows

    @property
    def n_later(self) -> int:
        """Rows trained on after those that the fit began with."""
        return self.n_rows - (self.fit.first.n if self.fit is not None and self.fit.is_learnt else 0)

    @property
    def n_clusters(self) -> float | None:
        """Number of clusters that rows were trained on; None where rows are independent."""
        return None if self.clusters is None else self.clusters.size([0])

    @property
    def trained(self) -> Fit:
        """The fit; it is an error to ask before it has begun."""
        if self.fit is None:
            raise ValueError("There are not enough rows to begin with yet. Take more rows first.")
        return self.fit

    @property
    def coefficients(self) -> FloatArray:
        """Coefficients, intercept last, shape (D,)."""
        return self.trained.coefficients[:, 0]

    @property
    def replicates(self) -> FloatArray:
        """Coefficients of the replicates, intercept last, shape (D, B)."""
        return self.trained.theta[:, 1:]

    @property
    def first(self) -> Rows:
        """Rows that the fit began with, or those that wait for it to begin."""
        rows = self.waiting if self.fit is None else self.fit.first
        assert rows is not None
        return rows

    def group_counts(self) -> dict[tuple[str | None, Any], dict[str, Any]]:
        """Rows of each group so far, and whether it is constrained, by column and value."""
        if self.census is None:
            return {}
        held = self._constrained_groups()
        return {
            label: {"n": n, "constrained": label in held}
            for label, n in zip(self.census.groups.labels, self.census.counts, strict=True)
        }

    def _constrained_groups(self) -> set[tuple[str | None, Any]]:
        """Groups that are constrained: those of the constraint set, or those of pairs that the learner follows."""
        rows = self.first
        if self.problem.criterion is None or rows.names.groups is None:
            return set()
        labels = rows.groups.labels
        if self.fit is None or not self.fit.is_learnt:
            return set(labels)
        pairs = self.fit.learner.form.comparisons.pairs[self.fit.state.followed[:, 0] > 0.0]
        return {labels[rate % len(labels)] for rate in pairs.ravel().tolist()}

    @cached_property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What training found: about the first rows, groups that are not constrained, and divergence."""
        if self.fit is None:
            return self.found
        constrained = self.fit.first.names.groups
        late: list[Diagnostic] = []
        if self.problem.criterion is not None and self.groups is not None and constrained is not None:
            late = check_late_groups(self.groups, constrained)
        repeats = check_repeats(self.seen, self.fit) if self.clusters is None else []
        return (*self.found, *late, *check_groups(self.fit), *check_divergence(self.fit), *repeats)

    def order_diagnostics(self) -> list[Diagnostic]:
        """Check whether the rows of the stream seem to come in random order; rows of one cluster may come together."""
        return check_order(self.runs, self.census) if self.clusters is None else []

    # -- Training -----------------------------------------------------------------------------------------------------

    def train(
        self, rows: Rows, constraint_set: Rows | None = None, n_threads: int = 1, learn: Learn = Fit.learn,
        near: Model | None = None,
    ) -> Model:  # fmt: skip
        """Train on a whole data set.

        The first rows are warm-up rows. Under a schedule they are set apart as the constraint set, at most a fifth of
        all rows.

        Parameters
        ----------
        rows : Rows
        constraint_set : Rows, optional
        n_threads : int
        learn : callable
            ``Fit.learn``, or something that does the same elsewhere.
        near : Model, optional
            A model of similar rows, which saves an exact solution most of its work.
        """
        model = self._count(rows)
        first = constraint_set
        if first is None:
            learnt = self.problem.learns and not is_wide(rows.X)
            if learnt and self.problem.is_exact(rows.n, rows.X.shape[1]):
                check_size(self.problem, *rows.X.shape)
                exact = replace(model, problem=self.problem.for_exact)
                solved = exact.begin(rows, False, n_threads, near)
                return replace(solved, problem=self.problem, fit=solved.trained.sealed())
            if self.problem.learns and model.groups is not None:
                rows = rows.among(model.groups)
            n_first = self.n_first_of(rows) if learnt else min(self.n_first, rows.n // 5)
            first, rows = rows.part(slice(0, n_first)), rows.part(slice(n_first, None))
        given = constraint_set is not None
        streams = self.problem.learns and not given
        model = model._begin_stream(first, n_threads) if streams else model.begin(first, given, n_threads)
        return replace(model, fit=model._learn(rows, lambda fit, part: learn(fit, part, n_threads, last=True)))

    def begin_with(self, rows: Rows) -> Model:
        """Begin with these rows, however few they are; a constraint set is not trained on, so it is not counted."""
        model = self._count(rows) if self.problem.learns else self
        return model.begin(rows, given=False)

    @property
    def n_first(self) -> int:
        """Rows that a fit begins with: the warm-up rows, at least some for each feature, or the constraint set."""
        if not self.problem.learns:
            return self.problem.n_warmup
        return max(self.problem.n_warmup, PER_FEATURE * min(self.n_features + 1, MOST_DENSE))

    def n_first_of(self, rows: Rows) -> int:
        """Rows of a stream that a fit begins with, given the rows so far: more if it compares several pairs of groups.

        The slope of each gap must be known before a pass can follow it. The number depends only on the groups among the
        first rows, so it is the same for all batch sizes. If it exceeds the number of rows, more must come first.
        """
        n, more = 0, self.n_first
        criterion = self.problem.criterion
        while criterion is not None and self.problem.learns and n < more <= rows.n and not is_wide(rows.X):
            n = more
            sizes = [np.count_nonzero(np.bincount(codes[codes >= 0]) >= FEW) for codes in rows.group[:n].T]
            pairs = len(criterion.rates) * sum(size * (size - 1) // 2 for size in sizes)
            more = max(n, int(self.problem.n_warmup * min(pairs / PAIRS, MOST_TIMES)))
        return more

    def begin(self, first: Rows, given: bool = True, n_threads: int = 1, near: Model | None = None) -> Model:
        """Set the model up on its warm-up rows, or on its constraint set, which must have rows of every group known.

        ``given`` if the user passed these rows as the constraint set, which fixes the constraint.
        """
        wide = is_wide(first.X)
        if self.problem.learns and not given and not (wide and self.problem.criterion is None):
            fit, begun = begin_learnt(self.problem, first, n_threads, None if near is None else near.fit)
            found = () if begun is None else tuple(check_first_rows(fit, begun))
            return replace(self, fit=fit, waiting=None, found=found)
        if self.problem.learns and not given:
            check_wide(self.problem, first.X)
        else:
            check_plain(first.X, self.problem.dtype)
        fit = begin(self.problem, first)
        return replace(self, fit=fit, waiting=None, found=tuple(check_constraint_set(fit)))

    def take(self, rows: Rows, n_threads: int = 1) -> Model:
        """Take the next rows of a stream; until there are enough of them to begin with, they wait."""
        if self.fit is not None and self.fit.exact and self.problem.solver == "exact" and rows.n:
            raise ValueError(
                f"This fit is the exact solution on its {counted(self.n_rows, 'row')}, and rows cannot be added to it. "
                "Fit all rows together, or use solver='one_pass' from the start."
            )
        model = self._count(rows)
        rows = rows if model.groups is None else rows.among(model.groups)
        if model.fit is None:
            rows = rows if model.waiting is None else model.waiting.followed_by(rows)
            n_first = self.n_first_of(rows)
            if rows.n < n_first:
                return replace(model, waiting=rows.copy())
            model = model._begin_stream(rows.part(slice(0, n_first)), n_threads)
            rows = rows.part(slice(n_first, None))
        return replace(model, fit=model._learn(rows, lambda fit, part: fit.learn(part, n_threads)))

    def _learn(self, rows: Rows, learn: Callable[[Fit, Rows], Fit]) -> Fit:
        """Learn from rows; a new group is known from its first row on, however the rows are cut into batches."""
        fit = self.trained
        low = 0
        for place, groups in self._arrivals(rows):
            fit = learn(fit, rows.part(slice(low, place))).regrouped(groups)
            low = place
        return learn(fit, rows.part(slice(low, None)))

    def _arrivals(self, rows: Rows) -> list[tuple[int, Groups]]:
        """Rows with which groups arrive that the fit will constrain, each with all groups up to there."""
        groups = self.trained.first.names.groups
        if not self.trained.is_learnt or self.problem.criterion is None or groups is None or not rows.n:
            return []
        new = (rows.known_among(groups) < 0) & (rows.group >= 0)
        places = set()
        for code, is_new in zip(rows.group.T, new.T, strict=True):
            _, first = np.unique(code[is_new], return_index=True)
            places |= {*np.flatnonzero(is_new)[first].tolist()}
        groups = self._with_declared(groups)
        found = [] if groups is self.trained.first.names.groups else [(0, groups)]
        for place in sorted(places):
            groups = groups.joined_with(rows.part(slice(place, place + 1)).trimmed().groups)
            found.append((place, groups))
        return found

    def _with_declared(self, known: Groups) -> Groups:
        """Add the groups that have a name but no row so far, such as unused categories of a data frame."""
        assert self.census is not None
        every = self.census.groups
        kept = {}
        for (name, levels), codes, counts in zip(
            every.levels.items(), every.recode(known), self.census.rows, strict=True
        ):
            stays = counts == 0
            stays[codes] = True
            kept[name] = Levels(levels.values[stays], levels.what)
        found = Groups(kept)
        return known if found.labels == known.labels else found

    def _count(self, rows: Rows) -> Model:
        """Count rows by group; there may be new groups."""
        census = self.census
        runs = self.runs
        if rows.n == 0:
            return self
        if census is not None and rows.names.groups is not None:
            groups = census.groups.joined_with(rows.groups)
            if groups is not census.groups:
                if self.problem.criterion is not None:
                    groups.check_few()
                runs = runs.recode(groups.recode(census.groups))
                census = census.among(groups)
            rows = rows.among(groups)
            census = census.count(rows.group)
        seen = self.seen.after(hash_rows(rows.X, rows.y))
        clusters = self._count_clusters(rows)
        return replace(self, census=census, runs=runs.after(rows.truth, rows.group), seen=seen, clusters=clusters)

    def _count_clusters(self, rows: Rows) -> Distinct | None:
        """Count the clusters of rows; all rows of a fit have them, or none."""
        begun = self.fit is not None or self.waiting is not None
        if begun and (rows.cluster is None) != (self.clusters is None):
            raise ValueError(
                "Either all rows of a fit are in clusters, or none. Pass clusters with every batch, or with none."
            )
        if rows.cluster is None:
            return None
        found = Distinct.of(np.zeros(rows.n, dtype=np.int64), rows.cluster, 1)
        return found if self.clusters is None else self.clusters + found

    def _begin_stream(self, first: Rows, n_threads: int = 1) -> Model:
        """Begin with the first rows of a stream, and with the groups that they show."""
        if self.groups is not None and self.problem.criterion is not None:
            present, codes = self.groups.among(first.group)
            if min(present.sizes) > 1:  # otherwise `begin` says what is wrong
                first = replace(first, group=codes, names=first.names._replace(groups=present))
        return self.begin(first, given=False, n_threads=n_threads)

    def answer(self) -> Model:
        """Return a model to answer questions from: this one, or one trained on the rows that are still waiting."""
        return self if self.n_rows > 0 else self._early

    @cached_property
    def _early(self) -> Model:
        """Model trained on the rows that are still waiting."""
        rows = self.first
        trained = Model.of(self.problem, rows.names, self.n_features).train(rows)
        return replace(self, fit=trained.fit, waiting=None, found=trained.found)

    # -- Several models -----------------------------------------------------------------------------------------------

    def merge(self, other: Model) -> Model:
        """Merge with the model of another shard: averages weighted by rows.

        Both must be fits of the same problem, with the same labels, groups and constraint set.
        """
        if self.fit is None or other.fit is None:
            raise ValueError(
                f"Both fits must have begun before they can be merged, which takes {self.n_first:,} rows or "
                "more. Train each on more rows."
            )
        if self.fit.exact or other.fit.exact:
            raise ValueError(
                "A fit that is the exact solution on its rows cannot be merged. Fit all rows together, or fit every "
                "shard with solver='one_pass'."
            )
        if self.groups is not None and other.groups is not None and [*self.groups.levels] == [*other.groups.levels]:
            groups = self.groups.joined_with(other.groups)
            one, two = (replace(model, fit=model.trained.regrouped(groups)) for model in (self, other))
            return one._merge(two)
        return self._merge(other)

    def _merge(self, other: Model) -> Model:
        """Merge with a model that knows the same groups."""
        assert self.fit is not None
        assert other.fit is not None
        if differ := self._differences(other):
            raise ValueError(
                f"The fits are of different problems: {', '.join(differ)} differ. Fit every shard with the same "
                "parameters, and begin each with the same warm-up rows (see sf.parallel.fit_shards) or constraint_set."
            )
        same_state = all(map(np.array_equal, self.fit.state, other.fit.state))
        if self.seed == other.seed and self.n_rows > 0 and same_state:
            raise ValueError("Both are the same fit of the same rows, and merging them would count every row twice.")
        census = None if self.census is None or other.census is None else self.census.merge(other.census)
        runs = self.runs.merge(other.runs)
        seen = self.seen.merge(other.seen)
        if self.fit.is_learnt:  # both counted the warm-up rows
            twice = self.uncounted()._count(self.fit.first)
            runs = runs.without(twice.runs)
            seen = seen.without(twice.seen)
            census = None if census is None or twice.census is None else census.without(twice.census)
        clusters = None if self.clusters is None or other.clusters is None else self.clusters + other.clusters
        fit = self.fit.merge(other.fit)
        return replace(self, fit=fit, census=census, runs=runs, seen=seen, clusters=clusters)

    def _differences(self, other: Model) -> list[str]:
        """Names of what differs between two models that should be of one problem."""
        mine, theirs = self.trained, other.trained
        differ = mine.problem.differences(theirs.problem)
        differ += [] if np.array_equal(self.labels.values, other.labels.values) else ["classes_"]
        differ += [] if self.n_features == other.n_features else ["n_features_in_"]
        differ += [] if self.features == other.features else ["feature_names_in_"]
        labels = [None if groups is None else groups.labels for groups in
                  (mine.first.names.groups, theirs.first.names.groups)]  # fmt: skip
        differ += [] if labels[0] == labels[1] else ["groups"]
        if not differ and (mine.is_learnt != theirs.is_learnt or not mine.first.same_as(theirs.first)):
            differ.append("warm-up rows" if mine.is_learnt and theirs.is_learnt else "constraint_set")
        return differ

    def reseed(self, seed: int) -> Model:
        """Return the model before its first row, with other weights for its replicates.

        Where the constraint is learnt from all rows, call it right after the warm-up rows: what was learnt stays, and
        the rows that follow get other weights. Rows of a cluster share their weights wherever they are, so a model of
        rows in clusters stays as it is.
        """
        if self.clusters is not None:
            return self
        return replace(self, problem=self.problem.reseed(seed), fit=self.trained.reseed(seed))

    def uncounted(self) -> Model:
        """Return the model with the same groups, and none of their rows counted."""
        census = None if self.census is None else Census.of(self.census.groups)
        runs = Runs.of(0 if census is None else len(census.rows))
        return replace(self, census=census, runs=runs, seen=Sketch.empty())

    # -- Storage ------------------------------------------------------------------------------------------------------

    def pack(self) -> tuple[dict[str, Any], Arrays]:
        """Take the model apart into JSON and arrays."""
        meta: dict[str, Any] = {
            "problem": self.problem.pack(),
            "features": None if self.features is None else list(self.features),
            "n_features": self.n_features,
            "labels": self.labels.to_json(),
            "groups": None if self.groups is None else self.groups.to_json(),
            "found": [one.to_dict() for one in self.found],
            "fit": None,
        }
        arrays = add_prefix("runs", self.runs._asdict(), "_") | add_prefix("seen", self.seen.pack(), "_")
        if self.census is not None:
            arrays |= {f"census_{i}": rows for i, rows in enumerate(self.census.rows)}
        if self.clusters is not None:
            arrays["clusters"] = self.clusters.smallest
        if self.waiting is not None:
            arrays |= add_prefix("waiting", self.waiting.pack(), "_")
        if self.fit is not None:
            meta["fit"], parts = self.fit.pack()
            arrays |= parts
        return meta, arrays

    @classmethod
    def unpack(cls, meta: dict[str, Any], arrays: Arrays) -> Model:
        """Rebuild a model from what ``pack`` returned; parts that do not fit together are refused."""
        labels = Levels.from_json(meta["labels"], "label").check_two()
        features = None if meta["features"] is None else tuple(meta["features"])
        n_features = value_of(meta, "n_features", int, low=0)
        if features is not None and (len(features) != n_features or not all(type(name) is str for name in features)):
            raise ValueError(f"There must be {n_features} names of features; received {len(features)}.")
        groups = None if meta["groups"] is None else Groups.from_json(meta["groups"])
        names = Names(features, labels, groups)
        sizes = () if groups is None else groups.sizes
        census = None
        if groups is not None:
            rows = (array_of(arrays, f"census_{i}", "int64", (size,), low=0) for i, size in enumerate(sizes))
            census = Census(groups, tuple(rows))
        runs = Runs.unpack(select_prefix("runs", arrays, "_"), sizes)
        parts = select_prefix("waiting", arrays, "_")
        waiting = Rows.unpack(parts, names, n_features) if parts else None
        if waiting is not None and meta["fit"] is not None:
            raise ValueError("A model has rows that wait, or a fit, not both.")
        fit = None
        if meta["fit"] is not None:
            constrained = meta["fit"]["groups"]
            given = names._replace(groups=None if constrained is None else Groups.from_json(constrained))
            fit = Fit.unpack(meta["fit"], arrays, given, n_features)
        found = tuple(map(Diagnostic.from_dict, meta["found"]))
        problem = Problem.unpack(meta["problem"])
        if fit is not None and {*problem.differences(fit.problem)} - {"multiplier"}:
            raise ValueError("The fit is of another problem than the model.")
        if groups is not None and fit is not None and fit.first.names.groups is not None:
            groups.recode(fit.first.names.groups)  # an error if the fit has groups that the model does not know
        seen = Sketch.unpack(select_prefix("seen", arrays, "_"))
        clusters = None
        if "clusters" in arrays:
            clusters = Distinct(array_of(arrays, "clusters", "uint64", (1, MOST_KEYS)))
        model = cls(problem, features, n_features, labels, census, runs, waiting, fit, found, seen, clusters)
        if (fit is not None or waiting is not None) and (clusters is None) != (model.first.cluster is None):
            raise ValueError("Either all rows of a fit are in clusters, or none.")
        return model
