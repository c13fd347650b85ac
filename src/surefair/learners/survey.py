"""What rows show of the curvature of a problem and of the slopes of its constraint, at one point.

Learners add it to sums that all replicates share; ``NewtonState`` and ``PrimalDualState`` say what the sums are. Rows
are added one after the other, so that sums do not depend on how the rows come in batches: BLAS would round differently.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from surefair import kernels
from surefair.criteria import Entries, surrogate
from surefair.learners._settings import row_products
from surefair.learners.trace import sampled
from surefair.losses import Loss
from surefair.rows import FloatArray, sum_in_order

QUIET = np.errstate(over="ignore", invalid="ignore")  # a fit may diverge; a diagnostic reports that
DIAGONAL = 2.0  # how much larger a leverage may be than the diagonal of the inverse Hessian says


class Point(NamedTuple):
    """Where rows are surveyed: the coefficients, and the constraint there."""

    theta: FloatArray  # (D,)
    kind: int  # code of the surrogate
    scale: float  # 1 / (width · spread of the scores)
    pull: FloatArray  # (C,), what the slope of a row in each cell counts
    mean: FloatArray  # (C,), means of cells
    tangent: FloatArray  # (C, D), their slopes


@QUIET
def survey(
    rows: kernels.Weighed, entries: Entries, loss: Loss, at: Point, marked: NDArray[np.bool_],
    sums: tuple[FloatArray, ...],
) -> None:  # fmt: skip
    """Add what dense rows show of the Hessian, of the slopes of cells and of their noise, in place.

    Sums of squares take rows that are marked once. Of the others they take one row of every four, at places that follow
    no period, and count it four times.
    """
    X, weight = rows.X, rows.weight
    D, C = X.shape[1], len(at.pull)
    loss_bend, bend, drift, slopes, steep, size, seen, scatter = sums
    square = float(at.theta @ at.theta)
    score = row_products(X, at.theta)
    turns = at.kind == kernels.DECISIONS and square > 0.0
    Z = X - (score / square)[:, None] * at.theta if turns else X
    value, slope, curl, narrow = surrogate(at.kind, entries.constant, entries.sign, score[:, None], at.scale)
    cell, share = entries.cell, np.broadcast_to(weight[:, None], entries.cell.shape)
    kernels.add_by_cell(cell, share * slope, Z, slopes)
    kernels.add_by_cell(cell, share * narrow, Z, steep)
    noise = size[:, 1:].copy()
    kernels.add_by_cell(cell, (share * slope) ** 2, Z**2, noise)
    size[:, 1:] = noise
    np.add.at(size[:, 0], cell[cell >= 0], share[cell >= 0])
    np.add.at(seen, cell[(cell >= 0) & (share > 0.0)], 1.0)

    times = np.zeros(len(X))
    times[sampled(rows.first_row, len(X))] = kernels.BLOCK
    times[marked] = 1.0
    taken = np.flatnonzero(times)
    times, weight, score, X, Z = times[taken], weight[taken], score[taken], X[taken], Z[taken]
    influence = np.zeros((len(taken), D + C + 1))
    influence[:, D + C] = 1.0
    along, curled = np.zeros((2, len(taken)))  # slope and curvature of the constraint
    for e in range(cell.shape[1]):
        some = np.flatnonzero(cell[taken, e] >= 0)
        c, row = cell[taken[some], e], taken[some]
        along[some] += at.pull[c] * slope[row, e]
        curled[some] += at.pull[c] * curl[row, e]
        influence[some, D + c] = weight[some] * (value[row, e] - at.mean[c])
        influence[some, :D] -= (weight[some] * at.pull[c])[:, None] * at.tangent[c]
    gradient = loss.derivative(score, rows.y[taken])
    influence[:, :D] += weight[:, None] * (gradient[:, None] * X + along[:, None] * Z)
    kernels.add_by_cell(np.zeros((len(taken), 1), dtype=np.int64), (times * weight * along)[:, None], X, drift[None])
    kernels.add_outer(X, times * weight * loss.curvature(score, rows.y[taken]), loss_bend)
    kernels.add_outer(Z, times * weight * curled, bend)
    kernels.add_outer(influence, times, scatter)


@QUIET
def survey_sparse(
    batch: kernels.SparseBatch, counting: kernels.Counting, entries: Entries, loss: Loss, kind: int, scale: float,
    sums: tuple[FloatArray, ...],
) -> None:  # fmt: skip
    """Add what sparse rows show of the slopes of cells and of the curvature of the loss, in place."""
    slopes, lever, size, seen, total = sums
    weight, score = counting.steady, counting.scores
    X = csr_matrix((batch.values, batch.features, batch.starts), shape=(len(weight), lever.shape[1]))
    _add_sparse(X, weight * score, lever[0])
    _add_sparse(X.power(2), weight * loss.curvature(score, batch.y), lever[1])
    sizes = _running(total[0, 0], weight)
    squares = _running(total[1, 0], weight * score**2)
    total[:, 0] = sizes[-1], squares[-1]
    slope = surrogate(kind, entries.constant, entries.sign, score[:, None], scale)[1]
    cell = np.where(weight[:, None] > 0.0, entries.cell, -1)
    for c in np.unique(cell[cell >= 0]):
        row, e = np.nonzero(cell == c)
        some, m, bend = weight[row], score[row], slope[row, e]
        before, product = _running(size[c, 0], some), _running(size[c, 1], some * bend * m)
        turn = np.zeros(len(row))
        if kind == kernels.DECISIONS:
            known = (before[:-1] > 0.0) & (squares[row + 1] > 0.0)
            spread = np.divide(sizes[row + 1], squares[row + 1], out=turn.copy(), where=known)
            np.divide(product[:-1] * m * spread, before[:-1], out=turn, where=known)
        part = X[row]
        _add_sparse(part, some * bend, slopes[c])
        _add_sparse(part.power(2), some**2 * (bend**2 + turn**2), size[c, 2:])
        size[c, :2] = before[-1], product[-1]
        seen[c, 0] += len(row)


@QUIET
def find_leverage(
    rows: kernels.Weighed, loss: Loss, at: FloatArray, inverse: FloatArray, limit: float
) -> NDArray[np.bool_]:  # fmt: skip
    """Mark rows whose leverage ωℓ''xᵀH⁻¹x at a point is above a limit.

    The leverage is first computed with the diagonal of H⁻¹ alone, which takes far less work and nearly always shows
    that it is small.
    """
    X = rows.X
    factor = rows.weight * loss.curvature(row_products(X, at), rows.y)
    some = np.flatnonzero(DIAGONAL * factor * row_products(X**2, np.diag(inverse)) > limit)
    found = np.zeros(len(X), dtype=bool)
    if len(some):
        moved = np.empty((len(some), X.shape[1]))
        kernels.change_coordinates(X[some], inverse, moved)
        found[some] = factor[some] * sum_in_order((X[some] * moved).T) > limit
    return found


def _running(first: float, more: FloatArray) -> FloatArray:
    """Sums of the first number and 0, 1, 2, … more."""
    return np.cumsum(np.append(first, more))


def _add_sparse(X: csr_matrix, factor: FloatArray, out: FloatArray) -> None:
    """Add sparse rows times their factors (n,) to out (D,), row by row, in place."""
    np.add.at(out, X.indices, np.repeat(factor, np.diff(X.indptr)) * X.data)
