"""Which rows serve for what: laws that hold however the rows come."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, kstest

from surefair.criteria import CRITERIA
from surefair.tables import split as splitting
from surefair.tables.split import FEW, HELD_OUT, Rows, constraint_rows, hold_out, sides


def make(side, groups=None, y=None):
    """Rows that are told apart by their only feature."""
    side = np.asarray(side, dtype=float)
    n = len(side)
    groups = np.full(n, "a", dtype=object) if groups is None else np.asarray(groups, dtype=object)
    y = np.arange(n) % 2 == 0 if y is None else np.asarray(y)
    return Rows(np.arange(float(n))[:, None], y, groups[None, :], np.ones(n), side)


def passed(rows, cuts):
    """Rows held out and trained on after all chunks; the latter in the order in which they came to be."""
    held, trained = None, []
    for part in np.split(np.arange(rows.n), cuts):
        held, train = hold_out(held, rows.part(part))
        trained += train.X[:, 0].tolist()
    return held, trained


# -- Sides -------------------------------------------------------------------------------------------------------------


def test_sides_are_numbers_from_0_to_below_1_and_no_two_alike():
    found = sides(np.arange(100_000, dtype=np.uint64), seed=0)
    assert found.min() >= 0.0
    assert found.max() < 1.0
    assert len(np.unique(found)) == len(found)


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, 2**63])
@pytest.mark.parametrize("keys", ["consecutive", "even", "large"])
def test_sides_are_uniform_and_unrelated_to_their_neighbours(seed, keys):
    keys = {"consecutive": np.arange(20_000), "even": 2 * np.arange(20_000), "large": 2**60 + 97 * np.arange(20_000)}[
        keys
    ]
    found = sides(keys.astype(np.uint64), seed)
    assert kstest(found, "uniform").pvalue > 1e-4
    assert abs(np.corrcoef(found[1:], found[:-1])[0, 1]) < 4.0 / np.sqrt(len(found))


def test_the_sides_of_two_seeds_are_unrelated():
    keys = np.arange(20_000, dtype=np.uint64)
    for other in (1, 2, 1000):
        assert abs(np.corrcoef(sides(keys, 0), sides(keys, other))[0, 1]) < 4.0 / np.sqrt(len(keys))


def test_a_side_follows_from_key_and_seed_alone():
    keys = np.random.default_rng(0).integers(0, 2**63, 1000).astype(np.uint64)
    whole = sides(keys, 5)
    assert np.array_equal(whole[::-1], sides(keys[::-1], 5))
    assert np.array_equal(whole[17:18], sides(keys[17:18], 5))


# -- Held out ----------------------------------------------------------------------------------------------------------


@given(
    keys=st.lists(st.integers(0, 60), min_size=1, max_size=200),
    cuts=st.lists(st.integers(0, 200), max_size=6),
    most=st.integers(1, 40),
)
def test_rows_are_held_out_or_trained_on_once_and_values_stay_together(keys, cuts, most):
    """The law of the split, for rows of one person each or of several, and with rows that go back to training."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splitting, "MOST_ROWS", most)
        side = sides(np.asarray(keys, dtype=np.uint64), 3)
        rows = make(side)
        held, trained = passed(rows, sorted(min(cut, rows.n) for cut in cuts))
        out = held.X[:, 0].astype(int).tolist()
        assert sorted(out + [int(row) for row in trained]) == list(range(rows.n))  # each once
        assert not {keys[row] for row in out} & {keys[int(row)] for row in trained}  # no person on two sides
        low = np.sort(side[side < HELD_OUT])
        limit = low[most - 1] if len(low) > most else HELD_OUT
        assert set(out) == set(np.flatnonzero((side <= limit) & (side < HELD_OUT)).tolist())


def test_the_rows_held_out_do_not_depend_on_chunks_or_their_order(monkeypatch):
    monkeypatch.setattr(splitting, "MOST_ROWS", 100)
    rows = make(sides(np.arange(4000, dtype=np.uint64), 0))
    expected = set(passed(rows, [])[0].side.tolist())
    assert len(expected) == 100
    rng = np.random.default_rng(0)
    for cuts in ([1000, 2000, 3000], [1], [3999], sorted(rng.integers(0, 4000, 20))):
        assert set(passed(rows, cuts)[0].side.tolist()) == expected
    for _ in range(5):
        order = np.concatenate(rng.permutation(np.arange(4000).reshape(40, 100)))
        assert set(passed(rows.part(order), range(100, 4000, 100))[0].side.tolist()) == expected


def test_rows_that_were_trained_on_are_never_held_out_later(monkeypatch):
    """Chunk by chunk, the rows held out only ever lose some of those before and gain some that are new."""
    monkeypatch.setattr(splitting, "MOST_ROWS", 50)
    rows, held, seen = make(sides(np.arange(3000, dtype=np.uint64), 1)), None, set()
    for part in np.split(np.arange(3000), 30):
        before = set() if held is None else set(held.X[:, 0].tolist())
        held, train = hold_out(held, rows.part(part))
        now = set(held.X[:, 0].tolist())
        assert now <= before | set(part.tolist())
        assert not now & seen
        seen |= set(train.X[:, 0].tolist())
    assert len(now) == 50


@pytest.mark.parametrize("most", [10**6, 300])
def test_the_rows_held_out_are_a_uniform_sample(monkeypatch, most):
    """In every tenth of the data, their number has the law of a sample: binomial, or with a cap hypergeometric."""
    monkeypatch.setattr(splitting, "MOST_ROWS", most)
    n = 10_000
    for seed in range(10):
        held, _ = passed(make(sides(np.arange(n, dtype=np.uint64), seed)), range(500, n, 500))
        share = min(HELD_OUT, most / n)
        low, high = binom.interval(1.0 - 1e-5, n // 10, share)  # with a cap the law is narrower still
        counts = np.histogram(held.X[:, 0], bins=10, range=(0, n))[0]
        assert (low <= counts).all(), (seed, counts)
        assert (counts <= high).all(), (seed, counts)
    assert held.n == most or most > n


def test_memory_bounds_the_rows_held_out(monkeypatch):
    monkeypatch.setattr(splitting, "MOST_BYTES", 8 * 3 * 40)
    rows = make(sides(np.arange(1000, dtype=np.uint64), 0))._replace(X=np.zeros((1000, 3)))
    assert hold_out(None, rows)[0].n == 40


def test_all_parts_of_a_row_stay_together():
    rng = np.random.default_rng(0)
    side = rng.random(200)
    rows = Rows(
        np.c_[side, -side], side < 0.1, np.array([[str(s) for s in side], [str(-s) for s in side]], dtype=object),
        side + 1.0, side,
    )  # fmt: skip
    held, train = hold_out(None, rows.part(slice(0, 100)))
    held, more = hold_out(held, rows.part(slice(100, 200)))
    for part in (held, train.followed_by(more)):
        assert np.array_equal(part.X, np.c_[part.side, -part.side])
        assert np.array_equal(part.y, part.side < 0.1)
        assert part.groups[0].tolist() == [str(s) for s in part.side]
        assert part.groups[1].tolist() == [str(-s) for s in part.side]
        assert np.array_equal(part.weight, part.side + 1.0)


# -- The constraint set ------------------------------------------------------------------------------------------------


def some_rows(n, small=0):
    """Two large groups, and perhaps a small one."""
    groups = np.where(np.arange(n) % 2 == 0, "a", "b").astype(object)
    groups[:small] = "c"
    return make(sides(np.arange(n, dtype=np.uint64), 0), groups, y=np.arange(n) % 4 < 2)


@pytest.mark.parametrize(("n", "asked", "expected"), [(10_000, None, 1000), (2000, None, 400), (2000, 50, 50)])
def test_the_constraint_set_has_as_many_rows_as_asked_or_a_fifth(n, asked, expected):
    rows = some_rows(n)
    chosen, told = constraint_rows(rows, asked, CRITERIA["demographic_parity"], ["sex"])
    assert chosen.sum() == expected
    assert told == []
    assert rows.side[chosen].max() < rows.side[~chosen].min()


def test_more_features_need_more_rows():
    rows = some_rows(20_000)._replace(X=np.zeros((20_000, 15)))
    assert constraint_rows(rows, None, None, ["sex"])[0].sum() == 1500
    rows = rows._replace(X=np.zeros((20_000, 500)))
    assert constraint_rows(rows, None, None, ["sex"])[0].sum() == 4000


@pytest.mark.parametrize("name", CRITERIA)
def test_a_group_too_small_for_a_constraint_is_left_out_and_told(name):
    rows = some_rows(4000, small=5)
    chosen, told = constraint_rows(rows, None, CRITERIA[name], ["sex"])
    assert set(rows.groups[0][chosen].tolist()) == {"a", "b"}
    assert len(told) == 1
    assert told[0].startswith("Group 'c' of 'sex' has ")
    assert f"fewer than {FEW}: it is measured, but not constrained." in told[0]


def test_what_counts_is_the_rows_that_the_criterion_looks_at():
    """A group of many rows, none of which has the label that the rate is of."""
    rows = some_rows(4000, small=400)
    rows = rows._replace(y=rows.y & (rows.groups[0] != "c"))
    assert constraint_rows(rows, None, CRITERIA["demographic_parity"], ["sex"])[1] == []
    chosen, told = constraint_rows(rows, None, CRITERIA["false_negative_rate"], ["sex"])
    assert "c" not in rows.groups[0][chosen]
    assert "has 0 rows" in told[0]


def test_without_a_criterion_no_group_is_too_small():
    rows = some_rows(4000, small=5)
    chosen, told = constraint_rows(rows, None, None, ["sex"])
    assert (chosen.sum(), told) == (800, [])
