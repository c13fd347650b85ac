"""Uncertainty of the coefficients without replicates, computed from the trace of a fit.

Most tests are about SGD under a constraint that a set of rows fixes; those of a learnt constraint come last.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from batch import draw_batch
from scipy.sparse import csr_matrix
from scipy.special import expit
from scipy.stats import binom, norm

import surefair as sf
from surefair.inference import theory
from surefair.inference.coefficients import COVARIANCE_METHODS, plug_in_covariance, plug_in_moments, scaling
from surefair.inference.covariance import random_scaling_quantile
from surefair.inference.sandwich import sandwich
from surefair.kernels import STRIDE
from surefair.learners.stochastic_newton import BLOCK
from surefair.learners.trace import FEATURES, sampled
from surefair.losses import LOSSES
from surefair.parallel import fit_shards

pytestmark = pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")  # few rows and replicates

PROBLEMS = {
    "nothing": {"criterion": None},
    "a subspace": {"criterion": "demographic_parity", "tolerance": 0.0},
    "slabs": {"criterion": "demographic_parity", "tolerance": 0.05},
    "a penalty": {"criterion": "false_positive_rate"},
}
every_problem = pytest.mark.parametrize("params", PROBLEMS.values(), ids=PROBLEMS)
every_loss = pytest.mark.parametrize("loss", LOSSES)


def rows(n, seed=0, d=3):
    """Rows of a logistic model with correlated features, and a group that depends on one of them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ (np.eye(d) + 0.2 / d)
    y = (rng.random(n) < expit(X @ np.linspace(0.0, 1.0, d))).astype(int)
    return X, y, (X[:, 0] + rng.normal(size=n) > 0.0).astype(int)


def classifier(params, **more):
    return sf.FairClassifier(**({"n_replicates": 3, "random_state": 0} | params | more))


def fixed(clf, X, y, z, n=200):
    """Fit under a constraint that the first n rows fix."""
    return clf.fit(X[n:], y[n:], sensitive_features=z[n:], constraint_set=(X[:n], y[:n], z[:n]))


@every_problem
@every_loss
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_moments_and_path_equal_those_of_single_steps(params, loss, weighted):
    X, y, z = rows(500)
    weight = np.random.default_rng(1).exponential(size=500) if weighted else np.ones(500)
    n_apart = 100
    given = X[:n_apart], y[:n_apart], z[:n_apart], weight[:n_apart]
    more = {"sensitive_features": z[n_apart:], "sample_weight": weight[n_apart:], "constraint_set": given}
    clf = classifier(params, loss=loss).fit(X[n_apart:], y[n_apart:], **more)
    fit = clf.model_.fit
    learner, moved, n = fit.learner, fit.to_learner(X[n_apart:]), 400
    signs, relative = 2.0 * y[n_apart:] - 1.0, weight[n_apart:] * np.arange(1, n + 1) / np.cumsum(weight[n_apart:])
    state, means, met = learner.init(1), [], []
    for k in range(n):
        now = learner.step(state, moved[k : k + 1], signs[k : k + 1], relative[k : k + 1])
        means.append(learner.mean(now)[:, 0])
        dual = hasattr(state, "w")  # dual averaging averages the iterate before the row, and SGD the one after it
        met.append((k + 1) * means[k] - k * means[k - 1] if dual and k else state.theta[:, 0] if not dual else means[0])
        state = now
    at = sampled(0, n)
    scores = np.einsum("ij,ij->i", moved, np.array(met))[at]
    x, w, loss = moved[at], relative[at], LOSSES[loss]
    gradients = (w * loss.derivative(scores, signs[at]))[:, None] * x
    hessian = (x.T * (w * loss.curvature(scores, signs[at]))) @ x / len(at) + clf.alpha * np.eye(x.shape[1])
    found = plug_in_moments(fit)
    np.testing.assert_allclose(found[0], hessian, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found[1], np.cov(gradients.T, bias=True), rtol=1e-9, atol=1e-12)
    points = np.arange(STRIDE, n + 1, STRIDE)
    path = points[:, None] * (np.array(means)[points - 1] - means[-1])
    V = path.T @ path / n / len(points)  # n⁻² Σ j² (θ̄_j - θ̄_n)², each point for n / points rows
    W = np.diag(fit.W) if fit.W.ndim == 1 else fit.W
    np.testing.assert_allclose(scaling(fit), W @ V @ W.T, rtol=1e-8, atol=1e-12)


def test_the_moments_of_a_long_pass_are_near_those_at_its_mean():
    X, y, z = rows(60_000)
    fit = fixed(classifier({"criterion": None}), X, y, z).model_.fit
    moved, signs = fit.to_learner(X), 2.0 * y - 1.0
    scores, loss = moved @ fit.learner.mean(fit.state)[:, 0], fit.problem.loss
    gradients, bends = loss.derivative(scores, signs), loss.curvature(scores, signs)
    hessian, covariance = plug_in_moments(fit)
    for found, each in ((hessian - fit.problem.alpha * np.eye(4), bends), (covariance, gradients**2)):
        squares = each[:, None, None] * moved[:, :, None] * moved[:, None, :]
        error = squares.std(axis=0) / np.sqrt(15_000)  # standard error of a mean over a quarter of the rows
        assert (np.abs(found - squares.mean(axis=0)) < 5.0 * error).all()


# -- Intervals ---------------------------------------------------------------------------------------------------------


def test_random_scaling_covers_the_optimum():
    # with steps this long, iterates 150 rows apart are nearly independent; "auto" needs many more rows
    n, repetitions, d = 4_000, 200, 3
    theta, inside = np.linspace(0.0, 1.0, d), np.zeros(d)
    for seed in range(repetitions):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, d))
        y = (rng.random(n) < expit(X @ theta)).astype(int)
        clf = sf.FairClassifier(
            None, n_replicates=0, alpha=0.0, fit_intercept=False, step_size=sf.PolynomialDecay(2.0, 0.501),
            n_warmup=1, random_state=seed,
        ).fit(X, y)  # fmt: skip
        half = random_scaling_quantile(0.95) * np.sqrt(np.diag(scaling(clf.model_.fit)) / clf.n_rows_)
        inside += np.abs(clf.coef_[0] - theta) <= half
    low, high = binom.ppf([5e-4 / d, 1.0 - 5e-4 / d], repetitions, 0.95)
    assert (low <= inside).all()
    assert (inside <= high).all()


@every_problem
@pytest.mark.parametrize("step_size", ["auto", sf.PolynomialDecay(0.5, 0.6)], ids=["whitened", "original coordinates"])
def test_intervals_without_replicates_follow_the_formulas(params, step_size):
    X, y, z = rows(1_200)
    clf = fixed(classifier(params, step_size=step_size, n_replicates=0), X, y, z)
    fit, n = clf.model_.fit, 1_000
    W = np.diag(fit.W) if fit.W.ndim == 1 else fit.W
    settings, form = fit.learner.settings, fit.learner.form
    at = fit.learner.iterate(fit.state) if hasattr(fit.learner, "iterate") else fit.learner.mean(fit.state)
    covariance = sandwich(settings, form, at[:, 0], *plug_in_moments(fit))
    expected = {
        "plug_in": norm.ppf(0.95) * np.sqrt(np.diag(W @ covariance @ W.T) / n),
        "random_scaling": random_scaling_quantile(0.9) * np.sqrt(np.diag(scaling(fit)) / n),
    }
    for method, half in expected.items():
        found = clf.coef_interval(confidence_level=0.9, method=method)
        assert np.array_equal(found["estimate"], np.append(clf.coef_, clf.intercept_))
        np.testing.assert_allclose(found["high"] - found["estimate"], half, rtol=1e-9)
        np.testing.assert_allclose(found["estimate"] - found["low"], half, rtol=1e-9)
        assert found["feature"].tolist() == ["x0", "x1", "x2", "intercept"]


@pytest.mark.parametrize("method", COVARIANCE_METHODS)
def test_a_coefficient_that_the_constraint_fixes_has_no_spread(method):
    X, y, z = rows(2_000)
    X -= np.outer(z, X[z == 1].mean(axis=0) - X[z == 0].mean(axis=0))  # only the first feature depends on the group
    X[:, 0] += z
    clf = classifier(PROBLEMS["a subspace"]).fit(X, y, sensitive_features=z, constraint_set=(X, y, z))
    found = clf.coef_interval(method=method)
    assert found["estimate"][0] == pytest.approx(0.0, abs=1e-9)
    half = found["high"] - found["estimate"]
    assert 0.0 <= half[0] < 1e-6
    assert (half[1:] > 1e-3).all()


@pytest.mark.parametrize("method", COVARIANCE_METHODS)
def test_a_fit_that_diverged_has_no_limits(method):
    X, y, _ = rows(500)
    with pytest.warns(RuntimeWarning, match="diverged"):
        clf = classifier({"criterion": None}, loss="squared_error", step_size=sf.PolynomialDecay(1e9, 0.5)).fit(X, y)
    found = clf.coef_interval(method=method)
    assert not np.isfinite(found[["low", "high"]].to_numpy()).any()


def covered(draw, optimum, repetitions, **params):
    """How many 95 % plug-in intervals contain each coefficient of the optimum."""
    inside, clf = 0, None
    for seed in range(repetitions):
        X, y, z, given = draw(seed)
        clf = sf.FairClassifier(n_replicates=0, random_state=seed, **params)
        clf.fit(X, y, sensitive_features=z, constraint_set=given)
        optimum = optimum(clf) if callable(optimum) else optimum
        found = clf.coef_interval(method="plug_in")
        inside = inside + ((found["low"] <= optimum) & (optimum <= found["high"])).to_numpy()
    return inside


@pytest.mark.slow
@pytest.mark.parametrize("params", [{"criterion": None}, {"tolerance": 5.0}], ids=["free", "far inside a slab"])
def test_plug_in_intervals_cover_the_optimum_without_a_constraint(params):
    repetitions, theta = 300, np.append(np.linspace(0.0, 1.0, 3), 0.0)

    def draw(seed):
        rng = np.random.default_rng([7, seed])
        X = rng.normal(size=(5_000, 3)) @ (np.eye(3) + 0.3)
        y = (rng.random(5_000) < expit(X @ theta[:3])).astype(int)
        return X[1_000:], y[1_000:], np.arange(4_000) % 2, (X[:1_000], y[:1_000], np.arange(1_000) % 2)

    inside = covered(draw, theta, repetitions, alpha=0.0, **params)
    low, high = binom.ppf([5e-4 / 4, 1.0 - 5e-4 / 4], repetitions, 0.95)
    assert (low <= inside).all()
    assert (inside <= high).all()


@pytest.mark.slow
@pytest.mark.parametrize("tolerance", [0.0, 0.01], ids=["a subspace", "a face"])
def test_plug_in_intervals_cover_the_optimum_under_a_slab(tolerance):
    repetitions, n = 200, 50_000
    population, apart = (
        draw_batch(sf.datasets.SyntheticDI(seed=seed), 0, size) for seed, size in ((11, n), (12, 1_000))
    )

    def draw(seed):
        at = np.random.default_rng([8, seed]).integers(n, size=4_000)
        return population.X[at], population.y[at], population.group[at], (apart.X, apart.y, apart.group)

    def optimum(clf):
        return theory.optimum(clf, population.X, population.y)

    inside = covered(draw, optimum, repetitions, tolerance=tolerance)
    low, high = binom.ppf([5e-4 / 3, 1.0 - 5e-4 / 3], repetitions, 0.95)
    assert (low <= inside).all()
    assert (inside <= high).all()


def test_the_plug_in_covariance_is_zero_across_a_face_that_the_average_only_approaches():
    X, y, z = rows(5_000)
    clf = fixed(classifier({"tolerance": 0.06}), X, y, z, 1_000)
    fit = clf.model_.fit
    across, inverse = fit.learner.form.vectors[0], np.linalg.inv(fit.W)
    assert abs(across @ fit.learner.mean(fit.state)[:, 0]) < 0.06 - 1e-5
    assert abs(across @ fit.learner.iterate(fit.state)[:, 0]) == pytest.approx(0.06)
    covariance = inverse @ plug_in_covariance(fit) @ inverse.T
    assert across @ covariance @ across < 1e-12 * (across @ across) * np.trace(covariance)


# -- Batches, merging, saving ------------------------------------------------------------------------------------------


@every_problem
def test_bits_do_not_depend_on_batches_threads_or_replicates(params):
    X, y, z = rows(900)
    whole = classifier(params, n_replicates=300).fit(
        X[200:], y[200:], sensitive_features=z[200:], constraint_set=(X[:200], y[:200], z[:200])
    )
    parts = classifier(params, n_replicates=40, n_jobs=2)
    for low, high in [(200, 201), (201, 333), (333, 900)]:
        apart = {"constraint_set": (X[:200], y[:200], z[:200])} if low == 200 else {}
        parts.partial_fit(X[low:high], y[low:high], sensitive_features=z[low:high], classes=[0, 1], **apart)
    assert np.array_equal(whole.model_.fit.state.trace, parts.model_.fit.state.trace)
    assert np.array_equal(scaling(whole.model_.fit), scaling(parts.model_.fit))


@every_problem
def test_two_shards_merge_to_the_moments_of_all_rows(params):
    X, y, z = rows(1_800)
    apart = X[:200], y[:200], z[:200]
    a, b = (
        classifier(params, random_state=seed).fit(X[s], y[s], sensitive_features=z[s], constraint_set=apart)
        for seed, s in enumerate((slice(200, 903), slice(903, 1_800)))
    )
    taken = [len(sampled(0, len(rows))) for rows in (X[200:903], X[903:])]
    separate = [plug_in_moments(clf.model_.fit) for clf in (a, b)]
    a.merge(b)
    hessian = np.average([hessian for hessian, _ in separate], axis=0, weights=taken)
    np.testing.assert_allclose(plug_in_moments(a.model_.fit)[0], hessian, rtol=1e-12, atol=1e-15)
    assert np.linalg.eigvalsh(scaling(a.model_.fit))[0] > -1e-12
    a.partial_fit(X[200:300], y[200:300], sensitive_features=z[200:300])
    assert np.isfinite(scaling(a.model_.fit)).all()


@every_problem
def test_a_saved_classifier_keeps_the_trace(params, tmp_path):
    X, y, z = rows(700)
    given = X[:200], y[:200], z[:200]
    clf = classifier(params).partial_fit(X[200:450], y[200:450], sensitive_features=z[200:450], constraint_set=given)
    sf.save(clf, tmp_path / "clf.npz")
    again = sf.load(tmp_path / "clf.npz")
    for fit in (clf, again):
        fit.partial_fit(X[450:], y[450:], sensitive_features=z[450:])
    assert np.array_equal(again.model_.fit.state.trace, clf.model_.fit.state.trace)
    assert np.array_equal(scaling(again.model_.fit), scaling(clf.model_.fit))


def test_a_trace_does_not_grow_with_rows():
    X, y, z = rows(3_000)
    clf, sizes = classifier(PROBLEMS["slabs"]), set()
    for low in range(0, 3_000, 500):
        part = slice(low, low + 500)
        given = {} if low else {"constraint_set": (X[:200], y[:200], z[:200])}
        clf.partial_fit(X[part], y[part], sensitive_features=z[part], classes=[0, 1], **given)
        sizes.add(clf.model_.fit.state.trace.nbytes)
    assert sizes == {3 * 6 * 6 * 8}


def test_a_fit_without_rows_has_no_covariance():
    X, y, z = rows(202)
    clf = classifier(PROBLEMS["slabs"], step_size=sf.PolynomialDecay(0.5, 0.6), n_warmup=200)
    clf.partial_fit(X[:200], y[:200], sensitive_features=z[:200], classes=[0, 1])
    for ask in (plug_in_moments, scaling):
        with pytest.raises(ValueError, match="received none yet"):
            ask(clf.model_.fit)
    clf.partial_fit(X[200:], y[200:], sensitive_features=z[200:])
    with pytest.raises(ValueError, match="Random scaling needs at least 16 rows after the warm-up rows; received 2"):
        scaling(clf.model_.fit)


@pytest.mark.parametrize("kind", ["sparse", "wide"])
def test_without_a_trace_the_error_says_why(kind):
    X, y, z = rows(600, d=130)
    if kind == "wide":
        clf, reason = fixed(classifier(PROBLEMS["slabs"]), X, y, z), f"at most {FEATURES} features.*with 131 features"
    else:
        X = csr_matrix(np.hstack([X, np.zeros((600, 900))]))
        clf = classifier(PROBLEMS["nothing"], solver="one_pass", n_warmup=200).fit(X, y)
        reason = "more than 1,000 features; received 1,031 features"
    for method in COVARIANCE_METHODS:
        with pytest.raises(ValueError, match=reason):
            clf.coef_interval(method=method)


# -- A constraint that is learnt from all rows -------------------------------------------------------------------------

LEARNT = PROBLEMS | {"a penalty": {"criterion": "false_positive_rate", "penalty": 2.0}}
every_learnt = pytest.mark.parametrize("params", LEARNT.values(), ids=LEARNT)


def newton(params, **more):
    return classifier(params, solver="one_pass", n_warmup=200, **more)


@every_learnt
def test_random_scaling_of_a_learnt_constraint_follows_its_formula(params):
    """It compares the fit after each block of rows, less what the warm-up rows contribute, with the last fit."""
    X, y, z = rows(1_000)
    whole = newton(params).fit(X, y, sensitive_features=z)
    clf = newton(params).partial_fit(X[:200], y[:200], sensitive_features=z[:200])
    fits = [clf.model_.coefficients]
    ends = [*range(200 + BLOCK, 1_001, BLOCK)]
    for low, high in pairwise([200, *ends]):
        clf.partial_fit(X[low:high], y[low:high], sensitive_features=z[low:high])
        fits.append(clf.model_.coefficients)
    walked = np.array([n * fit - 200 * fits[0] for n, fit in zip(ends, fits[1:], strict=True)])
    assert ends[-1] == 1_000
    left = walked - np.outer((np.array(ends) - 200) / 800, walked[-1])
    np.testing.assert_allclose(scaling(whole.model_.fit), left.T @ left / len(ends) / 800, rtol=1e-6, atol=1e-12)


@every_learnt
def test_covariances_of_a_learnt_constraint_do_not_depend_on_batches_threads_or_replicates(params, tmp_path):
    X, y, z = rows(900)
    whole = newton(params, n_replicates=300).fit(X, y, sensitive_features=z)
    parts = newton(params, n_replicates=40, n_jobs=2)
    for low, high in [(0, 1), (1, 333), (333, 900)]:
        parts.partial_fit(X[low:high], y[low:high], sensitive_features=z[low:high], classes=[0, 1])
        sf.save(parts, tmp_path / "clf.npz")
        parts = sf.load(tmp_path / "clf.npz")
    for method in COVARIANCE_METHODS:
        assert whole.coef_interval(method=method).equals(parts.coef_interval(method=method))


@every_learnt
def test_covariances_of_merged_shards_are_near_those_of_one_pass(params):
    X, y, z = rows(30_000)
    one = classifier(params, solver="one_pass", n_warmup=4_000, n_replicates=0).fit(X, y, sensitive_features=z)
    first, *parts = (
        (X[part], y[part], z[part]) for part in (slice(4_000), slice(4_000, None, 2), slice(4_001, None, 2))
    )
    both = fit_shards(classifier(params, n_replicates=0), parts, warmup=first)
    found = [plug_in_covariance(clf.model_.fit) for clf in (one, both)]
    scale = np.sqrt(np.diag(found[0]))
    np.testing.assert_allclose(found[1] / np.outer(scale, scale), found[0] / np.outer(scale, scale), atol=0.1)
    assert np.linalg.eigvalsh(scaling(both.model_.fit))[0] > -1e-12
    both.partial_fit(X[:100], y[:100], sensitive_features=z[:100])
    assert np.isfinite(scaling(both.model_.fit)).all()


def test_random_scaling_needs_rows_after_the_warm_up_rows():
    X, y, z = rows(220)
    clf = newton(PROBLEMS["slabs"]).fit(X[:200], y[:200], sensitive_features=z[:200])
    assert np.isfinite(clf.coef_interval(method="plug_in")["low"]).all()
    with pytest.raises(ValueError, match="Random scaling needs at least 16 rows after the warm-up rows; received 0"):
        clf.coef_interval(method="random_scaling")
    clf.partial_fit(X[200:], y[200:], sensitive_features=z[200:])
    clf.coef_interval(method="plug_in")


REPETITIONS = 200


@cache
def covered_by_method(tolerance):
    """How many intervals of each method contain each coefficient of the optimum; all methods look at the same fits."""
    n = 50_000
    population = draw_batch(sf.datasets.SyntheticDI(seed=11), 0, n)
    every = {"tolerance": tolerance, "n_replicates": 0}
    exact = sf.FairClassifier(n_warmup=n, **every).fit(population.X, population.y, sensitive_features=population.group)
    optimum = np.append(exact.coef_, exact.intercept_)
    inside = {method: np.zeros(3) for method in COVARIANCE_METHODS}
    for seed in range(REPETITIONS):
        at = np.random.default_rng([8, seed]).integers(n, size=12_000)
        clf = sf.FairClassifier(solver="one_pass", n_warmup=2_000, random_state=seed, **every)
        clf.fit(population.X[at], population.y[at], sensitive_features=population.group[at])
        for method in COVARIANCE_METHODS:
            found = clf.coef_interval(method=method)
            inside[method] += ((found["low"] <= optimum) & (optimum <= found["high"])).to_numpy()
    return inside


@pytest.mark.slow
@pytest.mark.parametrize("method", COVARIANCE_METHODS)
@pytest.mark.parametrize("tolerance", [0.0, 0.1])
def test_intervals_without_replicates_cover_the_optimum_of_a_learnt_constraint(method, tolerance):
    inside = covered_by_method(tolerance)[method]
    low, high = binom.ppf([5e-4 / 3, 1.0 - 5e-4 / 3], REPETITIONS, 0.95)
    assert (low <= inside).all()
    assert (inside <= high).all()
