"""Problems for the laws: every criterion that can constrain, every loss and every law of multipliers.

A test with a parameter ``criterion``, ``loss`` or ``law`` runs for each of them, so a new file in the folder of a
registry needs no new test. ``problems`` is a hypothesis strategy for learners with rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha1
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from scipy.sparse import csr_matrix, issparse

from surefair.criteria import CRITERIA, Criterion, Members, Slabs, SoftRatePenalty
from surefair.kernels import TILE
from surefair.learners import Settings, learner_for
from surefair.learners.multipliers import LAWS, SIGNED_LAWS, Multipliers
from surefair.learners.schedules import PolynomialDecay
from surefair.losses import LOSSES, Loss

CONSTRAINTS = {name: criterion for name, criterion in CRITERIA.items() if criterion.can_constrain}
SIZES = [(2,), (3,), (5,), (2, 3)]  # groups in each sensitive column
COLUMNS = sorted({1, 2, 33, TILE - 1, TILE, TILE + 1, 128, 151})  # the fit and its replicates, past a tile's edge


@dataclass(frozen=True)
class Problem:
    """A learner, rows for it, and the constraint set of its form."""

    learner: Any
    X: Any  # (n, D), dense or sparse
    y: np.ndarray  # (n,)
    n_columns: int
    criterion: Criterion | None
    constraint_set: tuple[Any, np.ndarray, Members]  # X, y = ±1, groups
    weight: np.ndarray  # (n,)

    def state(self, cuts=(), n_threads=1, n_columns=None, columns=None):
        """State after all rows in batches that end at the cuts; with ``columns`` only these columns move."""
        state = self.learner.init(n_columns or self.n_columns)
        for low, high in pairwise([0, *sorted(cuts), self.n]):
            rows = self.X[low:high], self.y[low:high], self.weight[low:high]
            state = self.learner.step(state, *rows, n_threads, columns=columns)
        return state

    @property
    def n(self):
        return len(self.y)

    @property
    def dense(self):
        return self.X.toarray() if issparse(self.X) else self.X

    def reference_state(self):
        """State after all rows, in plain NumPy."""
        state = self.learner.init(self.n_columns)
        for x, y, weight in zip(self.dense, self.y, self.weight, strict=True):
            state = self.learner.reference_step(state, x, y, weight)
        return state

    def mean(self):
        """Averaged iterates after all rows, shape (D, columns)."""
        return self.learner.mean(self.state())

    def part(self, low, high):
        """The same learner with some of the rows."""
        return replace(self, X=self.X[low:high], y=self.y[low:high], weight=self.weight[low:high])

    def relabelled(self):
        """The same problem with the groups' codes in reverse order."""
        X, y, members = self.constraint_set
        members = members._replace(codes=np.array(members.sizes) - 1 - members.codes)
        form = self.criterion.constrain(X, y, members)
        return replace(self, learner=replace(self.learner, form=form), constraint_set=(X, y, members))


def make_problem(
    criterion: Criterion | None,
    loss: Loss,
    law: str,
    seed: int,
    *,
    sizes: tuple[int, ...] = (2,),
    sparse: bool = False,
    weighted: bool = False,
    sharpness: float | None = None,
    D: int = 4,
    n_rows: int = 40,
    n_constraint: int = 30,
    n_columns: int = 5,
    robust: bool = False,
    start: bool = False,
    tied: bool = False,
    alpha: float = 1e-4,
    eta0: float = 0.3,
    penalty: float = 2.0,
    tolerance: float = 0.01,
) -> Problem:
    """Return a random problem; ``tied`` features have few values, so that scores of exactly 0 are common."""
    rng = np.random.default_rng(seed)

    def features(n):
        X = rng.integers(-2, 3, size=(n, D)) / 2.0 if tied else rng.normal(size=(n, D)) / np.sqrt(D)
        return csr_matrix(X * (rng.random((n, D)) < 0.5)) if sparse else X

    def weights(n):
        return rng.exponential(size=n) if weighted else np.ones(n)

    def labels(n):
        return 2.0 * rng.integers(2, size=n) - 1.0

    n_constraint = max(n_constraint, 2 * max(sizes))
    X, y = features(n_constraint), labels(n_constraint)
    codes = np.stack([rng.integers(size, size=n_constraint) for size in sizes], axis=1)
    y[: 2 * max(sizes)] = np.repeat([1.0, -1.0], max(sizes))  # every group with both labels
    codes[: 2 * max(sizes)] = np.tile(np.arange(max(sizes))[:, None] % np.array(sizes), (2, 1))
    members = Members(codes, sizes, weights(n_constraint))
    form = Slabs(np.zeros((0, D))) if criterion is None else criterion.constrain(X, y, members)
    if isinstance(form, SoftRatePenalty):  # a soft rate with a small denominator is steep: explicit steps must be short
        eta0, penalty = min(eta0, 0.1), min(penalty, 0.01)
    settings = Settings(
        loss=loss,
        alpha=alpha,
        tolerance=tolerance,
        penalty=penalty,
        sharpness=sharpness,
        schedule=PolynomialDecay(eta0, 0.501),
        multipliers=Multipliers(law, int(rng.integers(2**63))),
        start=rng.normal(size=D) if start else np.zeros(D),
        robust=robust and (isinstance(form, Slabs) or law not in SIGNED_LAWS),  # an implicit penalty step needs V ≥ 0
    )
    learner = learner_for(settings, form, sparse)
    rows, signs = features(n_rows), labels(n_rows)
    return Problem(learner, rows, signs, n_columns, criterion, (X, y, members), weights(n_rows))


def takes_sparse(criterion):
    """Whether rows may be sparse: a constraint that is fixed needs dense ones."""
    return criterion is None


@st.composite
def draw_problem(draw, criterion, loss, law=None, **fixed):
    """Draw a problem; parameters in ``fixed`` are not drawn."""
    free = {
        "sizes": st.sampled_from(SIZES),
        "sparse": st.booleans() if takes_sparse(criterion) else st.just(False),
        "weighted": st.booleans(),
        "sharpness": st.sampled_from([None, None, 4.0]),
        "D": st.integers(1, 9),
        "n_rows": st.integers(1, 80),
        "n_constraint": st.integers(4, 80),
        "n_columns": st.sampled_from(COLUMNS),
        "robust": st.booleans(),
        "start": st.booleans(),
        "alpha": st.sampled_from([0.0, 1e-4, 0.1]),
        "eta0": st.sampled_from([0.05, 0.5]),
        "penalty": st.sampled_from([0.0, 0.5, 5.0]),
        "tolerance": st.sampled_from([0.0, 0.002, 0.3]),
    }
    chosen = fixed | {name: draw(strategy) for name, strategy in free.items() if name not in fixed}
    law = law or draw(st.sampled_from(sorted(LAWS)))
    return make_problem(criterion, loss, law, draw(st.integers(0, 2**32 - 1)), **chosen)


def assert_close_columns(found, expected, rtol):
    """Compare columns, relative to their largest entry or 0.01: some columns are 0 up to rounding."""
    scale = np.abs(expected).max(axis=0, initial=0.01)
    np.testing.assert_array_less(np.abs(found - expected), np.broadcast_to(rtol * scale, expected.shape))


def assert_close_traces(found, expected, rtol):
    """Compare sums of squares, relative to their diagonals or 0.01: some of them are 0 up to rounding."""
    size = np.sqrt(np.diagonal(expected, axis1=2, axis2=3).clip(min=0.01))
    np.testing.assert_array_less(np.abs(found - expected), rtol * size[..., None] * size[..., None, :])


def state_bits(state, n_columns=None):
    """Hashes of the bits of a state, or of its first ``n_columns`` columns."""
    k, *arrays = state
    return k, *(sha1(array[:, :n_columns].tobytes()).hexdigest() for array in arrays)


@pytest.fixture(scope="session", params=[*CONSTRAINTS.values(), None], ids=[*CONSTRAINTS, "no_criterion"])
def criterion(request):
    return request.param


@pytest.fixture(scope="session", params=LOSSES.values(), ids=LOSSES)
def loss(request):
    return request.param


@pytest.fixture(scope="session", params=SIZES, ids=str)
def sizes(request):
    return request.param


@pytest.fixture(scope="session", params=[False, True], ids=["dense", "sparse"])
def sparse(request, criterion):
    if request.param and not takes_sparse(criterion):
        pytest.skip("a constraint that is fixed needs dense rows")
    return request.param


@pytest.fixture(scope="session", params=LAWS)
def law(request):
    return request.param


@pytest.fixture(scope="session")
def problems():
    return draw_problem


@pytest.fixture(scope="session")
def problem():
    return make_problem


@pytest.fixture(scope="session")
def assert_close():
    return assert_close_columns


@pytest.fixture(scope="session")
def assert_close_trace():
    return assert_close_traces


@pytest.fixture(scope="session")
def bits():
    return state_bits
