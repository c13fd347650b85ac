"""Laws of the split between training rows and held-out rows, which hold in whatever order and chunks rows come."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, kstest

from surefair.rows import CodedColumn, Groups, Levels, Names, Rows
from surefair.tables import split
from surefair.tables.split import HELD_OUT, hold_out, side_of, sides

SEED = 3


def make(keys):
    """Rows of one group whose only feature is their number."""
    keys = np.asarray(keys, dtype=np.uint64)
    n = len(keys)
    groups = Groups.of({"sex": CodedColumn(np.array(["a"]), np.zeros(n, dtype=np.intp))})
    names = Names(("number",), Levels(np.array(["no", "yes"]), "label"), groups)
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    return Rows(np.arange(float(n))[:, None], y, np.zeros((n, 1), dtype=np.int64), np.ones(n), names, keys)


def pass_through(rows, cuts, seed=SEED):
    """Return the rows held out after all chunks, and the numbers of those trained on, in the order of training."""
    held, below = None, HELD_OUT
    trained = []
    for part in np.split(np.arange(rows.n), cuts):
        held, train, below = hold_out(held, rows.part(part), seed, below)
        trained += train.X[:, 0].tolist()
    return held, trained


# -- Sides -------------------------------------------------------------------------------------------------------------


def test_sides_are_distinct_numbers_from_0_to_below_1():
    found = sides(np.arange(100_000, dtype=np.uint64), seed=0)
    assert found.min() >= 0.0
    assert found.max() < 1.0
    assert len(np.unique(found)) == len(found)


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, 2**63])
@pytest.mark.parametrize("keys", ["consecutive", "even", "large"])
def test_sides_are_uniform_and_not_correlated_with_their_neighbours(seed, keys):
    numbers = np.arange(20_000)
    keys = {"consecutive": numbers, "even": 2 * numbers, "large": 2**60 + 97 * numbers}[keys]
    found = sides(keys.astype(np.uint64), seed)
    assert kstest(found, "uniform").pvalue > 1e-4
    assert abs(np.corrcoef(found[1:], found[:-1])[0, 1]) < 4.0 / np.sqrt(len(found))


def test_the_sides_of_two_seeds_are_not_correlated():
    keys = np.arange(20_000, dtype=np.uint64)
    for other in (1, 2, 1000):
        assert abs(np.corrcoef(sides(keys, 0), sides(keys, other))[0, 1]) < 4.0 / np.sqrt(len(keys))


def test_a_side_depends_only_on_key_and_seed():
    keys = np.random.default_rng(0).integers(0, 2**63, 1000).astype(np.uint64)
    whole = sides(keys, 5)
    assert np.array_equal(whole[::-1], sides(keys[::-1], 5))
    assert np.array_equal(whole[17:18], sides(keys[17:18], 5))


# -- Held-out rows -----------------------------------------------------------------------------------------------------


PERSONS = st.lists(st.integers(0, 60), min_size=1, max_size=200)  # often several rows of a person
SINGLE_ROWS = st.lists(st.integers(0, 10**6), min_size=1, max_size=200, unique=True)


@given(keys=PERSONS | SINGLE_ROWS, cuts=st.lists(st.integers(0, 200), max_size=6), most=st.integers(1, 40))
def test_each_row_is_held_out_or_trained_on_once_and_equal_keys_stay_together(keys, cuts, most):
    """The law of the split, also where rows return to training."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(split, "MOST_ROWS", most)
        rows = make(keys)
        try:
            held, trained = pass_through(rows, sorted(min(cut, rows.n) for cut in cuts))
        except ValueError:  # one key has more rows than may be held out
            assert max(np.unique(keys, return_counts=True)[1]) > most
            return
        out = held.X[:, 0].astype(int).tolist()
        assert sorted(out + [int(row) for row in trained]) == list(range(rows.n))
        assert not {keys[row] for row in out} & {keys[int(row)] for row in trained}
        assert len(out) <= most
        if len(set(keys)) == len(keys):
            side = side_of(rows, SEED)
            low = np.flatnonzero(side < HELD_OUT)
            assert set(out) == set(low[np.argsort(side[low])][:most].tolist())


def test_a_key_that_has_returned_to_training_is_not_held_out_again(monkeypatch):
    monkeypatch.setattr(split, "MOST_ROWS", 3)
    keys = np.arange(100, dtype=np.uint64)
    first, second = keys[np.argsort(sides(keys, SEED))][:2].tolist()
    keys = [first, first, second, second, second]
    held, trained = pass_through(make(keys), [4])
    assert not {*held.key.tolist()} & {keys[int(row)] for row in trained}


def test_the_held_out_rows_do_not_depend_on_chunks_or_their_order(monkeypatch):
    monkeypatch.setattr(split, "MOST_ROWS", 100)
    rows = make(range(4000))
    expected = set(pass_through(rows, [])[0].key.tolist())
    assert len(expected) == 100
    rng = np.random.default_rng(0)
    for cuts in ([1000, 2000, 3000], [1], [3999], sorted(rng.integers(0, 4000, 20))):
        assert set(pass_through(rows, cuts)[0].key.tolist()) == expected
    for _ in range(5):
        order = np.concatenate(rng.permutation(np.arange(4000).reshape(40, 100)))
        assert set(pass_through(rows.part(order), range(100, 4000, 100))[0].key.tolist()) == expected


def test_a_row_that_was_trained_on_is_never_held_out_later(monkeypatch):
    """With every chunk, the held-out rows may lose some of the earlier ones and gain some of the new ones."""
    monkeypatch.setattr(split, "MOST_ROWS", 50)
    rows = make(range(3000))
    held, below = None, HELD_OUT
    trained = set()
    for part in np.split(np.arange(3000), 30):
        before = set() if held is None else set(held.X[:, 0].tolist())
        held, train, below = hold_out(held, rows.part(part), SEED, below)
        now = set(held.X[:, 0].tolist())
        assert now <= before | set(part.tolist())
        assert not now & trained
        trained |= set(train.X[:, 0].tolist())
    assert len(now) == 50


@pytest.mark.parametrize("most", [10**6, 300])
def test_the_held_out_rows_are_a_uniform_sample(monkeypatch, most):
    """In every tenth of the data their number is binomial, or hypergeometric if it is capped."""
    monkeypatch.setattr(split, "MOST_ROWS", most)
    n = 10_000
    for seed in range(10):
        held, _ = pass_through(make(range(n)), range(500, n, 500), seed)
        share = min(HELD_OUT, most / n)
        low, high = binom.interval(1.0 - 1e-5, n // 10, share)  # the hypergeometric law is narrower still
        counts = np.histogram(held.X[:, 0], bins=10, range=(0, n))[0]
        assert (low <= counts).all(), (seed, counts)
        assert (counts <= high).all(), (seed, counts)
    assert held.n == most or most > n


def test_memory_bounds_the_held_out_rows(monkeypatch):
    monkeypatch.setattr(split, "MOST_BYTES", 8 * 3 * 40)
    rows = replace(make(range(1000)), X=np.zeros((1000, 3)))
    assert hold_out(None, rows, SEED)[0].n == 40


def test_more_rows_with_one_key_than_may_be_held_out_are_refused(monkeypatch):
    monkeypatch.setattr(split, "MOST_ROWS", 5)
    key = next(key for key in range(100) if sides(np.array([key], dtype=np.uint64), SEED)[0] < HELD_OUT)
    with pytest.raises(ValueError, match=r"More than 5 rows are in one cluster.*Name a cluster column"):
        hold_out(None, make([key] * 6), SEED)


def test_all_parts_of_a_row_stay_together():
    rng = np.random.default_rng(0)
    number = rng.permutation(200)
    columns = {name: CodedColumn.of([f"{name} {i % k}" for i in number]) for name, k in (("five", 5), ("seven", 7))}
    groups = Groups.of(columns)
    rows = replace(
        make(number), X=np.c_[number, -number].astype(float), y=np.where(number % 3 == 0, 1.0, -1.0),
        group=groups.codes(columns), weight=number + 1.0, names=make(number).names._replace(groups=groups),
    )  # fmt: skip
    held, train, below = hold_out(None, rows.part(slice(0, 100)).trimmed(), SEED)
    held, more, _ = hold_out(held, rows.part(slice(100, 200)).trimmed(), SEED, below)
    for part in (held, train.followed_by(more)):
        key = part.key.astype(int)
        assert np.array_equal(part.X, np.c_[key, -key])
        assert np.array_equal(part.y > 0.0, key % 3 == 0)
        for code, levels, k in zip(part.group.T, part.groups.levels.values(), (5, 7), strict=True):
            assert [value.split(" ")[1] for value in levels.values[code]] == [str(i % k) for i in key]
        assert np.array_equal(part.weight, key + 1.0)
