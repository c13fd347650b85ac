"""What step_size="auto" promises: any ridge and any units work, and a fit ignores parameters that change later."""

import numpy as np
import pytest
from batch import draw_batch

import surefair as sf
from surefair.criteria import SoftRatePenalty

TRAIN, TEST = draw_batch(sf.datasets.SyntheticDM(seed=3), 0, 4_000), draw_batch(sf.datasets.SyntheticDM(seed=4), 0, 500)


def fitted(criterion="false_positive_rate", X=TRAIN.X, **parameters):
    clf = sf.FairClassifier(criterion, n_replicates=30, random_state=0, **parameters)
    return clf.fit(X, TRAIN.y, sensitive_features=TRAIN.group)


# Soft rates do not depend on the length of θ, so near 0, where the strongest ridge leads, they are infinitely steep.
RIDGES = [
    (name, alpha)
    for name, criterion in sf.CRITERIA.items()
    for alpha in [0.0, 1.0, 10.0, 1000.0]
    if criterion.can_constrain and (alpha < 1000.0 or criterion.form is not SoftRatePenalty)
]


@pytest.mark.slow
@pytest.mark.parametrize(("criterion", "alpha"), RIDGES)
@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
def test_the_fit_is_near_its_optimum_for_any_ridge(criterion, loss, alpha):
    clf = fitted(criterion, alpha=alpha, loss=loss)
    found = np.append(clf.coef_, clf.intercept_)
    nearest = min(sf.theory.optima(clf, TRAIN.X, TRAIN.y), key=lambda one: np.abs(one.theta - found).max())
    best = nearest.theta  # soft rates have several optima, and the learner finds one near its start
    off = found - best
    spread = np.append(clf.coef_replicates_.std(axis=0), clf.intercept_replicates_.std())
    assert np.all(np.abs(off) <= 5.0 * spread + 0.05 * np.abs(best).max())
    assert spread.max() < 5.0 * np.abs(best).max()


@pytest.mark.parametrize("criterion", ["false_omission_rate", "false_discovery_rate"])
@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
def test_with_the_strongest_ridge_soft_rates_leave_the_fit_near_0(criterion, loss):
    clf, free = fitted(criterion, alpha=1000.0, loss=loss), fitted(None, alpha=1000.0, loss=loss)
    assert np.abs(clf.coef_).max() < 2.0 * np.abs(free.coef_).max()
    assert np.abs(clf.coef_replicates_).max() < 4.0 * np.abs(free.coef_replicates_).max()


@pytest.mark.parametrize("criterion", [name for name, one in sf.CRITERIA.items() if one.can_constrain])
@pytest.mark.parametrize("scale", [(1e6, 1e-6), (1e-170, 1e150)])
def test_the_units_of_the_features_do_not_matter(criterion, scale):
    plain, scaled = fitted(criterion), fitted(criterion, X=TRAIN.X * scale)
    np.testing.assert_allclose(scaled.coef_ * scale, plain.coef_, rtol=1e-6)
    np.testing.assert_allclose(scaled.coef_replicates_ * scale, plain.coef_replicates_, rtol=1e-5, atol=1e-6)


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
