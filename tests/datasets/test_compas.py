from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from surefair.datasets import compas, load, load_compas


@pytest.fixture(scope="module")
def data(data_folder):
    return load_compas(data_folder)


def test_each_stage_keeps_the_published_number_of_rows(data_folder):
    rows = pd.read_csv(data_folder / "compas-scores-two-years.csv")
    counts = [len(rows)]
    for stage in compas.STAGES:
        rows = rows.query(stage, engine="python")
        counts.append(len(rows))
    assert counts == [7_214, 6_907, 6_172, 5_278]


@pytest.mark.parametrize(("race", "rows", "positive"), [("African-American", 3_175, 1_661), ("Caucasian", 2_103, 822)])
def test_counts_of_each_group(data, race, rows, positive):
    group = data.sensitive == race
    assert (group.sum(), data.y[group].sum()) == (rows, positive)


def test_labels_and_groups_are_the_published_ones(data):
    assert len(data) == 5_278
    assert data.y.dtype == np.int64
    assert set(data.y) == {0, 1}
    assert set(data.sensitive) == {"African-American", "Caucasian"}
    assert (data.label, data.sensitive_name) == ("two_year_recid", "race")


@pytest.mark.parametrize(("race_as_feature", "columns"), [(True, 6), (False, 5)])
def test_features_and_an_intercept_have_full_rank(data_folder, race_as_feature, columns):
    X = load_compas(data_folder, race_as_feature=race_as_feature).X
    assert X.shape == (5_278, columns)
    assert (X.dtypes == np.float64).all()
    assert ("race_Caucasian" in X.columns) == race_as_feature
    assert np.linalg.matrix_rank(np.column_stack([np.ones(len(X)), X])) == columns + 1


def test_race_as_a_feature_is_the_sensitive_attribute(data):
    assert ((data.X["race_Caucasian"] == 1) == (data.sensitive == "Caucasian")).all()


def test_priors_are_standardised_and_the_rest_are_indicators(data):
    np.testing.assert_allclose(data.X["priors_count"].mean(), 0.0, atol=1e-12)
    np.testing.assert_allclose(data.X["priors_count"].std(ddof=0), 1.0, rtol=1e-12)
    assert set(np.unique(data.X.drop(columns="priors_count"))) == {0.0, 1.0}


def test_load_by_name_passes_options(data_folder):
    assert load("compas", folder=data_folder, race_as_feature=False).X.shape == (5_278, 5)
