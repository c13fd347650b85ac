"""Plans: the power that is promised is the power that verdicts have."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.stats import norm

import surefair as sf

pytestmark = pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")


def test_the_number_of_rows_is_that_of_the_textbook():
    # two equal rates, within a margin: (z_.975 + z_.9)² · 2 · variance · ... for equivalence with equal groups
    found = sf.plan(0.1, rates=[0.4, 0.4], power=0.8)
    per_group = 2 * 0.4 * 0.6 * (norm.isf(0.025) + norm.isf(0.1)) ** 2 / 0.1**2
    assert found.rows == pytest.approx(2 * per_group, rel=0.05)
    assert found.verdict == "within margin"
    found = sf.plan(0.05, rates=[0.3, 0.5], power=0.9)
    per_group = (0.3 * 0.7 + 0.25) * (norm.isf(0.025) + norm.isf(0.1)) ** 2 / 0.15**2
    assert found.rows == pytest.approx(2 * per_group, rel=0.06)
    assert found.verdict == "violates margin"


@pytest.mark.parametrize(
    ("margin", "rates", "shares", "ratio"),
    [
        (0.1, (0.3, 0.25), (0.5, 0.5), False),
        (0.1, (0.3, 0.3, 0.45), (0.4, 0.3, 0.3), False),
        (0.8, (0.5, 0.5), (0.5, 0.5), True),
        (0.15, (0.04, 0.04), (0.9, 0.1), False),
    ],
    ids=["two groups", "three groups", "ratio", "rare"],
)
def test_realised_power_is_within_five_points(margin, rates, shares, ratio):
    plan = sf.plan(margin, rates=rates, shares=shares, ratio=ratio)
    group = np.repeat(np.arange(len(rates)), plan.by_group["rows"])
    n = 200
    hits = 0
    for seed in range(n):
        rng = np.random.default_rng([1, seed])
        decision = (rng.random(len(group)) < np.array(rates)[group]).astype(int)
        found = sf.fairness_interval(
            None, decision, sensitive_features=group, metric="demographic_parity" + "_ratio" * ratio, pos_label=1,
            n_replicates=400, random_state=seed,
        )  # fmt: skip
        hits += found.verdict(margin) == plan.verdict
    assert hits / n == pytest.approx(plan.power, abs=0.05 + 2.0 * math.sqrt(0.8 * 0.2 / n))


def test_more_power_needs_more_rows_and_small_groups_cost_rows():
    rows = [sf.plan(0.1, rates=[0.3, 0.3], shares=shares, power=power).rows
            for shares, power in (((0.5, 0.5), 0.8), ((0.5, 0.5), 0.95), ((0.95, 0.05), 0.8))]  # fmt: skip
    assert rows[0] < rows[1] < rows[2]


def test_rows_that_do_not_enter_the_rate_count_in_all():
    whole, tenth = (sf.plan(0.1, rates=[0.3, 0.3], shares=[s, s]) for s in (0.5, 0.05))
    assert tenth.rows == pytest.approx(10 * whole.rows, rel=0.02)
    assert tenth.by_group["rows"].tolist() == pytest.approx(whole.by_group["rows"].tolist(), rel=0.02)


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_decisions_that_are_all_the_same_have_no_plan(rate):
    with pytest.raises(ValueError, match=f"rates are {rate:g} in every group. Decisions that are all the same say"):
        sf.plan(0.05, rates=[rate, rate])


def test_groups_add_up_to_all_rows():
    found = sf.plan(0.05, rates={"a": 0.3, "b": 0.3, "c": 0.3})
    assert found.rows == found.by_group["rows"].sum()


def test_a_gap_on_the_margin_has_no_plan():
    found = sf.plan(0.1, rates=[0.3, 0.4])
    assert found.rows == math.inf
    assert "no number of rows gives a verdict on the margin 0.1" in found.sentence
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["rows"] is None


def test_words_and_tables():
    found = sf.plan(0.1, rates={"f": 0.3, "m": 0.3}, shares={"f": 0.4, "m": 0.6})
    assert found.to_frame()["group"].tolist() == ["f", "m"]
    assert "of group 'f'" in str(found)
    assert "rows of group f" in found._repr_html_()
    assert repr(found).startswith("<plan: ")
    assert found.to_dict()["by_group"][1]["share"] == 0.6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"margin": 5}, "margin must lie strictly between 0 and 1, for example 0.05 for a difference"),
        ({"power": 1.0}, r"power must lie strictly between 0 and 1, for example 0\.8; received 1\.0"),
        ({"rates": [0.3]}, "rates must have two or more groups; received 1"),
        ({"rates": [0.3, 1.3]}, r"rates must lie between 0 and 1; received \[0\.3, 1\.3\]"),
        ({"rates": "many"}, "rates must hold one number for each group; received 'many'"),
        ({"shares": [0.9, 0.3]}, r"shares must be larger than 0 and add up to at most 1.* add up to 1\.2"),
        ({"shares": [0.9, 0.05, 0.05]}, "rates and shares must have the same groups"),
        ({"shares": {"a": 0.5, "b": 0.5}}, "rates and shares must have the same groups"),
        ({"rates": [0.0, 0.3], "ratio": True}, "With ratio=True rates must be larger than 0"),
        ({"confidence_level": 2}, "confidence_level must lie strictly between 0 and 1"),
    ],
)
def test_what_cannot_be_planned_is_refused(change, message):
    options = {"margin": 0.05, "rates": [0.3, 0.3], "shares": [0.5, 0.5]} | change
    with pytest.raises(ValueError, match=message):
        sf.plan(options.pop("margin"), **options)


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_rates_of_0_or_1_are_not_certain_beforehand(rate):
    found = sf.plan(0.05, rates=[rate, rate, abs(rate - 1e-6)])
    n = found.by_group["rows"][0]
    decision = np.full(3 * n, int(rate))
    with pytest.warns(sf.diagnostics.OneDecision):
        interval = sf.fairness_interval(None, decision, sensitive_features=np.arange(3 * n) % 3, pos_label=1)
    assert found.verdict == "within margin"
    assert interval.high == pytest.approx(0.05, abs=0.003)  # the fewest rows that are enough


def test_rates_and_shares_may_name_the_groups_in_another_order():
    rates = {"f": 0.3, "m": 0.32}
    one, two = (sf.plan(0.1, rates=rates, shares=shares) for shares in ({"f": 0.2, "m": 0.8}, {"m": 0.8, "f": 0.2}))
    assert one.to_dict() == two.to_dict()
