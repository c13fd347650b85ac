"""Learners of other packages, which `make test-extras` installs: LightGBM, and a PyTorch network wrapped by skorch."""

from __future__ import annotations

import numpy as np
import pytest

import surefair as sf
from surefair.inference.sources import SOURCES

TRAIN, TEST = sf.datasets.SyntheticDM(seed=0).sample(1_000), sf.datasets.SyntheticDM(seed=1).sample(1_000)
pytestmark = pytest.mark.filterwarnings("ignore")


def check(clf, X_train, X_test):
    clf.fit(X_train, TRAIN.y)
    assert clf.failures_ == {}
    for source in SOURCES:
        found = clf.fairness_interval(X_test, TEST.y, sensitive_features=TEST.sensitive, source=source)
        assert found.low <= found.estimate <= found.high


def test_lightgbm():
    lightgbm = pytest.importorskip("lightgbm")
    learner = lightgbm.LGBMClassifier(n_estimators=20, verbose=-1)
    check(sf.BootstrapClassifier(learner, n_replicates=5, random_state=0), TRAIN.X, TEST.X)


def test_a_network_in_pytorch():
    torch = pytest.importorskip("torch")
    skorch = pytest.importorskip("skorch")
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    learner = skorch.NeuralNetClassifier(layers, criterion=torch.nn.CrossEntropyLoss, max_epochs=5, verbose=0)
    X_train, X_test = (np.asarray(rows.X, dtype=np.float32) for rows in (TRAIN, TEST))
    clf = sf.BootstrapClassifier(learner, n_replicates=3, random_state=0)
    check(clf, X_train, X_test)
