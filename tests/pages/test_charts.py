"""Scales have round ticks, and charts show every estimate they are given."""

from __future__ import annotations

import re

import pytest

from surefair.pages.bands import Look, bands
from surefair.pages.forest import Mark, Row, Widths, forest
from surefair.pages.scale import log_ticks, make_scale
from surefair.pages.svg import shorten


@pytest.mark.parametrize(
    ("values", "options"),
    [
        ([0.0, 1.0], {}), ([0.3, 0.3], {}), ([], {}), ([None], {}), ([1e-9, 2e-9], {}), ([-5e5, 1e6], {}),
        ([0.0], {"floor": 0.0}), ([0.99999, 1.0], {"ceiling": 1.0}),
    ],
)  # fmt: skip
def test_axes_have_distinct_ticks_within_their_range(values: list[float | None], options: dict[str, float]) -> None:
    scale = make_scale(values, **options)
    assert 2 <= len(scale.ticks) <= 7
    slack = 1e-9 * (scale.high - scale.low)
    assert all(scale.low - slack <= at <= scale.high + slack for at, _ in scale.ticks)
    assert len({label for _, label in scale.ticks}) == len(scale.ticks)


@pytest.mark.parametrize(("low", "high"), [(1, 2), (7, 9), (400, 1500), (3, 40_000), (1, 10**9)])
def test_logarithmic_ticks_lie_between_the_ends(low: int, high: int) -> None:
    ticks = log_ticks(low, high)
    assert len(ticks) >= 2
    assert ticks == sorted(set(ticks))
    assert low <= ticks[0] < ticks[-1] <= high


def test_a_label_is_cut_to_the_room_it_has() -> None:
    assert shorten("short", 10.0) == "short"
    assert shorten("a  b\nc", 10.0) == "a b c"
    assert len(shorten("x" * 300, 10.0)) < 20


def draw_forest(*marks: Mark) -> str:
    scale = make_scale([0.0, 1.0])
    return str(forest([Row("a", marks)], scale, Widths(), description="chart", axis="axis"))


def test_a_forest_draws_what_is_defined() -> None:
    whole = draw_forest(Mark(0, 0.5, 0.2, 0.8, "tip"))
    assert whole.count('class="dot"') == whole.count('class="reach"') == 1
    without_estimate = draw_forest(Mark(0, None, 0.2, 0.8, "tip"))
    assert 'class="reach open"' in without_estimate
    assert "not defined" in without_estimate
    nothing = draw_forest(Mark(0, None, None, None, "tip"))
    assert "reach" not in nothing
    assert "not defined" in nothing


def test_a_forest_prints_a_text_once_if_all_marks_of_a_row_share_it() -> None:
    assert draw_forest(Mark(0, 0.5, 0.2, 0.8, "", "n = 7"), Mark(1, 0.5, 0.2, 0.8, "", "n = 7")).count("n = 7") == 1
    assert draw_forest(Mark(0, 0.5, 0.2, 0.8, "", "n = 7"), Mark(1, 0.5, 0.2, 0.8, "", "n = 8")).count("n = ") == 2


def draw_bands(*defined: bool) -> str:
    looks = [Look(10 * (i + 1), *((0.5, 0.2, 0.8) if one else (None,) * 3), "tip") for i, one in enumerate(defined)]
    return str(bands([looks], make_scale([0.0, 1.0]), description="chart", axis="rows", unit="share"))


@pytest.mark.parametrize(
    ("defined", "runs"),
    [
        ((True, True, True), [3]), ((True, True, False, True, True), [2, 2]), ((True,), []), ((False, False), []),
        ((True, False, True, True), [2]),
    ],
)  # fmt: skip
def test_bands_break_where_a_number_is_missing(defined: tuple[bool, ...], runs: list[int]) -> None:
    chart = draw_bands(*defined)
    lines = re.findall(r'<polyline points="([^"]*)"', chart)
    assert [len(points.split(" ")) for points in lines] == runs
    assert chart.count('class="dot"') == sum(defined)
    assert chart.count("data-tip") == len(defined)
