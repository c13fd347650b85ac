"""Groups as they are: unknown ones, small ones, intersections, references."""

from __future__ import annotations

import numpy as np
import pytest

import surefair as sf

pytestmark = pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")


def audit(table, **settings):
    return sf.audit(table, **{"decision": "hired", "n_replicates": 100} | settings)


def pairs(found):
    return [(one["first"], one["second"]) for one in found.interval()["by_pair"]]


def shown(found):
    return {one["group"]: (one["evaluation"], one["compared"], one["note"]) for one in found.groups}


@pytest.fixture
def table(decided):
    table = decided(1000)
    table.loc[:99, "race"] = None
    table.loc[100:149, "race"] = "Unknown"
    return table


def test_unknown_groups_are_shown_and_not_compared(table):
    found = audit(table, sensitive="race")
    assert shown(found)["(missing)"] == (100, False, "unknown")
    assert shown(found)["Unknown"] == (50, False, "unknown")
    assert pairs(found) == [("a", "b"), ("a", "c"), ("b", "c")]
    assert {row["group"] for row in found.interval()["by_group"]} == {"(missing)", "Unknown", "a", "b", "c"}
    known = table[~table["race"].isin(["Unknown"])].dropna(subset="race")
    alone = sf.fairness_interval(None, known["hired"], sensitive_features=known["race"], n_replicates=100)
    assert found.interval()["estimate"] == pytest.approx(alone.estimate, abs=1e-12)


def test_unknown_groups_can_be_compared(table):
    found = audit(table, sensitive="race", unknown="include")
    assert len(pairs(found)) == 10
    filled = table["race"].fillna("(missing)")
    alone = sf.fairness_interval(None, table["hired"], sensitive_features=filled, n_replicates=100)
    assert found.interval()["low"] == pytest.approx(alone.low, abs=1e-12)


def test_unknown_groups_can_be_refused(table):
    with pytest.raises(ValueError, match=r"'race' has no value in row 1, and unknown groups are refused\. Fill it in"):
        audit(table, sensitive="race", unknown="refuse")
    with pytest.raises(ValueError, match=r"There is a group 'Unknown', and unknown groups are refused"):
        audit(table[100:], sensitive="race", unknown="refuse")
    assert audit(table[150:], sensitive="race", unknown="refuse").groups


def test_small_groups_are_shown_and_not_compared(decided):
    found = audit(decided(1000), sensitive="race", min_share=0.1)
    assert shown(found)["c"][1:] == (False, "less than 10 % of the rows")
    assert pairs(found) == [("a", "b")]
    alone = audit(decided(1000).query("race != 'c'"), sensitive="race")
    for name in ("estimate", "gap"):
        assert found.interval()[name] == pytest.approx(alone.interval()[name], abs=1e-12)


def test_small_groups_that_are_not_compared_raise_no_diagnostic(decided):
    table = decided(1000)
    table.loc[:4, "race"] = "rare"
    few = audit(table, sensitive="race", metric="demographic_parity")
    assert any("'rare'" in one["message"] for one in few.model()["diagnostics"])
    found = audit(table, sensitive="race", min_share=0.02)
    assert not any("'rare'" in one["message"] for one in found.model()["diagnostics"])


def test_intersections_are_compared_too(decided):
    table = decided(2000)
    found = audit(table, sensitive=["sex", "race"], intersections=True)
    assert {one["column"] for one in found.groups} == {"sex", "race", "sex × race"}
    alone = sf.fairness_interval(
        None, table["hired"], sensitive_features=table[["sex", "race"]], intersections=True, n_replicates=100
    )
    assert found.interval()["high"] == pytest.approx(alone.high, abs=1e-12)


def test_groups_are_compared_with_a_reference(decided):
    table = decided(1000)
    assert pairs(audit(table, sensitive="race", reference="b")) == [("a", "b"), ("b", "c")]
    both = audit(table, sensitive=["sex", "race"], reference=["sex=m", "race=a"])
    assert pairs(both) == [("f", "m"), ("a", "b"), ("a", "c")]
    assert ", over all pairs that are compared" in both.sentence
    all_pairs = audit(table, sensitive="race")
    assert ", over all pairs of groups" in all_pairs.sentence
    assert audit(table, sensitive="race", reference="a").interval()["gap"] in [
        one["gap"] for one in all_pairs.interval()["by_pair"]
    ]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"reference": "A"}, r"Unknown reference group: 'A'\. Known: 'a', 'b', 'c'"),
        ({"reference": "race=z"}, r"Unknown group of 'race': 'z'\."),
        ({"reference": ["a", "race=b"]}, "Name one reference for each column"),
        ({"min_share": 0.5}, r"'race' has fewer than two groups to compare: 'a', 'b' \(less than 50 % of the rows\)"),
        ({"min_share": 1.5}, r"min_share must be 0 or more and below 1"),
        ({"unknown": "drop"}, "Unknown way to treat unknown groups: 'drop'"),
        ({"intersections": True}, "Intersections need two or more sensitive columns"),
    ],
)
def test_what_cannot_be_compared_is_refused(decided, more, words):
    with pytest.raises(ValueError, match=words):
        audit(decided(1000), sensitive="race", **more)


def test_a_reference_in_two_columns_must_name_its_column(decided):
    table = decided(1000)
    table["region"] = np.where(np.arange(1000) % 2, "a", "z")
    with pytest.raises(ValueError, match=r"'a' does not say which column it belongs to.*COLUMN=GROUP"):
        audit(table, sensitive=["race", "region"], reference="a")


def test_too_many_groups_are_refused(decided):
    table = decided(3000)
    with pytest.raises(ValueError, match=r"'person' has 593 groups, and at most 100 can be compared\..*--min-share"):
        audit(table, sensitive="person")
    with pytest.raises(ValueError, match=r"'number' has more than 1,000 different values"):
        audit(table.assign(number=range(3000)), sensitive="number")


@pytest.mark.parametrize("settings", [{"reference": ["c"], "min_share": 0.2}, {"reference": ["Unknown"]}])
def test_a_reference_that_is_not_compared_is_refused(table, settings):
    with pytest.raises(ValueError, match=r"The reference '(c|Unknown)' of 'race' is not compared"):
        audit(table, sensitive=["race", "sex"], **settings)
