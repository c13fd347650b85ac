"""Cross-fitting: where rows are few, every row serves for evaluation, and none evaluates a model trained on it.

Rows are dealt into folds, as evenly as possible in every group and label. The model that evaluates a fold is trained on
all others, and decisions on all folds are counted together. So there are as many models as folds, and an interval is
for the mean of their gaps: ``evaluation`` for that of these very models in the population, ``total`` for that of the
models which unlimited rows would give, and so on.

In every replicate a row has one weight: it counts in training with it, and in evaluation with the same one. A row that
pulls a model towards itself is then also one that the evaluation has more or less of, as it would be if rows were drawn
anew. This is why ``total`` can be narrower than ``evaluation``: a fit on rows that favour a group is stricter with that
group, and these very rows say that it is favoured, so the two movements cancel in part. Weights that were drawn
separately for training and evaluation would miss this.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefair.diagnostics import Diagnostic
from surefair.inference.checks import decision_diagnostics, training_diagnostics
from surefair.inference.counts import Counts, count_decisions, count_weights, rates_of
from surefair.inference.evaluation import compared_with_tolerance
from surefair.inference.interval import Context, Interval, Question, make_interval
from surefair.inference.sources import SOURCES, cluster_factor
from surefair.learners.multipliers import row_numbers
from surefair.rows import FloatArray, Groups, IntArray, Rows
from surefair.tables.split import sides
from surefair.training.model import Model
from surefair.training.problem import Problem

N_FOLDS = 5
METHOD = "basic"
NARROWER = (
    "It is narrower than the interval for the gap of these very models, because the same rows train and evaluate: rows "
    "that favour a group also make models stricter with it"
)


class _Fold(NamedTuple):
    """A model, and its decisions on the rows of a fold that it was not trained on."""

    model: Model
    decision: FloatArray  # (rows of the fold,)
    tables: dict[str, FloatArray]  # weights of decisions by source, as in CrossFit


def _fit_fold(empty: Model, rows: Rows, held: NDArray[np.bool_], near: Model) -> _Fold:
    """Train on the rows that are not held out, and count decisions on the others."""
    # A row without weight is not trained on, and keeps its place among the replicates' weights.
    model = empty.train(replace(rows, weight=np.where(held, 0.0, rows.weight)), near=near)
    mine = rows.part(held)
    theta = model.trained.theta
    positive = np.asarray(model.trained.features(mine.X) @ theta > 0.0, dtype=np.float64)
    key = row_numbers(0, rows.n) if rows.cluster is None else rows.cluster
    V = model.trained.problem.multipliers.of(key[held], theta.shape[1])
    weight = mine.weight[:, None]
    tables = {
        "training": count_weights(mine, weight, positive),
        "evaluation": count_weights(mine, weight * V, positive[:, :1]),
        "total": count_weights(mine, weight * V, positive),
    }
    return _Fold(model, positive[:, 0], tables)


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Models trained on all folds but one, and the counts of their decisions.

    Attributes
    ----------
    rows : Rows
    models : tuple of Model
        One for each fold.
    decision : ndarray of shape (n,)
        Decision on each row, 0 or 1, by the model that was not trained on it.
    counts : Counts of arrays of shape (groups, 2, 2)
        Counts of these decisions.
    tables : dict of str to ndarray of shape (1 + B, groups, 2, 2)
        The same in the replicates, for the sources "training", "evaluation" and "total".
    """

    rows: Rows
    models: tuple[Model, ...]
    decision: IntArray
    counts: Counts
    tables: dict[str, FloatArray]

    @classmethod
    def of(cls, problem: Problem, rows: Rows, n_folds: int = N_FOLDS, n_threads: int = 1) -> CrossFit:
        """Train a model for each fold, and count its decisions there."""
        fold = deal(rows, n_folds, problem.seed)
        check_folds(rows, n_folds)
        problem = replace(problem, solver="exact")
        empty = Model.of(problem, rows.names, rows.X.shape[1])
        near = Model.of(replace(problem, n_replicates=0), rows.names, rows.X.shape[1]).train(rows)
        with ThreadPoolExecutor(n_threads) as pool:
            found = list(pool.map(lambda held: _fit_fold(empty, rows, held, near), (fold == i for i in range(n_folds))))
        decision = np.empty(rows.n, dtype=np.int64)
        for number, one in enumerate(found):
            decision[fold == number] = one.decision
        tables = {source: np.sum([one.tables[source] for one in found], axis=0) for source in found[0].tables}
        counts = count_decisions(decision, rows.truth, rows.group, rows.groups.sizes, rows.uneven_weight)
        return cls(rows, tuple(one.model for one in found), decision, counts, tables)

    @property
    def groups(self) -> Groups:
        """Groups of the rows."""
        return self.rows.groups

    @property
    def of_fit(self) -> Counts:
        """Counts of the decisions of the fits: arrays of shape (groups, 2, 2)."""
        return self.counts

    @property
    def right(self) -> NDArray[np.bool_]:
        """Whether each row is decided rightly, by the model that was not trained on it."""
        return np.asarray(self.decision == self.rows.truth)

    def interval(self, question: Question, library: str = "pandas") -> Interval:
        """Interval for the mean unfairness of the models; its method is always "basic"."""
        source = SOURCES[question.source]
        context = Context(
            positive=self.rows.names.labels.values.tolist()[1],
            n_training=self.rows.n - self.rows.n // len(self.models),
            library=library,
            notes=f"The gap is the mean of {len(self.models)} models, each measured on the rows that it was not "
            "trained on",
            diagnostics=tuple(self._diagnostics(source.training)),
        )
        asked = question._replace(method=METHOD)
        interval = self._answer(asked, context)
        if source.training and source.evaluation:
            very = self._answer(asked._replace(source="evaluation"), context)
            if interval.high - interval.low < very.high - very.low:
                interval = self._answer(asked, context._replace(notes=f"{context.notes}. {NARROWER}"))
        return compared_with_tolerance(interval, self.models[0])

    def _answer(self, question: Question, context: Context) -> Interval:
        rates = question.metric.rates
        middle, ratio = self._rates(rates, "training")[0], question.metric.ratio
        trained = self._rates(rates, "training")[1:]
        rates_b = trained
        if question.source == "retraining":
            rates_b = stretch(middle, trained, ratio)
        elif question.source != "training":
            rates_b = self._rates(rates, question.source)[1:]
        if self.n_clusters is not None:
            by = cluster_factor(self.n_clusters)
            rates_b, trained = (stretch(middle, moved, ratio, by, centred=False) for moved in (rates_b, trained))
        return make_interval(question, self.counts, self.rows.groups, rates_b, trained, context)

    @property
    def n_clusters(self) -> int | None:
        """Number of clusters; None where rows are independent."""
        return None if self.rows.cluster is None else len(np.unique(self.rows.cluster))

    def _rates(self, rates: Any, source: str) -> FloatArray:
        table = self.tables[source]
        return rates_of(rates, Counts(table, table, table))

    def _diagnostics(self, training: bool) -> list[Diagnostic]:
        """What was found about the models: each kind once, from the first model that shows it."""
        found: dict[str, Diagnostic] = {}
        for model in self.models:
            more = training_diagnostics(model.trained) if training else []
            for one in [*model.diagnostics, *more]:
                if (training or one.forbids_verdict) and one.name not in found:
                    found[one.name] = one
        return [*found.values(), *decision_diagnostics(self.counts, self.rows.groups.sizes[0])]


def stretch(
    middle: FloatArray, trained: FloatArray, ratio: bool, by: float = np.sqrt(2.0), centred: bool = True
) -> FloatArray:
    """Rates of replicates about those of the fit, farther away; by default √2 times, because both models are random.

    Rates that are compared by ratios are stretched on the scale of logarithms, so they stay above 0. Rates that are
    compared by differences may leave the range from 0 to 1: clipping them here would make gaps vary too little. Limits
    are clipped in the end.

    Parameters
    ----------
    middle : ndarray of shape (rates, groups)
        Rates of the fit.
    trained : ndarray of shape (B, rates, groups)
        Rates of its replicates.
    ratio : bool
        Whether rates are compared by ratios.
    by : float
    centred : bool
        Whether distances are those from the mean of the replicates, rather than from the fit.

    Examples
    --------
    >>> stretch(np.array([[0.5]]), np.array([[[0.4]], [[0.6]]]), False).ravel().round(3)
    array([0.359, 0.641])
    >>> stretch(np.array([[0.01]]), np.array([[[0.001]], [[0.02]]]), True).ravel().round(4)
    array([0.0012, 0.0832])
    """
    if not ratio:
        return np.asarray(middle + by * (trained - (trained.mean(axis=0) if centred else middle)))
    some = trained > 0.0
    log = np.log(trained, out=np.zeros_like(trained), where=some)
    n = some.sum(axis=0)
    centre = np.divide(log.sum(axis=0), n, out=np.zeros(n.shape), where=n > 0)
    # A fit whose rate is 0 has no logarithm to stretch about, and a replicate whose rate is 0 stays there.
    about = np.log(middle, out=centre.copy(), where=middle > 0.0)
    return np.where(some, np.exp(about + by * (log - (centre if centred else about))), trained)


def deal(rows: Rows, n_folds: int, seed: int) -> IntArray:
    """Fold of each row; folds are about equally large in every combination of groups and label.

    Rows of one cluster are in one fold; it counts as a row of the group and label of its first row.
    """
    first, code = np.arange(rows.n), np.arange(rows.n)
    if rows.cluster is not None:
        _, first, code = np.unique(rows.cluster, return_index=True, return_inverse=True)
    side = sides(first.astype(np.uint64), seed)
    order = np.lexsort([side, rows.truth[first], *rows.group[first].T])
    fold = np.empty(len(first), dtype=np.int64)
    fold[order] = np.arange(len(first)) % n_folds
    return fold[code]


def check_folds(rows: Rows, n_folds: int) -> None:
    """Refuse rows of which some fold would leave too few to train on."""
    n_clusters = rows.n if rows.cluster is None else len(np.unique(rows.cluster))
    if n_clusters < 2 * n_folds:
        raise ValueError(
            f"Cross-fitting in {n_folds} folds needs {2 * n_folds} clusters or more; there are {n_clusters}. Use rows "
            "of more clusters, or fewer folds."
        )
    some = rows.weight > 0.0
    for label, n in zip(rows.names.labels.values.tolist(), np.bincount(rows.truth[some], minlength=2), strict=True):
        if n < n_folds:
            raise ValueError(
                f"Cross-fitting in {n_folds} folds needs {n_folds} rows of each label; {label!r} has {n}. Use more "
                "rows, or fewer folds."
            )
    for code, (column, levels) in zip(rows.group.T, rows.groups.levels.items(), strict=True):
        sizes = np.bincount(code[some & (code >= 0)], minlength=len(levels.values))
        if np.sum(sizes >= n_folds) < 2:
            of = "" if column is None else f" of {column!r}"
            shown = ", ".join(f"{name!r} has {n}" for name, n in zip(levels.values.tolist(), sizes, strict=True))
            raise ValueError(
                f"Cross-fitting in {n_folds} folds needs two groups{of} with {n_folds} rows or more; {shown}. Use more "
                "rows, fewer folds, or merge groups."
            )
