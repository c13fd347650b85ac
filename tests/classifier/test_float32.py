"""Single precision: rows are met in single precision, sums stay in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import surefair as sf

CRITERIA = ["demographic_parity", "equalized_odds", "false_discovery_rate", None]


def rows(n=6_000, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 4)) + 0.7 * z[:, None] * [1.0, 0.0, 0.5, 0.0]
    score = X @ [1.0, -0.6, 0.4, 0.0]
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-score))).astype(int), z


def fit(dtype, X, y, z, **params):
    params = {
        "tolerance": 0.05,
        "n_replicates": 40,
        "solver": "one_pass",
        "n_warmup": 2_000,
        "random_state": 0,
    } | params
    return sf.FairClassifier(dtype=dtype, **params).fit(X, y, sensitive_features=z)


@pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")
@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_single_precision_moves_coefficients_by_far_less_than_their_spread(criterion, loss):
    X, y, z = rows()
    double, single = (fit(dtype, X, y, z, criterion=criterion, loss=loss) for dtype in ("float64", "float32"))
    spread = double.coef_replicates_.std(axis=0)
    assert (single.coef_replicates_ != double.coef_replicates_).any()
    assert (np.abs(single.coef_ - double.coef_) < 1e-3 * spread).all()
    # Replicates are solved on the warm-up rows up to a small part of their spread. Where rounding decides at which of
    # two solutions one of them arrives, it may be further away: seldom.
    near = np.abs(single.coef_replicates_ - double.coef_replicates_) < 0.03 * spread
    assert near.all(axis=1).mean() >= 0.95


def test_single_precision_has_the_same_bits_in_any_batches_and_threads():
    X, y, z = rows()
    whole = fit("float32", X, y, z)
    parts = sf.FairClassifier(
        tolerance=0.05, n_replicates=40, solver="one_pass", n_warmup=2_000, random_state=0, dtype="float32", n_jobs=2
    )
    for low in range(0, len(y), 700):
        part = slice(low, low + 700)
        parts.partial_fit(X[part], y[part], sensitive_features=z[part], classes=[0, 1])
    assert (parts.coef_replicates_ == whole.coef_replicates_).all()
    assert (parts.coef_ == whole.coef_).all()


def test_sparse_rows_with_few_features_are_those_of_dense_rows():
    X, y, z = rows()
    X[np.abs(X) < 0.5] = 0.0
    assert (fit("float32", csr_matrix(X), y, z).coef_ == fit("float32", X, y, z).coef_).all()


@pytest.mark.parametrize("fixed", [{"step_size": sf.PolynomialDecay(0.5, 0.6)}, {}])
def test_a_fixed_constraint_needs_double_precision(fixed):
    X, y, z = rows(1_000)
    given = {} if fixed else {"constraint_set": (X[:200], y[:200], z[:200])}
    with pytest.raises(ValueError, match="double precision; received dtype='float32'"):
        sf.FairClassifier(dtype="float32", **fixed).fit(X, y, sensitive_features=z, **given)
