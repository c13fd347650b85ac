"""Exact solutions: FairClassifier(solver="exact")."""

import io

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression

import surefair as sf
from surefair.diagnostics import StoppedEarly
from surefair.training.problem import MOST_ROWS
from surefair.training.stationary import Conditions

pytestmark = pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")

CRITERIA = ["demographic_parity", "false_positive_rate", "equalized_odds"]


def draw(n, seed=0, d=6):
    """Rows of two groups that differ in two of the features, which matter less than others; one is rarely 1."""
    rng = np.random.default_rng(seed)
    group = (rng.random(n) < 0.35).astype(int)
    X = rng.normal(size=(n, d)) + 0.8 * group[:, None] * (np.arange(d) < 2)
    X[:, -1] = rng.random(n) < 0.03
    weight = np.array([0.6, 0.4, 1.5, -1.2, *np.zeros(d - 5), 0.5])
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-X @ weight + 0.3))).astype(int)
    return X, y, group


def exact(**params):
    return sf.FairClassifier(**{"solver": "exact", "n_replicates": 20, "random_state": 0} | params)


def test_without_a_constraint_it_is_logistic_regression():
    X, y, _ = draw(1_500)
    clf = exact(criterion=None, alpha=1e-3).fit(X, y)
    other = LogisticRegression(C=1.0 / (1e-3 * len(y)), tol=1e-10, max_iter=1_000).fit(X, y)
    np.testing.assert_allclose(clf.coef_, other.coef_, atol=1e-5)
    np.testing.assert_allclose(clf.intercept_, other.intercept_, atol=1e-5)


@pytest.mark.parametrize("law", ["exponential", "two_point", "poisson"])
@pytest.mark.parametrize("params", [{"criterion": None}, {"tolerance": 0.05}, {"tolerance": 0.0}, {"penalty": 5.0}])
def test_a_replicate_is_the_exact_solution_with_its_weights(params, law):
    X, y, group = draw(2_400)  # so many that refits constrain the same pairs: their chance is that of uneven weights
    clf = exact(**params, multiplier=law).fit(X, y, sensitive_features=group)
    V = clf.model_.trained.problem.multipliers.draw(0, len(y), 21)
    theta = np.column_stack([clf.coef_replicates_, clf.intercept_replicates_])
    off = []
    for b in range(1, 13):
        again = exact(**params, n_replicates=0).fit(X, y, sensitive_features=group, sample_weight=V[:, b])
        off.append(np.max(np.abs(np.append(again.coef_, again.intercept_) - theta[b - 1]) / theta.std(axis=0)))
    # Coordinates, and with them the width of a decision, are those of the fit; a fit alone may find another optimum.
    assert np.sort(off)[8] < 0.2


@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_gap_of_decisions_on_the_training_rows_is_the_tolerance(criterion):
    X, y, group = draw(6_000)
    clf = exact(criterion=criterion, tolerance=0.03, n_replicates=30).fit(X, y, sensitive_features=group)
    free = exact(criterion=None, n_replicates=2).fit(X, y)
    found, without = (
        one.fairness_interval(X, y, sensitive_features=group, metric=criterion).estimate for one in (clf, free)
    )
    assert found < 0.04
    assert without > 0.08


def test_weights_count_as_repeated_rows():
    X, y, group = draw(800)
    weight = np.random.default_rng(1).integers(1, 4, size=800)
    one = exact(tolerance=0.05).fit(X, y, sensitive_features=group, sample_weight=weight)
    again = np.repeat(np.arange(800), weight)
    two = exact(tolerance=0.05).fit(X[again], y[again], sensitive_features=group[again])
    np.testing.assert_allclose(one.coef_, two.coef_, atol=1e-6)


def test_the_number_of_replicates_and_threads_changes_nothing():
    X, y, group = draw(900)
    one = exact(n_replicates=40).fit(X, y, sensitive_features=group)
    few = exact(n_replicates=7).fit(X, y, sensitive_features=group)
    two = exact(n_replicates=40, n_jobs=2).fit(X, y, sensitive_features=group)
    np.testing.assert_allclose(one.coef_replicates_[:7], few.coef_replicates_, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(one.coef_replicates_, two.coef_replicates_, rtol=1e-9, atol=1e-9)


def test_it_takes_no_more_rows_and_says_so():
    X, y, group = draw(600)
    clf = exact().fit(X, y, sensitive_features=group)
    with pytest.raises(ValueError, match="rows cannot be added"):
        clf.partial_fit(X, y, sensitive_features=group)
    with pytest.raises(ValueError, match="cannot be merged"):
        clf.merge(exact(random_state=1).fit(X, y, sensitive_features=group))
    assert clf.n_rows_ == 600


def test_where_auto_was_exact_a_stream_can_go_on():
    X, y, group = draw(3_000)
    clf = sf.FairClassifier(tolerance=0.05, n_replicates=40, random_state=0)
    clf.fit(X[:1_500], y[:1_500], sensitive_features=group[:1_500])
    clf.partial_fit(X[1_500:], y[1_500:], sensitive_features=group[1_500:])
    whole = exact(tolerance=0.05, n_replicates=40).fit(X, y, sensitive_features=group)
    assert clf.n_rows_ == 3_000
    off = np.abs(clf.coef_ - whole.coef_)[0] / whole.coef_replicates_.std(axis=0)
    assert np.median(off) < 0.3
    assert np.all(off < 1.5)
    with pytest.raises(ValueError, match="cannot be merged"):
        clf.merge(whole)


def test_saved_and_loaded_it_answers_the_same_and_holds_no_features():
    X, y, group = draw(5_000)
    clf = exact(tolerance=0.05).fit(X, y, sensitive_features=group)
    file = io.BytesIO()
    sf.save(clf, file)
    assert len(file.getvalue()) < 220_000  # the features alone have 240,000 bytes
    file.seek(0)
    again = sf.load(file)
    assert np.array_equal(again.coef_replicates_, clf.coef_replicates_)
    for source in ("training", "retraining", "evaluation", "total"):
        one, two = (
            part.fairness_interval(X, y, sensitive_features=group, source=source).to_dict() for part in (clf, again)
        )
        assert one == two
    for method in ("basic", "plug_in"):
        assert clf.coef_interval(method=method).equals(again.coef_interval(method=method))
    with pytest.raises(ValueError, match="rows cannot be added"):
        again.partial_fit(X, y, sensitive_features=group)


def test_auto_is_exact_where_that_is_quick():
    X, y, group = draw(1_000)
    assert sf.FairClassifier(n_replicates=5).fit(X, y, sensitive_features=group).model_.trained.exact
    assert not exact(solver="one_pass").fit(X, y, sensitive_features=group).model_.trained.exact
    stream = sf.FairClassifier(n_replicates=5, n_warmup=500).partial_fit(X, y, sensitive_features=group)
    assert not stream.model_.trained.exact
    problem = stream.model_.problem
    assert problem.is_exact(MOST_ROWS, 10)
    assert not problem.is_exact(MOST_ROWS + 1, 10)
    assert not problem.is_exact(MOST_ROWS, 10_000)


def test_the_solver_must_be_known():
    X, y, group = draw(200)
    with pytest.raises(ValueError, match="solver"):
        sf.FairClassifier(solver="newton").fit(X, y, sensitive_features=group)


@pytest.mark.slow
@pytest.mark.parametrize("params", [{"tolerance": 0.05}, {"criterion": "false_positive_rate", "tolerance": 0.05}])
def test_exact_and_one_pass_agree(params):
    X, y, group = draw(200_000, d=10)
    one, two = (
        exact(**params, solver=solver, n_replicates=100, multiplier="two_point").fit(X, y, sensitive_features=group)
        for solver in ("exact", "one_pass")
    )
    off = np.abs(one.coef_ - two.coef_)[0] / one.coef_replicates_.std(axis=0)
    assert np.max(off) < 1.0
    assert np.median(off) < 0.3


def test_what_an_exact_solution_cannot_do_is_refused():
    X, y, group = draw(300)
    with pytest.raises(ValueError, match="constraint_set or a step_size"):
        exact().fit(X, y, sensitive_features=group, constraint_set=(X, y, group))
    with pytest.raises(ValueError, match="constraint_set or a step_size"):
        exact(step_size=sf.PolynomialDecay(0.1, 0.6)).fit(X, y, sensitive_features=group)
    wide = csr_array((300, 1_500))
    with pytest.raises(ValueError, match="solver='one_pass'"):
        exact().fit(wide, y, sensitive_features=group)
    with pytest.raises(ValueError, match="GiB"):
        exact(n_replicates=100_000_000).fit(X, y, sensitive_features=group)


@pytest.mark.parametrize("solver", ["exact", "one_pass"])
def test_features_may_lie_far_from_0(solver):
    X, y, group = draw(6_000)
    near, far = (
        exact(solver=solver, tolerance=0.05).fit(X + shift, y, sensitive_features=group) for shift in (0.0, 1e6)
    )
    np.testing.assert_allclose(far.coef_, near.coef_, rtol=1e-5)
    np.testing.assert_allclose(far.intercept_ + 1e6 * far.coef_.sum(), near.intercept_, atol=1e-3)
    np.testing.assert_allclose(far.coef_replicates_, near.coef_replicates_, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("tolerance", [0.0, 0.05])
def test_a_stream_continues_an_exact_solution_on_many_rows(tolerance):
    """As many rows as show a stream the curvature of rates, which an exact solution does not keep."""
    rows = sf.datasets.SyntheticDI(seed=3).sample(4_200)
    clf = sf.FairClassifier(tolerance=tolerance, n_replicates=4, random_state=0)
    clf.fit(rows.X[:2_100], rows.y[:2_100], sensitive_features=rows.sensitive[:2_100])
    clf.partial_fit(rows.X[2_100:], rows.y[2_100:], sensitive_features=rows.sensitive[2_100:])
    assert clf.n_rows_ == 4_200
    whole = sf.FairClassifier(tolerance=tolerance, n_replicates=60, random_state=0)
    whole.fit(rows.X, rows.y, sensitive_features=rows.sensitive)
    assert np.all(np.abs(clf.coef_ - whole.coef_) < 3.0 * whole.coef_replicates_.std(axis=0))


def test_a_constraint_set_that_is_given_is_named():
    rows = sf.datasets.SyntheticDI(seed=3).sample(2_000)
    given = rows.X[:400], rows.y[:400], rows.sensitive[:400]
    clf = sf.FairClassifier(n_replicates=60, random_state=0, step_size=sf.PolynomialDecay(0.5, 0.6))
    clf.fit(rows.X[400:], rows.y[400:], sensitive_features=rows.sensitive[400:], constraint_set=given)
    for source in ("training", "retraining", "total", "evaluation"):
        found = clf.fairness_interval(rows.X, rows.y, sensitive_features=rows.sensitive, source=source)
        assert ("given the constraint set" in found.sentence) == (source != "evaluation")


# -- Replicates that have no optimum beside the fit --------------------------------------------------------------------


def test_a_replicate_without_an_optimum_beside_the_fit_is_solved_from_the_start(monkeypatch):
    X, y, group = draw(1_200)
    expected = exact(tolerance=0.05).fit(X, y, sensitive_features=group)
    looked_beside = Conditions.beside

    def gives_up(self, *args):
        return looked_beside(self, *args)._replace(reached=False)

    monkeypatch.setattr(Conditions, "beside", gives_up)
    found = exact(tolerance=0.05).fit(X, y, sensitive_features=group)
    spread = expected.coef_replicates_.std(axis=0)
    assert (np.abs(found.coef_replicates_ - expected.coef_replicates_) < 0.2 * spread).all()


def test_replicates_without_any_optimum_are_reported(monkeypatch):
    X, y, group = draw(1_200)
    solved = Conditions.solve
    calls = []

    def only_the_fit(self, *args, **kwargs):
        calls.append(self)
        return solved(self, *args, **kwargs)._replace(reached=len(calls) == 1)

    monkeypatch.setattr(Conditions, "beside", lambda self, near, *args: near._replace(reached=False))
    monkeypatch.setattr(Conditions, "solve", only_the_fit)
    with pytest.warns(StoppedEarly, match=r"reached no optimum for \d+ % of the replicates"):
        exact(tolerance=0.05).fit(X, y, sensitive_features=group)
