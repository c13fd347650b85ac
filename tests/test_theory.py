from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, minimize, nnls
from scipy.sparse import csr_matrix

import surefair as sf
from surefair import theory
from surefair.criteria import CRITERIA, Members, Slabs, linearise
from surefair.learners import Settings
from surefair.losses import LOSSES
from surefair.multipliers import Multipliers
from surefair.schedules import PolynomialDecay

every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
SIZES = [(2,), (3,), (5,), (2, 3)]  # groups in each sensitive column
NOTHING = Slabs(np.zeros((0, 3)))


def population(seed=0, n=300, sizes=(2,), D=2):
    """Rows whose features say more of the label in some groups than in others; the last one is 1."""
    rng = np.random.default_rng(seed)
    y, codes = 2.0 * rng.integers(2, size=n) - 1.0, np.stack([rng.integers(k, size=n) for k in sizes], axis=1)
    X = rng.normal(size=(n, D)) + 0.7 * (y * (1 + codes[:, 0]))[:, None]
    X[:, 1] += 0.5 * codes.sum(axis=1)
    return np.column_stack([X, np.ones(n)]), y, codes


def constrain(criterion, X, y, codes, weight=None):
    sizes = tuple(int(code.max()) + 1 for code in codes.T)
    return CRITERIA[criterion].constrain(X, y, Members(codes, sizes, np.ones(len(y)) if weight is None else weight))


def solve(s, form, X, y, weight=None):
    return theory.solve(s, form, X, y, np.ones(len(y)) if weight is None else weight)


def problem(loss, D=3, **changes):
    chosen = {"alpha": 1e-3, "tolerance": 0.0, "penalty": 0.0, "sharpness": None} | changes
    return Settings(
        loss=loss, schedule=PolynomialDecay(0.5, 0.501), multipliers=Multipliers("two_point", 0), start=np.zeros(D),
        robust=True, **chosen,
    )  # fmt: skip


def value(s, theta, X, y, weight=None):
    """Mean loss and ridge."""
    return np.average(s.loss.value(X @ theta, y), weights=weight) + s.alpha * (theta @ theta) / 2.0


def gradient(s, theta, X, y, weight=None):
    """Gradient of the mean loss and the ridge."""
    return np.average(s.loss.derivative(X @ theta, y)[:, None] * X, axis=0, weights=weight) + s.alpha * theta


def penalised(s, form, theta, X, y, weight=None):
    """The whole objective, with kinks or as rounded as asked for."""
    g, _ = linearise(form, theta[:, None], s.sharpness)
    return value(s, theta, X, y, weight) + s.effective_penalty * np.sum(g**2)


def steps_around(D, n=200):
    """Random steps from a point, of several lengths."""
    directions = np.random.default_rng(2).normal(size=(n, D))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    return [h * direction for direction in directions for h in (1e-4, 1e-3, 1e-2)]


def check_on_faces(s, vectors, theta, X, y, weight=None, atol=1e-7):
    """By hand: θ is within all slabs, and what keeps it from going downhill is the faces it lies on."""
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
        assert along * level > 0.0  # only the constraint keeps it from going on


@every_loss
@examples(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.sampled_from([*SIZES, (4,), (3, 3)]),
    D=st.integers(2, 5),
    tolerance=st.sampled_from([0.0, 1e-3, 0.01, 0.05, 0.2]),
    weighted=st.booleans(),
)
def test_under_several_slabs_only_the_faces_it_lies_on_keep_the_optimum(loss, seed, sizes, D, tolerance, weighted):
    X, y, codes = population(seed, 120, sizes, D)
    weight = np.random.default_rng(seed).exponential(size=120) if weighted else None
    s, slabs = problem(loss, D + 1, tolerance=tolerance), constrain("demographic_parity", X, y, codes, weight)
    check_on_faces(s, slabs.vectors, solve(s, slabs, X, y, weight), X, y, weight)


@every_loss
@pytest.mark.parametrize("tolerance", [0.0, 0.01])
def test_slabs_that_say_the_same_twice_or_nothing_are_no_obstacle(loss, tolerance):
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


@every_loss
@pytest.mark.parametrize("criterion", ["false_positive_rate", "false_negative_rate", "error_rate", "equalized_odds"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("penalty", [0.5, 20.0, 500.0])
def test_with_a_penalty_no_direction_goes_down(loss, criterion, sizes, penalty):
    # a stiff penalty has its optimum on kinks, where gradients jump: so look around instead
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


PENALISED = [name for name, criterion in CRITERIA.items() if criterion.form is not Slabs]


@every_loss
@pytest.mark.parametrize("criterion", PENALISED)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
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


def test_where_everybody_is_decided_alike_a_soft_rate_says_nothing_and_breaks_nothing():
    X, y, codes = population(6)
    X[:, 2] = np.where(y > 0.0, 1.0, 0.2)  # a strong ridge leaves this column, and with it one decision for all
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
def test_columns_that_depend_on_each_other_are_no_obstacle(loss):
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
def test_short_steps_and_trust_regions_lead_to_the_same_optimum(loss, tolerance, case, monkeypatch):
    X, y, codes = population()
    X = HARD[case](X, y)
    s, slabs = problem(loss, tolerance=tolerance, alpha=1e-4), constrain("demographic_parity", X, y, codes)
    theta = solve(s, slabs, X, y)
    monkeypatch.setattr(theory, "MAX_NEWTON", 0)
    np.testing.assert_allclose(theta, solve(s, slabs, X, y), rtol=1e-5, atol=1e-7)


@every_loss
@pytest.mark.parametrize("criterion", CRITERIA)
def test_weights_are_repetitions(loss, criterion):
    X, y, codes = population(7, sizes=(3,))
    weight = np.random.default_rng(1).integers(4, size=300)
    s = problem(loss, penalty=2.0, tolerance=0.01)
    once = solve(s, constrain(criterion, X, y, codes, 0.5 * weight), X, y, 0.5 * weight)
    X, y, codes = (np.repeat(column, weight, axis=0) for column in (X, y, codes))
    np.testing.assert_allclose(once, solve(s, constrain(criterion, X, y, codes), X, y), atol=1e-5)


@every_loss
@pytest.mark.parametrize("criterion", CRITERIA)
def test_sparse_rows_have_the_optimum_of_dense_ones(loss, criterion):
    X, y, codes = population(8, sizes=(3,))
    s = problem(loss, penalty=2.0)
    dense = solve(s, constrain(criterion, X, y, codes), X, y)
    sparse = solve(s, constrain(criterion, csr_matrix(X), y, codes), csr_matrix(X), y)
    np.testing.assert_allclose(sparse, dense, atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_optimum_of_a_classifier_is_given_in_the_features_own_coordinates(loss, fit_intercept):
    X, y, codes = population(seed=3, n=500)
    clf = sf.FairClassifier(criterion=None, loss=loss, alpha=0.0, fit_intercept=fit_intercept, n_replicates=0)
    clf.fit(X[:, :2], y, sensitive_features=codes[:, 0])
    rows = X if fit_intercept else X[:, :2]
    plain = minimize(lambda theta: LOSSES[loss].value(rows @ theta, y).mean(), np.zeros(rows.shape[1]), tol=1e-9)
    np.testing.assert_allclose(theory.optimum(clf, X[:, :2], y), plain.x, atol=1e-4)


@pytest.mark.parametrize("tolerance", [0.0, 0.05])
def test_optimum_of_a_classifier_obeys_its_constraint_set(tolerance):
    X, y, codes = population(seed=4, n=500)
    X, group = X[:, :2], codes[:, 0]
    clf = sf.FairClassifier(tolerance=tolerance, n_replicates=0)
    clf.fit(X[100:], y[100:], sensitive_features=group[100:], constraint_set=(X[:100], y[:100], group[:100]))
    theta = theory.optimum(clf, X, y)
    covariance = np.cov(group[:100], X[:100] @ theta[:2], ddof=0)[0, 1]
    assert abs(covariance) == pytest.approx(tolerance, abs=1e-10)


@pytest.mark.parametrize("tolerance", [0.0, 0.05])
def test_optimum_of_a_classifier_obeys_the_slabs_of_every_column(tolerance):
    X, y, codes = population(seed=4, n=600, sizes=(3, 2), D=4)
    X, groups = X[:, :4], {"race": codes[:, 0], "sex": codes[:, 1]}
    apart = X[:150], y[:150], {name: group[:150] for name, group in groups.items()}
    clf = sf.FairClassifier(tolerance=tolerance, n_replicates=0)
    clf.fit(X, y, sensitive_features=groups, constraint_set=apart)
    margin = X[:150] @ theory.optimum(clf, X, y)[:4]
    members = [groups["race"][:150] == g for g in range(3)] + [groups["sex"][:150]]
    covariances = np.abs([np.cov(member, margin, ddof=0)[0, 1] for member in members])
    assert covariances.max() == pytest.approx(tolerance, abs=1e-10)
