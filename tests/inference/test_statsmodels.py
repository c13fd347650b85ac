"""The spread of the replicates agrees with the standard errors of statsmodels, on real rows."""

from __future__ import annotations

import numpy as np
import pytest

import surefair as sf

statsmodels = pytest.importorskip("statsmodels.api")


@pytest.mark.parametrize("steps", ["newton", "sgd"])
def test_standard_errors_for_adult_agree_with_statsmodels(data_folder, steps):
    adult = sf.datasets.load_adult(data_folder)
    order = np.random.default_rng(0).permutation(len(adult))
    X, y, z = adult.X.to_numpy()[order], (adult.y == np.unique(adult.y)[1])[order], adult.sensitive[order]
    assert len(y) == 45_222
    clf = sf.FairClassifier(criterion=None, n_replicates=2_000, random_state=0)
    clf.fit(X, y, constraint_set=None if steps == "newton" else (X[:1_000], y[:1_000], z[:1_000]))
    bootstrap = np.append(clf.coef_replicates_.std(axis=0, ddof=1), clf.intercept_replicates_.std(ddof=1))
    columns, family = np.column_stack([X, np.ones(len(y))]), statsmodels.families.Binomial()
    ratio = bootstrap / statsmodels.GLM(y.astype(float), columns, family=family).fit(cov_type="HC0").bse
    assert ratio.min() >= 0.9
    assert ratio.max() <= 1.1
