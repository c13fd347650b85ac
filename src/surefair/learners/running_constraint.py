"""Averaged SGD under a constraint that is learnt from the same rows, in every replicate with its own weights.

Rows come in blocks of 32, counted from the first row of the stream. For row k of a block and each replicate, with its
weight V (1 for the fit), x the features, g the cells of the row (see ``criteria/_comparisons.py``) and ω its relative
weight:

    θ ← θ - ηωV [ℓ'(xᵀθ, y) + Σ_g w_g φ'(xᵀθ)] x                     steps shortened as in ``Settings.damped``
    n_g, a_g, T_g, G_g ← … + ωV (1, φ(m) - ψ(m) m, ψ(m) x, φ'(m) x)    at m = xᵀ(S + 100 start) / (k + 100)

S is the sum of the iterates so far, so tangents are taken at each replicate's own average. The value φ of a decision is
hard, and two bell curves stand for its derivative: ψ, as narrow as the spread of the scores allows, follows the value;
φ', a wide one, gives the direction in which to move. A narrow slope as direction would have many local optima; a wide
one as tangent would let errors of the start decay slowly. With scores in place of decisions both are the same.

At the end of a block the cells give the rates as linear functions, f(θ) = (a_g + T_gᵀθ) / n_g, with directions
G_g / n_g; or as ratios of two of them, linearised at the same point. Then

1. θ gets back the mean of what rows took for the constraint, Σ ηωV w_g G_g / n_g, so that only its noise is left;
2. the ridge shrinks θ: θ_j ← θ_j / (1 + κ r_j Ση);
3. the differences c = f_a - f_b of all pairs of groups are brought within the tolerance, or pulled towards 0 by the
   penalty R₂ c², with multipliers ρ of their directions d: θ ← θ - Σ ρ (d_a - d_b);
4. multipliers follow: λ ← λ + (ρ / Ση - λ) · 2 · 32 / (k + offset), and w_g = (Σ ± λ) n / n_g.

Without w the noise of gradients and the noise of the constraint would have different weights over time, and
coefficients would be noisier than those of an exact fit.

With a tolerance above 0 step 3 begins at θ + Σ μ (d_a - d_b), with μ the multipliers so far: a constraint that holds by
chance for one block keeps its push.

The answer is the average of the iterates at block ends, weighted by rows, and corrected once more to the constraint as
all rows show it, along the directions H⁻¹d that cost the least.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefair import kernels
from surefair.criteria import Comparisons, Entries, wide_slope
from surefair.learners._settings import Settings
from surefair.rows import FloatArray, IntArray

BLOCK = kernels.DRAWN
HEAD_START = kernels.HEAD_START
SWEEPS = kernels.SWEEPS
FLAT = kernels.FLAT
NARROW = kernels.NARROW
FEW = 30
"""Rows of a cell before its group is constrained; counted without weights, so that it is the same in all replicates."""


class Running(NamedTuple):
    """A constraint that is learnt from the stream: what is compared, and the geometry of the coordinates."""

    comparisons: Comparisons
    width: float  # of the wide slope of decisions, in units of the score
    curvature: FloatArray  # Hessian of the Lagrangian, (D, D)
    ridge: FloatArray  # r, (D,): the ridge is κ Σ r_j θ_j² / 2
    push: FloatArray  # λ at the start, (pairs,)
    square: float  # mean square of the scores at the start


class RunningState(NamedTuple):
    """Fit (column 0) and replicates after k rows of complete blocks; D features, C cells, J pairs, R columns."""

    k: int
    theta: FloatArray  # (D, R)
    total: FloatArray  # (D, R), sum of the iterates at block ends, each times the rows of its block
    sums: FloatArray  # (3 C, R): counts, offsets a, and squares Σ ωV φ'² |x|² of each cell
    slopes: FloatArray  # (C D, R): G of each cell
    steep: FloatArray  # (C D, R): T of each cell; no rows where it would be the same as G
    push: FloatArray  # (2 J, R): λ, then μ
    weight: FloatArray  # (2, R): sums of ωV and of ωV m²
    seen: FloatArray  # (C, 1): rows of each cell
    rows: FloatArray  # (p, 1, D + 2 + columns): rows of an incomplete block: features, label, weight, groups


@dataclass(frozen=True, eq=False)
class RunningConstraint:
    """The learner of a constraint from the stream; also the learner without a constraint."""

    settings: Settings
    form: Running

    FORMS = ((Running, False),)

    def init(self, n_columns: int) -> RunningState:
        """State before the first row: every column at the start."""
        D = len(self.settings.start)
        c = self.form.comparisons
        J = len(c.pairs)
        push = np.zeros((2 * J, n_columns))
        push[:J] = self.form.push[:, None]
        return RunningState(
            k=0,
            theta=np.repeat(self.settings.start[:, None], n_columns, axis=1),
            total=np.zeros((D, n_columns)),
            sums=np.zeros((3 * c.n_cells, n_columns)),
            slopes=np.zeros((c.n_cells * D, n_columns)),
            steep=np.zeros((c.n_cells * D * self._two_slopes, n_columns)),
            push=push,
            weight=np.zeros((2, n_columns)),
            seen=np.zeros((c.n_cells, 1)),
            rows=np.zeros((0, 1, D + 2 + len(c.sizes))),
        )

    def step(
        self, state: RunningState, X: FloatArray, y: FloatArray, weight: FloatArray | float = 1.0, n_threads: int = 1,
        reuse: bool = False, columns: tuple[int, int] | None = None, group: IntArray | None = None,
    ) -> RunningState:  # fmt: skip
        """State after the rows X (n, D) with labels y = ±1, group codes (n, columns) and relative weights."""
        rows = np.concatenate([state.rows, self._pack(X, y, weight, group)])
        whole = len(rows) // BLOCK * BLOCK
        if whole == 0:
            return state._replace(rows=rows)
        return self._run(state, rows[:whole], n_threads, columns)._replace(rows=rows[whole:])

    def reference_step(
        self, state: RunningState, x: FloatArray, y: float, weight: float = 1.0, group: IntArray | None = None
    ) -> RunningState:
        """State after one row, in plain NumPy: the specification of ``step``."""
        codes = None if group is None else group[None]
        rows = np.concatenate([state.rows, self._pack(x[None], np.array([y]), weight, codes)])
        state = state._replace(rows=rows)
        return state if len(rows) < BLOCK else self._reference_block(state)

    def mean(self, state: RunningState) -> FloatArray:
        """Averaged iterates, corrected to the constraint, shape (D, R); before the first row, the start."""
        state = self._complete(state)
        return self._corrected(state) if state.k else state.theta

    def merge(self, state: RunningState, other: RunningState) -> RunningState:
        """State of two shards: sums add, iterates and multipliers are weighted by rows."""
        one, two = self._complete(state), self._complete(other)
        k = one.k + two.k
        share = two.k / k if k else 0.0
        return one._replace(
            k=k,
            theta=(1.0 - share) * one.theta + share * two.theta,
            push=(1.0 - share) * one.push + share * two.push,
            **{
                name: getattr(one, name) + getattr(two, name)
                for name in ("total", "sums", "slopes", "steep", "weight", "seen")
            },
        )

    def _pack(self, X: FloatArray, y: FloatArray, weight: FloatArray | float, group: IntArray | None) -> FloatArray:
        """Rows as one array (n, 1, …), which a state can hold; without groups they are in no cell."""
        if group is None:
            group = np.full((len(y), len(self.form.comparisons.sizes)), -1)
        tail = np.column_stack([y, np.broadcast_to(weight, len(y)), group])
        return np.concatenate([X, tail], axis=1)[:, None]

    @property
    def _two_slopes(self) -> bool:
        """Whether values follow another slope than directions do."""
        return self.form.comparisons.kind == kernels.DECISIONS

    # -- Kernel -------------------------------------------------------------------------------------------------------

    def _complete(self, state: RunningState) -> RunningState:
        """Return the state with the rows of an incomplete block taken in."""
        if not len(state.rows):
            return state
        rows = state.rows
        state = self._run(state, rows, 1, None)
        return state._replace(rows=rows[:0])

    def _run(
        self, state: RunningState, rows: FloatArray, n_threads: int, columns: tuple[int, int] | None
    ) -> RunningState:
        """State after complete blocks of rows, or after one block that is not complete."""
        s = self.settings
        c = self.form.comparisons
        X, y, weight, group = _unpack(rows, len(s.start))
        entries = c.entries(y, group)
        seen = state.seen[:, 0] + self._counted(entries)
        held = kernels.Running(*(array.copy() for array in state[1:8]))
        comparing = kernels.Comparing(
            c.kind, self.form.width, c.owner, c.n_rates, np.ascontiguousarray(c.pairs.T), self._on(seen), s.tolerance,
            s.effective_penalty, self.form.ridge, s.start, s.schedule.offset, self.form.square,
        )  # fmt: skip
        args = (s.batch(X, y, weight, state.k), kernels.Entries(*entries, weight), s.objective(), comparing)
        kernels.on_threads(kernels.running_constraint, args, (held,), n_threads, columns or (0, state.theta.shape[1]))
        return state._replace(k=state.k + len(y), **held._asdict(), seen=seen[-1][:, None])

    def _counted(self, entries: Entries) -> FloatArray:
        """Rows of each cell before the first block and after each, shape (1 + blocks, C)."""
        c = self.form.comparisons
        place = entries.cell + c.n_cells * (1 + np.arange(len(entries.cell)) // BLOCK)[:, None]
        n_blocks = 1 + -(-len(entries.cell) // BLOCK)
        table = np.bincount(place[entries.cell >= 0], minlength=n_blocks * c.n_cells)
        return np.asarray(np.cumsum(table.reshape(n_blocks, c.n_cells), axis=0), dtype=np.float64)

    def _on(self, seen: FloatArray) -> NDArray[np.bool_]:
        """Which rates are constrained, shape (…, F), given the rows of each cell (…, C)."""
        return np.asarray(seen[..., : self.form.comparisons.n_rates] >= FEW)

    # -- Specification ------------------------------------------------------------------------------------------------

    def _reference_block(self, state: RunningState) -> RunningState:
        """State after its waiting rows, in plain NumPy."""
        s = self.settings
        c = self.form.comparisons
        D, R = state.theta.shape
        X, y, weight, group = _unpack(state.rows, D)
        n = len(y)
        V = s.multipliers.draw(state.k, n, R)
        eta = s.schedule.steps(state.k + 1, n) * weight
        entries = c.entries(y, group)
        seen = state.seen[:, 0] + self._counted(entries)
        before, after = self._on(seen)
        point = self._point(state)
        counts, offsets, squares = (part.copy() for part in np.split(state.sums, 3))
        slopes = state.slopes.reshape(c.n_cells, D, R).copy()
        steep = state.steep.reshape(c.n_cells, D, R).copy() if self._two_slopes else slopes
        narrow = self._narrow(state)
        push, carried = np.split(state.push, 2)
        pull = c.by_rate(push * np.all(before[c.pairs], axis=1, keepdims=True))
        rates = linearise(c, counts, offsets, slopes, steep, point)
        w = pull[c.owner] * rates.share * state.weight[0] / np.where(counts > 0.0, counts, np.inf)
        spent = np.zeros_like(counts)
        theta = state.theta.copy()
        total = state.weight.copy()
        for i in range(n):
            score = X[i] @ theta
            at = X[i] @ point
            move = s.damped(eta[i] * V[i], X[i])
            total += weight[i] * V[i] * np.stack([np.ones(R), at**2])
            slope = s.loss.derivative(score, y[i])
            for cell, constant, sign in zip(*(part[i] for part in entries), strict=True):
                if cell < 0:
                    continue
                slope = slope + w[cell] * surrogate(self.form, constant, sign, score, narrow)[1]
                spent[cell] += move * w[cell]
                value, bend, sharp = surrogate(self.form, constant, sign, at, narrow)
                q = weight[i] * V[i]
                counts[cell] += q
                offsets[cell] += q * (value - sharp * at)
                squares[cell] += q * bend**2 * (X[i] @ X[i])
                slopes[cell] += np.outer(X[i], q * bend)
                if self._two_slopes:
                    steep[cell] += np.outer(X[i], q * sharp)
            theta = theta - np.outer(X[i], move * slope)
        spent = spent / np.where(counts > 0.0, counts, np.inf)
        theta = theta + np.einsum("cr,cdr->dr", spent, slopes)
        steps = eta.sum()
        theta = theta / (1.0 + s.alpha * self.form.ridge[:, None] * steps)
        rates = linearise(c, counts, offsets, slopes, steep, point)
        rho = self._multipliers(rates, theta, rates.noise(c, squares, counts), carried, after, steps)
        theta = theta - np.einsum("jr,jdr->dr", rho, rates.slope[c.pairs[:, 0]] - rates.slope[c.pairs[:, 1]])
        gain = min(1.0, 2.0 * n / (state.k + n + s.schedule.offset))
        return RunningState(
            k=state.k + n,
            theta=theta,
            total=state.total + n * theta,
            sums=np.concatenate([counts, offsets, squares]),
            slopes=slopes.reshape(-1, R),
            steep=steep.reshape(-1, R) if self._two_slopes else state.steep,
            push=np.concatenate([push + (rho / steps - push) * gain, carried + rho * (s.tolerance > 0.0)]),
            weight=total,
            seen=seen[-1][:, None],
            rows=state.rows[:0],
        )

    def _multipliers(
        self, rates: Rates, theta: FloatArray, noise: FloatArray, carried: FloatArray, on: NDArray[np.bool_],
        steps: float,
    ) -> FloatArray:  # fmt: skip
        """Multipliers ρ (J, R) of a block, by sweeps over the pairs, one pair after the other."""
        s = self.settings
        f = rates.value(theta)
        gram = np.einsum("fdr,gdr->fgr", rates.steep, rates.slope)
        rho = np.zeros_like(carried)
        for _ in range(SWEEPS):
            for j, (a, b) in enumerate(self.form.comparisons.pairs):
                if not (on[a] and on[b]):
                    continue
                size = gram[a, a] + gram[b, b] - gram[a, b] - gram[b, a]
                gap = f[a] - f[b] + rho[j] * size  # before this pair's own push
                if s.tolerance > 0.0:
                    beyond = gap + carried[j] * size
                    beyond = beyond - np.clip(beyond, -s.tolerance, s.tolerance)
                    new = shrunk(beyond, size, FLAT * (noise[a] + noise[b])) - carried[j]
                elif s.effective_penalty > 0.0:
                    new = gap / (np.maximum(size, 0.0) + 0.5 / (s.effective_penalty * steps))
                else:
                    new = shrunk(gap, size, noise[a] + noise[b])
                f = f - (new - rho[j]) * (gram[:, a] - gram[:, b])
                rho[j] = new
        return rho

    # -- Answers ------------------------------------------------------------------------------------------------------

    def _point(self, state: RunningState) -> FloatArray:
        """Where tangents are taken, (D, R): the average of the iterates and the start."""
        return np.asarray((state.total + HEAD_START * self.settings.start[:, None]) / (state.k + HEAD_START))

    def _narrow(self, state: RunningState) -> FloatArray:
        """Inverse width of the slope that values follow, (R,), which grows with the spread of the scores so far."""
        weight, squares = state.weight
        width = NARROW * np.sqrt((squares + HEAD_START * self.form.square) / (weight + HEAD_START))
        return 1.0 / np.where(width > 0.0, width, np.inf)

    def _corrected(self, state: RunningState) -> FloatArray:
        """Averages, moved to the constraint that all rows show."""
        s = self.settings
        c = self.form.comparisons
        D, R = state.theta.shape
        out = state.total / state.k
        counts, offsets, _ = np.split(state.sums, 3)
        slopes = state.slopes.reshape(c.n_cells, D, R)
        steep = state.steep.reshape(c.n_cells, D, R) if self._two_slopes else slopes
        rates = linearise(c, counts, offsets, slopes, steep, self._point(state))
        push, carried = np.split(state.push, 2)
        on: NDArray[np.bool_] = np.all(self._on(state.seen[:, 0])[c.pairs], axis=1, keepdims=True)
        f = rates.value(out)
        gap = f[c.pairs[:, 0]] - f[c.pairs[:, 1]]
        give = 0.5 / s.effective_penalty if s.effective_penalty > 0.0 else 0.0
        side = np.where(carried != 0.0, np.sign(carried), np.sign(gap) * (np.abs(gap) > s.tolerance))
        held = on & ((side != 0.0) | (s.tolerance == 0.0))
        left = gap - side * s.tolerance - give * push
        for r in range(R):
            some = c.pairs[held[:, r]]
            across = rates.slope[some[:, 0], :, r] - rates.slope[some[:, 1], :, r]
            steepest = rates.steep[some[:, 0], :, r] - rates.steep[some[:, 1], :, r]
            cheap = np.linalg.solve(self.form.curvature, across.T)
            matrix = steepest @ cheap + give * np.eye(len(some))
            out[:, r] -= cheap @ (np.linalg.pinv(matrix, rcond=1e-9) @ left[held[:, r], r])
        return np.asarray(out)


class Rates(NamedTuple):
    """The rates of groups as linear functions of θ."""

    offset: FloatArray  # (F, R)
    slope: FloatArray  # (F, D, R), directions
    steep: FloatArray  # (F, D, R), slopes of the values
    share: FloatArray  # (C, R), derivative of a rate in the mean of its cell

    def value(self, theta: FloatArray) -> FloatArray:
        """Rates at θ (D, R), shape (F, R)."""
        return np.asarray(self.offset + along(self.steep, theta))

    def noise(self, c: Comparisons, squares: FloatArray, counts: FloatArray) -> FloatArray:
        """Variance of each slope's length that comes from the rows being a sample, shape (F, R)."""
        found = np.zeros_like(self.offset)
        np.add.at(found, c.owner, self.share**2 * squares / np.where(counts > 0.0, counts, np.inf) ** 2)
        return found


def linearise(
    c: Comparisons, counts: FloatArray, offsets: FloatArray, slopes: FloatArray, steep: FloatArray, point: FloatArray
) -> Rates:  # fmt: skip
    """Rates as linear functions, from the sums of cells; ratios are linearised at a point (D, R)."""
    F = c.n_rates
    inverse = 1.0 / np.where(counts > 0.0, counts, np.inf)
    offset = offsets * inverse
    slope = slopes * inverse[:, None]
    value = steep * inverse[:, None]
    share = np.ones_like(counts)
    found = Rates(offset[:F].copy(), slope[:F].copy(), value[:F].copy(), share)
    for cell in range(F, c.n_cells):
        rate = c.owner[cell]
        above = offset[rate] + along(value[rate], point)
        below = offset[cell] + along(value[cell], point)
        share[rate] = 1.0 / np.where(below > 0.0, below, np.inf)
        share[cell] = -above * share[rate] ** 2
        found.slope[rate] = share[rate] * slope[rate] + share[cell] * slope[cell]
        found.steep[rate] = share[rate] * value[rate] + share[cell] * value[cell]
        found.offset[rate] = share[rate] * (offset[rate] + above) + share[cell] * offset[cell]
    return found


def along(slope: FloatArray, theta: FloatArray) -> FloatArray:
    """Products of slopes (…, D, R) with θ (D, R), added in order: BLAS would round differently for different R."""
    return np.asarray(np.add.accumulate(slope * theta, axis=-2)[..., -1, :])


def shrunk(gap: FloatArray, size: FloatArray, noise: FloatArray) -> FloatArray:
    """Return gap / size, less where the size is not large compared with its noise, and 0 where there is no slope."""
    size = np.maximum(size, 0.0)
    both = size**2 + noise**2
    return np.asarray(gap * size / np.where(both > 0.0, both, np.inf))


def surrogate(
    form: Running, constant: float, sign: float, score: FloatArray, narrow: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Value of what a row adds to a cell, its wide slope in the score, and its narrow one."""
    kind = form.comparisons.kind
    if kind == kernels.LINEAR:
        slope = np.full_like(score, sign)
        return np.asarray(sign * score), slope, slope
    if kind == kernels.HINGE:
        slope = np.where(sign * score > 0.0, sign, 0.0)
        return np.asarray(slope * score), slope, slope
    value = np.where(score > 0.0, constant + sign, constant)
    wide = sign * wide_slope(score, form.width)
    sharp = 0.75 * sign * narrow * np.maximum(1.0 - (score * narrow) ** 2, 0.0)
    return value, np.asarray(wide), np.asarray(sharp)


def _unpack(rows: FloatArray, D: int) -> tuple[FloatArray, FloatArray, FloatArray, IntArray]:
    """Features, labels, weights and groups of packed rows."""
    flat = rows[:, 0]
    parts = (flat[:, :D], flat[:, D], flat[:, D + 1])
    return *(np.ascontiguousarray(part) for part in parts), flat[:, D + 2 :].astype(np.int64)  # type: ignore[return-value]


LEARNER = RunningConstraint
