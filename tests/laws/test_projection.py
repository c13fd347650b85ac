"""The projection onto a slab is a projection, and everything that is learnt under a slab lies in it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import surefair as sf
from surefair.criteria import CRITERIA, Slab
from surefair.learners import LEARNERS, Settings
from surefair.losses import LOSSES
from surefair.multipliers import Multipliers
from surefair.schedules import PolynomialDecay

ROUNDING = 1e-12


@st.composite
def slabs_and_points(draw):
    """A learner under a slab, and two sets of 20 points at about the slab's own size."""
    D, tolerance = draw(st.integers(1, 9)), draw(st.sampled_from([0.0, 1e-5, 0.3, 10.0]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size = 10.0 ** draw(st.integers(-3, 3))
    settings = Settings(
        LOSSES["log_loss"], 1e-4, tolerance, 0.0, PolynomialDecay(1.0, 0.6), Multipliers("two_point", 0), np.zeros(D),
        robust=False,
    )  # fmt: skip
    slab = rng.normal(size=D) * draw(st.sampled_from([0.0, 0.01, 1.0, 50.0]))
    return LEARNERS[Slab](settings, Slab(slab)), rng.normal(size=(D, 20)) * size, rng.normal(size=(D, 20)) * size


def norms(p):
    return np.linalg.norm(p, axis=0)


@settings(max_examples=40)
@given(slabs_and_points())
def test_projection_is_feasible_idempotent_and_non_expansive(drawn):
    learner, p, q = drawn
    x_tilde, tolerance = learner.form.vector, learner.settings.tolerance
    P = learner.project
    rounding = ROUNDING * (norms(p) + norms(q))
    assert np.all(np.abs(x_tilde @ P(p)) <= tolerance + np.linalg.norm(x_tilde) * rounding)
    assert np.all(norms(P(P(p)) - P(p)) <= rounding)
    assert np.all(norms(P(p) - P(q)) <= norms(p - q) + rounding)


@settings(max_examples=40)
@given(slabs_and_points())
def test_projection_is_the_nearest_feasible_point(drawn):
    learner, p, q = drawn
    nearest, feasible = learner.project(p), learner.project(q)
    away = np.sum((p - nearest) * (feasible - nearest), axis=0)  # every feasible point lies behind the nearest one
    assert np.all(away <= ROUNDING * (norms(p) + norms(q)) ** 2)


@given(slabs_and_points())
def test_feasible_points_stay(drawn):
    learner, p, _ = drawn
    inside = np.abs(learner.form.vector @ p) <= learner.settings.tolerance
    assert np.array_equal(learner.project(p)[:, inside], p[:, inside])


@given(data=st.data())
def test_the_fit_and_every_replicate_lie_in_the_slab(problems, criterion, loss, data):
    p = data.draw(problems(criterion, loss))
    if not isinstance(p.learner.form, Slab):
        return
    x_tilde, mean = p.learner.form.vector, p.mean()
    rounding = ROUNDING * np.linalg.norm(x_tilde) * norms(mean)
    assert np.all(np.abs(x_tilde @ mean) <= p.learner.settings.tolerance + rounding + 1e-14)


@pytest.mark.parametrize("criterion", [name for name, c in CRITERIA.items() if c.form is Slab])
@pytest.mark.parametrize("step_size", ["auto", sf.PolynomialDecay(0.5, 0.6)], ids=["auto", "explicit"])
@pytest.mark.parametrize("tolerance", [0.0, 0.02])
def test_a_classifier_obeys_the_slab_of_its_constraint_set(criterion, step_size, tolerance):
    data = sf.datasets.SyntheticDI(seed=2).sample(500)
    X, y, z = np.asarray(data.X), np.asarray(data.y), np.asarray(data.sensitive)
    D_prime = X[:150], y[:150], z[:150]
    clf = sf.FairClassifier(criterion, step_size=step_size, tolerance=tolerance, n_replicates=20, random_state=0)
    clf.fit(X[150:], y[150:], sensitive_features=z[150:], constraint_set=D_prime)
    x_tilde = (z[:150] - z[:150].mean()) @ X[:150] / 150  # the intercept's part is 0
    coef = np.vstack([clf.coef_, clf.coef_replicates_])
    assert np.abs(coef @ x_tilde).max() <= tolerance + 1e-12
    assert np.abs(coef).max() > 0.01
