"""A column that follows from others changes no decision, whatever its units, with a ridge or without."""

from __future__ import annotations

import numpy as np
import pytest
from learnt_problems import CONSTRAINED

import surefair as sf

pytestmark = pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")
N = 6_000
REACHED = [name for name in CONSTRAINED if name not in ("false_omission_rate", "false_discovery_rate")]  # on these rows


def rows():
    """Rows with a clear difference between two groups."""
    rng = np.random.default_rng(3)
    group = rng.integers(2, size=N)
    X = rng.normal(size=(N, 4))
    X[:, 0] += 0.8 * group
    y = X @ [1.0, 0.7, -0.4, 0.2] + 0.4 * group + rng.logistic(size=N) > 0.4
    return X, y.astype(int), group


@pytest.mark.parametrize("alpha", [0.0, 1e-4])
@pytest.mark.parametrize(("solver", "agree"), [("exact", 0.998), ("one_pass", 0.99)])
@pytest.mark.parametrize("criterion", REACHED)
def test_a_redundant_column_in_large_units_changes_no_decision(criterion, solver, agree, alpha):
    X, y, group = rows()
    wide = np.column_stack([1e3 * X[:, :2], X[:, 2:], 1e3 * (X[:, 0] + X[:, 1]), np.full(N, 7.0)])

    def decisions(features):
        clf = sf.FairClassifier(
            criterion, tolerance=0.05, solver=solver, alpha=alpha, n_replicates=0, n_warmup=2_000, random_state=0
        )
        return clf.fit(features, y, sensitive_features=group).predict(features)

    assert np.mean(decisions(wide) == decisions(X)) > agree


def test_decisions_are_within_the_tolerance_with_a_redundant_column():
    X, y, group = rows()
    wide = np.column_stack([1e3 * X[:, :2], X[:, 2:], 1e3 * (X[:, 0] + X[:, 1])])
    clf = sf.FairClassifier(tolerance=0.05, n_replicates=0).fit(wide, y, sensitive_features=group)
    decided = clf.predict(wide)
    assert abs(decided[group == 0].mean() - decided[group == 1].mean()) < 0.06
