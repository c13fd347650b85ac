"""What to doubt of a fit: its start, its steps, its replicates, its constraint, its constraint set.

Here the numbers are worked out; ``diagnostics`` says what they must be and what to do.
"""

from __future__ import annotations

import numpy as np

from surefair import covariances, theory
from surefair.criteria import Members, Slabs
from surefair.diagnostics import (
    DegenerateReplicates,
    Diagnostic,
    StepTooLarge,
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
from surefair.fits import Fit, Rows
from surefair.losses import LOSSES
from surefair.streams import FloatArray

FLAT = 1e-3  # curvature, relative to the largest, of directions that rows do not show
PATH = 1_000  # rows without which the path of the average says nothing
POINTS = 200  # numbers of rows at which dynamics are looked at
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
    start = fit.learner.settings.start
    if problem.loss is LOSSES["log_loss"] and start.any() and weight.any():
        margins = fit.moved(raw) @ start
        found += check_separable(margins, y, weight, problem.loss.curvature(margins, y))
    return found


def of_divergence(fit: Fit) -> list[Diagnostic]:
    """Warn where the fit or a replicate diverged."""
    words = f"{DIVERGED[0].upper()}{DIVERGED[1:]}. Use step_size='auto', or a smaller eta0."
    return [] if fit.finite else [StepTooLarge(words)]


def of_training(fit: Fit) -> list[Diagnostic]:
    """What to warn of at questions: the start, the steps, the replicates, the constraint's boundary.

    Linear dynamics and the sandwich need the trace; where it is not kept, only the replicates are looked at.
    """
    if diverged := of_divergence(fit):
        return diverged
    theta, B = fit.theta, fit.problem.n_replicates
    off, sd = theta[:, 1:].mean(axis=1) - theta[:, 0], theta[:, 1:].std(axis=1, ddof=1)
    found = check_replicates(theta[:, 1:])
    if found or not fit.traced:
        return found
    (hessian, scores), s, form = fit.plug_in, fit.learner.settings, fit.learner.form
    mean, active = fit.learner.mean(fit.itself)[:, 0], None
    if isinstance(form, Slabs) and s.tolerance > 0.0:
        room, across, push, error = _faces(fit, mean, scores)
        found, active = check_boundary(room, across, push, error, s.tolerance), room <= 3.0 * across
    basis, curvature = theory.free_curvature(s, form, mean, hessian, active=active)
    values, directions = np.linalg.eigh(curvature)
    top, along = values.max(initial=0.0), basis @ directions
    if top <= 0.0:
        return found
    rows = np.r_[0.0, np.geomspace(1.0, fit.state.k, POINTS)]
    left = left_of_start(np.maximum(values, s.alpha), rows, s.schedule.total(rows))
    ahead = np.divide(left, 1.0 - left, out=np.zeros_like(left), where=left < 1.0)
    bias = fit.back(along @ (ahead * ((s.start - mean) @ along)))
    plug_in = np.sqrt(np.maximum(np.diag(fit.plug_in_covariance), 0.0))
    size = np.linalg.norm(fit.W, axis=1) if fit.W.ndim == 2 else fit.W
    held = sd <= 1e-6 * size * (sd / size).max()  # by a constraint, but for rounding
    sd, plug_in = np.where(held, 0.0, sd), np.where(held, 0.0, plug_in)
    reach = float(values[values > FLAT * top].min() * s.schedule.total(rows[-1:])[0])
    found += check_start(bias, limit(sd, B), reach) + check_steps(off, sd, plug_in, B)
    if found or fit.state.k < PATH:
        return found or check_covariance(sd, plug_in, B)
    scaling = np.sqrt(np.maximum(np.diag(fit.scaling), 0.0) / fit.state.k)
    return check_covariance(sd, plug_in, B) + check_path(scaling, sd, B)


def of_random_scaling(fit: Fit) -> list[Diagnostic]:
    """What to warn of where random scaling is asked for: iterates that forget within 1 / (η λ) rows, λ the flattest."""
    (hessian, _), learner, k = fit.plug_in, fit.learner, fit.state.k
    s = learner.settings
    _, curvature = theory.free_curvature(s, learner.form, learner.mean(fit.itself)[:, 0], hessian)
    values = np.linalg.eigvalsh(curvature)
    flat = values[values > FLAT * values.max(initial=0.0)].min(initial=np.inf)
    return check_memory(float(1.0 / (flat * s.schedule.steps(k, 1)[0])), k)


def kinds_in_doubt(fit: Fit, rows: Rows) -> int:
    """Number of kinds of rows, told apart by their margins, about which replicates disagree, up to ``KINDS``.

    With very many rows, only the first are looked at.
    """
    X, theta = fit.features(rows.X[:LOOKED_AT]), fit.theta
    margin = X @ theta[:, 0]
    _, kinds = np.unique((margin / (np.abs(margin).max() or 1.0)).round(9), return_index=True)
    near = kinds[np.argsort(np.abs(margin[kinds]))[:KINDS]]
    return int(np.count_nonzero(((X[near] @ theta[:, 1:] > 0.0) != (margin[near, None] > 0.0)).any(axis=1)))


def _faces(fit: Fit, mean: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Of each slab: room of the fit to its face, spread of the replicates across it, multiplier, standard error."""
    s, vectors = fit.learner.settings, fit.learner.form.vectors
    across = vectors @ fit.learner.mean(fit.state)
    room, sd = s.tolerance - np.abs(across[:, 0]), across[:, 1:].std(axis=1, ddof=1)
    near = np.flatnonzero(room <= 3.0 * sd)
    score, count = covariances.mean_score(fit.trace)
    normals = np.sign(across[near, :1]) * vectors[near]
    solve = np.linalg.pinv(normals.T, rcond=1e-10)
    push, error = np.zeros(len(vectors)), np.full(len(vectors), np.inf)
    push[near] = solve @ -(score + s.alpha * mean)
    error[near] = np.sqrt(np.maximum(np.sum(solve @ scores * solve, axis=1), 0.0) / count)
    return room, sd, push, error
