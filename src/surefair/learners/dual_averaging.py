"""Dual averaging under slabs, Θ = {|x̃_sᵀθ| ≤ ε for all s} (the paper's Algorithms 1 and 2 for DI, with one slab).

For row k = 1, 2, … and each replicate b, with W_k = (x_k, y_k) and V = 1 for the fit itself:

    θ_k = Π_Θ(-s_{k-1})
    s_k = s_{k-1} + η_k V_k^b ∇L(θ_k; W_k)            ∇L = ℓ'(θᵀx, y) x + κθ
    θ̄_k = ((k-1) θ̄_{k-1} + θ_k) / k

With one slab the projection has a closed form: Π_Θ(p) = p - c x̃ with c = (x̃ᵀp ∓ ε) / ‖x̃‖² if |x̃ᵀp| > ε, else c = 0.
With several slabs only the part of p in their span moves: with Q an orthonormal basis of the span (r rows), Π_Θ(p) =
p - Qᵀc, where c is what has to be subtracted from the r numbers Qp to reach the slabs, in that basis.

The kernel uses a lazy form. Write p = -s = a w + Qᵀβ, so that a row changes w only by a multiple of x:

    a ← (1 - ηVκ) a,    β ← (1 - ηVκ) β + ηVκ c,    w ← w - δ x    with δ = ηVℓ' / a (the new a).

The sum of the iterates needs Σ a_k w_k. With A_k = a_1 + … + a_k, summation by parts gives
Σ_{j≤k} a_j w_j = A_k w_{k+1} + U with U = Σ_{j≤k} A_j δ_j x_j, and the rest is QᵀC with C = Σ (β_j - c_j).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls

from surefair import kernels
from surefair.criteria import Slabs
from surefair.kernels import Faces
from surefair.learners import trace as traces
from surefair.learners._settings import Settings, own, row_products
from surefair.rows import FloatArray, IntArray, is_sparse
from surefair.threads import on_threads

FEATURES = 2**10  # features whose sums are computed together, in the cache
PARALLEL = 1e-7  # two slabs count as parallel if the sine of their angle is smaller


class DualState(NamedTuple):
    """Fit (column 0) and replicates after k rows, in the lazy form; D features, R columns, slabs of r dimensions."""

    k: int
    w: FloatArray  # (D, R)
    U: FloatArray  # (D, R)
    scalars: FloatArray  # (2 + 3r, R): a, A, r rows each of β, t = Qw, C
    waiting: FloatArray  # (p, 1, D): the rows of an incomplete block, which wait for the rest of it
    gains: FloatArray  # (2p, R): for each of them, the multiples of it that w and U will gain
    trace: FloatArray  # (3, 1, D + 2, D + 2): trace of the fit, see trace.py; empty if rows are sparse


def find_faces(vectors: FloatArray, tolerance: float) -> Faces:
    """Faces of the slabs |x̃ᵀθ| ≤ ε, for a projection in the span of the vectors x̃.

    Vectors of zeros bound nothing and are dropped; among parallel slabs only the tightest stays.

    Examples
    --------
    >>> faces = find_faces(np.array([[3.0, 0.0], [0.0, 0.0], [6.0, 0.0]]), tolerance=0.6)
    >>> faces.basis, faces.levels
    (array([[1., 0.]]), array([0.1]))
    """
    lengths = np.linalg.norm(vectors, axis=1)
    vectors = vectors[lengths > 0.0]
    lengths = lengths[lengths > 0.0]
    if not len(vectors):
        return Faces(np.zeros((1, vectors.shape[1])), np.ones((1, 1)), np.zeros(1), np.ones((1, 1)))
    basis = np.zeros((0, vectors.shape[1]))
    for unit in vectors / lengths[:, None]:
        rest = unit
        for _ in range(2):  # the second time removes the rounding of the first
            rest = rest - basis.T @ (basis @ rest)
        length = np.linalg.norm(rest)
        if length > PARALLEL and len(basis) < len(unit):
            basis = np.vstack([basis, rest / length])
    normals = vectors @ basis.T / lengths[:, None]
    normals = normals / np.linalg.norm(normals, axis=1, keepdims=True)
    levels = tolerance / lengths
    kept: list[int] = []
    for s in np.argsort(levels, kind="stable"):
        if all(1.0 - abs(normals[s] @ normals[other]) > PARALLEL**2 for other in kept):
            kept.append(int(s))
    normals = np.ascontiguousarray(normals[kept])
    return Faces(basis, normals, levels[kept], normals @ normals.T)


@dataclass(frozen=True, eq=False)
class DualAveraging:
    """The learner under slabs, for dense rows; also the learner without a constraint, for dense and sparse rows.

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
        return find_faces(self.form.vectors, self.settings.tolerance)

    @property
    def flat(self) -> bool:
        """Whether the slabs leave only a subspace; the part of a dual point outside of it has no effect."""
        return not self.faces.levels.any()

    def init(self, n_columns: int) -> DualState:
        """State before the first row: every column at the start."""
        start = self.settings.start
        trace = traces.fresh(len(start))
        one = self._state(0, start[:, None], np.zeros((len(start), 1)), trace)
        scalars = np.repeat(one.scalars, n_columns, axis=1)
        gains = np.repeat(one.gains, n_columns, axis=1)
        pair = np.zeros((len(start), 2, n_columns))  # interleaved, see ``own``; zeros take no memory until written
        w = pair[:, 0]
        U = pair[:, 1]
        if start.any():
            w[:] = one.w
        return DualState(0, w, U, scalars, one.waiting, gains, trace)

    def step(
        self, state: DualState, X: Any, y: FloatArray, weight: FloatArray | float = 1.0, n_threads: int = 1,
        reuse: bool = False, columns: tuple[int, int] | None = None, group: IntArray | None = None,
    ) -> DualState:  # fmt: skip
        """State after the rows X (n, D), dense or sparse, with labels y = ±1 and relative weights."""
        s = self.settings
        k = state.k + len(y)
        w, U, scalars, trace = own((state.w, state.U, state.scalars, state.trace), reuse)
        batch = s.batch(X, y, weight, state.k)
        args = (batch, s.objective(), self.faces)
        span = columns or (0, w.shape[1])
        before = state.waiting[:, 0]
        if is_sparse(X):
            if self.faces.basis.any():
                raise ValueError("A constraint with slabs needs dense rows; received a sparse matrix. Use X.toarray().")
            lazy = kernels.Lazy(w, U, scalars, before, state.gains)
            on_threads(kernels.dual_averaging_sparse, args, (lazy,), n_threads, span)
            return DualState(k, w, U, scalars, state.waiting, state.gains, traces.nothing())
        gains = np.zeros((2 * kernels.BLOCK, w.shape[1]))
        gains[: len(state.gains)] = state.gains
        lazy = kernels.Lazy(w, U, scalars, self._inside(before), gains)
        args = (batch._replace(X=self._inside(batch.X)), *args[1:])
        room = traces.room(trace, state.k, len(y), X.shape[1], columns)
        record = kernels.Record(s.start, *room)
        p = on_threads(kernels.dual_averaging, (*args, record), (lazy,), n_threads, span)
        traces.add(trace, s.loss, batch.X, batch.y, weight, *room, state.k)
        last = np.vstack([before, batch.X[-kernels.BLOCK :]])
        waiting = last[len(last) - p :, None]
        return DualState(k, w, U, scalars, waiting, gains[: 2 * p], trace)

    def reference_step(
        self, state: DualState, x: FloatArray, y: float, weight: float = 1.0, group: IntArray | None = None
    ) -> DualState:
        """State after one row, in plain NumPy: the specification of ``step``."""
        s = self.settings
        k = state.k + 1
        p = self._dual(state)
        theta = self.project(p)
        total = self._total(state) + theta
        V = s.multipliers.draw(state.k, 1, p.shape[1])[0]
        step = s.damped(s.schedule.steps(k, 1)[0] * weight * V, x)
        p = p - step * (np.outer(x, s.loss.derivative(x @ theta, y)) + s.alpha * theta)
        score = x @ theta[:, 0]
        trace = traces.reference_add(state.trace, s.loss, x, y, weight, score, total[:, 0], k, s.start)
        return self._state(k, p, total, trace)

    def project(self, p: FloatArray) -> FloatArray:
        """Points nearest to the columns of p that lie in all slabs."""
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

    def completed(self, state: DualState) -> DualState:
        """State as it is: what waiting rows add is known."""
        return state

    def merge(self, state: DualState, other: DualState) -> DualState:
        """State of two shards: averages and dual points weighted by rows, traces one after the other."""
        k = state.k + other.k
        share = other.k / k if k else 0.0
        p = (1.0 - share) * self._dual(state) + share * self._dual(other)
        total = self._total(state)
        gone = total[:, 0] - state.k * self.settings.start
        trace = traces.merged(state.trace, other.trace, gone, state.k)
        return self._state(k, p, total + self._total(other), trace)

    def _dual(self, state: DualState) -> FloatArray:
        """Dual points -s, computed from the lazy form."""
        w, _ = self._settled(state)
        return self._added(state.scalars[0] * w, state.scalars[2 : 2 + len(self.faces.basis)])

    def _total(self, state: DualState, over: float = 1.0) -> FloatArray:
        """Sums of iterates divided by ``over``, computed from the lazy form; some features at a time, in the cache."""
        w, U = self._settled(state)
        r = len(self.faces.basis)
        A = state.scalars[1]
        C = state.scalars[2 + 2 * r : 2 + 3 * r]
        total = np.empty(w.shape)
        for low in range(0, len(w), FEATURES):
            part = slice(low, low + FEATURES)
            piece = np.multiply(A, w[part], out=total[part])
            piece += U[part]
            for direction, row in zip(self.faces.basis, C, strict=True):
                piece += direction[part, None] * row
            piece /= over
        return total

    def _settled(self, state: DualState) -> tuple[FloatArray, FloatArray]:
        """Return w and U with the gains of the waiting rows added."""
        w = state.w
        U = state.U
        for x, gain, weighted in zip(state.waiting, state.gains[::2], state.gains[1::2], strict=True):
            inside = self._inside(x).T
            w = w + inside * gain
            U = U + inside * weighted
        return w, U

    def _inside(self, X: FloatArray) -> FloatArray:
        """Rows (n, D), or their projections onto the slabs if these are flat: the rest of a row has no effect."""
        inside = X
        for q in self.faces.basis if self.flat else ():
            inside = inside - row_products(X, q)[:, None] * q
        return inside

    def _added(self, to: FloatArray, numbers: FloatArray) -> FloatArray:
        """Add Qᵀ times numbers (r, R), in place; BLAS would round differently for different R."""
        for direction, row in zip(self.faces.basis, numbers, strict=True):
            to += direction[:, None] * row
        return to

    def _along(self, p: FloatArray) -> FloatArray:
        """Return Qp, shape (r, R); BLAS would round differently for different R."""
        return np.stack([np.add.accumulate(q[:, None] * p)[-1] for q in self.faces.basis])

    def _state(self, k: int, p: FloatArray, total: FloatArray, trace: FloatArray) -> DualState:
        """Return the lazy form with a = 1 and β = A = C = 0."""
        r, D = self.faces.basis.shape
        w = self.project(p) if self.flat else p
        scalars = np.zeros((2 + 3 * r, p.shape[1]))
        scalars[0] = 1.0
        scalars[2 + r : 2 + 2 * r] = self._along(w)
        return DualState(k, w, total, scalars, np.zeros((0, 1, D)), np.zeros((0, p.shape[1])), trace)


def _nearest(normals: FloatArray, levels: FloatArray, u: FloatArray) -> FloatArray:
    """Point v nearest to u with |nᵀv| ≤ e for all slabs: least-distance programming by non-negative least squares.

    The method is that of Lawson and Hanson, Solving Least Squares Problems, chapter 23. It finds the faces that the
    nearest point lies on; the point on these faces is then computed directly.
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
