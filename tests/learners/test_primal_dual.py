"""The learner for sparse rows: the kernel against its specification, bits, shards, and what it converges to."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from learnt_problems import CONSTRAINED, USES, equal_rows, every_second, task_of, unequal_rows
from scipy.sparse import csr_matrix, hstack

from surefair.criteria import SURROGATES
from surefair.learners.multipliers import LAWS, SIGNED_LAWS, Multipliers
from surefair.learners.primal_dual import BLOCK, PrimalDualState, directions
from surefair.losses import LOSSES
from surefair.training.warm_up_sparse import scaling, sparse_learner

ROUNDING = 1e-10
SERVED = sorted({*CONSTRAINED} - {"false_discovery_rate", "false_omission_rate"})
N_FIRST = 1_000  # warm-up rows of learners that `make` makes
MOVING = PrimalDualState._fields[1:9]  # arrays with a column for each replicate
SHARED = PrimalDualState._fields[9:]
SHAPES = list(product([(2,), (3,), (2, 3)], [False, True]))  # groups in each column, and whether rows have weights


def begin(task, X, y, group, weight, law="two_point", seed=3):
    """Return the learner that begins with these rows, which have their column of ones, and its coordinates."""
    rows = SimpleNamespace(X=csr_matrix(X), y=y, group=group, weight=weight)
    W = scaling(rows.X, weight)
    return sparse_learner(task._replace(fit_intercept=False), rows, W, Multipliers(law, seed)), W


@cache
def make(criterion="demographic_parity", surrogate="decisions", loss="log_loss", sizes=(2,), weighted=False,
         law="two_point", **use):  # fmt: skip
    """Return a learner with few features, and its coordinates."""
    task = task_of(criterion, surrogate, loss, sizes, alpha=1e-2, **use)
    return begin(task, *unequal_rows(N_FIRST, sizes, 1, weighted), law)


def constrained(learner, n_columns):
    """State after the warm-up rows, with all pairs constrained, whether or not their groups differ clearly."""
    state = learner.init(n_columns)
    push = np.linspace(-0.1, 0.2, len(state.push))[:, None] * np.ones(n_columns)
    return learner._renewed(state._replace(push=push, followed=np.ones_like(state.followed)))


def stepped(learner, data, W, state=7, sizes=(10**9,), **more):
    """State after the rows, from a state or from the first one with so many columns, in batches of these sizes."""
    state = learner.init(state) if isinstance(state, int) else state
    low = 0
    while low < len(data.y):
        for size in sizes:
            X, y, group, weight = data.part(low, low + size)
            state = learner.step(state, csr_matrix(X * W), y, weight, group=group, **more)
            low += size
    return state


def referenced(learner, data, W, state):
    """State after the rows by the specification."""
    for x, y, group, weight in zip(*data, strict=True):
        state = learner.reference_step(state, x * W, y, weight, group)
    return state


def assert_close(learner, found, expected, rtol=ROUNDING):
    """Compare states, each array relative to its largest entry; the lazy form of iterates and sums is not unique."""
    assert found.k == expected.k
    pairs = {"mean": (learner.mean(found), learner.mean(expected))}
    pairs["iterate"] = learner.iterate(found), learner.iterate(expected)
    pairs["scalars"] = found.scalars[2:], expected.scalars[2:]
    r = found.basis.shape[2]
    pairs["gradient"] = found.along[3 * r :], expected.along[3 * r :]
    names = set(PrimalDualState._fields) - {"k", "w", "U", "scalars", "along"}
    pairs |= {name: (getattr(found, name), getattr(expected, name)) for name in names}
    for name, (one, two) in pairs.items():
        scale = np.abs(two).max(initial=1e-3)
        np.testing.assert_allclose(one, two, rtol=rtol, atol=rtol * scale, err_msg=name)


def assert_same(found, expected):
    """Compare the bits of states."""
    for name in found._fields:
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name


# -- Specification ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("criterion", "use", "loss", "surrogate"), every_second(SERVED, [*USES], [*LOSSES], [*SURROGATES])
)
def test_step_equals_reference_step(criterion, surrogate, loss, use):
    held = False
    for sizes, weighted in SHAPES:
        learner, W = make(criterion, surrogate, loss, sizes, weighted, **USES[use])
        data = unequal_rows(3 * BLOCK + 5, sizes, 2, weighted)
        state = constrained(learner, 5)
        found, expected = stepped(learner, data, W, state), referenced(learner, data, W, state)
        assert found.k == N_FIRST + 3 * BLOCK + 5
        assert_close(learner, found, expected)
        held |= found.pull.any()
    assert held or use == "tolerance"  # or else this compares free fits only


@pytest.mark.parametrize("law", sorted(set(LAWS) - SIGNED_LAWS))
def test_step_equals_reference_step_for_every_law(law):
    learner, W = make("false_positive_rate", law=law)
    data = unequal_rows(3 * BLOCK, seed=2)
    state = learner.init(9)
    assert_close(learner, stepped(learner, data, W, state), referenced(learner, data, W, state))


def test_step_equals_reference_step_where_directions_are_renewed():
    learner, W = make("equalized_odds", sizes=(3,), weighted=True, tolerance=0.02)
    data = unequal_rows(600, (3,), 2, True)
    state = learner.init(3)
    found, expected = stepped(learner, data, W, state), referenced(learner, data, W, state)
    assert found.until[0, 0] > state.until[0, 0]
    assert not np.array_equal(found.basis, state.basis)
    assert_close(learner, found, expected, 1e-9)


def test_step_equals_reference_step_with_a_strong_ridge():
    learner, W = make("demographic_parity")
    learner = replace(learner, settings=replace(learner.settings, alpha=0.5))
    data = unequal_rows(400, seed=2)
    state = learner.init(3)
    found = stepped(learner, data, W, state)
    assert_close(learner, found, referenced(learner, data, W, state))
    folded = stepped(learner, unequal_rows(4_000, seed=2), W, state)
    assert np.abs(folded.scalars[0] - 1.0).max() < 1.0 - 1e-3  # the ridge would have brought a to 0 without folds


def test_a_reference_step_continues_a_step():
    learner, W = make("equalized_odds", sizes=(2, 3), weighted=True)
    data = unequal_rows(2 * BLOCK + 9, (2, 3), 2, True)
    state = referenced(learner, data.part(45), W, stepped(learner, data.part(0, 45), W))
    assert_close(learner, state, stepped(learner, data, W))


def test_rows_without_groups_count_for_the_loss_only():
    learner, W = make()
    data = unequal_rows(2 * BLOCK, seed=2)
    state = learner.init(3)
    X = csr_matrix(data.X * W)
    without = learner.step(state, X, data.y)
    unknown = learner.step(state, X, data.y, group=np.full((2 * BLOCK, 1), -1))
    assert_same(without, unknown)
    assert np.array_equal(without.counts, state.counts)
    assert without.k == state.k + 2 * BLOCK


def test_rows_without_weight_change_nothing_but_their_number():
    learner, W = make(weighted=True)
    data = unequal_rows(20, seed=2)
    state = learner.init(3)
    after = learner.step(state, csr_matrix(data.X * W), data.y, 0.0, group=data.group)
    np.testing.assert_allclose(learner.iterate(after), learner.iterate(state), rtol=1e-12)
    assert np.array_equal(after.value, state.value)
    assert np.array_equal(after.seen, state.seen)
    assert after.k == state.k + 20


# -- Directions -------------------------------------------------------------------------------------------------------


def test_directions_are_orthonormal_and_span_the_slopes():
    rng = np.random.default_rng(0)
    across = rng.normal(size=(3, 6))
    across[2] = across[1] - across[0]
    basis, *_ = directions(across, np.full((3, 6), 1e-9))
    assert basis.shape == (6, 2)
    np.testing.assert_allclose(basis.T @ basis, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(across @ basis @ basis.T, across, atol=1e-4)


def test_chance_alone_makes_no_direction():
    rng = np.random.default_rng(0)
    variance = np.full((1, 5_000), 1.0 / 5_000)
    found = [directions(rng.normal(size=(1, 5_000)) / np.sqrt(5_000), variance)[0].shape[1] for _ in range(100)]
    assert sum(found) <= 2


@pytest.mark.parametrize(("n_true", "size"), [(3, 12.0), (5_000, 0.7)])
def test_the_slope_along_a_direction_is_corrected_for_chance(n_true, size):
    """Few features with large slopes stand out, and many with small ones count together."""
    D = 5_000
    true = size * (np.arange(D) < n_true) / np.sqrt(D)
    variance = np.full((1, D), 1.0 / D)
    corrected, plain, along = [], [], []
    for seed in range(30):
        slope = true + np.random.default_rng(seed).normal(size=D) / np.sqrt(D)
        basis, mixture, bend = directions(slope[None], variance)
        assert basis.shape == (D, 1)
        plain.append(slope @ basis[:, 0])
        corrected.append(plain[-1] - np.sum(variance * bend) * mixture[0, 0])
        along.append(true @ basis[:, 0])
    assert np.mean(corrected) == pytest.approx(np.mean(along), rel=0.05)
    assert np.mean(plain) > 1.02 * np.mean(along)
    assert np.mean(along) > (0.4 if n_true > 3 else 0.8) * np.linalg.norm(true)


# -- Bits -------------------------------------------------------------------------------------------------------------

BIT_CASES = {
    "equality": ("false_positive_rate", "scores", (2,), {}),
    "tolerance": ("demographic_parity", "decisions", (2, 3), {"tolerance": 0.05}),
    "penalty": ("error_rate", "decisions", (3,), {"penalty": 5.0}),
}


@pytest.fixture(params=BIT_CASES)
def case(request):
    """A learner, rows that do not fill their last block and during which directions are renewed, and coordinates."""
    criterion, surrogate, sizes, use = BIT_CASES[request.param]
    learner, W = make(criterion, surrogate, sizes=sizes, weighted=True, **use)
    return learner, unequal_rows(600, sizes, 2, True), W


@pytest.mark.parametrize("sizes", [(1,), (1, 7, 64, 33), (BLOCK,), (100,)], ids=str)
def test_bits_do_not_depend_on_batches(case, sizes):
    learner, data, W = case
    assert_same(stepped(learner, data, W, sizes=sizes), stepped(learner, data, W))


def test_bits_do_not_depend_on_threads(case):
    learner, data, W = case
    assert_same(stepped(learner, data, W, 70, n_threads=2), stepped(learner, data, W, 70))


@pytest.mark.parametrize("n_columns", [1, 9, 32, 224])
def test_bits_do_not_depend_on_the_number_of_replicates(case, n_columns):
    learner, data, W = case
    many, some = stepped(learner, data, W, 231), stepped(learner, data, W, n_columns)
    for name in MOVING:
        assert np.array_equal(getattr(many, name)[:, :n_columns], getattr(some, name)), name
    for name in SHARED:
        assert np.array_equal(getattr(many, name), getattr(some, name)), name
    assert np.array_equal(learner.mean(many)[:, :n_columns], learner.mean(some))


def test_columns_can_move_in_parts(case):
    learner, data, W = case
    whole = stepped(learner, data, W, 150)
    spans = [(0, 64), (64, 128), (128, 150)]
    parts = [stepped(learner, data, W, 150, columns=span) for span in spans]
    for name in MOVING:
        moved = [getattr(part, name)[:, slice(*span)] for part, span in zip(parts, spans, strict=True)]
        assert np.array_equal(np.hstack(moved), getattr(whole, name)), name
    for name in SHARED:
        assert all(np.array_equal(getattr(part, name), getattr(whole, name)) for part in parts), name
    start = learner.iterate(learner.init(150))
    np.testing.assert_allclose(learner.iterate(parts[0])[:, 64:], start[:, 64:], atol=1e-12)


def test_a_state_can_be_put_away_and_taken_up_again_any_number_of_times(case):
    learner, data, W = case
    state = stepped(learner, data.part(0, 150), W)
    kept = state._replace(**{name: np.copy(getattr(state, name)) for name in state._fields[1:]})
    whole = stepped(learner, data, W)
    for _ in range(2):
        assert_same(stepped(replace(learner), data.part(150), W, state), whole)
        learner.mean(state)
        learner.merge(state, state)
        referenced(learner, data.part(150, 200), W, state)
        assert_same(state, kept)


def test_a_step_may_reuse_the_memory_of_the_state_before(case):
    learner, data, W = case
    expected = stepped(learner, data, W, sizes=(100,))
    assert_same(stepped(learner, data, W, sizes=(100,), reuse=True), expected)


# -- Shards -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["demographic_parity", "false_positive_rate"])
def shards(request):
    """A learner, its coordinates, its first state, two shards with their own weights, one pass, and its rows."""
    task = task_of(request.param, tolerance=0.02)
    data = unequal_rows(20_007, seed=4, weighted=True)
    learner, W = begin(task, *data.part(0, 2_000))
    rest = data._replace(weight=data.weight / data.weight[:2_000].mean()).part(2_000)
    start = learner.init(301)
    one = stepped(learner, rest.part(0, 8_005), W, start)
    two = stepped(learner.reseeded(Multipliers("two_point", 99)), rest.part(8_005), W, start)
    return learner, W, start, one, two, stepped(learner, rest, W, start), rest


def test_merging_counts_all_rows_once(shards):
    learner, _, start, one, two, whole, _ = shards
    merged = learner.merge(one, two)
    n = start.k
    assert merged.k == whole.k == 20_007
    expected = (learner.mean(one) * (one.k - n) + learner.mean(two) * (two.k - n)) / (merged.k - n)
    np.testing.assert_allclose(learner.mean(merged), expected, atol=1e-12)
    assert np.array_equal(merged.seen, whole.seen)


def test_merged_shards_are_close_to_one_pass(shards):
    learner, _, _, one, two, whole, _ = shards
    merged, expected = learner.merge(one, two), learner.mean(whole)
    sd = expected[:, 1:].std(axis=1)
    assert np.abs((learner.mean(merged)[:, 0] - expected[:, 0]) / sd).max() < 1.5
    assert np.abs((learner.mean(learner.merge(two, one)) - learner.mean(merged)) / sd[:, None]).max() < 1e-6
    np.testing.assert_allclose(merged.value[:, 0], whole.value[:, 0], atol=0.02)
    np.testing.assert_allclose(merged.counts[:, 0] / merged.scalars[2, 0], whole.counts[:, 0] / whole.scalars[2, 0],
                               atol=0.03)  # fmt: skip


def test_merged_replicates_have_the_spread_of_one_pass(shards):
    learner, _, _, one, two, whole, _ = shards
    merged, expected = learner.mean(learner.merge(one, two)), learner.mean(whole)
    ratio = merged[:, 1:].std(axis=1) / expected[:, 1:].std(axis=1)
    assert ratio.min() > 0.75
    assert ratio.max() < 1.33


@pytest.mark.parametrize("n_columns", [1, 9, 40])
def test_bits_of_merged_shards_do_not_depend_on_the_number_of_replicates(shards, n_columns):
    learner, _, _, one, two, *_ = shards
    many = learner.merge(one, two)
    some = learner.merge(
        *(
            shard._replace(**{name: getattr(shard, name)[:, :n_columns].copy() for name in MOVING})
            for shard in (one, two)
        )
    )
    for name in MOVING:
        assert np.array_equal(getattr(many, name)[:, :n_columns], getattr(some, name)), name
    for name in SHARED:
        assert np.array_equal(getattr(many, name), getattr(some, name)), name


def test_training_continues_after_a_merge(shards):
    learner, W, _, one, two, _, rest = shards
    merged = learner.merge(one, two)
    few = merged._replace(**{name: getattr(merged, name)[:, :5].copy() for name in MOVING})
    more = rest.part(0, 3 * BLOCK)
    found = stepped(learner, more, W, few)
    assert found.k == 20_007 + 3 * BLOCK
    assert_close(learner, found, referenced(learner, more, W, few), 1e-9)


def test_a_shard_without_rows_changes_nothing(shards):
    learner, _, start, one, *_ = shards
    merged = learner.merge(one, start)
    assert merged.k == one.k
    np.testing.assert_allclose(learner.mean(merged), learner.mean(one), atol=1e-12)
    np.testing.assert_allclose(learner.iterate(merged), learner.iterate(one), atol=1e-12)
    np.testing.assert_allclose(merged.value, one.value, atol=1e-9)
    np.testing.assert_allclose(merged.push, one.push, atol=1e-12)


# -- What it converges to ---------------------------------------------------------------------------------------------


def wide_rows(n, seed, D=3_000, n_groups=2, signal=0.3):
    """Sparse rows with 20 frequent features, on five of which the group depends, and many rare ones."""
    rng = np.random.default_rng(seed)
    group = rng.integers(n_groups, size=n)
    shift = signal * group[:, None] / (n_groups - 1) * (np.arange(20) < 5)
    common = (rng.random((n, 20)) < 0.3 + shift).astype(float)
    places = rng.integers(D, size=(n, 10))
    rare = csr_matrix((np.ones(10 * n), (np.repeat(np.arange(n), 10), places.ravel())), (n, D))
    theta = 0.5 * np.random.default_rng(0).normal(size=D + 20)
    theta[:5] = 1.0
    X = hstack([csr_matrix(common), rare, np.ones((n, 1))], format="csr")
    y = np.where(X[:, :-1] @ theta - 2.5 + rng.logistic(size=n) > 0.0, 1.0, -1.0)
    return X, y, group[:, None], np.ones(n)


def learnt(task, rows, n_columns, n_first=1_000, **more):
    """Coefficients after one pass over the rows, (D, columns), and the learner with its last state."""
    learner, W = begin(task, *(part[:n_first] for part in rows), **more)
    X, y, group, weight = (part[n_first:] for part in rows)
    state = learner.step(learner.init(n_columns), csr_matrix(X.multiply(W)), y, weight, group=group)
    return W[:, None] * learner.mean(state), learner, state


def hard_gap(score, group):
    positive = score > 0.0
    return positive[group[:, 0] == 1].mean(axis=0) - positive[group[:, 0] == 0].mean(axis=0)


@pytest.mark.parametrize(("tolerance", "penalty"), [(0.0, 0.0), (0.1, 0.0), (0.0, 100.0)])
def test_the_gap_of_decisions_on_other_rows_is_the_tolerance(tolerance, penalty):
    rows, (other, labels, codes, _) = wide_rows(20_000, 1), wide_rows(20_000, 2)
    free, *_ = learnt(task_of(tolerance=1.0), rows, 1)
    held, _, state = learnt(task_of(tolerance=tolerance, penalty=penalty), rows, 41)
    assert state.followed.all()
    assert 0 < state.basis.shape[2] <= 2
    gap = hard_gap(other @ held, codes)
    assert hard_gap(other @ free, codes)[0] > 0.2
    assert abs(gap[0] - tolerance) < 0.04
    assert 0.002 < gap[1:].std() < 0.03
    right = [np.mean((other @ theta[:, 0] > 0.0) == (labels > 0.0)) for theta in (held, free)]
    assert right[0] > right[1] - 0.08


@pytest.mark.slow
def test_the_spread_of_replicates_is_that_of_fits_of_other_rows():
    other, _, codes, _ = wide_rows(40_000, 10**6)
    gaps, spreads = [], []
    for seed in range(40):
        theta, *_ = learnt(task_of(tolerance=0.1), wide_rows(10_000, seed), 61, 2_000, seed=seed)
        found = hard_gap(other @ theta, codes)
        gaps.append(found[0])
        spreads.append(found[1:].std())
    assert 0.8 < np.mean(spreads) / np.std(gaps) < 1.6  # somewhat too large
    assert abs(np.mean(np.abs(gaps)) - 0.1) < 0.03


def test_a_gap_that_is_still_beyond_the_tolerance_shows():
    rows = wide_rows(10_000, 1)
    _, learner, state = learnt(task_of(tolerance=0.9), rows, 21)
    beyond, spread = learner.unmet(state)
    assert beyond[0] == 0.0
    assert 0.0 < spread[0] < 0.05
    strict = replace(learner, settings=replace(learner.settings, tolerance=0.0))
    assert strict.unmet(state)[0][0] > 0.1
    assert strict.unmet(state._replace(followed=np.zeros((1, 1))))[0][0] == 0.0


@pytest.mark.parametrize("law", sorted(set(LAWS) - SIGNED_LAWS))
def test_every_law_of_multipliers_gives_the_same_spread(law):
    rows = wide_rows(6_000, 5)
    found, expected = (learnt(task_of(), rows, 101, law=name)[0] for name in (law, "two_point"))
    assert np.isfinite(found).all()
    assert np.array_equal(found[:, 0], expected[:, 0])
    ratio = found[:20, 1:].std(axis=1) / expected[:20, 1:].std(axis=1)
    assert ratio.min() > 0.6
    assert ratio.max() < 1.6


def test_features_that_no_row_has_stay_at_0_and_change_nothing():
    X, y, group, weight = wide_rows(1_500, 1)
    wider = hstack([X[:, :-1], csr_matrix((1_500, 10_000)), X[:, -1:]], format="csr")
    narrow = X.shape[1] - 1
    one, two = (learnt(task_of(), (rows, y, group, weight), 5)[0] for rows in (X, wider))
    assert np.array_equal(two[:narrow], one[:narrow])
    assert not two[narrow:-1].any()


# -- Which pairs are constrained --------------------------------------------------------------------------------------


def test_groups_that_do_not_differ_are_not_constrained():
    followed = 0
    for seed in range(20):
        data = equal_rows(2_000, seed)
        learner, W = begin(task_of(), *data.part(0, 1_000))
        followed += stepped(learner, data.part(1_000), W, 3).followed.any()
    for seed in range(10):
        followed += learnt(task_of(), wide_rows(4_000, seed, signal=0.0), 1)[2].followed.any()
    assert followed <= 1


def test_groups_that_differ_are_constrained():
    for seed in range(5):
        learner, _ = begin(task_of(), *unequal_rows(1_000, seed=seed))
        state = learner.init(1)
        assert state.followed.all()
        assert state.basis.shape[2] == 1


def test_a_group_with_few_rows_is_not_constrained():
    data = unequal_rows(1_000, (2, 2), seed=3)
    few = data.group.copy()
    few[np.flatnonzero(few[:, 0] == 1)[29:], 0] = -1
    learner, _ = begin(task_of(sizes=(2, 2)), *data._replace(group=few))
    state = learner.init(1)
    assert state.seen[:, 0].min() == 29
    assert state.followed[:, 0].tolist() == [0.0, 1.0]
    assert state.push[0, 0] == 0.0


def test_a_group_that_comes_late_is_constrained_once_it_has_enough_rows():
    X, y, group, weight = wide_rows(24_000, 1, n_groups=3, signal=0.4)
    early = np.flatnonzero((group[:, 0] < 2) | (np.arange(24_000) >= 3_000))
    X, y, group, weight = (part[early] for part in (X, y, group, weight))
    _, learner, state = learnt(task_of(tolerance=0.05), (X[:1_500], y[:1_500], group[:1_500], weight[:1_500]), 3)
    W = scaling(X[:1_000], weight[:1_000])
    same = learner.mean(state)
    before = state.followed[:, 0].tolist()
    learner, state = learner.regrouped(state, task_of(sizes=(3,)).comparisons, [np.array([0, 1])])
    assert np.array_equal(learner.mean(state), same)
    assert state.followed[:, 0].tolist() == [*before, 0.0, 0.0]
    moved = csr_matrix(X[1_500:].multiply(W))
    after = learner.step(state, moved, y[1_500:], group=group[1_500:])
    assert after.followed[1:].any()
    assert after.seen[2, 0] > 1_000
    other, _, codes, _ = wide_rows(20_000, 2, n_groups=3, signal=0.4)
    free, *_ = learnt(task_of(sizes=(3,), tolerance=1.0), (X, y, group, weight), 1)
    gaps = []
    for theta in (W * learner.mean(after)[:, 0], free[:, 0]):
        positive = other @ theta > 0.0
        gaps.append(np.ptp([positive[codes[:, 0] == g].mean() for g in range(3)]))
    assert gaps[0] < 0.5 * gaps[1]
