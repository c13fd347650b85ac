"""What a fit promises: any ridge and any units work, and it ignores parameters that change later."""

import numpy as np
import pytest
from batch import draw_batch

import surefair as sf
from surefair.criteria import SoftRatePenalty

TRAIN, TEST = draw_batch(sf.datasets.SyntheticDM(seed=3), 0, 4_000), draw_batch(sf.datasets.SyntheticDM(seed=4), 0, 500)
N_FIRST = 1_000  # warm-up rows, or rows of a constraint set
CONSTRAINTS = [name for name, criterion in sf.CRITERIA.items() if criterion.can_constrain]


def fitted(criterion="false_positive_rate", X=TRAIN.X, **parameters):
    """Fit with a constraint that is learnt from all rows."""
    clf = sf.FairClassifier(
        criterion, **{"n_replicates": 30, "solver": "one_pass", "n_warmup": N_FIRST, "random_state": 0} | parameters
    )
    return clf.fit(X, TRAIN.y, sensitive_features=TRAIN.group)


def fitted_beside(criterion, X=TRAIN.X, **parameters):
    """Fit with a constraint that the first rows fix."""
    clf = sf.FairClassifier(criterion, n_replicates=30, random_state=0, **parameters)
    first, rest = slice(0, N_FIRST), slice(N_FIRST, None)
    apart = X[first], TRAIN.y[first], TRAIN.group[first]
    return clf.fit(X[rest], TRAIN.y[rest], sensitive_features=TRAIN.group[rest], constraint_set=apart)


def assert_near_optimum(clf, **more):
    """Check that the fit is near an optimum on all rows, and that replicates are not far off."""
    found = np.append(clf.coef_, clf.intercept_)
    optima = sf.theory.optima(clf, TRAIN.X, TRAIN.y, **more)
    best = min((one.theta for one in optima), key=lambda theta: np.abs(theta - found).max())  # there may be several
    spread = np.append(clf.coef_replicates_.std(axis=0), clf.intercept_replicates_.std())
    assert np.all(np.abs(found - best) <= 5.0 * spread + 0.05 * np.abs(best).max())
    assert spread.max() < 5.0 * np.abs(best).max()


RIDGES = [0.0, 1.0, 10.0, 1000.0]
# Soft rates do not depend on the length of θ, so near 0, where the strongest ridge leads, they are infinitely steep.
FIXED_RIDGES = [
    (name, alpha)
    for name in CONSTRAINTS
    for alpha in RIDGES
    if alpha < 1000.0 or sf.CRITERIA[name].form is not SoftRatePenalty
]


@pytest.mark.slow
@pytest.mark.parametrize(("criterion", "alpha"), FIXED_RIDGES)
@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
def test_under_a_fixed_constraint_the_fit_is_near_its_optimum_for_any_ridge(criterion, loss, alpha):
    assert_near_optimum(fitted_beside(criterion, alpha=alpha, loss=loss))


# Ratios need more warm-up rows. Under the strongest ridge all decisions are the same, whatever is constrained.
@pytest.mark.slow
@pytest.mark.parametrize("criterion", [name for name in CONSTRAINTS if sf.CRITERIA[name].form is not SoftRatePenalty])
@pytest.mark.parametrize("alpha", [0.0, 1.0, 10.0])
@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
def test_the_fit_is_near_its_optimum_for_any_ridge(criterion, loss, alpha):
    assert_near_optimum(fitted(criterion, alpha=alpha, loss=loss, tolerance=0.1), sensitive_features=TRAIN.group)


@pytest.mark.parametrize("criterion", ["false_omission_rate", "false_discovery_rate"])
@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
def test_with_the_strongest_ridge_soft_rates_leave_the_fit_near_0(criterion, loss):
    clf, free = (fitted_beside(name, alpha=1000.0, loss=loss) for name in (criterion, None))
    assert np.abs(clf.coef_).max() < 2.0 * np.abs(free.coef_).max()
    assert np.abs(clf.coef_replicates_).max() < 4.0 * np.abs(free.coef_replicates_).max()


@pytest.mark.parametrize("criterion", CONSTRAINTS)
@pytest.mark.parametrize("scale", [(1e6, 1e-6), (1e-170, 1e150)])
def test_under_a_fixed_constraint_the_units_of_the_features_do_not_matter(criterion, scale):
    plain, scaled = fitted_beside(criterion), fitted_beside(criterion, X=TRAIN.X * scale)
    np.testing.assert_allclose(scaled.coef_ * scale, plain.coef_, rtol=1e-6)
    np.testing.assert_allclose(scaled.coef_replicates_ * scale, plain.coef_replicates_, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("criterion", CONSTRAINTS)
@pytest.mark.parametrize("scale", [(1e6, 1e-6), (1e-150, 1e150)])
def test_without_a_ridge_the_units_of_the_features_do_not_matter(criterion, scale):
    ratio = sf.CRITERIA[criterion].form is SoftRatePenalty  # one pass magnifies rounding there, the exact solution not
    parameters = {"alpha": 0.0, "tolerance": 0.1, "n_warmup": 4_000 if ratio else N_FIRST}
    plain, scaled = fitted(criterion, **parameters), fitted(criterion, X=TRAIN.X * scale, **parameters)
    np.testing.assert_allclose(scaled.coef_ * scale, plain.coef_, rtol=1e-6)
    np.testing.assert_allclose(scaled.coef_replicates_ * scale, plain.coef_replicates_, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
def test_the_ridge_holds_coefficients_in_units_of_the_features_and_not_the_intercept(loss):
    weak, strong = (fitted(None, alpha=alpha, loss=loss) for alpha in (0.0, 1000.0))
    assert np.abs(strong.coef_).max() < 0.02 * np.abs(weak.coef_).max()
    share = np.mean(TRAIN.y == 1)
    assert strong.predict_proba(TEST.X)[:, 1] == pytest.approx(share, abs=0.02)  # all that an intercept can say
    large = fitted(None, X=1e3 * TRAIN.X, alpha=1.0, loss=loss)  # large features need small coefficients
    np.testing.assert_allclose(1e3 * large.coef_, weak.coef_, rtol=1e-3)


@pytest.mark.parametrize(
    "changed", [{"fit_intercept": False}, {"loss": "squared_error"}, {"n_replicates": 5}, {"penalty": 50.0}], ids=str
)
def test_parameters_set_after_fit_do_not_change_what_was_learnt(tmp_path, changed):
    clf, other = fitted(), fitted().set_params(**changed)
    sf.save(other, tmp_path / "other.npz")
    again = sf.load(tmp_path / "other.npz")
    for one in (other, again):
        assert np.array_equal(one.predict_proba(TEST.X), clf.predict_proba(TEST.X))
        asked = one.fairness_interval(TEST.X, TEST.y, sensitive_features=TEST.group)
        assert asked == clf.fairness_interval(TEST.X, TEST.y, sensitive_features=TEST.group)
    for one in (clf, other, again):
        one.partial_fit(TEST.X, TEST.y, sensitive_features=TEST.group)
        assert np.array_equal(one.coef_replicates_, clf.coef_replicates_)
