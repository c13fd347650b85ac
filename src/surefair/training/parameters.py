"""The parameters of a classifier: what is refused, and the ``Problem`` that they describe.

Everything here takes a ``FairClassifier``, or any object with its parameters as attributes.
"""

from __future__ import annotations

from dataclasses import fields
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from surefair.criteria import CRITERIA, SURROGATES, Criterion, Slabs, get_criterion
from surefair.learners.multipliers import LAWS, SIGNED_LAWS
from surefair.learners.schedules import PolynomialDecay
from surefair.losses import LOSSES
from surefair.names import one_of
from surefair.training.problem import SOLVERS, Problem

DTYPES = ["float64", "float32"]
MOST_REPLICATES = 1_000_000


def check_parameters(clf: Any, fixed: bool = False) -> None:
    """Refuse parameters that make no sense; ``fixed`` where a constraint set fixes the constraint."""
    criterion = None if clf.criterion is None else get_criterion(clf.criterion)
    one_of(clf.loss, LOSSES, "loss")
    one_of(clf.surrogate, SURROGATES, "surrogate")
    one_of(clf.multiplier, ["auto", *LAWS], "multiplier")
    one_of(clf.dtype, DTYPES, "dtype")
    one_of(clf.solver, SOLVERS, "solver")
    if clf.solver == "exact":
        check_law(clf.multiplier, "solver='exact'")
    if isinstance(clf.step_size, str):
        one_of(clf.step_size, ["auto"], "step_size")
    elif not isinstance(clf.step_size, PolynomialDecay):
        raise ValueError(
            f"step_size must be 'auto' or a schedule such as sf.PolynomialDecay(0.5, 0.6); received {clf.step_size!r}."
        )
    if criterion is not None and criterion.form is None:
        raise ValueError(
            f"criterion={criterion.name!r} can be measured but not constrained. Train with another criterion, or "
            f"with criterion=None, and pass metric={criterion.name!r} to fairness_interval."
        )
    for name in ("fit_intercept", "intersections"):
        if not isinstance(getattr(clf, name), bool | np.bool_):
            raise ValueError(f"{name} must be True or False; received {getattr(clf, name)!r}.")
    if clf.sharpness is not None and not (isinstance(clf.sharpness, Real) and 0.0 < float(clf.sharpness) < np.inf):
        raise ValueError(f"sharpness must be None or a positive number; received {clf.sharpness!r}.")
    for name in ("tolerance", "alpha"):
        value = getattr(clf, name)
        if not (isinstance(value, Real) and 0.0 <= float(value) < np.inf):
            raise ValueError(f"{name} must be a number, 0 or larger; received {value!r}.")
    if clf.penalty is not None and not (isinstance(clf.penalty, Real) and 0.0 < float(clf.penalty) < np.inf):
        raise ValueError(f"penalty must be a positive number, or None for a constraint; received {clf.penalty!r}.")
    if clf.penalty is not None and clf.tolerance > 0.0:
        raise ValueError(
            f"tolerance bounds the gap of a constraint, and penalty takes the place of a constraint; received "
            f"tolerance={clf.tolerance!r} and penalty={clf.penalty!r}. Leave one of them out."
        )
    for name, least in (("n_replicates", 0), ("n_warmup", 1)):
        value = getattr(clf, name)
        if not (isinstance(value, int | np.integer) and value >= least):
            raise ValueError(f"{name} must be a whole number, {least} or larger; received {value!r}.")
    if clf.n_replicates > MOST_REPLICATES:
        raise ValueError(
            f"n_replicates must be {MOST_REPLICATES:,} or less; received {clf.n_replicates:,}, which would need "
            f"{64 * clf.n_replicates / 2**30:,.1f} GiB even with one feature. 200 are enough for intervals of 95 %."
        )
    if fixed or clf.step_size != "auto":
        _check_fixed(clf, criterion)
    elif criterion is not None:
        _check_learnt(clf)


def _check_learnt(clf: Any) -> None:
    """Refuse what a constraint that is learnt from all rows cannot do."""
    if clf.surrogate == "decisions" and clf.tolerance >= 1.0:
        raise ValueError(
            f"tolerance bounds the gap between two shares of decisions, so it must be less than 1; received "
            f"{clf.tolerance!r}."
        )


def _check_fixed(clf: Any, criterion: Criterion | None) -> None:
    """Refuse what a constraint that is fixed by a set of rows cannot do."""
    if criterion is None:
        return
    penalised = criterion.form is not Slabs
    ignored, other = ("tolerance", "penalty") if penalised else ("penalty", "tolerance")
    if getattr(clf, ignored):
        raise ValueError(
            f"{ignored}={getattr(clf, ignored)!r} would have no effect: where a set of rows fixes the constraint, "
            f"{criterion.name!r} is constrained by {other}, as in the paper. Set {other} instead, or leave out the "
            "constraint_set and the PolynomialDecay to learn the constraint from all rows."
        )
    if penalised and clf.step_size == "auto" and clf.multiplier in SIGNED_LAWS:
        raise ValueError(
            f"multiplier={clf.multiplier!r} has negative weights, for which the implicit penalty step of "
            "step_size='auto' is not defined. Use 'two_point', 'exponential' or 'poisson'."
        )


def check_law(multiplier: str, what: str) -> None:
    """Refuse negative weights where the problem of a replicate would then have no optimum."""
    if multiplier in SIGNED_LAWS:
        raise ValueError(
            f"multiplier={multiplier!r} has negative weights, which do not work for {what}. Use 'auto', 'two_point', "
            "'exponential' or 'poisson'."
        )


def problem_of(clf: Any, seed: int) -> Problem:
    """Return the parameters with names looked up."""
    return Problem(
        criterion=None if clf.criterion is None else get_criterion(clf.criterion),
        loss=LOSSES[clf.loss],
        tolerance=float(clf.tolerance),
        surrogate=clf.surrogate,
        penalty=None if clf.penalty is None else float(clf.penalty),
        sharpness=None if clf.sharpness is None else float(clf.sharpness),
        alpha=float(clf.alpha),
        step_size=clf.step_size if isinstance(clf.step_size, PolynomialDecay) else None,
        solver=clf.solver,
        n_replicates=int(clf.n_replicates),
        multiplier=clf.multiplier,
        seed=int(seed),
        n_warmup=int(clf.n_warmup),
        fit_intercept=bool(clf.fit_intercept),
        intersections=bool(clf.intersections),
        dtype=clf.dtype,
    )


def parameters_of(problem: Problem) -> dict[str, Any]:
    """Return the parameters of a classifier from which ``problem_of`` would make this problem."""
    found = {field.name: getattr(problem, field.name) for field in fields(problem)}
    criterion = problem.criterion
    if criterion is not None and criterion == CRITERIA.get(criterion.name):
        found["criterion"] = criterion.name
    del found["seed"]
    return found | {"loss": problem.loss.name, "step_size": problem.step_size or "auto"}


def draw_seed(random_state: Any) -> int:
    """Draw the seed of the replicates' weights from a ``random_state``."""
    return int(check_random_state(random_state).randint(0, 2**63 - 1, dtype=np.int64))
