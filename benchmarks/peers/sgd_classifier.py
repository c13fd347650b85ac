"""scikit-learn's SGDClassifier: one copy for the fit and one per replicate, all on the same batches."""

from __future__ import annotations

from sklearn.linear_model import SGDClassifier
from work import ALPHA, Call, Data, Work

NAME = "SGDClassifier copies"
NOTE = "A model per replicate, weighted rows in batches of 1,000; no fairness constraint; multipliers are not timed."
PACKAGE, CORE = "scikit-learn", True
TARGETS = {"slab, d=14, B=200": 105, "slab, d=100, B=200": 38, "slab, d=3, B=100": 105}
BATCH, BATCHES = 1_000, 2


def prepare(work: Work, data: Data) -> tuple[Call, int] | None:
    """Has no constraint; one kind of work is enough."""
    if not work.slab:
        return None
    V = data.multipliers(BATCHES * BATCH)
    spans = [slice(low, low + BATCH) for low in range(0, BATCHES * BATCH, BATCH)]

    def fit() -> None:
        models = [model() for _ in range(work.replicates + 1)]
        for span in spans:
            X, y = data.X[span], data.y[span]
            for replicate, weights in zip(models, V[span].T, strict=True):
                replicate.partial_fit(X, y, classes=[-1, 1], sample_weight=weights)

    return fit, BATCHES * BATCH


def model(**options: object) -> SGDClassifier:
    """The model of one replicate."""
    return SGDClassifier(loss="log_loss", average=True, alpha=ALPHA, random_state=0, **options)


def one_fit(data: Data) -> None:
    """Train one model in one pass without replicates: the usual way to train a linear classifier on a stream."""
    model(max_iter=1, tol=None).fit(data.X, data.y)
