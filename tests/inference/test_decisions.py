"""Intervals for the decisions of any model, whatever the types of labels, scores, groups and tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import surefair as sf
from surefair.criteria import CRITERIA
from surefair.diagnostics import TooFewReplicates

pytestmark = pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")  # few rows and replicates

LIMITS = ("low", "high", "gap_low", "gap_high")
RATIOS = [f"{name}_ratio" for name in CRITERIA]

every_metric = pytest.mark.parametrize("metric", CRITERIA)
every_metric_and_ratio = pytest.mark.parametrize("metric", [*CRITERIA, *RATIOS])


def interval_of(rows, **options):
    truth, decision, group = rows
    return sf.fairness_interval(truth, decision, sensitive_features=group, **({"n_replicates": 200} | options))


def numbers(interval):
    return tuple(getattr(interval, name) for name in ("estimate", "gap", *LIMITS))


@every_metric
def test_the_same_seed_gives_the_same_numbers_and_another_seed_others(rows, metric):
    first, again, other = (interval_of(rows, metric=metric, random_state=seed) for seed in (5, 5, 6))
    assert numbers(first) == numbers(again)
    assert (first.estimate, first.gap) == (other.estimate, other.gap)
    assert all(getattr(first, name) != getattr(other, name) for name in ("high", "gap_low", "gap_high"))


def test_warnings_point_at_the_line_that_calls(rows):
    with pytest.warns(TooFewReplicates, match="Use method='cheap', or more replicates") as caught:
        sf.fairness_interval(rows[0], rows[1], sensitive_features=rows[2], n_replicates=10)
    assert [warning.filename for warning in caught] == [__file__]


# -- Sample weights ----------------------------------------------------------------------------------------------------


@every_metric_and_ratio
@pytest.mark.parametrize("weight", [1.0, 2.0, 0.3])
def test_equal_weights_are_the_same_as_none(many, metric, weight):
    plain, weighted = (interval_of(many, metric=metric, sample_weight=c) for c in (None, np.full(2000, weight)))
    assert numbers(weighted) == pytest.approx(numbers(plain), rel=1e-9)
    assert weighted.pair == plain.pair


@every_metric_and_ratio
def test_a_row_of_weight_k_gives_the_estimate_of_k_rows_with_a_wider_interval(rows, metric):
    weight = np.random.default_rng(5).integers(4, size=300)
    weighted = interval_of(rows, metric=metric, sample_weight=weight)
    many_rows = interval_of([np.repeat(column, weight) for column in rows], metric=metric)
    assert (weighted.estimate, weighted.gap) == pytest.approx((many_rows.estimate, many_rows.gap), rel=1e-12)
    assert weighted.n == np.count_nonzero(weight)
    assert weighted.gap_high - weighted.gap_low > 1.1 * (many_rows.gap_high - many_rows.gap_low)


def test_rows_of_weight_zero_are_no_evidence(rows):
    truth, decision, group = (np.concatenate([column, column[:50]]) for column in rows)
    weight = np.repeat([1.0, 0.0], [300, 50])
    found = interval_of((truth, decision, group), sample_weight=weight)
    assert numbers(found) == numbers(interval_of(rows))
    assert found.n == found.by_group["n"].sum() == 300
    assert "50 of 350 rows have the weight 0 and are left out." in found.sentence


def test_clusters_of_weight_zero_are_no_evidence():
    group, cluster = np.repeat(["a", "b"], 1000), np.arange(2000) // 100
    options = {"pos_label": 1, "metric": "demographic_parity"}
    plain = sf.fairness_interval(None, np.zeros(2000), sensitive_features=group, clusters=cluster, **options)
    padded = sf.fairness_interval(
        None, np.zeros(4000), sensitive_features=np.tile(group, 2), clusters=np.r_[cluster, np.arange(100, 2100)],
        sample_weight=np.repeat([1, 0], 2000), **options,
    )  # fmt: skip
    assert numbers(padded) == numbers(plain)
    assert plain.high > 0.3


@pytest.mark.parametrize("weight", [1e160, 1e-200, 0.1])
def test_the_size_of_weights_does_not_matter(weight):
    decision, group = [0, 1, 1] * 20, ["a", "b"] * 30
    options = [{}, {"strata": [0, 0, 0, 1, 1, 1] * 10}]  # with strata, rows may be few if weights are equal
    for one in options:
        plain, weighted = (
            sf.fairness_interval(None, decision, sensitive_features=group, sample_weight=c, **one)
            for c in (None, [weight] * 60)
        )
        assert numbers(weighted) == numbers(plain)


# -- Labels and groups of any type -------------------------------------------------------------------------------------


@every_metric
@pytest.mark.parametrize(
    ("labels", "groups"),
    [(["no", "yes"], ["f", "m"]), ([False, True], [10, 20]), ([-1, 1], [0.5, 1.5]), ([1.0, 2.0], [False, True])],
    ids=["strings", "booleans", "signs", "floats"],
)
def test_the_names_of_labels_and_groups_change_nothing(rows, metric, labels, groups):
    truth, decision, group = rows
    renamed = sf.fairness_interval(
        np.array(labels)[truth], np.array(labels)[decision], sensitive_features=np.array(groups)[group], metric=metric,
        n_replicates=200,
    )  # fmt: skip
    assert numbers(renamed) == numbers(interval_of(rows, metric=metric))
    assert renamed.by_group["group"].tolist() == groups * len(CRITERIA[metric].rates)
    assert all(repr(name) in renamed.sentence for name in groups)


@every_metric
def test_swapping_the_names_of_the_groups_flips_the_gap(rows, metric):
    truth, decision, group = rows
    one, other = interval_of(rows, metric=metric), interval_of((truth, decision, 1 - group), metric=metric)
    assert (other.gap, other.estimate) == (-one.gap, one.estimate)
    assert (other.gap_low, other.gap_high) == pytest.approx((-one.gap_high, -one.gap_low), abs=1e-12)


def test_limits_of_a_rate_of_zero_contain_zero():
    group = np.repeat([0, 1], [5000, 20])
    found = sf.fairness_interval(np.zeros(5020), np.zeros(5020), sensitive_features=group, pos_label=1)
    assert found.low == found.estimate == 0.0
    assert (found.by_group["low"] == 0.0).all()


def test_the_positive_label_is_the_second_unless_pos_label_is_given(rows):
    default = interval_of(rows)
    assert numbers(interval_of(rows, pos_label=1)) == numbers(default)
    assert interval_of(rows, pos_label=0).gap == pytest.approx(-default.gap)
    mirrored = interval_of(rows, metric="false_positive_rate", pos_label=0)
    assert mirrored.gap == pytest.approx(interval_of(rows, metric="false_negative_rate").gap)


def test_pos_label_need_not_occur_in_the_data():
    groups = ["a", "b"] * 40
    found = sf.fairness_interval([0] * 80, [0] * 80, sensitive_features=groups, pos_label=1, n_replicates=50)
    assert (found.estimate, found.reason) == (0.0, "")
    with pytest.warns(UserWarning, match=r"No row has the label pos_label=7: all have 1\.") as caught:
        sf.fairness_interval([1] * 80, [1] * 80, sensitive_features=groups, pos_label=7, n_replicates=50)
    assert {one.filename for one in caught} == {__file__}


@pytest.mark.parametrize(
    ("y_true", "y_pred"), [(["0", "1"], [0, 1]), ([0, 1], ["0", "1"]), ([True, False], ["True", "False"])]
)
def test_labels_and_decisions_of_different_types_are_never_compared(y_true, y_pred):
    with pytest.raises(ValueError, match=r"label|type"):
        sf.fairness_interval(y_true * 10, y_pred * 10, sensitive_features=["a", "a", "b", "b"] * 5)


def test_booleans_and_numbers_are_compared_by_value(rows):
    truth, decision, group = rows
    assert numbers(interval_of((truth, decision.astype(bool), group))) == numbers(interval_of(rows))
    assert numbers(interval_of((truth.astype(float), decision, group))) == numbers(interval_of(rows))


def test_a_pair_has_the_type_of_its_groups(many):
    truth, decision, columns = many
    assert interval_of((truth, decision, {"age": columns["age"]})).pair == (20, 60)
    assert interval_of((truth, decision, {"age": columns["age"]})).by_group["group"].tolist() == [20, 40, 60]


def test_bins_of_a_number_are_groups(many):
    truth, decision, columns = many
    found = interval_of((truth, decision, pd.cut(pd.Series(columns["age"]), [0, 30, 90, 120])))
    assert found.by_group["group"].tolist() == ["(0, 30]", "(30, 90]", "(90, 120]"]
    assert found.by_group["n"].tolist() == [int((columns["age"] < 30).sum()), int((columns["age"] > 30).sum()), 0]
    assert "group '(90, 120]' has no evaluation row" in found.reason


def test_a_hundred_groups_are_compared_and_more_are_refused():
    rng = np.random.default_rng(8)
    truth, decision, group = rng.integers(2, size=3000), rng.integers(2, size=3000), np.arange(3000)
    found = interval_of((truth, decision, group % 100))
    assert len(found.by_pair) == 4950
    with pytest.raises(ValueError, match="has 101 different values, and at most 100"):
        interval_of((truth, decision, group % 101))


# -- Tables of any library ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("series", [pd.Series, pl.Series, lambda values: pa.chunked_array([values])])
def test_tables_are_in_the_library_of_the_groups(rows, series):
    truth, decision, group = rows
    column = series(np.array(["f", "m"])[group].tolist())
    found = sf.fairness_interval(truth, decision, sensitive_features=column, n_replicates=50)
    library = type(column).__module__.split(".")[0]
    for frame in (found.to_frame(), found.by_group, found.by_pair):
        assert type(frame).__module__.split(".")[0] == library
    assert found.to_frame().shape[0] == 1
    row = found.to_frame().to_pylist()[0] if library == "pyarrow" else found.to_frame()
    for name in ("metric", "n", "estimate", "gap", *LIMITS):
        assert (row[name] if library == "pyarrow" else row[name][0]) == getattr(found, name)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_sensitive_columns_may_come_from_any_table(many, make):
    truth, decision, columns = many
    table = make({"sex": columns["sex"].tolist(), "age": columns["age"].tolist()})
    found = interval_of((truth, decision, table), intersections=True)
    assert found == interval_of(many, intersections=True)
    library = "pandas" if make is dict else type(table).__module__.split(".")[0]
    for frame in (found.to_frame(), found.by_group, found.by_pair):
        assert type(frame).__module__.split(".")[0] == library
    series = {name: pl.Series(values) for name, values in columns.items()}
    assert isinstance(interval_of((truth, decision, series)).by_group, pl.DataFrame)


# -- Scores ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("series", [list, np.array, pd.Series, pl.Series])
@pytest.mark.parametrize("labels", [["no", "yes"], [0, 1]])
def test_scores_become_decisions_at_the_threshold(rows, series, labels):
    truth, decision, group = rows
    scores = np.where(decision == 1, 0.5, 0.49)  # a score at the threshold is a positive decision
    named = np.array(labels)[truth]
    found = sf.fairness_interval(named, series(scores), sensitive_features=group, n_replicates=200, threshold=0.5)
    assert numbers(found) == numbers(interval_of(rows))
    flipped = sf.fairness_interval(
        named, scores, sensitive_features=group, threshold=0.5, metric="false_positive_rate", pos_label=labels[0]
    )
    assert flipped.by_group["n"].tolist() == [int((truth[group == g] == 1).sum()) for g in (0, 1)]


def test_a_threshold_needs_scores(rows):
    truth, _, group = rows
    with pytest.raises(
        ValueError, match=r"y_pred must hold numbers; received \['a', 'a', 'a'\].*Leave the threshold out"
    ):
        sf.fairness_interval(truth, ["a"] * 300, sensitive_features=group, threshold=0.5)
    with pytest.raises(ValueError, match="score column contains NaN"):
        sf.fairness_interval(truth, [np.nan] * 300, sensitive_features=group, threshold=0.5)
    with pytest.raises(ValueError, match="Exactly two labels are needed; received 3"):
        sf.fairness_interval([0, 1, 2] * 100, np.zeros(300), sensitive_features=group, threshold=0.5)


# -- Without labels ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["demographic_parity", "demographic_parity_ratio"])
@pytest.mark.parametrize("labels", [[0, 1], ["no", "yes"]])
def test_parity_needs_no_labels(rows, metric, labels):
    truth, decision, group = rows
    named = np.array(labels)
    expected = interval_of((named[truth], named[decision], group), metric=metric)
    assert interval_of((None, named[decision], group), metric=metric) == expected


@pytest.mark.parametrize("metric", ["demographic_parity", "demographic_parity_ratio"])
def test_without_labels_every_other_option_still_works(many, metric):
    # Which random numbers a group gets depends on its counts, labels included, so limits differ by chance.
    _, decision, columns = many
    options = {
        "metric": metric,
        "sample_weight": np.linspace(0.5, 1.5, 2000),
        "intersections": True,
        "method": "basic",
        "confidence_level": 0.9,
        "pos_label": 0,
        "n_replicates": 2000,
    }
    found = interval_of((None, decision, columns), **options)
    expected = interval_of(many, **options)
    assert numbers(found)[:2] == pytest.approx(numbers(expected)[:2], rel=1e-12)
    assert numbers(found) == pytest.approx(numbers(expected), abs=0.03)
    assert found.by_group["rate"].tolist() == pytest.approx(expected.by_group["rate"].tolist(), rel=1e-12)
    meaning, same = (one.sentence.partition("): ")[2] for one in (found, expected))
    assert (found.pair, meaning, found.n) == (expected.pair, same, 2000)


@pytest.mark.parametrize("metric", ["demographic_parity", "demographic_parity_ratio"])
def test_scores_need_no_labels_either(rows, metric):
    truth, decision, group = rows
    scores = np.where(decision == 1, 0.5, 0.49)
    with_labels = interval_of((truth, scores, group), metric=metric, threshold=0.5)
    without = interval_of((None, scores, group), metric=metric, threshold=0.5)
    assert numbers(without) == numbers(with_labels)
    assert without.by_group.equals(with_labels.by_group)
    assert "The positive value is" not in without.sentence  # scores have no labels


@pytest.mark.parametrize("metric", [name for name in [*CRITERIA, *RATIOS] if "demographic_parity" not in name])
@pytest.mark.parametrize("threshold", [None, 0.5])
def test_other_metrics_need_labels(rows, metric, threshold):
    with pytest.raises(ValueError, match=f"y_true is None, and the metric '{metric}' needs labels. Pass the labels"):
        interval_of((None, rows[1], rows[2]), metric=metric, threshold=threshold)


def test_without_labels_two_decisions_are_needed():
    with pytest.raises(ValueError, match=r"All decisions are 0\. Pass pos_label"):
        sf.fairness_interval(None, [0, 0], sensitive_features=["a", "b"])
    with pytest.raises(ValueError, match="There are no evaluation rows"):
        sf.fairness_interval(None, [], sensitive_features=[])


# -- Refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"metric": "demografic_parity"}, "Unknown metric: 'demografic_parity'. Did you mean 'demographic_parity'?"),
        ({"metric": "zzz"}, "Unknown metric: 'zzz'. Known: 'accuracy'.*'error_rate_ratio'"),
        ({"threshold": np.nan}, "threshold must be a finite number.* received nan"),
        ({"threshold": "half"}, "threshold must be a finite number.* received 'half'"),
        ({"intersections": True}, "Intersections need two or more sensitive columns"),
        ({"sample_weight": np.zeros(300)}, "sample_weight is zero in every row"),
        ({"sample_weight": -np.ones(300)}, "sample_weight is negative in row 0"),
        ({"sample_weight": [1.0]}, "sample_weight has 1 entries, and there are 300 rows"),
        ({"sample_weight": np.full(300, np.inf)}, "sample_weight is infinite in row 0"),
        ({"random_state": -1}, "random_state must be None or a whole number"),
        ({"metric": 3}, "Unknown metric: 3"),
        ({"method": "percentil"}, "Unknown method: 'percentil'. Did you mean 'percentile'?"),
        ({"confidence_level": 0.0}, "confidence_level must lie strictly between 0 and 1.* received 0.0"),
        ({"confidence_level": 1.0}, "confidence_level must .* received 1.0"),
        ({"confidence_level": 95}, "confidence_level must .* received 95"),
        ({"confidence_level": np.nan}, "confidence_level must .* received nan"),
        ({"n_replicates": 1}, "2 or larger; received 1"),
        ({"pos_label": "yes"}, r"pos_label='yes' is not one of the labels \[0, 1\]"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_invalid_options_are_refused(rows, option, message):
    with pytest.raises(ValueError, match=message):
        interval_of(rows, **option)


@pytest.mark.parametrize(
    ("y_true", "y_pred", "group", "message"),
    [
        ([0, 1, 1], [0, 1], ["a", "b"], "inconsistent numbers of samples: y_true has 3, y_pred has 2"),
        ([0, 1], [0, 1], ["a"], "sensitive_features has 1"),
        ([], [], [], "no evaluation rows"),
        ([0, 1], [0, 1], ["a", "a"], "only 1 group, 'a', .* Add rows of another group, or choose another column.$"),
        ([0, 1], [0, 1], {"sex": ["a", "b"], "age": [1, 1]}, "The sensitive column 'age' has only 1 group, 1"),
        ([0, 1], [0, 1], np.array([["a", "b"], ["c", "d"]]), "Pass a data frame or a dict of columns"),
        ([0, 1], [0.2, 0.8], ["a", "b"], "together have 4 values. If y_pred holds scores .* threshold=0.5"),
        ([0, 0], [0, 0], ["a", "b"], "All labels are 0. Pass pos_label to say which value is positive"),
        ([0, np.nan], [0, 1], ["a", "b"], "label column contains NaN"),
        (["no", "yes"], [0, 1], ["a", "b"], "y_true are text and y_pred has numbers or Booleans"),
        (
            ["no", "yes"],
            ["none", "review"],
            ["a", "b"],
            "different values: 'no' and 'yes'; 'none' and 'review'. Use the same two",
        ),
        ([0, 1], [0, 1], ["a", None], "group column contains NaN or missing"),
    ],
)
def test_invalid_rows_are_refused(y_true, y_pred, group, message):
    with pytest.raises(ValueError, match=message):
        sf.fairness_interval(y_true, y_pred, sensitive_features=group)
