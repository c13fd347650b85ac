"""The exact solver finds points that satisfy the conditions of an optimum, checked by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, nnls
from scipy.sparse import csr_matrix
from small_problems import PENALISED, constrain, penalised, population, problem, solve, steps_around

from surefair.criteria import CRITERIA, Slabs, linearise
from surefair.losses import LOSSES
from surefair.training import solver

CONSTRAINTS = [name for name, criterion in CRITERIA.items() if criterion.can_constrain]
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
SIZES = [(2,), (3,), (5,), (2, 3)]  # groups in each sensitive column
NOTHING = Slabs(np.zeros((0, 3)))


def gradient(s, theta, X, y, weight=None):
    """Gradient of the mean loss and the ridge."""
    return np.average(s.loss.derivative(X @ theta, y)[:, None] * X, axis=0, weights=weight) + s.alpha * theta


def check_on_faces(s, vectors, theta, X, y, weight=None, atol=1e-7):
    """Check by hand that θ is within all slabs, and that only the faces it lies on keep it from going downhill."""
    levels = vectors @ theta
    assert np.abs(levels).max(initial=0.0) <= s.tolerance + 1e-9
    on = np.abs(levels) >= s.tolerance - 1e-9
    outwards = np.sign(levels[on])[:, None] * vectors[on]
    if s.tolerance == 0.0:
        outwards = np.vstack([vectors, -vectors])  # an equality holds from both sides
    downhill = -gradient(s, theta, X, y, weight)
    _, left = nnls(outwards.T, downhill) if len(outwards) else (0, np.linalg.norm(downhill))
    assert left <= atol


@every_loss
def test_without_a_constraint_the_gradient_vanishes(loss):
    X, y, _ = population()
    s = problem(loss)
    for nothing in (NOTHING, Slabs(np.zeros((2, 3)))):
        np.testing.assert_allclose(gradient(s, solve(s, nothing, X, y), X, y), 0.0, atol=1e-7)


@every_loss
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_slabs_that_do_not_bind_change_nothing(loss, sizes):
    X, y, codes = population(sizes=sizes)
    free, slabs = solve(problem(loss), NOTHING, X, y), constrain("demographic_parity", X, y, codes)
    wide = problem(loss, tolerance=1.001 * np.abs(slabs.vectors @ free).max())
    assert np.array_equal(solve(wide, slabs, X, y), free)


@every_loss
@pytest.mark.parametrize("tolerance", [0.0, 0.01])
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_on_a_face_the_gradient_points_straight_out_of_the_slab(loss, tolerance, side):
    X, y, codes = population()
    slabs = Slabs(side * constrain("demographic_parity", X, y, codes).vectors)
    s = problem(loss, tolerance=tolerance)
    theta, (x_tilde,) = solve(s, slabs, X, y), slabs.vectors
    level = x_tilde @ theta
    assert abs(level) == pytest.approx(tolerance, abs=1e-12)
    downhill = -gradient(s, theta, X, y)
    along = downhill @ x_tilde / (x_tilde @ x_tilde)
    np.testing.assert_allclose(downhill - along * x_tilde, 0.0, atol=1e-7)
    if tolerance:
        assert along * level > 0.0  # only the constraint keeps it from going further


@every_loss
@examples(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.sampled_from([*SIZES, (4,), (3, 3)]),
    D=st.integers(2, 5),
    tolerance=st.sampled_from([0.0, 1e-3, 0.01, 0.05, 0.2]),
    weighted=st.booleans(),
)
def test_under_several_slabs_only_the_faces_it_lies_on_hold_the_optimum(loss, seed, sizes, D, tolerance, weighted):
    X, y, codes = population(seed, 120, sizes, D)
    weight = np.random.default_rng(seed).exponential(size=120) if weighted else None
    s, slabs = problem(loss, D + 1, tolerance=tolerance), constrain("demographic_parity", X, y, codes, weight)
    check_on_faces(s, slabs.vectors, solve(s, slabs, X, y, weight), X, y, weight)


@every_loss
@pytest.mark.parametrize("tolerance", [0.0, 0.01])
def test_repeated_and_empty_slabs_change_nothing(loss, tolerance):
    X, y, codes = population(sizes=(3,))
    s, slabs = problem(loss, tolerance=tolerance), constrain("demographic_parity", X, y, codes)
    again = Slabs(np.vstack([slabs.vectors, -slabs.vectors[:2], np.zeros((1, 3)), 0.5 * slabs.vectors[2:]]))
    theta = solve(s, again, X, y)
    check_on_faces(s, again.vectors, theta, X, y)
    np.testing.assert_allclose(theta, solve(s, slabs, X, y), atol=1e-6)


@every_loss
@pytest.mark.parametrize("tolerance", [0.0, 0.01])
def test_more_slabs_than_features_leave_a_corner(loss, tolerance):
    X, y, codes = population(seed=5, sizes=(5,))
    X = X[:, :2]
    s, slabs = problem(loss, 2, tolerance=tolerance), constrain("demographic_parity", X, y, codes)
    theta = solve(s, slabs, X, y)
    check_on_faces(s, slabs.vectors, theta, X, y)
    if tolerance == 0.0:
        np.testing.assert_allclose(theta, 0.0, atol=1e-12)


@pytest.mark.slow
@every_loss
@pytest.mark.parametrize("criterion", ["false_positive_rate", "false_negative_rate", "error_rate", "equalized_odds"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("penalty", [0.5, 20.0, 500.0])
def test_with_a_penalty_no_direction_goes_down(loss, criterion, sizes, penalty):
    # a stiff penalty has its optimum on kinks, where gradients jump, so the test looks around instead
    for seed in (1, 2, 3) if sizes == (2,) else (1,):
        X, y, codes = population(seed, sizes=sizes)
        s, form = problem(loss, penalty=penalty), constrain(criterion, X, y, codes)
        theta = solve(s, form, X, y)
        lowest = min(penalised(s, form, theta + step, X, y) for step in steps_around(3, 60))
        assert lowest >= penalised(s, form, theta, X, y) - 1e-6


@every_loss
@pytest.mark.parametrize("criterion", ["false_omission_rate", "false_discovery_rate"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("penalty", [0.1, 1.0, 10.0])
def test_with_a_penalty_of_soft_rates_no_direction_goes_down(loss, criterion, sizes, penalty):
    X, y, codes = population(1, sizes=sizes)
    s, form = problem(loss, penalty=penalty), constrain(criterion, X, y, codes)
    theta = solve(s, form, X, y)
    lowest = min(penalised(s, form, theta + step, X, y) for step in steps_around(3, 60))
    assert lowest >= penalised(s, form, theta, X, y) - 1e-6


@every_loss
@pytest.mark.parametrize("criterion", PENALISED)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("weighted", [False, True], ids=["equal weights", "weighted"])
def test_with_a_smooth_penalty_the_slope_vanishes(loss, criterion, sizes, weighted):
    X, y, codes = population(4, sizes=sizes)
    weight = np.random.default_rng(0).exponential(size=300) if weighted else None
    s, form = problem(loss, penalty=2.0, sharpness=5.0), constrain(criterion, X, y, codes, weight)
    theta = solve(s, form, X, y, weight)
    slope = approx_fprime(theta, lambda theta: penalised(s, form, theta, X, y, weight), 1e-7)
    np.testing.assert_allclose(slope, 0.0, atol=3e-6)


@every_loss
@pytest.mark.parametrize("criterion", PENALISED)
def test_a_sharper_penalty_has_its_optimum_nearer_to_the_kinked_one(loss, criterion):
    X, y, codes = population(4)
    s, form = problem(loss, penalty=2.0), constrain(criterion, X, y, codes)
    kinked = solve(s, form, X, y)
    off = [np.abs(solve(replace(s, sharpness=tau), form, X, y) - kinked).max() for tau in (1.0, 30.0, 1e3)]
    assert off[0] > off[1] > off[2]
    assert off[2] < 1e-3


@pytest.mark.parametrize("criterion", PENALISED)
@pytest.mark.parametrize("kind", [np.asarray, csr_matrix])
def test_a_constraint_set_of_zeros_changes_nothing(criterion, kind):
    X, y, codes = population()
    s, form = problem(LOSSES["log_loss"], penalty=5.0), constrain(criterion, kind(np.zeros((300, 3))), y, codes)
    assert np.array_equal(solve(s, form, X, y), solve(s, NOTHING, X, y))


def test_soft_rates_stay_finite_if_all_decisions_are_equal():
    X, y, codes = population(6)
    X[:, 2] = np.where(y > 0.0, 1.0, 0.2)  # a strong ridge leaves only this column, which decides the same for all rows
    for criterion in ("false_omission_rate", "false_discovery_rate"):
        for alpha in (1.0, 10.0, 1e3):
            s, form = problem(LOSSES["log_loss"], penalty=5.0, alpha=alpha), constrain(criterion, X, y, codes)
            assert np.isfinite(solve(s, form, X, y)).all()


@every_loss
def test_a_strong_penalty_pulls_the_groups_together(loss):
    X, y, codes = population(seed=1)
    form = constrain("false_negative_rate", X, y, codes)
    gaps = []
    for penalty in (0.0, 1.0, 20.0):
        theta = solve(problem(loss, penalty=penalty), form, X, y)
        gaps.append(abs(linearise(form, theta[:, None], None)[0].item()))
    assert gaps[0] > gaps[1] > gaps[2]


@every_loss
def test_columns_may_depend_on_each_other(loss):
    X, y, _ = population()
    X = np.column_stack([X, X[:, 0] + X[:, 1]])
    s = problem(loss, D=4, alpha=0.0)
    theta = solve(s, Slabs(np.zeros((0, 4))), X, y)
    np.testing.assert_allclose(gradient(s, theta, X, y), 0.0, atol=1e-6)


HARD = {
    "separable": lambda X, y: np.column_stack([y * (1.0 + np.abs(X[:, 0])), X[:, 1:]]),
    "an outlier": lambda X, y: np.vstack([X[:1] * 1e6, X[1:]]),
    "dependent": lambda X, y: X[:, [0, 0, 2]],
    "scaled": lambda X, y: X * [1e3, 1e-3, 1.0],
    "heavy tails": lambda X, y: np.sign(X) * np.expm1(2.0 * np.abs(X)),
}


@every_loss
@pytest.mark.parametrize("tolerance", [0.0, 0.01])
@pytest.mark.parametrize("case", HARD)
def test_newton_steps_and_trust_regions_find_the_same_optimum(loss, tolerance, case, monkeypatch):
    X, y, codes = population()
    X = HARD[case](X, y)
    s, slabs = problem(loss, tolerance=tolerance, alpha=1e-4), constrain("demographic_parity", X, y, codes)
    theta = solve(s, slabs, X, y)
    monkeypatch.setattr(solver, "MAX_NEWTON", 0)
    np.testing.assert_allclose(theta, solve(s, slabs, X, y), rtol=1e-5, atol=1e-7)


@every_loss
@pytest.mark.parametrize("criterion", CONSTRAINTS)
def test_a_row_of_weight_k_counts_as_k_rows(loss, criterion):
    X, y, codes = population(7, sizes=(3,))
    weight = np.random.default_rng(1).integers(4, size=300)
    s = problem(loss, penalty=2.0, tolerance=0.01)
    once = solve(s, constrain(criterion, X, y, codes, 0.5 * weight), X, y, 0.5 * weight)
    X, y, codes = (np.repeat(column, weight, axis=0) for column in (X, y, codes))
    np.testing.assert_allclose(once, solve(s, constrain(criterion, X, y, codes), X, y), atol=1e-5)


@every_loss
@pytest.mark.parametrize("criterion", CONSTRAINTS)
def test_sparse_rows_have_the_optimum_of_dense_ones(loss, criterion):
    X, y, codes = population(8, sizes=(3,))
    s = problem(loss, penalty=2.0)
    dense = solve(s, constrain(criterion, X, y, codes), X, y)
    sparse = solve(s, constrain(criterion, csr_matrix(X), y, codes), csr_matrix(X), y)
    np.testing.assert_allclose(sparse, dense, atol=1e-8)
