"""The picture of each group's rate with its interval."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pytest

from surefair import fairness_interval
from surefair.plotting import FairnessIntervalDisplay
from surefair.plotting.drawing import COLOURS

pytestmark = pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")  # few rows and replicates


class People(NamedTuple):
    """Labels, decisions and two sensitive columns."""

    y: np.ndarray
    decision: np.ndarray
    race: np.ndarray
    sex: np.ndarray


def people(n=3_000, races=("a", "b", "c")):
    rng = np.random.default_rng(0)
    race = rng.choice(races, size=n)
    sex = rng.choice(["Female", "Male"], size=n, p=[0.3, 0.7])
    y = rng.integers(2, size=n)
    decision = (rng.uniform(size=n) < 0.3 + 0.2 * y + 0.1 * (sex == "Male")).astype(int)
    return People(y, decision, race, sex)


def ticks(ax):
    return dict(zip([label.get_text() for label in ax.get_yticklabels()], ax.get_yticks().tolist(), strict=True))


def overlap(figure):
    """Whether any two tick labels overlap, or any text leaves the figure."""
    figure.canvas.draw()
    ax = figure.axes[0]
    labels = [label.get_window_extent() for label in ax.get_yticklabels()]
    inside = [*labels, ax.title.get_window_extent(), ax.xaxis.label.get_window_extent()]
    outside = any(box.x0 < 0 or box.y0 < 0 or box.x1 > figure.bbox.x1 or box.y1 > figure.bbox.y1 for box in inside)
    return outside or any(below.y1 > above.y0 for above, below in pairwise(labels))


def test_dots_and_lines_are_the_rates_and_their_limits(dots):
    some = people()
    interval = fairness_interval(some.y, some.decision, sensitive_features=some.sex)
    display = FairnessIntervalDisplay(interval)
    assert display.plot() is display
    found = dots(display.ax_)
    rows = interval.by_group.to_dict("records")
    assert [(x, at, ends) for x, at, ends, *_ in found] == [
        (row["rate"], i, [row["low"], row["high"]]) for i, row in enumerate(rows)
    ]
    assert all(filled for *_, filled in found)
    assert list(ticks(display.ax_)) == [f"{name}  (n = {(some.sex == name).sum():,})" for name in ("Female", "Male")]
    assert display.ax_.get_legend() is None
    assert not display.figure_.legends


def test_the_title_says_what_is_estimated():
    some = people()
    interval = fairness_interval(some.y, some.decision, sensitive_features=some.sex, confidence_level=0.9)
    first, second = FairnessIntervalDisplay(interval).plot().ax_.get_title().split("\n")
    numbers = f"{interval.estimate:.3f}, 90 % interval [{interval.low:.3f}, {interval.high:.3f}]"
    assert first == f"demographic parity: unfairness {numbers}"
    assert second.startswith("source evaluation: ")
    several = fairness_interval(some.y, some.decision, sensitive_features={"race": some.race})
    title = FairnessIntervalDisplay(several).plot().ax_.get_title()
    assert f"largest gap: selection rate of {several.pair[0]} versus {several.pair[1]} (race)" in title


def test_a_ratio_is_named_in_the_title_while_the_dots_stay_rates(dots):
    some = people()
    metric = "demographic_parity_ratio"
    interval = fairness_interval(some.y, some.decision, sensitive_features=some.sex, metric=metric)
    ax = FairnessIntervalDisplay(interval).plot().ax_
    assert ax.get_title().startswith(f"demographic parity ratio {interval.estimate:.3f}, 95 % interval [")
    assert "unfairness" not in ax.get_title()
    assert [x for x, *_ in dots(ax)] == interval.by_group["rate"].tolist()
    assert ax.get_xlabel().startswith("selection rate")


def test_groups_of_several_columns_are_below_their_headings_in_different_colours(dots):
    some = people()
    columns = {"race": some.race, "sex": some.sex}
    interval = fairness_interval(some.y, some.decision, sensitive_features=columns)
    ax = FairnessIntervalDisplay(interval).plot().ax_
    at = ticks(ax)
    assert [label.split("  (")[0] for label in at] == ["race", "a", "b", "c", "sex", "Female", "Male"]
    heights = [at[label] for label in at if "(n = " in label]
    assert [(height, colour) for _, height, _, colour, _ in dots(ax)] == list(
        zip(heights, [COLOURS[0]] * 3 + [COLOURS[1]] * 2, strict=True)
    )
    assert [x for x, *_ in dots(ax)] == interval.by_group["rate"].tolist()


@pytest.mark.parametrize("where", ["alone", "in axes"])
def test_several_rates_share_a_row_and_differ_in_colour(dots, where):
    some = people()
    interval = fairness_interval(some.y, some.decision, sensitive_features=some.sex, metric="equalized_odds")
    ax = FairnessIntervalDisplay(interval).plot(ax=None if where == "alone" else plt.subplots()[1]).ax_
    n = {(row["group"], row["metric"]): row["n"] for row in interval.by_group.to_dict("records")}
    rates = ["false_positive_rate", "false_negative_rate"]
    assert list(ticks(ax)) == [
        f"{group}  (n = {n[group, rates[0]]:,} / {n[group, rates[1]]:,})" for group in ("Female", "Male")
    ]
    of = dict(zip(COLOURS, rates, strict=False))
    found = {(round(at), of[colour]): (x, *ends) for x, at, ends, colour, _ in dots(ax)}
    assert found == {
        (["Female", "Male"].index(row["group"]), row["metric"]): (row["rate"], row["low"], row["high"])
        for row in interval.by_group.to_dict("records")
    }
    assert len({at for _, at, *_ in dots(ax)}) == 4  # no dot hides another
    box = ax.figure.legends[0] if where == "alone" else ax.get_legend()
    handles = {text.get_text(): line.get_color() for text, line in zip(box.get_texts(), box.get_lines(), strict=True)}
    assert handles == {"false positive rate": COLOURS[0], "false negative rate": COLOURS[1]}


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_an_undefined_rate_is_hollow_on_the_whole_range(dots, library):
    some = people()
    y = np.where(some.race == "c", 1, some.y)
    module = pytest.importorskip(library)
    columns = {"race": some.race.tolist()}
    frame = module.table(columns) if library == "pyarrow" else module.DataFrame(columns)
    interval = fairness_interval(y, some.decision, sensitive_features=frame, metric="false_positive_rate")
    ax = FairnessIntervalDisplay(interval).plot().ax_
    _, (*_, known), (_, _, ends, _, filled) = dots(ax)
    assert known
    assert not filled
    assert ends == [0.0, 1.0]
    assert "c  (n = 0)" in ticks(ax)
    assert "hollow" in ax.get_xlabel()
    assert interval.reason in ax.get_title().replace("\n", " ")


def test_the_axis_mentions_hollow_dots_only_if_there_are_any():
    some = people()
    interval = fairness_interval(some.y, some.decision, sensitive_features=some.sex)
    assert "hollow" not in FairnessIntervalDisplay(interval).plot().ax_.get_xlabel()


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["error_rate", "equalized_odds"])
@pytest.mark.parametrize("n_groups", [2, 30])
@pytest.mark.parametrize("length", [1, 20])
def test_labels_do_not_overlap_with_many_groups_and_long_names(dots, metric, n_groups, length):
    some = people(races=[f"{i} " + "of a people " * length for i in range(n_groups)])
    interval = fairness_interval(some.y, some.decision, sensitive_features={"race": some.race}, metric=metric)
    display = FairnessIntervalDisplay(interval).plot()
    assert len(dots(display.ax_)) == len(interval.by_group)
    assert not overlap(display.figure_)


def test_dollar_signs_in_names_do_not_start_formulas():
    some = people(races=["$1^{", "$2_$_"])
    interval = fairness_interval(some.y, some.decision, sensitive_features={"$x^$ y^": some.race})
    assert not overlap(FairnessIntervalDisplay(interval).plot().figure_)


def test_the_figure_grows_with_the_number_of_groups():
    some = people(races=[f"group {i}" for i in range(12)])
    few, many = (
        FairnessIntervalDisplay(fairness_interval(some.y, some.decision, sensitive_features=groups)).plot().figure_
        for groups in (some.race > "group 5", some.race)
    )
    assert many.get_figheight() > few.get_figheight() + 2.0


def test_the_rates_of_an_estimator_are_those_of_its_interval(fitted, held_out, dots):
    evaluation = {"X": held_out.X, "y": held_out.y, "sensitive_features": held_out.sensitive}
    more = {"metric": "false_positive_rate", "confidence_level": 0.8, "source": "evaluation", "method": "basic"}
    _, ax = plt.subplots()
    display = FairnessIntervalDisplay.from_estimator(fitted, ax=ax, **evaluation, **more)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert display.interval == fitted.fairness_interval(**evaluation, **more)
    assert [ends for _, _, ends, *_ in dots(ax)] == display.interval.by_group[["low", "high"]].values.tolist()
