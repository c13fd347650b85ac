"""River: one logistic regression per replicate, all on every row."""

from __future__ import annotations

from river.linear_model import LogisticRegression
from work import ALPHA, Call, Data, Work

NAME = "River copies"
NOTE = "One model per replicate, one weighted row at a time, in Python; no average, no fairness constraint."
PACKAGE, CORE = "river", False
TARGETS: dict[str, float] = {}


def prepare(work: Work, data: Data) -> tuple[Call, int] | None:
    """Has no constraint; one kind of work is enough."""
    if not work.slab:
        return None
    rows = 500_000 // (work.d + 10) // work.replicates
    stream = [dict(enumerate(x)) for x in data.X[:rows].tolist()]
    truth, V = (data.y[:rows] > 0).tolist(), data.multipliers(rows).tolist()

    def fit() -> None:
        models = [LogisticRegression(l2=ALPHA) for _ in range(work.replicates + 1)]
        for x, y, weights in zip(stream, truth, V, strict=True):
            for model, weight in zip(models, weights, strict=True):
                model.learn_one(x, y, w=weight)

    return fit, rows
