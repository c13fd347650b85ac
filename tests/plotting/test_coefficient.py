"""The picture of coefficients."""

from __future__ import annotations

from surefair.plotting import CoefficientDisplay
from surefair.plotting.drawing import COLOURS
from surefair.rows import make_frame


def test_a_coefficient_is_hollow_if_its_interval_contains_zero(dots):
    table = make_frame({"feature": ["x", "z"], "estimate": [1.0, 0.1], "low": [0.5, -0.2], "high": [1.5, 0.4]})
    ax = CoefficientDisplay(table).plot().ax_
    ax.lines[0].remove()  # the line at 0
    assert dots(ax) == [
        (1.0, 0, [0.5, 1.5], COLOURS[0], True),
        (0.1, 1, [-0.2, 0.4], COLOURS[0], False),
    ]


def test_the_coefficients_of_an_estimator_are_those_of_its_table(fitted, dots):
    ax = CoefficientDisplay.from_estimator(fitted, confidence_level=0.8).ax_
    ax.lines[0].remove()
    table = fitted.coef_interval(0.8)
    assert [ends for _, _, ends, *_ in dots(ax)] == table[["low", "high"]].values.tolist()
    assert [label.get_text() for label in ax.get_yticklabels()] == table["feature"].tolist()
