"""A column that comes alive after the first chunk: the audit uses it, or gives no definite verdict."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pipe import Pipe

import surefair as sf
from surefair.audit import run as auditing

ASKED = {"label": "high", "sensitive": "sex", "criterion": None, "n_replicates": 60, "margin": 0.15, "n_jobs": 1}


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(auditing, "CHUNK", 2_000)
    monkeypatch.setattr(auditing, "MOST_CROSSED", 0)


def people(n=16_000, first=2_000, seed=0):
    """Only the bonus depends on sex, and it is 0 in the first rows; shuffled, the gap is far beyond the margin."""
    rng = np.random.default_rng(seed)
    male = rng.random(n) < 0.5
    age = rng.normal(size=n).round(4)
    bonus = np.where(np.arange(n) < first, 0.0, rng.normal(size=n) + 1.0 * male - 0.5).round(4)
    high = age + 1.5 * bonus + rng.normal(size=n) > 0.0
    return pd.DataFrame({"age": age, "bonus": bonus, "sex": np.where(male, "m", "f"), "high": high.astype(int)})


def unmet(found):
    return {one["name"]: one["diagnostics"][0] for one in found.assumptions if not one["held"]}


def column(found, name):
    return next(one for one in found.columns if one["name"] == name)


def test_the_shuffled_file_violates_the_margin():
    assert sf.audit(people().sample(frac=1.0, random_state=0), **ASKED).verdict == "violates margin"


def test_a_stream_with_a_late_column_gets_no_definite_verdict():
    found = sf.audit(Pipe(people()), **ASKED)
    assert found.verdict == "not enough evidence"
    assert (
        "'bonus' was left out (constant, 0 in the first 2,000 rows), but 14,0" in unmet(found)["LateColumn"]["message"]
    )
    assert column(found, "bonus")["note"] == "constant, 0 in the first 2,000 rows"


def test_a_file_with_a_late_column_is_settled_on_rows_from_all_parts(tmp_path):
    people().to_csv(tmp_path / "people.csv", index=False)
    found = sf.audit(tmp_path / "people.csv", **ASKED)
    assert "LateColumn" not in unmet(found)
    assert found.verdict == "not enough evidence"  # but not because of the column
    assert "Gaps change along the rows" in found.sentence
    assert column(found, "bonus")["features"] == 1


def test_shards_are_settled_on_row_groups_from_all_parts(tmp_path):
    pq.write_table(pa.Table.from_pandas(people()), tmp_path / "a.parquet", row_group_size=1_000)
    found = sf.audit(tmp_path / "a.parquet", shard_rows=8_000, **ASKED)
    assert column(found, "bonus")["features"] == 1
    assert "LateColumn" not in unmet(found)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["stream", "file"])
def test_no_definite_verdict_about_late_columns_is_wrong(form):
    """20 audits whose true gap is beyond the margin."""
    verdicts = [
        sf.audit(Pipe(people(8_000, seed=seed)) if form == "stream" else people(8_000, seed=seed), **ASKED).verdict
        for seed in range(20)
    ]
    assert "within margin" not in verdicts
