"""The order of the groups does not change the fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefair.criteria import CRITERIA

CONSTRAINTS = {name: criterion for name, criterion in CRITERIA.items() if criterion.can_constrain}


@pytest.mark.parametrize("criterion", CONSTRAINTS.values(), ids=CONSTRAINTS)
@given(data=st.data())
def test_swapping_the_groups_does_not_change_the_fit(problems, criterion, loss, data, assert_close):
    p = data.draw(problems(criterion, loss))
    assert_close(p.relabelled().mean(), p.mean(), rtol=1e-9)
