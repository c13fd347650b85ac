"""Pictures of intervals: every path is drawn, named, and inside its band."""

from __future__ import annotations

from itertools import islice, pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest

from surefair import CRITERIA, FairClassifier, fairness_interval
from surefair.datasets import SyntheticDM
from surefair.inference.theory import GapLaw
from surefair.plotting import (
    COLOURS,
    CoefficientDisplay,
    DensityDisplay,
    FairnessIntervalDisplay,
    IntervalPathDisplay,
)
from surefair.rows.arrays import batches, make_frame

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


# -- Rates of groups --------------------------------------------------------------------------------------------------


def people(n=3_000, races=("a", "b", "c")):
    rng = np.random.default_rng(0)
    race, sex = rng.choice(races, size=n), rng.choice(["Female", "Male"], size=n, p=[0.3, 0.7])
    y = rng.integers(2, size=n)
    return y, (rng.uniform(size=n) < 0.3 + 0.2 * y + 0.1 * (sex == "Male")).astype(int), race, sex


def drawn(ax):
    """What there is: (marker's place, its height, ends of its line, colour, whether filled), in the order drawn."""
    lines = [line for line in ax.lines if len(line.get_xdata())]
    found = []
    for line, dot in zip(lines[::2], lines[1::2], strict=True):
        (x,), (y,), colour = dot.get_xdata(), dot.get_ydata(), dot.get_color()
        assert line.get_color() == colour
        assert list(line.get_ydata()) == [y, y]
        found.append((x, y, list(line.get_xdata()), colour, dot.get_markerfacecolor() == colour))
    return found


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


def test_dots_and_lines_are_the_rates_and_their_limits():
    y, decision, _, sex = people()
    interval = fairness_interval(y, decision, sensitive_features=sex)
    display = FairnessIntervalDisplay(interval)
    assert display.plot() is display
    rows = interval.by_group.to_dict("records")
    assert [(x, at, ends) for x, at, ends, *_ in drawn(display.ax_)] == [
        (row["rate"], i, [row["low"], row["high"]]) for i, row in enumerate(rows)
    ]
    assert all(filled for *_, filled in drawn(display.ax_))
    assert list(ticks(display.ax_)) == [f"{name}  (n = {(sex == name).sum():,})" for name in ("Female", "Male")]
    assert display.ax_.get_legend() is None
    assert not display.figure_.legends


def test_the_title_says_what_is_estimated():
    y, decision, race, sex = people()
    interval = fairness_interval(y, decision, sensitive_features=sex, confidence_level=0.9)
    first, second = FairnessIntervalDisplay(interval).plot().ax_.get_title().split("\n")
    numbers = f"{interval.estimate:.3f}, 90 % interval [{interval.low:.3f}, {interval.high:.3f}]"
    assert first == f"demographic parity: unfairness {numbers}"
    assert second == "source evaluation: the gap, in the population, of this very model"
    several = fairness_interval(y, decision, sensitive_features={"race": race})
    title = FairnessIntervalDisplay(several).plot().ax_.get_title()
    assert f"between {several.pair[0]} and {several.pair[1]} of race, in their selection rate" in title


def test_ratios_are_told_as_such_while_rates_stay_rates():
    y, decision, _, sex = people()
    interval = fairness_interval(y, decision, sensitive_features=sex, metric="demographic_parity_ratio")
    ax = FairnessIntervalDisplay(interval).plot().ax_
    assert ax.get_title().startswith(f"demographic parity ratio {interval.estimate:.3f}, 95 % interval [")
    assert "unfairness" not in ax.get_title()
    assert [x for x, *_ in drawn(ax)] == interval.by_group["rate"].tolist()
    assert ax.get_xlabel().startswith("selection rate")


def test_groups_of_several_columns_are_below_their_names_in_their_colours():
    y, decision, race, sex = people()
    interval = fairness_interval(y, decision, sensitive_features={"race": race, "sex": sex})
    ax = FairnessIntervalDisplay(interval).plot().ax_
    at = ticks(ax)
    assert [label.split("  (")[0] for label in at] == ["race", "a", "b", "c", "sex", "Female", "Male"]
    heights = [at[label] for label in at if "(n = " in label]
    assert [(height, colour) for _, height, _, colour, _ in drawn(ax)] == list(
        zip(heights, [COLOURS[0]] * 3 + [COLOURS[1]] * 2, strict=True)
    )
    assert [x for x, *_ in drawn(ax)] == interval.by_group["rate"].tolist()


@pytest.mark.parametrize("where", ["alone", "in axes"])
def test_several_rates_share_a_row_and_have_colours(where):
    y, decision, _, sex = people()
    interval = fairness_interval(y, decision, sensitive_features=sex, metric="equalized_odds")
    ax = FairnessIntervalDisplay(interval).plot(ax=None if where == "alone" else plt.subplots()[1]).ax_
    n = {(row["group"], row["metric"]): row["n"] for row in interval.by_group.to_dict("records")}
    rates = ["false_positive_rate", "false_negative_rate"]
    assert list(ticks(ax)) == [
        f"{group}  (n = {n[group, rates[0]]:,} / {n[group, rates[1]]:,})" for group in ("Female", "Male")
    ]
    of = dict(zip(COLOURS, rates, strict=False))
    found = {(round(at), of[colour]): (x, *ends) for x, at, ends, colour, _ in drawn(ax)}
    assert found == {
        (["Female", "Male"].index(row["group"]), row["metric"]): (row["rate"], row["low"], row["high"])
        for row in interval.by_group.to_dict("records")
    }
    assert len({at for _, at, *_ in drawn(ax)}) == 4  # none hides another
    box = ax.figure.legends[0] if where == "alone" else ax.get_legend()
    handles = {text.get_text(): line.get_color() for text, line in zip(box.get_texts(), box.get_lines(), strict=True)}
    assert handles == {"false positive rate": COLOURS[0], "false negative rate": COLOURS[1]}


@pytest.mark.filterwarnings("ignore::surefair.diagnostics.SmallEvaluationSet")
@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_an_undefined_rate_is_hollow_on_the_whole_range(library):
    y, decision, race, _ = people()
    y = np.where(race == "c", 1, y)
    like = {"race": race.tolist()}
    module = pytest.importorskip(library)
    like = module.table(like) if library == "pyarrow" else module.DataFrame(like)
    interval = fairness_interval(y, decision, sensitive_features=like, metric="false_positive_rate")
    ax = FairnessIntervalDisplay(interval).plot().ax_
    (*_, known), (_, _, ends, _, filled) = drawn(ax)[1], drawn(ax)[2]
    assert known
    assert not filled
    assert ends == [0.0, 1.0]
    assert "c  (n = 0)" in ticks(ax)
    assert "hollow" in ax.get_xlabel()
    assert interval.reason in ax.get_title().replace("\n", " ")


def test_without_undefined_rates_there_is_no_word_of_them():
    y, decision, _, sex = people()
    display = FairnessIntervalDisplay(fairness_interval(y, decision, sensitive_features=sex)).plot()
    assert "hollow" not in display.ax_.get_xlabel()


@pytest.mark.filterwarnings("ignore::surefair.diagnostics.SmallEvaluationSet")
@pytest.mark.parametrize("metric", ["error_rate", "equalized_odds"])
@pytest.mark.parametrize("n_groups", [2, 30])
@pytest.mark.parametrize("length", [1, 20])
def test_labels_do_not_overlap_however_many_groups_and_long_their_names(metric, n_groups, length):
    y, decision, race, _ = people(races=[f"{i} " + "of a people " * length for i in range(n_groups)])
    interval = fairness_interval(y, decision, sensitive_features={"race": race}, metric=metric)
    display = FairnessIntervalDisplay(interval).plot()
    assert len(drawn(display.ax_)) == len(interval.by_group)
    assert not overlap(display.figure_)


def test_dollars_in_names_are_no_formulas():
    y, decision, race, _ = people(races=["$1^{", "$2_$_"])
    display = FairnessIntervalDisplay(fairness_interval(y, decision, sensitive_features={"$x^$ y^": race})).plot()
    assert not overlap(display.figure_)
    DensityDisplay({"observed": [0.1, 0.2]}, what="$1^{ minus $2_$_").plot().figure_.canvas.draw()


def test_the_figure_grows_with_the_groups():
    y, decision, race, _ = people(races=[f"group {i}" for i in range(12)])
    few, many = (
        FairnessIntervalDisplay(fairness_interval(y, decision, sensitive_features=groups)).plot().figure_
        for groups in (race > "group 5", race)
    )
    assert many.get_figheight() > few.get_figheight() + 2.0


@pytest.fixture(scope="module")
def fitted():
    train = STREAM.rows(0, 2_000)
    clf = FairClassifier("error_rate", n_replicates=60, random_state=0)
    return clf.fit(train.X, train.y, sensitive_features=train.group)


def test_the_rates_of_an_estimator_are_those_of_its_interval(fitted):
    more = {"metric": "false_positive_rate", "confidence_level": 0.8, "source": "evaluation", "method": "basic"}
    _, ax = plt.subplots()
    display = FairnessIntervalDisplay.from_estimator(
        fitted, TEST.X, TEST.y, sensitive_features=TEST.group, ax=ax, **more
    )
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert display.interval == fitted.fairness_interval(TEST.X, TEST.y, sensitive_features=TEST.group, **more)
    assert [ends for _, _, ends, *_ in drawn(ax)] == display.interval.by_group[["low", "high"]].values.tolist()


def test_coefficients_are_hollow_where_zero_is_in_their_interval():
    table = make_frame({"feature": ["x", "z"], "estimate": [1.0, 0.1], "low": [0.5, -0.2], "high": [1.5, 0.4]})
    ax = CoefficientDisplay(table).plot().ax_
    ax.lines[0].remove()  # at 0
    assert drawn(ax) == [
        (1.0, 0, [0.5, 1.5], COLOURS[0], True),
        (0.1, 1, [-0.2, 0.4], COLOURS[0], False),
    ]


# -- Densities --------------------------------------------------------------------------------------------------------


def verticals(ax, style="--"):
    return [
        line.get_xdata()[0]
        for line in ax.lines
        if line.get_linestyle() == style and len(line.get_xdata()) == 2 and len(set(line.get_xdata())) == 1
    ]


def curves(ax):
    return {line.get_label(): line.get_xydata() for line in ax.lines if len(line.get_xdata()) > 2}


def test_the_density_of_an_estimator_has_the_limits_of_its_training_interval(fitted):
    asked = {"sensitive_features": TEST.group, "metric": "false_positive_rate"}
    display = DensityDisplay.from_estimator(fitted, TEST.X, TEST.y, **asked)
    interval = fitted.fairness_interval(TEST.X, TEST.y, source="training", **asked)
    assert verticals(display.ax_) == [interval.gap_low, interval.gap_high]
    assert interval.gap in verticals(display.ax_, "-")
    assert legend(display.ax_)[0] == "60 replicates"
    first, second = interval.pair
    assert display.ax_.get_xlabel() == f"gap (false positive rate of {first} minus that of {second})"


def test_every_sample_has_a_density_of_area_one_and_its_limits():
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
    assert "parity" not in legend(ax)  # it is far from 0.1


def test_parity_is_marked_where_it_is_in_sight():
    ax = DensityDisplay({"observed": np.linspace(-0.1, 0.3, 50)}).plot().ax_
    assert verticals(ax, ":") == [0.0]
    assert "parity" in legend(ax)


@pytest.mark.parametrize("method", ["delta", "sample"])
def test_the_limit_law_is_drawn_beside(method):
    gaps = np.random.default_rng(0).normal(0.1, 0.02, 500)
    law = GapLaw(0.12, 0.01, gaps if method == "sample" else np.zeros(0), 4_000, "error_rate", method)
    ax = DensityDisplay({"observed": gaps + 0.5}, law).plot().ax_
    assert list(curves(ax)) == ["observed", "limit law, 4,000 rows"]
    low, high = (
        np.quantile(gaps, (0.025, 0.975), method="weibull") if method == "sample" else (0.12 - 0.0196, 0.12 + 0.0196)
    )
    assert verticals(ax)[2:] == pytest.approx([low, high], abs=1e-3)


@pytest.mark.parametrize(
    ("metric", "sensitive"),
    [
        ("equalized_odds", TEST.group),
        ("error_rate_ratio", TEST.group),
        ("error_rate", np.arange(300) % 3),
    ],
    ids=["two rates", "ratio", "three groups"],
)
@pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")
def test_other_densities_are_refused(fitted, metric, sensitive):
    with pytest.raises(ValueError, match=r"one rate between two groups; received '\w+'.*two groups of one column"):
        DensityDisplay.from_estimator(fitted, TEST.X, TEST.y, sensitive_features=sensitive, metric=metric)
    assert not plt.get_fignums()


def test_a_density_is_of_one_sensitive_column():
    train = STREAM.rows(0, 600)
    clf = FairClassifier(None, n_replicates=60, random_state=0).fit(train.X, train.y)
    columns = {"one": np.arange(300) % 2, "two": np.arange(300) // 150}
    with pytest.raises(ValueError, match=r"'demographic_parity', which compares 2 pair.*two groups of one column"):
        DensityDisplay.from_estimator(clf, TEST.X, TEST.y, sensitive_features=columns)


def test_an_undefined_gap_has_no_density(fitted):
    some = TEST.group.ravel() == TEST.group.ravel()[0]
    rows = TEST.X[some], TEST.y[some]
    with pytest.raises(ValueError, match=r"no density of the gap to draw: group .* has no evaluation row"):
        DensityDisplay.from_estimator(fitted, *rows, sensitive_features=TEST.group[some])


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        ({}, "at least one sample"),
        ({"few": [0.1]}, r"'few' must be two or more .* shape \(1,\)"),
        ({"good": [0.1, 0.2], "bad": [0.1, np.nan, np.inf]}, "'bad' must be .* with 2 that are not finite"),
        ({"flat": np.zeros((3, 2))}, "one dimension"),
    ],
)
def test_samples_without_a_density_are_refused(samples, words):
    with pytest.raises(ValueError, match=words):
        DensityDisplay(samples).plot()
    assert not plt.get_fignums()
