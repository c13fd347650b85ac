"""Stochastic gradient descent with a penalty, for sparse rows: the algorithm of ``penalised_sgd.py``, another state.

A row touches few features, but the gradient of the penalty touches all features of the rows of D'. So θ has two
separate parts, θ = a w + Rᵀζ, with R the rows of D': a row of the stream changes w, the penalty changes the m numbers
ζ. The penalty needs the scores of the rows of D', which the learner updates through the Gram matrix of D'. The work per
row and replicate is proportional to the number of non-zero features and of rows of D', not to the number of features.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csc_matrix

from surefair import kernels
from surefair.criteria import Penalty, SoftRatePenalty, SquaredPenalty, grid_for
from surefair.learners import trace as traces
from surefair.learners._settings import Settings, own
from surefair.learners.penalised_sgd import PenalisedSGD, SGDState
from surefair.rows import FloatArray, IntArray


class SparseSGDState(NamedTuple):
    """Fit (column 0) and replicates after k rows; D features, m rows of D', R columns."""

    k: int
    w: FloatArray  # (D, R)
    U: FloatArray  # (D, R)
    scalars: FloatArray  # (2, R): a, A
    zeta: FloatArray  # (m, R): θ = a w + Rᵀζ
    Z: FloatArray  # (m, R): Σθ = A w + U + RᵀZ
    mu: FloatArray  # (m, R): R θ
    S: FloatArray  # (m, R): R Σθ


@dataclass(frozen=True, eq=False)
class SparsePenalisedSGD:
    """The learner with a penalty, for sparse rows.

    Examples
    --------
    >>> from scipy.sparse import csr_matrix
    >>> from surefair.losses import LOSSES
    >>> from surefair.learners.multipliers import Multipliers
    >>> from surefair.learners.schedules import PolynomialDecay
    >>> X, y = np.array([[1.0, 2.0], [0.5, -1.0], [2.0, 0.0]]), np.array([1.0, -1.0, 1.0])
    >>> learner = SparsePenalisedSGD(
    ...     Settings(LOSSES["log_loss"], 1e-4, 0.0, 2.0, None, PolynomialDecay(1.0, 0.6), Multipliers("two_point", 0),
    ...              start=np.zeros(2), robust=False),
    ...     SquaredPenalty(csr_matrix(y[:, None] * X), np.array([[0.5, 0.5, -0.5]]) / 3),
    ... )
    >>> learner.mean(learner.step(learner.init(4), csr_matrix(X), y)).round(3)[:, [0, 2]]
    array([[0.537, 0.92 ],
           [1.141, 2.16 ]])
    """

    settings: Settings
    form: Penalty

    FORMS = ((SquaredPenalty, True), (SoftRatePenalty, True))

    @cached_property
    def gram(self) -> FloatArray:
        """Products of the rows of D', shape (m, m)."""
        return np.asarray((self.form.rows @ self.form.rows.T).toarray())

    @cached_property
    def plain(self) -> PenalisedSGD:
        """The same learner with the state of dense rows."""
        return PenalisedSGD(self.settings, self.form)

    def init(self, n_columns: int) -> SparseSGDState:
        """State before the first row: every column at the start."""
        return self._kept(self.plain.init(n_columns))

    def step(
        self, state: SparseSGDState, X: Any, y: FloatArray, weight: FloatArray | float = 1.0, n_threads: int = 1,
        reuse: bool = False, columns: tuple[int, int] | None = None, group: IntArray | None = None,
    ) -> SparseSGDState:  # fmt: skip
        """State after the sparse rows X (n, D) with labels y = ±1 and relative weights."""
        s = self.settings
        by_column = csc_matrix(self.form.rows)
        arrays = own(state[1:], reuse)
        args = (
            s.batch(X, y, weight, state.k), s.objective(),
            by_column.indptr, by_column.indices, by_column.data, self.form.rows @ s.start, self.form.weights,
            self.gram, grid_for(np.abs(self.form.weights) @ np.abs(self.gram)), self.form.contrasts,
            s.sharpness or 0.0, s.effective_penalty, s.robust,
        )  # fmt: skip
        kernels.on_threads(kernels.penalised_sgd_sparse, args, arrays, n_threads, columns)
        return SparseSGDState(state.k + len(y), *arrays)

    def reference_step(
        self, state: SparseSGDState, x: FloatArray, y: float, weight: float = 1.0, group: IntArray | None = None
    ) -> SparseSGDState:
        """State after one row, in plain NumPy: the specification of ``step``."""
        return self._kept(self.plain.reference_step(self._plain(state), x, y, weight))

    def mean(self, state: SparseSGDState) -> FloatArray:
        """Averaged iterates θ̄, shape (D, R); before the first row, the start."""
        return self.plain.mean(self._plain(state))

    def merge(self, state: SparseSGDState, other: SparseSGDState) -> SparseSGDState:
        """State of two shards: averages and iterates weighted by rows."""
        return self._kept(self.plain.merge(self._plain(state), self._plain(other)))

    def _plain(self, state: SparseSGDState) -> SGDState:
        """State with whole iterates and their sums."""
        a, A = state.scalars
        R = self.form.rows.T
        theta = a * state.w + R @ state.zeta
        total = A * state.w + state.U + R @ state.Z
        return SGDState(state.k, theta, total, traces.nothing())

    def _kept(self, plain: SGDState) -> SparseSGDState:
        """State with ζ = Z = 0."""
        k, theta, total, _ = plain
        R = self.form.rows
        scalars = np.zeros((2, theta.shape[1]))
        scalars[0] = 1.0
        zeros = np.zeros((R.shape[0], theta.shape[1]))
        return SparseSGDState(k, theta, total, scalars, zeros, zeros.copy(), R @ theta, R @ total)


LEARNER = SparsePenalisedSGD
