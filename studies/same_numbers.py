"""Check that two versions of surefair give the same numbers.

``collect`` asks whichever surefair this interpreter imports for the numbers of many named configurations, and writes
them to a file. ``compare`` holds two such files against each other.

    python same_numbers.py collect OUT.npz [--only SUBSTRING]
    python same_numbers.py compare OLD.npz NEW.npz [--only SUBSTRING] [--tolerance 1e-12]

Rows are drawn here, so that they do not depend on the version under test, and every parameter of a classifier is
passed by keyword, so that changed defaults do not matter. ``compare`` prints one line for each configuration and exits
with status 1 if any number differs by more than the tolerance, if a number or a configuration of the old file is
missing in the new one, or if a configuration failed on one side only. Numbers that only the new version gives are
counted and do not matter.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # bits may depend on the threads of linear algebra
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"
os.environ["BLIS_NUM_THREADS"] = "1"
os.environ["PYTHONWARNINGS"] = "ignore"

import argparse
import csv
import importlib
import json
import platform
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

Record = dict[str, NDArray[np.float64]]

CRITERIA = (
    "demographic_parity",
    "equalized_odds",
    "error_rate",
    "false_discovery_rate",
    "false_negative_rate",
    "false_omission_rate",
    "false_positive_rate",
)
SOURCES = ("training", "retraining", "evaluation", "total")
METHODS = ("percentile", "basic", "normal", "cheap", "paper")
COEF_METHODS = ("basic", "percentile", "normal", "cheap")
TRACE_METHODS = ("plug_in", "random_scaling")  # for dense rows in double precision
INTERVAL_NUMBERS = (
    "estimate", "low", "high", "gap", "gap_low", "gap_high", "spread_training", "spread_evaluation", "n", "n_training",
)  # fmt: skip
PARAMETERS: dict[str, Any] = {
    "criterion": "demographic_parity",
    "loss": "log_loss",
    "tolerance": 0.0,
    "penalty": 1.0,
    "alpha": 1e-4,
    "step_size": "auto",
    "n_replicates": 60,
    "multiplier": "two_point",
    "n_constraint": 500,
    "fit_intercept": True,
    "random_state": 7,
    "n_jobs": 1,
    "sharpness": None,
    "intersections": False,
    "dtype": "float64",
}
TRAINING_ROWS, EVALUATION_ROWS = 4_000, 1_500
TOLERANCE = 1e-12

CONFIGURATIONS: dict[str, Callable[[], Record]] = {}


@cache
def surefair() -> Any:
    """The version under test."""
    return importlib.import_module("surefair")


def parallel() -> Any:
    """The module for several workers, by its new name or its old one."""
    sf = surefair()
    return sf.parallel if hasattr(sf, "parallel") else sf.distributed


def classifier(**changes: Any) -> Any:
    """An unfitted classifier with every parameter given, some of them changed."""
    unknown = set(changes) - set(PARAMETERS)
    assert not unknown, unknown
    return surefair().FairClassifier(**(PARAMETERS | changes))


# -- Rows -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """Some rows: features, labels, groups (one column, or several by name) and weights."""

    X: Any
    y: Any
    groups: Any
    weight: Any = None

    def rows(self, chosen: Any) -> Sample:
        """Some of these rows."""
        several = isinstance(self.groups, dict)
        groups = {name: column[chosen] for name, column in self.groups.items()} if several else self.groups[chosen]
        return Sample(self.X[chosen], self.y[chosen], groups, None if self.weight is None else self.weight[chosen])

    @property
    def parts(self) -> tuple[Any, ...]:
        """Features, labels and groups, and weights where there are any, as a tuple."""
        return (self.X, self.y, self.groups, *(() if self.weight is None else (self.weight,)))

    @property
    def by_keyword(self) -> dict[str, Any]:
        """Groups and weights as keyword arguments."""
        return {"sensitive_features": self.groups, "sample_weight": self.weight}

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.y)


def draw(
    n: int,
    seed: int,
    *,
    n_features: int = 5,
    n_groups: int = 2,
    columns: int = 1,
    sparse: bool = False,
    weighted: bool = False,
    text: bool = False,
) -> Sample:
    """Draw rows whose labels and groups both depend on the features."""
    rng = np.random.default_rng([seed, n_features, n_groups])
    group = (n_groups * rng.random(n) ** 1.3).astype(np.int64)
    X = rng.normal(size=(n, n_features))
    X[:, 0] += 0.9 * (group == 0)
    X[:, 1] += 0.5 * X[:, 0] + 0.3 * (group == 1)
    X[:, 2] = 3.0 * X[:, 2] + 1.0
    y = (0.9 * X[:, 0] - 0.6 * X[:, 1] + 0.2 * X[:, 2] + 0.3 * group + 1.5 * rng.normal(size=n) > 0.4).astype(np.int64)
    weight = 0.25 + 2.0 * rng.random(n) if weighted else None
    region = rng.integers(0, 3, size=n)
    region = np.where((X[:, 3] > 0.5) & (region == 0), 1, region)
    features: Any = X
    if sparse:
        features = csr_matrix(np.where(rng.random((n, n_features)) < 0.2, X, 0.0))
    labels: Any = np.array(["declined", "granted"])[y] if text else y
    groups: Any = np.array([f"group {letter}" for letter in "edcba"])[group] if text else group
    if columns == 2:
        groups = {"sex": np.array(["f", "m", "x", "y", "z"])[group], "region": np.array(["n", "s", "w"])[region]}
    return Sample(features, labels, groups, weight)


def batches(sample: Sample, sizes: Sequence[int]) -> Iterator[Sample]:
    """The rows in batches of these sizes, and then the rest."""
    ends = np.cumsum([0, *sizes]).tolist()
    for low, high in zip(ends, [*ends[1:], sample.n], strict=True):
        yield sample.rows(slice(low, high))


# -- What is stored ---------------------------------------------------------------------------------------------------


def array(values: Any) -> NDArray[np.float64]:
    """Numbers as an array of double precision; None is NaN."""
    return np.asarray(values, dtype=np.float64)


def numeric_columns(frame: Any) -> Record:
    """Columns of numbers and truth values of a data frame, but for those that name groups."""
    found = nw.from_native(frame, eager_only=True)
    names = {"column", "group", "first", "second"}
    return {
        name: array(found.get_column(name).to_list())
        for name, kind in found.schema.items()
        if name not in names and (kind.is_numeric() or kind == nw.Boolean)
    }


def under(prefix: str, record: Mapping[str, NDArray[np.float64]]) -> Record:
    """The same arrays with a prefix to their names."""
    return {f"{prefix}/{name}": values for name, values in record.items()}


def interval_numbers(interval: Any) -> Record:
    """Numbers of an interval and of its tables."""
    record = {name: array(getattr(interval, name)) for name in INTERVAL_NUMBERS}
    record |= under("by_group", numeric_columns(interval.by_group))
    return record | under("by_pair", numeric_columns(interval.by_pair))


def fitted_numbers(clf: Any, X: Any) -> Record:
    """Coefficients, replicates and scores of a fitted classifier."""
    names = ("coef_", "intercept_", "coef_replicates_", "intercept_replicates_", "n_rows_")
    record = {name: array(getattr(clf, name)) for name in names}
    return record | {"decision_function": clf.decision_function(X), "predict_proba": clf.predict_proba(X)}


def coefficient_numbers(clf: Any, methods: Sequence[str], level: float = 0.95) -> Record:
    """Intervals of the coefficients by several methods."""
    record: Record = {}
    for method in methods:
        table = clf.coef_interval(confidence_level=level, method=method)
        record |= under(f"coef_interval/{method}", numeric_columns(table))
    return record


def unfairness_numbers(
    clf: Any, sample: Sample, metrics: Sequence[str], methods: Sequence[str] = METHODS, level: float = 0.95
) -> Record:
    """Intervals of the unfairness for all sources, by several metrics and methods."""
    record: Record = {}
    for metric in metrics:
        for source in SOURCES:
            for method in methods:
                interval = clf.fairness_interval(
                    sample.X,
                    sample.y,
                    **sample.by_keyword,
                    metric=metric,
                    confidence_level=level,
                    source=source,
                    method=method,
                )
                record |= under(f"interval/{metric}/{source}/{method}", interval_numbers(interval))
    return record


def classifier_numbers(
    clf: Any, sample: Sample, metrics: Sequence[str], methods: Sequence[str] = METHODS, trace: bool = True
) -> Record:
    """Everything that a fitted classifier says."""
    record = fitted_numbers(clf, sample.X)
    record |= coefficient_numbers(clf, (*COEF_METHODS, *(TRACE_METHODS if trace else ())))
    return record | unfairness_numbers(clf, sample, metrics, methods)


IGNORED = frozenset({"version", "versions", "warnings", "diagnostics", "assumptions", "settings"})
NAMING = ("name", "model", "feature", "metric", "source", "column", "group", "first", "second", "rows")


def walk(found: Any, path: str = "") -> Record:
    """All numbers in nested dicts and lists, by their key paths; None is NaN, and text is left out.

    An entry of a list is known by what names it (a metric and a source, for example) where all entries have different
    names, and by its place otherwise. So added entries do not change the paths of the others.
    """
    if isinstance(found, bool | int | float | None):
        return {path: array(found)}
    record: Record = {}
    if isinstance(found, dict):
        for key, value in found.items():
            if key not in IGNORED:
                record |= walk(value, f"{path}/{key}" if path else str(key))
    elif isinstance(found, list | tuple):
        labels = [entry_label(entry) for entry in found]
        named = all(labels) and len(set(labels)) == len(labels)
        for place, (label, value) in enumerate(zip(labels, found, strict=True)):
            record |= walk(value, f"{path}[{label if named else place}]")
    return record


def entry_label(entry: Any) -> str:
    """What names an entry of a list; empty where nothing does."""
    if not isinstance(entry, dict):
        return ""
    return ", ".join(str(entry[key]) for key in NAMING if isinstance(entry.get(key), str | int))


# -- Classifiers, fitted at once --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fit:
    """A classifier to fit: its parameters, its rows, and what to ask it."""

    params: dict[str, Any] = field(default_factory=dict)
    rows: dict[str, Any] = field(default_factory=dict)
    metrics: tuple[str, ...] = ()
    given: bool = False  # whether a constraint set is passed
    trace: bool = True  # whether covariances are kept on the way
    methods: tuple[str, ...] = METHODS

    def run(self) -> Record:
        """Fit the classifier and ask it."""
        train, test = draw(TRAINING_ROWS, 1, **self.rows), draw(EVALUATION_ROWS, 2, **self.rows)
        more = {"constraint_set": draw(600, 3, **self.rows).parts} if self.given else {}
        clf = classifier(**self.params).fit(train.X, train.y, **train.by_keyword, **more)
        metrics = self.metrics or (clf.criterion or "demographic_parity",)
        return classifier_numbers(clf, test, metrics, self.methods, self.trace)


DECAY = "PolynomialDecay(0.5, 0.6)"  # made when it is needed: importing this file needs no surefair
FOUR_FIFTHS = ("demographic_parity", "demographic_parity_ratio")
EVERYTHING = (*CRITERIA, *(f"{name}_ratio" for name in CRITERIA))
ODDS = ("equalized_odds", "equalized_odds_ratio", "error_rate")

FITS: dict[str, Fit] = {
    **{f"criterion {name}": Fit({"criterion": name}) for name in CRITERIA},
    **{f"criterion {name}, squared error": Fit({"criterion": name, "loss": "squared_error"}) for name in CRITERIA},
    **{f"criterion {name}, penalty 20": Fit({"criterion": name, "penalty": 20.0}) for name in CRITERIA[1:]},
    "criterion none": Fit({"criterion": None}, metrics=FOUR_FIFTHS),
    "criterion none, squared error": Fit({"criterion": None, "loss": "squared_error"}),
    "dtype float32": Fit({"dtype": "float32"}, trace=False),
    "dtype float32, criterion none": Fit({"dtype": "float32", "criterion": None}, trace=False),
    "dtype float32, squared error, tolerance, weights": Fit(
        {"dtype": "float32", "loss": "squared_error", "tolerance": 0.05}, {"weighted": True}, trace=False
    ),
    "sparse": Fit(rows={"sparse": True, "n_features": 40}, trace=False),
    "sparse, criterion none": Fit({"criterion": None}, {"sparse": True, "n_features": 40}, trace=False),
    "sparse, equalized odds": Fit(
        {"criterion": "equalized_odds", "penalty": 5.0}, {"sparse": True, "n_features": 40}, trace=False
    ),
    "sparse, false positive rate, squared error, weights": Fit(
        {"criterion": "false_positive_rate", "loss": "squared_error", "multiplier": "poisson"},
        {"sparse": True, "n_features": 40, "weighted": True},
        trace=False,
    ),
    "sparse, polynomial decay": Fit({"step_size": DECAY}, {"sparse": True, "n_features": 40}, trace=False),
    "dense, wide": Fit(rows={"n_features": 80}),
    "groups 3": Fit(rows={"n_groups": 3}, metrics=FOUR_FIFTHS),
    "groups 5": Fit(rows={"n_groups": 5, "n_features": 12}),
    "groups 5, equalized odds": Fit({"criterion": "equalized_odds"}, {"n_groups": 5}, ODDS),
    "groups 3, error rate, penalty 20": Fit({"criterion": "error_rate", "penalty": 20.0}, {"n_groups": 3}),
    "columns 2": Fit(rows={"columns": 2}, metrics=FOUR_FIFTHS),
    "columns 2, intersections": Fit({"intersections": True}, {"columns": 2, "n_features": 14}),
    "columns 2, intersections, tolerance": Fit({"intersections": True, "tolerance": 0.05}, {"columns": 2}),
    "columns 2, intersections, equalized odds": Fit(
        {"intersections": True, "criterion": "equalized_odds"}, {"columns": 2}
    ),
    "weights": Fit(rows={"weighted": True}, metrics=FOUR_FIFTHS),
    "weights, equalized odds, 3 groups": Fit({"criterion": "equalized_odds"}, {"weighted": True, "n_groups": 3}),
    "tolerance": Fit({"tolerance": 0.1}),
    "tolerance, squared error, 3 groups": Fit({"tolerance": 0.03, "loss": "squared_error"}, {"n_groups": 3}),
    "sharpness": Fit({"criterion": "false_positive_rate", "penalty": 20.0, "sharpness": 10.0, "n_constraint": 250}),
    "sharpness, equalized odds, polynomial decay": Fit(
        {"criterion": "equalized_odds", "sharpness": 5.0, "step_size": DECAY, "n_constraint": 150}
    ),
    "polynomial decay": Fit({"step_size": DECAY}),
    "polynomial decay, criterion none": Fit({"step_size": DECAY, "criterion": None}),
    "polynomial decay, false negative rate, normal multiplier": Fit(
        {"step_size": DECAY, "criterion": "false_negative_rate", "multiplier": "normal"}
    ),
    "polynomial decay, tolerance, squared error": Fit({"step_size": DECAY, "tolerance": 0.05, "loss": "squared_error"}),
    **{f"multiplier {law}": Fit({"multiplier": law}) for law in ("exponential", "poisson", "uniform", "normal")},
    "multiplier exponential, equalized odds": Fit({"multiplier": "exponential", "criterion": "equalized_odds"}),
    "multiplier poisson, error rate": Fit({"multiplier": "poisson", "criterion": "error_rate"}),
    "no intercept": Fit({"fit_intercept": False}),
    "no intercept, false positive rate": Fit({"fit_intercept": False, "criterion": "false_positive_rate"}),
    "jobs 2": Fit({"n_jobs": 2, "n_replicates": 130}),
    "jobs 2, equalized odds": Fit({"n_jobs": 2, "criterion": "equalized_odds"}),
    "ridge": Fit({"alpha": 0.1}),
    "replicates 5": Fit({"n_replicates": 5}),
    "constraint set": Fit(given=True),
    "constraint set, equalized odds, weights": Fit({"criterion": "equalized_odds"}, {"weighted": True}, given=True),
    "constraint set, sparse": Fit(rows={"sparse": True, "n_features": 40}, given=True, trace=False),
    "constraint set, columns 2, intersections": Fit(
        {"intersections": True}, {"columns": 2, "n_features": 14}, given=True
    ),
    "metrics all": Fit(metrics=EVERYTHING, methods=("percentile", "cheap")),
    "metrics all, equalized odds, 3 groups": Fit(
        {"criterion": "equalized_odds"}, {"n_groups": 3}, EVERYTHING, methods=("percentile", "basic")
    ),
    "text": Fit(rows={"text": True}),
    "text, equalized odds, 3 groups": Fit({"criterion": "equalized_odds"}, {"text": True, "n_groups": 3}),
}


def run_fit(fit: Fit) -> Record:
    """Run a fit, with the schedule of its steps made first where it has one."""
    if fit.params.get("step_size") == DECAY:
        fit = replace(fit, params=fit.params | {"step_size": surefair().PolynomialDecay(0.5, 0.6)})
    return fit.run()


CONFIGURATIONS |= {f"fit: {name}": partial(run_fit, fit) for name, fit in FITS.items()}


def configuration(name: str) -> Callable[[Callable[[], Record]], Callable[[], Record]]:
    """Add a function to the configurations."""

    def added(function: Callable[[], Record]) -> Callable[[], Record]:
        assert name not in CONFIGURATIONS, name
        CONFIGURATIONS[name] = function
        return function

    return added


@configuration("fit: no groups, criterion none")
def _() -> Record:
    train, test = draw(TRAINING_ROWS, 1), draw(EVALUATION_ROWS, 2)
    clf = classifier(criterion=None).fit(train.X, train.y)
    return classifier_numbers(clf, test, ("demographic_parity", "equalized_odds"))


@configuration("fit: no replicates")
def _() -> Record:
    train, test = draw(TRAINING_ROWS, 1), draw(EVALUATION_ROWS, 2)
    clf = classifier(n_replicates=0).fit(train.X, train.y, sensitive_features=train.groups)
    return fitted_numbers(clf, test.X) | coefficient_numbers(clf, TRACE_METHODS)


@configuration("fit: confidence level 0.8")
def _() -> Record:
    train, test = draw(TRAINING_ROWS, 1, n_groups=3), draw(EVALUATION_ROWS, 2, n_groups=3)
    clf = classifier().fit(train.X, train.y, sensitive_features=train.groups)
    record = coefficient_numbers(clf, (*COEF_METHODS, *TRACE_METHODS), level=0.8)
    return record | unfairness_numbers(clf, test, FOUR_FIFTHS, level=0.8)


@configuration("fit: measured by another column")
def _() -> Record:
    train, test = draw(TRAINING_ROWS, 1, columns=2), draw(EVALUATION_ROWS, 2, columns=2)
    clf = classifier().fit(train.X, train.y, sensitive_features={"sex": train.groups["sex"]})
    other = replace(test, groups={"region": test.groups["region"]})
    return unfairness_numbers(clf, other, ("demographic_parity", "false_omission_rate"))


@configuration("fit: few evaluation rows")
def _() -> Record:
    train, test = draw(TRAINING_ROWS, 1, n_groups=3), draw(60, 2, n_groups=3)
    clf = classifier().fit(train.X, train.y, sensitive_features=train.groups)
    return unfairness_numbers(clf, test, ("demographic_parity", "equalized_odds", "false_negative_rate_ratio"))


@configuration("fit: rare group")
def _() -> Record:
    train, test = draw(TRAINING_ROWS, 1, n_groups=3, weighted=True), draw(EVALUATION_ROWS, 2, n_groups=3)
    rare = np.arange(train.n) % 40 == 0
    train = train.rows((train.groups != 2) | rare)
    test = test.rows((test.groups != 2) | (np.arange(test.n) % 40 == 0))
    clf = classifier().fit(train.X, train.y, **train.by_keyword)
    return classifier_numbers(clf, test, ("demographic_parity", "equalized_odds"))


def framed(kind: Callable[[dict[str, Any]], Any]) -> Record:
    """Fit data frames of a library."""
    train, test = (draw(n, seed, columns=2) for n, seed in ((TRAINING_ROWS, 1), (EVALUATION_ROWS, 2)))
    names = [f"feature {i}" for i in range(5)]
    train, test = (
        Sample(kind(dict(zip(names, one.X.T, strict=True))), one.y, kind(one.groups)) for one in (train, test)
    )
    clf = classifier().fit(train.X, train.y, sensitive_features=train.groups)
    return classifier_numbers(clf, test, FOUR_FIFTHS)


CONFIGURATIONS["frames: pandas"] = partial(framed, pd.DataFrame)
CONFIGURATIONS["frames: arrow"] = partial(framed, pa.table)


# -- Streams ----------------------------------------------------------------------------------------------------------

UNEVEN = (1, 7, 300, 2, 1100, 450)


def stream(rows: dict[str, Any], given: bool = False, trace: bool = True, **params: Any) -> Record:
    """Fit a stream in uneven batches, with questions on the way."""
    train, test = draw(TRAINING_ROWS, 1, **rows), draw(EVALUATION_ROWS, 2, **rows)
    clf, record = classifier(**params), dict[str, NDArray[np.float64]]()
    metric = clf.criterion or "demographic_parity"
    for number, batch in enumerate(batches(train, UNEVEN)):
        first = {"classes": np.unique(train.y)} if number == 0 else {}
        apart = {"constraint_set": draw(600, 3, **rows).parts} if number == 0 and given else {}
        clf.partial_fit(batch.X, batch.y, **batch.by_keyword, **first, **apart)
        if number >= 2:
            record |= under(f"batch {number}", fitted_numbers(clf, test.X))
            record |= under(f"batch {number}", unfairness_numbers(clf, test, (metric,), ("percentile",)))
    return record | classifier_numbers(clf, test, (metric,), trace=trace)


CONFIGURATIONS |= {
    "stream: uneven": partial(stream, {}),
    "stream: uneven, equalized odds, weights": partial(stream, {"weighted": True}, criterion="equalized_odds"),
    "stream: uneven, sparse": partial(stream, {"sparse": True, "n_features": 40}, trace=False),
    "stream: uneven, float32": partial(stream, {}, trace=False, dtype="float32"),
    "stream: uneven, criterion none, text": partial(stream, {"text": True}, criterion=None),
    "stream: uneven, constraint set, 3 groups": partial(stream, {"n_groups": 3}, given=True),
    "stream: uneven, columns 2, intersections": partial(stream, {"columns": 2, "n_features": 14}, intersections=True),
}


def late_group(**params: Any) -> tuple[Any, Sample]:
    """A stream in which the third group comes after the constraint set is complete."""
    train, test = draw(TRAINING_ROWS, 1, n_groups=3), draw(EVALUATION_ROWS, 2, n_groups=3)
    late = train.groups == 2
    first, second = train.rows(~late & (np.arange(train.n) < 1500)), train.rows(np.arange(train.n) >= 1500)
    clf = classifier(**params)
    for batch in (first.rows(slice(0, 900)), first.rows(slice(900, None)), *batches(second, (13, 800))):
        clf.partial_fit(batch.X, batch.y, sensitive_features=batch.groups)
    return clf, test


@configuration("stream: late group")
def _() -> Record:
    clf, test = late_group()
    return classifier_numbers(clf, test, ("demographic_parity", "equalized_odds"))


@configuration("stream: late group, false positive rate")
def _() -> Record:
    clf, test = late_group(criterion="false_positive_rate", penalty=5.0)
    return classifier_numbers(clf, test, ("false_positive_rate",))


@configuration("stream: group counts")
def _() -> Record:
    clf, _ = late_group()
    return numeric_columns(clf.group_counts_)


def saved(stops: Sequence[int], trace: bool = True, rows: dict[str, Any] | None = None, **params: Any) -> Record:
    """Save a classifier in the middle of a stream, load it, and continue with what was loaded."""
    train, test = draw(TRAINING_ROWS, 1, **(rows or {})), draw(EVALUATION_ROWS, 2, **(rows or {}))
    clf, record = classifier(**params), dict[str, NDArray[np.float64]]()
    with tempfile.TemporaryDirectory() as folder:
        for number, batch in enumerate(batches(train, stops)):
            first = {"classes": np.unique(train.y)} if number == 0 else {}
            clf.partial_fit(batch.X, batch.y, **batch.by_keyword, **first)
            path = Path(folder) / f"{number}.npz"
            surefair().save(clf, path)
            clf = surefair().load(path)
            record |= under(f"loaded {number}", fitted_numbers(clf, test.X))
    return record | classifier_numbers(clf, test, (clf.criterion or "demographic_parity",), trace=trace)


CONFIGURATIONS |= {
    "saved: in the stream": partial(saved, (300, 900, 1100)),
    "saved: in the stream, equalized odds, weights": partial(
        saved, (300, 900, 1100), rows={"weighted": True}, criterion="equalized_odds"
    ),
    "saved: in the stream, sparse": partial(saved, (700, 900), trace=False, rows={"sparse": True, "n_features": 40}),
    "saved: in the stream, columns 2, intersections": partial(
        saved, (700, 900), rows={"columns": 2, "n_features": 14}, intersections=True
    ),
}


def merged(rows: dict[str, Any], trace: bool = True, **params: Any) -> Record:
    """Fit two shards with one constraint set, and merge the fits."""
    train, test, apart = (draw(n, seed, **rows) for n, seed in ((6_000, 1), (EVALUATION_ROWS, 2), (600, 3)))
    shards = [
        classifier(**params, random_state=seed).fit(part.X, part.y, **part.by_keyword, constraint_set=apart.parts)
        for seed, part in enumerate(batches(train, (3_500,)))
    ]
    clf = shards[0].merge(shards[1])
    return classifier_numbers(clf, test, (clf.criterion or "demographic_parity",), trace=trace)


CONFIGURATIONS |= {
    "merged: two shards": partial(merged, {}),
    "merged: two shards, error rate, weights": partial(merged, {"weighted": True}, criterion="error_rate"),
    "merged: two shards, sparse": partial(merged, {"sparse": True, "n_features": 40}, trace=False),
}


# -- Several workers --------------------------------------------------------------------------------------------------


@configuration("parallel: fit_replicates")
def _() -> Record:
    train, test = draw(TRAINING_ROWS, 1, weighted=True), draw(EVALUATION_ROWS, 2)
    clf = parallel().fit_replicates(classifier(), train.X, train.y, **train.by_keyword, n_blocks=2)
    return classifier_numbers(clf, test, ("demographic_parity",))


@configuration("parallel: fit_replicates, false omission rate, threads")
def _() -> Record:
    train, test, apart = draw(TRAINING_ROWS, 1), draw(EVALUATION_ROWS, 2), draw(600, 3)
    clf = classifier(criterion="false_omission_rate", n_jobs=2)
    with joblib.parallel_config(backend="threading"):
        clf = parallel().fit_replicates(clf, train.X, train.y, **train.by_keyword, constraint_set=apart.parts)
    return classifier_numbers(clf, test, ("false_omission_rate",))


@configuration("parallel: fit_replicates_stream")
def _() -> Record:
    train, test, apart = (
        draw(n, seed, n_groups=3, weighted=True) for n, seed in ((TRAINING_ROWS, 1), (EVALUATION_ROWS, 2), (600, 3))
    )
    clf = parallel().fit_replicates_stream(
        classifier(),
        lambda: [batch.parts for batch in batches(train, UNEVEN)],
        constraint_set=apart.parts,
        n_blocks=2,
    )
    return classifier_numbers(clf, test, ("demographic_parity",))


def sharded(rows: dict[str, Any], **params: Any) -> Record:
    """Fit three partitions by themselves."""
    train, test, apart = (draw(n, seed, **rows) for n, seed in ((6_000, 1), (EVALUATION_ROWS, 2), (600, 3)))
    parts = [train.rows(slice(i, None, 3)).parts for i in range(3)]
    clf = parallel().fit_shards(classifier(**params), parts, constraint_set=apart.parts)
    return classifier_numbers(clf, test, (clf.criterion or "demographic_parity",))


CONFIGURATIONS |= {
    "parallel: fit_shards": partial(sharded, {}),
    "parallel: fit_shards, equalized odds, weights": partial(sharded, {"weighted": True}, criterion="equalized_odds"),
}


@configuration("parallel: fit_partitions")
def _() -> Record:
    train, test, apart = (draw(n, seed, columns=2) for n, seed in ((6_000, 1), (EVALUATION_ROWS, 2), (600, 3)))
    names = [f"x{i}" for i in range(5)]

    def table(sample: Sample) -> pd.DataFrame:
        return pd.DataFrame(dict(zip(names, sample.X.T, strict=True)) | sample.groups | {"label": sample.y})

    parts = [table(train.rows(slice(i, None, 2))) for i in range(2)]
    clf = parallel().fit_partitions(
        classifier(), parts, label="label", sensitive=["sex", "region"], features=names, constraint_set=table(apart)
    )
    return classifier_numbers(clf, replace(test, X=pd.DataFrame(test.X, columns=names)), ("demographic_parity",))


# -- Predictions of any model -----------------------------------------------------------------------------------------


class Decided(NamedTuple):
    """Rows with the score and the decision of some model."""

    sample: Sample
    score: NDArray[np.float64]
    decision: Any


def decided(n: int = 2_000, **rows: Any) -> Decided:
    """Draw rows, and decide by a fixed rule."""
    sample = draw(n, 4, **rows)
    score = np.clip(0.45 + 0.15 * sample.X[:, 0] - 0.08 * sample.X[:, 1] + 0.03 * sample.X[:, 2], 0.0, 1.0)
    return Decided(sample, score, np.unique(sample.y)[(score >= 0.5).astype(np.int64)])


def predicted(
    found: Decided, metrics: Sequence[str], methods: Sequence[str] = METHODS, y_pred: Any = None, **options: Any
) -> Record:
    """Intervals of predictions by several metrics and methods."""
    record: Record = {}
    asked = {
        "pos_label": None,
        "confidence_level": 0.95,
        "n_replicates": 400,
        "random_state": 3,
        "intersections": False,
        "threshold": None,
    } | options
    for metric in metrics:
        for method in methods:
            interval = surefair().fairness_interval(
                y_true=found.sample.y,
                y_pred=found.decision if y_pred is None else y_pred,
                **found.sample.by_keyword,
                metric=metric,
                method=method,
                **asked,
            )
            record |= under(f"{metric}/{method}", interval_numbers(interval))
    return record


@configuration("predictions: all metrics")
def _() -> Record:
    return predicted(decided(), CRITERIA)


@configuration("predictions: ratios")
def _() -> Record:
    return predicted(decided(n_groups=3), [f"{name}_ratio" for name in CRITERIA])


@configuration("predictions: weights, 5 groups")
def _() -> Record:
    return predicted(decided(weighted=True, n_groups=5), ("demographic_parity", "equalized_odds", "error_rate_ratio"))


@configuration("predictions: thresholds")
def _() -> Record:
    found, record = decided(weighted=True), dict[str, NDArray[np.float64]]()
    for threshold in (0.3, 0.5, 0.62):
        intervals = predicted(found, ("demographic_parity", "equalized_odds"), y_pred=found.score, threshold=threshold)
        record |= under(str(threshold), intervals)
    return record


@configuration("predictions: columns 2, intersections")
def _() -> Record:
    found = decided(columns=2)
    record = under("apart", predicted(found, FOUR_FIFTHS))
    return record | under("together", predicted(found, ("equalized_odds", "error_rate"), intersections=True))


@configuration("predictions: text, positive label")
def _() -> Record:
    found, record = decided(text=True), dict[str, NDArray[np.float64]]()
    for label in (None, "declined", "granted"):
        record |= under(str(label), predicted(found, ("demographic_parity", "false_negative_rate"), pos_label=label))
    return record


@configuration("predictions: few rows")
def _() -> Record:
    return predicted(decided(45, n_groups=3), (*CRITERIA, "demographic_parity_ratio"), confidence_level=0.9)


@configuration("predictions: every small count")
def _() -> Record:
    record: Record = {}
    group, truth = np.repeat([0, 1], [60, 200]), np.arange(260) % 2
    for count in (
        *range(21),
        *range(40, 61),
    ):  # positive decisions in the first group; limits depend on how few there are
        decision = np.concatenate([np.arange(60) < count, np.arange(200) % 9 < 4]).astype(np.int64)
        found = Decided(Sample(np.empty((260, 0)), truth, group), decision.astype(np.float64), decision)
        record |= under(str(count), predicted(found, FOUR_FIFTHS, ("percentile", "normal"), n_replicates=100))
    return record


# -- Audits -----------------------------------------------------------------------------------------------------------

ASKED: dict[str, Any] = {
    "label": "outcome",
    "sensitive": "sex",
    "criterion": "demographic_parity",
    "margin": 0.1,
    "positive": "yes",
    "drop": ["person", "weight", "region"],
    "confidence_level": 0.95,
    "loss": "log_loss",
    "tolerance": 0.0,
    "penalty": 1.0,
    "alpha": 0.01,
    "n_replicates": 60,
    "n_constraint": 500,
    "random_state": 5,
    "n_jobs": 1,
}


def audit_columns(n: int = 6_000) -> dict[str, list[Any]]:
    """Columns of the table that audits read, with numbers, text, gaps and several rows for each person."""
    sample = draw(n, 5, columns=2, weighted=True)
    rng = np.random.default_rng(6)
    job = np.array(["clerk", "driver", "nurse", "cook"])[rng.integers(0, 4, size=n)]
    gap = rng.random(n) < 0.03
    columns: dict[str, list[Any]] = {f"x{i}": sample.X[:, i].round(6).tolist() for i in range(4)}
    columns["x3"] = [None if missing else value for missing, value in zip(gap.tolist(), columns["x3"], strict=True)]
    columns |= {"job": job.tolist()} | {name: values.tolist() for name, values in sample.groups.items()}
    columns |= {"weight": sample.weight.round(4).tolist(), "person": rng.integers(0, n // 3, size=n).tolist()}
    return columns | {"outcome": np.array(["no", "yes"])[sample.y].tolist()}


def write_csv(path: Path) -> Path:
    """Write the table of audits to a CSV file."""
    columns = audit_columns()
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(
            ["" if value is None else value for value in row] for row in zip(*columns.values(), strict=True)
        )
    return path


def audited(**changes: Any) -> Record:
    """Numbers of an audit of a CSV file."""
    with tempfile.TemporaryDirectory() as folder:
        return walk(surefair().audit(write_csv(Path(folder) / "rows.csv"), **(ASKED | changes)).to_dict())


CONFIGURATIONS |= {
    "audit: demographic parity": audited,
    "audit: equalized odds": partial(audited, criterion="equalized_odds", penalty=5.0),
    "audit: weights": partial(audited, weights="weight", drop=["person", "region"]),
    "audit: split by person": partial(audited, split_by="person", drop=["weight", "region"]),
    "audit: equalized odds, weights, split by person": partial(
        audited, criterion="equalized_odds", weights="weight", split_by="person", drop=["region"]
    ),
    "audit: two columns, squared error, ratio": partial(
        audited,
        sensitive=["sex", "region"],
        drop=["person", "weight"],
        loss="squared_error",
        metrics=["demographic_parity_ratio"],
        margin=0.8,
        confidence_level=0.9,
    ),
    "audit: criterion none, order kept, sensitive included": partial(
        audited, criterion=None, keep_order=True, include_sensitive=True
    ),
}


@configuration("audit: data frame")
def _() -> Record:
    return walk(surefair().audit(pd.DataFrame(audit_columns()), **ASKED).to_dict())


@configuration("audit: checkpoint, resumed")
def _() -> Record:
    with tempfile.TemporaryDirectory() as folder:
        path, kept = write_csv(Path(folder) / "rows.csv"), Path(folder) / "kept"
        surefair().audit(path, **ASKED, checkpoint=kept)
        return walk(surefair().resume(kept, n_jobs=1).to_dict())


@configuration("audit: shards of Parquet files")
def _() -> Record:
    table = pd.DataFrame(audit_columns())
    with tempfile.TemporaryDirectory() as folder:
        for number in range(3):
            table.iloc[2_000 * number : 2_000 * (number + 1)].to_parquet(
                Path(folder) / f"{number}.parquet", index=False
            )
        return walk(surefair().audit(folder, **ASKED, shard_rows=2_000).to_dict())


# -- Calibration, theory and small things -----------------------------------------------------------------------------


def calibrated(rows: dict[str, Any], given: bool = False, asked: dict[str, Any] | None = None, **params: Any) -> Record:
    """The table of a calibration."""
    population = draw(3_000, 8, **rows)
    options = {
        "n_rows": 900,
        "n_evaluation": 500,
        "repetitions": 6,
        "confidence_level": 0.95,
        "metric": None,
        "method": "percentile",
        "coef_method": "basic",
        "sources": SOURCES,
        "constraint_set": draw(500, 3, **rows).parts if given else None,
        "random_state": 2,
        "n_jobs": 1,
        "progress": False,
    } | (asked or {})
    clf = classifier(**({"n_replicates": 30, "n_constraint": 300} | params))
    found = surefair().calibrate(clf, population.X, population.y, sensitive_features=population.groups, **options)
    return numeric_columns(found.table)


CONFIGURATIONS |= {
    "calibrate: demographic parity": partial(calibrated, {}),
    "calibrate: equalized odds, 3 groups": partial(calibrated, {"n_groups": 3}, criterion="equalized_odds"),
    "calibrate: constraint set, ratio, plug-in": partial(
        calibrated,
        {},
        given=True,
        asked={"metric": "demographic_parity_ratio", "method": "cheap", "coef_method": "plug_in"},
    ),
}


def theoretical(rows: dict[str, Any], metric: str, **params: Any) -> Record:
    """The optimum, the covariance of coefficients and the law of the gap."""
    train, population = draw(TRAINING_ROWS, 1, **rows), draw(3_000, 9, **rows)
    clf = classifier(**params).fit(train.X, train.y, **train.by_keyword)
    theory, weight = surefair().theory, {"sample_weight": population.weight}
    record = {
        "optimum": array(theory.optimum(clf, population.X, population.y, **weight)),
        "asymptotic_covariance": array(theory.asymptotic_covariance(clf, population.X, population.y, **weight)),
    }
    for method in ("delta", "sample"):
        law = theory.gap_law(
            clf,
            population.X,
            population.y,
            **population.by_keyword,
            n=2_000,
            metric=metric,
            method=method,
            random_state=4,
        )
        record |= {f"gap_law/{method}/{name}": array(getattr(law, name)) for name in ("mean", "sd", "gaps", "n")}
    return record


CONFIGURATIONS |= {
    "theory: demographic parity": partial(theoretical, {}, "demographic_parity"),
    "theory: tolerance, squared error, weights": partial(
        theoretical, {"weighted": True}, "demographic_parity", tolerance=0.1, loss="squared_error"
    ),
    "theory: criterion none": partial(theoretical, {}, "error_rate", criterion=None),
    "theory: false positive rate, penalty 20": partial(
        theoretical, {}, "false_positive_rate", criterion="false_positive_rate", penalty=20.0
    ),
    "theory: equalized odds, sharpness": partial(
        theoretical, {}, "false_negative_rate", criterion="equalized_odds", sharpness=10.0, n_constraint=150
    ),
    "theory: sparse": partial(theoretical, {"sparse": True, "n_features": 40}, "demographic_parity"),
}


@configuration("scoring")
def _() -> Record:
    rng = np.random.default_rng(10)
    a, b, low = rng.normal(size=300), rng.normal(size=200) + 0.2, rng.normal(size=300) - 2.0
    scoring = surefair().scoring
    return {
        "mean_interval_score": array(scoring.mean_interval_score(a, low, low + 4.0, 0.05)),
        "wasserstein2": array(scoring.wasserstein2(a, b)),
    }


@configuration("datasets: synthetic")
def _() -> Record:
    record: Record = {}
    for name in ("SyntheticDI", "SyntheticDM"):
        found = getattr(surefair().datasets, name)(seed=3).sample(5_000)
        record |= {
            f"{name}/X": array(found.X),
            f"{name}/y": array(found.y),
            f"{name}/sensitive": array(found.sensitive),
        }
    return record


@configuration("0: the rows drawn here")
def _() -> Record:
    record: Record = {}
    kinds: list[dict[str, Any]] = [{}, {"weighted": True}, {"columns": 2}, {"n_groups": 5}, {"n_features": 40}]
    for number, rows in enumerate(kinds):
        sample = draw(TRAINING_ROWS, 1, **rows)
        groups = sample.groups if isinstance(sample.groups, dict) else {"group": sample.groups}
        codes = {name: array(np.unique(column, return_inverse=True)[1]) for name, column in groups.items()}
        weight = {} if sample.weight is None else {"weight": sample.weight}
        record |= under(str(number), {"X": sample.X, "y": array(sample.y)} | codes | weight)
    return record


# -- Collecting -------------------------------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """What a configuration gave: its arrays, or the words of the error that it raised."""

    arrays: Record
    error: str | None


def collect(path: Path, only: str) -> int:
    """Run the configurations, and write what they give to a file."""
    chosen = sorted(name for name in CONFIGURATIONS if only in name)
    if not chosen:
        print(f"There is no configuration with {only!r} in its name.")
        return 2
    sf = surefair()
    print(f"surefair in {Path(sf.__file__).parent}, {len(chosen)} configurations")
    begun, busy, found = time.perf_counter(), time.process_time(), dict[str, Outcome]()
    for name in chosen:
        since = time.perf_counter()
        found[name] = attempt(CONFIGURATIONS[name])
        result = found[name].error or f"{len(found[name].arrays)} arrays"
        print(f"{time.perf_counter() - since:7.2f} s  {name}: {result}", flush=True)
    seconds = time.perf_counter() - begun
    write(path, found, {"place": str(Path(sf.__file__).parent), "seconds": round(seconds, 1), "versions": versions()})
    failed, arrays = [name for name in found if found[name].error], sum(len(one.arrays) for one in found.values())
    numbers = sum(values.size for one in found.values() for values in one.arrays.values())
    print(
        f"{len(chosen)} configurations, {arrays:,} arrays, {numbers:,} numbers in {seconds:.1f} s "
        f"({time.process_time() - busy:.1f} s of processor time); "
        f"{len(failed)} raised an error. Written to {path}."
    )
    return 0


def attempt(function: Callable[[], Record]) -> Outcome:
    """What a configuration gives."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Outcome({name: array(values) for name, values in function().items()}, None)
    except Exception as error:
        return Outcome({}, f"{type(error).__name__}: {error}")


def versions() -> dict[str, str]:
    """Versions of the software that numbers may depend on."""
    names = ("numpy", "scipy", "numba", "scikit-learn", "pandas", "pyarrow", "narwhals", "joblib")
    return {"python": platform.python_version()} | {name: version(name) for name in names}


def write(path: Path, found: Mapping[str, Outcome], about: dict[str, Any]) -> None:
    """Write outcomes to a file: the numbers of a configuration one after another, with a list of names and shapes."""
    parts: dict[str, Any] = {"about": np.array(json.dumps(about))}
    for name, outcome in found.items():
        layout = {key: values.shape for key, values in outcome.arrays.items()}
        parts[f"{name}/layout"] = np.array(json.dumps(layout))
        parts[f"{name}/error"] = np.array(json.dumps(outcome.error))
        parts[f"{name}/values"] = np.concatenate([np.empty(0), *(one.ravel() for one in outcome.arrays.values())])
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **parts)


def read(path: Path) -> tuple[dict[str, Outcome], dict[str, Any]]:
    """Read outcomes from a file, and what it says about itself."""
    found: dict[str, Outcome] = {}
    with np.load(path) as file:
        about: dict[str, Any] = json.loads(str(file["about"]))
        for name in sorted(key.removesuffix("/layout") for key in file.files if key.endswith("/layout")):
            layout = json.loads(str(file[f"{name}/layout"]))
            ends = np.cumsum([int(np.prod(shape)) for shape in layout.values()])
            pieces = np.split(file[f"{name}/values"], ends[:-1]) if layout else []
            arrays = {key: one.reshape(layout[key]) for key, one in zip(layout, pieces, strict=True)}
            found[name] = Outcome(arrays, json.loads(str(file[f"{name}/error"])))
    return found, about


# -- Comparing --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """How the outcomes of one configuration differ."""

    arrays: int = 0  # compared
    numbers: int = 0
    difference: float = 0.0  # the largest, relative
    same_bits: bool = True
    words: str = ""
    added: int = 0  # arrays that only the new version gives

    def differs(self, tolerance: float) -> bool:
        """Whether the difference is larger than allowed."""
        return not self.difference <= tolerance


def compare(old_path: Path, new_path: Path, only: str, tolerance: float) -> int:
    """Print how the numbers of two files differ; the exit status."""
    (old, old_about), (new, new_about) = read(old_path), read(new_path)
    for label, path, about in (("old", old_path, old_about), ("new", new_path, new_about)):
        print(f"{label}: {path}, surefair in {about['place']}, {about['seconds']} s")
    for name in sorted({*old_about["versions"], *new_about["versions"]}):
        pair = [about["versions"].get(name) for about in (old_about, new_about)]
        if pair[0] != pair[1]:
            print(f"Note: {name} is {pair[0]} in the old environment and {pair[1]} in the new one.")
    chosen = sorted(name for name in {*old, *new} if only in name)
    if not chosen:
        print(f"There is no configuration with {only!r} in its name.")
        return 2
    verdicts = {name: judge(old.get(name), new.get(name)) for name in chosen}
    width = max(map(len, chosen))
    print(f"\n{'configuration':{width}}  {'arrays':>6}  {'numbers':>7}  result")
    for name, one in verdicts.items():
        mark = "  << DIFFERENT" if one.differs(tolerance) else ""
        print(f"{name:{width}}  {one.arrays:6,}  {one.numbers:7,}  {described(one)}{mark}")
    return conclude(verdicts, tolerance)


def judge(old: Outcome | None, new: Outcome | None) -> Verdict:
    """Compare what one configuration gave on both sides."""
    if old is None or new is None:
        side = "old" if old is None else "new"
        return Verdict(difference=np.inf, same_bits=False, words=f"missing in the {side} file")
    if old.error is not None and new.error is not None:
        alike = "the same words" if old.error == new.error else f"old: {old.error}; new: {new.error}"
        return Verdict(words=f"raised an error on both sides, {alike}")
    if old.error is not None or new.error is not None:
        side = "old" if new.error is None else "new"
        words = f"raised an error on the {side} side only: {old.error or new.error}"
        return Verdict(difference=np.inf, same_bits=False, words=words)
    return judge_arrays(old.arrays, new.arrays)


def judge_arrays(old: Record, new: Record) -> Verdict:
    """Compare arrays by name; those that only the new side has do not matter, nor undefined ones that it lacks."""
    lost = [name for name, values in old.items() if name not in new and not np.isnan(values).all()]
    both = [name for name in old if name in new]
    worst, where, same, changed = 0.0, "", True, 0
    for name in both:
        a, b = old[name], new[name]
        alike = a.shape == b.shape and bool(
            np.all((a.view(np.uint64) == b.view(np.uint64)) | (np.isnan(a) & np.isnan(b)))
        )
        same, changed = same and alike, changed + (not alike)
        apart = 0.0 if alike else relative_difference(a, b)
        if apart > worst:
            worst, where = apart, name
    words = f"{changed} of {len(both)} arrays, most in {where}" if where else ""
    if where and worst == np.inf:
        words = f"another shape, or undefined on one side only: {words}"
    if lost:
        worst, same = np.inf, False
        words = f"missing in the new file: {len(lost)} of {len(old)} arrays, {lost[0]} first" + (
            f"; {words}" if words else ""
        )
    numbers = sum(old[name].size for name in both)
    return Verdict(len(both), numbers, worst, same, words, len(set(new) - set(old)))


def relative_difference(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Largest difference of two numbers at the same place, over the larger of them; infinite where shapes differ."""
    if a.shape != b.shape:
        return np.inf
    equal = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(all="ignore"):
        apart = np.abs(a - b) / np.maximum(np.abs(a), np.abs(b))
    apart = np.where(equal, 0.0, np.where(np.isfinite(apart), apart, np.inf))
    return float(apart.max(initial=0.0))


def described(one: Verdict) -> str:
    """The result of a comparison in words."""
    more = f"; {one.added} more in the new file" if one.added else ""
    if one.same_bits:
        return (one.words or "same bits") + more
    if one.words and one.difference == np.inf:
        return one.words + more
    words = f" ({one.words})" if one.words else " (the sign of a zero)"
    return f"largest relative difference {one.difference:.1e}{words}{more}"


def conclude(verdicts: Mapping[str, Verdict], tolerance: float) -> int:
    """Print the numbers of the whole comparison; the exit status."""
    different = [name for name, one in verdicts.items() if one.differs(tolerance)]
    raised = [name for name, one in verdicts.items() if one.words.startswith("raised an error on both")]
    same = [name for name, one in verdicts.items() if one.same_bits and name not in raised]
    finite = [one.difference for one in verdicts.values() if one.difference < np.inf]
    print(f"\nConfigurations:               {len(verdicts):,}")
    print(f"  same bits:                  {len(same):,}")
    print(f"  within {tolerance:g}, other bits:  {len(verdicts) - len(same) - len(raised) - len(different):,}")
    print(f"  different:                  {len(different):,}")
    print(f"  raised on both sides:       {len(raised):,}")
    print(f"Arrays compared:              {sum(one.arrays for one in verdicts.values()):,}")
    print(f"Numbers compared:             {sum(one.numbers for one in verdicts.values()):,}")
    print(f"Arrays only in the new file:  {sum(one.added for one in verdicts.values()):,}")
    print(f"Largest finite difference:    {max(finite, default=0.0):.1e}")
    return 1 if different else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status."""
    parser = argparse.ArgumentParser(description="Check that two versions of surefair give the same numbers.")
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("collect", help="write the numbers of the surefair that this interpreter imports")
    first.add_argument("out", type=Path)
    second = commands.add_parser("compare", help="compare two files of numbers")
    second.add_argument("old", type=Path)
    second.add_argument("new", type=Path)
    second.add_argument("--tolerance", type=float, default=TOLERANCE, help="largest relative difference allowed")
    for command in (first, second):
        command.add_argument(
            "--only", default="", metavar="SUBSTRING", help="only configurations with this in their name"
        )
    asked = parser.parse_args(arguments)
    if asked.command == "collect":
        return collect(asked.out, asked.only)
    return compare(asked.old, asked.new, asked.only, asked.tolerance)


if __name__ == "__main__":
    sys.exit(main())
