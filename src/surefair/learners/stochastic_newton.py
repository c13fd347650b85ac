"""Newton's method on a stream, for a loss under a constraint that is learnt from the same rows.

The problem is to minimise mean ℓ(θᵀx, y) + κ Σ r_j θ_j² / 2 under |c_p(θ)| ≤ ε for all pairs p of groups, or with
R₂ Σ c_p² added. Each c_p is the difference of a rate between two groups, and a rate is made of means f_g of Φ(θᵀx) over
the rows of a cell g (see ``criteria/_comparisons.py``). Coordinates are such that the spread of the scores is ‖θ‖.

The warm-up rows come first: the problem is solved exactly on them, for the fit and for each replicate with its own
weights V. Then rows come in blocks of 32, or more if there are many features. For a block and each replicate, with n
the weight of all rows so far, n_g that of a cell, λ the multipliers of the pairs, and
w_g = Σ ± λ (∂rate / ∂f_g) n / n_g:

    γ = Σ ωV [ℓ' x + Σ_g w_g (Φ' z - G_g)]                            over the block, with z = x - (xᵀθ) θ / ‖θ‖²
    f_g ← f_g + Σ ωV (Φ - f_g) / n_g                                   over the rows of the block in the cell
    q = -(γ / n) - …ridge…,   c = gaps of f + G H⁻¹ (q + Gᵀλ)          the gaps after a step without multipliers
    λ' = multipliers that bring c - G H⁻¹ Gᵀλ' within ε                directly if ε = 0, else by sweeps over the pairs
    Δ = H⁻¹ (q - Gᵀ(λ' - λ)),   θ ← θ + Δ,   f_g ← f_g + G_gᵀΔ,   λ ← λ'

This is Newton's method for the conditions of the optimum on all rows so far: the steps 1/n H⁻¹ weigh every row equally,
whenever it came, so the result after n rows is close to the exact optimum on these rows, compared with the spread of
the replicates. There is no step size to choose, no start to forget and nothing to average.

Under the surrogate "decisions" the slope of a value is wider than the value itself. So G stands for slopes where it
pushes θ, and for derivatives of the values where it predicts or follows them; ``lifted`` says when slopes serve for
both.

The Hessian H of the Lagrangian and the slopes G are sums over the rows of the stream at the coefficients of the fit.
They are the same for all replicates; replicates differ by their own gradients, values and multipliers. They are renewed
where the number of rows has grown by a sixteenth. Then the values f_g also take in what their slopes do not say, the
curvature of the rates along the way of the fit, if there are 1,000 warm-up rows or more for each group to show it.
Without that, a fit that begins far away from its optimum would hold a gap that is not the one it has. A fit that has
just moved far waits with that until it moves less: otherwise one large step would lead to the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefair import kernels
from surefair.criteria import Comparisons, Entries, surrogate
from surefair.learners._settings import Settings
from surefair.learners.acceleration import fixed_points
from surefair.learners.geometry import combinations, floored_inverse, lifted, n_sweeps, noise_scale, solved
from surefair.learners.multipliers import Multipliers, row_numbers
from surefair.learners.survey import Point, find_leverage, survey
from surefair.learners.trace import symmetric
from surefair.rows import FloatArray, IntArray
from surefair.threads import on_threads

BLOCK = kernels.DRAWN
WHOLE, MEASURE = 0, -1  # strides of the kernel: all rows are one block; they are only measured
SETTLED = 1e-3  # change of the scores, relative to √(D / n), at which a column has settled on n warm-up rows
SURVEYED = ("loss_bend", "bend", "drift", "slopes", "steep", "size", "seen", "scatter")
GROWTH = 16  # the Hessian is renewed when the number of rows has grown by one part in so many
AHEAD = 32  # blocks of which rows of great leverage are looked for together
PACKED = 4  # numbers of a waiting row between its features and its groups: label, weight, and two halves of its key
HALF = 2**32
WIDE = 64  # features from which on blocks have more rows
LEVERAGE = 1.0 / 64.0  # share of what is known about a direction from which on one row is known before a step is taken
CURVED = 1_000  # warm-up rows for each group, on average, that show the curvature of rates; fewer show mostly chance
FAR = 0.1  # change of θ relative to its length, since the anchor, beyond which curvature would make the fit swing
UNUSUAL = 8.0  # the same relative to the average row


class Beginning(NamedTuple):
    """The warm-up rows in the learner's coordinates."""

    X: Any  # (n, D), dense or CSR
    y: FloatArray  # (n,)
    weight: FloatArray  # (n,), of mean 1
    group: IntArray  # (n, columns)
    key: NDArray[np.uint64]  # (n,), number of each row or of its cluster


class Learnt(NamedTuple):
    """A constraint that is learnt from the stream: what is compared, and where the warm-up rows lead."""

    comparisons: Comparisons
    width: float  # of a decision, relative to the spread of the scores
    ridge: FloatArray  # κ r, (D,)
    push: FloatArray  # λ of the fit on the warm-up rows, (J,)
    first: Beginning
    dtype: str = "float64"  # precision in which replicates meet rows; sums are in double precision


class Block(NamedTuple):
    """Rows as kernels take them."""

    rows: kernels.Weighed
    entries: Entries

    def part(self, low: int, high: int) -> Block:
        """Some of the rows."""
        X, y, weight, key, k = self.rows
        rows = kernels.Weighed(X[low:high], y[low:high], weight[low:high], key[low:high], k + low)
        cell, constant, sign = self.entries
        return Block(rows, Entries(cell[low:high], constant[low:high], sign[low:high]))

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.rows.y)


class NewtonState(NamedTuple):
    """Fit (column 0) and replicates after k rows; D features, C cells, J pairs, R columns.

    The arrays after ``origin`` are shared by all columns.
    """

    k: int
    theta: FloatArray  # (D, R)
    push: FloatArray  # (J, R), λ
    value: FloatArray  # (C, R), f
    counts: FloatArray  # (C, R), Σ ωV of each cell
    weight: FloatArray  # (1, R), Σ ωV
    origin: FloatArray  # (D + J + 2C + 1, R), the five above after the warm-up rows
    anchor: FloatArray  # (D + J + 2C + 1, 1), those of the fit where the Hessian was last renewed
    loss_bend: FloatArray  # (D, 1, D), Σ ω ℓ'' x xᵀ over sampled rows, above the diagonal
    bend: FloatArray  # (D, 1, D), the Hessian of the constraint in the Lagrangian, likewise
    drift: FloatArray  # (D, 1), slope of the constraint, Σ ω w Φ' x; part of ``bend`` as soon as the anchor moves
    slopes: FloatArray  # (C, 1, D), Σ ω Φ' z
    steep: FloatArray  # (C, 1, D), the same with the derivative of the value in place of the slope
    size: FloatArray  # (C, 1, 1 + D), Σ ω and Σ ω Φ'² z²
    seen: FloatArray  # (C, 1), rows
    scatter: FloatArray  # (D + C + 1, 1, D + C + 1), Σ of squares of influences over sampled rows, above the diagonal
    path: FloatArray  # (D + 2, 1, D + 2), Σ of squares of (kθ_k less that of the warm-up rows, k likewise, 1)
    inverse: FloatArray  # (D, 1, D), H⁻¹ in use
    tangent: FloatArray  # (C, 1, D), G in use
    derivative: FloatArray  # (C, 1, D), likewise for values
    followed: FloatArray  # (J, 1), whether each pair is constrained
    noise: FloatArray  # (F, 1), what chance contributes to G H⁻¹ Gᵀ of each rate
    limit: FloatArray  # (1, 1), leverage ωℓ''xᵀH⁻¹x of a row that must be known before a step is taken
    until: FloatArray  # (1, 1), number of rows at which these are renewed
    rows: FloatArray  # (p, 1, D + 4 + columns): rows of an incomplete block: features, label, weight, key, groups


@dataclass(frozen=True, eq=False)
class StochasticNewton:
    """The learner of a constraint from the stream; also the learner without a constraint."""

    settings: Settings
    form: Learnt

    FORMS = ((Learnt, False),)

    # -- States -------------------------------------------------------------------------------------------------------

    def init(self, n_columns: int) -> NewtonState:
        """State after the warm-up rows."""
        return self.begin(n_columns)[0]

    def begin(
        self, n_columns: int, n_threads: int = 1, followed: FloatArray | None = None
    ) -> tuple[NewtonState, NDArray[np.bool_]]:
        """State after the warm-up rows, and for which columns the problem has been solved on them.

        ``followed`` says for which pairs the solution on them finds more than chance, if that is known. Those that it
        constrains count, too.
        """
        D = len(self.settings.start)
        c = self.form.comparisons
        C, J = c.n_cells, len(c.pairs)
        first = self.form.first
        entries = c.entries(first.y, first.group)
        fit = np.concatenate(self._measured(self.settings.start, self.form.push, first.weight))
        state = NewtonState(
            k=len(first.y),
            theta=np.repeat(self.settings.start[:, None], n_columns, axis=1),
            push=np.repeat(self.form.push[:, None], n_columns, axis=1),
            value=np.zeros((C, n_columns)),
            counts=np.zeros((C, n_columns)),
            weight=np.zeros((1, n_columns)),
            origin=np.zeros((len(fit), n_columns)),
            anchor=fit[:, None],
            loss_bend=np.zeros((D, 1, D)),
            bend=np.zeros((D, 1, D)),
            drift=np.zeros((D, 1)),
            slopes=np.zeros((C, 1, D)),
            steep=np.zeros((C, 1, D)),
            size=np.zeros((C, 1, 1 + D)),
            seen=np.zeros((C, 1)),
            scatter=np.zeros((D + C + 1, 1, D + C + 1)),
            path=np.zeros((D + 2, 1, D + 2)),
            inverse=np.zeros((D, 1, D)),
            tangent=np.zeros((C, 1, D)),
            derivative=np.zeros((C, 1, D)),
            followed=np.ones((J, 1)),
            noise=np.zeros((c.n_rates, 1)),
            limit=np.full((1, 1), np.inf),
            until=np.zeros((1, 1)),
            rows=np.zeros((0, 1, D + PACKED + len(c.sizes))),
        )
        block = Block(kernels.Weighed(first.X, first.y, first.weight, first.key, 0), entries)
        every = np.ones(block.n, dtype=bool)
        state = self._survey(state, block, every)
        pushed = np.asarray(self.form.push != 0.0, dtype=np.float64)
        state = self._renewed(state._replace(followed=pushed[:, None]), block.n)
        if followed is not None:
            state = state._replace(followed=np.maximum(followed, pushed)[:, None])
        if J:
            state = self._survey(state._replace(**_zeros(state)), block, every)  # with the slopes that are known
        args = self._arguments(state, block)

        def run(stride: int, at: kernels.Columns) -> kernels.Columns:
            moving = kernels.Columns(*(array.copy() for array in at))
            on_threads(
                kernels.newton, (*args, stride, np.empty((0, D))), (moving,), n_threads, (0, n_columns)
            )  # fmt: skip
            return moving

        def at(point: FloatArray) -> kernels.Columns:
            return counted._replace(theta=point[:D], push=point[D:])

        counted = run(MEASURE, self._moving(state))
        found, settled = fixed_points(
            lambda point: np.concatenate(run(WHOLE, at(point))[:2]), np.concatenate(counted[:2]), D,
            SETTLED * np.sqrt(D / block.n),
        )  # fmt: skip
        moving = run(MEASURE, at(found))
        state = self._folded(state._replace(**moving._asdict()))
        return state._replace(origin=np.concatenate(moving)), settled

    def moved(self, state: NewtonState, column: int, V: FloatArray, theta: FloatArray, push: FloatArray) -> NewtonState:
        """State after the warm-up rows with another optimum in a column, to which the weights V of the rows lead."""
        moving = self._moving(state, copy=True)
        for array, new in zip(moving, self._measured(theta, push, V), strict=True):
            array[:, column] = new
        return state._replace(**moving._asdict(), origin=np.concatenate(moving))

    def _measured(self, theta: FloatArray, push: FloatArray, weight: FloatArray) -> tuple[FloatArray, ...]:
        """One column after the warm-up rows, given their weights: coefficients, multipliers, values, counts, weight."""
        c = self.form.comparisons
        first = self.form.first
        entries = c.entries(first.y, first.group)
        score = (first.X @ theta)[:, None]
        values = surrogate(c.kind, entries.constant, entries.sign, score, self._scale(theta))[0]
        value, count = self._means(entries, values, weight)
        return theta, push, value, count, np.array([weight.sum()])

    def step(
        self, state: NewtonState, X: FloatArray, y: FloatArray, weight: FloatArray | float = 1.0, n_threads: int = 1,
        reuse: bool = False, columns: tuple[int, int] | None = None, group: IntArray | None = None,
        cluster: NDArray[np.uint64] | None = None,
    ) -> NewtonState:  # fmt: skip
        """State after the rows X (n, D) with labels y = ±1, group codes (n, columns) and relative weights.

        Rows of one cluster share their multipliers; without clusters, every row has its own.
        """
        key = row_numbers(state.k, len(y)) if cluster is None else cluster
        rows = np.concatenate([state.rows, self._pack(X, y, weight, group, key)])
        whole = len(rows) // self.stride * self.stride
        k = state.k - len(state.rows)
        if whole:
            state = self._walk(state, self._unpack(rows[:whole], k), n_threads, columns)
        return state._replace(k=k + len(rows), rows=rows[whole:])

    def reference_step(
        self, state: NewtonState, x: FloatArray, y: float, weight: float = 1.0, group: IntArray | None = None
    ) -> NewtonState:
        """State after one row, in plain NumPy."""
        codes = None if group is None else group[None]
        key = row_numbers(state.k, 1)
        rows = np.concatenate([state.rows, self._pack(x[None], np.array([y]), weight, codes, key)])
        k = state.k - len(state.rows)
        state = state._replace(k=k + len(rows), rows=rows)
        if len(rows) < self.stride:
            return state
        state = self._reference_block(state, self._unpack(rows, k))._replace(rows=rows[:0])
        return self._renewed(state, state.k) if state.k >= state.until[0, 0] else state

    def mean(self, state: NewtonState) -> FloatArray:
        """Coefficients after all rows, shape (D, R)."""
        return self.completed(state).theta.copy()

    def merge(self, state: NewtonState, other: NewtonState) -> NewtonState:
        """State of two shards that began with the same warm-up rows, which count once; both must be ``completed``."""
        one, two = (self._folded(each) for each in (state, other))
        start = self._moving_of(two.origin)
        parts = [(self._moving(one), 1.0), (self._moving(two), 1.0), (start, -1.0)]
        weight = sum(sign * part.weight for part, sign in parts)
        count = sum(sign * part.counts for part, sign in parts)
        theta, push = (sum(sign * part.weight * part[i] for part, sign in parts) / weight for i in (0, 1))
        k = one.k + two.k - len(self.form.first.y)
        first = self.init(1)
        shared = {name: getattr(one, name) + getattr(two, name) - getattr(first, name) for name in SURVEYED}
        tangent = shared["steep"][:, 0] / np.where(shared["size"][:, :, 0] > 0.0, shared["size"][:, :, 0], np.inf)
        total = np.zeros_like(count)
        for part, sign in parts:
            total += sign * part.counts * (part.value + _products(tangent, theta - part.theta))
        value = np.divide(total, count, out=np.zeros_like(total), where=count > 0.0)
        merged = one._replace(k=k, theta=theta, push=push, value=value, counts=count, weight=weight)
        merged = merged._replace(**shared, path=self._merged_path(one, two))
        merged = self._renewed(merged._replace(anchor=np.concatenate(self._moving(merged))[:, :1]), k)
        return self._corrected(merged)

    def regrouped(
        self, state: NewtonState, comparisons: Comparisons, codes: Sequence[IntArray]
    ) -> tuple[StochasticNewton, NewtonState]:
        """Return the learner and its state with more groups, none of whose rows has come yet.

        ``codes`` has, for each sensitive column, the new code of each group.
        """
        form = self.form
        cells, pairs = form.comparisons.places_in(comparisons, codes)
        D, J, C = len(self.settings.start), len(comparisons.pairs), comparisons.n_cells
        kept = np.concatenate([np.arange(D), D + pairs, D + J + cells, D + J + C + cells, [D + J + 2 * C]])
        size = D + J + 2 * C + 1
        scatter = np.concatenate([np.arange(D), D + cells, [D + C]])
        wide = np.zeros((D + C + 1, 1, D + C + 1))
        wide[scatter[:, None], 0, scatter] = symmetric(state.scatter[:, 0])
        rows = state.rows.copy()
        for column, code in enumerate(codes):
            at = D + PACKED + column
            rows[:, 0, at] = recoded(rows[:, 0, at].astype(np.int64), code)
        first = [recoded(old, code) for old, code in zip(form.first.group.T, codes, strict=True)]
        group = np.stack(first, axis=1)
        by_cell = ("value", "counts", "slopes", "steep", "size", "seen", "tangent", "derivative")
        moved: dict[str, Any] = {name: spread_out(getattr(state, name), cells, C) for name in by_cell}
        moved |= {name: spread_out(getattr(state, name), pairs, J) for name in ("push", "followed")}
        moved["noise"] = spread_out(state.noise, cells[: form.comparisons.n_rates], comparisons.n_rates)
        moved |= {name: spread_out(getattr(state, name), kept, size) for name in ("origin", "anchor")}
        state = state._replace(**moved, scatter=np.triu(wide[:, 0])[:, None], rows=rows)
        form = form._replace(
            comparisons=comparisons, push=spread_out(form.push, pairs, J), first=form.first._replace(group=group)
        )
        return replace(self, settings=self.settings.among(comparisons), form=form), state

    # -- Blocks -------------------------------------------------------------------------------------------------------

    @property
    def stride(self) -> int:
        """Rows of a block: more if there are many features, so that a step costs about as much as its rows."""
        return BLOCK * max(1, len(self.settings.start) // WIDE)

    def _walk(
        self, state: NewtonState, block: Block, n_threads: int = 1, columns: tuple[int, int] | None = None
    ) -> NewtonState:
        """State after blocks of rows, the last of which may be incomplete."""
        first = block.rows.first_row
        at = 0
        while at < block.n:
            ahead = block.part(at, min(block.n, int(state.until[0, 0]) - first))
            n, marked = self._ordinary(state, ahead)
            if n > 0:
                part = ahead.part(0, n)
                state = self._survey(self._run(state, part, n_threads, columns), part, marked)
            else:
                n = min(self.stride, ahead.n)
                part = ahead.part(0, n)
                state = self._run(self._informed(state, part, marked), part, n_threads, columns)
            at += n
            if first + at >= state.until[0, 0]:
                state = self._renewed(state, first + at)
        return state

    def _ordinary(self, state: NewtonState, block: Block) -> tuple[int, NDArray[np.bool_]]:
        """How many rows come before the first block with rows of great leverage; and which rows have that.

        Such a row has something that hardly any row so far has had, such as a value of a column that used to be 0. A
        step would go much too far if the Hessian did not know the row.
        """
        marked = np.zeros(block.n, dtype=bool)
        theta = self._moving_of(state.anchor).theta[:, 0]
        inverse = np.ascontiguousarray(state.inverse[:, 0])
        for low in range(0, block.n, AHEAD * self.stride):
            rows = block.part(low, low + AHEAD * self.stride).rows
            found = find_leverage(rows, self.settings.loss, theta, inverse, float(state.limit[0, 0]))
            if found.any():
                marked[low : low + len(found)] = found
                return int(np.argmax(marked)) // self.stride * self.stride, marked
        return block.n, marked

    def _informed(self, state: NewtonState, block: Block, marked: NDArray[np.bool_]) -> NewtonState:
        """State before a block whose rows it knows already."""
        state = self._survey(self._anchored(state), block, marked)
        return self._refreshed(state, block.rows.first_row)

    def _run(self, state: NewtonState, block: Block, n_threads: int, columns: tuple[int, int] | None) -> NewtonState:
        """State after blocks of rows, apart from the sums that all columns share."""
        moving = self._moving(state, copy=True)
        path = np.empty((-(-block.n // self.stride), len(state.theta)))
        args = (*self._arguments(state, block), self.stride, path)
        columns = columns or (0, state.theta.shape[1])
        if columns[0] > 0:  # the Hessian follows the fit itself
            on_threads(kernels.newton, args, (moving,), 1, (0, 1))
        on_threads(kernels.newton, args, (moving,), n_threads, columns)
        return self._walked(state._replace(**moving._asdict()), path, block.rows.first_row, block.n)

    def completed(self, state: NewtonState) -> NewtonState:
        """State with the rows of an incomplete block taken in."""
        if not len(state.rows):
            return state
        block = self._unpack(state.rows, state.k - len(state.rows))
        return self._walk(state, block)._replace(rows=state.rows[:0])

    def _corrected(self, state: NewtonState) -> NewtonState:
        """State moved to the constraint, by a step without rows."""
        packed = np.zeros((1, 1, state.rows.shape[2]))
        packed[:, :, len(state.theta)] = 1.0
        packed[:, :, len(state.theta) + PACKED :] = -1.0
        moved = self._run(state, self._unpack(packed, state.k), 1, None)
        return state._replace(**self._moving(moved)._asdict())

    def _survey(self, state: NewtonState, block: Block, marked: NDArray[np.bool_]) -> NewtonState:
        """Add rows to the sums that all columns share, at the coefficients of the anchor.

        Sums of squares take the first rows of ``marked`` that are true, and a sample of the others.
        """
        at = self._moving_of(state.anchor)
        theta, value = at.theta[:, 0], at.value[:, 0]
        scale = float(self._scale(at.theta)[0])
        point = Point(theta, self.form.comparisons.kind, scale, self._pull(state, at)[:, 0], value, state.tangent[:, 0])
        sums = {name: getattr(state, name).copy() for name in SURVEYED}
        rows, entries = block
        # A row without weight is not seen, so that a group of such rows is not constrained.
        entries = entries._replace(cell=np.where(rows.weight[:, None] > 0.0, entries.cell, -1))
        arrays = tuple(sums[name][:, 0] for name in SURVEYED)
        survey(rows, entries, self.settings.loss, point, marked[: block.n], arrays)
        return state._replace(**sums)

    def _walked(self, state: NewtonState, path: FloatArray, k: int, n: int) -> NewtonState:
        """Add the fit after each block to the path."""
        origin = self._moving_of(state.origin)
        n_first = len(self.form.first.y)
        rows = np.minimum(k + self.stride * (1 + np.arange(len(path))), k + n)
        walked = rows[:, None] * path - n_first * origin.theta[:, 0]
        ones = np.ones(len(rows))
        new = state.path.copy()
        kernels.add_outer(np.column_stack([walked, rows - n_first, ones]), ones, new[:, 0])
        return state._replace(path=new)

    def _merged_path(self, one: NewtonState, two: NewtonState) -> FloatArray:
        """Path of two shards, the second of which continues where the first ends."""
        D = len(one.theta)
        n_first = len(self.form.first.y)
        onward = np.eye(D + 2)
        onward[:D, D + 1] = one.k * one.theta[:, 0] - n_first * one.origin[:D, 0]
        onward[D, D + 1] = one.k - n_first
        return np.asarray(one.path + np.triu(onward @ symmetric(two.path[:, 0]) @ onward.T)[:, None])

    def _renewed(self, state: NewtonState, k: int) -> NewtonState:
        """State with the Hessian and the slopes that the k rows so far show, anchored at the fit."""
        return self._refreshed(self._anchored(state), k)

    def _anchored(self, state: NewtonState) -> NewtonState:
        """State whose anchor is the fit; before the first row it is the start."""
        state = self._folded(state)
        if state.weight.any():
            state = state._replace(value=state.value + self._bent(state)[:, None])
            state = state._replace(anchor=np.concatenate(self._moving(state))[:, :1].copy())
        return state

    def _bent(self, state: NewtonState) -> FloatArray:
        """By how much the values of old rows have changed, since the anchor, beyond what their slopes say; (C,).

        The warm-up rows show it, at the coefficients of the fit. Slopes of the warm-up rows are those at the start, and
        slopes of the rows since then, about those at the anchor.
        """
        before = self._moving_of(state.anchor)
        old, new = before.theta[:, 0], state.theta[:, 0]
        start = self._moving_of(state.origin)
        moved = new - old
        distance = float(np.linalg.norm(moved))
        too_far = distance > FAR * float(np.linalg.norm(old))
        first = self.form.first  # an exact solution does not keep their features, and has no way to go
        shown = len(first.y) >= CURVED * max(self.form.comparisons.sizes, default=0) and first.X.shape[1] > 0
        if not len(self.form.push) or not shown or distance == 0.0 or too_far:
            return np.zeros(len(state.value))
        points = (start.theta[:, 0].copy(), old.copy(), new.copy())  # BLAS may round differently for strided arrays
        at_start, at_old, at_new = (self._on_first(theta, moved) for theta in points)
        change = at_new[0] - at_old[0]
        begun, known, now = (counts[:, 0] for counts in (start.counts, before.counts, state.counts))
        bent = begun * (change - at_start[1]) + (known - begun) * (change - at_old[1])
        return np.asarray(np.divide(bent, now, out=np.zeros_like(bent), where=now > 0.0))

    def _on_first(self, theta: FloatArray, step: FloatArray) -> tuple[FloatArray, ...]:
        """Values of the warm-up rows at θ, and how much their derivatives say that a step changes them; (C,) each."""
        c = self.form.comparisons
        first = self.form.first
        entries = c.entries(first.y, first.group)
        score, along = first.X @ theta, first.X @ step
        if c.kind == kernels.DECISIONS and theta.any():
            along = along - score * float(theta @ step / (theta @ theta))
        value, _, _, steep = surrogate(c.kind, entries.constant, entries.sign, score[:, None], self._scale(theta))
        return tuple(self._means(entries, part, first.weight)[0] for part in (value, steep * along[:, None]))

    def _means(self, entries: Entries, numbers: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means by cell of numbers (n, entries) of the warm-up rows, and the weights of the cells; (C,) each."""
        some = entries.cell >= 0
        row, cell = np.nonzero(some)[0], entries.cell[some]
        n_cells = self.form.comparisons.n_cells
        count, total = (
            np.bincount(cell, each, n_cells).astype(np.float64) for each in (weight[row], numbers[some] * weight[row])
        )
        return np.divide(total, count, out=np.zeros_like(total), where=count > 0.0), count

    def _folded(self, state: NewtonState) -> NewtonState:
        """State with the drift added to the Hessian of the constraint: the spread of the scores changes with θ."""
        at = self._moving_of(state.anchor).theta[:, 0]
        square = float(at @ at)
        drift = state.drift[:, 0]
        if self.form.comparisons.kind != kernels.DECISIONS or square == 0.0 or not drift.any():
            return state._replace(drift=np.zeros_like(state.drift))
        v = at / square
        along = float(drift @ at)
        more = 3.0 * along * np.outer(v, v) - np.outer(drift, v) - np.outer(v, drift) - along / square * np.eye(len(v))
        return state._replace(bend=state.bend + np.triu(more)[:, None], drift=np.zeros_like(state.drift))

    def _refreshed(self, state: NewtonState, k: int) -> NewtonState:
        """State with the Hessian and the slopes at its anchor, after k rows."""
        c = self.form.comparisons
        D = len(state.theta)
        at = self._moving_of(state.anchor)
        sampled = max(state.scatter[-1, 0, -1], 1.0) * at.weight[0, 0] / k
        # In directions that no row has had, the curvature is that of one ordinary row.
        one = float(self.settings.loss.curvature(0.0, 1.0)) / at.weight[0, 0]
        plain = symmetric(state.loss_bend[:, 0]) / sampled + np.diag(self.form.ridge + one)
        inverse = floored_inverse(plain, symmetric(state.bend[:, 0]) / sampled)
        size = np.where(state.size[:, 0, :1] > 0.0, state.size[:, 0, :1], np.inf)
        tangent = state.slopes[:, 0] / size
        share = c.shares(at.value[:, 0])
        slopes = c.rate_sums(share, tangent)
        metric = 1.0 / np.diag(plain)
        noise = c.rate_sums(share**2, state.size[:, 0, 1:] @ metric / size[:, 0] ** 2)
        looked_at = c.looked_at(state.seen[:, 0], at.value[:, 0])
        rates = c.rate_values(at.value[:, 0])
        first = self.form.first
        even = c.evenness(first.weight, c.entries(first.y, first.group).cell)
        followed = c.followed(looked_at, even, rates, slopes * np.sqrt(metric), noise, state.followed[:, 0])
        noise = noise * noise_scale(inverse, plain, self.form.ridge)
        usual = float(np.sum(inverse * plain)) - float(np.diag(inverse) @ self.form.ridge)
        step = max(1, max(k // GROWTH, D) // self.stride) * self.stride
        return state._replace(
            inverse=inverse.reshape(D, 1, D),
            noise=noise[:, None],
            tangent=tangent[:, None],
            derivative=(state.steep[:, 0] / size)[:, None],
            followed=followed[:, None],
            limit=np.full((1, 1), max(LEVERAGE * at.weight[0, 0], UNUSUAL * usual)),
            until=np.full((1, 1), float(k + step)),
        )

    # -- Specification ------------------------------------------------------------------------------------------------

    def _reference_block(self, state: NewtonState, block: Block) -> NewtonState:
        """State after one block of rows, in plain NumPy."""
        c = self.form.comparisons
        s = self.settings
        n, marked = self._ordinary(state, block)
        state = self._informed(state, block, marked) if n == 0 else state
        (X, y, weight, key, k), entries = block
        R = state.theta.shape[1]
        geometry = self.geometry(state)
        theta, push, value, count, total = self._moving(state)
        on = state.followed
        V = weight[:, None] * s.multipliers.of(key, R)
        score = X @ theta
        pull = self._pull(state, self._moving(state))
        scale = self._scale(theta)
        square = np.sum(theta**2, axis=0) if c.kind == kernels.DECISIONS else np.full(R, np.inf)
        slope = s.loss.derivative(score, y[:, None])
        drift = np.zeros(R)
        more = np.zeros_like(count)
        found = np.zeros_like(count)
        for e in range(entries.cell.shape[1]):
            for i in np.flatnonzero(entries.cell[:, e] >= 0):
                cell = entries.cell[i, e]
                f, bend, _, _ = surrogate(c.kind, entries.constant[i, e], entries.sign[i, e], score[i], scale)
                slope[i] += pull[cell] * bend
                drift += V[i] * pull[cell] * bend * score[i]
                more[cell] += V[i]
                found[cell] += V[i] * f
        drawn = V.sum(axis=0)
        gradient = X.T @ (V * slope) - theta * drift / square + self.form.ridge[:, None] * drawn * theta
        gradient -= geometry.slopes.T @ (pull * (more - count * drawn / total[0]))
        count = count + more
        value = value + np.divide(found - more * value, count, out=np.zeros_like(count), where=count > 0.0)
        total = total + drawn
        q = -gradient / total
        across, gram = c.signs @ geometry.along, c.signs @ geometry.gram @ c.signs.T  # of gaps
        rates = c.rate_values(value) + geometry.lift @ q + geometry.gram @ c.by_rate(push)
        gap = c.gaps(rates)
        new = push * on
        if s.tolerance == 0.0:
            new = geometry.solved @ rates
        for _ in range(n_sweeps(len(new)) if s.tolerance > 0.0 else 0):
            for p in np.flatnonzero(on[:, 0]):
                left = gap[p] - gram[p] @ new + gram[p, p] * new[p]
                over = np.maximum(np.abs(left) - s.tolerance, 0.0)
                new[p] = np.sign(left) * over / (gram[p, p] + self.give)
        step = geometry.inverse @ (q - across.T @ (new - push))
        length = np.linalg.norm(step, axis=0)
        share = np.where(length > kernels.REACH, kernels.REACH / np.maximum(length, kernels.REACH), 1.0)
        step = step * share
        state = state._replace(
            theta=theta + step, push=push + share * (new - push), value=value + geometry.steep @ step, counts=count,
            weight=total,
        )  # fmt: skip
        state = self._walked(state, state.theta[:, :1].T, k, block.n)
        return self._survey(state, block, marked) if n > 0 else state

    # -- Small things -------------------------------------------------------------------------------------------------

    def shapes(self, n_columns: int, arrays: Mapping[str, NDArray[Any]]) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the arrays of a state; ``arrays`` has the rows of its incomplete block."""
        D, c, R = len(self.settings.start), self.form.comparisons, n_columns
        C, J = c.n_cells, len(c.pairs)
        moving = D + J + 2 * C + 1
        return {
            "theta": (D, R), "push": (J, R), "value": (C, R), "counts": (C, R), "weight": (1, R),
            "origin": (moving, R), "anchor": (moving, 1), "loss_bend": (D, 1, D), "bend": (D, 1, D), "drift": (D, 1),
            "slopes": (C, 1, D), "steep": (C, 1, D), "size": (C, 1, 1 + D), "seen": (C, 1),
            "scatter": (D + C + 1, 1, D + C + 1), "path": (D + 2, 1, D + 2), "inverse": (D, 1, D),
            "tangent": (C, 1, D), "derivative": (C, 1, D), "followed": (J, 1), "noise": (c.n_rates, 1),
            "limit": (1, 1), "until": (1, 1),
            "rows": (len(arrays["state_rows"]), 1, D + PACKED + len(c.sizes)),
        }  # fmt: skip

    def check(self, state: NewtonState) -> None:
        """Refuse a state from a file that compiled code could not take: groups out of range, rows that never come."""
        D, c = len(self.settings.start), self.form.comparisons
        codes = state.rows[:, 0, D + PACKED :]
        keys = state.rows[:, 0, D + 2 : D + PACKED]
        whole = (codes == np.rint(codes)) & (codes >= -1.0) & (codes < np.array(c.sizes))
        whole &= ((keys == np.rint(keys)) & (keys >= 0.0) & (keys < HALF)).all(axis=1, keepdims=True)
        label, weight = state.rows[:, 0, D], state.rows[:, 0, D + 1]
        if not (whole.all() and (np.abs(label) == 1.0).all() and (weight >= 0.0).all()):
            raise ValueError("The rows that wait for others have a label, a weight or a group that does not exist.")
        if not 0.0 <= state.until[0, 0] < 2.0**62:
            raise ValueError("The state says that it is renewed at a number of rows which never comes.")
        if not state.k >= len(self.form.first.y) + len(state.rows):
            raise ValueError("The state has fewer rows than it began with and than wait.")

    def reseeded(self, multipliers: Multipliers) -> StochasticNewton:
        """Return the learner with other weights for the rows that follow."""
        return replace(self, settings=replace(self.settings, multipliers=multipliers))

    def without_features(self) -> StochasticNewton:
        """Return the learner without the features of its warm-up rows, by which it begins and merges."""
        first = self.form.first._replace(X=self.form.first.X[:, :0])
        return replace(self, form=self.form._replace(first=first))

    def _scale(self, theta: FloatArray) -> FloatArray:
        """1 / (width · spread), shape (R,)."""
        spread = self.form.width * np.sqrt(np.sum(theta**2, axis=0))
        return np.asarray(np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0.0))

    def _pull(self, state: NewtonState, at: kernels.Columns) -> FloatArray:
        """What the slope of a row in each cell counts, w, shape (C, R)."""
        c = self.form.comparisons
        pull = c.by_rate(at.push * state.followed)
        size = np.divide(at.weight, at.counts, out=np.zeros_like(at.counts), where=at.counts > 0.0)
        return np.asarray(pull[c.owner] * c.shares(at.value) * size)

    def geometry(self, state: NewtonState) -> kernels.Geometry:
        """What Newton steps share."""
        c = self.form.comparisons
        inverse, tangent, derivative = (
            np.ascontiguousarray(array[:, 0]) for array in (state.inverse, state.tangent, state.derivative)
        )
        share = c.shares(self._moving_of(state.anchor).value[:, 0])
        along, steep = c.rate_sums(share, tangent), c.rate_sums(share, derivative)
        on = state.followed[:, 0]
        lift, scale = lifted(c, inverse, along, steep, on)
        derivative = scale * tangent if scale > 0.0 else derivative  # what is predicted and what is tracked must agree
        gram = lift @ along.T
        inverted = solved(c, gram, on, self.give)
        return kernels.Geometry(inverse, tangent, derivative, along, lift, gram, inverted, self.form.ridge)

    def lengths(self, state: NewtonState) -> FloatArray:
        """Squared lengths of the slopes of the combinations of gaps that push, relative to chance."""
        c = self.form.comparisons
        slopes = c.rate_sums(c.shares(self._moving_of(state.anchor).value[:, 0]), state.tangent[:, 0])
        pushing = state.followed[:, 0] * state.push.any(axis=1)
        return combinations(c, slopes @ state.inverse[:, 0] @ slopes.T, pushing, state.noise[:, 0])

    def _comparing(self, state: NewtonState) -> kernels.Comparing:
        s = self.settings
        c = self.form.comparisons
        return kernels.Comparing(
            c.kind, self.form.width, c.owner, c.n_rates, np.ascontiguousarray(c.pairs.T), state.followed[:, 0] > 0.0,
            s.tolerance, self.give, n_sweeps(len(c.pairs)),
        )  # fmt: skip

    @property
    def give(self) -> float:
        """How far a multiplier of 1 lets a gap go: 1 / (2 R₂) with a penalty R₂, otherwise 0."""
        penalty = self.settings.effective_penalty
        return 0.5 / penalty if penalty > 0.0 else 0.0

    def columns(self, state: NewtonState) -> kernels.Columns:
        """Coefficients, multipliers, values, counts and weight of all columns after all rows."""
        return self._moving(self.completed(state))

    def usual(self, state: NewtonState) -> float:
        """Root mean square distance of replicates from the fit without a constraint, √(D / n) over the curvature's."""
        D = len(state.theta)
        bend = float(np.trace(state.loss_bend[:, 0])) / (D * max(float(state.scatter[-1, 0, -1]), 1.0))
        return float(np.sqrt(D / (max(bend, 1e-300) * state.k)))

    def pushes(self, state: NewtonState) -> tuple[FloatArray, FloatArray]:
        """Multipliers of the pairs, and their gaps in terms of the surrogate, (J, R) each."""
        at = self.columns(state)
        c = self.form.comparisons
        return at.push, c.gaps(c.rate_values(at.value))

    def _arguments(self, state: NewtonState, block: Block) -> tuple[Any, ...]:
        """Arguments of the kernel, up to the stride."""
        objective = self.settings.objective()
        comparing, geometry = self._comparing(state), self.geometry(state)
        rows = block.rows._replace(X=np.ascontiguousarray(block.rows.X, dtype=self.form.dtype))
        return rows, block.entries, objective, comparing, geometry

    def _moving(self, state: NewtonState, copy: bool = False) -> kernels.Columns:
        """Arrays that rows move."""
        arrays = (state.theta, state.push, state.value, state.counts, state.weight)
        return kernels.Columns(*(array.copy() for array in arrays)) if copy else kernels.Columns(*arrays)

    def _moving_of(self, stacked: FloatArray) -> kernels.Columns:
        """The same from arrays that are stacked, as in ``origin``."""
        D = len(self.settings.start)
        C, J = self.form.comparisons.n_cells, len(self.form.push)
        return kernels.Columns(*np.split(stacked, np.cumsum([D, J, C, C])))

    def _pack(
        self, X: FloatArray, y: FloatArray, weight: FloatArray | float, group: IntArray | None, key: NDArray[np.uint64]
    ) -> FloatArray:
        """Rows as one array (n, 1, D + 4 + columns); a key is two halves, which floating-point numbers can hold."""
        n = len(y)
        columns = len(self.form.comparisons.sizes)
        codes = np.full((n, columns), -1.0) if group is None else group[:, :columns].astype(np.float64)
        weights = np.broadcast_to(np.asarray(weight, dtype=np.float64), n)
        halves = np.stack([key >> np.uint64(32), key & np.uint64(HALF - 1)], axis=1).astype(np.float64)
        return np.concatenate([X, y[:, None], weights[:, None], halves, codes], axis=1)[:, None]

    def _unpack(self, packed: FloatArray, k: int) -> Block:
        """Packed rows as kernels take them; k rows came before."""
        D = len(self.settings.start)
        flat = packed[:, 0]
        X, y, weight = (np.ascontiguousarray(part) for part in (flat[:, :D], flat[:, D], flat[:, D + 1]))
        high, low = flat[:, D + 2].astype(np.uint64), flat[:, D + 3].astype(np.uint64)
        entries = self.form.comparisons.entries(y, flat[:, D + PACKED :].astype(np.int64))
        return Block(kernels.Weighed(X, y, weight, high << np.uint64(32) | low, k), entries)


def spread_out(array: FloatArray, places: IntArray, size: int) -> FloatArray:
    """Return an array of this many rows that has the given rows at their places, and zeros elsewhere."""
    wide = np.zeros((size, *array.shape[1:]))
    wide[places] = array
    return wide


def recoded(old: IntArray, new: IntArray) -> IntArray:
    """New codes of groups; -1 stays -1."""
    return np.asarray(np.append(new, -1)[old])


def _products(slopes: FloatArray, theta: FloatArray) -> FloatArray:
    """Slopes (C, D) times θ (D, R), added in order: BLAS would round differently for different R."""
    return np.asarray(np.add.accumulate(slopes[:, :, None] * theta, axis=1)[:, -1])


def _zeros(state: NewtonState) -> dict[str, Any]:
    """The sums of the survey before the first row."""
    return {name: np.zeros_like(getattr(state, name)) for name in SURVEYED}


LEARNER = StochasticNewton
