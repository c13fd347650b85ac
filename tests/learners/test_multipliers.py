from __future__ import annotations

import numpy as np
import pytest

from surefair import kernels
from surefair.learners.multipliers import LAWS, SIGNED_LAWS, Multipliers, row_numbers, uniforms
from surefair.rows.philox import philox

FOURTH_MOMENT = {"two_point": 1.0, "uniform": 9 / 5, "exponential": 9.0, "normal": 3.0, "poisson": 4.0}  # central

every_law = pytest.mark.parametrize("law", LAWS)


def kernel_draw(law, seed, first_row, n_rows, first_column, n_columns):
    code, padded = LAWS[law], -(-n_columns // 4) * 4
    words = np.empty((n_rows, -(-n_columns // 32) if law == "two_point" else padded), dtype=np.uint32)
    kernels.draw_words(code, np.uint64(seed), row_numbers(first_row, n_rows), first_column, words)
    V = np.empty((n_rows, padded))
    for i in range(n_rows):
        kernels.draw_moves(code, 1.0, 0.0, words, i, first_column == 0, V[i])
    return V[:, :n_columns]


@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [
        ((0, 0, 0, 0), 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, 0xFFFFFFFFFFFFFFFF, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            0x299F31D0A4093822,
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
    ids=["zeros", "ones", "pi"],
)
def test_philox_gives_the_published_answers(counter, key, answer):
    assert tuple(philox(np.array(counter, dtype=np.uint64), key).tolist()) == answer
    words = np.empty((4, 1), dtype=np.uint64)
    keys = np.array([counter[0] | counter[1] << 32], dtype=np.uint64)
    kernels.philox(keys, np.uint64(counter[2]), 0, np.uint64(counter[3]), np.uint64(key), words)
    assert tuple(words[:, 0].tolist()) == answer


@every_law
def test_mean_and_variance_are_one(law):
    V = Multipliers(law, seed=11).draw(0, 2000, 101)[:, 1:]
    n = V.size
    assert abs(V.mean() - 1.0) <= 4.5 / np.sqrt(n)
    assert abs(((V - 1.0) ** 2).mean() - 1.0) <= 4.5 * np.sqrt((FOURTH_MOMENT[law] - 1.0) / n) + 1e-12
    assert (V.min() < 0.0) == (law in SIGNED_LAWS)


@every_law
def test_the_first_column_is_the_fit_with_weight_one(law):
    assert np.all(Multipliers(law, seed=3).draw(5, 40, 9)[:, 0] == 1.0)


@every_law
@pytest.mark.parametrize("first_row", [0, 7, 2**32 - 3, 10**12])
def test_weights_do_not_depend_on_the_order_in_which_they_are_drawn(law, first_row):
    multipliers = Multipliers(law, seed=2**62 + 5)
    whole = multipliers.draw(first_row, 6, 140)
    for i in range(6):
        assert np.array_equal(multipliers.draw(first_row + i, 1, 140)[0], whole[i])
    for n_columns in (1, 2, 3, 33, 129):
        assert np.array_equal(multipliers.draw(first_row, 6, n_columns), whole[:, :n_columns])


@every_law
@pytest.mark.parametrize("seed", [0, 2**63 - 1])
@pytest.mark.parametrize("first_row", [0, 2**32 - 2])
def test_kernels_draw_the_same_weights(law, seed, first_row):
    whole = Multipliers(law, seed).draw(first_row, 5, 300)
    for first_column, n_columns in [(0, 300), (0, 1), (32, 5), (96, 96), (192, 108)]:
        found = kernel_draw(law, seed, first_row, 5, first_column, n_columns)
        expected = whole[:, first_column : first_column + n_columns]
        if law in {"two_point", "poisson"}:
            assert np.array_equal(found, expected)
        else:  # two libraries compute logarithms, and a kernel may fuse a multiplication with an addition
            np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-14)


@every_law
@pytest.mark.parametrize(
    ("rows", "columns"), [(1, 0), (0, 1), (0, 2), (0, 4), (0, 32), (1, 1), (32, 0)], ids=lambda lag: str(lag)
)
def test_neighbours_are_uncorrelated(law, rows, columns):
    V = Multipliers(law, seed=21).draw(0, 1032, 133)[:, 1:] - 1.0
    left, right = V[: 1032 - rows, : 132 - columns], V[rows:, columns:]
    assert abs(np.mean(left * right)) <= 4.5 / np.sqrt(left.size)  # products of independent weights have variance 1


@every_law
def test_other_seeds_and_purposes_are_independent(law):
    first, second = (Multipliers(law, seed).draw(0, 1000, 101)[:, 1:] - 1.0 for seed in (4, 5))
    assert abs(np.mean(first * second)) <= 4.5 / np.sqrt(first.size)
    u, v = (uniforms(4, row_numbers(0, 1000), 100, purpose) for purpose in (0, 1))
    assert abs(np.mean((u - 0.5) * (v - 0.5)) * 12.0) <= 4.5 / np.sqrt(u.size)


def test_uniform_numbers_are_never_0_or_1_and_fill_the_interval():
    u = uniforms(9, row_numbers(0, 1000), 100, purpose=0)
    assert 0.0 < u.min() < 1e-3
    assert 1.0 - 1e-3 < u.max() < 1.0
    counts = np.bincount((u * 10).astype(int).ravel(), minlength=10)
    assert np.all(np.abs(counts - 10_000) <= 4.5 * np.sqrt(9_000))


def test_two_point_and_poisson_weights_are_whole_numbers():
    assert set(np.unique(Multipliers("two_point", 0).draw(0, 100, 50)[:, 1:])) == {0.0, 2.0}
    V = Multipliers("poisson", 0).draw(0, 2000, 51)[:, 1:]
    assert np.array_equal(V, np.rint(V))
    shares = np.bincount(V.astype(int).ravel())[:3] / V.size
    np.testing.assert_allclose(shares, np.exp(-1.0) / np.array([1.0, 1.0, 2.0]), atol=4.5 * 0.5 / np.sqrt(V.size))
