from __future__ import annotations

import numpy as np
import pytest

from surefair.learners.schedules import AUTO, CALM, PolynomialDecay, automatic


@pytest.mark.parametrize(("eta0", "power", "offset"), [(1.0, 0.0, 0.0), (0.01, 0.501, 0.0), (2.0, 1.0, 7.0)])
def test_steps_decay_as_a_power_of_the_row(eta0, power, offset):
    expected = [eta0 / (k + offset) ** power for k in range(3, 103)]
    np.testing.assert_allclose(PolynomialDecay(eta0, power, offset).steps(first=3, n=100), expected, rtol=1e-15)


def test_the_first_step_is_eta0():
    assert PolynomialDecay(0.25, 0.7).steps(1, 1)[0] == 0.25


@pytest.mark.parametrize("schedule", [AUTO, PolynomialDecay(0.3, 0.75, offset=2.5)], ids=["auto", "offset"])
def test_a_step_does_not_depend_on_its_batch(schedule):
    together = schedule.steps(1, 500)
    assert [schedule.steps(k, 1)[0] for k in range(1, 501)] == together.tolist()
    assert len(schedule.steps(7, 0)) == 0


@pytest.mark.parametrize(
    ("eta0", "power", "offset", "wrong"),
    [
        (0.0, 0.6, 0.0, "eta0"),
        (-1.0, 0.6, 0.0, "eta0"),
        (np.inf, 0.6, 0.0, "eta0"),
        (np.nan, 0.6, 0.0, "eta0"),
        (1.0, -0.1, 0.0, "power"),
        (1.0, 1.1, 0.0, "power"),
        (1.0, np.nan, 0.0, "power"),
        (1.0, 0.6, -1.0, "offset"),
        (1.0, 0.6, np.nan, "offset"),
    ],
)
def test_invalid_parameters_are_refused(eta0, power, offset, wrong):
    with pytest.raises(ValueError, match=f"^{wrong} must .* received"):
        PolynomialDecay(eta0, power, offset)


def test_automatic_steps_scale_with_the_curvature_and_start_later_on_rough_rows():
    assert automatic(0.5) == PolynomialDecay(AUTO.eta0 / 0.5, AUTO.power)
    offset = (AUTO.eta0 * 10.0 / CALM) ** (1.0 / AUTO.power)
    assert automatic(1.0, roughness=10.0, n_rows=10_000).offset == pytest.approx(offset)
    assert automatic(1.0, roughness=10.0, n_rows=7).offset == 7.0
