"""The compiled inner loops: the only file that imports numba.

Each kernel does, for a range of columns (the fit and its replicates), what the ``reference_step`` of its learner
does, to rounding. Arrays are (features, columns) with columns contiguous, so every inner loop runs over columns and
vectorises; a *tile* of columns small enough for the L1 cache is carried through all rows before the next tile starts.
A column's arithmetic never depends on its neighbours, on the tile, or on where a batch ends: results are the same
bits whatever the threads and batch sizes. For that, too, nothing is summed by BLAS and ``fastmath`` never reorders.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])

TILE = 96  # columns per tile; a multiple of 32, so that the bits of two-point weights come in whole words
FOLD = 256  # rows between two folds of the lazy form, counted from the first row of the stream
DRAWN = 32  # rows for which weights are drawn at a time
HEAD_START = 100.0  # rows that the start counts for in the point where penalties are judged
LOG_LOSS, TWO_POINT, UNIFORM, EXPONENTIAL, NORMAL = 0, 0, 1, 2, 3  # codes; see losses.py and multipliers.py


def compiled(function: F) -> F:
    """Compile without the interpreter's lock; keep the result on disk where the disk allows it."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "nsz", "arcp"}}
    try:
        return njit(cache=True, **options)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # no writable place for the cache
        return njit(**options)(function)  # type: ignore[no-any-return]


# -- Exponential ----------------------------------------------------------------------------------------------------


@intrinsic
def _double_of_bits(typing_context, bits):  # type: ignore[no-untyped-def]
    """Read the 64 bits of an integer as a double."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.bitcast(args[0], context.get_value_type(types.float64))

    return types.float64(types.int64), codegen


@intrinsic
def _bits_of_double(typing_context, value):  # type: ignore[no-untyped-def]
    """Read the 64 bits of a double as an integer."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.bitcast(args[0], context.get_value_type(types.int64))

    return types.int64(types.float64), codegen


@compiled
def exponential(x: float) -> float:
    """exp(x) without branches, so that a loop over it vectorises; clipped to exp(±700).

    x = n ln 2 + r with |r| ≤ ln(2)/2; a Taylor polynomial of degree 13 gives exp(r), and n goes into the exponent bits.
    """
    x = min(max(x, -700.0), 700.0)
    shifted = x * 1.4426950408889634 + 6755399441055744.0  # 1.5 · 2⁵²: the last bits are now the integer n
    n = shifted - 6755399441055744.0
    r = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    bits = (_bits_of_double(shifted) + 1023) << 52  # type: ignore[call-arg]
    return p * _double_of_bits(bits)


# -- Multipliers ----------------------------------------------------------------------------------------------------


@compiled
def philox(row: int, block: int, purpose: int, seed: int, words: Any) -> None:
    """Fill four 32-bit words with the random bits of (row, block, purpose); see ``multipliers.philox``."""
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x0, x1 = np.uint64(row) & mask, np.uint64(row) >> half
    x2, x3 = np.uint64(block), np.uint64(purpose)
    k0, k1 = np.uint64(seed) & mask, np.uint64(seed) >> half
    for _ in range(10):
        a = x0 * np.uint64(0xD2511F53)
        b = x2 * np.uint64(0xCD9E8D57)
        x0, x1, x2, x3 = (b >> half) ^ x1 ^ k0, b & mask, (a >> half) ^ x3 ^ k1, a & mask
        k0 = (k0 + np.uint64(0x9E3779B9)) & mask
        k1 = (k1 + np.uint64(0xBB67AE85)) & mask
    words[0], words[1], words[2], words[3] = x0, x1, x2, x3


@compiled
def draw_multipliers(law: int, seed: int, first_row: int, first_column: int, V: Any) -> None:
    """Fill V (rows, columns) with weights; ``first_column`` is a multiple of 32."""
    n_rows, n_columns = V.shape
    words = np.empty(4, dtype=np.uint64)
    drawn = np.empty(4)
    for i in range(n_rows):
        if law == TWO_POINT:
            for low in range(0, n_columns, 32):
                column = first_column + low
                if low == 0 or column % 128 == 0:
                    philox(first_row + i, column // 128, 0, seed, words)
                word = np.int64(words[column // 32 % 4])
                for j in range(min(32, n_columns - low)):
                    V[i, low + j] = 2.0 * ((word >> j) & 1)
        else:
            for low in range(0, n_columns, 4):
                philox(first_row + i, (first_column + low) // 4, 0, seed, words)
                _transform(law, words, drawn)
                for j in range(min(4, n_columns - low)):
                    V[i, low + j] = drawn[j]
        if first_column == 0:
            V[i, 0] = 1.0


@compiled
def _transform(law: int, words: Any, V: Any) -> None:
    """Turn four random words into four weights; see ``multipliers._transform``."""
    for j in range(4):
        u = (np.float64(words[j]) + 0.5) * 2.0**-32
        if law == UNIFORM:
            V[j] = 1.0 + np.sqrt(12.0) * (u - 0.5)
        elif law == EXPONENTIAL:
            V[j] = -np.log(u)
        elif law == NORMAL:
            V[j] = u
        else:
            term = cdf = np.exp(-1.0)
            V[j] = 0.0
            while cdf < u and V[j] < 13.0:
                V[j] += 1.0
                term /= V[j]
                cdf += term
    if law == NORMAL:
        for j in (0, 2):
            radius, angle = np.sqrt(-2.0 * np.log(V[j])), 2.0 * np.pi * V[j + 1]
            V[j], V[j + 1] = 1.0 + radius * np.cos(angle), 1.0 + radius * np.sin(angle)


# -- Pieces that both learners share ----------------------------------------------------------------------------------


@compiled
def change_coordinates(X: Any, W: Any, out: Any) -> None:
    """Fill out (rows, D) with (x, 1)ᵀW, or with xᵀW where W has no row for an intercept."""
    n, d = X.shape
    for i in range(n):
        for c in range(W.shape[1]):
            out[i, c] = W[d, c] if W.shape[0] > d else 0.0
        for j in range(d):
            for c in range(W.shape[1]):
                out[i, c] += X[i, j] * W[j, c]


@compiled
def _dot(a: Any, b: Any) -> float:
    total = 0.0
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


@compiled
def _margins(x: Any, theta: Any, out: Any) -> None:
    """Fill out (columns,) with xᵀθ: eight features at a time, then four, two and one, so that out is seldom touched."""
    D, T = theta.shape
    for b in range(T):
        out[b] = 0.0
    j = 0
    while j + 8 <= D:
        x0, x1, x2, x3, x4, x5, x6, x7 = x[j], x[j + 1], x[j + 2], x[j + 3], x[j + 4], x[j + 5], x[j + 6], x[j + 7]
        for b in range(T):
            low = (x0 * theta[j, b] + x1 * theta[j + 1, b]) + (x2 * theta[j + 2, b] + x3 * theta[j + 3, b])
            high = (x4 * theta[j + 4, b] + x5 * theta[j + 5, b]) + (x6 * theta[j + 6, b] + x7 * theta[j + 7, b])
            out[b] += low + high
        j += 8
    if j + 4 <= D:
        x0, x1, x2, x3 = x[j], x[j + 1], x[j + 2], x[j + 3]
        for b in range(T):
            out[b] += (x0 * theta[j, b] + x1 * theta[j + 1, b]) + (x2 * theta[j + 2, b] + x3 * theta[j + 3, b])
        j += 4
    if j + 2 <= D:
        x0, x1 = x[j], x[j + 1]
        for b in range(T):
            out[b] += x0 * theta[j, b] + x1 * theta[j + 1, b]
        j += 2
    if j < D:
        x0 = x[j]
        for b in range(T):
            out[b] += x0 * theta[j, b]


@compiled
def _derivatives(loss: int, y: float, margin: Any, out: Any) -> None:
    """Fill out (columns,) with the derivative of the loss in the margin."""
    if loss == LOG_LOSS:
        for b in range(len(margin)):
            out[b] = -y / (1.0 + exponential(y * margin[b]))
    else:
        for b in range(len(margin)):
            out[b] = -2.0 * (y - margin[b])


# -- Dual averaging -------------------------------------------------------------------------------------------------


@compiled
def dual_averaging(
    X: Any, y: Any, eta: Any, first_row: int, law: int, seed: int, loss: int, alpha: float, damping: float,
    slab: Any, tolerance: float, first: int, last: int, w: Any, U: Any, scalars: Any,
) -> None:  # fmt: skip
    """Carry columns first … last - 1 of the state through all rows, in place.

    The state is kept in a lazy form, so that the ridge, the projection and the average cost O(1) per row and column
    and each feature three multiply-adds: with x̃ the slab's vector,

        dual      -s = a w + β x̃           t = x̃ᵀw
        iterate    θ = a w + (β - c) x̃      c = overshoot / ‖x̃‖²
        sum      Σ θ = A w + U + C x̃       (A: the sum of a; see the algebra in learners/dual_averaging.py)

    Rows of ``scalars``: a, β, t, A, C. Every FOLD rows of the stream the form is folded to a = 1, β = A = C = 0.
    """
    D = X.shape[1]
    slab_square = _dot(slab, slab)
    slab_inverse = 1.0 / slab_square if slab_square > 0.0 else 0.0
    for low in range(first, last, TILE):
        T = min(TILE, last - low)
        w_, U_, s_ = np.empty((D, T)), np.empty((D, T)), np.empty((5, T))
        w_[:], U_[:], s_[:] = w[:, low : low + T], U[:, low : low + T], scalars[:, low : low + T]
        a, beta, t, A, C = s_[0], s_[1], s_[2], s_[3], s_[4]
        V, margin, c, slope, weighted = np.empty((DRAWN, T)), np.empty(T), np.empty(T), np.empty(T), np.empty(T)
        for i in range(len(X)):
            x, step, slab_x = X[i], eta[i], _dot(slab, X[i])
            if i % DRAWN == 0:
                draw_multipliers(law, seed, first_row + i, low, V[: min(DRAWN, len(X) - i)])
            v = V[i % DRAWN]
            damp = damping * _dot(x, x)
            _margins(x, w_, margin)
            for b in range(T):
                q = a[b] * t[b] + beta[b] * slab_square
                c[b] = (q - min(max(q, -tolerance), tolerance)) * slab_inverse
                margin[b] = a[b] * margin[b] + (beta[b] - c[b]) * slab_x
            _derivatives(loss, y[i], margin, slope)
            for b in range(T):
                shrink = 1.0 - step * v[b] * alpha
                A[b] += a[b]
                C[b] += beta[b] - c[b]
                a[b] *= shrink
                beta[b] = shrink * beta[b] + step * v[b] * alpha * c[b]
            if step * alpha > 1e-3:  # a ridge so strong that a could vanish before the next fold
                for b in range(T):
                    if abs(a[b]) < 1e-3:
                        _fold(slab, w_, U_, s_, b, b + 1)
            for b in range(T):
                slope[b] *= step * v[b] / (a[b] * (1.0 + damp * step * v[b]))
                t[b] -= slope[b] * slab_x
                weighted[b] = A[b] * slope[b]
            for j in range(D):
                xj = x[j]
                for b in range(T):
                    w_[j, b] -= slope[b] * xj
                    U_[j, b] += weighted[b] * xj
            if (first_row + i + 1) % FOLD == 0:
                _fold(slab, w_, U_, s_, 0, T)
        w[:, low : low + T], U[:, low : low + T], scalars[:, low : low + T] = w_, U_, s_


@compiled
def _fold(slab: Any, w: Any, U: Any, scalars: Any, first: int, last: int) -> None:
    """Write the same dual points and the same sums with a = 1, β = A = C = 0, in columns first … last - 1."""
    a, beta, t, A, C = scalars[0], scalars[1], scalars[2], scalars[3], scalars[4]
    t[first:last] = 0.0
    for j in range(len(w)):
        for b in range(first, last):
            U[j, b] += A[b] * w[j, b] + C[b] * slab[j]
            w[j, b] = a[b] * w[j, b] + beta[b] * slab[j]
            t[b] += slab[j] * w[j, b]
    a[first:last] = 1.0
    beta[first:last] = 0.0
    A[first:last] = 0.0
    C[first:last] = 0.0


# -- Penalised stochastic gradient descent -----------------------------------------------------------------------------


@compiled
def penalised_sgd(
    X: Any, y: Any, eta: Any, first_row: int, law: int, seed: int, loss: int, alpha: float, damping: float,
    rows: Any, pulls: Any, penalty: float, start: Any, robust: bool, first: int, last: int, theta: Any, total: Any,
) -> None:  # fmt: skip
    """Carry columns first … last - 1 of the iterates θ and their sums through all rows, in place.

    The penalty's gradient is the sum of the ``pulls`` of the rows of D' that are on the wrong side at the ``point``
    where the penalty is judged, so only the *signs* of the rows' margins matter, and a sign cannot change while the
    point stays within |margin| / ‖row‖ of where it was measured. So each tile measures all rows at an ``anchor`` now
    and then, and in between only the rows whose sign could change within ``radius``. The pulls lie on a grid
    (criteria.on_grid): adding and removing them is exact, and the bits are those of a fresh evaluation at every row.
    """
    D, m = X.shape[1], len(rows)
    lengths = np.empty(m)
    for r in range(m):
        lengths[r] = np.sqrt(_dot(rows[r], rows[r]))
    for low in range(first, last, TILE):
        T = min(TILE, last - low)
        theta_, total_, point = np.empty((D, T)), np.empty((D, T)), np.empty((D, T))
        theta_[:], total_[:] = theta[:, low : low + T], total[:, low : low + T]
        anchor, gradient, wrong = np.empty((D, T)), np.zeros((D, T)), np.zeros((m, T), dtype=np.int64)
        near, n_near, radius, age = np.empty(m, dtype=np.int64), 0, 0.1, 0
        V, margin, slope, shrink = np.empty((DRAWN, T)), np.empty(T), np.empty(T), np.empty(T)
        pull, square = np.empty(T), np.empty(T)
        for i in range(len(X)):
            x, step = X[i], eta[i]
            if i % DRAWN == 0:
                draw_multipliers(law, seed, first_row + i, low, V[: min(DRAWN, len(X) - i)])
            v = V[i % DRAWN]
            if robust:
                _average(total_, start, first_row + i, point)
            else:
                point[:] = theta_
            if i == 0 or not _farthest(point, anchor, square) <= radius * radius:
                if i > 0:  # balance the price of the near rows against that of measuring all
                    radius *= 0.8 if n_near * age > m else 1.25
                n_near, age = _list_near(point, rows, lengths, pulls, radius, wrong, gradient, margin, near), 0
                anchor[:] = point
            else:
                for r in near[:n_near]:
                    _measure(point, rows[r], pulls[r], wrong, r, gradient, margin)
            age += 1
            _margins(x, theta_, margin)
            _derivatives(loss, y[i], margin, slope)
            damp = damping * _dot(x, x)
            if not robust:
                _penalty(theta_, gradient, pull, square)
            for b in range(T):
                shrink[b] = 1.0 - step * v[b] * alpha
                slope[b] *= step * v[b] / (1.0 + damp * step * v[b])
            for j in range(D):
                for b in range(T):
                    theta_[j, b] = shrink[b] * theta_[j, b] - slope[b] * x[j]
            if robust:
                _penalty(theta_, gradient, pull, square)
            for b in range(T):
                stiffness = 2.0 * penalty * step * v[b]
                pull[b] *= stiffness / (1.0 + stiffness * square[b]) if robust else stiffness
            for j in range(D):
                for b in range(T):
                    theta_[j, b] -= pull[b] * gradient[j, b]
                    total_[j, b] += theta_[j, b]
        theta[:, low : low + T], total[:, low : low + T] = theta_, total_


@compiled
def _average(total: Any, start: Any, k: int, point: Any) -> None:
    """Fill point (D, columns) with the average of the first k iterates and of the start, counted HEAD_START times."""
    D, T = total.shape
    share = 1.0 / (HEAD_START + k)
    for j in range(D):
        head = HEAD_START * start[j]
        for b in range(T):
            point[j, b] = (head + total[j, b]) * share


@compiled
def _farthest(point: Any, anchor: Any, square: Any) -> float:
    """Largest squared distance of a column from its anchor; NaN if a column overflowed."""
    D, T = point.shape
    square[:] = 0.0
    for j in range(D):
        for b in range(T):
            square[b] += (point[j, b] - anchor[j, b]) ** 2
    largest = 0.0
    for b in range(T):
        if not square[b] <= largest:
            largest = square[b]
    return largest


@compiled
def _measure(point: Any, row: Any, pull: Any, wrong: Any, r: int, gradient: Any, margin: Any) -> None:
    """Measure row r of D'; in the columns where it changed sides, add or remove its pull."""
    D, T = point.shape
    _margins(row, point, margin)
    changed = 0
    for b in range(T):
        changed += np.int64(margin[b] < 0.0) ^ wrong[r, b]
    if changed > 0:
        for b in range(T):
            side = np.int64(margin[b] < 0.0)
            if side != wrong[r, b]:
                for j in range(D):
                    gradient[j, b] += (side - wrong[r, b]) * pull[j]
                wrong[r, b] = side


@compiled
def _list_near(
    point: Any, rows: Any, lengths: Any, pulls: Any, radius: float, wrong: Any, gradient: Any, margin: Any, near: Any
) -> int:
    """Measure all rows; list those that can change sides while the point moves by ``radius``; return how many."""
    D, T = point.shape
    size = 0.0
    for j in range(D):
        for b in range(T):
            size = max(size, abs(point[j, b]))
    reach = radius * (1.0 + 1e-9) + 1e-12 * size * D  # rounding must not break the certificate
    n_near = 0
    for r in range(len(rows)):
        _measure(point, rows[r], pulls[r], wrong, r, gradient, margin)
        nearest = np.inf
        for b in range(T):
            nearest = min(nearest, abs(margin[b]))
        if not nearest > lengths[r] * reach:
            near[n_near] = r
            n_near += 1
    return n_near


@compiled
def _penalty(theta: Any, gradient: Any, g: Any, square: Any) -> None:
    """Fill g (columns,) with ḡᵀθ and square (columns,) with ‖ḡ‖²."""
    D, T = theta.shape
    g[:] = 0.0
    square[:] = 0.0
    for j in range(D):
        for b in range(T):
            g[b] += gradient[j, b] * theta[j, b]
            square[b] += gradient[j, b] ** 2


# -- Counts -----------------------------------------------------------------------------------------------------------


@compiled
def count_positive(X: Any, theta: Any, cell: Any, out: Any) -> None:
    """Add to out (cells, columns) the rows of each cell with xᵀθ > 0."""
    margin = np.empty(theta.shape[1])
    for i in range(len(X)):
        _margins(X[i], theta, margin)
        for b in range(len(margin)):
            out[cell[i], b] += np.int64(margin[b] > 0.0)


# -- Threads ----------------------------------------------------------------------------------------------------------


def on_threads(kernel: Callable[..., None], args: tuple[Any, ...], state: tuple[Any, ...], n_threads: int) -> None:
    """Call ``kernel(*args, first, last, *state)`` with the columns of the state shared out in whole tiles."""
    n_columns = state[0].shape[1]
    n_tiles = -(-n_columns // TILE)
    edges = [min(n_columns, TILE * (n_tiles * i // n_threads)) for i in range(n_threads + 1)]
    spans = [span for span in pairwise(edges) if span[0] < span[1]]
    if len(spans) == 1:
        kernel(*args, 0, n_columns, *state)
        return
    with ThreadPoolExecutor(len(spans)) as pool:
        for done in [pool.submit(kernel, *args, *span, *state) for span in spans]:
            done.result()
