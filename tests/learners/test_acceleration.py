"""Fixed points by Anderson's acceleration."""

import numpy as np
import pytest

from surefair.learners.acceleration import fixed_points


def linear(n, columns, seed=0, largest=1.8):
    """Steps whose plain repetition diverges in some directions, with the fixed points."""
    rng = np.random.default_rng(seed)
    slope = rng.uniform(-0.5, 0.5, size=(n, columns))
    slope[:2] = largest * np.sign(rng.normal(size=(2, columns)))  # two directions that do not contract
    target = rng.normal(size=(n, columns))
    return lambda x: slope * (x - target) + target, target


def test_it_finds_fixed_points_where_plain_steps_diverge():
    step, target = linear(20, 30)
    found, settled = fixed_points(step, np.zeros((20, 30)), 20, 1e-5)
    assert settled.all()
    np.testing.assert_allclose(found, target, atol=2e-3)


def test_it_solves_smooth_equations():
    start = np.zeros((3, 5))
    shift = np.linspace(-1.0, 1.0, 15).reshape(3, 5)
    found, settled = fixed_points(lambda x: np.cos(2.0 * x) + shift, start, 3, 1e-9)
    assert settled.all()
    np.testing.assert_allclose(found, np.cos(2.0 * found) + shift, atol=1e-8)


@pytest.mark.parametrize("some", [slice(0, 1), slice(3, 17), slice(29, 30)])
def test_a_column_has_the_same_bits_whatever_the_others_are(some):
    def step(x):
        return np.sin(3.0 * x) + offset

    offset = np.linspace(-1.0, 1.0, 30)
    whole, _ = fixed_points(step, np.zeros((4, 30)), 4, 1e-8)
    offset = offset[some]
    part, _ = fixed_points(step, np.zeros((4, len(offset))), 4, 1e-8)
    assert np.array_equal(whole[:, some], part)


def test_a_column_without_a_fixed_point_is_reported_and_finite():
    jump = np.array([[1.0, 0.0]])
    found, settled = fixed_points(lambda x: 0.5 * x + jump * np.where(x < 1.0, 3.0, -3.0), np.zeros((1, 2)), 1, 1e-9)
    assert settled.tolist() == [False, True]
    assert np.isfinite(found).all()


def test_steps_that_are_not_finite_do_not_spoil_what_was_found():
    with np.errstate(invalid="ignore"):
        found, settled = fixed_points(lambda x: np.where(x > 0.5, np.nan, x + 0.3), np.zeros((1, 1)), 1, 1e-9)
    assert np.isfinite(found).all()
    assert not settled.any()
