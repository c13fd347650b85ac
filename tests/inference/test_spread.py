"""The spread of the replicates is the spread over repetitions: a small version of studies/spread.py.

With R repetitions the true standard deviation is known up to a factor whose square is chi-square(R - 1) / (R - 1); the
bounds 0.8 and 1.25 of the full study are widened by its quantiles at 1 in 10,000, and no further.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from batch import draw_batch
from scipy.stats import chi2

import surefair as sf
from surefair.inference.counts import count

REPETITIONS, ROWS, REPLICATES = 80, 1_500, 60
LOW, HIGH = np.array([0.8, 1.25]) / np.sqrt(chi2.ppf([1 - 1e-4, 1e-4], REPETITIONS - 1) / (REPETITIONS - 1))


def values(clf, criterion, test):
    """Coefficients, intercept and gaps, of the fit first and then of its replicates."""
    coef = np.vstack([clf.coef_, clf.coef_replicates_])
    theta = np.column_stack([coef, np.append(clf.intercept_, clf.intercept_replicates_)]).T
    X = np.column_stack([test.X, np.ones(test.n_rows)])
    counts = count(theta, X, (test.y > 0).astype(int), test.group[:, None], sizes=(len(clf.groups_),))
    first, second = np.triu_indices(len(clf.groups_), 1)
    rates = [rate.of(counts.rows) for rate in sf.CRITERIA[criterion].rates]
    return np.vstack([theta, *((rate[:, first] - rate[:, second]).T for rate in rates)])


class ThreeGroups:
    """Synthetic DI with three more features, one of which splits a group in two."""

    def rows(self, first, n):
        data = sf.datasets.SyntheticDI(seed=5).rows(first, n)
        more = np.random.default_rng([5, first]).normal(size=(n, 3)) + 0.5 * data.y[:, None]
        X = pd.DataFrame(np.column_stack([data.X, more]))
        return replace(data, X=X, sensitive=data.sensitive * (1 + (more[:, 0] > 0.3)))

    def __repr__(self):
        return "three groups"


FIXED = [
    (sf.datasets.SyntheticDI(seed=5), {"criterion": "demographic_parity"}),
    (sf.datasets.SyntheticDI(seed=5), {"criterion": "demographic_parity", "loss": "squared_error"}),
    (sf.datasets.SyntheticDM(seed=5), {"criterion": "false_positive_rate", "penalty": 20.0}),
    (sf.datasets.SyntheticDM(seed=5), {"criterion": "false_positive_rate", "penalty": 500.0}),
    (sf.datasets.SyntheticDM(seed=5), {"criterion": "false_negative_rate", "penalty": 20.0}),
    (ThreeGroups(), {"criterion": "demographic_parity"}),
    (sf.datasets.SyntheticDM(seed=5), {"criterion": "equalized_odds", "penalty": 20.0}),
    (sf.datasets.SyntheticDM(seed=5), {"criterion": "false_omission_rate"}),
    (sf.datasets.SyntheticDM(seed=5), {"criterion": "false_discovery_rate"}),
]


LEARNT = [
    (sf.datasets.SyntheticDI(seed=5), {"criterion": "demographic_parity"}),
    (sf.datasets.SyntheticDI(seed=5), {"criterion": "demographic_parity", "loss": "squared_error"}),
    (sf.datasets.SyntheticDI(seed=5), {"criterion": "demographic_parity", "tolerance": 0.1}),
    (sf.datasets.SyntheticDI(seed=5), {"criterion": "demographic_parity", "surrogate": "scores"}),
    (sf.datasets.SyntheticDI(seed=5), {"criterion": "demographic_parity", "penalty": 20.0}),
    (sf.datasets.SyntheticDM(seed=5), {"criterion": "false_positive_rate", "tolerance": 0.1}),
    (sf.datasets.SyntheticDM(seed=5), {"criterion": "false_positive_rate", "penalty": 2.0}),
    (sf.datasets.SyntheticDM(seed=5), {"criterion": "equalized_odds", "penalty": 2.0}),
    (ThreeGroups(), {"criterion": "demographic_parity", "tolerance": 0.05}),
]


def but_first_slow(cases):
    return [cases[0], *(pytest.param(*case, marks=pytest.mark.slow) for case in cases[1:])]


def check_spread(stream, settings, n_rows=ROWS, constraint_set=None):
    """Compare the spread of the replicates with that of repeated fits."""
    test = draw_batch(stream, 1_000, 4_000)
    fits, spreads = [], []
    for repetition in range(REPETITIONS):
        rows = draw_batch(stream, 10_000 + repetition * n_rows, n_rows)
        clf = sf.FairClassifier(n_replicates=REPLICATES, random_state=repetition, **settings)
        clf.fit(rows.X, rows.y, sensitive_features=rows.group, constraint_set=constraint_set)
        found = values(clf, settings["criterion"], test)
        fits.append(found[:, 0])
        spreads.append(found[:, 1:].std(axis=1, ddof=1))
    ratio = np.sqrt(np.mean(np.square(spreads), axis=0)) / np.std(fits, axis=0, ddof=1)
    assert np.all((ratio > LOW) & (ratio < HIGH)), ratio
    assert 0.5 < LOW < HIGH < 2.0  # replicates with half or double the spread would fail


@pytest.mark.parametrize(("stream", "settings"), but_first_slow(LEARNT), ids=str)
@pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")  # among many fits a few raise one
def test_bootstrap_spread_is_the_spread_over_repetitions(stream, settings):
    # With fewer warm-up rows some fits begin at the wrong one of two optima, which are almost equally good.
    check_spread(stream, settings | {"solver": "one_pass", "n_warmup": 2_000}, n_rows=4_000)


@pytest.mark.parametrize(("stream", "settings"), but_first_slow(FIXED), ids=str)
def test_bootstrap_spread_under_a_fixed_constraint_is_the_spread_over_repetitions(stream, settings):
    apart = draw_batch(stream, 0, 1_000)
    check_spread(stream, settings, constraint_set=(apart.X, apart.y, apart.group))
