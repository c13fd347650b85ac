"""The compiled inner loops: the only file that imports numba.

A kernel does for a range of columns (the fit and its replicates) what the ``reference_step`` of its learner does, up
to rounding. Arrays are (features, columns) with columns contiguous, so inner loops run over columns and vectorise. A
*tile* of columns stays in the cache while all rows of a batch pass; then the next tile follows. The arithmetic of a
column never depends on its neighbours, on the tile, or on where a batch ends, so results are bit-identical for any
number of threads and any batch sizes. For the same reason BLAS sums nothing here, and ``fastmath`` never reorders.

Sections, in this order:

    Constants       sizes of tiles and blocks, and the codes of losses and laws
    Arguments       NamedTuples in which related arguments travel: Batch, Objective, Faces, Lazy, Columns and others
    Compilation     the decorators ``compiled`` and ``inlined``, and what the compiler must know about vectors
    Exponential     exp without branches, in double and in single precision
    Multipliers     Philox, and the weights of rows in replicates
    Shared parts    products of rows and coefficients, copies, losses, change of coordinates
    Projection      the nearest point of all slabs
    Dual averaging  the learner under slabs: dense rows, then sparse rows
    Penalised SGD   the learner with a penalty
    Newton          the learner of a constraint from the stream
    Primal-dual     the learner of a constraint from a stream of sparse rows
    Sums            sums of rows by cell, and of their squares
    Counts          positive decisions of many models

Numba caches compiled code by the time stamp of this one file, so everything that compiled code depends on is in it.
Arguments travel in NamedTuples, because these can be cached; jitclasses, closures and functions as arguments cannot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])


# -- Constants --------------------------------------------------------------------------------------------------------


WORD = 32  # threads get columns in multiples of 32, so that the bits of two-point multipliers come in whole words
TILE = 224  # most columns of a tile
BLOCK = 4  # rows whose products and updates are computed together, counted from the first row of the stream
STRIDE = 16  # rows between two points of the path in the trace of a fit, counted from the first row of the stream
FOLD = 256  # rows between two folds of the lazy form, counted from the first row of the stream
STRONG = 0.02  # if the ridge shrinks the dual by more than this share in one step, the row is a block by itself
DRAWN = 32  # rows for which multipliers are drawn at a time
HEAD_START = 100.0  # rows that the start counts for in the point where penalties are judged
SQUARE = 64  # most columns of a sum of squares that are computed together
COUNTED = 256  # rows whose decisions are computed together, as bits of 64-bit words

LOG_LOSS = 0
SQUARED_ERROR = 1

TWO_POINT = 0
UNIFORM = 1
EXPONENTIAL = 2
NORMAL = 3
POISSON = 4

DECISIONS = 0
LINEAR = 1
HINGE = 2

NARROW = 0.4  # width of the value of a decision, relative to that of its slope
REACH = 2.0  # most that a Newton step changes the scores, as a root mean square
STRIDE_ALONG = 0.1  # longest step along the slopes of the gaps: root of twice what it adds to the loss
FAR_OUT = 3.0  # scores count up to so many times their spread where they change it
BELIEVED = 3.0  # a tangent to a decision is believed so many widths of the decision from its point
NEAR_BY = 0.25  # most that the constraint moves the score of a row, in widths of a decision


# -- Arguments --------------------------------------------------------------------------------------------------------


class Batch(NamedTuple):
    """Dense rows and their steps."""

    X: Any  # (n, D)
    y: Any  # (n,), labels
    eta: Any  # (n,), step sizes times relative weights
    stiff: Any  # (n,), how much each row shortens its step; see ``stiffness``
    first_row: int  # number of rows before this batch


class SparseBatch(NamedTuple):
    """Sparse rows, in the CSR format, and their steps."""

    starts: Any  # (n + 1,), where the numbers of each row begin
    features: Any
    values: Any
    y: Any  # (n,), like the rest as in Batch
    eta: Any
    stiff: Any
    first_row: int


class Objective(NamedTuple):
    """What columns minimise: a loss with a ridge, over rows that multipliers weigh."""

    loss: int  # code of the loss
    alpha: float  # ridge
    law: int  # code of the law of the multipliers
    seed: Any  # seed of the multipliers, a uint64


class Faces(NamedTuple):
    """Slabs in an orthonormal basis Q of their span: |nᵀu| ≤ e for u = Qθ. Without slabs: one, of zeros."""

    basis: Any  # Q, shape (r, D), r ≥ 1
    normals: Any  # n, unit vectors, shape (S, r), no two of them parallel
    levels: Any  # e, shape (S,)
    gram: Any  # products of the normals, shape (S, S)


class Lazy(NamedTuple):
    """State of dual averaging in the lazy form; see ``dual_averaging``."""

    w: Any  # (D, columns)
    U: Any  # (D, columns)
    scalars: Any  # (2 + 3r, columns)
    waiting: Any  # (number of rows, D), the rows of a block that is not complete
    gains: Any  # (2 BLOCK, columns)


class Kinks(NamedTuple):
    """A penalty on the kinked functions Σᵢ wᵢ min(0, rᵢᵀθ); zeros pad both sides of ``rows`` for blocks."""

    rows: Any  # r, shape (m, D), m a multiple of BLOCK, D even
    weights: Any  # w, shape (L, m)
    contrasts: Any  # (J, L / 2) of soft rates; empty if the functions are the terms themselves
    sharpness: float  # of rounded kinks, or 0
    strength: float  # R₂
    robust: bool  # whether penalty steps are implicit, around the running average


class Weighed(NamedTuple):
    """Dense rows with their weights."""

    X: Any  # (n, D)
    y: Any  # (n,), labels
    weight: Any  # (n,), relative weights
    key: Any  # (n,), uint64: multipliers are a function of it. The number of the row, or of its cluster
    first_row: int  # number of rows before these


class Comparing(NamedTuple):
    """What is compared between groups, and how closely; see ``criteria.Comparisons``."""

    kind: int  # code of the surrogate
    width: float  # of a decision, in units of the spread of the scores
    owner: Any  # (C,), the rate of each cell
    n_rates: int
    pairs: Any  # (2, J)
    followed: Any  # (J,), which pairs are constrained
    tolerance: float
    give: float  # how far a multiplier of 1 lets a gap go: 1 / (2 R₂) with a penalty R₂, otherwise 0
    sweeps: int  # over the pairs in one step


class Geometry(NamedTuple):
    """What a Newton step needs beside gradients and values; it is the same for all columns."""

    inverse: Any  # (D, D), inverse Hessian of the Lagrangian
    slopes: Any  # (C, D), slopes of the means of cells
    steep: Any  # (C, D), derivatives of the means of cells
    along: Any  # (F, D), slopes of the rates
    lift: Any  # (F, D), derivatives of the rates times inverse
    gram: Any  # (F, F), lift times alongᵀ
    solved: Any  # (J, F), from rates to the multipliers that make gaps 0
    ridge: Any  # (D,)


class Columns(NamedTuple):
    """The fit and its replicates; see ``NewtonState``."""

    theta: Any  # (D, columns)
    push: Any  # (J, columns)
    value: Any  # (C, columns)
    counts: Any  # (C, columns)
    weight: Any  # (1, columns)


class Added(NamedTuple):
    """What the rows of a block add, and room for one tile of columns."""

    gradient: Any  # (D, T)
    count: Any  # (C, T)
    value: Any  # (C, T)
    row: Any  # (8, T): weight and drift of the block; spread; and room
    pull: Any  # (C, T), weight of the slope of each cell
    rate: Any  # (F, T)
    new: Any  # (J, T)
    step: Any  # (D, T)
    block: Any  # (BLOCK, D), four rows of a matrix
    product: Any  # (BLOCK, T), their products


class Near(NamedTuple):
    """What DRAWN rows need and add, in the precision of the rows; longer sums are in double precision."""

    theta: Any  # (D, T)
    pull: Any  # (C, T)
    gradient: Any  # (D, T)
    count: Any  # (C, T)
    value: Any  # (C, T)
    row: Any  # (6, T): weight and drift; spread; multiplier, slope and bend of one row
    score: Any  # (BLOCK, T)
    gain: Any  # (2 BLOCK, T)
    block: Any  # (BLOCK, D), four rows


class Counting(NamedTuple):
    """How much sparse rows count, and what they leave for the survey."""

    recent: Any  # (n,), relative weights times a number that grows, so that later rows count more
    steady: Any  # (n,), relative weights times the row number
    gain: Any  # (n,), relative weights times the gain of the gradient along the slopes of the gaps
    n_before: int  # rows of the stream before the first iterate that the average includes
    solves: bool  # whether multipliers move
    scores: Any  # (n,), to fill: scores of the rows under the average of the fit


class Reduced(NamedTuple):
    """Directions along which sparse fits take Newton steps, and what these steps share."""

    basis: Any  # (D, r), orthonormal
    geometry: Geometry  # in these r coordinates
    most: float  # largest multiplier


class Divided(NamedTuple):
    """What the fit and its replicates have on sparse rows beside w and U; see ``PrimalDualState``."""

    scalars: Any  # (9, columns)
    along: Any  # (4r, columns)
    push: Any  # (J, columns)
    pull: Any  # (C, columns)
    value: Any  # (C, columns)
    counts: Any  # (C, columns)


class Record(NamedTuple):
    """What column 0 leaves for the trace of the fit; empty arrays if no trace is kept."""

    start: Any  # (D,), where the iterates begin
    scores: Any  # (n,), to fill: score of each row under the iterate of that moment
    sums: Any  # (points, D), to fill: every STRIDE rows the sum of the iterates, less that of their start


# -- Compilation ------------------------------------------------------------------------------------------------------


OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "nsz", "arcp"}}


def compiled(function: F) -> F:
    """Compile a function that releases the interpreter's lock; cache the result if there is a writable place."""
    try:
        return njit(cache=True, **OPTIONS)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # no writable place for the cache
        return njit(**OPTIONS)(function)  # type: ignore[no-any-return]


def inlined(function: F) -> F:
    """Compile a function into each of its callers."""
    return njit(forceinline=True, **OPTIONS)(function)  # type: ignore[no-any-return]


@inlined
def _whole(array: Any) -> int:
    """Number of columns, rounded down to whole vectors, so that the compiler needs no loop for a remainder."""
    return array.shape[1] // 8 * 8  # type: ignore[no-any-return]


@compiled
def check_codes(loss: int, law: int) -> None:
    """Raise a ValueError if no kernel has a branch for this loss or this law; kernels call it before their loops."""
    if loss != LOG_LOSS and loss != SQUARED_ERROR:
        raise ValueError("Unknown code of a loss. Use a code of kernels.py, or add the code and its branches there.")
    if law != TWO_POINT and law != UNIFORM and law != EXPONENTIAL and law != NORMAL and law != POISSON:
        raise ValueError("Unknown code of a law. Use a code of kernels.py, or add the code and its branches there.")


# -- Exponential ----------------------------------------------------------------------------------------------------


@compiled
def exponential(x: float) -> float:
    """exp(x) without branches, so that a loop over it vectorises; clipped to exp(±700).

    Write x = n ln 2 + r with |r| ≤ ln(2)/2: a Taylor polynomial of degree 13 gives exp(r), and n is added to the
    exponent bits.
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
    bits = np.int64((np.float64(shifted).view(np.int64) + 1023) << 52)
    return p * bits.view(np.float64)


@compiled
def exponential_single(x: Any) -> Any:
    """exp(x) in single precision throughout, clipped to exp(±87), with a Taylor polynomial of degree 7."""
    single = np.float32
    x = min(max(single(x), single(-87.0)), single(87.0))
    shifted = x * single(1.4426950408889634) + single(12582912.0)  # 1.5 · 2²³
    n = shifted - single(12582912.0)
    r = (x - n * single(0.693359375)) + n * single(2.12194440e-4)
    p = single(1.0 / 5040.0)
    p = p * r + single(1.0 / 720.0)
    p = p * r + single(1.0 / 120.0)
    p = p * r + single(1.0 / 24.0)
    p = p * r + single(1.0 / 6.0)
    p = p * r + single(0.5)
    p = p * r + single(1.0)
    p = p * r + single(1.0)
    bits = np.int32((single(shifted).view(np.int32) + 127) << 23)
    return p * bits.view(single)


# -- Multipliers ----------------------------------------------------------------------------------------------------


@compiled
def philox(keys: Any, block: int, block_step: int, purpose: int, seed: int, words: Any) -> None:
    """Fill words (4, n) with the random bits of n keys, or of n blocks of columns of one; see ``rows/philox.py``."""
    mask = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    for i in range(words.shape[1]):
        at = np.uint64(keys[i * (1 - block_step)])
        x0 = at & mask
        x1 = at >> half
        x2 = np.uint64(block + i * block_step)
        x3 = np.uint64(purpose)
        k0 = np.uint64(seed) & mask
        k1 = np.uint64(seed) >> half
        for _ in range(10):
            a = x0 * np.uint64(0xD2511F53)
            b = x2 * np.uint64(0xCD9E8D57)
            x0, x1, x2, x3 = (b >> half) ^ x1 ^ k0, b & mask, (a >> half) ^ x3 ^ k1, a & mask
            k0 = (k0 + np.uint64(0x9E3779B9)) & mask
            k1 = (k1 + np.uint64(0xBB67AE85)) & mask
        words[0, i] = x0
        words[1, i] = x1
        words[2, i] = x2
        words[3, i] = x3


@compiled
def draw_words(law: int, seed: int, keys: Any, first_column: int, words: Any) -> None:
    """Fill words (rows, words) with the random bits of the multipliers of rows with these keys.

    Two-point multipliers need one bit each, so a word serves 32 columns; other laws need a word per column.
    ``first_column`` is a multiple of 32.
    """
    n_rows = len(keys)
    n_words = words.shape[1]
    if law == TWO_POINT:
        drawn = np.empty((4, n_rows), dtype=np.uint64)
        for word in range(n_words):
            at = first_column // 32 + word
            if word == 0 or at % 4 == 0:
                philox(keys, at // 4, 0, 0, seed, drawn)
            for i in range(n_rows):
                words[i, word] = np.uint32(drawn[at % 4, i])
    else:
        drawn = np.empty((4, -(-n_words // 4)), dtype=np.uint64)
        for i in range(n_rows):
            philox(keys[i:], first_column // 4, 1, 0, seed, drawn)
            for word in range(n_words):
                words[i, word] = np.uint32(drawn[word % 4, word // 4])


@inlined
def _numbers(first: int) -> Any:
    """Numbers of the next DRAWN rows."""
    return np.arange(first, first + DRAWN).astype(np.uint64)


@inlined
def draw_moves(law: int, step: float, damp: float, words: Any, i: int, has_fit: bool, move: Any) -> None:
    """Fill move (columns,) with the steps ηV / (1 + ηV damp) of one row, whose random bits are row i of words.

    If the first column is the fit, it has V = 1. The number of columns is a multiple of 4.
    """
    number = move.dtype.type
    if law == TWO_POINT:
        most = number(2.0 * step / (1.0 + damp * (2.0 * step)))
        for low in range(0, len(move), 32):
            word = np.int32(words[i, low // 32])
            part = move[low : low + 32]
            for b in range(len(part)):
                part[b] = most * number((word >> np.int32(b)) & np.int32(1))
    else:
        V = np.empty(len(move))
        for b in range(len(move)):
            V[b] = (np.float64(words[i, b]) + 0.5) * 2.0**-32
        _transform(law, V)
        for b in range(len(move)):
            move[b] = step * V[b] / (1.0 + damp * (step * V[b]))
    if has_fit:
        move[0] = step / (1.0 + damp * step)


@compiled
def _words(law: int, n_columns: int) -> Any:
    """Array for the random bits of DRAWN rows."""
    n_words = -(-n_columns // 32) if law == TWO_POINT else -(-n_columns // 4) * 4
    return np.empty((DRAWN, n_words), dtype=np.uint32)


@compiled
def _transform(law: int, V: Any) -> None:
    """Turn uniform numbers into multipliers, in place; see ``multipliers._transform``."""
    n = len(V)
    if law == UNIFORM:
        for b in range(n):
            V[b] = 1.0 + np.sqrt(12.0) * (V[b] - 0.5)
    elif law == EXPONENTIAL:
        for b in range(n):
            V[b] = -np.log(V[b])
    elif law == NORMAL:
        for b in range(0, n, 2):
            radius = np.sqrt(-2.0 * np.log(V[b]))
            angle = 2.0 * np.pi * V[b + 1]
            V[b] = 1.0 + radius * np.cos(angle)
            V[b + 1] = 1.0 + radius * np.sin(angle)
    elif law == POISSON:
        for b in range(n):
            u = V[b]
            term = np.exp(-1.0)
            cdf = np.exp(-1.0)
            V[b] = 0.0
            while cdf < u and V[b] < 13.0:
                V[b] += 1.0
                term /= V[b]
                cdf += term


# -- Shared parts -----------------------------------------------------------------------------------------------------


@compiled
def change_coordinates(X: Any, W: Any, out: Any) -> None:
    """Fill out (rows, D) with (x, 1)ᵀW, or with xᵀW if W has no row for an intercept.

    Rows are transposed, so that inner loops run over them. Zeros at the lower ends of the columns of W are skipped.
    """
    n, d = X.shape
    depth, D = W.shape
    across = _room(W, -(-D // BLOCK) * BLOCK, -(-depth // BLOCK) * BLOCK)
    ends = np.zeros(D // BLOCK + 1, dtype=np.int64)
    block = _room(W, across.shape[1], TILE)
    moved = _room(W, len(across), TILE)
    for j in range(depth):
        for c in range(D):
            across[c, j] = W[j, c]
            if W[j, c] != 0.0:
                ends[c // BLOCK] = (j // BLOCK + 1) * BLOCK
    for j in range(d, depth):
        for i in range(TILE):
            block[j, i] = 1.0
    for low in range(0, n, TILE):
        high = min(low + TILE, n)
        _copy(X[low:high].T, block)
        for c in range(0, D, BLOCK):
            _products(across[c : c + BLOCK], block[: ends[c // BLOCK]], moved[c : c + BLOCK])
        _copy(moved[:D].T, out[low:high])


@inlined
def _products(X: Any, theta: Any, out: Any) -> None:
    """Fill out (4, columns) with the products of 4 rows with θ (D, columns); D is even, columns are padded.

    Products are added one after the other: in a sum of two products the compiler may round either of them first, and
    different loops could differ. All reads come before the first write, or the compiler would read again.
    """
    D = theta.shape[0]
    T = _whole(theta)
    for k in range(4):
        for b in range(T):
            out[k, b] = 0.0
    for j in range(0, D - 1, 2):
        a0, a1, b0, b1 = X[0, j], X[0, j + 1], X[1, j], X[1, j + 1]
        c0, c1, d0, d1 = X[2, j], X[2, j + 1], X[3, j], X[3, j + 1]
        for b in range(T):
            t0, t1 = theta[j, b], theta[j + 1, b]
            o0 = out[0, b] + a0 * t0
            o1 = out[1, b] + b0 * t0
            o2 = out[2, b] + c0 * t0
            o3 = out[3, b] + d0 * t0
            out[0, b] = o0 + a1 * t1
            out[1, b] = o1 + b1 * t1
            out[2, b] = o2 + c1 * t1
            out[3, b] = o3 + d1 * t1


@inlined
def _add_rows(X: Any, gain: Any, which: int, theta: Any) -> None:
    """Add to θ (D, columns) 4 rows times every other row of gain, one after the other; D is even."""
    D = theta.shape[0]
    T = _whole(theta)
    for j in range(0, D - 1, 2):
        a0, a1, b0, b1 = X[0, j], X[0, j + 1], X[1, j], X[1, j + 1]
        c0, c1, d0, d1 = X[2, j], X[2, j + 1], X[3, j], X[3, j + 1]
        for b in range(T):
            g0, g1, g2, g3 = gain[which, b], gain[which + 2, b], gain[which + 4, b], gain[which + 6, b]
            t0 = theta[j, b] + g0 * a0
            t1 = theta[j + 1, b] + g0 * a1
            t0 = t0 + g1 * b0
            t1 = t1 + g1 * b1
            t0 = t0 + g2 * c0
            t1 = t1 + g2 * c1
            theta[j, b] = t0 + g3 * d0
            theta[j + 1, b] = t1 + g3 * d1


@compiled
def _copy(source: Any, target: Any) -> None:
    """Copy the rows and columns that both arrays have."""
    for j in range(min(len(source), len(target))):
        for b in range(min(source.shape[1], target.shape[1])):
            target[j, b] = source[j, b]


@compiled
def _clear(array: Any) -> None:
    """Fill an array with zeros."""
    for j in range(len(array)):
        for b in range(array.shape[1]):
            array[j, b] = 0.0


@compiled
def _tile(n_columns: int, most: int) -> int:
    """Columns of a tile: tiles have about the same size, a multiple of 32, and at most ``most`` columns."""
    n_words = -(-n_columns // WORD)
    n_tiles = -(-n_columns // most)
    return WORD * -(-n_words // n_tiles)


@compiled
def _room(like: Any, n_rows: int, n_columns: int) -> Any:
    """Zeros (rows, columns) of the type of an array, aligned to cache lines.

    Every row is aligned if the number of columns is a multiple of 8, or of 16 in single precision.
    """
    line = 64 // like.itemsize
    flat = np.zeros(n_rows * n_columns + line, dtype=like.dtype)
    skip = -(flat.ctypes.data // like.itemsize) % line
    return flat[skip : skip + n_rows * n_columns].reshape(n_rows, n_columns)


@compiled
def _dot(a: Any, b: Any) -> float:
    """Sum of products."""
    total = 0.0
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


@compiled
def _derivatives(loss: int, y: float, score: Any, out: Any) -> None:
    """Fill out (columns,) with the derivative of the loss in the score."""
    number = score.dtype.type
    sign = number(y)
    one = number(1.0)
    two = number(2.0)
    if loss == LOG_LOSS and score.itemsize == 4:
        for b in range(len(score)):
            out[b] = -sign / (one + exponential_single(sign * score[b]))
    elif loss == LOG_LOSS:
        for b in range(len(score)):
            out[b] = -sign / (one + exponential(sign * score[b]))
    elif loss == SQUARED_ERROR:
        for b in range(len(score)):
            out[b] = -two * (sign - score[b])


# -- Projection -------------------------------------------------------------------------------------------------------


@compiled
def overshoot(faces: Faces, p: Any) -> None:
    """Subtract from each column of p (r, columns) the nearest point that lies in all slabs.

    With levels of 0 only the origin lies in all slabs, and in one dimension an interval does. Otherwise the dual
    active-set method of Goldfarb and Idnani solves each column: it starts from p itself, adds the slab that is violated
    most, and drops slabs that no longer push.
    """
    normals = faces.normals
    levels = faces.levels
    gram = faces.gram
    S, r = normals.shape
    if levels.max() == 0.0:
        return
    if r == 1:
        for b in range(p.shape[1]):
            p[0, b] -= min(max(p[0, b], -levels[0]), levels[0])
        return
    u = np.empty(r)
    q = np.empty(S)
    which = np.empty(r, dtype=np.int64)
    sign = np.empty(r)
    push = np.empty(r + 1)
    share = np.empty(r + 1)
    factor = np.empty((r, r))
    for b in range(p.shape[1]):
        n_active = 0
        size = levels.max()
        for j in range(r):
            u[j] = p[j, b]
            size = max(size, abs(u[j]))
        for _ in range(10 * (S + r)):
            worst = -1
            excess = 1e-15 * size * r
            for s in range(S):
                q[s] = _dot(normals[s], u)
                if abs(q[s]) - levels[s] > excess:
                    worst = s
                    excess = abs(q[s]) - levels[s]
            if worst < 0:
                break
            side = 1.0 if q[worst] > 0.0 else -1.0
            new = 0.0
            while True:  # increase the push of the new slab until it is reached, or until the push of an old one is 0
                for i in range(n_active):
                    share[i] = side * sign[i] * gram[which[i], worst]
                _solve(gram, which, sign, n_active, factor, share)
                rest = 1.0
                for i in range(n_active):
                    rest -= share[i] * side * sign[i] * gram[which[i], worst]
                length = excess / rest if rest > 1e-13 and n_active < r else np.inf
                leaving = -1
                for i in range(n_active):
                    if share[i] > 1e-13 and push[i] / share[i] < length:
                        length = push[i] / share[i]
                        leaving = i
                if not length < np.inf:
                    break
                for j in range(r):
                    u[j] -= length * side * normals[worst, j]
                    for i in range(n_active):
                        u[j] += length * share[i] * sign[i] * normals[which[i], j]
                for i in range(n_active):
                    push[i] -= length * share[i]
                new += length
                excess -= length * rest
                if leaving < 0:
                    which[n_active] = worst
                    sign[n_active] = side
                    push[n_active] = new
                    n_active += 1
                    break
                for i in range(leaving, n_active - 1):
                    which[i] = which[i + 1]
                    sign[i] = sign[i + 1]
                    push[i] = push[i + 1]
                n_active -= 1
            if not length < np.inf:
                break
        for i in range(n_active):  # once more from p itself, so that rounding does not add up
            share[i] = -levels[which[i]]
            for j in range(r):
                share[i] += sign[i] * normals[which[i], j] * p[j, b]
        _solve(gram, which, sign, n_active, factor, share)
        for j in range(r):
            given = 0.0
            for i in range(n_active):
                given += share[i] * sign[i] * normals[which[i], j]
            p[j, b] = given


@compiled
def _solve(gram: Any, which: Any, sign: Any, n: int, factor: Any, x: Any) -> None:
    """Solve G x = b in place for the signed Gram matrix G of n slabs, by its Cholesky factor."""
    for i in range(n):
        for j in range(i + 1):
            value = sign[i] * sign[j] * gram[which[i], which[j]]
            for k in range(j):
                value -= factor[i, k] * factor[j, k]
            factor[i, j] = np.sqrt(max(value, 1e-300)) if i == j else value / factor[j, j]
    for i in range(n):
        for k in range(i):
            x[i] -= factor[i, k] * x[k]
        x[i] /= factor[i, i]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            x[i] -= factor[k, i] * x[k]
        x[i] /= factor[i, i]


# -- Dual averaging ---------------------------------------------------------------------------------------------------


@compiled
def dual_averaging(
    batch: Batch, objective: Objective, faces: Faces, record: Record, first: int, last: int, state: Lazy
) -> int:
    """Move columns first … last - 1 of the state over all rows of a batch, in place.

    ``learners/dual_averaging.py`` has the lazy form, in which the ridge, the projection and the average cost O(1) per
    row and column, and each feature costs three multiply-adds. It also follows t = Qw. Every FOLD rows of the stream it
    is folded to a = 1, β = A = C = 0. Flat slabs, with levels of 0, are simpler: rows must come projected onto them, so
    that θ stays in them, and β, t and C are 0.

    Rows are processed in blocks of 4. Their products with w are computed together; what earlier rows of the block have
    added to w reaches a row through the products of rows with rows; w and U are updated once per block. Blocks end
    where the row number is a multiple of 4, regardless of where batches end: the rows of an incomplete block are
    ``waiting`` for the rest of it, with their ``gains``: for each of them, the multiples of it that w and U will gain.
    Returns the number of rows that wait after this batch.
    """
    check_codes(objective.loss, objective.law)
    X, y, eta, stiff, first_row = batch
    loss, alpha, law, seed = objective
    w, U, scalars, waiting, gains = state
    basis = faces.basis
    n, D = X.shape
    r = 0 if faces.levels.max() == 0.0 else len(basis)
    traced = first == 0 and len(record.scores) > 0
    wide = -(-D // 2) * 2
    width = _tile(last - first, TILE)
    block = np.zeros((BLOCK, wide))
    pairs = np.empty((BLOCK, BLOCK))
    basis_x = np.empty((BLOCK, r))
    begun = len(waiting)
    for low in range(first, last, width):
        T = min(width, last - low)
        padded = -(-T // 8) * 8  # whole vectors; nothing reads the columns past T
        w_ = _room(w, wide, padded)
        U_ = _room(w, wide, padded)
        s = _room(w, 3 + 4 * r, TILE).ravel()
        product = _room(w, BLOCK, padded)
        gain = _room(w, 2 * BLOCK, padded)
        move = _room(w, 1, padded)[0]
        words = _words(law, padded)
        _copy(w[:, low : low + T], w_)
        _copy(U[:, low : low + T], U_)
        _copy(gains[:, low : low + T], gain)
        _copy(waiting, block)
        s[T:TILE] = 1.0  # a of columns that are not there
        _exchange(scalars[: 2 + 3 * r, low : low + T], s, False)
        begun = len(waiting)
        i = 0
        while i < n:
            strong = eta[i] * alpha > STRONG
            if strong and begun > 0:
                _add_block(block, gain, w_, U_)
                begun = 0
            stop = i + 1
            while stop < n and (first_row + stop) % BLOCK != 0 and not strong and eta[stop] * alpha <= STRONG:
                stop += 1
            end = begun + stop - i
            _copy(X[i:stop], block[begun:])
            for k in range(end, BLOCK):
                for j in range(D):
                    block[k, j] = 0.0
            _products(block, w_, product)
            _products_of_rows(block, basis, pairs, basis_x)
            for k in range(begun, end):
                if i % DRAWN == 0:
                    draw_words(law, seed, _numbers(first_row + i), low, words)
                draw_moves(law, eta[i], stiff[i], words, i % DRAWN, low == 0, move)
                for before in range(k):
                    for b in range(padded):
                        product[k, b] += gain[2 * before, b] * pairs[before, k]
                _enter(s, k, basis_x, faces, alpha, product, move)
                if traced and low == 0:
                    record.scores[i] = s[_SCORE]
                if strong:
                    _fold_where_small(basis[:r], w_[:D], U_[:D], s, T)
                _leave(s, k, basis_x, y[i], loss, move, gain)
                i += 1
            begun = end
            if strong or (first_row + i) % BLOCK == 0:
                _add_block(block, gain, w_, U_)
                begun = 0
            if traced and low == 0 and (first_row + i) % STRIDE == 0:
                _leave_sum(basis[:r], w_, U_, s, record.start, first_row + i, record.sums[_point(first_row, i)])
            if (first_row + i) % FOLD == 0:
                _fold(basis[:r], w_[:D], U_[:D], *_views(s, r), 0, padded)
        _copy(w_, w[:, low : low + T])
        _copy(U_, U[:, low : low + T])
        _copy(gain, gains[:, low : low + T])
        _exchange(scalars[: 2 + 3 * r, low : low + T], s, True)
    return begun


@inlined
def _add_block(block: Any, gain: Any, w: Any, U: Any) -> None:
    """Add the gains of the rows of a block to w and U."""
    _add_rows(block, gain, 0, w)
    _add_rows(block, gain, 1, U)


@inlined
def _products_of_rows(block: Any, basis: Any, pairs: Any, basis_x: Any) -> None:
    """Fill pairs (4, 4), above its diagonal, and basis_x (4, r) with the products of rows with rows and with Q."""
    pairs[:] = 0.0
    basis_x[:] = 0.0
    for j in range(block.shape[1]):
        for k in range(BLOCK):
            for other in range(k + 1, BLOCK):
                pairs[k, other] += block[k, j] * block[other, j]
    for j in range(basis.shape[1]):
        for k in range(BLOCK):
            for f in range(basis_x.shape[1]):
                basis_x[k, f] += block[k, j] * basis[f, j]


@compiled
def dual_averaging_sparse(
    batch: SparseBatch, objective: Objective, faces: Faces, first: int, last: int, state: Lazy
) -> None:
    """Do the same for sparse rows, without slabs; a row only touches the features in which it is not zero.

    Rows are processed one by one, so none waits. Folding touches all features, so only columns whose a is nearly 0 are
    folded.
    """
    check_codes(objective.loss, objective.law)
    starts = batch.starts
    y = batch.y
    law = objective.law
    none = np.empty((0, 0))
    width = _tile(last - first, TILE)
    for low in range(first, last, width):
        T = min(width, last - low)
        w_ = state.w[:, low : low + T]
        U_ = state.U[:, low : low + T]
        s = np.zeros(3 * TILE)
        padded = -(-T // 8) * 8
        product = np.zeros((1, padded))
        gain = np.zeros((2, padded))
        move = np.empty(padded)
        words = _words(law, padded)
        s[T:TILE] = 1.0  # a of columns that are not there
        _exchange(state.scalars[:2, low : low + T], s, False)
        for i in range(len(y)):
            where = batch.features[starts[i] : starts[i + 1]]
            x = batch.values[starts[i] : starts[i + 1]]
            if i % DRAWN == 0:
                draw_words(law, objective.seed, _numbers(batch.first_row + i), low, words)
            draw_moves(law, batch.eta[i], batch.stiff[i], words, i % DRAWN, low == 0, move)
            _scores_sparse(where, x, w_, product[0])
            _enter(s, 0, none, faces, objective.alpha, product, move)
            _fold_where_small(none, w_, U_, s, T)
            _leave(s, 0, none, y[i], objective.loss, move, gain)
            _add_sparse(where, x, gain[0], gain[1], w_, U_)
        _exchange(state.scalars[:2, low : low + T], s, True)


# The other numbers of each column of a tile are in one flat array s, TILE numbers apart, so that the compiler sees that
# they do not overlap: a, A, the score, and then, for each dimension of the slabs, β, t, C, c.
_SUM = TILE
_SCORE = 2 * TILE
_FACES = 3 * TILE  # where the first dimension of the slabs begins
_FACE = 4 * TILE  # numbers of one dimension, in which t, C and c begin here:
_DOT = TILE
_GIVEN = 2 * TILE
_OVER = 3 * TILE


@compiled
def _views(s: Any, r: int) -> tuple[Any, Any, Any, Any, Any]:
    """The numbers a, A (columns,) and β, t, C (r, columns) of a tile."""
    faces = s[_FACES:].reshape(r, 4, TILE)
    return s[:TILE], s[_SUM : _SUM + TILE], faces[:, 0], faces[:, 1], faces[:, 2]


@compiled
def _exchange(scalars: Any, s: Any, back: bool) -> None:
    """Copy scalars (2 + 3r, columns) to their places in s, or back."""
    n_rows, T = scalars.shape
    r = n_rows // 3
    for i in range(n_rows):
        place = i if i < 2 else 3 + 4 * ((i - 2) % r) + (i - 2) // r
        part = s[TILE * place : TILE * place + T]
        for b in range(T):
            if back:
                scalars[i, b] = part[b]
            else:
                part[b] = scalars[i, b]


@inlined
def _enter(s: Any, k: int, basis_x: Any, faces: Faces, alpha: float, product: Any, move: Any) -> None:
    """Project, compute the score of row k from its product with w, add the iterate to the sums, shrink the dual."""
    T = len(move)
    r = basis_x.shape[1]
    for f in range(r):
        face = _FACES + f * _FACE
        for b in range(T):
            s[face + _OVER + b] = s[b] * s[face + _DOT + b] + s[face + b]
    if r > 0:
        overshoot(faces, s[_FACES:].reshape(r, 4, TILE)[:, 3, :T])
    for b in range(T):
        a = s[b]
        A = s[_SUM + b]
        s[_SCORE + b] = a * product[k, b]
        s[_SUM + b] = A + a
        s[b] = a - move[b] * alpha * a
    for f in range(r):
        face = _FACES + f * _FACE
        x = basis_x[k, f]
        for b in range(T):
            beta = s[face + b]
            score = s[_SCORE + b]
            C = s[face + _GIVEN + b]
            rest = beta - s[face + _OVER + b]
            s[_SCORE + b] = score + rest * x
            s[face + _GIVEN + b] = C + rest
            s[face + b] = beta - move[b] * alpha * rest


@inlined
def _leave(s: Any, k: int, basis_x: Any, y: float, loss: int, move: Any, gain: Any) -> None:
    """Fill rows 2k and 2k + 1 of gain with the multiples of row k that w and U gain."""
    T = len(move)
    if loss == LOG_LOSS:  # one division for the slope of the loss and for 1 / a
        for b in range(T):
            s[_SCORE + b] = y * move[b] / ((1.0 + exponential(y * s[_SCORE + b])) * s[b])
    elif loss == SQUARED_ERROR:
        for b in range(T):
            s[_SCORE + b] = 2.0 * (y - s[_SCORE + b]) * move[b] / s[b]
    for b in range(T):
        g = s[_SCORE + b]
        A = s[_SUM + b]
        gain[2 * k, b] = g
        gain[2 * k + 1, b] = -(A * g)
    for f in range(basis_x.shape[1]):
        dot = _FACES + f * _FACE + _DOT
        x = basis_x[k, f]
        for b in range(T):
            s[dot + b] += s[_SCORE + b] * x


@compiled
def _leave_sum(basis: Any, w: Any, U: Any, s: Any, start: Any, k: int, out: Any) -> None:
    """Fill out (D,) with the sum of k iterates of the first column, A w + U + QᵀC, less k times the start."""
    for j in range(len(out)):
        out[j] = s[_SUM] * w[j, 0] + U[j, 0]
        for f in range(len(basis)):
            out[j] += s[_FACES + f * _FACE + _GIVEN] * basis[f, j]
        out[j] -= k * start[j]


@inlined
def _point(first_row: int, n: int) -> int:
    """Number of the point of the path at the last of n rows; the first point after first_row has number 0."""
    return (first_row + n) // STRIDE - first_row // STRIDE - 1


@compiled
def _fold_where_small(basis: Any, w: Any, U: Any, s: Any, T: int) -> None:
    """Fold the columns whose a is nearly 0."""
    for b in range(T):
        if abs(s[b]) < 1e-3:
            _fold(basis, w, U, *_views(s, len(basis)), b, b + 1)


@compiled
def _fold(basis: Any, w: Any, U: Any, a: Any, A: Any, beta: Any, t: Any, C: Any, first: int, last: int) -> None:
    """Rewrite the same dual points and sums with a = 1, β = A = C = 0, in columns first … last - 1."""
    r = len(basis)
    for j in range(len(w)):
        for b in range(first, last):
            U[j, b] += A[b] * w[j, b]
            w[j, b] *= a[b]
        for f in range(r):
            for b in range(first, last):
                U[j, b] += C[f, b] * basis[f, j]
                w[j, b] += beta[f, b] * basis[f, j]
    for b in range(first, last):
        a[b] = 1.0
        A[b] = 0.0
    for f in range(r):
        for b in range(first, last):
            beta[f, b] = 0.0
            t[f, b] = 0.0
            C[f, b] = 0.0
        for j in range(len(w)):
            for b in range(first, last):
                t[f, b] += basis[f, j] * w[j, b]


@compiled
def _scores_sparse(where: Any, x: Any, theta: Any, out: Any) -> None:
    """Fill out (columns,) with xᵀθ, for a row with the values x in the features ``where``."""
    out[:] = 0.0
    for j in range(len(x)):
        theta_j = theta[where[j]]
        xj = x[j]
        for b in range(len(theta_j)):
            out[b] += xj * theta_j[b]


@compiled
def _add_sparse(where: Any, x: Any, gain: Any, weighted: Any, w: Any, U: Any) -> None:
    """Add gain times x to w and weighted times x to U, for a row with the values x in the features ``where``."""
    for j in range(len(x)):
        wj = w[where[j]]
        Uj = U[where[j]]
        xj = x[j]
        for b in range(len(wj)):
            wj[b] += gain[b] * xj
            Uj[b] += weighted[b] * xj


# -- Penalised SGD ----------------------------------------------------------------------------------------------------


@compiled
def penalised_sgd(
    batch: Batch, objective: Objective, kinks: Kinks, record: Record, first: int, last: int, theta: Any, total: Any
) -> None:
    """Move columns first … last - 1 of the iterates θ and their sums over all rows of a batch, in place.

    Every row of D' is measured at every step, at the ``point`` where the penalty is judged: the running average in the
    robust form, otherwise θ. The terms of the penalty are the kinked functions ``f``, or contrasts of soft rates, whose
    numerators and denominators they are. Column 0 fills the ``record``, as in ``dual_averaging``.
    """
    check_codes(objective.loss, objective.law)
    n, D = batch.X.shape
    wide = kinks.rows.shape[1]
    L = len(kinks.weights)
    soft = len(kinks.contrasts) > 0
    J = len(kinks.contrasts) if soft else L
    width = _tile(last - first, TILE)
    for low in range(first, last, width):
        T = min(width, last - low)
        padded = -(-T // 8) * 8  # as in dual_averaging
        traced = low == 0 and len(record.scores) > 0
        theta_ = _room(theta, wide, padded)
        total_ = _room(theta, wide, padded)
        point = _room(theta, wide, padded)
        f = _room(theta, L, padded)
        slopes = _room(theta, L * wide, padded).reshape(L, wide, padded)
        value = _room(theta, J, padded) if soft else f
        gradient = _room(theta, J * wide, padded).reshape(J, wide, padded) if soft else slopes
        score = np.empty(padded)
        slope = np.empty(padded)
        move = np.empty(padded)
        stiff = np.empty(padded)
        words = _words(objective.law, padded)
        _copy(theta[:, low : low + T], theta_)
        _copy(total[:, low : low + T], total_)
        for i in range(n):
            x = batch.X[i]
            k = batch.first_row + i
            if i % DRAWN == 0:
                draw_words(objective.law, objective.seed, _numbers(k), low, words)
            draw_moves(objective.law, batch.eta[i], batch.stiff[i], words, i % DRAWN, low == 0, move)
            draw_moves(objective.law, 2.0 * kinks.strength * batch.eta[i], 0.0, words, i % DRAWN, low == 0, stiff)
            share = 1.0 / (HEAD_START + k)
            score[:] = 0.0
            for j in range(D):
                head = HEAD_START * record.start[j]  # outside the inner loop, so that every column rounds it the same
                for b in range(padded):
                    average = (head + total_[j, b]) * share
                    point[j, b] = average if kinks.robust else theta_[j, b]
                    score[b] += x[j] * theta_[j, b]
            _measure(kinks, point, f, slopes)
            if soft:
                _contrast(kinks.contrasts, f, slopes, value, gradient)
            if traced:
                record.scores[i] = score[0]
            _derivatives(objective.loss, batch.y[i], score, slope)
            for b in range(padded):
                slope[b] *= move[b]
                move[b] *= objective.alpha
            for j in range(D):
                for b in range(padded):
                    theta_[j, b] -= move[b] * theta_[j, b]
                for b in range(padded):
                    theta_[j, b] -= slope[b] * x[j]
            pull = _pull(theta_, point, value, gradient, stiff, kinks.robust)
            for j in range(D):
                for term in range(J):
                    for b in range(padded):
                        theta_[j, b] -= pull[term, b] * gradient[term, j, b]
                for b in range(padded):
                    total_[j, b] += theta_[j, b]
            if traced and (k + 1) % STRIDE == 0:
                at = _point(batch.first_row, i + 1)
                for j in range(D):
                    record.sums[at, j] = total_[j, 0] - (k + 1) * record.start[j]
        _copy(theta_, theta[:, low : low + T])
        _copy(total_, total[:, low : low + T])


@compiled
def _measure(kinks: Kinks, point: Any, f: Any, slopes: Any) -> None:
    """Fill f (L, columns) and slopes (L, D, columns) with the kinked functions at a point and their gradients."""
    L, T = f.shape
    score = _room(point, BLOCK, T)
    side = _room(point, BLOCK, T)
    gain = _room(point, 2 * BLOCK, T)
    _clear(f)
    for term in range(L):
        _clear(slopes[term])
    for low in range(0, len(kinks.rows), BLOCK):
        block = kinks.rows[low : low + BLOCK]
        _products(block, point, score)
        for k in range(BLOCK):
            _kink(kinks.sharpness, score[k], side[k])
        for term in range(L):
            for k in range(BLOCK):
                weight = kinks.weights[term, low + k]
                for b in range(T):
                    f[term, b] += weight * score[k, b]
                for b in range(T):
                    gain[2 * k, b] = weight * side[k, b]
            _add_rows(block, gain, 0, slopes[term])


@compiled
def _kink(sharpness: float, score: Any, side: Any) -> None:
    """Replace scores s by min(0, s), or by its rounded form, and fill side with the derivatives."""
    for b in range(len(score)):
        if sharpness > 0.0:
            scaled = sharpness * score[b]
            side[b] = 1.0 / (1.0 + exponential(scaled))
            score[b] = (min(scaled, 0.0) - np.log1p(exponential(-abs(scaled)))) / sharpness
        else:
            side[b] = 1.0 if score[b] < 0.0 else 0.0
            score[b] = min(score[b], 0.0)


@compiled
def _contrast(contrasts: Any, f: Any, slopes: Any, value: Any, gradient: Any) -> None:
    """Fill value (J, columns) and gradient (J, D, columns) with contrasts of the soft rates; see SoftRatePenalty."""
    J, G = contrasts.shape
    D, T = gradient.shape[1:]
    inverse = np.empty(T)
    rho = np.empty(T)
    _clear(value)
    for term in range(J):
        _clear(gradient[term])
    for z in range(G):
        for b in range(T):
            inverse[b] = 1.0 / f[G + z, b] if f[G + z, b] > 0.0 else 0.0
            rho[b] = f[z, b] * inverse[b]
        for term in range(J):
            by = contrasts[term, z]
            for b in range(T):
                value[term, b] += by * rho[b]
            for j in range(D):
                for b in range(T):
                    gradient[term, j, b] += by * inverse[b] * (slopes[z, j, b] - rho[b] * slopes[G + z, j, b])


@compiled
def _pull(theta: Any, point: Any, value: Any, gradient: Any, stiff: Any, implicit: bool) -> Any:
    """How much of each term's gradient the penalty step takes away from θ, (J, columns).

    With s = ``stiff`` and g the terms at the point, an explicit step takes s g. An implicit step takes the solution of
    (I + s G Gᵀ) λ = s (g + G (θ - point)), where the rows of G are the gradients, by elimination.
    """
    J, D, T = gradient.shape
    pull = np.empty((J, T))
    for term in range(J):
        for b in range(T):
            pull[term, b] = stiff[b] * value[term, b]
    if not implicit:
        return pull
    system = np.zeros((J, J, T))
    for row in range(J):
        for b in range(T):
            system[row, row, b] = 1.0
        for j in range(D):
            for b in range(T):
                pull[row, b] += stiff[b] * gradient[row, j, b] * (theta[j, b] - point[j, b])
            for column in range(J):
                for b in range(T):
                    system[row, column, b] += stiff[b] * gradient[row, j, b] * gradient[column, j, b]
    for pivot in range(J):
        for row in range(J):
            for b in range(T if row != pivot else 0):
                by = system[row, pivot, b] / system[pivot, pivot, b]
                pull[row, b] -= by * pull[pivot, b]
                for column in range(pivot + 1, J):
                    system[row, column, b] -= by * system[pivot, column, b]
    for term in range(J):
        for b in range(T):
            pull[term, b] /= system[term, term, b]
    return pull


# -- Newton -----------------------------------------------------------------------------------------------------------


@compiled
def newton(
    rows: Any, entries: Any, objective: Any, comparing: Any, geometry: Any, stride: int, path: Any, first: int,
    last: int, state: Any,
) -> None:  # fmt: skip
    """Train the columns first, …, last - 1 on blocks of ``stride`` rows; ``StochasticNewton`` has the specification.

    The stride is a multiple of DRAWN. Fill path (blocks, D) with the fit after each block.

    With a stride of 0 the rows are one block and all there is: values and counts are those of these rows alone, and
    the step is one of Newton's method on them. With a stride of -1 they are only measured, and no step is taken.
    """
    check_codes(objective.loss, objective.law)
    n, D = rows.X.shape
    whole = stride <= 0
    takes = 1.0 if stride >= 0 else 0.0
    stride = n if whole else stride
    tile = _tile(last - first, TILE)
    for low in range(first, last, tile):
        high = min(low + tile, last)
        held, added, near, words = _newton_room(rows, objective, comparing, high - low)
        for part in range(len(held)):
            _copy(state[part][:, low:high], held[part])
        for begin in range(0, n, DRAWN):
            end = min(n, begin + DRAWN)
            if begin == 0 or (begin % stride == 0 and not whole):
                _open(comparing, held, added)
                _copy(held.theta, near.theta)
                _copy(added.pull, near.pull)
                _copy(added.row[2:3], near.row[2:3])
            _add_to_cells(rows, entries, objective, comparing, (begin, end, low), words, near)
            _add_near(near, added)
            if end < n and (end % stride > 0 or whole):
                continue
            if whole:
                _clear(held.counts)
                _clear(held.value)
                _clear(held.weight)
            _add_up(comparing, geometry, whole, held, added)
            _find_push(comparing, geometry, held, added)
            _take_step(comparing, geometry, takes, held, added)
            if low == 0 and len(path):
                path[begin // stride] = held.theta[:D, 0]
        for part in range(len(held)):
            _copy(held[part], state[part][:, low:high])


@compiled
def _newton_room(rows: Any, objective: Any, comparing: Any, n_columns: int) -> Any:
    """Room for one tile of columns: its state, what blocks and rows add to it, and random bits."""
    one = rows.X
    D = one.shape[1]
    even = D + D % 2
    T = -(-n_columns // 16) * 16
    C = len(comparing.owner)
    F = comparing.n_rates
    J = comparing.pairs.shape[1]
    two = np.empty(0)
    held = Columns(_room(two, even, T), _room(two, J, T), _room(two, C, T), _room(two, C, T), _room(two, 1, T))
    added = Added(
        _room(two, even, T), _room(two, C, T), _room(two, C, T), _room(two, 7, T), _room(two, C, T), _room(two, F, T),
        _room(two, J, T), _room(two, even, T), _room(two, BLOCK, even), _room(two, BLOCK, T),
    )  # fmt: skip
    near = Near(
        _room(one, even, T), _room(one, C, T), _room(one, even, T), _room(one, C, T), _room(one, C, T),
        _room(one, 6, T), _room(one, BLOCK, T), _room(one, 2 * BLOCK, T), _room(one, BLOCK, even),
    )  # fmt: skip
    return held, added, near, _words(objective.law, T)


@compiled
def _open(comparing: Any, held: Any, added: Any) -> None:
    """Begin a block: clear what rows add, and find the spread of the scores and the pull of the constraint."""
    D, T = held.theta.shape
    _clear(added.gradient)
    _clear(added.count)
    _clear(added.value)
    _clear(added.row)
    for j in range(D):
        for b in range(T):
            added.row[2, b] += held.theta[j, b] * held.theta[j, b]
    for b in range(T):
        square = added.row[2, b]
        added.row[2, b] = 1.0 / (comparing.width * np.sqrt(square)) if square > 0.0 else 0.0
    _clear(added.rate)
    for p in range(comparing.pairs.shape[1]):
        if comparing.followed[p]:
            one, two = comparing.pairs[0, p], comparing.pairs[1, p]
            for b in range(T):
                added.rate[one, b] += held.push[p, b]
                added.rate[two, b] -= held.push[p, b]
    for c in range(comparing.n_rates):
        for b in range(T):
            count = held.counts[c, b]
            added.pull[c, b] = added.rate[c, b] * (held.weight[0, b] / count if count > 0.0 else 0.0)
    for c in range(comparing.n_rates, len(comparing.owner)):
        above = comparing.owner[c]
        for b in range(T):
            count = held.counts[c, b]
            below = held.value[c, b]
            share = 1.0 / below if below > 0.0 else 0.0
            added.pull[above, b] *= share
            size = held.weight[0, b] / count if count > 0.0 else 0.0
            added.pull[c, b] = -added.rate[above, b] * held.value[above, b] * share * share * size


@compiled
def _add_to_cells(
    rows: Any, entries: Any, objective: Any, comparing: Any, where: tuple[int, int, int], words: Any, near: Any
) -> None:  # fmt: skip
    """Add the gradients of at most DRAWN rows, and their values to their cells.

    ``where`` is the first row, the row after the last, and the first column of the tile.
    """
    begin, end, low = where
    D = rows.X.shape[1]
    T = near.theta.shape[1]
    block = near.block
    drawn, drift, scale, v, slope, bend = (
        near.row[0], near.row[1], near.row[2], near.row[3], near.row[4], near.row[5],
    )  # fmt: skip
    _clear(near.row[:2])
    _clear(near.gradient)
    _clear(near.count)
    _clear(near.value)
    draw_words(objective.law, objective.seed, rows.key[begin:end], low, words)
    for four in range(begin, end, BLOCK):
        for k in range(BLOCK):
            for j in range(D):
                block[k, j] = rows.X[four + k, j] if four + k < end else 0.0
        _products(block, near.theta, near.score)
        for k in range(min(BLOCK, end - four)):  # gains of rows that are not there count nothing: these are zeros
            gain = near.gain[2 * k]
            i = four + k
            score = near.score[k]
            draw_moves(objective.law, rows.weight[i], 0.0, words, i - begin, low == 0, v)
            _derivatives(objective.loss, rows.y[i], score, slope)
            for b in range(T):
                drawn[b] += v[b]
            for e in range(entries.cell.shape[1]):
                c = entries.cell[i, e]
                if c >= 0:
                    value = gain  # free until the end of the row
                    _surrogate(comparing.kind, entries.constant[i, e], entries.sign[i, e], score, scale, value, bend)
                    for b in range(T):
                        near.count[c, b] += v[b]
                        near.value[c, b] += v[b] * value[b]
                    for b in range(T):
                        bend[b] *= near.pull[c, b]
                    for b in range(T):
                        slope[b] += bend[b]
                    if comparing.kind == DECISIONS:
                        for b in range(T):
                            bend[b] *= v[b]
                        for b in range(T):
                            drift[b] += bend[b] * score[b]
            for b in range(T):
                gain[b] = slope[b] * v[b]
        _add_rows(block, near.gain, 0, near.gradient)


@compiled
def _add_near(near: Any, added: Any) -> None:
    """Add what DRAWN rows have added to the sums of their block."""
    for array, target in (
        (near.gradient, added.gradient), (near.count, added.count), (near.value, added.value),
        (near.row[:2], added.row),
    ):  # fmt: skip
        for j in range(len(array)):
            for b in range(array.shape[1]):
                target[j, b] += array[j, b]


@inlined
def _surrogate(kind: int, constant: float, sign: float, score: Any, scale: Any, value: Any, bend: Any) -> None:
    """Fill value and bend (columns,) with what a row adds to a cell and its slope; see ``criteria.surrogate``."""
    number = score.dtype.type
    one = number(1.0)
    s = number(sign)
    middle = number(constant + 0.5 * sign)
    if kind == DECISIONS:
        top0 = number(1.640625)
        top1, top2, top3 = number(-2.734375), number(2.296875), number(-0.703125)
        narrow, three = number(1.0 / NARROW), number(3.0)
        for b in range(len(score)):
            u = score[b] * scale[b]
            w = u * narrow
            w = w if w < one else one
            w = w if w > -one else -one
            q = w * w
            odd = top0 + q * (top1 + q * (top2 + q * top3))
            value[b] = middle + s * (w * odd)
            q = u * u
            q = q if q < one else one
            top = one - q
            bend[b] = top0 * s * scale[b] * top * top * (one - three * q)
    else:
        nothing = number(0.0)
        for b in range(len(score)):
            inside = kind == LINEAR or s * score[b] > nothing
            value[b] = s * score[b] if inside else nothing
            bend[b] = s if inside else nothing


@compiled
def _add_up(comparing: Any, geometry: Any, whole: bool, held: Any, added: Any) -> None:
    """Add what a block adds, and leave the mean gradient with its sign reversed; ``whole`` if the block is all rows."""
    D = geometry.inverse.shape[0]
    T = held.theta.shape[1]
    C = len(comparing.owner)
    gradient = added.gradient
    drawn, drift, scale, before = added.row[0], added.row[1], added.row[2], added.row[3]
    for b in range(T):
        half = comparing.width * scale[b]  # 1 / spread
        drift[b] = drift[b] * (half * half)
    for j in range(D):
        for b in range(T):
            gradient[j, b] -= drift[b] * held.theta[j, b]
        for b in range(T):
            gradient[j, b] += geometry.ridge[j] * (drawn[b] * held.theta[j, b])
    for c in range(C if not whole else 0):
        for b in range(T):
            ratio = drawn[b] / held.weight[0, b] if held.weight[0, b] > 0.0 else 0.0
            before[b] = added.count[c, b] - held.counts[c, b] * ratio
        for b in range(T):
            before[b] *= added.pull[c, b]
        for j in range(D):
            for b in range(T):
                gradient[j, b] -= geometry.slopes[c, j] * before[b]
    for c in range(C):
        for b in range(T):
            held.counts[c, b] += added.count[c, b]
            change = added.value[c, b] - added.count[c, b] * held.value[c, b]
            held.value[c, b] += change / held.counts[c, b] if held.counts[c, b] > 0.0 else 0.0
    for b in range(T):
        held.weight[0, b] += drawn[b]
        before[b] = -1.0 / held.weight[0, b] if held.weight[0, b] > 0.0 else 0.0
    for j in range(D):
        for b in range(T):
            gradient[j, b] *= before[b]


@compiled
def sweep_pairs(
    pairs: Any, followed: Any, gram: Any, tolerance: float, give: float, n: int, rate: Any, new: Any, room: Any
) -> None:  # fmt: skip
    """Bring the gaps of pairs that are followed within the tolerance, one after the other, n times.

    Rates (F, T), after the multipliers new (J, T), follow their changes. A pair whose multiplier stays as it is in all
    columns costs next to nothing, so it does not matter that there are many more pairs than rates.
    """
    F = len(gram)
    T = rate.shape[1]
    for _ in range(n):
        for p in range(len(new)):
            if not followed[p]:
                continue
            one, two = pairs[0, p], pairs[1, p]
            own = gram[one, one] - gram[one, two] - gram[two, one] + gram[two, two]
            by = 1.0 / (own + give) if own + give > 0.0 else 0.0
            changed = 0
            for b in range(T):
                left = rate[one, b] - rate[two, b] + own * new[p, b]
                over = abs(left) - tolerance
                over = by * over if over > 0.0 else 0.0
                over = over if left > 0.0 else -over
                room[b] = over - new[p, b]
                changed += room[b] != 0.0
                new[p, b] = over
            for r in range(F if changed else 0):
                difference = gram[r, one] - gram[r, two]
                for b in range(T):
                    rate[r, b] -= difference * room[b]


@inlined
def _add_product(sign: float, A: Any, X: Any, out: Any) -> None:
    """Add A (n, m) times the first m rows of X (m, columns), with a sign, to out (n, columns)."""
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            by = sign * A[i, j]
            for b in range(out.shape[1]):
                out[i, b] += by * X[j, b]


@compiled
def _find_push(comparing: Any, geometry: Any, held: Any, added: Any) -> None:
    """Find the multipliers after a step, and add their difference to the gradient."""
    T = held.theta.shape[1]
    J = comparing.pairs.shape[1]
    F = comparing.n_rates
    rate, new = added.rate, added.new
    pull = added.pull  # of rates from here on; that of cells is no longer needed
    _copy(held.value, rate)
    for c in range(F, len(comparing.owner)):
        for b in range(T):
            below = held.value[c, b]
            rate[comparing.owner[c], b] *= 1.0 / below if below > 0.0 else 0.0
    _pull_rates(comparing.pairs, held.push, pull)
    _add_product(1.0, geometry.lift, added.gradient, rate)
    _add_product(1.0, geometry.gram, pull, rate)  # as if there were no multipliers
    if comparing.tolerance == 0.0:
        _clear(new)
        _add_product(1.0, geometry.solved, rate, new)
    else:
        for p in range(J):
            for b in range(T):
                new[p, b] = held.push[p, b] if comparing.followed[p] else 0.0
        _pull_rates(comparing.pairs, new, pull)
        _add_product(-1.0, geometry.gram, pull, rate)
        sweep_pairs(
            comparing.pairs, comparing.followed, geometry.gram, comparing.tolerance, comparing.give, comparing.sweeps,
            rate, new, added.row[4],
        )  # fmt: skip
    for p in range(J):
        for b in range(T):
            new[p, b] -= held.push[p, b]
    _pull_rates(comparing.pairs, new, pull)
    _add_product(-1.0, geometry.along.T, pull, added.gradient)


@compiled
def _pull_rates(pairs: Any, push: Any, pull: Any) -> None:
    """Fill pull with the multipliers of pairs (J, T), summed by rate with their signs."""
    _clear(pull)
    for p in range(len(push)):
        one, two = pairs[0, p], pairs[1, p]
        for b in range(push.shape[1]):
            pull[one, b] += push[p, b]
            pull[two, b] -= push[p, b]


@compiled
def _take_step(comparing: Any, geometry: Any, takes: float, held: Any, added: Any) -> None:
    """Move coefficients, multipliers and values, by no more than REACH; not at all if ``takes`` is 0."""
    block = added.block
    D = geometry.inverse.shape[0]
    T = held.theta.shape[1]
    for i in range(0, D, BLOCK):
        for k in range(BLOCK):
            for j in range(D):
                block[k, j] = geometry.inverse[i + k, j] if i + k < D else 0.0
        _products(block, added.gradient, added.product)
        for k in range(min(BLOCK, D - i)):
            for b in range(T):
                added.step[i + k, b] = added.product[k, b]
    length, share = added.row[5], added.row[6]
    length[:] = 0.0
    for j in range(D):
        for b in range(T):
            length[b] += added.step[j, b] * added.step[j, b]
    for b in range(T):
        length[b] = np.sqrt(length[b])
        share[b] = takes * (REACH / length[b] if length[b] > REACH else 1.0)
    for j in range(D):
        for b in range(T):
            added.step[j, b] *= share[b]
        for b in range(T):
            held.theta[j, b] += added.step[j, b]
    for p in range(comparing.pairs.shape[1]):
        for b in range(T):
            held.push[p, b] += share[b] * added.new[p, b]
    _add_product(1.0, geometry.steep, added.step, held.value)


@inlined
def _steep(kind: int, sign: float, u: float, scale: float, slope: float) -> float:
    """Derivative, in the score, of what a row adds to a cell; see ``criteria.surrogate``."""
    if kind != DECISIONS:
        return slope
    q = u * u * (1.0 / (NARROW * NARROW))
    top = 1.0 - q
    return 1.640625 * sign * (scale / NARROW) * top * top * (1.0 - 3.0 * q) if q < 1.0 else 0.0


# -- Primal-dual ------------------------------------------------------------------------------------------------------

# Rows of the scalars of each column: a, A, the weight n, the mean squares s² and s̄² of the scores under iterate and
# average, the drift d, and what stays the same within a block: 1 / (width · s), 1 / (width · s̄), d / s².
_WEIGHT, _SQUARE, _MEAN_SQUARE, _DRIFT, _SCALE, _MEAN_SCALE, _TURN = range(2, 9)


@compiled
def primal_dual_sparse(
    batch: SparseBatch, counting: Counting, entries: Any, objective: Objective, comparing: Comparing,
    reduced: Reduced, first: int, last: int, pair: tuple[Any, Any], state: Divided,
) -> None:  # fmt: skip
    """Train the columns first, …, last - 1 on sparse rows; ``PrimalDual`` has the specification. The pair is w and U.

    A row only touches the features in which it is not zero, and numbers that belong to cells, pairs and directions.
    """
    check_codes(objective.loss, objective.law)
    law = objective.law
    width = _tile(last - first, TILE)
    for low in range(first, last, width):
        high = min(low + width, last)
        held, added, rows, words = _divided_room(reduced, objective, comparing, high - low)
        for part in range(len(held)):
            _copy(state[part][:, low:high], held[part])
        w_ = pair[0][:, low:high]
        U_ = pair[1][:, low:high]
        product, score, slope, move, v, gain = rows[0], rows[2], rows[4], rows[5], rows[6], rows[7:9]
        z = np.empty(reduced.basis.shape[1])
        for i in range(len(batch.y)):
            where = batch.features[batch.starts[i] : batch.starts[i + 1]]
            x = batch.values[batch.starts[i] : batch.starts[i + 1]]
            for f in range(len(z)):
                z[f] = 0.0
                for j in range(len(x)):
                    z[f] += reduced.basis[where[j], f] * x[j]
            if i % DRAWN == 0:
                draw_words(law, objective.seed, _numbers(batch.first_row + i), low, words)
            draw_moves(law, 1.0, 0.0, words, i % DRAWN, low == 0, v)
            step = batch.eta[i] / (1.0 + 2.0 * batch.eta[i] * batch.stiff[i])
            for b in range(len(v)):
                move[b] = step * v[b]
            _scores_sparse(where, x, w_, product)
            _scores_sparse(where, x, U_, rows[1])
            count = 1.0 * (batch.first_row + i + 1 - counting.n_before)
            _score_divided(held, z, count, rows)
            _derivatives(objective.loss, batch.y[i], score, slope)
            if low == 0:
                counting.scores[i] = rows[3, 0]
            _compare(i, _dot(x, x), counting.recent[i], entries, comparing, held, rows)
            _move_divided(held, z, objective.alpha, counting.gain[i], count, rows)
            for b in range(high - low):
                if abs(held.scalars[0, b]) < 1e-3:
                    _fold_divided(w_, U_, held, b, gain)
            _add_sparse(where, x, gain[0], gain[1], w_, U_)
            if (batch.first_row + i + 1) % DRAWN == 0:
                if counting.solves:
                    _step_along(comparing, reduced, held, added)
                _refresh(comparing, held)
        for part in range(len(held)):
            _copy(held[part], state[part][:, low:high])


@compiled
def _divided_room(reduced: Any, objective: Any, comparing: Any, n_columns: int) -> Any:
    """Room for one tile of columns: its state, what a block adds to it, what belongs to one row, and random bits."""
    like = np.empty(0)
    r = reduced.basis.shape[1]
    J = comparing.pairs.shape[1]
    C = len(comparing.owner)
    T = -(-n_columns // 8) * 8
    held = Divided(
        _room(like, 9, T), _room(like, 4 * r, T), _room(like, J, T), _room(like, C, T), _room(like, C, T),
        _room(like, C, T),
    )  # fmt: skip
    for b in range(T):
        held.scalars[0, b] = 1.0
    none = _room(like, 0, T)
    added = Added(
        _room(like, r, T), none, none, _room(like, 8, T), _room(like, C, T), _room(like, comparing.n_rates, T),
        _room(like, J, T), _room(like, r, T), none, none,
    )  # fmt: skip
    return held, added, _room(like, 12, T), _words(objective.law, T)


@inlined
def _score_divided(held: Any, z: Any, count: float, rows: Any) -> None:
    """Compute the score of a row under the iterate, and under the average of the iterates, this one with weight count.

    Rows 0 and 1 have its products with w and U; rows 2 and 3 get the scores.
    """
    a, A = held.scalars[0], held.scalars[1]
    product, summed, score, mean = rows[0], rows[1], rows[2], rows[3]
    share = 2.0 / (count * (count + 1.0))
    r = len(z)
    for b in range(len(score)):
        score[b] = a[b] * product[b]
        mean[b] = A[b] * product[b] + summed[b]
    for f in range(r):
        for b in range(len(score)):
            score[b] += z[f] * held.along[f, b]
            mean[b] += z[f] * held.along[2 * r + f, b]
    for b in range(len(score)):
        mean[b] = (mean[b] + count * score[b]) * share


@compiled
def _compare(i: int, length: float, recent: float, entries: Any, comparing: Any, held: Any, rows: Any) -> None:
    """Add row i to its cells and to the other means, and the slope of the constraint to that of the loss."""
    score, mean, slope, move, v = rows[2], rows[3], rows[4], rows[5], rows[6]
    value, bend, push = rows[9], rows[10], rows[11]
    s = held.scalars
    T = len(score)
    decides = comparing.kind == DECISIONS
    push[:] = 0.0
    for e in range(entries.cell.shape[1]):
        c = entries.cell[i, e]
        if c < 0:
            continue
        constant, sign = entries.constant[i, e], entries.sign[i, e]
        _surrogate(comparing.kind, constant, sign, mean, s[_MEAN_SCALE], value, bend)
        for b in range(T):
            scale = s[_MEAN_SCALE, b]
            steep = _steep(comparing.kind, sign, mean[b] * scale, scale, bend[b])
            off = _clip((score[b] - mean[b]) * scale, BELIEVED)
            value[b] += steep * (off / scale) if scale > 0.0 else 0.0
        for b in range(T):
            weight = recent * v[b]
            held.counts[c, b] += weight
            change = weight * (value[b] - held.value[c, b])
            held.value[c, b] += change / held.counts[c, b] if held.counts[c, b] > 0.0 else 0.0
        _surrogate(comparing.kind, constant, sign, score, s[_SCALE], value, bend)
        for b in range(T):
            push[b] += held.pull[c, b] * bend[b]
    for b in range(T):
        over = abs(push[b] * move[b]) * length * s[_SCALE, b] / NEAR_BY
        push[b] = push[b] / over if over > 1.0 else push[b]
        far = FAR_OUT / (comparing.width * s[_SCALE, b]) if s[_SCALE, b] > 0.0 else 0.0
        slope[b] += push[b] - (s[_TURN, b] * _clip(score[b], far) if decides else 0.0)
    for b in range(T):
        weight = recent * v[b]
        s[_WEIGHT, b] += weight
        share = weight / s[_WEIGHT, b] if s[_WEIGHT, b] > 0.0 else 0.0
        s[_SQUARE, b] += share * (score[b] * score[b] - s[_SQUARE, b])
        s[_MEAN_SQUARE, b] += share * (mean[b] * mean[b] - s[_MEAN_SQUARE, b])
        s[_DRIFT, b] += share * (push[b] * score[b] - s[_DRIFT, b])


@inlined
def _clip(number: float, most: float) -> float:
    """Bring a number within ±most."""
    number = number if number < most else most
    return number if number > -most else -most


@inlined
def _move_divided(held: Any, z: Any, alpha: float, weight: float, count: float, rows: Any) -> None:
    """Add the iterate to the sums, and move it across the directions; fill rows 7 and 8 with what w and U gain."""
    a, A = held.scalars[0], held.scalars[1]
    slope, move, v, gain, weighted, before = rows[4], rows[5], rows[6], rows[7], rows[8], rows[9]
    r = len(z)
    T = len(slope)
    for b in range(T):
        before[b] = a[b]
        A[b] += count * a[b]
        a[b] -= move[b] * alpha * a[b]
        gain[b] = -slope[b] * move[b] / a[b]
        weighted[b] = -(A[b] * gain[b])
    for f in range(r):
        beta, t, total, gradient = held.along[f], held.along[r + f], held.along[2 * r + f], held.along[3 * r + f]
        for b in range(T):
            total[b] += count * beta[b]
            across = slope[b] * z[f] + alpha * before[b] * t[b]
            gradient[b] -= weight * v[b] * (across + alpha * beta[b])
            beta[b] += move[b] * across
            t[b] += gain[b] * z[f]


@compiled
def _fold_divided(w: Any, U: Any, held: Any, b: int, gain: Any) -> None:
    """Rewrite the same iterate and sum of column b with a = 1 and A = 0."""
    a, A = held.scalars[0, b], held.scalars[1, b]
    for j in range(len(w)):
        U[j, b] += A * w[j, b]
        w[j, b] *= a
    r = len(held.along) // 4
    for f in range(r):
        held.along[r + f, b] *= a
    held.scalars[0, b] = 1.0
    held.scalars[1, b] = 0.0
    gain[0, b] *= a
    gain[1, b] = 0.0


@compiled
def _step_along(comparing: Any, reduced: Any, held: Any, added: Any) -> None:
    """Take a Newton step along the directions, which brings gaps within the tolerance; clear the gradient."""
    geometry = reduced.geometry
    r = len(added.gradient)
    T = held.push.shape[1]
    _copy(held.along[3 * r :], added.gradient)
    _clear(held.along[3 * r :])
    _find_push(comparing, geometry, Columns(added.gradient, held.push, held.value, held.counts, held.counts), added)
    share = added.row[5]
    share[:] = 0.0
    _clear(added.step)
    _add_product(1.0, geometry.inverse, added.gradient, added.step)
    for f in range(r):
        for b in range(T):
            share[b] += added.step[f, b] * added.gradient[f, b]
    for b in range(T):
        length = np.sqrt(max(share[b], 0.0))
        share[b] = STRIDE_ALONG / length if length > STRIDE_ALONG else 1.0
    for f in range(r):
        for b in range(T):
            added.step[f, b] *= share[b]
            held.along[f, b] += added.step[f, b]
    for p in range(len(held.push)):
        for b in range(T):
            held.push[p, b] = _clip(held.push[p, b] + share[b] * added.new[p, b], reduced.most)
    _add_product(1.0, geometry.steep, added.step, held.value)


@compiled
def _refresh(comparing: Any, held: Any) -> None:
    """Compute what stays the same within a block: the pull of the constraint, and the scales of scores."""
    s = held.scalars
    T = held.push.shape[1]
    _pull_rates(comparing.pairs, held.push, held.pull)
    for c in range(len(held.pull)):
        for b in range(T):
            held.pull[c, b] *= s[_WEIGHT, b] / held.counts[c, b] if held.counts[c, b] > 0.0 else 0.0
    for b in range(T):
        square, mean_square = s[_SQUARE, b], s[_MEAN_SQUARE, b]
        s[_SCALE, b] = 1.0 / (comparing.width * np.sqrt(square)) if square > 0.0 else 0.0
        s[_MEAN_SCALE, b] = 1.0 / (comparing.width * np.sqrt(mean_square)) if mean_square > 0.0 else 0.0
        s[_TURN, b] = s[_DRIFT, b] / square if square > 0.0 else 0.0


# -- Sums -------------------------------------------------------------------------------------------------------------


@compiled
def add_by_cell(cell: Any, factor: Any, rows: Any, out: Any) -> None:
    """Add the rows (n, K), in order, to those of their cells in out (cells, K).

    Row i counts factor[i, e] times in cell[i, e], for each of its entries e; a cell of -1 is none.
    """
    for i in range(len(cell)):
        for e in range(cell.shape[1]):
            c = cell[i, e]
            for j in range(rows.shape[1] if c >= 0 else 0):
                out[c, j] += factor[i, e] * rows[i, j]


@compiled
def add_outer(X: Any, factor: Any, out: Any) -> None:
    """Add factor x xᵀ of each row x, in order, to a matrix, on and above its diagonal.

    Columns are computed in groups, each down to the diagonal; rows are processed by fours; zeros pad the last four.
    """
    n, E = X.shape
    n_parts = -(-E // SQUARE)
    width = -(-E // (8 * n_parts)) * 8
    gain = _room(X, 2 * BLOCK, width)
    for low in range(0, E, width):
        high = min(E, low + width)
        tall = high + high % 2
        sums = _room(X, tall, width)
        block = _room(X, BLOCK, tall)
        for i in range(high):
            for j in range(max(i, low), high):
                sums[i, j - low] = out[i, j]
        for four in range(0, n, BLOCK):
            for k in range(BLOCK):
                some = four + k < n
                for j in range(high):
                    block[k, j] = X[four + k, j] if some else 0.0
                for j in range(low, high):
                    gain[2 * k, j - low] = factor[four + k] * X[four + k, j] if some else 0.0
            _add_rows(block, gain, 0, sums)
        for i in range(high):
            for j in range(max(i, low), high):
                out[i, j] = sums[i, j - low]


# -- Counts -----------------------------------------------------------------------------------------------------------


@intrinsic
def _popcount(typing_context, bits):  # type: ignore[no-untyped-def]
    """Number of bits of a word that are 1."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@compiled
def count_positive(X: Any, models: Any, cell: Any, weight: Any, first: int, last: int, rows: Any, sums: Any) -> None:
    """Count the rows with positive decisions, xᵀθ > 0, in each of their cells, for the models θ first, …, last - 1.

    Add the number of these rows to rows (cells, models), and their weights (rows, kinds), row by row, to sums (kinds,
    cells, models); cell (rows, sensitive columns) has the cells of each row. Here inner loops run over rows: features
    are transposed, decisions become bits, and one count of bits serves all rows of a cell. Each row of ``models`` is a
    model; zeros pad both sides to multiples of 4, and the first feature that X lacks is 1.
    """
    n, D = X.shape
    width = last - first
    turned = _room(models, models.shape[1], COUNTED)
    score = _room(models, BLOCK, COUNTED)
    turned[D:] = 1.0
    decided = np.zeros((COUNTED // 64, width + BLOCK), dtype=np.uint64)
    member = np.empty((COUNTED // 64, len(rows)), dtype=np.uint64)
    for low in range(0, n, COUNTED):
        size = min(COUNTED, n - low)
        _copy(X[low : low + size].T, turned)
        for b in range(0, width, BLOCK):
            _products(models[first + b : first + b + BLOCK], turned, score)
            for k in range(BLOCK):
                _decide(score[k], decided[:, b + k])
        member[:] = 0
        for i in range(size):
            for c in cell[low + i]:
                member[i // 64, c] |= np.uint64(1) << np.uint64(i % 64)
                for kind in range(len(sums)):
                    _add_where(decided[i // 64], i % 64, weight[low + i, kind], sums[kind, c, first:last])
        for k in range(len(member)):
            for c in range(len(rows)):
                if member[k, c] != 0:
                    _add_bits(decided[k], member[k, c], rows[c, first:last])


@compiled
def _decide(score: Any, out: Any) -> None:
    """Set bit i % 64 of word i // 64 if score i is positive."""
    for k in range(len(out)):
        word = np.uint64(0)
        for i in range(64):
            word |= np.uint64(score[64 * k + i] > 0.0) << np.uint64(i)
        out[k] = word


@compiled
def _add_bits(words: Any, member: int, out: Any) -> None:
    """Add to out the number of bits that each word shares with member."""
    for b in range(len(out)):
        out[b] += np.int64(_popcount(words[b] & member))  # type: ignore[call-arg]


@compiled
def _add_where(words: Any, bit: int, weight: float, out: Any) -> None:
    """Add a weight to out wherever this bit of a word is 1."""
    for b in range(len(out)):
        out[b] += weight if (words[b] >> np.uint64(bit)) & np.uint64(1) else 0.0
