"""A plain NumPy loop of the learner whose constraint is learnt from all rows: its specification, ``reference_step``."""

from __future__ import annotations

from work import Call, Data, Work

import surefair as sf
from surefair.learners.stochastic_newton import BLOCK

NAME = "NumPy loop of Newton steps"
NOTE = "The same method, vectorised over replicates; warm-up and new coordinates are not timed."
PACKAGE, CORE = "numpy", True
TARGETS = {"parity of decisions, d=14, B=200": 20, "false-positive rate of decisions, d=14, B=200": 20}


def prepare(work: Work, data: Data) -> tuple[Call, int] | None:
    """Supports constraints that are learnt from dense rows."""
    if not (work.learnt and work.dense):
        return None
    clf = sf.FairClassifier(work.criterion, n_replicates=work.replicates, random_state=0)
    first, rows = clf.n_warmup, 40 * BLOCK
    clf.fit(data.X[:first], data.y[:first], sensitive_features=data.z[:first])
    fit, later = clf.model_.trained, slice(first, first + rows)
    X, y, group = fit.to_learner(data.X[later]), data.y[later].astype(float), data.z[later, None]

    def steps() -> None:
        state = fit.state
        for x, label, codes in zip(X, y, group, strict=True):
            state = fit.learner.reference_step(state, x, label, group=codes)

    return steps, rows
