"""Exact solutions of the learner's problem on given rows: where the learners start, and what they converge to.

minimise  mean ℓ(θᵀx, y) + κ‖θ‖²/2   subject to |x̃_sᵀθ| ≤ ε for all s,   or with R₂ Σⱼ gⱼ(θ)² added.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, nnls

from surefair.criteria import Form, Penalty, Slabs, kinked
from surefair.learners import Settings
from surefair.rows import FloatArray, is_sparse

MAX_ITERATIONS = 200
MAX_NEWTON = 50
SHARES = 0.5 ** np.arange(10)  # of a Newton step
GRADIENT = 1e-10  # length of a gradient that counts as 0
LEFT = 1e-7  # decrease still ahead, relative to 1 + |value|, at which an optimum counts as reached
APART = 1e-3  # distance of two optima, relative to the larger, at which they count as two
ON_FACE = 1e-6  # distance from a face, relative to ε, at which θ counts as on it
NO_PUSH = 1e-6  # multiplier of a face, relative to the spread of the gradients across it, that counts as 0
RANDOM_STARTS = 3
SIDES = 100  # directions to look in from an optimum


class Optimum(NamedTuple):
    """A local optimum: the coefficients, and the objective there (mean loss, ridge and penalty)."""

    theta: FloatArray  # (D,), features, then the intercept
    value: float
    reached: bool  # False if the solver stopped early


def solve(settings: Settings, form: Form, X: Any, y: FloatArray, weight: FloatArray) -> FloatArray:
    """Solve the learner's problem exactly on given rows, dense or sparse.

    Under slabs the optimum lies on some of their faces. The solver starts at 0, keeps to each face that it meets, and
    leaves a face again when the optimum on it pushes inwards.
    A penalty has kinks, and its optimum may lie on some of them. The solver starts at the optimum of the loss alone and
    approaches the kinks through rounded ones that become sharper and sharper, up to the sharpness asked for.
    """
    objective = Objective.on(settings, X, y, weight)
    if isinstance(form, Slabs):
        return _on_faces(objective, form.vectors)
    theta = _minimise(objective, np.zeros(objective.X.shape[1]), np.eye(objective.X.shape[1]))
    return _descend(objective, form, theta, theta)[0]


def local_optima(objective: Objective, form: Form) -> list[Optimum]:
    """Return the distinct local optima found from several starts, best first; without a penalty there is one start."""
    if isinstance(form, Slabs):
        theta = _on_faces(objective, form.vectors)
        return [_reached(objective, theta, pushes(objective, form, theta)[2])]
    D = objective.X.shape[1]
    free = _minimise(objective, np.zeros(D), np.eye(D))
    starts = [free]
    if objective.settings.penalty > 0.0 and form.rows.shape[0] > 0:
        size = np.linalg.norm(free) / np.sqrt(D)
        random = np.random.default_rng(0).normal(scale=size, size=(RANDOM_STARTS, D))
        starts = [free, np.zeros(D), objective.settings.start, *random]
    ends = []
    for start in starts:
        theta, last = _descend(objective, form, start, free)
        ends.append((_reached(last, theta, -last.gradient(theta)), last))
    ends.sort(key=lambda end: (not end[0].reached, end[0].value))
    found = [ends[0][0]]
    for one, last in ends[1:]:
        far = APART * max(np.abs(one.theta).max(), np.abs(found[0].theta).max())
        new = one.reached and all(np.abs(one.theta - other.theta).max() > far for other in found)
        if new and _is_lowest_around(last, one):
            found.append(one)
    return found


def _descend(objective: Objective, form: Penalty, theta: FloatArray, free: FloatArray) -> tuple[FloatArray, Objective]:
    """Descend from θ to an optimum of a penalised problem; returns it with the objective that has the sharpest kinks.

    The optimum of the loss alone, ``free``, sets the scale of the sharpness.
    """
    if form.rows.shape[0] == 0:
        return theta, objective
    form = form._replace(rows=form.rows.toarray()) if is_sparse(form.rows) else form
    scale, last = float(np.std(form.rows @ free)) or 1.0, objective.settings.sharpness or np.inf
    for sharpness in [*(tau / scale for tau in (1e1, 1e2, 1e3, 1e4, 1e5) if tau / scale < last), last]:
        if sharpness < np.inf:
            objective = replace(objective, form=form, sharpness=sharpness)
            theta = _minimise(objective, theta, np.eye(len(theta)))
    return theta, objective


def _reached(objective: Objective, theta: FloatArray, left: FloatArray) -> Optimum:
    """Return θ as an optimum; it counts as reached if a further Newton step would gain next to nothing."""
    values, directions = np.linalg.eigh(objective.hessian(theta))
    gain = np.sum((left @ directions) ** 2 / np.maximum(np.abs(values), 1e-12)) / 2.0
    value = objective.value(theta)
    return Optimum(theta, value, bool(gain <= LEFT * (1.0 + abs(value))))


def _is_lowest_around(objective: Objective, one: Optimum) -> bool:
    """Whether steps in all directions lead up; at 0 soft rates are undefined and flat, yet there is no optimum."""
    sides = np.random.default_rng(0).normal(size=(SIDES, len(one.theta)))
    sides *= APART / np.linalg.norm(sides, axis=1)[:, None]
    lowest = min(objective.value(one.theta + side) for side in sides)
    return lowest >= one.value - LEFT * (1.0 + abs(one.value))


def _on_faces(objective: Objective, vectors: FloatArray) -> FloatArray:
    """Find the optimum under |x̃ᵀθ| ≤ ε by a primal active-set method."""
    lengths = np.linalg.norm(vectors, axis=1)
    some = lengths > 0.0
    units, levels = vectors[some] / lengths[some, None], objective.settings.tolerance / lengths[some]
    start = np.zeros(vectors.shape[1])
    if len(units) and not levels.any():
        return _minimise(objective, start, directions_along(units))
    free = _minimise(objective, start, np.eye(len(start)))
    if (np.abs(units @ free) <= levels).all():
        return free
    theta, active = start, np.zeros(len(units))  # 0, or the sign of the face on which θ lies
    for _ in range(MAX_ITERATIONS):
        on = np.flatnonzero(active)
        normals = active[on, None] * units[on]
        goal = _minimise(objective, theta, directions_along(normals) if len(on) else np.eye(len(theta)))
        change = units @ (goal - theta)
        ahead = np.abs(change) > 1e-10 * np.linalg.norm(goal - theta)  # θ stays on the faces where it is
        room = levels - np.sign(change) * (units @ theta)
        share = np.divide(room, np.abs(change), out=np.full(len(units), np.inf), where=ahead).clip(min=0.0)
        if share.min() < 1.0:  # the path meets a face
            theta = theta + share.min() * (goal - theta)
            active[share.argmin()] = np.sign(change[share.argmin()])
            continue
        theta = goal
        push = np.linalg.lstsq(normals.T, -objective.gradient(theta), rcond=1e-10)[0] if len(on) else np.zeros(0)
        if not (push < -1e-9).any():
            break
        active[on[np.argmax(push < -1e-9)]] = 0.0  # the first, not the worst, so that no cycle of faces repeats
    return np.asarray(theta + np.linalg.lstsq(normals, levels[on] - normals @ theta, rcond=1e-10)[0])


def directions_along(normals: FloatArray) -> FloatArray:
    """Return an orthonormal basis, as columns, of the directions along all faces."""
    _, sizes, directions = np.linalg.svd(normals)
    if len(sizes) == 0:
        return np.eye(normals.shape[1])
    return np.asarray(directions[np.count_nonzero(sizes > 1e-10 * sizes[0]) :].T)


@dataclass(frozen=True, eq=False)
class Objective:
    """Mean loss and ridge over fixed rows, plus a penalty with rounded kinks if there is one."""

    settings: Settings
    X: FloatArray
    y: FloatArray
    weight: FloatArray  # of mean 1
    form: Penalty | None = None
    sharpness: float = 1.0  # τ

    @classmethod
    def on(cls, settings: Settings, X: Any, y: FloatArray, weight: FloatArray) -> Objective:
        """Make the objective over weighted rows, dense or sparse, without a penalty."""
        return cls(settings, X.toarray() if is_sparse(X) else X, y, weight / weight.mean())

    def value(self, theta: FloatArray) -> float:
        """Return the objective at θ."""
        s = self.settings
        value = (self.weight * s.loss.value(self.X @ theta, self.y)).mean() + s.alpha * (theta @ theta) / 2.0
        return float(
            value
            + (
                s.effective_penalty * np.sum(penalty_terms(self.form, theta, self.sharpness)[0] ** 2)
                if self.form
                else 0.0
            )
        )

    def gradient(self, theta: FloatArray) -> FloatArray:
        """Return the gradient at θ."""
        s = self.settings
        slope = self.weight * s.loss.derivative(self.X @ theta, self.y)
        gradient = slope @ self.X / len(self.X) + s.alpha * theta
        if self.form:
            g, G, _ = penalty_terms(self.form, theta, self.sharpness)
            gradient = gradient + 2.0 * s.effective_penalty * (g @ G)
        return np.asarray(gradient)

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian at θ."""
        s = self.settings
        hessian = (self.X.T * (self.weight * s.loss.curvature(self.X @ theta, self.y))) @ self.X / len(self.X)
        hessian += (s.alpha + 1e-12) * np.eye(len(theta))  # columns may be exactly dependent when there is no ridge
        if self.form:
            _, G, bend = penalty_terms(self.form, theta, self.sharpness)
            hessian += 2.0 * s.effective_penalty * (G.T @ G + bend)
        return np.asarray(hessian)

    def scores(self, theta: FloatArray) -> FloatArray:
        """Covariance of the gradients of the loss over the rows."""
        slope = self.settings.loss.derivative(self.X @ theta, self.y)
        mean = (self.weight * slope) @ self.X / len(self.X)
        second = (self.X.T * (self.weight * slope**2)) @ self.X / len(self.X)
        return np.asarray(second - np.outer(mean, mean))


def penalty_terms(
    form: Penalty, theta: FloatArray, sharpness: float | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return terms g (J,), their gradients (J, D) and Σⱼ gⱼ ∇²gⱼ (D, D), by the chain rule."""
    rows, weights = form.rows, form.weights
    f, side = (found[:, 0] for found in kinked(form, theta[:, None], sharpness))
    f = np.where(np.abs(f) > 1e-150, f, 0.0)  # only rounding keeps such a denominator, or its square, from 0
    g, slopes = form.terms(f)
    F = (weights * side) @ rows  # (L, D)
    curved = -(sharpness or 0.0) * ((g @ slopes) @ weights) * side * (1.0 - side)
    return g, slopes @ F, F.T @ form.bend(f, g) @ F + (rows.T * curved) @ rows


def _minimise(objective: Objective, theta: FloatArray, basis: FloatArray) -> FloatArray:
    """Minimise from θ in the directions of the basis's columns.

    Loss and ridge are convex, so Newton's method converges fast, with steps halved until the gradient shrinks and the
    value does not rise. Where it does not converge, and with a penalty, a trust-region method continues.
    """
    if basis.shape[1] == 0:
        return theta
    gradient, value = basis.T @ objective.gradient(theta), objective.value(theta)
    length = np.linalg.norm(gradient)
    for _ in range(MAX_NEWTON if objective.form is None else 0):
        if length < GRADIENT:
            return theta
        try:
            step = -basis @ np.linalg.solve(basis.T @ objective.hessian(theta) @ basis, gradient)
        except np.linalg.LinAlgError:
            break
        for share in SHARES:
            after, lower = basis.T @ objective.gradient(theta + share * step), objective.value(theta + share * step)
            shorter = np.linalg.norm(after)
            if shorter < (1.0 - share / 4.0) * length and lower <= value + 1e-12 * abs(value):
                break
        else:
            break
        theta, gradient, length, value = theta + share * step, after, shorter, lower
    found: Any = minimize(  # type: ignore[call-overload]
        lambda v: objective.value(theta + basis @ v),
        np.zeros(basis.shape[1]),
        jac=lambda v: basis.T @ objective.gradient(theta + basis @ v),
        hess=lambda v: basis.T @ objective.hessian(theta + basis @ v) @ basis,
        method="trust-exact",
        options={"gtol": GRADIENT, "maxiter": MAX_ITERATIONS},
    )
    return np.asarray(theta + basis @ found.x)


def active_slabs(settings: Settings, form: Slabs, theta: FloatArray) -> NDArray[np.bool_]:
    """Find the slabs on whose face θ lies; with tolerance 0, all slabs."""
    lengths = np.linalg.norm(form.vectors, axis=1)
    near = ON_FACE * settings.tolerance + 0.1 * ON_FACE * lengths * np.linalg.norm(theta)
    on = np.abs(form.vectors @ theta) >= settings.tolerance - near
    return np.asarray((lengths > 0.0) & (on | (settings.tolerance == 0.0)))


def pushes(objective: Objective, form: Slabs, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return outward unit normals of the faces on which θ lies, their multipliers, and the slope that is left."""
    vectors, downhill = form.vectors[active_slabs(objective.settings, form, theta)], -objective.gradient(theta)
    units = np.sign(vectors @ theta)[:, None] * vectors / np.linalg.norm(vectors, axis=1)[:, None]
    if objective.settings.tolerance == 0.0:
        free = directions_along(vectors)
        return units, np.zeros(len(units)), free @ (free.T @ downhill)
    push = nnls(units.T, downhill)[0] if len(units) else np.zeros(0)
    return units, push, downhill - units.T @ push


def holding_slabs(
    objective: Objective, form: Slabs, theta: FloatArray, scores: FloatArray
) -> tuple[NDArray[np.bool_], int]:
    """Find the slabs that hold θ, by their multipliers, and the number of further ones that only touch it.

    A slab with multiplier 0 does not count as touching if other slabs hold its direction already.
    """
    active = active_slabs(objective.settings, form, theta)
    if objective.settings.tolerance == 0.0 or not active.any():
        return active, 0
    units, push, _ = pushes(objective, form, theta)
    strong = push > NO_PUSH * np.sqrt(np.maximum(np.sum(units @ scores * units, axis=1), 0.0))
    free = directions_along(units[strong])
    touching = ~strong & (np.linalg.norm(units @ free, axis=1) > 1e-7)
    active[np.flatnonzero(active)[~strong]] = False
    return active, int(touching.sum())
