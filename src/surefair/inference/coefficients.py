"""Uncertainty of the coefficients: from replicates, or read off the pass itself, without replicates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import norm

from surefair import kernels
from surefair.inference import covariance, influence
from surefair.inference import sandwich as limit_law
from surefair.inference.limits import limits
from surefair.inference.sources import stretched
from surefair.learners import trace as traces
from surefair.learners.dual_averaging import DualAveraging
from surefair.rows import FloatArray
from surefair.training.fit import Fit
from surefair.training.model import Model

COVARIANCE_METHODS = ("plug_in", "random_scaling")
"""How limits of coefficients are read off the pass itself, without replicates."""


def coefficient_limits(model: Model, confidence_level: float, method: str) -> tuple[FloatArray, FloatArray]:
    """Limits of the coefficients of the optimum, each separately, shape (D,)."""
    fit = model.trained
    if method not in COVARIANCE_METHODS:
        theta = stretched(fit.theta, model.n_clusters)
        return limits(theta[:, 0], theta[:, 1:].T, confidence_level, method)
    if model.n_clusters is not None:
        raise ValueError(
            f"method={method!r} is for independent rows, and this classifier was trained on rows in clusters. Use a "
            "method that needs replicates, such as 'basic'."
        )
    if method == "plug_in":
        quantile = norm.ppf((1.0 + confidence_level) / 2.0)
        squares = np.diag(plug_in_covariance(fit))
    else:
        quantile = covariance.random_scaling_quantile(confidence_level)
        squares = np.diag(scaling(fit)) / fit.state.k
    half = quantile * np.sqrt(np.maximum(squares, 0.0))  # 0, up to rounding, for a coefficient that cannot move
    estimate = fit.coefficients[:, 0]
    return estimate - half, estimate + half


def coefficient_table(
    model: Model, features: Sequence[str] | None, confidence_level: float, method: str
) -> dict[str, list[Any]]:
    """Columns of a table with one row per feature, then the intercept."""
    fit = model.trained
    estimate = fit.coefficients[:, 0]
    low, high = coefficient_limits(model, confidence_level, method)
    names = [*(features or (f"x{i}" for i in range(len(estimate) - int(fit.problem.fit_intercept))))]
    tiny = 1e-12 * np.abs(estimate).max(initial=0.0)  # a coefficient that cannot move is 0 up to rounding
    return {
        "feature": names + ["intercept"] * fit.problem.fit_intercept,
        "estimate": estimate.tolist(),
        "low": low.tolist(),
        "high": high.tolist(),
        "excludes_zero": ((low > tiny) | (high < -tiny)).tolist(),
    }


def plug_in_moments(fit: Fit) -> tuple[FloatArray, FloatArray]:
    """Hessian of loss and ridge, and covariance of the scores, each (D, D), in the learner's coordinates.

    Rows are not reduced to the directions that constraints leave, and neither includes a penalty.
    """
    hessian, scores = covariance.moments(trace(fit))
    return hessian + fit.problem.alpha * np.eye(len(hessian)), scores


def plug_in_covariance(fit: Fit) -> FloatArray:
    """Covariance of the averaged coefficients by the sandwich of the moments met on the way, (D, D)."""
    if fit.is_newton:
        return fit.covariance_to_features(influence.moments_of_fit(fit).covariance() / fit.n_rows)
    return sandwich(fit, *plug_in_moments(fit))


def sandwich(fit: Fit, hessian: FloatArray, scores: FloatArray) -> FloatArray:
    """Covariance of the averaged coefficients, (D, D), from moments in the learner's coordinates.

    The last iterate shows which faces of slabs hold the optimum: it ends on them, and an average only comes near.
    """
    learner = fit.learner
    state = fit.without_replicates
    at = learner.iterate(state) if isinstance(learner, DualAveraging) else learner.mean(state)
    found = limit_law.sandwich(learner.settings, learner.form, at[:, 0], hessian, scores) / fit.state.k
    return fit.covariance_to_features(found)


def scaling(fit: Fit) -> FloatArray:
    """Random-scaling matrix of the averaged coefficients, (D, D); see ``covariance.random_scaling``."""
    k = fit.state.k
    if fit.is_newton:
        first = fit.first.n
        origin = fit.state.origin[: len(fit.W), 0]
        path = np.zeros((3, *fit.state.path.transpose(1, 0, 2).shape))
        path[traces.PATH] = fit.state.path.transpose(1, 0, 2)
        total = k * fit.learner.mean(fit.without_replicates)[:, 0] - first * origin
        return fit.covariance_to_features(covariance.random_scaling(path, total, k - first))
    total = k * (fit.learner.mean(fit.without_replicates)[:, 0] - fit.learner.settings.start)
    return fit.covariance_to_features(covariance.random_scaling(trace(fit), total, k))


def is_traced(fit: Fit) -> bool:
    """Whether a trace of the pass was kept."""
    if fit.is_newton:
        return bool(fit.state.path[-1, 0, -1] > 0.0)
    return fit.state.k >= kernels.BLOCK and len(getattr(fit.state, "trace", ())) > 0


def trace(fit: Fit) -> FloatArray:
    """The trace of the pass; it is an error to ask where none is kept."""
    if fit.state.k == 0:
        raise ValueError("Covariances are read off a pass over rows; received none yet. Train on rows first.")
    found = getattr(fit.state, "trace", traces.nothing())
    if not len(found):
        if fit.sparse:
            raise ValueError(
                "Covariances need moments of all pairs of features, which are not kept for sparse rows with more than "
                f"1,000 features; received {len(fit.W):,} features. Use a method that needs replicates, such as "
                "'basic', or reduce the features, for example by TruncatedSVD."
            )
        rows = f"dense, with {len(fit.W)} features, dtype={fit.problem.dtype!r}"
        raise ValueError(
            f"Covariances are kept for dense rows with at most {traces.FEATURES} features, intercept included, in "
            f"double precision; received rows that are {rows}. Use a method that needs replicates, or X.toarray() and "
            "dtype='float64'."
        )
    return np.asarray(found)
