from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from surefair.datasets import SyntheticDI, SyntheticDM, load
from surefair.datasets._stream import BLOCK, draw_block

STREAMS = [SyntheticDI, SyntheticDM]
N = 200_000
SIGMAS = 5  # every bound below is this many standard errors of the estimate it bounds


def assert_same_bits(a, b):
    for left, right in zip(a[:3], b[:3], strict=True):
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
    pieces = [stream.rows(first + low, high - low) for low, high in itertools.pairwise(edges)]
    assert [piece.first_row for piece in pieces] == [first + low for low in edges[:-1]]
    joined = [np.concatenate(column) for column in zip(*(piece[:3] for piece in pieces), strict=True)]
    draw_block.cache_clear()  # compare with rows drawn afresh
    assert_same_bits(joined, law(seed).rows(first, n))


@pytest.mark.parametrize("law", STREAMS)
@settings(max_examples=10, deadline=None)
@given(size=st.integers(1, 5000), first=st.integers(0, 10**9))
def test_batches_are_consecutive_rows_without_end(law, size, first):
    stream = law(3)
    for j, batch in enumerate(itertools.islice(stream.batches(size, first), 4)):
        assert batch.first_row == first + j * size
        assert_same_bits(batch, stream.rows(first + j * size, size))


@pytest.mark.parametrize("law", STREAMS)
def test_what_a_caller_does_to_a_batch_stays_with_the_caller(law):
    before = law(0).rows(10, 20)
    copy = before._replace(X=before.X.copy())
    before.X[:] = np.nan
    assert_same_bits(copy, law(0).rows(10, 20))


@pytest.mark.parametrize("law", STREAMS)
def test_rows_are_what_the_rest_of_the_package_expects(law):
    batch = law().rows(np.int64(2**40), np.int64(5000))
    assert batch.X.shape == (5000, 2)
    assert batch.X.dtype == np.float64
    assert (set(batch.y), set(batch.group)) == ({-1, 1}, {0, 1})
    assert batch.feature_names == ("x1", "x2")


def test_blocks_seeds_and_laws_share_no_rows():
    parts = [law(seed).rows(j * BLOCK, BLOCK).X for law in STREAMS for seed in (0, 1) for j in (0, 1, 2**30)]
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
    assert_same_bits((data.X.to_numpy(), data.y, data.sensitive), law(9).rows(0, 5000))
    assert (data.name, list(data.X.columns), data.label, data.sensitive_name) == (
        name,
        ["x1", "x2"],
        "y",
        "z",
    )
    assert len(load(name)) == 10_000


# Moments of the two laws


def assert_mean(values, expected):
    """The mean of independent values is as expected, to within their own standard error."""
    error = np.abs(np.mean(values, axis=0) - expected)
    assert (error < SIGMAS * np.std(values, axis=0) / np.sqrt(len(values))).all()


def assert_gaussian_moments(x, mean, covariance):
    centred = x - mean
    assert_mean(x, mean)
    assert_mean(centred[:, :, None] * centred[:, None, :], covariance)


PLUS = multivariate_normal([1.5, 1.5], [[0.4, 0.2], [0.2, 0.3]])
MINUS = multivariate_normal([-1.5, -1.5], [[0.6, 0.1], [0.1, 0.4]])


def probability_of_group_one(x):
    """P(z = 1 | x) as printed, with SciPy's densities and complex numbers for the rotation."""
    turned = (x[..., 0] + 1j * x[..., 1]) * np.exp(1j * np.pi / 3)
    turned = np.stack([turned.real, turned.imag], axis=-1)
    return PLUS.pdf(turned) / (PLUS.pdf(turned) + MINUS.pdf(turned))


def quadrature(law, function, nodes=80):
    """E[function(x)] for normal x, by Gauss and Hermite."""
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
    assert_gaussian_moments(di.X[di.y == y], law.mean, law.cov)


@pytest.mark.parametrize(("y", "law"), [(1, PLUS), (-1, MINUS)])
def test_di_share_of_group_one_given_the_label(di, y, law):
    assert_mean(di.group[di.y == y], quadrature(law, probability_of_group_one))


def test_di_group_given_the_features(di):
    p = probability_of_group_one(di.X)
    weights = np.column_stack([np.ones(N), di.X, di.X**2, di.y, np.sin(3 * di.X)])
    residual = weights * (di.group - p)[:, None]
    bound = SIGMAS * np.sqrt((weights**2 * (p * (1 - p))[:, None]).mean(axis=0) / N)
    assert (np.abs(residual.mean(axis=0)) < bound).all()


@pytest.mark.parametrize(("y", "z", "mean"), [(1, 0, [2, 2]), (1, 1, [2, 2]), (-1, 0, [1, 1]), (-1, 1, [-2, -2])])
def test_dm_features_given_label_and_group(dm, y, z, mean):
    cell = (dm.y == y) & (dm.group == z)
    assert_mean(cell, 0.25)
    assert_gaussian_moments(dm.X[cell], mean, [[3, 1], [1, 3]])
