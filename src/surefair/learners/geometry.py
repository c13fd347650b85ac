"""The algebra of a Newton step under a constraint: the inverse Hessian, and multipliers that bring gaps within bounds.

The exact solver and the learner of a stream share it. A gap is the difference of two rates, so everything is computed
for rates: with K groups there are K of them, and K(K - 1) / 2 gaps.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.lapack import dpotrf, dpotri

from surefair import kernels
from surefair.criteria import Comparisons
from surefair.rows import FloatArray

FLOOR = 0.1  # least curvature of the Lagrangian, relative to that of the loss
MOST_APART = 3.0  # ratio of a derivative to its slope, at most, at which it is believed
SWEEPS = 2000  # over the pairs of groups, at most
SOME = 20  # sweeps between two looks at what they still change
FEW_SWEEPS = 10  # in one step of a learner, at most


def n_sweeps(n_pairs: int) -> int:
    """Sweeps over the pairs in one step of a learner: fewer if there are many pairs; the next step continues.

    >>> [n_sweeps(n) for n in (1, 3, 10, 45)]
    [1, 10, 6, 3]
    """
    return 1 if n_pairs == 1 else max(3, min(FEW_SWEEPS, 60 // max(n_pairs, 1)))


def floored_inverse(plain: FloatArray, more: FloatArray) -> FloatArray:
    """Inverse of ``plain`` + ``more``, in which no direction has less than a tenth of the curvature of ``plain``."""
    whole = plain + more
    if not np.isfinite(whole).all():
        return np.full_like(whole, np.nan)
    if dpotrf(whole - FLOOR * plain)[1] > 0:  # not positive definite: some directions are below the floor
        low, basis = eigh(whole, plain, subset_by_value=(-np.inf, FLOOR))
        side = plain @ basis
        whole = whole + (side * (FLOOR - low)) @ side.T
    half = np.triu(dpotri(dpotrf(whole)[0])[0])
    return np.asarray(half + np.triu(half, 1).T)


def lifted(
    c: Comparisons, inverse: FloatArray, slopes: FloatArray, steep: FloatArray, on: FloatArray
) -> tuple[FloatArray, float]:
    """Derivatives of rates times H⁻¹, (F, D), given slopes and derivatives; and by how much slopes were scaled.

    Where chance makes the derivative of a gap along H⁻¹ times its slope very different from what the slope says, slopes
    take the place of derivatives, scaled to the size that derivatives have on average. They also do with three groups
    or more, whose pairs depend on each other: sweeps over them need a symmetric matrix. The scale is 0 otherwise.
    """
    plain = slopes @ inverse
    other = steep @ inverse
    expected, found = (of_pairs(c, lift @ slopes.T) * on for lift in (plain, other))
    close = (found >= expected / MOST_APART) & (found <= MOST_APART * expected)
    if max(c.sizes, default=2) <= 2 and close.all():
        return np.asarray(other), 0.0
    scale = float(np.clip(found.sum() / expected.sum(), 1.0 / MOST_APART, MOST_APART)) if expected.any() else 1.0
    return np.asarray(scale * plain), scale


def of_pairs(c: Comparisons, gram: FloatArray) -> FloatArray:
    """Diagonal (J,) of the matrix of pairs, given that of rates (F, F)."""
    one, two = c.pairs[:, 0], c.pairs[:, 1]
    return np.asarray(gram[one, one] - gram[one, two] - gram[two, one] + gram[two, two])


def noise_scale(inverse: FloatArray, plain: FloatArray, ridge: FloatArray) -> float:
    """What chance contributes to G H⁻¹ Gᵀ, relative to what it contributes to the length of G in units of the loss.

    In these units each coordinate counts by 1 over its curvature in ``plain``. Directions in which rows do not vary
    count for nothing, although H⁻¹ may be large along them.
    """
    seen = np.diag(plain) - ridge
    return float(
        (np.sum(inverse * plain) - np.diag(inverse) @ ridge) / max(float(np.sum(seen / np.diag(plain))), 1e-300)
    )


def combinations(c: Comparisons, gram: FloatArray, on: FloatArray, noise: FloatArray) -> FloatArray:
    """Squared lengths of the slopes of combinations of the pairs that are on, relative to chance, longest first.

    Parameters
    ----------
    c : Comparisons
    gram : ndarray of shape (F, F)
        Products of the slopes of rates.
    on : ndarray of shape (J,)
    noise : ndarray of shape (F,)
        Squared length that chance gives the slopes of rates.
    """
    root = np.sqrt(np.maximum(noise, 1e-12 * noise.max(initial=1e-300)))
    _, size, right = np.linalg.svd(c.signs[on > 0.0] * root, full_matrices=False)
    right = right[size > 1e-9 * size.max(initial=0.0)]
    inner = (right / root) @ gram @ (right / root).T
    return np.asarray(np.linalg.eigvalsh((inner + inner.T) / 2.0)[::-1])


def solved(c: Comparisons, gram: FloatArray, on: FloatArray, give: float) -> FloatArray:
    """Matrix (J, F) from rates to the multipliers of the pairs that are on: those of an equality, or of a penalty."""
    found = np.zeros((len(on), c.n_rates))
    if on.any():
        signs = c.signs[on > 0.0]
        inner = signs @ gram @ signs.T + give * np.eye(len(signs))
        found[on > 0.0] = np.linalg.pinv(inner, rcond=1e-12) @ signs
    return found


def multipliers(
    c: Comparisons, gram: FloatArray, rates: FloatArray, on: FloatArray, tolerance: float, give: float, push: FloatArray
) -> FloatArray:
    """Multipliers (J,) that bring the gaps of pairs that are on within a tolerance.

    ``rates`` are those without any multipliers, and ``push`` is where the search begins.
    """
    new = (push * on)[:, None].copy()
    pairs = np.ascontiguousarray(c.pairs.T)
    for _ in range(SWEEPS // SOME):
        before = new.copy()
        left = (rates - gram @ c.by_rate(new[:, 0]))[:, None]
        kernels.sweep_pairs(pairs, on > 0.0, gram, tolerance, give, SOME, left, new, np.empty(1))
        if np.abs(new - before).max(initial=0.0) <= 1e-13 * np.abs(new).max(initial=0.0):
            break
    return np.asarray(new[:, 0])
