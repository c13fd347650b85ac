"""The compiled code equals the paper's algorithms, written out one row and one replicate at a time.

The letters are those of the paper: D' is the constraint set, Θ the parameter (a matrix with two rows for the squared
loss on one-hot labels), κ the ridge, ε the tolerance, R₂ the penalty. We correct three misprints: the average is
((k-1)θ̄ + θ)/k, and the step for DM uses the gradient of loss plus penalty at θ_{k-1}, with V on both.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surefair as sf
from surefair.criteria import Slabs
from surefair.learners.multipliers import Multipliers
from surefair.losses import LOSSES

PUBLISHED = {"sizes": (2,), "sparse": False, "weighted": False, "sharpness": None}  # what the paper describes
DECISION = {"log_loss": np.array([1.0]), "squared_error": np.array([1.0, -1.0])}  # δ(x) = DECISION · Θ x
LOOKS_AT = {"false_positive_rate": [-1.0], "false_negative_rate": [1.0], "error_rate": [-1.0, 1.0]}  # labels of D'_c


def loss_gradient(loss, Theta, x, y):
    """∇L, with the shape of Θ."""
    if loss == "log_loss":
        return -y * x[None, :] / (1.0 + np.exp(y * (Theta @ x)))
    y_v = np.array([y == 1.0, y == -1.0])
    return -2.0 * np.outer(y_v - Theta @ x, x)


def dual_averaging(loss, Theta, rows, D_prime, epsilon, kappa):
    """Algorithm 1, or Algorithm 2 for DI if V ≠ 1: averaged δ-coefficients of one column."""
    X, _, z = D_prime
    x_v = np.outer(DECISION[loss], np.mean((z - z.mean())[:, None] * X, axis=0))
    s, mean = -Theta, np.zeros_like(Theta)
    for k, (x, y, eta, V) in enumerate(rows, start=1):
        Theta = -s
        inner, square = np.sum(x_v * Theta), np.sum(x_v**2)
        if inner > epsilon:
            Theta = Theta - (inner - epsilon) / square * x_v
        if inner < -epsilon:
            Theta = Theta - (inner + epsilon) / square * x_v
        s = s + eta * V * (loss_gradient(loss, Theta, x, y) + kappa * Theta)
        mean = ((k - 1) * mean + Theta) / k
    return DECISION[loss] @ mean


def penalised_sgd(loss, Theta, rows, D_prime, looks_at, R2, kappa):
    """SGD with Polyak-Ruppert averaging, or Algorithm 2 for DM if V ≠ 1: averaged δ-coefficients of one column."""
    X, labels, z = D_prime
    part, centred, mean = np.isin(labels, looks_at), z - z.mean(), np.zeros_like(Theta)
    for k, (x, y, eta, V) in enumerate(rows, start=1):
        decisions = labels * (X @ (DECISION[loss] @ Theta))
        g = np.mean((centred * np.minimum(0.0, decisions))[part])
        grad_g = np.mean(((centred * labels * (decisions < 0.0))[:, None] * X)[part], axis=0)
        penalty_gradient = 2.0 * g * np.outer(DECISION[loss], grad_g)
        Theta = Theta - eta * V * (loss_gradient(loss, Theta, x, y) + kappa * Theta + R2 * penalty_gradient)
        mean = ((k - 1) * mean + Theta) / k
    return DECISION[loss] @ mean


def literal(criterion, loss, Theta, X, y, eta, V, D_prime, tolerance, penalty, kappa):
    """Coefficients (features, columns) by the paper's loops, one column at a time; V has shape (rows, columns)."""
    columns = []
    for V_b in V.T:
        rows = zip(X, y, eta, V_b, strict=True)
        if criterion == "demographic_parity":
            columns.append(dual_averaging(loss, Theta, rows, D_prime, tolerance, kappa))
        else:
            columns.append(penalised_sgd(loss, Theta, rows, D_prime, LOOKS_AT[criterion], penalty, kappa))
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("name", ["demographic_parity", *LOOKS_AT])
@given(data=st.data(), offset=st.floats(-2.0, 2.0))
def test_learners_on_the_difference_equal_the_two_rows_of_one_hot_squared_error(
    problems, name, data, offset, assert_close
):
    p = data.draw(
        problems(sf.CRITERIA[name], LOSSES["squared_error"], robust=False, n_columns=4, eta0=0.05, **PUBLISHED)
    )
    s = p.learner.settings
    (n, D), (Xc, yc, members) = p.X.shape, p.constraint_set
    Theta = np.stack([s.start + offset, np.full(D, offset)])  # only the difference of the rows matters
    V = s.multipliers.draw(0, n, p.n_columns)
    expected = literal(
        name, "squared_error", Theta, p.X, p.y, 0.05 * np.arange(1, n + 1) ** -0.501, V, (Xc, yc, members.codes[:, 0]),
        s.tolerance, s.penalty, s.alpha,
    )  # fmt: skip
    assert_close(p.mean(), expected, rtol=1e-9)


@pytest.mark.parametrize("criterion", ["demographic_parity", *LOOKS_AT])
@pytest.mark.parametrize("loss", DECISION)
def test_classifier_with_a_decaying_step_equals_the_paper(criterion, loss, law):
    rng = np.random.default_rng(5)
    X, y, z = rng.normal(size=(160, 3)), rng.integers(2, size=160), rng.integers(2, size=160)
    X[:, 0] += y + 0.5 * z
    labels, groups = np.array(["no", "yes"])[y], np.array(["f", "m"])[z]
    use = {"tolerance": 0.01} if criterion == "demographic_parity" else {"penalty": 3.0}
    clf = sf.FairClassifier(
        criterion, loss=loss, **use, alpha=0.01, step_size=sf.PolynomialDecay(0.1, 0.6),
        n_replicates=3, multiplier=law, random_state=7,
    )  # fmt: skip
    clf.fit(X[60:], labels[60:], sensitive_features=groups[60:], constraint_set=(X[:60], labels[:60], groups[:60]))

    with_ones, signs = np.column_stack([X, np.ones(160)]), 2.0 * y - 1.0
    expected = literal(
        criterion, loss, np.zeros((len(DECISION[loss]), 4)), with_ones[60:], signs[60:],
        eta=0.1 * np.arange(1, 101) ** -0.6, V=Multipliers(law, clf.seed_).draw(0, 100, 4),
        D_prime=(with_ones[:60], signs[:60], z[:60]), tolerance=0.01, penalty=3.0, kappa=0.01,
    )  # fmt: skip
    close = {"rtol": 1e-9, "atol": 1e-9 * np.abs(expected).max()}
    np.testing.assert_allclose(clf.coef_[0], expected[:3, 0], **close)
    np.testing.assert_allclose(clf.intercept_, expected[3:, 0], **close)
    np.testing.assert_allclose(clf.coef_replicates_, expected[:3, 1:].T, **close)
    np.testing.assert_allclose(clf.intercept_replicates_, expected[3, 1:], **close)


def test_the_literal_loops_cover_the_criteria_of_the_paper():
    slabs = {name for name, criterion in sf.CRITERIA.items() if criterion.form is Slabs}
    assert {"demographic_parity"} <= slabs
    assert set(LOOKS_AT) <= set(sf.CRITERIA) - slabs
