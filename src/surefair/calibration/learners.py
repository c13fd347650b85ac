"""Calibration of learners that are refitted: how often their intervals contain the truth.

Unlimited rows have no meaning for trees and networks, so the truth is the mean over models that the learner trains on
as many fresh rows: one for each repetition. They decide on the whole population once, and then every gap that is needed
follows by counting.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing, indexable

from surefair.bootstrap import BootstrapClassifier, fit_copy, keyword_of
from surefair.calibration.repetitions import (
    Outcome,
    declared_groups,
    draw,
    gap_of,
    is_signed,
    of_interval,
    repeat,
    table,
)
from surefair.calibration.result import Calibration
from surefair.engines.local import called
from surefair.inference.counts import Counts, count_weights, rates_of
from surefair.inference.interval import Question
from surefair.inference.sample import Input
from surefair.rows import (
    FloatArray,
    Groups,
    Names,
    Rows,
    as_columns,
    as_weight,
    check_some_weight,
    make_frame,
    same_length,
)
from surefair.rows.labels import check_both_labels, check_labels, label_levels


@dataclass(frozen=True, eq=False)
class LearnerDesign:
    """What every repetition needs to know.

    Attributes
    ----------
    clf : BootstrapClassifier
        The settings to try.
    X, y : array-like, ndarray
        Features and labels of the population.
    population : Rows
        The same rows, with their positions in place of features.
    n_rows, n_evaluation : int
        Training rows and evaluation rows of each repetition.
    question : Question
        What is asked, with its source left open.
    sources : tuple of str
    seed : int
    fresh : ndarray of shape (population, repetitions)
        Decisions of models that are trained on fresh rows.
    """

    clf: BootstrapClassifier
    X: Any
    y: NDArray[Any]
    population: Rows
    n_rows: int
    n_evaluation: int
    question: Question
    sources: tuple[str, ...]
    seed: int
    fresh: NDArray[np.bool_]

    @property
    def confidence_level(self) -> float:
        """Confidence level of the intervals."""
        return self.question.confidence_level

    @property
    def is_signed(self) -> bool:
        """Whether there is one gap, which has a sign; otherwise the unfairness is judged."""
        return is_signed(self.question.metric, self.population.groups.sizes)

    def heads(self, names: list[str]) -> list[dict[str, Any]]:
        """What each row of the table is about."""
        gap = {"quantity": "gap" if self.is_signed else "unfairness", "kind": "gap"}
        return [gap | {"source": source} for source in self.sources]

    def gap(self, positive: NDArray[np.bool_], rows: Rows) -> FloatArray:
        """Gap, or unfairness, of decisions (population, R) on some rows, shape (R,)."""
        metric = self.question.metric
        table = count_weights(rows, rows.weight[:, None], positive[_places(rows)].astype(np.float64))
        return gap_of(metric, rates_of(metric.rates, Counts(table, table, table)), rows.groups.sizes)

    @cached_property
    def population_gap(self) -> float:
        """Mean gap of the fresh models in the population."""
        return float(np.nanmean(self.gap(self.fresh, self.population)))

    def fitted(self, rows: Rows, random_state: int, n_replicates: int | None = None) -> BootstrapClassifier:
        """Fit some rows."""
        given = {} if n_replicates is None else {"n_replicates": n_replicates}
        clf = clone(self.clf).set_params(random_state=random_state, n_jobs=None, **given)
        at = _places(rows)
        groups = _sensitive(rows) if keyword_of(clf.estimator, "sensitive_features") is not None else None
        return fit_copy(clf, _safe_indexing(self.X, at), self.y[at], sensitive_features=groups)

    def train_fresh(self, repetition: int) -> NDArray[np.bool_]:
        """Decisions in the population of a model that is trained on fresh rows."""
        rng = np.random.default_rng([self.seed, 0, repetition])
        model = self.fitted(draw(self.population, self.n_rows, rng), int(rng.integers(0, 2**31)), n_replicates=0)
        return np.asarray(model.predict(self.X) == model.classes_.tolist()[1])

    def outcome(self, repetition: int) -> Outcome:
        """One repetition."""
        rng = np.random.default_rng([self.seed, 1 + repetition])
        train, test = (draw(self.population, size, rng) for size in (self.n_rows, self.n_evaluation))
        clf = self.fitted(train, int(rng.integers(0, 2**31)))
        at = _places(test)
        given = Input(declared_groups(test))
        refits = clf.refits(_safe_indexing(self.X, at), self.y[at], given, self.question.metric)
        intervals = [refits.interval(self.question._replace(source=source)) for source in self.sources]
        here = self.gap(self.fresh, test)
        mine = np.asarray(clf.predict(self.X) == clf.classes_.tolist()[1])
        truth = {
            "training": float(np.nanmean(here)),
            "retraining": float(here[repetition]),
            "evaluation": float(self.gap(mine[:, None], self.population)[0]),
            "total": self.population_gap,
        }
        gaps = [of_interval(interval.to_dict(), truth[interval.source], self.is_signed) for interval in intervals]
        warned = frozenset(one.name for interval in intervals for one in interval.diagnostics)
        return Outcome(np.array(gaps), np.empty((0, 5)), [], warned)


def calibrate_learner(
    clf: BootstrapClassifier, X: Any, y: Any, given: Input, question: Question, sources: tuple[str, ...],
    sizes: tuple[int | None, int], repetitions: int, random_state: int, work: tuple[int | None, bool],
) -> Calibration:  # fmt: skip
    """Do what ``calibrate`` does, for a learner that is refitted.

    Parameters
    ----------
    clf, X, y
        As in ``calibrate``.
    given : Input
        Sensitive features and sample weights.
    question : Question
        Metric, method and level; the source is left open.
    sources : tuple of str
    sizes : tuple
        Training rows and evaluation rows of each repetition.
    repetitions, random_state : int
    work : tuple
        Processes, and whether to show a progress bar.
    """
    if clf.n_replicates < 2:
        raise ValueError(
            f"An interval needs refits, and this classifier has n_replicates={clf.n_replicates}. Use n_replicates=10, "
            "for example."
        )
    (X,) = indexable(X)
    labels = check_labels(y, "BootstrapClassifier")
    levels = label_levels(labels.found)
    check_both_labels(levels)
    columns = as_columns(given.sensitive_features)
    groups = Groups.of(columns)
    codes = groups.codes(columns)
    n = same_length(y=labels.code, sensitive_features=codes)
    weight = as_weight(given.sample_weight, n)
    check_some_weight(weight, "to draw")
    truth = levels.codes(labels.found)[labels.code]
    places = np.arange(n, dtype=np.float64)[:, None]
    population = Rows(places, np.where(truth == 1, 1.0, -1.0), codes, weight, Names(None, levels, groups)).trimmed()
    population.groups.check_comparable()
    n_rows = n if sizes[0] is None else int(sizes[0])
    nothing = np.zeros((n, 0), dtype=np.bool_)
    design = LearnerDesign(clf, X, levels.values[truth], population, n_rows, int(sizes[1]), question, sources,
                           random_state, nothing)  # fmt: skip
    fresh = called(_train_fresh, ((design, r) for r in range(repetitions)), work[0])
    design = replace(design, fresh=np.stack(list(fresh), axis=1))
    found = reduce(add, repeat(design, repetitions, *work))
    settings = {
        "repetitions": int(repetitions), "n_rows": n_rows, "n_evaluation": int(sizes[1]), "n_population": n,
        "everything_redrawn": True, "confidence_level": question.confidence_level, "metric": question.metric.name,
        "method": question.method, "random_state": int(random_state),
        "classifier": {"estimator": str(clf.estimator), "n_replicates": clf.n_replicates, "multiplier": clf.multiplier},
    }  # fmt: skip
    return Calibration(
        table=make_frame(table(design, found, []), like=X),
        settings=settings,
        warned={name: found.warned[name] / repetitions for name in sorted(found.warned)},
        errors=found.each[..., 0],
        widths=found.each[..., 1],
    )


def _train_fresh(design: LearnerDesign, repetition: int) -> NDArray[np.bool_]:
    return design.train_fresh(repetition)


def _places(rows: Rows) -> NDArray[np.int64]:
    """Positions of rows in the population."""
    return np.asarray(rows.X[:, 0], dtype=np.int64)


def _sensitive(rows: Rows) -> Any:
    """Sensitive columns as codes, for an estimator that learns from groups."""
    return pd.DataFrame({f"column {i}": code for i, code in enumerate(rows.group.T)})
