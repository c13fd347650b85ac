"""A feature map is a step of a scikit-learn pipeline, which passes sensitive features to the classifier."""

from __future__ import annotations

import numpy as np
import sklearn
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline

import surefair as sf


def sample(n, seed):
    """Rows whose label depends on the distance from the origin, which no straight boundary can separate.

    A third feature shows the group, without which equal shares of decisions would be those of a coin.
    """
    rng = np.random.default_rng(seed)
    z = rng.integers(2, size=n)
    X = rng.normal(size=(n, 2)) * (1.0 + 0.2 * z[:, None])
    shown = z + 0.3 * rng.normal(size=n)
    return np.column_stack([X, shown]), np.where(np.sum(X**2, axis=1) > 1.6, "outside", "inside"), z


def test_a_pipeline_with_random_fourier_features_trains_and_gives_an_interval():
    X, y, z = sample(8_000, seed=0)
    X_test, y_test, z_test = sample(4_000, seed=1)
    features = RBFSampler(gamma=0.2, n_components=8, random_state=0)
    with sklearn.config_context(enable_metadata_routing=True):
        clf = sf.FairClassifier(random_state=0).set_fit_request(sensitive_features=True)
        pipeline = make_pipeline(features, clf).fit(X, y, sensitive_features=z)
    assert sf.FairClassifier(None, random_state=0).fit(X, y).score(X_test, y_test) < 0.6
    assert pipeline.score(X_test, y_test) > 0.7

    mapped = pipeline[:-1].transform(X_test)
    interval = pipeline[-1].fairness_interval(mapped, y_test, sensitive_features=z_test)
    positive = pipeline.predict(X_test) == "outside"
    assert interval.gap == positive[z_test == 0].mean() - positive[z_test == 1].mean()
    assert 0.0 <= interval.low <= interval.estimate <= interval.high < 0.2
