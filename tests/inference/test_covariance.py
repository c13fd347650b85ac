"""Covariances that are read off the pass itself, beside the replicates."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.sparse import csr_matrix
from scipy.special import expit
from scipy.stats import binom, norm

import surefair as sf
from surefair.inference import theory
from surefair.kernels import STRIDE
from surefair.learners import trace as covariances
from surefair.learners.trace import random_scaling_quantile, sampled
from surefair.losses import LOSSES
from surefair.training.model import COVARIANCE_METHODS

PROBLEMS = {
    "nothing": {"criterion": None},
    "a subspace": {"criterion": "demographic_parity", "tolerance": 0.0},
    "slabs": {"criterion": "demographic_parity", "tolerance": 0.05},
    "a penalty": {"criterion": "false_positive_rate"},
}
every_problem = pytest.mark.parametrize("params", PROBLEMS.values(), ids=PROBLEMS)
every_loss = pytest.mark.parametrize("loss", LOSSES)


def rows(n, seed=0, d=3):
    """Rows of a logistic model with correlated features, and a group that some of them tell."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ (np.eye(d) + 0.2 / d)
    y = (rng.random(n) < expit(X @ np.linspace(0.0, 1.0, d))).astype(int)
    return X, y, (X[:, 0] + rng.normal(size=n) > 0.0).astype(int)


def classifier(params, **more):
    return sf.FairClassifier(**({"n_replicates": 3, "random_state": 0, "n_constraint": 200} | params | more))


@every_problem
@every_loss
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_moments_and_path_are_those_of_the_rows_one_by_one(params, loss, weighted):
    X, y, z = rows(500)
    weight = np.random.default_rng(1).exponential(size=500) if weighted else np.ones(500)
    clf = classifier(params, loss=loss).fit(X, y, sensitive_features=z, sample_weight=weight)
    fit, n_apart = clf._fit, 100  # a fifth of the rows
    learner, moved, n = fit.learner, fit.moved(X[n_apart:]), 400
    signs, relative = 2.0 * y[n_apart:] - 1.0, weight[n_apart:] * np.arange(1, n + 1) / np.cumsum(weight[n_apart:])
    state, means, met = learner.init(1), [], []
    for k in range(n):
        now = learner.step(state, moved[k : k + 1], signs[k : k + 1], relative[k : k + 1])
        means.append(learner.mean(now)[:, 0])
        dual = hasattr(state, "w")  # dual averaging adds the iterate that the row meets, descent the one after it
        met.append((k + 1) * means[k] - k * means[k - 1] if dual and k else state.theta[:, 0] if not dual else means[0])
        state = now
    at = sampled(0, n)
    margins = np.einsum("ij,ij->i", moved, np.array(met))[at]
    x, w, loss = moved[at], relative[at], LOSSES[loss]
    scores = (w * loss.derivative(margins, signs[at]))[:, None] * x
    hessian = (x.T * (w * loss.curvature(margins, signs[at]))) @ x / len(at) + clf.alpha * np.eye(x.shape[1])
    found = fit.plug_in
    np.testing.assert_allclose(found[0], hessian, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found[1], np.cov(scores.T, bias=True), rtol=1e-9, atol=1e-12)
    points = np.arange(STRIDE, n + 1, STRIDE)
    path = points[:, None] * (np.array(means)[points - 1] - means[-1])
    V = path.T @ path / n / len(points)  # n⁻² Σ j² (θ̄_j - θ̄_n)², each point for n / points rows
    W = np.diag(fit.W) if fit.W.ndim == 1 else fit.W
    np.testing.assert_allclose(fit.scaling, W @ V @ W.T, rtol=1e-8, atol=1e-12)


def test_the_moments_of_a_long_pass_are_those_at_its_mean():
    X, y, _ = rows(60_000)
    fit = classifier({"criterion": None}).fit(X, y)._fit
    moved, signs = fit.moved(X), 2.0 * y - 1.0
    margins, loss = moved @ fit.learner.mean(fit.state)[:, 0], fit.problem.loss
    scores, bends = loss.derivative(margins, signs), loss.curvature(margins, signs)
    hessian, covariance = fit.plug_in
    for found, each in ((hessian - fit.problem.alpha * np.eye(4), bends), (covariance, scores**2)):
        squares = each[:, None, None] * moved[:, :, None] * moved[:, None, :]
        error = squares.std(axis=0) / np.sqrt(15_000)  # of a mean over a quarter of the rows
        assert (np.abs(found - squares.mean(axis=0)) < 5.0 * error).all()


def test_rows_that_come_in_turns_are_all_taken():
    at = sampled(0, 40_000)
    for period in (2, 3, 4, 8, 12, 16, 100):
        share = np.bincount(at % period, minlength=period) / len(at)
        np.testing.assert_allclose(share, 1.0 / period, rtol=0.05)


@pytest.mark.parametrize("cuts", [[0], [0, 7, 8, 500], range(0, 1000, 13)])
def test_the_rows_taken_do_not_depend_on_batches(cuts):
    found = [low + sampled(low, high - low) for low, high in pairwise([*cuts, 1000])]
    assert np.array_equal(np.concatenate(found), sampled(0, 1000))
    assert len(sampled(0, 1000)) == 250


# -- Random scaling ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("level", "expected"), [(0.90, 5.323), (0.95, 6.747), (0.98, 8.613), (0.99, 10.017)])
def test_quantiles_are_those_of_the_published_table(level, expected):
    # Abadir and Paruolo (1997), as printed in Lee, Liao, Seo and Shin: 8.613 is the 99 % point of one side
    assert random_scaling_quantile(level) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("level", [0.05, 0.5, 0.8, 0.999, 1.0 - 1e-6])
def test_quantiles_solve_the_integral(level):
    c = random_scaling_quantile(level)

    def integrand(phi):
        s = c / np.cos(phi)
        return np.sqrt(s / np.sinh(s)) if s < 700.0 else 0.0

    tail = 2.0 / np.pi * quad(integrand, 0.0, np.pi / 2.0, epsabs=1e-15, epsrel=1e-12, limit=200)[0]
    assert tail == pytest.approx(1.0 - level, rel=1e-6)


def test_quantiles_are_those_of_simulated_brownian_motion():
    rng, n, repetitions = np.random.default_rng(0), 500, 20_000
    W = np.cumsum(rng.normal(size=(repetitions, n)), axis=1) / np.sqrt(n)
    bridge = W - W[:, -1:] * np.arange(1, n + 1) / n
    inside = np.abs(W[:, -1]) <= random_scaling_quantile(0.9) * np.sqrt((bridge**2).mean(axis=1))
    assert binom.ppf(5e-4, repetitions, 0.9) <= inside.sum() <= binom.ppf(1.0 - 5e-4, repetitions, 0.9)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, np.nan])
def test_a_level_that_is_none_is_refused(level):
    with pytest.raises(ValueError, match="confidence_level must lie between 0 and 1; received"):
        random_scaling_quantile(level)


def test_random_scaling_covers_the_optimum():
    # steps long enough that the iterates forget within some 150 rows: with those of "auto" it takes many more rows
    n, repetitions, d = 4_000, 200, 3
    theta, inside = np.linspace(0.0, 1.0, d), np.zeros(d)
    for seed in range(repetitions):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, d))
        y = (rng.random(n) < expit(X @ theta)).astype(int)
        clf = sf.FairClassifier(
            None, n_replicates=0, alpha=0.0, fit_intercept=False, step_size=sf.PolynomialDecay(2.0, 0.501),
            n_constraint=1, random_state=seed,
        ).fit(X, y)  # fmt: skip
        half = random_scaling_quantile(0.95) * np.sqrt(np.diag(clf._fit.scaling) / clf.n_rows_)
        inside += np.abs(clf.coef_[0] - theta) <= half
    low, high = binom.ppf([5e-4 / d, 1.0 - 5e-4 / d], repetitions, 0.95)
    assert (low <= inside).all()
    assert (inside <= high).all()


# -- Intervals --------------------------------------------------------------------------------------------------------


@every_problem
@pytest.mark.parametrize("step_size", ["auto", sf.PolynomialDecay(0.5, 0.6)], ids=["whitened", "as they come"])
def test_intervals_without_replicates_are_those_of_the_formulas(params, step_size):
    X, y, z = rows(1_200)
    clf = classifier(params, step_size=step_size, n_replicates=0).fit(X, y, sensitive_features=z)
    fit, n = clf._fit, 1_000
    W = np.diag(fit.W) if fit.W.ndim == 1 else fit.W
    settings, form = fit.learner.settings, fit.learner.form
    at = fit.learner.iterate(fit.state) if hasattr(fit.learner, "iterate") else fit.learner.mean(fit.state)
    sandwich = theory.sandwich(settings, form, at[:, 0], *fit.plug_in)
    expected = {
        "plug_in": norm.ppf(0.95) * np.sqrt(np.diag(W @ sandwich @ W.T) / n),
        "random_scaling": random_scaling_quantile(0.9) * np.sqrt(np.diag(fit.scaling) / n),
    }
    for method, half in expected.items():
        found = clf.coef_interval(confidence_level=0.9, method=method)
        assert np.array_equal(found["estimate"], np.append(clf.coef_, clf.intercept_))
        np.testing.assert_allclose(found["high"] - found["estimate"], half, rtol=1e-9)
        np.testing.assert_allclose(found["estimate"] - found["low"], half, rtol=1e-9)
        assert found["feature"].tolist() == ["x0", "x1", "x2", "intercept"]


@pytest.mark.parametrize("method", COVARIANCE_METHODS)
def test_a_coefficient_that_the_constraint_holds_has_no_spread(method):
    X, y, z = rows(2_000)
    X -= np.outer(z, X[z == 1].mean(axis=0) - X[z == 0].mean(axis=0))  # only the first feature goes with the group
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
    """How often plug-in intervals of level 95 % hold each coefficient of an optimum."""
    inside, clf = 0, None
    for seed in range(repetitions):
        X, y, z, given = draw(seed)
        clf = sf.FairClassifier(n_replicates=0, random_state=seed, **params)
        clf.fit(X, y, sensitive_features=z, constraint_set=given)
        optimum = optimum(clf) if callable(optimum) else optimum
        found = clf.coef_interval(method="plug_in")
        inside = inside + ((found["low"] <= optimum) & (optimum <= found["high"])).to_numpy()
    return inside


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


@pytest.mark.parametrize("tolerance", [0.0, 0.01], ids=["a subspace", "a face"])
def test_plug_in_intervals_cover_the_optimum_under_a_slab(tolerance):
    repetitions, n = 200, 50_000
    population, apart = (sf.datasets.SyntheticDI(seed=seed).rows(0, size) for seed, size in ((11, n), (12, 1_000)))

    def draw(seed):
        at = np.random.default_rng([8, seed]).integers(n, size=4_000)
        return population.X[at], population.y[at], population.group[at], (apart.X, apart.y, apart.group)

    def optimum(clf):
        return theory.optimum(clf, population.X, population.y)

    inside = covered(draw, optimum, repetitions, tolerance=tolerance)
    low, high = binom.ppf([5e-4 / 3, 1.0 - 5e-4 / 3], repetitions, 0.95)
    assert (low <= inside).all()
    assert (inside <= high).all()


def test_a_face_that_averages_only_come_near_holds_the_plug_in_covariance():
    X, y, z = rows(5_000)
    clf = classifier({"tolerance": 0.06}, n_constraint=1_000).fit(X, y, sensitive_features=z)
    fit = clf._fit
    across, inverse = fit.learner.form.vectors[0], np.linalg.inv(fit.W)
    assert abs(across @ fit.learner.mean(fit.state)[:, 0]) < 0.06 - 1e-5
    assert abs(across @ fit.learner.iterate(fit.state)[:, 0]) == pytest.approx(0.06)
    covariance = inverse @ fit.plug_in_covariance @ inverse.T
    assert across @ covariance @ across < 1e-12 * (across @ across) * np.trace(covariance)


# -- The life of a fit ------------------------------------------------------------------------------------------------


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
    assert np.array_equal(whole._fit.state.trace, parts._fit.state.trace)
    assert np.array_equal(whole._fit.scaling, parts._fit.scaling)


@every_problem
def test_two_shards_merge_to_what_one_after_the_other_tells(params):
    X, y, z = rows(1_800)
    apart = X[:200], y[:200], z[:200]
    a, b = (
        classifier(params, random_state=seed).fit(X[s], y[s], sensitive_features=z[s], constraint_set=apart)
        for seed, s in enumerate((slice(200, 903), slice(903, 1_800)))
    )
    taken = [len(sampled(0, len(rows))) for rows in (X[200:903], X[903:])]
    separate = [clf._fit.plug_in for clf in (a, b)]
    a.merge(b)
    hessian = np.average([hessian for hessian, _ in separate], axis=0, weights=taken)
    np.testing.assert_allclose(a._fit.plug_in[0], hessian, rtol=1e-12, atol=1e-15)
    assert np.linalg.eigvalsh(a._fit.scaling)[0] > -1e-12
    a.partial_fit(X[200:300], y[200:300], sensitive_features=z[200:300])
    assert np.isfinite(a._fit.scaling).all()


@every_problem
def test_a_checkpoint_keeps_the_trace(params, tmp_path):
    X, y, z = rows(700)
    clf = classifier(params).partial_fit(X[:450], y[:450], sensitive_features=z[:450], classes=[0, 1])
    sf.save(clf, tmp_path / "clf.npz")
    again = sf.load(tmp_path / "clf.npz")
    for fit in (clf, again):
        fit.partial_fit(X[450:], y[450:], sensitive_features=z[450:])
    assert np.array_equal(again._fit.state.trace, clf._fit.state.trace)
    assert np.array_equal(again._fit.scaling, clf._fit.scaling)


def test_a_trace_does_not_grow_with_rows():
    X, y, z = rows(3_000)
    clf, sizes = classifier(PROBLEMS["slabs"]), set()
    for low in range(0, 3_000, 500):
        part = slice(low, low + 500)
        clf.partial_fit(X[part], y[part], sensitive_features=z[part], classes=[0, 1])
        sizes.add(clf._fit.state.trace.nbytes)
    assert sizes == {3 * 6 * 6 * 8}


def test_a_fit_without_rows_has_no_covariance():
    X, y, z = rows(202)
    clf = classifier(PROBLEMS["slabs"]).partial_fit(X[:200], y[:200], sensitive_features=z[:200], classes=[0, 1])
    for ask in ("plug_in", "scaling"):
        with pytest.raises(ValueError, match="received none yet"):
            getattr(clf._fit, ask)
    clf.partial_fit(X[200:], y[200:], sensitive_features=z[200:])
    with pytest.raises(ValueError, match="Random scaling needs 16 rows at least; received 2"):
        clf._fit.scaling


@pytest.mark.parametrize("kind", ["sparse slabs", "sparse penalty", "single", "wide"])
def test_where_there_is_no_trace_asking_says_why(kind):
    X, y, z = rows(600, d=130 if kind == "wide" else 3)
    params = PROBLEMS["a penalty" if kind == "sparse penalty" else "slabs"]
    clf = classifier(params, dtype="float32" if kind == "single" else "float64")
    clf.fit(csr_matrix(X) if "sparse" in kind else X, y, sensitive_features=z)
    reason = {"single": "with 4 features, dtype='float32'", "wide": "with 131 features"}.get(
        kind, "rows that are sparse"
    )
    for method in COVARIANCE_METHODS:
        with pytest.raises(ValueError, match=f"dense rows with {covariances.FEATURES} features at most.*{reason}"):
            clf.coef_interval(method=method)
