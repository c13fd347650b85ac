"""Stochastic gradients for sparse rows, with Newton steps along the few directions in which a constraint acts.

The problem is that of ``stochastic_newton.py``: minimise mean ℓ(θᵀx, y) + κ‖θ‖²/2 under |c_p(θ)| ≤ ε for all pairs p of
groups, or with R₂ Σ c_p² added, where the constraint is learnt from the same rows. Features are only scaled, so that
rows stay sparse. The ridge is on the scaled coefficients, the intercept among them: a lazy form that touches only the
features of a row can shrink all coefficients by one number, not each by its own. The spread of the scores is their root
mean square.

Let Q be an orthonormal basis, of r rows, of the slopes of the gaps of the pairs that are constrained. Along Q the
constraint decides where θ ends, across Q the loss does. So the learner descends across Q, and takes Newton steps along
Q, which need matrices of size r only. For row k = 1, 2, … and each replicate, with weight V, z = Qx, scores m = θᵀx and
m̄ = θ̄ᵀx, θ̄ the average of all iterates after the warm-up rows, this one included, the j-th with weight j, so that it
forgets where it began, and weights h_k that grow like k⁸:

    ψ = ℓ'(m, y) + Σ_g w_g Φ'(m) - d m / s²               over the row's cells g, w_g = Σ ± λ n / n_g
    f_g ← f_g + h_k V (Φ(m̄) + Φ'(m̄) (m - m̄) - f_g) / n_g   with n_g the sum of h_k V over the rows of the cell
    s², s̄², d ← means of m², m̄² and Σ_g w_g Φ'(m) m        with the same weights, whose sum is n
    γ ← γ - V h_k / (h_1 + … + h_k) [ψ z + κQθ]
    θ ← θ - η_k V [ψ (x - Qᵀz) + κ (θ - QᵀQθ)]

The last term of ψ is the derivative of the spread. After each 32 rows the multipliers move:

    c = gaps of f + G H⁻¹ (γ + Gᵀλ)                       with H the curvature of the loss and G the slopes along Q
    λ' = multipliers that bring c - G H⁻¹ Gᵀλ' within ε   directly if ε = 0, else by sweeps over the pairs
    Δ = H⁻¹ (γ - Gᵀ(λ' - λ)),   θ ← θ + QᵀΔ,   f_g ← f_g + G_gᵀΔ,   λ ← λ',   γ ← 0

The result is θ̄. The values f are tangents at θ̄ because their mean over all rows is then, to first order, the value at
θ̄ itself: ΣjΦ(θ̄_k) grows by just j times that much with each row. Values at θ would be off by the fluctuation of the
iterates. Means favour later rows because with equal weights the average iterate would depend on early rows twice,
through their gradients and through the means.

Long rows, of stiffness t, have shorter steps, η / (1 + 2ηt). They do not depend on V, because rare features are scaled
up, so that all rows are long, and replicates whose steps are not proportional to V would not move as the fit does on
average; the 2 leaves room for V = 2.

Some bounds keep a fit near its optimum that has begun far from it: the constraint moves the score of a row by at most a
quarter of the width of a decision; a tangent counts up to three widths of a decision from its point, and a score up to
three spreads in the derivative of the spread; Newton steps, the square root of ΔᵀHΔ, are at most 0.1 long; and
multipliers are limited.

The kernel uses a lazy form, θ = a w + Qᵀβ and Σjθ = A w + U + QᵀC, so that a row changes w and U by multiples of x; see
``dual_averaging.py``. It also follows t = Qw.

The warm-up rows come first. One pass over them from θ = 0, without a constraint and with the weights of each replicate,
gives the point from which the stream continues: the average of that pass. Q, G and H are the same for all replicates. A
survey of the rows at the average of the fit shows them, and they are renewed where the number of rows has grown by a
quarter. H is taken as diagonal. With many features chance makes much of a slope, so slopes are shrunk before they
become directions, and the slopes along them are corrected for chance; see ``directions``. Until a direction is clear,
the constraint waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from surefair import kernels
from surefair.criteria import FEW, Comparisons, Entries, surrogate
from surefair.learners._settings import Settings, own
from surefair.learners.geometry import n_sweeps, of_pairs, solved
from surefair.learners.multipliers import Multipliers
from surefair.learners.stochastic_newton import Learnt, recoded, spread_out
from surefair.learners.survey import survey_sparse
from surefair.rows import FloatArray, IntArray, sum_in_order
from surefair.threads import on_threads

BLOCK = kernels.DRAWN
POWER = 8  # h_k = (k + HEAD n)⁸, with n the number of warm-up rows, which have h_n each
HEAD = 3
UNIT = 2.0**-10  # rows are counted in units of 1,024 for that
GROWTH = 4  # matrices are renewed when the number of rows has grown by one part in so many
EAGER = 16  # the same while some group has few rows
DIRECTIONS = 8  # most directions of Newton steps
CLEAR = 4.0  # standard errors from which on the slope along a direction is more than chance
THRESHOLDS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0)  # squares of slopes, relative to chance, from which on they count
DEAR = 5.0  # multipliers are at most so many times the loss of a model without information
FEATURES = 2**10  # features whose sums are computed together, in the cache
SURVEYED = ("slopes", "lever", "size", "seen", "total")
A, SUM, WEIGHT, SQUARE, MEAN_SQUARE, DRIFT, SCALE, MEAN_SCALE, TURN = range(9)


class PrimalDualState(NamedTuple):
    """Fit (column 0) and replicates after k rows; D features, r directions, C cells, J pairs, R columns.

    The arrays after ``counts`` are shared by all columns.
    """

    k: int
    w: FloatArray  # (D, R): θ = a w + Qᵀβ
    U: FloatArray  # (D, R): sum of iterates, the j-th times j, = A w + U + QᵀC
    scalars: FloatArray  # (9, R): a, A, n, s², s̄², d, 1 / (width · s), 1 / (width · s̄), d / s²
    along: FloatArray  # (4r, R): β, t = Qw, C, γ
    push: FloatArray  # (J, R), λ
    pull: FloatArray  # (C, R), w_g in the current block
    value: FloatArray  # (C, R), f
    counts: FloatArray  # (C, R), n_g
    slopes: FloatArray  # (C, 1, D), Σ kω Φ' x over the rows of each cell
    lever: FloatArray  # (2, 1, D), Σ kω m̄ x and Σ kω ℓ'' x²
    size: FloatArray  # (C, 1, 2 + D), Σ kω, Σ kω Φ' m̄ and Σ (kω)² (Φ'² + (mean of Φ' m̄)² m̄² / s̄⁴) x²
    seen: FloatArray  # (C, 1), rows
    total: FloatArray  # (2, 1), Σ kω and Σ kω m̄²
    basis: FloatArray  # (D, 1, r), Qᵀ
    inverse: FloatArray  # (r, 1, r), H⁻¹ in use
    tangent: FloatArray  # (C, 1, r), slopes of cells along Q in use
    followed: FloatArray  # (J, 1), whether each pair is constrained
    anchor: FloatArray  # (C + 1, 1), f of the fit when matrices were last renewed, and the scale of its scores
    until: FloatArray  # (1, 1), number of rows at which directions and matrices are renewed


@dataclass(frozen=True, eq=False)
class PrimalDual:
    """The learner of a constraint from a stream of sparse rows with many features.

    It serves criteria whose rates condition on labels only, so that every cell is the rate of a group.
    """

    settings: Settings
    form: Learnt

    FORMS = ((Learnt, True),)

    # -- States -------------------------------------------------------------------------------------------------------

    def init(self, n_columns: int) -> PrimalDualState:
        """State after the warm-up rows."""
        first = self.form.first
        state = self._blank(n_columns)
        entries = Entries(*(np.zeros((len(first.y), 0), dtype=kind) for kind in (np.int64, float, float)))
        counting = self._counting(0, first.weight, 0)._replace(solves=False)
        batch = self.settings.batch(first.X, first.y, first.weight, 0)
        self._run(state, (batch, counting, entries))
        used = np.unique(first.X.indices)  # other coefficients are 0
        state.w[used] = self._total(state, used) / _triangle(len(first.y))
        state.U[used] = 0.0
        return self._measured(state._replace(scalars=self._fresh(n_columns)), used)

    def step(
        self, state: PrimalDualState, X: Any, y: FloatArray, weight: FloatArray | float = 1.0, n_threads: int = 1,
        reuse: bool = False, columns: tuple[int, int] | None = None, group: IntArray | None = None,
    ) -> PrimalDualState:  # fmt: skip
        """State after the sparse rows X (n, D) with labels y = ±1, group codes (n, columns) and relative weights."""
        moving: dict[str, Any] = dict(zip(state._fields[1:9], own(tuple(state[1:9]), reuse), strict=True))
        state = self._surveying(state._replace(**moving))
        weights = np.broadcast_to(np.asarray(weight, dtype=np.float64), len(y))
        codes = self._codes(len(y), group)
        at = 0
        while at < len(y):
            end = int(min(len(y), at + state.until[0, 0] - state.k))
            batch = self.settings.batch(X[at:end], y[at:end], weights[at:end], state.k)
            entries = self.form.comparisons.entries(y[at:end], codes[at:end])
            rows = batch, self._counting(state.k, weights[at:end], len(self.form.first.y)), entries
            if columns is not None and columns[0] > 0:  # the survey follows the fit itself
                self._run(state, rows, 1, (0, 1))
            self._run(state, rows, n_threads, columns)
            self._survey(state, *rows)
            state = state._replace(k=state.k + end - at)
            at = end
            if state.k >= state.until[0, 0]:
                state = self._renewed(state)
        return state

    def shapes(self, n_columns: int, arrays: Mapping[str, NDArray[Any]]) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the arrays of a state; ``arrays`` has the directions that it follows."""
        D, c, R = len(self.settings.start), self.form.comparisons, n_columns
        C, J = c.n_cells, len(c.pairs)
        r = min(arrays["state_basis"].shape[-1], D)
        return {
            "w": (D, R), "U": (D, R), "scalars": (9, R), "along": (4 * r, R), "push": (J, R), "pull": (C, R),
            "value": (C, R), "counts": (C, R), "slopes": (C, 1, D), "lever": (2, 1, D), "size": (C, 1, 2 + D),
            "seen": (C, 1), "total": (2, 1), "basis": (D, 1, r), "inverse": (r, 1, r), "tangent": (C, 1, r),
            "followed": (J, 1), "anchor": (C + 1, 1), "until": (1, 1),
        }  # fmt: skip

    def check(self, state: PrimalDualState) -> None:
        """Refuse a state from a file that says it is renewed at a number of rows which never comes."""
        if not (state.k < state.until[0, 0] < 2.0**62 and state.k >= len(self.form.first.y)):
            raise ValueError("The state says that it is renewed at a number of rows which never comes.")

    def reference_step(
        self, state: PrimalDualState, x: FloatArray, y: float, weight: float = 1.0, group: IntArray | None = None
    ) -> PrimalDualState:
        """State after one row, in plain NumPy."""
        s = self.settings
        c = self.form.comparisons
        k = state.k + 1
        n_later = k - len(self.form.first.y)
        Q = state.basis[:, 0].T
        r, R = len(Q), state.w.shape[1]
        theta, total = self.iterate(state), self._total(state)
        n, square, mean_square, drift, scale, mean_scale, turn = state.scalars[WEIGHT:]
        entries = c.entries(np.array([y]), self._codes(1, None if group is None else group[None]))
        drawn = s.multipliers.draw(state.k, 1, R)[0]
        V = weight * drawn
        move = drawn * s.damped(2.0 * weight * s.schedule.steps(k, 1)[0], x) / 2.0
        score = x @ theta
        mean = (x @ total + n_later * score) / _triangle(n_later)
        recent = V * self._recent(k)
        value, counts = state.value.copy(), state.counts.copy()
        push = np.zeros(R)
        for cell, constant, sign in zip(*(part[0] for part in entries), strict=True):
            if cell < 0:
                continue
            f, _, _, steep = surrogate(c.kind, constant, sign, mean, mean_scale)
            counts[cell] += recent
            off = np.clip((score - mean) * mean_scale, -kernels.BELIEVED, kernels.BELIEVED) * _ratio(1.0, mean_scale)
            value[cell] += _ratio(recent * (f + steep * off - value[cell]), counts[cell])
            push += state.pull[cell] * surrogate(c.kind, constant, sign, score, scale)[1]
        push = push / np.maximum(np.abs(push * move) * (x @ x) * scale / kernels.NEAR_BY, 1.0)
        slope = s.loss.derivative(score, y)
        if c.kind == kernels.DECISIONS:
            far = kernels.FAR_OUT / self.form.width * _ratio(1.0, scale)
            slope = slope - turn * np.clip(score, -far, far)
        slope = slope + push
        n = n + recent
        share = _ratio(recent, n)
        square = square + share * (score**2 - square)
        mean_square = mean_square + share * (mean**2 - mean_square)
        drift = drift + share * (push * score - drift)
        gain = self._recent(k) / self._grown(k) * V
        gamma = state.along[3 * r :] - gain * (np.outer(Q @ x, slope) + s.alpha * (Q @ theta))
        gradient = np.outer(x, slope) + s.alpha * theta
        moved = theta - move * (gradient - Q.T @ (Q @ gradient))
        scalars = np.stack([*self._fresh(R)[:2], n, square, mean_square, drift, scale, mean_scale, turn])
        along = np.concatenate([np.zeros((r, R)), Q @ moved, np.zeros((r, R)), gamma])
        w, U = _interleaved(moved, total + n_later * theta)
        after = state._replace(k=k, w=w, U=U, scalars=scalars, along=along, value=value, counts=counts)
        after = self._surveying(after)
        batch = s.batch(csr_matrix(x[None]), np.array([y]), weight, state.k)
        counting = self._counting(state.k, np.array([weight]), k - n_later)._replace(scores=mean[:1].copy())
        self._survey(after, batch, counting, entries)
        if k % BLOCK == 0:
            after = self._refreshed(self._reference_solve(after))
        return self._renewed(after) if k >= after.until[0, 0] else after

    def mean(self, state: PrimalDualState) -> FloatArray:
        """Averaged iterates θ̄ after the warm-up rows, shape (D, R); before the first row that follows, the iterates."""
        later = state.k - len(self.form.first.y)
        if not later:
            return self.iterate(state)
        mean = np.empty(state.w.shape)
        for low in range(0, len(mean), FEATURES):  # some features at a time, in the cache
            part = slice(low, low + FEATURES)
            np.divide(self._total(state, part), _triangle(later), out=mean[part])
        return mean

    def iterate(self, state: PrimalDualState, which: Any = slice(None)) -> FloatArray:
        """Iterates θ that the next row will meet, of some features, shape (features, R)."""
        theta = state.scalars[A] * state.w[which]
        for f, q in enumerate(state.basis[which, 0].T):
            theta += q[:, None] * state.along[f]
        return np.asarray(theta)

    def completed(self, state: PrimalDualState) -> PrimalDualState:
        """State as it is: no rows wait."""
        return state

    def merge(self, state: PrimalDualState, other: PrimalDualState) -> PrimalDualState:
        """State of two shards that began with the same warm-up rows, which count once.

        Iterates, their averages, multipliers and means are averaged with the numbers of later rows, and the values of
        each shard are moved to the common iterate.
        """
        c = self.form.comparisons
        first = self.form.first
        n = len(first.y)
        k = state.k + other.k - n
        parts = (state, other)
        share = [(part.k - n) / (k - n) if k > n else 0.5 for part in parts]
        recent = [one * self._grown(k) / self._grown(part.k) for one, part in zip(share, parts, strict=True)]
        steady = [one * (k / part.k) ** 2 for one, part in zip(share, parts, strict=True)]

        def mixed(name: str, weights: Sequence[float] = share) -> FloatArray:
            return np.asarray(weights[0] * getattr(state, name) + weights[1] * getattr(other, name))

        iterates = self.iterate(state), self.iterate(other)
        theta = share[0] * iterates[0] + share[1] * iterates[1]
        total = _triangle(k - n) * (share[0] * self.mean(state) + share[1] * self.mean(other))
        w, U = _interleaved(theta, total)
        R = theta.shape[1]
        scalars = mixed("scalars")
        scalars[: WEIGHT + 1] = *self._fresh(R)[:WEIGHT], mixed("scalars", recent)[WEIGHT]
        sums = {name: mixed(name, steady) for name in SURVEYED}
        entries = c.entries(first.y, first.group)
        some = (entries.cell >= 0) & (first.weight[:, None] > 0.0)
        twice = np.bincount(entries.cell[some], minlength=c.n_cells)
        sums["seen"] = state.seen + other.seen - twice[:, None]
        merged = state._replace(
            k=k, w=w, U=U, scalars=scalars, along=np.zeros((0, R)), push=mixed("push"), counts=mixed("counts", recent),
            **sums, basis=np.zeros((len(w), 1, 0)), followed=np.maximum(state.followed, other.followed),
        )  # fmt: skip
        slopes = self._slopes(merged)
        values = [part.value + _products(slopes, theta - at) for part, at in zip(parts, iterates, strict=True)]
        sums = recent[0] * state.counts * values[0] + recent[1] * other.counts * values[1]
        return self._renewed(merged._replace(value=_ratio(sums, merged.counts)))

    def regrouped(
        self, state: PrimalDualState, comparisons: Comparisons, codes: Sequence[IntArray]
    ) -> tuple[PrimalDual, PrimalDualState]:
        """Return the learner and its state with more groups, none of whose rows has come yet.

        ``codes`` has, for each sensitive column, the new code of each group.
        """
        form = self.form
        cells, pairs = form.comparisons.places_in(comparisons, codes)
        J, C = len(comparisons.pairs), comparisons.n_cells
        by_cell = ("pull", "value", "counts", "slopes", "size", "seen", "tangent")
        moved: dict[str, Any] = {name: spread_out(getattr(state, name), cells, C) for name in by_cell}
        moved |= {name: spread_out(getattr(state, name), pairs, J) for name in ("push", "followed")}
        moved["anchor"] = spread_out(state.anchor, np.append(cells, C), C + 1)
        until = np.minimum(state.until, self._next(state.k, EAGER))
        first = [recoded(old, code) for old, code in zip(form.first.group.T, codes, strict=True)]
        form = form._replace(
            comparisons=comparisons, push=np.zeros(J), first=form.first._replace(group=np.stack(first, axis=1))
        )
        return replace(self, settings=self.settings.among(comparisons), form=form), state._replace(**moved, until=until)

    # -- Rows ---------------------------------------------------------------------------------------------------------

    def _run(
        self, state: PrimalDualState, rows: tuple[Any, kernels.Counting, Entries], n_threads: int = 1,
        columns: tuple[int, int] | None = None,
    ) -> None:  # fmt: skip
        """Move the columns by rows, in place; rows are a batch, how much they count, and what they add to cells."""
        batch, counting, entries = rows
        # No constraint costs much more than a model that predicts the same for all rows.
        most = DEAR * float(self.settings.loss.value(0.0, 1.0)) / self._unit(state)
        args = (
            batch, counting, entries, self.settings.objective(), self._comparing(state),
            kernels.Reduced(np.ascontiguousarray(state.basis[:, 0]), self.geometry(state), most),
        )  # fmt: skip
        moving = (state.w, state.U), kernels.Divided(*state[3:9])
        columns = columns or (0, state.w.shape[1])
        on_threads(kernels.primal_dual_sparse, args, moving, n_threads, columns)

    def _surveying(self, state: PrimalDualState) -> PrimalDualState:
        """State with its own copy of the sums that all columns share."""
        return state._replace(**{name: getattr(state, name).copy() for name in SURVEYED})

    def _survey(
        self, state: PrimalDualState, batch: kernels.SparseBatch, counting: kernels.Counting, entries: Entries
    ) -> None:
        """Add rows to these sums, in place, at the scores of the fit."""
        sums = (getattr(state, name) for name in SURVEYED)
        survey_sparse(
            batch, counting, entries, self.settings.loss, self.form.comparisons.kind, float(state.anchor[-1, 0]),
            tuple(array[:, 0] if array.ndim == 3 else array for array in sums),
        )  # fmt: skip

    def _measured(self, state: PrimalDualState, used: IntArray) -> PrimalDualState:
        """State whose means are those of the warm-up rows at the current iterates, and the matrices that follow.

        Only some features are used.
        """
        first = self.form.first
        n, R = len(first.y), state.w.shape[1]
        score = np.asarray(first.X[:, used] @ self.iterate(state, used))
        V = first.weight[:, None] * self.settings.multipliers.draw(0, n, R)
        value, counts, square = self._means(score, V)
        weight = sum_in_order(V)
        scale = _ratio(1.0, self.form.width * np.sqrt(square))
        grown = self._recent(n)
        scalars = state.scalars
        scalars[WEIGHT:] = weight * grown, square, square, np.zeros(R), scale, scale, np.zeros(R)
        anchor = np.concatenate([value[:, :1], scale[:1, None]])
        state = state._replace(k=n, value=value, counts=counts * grown, anchor=anchor)
        counting = self._counting(0, first.weight, 0)
        counting = counting._replace(steady=first.weight * (n + 1) / 2.0, scores=score[:, 0].copy())
        entries = self.form.comparisons.entries(first.y, first.group)
        self._survey(state, self.settings.batch(first.X, first.y, first.weight, 0), counting, entries)
        return self._renewed(state)

    def _means(self, score: FloatArray, V: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means and counts of cells (C, R), and mean squares (R,) of the scores of the warm-up rows, weighted by V."""
        c = self.form.comparisons
        first = self.form.first
        square = _ratio(sum_in_order(V * score**2), sum_in_order(V))
        scale = _ratio(1.0, self.form.width * np.sqrt(square))
        counts, value = np.zeros((2, c.n_cells, score.shape[1]))
        for found, constant, sign in zip(*(part.T for part in c.entries(first.y, first.group)), strict=True):
            for cell in np.unique(found[found >= 0]):
                rows = np.flatnonzero(found == cell)
                values = surrogate(c.kind, constant[rows, None], sign[rows, None], score[rows], scale)[0]
                counts[cell] += sum_in_order(V[rows])
                value[cell] += sum_in_order(V[rows] * values)
        return _ratio(value, counts), counts, square

    def unmet(self, state: PrimalDualState) -> tuple[FloatArray, FloatArray]:
        """How far the gaps of the fit are clearly beyond the tolerance, and the spread of replicates, (J,) each.

        Gaps are those of smoothed decisions on the warm-up rows; they are 0 for pairs that are not constrained.
        """
        c = self.form.comparisons
        first = self.form.first
        theta = self.mean(state)
        weight = np.repeat(first.weight[:, None], theta.shape[1], axis=1)
        value, counts, _ = self._means(first.X @ theta, weight)
        variance = np.clip(value[:, 0] * (1.0 - value[:, 0]), 0.0, None) / np.maximum(counts[:, 0], 1.0)
        variance = c.signs**2 @ variance
        gaps = c.gaps(value) * state.followed
        beyond = np.abs(gaps[:, 0]) - self.settings.tolerance - 2.0 * np.sqrt(variance)
        return np.maximum(beyond, 0.0), gaps[:, 1:].std(axis=1, ddof=1)

    def _codes(self, n: int, group: IntArray | None) -> IntArray:
        """Group codes of n rows; -1 if they are not known."""
        return np.full((n, len(self.form.comparisons.sizes)), -1) if group is None else group

    # -- Directions and matrices --------------------------------------------------------------------------------------

    def _renewed(self, state: PrimalDualState) -> PrimalDualState:
        """State with the directions and matrices that the rows so far show."""
        c = self.form.comparisons
        anchor = np.concatenate([state.value[:, :1], state.scalars[MEAN_SCALE, :1, None]])
        seen = state.seen[:, 0]
        slopes = self._slopes(state)
        size = np.where(state.size[:, 0, :1] > 0.0, state.size[:, 0, :1], np.inf)
        noise = state.size[:, 0, 2:] / size**2
        before = state.followed[:, 0]
        first = self.form.first
        even = c.evenness(first.weight, c.entries(first.y, first.group).cell)
        found = c.followed(seen, even, anchor[:-1, 0], slopes, noise.sum(axis=1), before, _effective(noise))
        followed = np.maximum(before, found)  # equal rates no longer differ, so a pair that is constrained stays so
        signs = c.signs[followed > 0.0]
        Q, mixture, bend = directions(c.gaps(slopes)[followed > 0.0], signs**2 @ noise)
        state = self._turned(state, Q)
        plain = state.lever[1, 0] / max(float(state.total[0, 0]), 1e-300) + self.settings.alpha
        inverse = np.linalg.inv((Q.T * plain) @ Q)
        # The same chance is in the slopes and in the directions that are made of them, so their product is too large.
        tangent = slopes @ Q - (noise @ bend.T * signs.T) @ mixture
        size = of_pairs(c, tangent @ inverse @ tangent.T)
        followed *= size > 1e-6 * size.max(initial=0.0)  # a gap that does not depend on the directions has to wait
        until = self._next(state.k, EAGER if (seen < FEW).any() else GROWTH)
        return self._refreshed(state._replace(
            anchor=anchor, basis=Q[:, None], inverse=inverse[:, None], tangent=tangent[:, None],
            followed=followed[:, None], until=np.full((1, 1), until),
        ))  # fmt: skip

    def _slopes(self, state: PrimalDualState) -> FloatArray:
        """Slopes of the means of cells, (C, D): means of Φ' x, less what the change of the spread takes back."""
        size = np.where(state.size[:, 0, :1] > 0.0, state.size[:, 0, :1], np.inf)
        slopes = state.slopes[:, 0] / size
        if self.form.comparisons.kind != kernels.DECISIONS or state.total[1, 0] <= 0.0:
            return np.asarray(slopes)
        return np.asarray(slopes - state.size[:, 0, 1:2] / size * (state.lever[0] / state.total[1, 0]))

    def _turned(self, state: PrimalDualState, new: FloatArray) -> PrimalDualState:
        """State whose numbers along the old directions are part of w and U, in place, and which follows new ones."""
        a, total = state.scalars[A], state.scalars[SUM]
        r, s = state.basis.shape[2], new.shape[1]
        along = np.zeros((4 * s, state.w.shape[1]))
        used = np.flatnonzero(state.basis.any(axis=(1, 2)) | new.any(axis=1))
        for low in range(0, len(used), FEATURES):  # some features at a time, in the cache
            some = used[low : low + FEATURES]
            for f, q in enumerate(state.basis[some, 0].T[:, :, None]):
                beta = state.along[f] / a
                state.w[some] += q * beta
                state.U[some] += q * (state.along[2 * r + f] - total * beta)
            for f, q in enumerate(new[some].T[:, :, None]):
                along[s + f] += sum_in_order(q * state.w[some])
        return state._replace(along=along)

    def _next(self, k: int, growth: int) -> float:
        """Number of rows at which matrices are renewed next: the end of a block."""
        return float((k + max(k // growth, BLOCK)) // BLOCK * BLOCK)

    def _refreshed(self, state: PrimalDualState) -> PrimalDualState:
        """State with the numbers that stay the same within a block."""
        c = self.form.comparisons
        scalars = state.scalars.copy()
        _, _, n, square, mean_square, drift, _, _, _ = scalars
        scalars[SCALE] = _ratio(1.0, self.form.width * np.sqrt(np.maximum(square, 0.0)))
        scalars[MEAN_SCALE] = _ratio(1.0, self.form.width * np.sqrt(np.maximum(mean_square, 0.0)))
        scalars[TURN] = _ratio(drift, square)
        return state._replace(scalars=scalars, pull=c.by_rate(state.push) * _ratio(n, state.counts))

    def _reference_solve(self, state: PrimalDualState) -> PrimalDualState:
        """State after a Newton step along the directions, in plain NumPy."""
        c = self.form.comparisons
        s = self.settings
        geometry = self.geometry(state)
        r = state.basis.shape[2]
        gamma = state.along[3 * r :]
        push = state.push
        on = state.followed[:, 0]
        across, gram = c.signs @ geometry.along, c.signs @ geometry.gram @ c.signs.T  # of gaps
        rates = state.value + geometry.lift @ gamma + geometry.gram @ c.by_rate(push)
        gap = c.gaps(rates)
        new = push * on[:, None]
        if s.tolerance == 0.0:
            new = geometry.solved @ rates
        for _ in range(n_sweeps(len(new)) if s.tolerance > 0.0 else 0):
            for p in np.flatnonzero(on):
                left = gap[p] - gram[p] @ new + gram[p, p] * new[p]
                over = np.maximum(np.abs(left) - s.tolerance, 0.0)
                new[p] = np.sign(left) * over / (gram[p, p] + self.give)
        gradient = gamma - across.T @ (new - push)
        step = geometry.inverse @ gradient
        length = np.sqrt(np.sum(step * gradient, axis=0))
        share = np.minimum(1.0, kernels.STRIDE_ALONG / np.maximum(length, kernels.STRIDE_ALONG))
        along = np.concatenate([state.along[:r] + share * step, state.along[r : 3 * r], np.zeros_like(gamma)])
        most = DEAR * float(s.loss.value(0.0, 1.0)) / self._unit(state)
        return state._replace(
            along=along, push=np.clip(push + share * (new - push), -most, most),
            value=state.value + geometry.steep @ (share * step),
        )  # fmt: skip

    # -- Small things -------------------------------------------------------------------------------------------------

    def reseeded(self, multipliers: Multipliers) -> PrimalDual:
        """Return the learner with other weights for the rows that follow."""
        return replace(self, settings=replace(self.settings, multipliers=multipliers))

    @property
    def give(self) -> float:
        """How far a multiplier of 1 lets a gap go: 1 / (2 R₂) with a penalty R₂, otherwise 0."""
        penalty = self.settings.effective_penalty
        return 0.5 / penalty if penalty > 0.0 else 0.0

    def pushes(self, state: PrimalDualState) -> tuple[FloatArray, FloatArray]:
        """Multipliers of the pairs, and their gaps in terms of the surrogate, (J, R) each."""
        c = self.form.comparisons
        return state.push, c.gaps(state.value)

    def geometry(self, state: PrimalDualState) -> kernels.Geometry:
        """What Newton steps share."""
        c = self.form.comparisons
        inverse, tangent = (np.ascontiguousarray(array[:, 0]) for array in (state.inverse, state.tangent))
        lift = tangent @ inverse
        gram = lift @ tangent.T
        inverted = solved(c, gram, state.followed[:, 0], self.give)
        return kernels.Geometry(inverse, tangent, tangent, tangent, lift, gram, inverted, np.zeros(len(inverse)))

    def _unit(self, state: PrimalDualState) -> float:
        """What a gap is measured in: 1 for decisions, the spread of the scores of the fit for scores."""
        scale = float(state.anchor[-1, 0])
        is_rate = self.form.comparisons.kind == kernels.DECISIONS or scale == 0.0
        return 1.0 if is_rate else 1.0 / (self.form.width * scale)

    def _comparing(self, state: PrimalDualState) -> kernels.Comparing:
        c = self.form.comparisons
        return kernels.Comparing(
            c.kind, self.form.width, c.owner, c.n_rates, np.ascontiguousarray(c.pairs.T), state.followed[:, 0] > 0.0,
            self.settings.tolerance, self.give, n_sweeps(len(c.pairs)),
        )  # fmt: skip

    def _counting(self, k: int, weight: FloatArray, n_before: int) -> kernels.Counting:
        """Return how much the rows after the first k count."""
        number = np.arange(k + 1.0, k + len(weight) + 1.0)
        recent = self._recent(number)
        gain = recent / self._grown(number)
        scores = np.empty(len(weight))
        return kernels.Counting(weight * recent, weight * number, weight * gain, n_before, True, scores)

    def _recent(self, k: Any) -> Any:
        """Weight h_k of row k in the means."""
        return ((k + HEAD * len(self.form.first.y)) * UNIT) ** POWER

    def _grown(self, k: Any) -> Any:
        """Sum of these weights up to row k, where each of the warm-up rows has the weight of the last of them."""
        n = len(self.form.first.y)
        head = HEAD * n + 0.5
        later = ((k + head) * UNIT) ** (POWER + 1) - ((n + head) * UNIT) ** (POWER + 1)
        return n * self._recent(n) + np.maximum(later, 0.0) / (UNIT * (POWER + 1))

    def _fresh(self, n_columns: int) -> FloatArray:
        """Scalars before the first row: a = 1, all else 0."""
        scalars = np.zeros((9, n_columns))
        scalars[A] = 1.0
        return scalars

    def _blank(self, n_columns: int) -> PrimalDualState:
        """State before the first row, at 0."""
        c = self.form.comparisons
        D, C, J = len(self.settings.start), c.n_cells, len(c.pairs)
        pair = np.zeros((D, 2, n_columns))  # interleaved, see ``own``; zeros take no memory until written
        pull, value, counts = np.zeros((3, C, n_columns))
        return PrimalDualState(
            0, pair[:, 0], pair[:, 1], self._fresh(n_columns), np.zeros((0, n_columns)), np.zeros((J, n_columns)), pull,
            value, counts, slopes=np.zeros((C, 1, D)), lever=np.zeros((2, 1, D)), size=np.zeros((C, 1, 2 + D)),
            seen=np.zeros((C, 1)), total=np.zeros((2, 1)), basis=np.zeros((D, 1, 0)), inverse=np.zeros((0, 1, 0)),
            tangent=np.zeros((C, 1, 0)), followed=np.zeros((J, 1)), anchor=np.zeros((C + 1, 1)),
            until=np.zeros((1, 1)),
        )  # fmt: skip

    def _total(self, state: PrimalDualState, which: Any = slice(None)) -> FloatArray:
        """Sums of iterates of some features, computed from the lazy form."""
        r = state.basis.shape[2]
        total = state.scalars[SUM] * state.w[which]
        total += state.U[which]
        for f, q in enumerate(state.basis[which, 0].T):
            total += q[:, None] * state.along[2 * r + f]
        return np.asarray(total)


def directions(across: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Orthonormal directions along which the slopes of gaps lie, as far as they are more than chance.

    With many features, chance makes much of the length of a slope. So slopes are shrunk, feature by feature, and a
    combination of them is a direction if the slope along it is more than chance. There are at most DIRECTIONS, and
    there may be none.

    Parameters
    ----------
    across : ndarray of shape (J, D)
        Slopes of gaps.
    variance : ndarray of shape (J, D)
        Their variances.

    Returns
    -------
    basis : ndarray of shape (D, r)
    mixture : ndarray of shape (J, r)
        The basis as combinations of shrunk slopes.
    bend : ndarray of shape (J, D)
        Derivatives of shrunk slopes in slopes. By Stein's lemma, variance times derivative is how much chance adds to
        the product of a slope and its shrunk form.

    Examples
    --------
    >>> basis, mixture, _ = directions(np.array([[3.0, 0.0, -4.0, 0.1]]), np.full((1, 4), 0.1))
    >>> basis[:, 0].round(2), mixture.round(2)
    (array([ 0.6,  0. , -0.8,  0. ]), array([[0.21]]))
    """
    shrunk, bend = (np.empty_like(across), np.empty_like(across))
    for p in range(len(across)):
        shrunk[p], bend[p] = shrink(across[p], variance[p])
    values, vectors = np.linalg.eigh(shrunk @ shrunk.T)
    some = values > 1e-9 * max(float(values.max(initial=0.0)), 1e-300)
    mixture = (vectors[:, some] / np.sqrt(values[some]))[:, ::-1]
    basis = shrunk.T @ mixture
    whole = np.sum(across @ basis * mixture, axis=0)
    chance = np.sum(variance * bend, axis=1) @ mixture**2
    error = np.sqrt(2.0 * np.sum(np.where(bend > 0.0, variance**2, 0.0), axis=1) @ mixture**4)
    clear = np.flatnonzero(whole - chance > CLEAR * error)[:DIRECTIONS]
    return np.ascontiguousarray(basis[:, clear]), mixture[:, clear], bend


def shrink(slope: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Shrink numbers g to g - tσ²/g, or 0 where g² ≤ tσ²; return also the derivatives in g.

    The threshold t makes the true slope along the shrunk one as long as possible, by Stein's unbiased estimate. So few
    large numbers stand out among many that are chance, and many small ones count together.

    Examples
    --------
    >>> shrink(np.array([3.0, 0.1, 0.2, 0.1]), np.full(4, 0.04))[0].round(2)
    array([2.97, 0.  , 0.  , 0.  ])
    """
    known = variance > 0.01 * float(_ratio(variance.sum(), np.count_nonzero(variance)))
    slope = np.where(known, slope, 0.0)
    square = slope**2
    best, longest = 0.0, -1.0
    for t in THRESHOLDS:
        relative = t * _ratio(variance, square)
        left = np.maximum(1.0 - relative, 0.0)
        whole = float(np.sum(square * left - variance * (1.0 + relative) * (left > 0.0)))
        length = max(whole, 0.0) ** 2 / max(float(np.sum(square * left**2)), 1e-300)
        best, longest = (t, length) if length > longest else (best, longest)
    relative = best * _ratio(variance, square)
    left = np.maximum(1.0 - relative, 0.0)
    return slope * left, (1.0 + relative) * (left > 0.0)


def _effective(variance: FloatArray) -> int:
    """Number of features that share a variance (rates, D) about equally."""
    by_feature = variance.sum(axis=0)
    return round(float(_ratio(by_feature.sum() ** 2, by_feature @ by_feature)))


def _triangle(n: int) -> float:
    """Sum of the weights 1, …, n of iterates in their average."""
    return n * (n + 1.0) / 2.0


def _interleaved(theta: FloatArray, total: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Iterates and sums as ``own`` keeps them."""
    pair = np.stack([theta, total], axis=1)
    return pair[:, 0], pair[:, 1]


def _products(slopes: FloatArray, theta: FloatArray) -> FloatArray:
    """Slopes (C, D) times θ (D, R), added in order and some features at a time."""
    found = np.zeros((len(slopes), theta.shape[1]))
    for low in range(0, len(theta), FEATURES):
        part = slice(low, low + FEATURES)
        for cell, slope in zip(found, slopes[:, part], strict=True):
            cell += sum_in_order(slope[:, None] * theta[part])
    return found


def _ratio(above: Any, below: Any) -> FloatArray:
    """Quotients, 0 where the denominator is not positive."""
    above, below = np.broadcast_arrays(above, below)
    return np.asarray(np.divide(above, below, out=np.zeros(below.shape), where=below > 0.0))


LEARNER = PrimalDual
