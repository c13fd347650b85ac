"""Pictures of intervals: every path is drawn, named, and inside its band."""

from __future__ import annotations

from itertools import islice

import matplotlib.pyplot as plt
import numpy as np
import pytest

from surefair import CRITERIA, FairClassifier
from surefair.datasets import SyntheticDM
from surefair.plotting import IntervalPathDisplay
from surefair.streams import batches

STREAM = SyntheticDM(seed=0)
TEST = STREAM.rows(10**6, 300)


@pytest.fixture(autouse=True)
def no_window():
    with plt.rc_context({"backend": "Agg"}):
        yield
    plt.close("all")


def make(criterion="demographic_parity"):
    return FairClassifier(criterion, n_replicates=20, n_constraint=100, random_state=0)


def first_batches(n, size=150):
    return islice(STREAM.batches(size=size), n)


def follow(criterion="demographic_parity", n=4, **more):
    estimator = make(criterion)
    return IntervalPathDisplay.from_estimator(
        estimator, first_batches(n), TEST.X, TEST.y, sensitive_features=TEST.group, **more
    )


@pytest.fixture
def three_paths():
    paths = {name: next(iter(follow(name).paths.values())) for name in ("error_rate", "demographic_parity", None)}
    return IntervalPathDisplay([150, 300, 450, 600], {f"path of {name}": path for name, path in paths.items()})


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def limits(path):
    return [interval.low for interval in path], [interval.high for interval in path]


def test_from_estimator_looks_after_every_batch():
    estimator, by_hand = make(), make()
    display = IntervalPathDisplay.from_estimator(
        estimator, first_batches(3), TEST.X, TEST.y, sensitive_features=TEST.group
    )
    assert display.rows == [150, 300, 450]
    (path,) = display.paths.values()
    for batch, interval in zip(first_batches(3), path, strict=True):
        by_hand.partial_fit(batch.X, batch.y, sensitive_features=batch.group)
        asked = by_hand.fairness_interval(TEST.X, TEST.y, sensitive_features=TEST.group)
        assert interval.to_dict() == asked.to_dict()
    assert np.array_equal(estimator.coef_, by_hand.coef_)  # the estimator itself was trained


def test_the_first_path_is_a_line_inside_its_band(three_paths):
    ax, path = three_paths.plot().ax_, next(iter(three_paths.paths.values()))
    (band,), line = ax.collections, ax.lines[0]
    assert line.get_xdata().tolist() == three_paths.rows
    assert line.get_ydata().tolist() == [interval.estimate for interval in path]
    corners = band.get_paths()[0].vertices
    for x, y in line.get_xydata():
        low, *_, high = sorted(corners[corners[:, 0] == x, 1])
        assert low <= y <= high
    assert set(corners[:, 1]) == {limit for both in limits(path) for limit in both}


def test_the_other_paths_are_drawn_by_their_limits(three_paths):
    ax = three_paths.plot().ax_
    others = list(three_paths.paths.values())[1:]
    drawn = [line.get_ydata().tolist() for line in ax.lines[1:]]
    assert drawn == [limit for path in others for limit in limits(path)]
    low, high, other_low, other_high = (line.get_color() for line in ax.lines[1:])
    assert low == high != other_low == other_high


def test_the_picture_says_what_it_shows(three_paths):
    ax = three_paths.plot().ax_
    assert ax.get_xlabel() == "rows seen"
    assert "error rate difference" in ax.get_ylabel()
    assert ax.get_title() == "95% intervals, each for a single look"
    assert set(legend(ax)) == {"estimate", *(f"{name} interval" for name in three_paths.paths)}


def test_plot_draws_where_it_is_told():
    figure, (left, right) = plt.subplots(1, 2)
    display = follow(ax=right)
    assert display.ax_ is right
    assert display.figure_ is figure
    assert len(right.lines) == 1
    assert not left.lines
    assert display.plot(ax=left) is display
    assert display.ax_ is left


def test_plot_makes_a_figure_of_its_own_otherwise(three_paths):
    before = plt.get_fignums()
    figures = {three_paths.plot().figure_, three_paths.plot().figure_}
    assert len(figures) == 2
    assert len(plt.get_fignums()) == len(before) + 2


def test_no_path_is_left_out():
    path = next(iter(follow(n=2).paths.values()))
    names = [f"model {i}" for i in range(6)]
    ax = IntervalPathDisplay([150, 300], dict.fromkeys(names, path)).plot().ax_
    assert set(legend(ax)) == {"estimate", *(f"{name} interval" for name in names)}


def test_one_look_is_enough():
    assert len(follow(n=1).ax_.lines) == 1


def test_without_a_look_there_is_nothing_to_draw():
    with pytest.raises(ValueError, match=r"(?i)\bno\b|at least one|empty"):
        follow(n=0)


@pytest.mark.parametrize("criterion", ["error_rate", CRITERIA["error_rate"]], ids=["name", "object"])
def test_a_path_is_called_by_its_criterion(criterion):
    assert list(follow(criterion).paths) == ["error_rate"]


def test_names_of_features_go_with_the_batches():
    train, test = STREAM.sample(600), SyntheticDM(seed=1).sample(300)
    display = IntervalPathDisplay.from_estimator(
        make(), batches(train.X, train.y, train.sensitive, size=200), test.X, test.y, sensitive_features=test.sensitive
    )
    assert display.rows == [200, 400, 600]
