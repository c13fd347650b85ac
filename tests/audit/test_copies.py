"""Copies of rows get no definite verdict; honest duplicates of discrete columns are not reported."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import surefair as sf
from surefair.audit import run as auditing
from surefair.audit.copies import count_copies
from surefair.diagnostics import dependent_rows

ASKED = {"label": "high", "sensitive": "sex", "criterion": None, "n_replicates": 60, "margin": 0.1, "n_jobs": 1}


def people(n, seed=0):
    rng = np.random.default_rng(seed)
    male = rng.random(n) < 0.5
    age = (rng.normal(size=n) + 0.7 * (male - 0.5)).round(4)
    high = age + rng.normal(size=n) > 0.0
    job = rng.choice(["a", "b", "c"], n)
    return pd.DataFrame({"age": age, "job": job, "sex": np.where(male, "m", "f"), "high": high.astype(int)})


def copied(n, times, seed=0):
    return pd.concat([people(n, seed)] * times).sample(frac=1.0, random_state=seed)


def unmet(found):
    return {one["name"]: one["diagnostics"][0] for one in found.assumptions if not one["held"]}


@pytest.mark.parametrize("form", ["cross-fitting", "held out", "shards"])
def test_copies_get_no_definite_verdict(tmp_path, monkeypatch, form):
    monkeypatch.setattr(auditing, "CHUNK", 4_000)
    data, more = copied(400, 20), {}
    if form != "cross-fitting":
        monkeypatch.setattr(auditing, "MOST_CROSSED", 0)
    if form == "shards":
        pq.write_table(pa.Table.from_pandas(data, preserve_index=False), tmp_path / "a.parquet", row_group_size=2_000)
        data, more = tmp_path / "a.parquet", {"shard_rows": 4_000}
    found = sf.audit(data, **ASKED, **more)
    assert found.verdict == "not enough evidence"
    assert "of the evaluation rows equal an earlier one" in unmet(found)["DependentRows"]["message"]


def columns_of(frame):
    return [pd.factorize(frame[name])[0][:, None].astype(float) for name in frame]


TABLES = {
    "independent": lambda rng, n: rng.integers(3, size=(n, 6)),
    "binary": lambda rng, n: rng.integers(2, size=(n, 9)),
    "rare": lambda rng, n: rng.random((n, 30)) < 0.02,
    "classes": lambda rng, n: (rng.integers(10, size=(n, 1)) + rng.integers(3, size=(n, 6))) % 10,
    "one factor": lambda rng, n: np.round(rng.normal(size=(n, 1)) + 0.5 * rng.normal(size=(n, 6))),
    "strong classes": lambda rng, n: np.where(
        rng.random((n, 6)) < 0.9, rng.integers(10, size=(n, 1)), rng.integers(10, size=(n, 6))
    ),
}


def found_in(table):
    return dependent_rows.check_copies(*count_copies([table[:, [j]].astype(float) for j in range(table.shape[1])]))


@pytest.mark.parametrize("kind", TABLES)
def test_honest_duplicates_are_seldom_reported(kind):
    """The null model: independent rows. Of 100 tables of each of six kinds, 600 together, none should be reported."""
    rng = np.random.default_rng(0)
    assert sum(len(found_in(TABLES[kind](rng, n))) for n in (100, 400, 1_500, 3_000) for _ in range(25)) <= 1


def test_honest_duplicates_of_real_tables_are_not_reported(data_folder):
    adult = pd.read_csv(data_folder / "adult.data", header=None, skipinitialspace=True)
    compas = pd.read_csv(data_folder / "compas-scores-two-years.csv")
    few = ["sex", "age_cat", "race", "priors_count", "c_charge_degree", "two_year_recid"]
    for frame in (adult.drop(columns=2), adult[[1, 3, 5, 6, 7, 8, 9, 14]], compas[few]):
        found = count_copies(columns_of(frame))
        assert found.copies > 0.05 * found.n
        assert found.excess == 0.0


@pytest.mark.parametrize(("share", "expected"), [(0.0, 0), (0.02, 0), (0.2, 1), (1.0, 1)])
def test_a_share_of_rows_that_came_twice_is_found(share, expected):
    rng = np.random.default_rng(0)
    table = rng.normal(size=(3_000, 4))
    assert len(found_in(np.concatenate([table, table[: int(share * 3_000)]]))) == expected


def discrete(n, seed=0):
    """People with a few discrete columns: most of them equal others."""
    rng = np.random.default_rng(seed)
    male = rng.random(n) < 0.5
    age = rng.integers(4, size=n) + male
    high = age + rng.normal(size=n) > 2.0
    return pd.DataFrame(
        {"age": age, "job": rng.choice(["a", "b"], n), "sex": np.where(male, "m", "f"), "high": high.astype(int)}
    )


@pytest.mark.parametrize("form", ["cross-fitting", "held out"])
def test_copies_of_a_whole_table_of_few_discrete_columns_get_no_definite_verdict(monkeypatch, form):
    if form == "held out":
        monkeypatch.setattr(auditing, "MOST_CROSSED", 0)
        monkeypatch.setattr(auditing, "CHUNK", 3_000)
    honest = sf.audit(discrete(8_000), **ASKED)
    assert honest.verdict == "violates margin"
    assert "DependentRows" not in unmet(honest)
    found = sf.audit(pd.concat([discrete(400)] * 20).sample(frac=1.0, random_state=0), **ASKED)
    assert found.verdict == "not enough evidence"
    assert "Every distinct row occurs 20 times, or a multiple" in unmet(found)["DependentRows"]["message"]


def test_counts_of_independent_rows_seldom_have_a_common_factor():
    """The null model: 2,000 tables with 12 or more distinct rows, of various sizes; fewer than 0.1 % are reported."""
    rng = np.random.default_rng(0)
    found = 0
    for i in range(2_000):
        sizes = 12 + i % 20
        counts = np.unique(rng.integers(sizes, size=[20, 60, 500][i % 3]), return_counts=True)[1]
        found += len(dependent_rows.check_multiples(int(np.gcd.reduce(counts)), len(counts)))
    assert found <= 5, found  # expected is less than one


@pytest.mark.slow
def test_no_definite_verdict_about_copies():
    """20 audits of copies: with 57 % coverage, a definite verdict is often wrong."""
    verdicts = {sf.audit(copied(200, 20, seed), **ASKED).verdict for seed in range(20)}
    assert verdicts == {"not enough evidence"}
