"""What the learners converge to: the optimum θ* of the constrained or penalised problem.

minimise  mean ℓ(θᵀx, y) + κ‖θ‖²/2   subject to |x̃_sᵀθ| ≤ ε for all s,   or with R₂ Σⱼ gⱼ(θ)² added.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import minimize

from surefair.criteria import Form, Penalty, Slabs, kinked
from surefair.learners import Settings
from surefair.streams import FloatArray, is_sparse

if TYPE_CHECKING:
    from surefair.estimators import FairClassifier

MAX_ITERATIONS = 200
MAX_NEWTON = 50
SHARES = 0.5 ** np.arange(10)  # of a Newton step
GRADIENT = 1e-10  # length of a gradient that counts as 0


def optimum(clf: FairClassifier, X: Any, y: Any, *, sample_weight: Any = None) -> FloatArray:
    """θ* of a classifier's own problem when (X, y) is the whole population.

    Parameters
    ----------
    clf : FairClassifier
        Fitted; it supplies loss, ridge, coordinates and the constraint set D'.
    X : array-like of shape (n_rows, n_features), data frame or sparse matrix
    y : array-like of shape (n_rows,)
    sample_weight : array-like of shape (n_rows,), optional

    Returns
    -------
    ndarray of shape (n_features + 1,)
        Coefficients, then the intercept (if the classifier fits one).

    Examples
    --------
    >>> import surefair as sf
    >>> data = sf.datasets.SyntheticDI(seed=1).sample(20_000)
    >>> clf = sf.FairClassifier(n_replicates=0, random_state=0).fit(data.X, data.y, sensitive_features=data.sensitive)
    >>> theta = sf.theory.optimum(clf, data.X, data.y)
    >>> bool(np.abs(theta - np.append(clf.coef_, clf.intercept_)).max() < 0.1)
    True
    """
    fit, rows = clf._population(X, y, sample_weight)
    return fit.back(solve(fit.learner.settings, fit.learner.form, fit.moved(rows.X), rows.y, rows.weight))


def solve(settings: Settings, form: Form, X: Any, y: FloatArray, weight: FloatArray) -> FloatArray:
    """Solve the learner's problem exactly on given rows, dense or sparse.

    Under slabs the optimum lies on some of their faces: from 0 on, those in the way are kept to, one by one, and let go
    again where the optimum on them pushes inwards.
    A penalty has kinks, and its optimum may lie on some: it is approached through penalties with ever sharper, but
    rounded, kinks, up to the sharpness asked for.
    """
    X = X.toarray() if is_sparse(X) else X
    D, objective = X.shape[1], _Objective(settings, X, y, weight / weight.mean())
    if isinstance(form, Slabs):
        return _on_faces(objective, form.vectors)
    theta = _minimise(objective, np.zeros(D), np.eye(D))
    if form.rows.shape[0] == 0:
        return theta
    form = form._replace(rows=form.rows.toarray()) if is_sparse(form.rows) else form
    scale, last = float(np.std(form.rows @ theta)) or 1.0, settings.sharpness or np.inf
    for sharpness in [*(tau / scale for tau in (1e1, 1e2, 1e3, 1e4, 1e5) if tau / scale < last), last]:
        if sharpness < np.inf:
            theta = _minimise(replace(objective, form=form, sharpness=sharpness), theta, np.eye(D))
    return theta


def _on_faces(objective: _Objective, vectors: FloatArray) -> FloatArray:
    """Optimum under |x̃ᵀθ| ≤ ε: a primal active-set method."""
    lengths = np.linalg.norm(vectors, axis=1)
    some = lengths > 0.0
    units, levels = vectors[some] / lengths[some, None], objective.settings.tolerance / lengths[some]
    start = np.zeros(vectors.shape[1])
    if len(units) and not levels.any():
        return _minimise(objective, start, _along(units))
    free = _minimise(objective, start, np.eye(len(start)))
    if (np.abs(units @ free) <= levels).all():
        return free
    theta, active = start, np.zeros(len(units))  # 0, or the sign of the face that θ lies on
    for _ in range(MAX_ITERATIONS):
        on = np.flatnonzero(active)
        normals = active[on, None] * units[on]
        goal = _minimise(objective, theta, _along(normals) if len(on) else np.eye(len(theta)))
        change = units @ (goal - theta)
        ahead = np.abs(change) > 1e-10 * np.linalg.norm(goal - theta)  # the faces that θ lies on stay where they are
        room = levels - np.sign(change) * (units @ theta)
        share = np.divide(room, np.abs(change), out=np.full(len(units), np.inf), where=ahead).clip(min=0.0)
        if share.min() < 1.0:  # a face is in the way
            theta = theta + share.min() * (goal - theta)
            active[share.argmin()] = np.sign(change[share.argmin()])
            continue
        theta = goal
        push = np.linalg.lstsq(normals.T, -objective.gradient(theta), rcond=1e-10)[0] if len(on) else np.zeros(0)
        if not (push < -1e-9).any():
            break
        active[on[np.argmax(push < -1e-9)]] = 0.0  # the first, not the worst: so that no round of faces is repeated
    return np.asarray(theta + np.linalg.lstsq(normals, levels[on] - normals @ theta, rcond=1e-10)[0])


def _along(normals: FloatArray) -> FloatArray:
    """Orthonormal basis of the directions along all faces, as columns."""
    _, sizes, directions = np.linalg.svd(normals)
    return np.asarray(directions[np.count_nonzero(sizes > 1e-10 * sizes[0]) :].T)


@dataclass(frozen=True, eq=False)
class _Objective:
    """Mean loss and ridge over fixed rows, and a penalty with rounded kinks if there is one."""

    settings: Settings
    X: FloatArray
    y: FloatArray
    weight: FloatArray  # of mean 1
    form: Penalty | None = None
    sharpness: float = 1.0  # τ

    def value(self, theta: FloatArray) -> float:
        s = self.settings
        value = (self.weight * s.loss.value(self.X @ theta, self.y)).mean() + s.alpha * (theta @ theta) / 2.0
        return float(value + (s.effective_penalty * np.sum(self._penalty(theta)[0] ** 2) if self.form else 0.0))

    def gradient(self, theta: FloatArray) -> FloatArray:
        s = self.settings
        slope = self.weight * s.loss.derivative(self.X @ theta, self.y)
        gradient = slope @ self.X / len(self.X) + s.alpha * theta
        if self.form:
            g, G, _ = self._penalty(theta)
            gradient = gradient + 2.0 * s.effective_penalty * (g @ G)
        return np.asarray(gradient)

    def hessian(self, theta: FloatArray) -> FloatArray:
        s = self.settings
        hessian = (self.X.T * (self.weight * s.loss.curvature(self.X @ theta, self.y))) @ self.X / len(self.X)
        hessian += (s.alpha + 1e-12) * np.eye(len(theta))  # columns may be exactly dependent when there is no ridge
        if self.form:
            _, G, bend = self._penalty(theta)
            hessian += 2.0 * s.effective_penalty * (G.T @ G + bend)
        return np.asarray(hessian)

    def _penalty(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Terms g (J,), their gradients (J, D), and Σⱼ gⱼ ∇²gⱼ (D, D), by the chain rule from the kinked functions."""
        assert self.form is not None
        rows, weights = self.form.rows, self.form.weights
        f, side = (found[:, 0] for found in kinked(self.form, theta[:, None], self.sharpness))
        f = np.where(np.abs(f) > 1e-150, f, 0.0)  # a denominator that rounding alone keeps from 0, and its square
        g, slopes = self.form.terms(f)
        F = (weights * side) @ rows  # (L, D)
        curved = -self.sharpness * ((g @ slopes) @ weights) * side * (1.0 - side)
        return g, slopes @ F, F.T @ self.form.bend(f, g) @ F + (rows.T * curved) @ rows


def _minimise(objective: _Objective, theta: FloatArray, basis: FloatArray) -> FloatArray:
    """Minimum from θ on in the directions of the basis's columns.

    Loss and ridge are convex: Newton's method, its steps halved until the gradient shrinks and the value does not
    rise, is soon there. Where it is not, and with a penalty, a trust region goes on.
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
