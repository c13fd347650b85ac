from __future__ import annotations

import pytest

from surefair.criteria import Slabs, SoftRatePenalty, SquaredPenalty
from surefair.learners import LEARNERS, by_form
from surefair.learners.dual_averaging import DualAveraging
from surefair.learners.stochastic_newton import Learnt


def test_every_form_has_a_learner():
    dense = {(form, False) for form in (Slabs, SquaredPenalty, SoftRatePenalty, Learnt)}
    assert set(LEARNERS) == dense | {(Slabs, True), (Learnt, True)}


@pytest.mark.parametrize("sparse", [False, True])
def test_two_learners_for_the_same_form_are_refused(sparse):
    class Newcomer:
        FORMS = ((Slabs, sparse),)

    rows = "sparse" if sparse else "dense"
    with pytest.raises(ValueError, match=f"DualAveraging and Newcomer both serve the form Slabs for {rows} rows"):
        by_form([DualAveraging, Newcomer])
    assert by_form([Newcomer]) == {(Slabs, sparse): Newcomer}
