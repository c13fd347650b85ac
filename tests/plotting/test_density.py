"""The picture of the distribution of gaps."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

from surefair import FairClassifier
from surefair.inference.theory import GapLaw
from surefair.plotting import DensityDisplay

pytestmark = pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")  # few rows and replicates


def verticals(ax, style="--"):
    return [
        line.get_xdata()[0]
        for line in ax.lines
        if line.get_linestyle() == style and len(line.get_xdata()) == 2 and len(set(line.get_xdata())) == 1
    ]


def curves(ax):
    return {line.get_label(): line.get_xydata() for line in ax.lines if len(line.get_xdata()) > 2}


def test_the_density_of_an_estimator_has_the_limits_of_its_training_interval(fitted, held_out, legend):
    asked = {"sensitive_features": held_out.sensitive, "metric": "false_positive_rate"}
    display = DensityDisplay.from_estimator(fitted, held_out.X, held_out.y, **asked)
    interval = fitted.fairness_interval(held_out.X, held_out.y, source="training", **asked)
    assert verticals(display.ax_) == pytest.approx([interval.gap_low, interval.gap_high])
    assert interval.gap in verticals(display.ax_, "-")
    assert legend(display.ax_)[0] == "60 replicates"
    first, second = interval.pair
    assert display.ax_.get_xlabel() == f"gap (false positive rate of {first} minus that of {second})"


def test_every_sample_has_a_density_of_area_one_and_its_limits(legend):
    rng = np.random.default_rng(0)
    samples = {"observed": rng.normal(0.1, 0.01, 300), "compared": rng.normal(0.2, 0.02, 400)}
    ax = DensityDisplay(samples, estimate=0.11).plot().ax_
    assert list(curves(ax)) == list(samples)
    for name, curve in curves(ax).items():
        assert np.trapezoid(curve[:, 1], curve[:, 0]) == pytest.approx(1.0, abs=0.01)
        assert curve[np.argmax(curve[:, 1]), 0] == pytest.approx(samples[name].mean(), abs=0.01)
    expected = [np.quantile(values, end, method="weibull") for values in samples.values() for end in (0.025, 0.975)]
    assert verticals(ax) == pytest.approx(expected)
    assert verticals(ax, "-") == [0.11]
    assert "parity" not in legend(ax)  # 0 is far to the left


def test_parity_is_marked_if_it_is_in_view(legend):
    ax = DensityDisplay({"observed": np.linspace(-0.1, 0.3, 50)}).plot().ax_
    assert verticals(ax, ":") == [0.0]
    assert "parity" in legend(ax)


@pytest.mark.parametrize("method", ["delta", "sample"])
def test_the_limit_law_is_drawn_as_one_more_curve(method):
    gaps = np.random.default_rng(0).normal(0.1, 0.02, 500)
    law = GapLaw(0.12, 0.01, gaps if method == "sample" else np.zeros(0), 4_000, "error_rate", method)
    ax = DensityDisplay({"observed": gaps + 0.5}, law).plot().ax_
    assert list(curves(ax)) == ["observed", "limit law, 4,000 rows"]
    low, high = (
        np.quantile(gaps, (0.025, 0.975), method="weibull") if method == "sample" else (0.12 - 0.0196, 0.12 + 0.0196)
    )
    assert verticals(ax)[2:] == pytest.approx([low, high], abs=1e-3)


@pytest.mark.parametrize(
    ("metric", "n_groups"),
    [("equalized_odds", 2), ("error_rate_ratio", 2), ("error_rate", 3)],
    ids=["two rates", "ratio", "three groups"],
)
def test_a_density_needs_one_difference(fitted, held_out, metric, n_groups):
    sensitive = held_out.sensitive if n_groups == 2 else np.arange(len(held_out)) % n_groups
    with pytest.raises(ValueError, match=r"one rate between two groups; received '\w+'.*two groups of one column"):
        DensityDisplay.from_estimator(fitted, held_out.X, held_out.y, sensitive_features=sensitive, metric=metric)
    assert not plt.get_fignums()


def test_a_density_needs_one_sensitive_column(stream, held_out):
    train = stream.rows(0, 600)
    clf = FairClassifier(None, n_replicates=60, random_state=0).fit(train.X, train.y)
    columns = {"one": np.arange(300) % 2, "two": np.arange(300) // 150}
    with pytest.raises(ValueError, match=r"'demographic_parity', which compares 2 pair.*two groups of one column"):
        DensityDisplay.from_estimator(clf, held_out.X, held_out.y, sensitive_features=columns)


def test_an_undefined_gap_has_no_density(fitted, held_out):
    some = held_out.sensitive == held_out.sensitive[0]
    rows = held_out.X[some], held_out.y[some]
    with pytest.raises(ValueError, match=r"the gap is undefined: group .* has no evaluation row"):
        DensityDisplay.from_estimator(fitted, *rows, sensitive_features=held_out.sensitive[some])


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        ({}, "at least one sample"),
        ({"few": [0.1]}, r"'few' must be two or more .* shape \(1,\)"),
        ({"good": [0.1, 0.2], "bad": [0.1, np.nan, np.inf]}, "'bad' must be .* 2 values are not finite"),
        ({"flat": np.zeros((3, 2))}, "one dimension"),
    ],
)
def test_samples_without_a_density_are_refused(samples, words):
    with pytest.raises(ValueError, match=words):
        DensityDisplay(samples).plot()
    assert not plt.get_fignums()


def test_dollar_signs_in_the_label_do_not_start_formulas():
    DensityDisplay({"observed": [0.1, 0.2]}, what="$1^{ minus $2_$_").plot().figure_.canvas.draw()
