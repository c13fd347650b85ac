"""The sketch of repeated rows does not depend on order or cuts, and estimates what it does not keep."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from surefair.rows import sketch as sketches
from surefair.rows.sketch import Sketch, count_pairs, hash_rows


def rows(n, seed=0, d=3):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.choice([-1.0, 1.0], n)


def test_equal_rows_have_equal_hashes_and_others_do_not():
    X, y = rows(50_000)
    hashes = hash_rows(X, y)
    assert count_pairs(hashes) == 0
    assert np.array_equal(hash_rows(X[::-1], y[::-1])[::-1], hashes)
    assert (hash_rows(X, -y) != hashes).all()
    assert (hash_rows(X[:, ::-1], y) != hashes).all()
    assert np.array_equal(hash_rows(np.array([[0.0, 1.0]]), y[:1]), hash_rows(np.array([[-0.0, 1.0]]), y[:1]))


def test_indicators_have_different_hashes():
    bits = (np.arange(2**12)[:, None] >> np.arange(12)) % 2
    assert count_pairs(hash_rows(bits.astype(float), np.ones(2**12))) == 0


def test_sparse_rows_with_equal_content_have_equal_hashes():
    X, y = rows(200, d=40)
    X[X < 1.0] = 0.0
    sparse = csr_matrix(X)
    padded = csr_matrix((np.r_[sparse.data, 0.0], np.r_[sparse.indices, 3], np.r_[sparse.indptr[:-1], sparse.nnz + 1]))
    assert np.array_equal(hash_rows(padded, y), hash_rows(sparse, y))
    assert count_pairs(hash_rows(sparse, y)) == count_pairs(hash_rows(X, y))


@pytest.mark.parametrize("size", [50, 4096])
def test_a_sketch_does_not_depend_on_order_or_cuts(monkeypatch, size):
    monkeypatch.setattr(sketches, "SIZE", size)
    rng = np.random.default_rng(0)
    hashes = hash_rows(*rows(3_000))[rng.integers(3_000, size=9_000)]
    whole = Sketch.empty().after(hashes)
    parts = [Sketch.empty().after(part) for part in np.array_split(rng.permutation(hashes), 7)]
    merged = parts[0]
    for part in parts[1:]:
        merged = merged.merge(part)
    one_by_one = Sketch.empty()
    for part in np.array_split(hashes, 13):
        one_by_one = one_by_one.after(part)
    for other in (merged, one_by_one, Sketch.unpack(whole.pack())):
        assert all(np.array_equal(a, b) for a, b in zip(whole, other, strict=True))


def test_a_sketch_estimates_the_pairs_that_it_does_not_keep():
    rng = np.random.default_rng(0)
    hashes = hash_rows(*rows(50_000))[rng.integers(50_000, size=100_000)]
    sketch = Sketch.empty().after(hashes)
    assert len(sketch.hashes) == sketches.SIZE
    assert sketch.pairs == pytest.approx(count_pairs(hashes), rel=0.1)


def test_rows_that_were_counted_twice_can_be_taken_away():
    hashes = hash_rows(*rows(1_000))
    both = Sketch.empty().after(hashes).merge(Sketch.empty().after(hashes[:100]))
    left = both.without(Sketch.empty().after(hashes[:100]))
    assert left.n == 1_000
    assert left.pairs == 0
