"""The picture of an interval along a stream."""

from __future__ import annotations

from itertools import islice

import matplotlib.pyplot as plt
import numpy as np
import pytest

from surefair import CRITERIA, FairClassifier
from surefair.plotting import IntervalPathDisplay

pytestmark = pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")  # few rows and replicates


def make(criterion="demographic_parity"):
    return FairClassifier(criterion, n_replicates=20, solver="one_pass", n_warmup=200, random_state=0)


def first_batches(stream, n):
    return islice(stream.batches(size=150), n)


@pytest.fixture
def follow(stream, held_out):
    """Function that draws the path of a new classifier."""

    def draw(criterion="demographic_parity", n=4, **more):
        batches = first_batches(stream, n)
        rows = held_out.X, held_out.y
        return IntervalPathDisplay.from_estimator(
            make(criterion), batches, *rows, sensitive_features=held_out.sensitive, **more
        )

    return draw


@pytest.fixture
def three_paths(follow):
    paths = {name: next(iter(follow(name).paths.values())) for name in ("error_rate", "demographic_parity", None)}
    return IntervalPathDisplay([150, 300, 450, 600], {f"path {name}": path for name, path in paths.items()})


def labels_of(names):
    return {"estimate", *(f"{name.replace('_', ' ')} interval" for name in names)}


def limits(path):
    return [interval.low for interval in path], [interval.high for interval in path]


def test_from_estimator_trains_on_every_batch_and_measures_after_each(stream, held_out):
    estimator = make()
    by_hand = make()
    evaluation = {"X": held_out.X, "y": held_out.y, "sensitive_features": held_out.sensitive}
    display = IntervalPathDisplay.from_estimator(estimator, first_batches(stream, 3), **evaluation)
    assert display.rows == [150, 300, 450]
    (path,) = display.paths.values()
    for data, interval in zip(first_batches(stream, 3), path, strict=True):
        by_hand.partial_fit(data.X, data.y, sensitive_features=data.sensitive)
        assert interval.to_dict() == by_hand.fairness_interval(**evaluation, anytime=True).to_dict()
    assert display.end == by_hand.fairness_interval(**evaluation)
    assert np.array_equal(estimator.coef_, by_hand.coef_)


def test_the_first_path_is_a_line_inside_its_band(three_paths):
    ax = three_paths.plot().ax_
    path = next(iter(three_paths.paths.values()))
    (band,) = ax.collections
    line = ax.lines[0]
    assert line.get_xdata().tolist() == three_paths.rows
    assert line.get_ydata().tolist() == [interval.estimate for interval in path]
    corners = band.get_paths()[0].vertices
    for x, y in line.get_xydata():
        low, *_, high = sorted(corners[corners[:, 0] == x, 1])
        assert low <= y <= high
    assert set(corners[:, 1]) == {limit for both in limits(path) for limit in both}


def test_the_other_paths_are_drawn_as_pairs_of_limits(three_paths):
    ax = three_paths.plot().ax_
    others = list(three_paths.paths.values())[1:]
    drawn = [line.get_ydata().tolist() for line in ax.lines[1:]]
    assert drawn == [limit for path in others for limit in limits(path)]
    low, high, other_low, other_high = (line.get_color() for line in ax.lines[1:])
    assert low == high != other_low == other_high


def test_the_labels_say_what_is_shown(three_paths, legend):
    ax = three_paths.plot().ax_
    assert ax.get_xlabel() == "training rows"
    assert "error rate difference" in ax.get_ylabel()
    assert ax.get_title() == "95 % intervals that hold at all looks together"
    assert set(legend(ax)) == labels_of(three_paths.paths)


def test_plot_draws_on_the_given_axes(follow):
    figure, (left, right) = plt.subplots(1, 2)
    display = follow(ax=right)
    assert display.ax_ is right
    assert display.figure_ is figure
    assert len(right.lines) == 1
    assert not left.lines
    assert display.plot(ax=left) is display
    assert display.ax_ is left


def test_plot_makes_a_new_figure_otherwise(three_paths):
    before = plt.get_fignums()
    figures = {three_paths.plot().figure_, three_paths.plot().figure_}
    assert len(figures) == 2
    assert len(plt.get_fignums()) == len(before) + 2


def test_there_may_be_more_paths_than_colours(follow, legend):
    path = next(iter(follow(n=2).paths.values()))
    names = [f"model {i}" for i in range(6)]
    ax = IntervalPathDisplay([150, 300], dict.fromkeys(names, path)).plot().ax_
    assert set(legend(ax)) == labels_of(names)


def test_one_batch_is_enough(follow):
    assert len(follow(n=1).ax_.lines) == 1


def test_without_a_batch_there_is_nothing_to_draw(follow):
    with pytest.raises(ValueError, match="Pass at least one batch"):
        follow(n=0)


@pytest.mark.parametrize("criterion", ["error_rate", CRITERIA["error_rate"]], ids=["name", "object"])
def test_a_path_has_the_name_of_its_criterion(follow, criterion):
    assert list(follow(criterion).paths) == ["error_rate"]


def test_the_interval_for_one_look_is_marked_at_the_end(follow, legend):
    display = follow()
    assert "interval for one look at the end" in legend(display.ax_)
    assert display.end.method == "percentile"
    fixed = IntervalPathDisplay(display.rows, {"fixed": [display.end] * len(display.rows)}).plot()
    assert fixed.ax_.get_title() == "95 % intervals, each valid for one look only"
