"""The same data and the same seed give the same bits, for any batches, threads and number of replicates.

Features are smooth, or they have few values: then scores in a constraint set are often exactly 0, on the kink.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import surefair as sf
from surefair.criteria import CRITERIA
from surefair.kernels import FOLD, TILE, WORD

CONSTRAINTS = {name: criterion for name, criterion in CRITERIA.items() if criterion.can_constrain}


def cuts(p):
    return st.lists(st.integers(0, p.n), max_size=6)  # cuts may coincide: a batch may be empty


@settings(max_examples=15)
@given(data=st.data(), tied=st.booleans())
def test_any_cutting_into_batches(problems, criterion, loss, data, tied, bits):
    p = data.draw(problems(criterion, loss, tied=tied))
    assert bits(p.state(data.draw(cuts(p)))) == bits(p.state())


@given(data=st.data(), tied=st.booleans())
def test_rows_one_by_one(problems, criterion, loss, data, tied, bits):
    p = data.draw(problems(criterion, loss, tied=tied))
    assert bits(p.state(range(1, p.n))) == bits(p.state())


@settings(max_examples=4)
@given(data=st.data())
def test_batches_across_every_fold(problems, criterion, loss, data, bits):
    p = data.draw(problems(criterion, loss, n_rows=2 * FOLD + 30, n_constraint=100, n_columns=5, sharpness=None))
    assert bits(p.state(data.draw(cuts(p)))) == bits(p.state())


@settings(max_examples=6)
@given(data=st.data(), n_columns=st.sampled_from([1, TILE, TILE + 1, 2 * TILE + 1, 3 * TILE]))
def test_threads(problems, criterion, loss, data, n_columns, bits):
    p = data.draw(problems(criterion, loss, n_columns=n_columns))
    one = bits(p.state())
    assert bits(p.state(n_threads=2)) == one
    assert bits(p.state(n_threads=3)) == one


def check_blocks(p, data, bits):
    """Columns that move block by block, in any batches and on any threads, have the same bits as together."""
    n_words = -(-p.n_columns // WORD)
    inner = data.draw(st.sets(st.integers(1, n_words - 1))) if n_words > 1 else set()
    spans = [*pairwise([0, *(WORD * i for i in sorted(inner)), p.n_columns])]
    states = [p.state(data.draw(cuts(p)), data.draw(st.integers(1, 2)), columns=span) for span in spans]
    sides = zip(*(state[1:] for state in states), strict=True)
    blocks = ([a[:, slice(*span)] for a, span in zip(side, spans, strict=True)] for side in sides)
    whole = p.state()
    assert bits(type(whole)(whole.k, *(np.concatenate(block, axis=1) for block in blocks))) == bits(whole)
    for state, (first, last) in zip(states, spans, strict=True):
        outside = np.r_[0:first, last : p.n_columns]
        assert np.array_equal(state[1][:, outside], p.learner.init(p.n_columns)[1][:, outside])


@settings(max_examples=15)
@given(data=st.data())
def test_columns_in_any_blocks(problems, criterion, loss, data, bits):
    check_blocks(data.draw(problems(criterion, loss)), data, bits)


@settings(max_examples=3)
@given(data=st.data())
def test_columns_in_any_blocks_across_every_fold(problems, criterion, loss, data, bits):
    p = data.draw(problems(criterion, loss, n_rows=FOLD + 30, n_constraint=60, n_columns=TILE + 1, sharpness=None))
    check_blocks(p, data, bits)


@settings(max_examples=15)
@given(data=st.data(), tied=st.booleans())
def test_a_replicate_does_not_depend_on_how_many_there_are(problems, criterion, loss, data, tied, bits):
    p = data.draw(problems(criterion, loss, tied=tied))
    fewer = data.draw(st.integers(1, p.n_columns))
    assert bits(p.state(), fewer) == bits(p.state(n_columns=fewer))


@pytest.mark.parametrize("criterion", CONSTRAINTS.values(), ids=CONSTRAINTS)
def test_no_number_of_replicates_is_special(problem, criterion, loss, bits):
    # sums by BLAS would be rounded differently for some numbers of columns
    p = problem(criterion, loss, "two_point", seed=6, D=8, n_rows=3, n_columns=40, start=True)
    whole = p.state()
    assert [fewer for fewer in range(1, 41) if bits(whole, fewer) != bits(p.state(n_columns=fewer))] == []


@pytest.mark.parametrize("name", CONSTRAINTS)
@pytest.mark.parametrize("n_replicates", [0, 1, 4, 50])
def test_the_coefficients_of_a_classifier_do_not_depend_on_how_many_replicates_there_are(name, n_replicates):
    rng = np.random.default_rng(0)
    X, y, z = rng.normal(size=(800, 6)), rng.integers(2, size=800), rng.integers(2, size=800)
    many, few = (
        sf.FairClassifier(name, n_replicates=B, random_state=0).fit(X, y, sensitive_features=z)
        for B in (150, n_replicates)
    )
    assert np.array_equal(few.coef_, many.coef_)
    assert np.array_equal(few.intercept_, many.intercept_)
    assert np.array_equal(few.coef_replicates_, many.coef_replicates_[:n_replicates])


def test_diverging_fits_have_the_same_bits_in_any_batches(problem, criterion, loss, bits):
    # explicit steps that are far too long
    with np.errstate(over="ignore", invalid="ignore"):
        p = problem(criterion, loss, "exponential", seed=8, n_rows=40, penalty=300.0, eta0=300.0, n_columns=33)
        assert bits(p.state([7, 19, 31])) == bits(p.state())
