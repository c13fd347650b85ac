"""Calibration of refitted learners: coverage, the same result again, and bad input."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import surefair as sf
from surefair.inference.sources import SOURCES

DATA = sf.datasets.SyntheticDM(seed=3).sample(5_000)


def calibrate(estimator, n_replicates=5, **more):
    clf = sf.BootstrapClassifier(estimator, n_replicates=n_replicates)
    settings = {"n_rows": 300, "n_evaluation": 400, "repetitions": 6, "progress": False} | more
    return sf.calibrate(clf, DATA.X, DATA.y, sensitive_features=DATA.sensitive, **settings)


def test_every_source_is_judged_and_the_result_is_reproducible():
    found, again = calibrate(GaussianNB()), calibrate(GaussianNB())
    assert found.table["source"].tolist() == [*SOURCES]
    assert found.to_dict() == again.to_dict()
    assert "everything drawn anew" in found.sentence
    assert np.isfinite(found.widths).all()


@pytest.mark.slow
@pytest.mark.parametrize("n_replicates", [5, 10])
def test_intervals_of_a_linear_learner_cover(n_replicates):
    R = 200
    found = calibrate(LogisticRegression(), n_replicates, n_rows=1_000, n_evaluation=2_000, repetitions=R)
    least = binom.ppf(1e-3 / 4, R, 0.95) / R
    assert found.table["coverage"].min() >= least


def test_what_is_only_for_fair_classifiers_is_refused():
    with pytest.raises(ValueError, match="for a FairClassifier"):
        calibrate(GaussianNB(), constraint_set=(DATA.X, DATA.y, DATA.sensitive))
    with pytest.raises(ValueError, match="needs refits"):
        calibrate(GaussianNB(), n_replicates=0)
    with pytest.raises(ValueError, match="method"):
        calibrate(GaussianNB(), method="basic")
