"""Kernels equal ``reference_step`` for every loss, criterion, shape and law of multipliers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefair.criteria import CRITERIA, SoftRatePenalty
from surefair.kernels import FOLD
from surefair.learners import LEARNERS, learner_for
from surefair.learners.primal_dual import PrimalDual
from surefair.learners.schedules import PolynomialDecay
from surefair.learners.stochastic_newton import StochasticNewton

ROUNDING = 1e-10
CONSTRAINTS = {name: criterion for name, criterion in CRITERIA.items() if criterion.can_constrain}
SOFT = [criterion for criterion in CRITERIA.values() if criterion.form is SoftRatePenalty]


@settings(max_examples=5)
@given(data=st.data())
def test_step_equals_reference_step(problems, criterion, loss, law, data, assert_close):
    steep = {"robust": True, "start": True} if criterion in SOFT else {}  # near θ = 0 soft rates amplify rounding
    p = data.draw(problems(criterion, loss, law, **steep))
    state, reference = p.state(), p.reference_state()
    assert state.k == reference.k == p.n
    assert_close(p.learner.mean(state), p.learner.mean(reference), ROUNDING)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(2,), (2, 3)], ids=str)
def test_step_equals_reference_step_past_every_edge(problem, criterion, loss, sizes, sparse, assert_close):
    robust = 3 in sizes  # half of the sizes with shortened steps, half with explicit ones
    p = problem(
        criterion, loss, "exponential", seed=1, D=9, n_rows=FOLD + 90, n_constraint=200,
        n_columns=101 if sizes == (2,) else 5,
        robust=robust, start=True, sizes=sizes, sparse=sparse,
    )  # fmt: skip
    assert_close(p.mean(), p.learner.mean(p.reference_state()), ROUNDING)


@settings(max_examples=20)
@given(data=st.data())
def test_the_trace_equals_that_of_reference_steps(problems, criterion, loss, data, assert_close_trace):
    steep = {"robust": True} if criterion in SOFT else {}  # explicit steps on a soft rate amplify rounding
    p = data.draw(problems(criterion, loss, "two_point", sparse=False, **steep))
    assert_close_trace(p.state().trace, p.reference_state().trace, ROUNDING)


@pytest.mark.slow
@pytest.mark.parametrize("robust", [False, True], ids=["explicit", "robust"])
@pytest.mark.parametrize("alpha", [1e-4, 5.0])
@pytest.mark.parametrize("tolerance", [0.0, 0.01])
def test_the_trace_past_every_edge(problem, criterion, loss, robust, alpha, tolerance, assert_close_trace):
    if criterion in SOFT and not robust:
        pytest.skip("a soft rate has no slope at θ = 0, to which a strong ridge pulls")
    p = problem(
        criterion, loss, "two_point", seed=1, D=9, n_rows=FOLD + 90, n_constraint=100, robust=robust, alpha=alpha,
        tolerance=tolerance, start=True, weighted=True, sizes=(2, 3),
    )  # fmt: skip
    state = p.part(0, 205).state()
    for x, y, weight in zip(p.X[205:], p.y[205:], p.weight[205:], strict=True):  # a reference step continues a step
        state = p.learner.reference_step(state, x, y, weight)
    expected = p.reference_state().trace
    assert len(expected) == 3
    assert_close_trace(state.trace, expected, ROUNDING)
    assert_close_trace(p.state().trace, expected, ROUNDING)


def test_a_reference_step_continues_a_step(problem, criterion, loss, sparse, assert_close):
    p = problem(criterion, loss, "poisson", seed=2, start=True, sparse=sparse)
    state = p.part(0, 25).state()
    for x, y in zip(p.dense[25:], p.y[25:], strict=True):
        state = p.learner.reference_step(state, x, y)
    assert_close(p.learner.mean(state), p.mean(), ROUNDING)


@pytest.mark.parametrize("robust", [False, True], ids=["explicit", "robust"])
def test_sparse_rows_give_the_same_as_dense_rows(problem, loss, robust, assert_close):
    sparse = problem(None, loss, "two_point", seed=7, D=8, n_rows=300, start=True, sparse=True, robust=robust)
    learner = learner_for(sparse.learner.settings, sparse.learner.form, False)
    assert_close(sparse.mean(), replace(sparse, learner=learner, X=sparse.dense).mean(), ROUNDING)


def test_a_weight_is_a_longer_step(problem, criterion, loss):
    p = problem(criterion, loss, "two_point", seed=9, start=True)
    heavier = replace(p, weight=np.full(p.n, 2.0))
    schedule = PolynomialDecay(2.0 * p.learner.settings.schedule.eta0, p.learner.settings.schedule.power)
    longer = replace(p.learner, settings=replace(p.learner.settings, schedule=schedule))
    assert np.array_equal(heavier.mean(), replace(p, learner=longer).mean())


@pytest.mark.slow
@pytest.mark.parametrize("robust", [False, True], ids=["explicit", "robust"])
@pytest.mark.parametrize("alpha", [1.0, 5.0])
def test_step_equals_reference_step_with_a_strong_ridge(problem, criterion, loss, robust, alpha, sparse, assert_close):
    if criterion in SOFT and not robust:
        pytest.skip("a soft rate has no slope at θ = 0, to which this ridge pulls")
    # a step multiplies θ by 1 - ηVα: here by exactly 0, by a negative number, or by less than 1 row after row
    p = problem(
        criterion,
        loss,
        "two_point",
        seed=3,
        n_rows=FOLD + 10,
        n_columns=9,
        alpha=alpha,
        sparse=sparse,
        eta0=0.5,
        robust=robust,
        start=True,
    )
    assert_close(p.mean(), p.learner.mean(p.reference_state()), ROUNDING)


def test_before_the_first_row_the_mean_is_the_start(problem, criterion, loss):
    p = problem(criterion, loss, "two_point", seed=4, start=True, tolerance=100.0)
    start = p.learner.settings.start[:, None]
    assert np.array_equal(p.learner.mean(p.learner.init(7)), np.repeat(start, 7, axis=1))


def test_a_step_does_not_change_its_input(problem, criterion, loss, bits):
    p = problem(criterion, loss, "two_point", seed=5, start=True)
    state = p.state()
    before = bits(state)
    p.learner.step(state, p.X, p.y)
    p.learner.reference_step(state, p.dense[0], p.y[0])
    p.learner.merge(state, state)
    assert bits(state) == before


def test_every_learner_of_a_fixed_constraint_serves_a_criterion(problem, loss):
    served = {type(problem(criterion, loss, "two_point", seed=0).learner) for criterion in CONSTRAINTS.values()}
    assert served == set(LEARNERS.values()) - {StochasticNewton, PrimalDual}
