"""The forms that a constraint can have: slabs, or a penalty made of kinked functions. Each has a learner.

A form is data: vectors, or rows of the constraint set D' with weights. Training computes it once from D', in the
learner's coordinates; rows can be dense or sparse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag
from scipy.special import expit

from surefair.rows import FloatArray, is_sparse

if TYPE_CHECKING:
    from surefair.criteria._criterion import Rate


ROUNDING = 1e-12
"""A mean counts as 0 if it is smaller than this share of the mean of absolute values: then it is only rounding."""


class Members(NamedTuple):
    """Which rows belong to which group, in one or several sensitive columns."""

    codes: NDArray[np.int64]  # (n, columns)
    sizes: tuple[int, ...]  # groups in each column
    weight: FloatArray  # (n,)

    def centred(self) -> FloatArray:
        """One column per constraint, shape (n, constraints).

        A sensitive column with two groups gives one column: the code less its mean. A sensitive column with more groups
        gives one column per group: the indicator of the group less its share.
        """
        raw = [
            code[:, None] == np.arange(size) if size > 2 else code[:, None]
            for code, size in zip(self.codes.T, self.sizes, strict=True)
        ]
        Z = np.hstack([np.zeros((len(self.codes), 0)), *raw])
        return np.asarray(Z - self.weight @ Z / self.weight.sum())

    def indicators(self) -> FloatArray:
        """One column per group of each sensitive column, shape (n, groups)."""
        raw = [code[:, None] == np.arange(size) for code, size in zip(self.codes.T, self.sizes, strict=True)]
        return np.hstack([np.zeros((len(self.codes), 0)), *raw])


class Slabs(NamedTuple):
    """The constraints ``|x̃ᵀθ| ≤ ε``, one for each vector x̃."""

    vectors: FloatArray  # (S, D); a vector of zeros constrains nothing

    @classmethod
    def on(cls, X: Any, y: FloatArray, members: Members, rates: tuple[Rate, ...]) -> Slabs:
        """x̃ = mean of z x over the rows that can enter the rate: x̃ᵀθ is the covariance of group and score."""
        Z = members.centred()
        vectors = []
        for rate in rates:
            part = np.flatnonzero(rate.looks_at(y))
            share = members.weight[part, None] / members.weight[part].sum()
            found = (X[part].T @ (share * Z[part])).T
            size = (abs(X[part]).T @ (share * abs(Z[part]))).T
            vectors.append(np.where(abs(found) > ROUNDING * size, found, 0.0))  # even a tiny vector would constrain
        return cls(np.ascontiguousarray(np.vstack(vectors)))


class SquaredPenalty(NamedTuple):
    """The penalty R₂ Σⱼ gⱼ(θ)² with gⱼ(θ) = Σᵢ wⱼᵢ min(0, rᵢᵀθ): compares the groups' mean scores on the wrong side.

    With a ``sharpness`` τ the kink is rounded: -log(1 + exp(-τs)) / τ replaces min(0, s).
    """

    rows: Any  # rᵢ = yᵢ xᵢ, shape (m, D), dense or sparse
    weights: FloatArray  # (J, m)

    @classmethod
    def on(cls, X: Any, y: FloatArray, members: Members, rates: tuple[Rate, ...]) -> SquaredPenalty:
        """wⱼᵢ = zⱼᵢ / n over the n rows that can enter a rate; rows of zeros have no effect and are left out."""
        Z = members.centred()
        blocks = []
        for rate in rates:
            c = members.weight * rate.looks_at(y)
            blocks.append((c[:, None] * Z / c.sum()).T)
        weights = np.vstack(blocks)
        some = np.flatnonzero(_not_zero(X) & weights.any(axis=0))
        return cls(_scaled(X[some], y[some]), np.ascontiguousarray(weights[:, some]))

    def terms(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Terms gⱼ and their derivatives (J, L, …), from the values f (L, …) of the kinked functions: here f itself."""
        return f, np.broadcast_to(np.eye(len(f)).reshape(len(f), len(f), *[1] * (f.ndim - 1)), (len(f), *f.shape))

    def bend(self, f: FloatArray, weights: FloatArray) -> FloatArray:
        """Weighted sum of the terms' second derivatives in f, shape (L, L)."""
        return np.zeros((len(f), len(f)))

    @property
    def contrasts(self) -> FloatArray:
        """Empty: the kinked functions are the terms themselves."""
        return np.zeros((0, 0))


class SoftRatePenalty(NamedTuple):
    """The penalty R₂ Σ (ρ_a - ρ_b)² over pairs of groups, with soft rates ρ.

    If a rate conditions on the decision, its denominator changes with θ. Its soft version weighs every row by its score
    on the decided side: soft FDR = Σ over y = -1 of relu(xᵀθ) / Σ relu(xᵀθ), in each group. A group with no row on that
    side has the soft rate 0 and gets no gradient.
    """

    rows: Any  # -x for decisions 1, x for decisions 0, so that min(0, rᵢᵀθ) is minus the score; shape (m, D)
    weights: FloatArray  # (2G, m): numerators of all groups, then their denominators
    contrasts: FloatArray  # (J, G): (contrasts @ ρ)² adds up to all pairs of each column

    @classmethod
    def on(cls, X: Any, y: FloatArray, members: Members, rates: tuple[Rate, ...]) -> SoftRatePenalty:
        """Soft rates of every group; all rows of D' count, because their decisions change with θ."""
        some = np.flatnonzero(_not_zero(X) & (members.weight > 0.0))
        part = (members.weight[:, None] * members.indicators()).T[:, some] / -members.weight.sum()
        sign = []
        above = []
        for rate in rates:
            (decision,), truths = {d for _, d in rate.denominator}, [t for t, _ in rate.numerator]
            sign.append(np.full(len(some), -1.0 if decision == 1 else 1.0))
            above.append(part * np.isin(y[some] > 0.0, truths))
        rows = _scaled(X[np.tile(some, len(rates))], np.concatenate(sign))
        weights = np.vstack([block_diag(*above), block_diag(*[part] * len(rates))])
        return cls(rows, weights, block_diag(*[_all_pairs(members.sizes)] * len(rates)))

    def terms(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Terms and their derivatives (J, L, …), from the values f (L, …) of numerators and denominators."""
        rho, inverse = self._rates(f)
        C = self.contrasts
        return C @ rho, np.concatenate(
            [np.einsum("jz,z...->jz...", C, inverse), -np.einsum("jz,z...->jz...", C, rho * inverse)], axis=1
        )

    def bend(self, f: FloatArray, weights: FloatArray) -> FloatArray:
        """Weighted sum of the terms' second derivatives in f, shape (L, L)."""
        rho, inverse = self._rates(f)
        mixed = np.diag(weights @ self.contrasts * inverse**2)
        last = np.diag(rho)
        return np.block([[np.zeros_like(mixed), -mixed], [-mixed, 2.0 * last @ mixed]])

    def _rates(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Soft rates and the inverses of their denominators; both are 0 if the denominator is 0."""
        above, below = np.split(f, 2)
        inverse = np.divide(1.0, below, out=np.zeros_like(below), where=below > 0.0)
        return above * inverse, inverse


Penalty = SquaredPenalty | SoftRatePenalty
Form = Slabs | Penalty


def kinked(form: Penalty, theta: FloatArray, sharpness: float | None) -> tuple[FloatArray, FloatArray]:
    """Values Σᵢ wᵢ min(0, rᵢᵀθ) at each column of θ, shape (L, columns), and the side of each row, shape (m, columns).

    The side is the derivative of min(0, s) at the score: 1 on the wrong side, 0 on the right side and at the kink.

    Examples
    --------
    >>> form = SquaredPenalty(np.array([[1.0], [-2.0]]), np.array([[0.5, 0.5]]))
    >>> kinked(form, np.array([[3.0, -1.0]]), None)
    (array([[-3. , -0.5]]), array([[0., 1.], [1., 0.]]))
    """
    score = form.rows @ theta
    if sharpness is None:
        return form.weights @ np.minimum(0.0, score), (score < 0.0).astype(np.float64)
    return form.weights @ -np.logaddexp(0.0, -sharpness * score) / sharpness, expit(-sharpness * score)


def linearise(form: Penalty, theta: FloatArray, sharpness: float | None) -> tuple[FloatArray, FloatArray]:
    """Terms gⱼ (J, columns) and their gradients (J, D, columns) at each column of θ."""
    f, side = kinked(form, theta, sharpness)
    g, slopes = form.terms(f)
    pulls = np.stack([form.rows.T @ (w[:, None] * side) for w in form.weights])  # (L, D, columns)
    return g, np.einsum("jl...,ld...->jd...", slopes, pulls)


def _all_pairs(sizes: tuple[int, ...]) -> FloatArray:
    """Matrix C with ‖Cρ‖² = Σ (ρ_a - ρ_b)² over the pairs of groups of each column: a scaled Helmert matrix.

    Examples
    --------
    >>> _all_pairs((2,))
    array([[ 1., -1.]])
    """
    C = np.zeros((sum(size - 1 for size in sizes), sum(sizes)))
    row = 0
    first = 0
    for size in sizes:
        for j in range(1, size):
            C[row, first : first + j] = 1.0
            C[row, first + j] = -j
            C[row] *= np.sqrt(size / (j * (j + 1)))
            row += 1
        first += size
    return C


def _not_zero(X: Any) -> NDArray[np.bool_]:
    return np.asarray(abs(X).sum(axis=1)).ravel() > 0.0


def _scaled(X: Any, by: FloatArray) -> Any:
    return X.multiply(by[:, None]).tocsr() if is_sparse(X) else by[:, None] * X
