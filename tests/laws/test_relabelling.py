"""Which group is called the first changes nothing in the fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefair.criteria import CRITERIA


@pytest.mark.parametrize("criterion", CRITERIA.values(), ids=CRITERIA)
@given(data=st.data())
def test_swapping_the_groups_leaves_the_fit(problems, criterion, loss, data, assert_close):
    p = data.draw(problems(criterion, loss))
    assert_close(p.relabelled().mean(), p.mean(), rtol=1e-9)
