"""What the learners converge to: the optimum θ* of the constrained or penalised problem.

minimise  mean ℓ(θᵀx, y) + κ‖θ‖²/2   subject to |x̃ᵀθ| ≤ ε,   or with R₂ g(θ)² added.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from surefair.criteria import Form, Slab, SquaredPenalty
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
    """Solve the learner's problem exactly on given rows, by Newton's method.

    A slab binds on one face or not at all: where the free optimum leaves it, the optimum lies on the face it left by.
    """
    objective = _Objective(settings, form, X, y)
    free = objective.minimise(np.zeros(X.shape[1]))
    if not isinstance(form, Slab) or not form.vector.any():
        return free
    overshoot = form.vector @ free
    if abs(overshoot) <= settings.tolerance:
        return free
    level = np.sign(overshoot) * settings.tolerance
    return objective.minimise(free, face=(form.vector, float(level)))


class _Objective:
    """Mean loss, ridge and penalty over fixed rows."""

    def __init__(self, settings: Settings, form: Form, X: FloatArray, y: FloatArray) -> None:
        self.settings, self.form, self.X, self.y = settings, form, X, y

    def value(self, theta: FloatArray) -> float:
        s = self.settings
        total = s.loss.value(self.X @ theta, self.y).mean() + s.alpha * (theta @ theta) / 2.0
        if isinstance(self.form, SquaredPenalty):
            total += s.effective_penalty * (self.form.gradient(theta[:, None])[:, 0] @ theta) ** 2
        return float(total)

    def derivatives(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Gradient and (Gauss-Newton) Hessian: between its kinks the penalty is a square of a linear form."""
        s = self.settings
        margin = self.X @ theta
        gradient = s.loss.derivative(margin, self.y) @ self.X / len(self.X) + s.alpha * theta
        hessian = (self.X.T * s.loss.curvature(margin, self.y)) @ self.X / len(self.X)
        hessian[np.diag_indices_from(hessian)] += s.alpha
        if isinstance(self.form, SquaredPenalty):
            pull = self.form.gradient(theta[:, None])[:, 0]
            gradient = gradient + 2.0 * s.effective_penalty * (pull @ theta) * pull
            hessian += 2.0 * s.effective_penalty * np.outer(pull, pull)
        return gradient, hessian

    def minimise(self, theta: FloatArray, face: tuple[FloatArray, float] | None = None) -> FloatArray:
        """Newton with backtracking, on the whole space or on the face {aᵀθ = level}."""
        if face is not None:
            a, level = face
            theta = theta - (a @ theta - level) / (a @ a) * a
        value = self.value(theta)
        for _ in range(MAX_ITERATIONS):
            gradient, hessian = self.derivatives(theta)
            step = _newton_step(gradient, hessian, None if face is None else face[0])
            slope, length = gradient @ step, 1.0
            if -slope <= 1e-14 * max(abs(value), 1e-6):
                return theta
            while (trial := self.value(theta + length * step)) > value + 1e-4 * length * slope and length > 1e-10:
                length /= 2.0
            if length <= 1e-10:  # at a kink of the penalty: no direction of this model goes down
                return theta
            theta, value = theta + length * step, trial
        warnings.warn(f"The optimum was not reached in {MAX_ITERATIONS} Newton steps.", RuntimeWarning, stacklevel=3)
        return theta


def _newton_step(gradient: FloatArray, hessian: FloatArray, normal: FloatArray | None) -> FloatArray:
    """Return the Newton step, within the hyperplane orthogonal to ``normal`` if one is given."""
    D = len(gradient)
    jitter = 1e-12 * np.trace(hessian) / D * np.eye(D)  # columns may be exactly dependent when there is no ridge
    if normal is None:
        return np.asarray(-np.linalg.solve(hessian + jitter, gradient))
    unit = normal / np.linalg.norm(normal)
    kkt = np.block([[hessian + jitter, unit[:, None]], [unit[None, :], np.zeros((1, 1))]])
    step = np.linalg.solve(kkt, np.append(-gradient, 0.0))[:D]
    return np.asarray(step - (unit @ step) * unit)
