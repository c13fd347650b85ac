"""Dual averaging under slabs, Θ = {|x̃_sᵀθ| ≤ ε for all s} (the paper's Algorithms 1 and 2 for DI, there with one).

For row k = 1, 2, … and each replicate b, with W_k = (x_k, y_k) and V = 1 for the fit itself:

    θ_k = Π_Θ(-s_{k-1})
    s_k = s_{k-1} + η_k V_k^b ∇L(θ_k; W_k)            ∇L = ℓ'(θᵀx, y) x + κθ
    θ̄_k = ((k-1) θ̄_{k-1} + θ_k) / k

With one slab Π_Θ is closed form: Π_Θ(p) = p - c x̃ with c = (x̃ᵀp ∓ ε) / ‖x̃‖² where |x̃ᵀp| > ε, else c = 0. With
several, only the part of p in their span moves: with Q an orthonormal basis of it (r rows), Π_Θ(p) = p - Qᵀc, where
c is what the r numbers Qp have to give up to reach the slabs, seen in that basis.

The lazy form of the kernel. Write p = -s = a w + Qᵀβ, so that a row changes w by a multiple of x alone:

    a ← (1 - ηVκ) a,    β ← (1 - ηVκ) β + ηVκ c,    w ← w - δ x    with δ = ηVℓ' / a (the new a).

The sum of the iterates needs Σ a_k w_k. With A_k = a_1 + … + a_k, summation by parts gives
Σ_{j≤k} a_j w_j = A_k w_{k+1} + U with U = Σ_{j≤k} A_j δ_j x_j, and the rest is QᵀC with C = Σ (β_j - c_j).

In single precision, U stays in double precision and grows only where the form is folded, every 256 rows; what it has
gained since waits in the scalars. There, too, is what a owes: near 1 it is too coarse for one step's ηVκ. And a dual
point outside the slabs, which may go far, is kept apart: w = Π_Θ(p) and Qᵀβ = p - Π_Θ(p) after a fold.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls

from surefair import kernels
from surefair.criteria import Slabs
from surefair.learners import trace as covariances
from surefair.learners._settings import Settings, own
from surefair.learners.multipliers import LAWS
from surefair.rows.arrays import FloatArray, is_sparse

FEATURES = 2**10  # features whose coefficients are put together at a time, in the cache
PARALLEL = 1e-7  # sine of the angle below which two slabs have the same direction


class DualState(NamedTuple):
    """Fit (column 0) and replicates after k rows, in the lazy form; D features, R columns, r dimensions of slabs."""

    k: int
    w: Any  # (D, R), like all below in single or double precision
    U: FloatArray  # (D, R), always in double precision
    scalars: Any  # (2 + 3r, R): a, A, r rows each of β, t = Qw, C; if single, 1 + D more: owed by a, gained by U
    waiting: Any  # (p, 1, D): the rows of a block begun, which wait for the rest of it
    gains: Any  # (2p, R): of each of them, the multiples of it that w and that U will gain
    trace: FloatArray  # (3, 1, D + 2, D + 2): of the fit itself, see covariances.py; empty if single or rows are sparse


class Faces(NamedTuple):
    """Slabs as seen in an orthonormal basis of their span: |nᵀu| ≤ e for u = Qθ; without any, one of zeros."""

    basis: FloatArray  # Q, shape (r, D), r ≥ 1
    normals: FloatArray  # n, unit vectors, shape (S, r), no two of them parallel
    levels: FloatArray  # e, shape (S,)
    gram: FloatArray  # products of the normals, shape (S, S)

    @classmethod
    def of(cls, vectors: FloatArray, tolerance: float) -> Faces:
        """Faces of the slabs |x̃ᵀθ| ≤ ε; vectors of zeros bound nothing, and of parallel slabs the tightest bounds."""
        lengths = np.linalg.norm(vectors, axis=1)
        vectors, lengths = vectors[lengths > 0.0], lengths[lengths > 0.0]
        basis = np.zeros((0, vectors.shape[1]))
        if not len(vectors):
            return cls(np.zeros((1, vectors.shape[1])), np.ones((1, 1)), np.zeros(1), np.ones((1, 1)))
        for unit in vectors / lengths[:, None]:
            rest = unit
            for _ in range(2):  # twice is enough
                rest = rest - basis.T @ (basis @ rest)
            length = np.linalg.norm(rest)
            if length > PARALLEL and len(basis) < len(unit):
                basis = np.vstack([basis, rest / length])
        normals, levels = vectors @ basis.T / lengths[:, None], tolerance / lengths
        normals = normals / np.linalg.norm(normals, axis=1, keepdims=True)
        kept: list[int] = []
        for s in np.argsort(levels, kind="stable"):
            if all(1.0 - abs(normals[s] @ normals[other]) > PARALLEL**2 for other in kept):
                kept.append(int(s))
        normals = np.ascontiguousarray(normals[kept])
        return cls(basis, normals, levels[kept], normals @ normals.T)


@dataclass(frozen=True, eq=False)
class DualAveraging:
    """The learner for criteria that constrain by slabs.

    Examples
    --------
    >>> from surefair.losses import LOSSES
    >>> from surefair.learners.multipliers import Multipliers
    >>> from surefair.learners.schedules import PolynomialDecay
    >>> learner = DualAveraging(
    ...     Settings(LOSSES["log_loss"], 1e-4, 0.0, 0.0, None, PolynomialDecay(1.0, 0.6), Multipliers("two_point", 0),
    ...              start=np.zeros(2), robust=False),
    ...     Slabs(np.array([[0.3, -0.1]])),
    ... )
    >>> X, y = np.array([[1.0, 2.0], [0.5, -1.0], [2.0, 0.0]]), np.array([1.0, -1.0, 1.0])
    >>> state = learner.step(learner.init(4), X, y)
    >>> learner.mean(state).round(3)[:, [0, 2]]
    array([[0.25 , 0.483],
           [0.749, 1.449]])
    """

    settings: Settings
    form: Slabs

    FORMS = ((Slabs, False), (Slabs, True))

    @cached_property
    def faces(self) -> Faces:
        """The slabs, ready for projection."""
        return Faces.of(self.form.vectors, self.settings.tolerance)

    @property
    def flat(self) -> bool:
        """Whether the slabs leave a subspace. What a dual point has outside of it never returns, and is dropped."""
        return not self.faces.levels.any()

    @property
    def single(self) -> bool:
        """Whether the state is in single precision."""
        return self.settings.dtype == "float32"

    def init(self, n_columns: int) -> DualState:
        """State before the first row: every column at the start."""
        start = self.settings.start
        trace = covariances.nothing() if self.single else covariances.fresh(len(start))
        one = self._state(0, start[:, None], np.zeros((len(start), 1)), trace)
        scalars, gains = (np.repeat(array, n_columns, axis=1) for array in (one.scalars, one.gains))
        pair = np.zeros((len(start), 2, n_columns))  # as the kernel likes them; zeros cost nothing until touched
        w, U = pair[:, 0], pair[:, 1]
        if start.any():
            w[:] = one.w
        return DualState(0, w.astype(one.w.dtype, copy=False), U, scalars, one.waiting, gains, trace)

    def step(
        self, state: DualState, X: Any, y: FloatArray, weight: FloatArray | float = 1.0, n_threads: int = 1,
        reuse: bool = False, columns: tuple[int, int] | None = None,
    ) -> DualState:  # fmt: skip
        """State after the rows X (n, D), dense or sparse, with labels y = ±1 and relative weights."""
        s, number = self.settings, np.dtype(self.settings.dtype).type
        *arrays, trace = own((state.w, state.U, state.scalars, state.trace), reuse)
        eta = s.schedule.steps(state.k + 1, len(y)) * weight
        args = (
            y.astype(number, copy=False), eta.astype(number, copy=False), state.k, LAWS[s.multipliers.law],
            np.uint64(s.multipliers.seed), s.loss.code, number(s.alpha), s.stiffness(X).astype(number, copy=False),
            self.faces.basis.astype(number, copy=False), *self.faces[1:],
        )  # fmt: skip
        if is_sparse(X):
            rows = X.indptr, X.indices, X.data
            kernels.on_threads(kernels.dual_averaging_sparse, (*rows, *args), tuple(arrays), n_threads, columns)
            w, U, scalars = arrays
            return DualState(state.k + len(y), w, U, scalars, state.waiting, state.gains, covariances.nothing())
        X, before = np.ascontiguousarray(X, dtype=number), state.waiting[:, 0]
        gains = np.zeros((2 * kernels.BLOCK, state.w.shape[1]), dtype=number)
        gains[: len(state.gains)] = state.gains
        told = covariances.room(trace, state.k, len(y), X.shape[1], columns)
        whole = (X, *args, before, s.start)
        p = kernels.on_threads(kernels.dual_averaging, whole, (*arrays, gains, *told), n_threads, columns)
        covariances.add(trace, s.loss, X, y, weight, *told, state.k)
        last = np.vstack([before, X[-kernels.BLOCK :]])
        waiting = last[len(last) - p :, None]
        w, U, scalars = arrays
        return DualState(state.k + len(y), w, U, scalars, waiting, gains[: 2 * p], trace)

    def reference_step(self, state: DualState, x: FloatArray, y: float, weight: float = 1.0) -> DualState:
        """State after one row, in plain NumPy: the specification of ``step``."""
        s = self.settings
        k = state.k + 1
        p, total = self._dual(state), self._total(state)
        V = s.multipliers.draw(state.k, 1, p.shape[1])[0]
        theta = self.project(p)
        step = s.damped(s.schedule.steps(k, 1)[0] * weight * V, x)
        p, total = p - step * (np.outer(x, s.loss.derivative(x @ theta, y)) + s.alpha * theta), total + theta
        told = x @ theta[:, 0], total[:, 0]
        return self._state(k, p, total, covariances.reference_add(state.trace, s.loss, x, y, weight, *told, k, s.start))

    def project(self, p: FloatArray) -> FloatArray:
        """Nearest points of the slabs to the columns of p."""
        Q, normals, levels, _ = self.faces
        coordinates = Q @ p
        if len(Q) == 1:
            nearest = coordinates.clip(-levels[0], levels[0])
        else:
            nearest = np.stack([_nearest(normals, levels, u) for u in coordinates.T], axis=1)
        return np.asarray(p - Q.T @ (coordinates - nearest))

    def mean(self, state: DualState) -> FloatArray:
        """Averaged iterates θ̄, shape (D, R); before the first row, the start."""
        return self._total(state, state.k) if state.k else self.iterate(state)

    def iterate(self, state: DualState) -> FloatArray:
        """Iterates θ that the next row will meet, shape (D, R)."""
        return self.project(self._dual(state))

    def merge(self, state: DualState, other: DualState) -> DualState:
        """State of two shards: averages, and dual points, weighted by rows; traces one after the other."""
        k = state.k + other.k
        share = other.k / k if k else 0.0
        p, total = (1.0 - share) * self._dual(state) + share * self._dual(other), self._total(state)
        gone = total[:, 0] - state.k * self.settings.start
        trace = covariances.merged(state.trace, other.trace, gone, state.k)
        return self._state(k, p, total + self._total(other), trace)

    def _dual(self, state: DualState) -> FloatArray:
        """Dual points -s, out of the lazy form."""
        w, _ = self._settled(state)
        return self._added(_double(state.scalars[0]) * w, state.scalars[2 : 2 + len(self.faces.basis)])

    def _total(self, state: DualState, over: float = 1.0) -> FloatArray:
        """Sums of iterates, out of the lazy form, over a number; some features at a time, in the cache."""
        (w, U), r = self._settled(state), len(self.faces.basis)
        total, A, C = np.empty(w.shape), _double(state.scalars[1]), state.scalars[2 + 2 * r : 2 + 3 * r]
        for low in range(0, len(w), FEATURES):
            part = slice(low, low + FEATURES)
            piece = np.multiply(A, w[part], out=total[part])
            piece += U[part]
            if self.single:
                piece += state.scalars[len(state.scalars) - len(w) :][part]
            for direction, row in zip(self.faces.basis, C, strict=True):
                piece += direction[part, None] * row
            piece /= over
        return self._added(total, -self._along(total)) if self.single and self.flat else total  # rounding apart, 0

    def _settled(self, state: DualState) -> tuple[FloatArray, FloatArray]:
        """Return w and U with the gains of the rows that wait."""
        w, U, Q = _double(state.w), state.U, self.faces.basis
        for x, gain, weighted in zip(state.waiting, state.gains[::2], state.gains[1::2], strict=True):
            inside = x - x @ Q.T @ Q if self.flat else _double(x)
            w, U = w + inside.T * gain, U + inside.T * weighted
        return w, U

    def _added(self, to: FloatArray, numbers: FloatArray) -> FloatArray:
        """Add Qᵀ times numbers (r, R), in place; column by column, unlike BLAS."""
        for direction, row in zip(self.faces.basis, numbers, strict=True):
            to += direction[:, None] * row
        return to

    def _along(self, p: FloatArray) -> FloatArray:
        """Return Qp, shape (r, R)."""
        return np.stack([np.add.accumulate(q[:, None] * p)[-1] for q in self.faces.basis])  # alike for any R

    def _state(self, k: int, p: FloatArray, total: FloatArray, trace: FloatArray) -> DualState:
        """Return the lazy form with a = 1, A = C = 0, and β = 0 but for single precision outside the slabs."""
        (r, D), number = self.faces.basis.shape, np.dtype(self.settings.dtype).type
        w = self.project(p) if self.flat or self.single else p
        scalars = np.zeros((2 + 3 * r + (1 + D if self.single else 0), p.shape[1]), dtype=number)
        scalars[0] = 1.0
        if self.single and not self.flat:
            scalars[2 : 2 + r] = self._along(p - w)
        scalars[2 + r : 2 + 2 * r] = self._along(w)
        waiting, gains = np.zeros((0, 1, D), dtype=number), np.zeros((0, p.shape[1]), dtype=number)
        return DualState(k, w.astype(number, copy=False), total, scalars, waiting, gains, trace)


def _double(a: Any) -> FloatArray:
    """Numbers in double precision: the same array where they are."""
    return np.asarray(a, dtype=np.float64)


def _nearest(normals: FloatArray, levels: FloatArray, u: FloatArray) -> FloatArray:
    """Point nearest to u with |nᵀv| ≤ e for all slabs: least-distance programming by non-negative least squares.

    After Lawson and Hanson, Solving Least Squares Problems, chapter 23: they tell which faces the nearest point lies
    on, and the point is then found on these faces directly.
    """
    size = max(np.abs(u).max(), levels.max())
    if size == 0.0 or (np.abs(normals @ u) <= levels).all():
        return u
    if not levels.any():
        return np.zeros_like(u)
    G = np.vstack([-normals, normals])
    h = np.r_[-levels + normals @ u, -levels - normals @ u] / size  # G (v - u) ≥ h, in units of size
    push, _ = nnls(np.vstack([G.T, h]), np.r_[np.zeros(len(u)), 1.0])
    on = push > 0.0
    return np.asarray(u + np.linalg.lstsq(G[on], h[on] * size, rcond=1e-12)[0])


LEARNER = DualAveraging
