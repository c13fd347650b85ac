"""ThresholdDisplay: rates and gaps over thresholds."""

import numpy as np
import pytest

import surefair as sf


@pytest.fixture(scope="module")
def curve():
    rng = np.random.default_rng(0)
    group = rng.choice(["a$", "b"], 800)
    score = np.clip(rng.beta(2, 3, 800) + 0.1 * (group == "b"), 0.0, 1.0)
    return sf.threshold_curve((score > rng.random(800)).astype(int), score, sensitive_features={"g": group},
                              metric="equalized_odds")  # fmt: skip


def test_both_panels_show_the_curve(curve, legend):
    display = sf.plotting.ThresholdDisplay(curve).plot(margin=0.1)
    estimate = next(line for line in display.ax_.lines if line.get_label() == "estimate")
    assert np.array_equal(estimate.get_xdata(), curve.thresholds)
    assert np.array_equal(estimate.get_ydata(), curve.to_frame()["estimate"])
    assert legend(display.ax_) == ["95 % band", "estimate", "margin 0.1"]
    labels = legend(display.rates_ax_)
    assert len(labels) == 4
    assert labels[0].startswith(r"g = a\$ (n = ")
    display.figure_.canvas.draw()


def test_axes_that_are_given_get_the_unfairness_only(curve):
    from surefair.plotting.drawing import new_axes

    ax = new_axes()
    display = sf.plotting.ThresholdDisplay(curve).plot(ax)
    assert display.ax_ is ax
    assert display.rates_ax_ is None


def test_from_predictions_measures_and_draws():
    rng = np.random.default_rng(1)
    display = sf.plotting.ThresholdDisplay.from_predictions(
        None, rng.random(200), sensitive_features=rng.choice(["a", "b"], 200), thresholds=[0.2, 0.5],
        metric="demographic_parity_ratio", margin=0.8,
    )  # fmt: skip
    assert display.curve.thresholds == [0.2, 0.5]
    assert display.ax_.get_ylabel() == "smallest ratio of rates"
    with pytest.raises(ValueError, match="numbers"):
        sf.plotting.ThresholdDisplay.from_predictions(None, ["x"] * 4, sensitive_features=[1, 2] * 2)
