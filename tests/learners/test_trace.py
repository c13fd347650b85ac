from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from surefair.kernels import STRIDE
from surefair.learners.trace import FEATURES, fresh, merged, nothing, room, sampled, symmetric


def test_rows_in_a_periodic_order_are_sampled_evenly():
    at = sampled(0, 40_000)
    for period in (2, 3, 4, 8, 12, 16, 100):
        share = np.bincount(at % period, minlength=period) / len(at)
        np.testing.assert_allclose(share, 1.0 / period, rtol=0.05)


@pytest.mark.parametrize("cuts", [[0], [0, 7, 8, 500], range(0, 1000, 13)])
def test_the_sampled_rows_do_not_depend_on_batches(cuts):
    found = [low + sampled(low, high - low) for low, high in pairwise([*cuts, 1000])]
    assert np.array_equal(np.concatenate(found), sampled(0, 1000))
    assert len(sampled(0, 1000)) == 250


def test_a_fit_with_too_many_features_keeps_no_trace():
    assert len(fresh(FEATURES)) == 3
    assert len(fresh(FEATURES + 1)) == 0
    assert merged(fresh(2), nothing(), np.zeros(2), 5).shape == nothing().shape


def test_a_kernel_leaves_one_score_per_row_and_one_sum_per_stride_if_it_moves_the_fit():
    scores, sums = room(fresh(3), k=STRIDE - 1, n_rows=STRIDE + 1, n_features=3)
    assert (scores.shape, sums.shape) == ((STRIDE + 1,), (2, 3))
    for trace, columns in [(fresh(3), (32, 64)), (nothing(), None)]:
        scores, sums = room(trace, 0, 100, 3, columns)
        assert (len(scores), len(sums)) == (0, 0)


def test_a_symmetric_matrix_needs_only_its_upper_triangle():
    A = np.random.default_rng(0).normal(size=(4, 4))
    assert np.array_equal(symmetric(np.triu(A + A.T)), A + A.T)
