"""Gaps that cancel over time get no definite verdict; gaps that stay the same are not reported."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import surefair as sf
from surefair.audit import run as auditing
from surefair.audit.periods import Periods
from surefair.diagnostics import changing_gap
from surefair.rows import Groups, Levels, Names, Rows

ASKED = {"label": "high", "sensitive": "sex", "criterion": None, "n_replicates": 60, "margin": 0.1, "n_jobs": 1}


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(auditing, "CHUNK", 2_000)


def people(n=12_000, swaps=1, size=1.5, seed=0):
    """Age depends on sex, and the sign of that changes so many times: over all rows, the gap is 0."""
    rng = np.random.default_rng(seed)
    male = rng.random(n) < 0.5
    sign = 1.0 - 2.0 * (np.arange(n) * (swaps + 1) // n % 2)
    age = (rng.normal(size=n) + size * sign * (male - 0.5)).round(4)
    high = age + rng.normal(size=n) > 0.0
    return pd.DataFrame({"age": age, "sex": np.where(male, "m", "f"), "high": high.astype(int)})


def unmet(found):
    return {one["name"]: one["diagnostics"][0] for one in found.assumptions if not one["held"]}


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("swaps", [1, 3])
@pytest.mark.parametrize("n", [6_000, 12_000], ids=["cross-fitting", "held out"])
def test_gaps_that_cancel_over_time_get_no_definite_verdict(n, swaps):
    found = sf.audit(people(n, swaps), **ASKED)
    assert abs(found.interval()["gap"]) < 0.05
    assert found.verdict == "not enough evidence"
    assert "Gaps change along the rows: the share of positive decisions" in unmet(found)["ChangingGap"]["message"]


@pytest.mark.usefixtures("small_chunks")
def test_gaps_that_cancel_between_shards_get_no_definite_verdict(tmp_path):
    pq.write_table(pa.Table.from_pandas(people()), tmp_path / "a.parquet", row_group_size=1_000)
    found = sf.audit(tmp_path / "a.parquet", shard_rows=3_000, **ASKED)
    assert found.data["shards"] == 4
    assert found.verdict == "not enough evidence"
    assert "ChangingGap" in unmet(found)


@pytest.mark.usefixtures("small_chunks")
def test_a_gap_that_stays_the_same_is_not_reported():
    found = sf.audit(people(swaps=0), **ASKED)
    assert found.verdict == "violates margin"
    assert "ChangingGap" not in unmet(found)


def rows_of(group, truth, n_groups, weight=None):
    groups = Groups({"g": Levels(np.array([f"g{i}" for i in range(n_groups)]), "group")})
    names = Names(None, Levels(np.array(["0", "1"]), "label"), groups)
    weight = np.ones(len(truth)) if weight is None else weight
    return Rows(np.empty((len(truth), 0)), 2.0 * truth - 1.0, group[:, None], weight, names)


def test_periods_of_parts_that_follow_each_other_know_all_groups():
    rng = np.random.default_rng(0)
    first, second = (
        Periods.of(rows_of(rng.integers(k, size=400), rng.integers(2, size=400), k), rng.random(400) < 0.5)
        for k in (2, 3)
    )
    both = first.followed_by(second)
    assert both.weight.shape == (16, 3, 2, 2)
    assert both.weight[:8, 2].sum() == 0
    np.testing.assert_array_equal(both.weight[8:], second.weight)
    assert both.weight.sum() == 800


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n", "n_groups", "share"), [(400, 2, 0.5), (3_000, 2, 0.03), (3_000, 8, 0.2)])
@pytest.mark.parametrize(("tables", "most"), [(50, 1), pytest.param(500, 5, marks=pytest.mark.slow)])
def test_independent_rows_seldom_look_as_if_gaps_change(n, n_groups, share, weighted, tables, most):
    """The null model: rows of one law. Fewer than 2 % of the data sets are reported."""
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(tables):
        weight = rng.exponential(size=n) if weighted else None
        rows = rows_of(rng.integers(n_groups, size=n), (rng.random(n) < 0.4).astype(int), n_groups, weight)
        found += len(changing_gap.check(Periods.of(rows, rng.random(n) < share).rates()))
    assert found <= most, found


@pytest.mark.slow
def test_no_definite_verdict_about_gaps_that_cancel_is_wrong():
    """20 audits: the gap of either half is far beyond the margin, so "within margin" would be wrong."""
    verdicts = [sf.audit(people(4_000, 1 + seed % 4, seed=seed), **ASKED).verdict for seed in range(20)]
    assert "within margin" not in verdicts
