"""The coverage laboratory: how often intervals contain the truth, with your data as the population.

On a known population the truth is known: the optimum θ* and the gap of any model. Rows are drawn from it with
replacement many times, a classifier is fitted to each draw, and its intervals are compared with their truths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from surefair.bootstrap import BootstrapClassifier
from surefair.calibration.learners import calibrate_learner
from surefair.calibration.repetitions import Design, Fitting, draw, repeat, table
from surefair.calibration.result import Calibration
from surefair.classifier import FairClassifier, check_groups_given, declare
from surefair.criteria import Criterion
from surefair.inference.coefficients import COVARIANCE_METHODS
from surefair.inference.interval import Question, plain
from surefair.inference.limits import BOOTSTRAP_METHODS, METHODS, check_level
from surefair.inference.metric import get_metric
from surefair.inference.refits import METHODS as REFIT_METHODS
from surefair.inference.sample import Input
from surefair.inference.sources import SOURCES
from surefair.inference.theory import learnt_optima, nearest, population_optima
from surefair.names import counted, one_of
from surefair.rows import FloatArray, IntArray, Rows, make_frame
from surefair.training.model import Model, Problem
from surefair.training.parameters import check_parameters, draw_seed, problem_of

PILOTS = 5  # fits that may lead to an optimum of the population
LEAST_ROWS = 10
"""Rows without which data cannot stand for a population."""
MOST_REPETITIONS = 1_000_000
MOST_BYTES = 2**33  # for the rows of a repetition


def calibrate(
    clf: FairClassifier | BootstrapClassifier,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    n_rows: int | None = None,
    n_evaluation: int = 2000,
    repetitions: int = 200,
    confidence_level: float = 0.95,
    metric: str | Criterion | None = None,
    method: str | None = None,
    coef_method: str = "basic",
    sources: str | Sequence[str] = tuple(SOURCES),
    constraint_set: Any = None,
    sample_weight: Any = None,
    fit: Fitting | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: bool = True,
) -> Calibration:
    """Measure how often a classifier's intervals contain the truth, with these rows as the whole population.

    In each repetition training rows and evaluation rows are drawn with replacement, a classifier is fitted with its
    replicates, and its intervals are compared with the truth of each source. The constraint is learnt from the training
    rows, so everything is drawn anew, unless you fix it by a ``constraint_set`` or a ``PolynomialDecay``. With θ* the
    optimum on the population, ``training`` is for the gap of θ* on these evaluation rows, ``retraining`` for the
    gap on them of a second, independent fit, ``evaluation`` for the population gap of this fit, and ``total`` for the
    population gap of θ*. Coefficients are for θ*. With more than two groups, or several rates, the unfairness takes the
    place of the gap.

    For a ``BootstrapClassifier``, the mean over models that are trained on as many fresh rows takes the place of θ*.

    There may be several local optima. Then θ* is the one that the fit's own solver prefers; under a fixed constraint it
    is the one nearest to a fit on the whole population.

    Parameters
    ----------
    clf : FairClassifier or BootstrapClassifier
        The settings to try, fitted or not; it is not changed. Its ``random_state`` and ``n_jobs`` are not used.
    X, y, sensitive_features
        The population, as in ``FairClassifier.fit``.
    n_rows : int, optional
        Training rows of each repetition; by default as many as the population has.
    n_evaluation : int
        Evaluation rows of each repetition.
    repetitions : int
        Number of repetitions; after R the coverage is known within about ±0.44/√R, 3 points after 200.
    confidence_level : float
    metric : str, Criterion or None
        As in ``fairness_interval``.
    method, coef_method : str, optional
        As ``method`` in ``fairness_interval`` and in ``coef_interval``.
    sources : str or sequence of str
        Sources to try, out of "training", "retraining", "evaluation" and "total".
    constraint_set : tuple (X, y, sensitive_features) or (X, y, sensitive_features, sample_weight), optional
        Rows that fix the constraint. By default none; under a ``PolynomialDecay``, ``clf.n_warmup`` rows, at most a
        fifth of the population, drawn once with replacement.
    sample_weight : array-like of shape (n_rows,), optional
        A row of twice the weight is drawn twice as often. Rows that were drawn have equal weights.
    fit : callable, optional
        How rows are fitted, if not in one pass: ``fit(clf, X, y, sensitive_features=..., constraint_set=...)`` returns
        the fitted classifier, for example one that was merged from shards.
    random_state : int
        Seed of everything; the result does not depend on ``n_jobs``.
    n_jobs : int or None
        Processes; -1 for one on every core.
    progress : bool
        Whether to show a progress bar on a terminal.

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
    sources = (sources,) if isinstance(sources, str) else tuple(sources)
    _check_sources(sources)
    check_whole("n_evaluation", n_evaluation, 1)
    check_whole("repetitions", repetitions, 2, MOST_REPETITIONS)
    check_whole("random_state", random_state, 0)
    if n_rows is not None:
        check_whole("n_rows", n_rows, 2)
    check_level(confidence_level)
    refitted = isinstance(clf, BootstrapClassifier)
    method = one_of(method or ("auto" if refitted else "percentile"), REFIT_METHODS if refitted else METHODS, "method")
    one_of(coef_method, (*BOOTSTRAP_METHODS, *COVARIANCE_METHODS), "method of coefficients")
    if isinstance(clf, BootstrapClassifier):
        if constraint_set is not None or fit is not None:
            raise ValueError("constraint_set and fit are for a FairClassifier. Leave them out.")
        check_groups_given(sensitive_features)
        question = Question(get_metric(metric or "demographic_parity"), sources[0], method, float(confidence_level))
        given = Input(sensitive_features, sample_weight=sample_weight)
        return calibrate_learner(clf, X, y, given, question, sources, (n_rows, n_evaluation), repetitions,
                                 random_state, (n_jobs, progress))  # fmt: skip
    if not isinstance(clf, FairClassifier):
        raise TypeError(f"calibrate takes a FairClassifier or a BootstrapClassifier; received {type(clf).__name__}.")
    check_groups_given(sensitive_features)
    _, _, rows, apart_given = declare(clf, X, y, sensitive_features, constraint_set, sample_weight)
    population = rows.trimmed()  # groups that are declared and do not occur cannot be drawn
    population.groups.check_comparable()
    apart = None if apart_given is None else apart_given.trimmed().among(population.groups)
    check_parameters(clf, fixed=apart is not None)
    if clf.n_replicates < 2:
        raise ValueError(
            f"An interval needs replicates, and this classifier has n_replicates={clf.n_replicates}. Use "
            "n_replicates=200, for example."
        )
    if population.n < LEAST_ROWS:
        raise ValueError(
            f"{counted(population.n, 'row is', 'rows are')} too few to stand for a population. Pass {LEAST_ROWS} or "
            "more."
        )
    n_rows = population.n if n_rows is None else int(n_rows)
    check_room(n_rows + n_evaluation, population.X.shape[1])
    measured = get_metric(metric or clf.criterion or "demographic_parity")
    rng = np.random.default_rng([random_state, 0])
    problem = problem_of(clf, draw_seed(random_state))
    if problem.learns and apart is None:
        alone = replace(problem, n_replicates=0)
        draws = [draw(population, n_rows, rng) for _ in range(PILOTS)]
        pilots = [Model.of(alone, one.names, one.X.shape[1]).train(one).trained for one in draws]
        found_optima = learnt_optima(problem, population, pilots=pilots)
        optima, star = len(found_optima), found_optima[0].theta
    else:
        drawn = draw(population, min(clf.n_warmup, population.n // 5), rng)
        apart = drawn if apart is None else apart
        optima, star = _solve(problem, population, apart, rng.permutation(population.n))
    design = Design(
        clf=clf,
        problem=problem,
        population=population,
        constraint_set=apart,
        star=star,
        n_rows=n_rows,
        n_evaluation=n_evaluation,
        question=Question(measured, sources[0], method, float(confidence_level)),
        coef_method=coef_method,
        sources=sources,
        fitting=fit,
        seed=random_state,
    )
    found = reduce(add, repeat(design, repetitions, n_jobs, progress))
    names = [*(population.names.features or found.features)]
    names += found.features[len(names) :]
    settings = {
        "repetitions": int(repetitions),
        "n_rows": n_rows,
        "n_evaluation": int(n_evaluation),
        "n_population": population.n,
        "everything_redrawn": apart is None,
        "confidence_level": float(confidence_level),
        "metric": measured.name,
        "method": method,
        "coef_method": coef_method,
        "random_state": int(random_state),
        "local_optima": optima,
        "classifier": {name: _shown(value) for name, value in clf.get_params(deep=False).items()},
    }
    return Calibration(
        table=make_frame(table(design, found, names), like=X),
        settings=settings,
        warned={name: found.warned[name] / repetitions for name in sorted(found.warned)},
        errors=found.each[..., 0],
        widths=found.each[..., 1],
    )


def _solve(problem: Problem, population: Rows, apart: Rows, order: IntArray) -> tuple[int, FloatArray]:
    """Number of local optima of the population's problem, and the one nearest to a fit of the whole population."""
    rows = population.part(order)
    pilot = Model.of(replace(problem, n_replicates=0), rows.names, rows.X.shape[1]).train(rows, apart)
    found = [one.theta for one in population_optima(pilot.trained, rows)]
    return len(found), found[nearest(found, pilot.coefficients)]


def _check_sources(sources: tuple[str, ...]) -> None:
    if not sources:
        raise ValueError(f"sources is empty. Name at least one of {', '.join(SOURCES)}.")
    for source in sources:
        one_of(source, SOURCES, "source")


def check_whole(name: str, value: Any, least: int, most: float = np.inf) -> int:
    """Refuse what is not a whole number, too small, or absurdly large."""
    if not (isinstance(value, int | np.integer) and value >= least):
        raise ValueError(f"{name} must be a whole number, {least} or larger; received {value!r}.")
    if value > most:
        raise ValueError(f"{name} must be {most:,} or less; received {value:,}. Choose a smaller number.")
    return int(value)


def check_room(n_rows: int, n_features: int) -> None:
    """Refuse so many rows for each repetition that they would need too much memory."""
    need = 8 * n_rows * (n_features + 4)  # label, group, weight and place of each row besides its features
    if need > MOST_BYTES:
        raise ValueError(
            f"{n_rows:,} rows with {n_features:,} features would need about {need / 2**30:,.1f} GiB in each repetition,"
            f" and at most {MOST_BYTES // 2**30} are allowed. Draw fewer rows (n_rows, --rows)."
        )


def _shown(value: Any) -> Any:
    """Parameter as JSON can hold it, or as text."""
    value = plain(value)
    return value if value is None or isinstance(value, str | int | float) else str(value)
