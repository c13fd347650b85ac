"""The optimum, the limit law of a fit and the law of its gap, against formulas by hand and repeated fits."""

from __future__ import annotations

import numpy as np
import pytest
from batch import draw_batch
from scipy.optimize import minimize
from scipy.stats import chi2
from small_problems import penalised, population, steps_around

import surefair as sf
from surefair.criteria import CRITERIA
from surefair.diagnostics import BoundaryConstraint, LocalOptima, StoppedEarly
from surefair.inference import theory
from surefair.learners.schedules import PolynomialDecay
from surefair.losses import LOSSES
from surefair.training import solver

CONSTRAINTS = [name for name, criterion in CRITERIA.items() if criterion.can_constrain]
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_optimum_is_in_the_coordinates_of_the_features(loss, fit_intercept):
    X, y, codes = population(seed=3, n=500)
    clf = sf.FairClassifier(criterion=None, loss=loss, alpha=0.0, fit_intercept=fit_intercept, n_replicates=0)
    clf.fit(X[:, :2], y, sensitive_features=codes[:, 0])
    rows = X if fit_intercept else X[:, :2]
    plain = minimize(lambda theta: LOSSES[loss].value(rows @ theta, y).mean(), np.zeros(rows.shape[1]), tol=1e-9)
    np.testing.assert_allclose(theory.optimum(clf, X[:, :2], y), plain.x, atol=1e-4)


@pytest.mark.parametrize("tolerance", [0.0, 0.05])
def test_the_optimum_satisfies_the_constraint_set(tolerance):
    X, y, codes = population(seed=4, n=500)
    X, group = X[:, :2], codes[:, 0]
    clf = sf.FairClassifier(tolerance=tolerance, n_replicates=0)
    clf.fit(X[100:], y[100:], sensitive_features=group[100:], constraint_set=(X[:100], y[:100], group[:100]))
    theta = theory.optimum(clf, X, y)
    covariance = np.cov(group[:100], X[:100] @ theta[:2], ddof=0)[0, 1]
    assert abs(covariance) == pytest.approx(tolerance, abs=1e-10)


@pytest.mark.parametrize("tolerance", [0.0, 0.05])
def test_the_optimum_satisfies_the_slabs_of_every_column(tolerance):
    X, y, codes = population(seed=4, n=600, sizes=(3, 2), D=4)
    X, groups = X[:, :4], {"race": codes[:, 0], "sex": codes[:, 1]}
    apart = X[:150], y[:150], {name: group[:150] for name, group in groups.items()}
    clf = sf.FairClassifier(tolerance=tolerance, n_replicates=0)
    clf.fit(X, y, sensitive_features=groups, constraint_set=apart)
    score = X[:150] @ theory.optimum(clf, X, y)[:4]
    members = [groups["race"][:150] == g for g in range(3)] + [groups["sex"][:150]]
    covariances = np.abs([np.cov(member, score, ddof=0)[0, 1] for member in members])
    assert covariances.max() == pytest.approx(tolerance, abs=1e-10)


# -- Several optima ----------------------------------------------------------------------------------------------------

DM = sf.datasets.SyntheticDM(seed=11)
ROWS = draw_batch(DM, 0, 4_000)
APART = draw_batch(DM, 1_000_000, 500)


def on_dm(criterion, **parameters):
    clf = sf.FairClassifier(criterion, n_replicates=0, random_state=0, **parameters)
    return clf.fit(ROWS.X, ROWS.y, sensitive_features=ROWS.group, constraint_set=(APART.X, APART.y, APART.group))


def objective_of(clf):
    """The whole objective over ROWS, kinks included, as a function of the coefficients of the features."""
    fit = clf.model_.trained
    X = fit.to_learner(ROWS.X)
    form = fit.learner.form
    return lambda theta: penalised(fit.learner.settings, form, np.linalg.solve(fit.W, theta), X, ROWS.y)


def test_of_two_optima_the_better_one_is_returned_with_a_warning():
    # soft false omission rates are both 0 where no row is rejected; the other optimum makes them equal elsewhere
    clf = on_dm("false_omission_rate", penalty=20.0)
    best, *others = theory.optima(clf, ROWS.X, ROWS.y)
    value_at = objective_of(clf)
    assert others
    for one in (best, *others):
        assert one.reached
        assert one.value == pytest.approx(value_at(one.theta), rel=1e-3)
        assert one.value >= best.value
        assert min(value_at(one.theta + step) for step in steps_around(3, 60)) >= value_at(one.theta) - 1e-6
    assert max(np.abs(one.theta - best.theta).max() for one in others) > 0.1
    with pytest.warns(LocalOptima, match=r"local optima, with values from .* apart.*the result is for the best one"):
        assert np.array_equal(theory.optimum(clf, ROWS.X, ROWS.y), best.theta)


def test_the_limit_law_is_taken_at_the_optimum_nearest_to_the_fit():
    apart, rows = draw_batch(DM, 0, 1_000), draw_batch(DM, 5_000_000, 4_000)
    clf = sf.FairClassifier("false_omission_rate", penalty=20.0, n_replicates=0, random_state=0)
    clf.fit(rows.X, rows.y, sensitive_features=rows.group, constraint_set=(apart.X, apart.y, apart.group))
    best, *others = theory.optima(clf, rows.X, rows.y)
    own = min((best, *others), key=lambda one: np.abs(one.theta - np.append(clf.coef_, clf.intercept_)).max())
    assert own is not best
    with pytest.warns(LocalOptima, match="the result is for that one"):
        law = theory.gap_law(clf, rows.X, rows.y, sensitive_features=rows.group, n=1_000, metric="demographic_parity")
    accepted = rows.X @ own.theta[:2] + own.theta[2] > 0.0
    assert law.mean == pytest.approx(accepted[rows.group == 0].mean() - accepted[rows.group == 1].mean())


@pytest.mark.parametrize("criterion", ["demographic_parity", "false_positive_rate", "equalized_odds"])
def test_where_all_starts_agree_there_is_one_optimum_and_no_warning(criterion):
    clf = on_dm(criterion, **({} if criterion == "demographic_parity" else {"penalty": 20.0}))
    (one,) = theory.optima(clf, ROWS.X, ROWS.y)
    assert one.reached
    assert np.array_equal(theory.optimum(clf, ROWS.X, ROWS.y), one.theta)
    fit = clf.model_.trained
    weight = np.ones(len(ROWS.y))
    alone = solver.solve(fit.learner.settings, fit.learner.form, fit.to_learner(ROWS.X), ROWS.y, weight)
    np.testing.assert_allclose(one.theta, fit.to_features(alone), rtol=1e-3)


@pytest.mark.parametrize("criterion", ["demographic_parity", "false_positive_rate"])
def test_a_warning_says_that_the_solver_stopped_early(criterion, monkeypatch):
    clf = on_dm(criterion, **({} if criterion == "demographic_parity" else {"penalty": 500.0}))
    monkeypatch.setattr(solver, "MAX_NEWTON", 0)
    monkeypatch.setattr(solver, "MAX_ITERATIONS", 1)
    assert not theory.optima(clf, ROWS.X, ROWS.y)[0].reached
    with pytest.warns(StoppedEarly, match="stopped before"):
        theory.optimum(clf, ROWS.X, ROWS.y)


# -- The limit law -----------------------------------------------------------------------------------------------------

POPULATION = draw_batch(DM, 2_000_000, 20_000)
EVERYTHING = {
    "unconstrained": {"criterion": None},
    "active slab": {"criterion": "demographic_parity"},
    "active slab with room": {"criterion": "demographic_parity", "tolerance": 0.1},
    "inactive slab": {"criterion": "demographic_parity", "tolerance": 10.0},
    "penalty": {"criterion": "false_positive_rate", "penalty": 20.0},
}
REPETITIONS = 100
TRAINED = 4_000


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


@pytest.mark.slow
@pytest.mark.parametrize("case", EVERYTHING)
def test_the_covariance_and_the_law_of_the_gap_agree_with_repeated_fits(case):
    clfs = [sampled(repetition, **EVERYTHING[case]) for repetition in range(REPETITIONS)]
    thetas = np.array([np.append(clf.coef_, clf.intercept_) for clf in clfs])
    covariance = of_population(theory.asymptotic_covariance, clfs[0])
    rank = np.linalg.matrix_rank(covariance, tol=1e-9 * np.abs(covariance).max())
    assert rank == (2 if case.startswith("active") else 3)
    # each ratio of variances is a chi-square number over its degrees of freedom; 15 % more because n is finite
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
    assert abs(gaps.mean() - law.mean) < law.sd  # steps leave a small bias


LEARNT = {
    "equality": {"tolerance": 0.0},
    "tolerance": {"tolerance": 0.1},
    "scores": {"surrogate": "scores"},
    "penalty": {"penalty": 5.0},
    "free": {"criterion": None, "loss": "squared_error"},
}


@pytest.mark.slow
@pytest.mark.parametrize("case", LEARNT)
def test_the_covariance_of_a_learnt_constraint_and_the_law_of_its_gap_agree_with_repeated_fits(case):
    rows = draw_batch(sf.datasets.SyntheticDI(seed=11), 0, 20_000)
    whole = {"sensitive_features": rows.group}
    thetas = []
    for repetition in range(REPETITIONS):
        part = np.random.default_rng([5, repetition]).integers(20_000, size=TRAINED)
        clf = sf.FairClassifier(**LEARNT[case], n_replicates=0, solver="one_pass", n_warmup=2_000, random_state=0)
        clf.fit(rows.X[part], rows.y[part], sensitive_features=rows.group[part])
        thetas.append(np.append(clf.coef_, clf.intercept_))
    thetas = np.array(thetas)
    covariance = theory.asymptotic_covariance(clf, rows.X, rows.y, **whole)
    low, high = chi2.ppf([0.0005, 0.9995], REPETITIONS - 1) / (REPETITIONS - 1) * [0.85, 1.15]
    ratio = TRAINED * thetas.var(axis=0, ddof=1) / np.diag(covariance)
    assert np.all((low < ratio) & (ratio < high)), ratio
    law = theory.gap_law(clf, rows.X, rows.y, **whole, n=TRAINED, method="sample")
    accepted = rows.X @ thetas[:, :2].T + thetas[:, 2] > 0.0
    first = rows.group == rows.group.min()
    gaps = accepted[first].mean(axis=0) - accepted[~first].mean(axis=0)
    assert low < gaps.var(ddof=1) / law.sd**2 < high
    assert abs(gaps.mean() - law.mean) < 0.5 * law.sd


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


@pytest.mark.slow
@pytest.mark.parametrize("criterion", CONSTRAINTS)
@pytest.mark.filterwarnings("ignore::surefair.diagnostics.LocalOptima")
def test_the_covariance_counts_a_row_of_weight_k_as_k_rows(criterion):
    clf, weight = on_dm(criterion), np.random.default_rng(1).integers(3, size=len(ROWS.y))
    weighted = theory.asymptotic_covariance(clf, ROWS.X, ROWS.y, sample_weight=weight)
    again = np.repeat(np.arange(len(ROWS.y)), weight)
    np.testing.assert_allclose(weighted, theory.asymptotic_covariance(clf, ROWS.X[again], ROWS.y[again]), rtol=0.01)


@every_loss
@pytest.mark.parametrize("tolerance", [0.0, 0.02])
def test_under_slabs_the_covariance_is_the_same_in_all_coordinates_and_zero_across_a_face(loss, tolerance):
    options = {"loss": loss.name, "alpha": 0.0, "tolerance": tolerance}
    whitened = on_dm("demographic_parity", **options)
    plain = on_dm("demographic_parity", step_size=PolynomialDecay(0.1, 0.6), **options)
    found = theory.asymptotic_covariance(whitened, ROWS.X, ROWS.y)
    np.testing.assert_allclose(found, theory.asymptotic_covariance(plain, ROWS.X, ROWS.y), rtol=1e-5)
    (x_tilde,) = plain.model_.fit.learner.form.vectors
    np.testing.assert_allclose(found @ x_tilde, 0.0, atol=1e-9 * np.abs(found).max())
    assert np.linalg.matrix_rank(found, tol=1e-9 * np.abs(found).max()) == 2


def test_a_warning_says_that_a_slab_only_touches_the_optimum():
    wide = on_dm("demographic_parity", tolerance=10.0)
    free = theory.asymptotic_covariance(wide, ROWS.X, ROWS.y)
    fit = wide.model_.trained
    level = np.abs(fit.learner.form.vectors @ np.linalg.solve(fit.W, theory.optimum(wide, ROWS.X, ROWS.y))).item()
    with pytest.warns(BoundaryConstraint, match="touches 1 slab"):
        touched = theory.asymptotic_covariance(
            on_dm("demographic_parity", tolerance=level), ROWS.X, ROWS.y
        )  # the law without the face
    np.testing.assert_allclose(touched, free, rtol=1e-6)
    outside = theory.asymptotic_covariance(on_dm("demographic_parity", tolerance=1.001 * level), ROWS.X, ROWS.y)
    np.testing.assert_allclose(outside, free, rtol=1e-6)
    inside = theory.asymptotic_covariance(on_dm("demographic_parity", tolerance=0.999 * level), ROWS.X, ROWS.y)
    assert np.linalg.matrix_rank(inside, tol=1e-9 * np.abs(inside).max()) == 2


# -- As the paper prints it --------------------------------------------------------------------------------------------


def by_hand(clf):
    """θ*, Hessian of the mean loss and covariance of its gradients, in the features' own coordinates."""
    X, theta = np.column_stack([ROWS.X, np.ones(len(ROWS.y))]), theory.optimum(clf, ROWS.X, ROWS.y)
    loss = LOSSES[clf.loss]
    slope = loss.derivative(X @ theta, ROWS.y)[:, None] * X
    return theta, (X.T * loss.curvature(X @ theta, ROWS.y)) @ X / len(X), np.cov(slope.T, ddof=0)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("step_size", ["auto", PolynomialDecay(0.1, 0.6)], ids=["auto", "paper"])
def test_under_a_slab_the_covariance_of_the_paper_is_as_printed(loss, step_size):
    clf = on_dm("demographic_parity", loss=loss, alpha=0.0, step_size=step_size)
    _, hessian, scores = by_hand(clf)
    z = APART.group - APART.group.mean()
    x_tilde = z @ np.column_stack([APART.X, np.ones(len(z))]) / len(z)
    P = np.eye(3) - np.outer(x_tilde, x_tilde) / (x_tilde @ x_tilde)
    printed = P @ np.linalg.inv(hessian) @ P @ scores @ P @ np.linalg.inv(hessian) @ P
    np.testing.assert_allclose(theory.paper_covariance(clf, ROWS.X, ROWS.y), printed, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("loss", "twice"), [("log_loss", 1.0), ("squared_error", 2.0)])
def test_with_a_penalty_the_covariance_of_the_paper_is_as_printed(loss, twice):
    clf = on_dm("false_positive_rate", loss=loss, alpha=0.0, penalty=3.0)
    theta, hessian, scores = by_hand(clf)
    X, z, wrong = np.column_stack([APART.X, np.ones(500)]), APART.group - APART.group.mean(), APART.y < 0
    score = -(X[wrong] @ theta)
    g = np.mean(z[wrong] * np.minimum(0.0, score))
    pull = 2.0 * g * np.mean((z[wrong] * (score < 0.0))[:, None] * -X[wrong], axis=0)
    middle = scores + (twice * 3.0) ** 2 * np.outer(pull, pull)
    printed = np.linalg.inv(hessian) @ middle @ np.linalg.inv(hessian)
    np.testing.assert_allclose(theory.paper_covariance(clf, ROWS.X, ROWS.y), printed, rtol=1e-6)


# -- The gap -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("criterion", [None, "false_positive_rate"])
@pytest.mark.parametrize("metric", sorted({*CONSTRAINTS} - {"equalized_odds", "false_negative_rate"}))
def test_the_delta_method_and_draws_from_the_limit_law_agree(criterion, metric):
    clf = on_dm(criterion, penalty=20.0)
    options = {"sensitive_features": POPULATION.group, "n": 4_000, "metric": metric}
    delta, sample = (of_population(theory.gap_law, clf, **options, method=method) for method in ("delta", "sample"))
    assert delta.mean == sample.mean
    assert sample.gaps.shape == (2000,)
    assert len(delta.gaps) == 0
    # 2,000 draws show a standard deviation to within 1.6 %; the rest allows for a gap that is not linear
    assert delta.sd == pytest.approx(sample.sd, rel=0.1)
    assert sample.sd == pytest.approx(sample.gaps.std(ddof=1))
    assert sample.gaps.mean() == pytest.approx(sample.mean, abs=0.5 * sample.sd)


def test_only_draws_show_the_spread_of_a_gap_without_a_first_derivative():
    # positive rows of both groups have the same distribution, so for any θ the gap is chance in this population
    clf, options = on_dm(None), {"sensitive_features": POPULATION.group, "n": 4_000, "metric": "false_negative_rate"}
    delta, sample = (of_population(theory.gap_law, clf, **options, method=method) for method in ("delta", "sample"))
    assert delta.sd < sample.sd < 0.01


def test_the_gap_law_shrinks_with_the_root_of_n_and_depends_on_the_seed():
    clf, options = on_dm(None), {"sensitive_features": POPULATION.group, "method": "sample"}
    few, many, other = (
        of_population(theory.gap_law, clf, n=n, random_state=seed, **options)
        for n, seed in ((2_000, 0), (32_000, 0), (2_000, 1))
    )
    assert few.sd == pytest.approx(4.0 * many.sd, rel=0.1)
    assert not np.array_equal(few.gaps, other.gaps)


def test_gap_law_refuses_what_it_cannot_do():
    clf, options = on_dm("demographic_parity"), {"sensitive_features": ROWS.group, "n": 100}
    for changed, message in [
        ({"metric": "equalized_odds"}, "2 rate"),
        ({"metric": "demographic_parity_ratio"}, "ratios"),
        ({"sensitive_features": np.arange(len(ROWS.y)) % 3}, r"\(3,\)"),
        ({"n": 0}, "n must be"),
        ({"method": "exact"}, "Unknown method"),
        ({"sensitive_features": None}, "sensitive_features is missing"),
    ]:
        with pytest.raises(ValueError, match=message):
            theory.gap_law(clf, ROWS.X, ROWS.y, **(options | changed))
