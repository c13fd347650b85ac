"""The projection onto slabs is exact, and every model that is trained under slabs lies in them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quadprog import solve_qp

import surefair as sf
from surefair import kernels
from surefair.criteria import CRITERIA, Slabs
from surefair.learners import Settings
from surefair.learners.dual_averaging import DualAveraging, find_faces
from surefair.learners.multipliers import Multipliers
from surefair.learners.schedules import PolynomialDecay
from surefair.losses import LOSSES

ROUNDING = 1e-12


def under(vectors, tolerance):
    """A learner under these slabs."""
    D = vectors.shape[1]
    return DualAveraging(
        Settings(
            LOSSES["log_loss"], 1e-4, tolerance, 0.0, None, PolynomialDecay(1.0, 0.6), Multipliers("two_point", 0),
            np.zeros(D), robust=False,
        ),
        Slabs(vectors),
    )  # fmt: skip


@st.composite
def slabs_and_points(draw):
    """A learner under slabs, some of them parallel, equal or of zeros, and two sets of 20 points."""
    D, S = draw(st.integers(1, 9)), draw(st.integers(0, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    vectors = rng.normal(size=(S, D)) * draw(st.sampled_from([0.01, 1.0, 50.0]))
    for s in range(1, S):  # how each slab depends on the slabs before it
        kind = draw(st.sampled_from(["new", "new", "parallel", "equal", "opposite", "zero", "combined"]))
        before = vectors[rng.integers(s)]
        scales = {"parallel": 3.0, "equal": 1.0, "opposite": -1.0, "zero": 0.0}
        if kind in scales:
            vectors[s] = scales[kind] * before
        if kind == "combined":  # like the last of several groups: the vectors add up to 0
            vectors[s] = -vectors[:s].sum(axis=0)
    tolerance, size = draw(st.sampled_from([0.0, 1e-5, 0.3, 10.0])), 10.0 ** draw(st.integers(-3, 3))
    return under(vectors, tolerance), rng.normal(size=(D, 20)) * size, rng.normal(size=(D, 20)) * size


def norms(p):
    return np.linalg.norm(p, axis=0)


def by_kernel(learner, p):
    """The projection by compiled code."""
    c = learner.faces.basis @ p
    kernels.overshoot(learner.faces, c)
    return p - learner.faces.basis.T @ c


@pytest.fixture(scope="module", params=[DualAveraging.project, by_kernel], ids=["reference", "kernel"])
def project(request):
    return request.param


@settings(max_examples=60)
@given(drawn=slabs_and_points())
def test_projection_equals_a_quadratic_programme(project, drawn):
    learner, p, _ = drawn
    vectors, tolerance = learner.form.vectors, learner.settings.tolerance
    lengths = norms(vectors.T)
    units, levels = vectors[lengths > 0.0] / lengths[lengths > 0.0, None], tolerance / lengths[lengths > 0.0]
    found, size = project(learner, p), np.abs(p).max()
    for b in range(0, p.shape[1], 4):
        if not len(units):
            expected = p[:, b]
        elif tolerance == 0.0:  # the programme would be degenerate, so use the null space
            expected = p[:, b] - np.linalg.pinv(units, rcond=1e-10) @ (units @ p[:, b])
        else:
            both, bounds = np.vstack([units, -units]), np.r_[-levels, -levels] / size
            expected = size * solve_qp(np.eye(len(p)), p[:, b] / size, both.T, bounds)[0]
        assert norms(found[:, b] - expected) <= 1e-8 * size


@settings(max_examples=40)
@given(drawn=slabs_and_points())
def test_projection_is_feasible_idempotent_and_non_expansive(project, drawn):
    learner, p, q = drawn
    vectors, tolerance = learner.form.vectors, learner.settings.tolerance
    rounding = ROUNDING * (norms(p) + norms(q))
    found, other = project(learner, p), project(learner, q)
    assert np.all(np.abs(vectors @ found) <= tolerance + 10 * np.outer(norms(vectors.T), rounding))
    assert np.all(norms(project(learner, found) - found) <= 10 * rounding)
    assert np.all(norms(found - other) <= norms(p - q) + 10 * rounding)


@settings(max_examples=40)
@given(drawn=slabs_and_points())
def test_projection_is_the_nearest_feasible_point(project, drawn):
    learner, p, q = drawn
    nearest, feasible = project(learner, p), project(learner, q)
    away = np.sum((p - nearest) * (feasible - nearest), axis=0)  # no feasible point lies closer than the nearest one
    assert np.all(away <= 10 * ROUNDING * (norms(p) + norms(q)) ** 2)


@given(drawn=slabs_and_points())
def test_feasible_points_do_not_move(project, drawn):
    learner, p, _ = drawn
    inside = np.all(np.abs(learner.form.vectors @ p) < (1.0 - 1e-12) * learner.settings.tolerance, axis=0)
    assert np.array_equal(project(learner, p)[:, inside], p[:, inside])


def test_the_faces_of_several_slabs():
    vectors = np.array([[3.0, 0.0, 0.0], [0.0, 0.0, 0.0], [-6.0, 0.0, 0.0], [1.0, 1.0, 0.0]])
    basis, normals, levels, gram = find_faces(vectors, 0.6)
    assert basis.shape == (2, 3)
    np.testing.assert_allclose(np.sort(levels), [0.1, 0.6 / np.sqrt(2.0)])  # the tighter one of two parallel slabs
    np.testing.assert_allclose(norms(normals.T), 1.0)
    np.testing.assert_allclose(basis @ basis.T, np.eye(2), atol=1e-15)
    np.testing.assert_allclose(gram, normals @ normals.T)


@pytest.mark.parametrize("copies", [2, 3])
def test_groups_with_the_same_rows_are_no_constraint(copies):
    rng = np.random.default_rng(1)
    order, X, y = rng.permutation(250 * copies), rng.normal(size=(2_000, 2)), rng.integers(2, size=2_000)
    Xc, zc = np.repeat(1.1 * rng.normal(size=(250, 2)), copies, axis=0)[order], np.tile(np.arange(copies), 250)[order]
    apart = Xc, (Xc[:, 0] > 0.0).astype(int), zc
    fits = (
        sf.FairClassifier(criterion, n_replicates=2, random_state=0).fit(
            X, y, sensitive_features=rng.integers(copies, size=2_000), constraint_set=apart
        )
        for criterion in ("demographic_parity", None)
    )
    constrained, free = (clf.coef_ for clf in fits)
    np.testing.assert_allclose(constrained, free, rtol=1e-9)  # covariances are 0 up to rounding


@pytest.mark.parametrize("criterion", [c for c in CRITERIA.values() if c.form is Slabs], ids=lambda c: c.name)
@given(data=st.data())
def test_the_fit_and_every_replicate_lie_in_the_slabs(problems, criterion, loss, data):
    p = data.draw(problems(criterion, loss))
    vectors, mean = p.learner.form.vectors, p.mean()
    rounding = 10 * ROUNDING * np.outer(norms(vectors.T), norms(mean))
    assert np.all(np.abs(vectors @ mean) <= p.learner.settings.tolerance + rounding + 1e-14)


@pytest.mark.parametrize("criterion", [name for name, c in CRITERIA.items() if c.form is Slabs])
@pytest.mark.parametrize("step_size", ["auto", sf.PolynomialDecay(0.5, 0.6)], ids=["auto", "explicit"])
@pytest.mark.parametrize("tolerance", [0.0, 0.02])
def test_a_classifier_obeys_the_slabs_of_its_constraint_set(criterion, step_size, tolerance):
    data, rng = sf.datasets.SyntheticDI(seed=2).sample(500), np.random.default_rng(2)
    y, z = np.asarray(data.y), np.asarray(data.sensitive)
    X = np.column_stack([data.X, y[:, None] + rng.normal(size=(500, 4))])  # enough features for three constraints
    age = (X[:, 1] + rng.normal(size=500) > 0.0) + (X[:, 0] > 0.0).astype(int)  # three groups
    sensitive = {"z": z, "age": age}
    clf = sf.FairClassifier(criterion, step_size=step_size, tolerance=tolerance, n_replicates=20, random_state=0)
    apart = X[:150], y[:150], {name: column[:150] for name, column in sensitive.items()}
    rest = {name: column[150:] for name, column in sensitive.items()}
    clf.fit(X[150:], y[150:], sensitive_features=rest, constraint_set=apart)
    coef = np.vstack([clf.coef_, clf.coef_replicates_])
    for member in (z, age == 0, age == 1, age == 2):
        centred = member[:150] - member[:150].mean()
        assert np.abs(coef @ (centred @ X[:150] / 150)).max() <= tolerance + 1e-12  # the part of the intercept is 0
    assert np.abs(coef).max() > 0.01
