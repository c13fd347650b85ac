from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, minimize, nnls
from scipy.sparse import csr_matrix
from scipy.stats import chi2

import surefair as sf
from surefair.criteria import CRITERIA, Members, Slabs, linearise
from surefair.inference import theory
from surefair.learners import Settings
from surefair.learners.multipliers import Multipliers
from surefair.learners.schedules import PolynomialDecay
from surefair.losses import LOSSES

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


# -- Several optima ---------------------------------------------------------------------------------------------------

DM = sf.datasets.SyntheticDM(seed=11)
ROWS, APART = DM.rows(0, 4_000), DM.rows(1_000_000, 500)


def on_dm(criterion, **parameters):
    clf = sf.FairClassifier(criterion, n_replicates=0, random_state=0, **parameters)
    return clf.fit(ROWS.X, ROWS.y, sensitive_features=ROWS.group, constraint_set=(APART.X, APART.y, APART.group))


def whole(clf):
    """The fit, and the value of its whole objective over ROWS, kinks and all, at coefficients of the features."""
    fit, rows = clf._population(ROWS.X, ROWS.y, None)
    s, X = fit.learner.settings, fit.moved(rows.X)
    return lambda theta: penalised(s, fit.learner.form, np.linalg.solve(fit.W, theta), X, rows.y)


def test_a_penalty_with_two_optima_is_told_and_the_better_one_taken():
    # soft rates of false omissions are equal, and 0, where nobody is rejected; and elsewhere they are made equal
    clf = on_dm("false_omission_rate", penalty=20.0)
    best, *others = theory.optima(clf, ROWS.X, ROWS.y)
    value_at = whole(clf)
    assert others
    for one in (best, *others):
        assert one.reached
        assert one.value == pytest.approx(value_at(one.theta), rel=1e-3)
        assert one.value >= best.value
        assert min(value_at(one.theta + step) for step in steps_around(3, 60)) >= value_at(one.theta) - 1e-6
    assert max(np.abs(one.theta - best.theta).max() for one in others) > 0.1
    with pytest.warns(theory.LocalOptima, match=r"local optima, with values from .* apart.*the best is taken"):
        assert np.array_equal(theory.optimum(clf, ROWS.X, ROWS.y), best.theta)


def test_the_law_of_a_fit_is_that_around_its_own_optimum():
    apart, rows = DM.rows(0, 1_000), DM.rows(5_000_000, 4_000)
    clf = sf.FairClassifier("false_omission_rate", penalty=20.0, n_replicates=0, random_state=0)
    clf.fit(rows.X, rows.y, sensitive_features=rows.group, constraint_set=(apart.X, apart.y, apart.group))
    best, *others = theory.optima(clf, rows.X, rows.y)
    own = min((best, *others), key=lambda one: np.abs(one.theta - np.append(clf.coef_, clf.intercept_)).max())
    assert own is not best
    with pytest.warns(theory.LocalOptima, match="that one is taken"):
        law = theory.gap_law(clf, rows.X, rows.y, sensitive_features=rows.group, n=1_000, metric="demographic_parity")
    accepted = rows.X @ own.theta[:2] + own.theta[2] > 0.0
    assert law.mean == pytest.approx(accepted[rows.group == 0].mean() - accepted[rows.group == 1].mean())


@pytest.mark.parametrize("criterion", ["demographic_parity", "false_positive_rate", "equalized_odds"])
def test_where_all_starts_agree_there_is_one_optimum_and_no_warning(criterion):
    clf = on_dm(criterion, penalty=20.0)
    (one,) = theory.optima(clf, ROWS.X, ROWS.y)
    assert one.reached
    assert np.array_equal(theory.optimum(clf, ROWS.X, ROWS.y), one.theta)
    fit, rows = clf._population(ROWS.X, ROWS.y, None)
    alone = theory.solve(fit.learner.settings, fit.learner.form, fit.moved(rows.X), rows.y, rows.weight)
    np.testing.assert_allclose(one.theta, fit.back(alone), rtol=1e-3)


@pytest.mark.parametrize("criterion", ["demographic_parity", "false_positive_rate"])
def test_a_solver_that_runs_out_of_steps_says_so(criterion, monkeypatch):
    clf = on_dm(criterion, penalty=500.0)
    monkeypatch.setattr(theory, "MAX_NEWTON", 0)
    monkeypatch.setattr(theory, "MAX_ITERATIONS", 1)
    assert not theory.optima(clf, ROWS.X, ROWS.y)[0].reached
    with pytest.warns(theory.StoppedEarly, match="stopped before"):
        theory.optimum(clf, ROWS.X, ROWS.y)


# -- The limit law ----------------------------------------------------------------------------------------------------

POPULATION = DM.rows(2_000_000, 20_000)
EVERYTHING = {
    "unconstrained": {"criterion": None},
    "active slab": {"criterion": "demographic_parity"},
    "active slab with room": {"criterion": "demographic_parity", "tolerance": 0.1},
    "inactive slab": {"criterion": "demographic_parity", "tolerance": 10.0},
    "penalty": {"criterion": "false_positive_rate", "penalty": 20.0},
}
REPETITIONS, TRAINED = 200, 4_000


def sampled(repetition, **parameters):
    """A fit on rows drawn with replacement from the population."""
    rows = np.random.default_rng([5, repetition]).integers(len(POPULATION.y), size=TRAINED)
    clf = sf.FairClassifier(**parameters, n_replicates=0, random_state=0)
    return clf.fit(
        POPULATION.X[rows], POPULATION.y[rows], sensitive_features=POPULATION.group[rows],
        constraint_set=(APART.X, APART.y, APART.group),
    )  # fmt: skip


def of_population(function, clf, **options):
    return function(clf, POPULATION.X, POPULATION.y, **options)


@pytest.mark.parametrize("case", EVERYTHING)
def test_the_covariance_and_the_law_of_the_gap_are_those_of_repeated_fits(case):
    clfs = [sampled(repetition, **EVERYTHING[case]) for repetition in range(REPETITIONS)]
    thetas = np.array([np.append(clf.coef_, clf.intercept_) for clf in clfs])
    covariance = of_population(theory.asymptotic_covariance, clfs[0])
    rank = np.linalg.matrix_rank(covariance, tol=1e-9 * np.abs(covariance).max())
    assert rank == (2 if case.startswith("active") else 3)
    # each ratio of variances is a chi-square number over its degrees of freedom; the rest is for n being finite
    low, high = chi2.ppf([0.0005, 0.9995], REPETITIONS - 1) / (REPETITIONS - 1) * [0.85, 1.15]
    ratio = TRAINED * thetas.var(axis=0, ddof=1) / np.diag(covariance)
    assert np.all((low < ratio) & (ratio < high)), ratio
    metric = EVERYTHING[case]["criterion"] or "demographic_parity"
    law = of_population(theory.gap_law, clfs[0], sensitive_features=POPULATION.group, n=TRAINED, method="sample")
    first = POPULATION.group == POPULATION.group.min()
    looked_at = np.ones(len(first), dtype=bool) if metric == "demographic_parity" else POPULATION.y < 0
    accepted = POPULATION.X @ thetas[:, :2].T + thetas[:, 2] > 0.0
    gaps = accepted[looked_at & first].mean(axis=0) - accepted[looked_at & ~first].mean(axis=0)
    assert low < gaps.var(ddof=1) / law.sd**2 < high
    assert abs(gaps.mean() - law.mean) < law.sd  # a fit is biased by its steps, a little


@pytest.mark.parametrize("weighted", [False, True])
def test_unconstrained_squared_error_has_the_textbook_sandwich(weighted):
    clf = on_dm(None, loss="squared_error", alpha=0.0)
    weight = np.random.default_rng(0).exponential(size=len(ROWS.y)) if weighted else np.ones(len(ROWS.y))
    X = np.column_stack([ROWS.X, np.ones(len(ROWS.y))])
    share = weight / weight.sum()
    bread = np.linalg.inv((X.T * share) @ X)
    residual = ROWS.y - X @ (bread @ (X.T @ (share * ROWS.y)))
    expected = bread @ ((X.T * (share * residual**2)) @ X) @ bread
    found = theory.asymptotic_covariance(clf, ROWS.X, ROWS.y, sample_weight=weight)
    np.testing.assert_allclose(found, expected, rtol=1e-8)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.filterwarnings("ignore::surefair.diagnostics.LocalOptima")
def test_in_the_covariance_weights_are_repetitions(criterion):
    clf, weight = on_dm(criterion), np.random.default_rng(1).integers(3, size=len(ROWS.y))
    weighted = theory.asymptotic_covariance(clf, ROWS.X, ROWS.y, sample_weight=weight)
    again = np.repeat(np.arange(len(ROWS.y)), weight)
    np.testing.assert_allclose(weighted, theory.asymptotic_covariance(clf, ROWS.X[again], ROWS.y[again]), rtol=0.01)


@every_loss
@pytest.mark.parametrize("tolerance", [0.0, 0.02])
def test_under_slabs_the_covariance_is_the_same_in_all_coordinates_and_none_across_a_face(loss, tolerance):
    options = {"loss": loss.name, "alpha": 0.0, "tolerance": tolerance}
    whitened = on_dm("demographic_parity", **options)
    plain = on_dm("demographic_parity", step_size=PolynomialDecay(0.1, 0.6), **options)
    found = theory.asymptotic_covariance(whitened, ROWS.X, ROWS.y)
    np.testing.assert_allclose(found, theory.asymptotic_covariance(plain, ROWS.X, ROWS.y), rtol=1e-5)
    (x_tilde,) = plain._fit.learner.form.vectors
    np.testing.assert_allclose(found @ x_tilde, 0.0, atol=1e-9 * np.abs(found).max())
    assert np.linalg.matrix_rank(found, tol=1e-9 * np.abs(found).max()) == 2


@pytest.mark.parametrize("sizes", [(3,), (2, 3), (5,)], ids=str)
@pytest.mark.parametrize("tolerance", [0.0, 0.02])
def test_with_several_slabs_the_covariance_runs_along_all_faces_that_the_optimum_lies_on(sizes, tolerance):
    X, y, codes = population(2, 600, sizes, 4)
    s, slabs = problem(LOSSES["log_loss"], 5, tolerance=tolerance), constrain("demographic_parity", X, y, codes)
    theta = solve(s, slabs, X, y)
    slope = s.loss.derivative(X @ theta, y)[:, None] * X
    hessian = (X.T * s.loss.curvature(X @ theta, y)) @ X / len(y) + s.alpha * np.eye(5)
    found = theory.sandwich(s, slabs, theta, hessian, np.cov(slope.T, ddof=0))
    on = slabs.vectors[np.abs(slabs.vectors @ theta) >= tolerance - 1e-9]
    assert len(on) > 0
    np.testing.assert_allclose(on @ found, 0.0, atol=1e-9)
    assert np.linalg.matrix_rank(found, tol=1e-9) == 5 - np.linalg.matrix_rank(on, tol=1e-9)


def test_a_slab_that_only_touches_the_optimum_warns_and_others_do_not():
    wide = on_dm("demographic_parity", tolerance=10.0)
    free = theory.asymptotic_covariance(wide, ROWS.X, ROWS.y)
    fit, _ = wide._population(ROWS.X, ROWS.y, None)
    level = np.abs(fit.learner.form.vectors @ np.linalg.solve(fit.W, theory.optimum(wide, ROWS.X, ROWS.y))).item()
    with pytest.warns(theory.BoundaryConstraint, match="touches 1 slab"):
        touched = theory.asymptotic_covariance(
            on_dm("demographic_parity", tolerance=level), ROWS.X, ROWS.y
        )  # neither law: that without the face
    np.testing.assert_allclose(touched, free, rtol=1e-6)
    outside = theory.asymptotic_covariance(on_dm("demographic_parity", tolerance=1.001 * level), ROWS.X, ROWS.y)
    np.testing.assert_allclose(outside, free, rtol=1e-6)
    inside = theory.asymptotic_covariance(on_dm("demographic_parity", tolerance=0.999 * level), ROWS.X, ROWS.y)
    assert np.linalg.matrix_rank(inside, tol=1e-9 * np.abs(inside).max()) == 2


@every_loss
@pytest.mark.parametrize("criterion", PENALISED)
def test_a_smooth_penalty_enters_by_its_second_derivatives(loss, criterion):
    X, y, codes = population(4)
    s, form = problem(loss, penalty=2.0, sharpness=0.5), constrain(criterion, X, y, codes)
    theta = solve(s, form, X, y)
    objective = theory._Objective.on(s, X, y, np.ones(len(y)))

    def slope(theta, j):
        def at(theta):
            return s.effective_penalty * np.sum(linearise(form, theta[:, None], s.sharpness)[0] ** 2)

        return (at(theta + 1e-4 * np.eye(3)[j]) - at(theta - 1e-4 * np.eye(3)[j])) / 2e-4

    bend = np.array([approx_fprime(theta, slope, 1e-5, j) for j in range(3)])
    inverse = np.linalg.inv(objective.hessian(theta) + (bend + bend.T) / 2.0)
    found = theory.sandwich(s, form, theta, objective.hessian(theta), objective.scores(theta))
    np.testing.assert_allclose(found, inverse @ objective.scores(theta) @ inverse, rtol=2e-3, atol=1e-4)


# -- As printed -------------------------------------------------------------------------------------------------------


def by_hand(clf):
    """θ*, Hessian of the mean loss and covariance of its gradients, in the features' own coordinates."""
    X, theta = np.column_stack([ROWS.X, np.ones(len(ROWS.y))]), theory.optimum(clf, ROWS.X, ROWS.y)
    loss = LOSSES[clf.loss]
    slope = loss.derivative(X @ theta, ROWS.y)[:, None] * X
    return theta, (X.T * loss.curvature(X @ theta, ROWS.y)) @ X / len(X), np.cov(slope.T, ddof=0)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("step_size", ["auto", PolynomialDecay(0.1, 0.6)], ids=["auto", "paper"])
def test_under_a_slab_the_papers_covariance_is_as_printed(loss, step_size):
    clf = on_dm("demographic_parity", loss=loss, alpha=0.0, step_size=step_size)
    _, hessian, scores = by_hand(clf)
    z = APART.group - APART.group.mean()
    x_tilde = z @ np.column_stack([APART.X, np.ones(len(z))]) / len(z)
    P = np.eye(3) - np.outer(x_tilde, x_tilde) / (x_tilde @ x_tilde)
    printed = P @ np.linalg.inv(hessian) @ P @ scores @ P @ np.linalg.inv(hessian) @ P
    np.testing.assert_allclose(theory.paper_covariance(clf, ROWS.X, ROWS.y), printed, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("loss", "twice"), [("log_loss", 1.0), ("squared_error", 2.0)])
def test_with_a_penalty_the_papers_covariance_is_as_printed(loss, twice):
    clf = on_dm("false_positive_rate", loss=loss, alpha=0.0, penalty=3.0)
    theta, hessian, scores = by_hand(clf)
    X, z, wrong = np.column_stack([APART.X, np.ones(500)]), APART.group - APART.group.mean(), APART.y < 0
    margin = -(X[wrong] @ theta)
    g = np.mean(z[wrong] * np.minimum(0.0, margin))
    pull = 2.0 * g * np.mean((z[wrong] * (margin < 0.0))[:, None] * -X[wrong], axis=0)
    middle = scores + (twice * 3.0) ** 2 * np.outer(pull, pull)
    printed = np.linalg.inv(hessian) @ middle @ np.linalg.inv(hessian)
    np.testing.assert_allclose(theory.paper_covariance(clf, ROWS.X, ROWS.y), printed, rtol=1e-6)


# -- The gap ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", [None, "false_positive_rate"])
@pytest.mark.parametrize("metric", [name for name in CRITERIA if name not in ("equalized_odds", "false_negative_rate")])
def test_the_delta_method_and_draws_from_the_limit_law_agree(criterion, metric):
    clf = on_dm(criterion, penalty=20.0)
    options = {"sensitive_features": POPULATION.group, "n": 4_000, "metric": metric}
    delta, sample = (of_population(theory.gap_law, clf, **options, method=method) for method in ("delta", "sample"))
    assert delta.mean == sample.mean
    assert sample.gaps.shape == (2000,)
    assert len(delta.gaps) == 0
    # of 2,000 draws, a standard deviation is known to 1.6 %; the rest is for the gap not being linear
    assert delta.sd == pytest.approx(sample.sd, rel=0.1)
    assert sample.sd == pytest.approx(sample.gaps.std(ddof=1))
    assert sample.gaps.mean() == pytest.approx(sample.mean, abs=0.5 * sample.sd)


def test_where_no_first_derivative_moves_the_gap_only_draws_see_it_move():
    # positive rows of both groups are distributed alike: whatever θ, the gap is chance, and of this population only
    clf, options = on_dm(None), {"sensitive_features": POPULATION.group, "n": 4_000, "metric": "false_negative_rate"}
    delta, sample = (of_population(theory.gap_law, clf, **options, method=method) for method in ("delta", "sample"))
    assert delta.sd < sample.sd < 0.01


def test_the_gap_law_shrinks_with_the_root_of_n_and_has_its_seed():
    clf, options = on_dm(None), {"sensitive_features": POPULATION.group, "method": "sample"}
    few, many, other = (
        of_population(theory.gap_law, clf, n=n, random_state=seed, **options)
        for n, seed in ((2_000, 0), (32_000, 0), (2_000, 1))
    )
    assert few.sd == pytest.approx(4.0 * many.sd, rel=0.1)
    assert not np.array_equal(few.gaps, other.gaps)


def test_gap_laws_of_other_things_are_refused():
    clf, options = on_dm("demographic_parity"), {"sensitive_features": ROWS.group, "n": 100}
    for changed, message in [
        ({"metric": "equalized_odds"}, "2 rate"),
        ({"metric": "demographic_parity_ratio"}, "ratios"),
        ({"sensitive_features": np.arange(len(ROWS.y)) % 3}, r"\(3,\)"),
        ({"n": 0}, "n must be"),
        ({"method": "exact"}, "Unknown method"),
        ({"sensitive_features": None}, "sensitive_features is needed"),
    ]:
        with pytest.raises(ValueError, match=message):
            theory.gap_law(clf, ROWS.X, ROWS.y, **(options | changed))
