from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import random as random_sparse

from surefair import kernels
from surefair.criteria import CRITERIA, Comparisons, surrogate
from surefair.learners.multipliers import row_numbers
from surefair.learners.survey import Point, find_leverage, survey, survey_sparse
from surefair.losses import LOSSES

CUTS = [[], [1], [7, 8, 33]]
N, D = 60, 3


def dense_rows(low=0, high=N):
    rng = np.random.default_rng(0)
    X, y, weight = rng.normal(size=(N, D)), rng.choice([-1.0, 1.0], size=N), rng.exponential(size=N)
    return kernels.Weighed(X[low:high], y[low:high], weight[low:high], row_numbers(low, high - low), low)


def entries_of(rows, name="equalized_odds", kind="decisions"):
    comparisons = Comparisons.of(CRITERIA[name], kind, (2, 3))
    codes = np.random.default_rng(1).integers(2, size=(N, 2))
    first = rows.first_row
    return comparisons, comparisons.entries(rows.y, codes[first : first + len(rows.y)])


def surveyed(cuts, name="equalized_odds", kind="decisions", marked=()):
    rng = np.random.default_rng(2)
    comparisons, _ = entries_of(dense_rows(), name, kind)
    C = comparisons.n_cells
    point = Point(rng.normal(size=D), comparisons.kind, 0.7, *rng.normal(size=(2, C)), rng.normal(size=(C, D)))
    sizes = (D, D), (D, D), (D,), (C, D), (C, D), (C, 1 + D), (C,), (D + C + 1, D + C + 1)
    sums = tuple(np.zeros(size) for size in sizes)
    for low, high in zip([0, *cuts], [*cuts, N], strict=True):
        rows = dense_rows(low, high)
        some = np.isin(np.arange(low, high), marked)
        survey(rows, entries_of(rows, name, kind)[1], LOSSES["log_loss"], point, some, sums)
    return sums, point


@pytest.mark.parametrize("kind", ["decisions", "scores"])
@pytest.mark.parametrize("name", ["demographic_parity", "equalized_odds", "false_discovery_rate"])
def test_a_survey_does_not_depend_on_batches(name, kind):
    whole, _ = surveyed([], name, kind)
    for cuts in CUTS:
        for found, expected in zip(surveyed(cuts, name, kind)[0], whole, strict=True):
            assert np.array_equal(found, expected)


def test_a_survey_in_which_every_row_is_marked_has_the_sums_of_all_rows():
    (loss_bend, bend, drift, slopes, steep, size, seen, scatter), at = surveyed([], marked=np.arange(N))
    rows = dense_rows()
    _, entries = entries_of(rows)
    score = rows.X @ at.theta
    Z = rows.X - np.outer(score, at.theta) / (at.theta @ at.theta)
    _, slope, curl, narrow = surrogate(at.kind, entries.constant, entries.sign, score[:, None], at.scale)
    member = entries.cell[:, :, None] == np.arange(len(seen))
    weight = rows.weight[:, None, None] * member

    def by_cell(numbers, values):
        return np.einsum("iec,ie,ij->cj", weight, numbers, values)

    curvature = LOSSES["log_loss"].curvature(score, rows.y)
    along, curled = (np.einsum("iec,ie,c->i", member, numbers, at.pull) for numbers in (slope, curl))
    expected = [
        (loss_bend, np.triu((rows.X.T * rows.weight * curvature) @ rows.X)),
        (bend, np.triu((Z.T * rows.weight * curled) @ Z)),
        (drift, (rows.weight * along) @ rows.X),
        (slopes, by_cell(slope, Z)),
        (steep, by_cell(narrow, Z)),
        (size[:, 1:], by_cell(rows.weight[:, None] * slope**2, Z**2)),
        (size[:, 0], weight.sum(axis=(0, 1))),
        (seen, member.sum(axis=(0, 1))),
        (scatter[-1, -1], N),
    ]
    for found, numbers in expected:
        np.testing.assert_allclose(found, numbers, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("cuts", CUTS)
def test_a_survey_of_sparse_rows_does_not_depend_on_batches(cuts):
    def sums_of(cuts):
        rng = np.random.default_rng(3)
        X = random_sparse(N, 9, density=0.4, format="csr", random_state=4)
        scores, steady = rng.normal(size=N), rng.exponential(size=N)
        C = entries_of(dense_rows())[0].n_cells
        sums = np.zeros((C, 9)), np.zeros((2, 9)), np.zeros((C, 11)), np.zeros((C, 1)), np.zeros((2, 1))
        for low, high in zip([0, *cuts], [*cuts, N], strict=True):
            rows, part = dense_rows(low, high), X[low:high]
            batch = kernels.SparseBatch(part.indptr, part.indices, part.data, rows.y, rows.y, rows.y, low)
            none = np.empty(0)
            counting = kernels.Counting(none, steady[low:high], none, 0, True, scores[low:high])
            survey_sparse(batch, counting, entries_of(rows)[1], LOSSES["log_loss"], kernels.DECISIONS, 0.7, sums)
        return X, scores, steady, sums

    X, scores, steady, whole = sums_of([])
    for found, expected in zip(sums_of(cuts)[3], whole, strict=True):
        assert np.array_equal(found, expected)
    _, lever, size, seen, total = whole
    np.testing.assert_allclose(lever[0], X.T @ (steady * scores), rtol=1e-12)
    np.testing.assert_allclose(total[:, 0], [steady.sum(), steady @ scores**2], rtol=1e-12)
    assert seen.sum() == 2 * N  # one rate of each of two columns looks at a row
    np.testing.assert_allclose(size[:, 0].sum(), 2.0 * steady.sum(), rtol=1e-12)


def test_rows_of_great_leverage_are_found():
    rng = np.random.default_rng(5)
    A = rng.normal(size=(D, D))
    inverse, at = A @ A.T, rng.normal(size=D)
    rows = dense_rows()
    curvature = LOSSES["log_loss"].curvature(rows.X @ at, rows.y)
    leverage = rows.weight * curvature * np.einsum("ij,jk,ik->i", rows.X, inverse, rows.X)
    rough = 2.0 * rows.weight * curvature * (rows.X**2 @ np.diag(inverse))
    limit = float(np.median(leverage))
    found = find_leverage(rows, LOSSES["log_loss"], at, inverse, limit)
    assert np.array_equal(found, (leverage > limit) & (rough > limit))
    assert 0 < found.sum() < N
