"""What to doubt of a fit: its start, its steps, its replicates, its constraint, its constraint set.

Here the numbers are worked out; ``diagnostics`` says what they must be and what to do.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.special import chdtrc

from surefair.criteria import Members, Slabs
from surefair.diagnostics import (
    DegenerateReplicates,
    Diagnostic,
    StepTooLarge,
    check_alike,
    check_bias,
    check_boundary,
    check_constraint_set,
    check_covariance,
    check_memory,
    check_path,
    check_replicates,
    check_separable,
    check_start,
    check_steps,
    left_of_start,
    limit,
)
from surefair.inference import theory
from surefair.learners import trace as covariances
from surefair.learners.schedules import enough_rows
from surefair.losses import LOSSES
from surefair.rows.arrays import FloatArray, is_sparse
from surefair.training.model import Fit, Rows

FLAT = 1e-3  # curvature, relative to the largest, of directions that rows do not show
PATH = 1_000  # rows without which the path of the average says nothing
POINTS = 200  # numbers of rows at which dynamics are looked at
FEW_WRONG = 0.02  # share of rows on the wrong side, with more of which labels are not separable
KINDS, LOOKED_AT = 100, 20_000  # kinds of evaluation rows near the boundary, among these first rows
DIVERGED = "the fit or some replicates diverged: the step is too large for this problem"


def of_constraint_set(fit: Fit) -> list[Diagnostic]:
    """What to warn of as soon as the constraint set is complete."""
    problem, (raw, y, group, weight), found = fit.problem, fit.constraint_set, list[Diagnostic]()
    if problem.criterion is not None and problem.groups is not None:
        looked_at = [rate.looks_at(y) & (weight > 0.0) for rate in problem.criterion.rates]
        members = Members(group, problem.groups.sizes, weight).indicators()
        least = np.min([members[part].sum(axis=0) for part in looked_at], axis=0)
        found += check_constraint_set(least.astype(int).tolist(), problem.groups.words)
    if fit.rigid:
        sizes = ", ".join(map(str, problem.groups.sizes)) if problem.groups is not None else ""
        n = len(fit.W) - int(problem.fit_intercept)
        words = (
            f"Constraints for {sizes} groups fix the coefficients of all {n} features at 0: nothing is left to "
            "learn. Raise tolerance, add features, or constrain fewer groups."
        )
        found.append(DegenerateReplicates(words))
    X, start = fit.features(raw), fit.learner.settings.start
    enough = enough_rows(X) and not is_sparse(X)
    if enough and problem.criterion is not None and problem.groups is not None and _held(fit):
        numbers = X[:, :-1] if problem.fit_intercept else X
        p = [_alike(numbers, codes, n) for codes, n in zip(group.T, problem.groups.sizes, strict=True)]
        found += check_alike(p, [*problem.groups.levels])
    if problem.loss is LOSSES["log_loss"] and weight.any():
        moved, some = fit.moved(raw), weight > 0.0
        margins = moved @ start
        likely = not start.any() or np.mean((y * margins <= 0.0)[some]) < FEW_WRONG
        separable = bool(enough and likely and _separable(moved[some], y[some], fit.learner.form))
        found += check_separable(margins, y, weight, problem.loss.curvature(margins, y), separable)
    return found


def of_divergence(fit: Fit) -> list[Diagnostic]:
    """Warn where the fit or a replicate diverged."""
    words = f"{DIVERGED[0].upper()}{DIVERGED[1:]}. Use step_size='auto', or a smaller eta0."
    return [] if fit.finite else [StepTooLarge(words)]


def of_training(fit: Fit) -> list[Diagnostic]:
    """What to warn of at questions: the start, the steps, the replicates, the constraint's boundary, the stream."""
    if diverged := of_divergence(fit):
        return diverged
    theta, B = fit.theta, fit.problem.n_replicates
    found, moments = check_replicates(theta[:, 1:]) if B > 1 else [], _moments(fit)
    if found or moments is None:
        return found
    s, form, mean, active = fit.learner.settings, fit.learner.form, fit.learner.mean(fit.itself)[:, 0], None
    if isinstance(form, Slabs) and s.tolerance > 0.0 and B > 1:
        room, across, push, error = _faces(fit, mean, moments)
        found, active = check_boundary(room, across, push, error, s.tolerance), room <= 3.0 * across
    basis, curvature = theory.free_curvature(s, form, mean, moments.hessian, active=active)
    values, directions = np.linalg.eigh(curvature)
    top, along = values.max(initial=0.0), basis @ directions
    if top <= 0.0:
        return found
    rows = np.r_[0.0, np.geomspace(1.0, max(fit.state.k / fit.shards, 1.0), POINTS)]  # of merged fits, the mean number
    left = left_of_start(np.maximum(values, s.alpha), rows, s.schedule.total(rows))
    ahead = np.divide(left, 1.0 - left, out=np.zeros_like(left), where=left < 1.0)
    bias = fit.back(along @ (ahead * ((s.start - mean) @ along)))
    reach = float(values[values > FLAT * top].min() * s.schedule.total(rows[-1:])[0])
    plug_in = np.sqrt(np.maximum(np.diag(fit.sandwich(moments.hessian, moments.scores)), 0.0))
    if B < 2:
        return found + check_start(bias, plug_in, reach)
    off, sd = theta[:, 1:].mean(axis=1) - theta[:, 0], theta[:, 1:].std(axis=1, ddof=1)
    size = np.linalg.norm(fit.W, axis=1) if fit.W.ndim == 2 else fit.W
    held = sd <= 1e-6 * size * (sd / size).max()  # by a constraint, but for rounding
    sd, plug_in = np.where(held, 0.0, sd), np.where(held, 0.0, plug_in)
    found += check_start(bias, limit(sd, B), reach) + check_steps(off, sd, plug_in, B)
    found = found or check_bias(off, sd, B)
    if not found and fit.traced and fit.state.k >= PATH:
        found = check_path(np.sqrt(np.maximum(np.diag(fit.scaling), 0.0) / fit.state.k), sd, B)
    return found or check_covariance(sd, plug_in, B)


def of_random_scaling(fit: Fit) -> list[Diagnostic]:
    """What to warn of where random scaling is asked for: iterates that forget within 1 / (η λ) rows, λ the flattest."""
    if diverged := of_divergence(fit):
        return diverged
    (hessian, _), learner, k = fit.plug_in, fit.learner, fit.state.k
    s = learner.settings
    _, curvature = theory.free_curvature(s, learner.form, learner.mean(fit.itself)[:, 0], hessian)
    values = np.linalg.eigvalsh(curvature)
    flat = values[values > FLAT * values.max(initial=0.0)].min(initial=np.inf)
    rows = np.geomspace(k, 1e12, POINTS).round()
    return check_memory(np.array([1.0 / (flat * s.schedule.steps(int(n), 1)[0]) for n in rows]), rows, k)


def near_the_boundary(fit: Fit, rows: Rows) -> FloatArray:
    """Margins of the kinds of rows next to the boundary, and whether replicates disagree about each: (kinds, 2).

    With very many rows, only the first are looked at.
    """
    X, theta = fit.features(rows.X[:LOOKED_AT]), fit.theta
    margin = X @ theta[:, 0]
    near = _nearest(margin)
    disagree = ((X[near] @ theta[:, 1:] > 0.0) != (margin[near, None] > 0.0)).any(axis=1)
    return np.column_stack([margin[near], disagree])


def nearest(near: FloatArray) -> FloatArray:
    """Of margins, with a second column, one of each kind next to the boundary."""
    return near[_nearest(near[:, 0])]


def _nearest(margin: FloatArray) -> NDArray[np.intp]:
    """Places of one row of each kind, told apart by their margins, next to the boundary."""
    top = float(np.abs(margin).max(initial=0.0))
    _, kinds = np.unique((margin / (top or 1.0)).round(9), return_index=True)
    return kinds[np.argsort(np.abs(margin[kinds]))[:KINDS]]


class _Moments(NamedTuple):
    """Hessian of loss and ridge; covariance, mean and number of the scores; all in the learner's coordinates."""

    hessian: FloatArray
    scores: FloatArray
    mean: FloatArray
    n: int


def _moments(fit: Fit) -> _Moments | None:
    """Moments of the pass, where its trace is kept; otherwise on the constraint set, where this has rows enough."""
    if fit.traced:
        return _Moments(*fit.plug_in, *covariances.mean_score(fit.trace))
    raw, y, _, weight = fit.constraint_set
    X = fit.moved(raw)
    if not (fit.state.k and weight.any() and enough_rows(X)):
        return None
    X, share, loss = X.toarray() if is_sparse(X) else X.astype(np.float64), weight / weight.sum(), fit.problem.loss
    margins = X @ fit.learner.mean(fit.itself)[:, 0]
    slopes = X * loss.derivative(margins, y)[:, None]
    mean = share @ slopes
    scores = (slopes * share[:, None]).T @ slopes - np.outer(mean, mean)
    hessian = (X * (share * loss.curvature(margins, y))[:, None]).T @ X
    return _Moments(hessian + fit.problem.alpha * np.eye(len(hessian)), scores, mean, len(y))


def _separable(X: FloatArray, y: FloatArray, form: Any) -> bool:
    """Whether a hyperplane that slabs allow tells the labels ±1 without error: whether y xᵀθ ≥ 1 has a solution.

    However wide a slab is, coefficients can only grow for ever along its faces. A penalty is 0 where there is no error.
    """
    faces = form.vectors if isinstance(form, Slabs) else np.empty((0, X.shape[1]))
    told = linprog(
        np.zeros(X.shape[1]), -y[:, None] * X, -np.ones(len(y)), faces, np.zeros(len(faces)), bounds=(None, None)
    )
    return bool(told.status == 0)


def _alike(X: FloatArray, codes: NDArray[np.integer], n_groups: int) -> float:
    """p-value of no difference between the means of groups: of Pillai's trace, by its limit law.

    Examples
    --------
    >>> X, group = np.random.default_rng(0).normal(size=(1000, 2)), np.arange(1000) % 2
    >>> _alike(X, group, 2) > 0.01, _alike(X + group[:, None], group, 2) < 1e-9
    (True, True)
    """
    X, codes = X[codes >= 0], codes[codes >= 0]
    X = X - X.mean(axis=0)
    scale = X.std(axis=0)
    X = X[:, scale > 0.0] / scale[scale > 0.0]
    member = np.eye(n_groups)[codes]
    member = member[:, member.any(axis=0)]
    sums, total = member.T @ X, X.T @ X
    between = (sums / member.sum(axis=0)[:, None]).T @ sums
    rank = int(np.linalg.matrix_rank(total, rtol=1e-10))
    pillai = float(np.trace(np.linalg.pinv(total, rcond=1e-10, hermitian=True) @ between))
    return float(chdtrc(rank * (member.shape[1] - 1), len(X) * pillai))


def _held(fit: Fit) -> bool:
    """Whether a slab holds the start back, as far as this is known."""
    s = fit.learner.settings
    if not isinstance(fit.learner.form, Slabs):
        return False
    across = np.abs(fit.learner.form.vectors @ s.start).max(initial=0.0)
    return bool(across >= s.tolerance * (1.0 - 1e-6)) if s.start.any() else s.tolerance == 0.0


def _faces(fit: Fit, mean: FloatArray, moments: _Moments) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Of each slab: room of the fit to its face, spread of the replicates across it, multiplier, standard error."""
    s, vectors = fit.learner.settings, fit.learner.form.vectors
    across = vectors @ fit.learner.mean(fit.state)
    room, sd = s.tolerance - np.abs(across[:, 0]), across[:, 1:].std(axis=1, ddof=1)
    near = np.flatnonzero(room <= 3.0 * sd)
    normals = np.sign(across[near, :1]) * vectors[near]
    solve = np.linalg.pinv(normals.T, rcond=1e-10)
    push, error = np.zeros(len(vectors)), np.full(len(vectors), np.inf)
    push[near] = solve @ -(moments.mean + s.alpha * mean)
    error[near] = np.sqrt(np.maximum(np.sum(solve @ moments.scores * solve, axis=1), 0.0) / moments.n)
    return room, sd, push, error
