"""The limit covariance of averaged coefficients: (PHP)† PΣP (PHP)†.

With H the Hessian of what is minimised and Σ the covariance of the loss's gradients over the rows, both at the optimum
θ*, √n(θ̄ - θ*) is normal in the limit with this covariance. P projects onto the directions along all faces that hold θ*;
without any it is the identity, and this is the ordinary H⁻¹ΣH⁻¹. A penalty is not random: it is part of H, not of Σ.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from surefair.criteria import Form, Penalty, Slabs
from surefair.learners import Settings
from surefair.rows import FloatArray, is_sparse
from surefair.training.solver import active_slabs, directions_along, penalty_terms


def sandwich(
    settings: Settings,
    form: Form,
    theta: FloatArray,
    hessian: FloatArray,
    scores: FloatArray,
    *,
    active: NDArray[np.bool_] | None = None,
) -> FloatArray:
    """Limit covariance of √n(θ̄ - θ*) in the learner's coordinates, from moments at θ.

    Parameters
    ----------
    settings : Settings
    form : Form
        Slabs or penalty, on D'.
    theta : ndarray of shape (D,)
        θ*, or an estimate of it.
    hessian : ndarray of shape (D, D)
        Hessian of mean loss and ridge; that of the penalty is added here.
    scores : ndarray of shape (D, D)
        Covariance of the loss's gradients over the rows.
    active : ndarray of shape (S,), optional
        Slabs that hold θ; by default those on whose faces it lies.

    Returns
    -------
    ndarray of shape (D, D)
    """
    basis, reduced = free_curvature(settings, form, theta, hessian, active=active)
    inverse = basis @ np.linalg.pinv(reduced, rcond=1e-10, hermitian=True) @ basis.T
    return np.asarray(inverse @ scores @ inverse)


def free_curvature(
    settings: Settings,
    form: Form,
    theta: FloatArray,
    hessian: FloatArray,
    *,
    active: NDArray[np.bool_] | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Directions along all faces that hold θ, orthonormal columns (D, F), and the Hessian in them, (F, F).

    The parameters are those of ``sandwich``.
    """
    basis = np.eye(len(theta))
    if isinstance(form, Slabs):
        basis = directions_along(form.vectors[active_slabs(settings, form, theta) if active is None else active])
    elif form.rows.shape[0] > 0:
        hessian = hessian + _penalty_hessian(settings, form, theta)
    return basis, np.asarray(basis.T @ hessian @ basis)


def _penalty_hessian(settings: Settings, form: Penalty, theta: FloatArray) -> FloatArray:
    """Hessian of R₂ Σⱼ gⱼ², its kinks smoothed to the density of scores on D' around 0.

    A logistic kernel of sharpness τ has the same density at 0 as a normal kernel of width 1.6 / τ.
    """
    form = form._replace(rows=form.rows.toarray()) if is_sparse(form.rows) else form
    score = form.rows @ theta
    middle = float(np.subtract(*np.quantile(score, [0.75, 0.25]))) / 1.349
    width = 0.5 * 0.9 * (min(float(score.std()), middle) or float(score.std())) * len(score) ** -0.2
    sharpness = min(settings.sharpness or np.inf, 1.6 / width if width > 0.0 else np.inf)
    _, G, bend = penalty_terms(form, theta, sharpness if sharpness < np.inf else None)
    return np.asarray(2.0 * settings.effective_penalty * (G.T @ G + bend))
