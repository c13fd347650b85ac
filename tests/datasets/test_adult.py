from __future__ import annotations

import numpy as np
import pytest

from surefair.datasets import adult, load, load_adult


@pytest.fixture(scope="module")
def data(data_folder):
    return load_adult(data_folder)


def test_both_files_are_read_completely(data_folder):
    raw = adult._read(data_folder)
    assert raw.shape == (48_842, 15)
    assert set(raw["income"]) == {"<=50K", ">50K"}  # without the dots of adult.test
    assert (raw == "?").any(axis=1).sum() == 3_620


@pytest.mark.parametrize(("sex", "rows", "positive"), [("Female", 14_695, 1_669), ("Male", 30_527, 9_539)])
def test_counts_of_each_group(data, sex, rows, positive):
    group = data.sensitive == sex
    assert (group.sum(), (data.y[group] == ">50K").sum()) == (rows, positive)


def test_labels_and_groups_are_the_published_ones(data):
    assert len(data) == 45_222
    assert set(data.y) == {"<=50K", ">50K"}
    assert set(data.sensitive) == {"Female", "Male"}
    assert (data.label, data.sensitive_name) == ("income", "sex")
    assert data.sensitive_columns["sex"].tolist() == data.sensitive.tolist()
    assert data.sensitive_columns["race"].nunique() == 5


@pytest.mark.parametrize(("encoding", "columns", "rank"), [("ordinal", 13, 14), ("onehot", 95, 95)])
def test_features_and_an_intercept_have_the_known_rank(data_folder, encoding, columns, rank):
    X = load_adult(data_folder, encoding=encoding).X
    assert X.shape == (45_222, columns)
    assert (X.dtypes == np.float64).all()
    assert not any(name.startswith(("sex", "income")) for name in X.columns)
    assert np.linalg.matrix_rank(np.column_stack([np.ones(len(X)), X])) == rank


def test_ordinal_columns_are_standardised(data):
    np.testing.assert_allclose(data.X.mean(), 0.0, atol=1e-12)
    np.testing.assert_allclose(data.X.std(ddof=0), 1.0, rtol=1e-12)


def test_ordinal_codes_keep_the_alphabetical_order(data, data_folder):
    raw = adult._read(data_folder)
    words = raw.loc[(raw != "?").all(axis=1), "workclass"].reset_index(drop=True)
    codes = data.X["workclass"].groupby(words).agg(["min", "max"])
    assert (codes["min"] == codes["max"]).all()
    assert codes["min"].sort_index().is_monotonic_increasing


def test_onehot_columns_are_standardised_numbers_and_indicators(data_folder):
    X = load_adult(data_folder, encoding="onehot").X
    np.testing.assert_allclose(X[adult.NUMBERS].std(ddof=0), 1.0, rtol=1e-12)
    assert set(np.unique(X.drop(columns=adult.NUMBERS))) == {0.0, 1.0}


def test_load_by_name_gives_the_same_rows(data, data_folder):
    again = load("adult", folder=data_folder)
    assert again.X.equals(data.X)
    assert (again.y == data.y).all()


def test_an_unknown_encoding_is_refused():
    with pytest.raises(ValueError, match="must be 'ordinal' or 'onehot'; received 'dummy'"):
        load_adult(encoding="dummy")
