"""The NumPy loop of Newton steps, optimised by hand: vectorised over the rows of a block too, for tolerance 0 alone.

The Hessian and the slopes, which all replicates share, come from our own code.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from work import Array, Call, Data, Work

import surefair as sf
from surefair import kernels
from surefair.criteria import surrogate
from surefair.learners.stochastic_newton import Block, NewtonState, StochasticNewton

NAME = "NumPy loop of Newton steps, tuned"
NOTE = "The loop vectorised over 32 rows at a time; warm-up, new coordinates and multipliers are not timed."
PACKAGE, CORE = "numpy", True
TARGETS: dict[str, float] = {}


def prepare(work: Work, data: Data) -> tuple[Call, int] | None:
    """Supports constraints that are learnt from dense rows."""
    if not (work.learnt and work.dense):
        return None
    clf = sf.FairClassifier(work.criterion, n_replicates=work.replicates, random_state=0)
    first = clf.n_warmup
    clf.fit(data.X[:first], data.y[:first], sensitive_features=data.z[:first])
    fit = clf.model_.trained
    learner = InNumPy(fit.learner.settings, fit.learner.form)
    rows = 40_000_000 // (work.d + 20) // work.replicates // learner.stride * learner.stride
    later = slice(first, first + rows)
    X, y, group = fit.to_learner(data.X[later]), data.y[later].astype(float), data.z[later, None]
    object.__setattr__(learner, "V", data.multipliers(first + rows))
    return lambda: learner.step(fit.state, X, y, group=group), rows


class InNumPy(StochasticNewton):
    """The learner with blocks in NumPy."""

    V: Array  # multipliers of all rows, (n, R)

    def _run(self, state: NewtonState, block: Block, *_: Any) -> NewtonState:
        (X, y, _, _, k), entries = block
        geometry, moving = self.geometry(state), self._moving(state, copy=True)
        path = []
        for low in range(0, block.n, self.stride):
            part = slice(low, low + self.stride)
            some = [field[part, 0] for field in entries]  # a row of these criteria is in one cell at most
            moving = self.block(moving, geometry, state.followed, X[part], y[part], some, self.V[k:][part])
            path.append(moving.theta[:, 0])
        return self._walked(state._replace(**moving._asdict()), np.array(path), k, block.n)

    def block(self, moving: Any, geometry: Any, followed: Array, X: Array, y: Array, entries: Any, V: Array) -> Any:
        """Columns after one block of rows."""
        c = self.form.comparisons
        theta, push, value, count, total = moving
        cell, constant, sign = entries
        score = X @ theta
        pull = c.by_rate(push * followed)[c.owner] * c.shares(value) * (total / count)
        f, bend, _, _ = surrogate(c.kind, constant[:, None], sign[:, None], score, self._scale(theta))
        inside = (cell[:, None] == np.arange(len(value))).astype(float)
        bend = bend * (inside @ pull)
        slope = V * (self.settings.loss.derivative(score, y[:, None]) + bend)
        more = inside.T @ V
        drawn = V.sum(axis=0)
        drift = (V * bend * score).sum(axis=0) / (theta**2).sum(axis=0)
        gradient = X.T @ slope - theta * (drift - self.form.ridge[:, None] * drawn)
        gradient -= geometry.slopes.T @ (pull * (more - count * drawn / total))
        count = count + more
        value = value + (inside.T @ (V * f) - more * value) / count
        total = total + drawn
        q = gradient / -total
        new = geometry.solved @ (c.rate_values(value) + geometry.lift @ q + geometry.gram @ c.by_rate(push))
        step = geometry.inverse @ (q - (c.signs @ geometry.along).T @ (new - push))
        share = np.minimum(1.0, kernels.REACH / np.linalg.norm(step, axis=0))
        step *= share
        return moving._replace(
            theta=theta + step, push=push + share * (new - push), value=value + geometry.steep @ step, counts=count,
            weight=total,
        )  # fmt: skip
