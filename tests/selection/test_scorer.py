"""Scores are minus the unfairness, and scikit-learn's searches can use them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import sklearn
from fairlearn import metrics as fm
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate

import surefair as sf


@pytest.fixture(autouse=True)
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture(scope="module")
def data():
    return sf.datasets.SyntheticDM(seed=0).sample(600)


@pytest.fixture(scope="module")
def model(data):
    return LogisticRegression().fit(data.X, data.y)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_score_is_minus_fairlearns_difference(data, model, weighted):
    weight = np.random.default_rng(0).exponential(size=600) if weighted else None
    more = {} if weight is None else {"sample_weight": weight}
    for metric, theirs in (
        ("demographic_parity", fm.demographic_parity_difference), ("equalized_odds", fm.equalized_odds_difference),
    ):  # fmt: skip
        value = theirs(data.y, model.predict(data.X), sensitive_features=data.sensitive, sample_weight=weight)
        score = sf.fairness_scorer(metric)(model, data.X, data.y, sensitive_features=data.sensitive, **more)
        assert score == pytest.approx(-value, rel=1e-12)
    ratio = fm.demographic_parity_ratio(data.y, model.predict(data.X), sensitive_features=data.sensitive,
                                        sample_weight=weight)  # fmt: skip
    scorer = sf.fairness_scorer("demographic_parity_ratio")
    assert scorer(model, data.X, data.y, sensitive_features=data.sensitive, **more) == pytest.approx(ratio, rel=1e-12)


def test_a_search_passes_groups_to_the_scorer(data):
    scorer = sf.fairness_scorer("false_positive_rate").set_score_request(sensitive_features=True)
    search = GridSearchCV(LogisticRegression(), {"C": [1e-4, 1.0]}, scoring={"f": scorer}, refit="f", cv=3)
    search.fit(data.X, data.y, sensitive_features=data.sensitive)
    found = cross_validate(
        search.best_estimator_, data.X, data.y, scoring=scorer, cv=3, params={"sensitive_features": data.sensitive}
    )
    assert (found["test_score"] <= 0.0).all()
    assert np.isfinite(search.cv_results_["mean_test_f"]).all()


def test_several_columns_and_labels_of_any_type(data):
    y = np.where(data.y == 1, "yes", "no")
    model = LogisticRegression().fit(data.X, y)
    columns = {"a": data.sensitive, "b": np.arange(600) % 3}
    options = {"sensitive_features": columns}
    scorer = sf.fairness_scorer("accuracy", pos_label="no", intersections=True)
    interval = sf.fairness_interval(
        y, model.predict(data.X), metric="accuracy", pos_label="no", intersections=True, n_replicates=100, **options
    )
    assert scorer(model, data.X, y, **options) == pytest.approx(-interval.estimate, rel=1e-12)


def test_a_rate_that_is_undefined_gives_nan(data):
    nobody = DummyClassifier(strategy="constant", constant=np.unique(data.y)[0]).fit(data.X, data.y)
    score = sf.fairness_scorer("precision")(nobody, data.X, data.y, sensitive_features=data.sensitive)
    assert np.isnan(score)


def test_scorers_can_be_pickled(data, model):
    scorer = pickle.loads(pickle.dumps(sf.fairness_scorer("error_rate")))
    assert scorer(model, data.X, data.y, sensitive_features=data.sensitive) < 0.0


def test_forgotten_groups_and_unknown_metrics_are_refused(data, model):
    with pytest.raises(ValueError, match=r"received no sensitive_features\. Enable metadata routing"):
        sf.fairness_scorer()(model, data.X, data.y)
    with pytest.raises(ValueError, match="Did you mean 'error_rate'"):
        sf.fairness_scorer("eror_rate")


def test_the_estimator_says_which_label_is_positive():
    model = DummyClassifier(strategy="constant", constant="no").fit(np.zeros((4, 1)), ["no", "yes", "no", "yes"])
    rows = np.zeros((4, 1)), ["no"] * 4  # a fold of one label
    with pytest.warns(UserWarning, match="No row has the label pos_label='yes'"):
        assert sf.fairness_scorer()(model, *rows, sensitive_features=["a", "b"] * 2) == 0.0
