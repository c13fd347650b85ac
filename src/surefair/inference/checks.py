"""Checks of a fit that run when someone asks for an interval.

This file gathers the numbers; the files in ``diagnostics`` say what the numbers should be and what to do.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from surefair.criteria import Slabs
from surefair.diagnostics import (
    Diagnostic,
    boundary_constraint,
    constant_decisions,
    covariance_disagreement,
    degenerate_replicates,
    path_too_short,
    start_not_forgotten,
    step_bias,
    step_too_large,
    step_too_small,
    time_dependence,
    too_few_replicates,
    uninformative_model,
    unsettled_model,
    upper_limit,
)
from surefair.inference import coefficients, covariance
from surefair.inference.counts import Counts
from surefair.inference.limits import BOOTSTRAP_METHODS
from surefair.inference.sandwich import free_curvature
from surefair.rows import FloatArray, is_sparse
from surefair.training.checks import check_divergence
from surefair.training.coordinates import enough_rows
from surefair.training.fit import Fit
from surefair.training.model import Model

FLAT = 1e-3  # curvature, relative to the largest, below which rows do not show a direction
PATH = 1_000  # rows without which the path of the average says nothing
POINTS = 200  # numbers of rows at which the dynamics are looked at

_FOUND: WeakKeyDictionary[Fit, list[Diagnostic]] = WeakKeyDictionary()


def training_diagnostics(fit: Fit) -> list[Diagnostic]:
    """Check start, steps, replicates, the constraint's boundary and the stream; the result is kept for each fit."""
    if fit not in _FOUND:
        _FOUND[fit] = _check_training(fit)
    return [*_FOUND[fit]]


def _check_training(fit: Fit) -> list[Diagnostic]:
    if diverged := check_divergence(fit):
        return diverged
    theta = fit.theta
    B = fit.problem.n_replicates
    found = degenerate_replicates.check(theta[:, 1:]) if B > 1 else []
    if fit.is_learnt:
        return found or _check_learnt(fit, theta)
    moments = _moments(fit)
    if found or moments is None:
        return found
    settings = fit.learner.settings
    form = fit.learner.form
    mean = fit.learner.mean(fit.without_replicates)[:, 0]
    active = None
    if isinstance(form, Slabs) and settings.tolerance > 0.0 and B > 1:
        room, across, push, error = _faces(fit, mean, moments)
        found = boundary_constraint.check(room, across, push, error, settings.tolerance)
        active = room <= 3.0 * across
    basis, curvature = free_curvature(settings, form, mean, moments.hessian, active=active)
    values, directions = np.linalg.eigh(curvature)
    top = values.max(initial=0.0)
    along = basis @ directions
    if top <= 0.0:
        return found
    rows = np.r_[0.0, np.geomspace(1.0, max(fit.state.k / fit.shards, 1.0), POINTS)]  # in each shard, on average
    steps = settings.schedule.total(rows)
    left = start_not_forgotten.remaining_share(np.maximum(values, settings.alpha), rows, steps)
    ahead = np.divide(left, 1.0 - left, out=np.zeros_like(left), where=left < 1.0)
    bias = fit.to_features(along @ (ahead * ((settings.start - mean) @ along)))
    reach = float(values[values > FLAT * top].min() * settings.schedule.total(rows[-1:])[0])
    plug_in = np.sqrt(np.maximum(np.diag(coefficients.sandwich(fit, moments.hessian, moments.scores)), 0.0))
    if B < 2:
        return found + _check_start(bias, plug_in, reach)
    off = theta[:, 1:].mean(axis=1) - theta[:, 0]
    sd = theta[:, 1:].std(axis=1, ddof=1)
    size = np.linalg.norm(fit.W, axis=1) if fit.W.ndim == 2 else fit.W
    held = sd <= 1e-6 * size * (sd / size).max()  # a constraint fixes the coefficient, up to rounding
    sd = np.where(held, 0.0, sd)
    plug_in = np.where(held, 0.0, plug_in)
    found += _check_start(bias, upper_limit(sd, B), reach) + step_too_large.check(off, sd, plug_in, B)
    found = found or step_bias.check(off, sd, B)
    if not found and coefficients.is_traced(fit) and fit.state.k >= PATH:
        scaling = np.sqrt(np.maximum(np.diag(coefficients.scaling(fit)), 0.0) / fit.state.k)
        found = time_dependence.check_path(scaling, sd, B)
    return found or covariance_disagreement.check(sd, plug_in, B)


def _check_learnt(fit: Fit, theta: FloatArray) -> list[Diagnostic]:
    """Check a fit whose constraint is learnt from all rows: the boundary of the constraint, the path, the spread."""
    B = fit.problem.n_replicates
    if B < 2:
        return []
    learner: Any = fit.learner
    found: list[Diagnostic] = []
    whole = fit.exact and fit.n_rows == fit.first.n
    if fit.is_newton:
        # In one pass, rows were too few to begin with; rows of one cluster are worth fewer than there are.
        usual = learner.usual(fit.state) if whole and fit.first.cluster is None else 0.0
        found = unsettled_model.check(learner.mean(fit.state), fit.state.origin[: len(fit.W)], usual)
    if found:
        return found
    if whole or fit.first.cluster is not None:  # the limit law is for many rows, which are independent
        return found
    sd = theta[:, 1:].std(axis=1, ddof=1)
    if not fit.is_newton:  # the rest needs moments of all features
        if fit.problem.penalty is None and fit.problem.surrogate == "decisions":
            beyond, spread = learner.unmet(fit.state)
            found += start_not_forgotten.check(beyond, spread, what="a gap between groups")
        return found or step_bias.check(theta[:, 1:].mean(axis=1) - theta[:, 0], sd, B)
    if coefficients.is_traced(fit) and fit.n_rows - fit.first.n >= PATH:
        scaling = np.sqrt(np.maximum(np.diag(coefficients.scaling(fit)), 0.0) / fit.n_rows)
        found += time_dependence.check_path(scaling, sd, B)
    return found


def _check_covariance(fit: Fit) -> list[Diagnostic]:
    """Compare the plug-in sandwich with the replicates, where it takes the constraint's own noise into account."""
    B = fit.problem.n_replicates
    if not (fit.is_newton and fit.is_finite and B > 1):
        return []
    plug_in = np.sqrt(np.maximum(np.diag(coefficients.plug_in_covariance(fit)), 0.0))
    return covariance_disagreement.check(fit.theta[:, 1:].std(axis=1, ddof=1), plug_in, B)


def _check_boundary(fit: Fit) -> list[Diagnostic]:
    """Check whether constraints that are learnt clearly hold the fit back: limit laws need it, replicates do not."""
    tolerance = fit.tolerance
    if not (fit.is_learnt and tolerance > 0.0 and fit.problem.n_replicates > 1):
        return []
    learner: Any = fit.learner
    push, gap = learner.pushes(fit.state)
    sd, error = (part[:, 1:].std(axis=1, ddof=1) for part in (gap, push))
    return boundary_constraint.check(tolerance - np.abs(gap[:, 0]), sd, np.abs(push[:, 0]), error, tolerance)


def _check_start(bias: FloatArray, sd: FloatArray, reach: float) -> list[Diagnostic]:
    found = start_not_forgotten.check(bias, sd)
    return step_too_small.check(reach) + found if found else []


def _check_random_scaling(fit: Fit) -> list[Diagnostic]:
    """Check whether iterates forget fast enough for random scaling: within 1 / (η λ) rows, λ the smallest curvature."""
    if diverged := check_divergence(fit):
        return diverged
    if fit.is_newton:
        return []
    hessian, _ = coefficients.plug_in_moments(fit)
    settings = fit.learner.settings
    mean = fit.learner.mean(fit.without_replicates)[:, 0]
    _, curvature = free_curvature(settings, fit.learner.form, mean, hessian)
    values = np.linalg.eigvalsh(curvature)
    flat = values[values > FLAT * values.max(initial=0.0)].min(initial=np.inf)
    rows = np.geomspace(fit.state.k, 1e12, POINTS).round()
    memory = np.array([1.0 / (flat * settings.schedule.steps(int(n), 1)[0]) for n in rows])
    return path_too_short.check(memory, rows, fit.n_rows)


def coefficient_diagnostics(model: Model, confidence_level: float, method: str) -> list[Diagnostic]:
    """Check the assumptions of intervals for coefficients."""
    fit = model.trained
    found = [*training_diagnostics(fit), *model.order_diagnostics()]
    if method in BOOTSTRAP_METHODS:
        found += too_few_replicates.check(fit.problem.n_replicates, confidence_level, method)
    else:
        found += _check_boundary(fit)
    if method == "plug_in":
        found += _check_covariance(fit)
    if method == "random_scaling":
        found += _check_random_scaling(fit)
    return found


def decision_diagnostics(counts: Counts, n_groups: int) -> list[Diagnostic]:
    """Check the counts of a model's decisions (groups, 2, 2), of which the first column has so many groups."""
    rows, weight, square = (part[:n_groups].sum(axis=0) for part in counts)  # each row once
    found = constant_decisions.check(weight.sum(axis=0).tolist(), weight.sum(axis=1).tolist())
    return found or uninformative_model.check(rows, weight, square)


class _Moments(NamedTuple):
    """Hessian of loss and ridge; covariance, mean and number of the scores; all in the learner's coordinates."""

    hessian: FloatArray
    scores: FloatArray
    mean: FloatArray
    n: int


def _moments(fit: Fit) -> _Moments | None:
    """Moments of the pass, if its trace is kept; otherwise on the constraint set, if it has enough rows."""
    if coefficients.is_traced(fit):
        return _Moments(*coefficients.plug_in_moments(fit), *covariance.mean_score(coefficients.trace(fit)))
    rows = fit.first
    X = fit.to_learner(rows.X)
    if not (fit.state.k and rows.weight.any() and enough_rows(X)):
        return None
    X = X.toarray() if is_sparse(X) else X.astype(np.float64)
    share = rows.weight / rows.weight.sum()
    loss = fit.problem.loss
    score = X @ fit.learner.mean(fit.without_replicates)[:, 0]
    slopes = X * loss.derivative(score, rows.y)[:, None]
    mean = share @ slopes
    scores = (slopes * share[:, None]).T @ slopes - np.outer(mean, mean)
    hessian = (X * (share * loss.curvature(score, rows.y))[:, None]).T @ X
    return _Moments(hessian + fit.problem.alpha * np.eye(len(hessian)), scores, mean, rows.n)


def _faces(fit: Fit, mean: FloatArray, moments: _Moments) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """For each slab: room of the fit to its face, spread of the replicates across it, multiplier, standard error."""
    settings = fit.learner.settings
    vectors = fit.learner.form.vectors
    across = vectors @ fit.learner.mean(fit.state)
    room = settings.tolerance - np.abs(across[:, 0])
    sd = across[:, 1:].std(axis=1, ddof=1)
    near = np.flatnonzero(room <= 3.0 * sd)
    normals = np.sign(across[near, :1]) * vectors[near]
    solve = np.linalg.pinv(normals.T, rcond=1e-10)
    push = np.zeros(len(vectors))
    error = np.full(len(vectors), np.inf)
    push[near] = solve @ -(moments.mean + settings.alpha * mean)
    error[near] = np.sqrt(np.maximum(np.sum(solve @ moments.scores * solve, axis=1), 0.0) / moments.n)
    return room, sd, push, error
