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
    Shared parts    products of rows and coefficients, copies, losses, stiffness, change of coordinates
    Projection      the nearest point of all slabs
    Dual averaging  the learner under slabs: dense rows, then sparse rows
    Penalised SGD   the learner with a penalty: dense rows, then sparse rows
    Newton          the learner of a constraint from the stream
    Trace           sums of squares of rows, for covariances
    Counts          positive decisions of many models
    Threads         columns shared among threads

Numba caches compiled code by the time stamp of this one file, so everything that compiled code depends on is in it.
Arguments travel in NamedTuples, because these can be cached; jitclasses, closures and functions as arguments cannot.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])


# -- Constants --------------------------------------------------------------------------------------------------------


WORD = 32  # threads get columns in multiples of 32, so that the bits of two-point multipliers come in whole words
TILE = 224  # most columns of a tile
PENALTY_TILE = 96  # most columns of a tile if there is a penalty and rows are sparse
BLOCK = 4  # rows whose products and updates are computed together, counted from the first row of the stream
STRIDE = 16  # rows between two points of the path in the trace of a fit, counted from the first row of the stream
FOLD = 256  # rows between two folds of the lazy form, counted from the first row of the stream
STRONG = 0.02  # if the ridge shrinks the dual by more than this share in one step, the row is a block by itself
NEAR = 16  # rows of D' near a change of sides that are followed for each column
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

SWEEPS = 10  # over the pairs of groups in one Newton step, at most
NARROW = 0.4  # width of the value of a decision, relative to that of its slope
REACH = 2.0  # most that a Newton step changes the scores, as a root mean square
SETTLED = 1e-9  # change of the scores at which a column has settled on the warm-up rows
ROUNDS = 30  # Newton steps on the warm-up rows, at most
DIAGONAL = 2.0  # how much larger a leverage may be than the diagonal of the inverse Hessian says
SHRINK = 0.7  # a column whose step is longer than this share of the one before does not take it


# -- Arguments --------------------------------------------------------------------------------------------------------


class Batch(NamedTuple):
    """Dense rows and their steps; all in the precision of the state."""

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
    scalars: Any  # (2 + 3r, columns), and 1 + D more rows in single precision
    waiting: Any  # (number of rows, D), the rows of a block that is not complete
    gains: Any  # (2 BLOCK, columns)


class Weighed(NamedTuple):
    """Dense rows with their weights."""

    X: Any  # (n, D)
    y: Any  # (n,), labels
    weight: Any  # (n,), relative weights
    first_row: int  # number of rows before these


class Entries(NamedTuple):
    """What rows add to cells, (n, entries) each; see ``criteria.Entries``."""

    cell: Any
    constant: Any
    sign: Any


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
    row: Any  # (8, T): weight and drift of the block; spread; and what belongs to one row
    pull: Any  # (C, T), weight of the slope of each cell
    rate: Any  # (F, T)
    new: Any  # (J, T)
    score: Any  # (BLOCK, T)
    gain: Any  # (2 BLOCK, T)
    step: Any  # (D, T)


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


@intrinsic
def _lanes(typing_context, array):  # type: ignore[no-untyped-def]
    """How many numbers of an array fit in a vector of 64 bytes: a constant for the compiler."""
    lanes = 512 // array.dtype.bitwidth

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return context.get_constant(types.intp, lanes)

    return types.intp(array), codegen


@inlined
def _single(array: Any) -> bool:
    """Whether an array is in single precision: a constant, so the compiler drops the branch that is not needed."""
    return _lanes(array) == 16  # type: ignore[call-arg]


@inlined
def _whole(array: Any) -> int:
    """Number of columns, rounded down to whole vectors, so that the compiler needs no loop for a remainder."""
    return array.shape[1] // _lanes(array) * _lanes(array)  # type: ignore[call-arg, no-any-return]


@compiled
def check_codes(loss: int, law: int) -> None:
    """Raise a ValueError if no kernel has a branch for this loss or this law; kernels call it before their loops."""
    if loss != LOG_LOSS and loss != SQUARED_ERROR:
        raise ValueError("Unknown code of a loss. Use a code of kernels.py, or add the code and its branches there.")
    if law != TWO_POINT and law != UNIFORM and law != EXPONENTIAL and law != NORMAL and law != POISSON:
        raise ValueError("Unknown code of a law. Use a code of kernels.py, or add the code and its branches there.")


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
    bits = (_bits_of_double(shifted) + 1023) << 52  # type: ignore[call-arg]
    return p * _double_of_bits(bits)


@intrinsic
def _single_power(typing_context, shifted):  # type: ignore[no-untyped-def]
    """2ⁿ in single precision, where the last bits of ``shifted`` are the integer n."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        whole = context.get_value_type(types.int32)
        biased = builder.add(builder.bitcast(args[0], whole), whole(127))
        return builder.bitcast(builder.shl(biased, whole(23)), context.get_value_type(types.float32))

    return types.float32(types.float32), codegen


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
    return p * _single_power(shifted)  # type: ignore[call-arg]


# -- Multipliers ----------------------------------------------------------------------------------------------------


@compiled
def philox(row: int, row_step: int, block: int, block_step: int, purpose: int, seed: int, words: Any) -> None:
    """Fill words (4, n) with the random bits of n rows, or of n blocks of columns; see ``multipliers.philox``."""
    mask = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    for i in range(words.shape[1]):
        at = np.uint64(row + i * row_step)
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
def draw_words(law: int, seed: int, first_row: int, first_column: int, words: Any) -> None:
    """Fill words (rows, words) with the random bits of multipliers.

    Two-point multipliers need one bit each, so a word serves 32 columns; other laws need a word per column.
    ``first_column`` is a multiple of 32.
    """
    n_rows, n_words = words.shape
    if law == TWO_POINT:
        drawn = np.empty((4, n_rows), dtype=np.uint64)
        for word in range(n_words):
            at = first_column // 32 + word
            if word == 0 or at % 4 == 0:
                philox(first_row, 1, at // 4, 0, 0, seed, drawn)
            for i in range(n_rows):
                words[i, word] = np.uint32(drawn[at % 4, i])
    else:
        drawn = np.empty((4, -(-n_words // 4)), dtype=np.uint64)
        for i in range(n_rows):
            philox(first_row + i, 0, first_column // 4, 1, 0, seed, drawn)
            for word in range(n_words):
                words[i, word] = np.uint32(drawn[word % 4, word // 4])


@intrinsic
def _bit(typing_context, word, b):  # type: ignore[no-untyped-def]
    """Bit b of a word, in 32 bits throughout: numba by itself would widen them."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.and_(builder.lshr(*args), args[0].type(1))

    return types.int32(types.int32, types.int32), codegen


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
            if _single(move):
                for b in range(len(part)):
                    part[b] = most * number(_bit(word, np.int32(b)))  # type: ignore[call-arg]
            else:
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
        _transpose(X[low:high], block)
        for c in range(0, D, BLOCK):
            _products(across[c : c + BLOCK], block[: ends[c // BLOCK]], moved[c : c + BLOCK])
        _transpose(moved[:D, : high - low], out[low:high])


@compiled
def _transpose(A: Any, out: Any) -> None:
    """Write the transpose of A (n, m) to the first n columns and m rows of out."""
    for i in range(len(A)):
        for j in range(A.shape[1]):
            out[j, i] = A[i, j]


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
    for j in range(0, D - 3, 4):
        a0, a1, a2, a3 = X[0, j], X[0, j + 1], X[0, j + 2], X[0, j + 3]
        b0, b1, b2, b3 = X[1, j], X[1, j + 1], X[1, j + 2], X[1, j + 3]
        c0, c1, c2, c3 = X[2, j], X[2, j + 1], X[2, j + 2], X[2, j + 3]
        d0, d1, d2, d3 = X[3, j], X[3, j + 1], X[3, j + 2], X[3, j + 3]
        for b in range(T):
            t0, t1, t2, t3 = theta[j, b], theta[j + 1, b], theta[j + 2, b], theta[j + 3, b]
            o0 = out[0, b] + a0 * t0
            o1 = out[1, b] + b0 * t0
            o2 = out[2, b] + c0 * t0
            o3 = out[3, b] + d0 * t0
            o0 = o0 + a1 * t1
            o1 = o1 + b1 * t1
            o2 = o2 + c1 * t1
            o3 = o3 + d1 * t1
            o0 = o0 + a2 * t2
            o1 = o1 + b2 * t2
            o2 = o2 + c2 * t2
            o3 = o3 + d2 * t2
            out[0, b] = o0 + a3 * t3
            out[1, b] = o1 + b3 * t3
            out[2, b] = o2 + c3 * t3
            out[3, b] = o3 + d3 * t3
    if D % 4 == 2:
        j = D - 2
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
    for j in range(0, D - 3, 4):
        a0, a1, a2, a3 = X[0, j], X[0, j + 1], X[0, j + 2], X[0, j + 3]
        b0, b1, b2, b3 = X[1, j], X[1, j + 1], X[1, j + 2], X[1, j + 3]
        c0, c1, c2, c3 = X[2, j], X[2, j + 1], X[2, j + 2], X[2, j + 3]
        d0, d1, d2, d3 = X[3, j], X[3, j + 1], X[3, j + 2], X[3, j + 3]
        for b in range(T):
            g0, g1, g2, g3 = gain[which, b], gain[which + 2, b], gain[which + 4, b], gain[which + 6, b]
            t0 = theta[j, b] + g0 * a0
            t1 = theta[j + 1, b] + g0 * a1
            t2 = theta[j + 2, b] + g0 * a2
            t3 = theta[j + 3, b] + g0 * a3
            t0 = t0 + g1 * b0
            t1 = t1 + g1 * b1
            t2 = t2 + g1 * b2
            t3 = t3 + g1 * b3
            t0 = t0 + g2 * c0
            t1 = t1 + g2 * c1
            t2 = t2 + g2 * c2
            t3 = t3 + g2 * c3
            theta[j, b] = t0 + g3 * d0
            theta[j + 1, b] = t1 + g3 * d1
            theta[j + 2, b] = t2 + g3 * d2
            theta[j + 3, b] = t3 + g3 * d3
    if D % 4 == 2:
        j = D - 2
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
    line: int = _lanes(like)  # type: ignore[call-arg]
    flat = np.zeros(n_rows * n_columns + line, dtype=like.dtype)
    skip = -(flat.ctypes.data // like.itemsize) % line
    return flat[skip : skip + n_rows * n_columns].reshape(n_rows, n_columns)


@compiled
def _dot(a: Any, b: Any) -> float:
    """Sum of products, in four independent sums, so that no addition waits for the one before."""
    t0 = t1 = t2 = t3 = 0.0
    for j in range(0, len(a) - 3, 4):
        t0 += a[j] * b[j]
        t1 += a[j + 1] * b[j + 1]
        t2 += a[j + 2] * b[j + 2]
        t3 += a[j + 3] * b[j + 3]
    for j in range(len(a) - len(a) % 4, len(a)):
        t0 += a[j] * b[j]
    return t0 + t1 + t2 + t3


@compiled
def _scores(x: Any, theta: Any, out: Any) -> None:
    """Fill out (columns,) with xᵀθ: four features at a time, then two, then one, so that out is seldom read or written.

    Products are added one after the other; see ``_products``.
    """
    D, T = theta.shape
    for b in range(T):
        out[b] = 0.0
    for j in range(0, D - 3, 4):
        x0, x1, x2, x3 = x[j], x[j + 1], x[j + 2], x[j + 3]
        for b in range(T):
            total = out[b] + x0 * theta[j, b]
            total = total + x1 * theta[j + 1, b]
            total = total + x2 * theta[j + 2, b]
            out[b] = total + x3 * theta[j + 3, b]
    if D % 4 >= 2:
        j = D - D % 4
        x0, x1 = x[j], x[j + 1]
        for b in range(T):
            total = out[b] + x0 * theta[j, b]
            out[b] = total + x1 * theta[j + 1, b]
    if D % 2 == 1:
        x0 = x[D - 1]
        for b in range(T):
            out[b] += x0 * theta[D - 1, b]


@compiled
def _derivatives(loss: int, y: float, score: Any, out: Any) -> None:
    """Fill out (columns,) with the derivative of the loss in the score."""
    if loss == LOG_LOSS:
        for b in range(len(score)):
            out[b] = -y / (1.0 + exponential(y * score[b]))
    elif loss == SQUARED_ERROR:
        for b in range(len(score)):
            out[b] = -2.0 * (y - score[b])


@compiled
def _majorant(loss: int, score: float) -> float:
    """Curvature of the parabola above the loss that touches it at a score; see ``Loss.majorant``."""
    if loss == SQUARED_ERROR:
        return 2.0
    size = abs(score)
    if size < 0.01:
        return 0.25 - size * size * (1.0 / 48.0 - size * size / 480.0)
    return (1.0 / (1.0 + exponential(-size)) - 0.5) / size


@compiled
def stiffness(X: Any, loss: int, alpha: float, start: Any, out: Any) -> None:
    """Fill out (n,) with the stiffness of dense rows at the start: the curvature of loss and ridge along the row."""
    check_codes(loss, TWO_POINT)
    for i in range(len(X)):
        out[i] = _majorant(loss, _dot(X[i], start)) * _dot(X[i], X[i]) + alpha


@compiled
def stiffness_sparse(
    starts: Any, features: Any, values: Any, loss: int, alpha: float, start: Any, out: Any
) -> None:  # fmt: skip
    """Fill out (n,) with the stiffness of sparse rows, in the CSR format."""
    check_codes(loss, TWO_POINT)
    for i in range(len(out)):
        score = 0.0
        square = 0.0
        for j in range(starts[i], starts[i + 1]):
            score += values[j] * start[features[j]]
            square += values[j] * values[j]
        out[i] = _majorant(loss, score) * square + alpha


# -- Projection -------------------------------------------------------------------------------------------------------


@compiled
def overshoot(faces: Faces, p: Any) -> None:
    """Subtract from each column of p (r, columns) the nearest point that lies in all slabs.

    With levels of 0 only the origin lies in all slabs, and in one dimension an interval does. Otherwise the dual
    active-set method of Goldfarb and Idnani solves each column: it starts from p itself, adds the slab that is violated
    most, and drops slabs that no longer push.
    """
    _project(faces, p, False)


@compiled
def _nearest(faces: Faces, p: Any) -> None:
    """Replace each column of p (r, columns) by the nearest point that lies in all slabs."""
    _project(faces, p, True)


@inlined
def _project(faces: Faces, p: Any, nearest: bool) -> None:
    """Replace each column of p by the nearest point that lies in all slabs, or subtract that point from it."""
    normals = faces.normals
    levels = faces.levels
    gram = faces.gram
    S, r = normals.shape
    if levels.max() == 0.0:
        for j in range(r if nearest else 0):
            p[j] = 0.0
        return
    if r == 1:
        level = p.dtype.type(levels[0])
        for b in range(p.shape[1]):
            near = min(max(p[0, b], -level), level)
            p[0, b] = near if nearest else p[0, b] - near
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
                _cholesky(gram, which, sign, n_active, factor)
                for i in range(n_active):
                    share[i] = side * sign[i] * gram[which[i], worst]
                _solve(factor, n_active, share)
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
        _cholesky(gram, which, sign, n_active, factor)  # once more from p itself, so that rounding does not add up
        for i in range(n_active):
            share[i] = -levels[which[i]]
            for j in range(r):
                share[i] += sign[i] * normals[which[i], j] * p[j, b]
        _solve(factor, n_active, share)
        for j in range(r):
            given = 0.0
            for i in range(n_active):
                given += share[i] * sign[i] * normals[which[i], j]
            p[j, b] = p[j, b] - given if nearest else given


@compiled
def _cholesky(gram: Any, which: Any, sign: Any, n: int, factor: Any) -> None:
    """Fill factor with the lower triangle of the Cholesky factor of the signed Gram matrix of n slabs."""
    for i in range(n):
        for j in range(i + 1):
            value = sign[i] * sign[j] * gram[which[i], which[j]]
            for k in range(j):
                value -= factor[i, k] * factor[j, k]
            factor[i, j] = np.sqrt(max(value, 1e-300)) if i == j else value / factor[j, j]


@compiled
def _solve(factor: Any, n: int, x: Any) -> None:
    """Solve L Lᵀ x = b in place."""
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

    The state has a lazy form, in which the ridge, the projection and the average cost O(1) per row and column, and each
    feature costs three multiply-adds: with Q the orthonormal ``basis`` (r, D) of the slabs,

        dual      -s = a w + Qᵀβ           t = Q w
        iterate    θ = a w + Qᵀ(β - c)     c: what has to be subtracted from a t + β to reach the slabs
        sum      Σ θ = A w + U + Qᵀ C      (A: the sum of a; see the algebra in learners/dual_averaging.py)

    Rows of ``scalars``: a, A, then r rows each of β, t, C. Every FOLD rows of the stream the form is folded to a = 1,
    β = A = C = 0. Flat slabs, with levels of 0, are simpler: if each row is first projected onto them, θ stays in them,
    and β, t and C are 0.

    Rows are processed in blocks of 4. Their products with w are computed together; what earlier rows of the block have
    added to w reaches a row through the products of rows with rows; w and U are updated once per block. Blocks end
    where the row number is a multiple of 4, regardless of where batches end: the rows of an incomplete block are
    ``waiting`` for the rest of it, with their ``gains``: for each of them, the multiples of it that w and U will gain.
    Returns the number of rows that wait after this batch.

    Everything but U, normals, levels and gram may be in single precision. Then small numbers are not added to large
    ones for long: U grows only at folds, and the last D rows of ``scalars`` hold what it has gained since; the row
    before them holds the rounding error of a; and after a fold w lies in the slabs, and β has the rest.
    """
    check_codes(objective.loss, objective.law)
    X = batch.X
    y = batch.y
    eta = batch.eta
    stiff = batch.stiff
    first_row = batch.first_row
    loss = objective.loss
    alpha = objective.alpha
    law = objective.law
    seed = objective.seed
    basis = faces.basis
    w = state.w
    U = state.U
    scalars = state.scalars
    waiting = state.waiting
    gains = state.gains
    n, D = X.shape
    flat = faces.levels.max() == 0.0
    single = _single(w)
    r = 0 if flat else len(basis)
    traced = first == 0 and len(record.scores) > 0
    wide = -(-D // 2) * 2
    width = _tile(last - first, TILE)
    line: int = _lanes(w)  # type: ignore[call-arg]
    block = np.zeros((BLOCK, wide), dtype=w.dtype)
    pairs = np.empty((BLOCK, BLOCK), dtype=w.dtype)
    basis_x = np.empty((BLOCK, r), dtype=w.dtype)
    extra = len(scalars) - D - 1 if single else 0
    recent = scalars[extra + 1 :]
    begun = len(waiting)
    for low in range(first, last, width):
        T = min(width, last - low)
        padded = -(-T // line) * line  # whole vectors; nothing reads the columns past T
        w_ = _room(w, wide, padded)
        U_ = _room(w, wide, padded)
        s = _room(w, 3 + 4 * r, TILE).ravel()
        product = _room(w, BLOCK, padded)
        gain = _room(w, 2 * BLOCK, padded)
        move = _room(w, 1, padded)[0]
        owed = _room(w, 1, padded)
        words = _words(law, padded)
        _copy(w[:, low : low + T], w_)
        if single:
            _copy(recent[:, low : low + T], U_)
            _copy(scalars[extra : extra + 1, low : low + T], owed)
        else:
            _copy(U[:, low : low + T], U_)
        _copy(gains[:, low : low + T], gain)
        _take(waiting, basis, flat, block, 0)
        _unpack(scalars[: 2 + 3 * r, low : low + T], s)
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
            _take(X[i:stop], basis, flat, block, begun)
            for k in range(end, BLOCK):
                for j in range(D):
                    block[k, j] = 0.0
            _products(block, w_, product)
            _products_of_rows(block, basis, pairs, basis_x)
            for k in range(begun, end):
                if i % DRAWN == 0:
                    draw_words(law, seed, first_row + i, low, words)
                draw_moves(law, eta[i], stiff[i], words, i % DRAWN, low == 0, move)
                for before in range(k):
                    for b in range(padded):
                        product[k, b] += gain[2 * before, b] * pairs[before, k]
                if single:
                    _enter_single(s, owed[0], k, basis_x, faces, alpha, product, move)
                else:
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
                if single:
                    _fold_single(faces, w_[:D], U_[:D], s, padded, U[:, low : low + T])
                else:
                    _fold(basis[:r], w_[:D], U_[:D], *_views(s, r), 0, padded)
        _copy(w_, w[:, low : low + T])
        if single:
            _copy(U_, recent[:, low : low + T])
            _copy(owed, scalars[extra : extra + 1, low : low + T])
        else:
            _copy(U_, U[:, low : low + T])
        _copy(gain, gains[:, low : low + T])
        _pack(s, scalars[: 2 + 3 * r, low : low + T])
    return begun


@inlined
def _add_block(block: Any, gain: Any, w: Any, U: Any) -> None:
    """Add the gains of the rows of a block to w and U."""
    _add_rows(block, gain, 0, w)
    _add_rows(block, gain, 1, U)


@inlined
def _take(rows: Any, basis: Any, flat: bool, block: Any, first: int) -> None:
    """Copy rows into a block, or their projections onto the slabs if these are ``flat``."""
    for i in range(len(rows)):
        k = first + i
        for j in range(rows.shape[1]):
            block[k, j] = rows[i, j]
        for f in range(len(basis) if flat else 0):
            product = _dot(basis[f], rows[i])
            for j in range(rows.shape[1]):
                block[k, j] -= product * basis[f, j]


@inlined
def _products_of_rows(block: Any, basis: Any, pairs: Any, basis_x: Any) -> None:
    """Fill pairs (4, 4), above its diagonal, and basis_x (4, r) with the products of rows with rows and with Q."""
    p01 = p02 = p03 = p12 = p13 = p23 = block.dtype.type(0.0)
    for j in range(block.shape[1]):
        x0, x1, x2, x3 = block[0, j], block[1, j], block[2, j], block[3, j]
        p01 += x0 * x1
        p02 += x0 * x2
        p03 += x0 * x3
        p12 += x1 * x2
        p13 += x1 * x3
        p23 += x2 * x3
    pairs[0, 1] = p01
    pairs[0, 2] = p02
    pairs[0, 3] = p03
    pairs[1, 2] = p12
    pairs[1, 3] = p13
    pairs[2, 3] = p23
    for f in range(basis_x.shape[1]):
        p0 = p1 = p2 = p3 = block.dtype.type(0.0)
        for j in range(basis.shape[1]):
            p0 += block[0, j] * basis[f, j]
            p1 += block[1, j] * basis[f, j]
            p2 += block[2, j] * basis[f, j]
            p3 += block[3, j] * basis[f, j]
        basis_x[0, f] = p0
        basis_x[1, f] = p1
        basis_x[2, f] = p2
        basis_x[3, f] = p3


@compiled
def dual_averaging_sparse(
    batch: SparseBatch, objective: Objective, faces: Faces, first: int, last: int, state: Lazy
) -> None:
    """Do the same for sparse rows; a row only touches the features in which it is not zero.

    Rows are processed one by one, so none waits. Folding touches all features, so only columns whose a is nearly 0 are
    folded.
    """
    check_codes(objective.loss, objective.law)
    starts = batch.starts
    y = batch.y
    law = objective.law
    basis = faces.basis
    scalars = state.scalars
    r = len(basis)
    width = _tile(last - first, TILE)
    for low in range(first, last, width):
        T = min(width, last - low)
        w_ = state.w[:, low : low + T]
        U_ = state.U[:, low : low + T]
        s = np.zeros((3 + 4 * r) * TILE)
        padded = -(-T // 8) * 8
        product = np.zeros((1, padded))
        gain = np.zeros((2, padded))
        move = np.empty(padded)
        words = _words(law, padded)
        basis_x = np.empty((1, r))
        _unpack(scalars[:, low : low + T], s)
        for i in range(len(y)):
            where = batch.features[starts[i] : starts[i + 1]]
            x = batch.values[starts[i] : starts[i + 1]]
            basis_x[:] = 0.0
            for f in range(r):
                for j in range(len(x)):
                    basis_x[0, f] += basis[f, where[j]] * x[j]
            if i % DRAWN == 0:
                draw_words(law, objective.seed, batch.first_row + i, low, words)
            draw_moves(law, batch.eta[i], batch.stiff[i], words, i % DRAWN, low == 0, move)
            _scores_sparse(where, x, w_, product[0])
            _enter(s, 0, basis_x, faces, objective.alpha, product, move)
            _fold_where_small(basis, w_, U_, s, T)
            _leave(s, 0, basis_x, y[i], objective.loss, move, gain)
            _add_sparse(where, x, gain[0], gain[1], w_, U_)
        _pack(s, scalars[:, low : low + T])


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
def _unpack(scalars: Any, s: Any) -> None:
    """Copy scalars (2 + 3r, columns) to s; the remaining columns of s get a = 1."""
    T = scalars.shape[1]
    r = len(scalars) // 3
    for b in range(TILE):
        s[b] = 1.0
    for b in range(T):
        s[b] = scalars[0, b]
        s[_SUM + b] = scalars[1, b]
        for f in range(r):
            face = _FACES + f * _FACE + b
            s[face] = scalars[2 + f, b]
            s[face + _DOT] = scalars[2 + r + f, b]
            s[face + _GIVEN] = scalars[2 + 2 * r + f, b]


@compiled
def _pack(s: Any, scalars: Any) -> None:
    """Copy s back to scalars (2 + 3r, columns)."""
    T = scalars.shape[1]
    r = len(scalars) // 3
    for b in range(T):
        scalars[0, b] = s[b]
        scalars[1, b] = s[_SUM + b]
        for f in range(r):
            face = _FACES + f * _FACE + b
            scalars[2 + f, b] = s[face]
            scalars[2 + r + f, b] = s[face + _DOT]
            scalars[2 + 2 * r + f, b] = s[face + _GIVEN]


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
def _enter_single(
    s: Any, owed: Any, k: int, basis_x: Any, faces: Faces, alpha: float, product: Any, move: Any
) -> None:  # fmt: skip
    """Do the same in single precision: compute β - c without β, which may be large; keep the rounding error of a."""
    T = len(move)
    r = basis_x.shape[1]
    for f in range(r):
        face = _FACES + f * _FACE
        for b in range(T):
            s[face + _OVER + b] = s[b] * s[face + _DOT + b] + s[face + b]
    if r > 0:
        _nearest(faces, s[_FACES:].reshape(r, 4, TILE)[:, 3, :T])
    for f in range(r):
        face = _FACES + f * _FACE
        for b in range(T):
            s[face + _OVER + b] -= s[b] * s[face + _DOT + b]
    for b in range(T):
        a = s[b]
        A = s[_SUM + b]
        s[_SCORE + b] = a * product[k, b]
        s[_SUM + b] = A + a
        due = move[b] * alpha * a + owed[b]
        left = a - due
        s[b] = left
        owed[b] = due - (a - left)
    for f in range(r):
        face = _FACES + f * _FACE
        x = basis_x[k, f]
        for b in range(T):
            rest = s[face + _OVER + b]
            s[_SCORE + b] += rest * x
            s[face + _GIVEN + b] += rest
            s[face + b] -= move[b] * alpha * rest


@inlined
def _leave(s: Any, k: int, basis_x: Any, y: float, loss: int, move: Any, gain: Any) -> None:
    """Fill rows 2k and 2k + 1 of gain with the multiples of row k that w and U gain."""
    T = len(move)
    number = s.dtype.type
    sign = number(y)
    one = number(1.0)
    two = number(2.0)
    if loss == LOG_LOSS:  # one division for the slope of the loss and for 1 / a
        if _single(s):
            for b in range(T):
                s[_SCORE + b] = sign * move[b] / ((one + exponential_single(sign * s[_SCORE + b])) * s[b])
        else:
            for b in range(T):
                s[_SCORE + b] = sign * move[b] / ((one + exponential(sign * s[_SCORE + b])) * s[b])
    elif loss == SQUARED_ERROR:
        for b in range(T):
            s[_SCORE + b] = two * (sign - s[_SCORE + b]) * move[b] / s[b]
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
def _views(s: Any, r: int) -> tuple[Any, Any, Any, Any, Any]:
    """The numbers a, A (columns,) and β, t, C (r, columns) of a tile."""
    faces = s[_FACES:].reshape(r, 4, TILE)
    return s[:TILE], s[_SUM : _SUM + TILE], faces[:, 0], faces[:, 1], faces[:, 2]


@compiled
def _fold_single(faces: Faces, w: Any, recent: Any, s: Any, T: int, U: Any) -> None:
    """Fold in single precision: w ends in the slabs, β gets what lies outside of them, U gets its recent gains."""
    basis = faces.basis
    flat = faces.levels.max() == 0.0
    r = 0 if flat else len(basis)
    a, A, beta, t, C = _views(s, r)
    over = s[_FACES:].reshape(r, 4, TILE)[:, 3]
    rest = np.empty((r, T), dtype=w.dtype)
    for f in range(r):
        for b in range(T):
            over[f, b] = a[b] * t[f, b] + beta[f, b]
            rest[f, b] = over[f, b]
    if r > 0:
        _nearest(faces, rest)
    for f in range(r):
        for b in range(T):
            over[f, b] -= rest[f, b]
            beta[f, b] = rest[f, b] - a[b] * t[f, b]
    _fold(basis[:r], w, recent, a, A, beta, t, C, 0, T)
    for f in range(r):
        for b in range(T):
            beta[f, b] = over[f, b]
    out = np.empty(T)
    for f in range(len(basis) if flat else 0):
        out[:] = 0.0
        for j in range(len(w)):
            for b in range(T):
                out[b] += np.float64(basis[f, j]) * w[j, b]
        for j in range(len(w)):
            for b in range(T):
                w[j, b] -= out[b] * basis[f, j]
    for j in range(len(w)):
        for b in range(U.shape[1]):
            U[j, b] += recent[j, b]
        for b in range(T):
            recent[j, b] = 0.0


@compiled
def _fold_where_small(basis: Any, w: Any, U: Any, s: Any, T: int) -> None:
    """Fold the columns whose a is nearly 0."""
    small = 0.25 if _single(w) else 1e-3  # if w and U are large and their difference is small, digits are lost
    for b in range(T):
        if abs(s[b]) < small:
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
    batch: Batch, objective: Objective, record: Record, rows: Any, weights: Any, pulls: Any, contrasts: Any,
    sharpness: float, penalty: float, robust: bool, first: int, last: int, theta: Any, total: Any,
) -> None:  # fmt: skip
    """Carry columns first … last - 1 of the iterates θ and their sums through all rows, in place.

    The penalty is made of L kinked functions, f(θ) = Σᵢ wᵢ min(0, rᵢᵀθ). The gradient of each is the sum of the
    ``pulls`` of the rows of D' that are on the wrong side at the ``point`` where the penalty is judged, so only the
    *signs* of the rows' scores matter, and a row's sign cannot change while
    the point moves by less than |score| / ‖row‖, its distance. Each column measures all rows at its ``centre`` and
    keeps a list of those nearer than its ``reach``; within that reach only they are measured, and only when the point
    has moved from the last ``anchor`` by more than its ``clearance``, the least distance there. The pulls lie on a
    grid (criteria.on_grid): adding and removing them is exact, and the bits are those of a fresh evaluation at every
    row. Where kinks are rounded (``sharpness`` above 0) every row is measured at every step.

    With ``contrasts`` the terms of the penalty are contrasts of soft rates, whose numerators and denominators the
    functions are; without, the functions themselves.

    Column 0 fills the ``record``, as in dual_averaging.
    """
    check_codes(objective.loss, objective.law)
    X, y, eta, stiff, first_row = batch
    loss, alpha, law, seed = objective
    start, met, sums = record
    (L, m, D), traced = pulls.shape, first == 0 and len(met) > 0
    J, soft, smooth = (len(contrasts) if len(contrasts) > 0 else L), len(contrasts) > 0, sharpness > 0.0
    every, across, inverse_lengths = np.arange(m), np.zeros((D, -(-m // NEAR) * NEAR)), np.empty(m)
    _transpose(rows, across)
    for r in range(m):
        inverse_lengths[r] = 1.0 / np.sqrt(_dot(rows[r], rows[r]))
    n, width = len(X), _tile(last - first, TILE)
    for low in range(first, last, width):
        T = min(width, last - low)
        padded = -(-T // 8) * 8  # as in dual_averaging
        theta_, total_, point, anchor = (
            _room(theta, D, padded),
            _room(theta, D, padded),
            _room(theta, D, padded),
            _room(theta, D, padded),
        )
        _copy(theta[:, low : low + T], theta_)
        _copy(total[:, low : low + T], total_)
        source = total_ if robust else theta_  # the point where the penalty is judged is (head start + source) share
        slopes, f, wrong = np.zeros((L, D, padded)), np.empty((L, padded)), np.zeros((T, m), dtype=np.int8)
        gradient, offset = np.zeros((J, D, padded)) if soft else slopes, np.zeros((J, padded))
        clearance, centre, reach = -np.ones(T), np.empty((T, D)), -np.ones(T)
        near, n_near = np.zeros((T, NEAR), dtype=np.int64), np.zeros(T, dtype=np.int64)
        near_across, near_inverse = np.zeros((T, D, NEAR)), np.zeros((T, NEAR))
        at, scores = np.empty(D), np.empty(across.shape[1])
        score, slope, shrink, square = np.empty(padded), np.empty(padded), np.empty(padded), np.empty(padded)
        words, v = _words(law, padded), np.empty(padded)
        pull, matrix = np.empty((J, padded)), np.empty((J, J, padded))
        for i in range(n):
            x, step = X[i], eta[i]
            if i % DRAWN == 0:
                draw_words(law, seed, first_row + i, low, words)
            draw_moves(law, 1.0, 0.0, words, i % DRAWN, low == 0, v)
            head = HEAD_START if robust else 0.0
            share = 1.0 / (HEAD_START + first_row + i) if robust else 1.0
            if i == 0 or not robust or soft or smooth:
                _average(source, start, head, share, point)
            if i == 0 or not robust:  # otherwise the last sweep has left both
                _distances(point, anchor, square)
                _scores(x, theta_, score)
            if smooth:
                _measure_smooth(point, across, weights, pulls, sharpness, scores, f, slopes)
            for b in range(0 if smooth else T):
                if not square[b] <= clearance[b]:
                    size, moved = _arrive(b, source, start, head, share, centre, anchor, at)
                    if moved < reach[b]:
                        least = _settle(
                            b, n_near[b], at, near[b], near_across[b], near_inverse[b], pulls, slopes, wrong, scores
                        )
                    else:
                        least = _settle(b, m, at, every, across, inverse_lengths, pulls, slopes, wrong, scores)
                        guess = min(1.25 * reach[b], 1e300) if reach[b] > 0.0 else 1.0
                        n_near[b], reach[b] = _list_near(
                            scores, across, inverse_lengths, guess, near[b], near_across[b], near_inverse[b]
                        )
                        moved = 0.0
                        for j in range(D):
                            centre[b, j] = at[j]
                    certain = min(least, reach[b] - moved) * (1.0 - 1e-9) - 1e-12 * size  # for rounding
                    clearance[b] = certain * certain if certain > 0.0 else -1.0
            if soft and not smooth:
                _clear(f)
                _add_products(slopes, point, f)
            if soft:
                _contrast(contrasts, f, slopes, offset, gradient)
            elif smooth:
                _copy(f, offset)
            if soft or smooth:
                _at_origin(gradient, point, offset, pull)
            if not robust:
                _pull(theta_, gradient, gradient, offset, 2.0 * penalty * step, v, False, matrix, pull)
            if traced and low == 0:
                met[i] = score[0]
            _derivatives(loss, y[i], score, slope)
            _pace(step, v, stiff[i], alpha, slope, shrink)
            if robust and J == 1:
                _descend(theta_, shrink, slope, x, gradient, offset, 2.0 * penalty * step, v, matrix, pull)
            else:
                for j in range(D):
                    for b in range(padded):
                        theta_[j, b] = shrink[b] * theta_[j, b] - slope[b] * x[j]
                if robust:
                    _pull(theta_, gradient, gradient, offset, 2.0 * penalty * step, v, True, matrix, pull)
            for term in range(J - 1):
                for j in range(D):
                    for b in range(padded):
                        theta_[j, b] -= pull[term, b] * gradient[term, j, b]
            share = 1.0 / (HEAD_START + first_row + i + 1)
            _close(theta_, total_, gradient, J - 1, pull, start, share, anchor, X[min(i + 1, n - 1)], square, score)
            if traced and low == 0 and (first_row + i + 1) % STRIDE == 0:
                for j in range(D):
                    sums[_point(first_row, i + 1), j] = total_[j, 0] - (first_row + i + 1) * start[j]
        _copy(theta_, theta[:, low : low + T])
        _copy(total_, total[:, low : low + T])


@inlined
def _descend(
    theta: Any, shrink: Any, slope: Any, x: Any, gradient: Any, offset: Any, strength: float, v: Any, matrix: Any,
    pull: Any,
) -> None:  # fmt: skip
    """θ ← shrink θ - slope x and, in the same sweep, the products for the implicit pull of a penalty of one term."""
    D, T = theta.shape
    for b in range(T):
        pull[0, b], matrix[0, 0, b] = offset[0, b], 0.0
    for j in range(0, D - 1, 2):
        x0, x1 = x[j], x[j + 1]
        for b in range(T):
            g0, g1, dot, square = gradient[0, j, b], gradient[0, j + 1, b], pull[0, b], matrix[0, 0, b]
            t0, t1 = shrink[b] * theta[j, b], shrink[b] * theta[j + 1, b]
            t0 = t0 - slope[b] * x0
            t1 = t1 - slope[b] * x1
            dot = dot + g0 * t0
            square = square + g0 * g0
            theta[j, b] = t0
            theta[j + 1, b] = t1
            pull[0, b] = dot + g1 * t1
            matrix[0, 0, b] = square + g1 * g1
    for j in range(D - D % 2, D):
        for b in range(T):
            t0 = shrink[b] * theta[j, b]
            theta[j, b] = t0 - slope[b] * x[j]
        _add_dots(gradient, 0, theta, j, pull[0])
        _add_dots(gradient, 0, gradient[0], j, matrix[0, 0])
    for b in range(T):
        stiff = strength * v[b]
        pull[0, b] = stiff * pull[0, b] / (1.0 + stiff * matrix[0, 0, b])


@inlined
def _close(
    theta: Any, total: Any, gradient: Any, term: int, pull: Any, start: Any, share: float, anchor: Any, following: Any,
    square: Any, score: Any,
) -> None:  # fmt: skip
    """Take the last term's pull off θ, and add θ to the sum; leave what the next row asks first in the same sweep.

    That is the squared distance of the average from the anchor, and the score, to the bit as ``_scores`` gives it.
    """
    D, T = theta.shape
    for b in range(T):
        square[b], score[b] = 0.0, 0.0
    for j in range(0, D - 1, 2):
        h0, h1, x0, x1 = HEAD_START * start[j], HEAD_START * start[j + 1], following[j], following[j + 1]
        for b in range(T):
            t0 = theta[j, b] - pull[term, b] * gradient[term, j, b]
            t1 = theta[j + 1, b] - pull[term, b] * gradient[term, j + 1, b]
            s0, s1 = total[j, b] + t0, total[j + 1, b] + t1
            d0, d1 = (h0 + s0) * share - anchor[j, b], (h1 + s1) * share - anchor[j + 1, b]
            far, product = square[b] + d0 * d0, score[b] + x0 * t0
            theta[j, b], theta[j + 1, b] = t0, t1
            total[j, b], total[j + 1, b] = s0, s1
            square[b], score[b] = far + d1 * d1, product + x1 * t1
    for j in range(D - D % 2, D):
        head = HEAD_START * start[j]
        for b in range(T):
            t0 = theta[j, b] - pull[term, b] * gradient[term, j, b]
            s0 = total[j, b] + t0
            square[b] += ((head + s0) * share - anchor[j, b]) ** 2
            score[b] += following[j] * t0
            theta[j, b], total[j, b] = t0, s0


@compiled
def penalised_sgd_sparse(
    batch: SparseBatch, objective: Objective, row_starts: Any, row_numbers: Any, row_values: Any, at_start: Any,
    weights: Any, gram: Any, grid: Any, contrasts: Any, sharpness: float, penalty: float, robust: bool, first: int,
    last: int, w: Any, U: Any, scalars: Any, zeta: Any, Z: Any, mu: Any, S: Any,
) -> None:  # fmt: skip
    """Do the same for sparse rows: only their features are touched, and numbers that belong to the m rows of D'.

    The penalty moves θ in the span of the rows R of D' alone, so θ is kept as two parts, and what the penalty must know
    of it is kept with them:

        iterate  θ = a w + Rᵀζ         μ = R θ      a row changes w by a multiple of x, the penalty changes ζ
        sum    Σ θ = A w + U + RᵀZ     S = R Σθ

    A gradient of the penalty is Rᵀγ; its product with θ is γᵀμ, and it moves μ by RRᵀγ, which is added up, on a
    ``grid`` (L, m), from the rows of the ``gram`` matrix (m, m) that belong to rows on the wrong side. D' is given by
    columns: for each feature, the numbers of the rows that have it and their values; ``at_start`` is R times the start.
    """
    check_codes(objective.loss, objective.law)
    starts, features, values, y, eta, stiff, first_row = batch
    loss, alpha, law, seed = objective
    L, m = weights.shape
    J, soft, smooth = (len(contrasts) if len(contrasts) > 0 else L), len(contrasts) > 0, sharpness > 0.0
    width = _tile(last - first, PENALTY_TILE)
    for low in range(first, last, width):
        T = min(width, last - low)
        w_, U_, s_ = w[:, low : low + T], U[:, low : low + T], scalars[:, low : low + T]
        a, A, no_slab, none = s_[0], s_[1], np.empty((0, len(w))), np.empty((0, T))
        zeta_, Z_, mu_, S_ = np.empty((m, T)), np.empty((m, T)), np.empty((m, T)), np.empty((m, T))
        zeta_[:], Z_[:], mu_[:], S_[:] = (
            zeta[:, low : low + T], Z[:, low : low + T], mu[:, low : low + T], S[:, low : low + T],
        )  # fmt: skip
        nu, side, f = np.empty((m, T)), np.zeros((m, T)), np.empty((L, T))
        parts, moved = np.empty((L, m, T)), np.zeros((L, m, T))
        gamma, far = (np.empty((J, m, T)), np.empty((J, m, T))) if soft else (parts, moved)
        score, slope, shrink = np.empty(T), np.empty(T), np.empty(T)
        words, v = _words(law, T), np.empty(-(-T // 4) * 4)
        offset, pull, matrix = np.empty((J, T)), np.empty((J, T)), np.empty((J, J, T))
        weighted, rows_x = np.empty(T), np.empty(m)
        for i in range(len(y)):
            where, x, step = features[starts[i] : starts[i + 1]], values[starts[i] : starts[i + 1]], eta[i]
            if i % DRAWN == 0:
                draw_words(law, seed, first_row + i, low, words)
            draw_moves(law, 1.0, 0.0, words, i % DRAWN, low == 0, v)
            rows_x[:] = 0.0
            for j in range(len(x)):
                for e in range(row_starts[where[j]], row_starts[where[j] + 1]):
                    rows_x[row_numbers[e]] += row_values[e] * x[j]
            if robust:
                _average(S_, at_start, HEAD_START, 1.0 / (HEAD_START + first_row + i), nu)
            else:
                nu[:] = mu_
            _take_sides(nu, sharpness, weights, gram, grid, side, moved)
            for term in range(L):
                f[term] = 0.0
                for r in range(m):
                    for b in range(T):
                        parts[term, r, b] = weights[term, r] * side[r, b]
                        if smooth:
                            f[term, b] += weights[term, r] * _rounded(nu[r, b], sharpness)
                        else:
                            f[term, b] += parts[term, r, b] * nu[r, b]
            if soft:
                _contrast(contrasts, f, moved, offset, far)
                _contrast(contrasts, f, parts, offset, gamma)
            else:
                offset[:] = f
            _at_origin(gamma, nu, offset, pull)
            if not robust:
                _pull(mu_, gamma, far, offset, 2.0 * penalty * step, v, False, matrix, pull)
            _scores_sparse(where, x, w_, score)
            for b in range(T):
                score[b] *= a[b]
            for r in range(m):
                for b in range(T):
                    score[b] += rows_x[r] * zeta_[r, b]
            _derivatives(loss, y[i], score, slope)
            _pace(step, v, stiff[i], alpha, slope, shrink)
            for b in range(T):
                a[b] *= shrink[b]
                if abs(a[b]) < 1e-3:
                    _fold(no_slab, w_, U_, a, A, none, none, none, b, b + 1)
            for r in range(m):
                for b in range(T):
                    zeta_[r, b] *= shrink[b]
                    mu_[r, b] = shrink[b] * mu_[r, b] - slope[b] * rows_x[r]
            for b in range(T):
                slope[b] /= -a[b]
                weighted[b] = -(A[b] * slope[b])
                A[b] += a[b]
            _add_sparse(where, x, slope, weighted, w_, U_)
            if robust:
                _pull(mu_, gamma, far, offset, 2.0 * penalty * step, v, True, matrix, pull)
            for term in range(J):
                for r in range(m):
                    for b in range(T):
                        zeta_[r, b] -= pull[term, b] * gamma[term, r, b]
                        mu_[r, b] -= pull[term, b] * far[term, r, b]
            for r in range(m):
                for b in range(T):
                    Z_[r, b] += zeta_[r, b]
                    S_[r, b] += mu_[r, b]
        zeta[:, low : low + T], Z[:, low : low + T], mu[:, low : low + T], S[:, low : low + T] = zeta_, Z_, mu_, S_


@compiled
def _take_sides(nu: Any, sharpness: float, weights: Any, gram: Any, grid: Any, side: Any, moved: Any) -> None:
    """Bring side (m, columns) up to the scores ν, and moved (L, m, columns) with it: RRᵀ times weights times side."""
    (L, m), T = weights.shape, nu.shape[1]
    if sharpness > 0.0:
        for r in range(m):
            for b in range(T):
                side[r, b] = 1.0 / (1.0 + exponential(sharpness * nu[r, b]))
        moved[:] = 0.0
        for term in range(L):
            for other in range(m):
                for r in range(m):
                    pull = weights[term, r] * gram[r, other]
                    if pull != 0.0:
                        for b in range(T):
                            moved[term, other, b] += side[r, b] * pull
        return
    for r in range(m):
        for b in range(T):
            now = 1.0 if nu[r, b] < 0.0 else 0.0
            if now != side[r, b]:
                for term in range(L):
                    for other in range(m):
                        pull = np.rint(weights[term, r] * gram[r, other] / grid[term, other]) * grid[term, other]
                        moved[term, other, b] += (now - side[r, b]) * pull
                side[r, b] = now


@compiled
def _pace(step: float, v: Any, damp: float, alpha: float, slope: Any, shrink: Any) -> None:
    """Turn slopes of the loss into the multiples of x that θ loses; fill shrink with the share the ridge leaves."""
    for b in range(len(slope)):
        move = step * v[b] / (1.0 + damp * (step * v[b]))
        shrink[b] = 1.0 - move * alpha
        slope[b] *= move


@compiled
def _rounded(score: float, sharpness: float) -> float:
    """min(0, score) with its kink rounded."""
    scaled = sharpness * score
    return float((min(scaled, 0.0) - np.log1p(exponential(-abs(scaled)))) / sharpness)


@compiled
def _at_origin(gradient: Any, point: Any, value: Any, scratch: Any) -> None:
    """Turn values at a point (J, columns) into those that, to first order, the terms have at 0."""
    _clear(scratch)
    _add_products(gradient, point, scratch)
    for term in range(len(value)):
        for b in range(value.shape[1]):
            value[term, b] -= scratch[term, b]


@compiled
def _average(source: Any, start: Any, head: float, share: float, point: Any) -> None:
    """Fill point (D, columns) with (head start + source) share: the average of the start and of the iterates so far."""
    D, T = source.shape
    for j in range(D):
        first = head * start[j]
        for b in range(T):
            point[j, b] = (first + source[j, b]) * share


@compiled
def _distances(point: Any, anchor: Any, square: Any) -> None:
    """Fill square (columns,) with squared distances."""
    D, T = point.shape
    for b in range(T):
        square[b] = 0.0
    for j in range(D):
        for b in range(T):
            square[b] += (point[j, b] - anchor[j, b]) ** 2


@inlined
def _arrive(
    b: int, source: Any, start: Any, head: float, share: float, centre: Any, anchor: Any, at: Any
) -> tuple[float, float]:
    """Make the point of column b its anchor, and ``at``; return the sum of sizes, and the distance from the centre."""
    size = square = 0.0
    for j in range(len(at)):
        at[j] = anchor[j, b] = (head * start[j] + source[j, b]) * share
        size += abs(at[j])
        square += (at[j] - centre[b, j]) ** 2
    return size, np.sqrt(square)


@inlined
def _settle(
    b: int, n: int, at: Any, which: Any, across: Any, inverse_lengths: Any, pulls: Any, slopes: Any, wrong: Any,
    scores: Any,
) -> float:  # fmt: skip
    """Measure n rows of D' for column b, and add or remove the pulls of those that changed sides.

    ``across`` (D, at least n) and ``inverse_lengths`` belong to the rows ``which``. Returns the least distance.
    """
    _scores(at, across, scores)
    least = np.int64(0x7FF0000000000000)  # the bits of infinity; positive doubles are in the order of their bits
    for r in range(n):
        distance = abs(scores[r]) * inverse_lengths[r]
        least = min(least, _bits_of_double(distance))  # type: ignore[call-arg]
    for r in range(n):
        row, side = which[r], np.int64(scores[r] < 0.0)
        if side != wrong[b, row]:
            for term in range(len(pulls)):
                for j in range(len(at)):
                    slopes[term, j, b] += (side - wrong[b, row]) * pulls[term, row, j]
            wrong[b, row] = side
    return _double_of_bits(least)  # type: ignore[call-arg]


@compiled
def _list_near(
    scores: Any, across: Any, inverse_lengths: Any, reach: float, near: Any, near_across: Any, near_inverse: Any
) -> tuple[int, float]:
    """List the rows of D' nearer than ``reach``, shortened until there are at most NEAR; return their number and it."""
    m, n = len(inverse_lengths), NEAR + 1
    while n > NEAR:
        n = 0
        for r in range(m):
            n += int(abs(scores[r]) * inverse_lengths[r] < reach)
        if n > NEAR:
            reach = 0.0 if reach < 1e-12 else reach * (0.7 if n < 4 * NEAR else 0.1)
    n = 0
    for r in range(m):
        if abs(scores[r]) * inverse_lengths[r] < reach:
            near[n], near_inverse[n] = r, inverse_lengths[r]
            for j in range(len(across)):
                near_across[j, n] = across[j, r]
            n += 1
    return n, reach


@compiled
def _measure_smooth(
    point: Any, across: Any, weights: Any, pulls: Any, sharpness: float, scores: Any, f: Any, slopes: Any
) -> None:
    """Fill f (L, columns) and slopes (L, D, columns) with the functions, their kinks rounded, and their gradients."""
    (L, m, D), T = pulls.shape, point.shape[1]
    side, low = np.empty(m), np.empty(m)
    for b in range(T):
        _scores(np.ascontiguousarray(point[:, b]), across, scores)
        for r in range(m):
            side[r] = 1.0 / (1.0 + exponential(sharpness * scores[r]))
            low[r] = _rounded(scores[r], sharpness)
        for term in range(L):
            f[term, b] = _dot(weights[term], low)
            slopes[term, :, b] = 0.0
            for r in range(m):
                for j in range(D):
                    slopes[term, j, b] += side[r] * pulls[term, r, j]


@compiled
def _contrast(contrasts: Any, f: Any, slopes: Any, value: Any, gradient: Any) -> None:
    """Fill value (J, columns) and gradient (J, D, columns) with contrasts of the soft rates; see SoftRatePenalty."""
    (J, G), (D, T) = contrasts.shape, gradient.shape[1:]
    _clear(value)
    for term in range(J):
        _clear(gradient[term])
    inverse, rho, share = np.empty(T), np.empty(T), np.empty(T)
    for z in range(G):
        for b in range(T):
            inverse[b] = 1.0 / f[G + z, b] if f[G + z, b] > 0.0 else 0.0
            rho[b] = f[z, b] * inverse[b]
        for term in range(J):
            if contrasts[term, z] != 0.0:
                for b in range(T):
                    value[term, b] += contrasts[term, z] * rho[b]
                    share[b] = contrasts[term, z] * inverse[b]
                for j in range(D):
                    for b in range(T):
                        gradient[term, j, b] += share[b] * (slopes[z, j, b] - rho[b] * slopes[G + z, j, b])


@compiled
def _add_products(gradient: Any, theta: Any, out: Any) -> None:
    """Add to out (J, columns) the products of gradients (J, D, columns) with θ (D, columns)."""
    for term in range(len(gradient)):
        for j in range(len(theta)):
            _add_dots(gradient, term, theta, j, out[term])


@compiled
def _add_dots(gradient: Any, term: int, theta: Any, j: int, out: Any) -> None:
    """Add to out (columns,) one feature's part in the products of a gradient with θ."""
    for b in range(len(out)):
        out[b] += gradient[term, j, b] * theta[j, b]


@compiled
def _pull(
    theta: Any, gradient: Any, far: Any, offset: Any, strength: float, v: Any, implicit: bool, matrix: Any, pull: Any
) -> None:
    """Fill pull (J, columns) with how much of each term's gradient the penalty step takes away from θ.

    With g = offset + gradientᵀθ an explicit step takes sv · g, s the strength; an implicit one solves (I + sv M) pull =
    sv g, where M holds the products of the gradients: by elimination, without square roots. ``far`` is the
    gradient again, or what stands for it in products with gradients where these are given in other coordinates.
    """
    J, D, T = gradient.shape
    _copy(offset, pull)
    _add_products(gradient, theta, pull)
    for term in range(J):
        for b in range(T):
            pull[term, b] *= strength * v[b]
    if not implicit:
        return
    for row in range(J):
        for column in range(row + 1):
            entry = matrix[row, column]
            for b in range(T):
                entry[b] = 0.0
            for j in range(D):
                _add_dots(gradient, row, far[column], j, entry)
            for b in range(T):
                entry[b] = entry[b] * (strength * v[b]) + (1.0 if row == column else 0.0)
    for pivot in range(J):
        for row in range(pivot + 1, J):
            for column in range(pivot + 1, row + 1):
                for b in range(T):
                    matrix[row, column, b] -= matrix[row, pivot, b] * matrix[column, pivot, b] / matrix[pivot, pivot, b]
            for b in range(T):
                pull[row, b] -= matrix[row, pivot, b] * pull[pivot, b] / matrix[pivot, pivot, b]
    for pivot in range(J - 1, -1, -1):
        for row in range(pivot + 1, J):
            for b in range(T):
                pull[pivot, b] -= matrix[row, pivot, b] * pull[row, b]
        for b in range(T):
            pull[pivot, b] /= matrix[pivot, pivot, b]


# -- Newton -----------------------------------------------------------------------------------------------------------


@compiled
def newton(
    rows: Any, entries: Any, objective: Any, comparing: Any, geometry: Any, is_first: bool, stride: int, path: Any,
    first: int, last: int, state: Any,
) -> None:  # fmt: skip
    """Train the columns first, …, last - 1 on blocks of ``stride`` rows; ``StochasticNewton`` has the specification.

    The stride is a multiple of DRAWN. Fill path (blocks, D) with the fit after each block.

    The warm-up rows come first (``is_first``). They are one block, and the problem is solved on them, for each column
    with its own weights: Newton steps with the Hessian of the fit, until a column has settled or its steps no longer
    shrink; one step alone has the right law to first order. The first turn only counts rows, the last one only measures
    values.
    """
    check_codes(objective.loss, objective.law)
    n, D = rows.X.shape
    tile = _tile(last - first, TILE)
    for low in range(first, last, tile):
        high = min(low + tile, last)
        held, added, words, block = _newton_room(rows, objective, comparing, high - low)
        for part in range(len(held)):
            _copy(state[part][:, low:high], held[part])
        T = held.theta.shape[1]
        active = np.ones(T)
        most = np.full(T, np.inf)
        for turn in range(ROUNDS + 2 if is_first else 1):
            measures = turn == ROUNDS + 1 or (turn > 0 and not active.any())
            for begin in range(0, n, DRAWN):
                end = min(n, begin + DRAWN)
                if begin == 0 or (begin % stride == 0 and not is_first):
                    _open(comparing, held, added)
                _add_to_cells(rows, entries, objective, comparing, (begin, end, low), words, block, held, added)
                if end < n and (end % stride > 0 or is_first):
                    continue
                if is_first:
                    _clear(held.counts)
                    _clear(held.value)
                    _clear(held.weight)
                for b in range(T):
                    added.row[5, b] = most[b]
                    added.row[7, b] = 0.0 if is_first and (turn == 0 or measures) else active[b]
                _add_up(comparing, geometry, is_first, held, added)
                _find_push(comparing, geometry, held, added)
                _take_step(comparing, geometry, block, held, added)
                if low == 0 and len(path):
                    path[begin // stride] = held.theta[:D, 0]
            if measures:
                break
            for b in range(T if is_first and turn > 0 else 0):
                length = added.row[6, b]
                if length < SETTLED or length > most[b]:
                    active[b] = 0.0
                most[b] = SHRINK * length
        for part in range(len(held)):
            _copy(held[part], state[part][:, low:high])


@compiled
def _newton_room(rows: Any, objective: Any, comparing: Any, n_columns: int) -> Any:
    """Room for one tile of columns: its state, what rows add to it, random bits, and four rows."""
    like = rows.X
    D = like.shape[1]
    even = D + D % 2
    T = -(-n_columns // 8) * 8
    C = len(comparing.owner)
    F = comparing.n_rates
    J = comparing.pairs.shape[1]
    held = Columns(_room(like, even, T), _room(like, J, T), _room(like, C, T), _room(like, C, T), _room(like, 1, T))
    added = Added(
        _room(like, even, T), _room(like, C, T), _room(like, C, T), _room(like, 8, T), _room(like, C, T),
        _room(like, F, T), _room(like, J, T), _room(like, BLOCK, T), _room(like, 2 * BLOCK, T), _room(like, even, T),
    )  # fmt: skip
    return held, added, _words(objective.law, T), _room(like, BLOCK, even)


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
    rows: Any, entries: Any, objective: Any, comparing: Any, where: tuple[int, int, int], words: Any, block: Any,
    held: Any, added: Any,
) -> None:  # fmt: skip
    """Add the gradients of at most DRAWN rows, and their values to their cells.

    ``where`` is the first row, the row after the last, and the first column of the tile.
    """
    begin, end, low = where
    D = rows.X.shape[1]
    T = held.theta.shape[1]
    drawn, drift, scale, v, slope, bend = (
        added.row[0], added.row[1], added.row[2], added.row[3], added.row[4], added.row[5],
    )  # fmt: skip
    draw_words(objective.law, objective.seed, rows.first_row + begin, low, words)
    for four in range(begin, end, BLOCK):
        for k in range(BLOCK):
            for j in range(D):
                block[k, j] = rows.X[four + k, j] if four + k < end else 0.0
        _products(block, held.theta, added.score)
        for k in range(BLOCK):
            gain = added.gain[2 * k]
            i = four + k
            if i >= end:
                for b in range(T):
                    gain[b] = 0.0
                continue
            score = added.score[k]
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
                        added.count[c, b] += v[b]
                        added.value[c, b] += v[b] * value[b]
                    for b in range(T):
                        bend[b] *= added.pull[c, b]
                    for b in range(T):
                        slope[b] += bend[b]
                    if comparing.kind == DECISIONS:
                        for b in range(T):
                            bend[b] *= v[b]
                        for b in range(T):
                            drift[b] += bend[b] * score[b]
            for b in range(T):
                gain[b] = slope[b] * v[b]
        _add_rows(block, added.gain, 0, added.gradient)


@inlined
def _surrogate(kind: int, constant: float, sign: float, score: Any, scale: Any, value: Any, bend: Any) -> None:
    """Fill value and bend (columns,) with what a row adds to a cell and its slope; see ``criteria.surrogate``."""
    if kind == DECISIONS:
        for b in range(len(score)):
            u = score[b] * scale[b]
            w = u * (1.0 / NARROW)
            w = w if w < 1.0 else 1.0
            w = w if w > -1.0 else -1.0
            q = w * w
            odd = 1.640625 + q * (-2.734375 + q * (2.296875 + q * -0.703125))
            value[b] = constant + sign * (0.5 + w * odd)
            q = u * u
            q = q if q < 1.0 else 1.0
            top = 1.0 - q
            bend[b] = 1.640625 * sign * scale[b] * top * top * (1.0 - 3.0 * q)
    elif kind == LINEAR:
        for b in range(len(score)):
            value[b] = sign * score[b]
            bend[b] = sign
    else:
        for b in range(len(score)):
            inside = sign * score[b] > 0.0
            value[b] = sign * score[b] if inside else 0.0
            bend[b] = sign if inside else 0.0


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
def n_sweeps(n_pairs: int) -> int:
    """Sweeps over the pairs in one Newton step: fewer if there are many pairs; the next step continues."""
    return 1 if n_pairs == 1 else max(3, min(SWEEPS, 60 // max(n_pairs, 1)))


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


@compiled
def _find_push(comparing: Any, geometry: Any, held: Any, added: Any) -> None:
    """Find the multipliers after a step, and add their difference to the gradient."""
    D = geometry.inverse.shape[0]
    T = held.theta.shape[1]
    J = comparing.pairs.shape[1]
    F = comparing.n_rates
    rate, new = added.rate, added.new
    pull = added.pull  # of rates from here on; that of cells is no longer needed
    for r in range(F):
        for b in range(T):
            rate[r, b] = held.value[r, b]
    for c in range(F, len(comparing.owner)):
        for b in range(T):
            below = held.value[c, b]
            rate[comparing.owner[c], b] *= 1.0 / below if below > 0.0 else 0.0
    _pull_rates(comparing.pairs, held.push, pull)
    for r in range(F):  # as if there were no multipliers
        for j in range(D):
            for b in range(T):
                rate[r, b] += geometry.lift[r, j] * added.gradient[j, b]
        for s in range(F):
            for b in range(T):
                rate[r, b] += geometry.gram[r, s] * pull[s, b]
    if comparing.tolerance == 0.0:
        for p in range(J):
            for b in range(T):
                new[p, b] = 0.0
            for r in range(F):
                for b in range(T):
                    new[p, b] += geometry.solved[p, r] * rate[r, b]
    else:
        for p in range(J):
            for b in range(T):
                new[p, b] = held.push[p, b] if comparing.followed[p] else 0.0
        _pull_rates(comparing.pairs, new, pull)
        for r in range(F):
            for s in range(F):
                for b in range(T):
                    rate[r, b] -= geometry.gram[r, s] * pull[s, b]
        sweep_pairs(
            comparing.pairs, comparing.followed, geometry.gram, comparing.tolerance, comparing.give, n_sweeps(J), rate,
            new, added.row[4],
        )  # fmt: skip
    for p in range(J):
        for b in range(T):
            new[p, b] -= held.push[p, b]
    _pull_rates(comparing.pairs, new, pull)
    for r in range(F):
        for j in range(D):
            for b in range(T):
                added.gradient[j, b] -= geometry.along[r, j] * pull[r, b]


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
def _take_step(comparing: Any, geometry: Any, block: Any, held: Any, added: Any) -> None:
    """Move coefficients, multipliers and values, by no more than REACH.

    ``block`` has room for four rows of the inverse. Row 7 of ``added.row`` has the share of the step that each column
    takes, row 5 the most that it may be long; row 6 gets its length.
    """
    D = geometry.inverse.shape[0]
    T = held.theta.shape[1]
    for i in range(0, D, BLOCK):
        for k in range(BLOCK):
            for j in range(D):
                block[k, j] = geometry.inverse[i + k, j] if i + k < D else 0.0
        _products(block, added.gradient, added.score)
        for k in range(min(BLOCK, D - i)):
            for b in range(T):
                added.step[i + k, b] = added.score[k, b]
    most, length, share = added.row[5], added.row[6], added.row[7]
    for b in range(T):
        length[b] = 0.0
    for j in range(D):
        for b in range(T):
            length[b] += added.step[j, b] * added.step[j, b]
    for b in range(T):
        length[b] = np.sqrt(length[b])
        share[b] *= 0.0 if length[b] > most[b] else REACH / length[b] if length[b] > REACH else 1.0
    for j in range(D):
        for b in range(T):
            added.step[j, b] *= share[b]
        for b in range(T):
            held.theta[j, b] += added.step[j, b]
    for p in range(comparing.pairs.shape[1]):
        for b in range(T):
            held.push[p, b] += share[b] * added.new[p, b]
    for c in range(len(comparing.owner)):
        for j in range(D):
            for b in range(T):
                held.value[c, b] += geometry.steep[c, j] * added.step[j, b]


@compiled
def survey(
    rows: Any, entries: Any, loss: int, comparing: Any, at: Any, pull: Any, mean: Any, tangent: Any, marked: Any,
    sums: Any,
) -> None:  # fmt: skip
    """Add what rows show of the Hessian, of the slopes of cells and of their noise, at the coefficients ``at``.

    ``StochasticNewton`` says what the sums are. Sums of squares take rows that are marked once. Of the others they take
    one row of every four, at places that follow no period, and count it four times.
    """
    n, D = rows.X.shape
    C = len(comparing.owner)
    loss_bend, bend, drift, slopes, steep, size, seen, scatter = sums
    square = _dot(at, at)
    scale = 1.0 / (comparing.width * np.sqrt(square)) if square > 0.0 else 0.0
    inverse = 1.0 / square if square > 0.0 and comparing.kind == DECISIONS else 0.0
    one = np.empty(1)
    by = np.full(1, scale)
    value = np.empty(1)
    slope = np.empty(1)
    times = np.zeros(n)
    for i in range(n):
        k = rows.first_row + i
        sampled = k % BLOCK == (k // BLOCK * 2654435769 % 4294967296) >> 30
        times[i] = 1.0 if marked[i] else BLOCK if sampled else 0.0
    n_taken = np.count_nonzero(times)
    taken = np.empty((n_taken, D))
    turned = np.empty((n_taken, D))
    influence = np.zeros((n_taken, D + C + 1))
    factor = np.empty((3, n_taken))  # of the squares of the three
    place = 0
    z = np.empty(D)
    for i in range(n):
        x = rows.X[i]
        weight = rows.weight[i]
        one[0] = _dot(x, at)
        m = one[0]
        for j in range(D):
            z[j] = x[j] - m * inverse * at[j]
        curl = 0.0  # of the constraint, along z
        along = 0.0  # slope of the constraint
        for e in range(entries.cell.shape[1]):
            c = entries.cell[i, e]
            if c >= 0:
                sign = entries.sign[i, e]
                _surrogate(comparing.kind, entries.constant[i, e], sign, one, by, value, slope)
                along += pull[c] * slope[0]
                curl += pull[c] * _curl(comparing.kind, sign, m * scale, scale)
                narrow = _steep(comparing.kind, sign, m * scale, scale, slope[0])
                for j in range(D):
                    slopes[c, j] += weight * slope[0] * z[j]
                    steep[c, j] += weight * narrow * z[j]
                    size[c, 1 + j] += weight * (slope[0] * slope[0]) * (z[j] * z[j])
                size[c, 0] += weight
                seen[c] += 1.0
                if times[i] > 0.0:
                    influence[place, D + c] += weight * (value[0] - mean[c])
                    for j in range(D):
                        influence[place, j] -= weight * pull[c] * tangent[c, j]
        if times[i] == 0.0:
            continue
        _derivatives(loss, rows.y[i], one, slope)
        for j in range(D):
            taken[place, j] = x[j]
            turned[place, j] = z[j]
            influence[place, j] += weight * (slope[0] * x[j] + along * z[j])
            drift[j] += times[i] * weight * along * x[j]
        influence[place, D + C] = 1.0
        factor[0, place] = times[i] * weight * _curvature(loss, m)
        factor[1, place] = times[i] * weight * curl
        factor[2, place] = times[i]
        place += 1
    _add_outer(taken, factor[0], loss_bend)
    _add_outer(turned, factor[1], bend)
    _add_outer(influence, factor[2], scatter)


@compiled
def _add_outer(X: Any, factor: Any, out: Any) -> None:
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


@compiled
def find_leverage(
    rows: Any, loss: int, at: Any, inverse: Any, limit: float, stride: int, found: Any
) -> int:  # fmt: skip
    """Find the first block with rows whose leverage ωℓ''xᵀH⁻¹x is above a limit: return its first row, and mark them.

    The coefficients are ``at``. If there is no such block, return the number of rows. The leverage is first computed
    with the diagonal of H⁻¹ alone, which takes far less work and nearly always shows that it is small.
    """
    n, D = rows.X.shape
    diagonal = np.empty(D)
    for j in range(D):
        diagonal[j] = inverse[j, j]
    for begin in range(0, n, stride):
        some = False
        for i in range(begin, min(n, begin + stride)):
            x = rows.X[i]
            factor = rows.weight[i] * _curvature(loss, _dot(x, at))
            size = 0.0
            for j in range(D):
                size += diagonal[j] * (x[j] * x[j])
            found[i] = False
            if DIAGONAL * factor * size > limit:
                size = 0.0
                for j in range(D):
                    size += x[j] * _dot(inverse[j], x)
                found[i] = factor * size > limit
                some = some or found[i]
        if some:
            return begin
    return n


@inlined
def _curvature(loss: int, score: float) -> float:
    """Second derivative of the loss in the score."""
    p = 1.0 / (1.0 + exponential(-score))
    return 2.0 if loss == SQUARED_ERROR else p * (1.0 - p)


@inlined
def _steep(kind: int, sign: float, u: float, scale: float, slope: float) -> float:
    """Derivative, in the score, of what a row adds to a cell; see ``criteria.surrogate``."""
    if kind != DECISIONS:
        return slope
    q = u * u * (1.0 / (NARROW * NARROW))
    top = 1.0 - q
    return 1.640625 * sign * (scale / NARROW) * top * top * (1.0 - 3.0 * q) if q < 1.0 else 0.0


@inlined
def _curl(kind: int, sign: float, u: float, scale: float) -> float:
    """Second derivative, in the score, of what a row adds to a cell; see ``criteria.surrogate``."""
    if kind == LINEAR or abs(u) >= 1.0:
        return 0.0
    top = 1.0 - u * u
    if kind == HINGE:
        return 0.9375 * sign * sign * scale * top * top
    return -3.28125 * sign * scale * scale * u * top * (5.0 - 9.0 * u * u)


# -- Trace ------------------------------------------------------------------------------------------------------------


@compiled
def add_squares(X: Any, at: Any, scale: Any, tail: Any, out: Any) -> None:
    """Add z zᵀ to out, on and above its diagonal, for z = (scale x, tail) and each of the rows ``at``, in order.

    Columns are computed in groups, each down to the diagonal; rows are processed by fours; zeros pad the last four.
    """
    n = len(at)
    D = X.shape[1]
    E = D + tail.shape[1]
    n_parts = -(-E // SQUARE)
    tall = -(-E // 2) * 2
    width = -(-E // (8 * n_parts)) * 8
    sums = _room(out, n_parts * tall, width).reshape(n_parts, tall, width)
    gain = _room(out, n_parts * 2 * BLOCK, width).reshape(n_parts, 2 * BLOCK, width)
    block = np.zeros((BLOCK, n_parts * width))
    for i in range(E):
        for j in range(i, E):
            sums[j // width, i, j % width] = out[i, j]
    for low in range(0, n, BLOCK):
        for k in range(BLOCK):
            if low + k < n:
                x = X[at[low + k]]
                by = scale[low + k]
                for j in range(D):
                    block[k, j] = by * x[j]
                for j in range(D, E):
                    block[k, j] = tail[low + k, j - D]
            else:
                for j in range(E):
                    block[k, j] = 0.0
            for part in range(n_parts):
                for j in range(width):
                    gain[part, 2 * k, j] = block[k, part * width + j]
        for part in range(n_parts):
            _add_rows(block, gain[part], 0, sums[part, : min((part + 1) * width, tall)])
    for i in range(E):
        for j in range(i, E):
            out[i, j] = sums[j // width, i, j % width]


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
        _transpose(X[low : low + size], turned)
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


# -- Threads ----------------------------------------------------------------------------------------------------------


def spans(columns: tuple[int, int], n: int) -> list[tuple[int, int]]:
    """Divide columns first, …, last - 1 into at most n parts that begin at multiples of 32; ``first`` is one, too.

    >>> spans((0, 201), 3), spans((64, 70), 3)
    ([(0, 64), (64, 128), (128, 201)], [(64, 70)])
    """
    first, last = columns
    n_words = -(-(last - first) // WORD)
    edges = [min(last, first + WORD * (n_words * i // n)) for i in range(n + 1)]
    return [span for span in pairwise(edges) if span[0] < span[1]]


def on_threads(
    kernel: Callable[..., Any], args: tuple[Any, ...], state: tuple[Any, ...], n_threads: int,
    columns: tuple[int, int] | None = None,
) -> Any:  # fmt: skip
    """Call ``kernel(*args, first, last, *state)`` on several threads, each with a part of the columns.

    By default the columns are those of the first array of the state; pass ``columns`` (first, last) for some of them.
    Returns what the kernel returns, which must not depend on the columns.
    """
    parts = spans((0, state[0].shape[1]) if columns is None else columns, n_threads)
    if len(parts) == 1:
        return kernel(*args, *parts[0], *state)
    with ThreadPoolExecutor(len(parts)) as pool:
        calls = [pool.submit(kernel, *args, *part, *state) for part in parts]
        results = [call.result() for call in calls]
        return results[0]
