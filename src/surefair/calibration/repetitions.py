"""Repetitions: draw rows from a known population, fit, and compare intervals with their truths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd

from surefair.calibration.table import add_up, judge
from surefair.classifier import FairClassifier
from surefair.diagnostics import Diagnostic
from surefair.engines.local import called
from surefair.inference.checks import coefficient_diagnostics
from surefair.inference.coefficients import coefficient_table
from surefair.inference.counts import count, rates_of
from surefair.inference.evaluation import model_interval
from surefair.inference.interval import Question
from surefair.inference.metric import Metric
from surefair.inference.sources import Tally
from surefair.progress import progress_bar
from surefair.rows import FloatArray, Rows
from surefair.threads import one_blas_thread
from surefair.training.model import Model
from surefair.training.parameters import draw_seed
from surefair.training.problem import Problem

CHUNK = 25
"""Repetitions that are handed to a worker at a time, at most."""

CHUNKS = 32
"""Parts that repetitions are cut into, at least, for many workers to share."""

Fitting = Callable[..., FairClassifier]
"""A way to fit rows: ``fitting(clf, X, y, sensitive_features=..., constraint_set=...)``."""


@dataclass(frozen=True, eq=False)
class Design:
    """What every repetition needs to know.

    Attributes
    ----------
    clf : FairClassifier
        The settings to try.
    problem : Problem
        The same, with names looked up.
    population : Rows
    constraint_set : Rows or None
        None where everything is drawn anew, and the constraint is learnt from all rows.
    star : ndarray of shape (D,)
        θ*.
    n_rows, n_evaluation : int
        Training rows and evaluation rows of each repetition.
    question : Question
        What is asked, with its source left open.
    coef_method : str
    sources : tuple of str
    fitting : callable or None
        How rows are fitted, if not in one pass.
    seed : int
    """

    clf: FairClassifier
    problem: Problem
    population: Rows
    constraint_set: Rows | None
    star: FloatArray
    n_rows: int
    n_evaluation: int
    question: Question
    coef_method: str
    sources: tuple[str, ...]
    fitting: Fitting | None
    seed: int

    @property
    def is_signed(self) -> bool:
        """Whether there is one gap, which has a sign; otherwise the unfairness is judged."""
        return is_signed(self.question.metric, self.population.groups.sizes)

    def fit(self, rows: Rows, random_state: int, n_replicates: int | None = None) -> Model:
        """Fit some rows."""
        n_replicates = self.problem.n_replicates if n_replicates is None else n_replicates
        if self.fitting is None:
            problem = replace(self.problem.reseed(draw_seed(random_state)), n_replicates=n_replicates)
            return Model.of(problem, rows.names, rows.X.shape[1]).train(rows, self.constraint_set)
        params = self.clf.get_params(deep=False) | {"random_state": random_state, "n_replicates": n_replicates}
        clf = FairClassifier(**params | {"intersections": False, "n_jobs": 1})  # intersections are columns by now
        apart = self.constraint_set
        given = (
            {} if apart is None else {"constraint_set": (apart.X, apart.truth, declared_groups(apart), apart.weight)}
        )
        fitted = self.fitting(clf, rows.X, rows.truth, sensitive_features=declared_groups(rows), **given)
        return fitted.model_

    @property
    def confidence_level(self) -> float:
        """Confidence level of the intervals."""
        return self.question.confidence_level

    @cached_property
    def population_gap(self) -> float:
        """Gap of θ* in the population."""
        return float(self.gap(self.star[:, None], self.population)[0])

    def gap(self, theta: FloatArray, rows: Rows) -> FloatArray:
        """Gap, or unfairness, of models (D, R) on some rows, shape (R,)."""
        return gap_of(self.question.metric, rates_on(self.question.metric, theta, rows), rows.groups.sizes)

    def outcome(self, repetition: int) -> Outcome:
        """One repetition."""
        rng = np.random.default_rng([self.seed, 1 + repetition])
        train, test, fresh = (
            draw(self.population, size, rng) for size in (self.n_rows, self.n_evaluation, self.n_rows)
        )
        seed, other = rng.integers(0, 2**31, 2).tolist()
        model = self.fit(train, seed)
        tally = Tally.of(model, test, self.sources, self.question.method, 1)
        intervals = [model_interval(model, tally, self.question._replace(source=source)) for source in self.sources]
        found = [*model.diagnostics, *model.order_diagnostics(), *(d for one in intervals for d in one.diagnostics)]
        again = np.full(len(self.star), np.nan)
        if "retraining" in self.sources:
            again = self.fit(fresh, other, n_replicates=0).coefficients
        here = self.gap(np.column_stack([self.star, again]), test)
        truth = {
            "training": here[0],
            "retraining": here[1],
            "evaluation": self.gap(model.coefficients[:, None], self.population)[0],
            "total": self.population_gap,
        }
        gaps = [of_interval(interval.to_dict(), truth[interval.source], self.is_signed) for interval in intervals]
        coefs, names, more = _coefficients(self, model)
        return Outcome(np.array(gaps), coefs, names, frozenset(one.name for one in [*found, *more]))

    def heads(self, names: list[str]) -> list[dict[str, Any]]:
        """What each row of the table is about."""
        gap = {"quantity": "gap" if self.is_signed else "unfairness", "kind": "gap"}
        coefs = [{"quantity": name, "kind": "coefficient", "source": "training"} for name in names]
        return [gap | {"source": source} for source in self.sources] + coefs


class Sums(NamedTuple):
    """What some repetitions found, added up; two such add. Hardly a number of each repetition is kept."""

    numbers: FloatArray  # (sources + D, sums), as ``add_up`` returns them
    each: FloatArray  # (R, sources + D, 2), error and width
    features: list[str]
    warned: Counter[str]  # repetitions in which each diagnostic was found
    refused: Counter[str]  # repetitions that ended in an error, by its message

    def __add__(self, other: Sums) -> Sums:  # type: ignore[override]
        each = np.concatenate([self.each, other.each])
        warned, refused = self.warned + other.warned, self.refused + other.refused
        return Sums(self.numbers + other.numbers, each, self.features, warned, refused)


class Outcome(NamedTuple):
    """What one repetition found; numbers of an interval are estimate, low, high, truth and bootstrap spread."""

    gaps: FloatArray  # (sources, 5); NaN where undefined
    coefs: FloatArray  # (D, 5)
    features: list[str]
    warned: frozenset[str]
    refused: str = ""  # why there is nothing else


class Repeated(Protocol):
    """Something to repeat: ``Design``, or ``AuditDesign`` in audits.py."""

    @property
    def confidence_level(self) -> float:
        """Confidence level of the intervals."""

    @property
    def is_signed(self) -> bool:
        """Whether there is one gap, which has a sign; otherwise the unfairness is judged."""

    def outcome(self, repetition: int) -> Outcome:
        """One repetition."""

    def heads(self, names: list[str]) -> list[dict[str, Any]]:
        """What each row of the table is about."""


def is_signed(metric: Metric, sizes: tuple[int, ...]) -> bool:
    """Whether there is one gap, which has a sign."""
    return len(metric.rates) == 1 and sizes == (2,)


def rates_on(metric: Metric, theta: FloatArray, rows: Rows) -> FloatArray:
    """Rates (R, rates, groups) of models (D, R) on some rows."""
    counts = count(theta, rows.X, rows.truth, rows.group, rows.groups.sizes, rows.uneven_weight)
    return rates_of(metric.rates, counts)


def gap_of(metric: Metric, value: FloatArray, sizes: tuple[int, ...]) -> FloatArray:
    """Gap, or unfairness, for rates (R, rates, groups), shape (R,); NaN where it is undefined or infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.log(value) if metric.ratio else value
        if is_signed(metric, sizes):
            gap = value[:, 0, 0] - value[:, 0, 1]
        else:
            columns = np.split(value, np.cumsum(sizes)[:-1], axis=2)
            gap = np.max([np.ptp(column, axis=2).max(axis=1) for column in columns], axis=0)
            gap = np.exp(-gap) if metric.ratio else gap
    return np.where(np.isfinite(gap), gap, np.nan)


def of_interval(interval: dict[str, Any], truth: float, signed: bool) -> list[float]:
    """Estimate, limits, truth and bootstrap spread of an interval; NaN where it is undefined."""
    if interval["reason"]:
        return [np.nan] * 5
    names = ("gap", "gap_low", "gap_high") if signed else ("estimate", "low", "high")
    ends = [np.nan if interval[name] is None else float(interval[name]) for name in names]
    return [*ends, truth, float(np.hypot(interval["spread_training"], interval["spread_evaluation"]))]


def table(design: Repeated, found: Sums, names: list[str]) -> dict[str, list[Any]]:
    """Columns of the table of results."""
    rows = [head | judge(sums) for head, sums in zip(design.heads(names), found.numbers, strict=True)]
    for row in rows:
        row["spread_ratio"] = row["spread_ratio"] if design.is_signed or row["kind"] != "gap" else None
    return {heading: [row[heading] for row in rows] for heading in rows[0]}


def draw(population: Rows, size: int, rng: np.random.Generator) -> Rows:
    """Draw rows with replacement; a row of twice the weight is drawn twice as often."""
    weight = population.uneven_weight
    if weight is None:
        return population.part(rng.integers(0, population.n, size))
    drawn = population.part(rng.choice(population.n, size, p=weight / weight.sum()))
    return replace(drawn, weight=np.ones(size))


def repeat(design: Repeated, repetitions: int, n_jobs: int | None, progress: bool) -> Iterator[Sums]:
    """All repetitions, in order; where they are cut does not depend on the workers, so sums do not either."""
    from rich.console import Console

    size = max(1, min(CHUNK, repetitions // CHUNKS))
    chunks = [range(low, min(low + size, repetitions)) for low in range(0, repetitions, size)]
    with progress_bar(Console(stderr=True), progress) as bar:
        task = bar.add_task("repetitions", total=repetitions)
        tasks = ((design, chunk) for chunk in chunks)
        for chunk, found in zip(chunks, called(_chunk, tasks, n_jobs, prefer="processes", batch_size=1), strict=True):
            yield found
            bar.advance(task, len(chunk))


def _chunk(design: Repeated, repetitions: range) -> Sums:
    """Some repetitions."""
    with one_blas_thread():
        outcomes = [design.outcome(repetition) for repetition in repetitions]
    numbers = np.stack([np.vstack([one.gaps, one.coefs]) for one in outcomes])
    sums = [add_up(rows, design.confidence_level) for rows in numbers.swapaxes(0, 1)]
    each = numbers[..., [0, 2]] - numbers[..., [3, 1]]  # estimate minus truth, high minus low
    warned = Counter(name for one in outcomes for name in one.warned)
    refused = Counter(one.refused for one in outcomes if one.refused)
    return Sums(np.array(sums), each, outcomes[0].features, warned, refused)


def _coefficients(design: Design, model: Model) -> tuple[FloatArray, list[str], list[Diagnostic]]:
    """Estimates, limits, truths and spreads of the coefficients (D, 5), their names, and what to know about them."""
    level = design.question.confidence_level
    table = coefficient_table(model, model.features, level, design.coef_method)
    found = coefficient_diagnostics(model, level, design.coef_method)
    spread = np.ascontiguousarray(model.replicates.T).std(axis=0, ddof=1)
    numbers = [np.array(table[name]) for name in ("estimate", "low", "high")]
    return np.column_stack([*numbers, design.star, spread]), table["feature"], found


def declared_groups(rows: Rows) -> dict[str, pd.Series[Any]]:
    """Sensitive columns of some rows as codes, with all groups declared, because a draw may lack some."""
    found = {}
    for i, (code, n) in enumerate(zip(rows.group.T, rows.groups.sizes, strict=True)):
        found[f"column {i}"] = pd.Series(pd.Categorical.from_codes(code, pd.RangeIndex(n)))
    return found
