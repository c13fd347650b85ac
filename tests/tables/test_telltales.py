"""Columns that give something away."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from surefair.tables.encoder import Features, find_codes, tail_bounds
from surefair.tables.intake import Columns, read_all
from surefair.tables.telltales import leaks, proxies, separation


def people(n=2_000, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    income = rng.lognormal(10.0, 0.6, n)
    label = rng.random(n) < 1.0 / (1.0 + np.exp(-(np.log(income) - 10.0) * 2.0))
    table = {"income": income, "age": rng.integers(18, 90, n), "city": rng.choice([*"abcdef"], n)}
    return pd.DataFrame(table | {"sex": sex, "hired": np.where(label, "yes", "no")}), rng


def intake(table, **options):
    return read_all(table, Columns(label="hired", sensitive="sex", **options))[1]


@pytest.mark.parametrize(
    "leak",
    [
        lambda hired, rng: hired,
        lambda hired, rng: np.where(rng.random(len(hired)) < 0.01, "no", hired),
        lambda hired, rng: (hired == "yes") * 1.0,
        lambda hired, rng: (hired == "yes") + 0.1 * rng.normal(size=len(hired)),
        lambda hired, rng: -1.0 * (hired == "yes"),
    ],
)
def test_a_column_that_all_but_equals_the_label_stops_it_unless_allowed(leak):
    table, rng = people()
    table["outcome"] = leak(table["hired"].to_numpy(), rng)
    with pytest.raises(ValueError, match=r"'outcome' all but equals the label.*--drop outcome.*--allow-leakage"):
        intake(table)
    assert "label" in intake(table, allow_leakage=True).notes["outcome"]
    assert not intake(table, drop=["outcome"]).notes


def test_a_column_that_all_but_equals_a_group_is_noted():
    table, _ = people()
    table["title"] = np.where(table["sex"] == "f", "Ms", "Mr")
    assert intake(table).notes == {"title": "all but equals the group 'f' of 'sex', and can stand for it"}


def test_good_features_are_left_alone():
    table, rng = people()
    table["score"] = np.log(table["income"]) + rng.normal(size=len(table))
    assert intake(table).notes == {}


def test_numbers_that_are_written_as_text_count_as_numbers():
    table, rng = people()
    table["income"] = table["income"].map("{:.2f}".format)  # every row has its own words
    table["street"] = [f"street {n}" for n in rng.integers(0, 800, len(table))]
    assert intake(table).notes == {}


def test_separation_is_the_area_under_the_curve():
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(0)
    target = rng.random(500) < 0.3
    values = rng.normal(size=500) + target
    assert separation(pa.array(values), target) == pytest.approx(roc_auc_score(target, values))
    assert separation(pa.array(-values), target) == pytest.approx(roc_auc_score(target, values))
    assert separation(pa.array(values[:30]), target[:30]) == 0.5  # too few rows to tell
    assert leaks({"x": pa.array(values)}, target) == proxies({"x": pa.array(values)}, target) == {}


@pytest.mark.parametrize("code", [[99999.0], [-999.0], [9998.0, 9999.0], [-9.0e6, 1.0e7]])
def test_codes_far_from_all_other_values_count_as_missing(code):
    rng = np.random.default_rng(1)
    values = rng.normal(40.0, 10.0, 2_000)
    values[:16] = np.resize(code, 16)
    assert np.array_equal(find_codes(values), np.sort(code))
    features = Features.fit(pa.table({"age": values}))
    X = features.encode(pa.table({"age": values})).X
    assert features.names[1].startswith("age is ")
    assert np.abs(X[:, 0]).max() < 5.0
    assert np.array_equal(np.flatnonzero(X[:, 1]), np.arange(16))
    assert "16 rows" in features.columns["age"].note or len(code) > 1


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(2).normal(size=2_000),
        np.random.default_rng(2).lognormal(0.0, 1.5, 2_000),
        np.random.default_rng(2).poisson(3.0, 2_000).astype(float),
        np.r_[np.zeros(1_000), np.random.default_rng(2).exponential(size=1_000)],
        np.repeat([1.0, 2.0, 3.0, 100.0], 500),  # a scale
    ],
)
def test_ordinary_columns_have_no_codes(values):
    assert len(find_codes(values)) == 0


def test_values_far_out_in_the_tails_are_clipped():
    values = np.random.default_rng(3).standard_cauchy(5_000)
    low, high = tail_bounds(values)
    n = np.count_nonzero((values < low) | (values > high))
    assert 0 < n < 50
    features = Features.fit(pa.table({"x": values}))
    X = features.encode(pa.table({"x": values})).X
    assert f"{n} values beyond" in features.columns["x"].note
    assert np.percentile(np.abs(X), 50) > 0.01  # the bulk is not pressed together
    normal = np.random.default_rng(3).normal(size=100_000)
    low, high = tail_bounds(normal)
    assert low < normal.min() < normal.max() < high


def test_a_column_that_numbers_the_rows_is_left_out():
    table, _ = people()
    table["id"] = np.arange(len(table))[::-1] + 1_000
    table["amount"] = (table["income"] * 100.0).astype(int)  # nearly all different, but far apart
    found = intake(table).encoder
    assert "numbers the rows" in found.left_out["id"]
    assert "amount" in found.columns


def test_words_that_hardly_repeat_give_nothing_away():
    rng = np.random.default_rng(0)
    person = pa.array([f"n{i}" for i in rng.integers(0, 600, 1_000)])  # one to a few rows each
    assert separation(person, rng.random(1_000) < 0.4) < 0.7
