"""What the learners converge to: the optimum θ* of the constrained or penalised problem.

minimise  mean ℓ(θᵀx, y) + κ‖θ‖²/2   subject to |x̃ᵀθ| ≤ ε,   or with R₂ g(θ)² added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import null_space
from scipy.optimize import minimize
from scipy.special import expit

from surefair.criteria import Form, SquaredPenalty
from surefair.learners import Settings
from surefair.streams import FloatArray

if TYPE_CHECKING:
    from surefair.estimators import FairClassifier

MAX_ITERATIONS = 200


def optimum(clf: FairClassifier, X: Any, y: Any) -> FloatArray:
    """θ* of a classifier's own problem when (X, y) is the whole population.

    Parameters
    ----------
    clf : FairClassifier
        Fitted; it supplies loss, ridge, coordinates and the constraint set D'.
    X : array-like of shape (n_rows, n_features) or data frame
    y : array-like of shape (n_rows,)

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
    fit, rows, signs = clf._population(X, y)
    return np.asarray(fit.W @ solve(fit.learner.settings, fit.learner.form, rows, signs))


def solve(settings: Settings, form: Form, X: FloatArray, y: FloatArray) -> FloatArray:
    """Solve the learner's problem exactly on given rows.

    A slab binds on one face or not at all: where the free optimum leaves it, the optimum lies on the face it left by.
    A penalty has kinks, and its optimum may lie on some: it is approached through penalties with ever sharper, but
    rounded, kinks.
    """
    D = X.shape[1]
    free = _minimise(_Objective(settings, X, y), np.zeros(D), np.eye(D))
    if isinstance(form, SquaredPenalty):
        theta, scale = free, float(np.std(form.rows @ free)) or 1.0
        for sharpness in (1e1, 1e2, 1e3, 1e4, 1e5):
            theta = _minimise(_Objective(settings, X, y, form, sharpness / scale), theta, np.eye(D))
        return theta
    overshoot = form.vector @ free
    if abs(overshoot) <= settings.tolerance or not form.vector.any():
        return free
    normal = form.vector / np.linalg.norm(form.vector)
    level = np.sign(overshoot) * settings.tolerance / np.linalg.norm(form.vector)
    return _minimise(_Objective(settings, X, y), free + (level - normal @ free) * normal, null_space(normal[None, :]))


@dataclass(frozen=True, eq=False)
class _Objective:
    """Mean loss and ridge over fixed rows, and a penalty with rounded kinks if there is one."""

    settings: Settings
    X: FloatArray
    y: FloatArray
    form: SquaredPenalty | None = None
    sharpness: float = 1.0  # τ

    def value(self, theta: FloatArray) -> float:
        s = self.settings
        value = s.loss.value(self.X @ theta, self.y).mean() + s.alpha * (theta @ theta) / 2.0
        return float(value + (s.effective_penalty * self._penalty(theta)[0] ** 2 if self.form else 0.0))

    def gradient(self, theta: FloatArray) -> FloatArray:
        s = self.settings
        gradient = s.loss.derivative(self.X @ theta, self.y) @ self.X / len(self.X) + s.alpha * theta
        if self.form:
            g, slope, _ = self._penalty(theta)
            gradient = gradient + 2.0 * s.effective_penalty * g * slope
        return np.asarray(gradient)

    def hessian(self, theta: FloatArray) -> FloatArray:
        s = self.settings
        hessian = (self.X.T * s.loss.curvature(self.X @ theta, self.y)) @ self.X / len(self.X)
        hessian += (s.alpha + 1e-12) * np.eye(len(theta))  # columns may be exactly dependent when there is no ridge
        if self.form:
            g, slope, bend = self._penalty(theta)
            hessian += 2.0 * s.effective_penalty * (np.outer(slope, slope) + g * bend)
        return np.asarray(hessian)

    def _penalty(self, theta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """G and its first two derivatives, with min(0, m) rounded to -log(1 + exp(-τm)) / τ."""
        assert self.form is not None
        rows, weights, _ = self.form
        m = self.sharpness * (rows @ theta)
        side = expit(-m)
        bend = -self.sharpness * (rows.T * (weights * side * (1.0 - side))) @ rows
        return float(-weights @ np.logaddexp(0.0, -m) / self.sharpness), (weights * side) @ rows, bend


def _minimise(objective: _Objective, theta: FloatArray, basis: FloatArray) -> FloatArray:
    """Trust-region Newton from θ in the directions of the basis's columns."""
    if basis.shape[1] == 0:
        return theta
    found: Any = minimize(  # type: ignore[call-overload]
        lambda v: objective.value(theta + basis @ v),
        np.zeros(basis.shape[1]),
        jac=lambda v: basis.T @ objective.gradient(theta + basis @ v),
        hess=lambda v: basis.T @ objective.hessian(theta + basis @ v) @ basis,
        method="trust-exact",
        options={"gtol": 1e-10, "maxiter": MAX_ITERATIONS},
    )
    return np.asarray(theta + basis @ found.x)
