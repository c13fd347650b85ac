"""Covariance of coefficients under a constraint that is learnt from the same rows.

A row moves the gradient of the Lagrangian by ψ and the means of cells by ρ. The conditions of the optimum, linearised,

    H Δθ + Gᵀ Δλ = -ψ,      G' Δθ - Δλ / (2 R₂) = -P ρ      over the gaps that hold the optimum,

turn both into a movement of θ. Here H is the Hessian of the Lagrangian, G are the slopes of the gaps and G' their
derivatives, and P turns means of cells into gaps. So the noise of the constraint counts beside that of the loss. With
a tolerance, the gaps that hold the optimum are those of pairs that push; without one, those of all pairs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from surefair.criteria import Comparisons
from surefair.learners.trace import symmetric
from surefair.rows import FloatArray
from surefair.training.fit import Fit
from surefair.training.stationary import Conditions, Stationary


class Moments(NamedTuple):
    """What the covariance is made of; D features, C cells, J gaps that hold the optimum."""

    hessian: FloatArray  # (D, D)
    slopes: FloatArray  # (J, D), of the gaps
    steep: FloatArray  # (J, D), derivatives of the gaps
    gaps_of_cells: FloatArray  # (J, C), P
    give: float
    scatter: FloatArray  # (D + C, D + C), covariance of (ψ, ρ)

    def covariance(self) -> FloatArray:
        """Covariance of √n(θ - θ*), shape (D, D)."""
        D = len(self.hessian)
        conditions = np.block([[self.hessian, self.slopes.T], [self.steep, -self.give * np.eye(len(self.slopes))]])
        solved = np.linalg.pinv(conditions, rcond=1e-12)[:D]
        moved = np.hstack([solved[:, :D], solved[:, D:] @ self.gaps_of_cells])
        return np.asarray(moved @ self.scatter @ moved.T)


def moments_of_fit(fit: Fit) -> Moments:
    """Moments that a pass has kept, in the learner's coordinates."""
    learner: Any = fit.learner
    state = fit.state
    c = learner.form.comparisons
    geometry = learner.geometry(state)
    at = learner.columns(state)
    sums = symmetric(state.scatter[:, 0]) / max(state.scatter[-1, 0, -1], 1.0)
    mean = sums[-1, :-1]
    holding = _holding(state.push[:, 0], learner.settings.tolerance, state.followed[:, 0])
    return Moments(
        hessian=np.linalg.inv(geometry.inverse),
        slopes=holding @ c.gaps(geometry.along),
        steep=holding @ c.gaps(geometry.lift) @ np.linalg.inv(geometry.inverse),
        gaps_of_cells=holding @ gaps_of_cells(c, at.value[:, 0], at.counts[:, 0] / at.weight[0, 0]),
        give=learner.give,
        scatter=sums[:-1, :-1] - np.outer(mean, mean),
    )


def moments_of_rows(conditions: Conditions, optimum: Stationary, tolerance: float, penalty: float) -> Moments:
    """Moments of rows that are the population, at its optimum."""
    c = conditions.comparisons
    tangent = conditions.tangent(optimum.theta)
    psi, rho, shares = conditions.influences(optimum.theta, optimum.push, tangent)
    both = np.hstack([psi, rho])
    mean = both.mean(axis=0)
    on = conditions.followed(tangent, np.asarray(optimum.push != 0.0, dtype=np.float64))
    plain = conditions.loss_hessian(optimum.theta)
    more = conditions.constraint_hessian(optimum.theta, c.by_rate(optimum.push), tangent)
    holding = _holding(optimum.push, tolerance, on)
    return Moments(
        hessian=plain + more,
        slopes=holding @ c.gaps(tangent.slopes),
        steep=holding @ c.gaps(tangent.steep),
        gaps_of_cells=holding @ gaps_of_cells(c, tangent.mean, shares),
        give=0.5 / penalty if penalty > 0.0 else 0.0,
        scatter=both.T @ both / len(both) - np.outer(mean, mean),
    )


def _holding(push: FloatArray, tolerance: float, on: FloatArray) -> FloatArray:
    """Gaps that hold the optimum, as rows of ones and zeros (gaps, J): with a tolerance, those of pairs that push."""
    held = (on > 0.0) & ((push != 0.0) | (tolerance == 0.0))
    return np.asarray(np.eye(len(push))[held])


def gaps_of_cells(c: Comparisons, mean: FloatArray, shares: FloatArray) -> FloatArray:
    """P: how gaps (J,) move with what rows add to cells (C,), given the means and the shares of the cells."""
    by_cell = np.divide(c.shares(mean), shares, out=np.zeros_like(mean), where=shares > 0.0)
    to_rates = np.zeros((c.n_rates, c.n_cells))
    to_rates[c.owner, np.arange(c.n_cells)] = by_cell
    return c.gaps(to_rates)
