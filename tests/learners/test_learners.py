from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from surefair.criteria import Slabs, SoftRatePenalty, SquaredPenalty
from surefair.learners import LEARNERS, Settings, by_form, learner_for
from surefair.learners.dual_averaging import DualAveraging
from surefair.learners.multipliers import Multipliers
from surefair.learners.schedules import PolynomialDecay
from surefair.learners.stochastic_newton import Learnt
from surefair.losses import LOSSES


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


def test_slabs_need_dense_rows():
    settings = Settings(
        LOSSES["log_loss"], 1e-4, 0.0, 0.0, None, PolynomialDecay(1.0, 0.6), Multipliers("two_point", 0), np.zeros(2),
        robust=False,
    )  # fmt: skip
    learner = learner_for(settings, Slabs(np.ones((1, 2))), sparse=True)
    with pytest.raises(ValueError, match="needs dense rows; received a sparse matrix"):
        learner.step(learner.init(3), csr_matrix(np.eye(2)), np.array([1.0, -1.0]))
