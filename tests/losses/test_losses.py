from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from surefair.criteria import Slabs
from surefair.learners import Settings
from surefair.learners.dual_averaging import DualAveraging
from surefair.learners.multipliers import Multipliers
from surefair.learners.schedules import PolynomialDecay
from surefair.losses import LOSSES, check_registry

SCORES = np.linspace(-6.0, 6.0, 101)
STEP = 1e-5

every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
both_labels = pytest.mark.parametrize("y", [-1.0, 1.0])


def slope(function, y):
    return (function(SCORES + STEP, y) - function(SCORES - STEP, y)) / (2.0 * STEP)


@every_loss
@both_labels
def test_derivatives_are_slopes(loss, y):
    np.testing.assert_allclose(loss.derivative(SCORES, y), slope(loss.value, y), atol=1e-8)
    np.testing.assert_allclose(loss.curvature(SCORES, y), slope(loss.derivative, y), atol=1e-8)


@every_loss
@both_labels
def test_losses_are_convex_and_below_their_majorants(loss, y):
    m = np.linspace(-50.0, 50.0, 1001)
    assert np.all(loss.curvature(m, y) >= 0.0)
    for at in (-30.0, -2.0, -0.011, -0.009, 0.0, 0.5, 8.0):
        parabola = loss.value(at, y) + loss.derivative(at, y) * (m - at) + loss.majorant(at) / 2.0 * (m - at) ** 2
        assert np.all(parabola >= loss.value(m, y) - 1e-9)
        assert np.any(np.abs(parabola - loss.value(m, y))[np.abs(m + at) < 0.06] < 1e-2)  # it also touches at -at


@every_loss
def test_losses_are_symmetric_in_the_labels(loss):
    np.testing.assert_allclose(loss.value(SCORES, 1.0), loss.value(-SCORES, -1.0))
    np.testing.assert_allclose(loss.derivative(SCORES, 1.0), -loss.derivative(-SCORES, -1.0))


@every_loss
def test_probabilities_rise_from_0_to_1_through_one_half(loss):
    p = loss.probability(SCORES)
    assert np.all(np.diff(p) >= 0.0)
    assert p.min() >= 0.0
    assert p.max() <= 1.0
    assert loss.probability(np.zeros(1)).tolist() == [0.5]


@every_loss
@both_labels
def test_enormous_scores_do_not_overflow(loss, y):
    far = np.array([-1e6, 1e6])
    for function in (loss.value, loss.derivative, loss.curvature):
        assert np.isfinite(function(far, y)).all()


def test_a_loss_has_the_name_of_its_file():
    assert [loss.name for loss in LOSSES.values()] == list(LOSSES)
    with pytest.raises(ValueError, match=r"The loss in losses/hinge.py is called 'log_loss'. Give both the same name."):
        check_registry({"hinge": LOSSES["log_loss"]})


def test_two_losses_with_one_code_are_refused():
    copy = replace(LOSSES["log_loss"], name="hinge")
    with pytest.raises(ValueError, match="The losses 'log_loss' and 'hinge' have the same code 0"):
        check_registry({"log_loss": LOSSES["log_loss"], "hinge": copy})
    assert check_registry({"hinge": copy}) == {"hinge": copy}


def test_squared_error_takes_continuous_labels():
    rng, start = np.random.default_rng(0), np.array([0.5, -0.5, 0.0])
    X, schedule, multipliers = rng.normal(size=(40, 3)), PolynomialDecay(0.2, 0.6), Multipliers("two_point", 0)
    y = X @ np.array([1.0, 0.0, -2.0]) + rng.normal(size=40)
    settings = Settings(LOSSES["squared_error"], 1e-4, 0.0, 0.0, None, schedule, multipliers, start, robust=True)
    learner = DualAveraging(settings, Slabs(np.zeros((0, 3))))
    state = learner.init(5)
    for x, label in zip(X, y, strict=True):
        state = learner.reference_step(state, x, label)
    whole = learner.step(learner.init(5), X, y)
    np.testing.assert_allclose(learner.mean(whole), learner.mean(state), rtol=1e-10)
    np.testing.assert_allclose(whole.trace, state.trace, rtol=1e-9, atol=1e-12)
