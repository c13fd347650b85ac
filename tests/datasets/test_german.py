from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from surefair import FairClassifier
from surefair.datasets import german, load, load_german


@pytest.fixture(scope="module")
def folder(folder_of):
    return folder_of("german")


@pytest.fixture(scope="module")
def data(folder):
    return load_german(folder)


@pytest.fixture(scope="module")
def raw(folder):
    """The file, split into fields without pandas."""
    return pd.DataFrame([line.split() for line in (folder / "german.data").read_text().splitlines()])


@pytest.mark.parametrize(("sex", "rows", "positive"), [("female", 310, 201), ("male", 690, 499)])
def test_counts_of_each_group(data, sex, rows, positive):
    group = data.sensitive == sex
    assert (group.sum(), (data.y[group] == "good").sum()) == (rows, positive)


def test_labels_and_groups_are_the_published_ones(data, raw):
    assert len(data) == 1_000
    assert (data.label, data.sensitive_name) == ("credit", "sex")
    assert sorted(set(data.y)) == ["bad", "good"]  # the second is positive
    assert ((data.y == "good") == (raw[20] == "1")).all()
    assert ((data.sensitive == "female") == raw[8].isin(["A92", "A95"])).all()


def test_other_sensitive_attributes_are_age_and_foreign_worker(data, raw):
    columns = data.sensitive_columns
    assert list(columns) == ["sex", "age", "foreign-worker"]
    assert columns["sex"].tolist() == data.sensitive.tolist()
    assert ((columns["age"] == "up to 25") == (raw[12].astype(int) <= 25)).all()
    assert columns["age"].value_counts().to_dict() == {"above 25": 810, "up to 25": 190}
    assert columns["foreign-worker"].value_counts().to_dict() == {"yes": 963, "no": 37}
    assert not columns.isna().any(axis=None)


def test_features_and_an_intercept_have_full_rank(data):
    assert data.X.shape == (1_000, 45)
    assert (data.X.dtypes == np.float64).all()
    assert np.linalg.matrix_rank(np.column_stack([np.ones(len(data)), data.X])) == 46


def test_neither_sex_nor_personal_status_nor_the_label_is_a_feature(data):
    assert not [name for name in data.X if name.startswith(("sex", "personal-status", "credit_")) or "_A9" in name]
    assert "credit" not in data.X


def test_numbers_are_standardised_and_the_rest_are_indicators(data):
    np.testing.assert_allclose(data.X[german.NUMBERS].mean(), 0.0, atol=1e-12)
    np.testing.assert_allclose(data.X[german.NUMBERS].std(ddof=0), 1.0, rtol=1e-12)
    assert set(np.unique(data.X.drop(columns=german.NUMBERS))) == {0.0, 1.0}


@pytest.mark.parametrize("name", sorted(set(german.COLUMNS) - {*german.NUMBERS, "personal-status", "credit"}))
def test_each_code_except_the_first_has_an_indicator(data, raw, name):
    codes = raw[german.COLUMNS.index(name)]
    made = {column.rpartition("_")[2]: data.X[column] for column in data.X if column.startswith(f"{name}_")}
    assert sorted(made) == sorted(codes.unique())[1:]
    assert all(((codes == code) == (column == 1.0)).all() for code, column in made.items())


def test_load_by_name_gives_the_same_rows(data, folder):
    assert load("german", folder=folder).X.equals(data.X)


def test_one_pass_over_repeated_rows_is_as_accurate_as_logistic_regression(data):
    plain = LogisticRegression(C=1e4, max_iter=5_000).fit(data.X, data.y).score(data.X, data.y)
    assert plain == pytest.approx(0.784, abs=0.003)  # a model that always answers "good" has 0.70
    rows = np.random.default_rng(0).permutation(np.repeat(np.arange(len(data)), 20))
    X, y, group = data.X.to_numpy()[rows], data.y[rows], data.sensitive[rows]
    clf = FairClassifier(None, n_replicates=2, random_state=0).fit(X, y, sensitive_features=group)
    assert clf.classes_.tolist() == ["bad", "good"]
    assert clf.score(data.X.to_numpy(), data.y) == pytest.approx(plain, abs=0.01)
