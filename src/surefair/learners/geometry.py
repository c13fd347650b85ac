"""The algebra of a Newton step under a constraint: the inverse Hessian, and multipliers that bring gaps within bounds.

The exact solver and the learner of a stream share it. A gap is the difference of two rates, so everything is computed
for rates: with K groups there are K of them, and K(K - 1) / 2 gaps.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.lapack import dpotrf, dpotri

from surefair import kernels
from surefair.criteria import P_RELEASE, P_VALUE, Comparisons, longest_by_chance
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


def combinations(c: Comparisons, gram: FloatArray, on: FloatArray, noise: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Combinations of the pairs that are on, by the lengths of their slopes relative to what chance gives them.

    Parameters
    ----------
    c : Comparisons
    gram : ndarray of shape (F, F)
        Products of the slopes of rates.
    on : ndarray of shape (J,)
    noise : ndarray of shape (F,)
        Squared length that chance gives the slopes of rates.

    Returns
    -------
    length : ndarray of shape (M,)
        Squared lengths, longest first, relative to chance.
    pairs : ndarray of shape (pairs that are on, M)
        The combinations, as columns.
    """
    root = np.sqrt(np.maximum(noise, 1e-12 * noise.max(initial=1e-300)))
    left, size, right = np.linalg.svd(c.signs[on > 0.0] * root, full_matrices=False)
    some = size > 1e-9 * size.max(initial=0.0)
    left, size, right = left[:, some], size[some], right[some]
    inner = (right / root) @ gram @ (right / root).T
    values, vectors = np.linalg.eigh((inner + inner.T) / 2.0)
    return values[::-1], np.asarray(left @ (vectors[:, ::-1] / size[:, None]))


def n_clear(c: Comparisons, length: FloatArray, n_features: int, before: int) -> int:
    """How many combinations have slopes that are longer than chance makes them: at least one, if there are any.

    Slopes of several gaps may be nearly parallel. A combination whose slope is no longer than chance makes it is left
    alone: to make it 0 would take huge multipliers in a random direction. The first ``before`` were not left alone so
    far, and need less to stay.
    """
    size = c.free_directions(n_features)
    n = len(length)
    limits = [longest_by_chance(size, P_RELEASE if i < before else P_VALUE, n - i) for i in range(n)]
    clear = np.append(length > np.array(limits), False)
    return min(n, max(1, int(np.argmin(clear))))


def solved(c: Comparisons, gram: FloatArray, on: FloatArray, give: float, pairs: FloatArray) -> FloatArray:
    """Matrix (J, F) from rates to the multipliers that make these combinations of gaps 0."""
    found = np.zeros((len(on), c.n_rates))
    if pairs.shape[1]:
        basis = np.linalg.qr(pairs)[0]
        weights = basis.T @ c.signs[on > 0.0]
        inner = weights @ gram @ weights.T + give * np.eye(len(weights))
        found[on > 0.0] = basis @ np.linalg.pinv(inner, rcond=1e-12) @ weights
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
