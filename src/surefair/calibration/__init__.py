"""The coverage laboratory: how often intervals contain what they are for, with your data as the population.

On a population that is known, truth is known: the optimum θ* and the gap of any model. So rows are drawn from it with
replacement, again and again, a classifier is fitted to each draw, and its intervals are held against their truths.
"""

from __future__ import annotations

import json
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from surefair.inference import theory
from surefair.inference.counts import count
from surefair.criteria import Criterion, Rate
from surefair.rows.groups import Groups, Levels, fitted_map, mapped
from surefair.engines.local import called
from surefair.classifier import FairClassifier
from surefair.storage.atomic import written_whole
from surefair.training.model import COVARIANCE_METHODS
from surefair.inference.interval import (
    BOOTSTRAP_METHODS,
    METHODS,
    SOURCES,
    check_level,
    compared_rates,
    get_metric,
    plain,
    rates_of,
)
from surefair.names import one_of
from surefair.progress import progress_bar
from surefair.inference.scoring import binomial_limits, mean_interval_score
from surefair.rows.arrays import FloatArray, as_column, as_columns, as_table, is_sparse, make_frame, same_length

CHUNK = 25
"""Repetitions that are handed to a worker at a time, at most."""

CHUNKS = 32
"""Parts that repetitions are cut into, at least, for many workers to share."""

LEAST_ROWS = 10
"""Rows without which data can stand for no population."""

CANCELLED = 1e-13
"""Share of a sum of squares below which what is left of it is rounding."""

ROUNDING = 1e-9
"""Distance of a truth from a limit that counts as none."""


@dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """How often intervals contained what they are for, over repetitions on a known population.

    Attributes
    ----------
    table : data frame
        One row per quantity, the gap by each source and then each coefficient:

        - quantity, kind ("gap" or "coefficient"), source;
        - truth: what the intervals should contain, on average over the repetitions;
        - coverage: share of the repetitions in which they did, with its exact binomial interval of level 95 %,
          coverage_low to coverage_high, which is what chance leaves open after so many repetitions;
        - width and score: mean width, and mean interval score, of the intervals, those left out that are open on a
          side (of a ratio whose rate is 0);
        - bias: mean of estimate minus truth, over its standard deviation;
        - spread_ratio: standard deviation by the bootstrap over that of estimate minus truth; undefined for the
          largest of several gaps;
        - undefined: repetitions left out since gap or interval was undefined.
    settings : dict
        What was repeated, and how often.
    warned : dict of str to float
        Share of the repetitions in which each warning was raised, by its name.
    errors, widths : ndarray, shape (repetitions, rows of the table)
        Estimate minus truth, and width of the interval, of each repetition; NaN where undefined. Calls with the same
        population, sizes and ``random_state`` draw the same rows: two ways to fit them can be compared in pairs.
    """

    table: Any
    settings: dict[str, Any]
    warned: dict[str, float]
    errors: Any = None
    widths: Any = None

    def __repr__(self) -> str:
        return f"<Calibration: {self.settings['repetitions']:,} repetitions of {self.settings['n_rows']:,} rows>"

    def __str__(self) -> str:
        return self.sentence

    @property
    def sentence(self) -> str:
        """The result in words."""
        return _sentence(self.to_dict()["table"], self.settings, self.warned)

    def to_dict(self) -> dict[str, Any]:
        """Plain values only, ready for JSON; an undefined number is None."""
        rows = nw.from_native(self.table, eager_only=True).rows(named=True)
        table = [{name: plain(value) for name, value in row.items()} for row in rows]
        words = _sentence(table, self.settings, self.warned)
        return {"sentence": words, "settings": self.settings, "warned": self.warned, "table": table}

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write ``to_dict()`` to a file; an older file stays as it was until the new one is complete."""
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"
        with written_whole(path) as file:
            file.write(text.encode())


def calibrate(
    clf: FairClassifier,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    n_rows: int | None = None,
    n_evaluation: int = 2000,
    repetitions: int = 200,
    confidence_level: float = 0.95,
    metric: str | Criterion | None = None,
    method: str = "percentile",
    coef_method: str = "basic",
    sources: str | Sequence[str] = tuple(SOURCES),
    constraint_set: Any = None,
    fit: Callable[..., FairClassifier] = FairClassifier.fit,
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: bool = True,
) -> Calibration:
    """Measure how often a classifier's intervals contain what they are for, with these rows as the whole population.

    One constraint set is drawn and held fixed. In each repetition training rows and evaluation rows are drawn with
    replacement, a classifier is fitted with its replicates, and its intervals are compared with the truth of each
    source: with θ* the optimum on the population, ``training`` is for the gap of θ* on these evaluation rows,
    ``retraining`` for the gap on them of a second, independent fit, ``evaluation`` for the population gap of this fit,
    ``total`` for the population gap of θ*. Coefficients are for θ*. Where there are more than two groups, or several
    rates, the unfairness stands for the gap.

    A penalty may have several local optima: θ* is then the one nearest to a fit on the whole population.

    Parameters
    ----------
    clf : FairClassifier
        The settings to try, fitted or not; it is not changed. Its ``random_state`` and ``n_jobs`` are not used.
    X, y, sensitive_features
        The population, as in ``FairClassifier.fit``.
    n_rows : int, optional
        Training rows of each repetition; by default as many as the population has.
    n_evaluation : int
        Evaluation rows of each repetition.
    repetitions : int
        How often; after R the share of intervals that cover is known within about ±0.44/√R, 3 points after 200.
    confidence_level : float
    metric : str, Criterion or None
        As in ``fairness_interval``.
    method, coef_method : str
        As ``method`` in ``fairness_interval`` and in ``coef_interval``.
    sources : str or sequence of str
        Of "training", "retraining", "evaluation" and "total" those to try.
    constraint_set : tuple (X, y, sensitive_features), optional
        By default ``clf.n_constraint`` rows, at most a fifth of the population as in ``fit``, drawn with replacement.
    fit : callable
        How rows are fitted, if not in one pass: ``fit(clf, X, y, sensitive_features=..., constraint_set=...)`` returns
        the fitted classifier. In shards that are merged, for example.
    random_state : int
        Seed of everything; the result does not depend on ``n_jobs``.
    n_jobs : int or None
        Processes; -1 for one on every core.
    progress : bool
        Show a progress bar, if this is a terminal.

    Returns
    -------
    Calibration

    Examples
    --------
    >>> import surefair as sf
    >>> data = sf.datasets.SyntheticDI(seed=0).sample(5_000)
    >>> clf = sf.FairClassifier(n_replicates=50)
    >>> found = sf.calibrate(clf, data.X, data.y, sensitive_features=data.sensitive, n_rows=500, repetitions=20)
    >>> found
    <Calibration: 20 repetitions of 500 rows>
    >>> found.table["quantity"].tolist()
    ['gap', 'gap', 'gap', 'gap', 'x1', 'x2', 'intercept']
    """
    if not isinstance(clf, FairClassifier):
        raise TypeError(f"calibrate takes a FairClassifier; received {type(clf).__name__}.")
    clf._check_parameters()
    if clf.n_replicates < 2:
        raise ValueError(
            f"An interval needs replicates, and this classifier has n_replicates={clf.n_replicates}. Use "
            "n_replicates=200, say."
        )
    if isinstance(sources, str):
        sources = (sources,)
    if not sources:
        raise ValueError(f"sources is empty. Name at least one of {', '.join(SOURCES)}.")
    for source in sources:
        one_of(source, SOURCES, "source")
    _whole("n_evaluation", n_evaluation, 1)
    _whole("repetitions", repetitions, 2)
    _whole("random_state", random_state, 0)
    check_level(confidence_level)
    one_of(method, METHODS, "method")
    one_of(coef_method, (*BOOTSTRAP_METHODS, *COVARIANCE_METHODS), "method of coefficients")
    population = _Population.of(clf, X, y, sensitive_features)
    n_rows = population.n if n_rows is None else _whole("n_rows", n_rows, 2)
    criterion, ratio = get_metric(metric or clf.criterion or "demographic_parity")
    draw = np.random.default_rng([random_state, 0])
    drawn = draw.integers(0, population.n, min(clf.n_constraint, population.n // 5))
    apart = population.part(drawn) if constraint_set is None else population.coded(clf, constraint_set)
    params = {**clf.get_params(deep=False), "n_jobs": 1, "intersections": False}  # those are columns by now
    pilot, optima, star = _solved(params, population, apart, draw.permutation(population.n), random_state)
    study = _Study(
        params=params,
        feature_map=_settled_map(pilot, apart),
        population=population.part(slice(None)),
        sizes=population.groups.sizes,
        constraint_set=apart,
        star=star,
        n_rows=n_rows,
        n_evaluation=n_evaluation,
        rates=compared_rates(criterion, ratio),
        ratio=ratio,
        asked={"metric": metric, "confidence_level": confidence_level, "method": method},
        coef_method=coef_method,
        sources=tuple(sources),
        fitting=fit,
        seed=random_state,
    )
    found = reduce(add, _parts(study, repetitions, n_jobs, progress))
    names = _names(found.features, population.names, clf.feature_map)
    settings = {
        "repetitions": int(repetitions),
        "n_rows": int(n_rows),
        "n_evaluation": int(n_evaluation),
        "n_population": population.n,
        "n_constraint": len(apart.y),
        "confidence_level": float(confidence_level),
        "metric": criterion.name + "_ratio" * ratio,
        "method": method,
        "coef_method": coef_method,
        "random_state": int(random_state),
        "local_optima": optima,
        "classifier": {name: _told(value) for name, value in clf.get_params(deep=False).items()},
    }
    return Calibration(
        table=make_frame(_table(study, found, names), like=X),
        settings=settings,
        warned={name: found.warned[name] / repetitions for name in sorted(found.warned)},
        errors=found.each[..., 0],
        widths=found.each[..., 1],
    )


# -- The population and its optimum -----------------------------------------------------------------------------------


class _Rows(NamedTuple):
    """Rows as numbers."""

    X: Any  # (n, d), float64, dense or CSR
    y: NDArray[np.int64]  # (n,), 0 or 1
    codes: NDArray[np.int64]  # (n, sensitive columns)


@dataclass(frozen=True, eq=False)
class _Population:
    """All rows, and what the numbers of their labels and groups mean."""

    rows: _Rows
    labels: Levels
    groups: Groups
    names: tuple[str, ...] | None  # of the features

    @classmethod
    def of(cls, clf: FairClassifier, X: Any, y: Any, sensitive_features: Any) -> _Population:
        if sensitive_features is None:
            raise ValueError("sensitive_features is needed: an unfairness is a difference between groups.")
        features, names = _features(X)
        label, columns = as_column(y, "label"), as_columns(sensitive_features, clf.intersections)
        declared, labels = Groups.of(columns), Levels.of(label, "label").two()
        groups, codes = declared.among(declared.codes(columns))  # those that occur
        rows = _Rows(features, labels.codes(label), codes)
        groups.check_comparable()
        n = same_length(X=range(features.shape[0]), y=rows.y, sensitive_features=rows.codes)
        if n < LEAST_ROWS:
            raise ValueError(f"{n} rows are too few to stand for a population. Pass {LEAST_ROWS} or more.")
        return cls(rows, labels, groups, names)

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.rows.y)

    def part(self, rows: Any) -> _Rows:
        """Some of the rows, by their numbers."""
        return _Rows._make(column[rows] for column in self.rows)

    def coded(self, clf: FairClassifier, constraint_set: Any) -> _Rows:
        """Rows of a constraint set that was given."""
        if not (isinstance(constraint_set, tuple | list) and len(constraint_set) == 3):
            raise ValueError(
                "constraint_set must be a tuple (X, y, sensitive_features); received "
                f"{len(constraint_set) if isinstance(constraint_set, tuple | list) else type(constraint_set).__name__}."
            )
        X, y, sensitive_features = constraint_set
        columns = as_columns(sensitive_features, clf.intersections, order=self.groups.levels)
        found = _Rows(_features(X)[0], self.labels.codes(as_column(y, "label")), self.groups.codes(columns))
        same_length(X=range(found.X.shape[0]), y=found.y, sensitive_features=found.codes)
        return found

    def worded(self, rows: _Rows) -> tuple[Any, Any, Any]:
        """Features, labels and sensitive columns as they were given, so that errors speak of these."""
        columns = {
            name: levels.values[code]
            for code, (name, levels) in zip(rows.codes.T, self.groups.levels.items(), strict=True)
        }
        return rows.X, self.labels.values[rows.y], columns.get(None, columns)


def _features(X: Any) -> tuple[Any, tuple[str, ...] | None]:
    """Features as float64, dense or CSR, and their names."""
    if is_sparse(X):
        return X.tocsr().astype(np.float64), None
    table = as_table(X)
    return table.values, table.names


def _solved(
    params: dict[str, Any], population: _Population, apart: _Rows, order: NDArray[np.integer], seed: int
) -> tuple[FairClassifier, int, FloatArray]:
    """Fit of the whole population, the number of its problem's local optima, and the one nearest to the fit."""
    pilot = FairClassifier(**{**params, "n_replicates": 0, "random_state": seed})
    X, y, sensitive_features = population.worded(population.part(order))
    with warnings.catch_warnings():  # what the repetitions warn of is counted
        warnings.simplefilter("ignore")
        pilot.fit(X, y, sensitive_features=sensitive_features, constraint_set=population.worded(apart))
        found = theory.optima(pilot, X, y)
    return pilot, len(found), theory.nearest(found, _theta(pilot)).theta


def _theta(clf: FairClassifier) -> FloatArray:
    """Coefficients of a fit, then the intercept, if it has one."""
    return np.append(clf.coef_[0], clf.intercept_ if clf.fit_intercept else ())


def _settled_map(pilot: FairClassifier, apart: _Rows) -> Any:
    """The feature map as fitted on the constraint set; it must be the same in all fits."""
    maps = [fitted_map(pilot.feature_map, apart.X) for _ in range(2)]
    if pilot.feature_map is not None:
        first, second = (mapped(one, apart.X) for one in maps)
        if not (np.array_equal(first, second) if not is_sparse(first) else (first != second).nnz == 0):
            raise ValueError(
                f"feature_map={pilot.feature_map!r} differs from fit to fit, so that there is no one optimum. Give it "
                "a random_state."
            )
    return maps[0]


def _names(found: Sequence[str], names: tuple[str, ...] | None, feature_map: Any) -> list[str]:
    """Names of the coefficients: those of the features, where they have names and are not mapped."""
    return list(found) if names is None or feature_map is not None else [*names, *found[len(names) :]]


# -- Repetitions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Study:
    """What every repetition needs to know."""

    params: dict[str, Any]  # of the classifier
    feature_map: Any  # fitted, or None
    population: _Rows
    sizes: tuple[int, ...]  # groups in each sensitive column
    constraint_set: _Rows
    star: FloatArray  # θ*
    n_rows: int
    n_evaluation: int
    rates: tuple[Rate, ...]
    ratio: bool
    asked: dict[str, Any]  # of fairness_interval
    coef_method: str
    sources: tuple[str, ...]
    fitting: Callable[..., FairClassifier]
    seed: int

    @property
    def signed(self) -> bool:
        """Whether there is one gap, which has a sign; otherwise the unfairness is judged."""
        return len(self.rates) == 1 and self.sizes == (2,)

    def part(self, rows: NDArray[np.integer]) -> _Rows:
        """Rows drawn from the population."""
        return _Rows._make(column[rows] for column in self.population)

    def sensitive(self, rows: _Rows) -> dict[str, pd.Series[Any]]:
        """Sensitive columns of some rows, with all groups declared, as a draw may lack some."""
        found = {}
        for i, (code, n) in enumerate(zip(rows.codes.T, self.sizes, strict=True)):
            found[f"column {i}"] = pd.Series(pd.Categorical.from_codes(code, pd.RangeIndex(n)))
        return found

    def fit(self, rows: _Rows, **params: Any) -> FairClassifier:
        """Fit of some rows."""
        apart = self.constraint_set
        return self.fitting(
            FairClassifier(**{**self.params, **params}),
            rows.X,
            rows.y,
            sensitive_features=self.sensitive(rows),
            constraint_set=(apart.X, apart.y, self.sensitive(apart)),
        )

    def gap(self, theta: FloatArray, rows: _Rows) -> FloatArray:
        """Gap, or unfairness, on some rows of models (D, R), shape (R,); NaN where it is undefined or infinite."""
        counts = count(theta, mapped(self.feature_map, rows.X), rows.y, rows.codes, self.sizes)
        value = rates_of(self.rates, counts)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.log(value) if self.ratio else value
            if self.signed:
                gap = value[:, 0, 0] - value[:, 0, 1]
            else:
                columns = np.split(value, np.cumsum(self.sizes)[:-1], axis=2)
                gap = np.max([np.ptp(column, axis=2).max(axis=1) for column in columns], axis=0)
                gap = np.exp(-gap) if self.ratio else gap
        return np.where(np.isfinite(gap), gap, np.nan)


class _Outcome(NamedTuple):
    """What one repetition found; numbers of an interval are estimate, low, high, truth and spread by the bootstrap."""

    gaps: FloatArray  # (sources, 5); NaN where undefined
    coefs: FloatArray  # (D, 5)
    features: list[str]
    warned: frozenset[str]


class _Sums(NamedTuple):
    """What some repetitions found, added up; two such add. Of each repetition hardly a number is kept."""

    numbers: FloatArray  # (sources + D, sums), as of ``_added_up``
    each: FloatArray  # (R, sources + D, 2), error and width
    features: list[str]
    warned: Counter[str]  # repetitions in which each warning was raised

    def __add__(self, other: _Sums) -> _Sums:  # type: ignore[override]
        each = np.concatenate([self.each, other.each])
        return _Sums(self.numbers + other.numbers, each, self.features, self.warned + other.warned)


def _parts(study: _Study, repetitions: int, n_jobs: int | None, progress: bool) -> Iterator[_Sums]:
    """All repetitions, in order; where they are cut does not depend on the workers, so that sums do not, either."""
    from rich.console import Console

    size = max(1, min(CHUNK, repetitions // CHUNKS))
    chunks = [range(low, min(low + size, repetitions)) for low in range(0, repetitions, size)]
    with progress_bar(Console(stderr=True), progress) as bar:
        task = bar.add_task("repetitions", total=repetitions)
        tasks = ((study, chunk) for chunk in chunks)
        for chunk, found in zip(chunks, called(_chunk, tasks, n_jobs, prefer="processes", batch_size=1), strict=True):
            yield found
            bar.advance(task, len(chunk))


def _chunk(study: _Study, repetitions: range) -> _Sums:
    """Some repetitions, on one thread: the bits of linear algebra depend on how many share it."""
    with threadpool_limits(1):
        population_gap = float(study.gap(study.star[:, None], study.population)[0])
        outcomes = [_repeat(study, repetition, population_gap) for repetition in repetitions]
    numbers = np.stack([np.vstack([one.gaps, one.coefs]) for one in outcomes])
    sums = [_added_up(rows, study.asked["confidence_level"]) for rows in numbers.swapaxes(0, 1)]
    each = numbers[..., [0, 2]] - numbers[..., [3, 1]]  # estimate minus truth, high minus low
    return _Sums(np.array(sums), each, outcomes[0].features, Counter(name for one in outcomes for name in one.warned))


def _repeat(study: _Study, repetition: int, population_gap: float) -> _Outcome:
    rng = np.random.default_rng([study.seed, 1 + repetition])
    n = len(study.population.y)
    train, test, fresh = (
        study.part(rng.integers(0, n, size)) for size in (study.n_rows, study.n_evaluation, study.n_rows)
    )
    seed, other = rng.integers(0, 2**31, 2).tolist()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf = study.fit(train, random_state=seed)
        intervals = [
            clf.fairness_interval(
                test.X, test.y, sensitive_features=study.sensitive(test), source=source, **study.asked
            )
            for source in study.sources
        ]
        coefs = clf.coef_interval(study.asked["confidence_level"], study.coef_method)
    theta, again = _theta(clf), np.full(len(study.star), np.nan)
    if "retraining" in study.sources:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            again = _theta(study.fit(fresh, random_state=other, n_replicates=0))
    here = study.gap(np.column_stack([study.star, again]), test)
    truth = {
        "training": here[0],
        "retraining": here[1],
        "evaluation": study.gap(theta[:, None], study.population)[0],
        "total": population_gap,
    }
    gaps = np.full((len(intervals), 5), np.nan)
    for row, interval in zip(gaps, intervals, strict=True):
        if interval.reason:
            continue
        ends = (interval.estimate, interval.low, interval.high)
        if study.signed:
            ends = (interval.gap, interval.gap_low, interval.gap_high)
        row[:] = *ends, truth[interval.source], np.hypot(interval.spread_training, interval.spread_evaluation)
    replicates = clf.coef_replicates_
    if clf.fit_intercept:
        replicates = np.column_stack([replicates, clf.intercept_replicates_])
    numbers = [coefs[name].to_numpy() for name in ("estimate", "low", "high")]
    found = np.column_stack([*numbers, study.star, replicates.std(axis=0, ddof=1)])
    return _Outcome(gaps, found, coefs["feature"].tolist(), frozenset(one.category.__name__ for one in caught))


# -- The table --------------------------------------------------------------------------------------------------------


def _table(study: _Study, found: _Sums, names: list[str]) -> dict[str, list[Any]]:
    """Columns of the table."""
    gap = {"quantity": "gap" if study.signed else "unfairness", "kind": "gap"}
    heads = [gap | {"source": source} for source in study.sources]
    heads += [{"quantity": name, "kind": "coefficient", "source": "training"} for name in names]
    rows = [head | _judged(sums) for head, sums in zip(heads, found.numbers, strict=True)]
    for row in rows[: len(study.sources)]:
        row["spread_ratio"] = row["spread_ratio"] if study.signed else None
    return {heading: [row[heading] for row in rows] for heading in rows[0]}


def _added_up(numbers: FloatArray, confidence_level: float) -> FloatArray:
    """Sums over repetitions, from estimates, limits, truths and spreads (R, 5), where these are defined."""
    defined = ~np.isnan(numbers[:, 1:4]).any(axis=1)
    estimate, low, high, truth, spread = numbers[defined].T
    slack = ROUNDING * np.maximum(1.0, np.abs(truth))
    covered = (low - slack <= truth) & (truth <= high + slack)
    closed, known = np.isfinite(low) & np.isfinite(high), np.isfinite(estimate) & np.isfinite(spread)
    ends, error = (truth[closed], low[closed], high[closed]), (estimate - truth)[known]
    score = closed.sum() * mean_interval_score(*ends, 1.0 - confidence_level) if closed.any() else 0.0
    width, square, spreads = (high - low)[closed].sum(), (error**2).sum(), (spread[known] ** 2).sum()
    counted = len(numbers), defined.sum(), covered.sum(), closed.sum(), known.sum()
    return np.array([*counted, truth.sum(), width, score, error.sum(), square, spreads], dtype=np.float64)


def _judged(sums: FloatArray) -> dict[str, Any]:
    """Row of the table, from sums over all repetitions."""
    n, defined, covered, closed, known, truth, width, score, error, square, spreads = sums.tolist()
    undefined = int(n - defined)
    if not defined:
        headings = ("truth", "coverage", "coverage_low", "coverage_high", "width", "score", "bias", "spread_ratio")
        return {**dict.fromkeys(headings), "undefined": undefined}
    low, high = binomial_limits(covered, defined - covered, 0.95)
    variance = (square - error**2 / known) / (known - 1.0) if known > 1.0 else 0.0
    sd = np.sqrt(variance) if variance * known > CANCELLED * square else 0.0
    return {
        "truth": truth / defined,
        "coverage": covered / defined,
        "coverage_low": float(low),
        "coverage_high": float(high),
        "width": width / closed if closed else None,
        "score": score / closed if closed else None,
        "bias": float(error / known / sd) if sd > 0.0 else None,
        "spread_ratio": float(np.sqrt(spreads / known) / sd) if sd > 0.0 else None,
        "undefined": undefined,
    }


def _sentence(table: list[dict[str, Any]], settings: dict[str, Any], warned: dict[str, float]) -> str:
    """The result in words."""
    level, times = f"{100.0 * settings['confidence_level']:g} %", settings["repetitions"]
    study = f"{times:,} repetitions of {settings['n_rows']:,} rows"
    gaps = {row["source"]: row for row in table if row["kind"] == "gap"}
    first, *others = sorted(gaps, key=lambda source: source != "total")  # the default comes first
    text = [
        f"Nominal {level} intervals covered the {gaps[first]['quantity']} {_share(gaps[first], times)} of the time "
        f"(source {first}, {study}, ± one standard error)"
        + "".join(f"; {source} {_share(gaps[source], times)}" for source in others)
        + "."
    ]
    coefs = [row for row in table if row["kind"] == "coefficient" and row["coverage"] is not None]
    if coefs:
        least = min(coefs, key=lambda row: row["coverage"])
        mean = 100.0 * float(np.mean([row["coverage"] for row in coefs]))
        text.append(
            f"Coefficients were covered {mean:.1f} % of the time on average, least often that of {least['quantity']}, "
            f"{100.0 * least['coverage']:.1f} %."
        )
    undefined = max((row["undefined"] for row in table), default=0)
    if undefined:
        text.append(f"Up to {undefined:,} repetitions are left out, in which something was undefined.")
    if warned:
        listed = ", ".join(f"{name} in {100.0 * share:.0f} %" for name, share in warned.items())
        text.append(f"Warnings, of the repetitions: {listed}.")
    return " ".join(text)


def _share(row: dict[str, Any], repetitions: int) -> str:
    """Coverage of a row of the table with its standard error, which is not 0 where all or none were covered."""
    if row["coverage"] is None:
        return "(undefined)"
    n = repetitions - row["undefined"]
    share = (n * row["coverage"] + 1.0) / (n + 2.0)
    error = np.sqrt(share * (1.0 - share) / n)
    return f"{100.0 * row['coverage']:.1f} % ± {100.0 * error:.1f}"


# -- Small things -----------------------------------------------------------------------------------------------------


def _whole(name: str, value: Any, least: int) -> int:
    if not (isinstance(value, int | np.integer) and value >= least):
        raise ValueError(f"{name} must be a whole number, {least} or larger; received {value!r}.")
    return int(value)


def _told(value: Any) -> Any:
    """Parameter as JSON knows it, or as text."""
    value = plain(value)
    return value if value is None or isinstance(value, str | int | float) else str(value)
