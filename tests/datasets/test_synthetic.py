from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from surefair.datasets import SyntheticDI, SyntheticDM, load
from surefair.datasets import stream as stream_module
from surefair.datasets.stream import BLOCK

STREAMS = [SyntheticDI, SyntheticDM]
N = 200_000
SIGMAS = 5  # every bound below is this many standard errors of the estimate it bounds


def columns(data):
    return data.X.to_numpy(), data.y, data.sensitive


def assert_same_bits(some, others):
    for left, right in zip(some, others, strict=True):
        assert left.dtype == right.dtype
        assert left.tobytes() == right.tobytes()


# Laws of every stream


@pytest.mark.parametrize("law", STREAMS)
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**64),
    first=st.integers(0, 2**40),
    n=st.integers(1, 3 * BLOCK),
    cuts=st.lists(st.integers(1, 3 * BLOCK - 1), max_size=5),
)
def test_any_slicing_gives_the_same_bits(law, seed, first, n, cuts):
    stream = law(seed)
    edges = [0, *sorted({cut for cut in cuts if cut < n}), n]
    pieces = [columns(stream.rows(first + low, high - low)) for low, high in itertools.pairwise(edges)]
    joined = [np.concatenate(column) for column in zip(*pieces, strict=True)]
    stream_module._draw_block.cache_clear()  # so that the stream draws the rows again
    assert_same_bits(joined, columns(law(seed).rows(first, n)))


@pytest.mark.parametrize("law", STREAMS)
@settings(max_examples=10, deadline=None)
@given(size=st.integers(1, 5000), first=st.integers(0, 10**9))
def test_batches_are_consecutive_rows(law, size, first):
    stream = law(3)
    for j, batch in enumerate(itertools.islice(stream.batches(size, first), 4)):
        assert_same_bits(columns(batch), columns(stream.rows(first + j * size, size)))


@pytest.mark.parametrize("law", STREAMS)
def test_a_caller_cannot_change_the_stream(law):
    data = law(0).rows(10, 20)
    before = [column.copy() for column in columns(data)]
    data.X.iloc[:] = np.nan
    data.y[:] = 0
    assert_same_bits(before, columns(law(0).rows(10, 20)))


@pytest.mark.parametrize("law", STREAMS)
def test_rows_have_two_features_two_labels_and_two_groups(law):
    data = law().rows(np.int64(2**40), np.int64(5000))
    assert data.X.shape == (5000, 2)
    assert (data.X.dtypes == np.float64).all()
    assert (set(data.y), set(data.sensitive)) == ({-1, 1}, {0, 1})
    assert list(data.X.columns) == ["x1", "x2"]


def test_blocks_seeds_and_laws_share_no_rows():
    parts = [law(seed).rows(j * BLOCK, BLOCK).X.to_numpy() for law in STREAMS for seed in (0, 1) for j in (0, 1, 2**30)]
    together = np.concatenate(parts)
    assert len(np.unique(together)) == together.size


@pytest.mark.parametrize("law", STREAMS)
@pytest.mark.parametrize(("first", "n"), [(-1, 5), (0, 0)])
def test_rows_outside_the_stream_are_refused(law, first, n):
    with pytest.raises(ValueError, match=f"received first={first}, n={n}"):
        law().rows(first, n)


@pytest.mark.parametrize("law", STREAMS)
def test_a_negative_seed_is_refused(law):
    with pytest.raises(ValueError, match="seed must be 0 or more; received -1"):
        law(seed=-1)


@pytest.mark.parametrize(("name", "law"), [("synthetic_di", SyntheticDI), ("synthetic_dm", SyntheticDM)])
def test_the_registry_gives_the_first_rows_of_the_stream(name, law):
    data = load(name, n=5000, seed=9)
    assert_same_bits(columns(data), columns(law(9).rows(0, 5000)))
    assert (data.name, data.label, data.sensitive_name) == (name, "y", "z")
    assert len(load(name)) == 10_000


# Moments of the two laws


def assert_mean(values, expected):
    """Check that the mean of independent values is within a few standard errors of the expected one."""
    error = np.abs(np.mean(values, axis=0) - expected)
    assert (error < SIGMAS * np.std(values, axis=0) / np.sqrt(len(values))).all()


def assert_gaussian_moments(x, mean, covariance):
    centred = x - mean
    assert_mean(x, mean)
    assert_mean(centred[:, :, None] * centred[:, None, :], covariance)


PLUS = multivariate_normal([1.5, 1.5], [[0.4, 0.2], [0.2, 0.3]])
MINUS = multivariate_normal([-1.5, -1.5], [[0.6, 0.1], [0.1, 0.4]])


def probability_of_group_one(x):
    """P(z = 1 | x) from the paper's formula, with SciPy's densities and complex numbers for the rotation."""
    rotated = (x[..., 0] + 1j * x[..., 1]) * np.exp(1j * np.pi / 3)
    rotated = np.stack([rotated.real, rotated.imag], axis=-1)
    return PLUS.pdf(rotated) / (PLUS.pdf(rotated) + MINUS.pdf(rotated))


def quadrature(law, function, nodes=80):
    """E[function(x)] for normal x, by Gauss-Hermite quadrature."""
    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    grid = np.stack(np.meshgrid(points, points, indexing="ij"), axis=-1)
    x = law.mean + grid @ np.linalg.cholesky(law.cov).T
    return float(weights @ function(x) @ weights / (2 * np.pi))


@pytest.fixture(scope="module")
def di():
    return SyntheticDI(seed=0).rows(0, N)


@pytest.fixture(scope="module")
def dm():
    return SyntheticDM(seed=0).rows(0, N)


@pytest.mark.parametrize(("y", "law"), [(1, PLUS), (-1, MINUS)])
def test_di_features_given_the_label(di, y, law):
    assert_mean(di.y == y, 0.5)
    assert_gaussian_moments(di.X.to_numpy()[di.y == y], law.mean, law.cov)


@pytest.mark.parametrize(("y", "law"), [(1, PLUS), (-1, MINUS)])
def test_di_share_of_group_one_given_the_label(di, y, law):
    assert_mean(di.sensitive[di.y == y], quadrature(law, probability_of_group_one))


def test_di_group_given_the_features(di):
    x = di.X.to_numpy()
    p = probability_of_group_one(x)
    weights = np.column_stack([np.ones(N), x, x**2, di.y, np.sin(3 * x)])
    residual = weights * (di.sensitive - p)[:, None]
    bound = SIGMAS * np.sqrt((weights**2 * (p * (1 - p))[:, None]).mean(axis=0) / N)
    assert (np.abs(residual.mean(axis=0)) < bound).all()


@pytest.mark.parametrize(("y", "z", "mean"), [(1, 0, [2, 2]), (1, 1, [2, 2]), (-1, 0, [1, 1]), (-1, 1, [-2, -2])])
def test_dm_features_given_label_and_group(dm, y, z, mean):
    cell = (dm.y == y) & (dm.sensitive == z)
    assert_mean(cell, 0.25)
    assert_gaussian_moments(dm.X.to_numpy()[cell], mean, [[3, 1], [1, 3]])
