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
MEASURED = 64  # rows between two fresh measurements of all margins of D'
DOUBT = 4e-5  # relative size below which a followed margin (float32, up to 64 updates) does not tell its sign
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
                move = step * v[b]
                A[b] += a[b]
                C[b] += beta[b] - c[b]
                shrink = 1.0 - move * alpha
                a[b] *= shrink
                beta[b] = shrink * beta[b] + move * alpha * c[b]
                slope[b] *= move / (a[b] * (1.0 + damp * move))
                t[b] -= slope[b] * slab_x
                weighted[b] = A[b] * slope[b]
            for j in range(D):
                xj = x[j]
                for b in range(T):
                    w_[j, b] -= slope[b] * xj
                    U_[j, b] += weighted[b] * xj
            if (first_row + i + 1) % FOLD == 0:
                _fold(slab, w_, U_, a, beta, t, A, C)
        w[:, low : low + T], U[:, low : low + T], scalars[:, low : low + T] = w_, U_, s_


@compiled
def _fold(slab: Any, w: Any, U: Any, a: Any, beta: Any, t: Any, A: Any, C: Any) -> None:
    """Write the same dual point and the same sum with a = 1, β = A = C = 0."""
    D, T = w.shape
    t[:] = 0.0
    for j in range(D):
        for b in range(T):
            U[j, b] += A[b] * w[j, b] + C[b] * slab[j]
            w[j, b] = a[b] * w[j, b] + beta[b] * slab[j]
            t[b] += slab[j] * w[j, b]
    a[:] = 1.0
    beta[:] = 0.0
    A[:] = 0.0
    C[:] = 0.0


# -- Penalised stochastic gradient descent -----------------------------------------------------------------------------


@compiled
def penalised_sgd(
    X: Any, y: Any, eta: Any, first_row: int, law: int, seed: int, loss: int, alpha: float, damping: float,
    rows: Any, pulls: Any, penalty: float, implicit: bool, first: int, last: int, theta: Any, total: Any,
) -> None:  # fmt: skip
    """Carry columns first … last - 1 of the iterates θ and their sums through all rows, in place.

    The penalty's gradient ḡ is the sum of the ``pulls`` of the rows of D' on the wrong side, so only the *signs* of
    these rows' margins matter. A step θ ← shrink θ - slope x - pull ḡ moves the margins M by shrink, slope K and
    pull P, where K = rows · x is the same for all columns and P = rows · ḡ changes only when a row changes sides: two
    multiply-adds per row of D' instead of one per feature, and single precision will do. For M and P only screen:
    where a sign may have changed it is settled by a fresh product, and the pulls lie on a grid (criteria.on_grid) where
    adding and removing is exact. So the bits are those of a fresh evaluation at every row.
    """
    D, m = X.shape[1], len(rows)
    followed = -(-m // 8) * 8  # whole words of eight flags
    across = np.zeros((D, followed), dtype=np.float32)  # the rows, lying down
    gram, lengths = np.empty((m, followed), dtype=np.float32), np.zeros(followed, dtype=np.float32)
    K, pull_size = np.empty(followed, dtype=np.float32), 0.0
    across[:, :m] = rows.T
    for i in range(m):
        lengths[i] = np.sqrt(_dot(rows[i], rows[i]))
        pull_size += np.sqrt(_dot(pulls[i], pulls[i]))
        _products(across, pulls[i], gram[i])
    for low in range(first, last, TILE):
        T = min(TILE, last - low)
        theta_, total_, gradient = np.empty((D, T)), np.empty((D, T)), np.zeros((D, T))
        theta_[:], total_[:] = theta[:, low : low + T], total[:, low : low + T]
        M, P = np.empty((T, followed), dtype=np.float32), np.zeros((T, followed), dtype=np.float32)
        wrong, flags, reach = np.zeros((T, m), dtype=np.bool_), np.zeros((T, followed), dtype=np.uint8), np.empty(T)
        words = flags.view(np.uint64)
        V, margin, slope, shrink = np.empty((DRAWN, T)), np.empty(T), np.empty(T), np.empty(T)
        pull, carry, square = np.zeros(T), np.empty(T), np.empty(T)
        for i in range(len(X)):
            x, step = X[i], eta[i]
            if i % DRAWN == 0:
                draw_multipliers(law, seed, first_row + i, low, V[: min(DRAWN, len(X) - i)])
            if i % MEASURED == 0:
                _measure(theta_, rows, across, pulls, gram, lengths, gradient, M, P, wrong, reach)
                pull[:] = 0.0
            v = V[i % DRAWN]
            length = np.sqrt(_dot(x, x))
            damp = damping * length * length
            _products(across, x, K)
            _margins(x, theta_, margin)
            _derivatives(loss, y[i], margin, slope)
            if not implicit:  # the penalty is measured before the loss step
                _penalty(theta_, gradient, pull, square)
            for b in range(T):
                move = step * v[b]
                shrink[b] = 1.0 - move * alpha
                slope[b] *= move / (1.0 + damp * move)
                carry[b] = shrink[b] * pull[b] if implicit else 2.0 * penalty * move * pull[b]
                reach[b] += abs(slope[b]) * length + abs(carry[b]) * pull_size
            for j in range(D):
                for b in range(T):
                    theta_[j, b] = shrink[b] * theta_[j, b] - slope[b] * x[j]
            if not implicit:
                _descend(theta_, carry, gradient)
            for b in range(T):
                _follow(b, shrink[b], slope[b], carry[b], DOUBT * reach[b], K, lengths, M, P, flags)
            for b in range(T):
                for word in range(words.shape[1]):
                    if words[b, word] != 0:
                        for r in range(8 * word, min(8 * word + 8, m)):
                            if flags[b, r]:
                                _settle(b, r, theta_, rows, pulls, gram, gradient, M, P, wrong)
            if implicit:  # the penalty is measured after the loss step
                _penalty(theta_, gradient, pull, square)
                for b in range(T):
                    move = 2.0 * penalty * step * v[b]
                    pull[b] *= move / (1.0 + move * square[b])
                _descend(theta_, pull, gradient)
            for j in range(D):
                for b in range(T):
                    total_[j, b] += theta_[j, b]
        theta[:, low : low + T], total[:, low : low + T] = theta_, total_


@compiled
def _follow(
    b: int, shrink: float, slope: float, carry: float, doubt: float, K: Any, lengths: Any, M: Any, P: Any, flags: Any
) -> None:
    """Move the margins of column b with its step; flag the rows of D' that changed sides or are too close to tell."""
    f, g, h, e = np.float32(shrink), np.float32(slope), np.float32(carry), np.float32(doubt)
    for i in range(len(K)):
        before = M[b, i]
        now = f * before - g * K[i] - h * P[b, i]
        M[b, i] = now
        flags[b, i] = not now * before > e * lengths[i] * abs(before)


@compiled
def _settle(
    b: int, i: int, theta: Any, rows: Any, pulls: Any, gram: Any, gradient: Any, M: Any, P: Any, wrong: Any
) -> None:
    """Measure row i of D' afresh in column b; if it changed sides, add or remove its pull."""
    margin = 0.0
    for j in range(len(theta)):
        margin += rows[i, j] * theta[j, b]
    M[b, i] = margin
    if (margin < 0.0) != wrong[b, i]:
        wrong[b, i] = margin < 0.0
        sign = np.float32(1.0) if margin < 0.0 else np.float32(-1.0)
        for j in range(len(theta)):
            gradient[j, b] += sign * pulls[i, j]
        for r in range(P.shape[1]):
            P[b, r] += sign * gram[i, r]


@compiled
def _measure(
    theta: Any, rows: Any, across: Any, pulls: Any, gram: Any, lengths: Any, gradient: Any, M: Any, P: Any, wrong: Any,
    reach: Any,
) -> None:  # fmt: skip
    """Compute the margins M and the products P of all columns afresh."""
    for b in range(theta.shape[1]):
        column = theta[:, b].copy()
        reach[b] = np.sqrt(_dot(column, column))
        _products(across, column, M[b])
        for i in range(len(rows)):
            if (M[b, i] < 0.0) != wrong[b, i] or not abs(M[b, i]) > DOUBT * reach[b] * lengths[i]:
                _settle(b, i, theta, rows, pulls, gram, gradient, M, P, wrong)
        M[b, len(rows) :] = 1.0  # nothing there: never flagged
        _products(across, gradient[:, b].copy(), P[b])


@compiled
def _products(across: Any, x: Any, out: Any) -> None:
    """Fill out (m,) with the products of all rows of D' and x."""
    out[:] = 0.0
    for j in range(len(x)):
        xj = np.float32(x[j])
        for i in range(len(out)):
            out[i] += across[j, i] * xj


@compiled
def _descend(theta: Any, pull: Any, gradient: Any) -> None:
    """θ ← θ - pull ḡ in every column."""
    D, T = theta.shape
    for j in range(D):
        for b in range(T):
            theta[j, b] -= pull[b] * gradient[j, b]


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
