"""Diagnostics that training itself can find: about the constraint set, divergence, late groups and the order of rows.

This file gathers the numbers; the files in ``diagnostics`` say what the numbers should be and what to do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.special import chdtrc

from surefair import kernels
from surefair.criteria import FEW, SEVERAL, Form, Members, Slabs
from surefair.diagnostics import (
    Diagnostic,
    chance_constraint,
    coarse_scores,
    degenerate_replicates,
    entangled_gaps,
    ineffective_constraint,
    late_group,
    rare_column,
    rare_decisions,
    repeated_rows,
    separable_data,
    small_constraint_set,
    small_group,
    step_too_large,
    stopped_early,
    time_dependence,
)
from surefair.diagnostics.time_dependence import Runs
from surefair.learners.stochastic_newton import Learnt
from surefair.losses import LOSSES
from surefair.rows import Census, FloatArray, Groups, IntArray, is_sparse
from surefair.rows.sketch import Sketch, count_pairs, hash_rows
from surefair.training.coordinates import enough_rows
from surefair.training.fit import Begun, Fit

FEW_WRONG = 0.02  # share of rows on the wrong side; with more of them, no hyperplane can separate the labels


def check_constraint_set(fit: Fit) -> list[Diagnostic]:
    """Check the constraint set as soon as it is complete."""
    problem = fit.problem
    rows = fit.first
    groups = rows.names.groups
    found: list[Diagnostic] = []
    if problem.criterion is not None and groups is not None:
        looked_at = [rate.looks_at(rows.y) & (rows.weight > 0.0) for rate in problem.criterion.rates]
        members = Members(rows.group, groups.sizes, rows.weight).indicators()
        least = np.min([members[part].sum(axis=0) for part in looked_at], axis=0)
        found += small_constraint_set.check(least.astype(int).tolist(), groups.words)
    sizes = "" if groups is None else ", ".join(map(str, groups.sizes))
    found += degenerate_replicates.check_freedom(fit.is_rigid, sizes, len(fit.W) - int(problem.fit_intercept))
    X = fit.features(rows.X)
    enough = enough_rows(X) and not is_sparse(X)
    if enough and problem.criterion is not None and groups is not None and _is_held_back(fit):
        numbers = X[:, :-1] if problem.fit_intercept else X
        p = [_p_value(numbers, codes, n) for codes, n in zip(rows.group.T, groups.sizes, strict=True)]
        found += chance_constraint.check(p, [*groups.levels])
    if problem.loss is LOSSES["log_loss"] and rows.weight.any():
        found += _check_separable(fit, enough)
    return found


def check_first_rows(fit: Fit, begun: Begun) -> list[Diagnostic]:
    """Check the warm-up rows of a fit whose constraint is learnt from all rows."""
    rows = fit.first
    found = stopped_early.check(begun.reached, begun.unsolved)
    if fit.problem.criterion is not None and rows.names.groups is not None and begun.reached:
        penalised = fit.problem.penalty is not None
        decisions, tolerance = fit.problem.surrogate == "decisions", fit.tolerance
        # A tolerance of scores says nothing about decisions, but a constraint that holds a fit back should change them.
        free = begun.free if decisions or penalised else begun.free * (np.abs(begun.smooth) > 0.99 * tolerance)
        bound, forbids = (tolerance, True) if decisions else (0.0, tolerance <= SEVERAL)
        found += ineffective_constraint.check(free, begun.held, begun.error, bound, rows.n, penalised, forbids)
        if decisions and not penalised:
            found += coarse_scores.check(begun.held, begun.smooth, begun.error, tolerance)
        names = rows.names.features or [f"x{j + 1}" for j in range(rows.X.shape[1])]
        found += rare_column.check(begun.carriers, names, rows.n)
    if fit.problem.loss is LOSSES["log_loss"]:
        found += _check_separable(fit, enough_rows(fit.features(rows.X)))
    return found


def check_groups(fit: Fit) -> list[Diagnostic]:
    """Check which groups are constrained, where the constraint is learnt from all rows."""
    form = fit.learner.form
    if not isinstance(form, Learnt) or not len(form.comparisons.pairs):
        return []
    groups = fit.first.groups
    c = form.comparisons
    seen = fit.state.seen[: c.n_rates, 0]
    rates = [f" ({rate.words})" if len(c.rates) > 1 else "" for rate in c.rates]
    words = [f"{group}{rate}" for rate in rates for group in groups.words]
    found = small_group.check(dict(zip(words, seen.astype(int).tolist(), strict=True)), FEW)
    left = (fit.state.followed[:, 0] == 0.0) & (seen >= FEW)[c.pairs].all(axis=1)
    left &= _matters(fit, left)
    pairs = [
        f"{groups.words[one % c.n_groups]} and {groups.words[two % c.n_groups]}{rates[one // c.n_groups]}"
        for one, two in c.pairs[left].tolist()
    ]
    found += rare_decisions.check(_rarer_sides(fit, words))
    # No gap is exactly 0, so a tolerance of 0 leaves room for a standard error.
    beyond = bool((left & _beyond_tolerance(fit, 0.0 if fit.tolerance > 0.0 else 1.0)).any())
    return found + chance_constraint.check_pairs(pairs, beyond) + _check_combinations(fit)


def _beyond_tolerance(fit: Fit, errors: float) -> NDArray[np.bool_]:
    """Whether each gap is beyond the tolerance by this many standard errors, (J,); never without replicates."""
    learner: Any = fit.learner
    if fit.problem.n_replicates < 2:
        return np.zeros(len(learner.form.comparisons.pairs), dtype=bool)
    gap = np.abs(learner.pushes(fit.state)[1])
    return np.asarray(gap[:, 0] > fit.tolerance + errors * gap[:, 1:].std(axis=1, ddof=1))


def _rarer_sides(fit: Fit, words: list[str]) -> dict[str, float]:
    """Rows on the rarer side of each constrained rate: those that count in it, or those that do not."""
    learner: Any = fit.learner
    c = learner.form.comparisons
    if c.kind != kernels.DECISIONS or not fit.is_newton:
        return {}
    value = learner.columns(fit.state).value[:, 0]
    rate = np.clip(c.rate_values(value), 0.0, 1.0)
    rows = c.looked_at(fit.state.seen[:, 0], value) * np.minimum(rate, 1.0 - rate)
    constrained = np.unique(c.pairs[fit.state.followed[:, 0] > 0.0])
    return {words[place]: float(rows[place]) for place in constrained.tolist()}


def _check_combinations(fit: Fit) -> list[Diagnostic]:
    """Check whether several gaps that are made 0, or nearly so, can be changed independently."""
    learner: Any = fit.learner
    if not fit.is_newton or fit.problem.penalty is not None or fit.tolerance > SEVERAL:
        return []
    return entangled_gaps.check(learner.lengths(fit.state))


def _matters(fit: Fit, left: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether it matters that a pair of groups is left unconstrained, (J,).

    It does if one of the two rates is in no constrained pair, or if their gap is clearly beyond the tolerance.
    """
    learner: Any = fit.learner
    pairs = learner.form.comparisons.pairs
    free = ~np.isin(pairs, pairs[fit.state.followed[:, 0] > 0.0]).all(axis=1)
    return np.asarray(free | _beyond_tolerance(fit, 2.0)) if (left & ~free).any() else np.asarray(free)


def _check_separable(fit: Fit, enough: bool) -> list[Diagnostic]:
    rows = fit.first
    start = fit.learner.settings.start
    moved = fit.to_learner(rows.X)
    some = rows.weight > 0.0
    scores = moved @ start
    likely = not start.any() or np.mean((rows.y * scores <= 0.0)[some]) < FEW_WRONG
    separable = bool(enough and likely and _is_separable(moved[some], rows.y[some], fit.learner.form))
    return separable_data.check(scores, rows.y, rows.weight, fit.problem.loss.curvature(scores, rows.y), separable)


def check_divergence(fit: Fit) -> list[Diagnostic]:
    """Check whether the fit or a replicate diverged."""
    return step_too_large.check_finite(fit.is_finite)


def check_late_groups(groups: Groups, before: Groups) -> list[Diagnostic]:
    """Report groups that were not there before."""
    return late_group.check(new_groups(groups, before, "not in the constraint set"))


def check_order(runs: Runs, census: Census | None) -> list[Diagnostic]:
    """Check whether the rows of a stream seem to come in random order."""
    rows: tuple[IntArray, ...] = () if census is None else census.rows
    return time_dependence.check(runs, rows, [] if census is None else [*census.groups.levels])


def check_repeats(seen: Sketch, fit: Fit) -> list[Diagnostic]:
    """Check whether rows of a stream repeat more often than those that the fit began with."""
    first = fit.first
    if fit.exact or seen.n <= first.n:
        return []
    pairs = count_pairs(hash_rows(first.X, first.y))
    return repeated_rows.check(seen.pairs, seen.repeated, seen.n, pairs, first.n)


def new_groups(groups: Groups, before: Groups | None, where: str) -> str:
    """Say in words which groups of known columns are new; an empty text means there are none."""
    seen = set() if before is None else set(before.labels)
    columns = {column for column, _ in seen}
    new = [label for label in groups.labels if label[0] in columns and label not in seen]
    if not new:
        return ""
    shown = ", ".join(f"{group!r}" if column is None else f"{group!r} of {column!r}" for column, group in new)
    return f"{'Groups' if len(new) > 1 else 'Group'} {shown} {'were' if len(new) > 1 else 'was'} {where}"


def _is_separable(X: FloatArray, y: FloatArray, form: Form) -> bool:
    """Whether a hyperplane that slabs allow separates the labels ±1: whether y xᵀθ ≥ 1 has a solution.

    However wide a slab is, coefficients can only grow without bound along its faces. A penalty is 0 where there is no
    error.
    """
    faces = form.vectors if isinstance(form, Slabs) else np.empty((0, X.shape[1]))
    found = linprog(
        np.zeros(X.shape[1]), -y[:, None] * X, -np.ones(len(y)), faces, np.zeros(len(faces)), bounds=(None, None)
    )
    return bool(found.status == 0)


def _p_value(X: FloatArray, codes: IntArray, n_groups: int) -> float:
    """p-value of no difference between the means of groups: Pillai's trace with its limit law.

    Examples
    --------
    >>> X, group = np.random.default_rng(0).normal(size=(1000, 2)), np.arange(1000) % 2
    >>> _p_value(X, group, 2) > 0.01, _p_value(X + group[:, None], group, 2) < 1e-9
    (True, True)
    """
    X, codes = X[codes >= 0], codes[codes >= 0]
    X = X - X.mean(axis=0)
    scale = X.std(axis=0)
    X = X[:, scale > 0.0] / scale[scale > 0.0]
    member = np.eye(n_groups)[codes]
    member = member[:, member.any(axis=0)]
    sums = member.T @ X
    total = X.T @ X
    between = (sums / member.sum(axis=0)[:, None]).T @ sums
    values, vectors = np.linalg.eigh(total)
    some = values > 1e-10 * values.max(initial=0.0)
    pillai = float(np.sum(np.sum(vectors[:, some] * (between @ vectors[:, some]), axis=0) / values[some]))
    return float(chdtrc(np.count_nonzero(some) * (member.shape[1] - 1), len(X) * pillai))


def _is_held_back(fit: Fit) -> bool:
    """Whether a slab holds the start back, as far as this is known."""
    settings = fit.learner.settings
    if not isinstance(fit.learner.form, Slabs):
        return False
    across = np.abs(fit.learner.form.vectors @ settings.start).max(initial=0.0)
    return bool(across >= settings.tolerance * (1.0 - 1e-6)) if settings.start.any() else settings.tolerance == 0.0
