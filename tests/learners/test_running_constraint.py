"""The constraint that is learnt from the stream: the kernel against its specification, bits, and what it achieves."""

from __future__ import annotations

import numpy as np
import pytest

from surefair.criteria import CRITERIA, SURROGATES, Comparisons
from surefair.learners import Settings
from surefair.learners.multipliers import Multipliers
from surefair.learners.running_constraint import BLOCK, Running, RunningConstraint
from surefair.learners.schedules import PolynomialDecay
from surefair.losses import LOSSES

CONSTRAINED = [name for name, criterion in CRITERIA.items() if criterion.can_constrain]
ROUNDING = 1e-9


def rows(n, sizes=(2,), seed=0, D=4):
    """Features with an intercept, labels and groups that both depend on them, and weights."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, D - 1)), np.ones(n)])
    group = np.stack([(X[:, 0] > 0.3).astype(int) + rng.integers(size - 1, size=n) for size in sizes], axis=1)
    y = np.where(X[:, 0] + X[:, 1] + rng.logistic(size=n) > 0.0, 1.0, -1.0)
    return X, y, group, rng.uniform(0.5, 1.5, size=n)


def make(criterion="demographic_parity", surrogate="decisions", loss="log_loss", sizes=(2,), D=4, law="two_point",
         **more):  # fmt: skip
    """Make a learner in coordinates as they are."""
    settings = Settings(
        LOSSES[loss], 1e-2, 0.0, 0.0, None, PolynomialDecay(1.0, 2 / 3, 100.0), Multipliers(law, 3),
        start=np.linspace(-0.2, 0.3, D), robust=True,
    )  # fmt: skip
    settings = Settings(**vars(settings) | more)
    comparisons = Comparisons.of(None if criterion is None else CRITERIA[criterion], surrogate, sizes)
    push = np.linspace(-0.1, 0.2, len(comparisons.pairs))
    return RunningConstraint(
        settings, Running(comparisons, 0.7, 0.3 * np.eye(D), np.r_[np.ones(D - 1), 0.0], push, 0.5)
    )


def stepped(learner, data, n_columns=5, sizes=(1000,), **more):
    """State after the rows in batches of these sizes, over and over."""
    X, y, group, weight = data
    state = learner.init(n_columns)
    low = 0
    while low < len(y):
        for size in sizes:
            part = slice(low, low + size)
            state = learner.step(state, X[part], y[part], weight[part], group=group[part], **more)
            low += size
    return state


def referenced(learner, data, n_columns=5):
    """State after the rows by the specification."""
    state = learner.init(n_columns)
    for x, y, group, weight in zip(*data, strict=True):
        state = learner.reference_step(state, x, y, weight, group)
    return state


def assert_close(found, expected):
    for name in found._fields:
        one, two = getattr(found, name), getattr(expected, name)
        np.testing.assert_allclose(one, two, rtol=ROUNDING, atol=ROUNDING, err_msg=name)


@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("criterion", [*CONSTRAINED, None])
@pytest.mark.parametrize("use", [{}, {"tolerance": 0.05}, {"penalty": 5.0}], ids=["equal", "tolerance", "penalty"])
def test_step_equals_reference_step(criterion, loss, surrogate, use):
    learner = make(criterion, surrogate, loss, sizes=(2, 3), **use)
    data = rows(7 * BLOCK + 5, sizes=(2, 3))
    state, expected = stepped(learner, data), referenced(learner, data)
    assert state.k == 7 * BLOCK
    assert len(state.rows) == 5
    assert_close(state, expected)
    np.testing.assert_allclose(learner.mean(state), learner.mean(expected), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("law", ["two_point", "exponential", "poisson"])
@pytest.mark.parametrize("use", [{}, {"tolerance": 0.05}])
def test_bits_do_not_depend_on_batches_threads_or_the_number_of_replicates(law, use):
    learner = make(law=law, **use)
    data = rows(500)
    whole = stepped(learner, data, 70)
    for other in (stepped(learner, data, 70, sizes=(1, 7, 64, 33)), stepped(learner, data, 70, n_threads=2)):
        assert all(map(np.array_equal, whole, other))
    assert np.array_equal(learner.mean(whole)[:, :9], learner.mean(stepped(learner, data, 9)))


def test_columns_can_move_in_parts():
    learner = make()
    data = rows(320)
    whole = stepped(learner, data, 70)
    parts = [stepped(learner, data, 70, columns=span) for span in [(0, 32), (32, 70)]]
    assert np.array_equal(np.hstack([parts[0].theta[:, :32], parts[1].theta[:, 32:]]), whole.theta)


def test_sums_of_shards_add():
    learner = make()
    one, two = stepped(learner, rows(320)), stepped(learner, rows(640, seed=1))
    merged = learner.merge(one, two)
    assert merged.k == 960
    np.testing.assert_allclose(merged.slopes, one.slopes + two.slopes)
    np.testing.assert_allclose(merged.total, one.total + two.total)


def hard_gap(theta, X, group):
    positive = X @ theta > 0.0
    return positive[group[:, 0] == 0].mean() - positive[group[:, 0] == 1].mean()


@pytest.mark.parametrize("tolerance", [0.0, 0.05, 0.2])
def test_the_gap_of_decisions_on_other_rows_is_the_tolerance(tolerance):
    learner = make(tolerance=tolerance)
    free = make(None)
    data = rows(20_000)
    X, _, group, _ = rows(20_000, seed=9)
    gap = hard_gap(learner.mean(stepped(learner, data, 1))[:, 0], X, group)
    assert abs(hard_gap(free.mean(stepped(free, data, 1))[:, 0], X, group)) > 0.4
    assert abs(abs(gap) - tolerance) < 0.03


def test_a_group_with_few_rows_is_not_constrained_until_it_has_more():
    learner = make()
    X, y, group, weight = rows(5 * BLOCK)
    group[:] = 0
    group[::20] = 1
    state = stepped(learner, (X, y, group, weight))
    assert state.seen[1, 0] == 8
    late = make(None)
    np.testing.assert_allclose(state.theta[:, 0], stepped(late, (X, y, group, weight)).theta[:, 0], atol=1e-12)
