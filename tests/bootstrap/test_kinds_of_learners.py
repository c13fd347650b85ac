"""Learners of many kinds: each is refitted, and all sources have intervals."""

from __future__ import annotations

import pytest
from fairlearn.reductions import DemographicParity, ExponentiatedGradient
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import surefair as sf
from surefair.inference.sources import SOURCES

TRAIN, TEST = sf.datasets.SyntheticDM(seed=0).sample(300), sf.datasets.SyntheticDM(seed=1).sample(400)
LEARNERS = {
    "boosting": (HistGradientBoostingClassifier(max_iter=5), False, False),
    "forest": (RandomForestClassifier(n_estimators=5), False, True),
    "network": (make_pipeline(StandardScaler(), MLPClassifier((4,), max_iter=15)), False, True),
    "reduction": (ExponentiatedGradient(LogisticRegression(), DemographicParity(), max_iter=3), True, None),
    "search": (GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2), False, False),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # so short a training does not converge, and some draw rows again
@pytest.mark.parametrize("name", LEARNERS)
def test_a_kind_of_learner_is_refitted(name):
    estimator, takes_groups, seeded = LEARNERS[name]
    clf = sf.BootstrapClassifier(estimator, n_replicates=3, random_state=0)
    labels, others = (1 * (data.y > 0) for data in (TRAIN, TEST))  # reductions take no others than 0 and 1
    clf.fit(TRAIN.X, labels, **({"sensitive_features": TRAIN.sensitive} if takes_groups else {}))
    assert clf.failures_ == {}
    assert seeded is None or clf.seed_noise_ == seeded
    for source in SOURCES:
        found = clf.fairness_interval(TEST.X, others, sensitive_features=TEST.sensitive, source=source)
        assert found.low <= found.estimate <= found.high
    assert clf.arbitrariness(TEST.X, sensitive_features=TEST.sensitive).n == 400
