"""BootstrapClassifier: scikit-learn's checks, refits, intervals of all sources, and bad input."""

from __future__ import annotations

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.stats import t
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import surefair as sf
from surefair.diagnostics import FailedRefits, NoSampleWeight, TooFewReplicates
from surefair.inference.refits import ESTIMATES
from surefair.inference.sources import SOURCES
from surefair.learners.multipliers import Multipliers

TRAIN, TEST = sf.datasets.SyntheticDM(seed=0).sample(600), sf.datasets.SyntheticDM(seed=1).sample(800)


def fitted(estimator=None, **params):
    fit = params.pop("fit", {})
    estimator = GaussianNB() if estimator is None else estimator
    return sf.BootstrapClassifier(estimator, **{"random_state": 0} | params).fit(TRAIN.X, TRAIN.y, **fit)


def ask(clf, rows=TEST, **question):
    return clf.fairness_interval(rows.X, rows.y, sensitive_features=rows.sensitive, **question)


class Stubborn(ClassifierMixin, BaseEstimator):
    """A classifier that fails if the first row has one of the first weights, so that some refits fail."""

    def __init__(self, least=1.0):
        self.least = least

    def fit(self, X, y, sample_weight=None):
        if sample_weight is not None and sample_weight[0] > self.least:
            raise ArithmeticError("the first row weighs too much")
        self.classes_ = np.unique(y)
        self.n_features_in_ = np.shape(X)[1]
        self.inner_ = GaussianNB().fit(X, y, sample_weight=sample_weight)
        return self

    def predict(self, X):
        return self.inner_.predict(X)


# -- An estimator of scikit-learn --------------------------------------------------------------------------------------


@parametrize_with_checks([sf.BootstrapClassifier(LogisticRegression(), n_replicates=2, random_state=0)])
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


def test_the_fit_is_the_estimator_itself():
    clf = fitted(LogisticRegression())
    alone = LogisticRegression().fit(TRAIN.X, TRAIN.y)
    assert np.array_equal(clf.predict(TEST.X), alone.predict(TEST.X))
    assert np.array_equal(clf.predict_proba(TEST.X), alone.predict_proba(TEST.X))
    assert np.array_equal(clf.decision_function(TEST.X), alone.decision_function(TEST.X))
    assert not hasattr(fitted(), "decision_function")
    assert len(clf.estimators_) == 10
    assert not clf.seed_noise_
    assert clone(clf).get_params(deep=False)["n_replicates"] == 10


def test_refits_have_the_weights_of_the_multipliers_and_do_not_depend_on_their_number_or_the_processes():
    clf = fitted(LogisticRegression(), n_replicates=3)
    V = Multipliers("exponential", clf.seed_).draw(0, 600, 4)
    by_hand = LogisticRegression().fit(TRAIN.X, TRAIN.y, sample_weight=V[:, 2])
    assert np.allclose(clf.estimators_[1].coef_, by_hand.coef_)
    more = fitted(LogisticRegression(), n_replicates=5)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        threads = fitted(LogisticRegression(), n_replicates=3)
    for a, b, c in zip(clf.estimators_, more.estimators_, threads.estimators_, strict=False):
        assert np.array_equal(a.coef_, b.coef_)
        assert np.array_equal(a.coef_, c.coef_)


def test_weights_reach_the_last_step_of_a_pipeline_and_by_routing_the_steps_that_ask():
    pipe = make_pipeline(StandardScaler(), LogisticRegression())
    clf = fitted(pipe, n_replicates=2)
    assert clf.diagnostics_ == ()
    scales = {float(one[0].scale_[0]) for one in clf.estimators_}
    assert len(scales) == 1
    with sklearn.config_context(enable_metadata_routing=True):
        asks = [step.set_fit_request(sample_weight=True) for step in (StandardScaler(), LogisticRegression())]
        routed = fitted(make_pipeline(*asks), n_replicates=2)
    assert len({float(one[0].scale_[0]) for one in routed.estimators_}) == 2


def test_text_columns_work_in_a_pipeline():
    X = TRAIN.X.assign(job=np.where(TRAIN.y == 1, "a", "b"))
    steps = make_column_transformer((OneHotEncoder(), ["job"]), remainder="passthrough")
    clf = sf.BootstrapClassifier(make_pipeline(steps, LogisticRegression()), n_replicates=2).fit(X, TRAIN.y)
    assert clf.predict(X).shape == (600,)
    with pytest.raises(ValueError, match="feature names"):
        clf.predict(X.rename(columns={"job": "task"}))


def test_rows_of_a_cluster_share_their_weight():
    clusters = np.arange(600) // 3
    clf = fitted(LogisticRegression(), n_replicates=2, fit={"clusters": clusters})
    assert clf.n_units_ == 200
    drawn = fitted(KNeighborsClassifier(), n_replicates=2, multiplier="resample", fit={"clusters": clusters})
    for one in drawn.estimators_:
        assert one.n_samples_fit_ == 600
    V = Multipliers("exponential", 5).of(clusters.astype(np.uint64), 3)
    assert np.array_equal(V[::3], V[2::3])
    assert len(np.unique(V[:, 1])) == 200


# -- Intervals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_says_what_it_estimates(source):
    clf = fitted()
    found = ask(clf, source=source)
    assert ESTIMATES[source].format(n="600") in found.sentence
    assert found.low <= found.estimate <= found.high
    assert found.n_training == 600
    alone = sf.fairness_interval(TEST.y, clf.predict(TEST.X), sensitive_features=TEST.sensitive)
    assert found.gap == pytest.approx(alone.gap)


def test_few_refits_give_t_limits_about_the_fit():
    clf = fitted(n_replicates=5)
    gaps = []
    for model in (clf.estimator_, *clf.estimators_):
        positive = model.predict(TEST.X) == 1
        gaps.append(positive[TEST.sensitive == 0].mean() - positive[TEST.sensitive == 1].mean())
    half = t.isf(0.025, 5) * np.sqrt(np.mean((np.array(gaps[1:]) - gaps[0]) ** 2) * 600 / 599)
    found = ask(clf, source="training")
    assert (found.gap_low, found.gap_high) == (pytest.approx(gaps[0] - half), pytest.approx(gaps[0] + half))
    again = ask(clf, source="retraining")
    assert again.gap_high - again.gap == pytest.approx(np.sqrt(2.0) * half)
    total, evaluation = ask(clf), ask(clf, source="evaluation")
    assert evaluation.gap_high < total.gap_high < evaluation.gap_high + half


def test_seed_noise_is_found_and_moves_the_centre_to_the_refits():
    clf = fitted(DecisionTreeClassifier(max_features=1, splitter="random", max_depth=4))
    assert clf.seed_noise_
    gaps = [ask(sf.BootstrapClassifier(one, n_replicates=0).fit(TRAIN.X, TRAIN.y), source="evaluation").gap
            for one in clf.estimators_[:1]]  # fmt: skip
    assert np.isfinite(gaps).all()
    found = ask(clf, source="training")
    assert found.gap_low <= found.gap <= found.gap_high
    assert not fitted(DecisionTreeClassifier(max_depth=2, random_state=3)).seed_noise_


def test_many_refits_give_percentiles():
    clf = fitted(n_replicates=120)
    assert ask(clf).method == "percentile"
    one, two = ask(clf, source="training"), ask(clf, source="training", method="cheap")
    assert one.gap_high - one.gap_low == pytest.approx(two.gap_high - two.gap_low, rel=0.25)
    with pytest.warns(TooFewReplicates):
        ask(fitted(), method="percentile", source="training")


@pytest.mark.parametrize("metric", ["equalized_odds", "demographic_parity_ratio", "false_positive_rate"])
def test_other_metrics_several_groups_weights_and_clusters(metric):
    clf = fitted()
    groups = {"z": TEST.sensitive, "third": np.arange(800) % 3}
    weight = np.linspace(0.5, 1.0, 800)
    found = clf.fairness_interval(TEST.X, TEST.y, sensitive_features=groups, metric=metric, sample_weight=weight)
    assert found.low <= found.estimate <= found.high
    assert len(found.by_pair) == 4 * (2 if metric == "equalized_odds" else 1)
    clustered = ask(clf, metric=metric, clusters=np.arange(800) // 2)
    assert "400 clusters" in clustered.sentence
    with pytest.raises(ValueError, match="method='cheap'"):
        ask(clf, metric=metric, clusters=np.arange(800) // 2, method="percentile")


def test_labels_are_not_needed_where_the_metric_does_without():
    clf = fitted()
    found = clf.fairness_interval(TEST.X, None, sensitive_features=TEST.sensitive)
    assert found.gap == ask(clf).gap
    with pytest.raises(ValueError, match="needs labels"):
        clf.fairness_interval(TEST.X, None, sensitive_features=TEST.sensitive, metric="accuracy")


# -- Arbitrariness -----------------------------------------------------------------------------------------------------


def test_arbitrariness_is_the_share_of_pairs_that_disagree():
    clf = fitted(n_replicates=4)
    found = clf.arbitrariness(TEST.X, sensitive_features=TEST.sensitive)
    D = np.stack([one.predict(TEST.X) for one in clf.estimators_])
    pairs = [np.mean(D[i] != D[j]) for i in range(4) for j in range(i)]
    assert found.estimate == pytest.approx(np.mean(pairs))
    assert found.low < found.estimate < found.high
    table = found.to_frame()
    share = np.bincount(TEST.sensitive) / 800
    assert table["estimate"] @ share == pytest.approx(found.estimate)
    assert found.to_dict()["by_pair"][0]["gap"] == pytest.approx(table["estimate"][0] - table["estimate"][1])
    assert "disagree about" in found._repr_html_()


# -- Bad input ---------------------------------------------------------------------------------------------------------


def test_an_estimator_without_weights_draws_rows_and_says_so():
    with pytest.warns(NoSampleWeight, match="draws as many rows"):
        clf = fitted(KNeighborsClassifier(), n_replicates=3)
    with pytest.warns(NoSampleWeight):
        ask(clf)
    with pytest.raises(ValueError, match="takes no sample_weight"):
        fitted(KNeighborsClassifier(), fit={"sample_weight": np.ones(600)})
    fitted(KNeighborsClassifier(), n_replicates=3, multiplier="resample")


def test_a_refit_that_fails_is_named_left_out_and_rules_out_a_verdict():
    with pytest.warns(FailedRefits, match="the first row weighs too much"):
        clf = fitted(Stubborn(least=1.0), n_replicates=12)
    assert 0 < len(clf.failures_) < 12
    assert len(clf.estimators_) == 12 - len(clf.failures_)
    weight = Multipliers("exponential", clf.seed_).draw(0, 1, 13)[0, 1:]
    assert [*clf.failures_] == [b + 1 for b in range(12) if weight[b] > 1.0]
    with pytest.warns(FailedRefits):
        found = ask(clf)
    assert found.verdict(0.9) == "not enough evidence"
    assert ask(clf, source="evaluation").verdict(0.9) == "within margin"


def test_too_few_refits_that_succeed_leave_the_whole_range():
    weight = Multipliers("exponential", fitted(n_replicates=0).seed_).draw(0, 1, 4)[0, 1:]
    least = np.sort(weight)[0] + 1e-9
    with pytest.warns(FailedRefits):
        clf = fitted(Stubborn(least=least), n_replicates=3)
    with pytest.warns(FailedRefits):
        found = ask(clf)
    assert (found.low, found.high) == (0.0, 1.0)
    assert "two are needed" in found.reason


def test_if_all_refits_fail_nothing_changes():
    clf = sf.BootstrapClassifier(Stubborn(least=-1.0))
    with pytest.raises(ValueError, match="All 10 refits failed, the first with ArithmeticError"):
        clf.fit(TRAIN.X, TRAIN.y)
    assert not clf.__sklearn_is_fitted__()


class Uncopied:
    """No get_params."""

    def fit(self, X, y):
        return self

    def predict(self, X):
        return X


@pytest.mark.parametrize(
    ("estimator", "error", "words"),
    [
        (Uncopied(), TypeError, "cannot be cloned"),
        (LogisticRegression, TypeError, "classifier with fit and predict"),
        (LinearRegression(), ValueError, "regressor"),
    ],
)
def test_what_is_no_classifier_is_refused(estimator, error, words):
    with pytest.raises(error, match=words):
        sf.BootstrapClassifier(estimator).fit(TRAIN.X, TRAIN.y)


def test_other_bad_input_is_refused():
    clf = sf.BootstrapClassifier(GaussianNB())
    with pytest.raises(ValueError, match="exactly two labels are needed, received 3"):
        clf.fit(TRAIN.X, np.arange(600) % 3)
    with pytest.raises(ValueError, match="one class"):
        clf.fit(TRAIN.X, np.zeros(600))
    with pytest.raises(ValueError, match="n_replicates must be"):
        sf.BootstrapClassifier(GaussianNB(), n_replicates=-1).fit(TRAIN.X, TRAIN.y)
    with pytest.raises(ValueError, match="multiplier"):
        sf.BootstrapClassifier(GaussianNB(), multiplier="normal").fit(TRAIN.X, TRAIN.y)
    with pytest.raises(ValueError, match="learns without groups"):
        clf.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive)
    with pytest.raises(ValueError, match="one cluster"):
        clf.fit(TRAIN.X, TRAIN.y, clusters=np.zeros(600))
    with pytest.raises(ValueError, match="needs refits"):
        ask(fitted(n_replicates=0))
    with pytest.raises(ValueError, match="undeclared"):
        fitted().fairness_interval(TEST.X, np.full(800, 7), sensitive_features=TEST.sensitive)
    with pytest.raises(ValueError, match="sensitive_features is missing"):
        fitted().fairness_interval(TEST.X, TEST.y, sensitive_features=None)


@pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")  # a refit may stop early
def test_groups_reach_an_estimator_that_takes_them():
    inner = sf.FairClassifier(n_replicates=0)
    clf = sf.BootstrapClassifier(inner, n_replicates=3, random_state=0)
    clf.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive)
    pipe = sf.BootstrapClassifier(make_pipeline(StandardScaler(), inner), n_replicates=3, random_state=0)
    pipe.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive)
    frame = pd.DataFrame({"z": TRAIN.sensitive})
    clf.fit(TRAIN.X, TRAIN.y, sensitive_features=frame)
    assert ask(clf).n == 800
