"""Newton's method on a stream: the kernel against its specification, bits, shards, and what it converges to."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from learnt_problems import (
    CONSTRAINED,
    USES,
    begin,
    equal_rows,
    every_second,
    exact,
    synthetic_rows,
    task_of,
    unequal_rows,
)

from surefair.classifier import FairClassifier
from surefair.criteria import SURROGATES
from surefair.datasets import SyntheticDI, SyntheticDM, load_adult
from surefair.learners import stochastic_newton
from surefair.learners.geometry import floored_inverse
from surefair.learners.multipliers import LAWS, SIGNED_LAWS, Multipliers
from surefair.learners.stochastic_newton import BLOCK, NewtonState
from surefair.losses import LOSSES

ROUNDING = 1e-9
RATIOS = ("false_discovery_rate", "false_omission_rate")
N_FIRST = 1_000  # warm-up rows of learners that `make` makes
MOVING = ("theta", "push", "value", "counts", "weight", "origin")  # arrays with a column for each replicate
SHARED = tuple(set(NewtonState._fields) - {*MOVING})
SHAPES = list(product([(2,), (3,), (2, 3)], [False, True]))  # groups in each column, and whether rows have weights


@cache
def free(loss, sizes, weighted, law="two_point"):
    """Return a learner without a constraint after its warm-up rows, and its coordinates."""
    task = task_of(None, loss=loss, sizes=sizes, alpha=1e-2)
    learner, W, _ = begin(task, unequal_rows(N_FIRST, sizes, 1, weighted), law)
    return learner, W


def make(criterion="demographic_parity", surrogate="decisions", loss="log_loss", sizes=(2,), weighted=False,
         law="two_point", **use):  # fmt: skip
    """Return a learner that begins at the free optimum, so that nothing has to be solved, and its coordinates."""
    learner, W = free(loss, sizes, weighted, law)
    comparisons = task_of(criterion, surrogate, sizes=sizes).comparisons
    push = np.linspace(-0.1, 0.2, len(comparisons.pairs))
    form = learner.form._replace(comparisons=comparisons, push=push)
    if "penalty" not in use:
        use["tolerance"] = comparisons.tolerance_of(use.get("tolerance", 0.0))
    return replace(learner, settings=replace(learner.settings, **use), form=form), W


def stepped(learner, data, state=7, sizes=(10**9,), **more):
    """State after the rows, from a state or from the first one with so many columns, in batches of these sizes."""
    state = learner.init(state) if isinstance(state, int) else state
    low = 0
    while low < len(data.y):
        for size in sizes:
            X, y, group, weight = data.part(low, low + size)
            state = learner.step(state, X, y, weight, group=group, **more)
            low += size
    return state


def referenced(learner, data, state):
    """State after the rows by the specification."""
    for x, y, group, weight in zip(*data, strict=True):
        state = learner.reference_step(state, x, y, weight, group)
    return state


def assert_close(found, expected, rtol=ROUNDING):
    """Compare states, each array relative to its largest entry."""
    for name in found._fields:
        one, two = (np.asarray(getattr(state, name)) for state in (found, expected))
        scale = np.abs(two).max(initial=1.0)
        np.testing.assert_allclose(one, two, rtol=rtol, atol=rtol * scale, err_msg=name)


def assert_same(found, expected):
    """Compare the bits of states."""
    for name in found._fields:
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name


# -- Specification ----------------------------------------------------------------------------------------------------


@pytest.fixture(params=[stochastic_newton.CURVED, 0], ids=["", "curved"])
def curved(request, monkeypatch):
    """Let few warm-up rows show the curvature of rates, too."""
    monkeypatch.setattr(stochastic_newton, "CURVED", request.param)


@pytest.mark.parametrize(
    ("criterion", "use", "loss", "surrogate"), every_second([*CONSTRAINED, None], [*USES], [*LOSSES], [*SURROGATES])
)
def test_step_equals_reference_step(criterion, surrogate, loss, use):
    constrained = 0
    for sizes, weighted in SHAPES:
        learner, W = make(criterion, surrogate, loss, sizes, weighted, **USES[use])
        data = unequal_rows(5 * BLOCK + 5, sizes, 2, weighted).moved(W)
        state = learner.init(5)
        found, expected = stepped(learner, data, state), referenced(learner, data, state)
        assert found.k == N_FIRST + 5 * BLOCK + 5
        assert len(found.rows) == 5
        assert_close(found, expected)
        constrained += np.count_nonzero(found.followed if use == "tolerance" else found.push[:, :1] * found.followed)
    assert (constrained > 0) == (criterion is not None)  # or else this compares free fits only


@pytest.mark.parametrize("law", sorted(set(LAWS) - SIGNED_LAWS))
def test_step_equals_reference_step_for_every_law(law, curved):
    learner, W = make("false_positive_rate", law=law)
    data = unequal_rows(9 * BLOCK, seed=2).moved(W)  # matrices are renewed twice
    state = learner.init(9)
    assert_close(stepped(learner, data, state), referenced(learner, data, state))


def test_a_reference_step_continues_a_step():
    learner, W = make("equalized_odds", sizes=(2, 3), weighted=True)
    data = unequal_rows(4 * BLOCK + 9, (2, 3), 2, True).moved(W)
    state = referenced(learner, data.part(45), stepped(learner, data.part(0, 45)))
    assert_close(state, stepped(learner, data))


def test_a_fit_that_began_far_away_holds_the_gap_that_it_has(data_folder, monkeypatch):
    """These warm-up rows lead to an optimum where slopes say little about the way to that of all rows."""
    adult = load_adult(data_folder)
    draw = np.random.default_rng([31, 2]).integers(0, len(adult.y), 20_000)
    X, y, group = adult.X.to_numpy()[draw], np.asarray(adult.y)[draw], np.asarray(adult.sensitive)[draw]

    def gap():
        clf = FairClassifier(tolerance=0.05, n_replicates=0, solver="one_pass", random_state=0)
        decision = clf.fit(X, y, sensitive_features=group).decision_function(X) > 0.0
        one, two = (decision[group == name].mean() for name in np.unique(group))
        return abs(one - two)

    assert abs(gap() - 0.05) < 0.01
    monkeypatch.setattr(stochastic_newton, "CURVED", np.inf)
    assert abs(gap() - 0.05) > 0.02


SURVEYS = [(name, surrogate) for name in [*CONSTRAINED, None] for surrogate in SURROGATES]


@pytest.mark.parametrize(("criterion", "surrogate"), SURVEYS)
def test_the_sums_over_the_warm_up_rows_are_the_derivatives_that_the_exact_solver_has(criterion, surrogate):
    sizes = (2, 3)
    learner, W = make(criterion, surrogate, sizes=sizes, weighted=True)
    state = learner.init(1)
    first = unequal_rows(N_FIRST, sizes, 1, True)
    problem = exact(task_of(criterion, surrogate, sizes=sizes), learner, W, first)
    theta = learner.settings.start
    push = learner.form.push * state.followed[:, 0]
    tangent = problem.tangent(theta)
    pull = learner.form.comparisons.by_rate(push)
    loss_hessian = problem.loss_hessian(theta) - np.diag(learner.form.ridge + 1e-10)
    np.testing.assert_allclose(state.loss_bend[:, 0], N_FIRST * np.triu(loss_hessian), atol=1e-8)
    constraint_hessian = problem.constraint_hessian(theta, pull, tangent)
    np.testing.assert_allclose(state.bend[:, 0], N_FIRST * np.triu(constraint_hessian), atol=1e-8)
    np.testing.assert_allclose(state.slopes[:, 0] / state.size[:, 0, :1], tangent.cells, atol=1e-12)
    np.testing.assert_allclose(state.tangent[:, 0], tangent.cells, atol=1e-12)
    assert state.seen[:, 0].tolist() == np.bincount(problem.entries.cell[problem.entries.cell >= 0]).tolist()
    before = np.asarray(learner.form.push != 0.0, dtype=np.float64)
    np.testing.assert_array_equal(state.followed[:, 0], problem.followed(tangent, before))
    gradients, values, _ = problem.influences(theta, push, tangent)
    influence = np.column_stack([gradients, values, np.ones(N_FIRST)])
    np.testing.assert_allclose(state.scatter[:, 0], np.triu(influence.T @ influence), atol=1e-7)


def test_matrices_take_some_rows_for_all_after_the_warm_up_and_slopes_take_each():
    learner, W = make(weighted=True)
    state = learner.init(1)
    data = unequal_rows(10 * BLOCK, seed=2, weighted=True).moved(W)
    after = stepped(learner, data, state)
    assert after.scatter[-1, 0, -1] == N_FIRST + 10 * BLOCK
    added = after.loss_bend[:, 0] - state.loss_bend[:, 0]
    theta = learner.settings.start
    curvature = learner.settings.loss.curvature(data.X @ theta, data.y) * data.weight
    expected = np.triu((data.X.T * curvature) @ data.X)
    assert 0.01 < np.linalg.norm(added - expected) / np.linalg.norm(expected) < 0.5
    assert after.seen.sum() == N_FIRST + 10 * BLOCK
    assert after.size[:, 0, 0].sum() - state.size[:, 0, 0].sum() == pytest.approx(data.weight.sum())


def test_no_direction_has_less_than_a_tenth_of_the_curvature_of_the_loss():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(5, 5))
    plain = root @ root.T + 0.1 * np.eye(5)
    more = 0.05 * (root + root.T)
    assert np.linalg.eigvalsh(np.linalg.solve(plain, plain + more)).min() > 0.1
    np.testing.assert_allclose(floored_inverse(plain, more), np.linalg.inv(plain + more))
    inverse = floored_inverse(plain, -10.0 * plain + more)
    np.testing.assert_allclose(inverse, 10.0 * np.linalg.inv(plain))


def test_rows_without_groups_count_for_the_loss_only():
    learner, W = make()
    data = unequal_rows(2 * BLOCK, seed=2).moved(W)
    state = learner.init(3)
    without = learner.step(state, data.X, data.y)
    unknown = learner.step(state, data.X, data.y, group=np.full((2 * BLOCK, 1), -1))
    assert_same(without, unknown)
    assert np.array_equal(without.counts, state.counts)
    assert without.weight[0, 0] == state.weight[0, 0] + 2 * BLOCK


# -- Bits -------------------------------------------------------------------------------------------------------------

BIT_CASES = {
    "free": (None, "decisions", (2,), {}),
    "equality": ("false_positive_rate", "scores", (2,), {}),
    "tolerance": ("demographic_parity", "decisions", (2, 3), {"tolerance": 0.05}),
    "penalty": ("false_omission_rate", "decisions", (3,), {"penalty": 5.0}),
}


@pytest.fixture(params=BIT_CASES)
def case(request):
    """A learner, and rows that do not fill their last block."""
    criterion, surrogate, sizes, use = BIT_CASES[request.param]
    learner, W = make(criterion, surrogate, sizes=sizes, weighted=True, **use)
    return learner, unequal_rows(10 * BLOCK + 7, sizes, 2, True).moved(W)


@pytest.mark.parametrize("sizes", [(1,), (1, 7, 64, 33), (BLOCK,), (100,)], ids=str)
def test_bits_do_not_depend_on_batches(case, sizes):
    learner, data = case
    assert_same(stepped(learner, data, sizes=sizes), stepped(learner, data))


def test_bits_do_not_depend_on_threads(case):
    learner, data = case
    assert_same(stepped(learner, data, 70, n_threads=2), stepped(learner, data, 70))


@pytest.mark.parametrize("n_columns", [1, 9, 32, 224])
def test_bits_do_not_depend_on_the_number_of_replicates(case, n_columns, curved):
    learner, data = case
    many, some = stepped(learner, data, 231), stepped(learner, data, n_columns)
    for name in MOVING:
        assert np.array_equal(getattr(many, name)[:, :n_columns], getattr(some, name)), name
    for name in SHARED:
        assert np.array_equal(getattr(many, name), getattr(some, name)), name
    assert np.array_equal(learner.mean(many)[:, :n_columns], learner.mean(some))


def test_columns_can_move_in_parts(case, curved):
    learner, data = case
    whole = stepped(learner, data, 150)
    spans = [(0, 64), (64, 128), (128, 150)]
    parts = [stepped(learner, data, 150, columns=span) for span in spans]
    for name in set(MOVING) - {"origin"}:
        moved = [getattr(part, name)[:, slice(*span)] for part, span in zip(parts, spans, strict=True)]
        assert np.array_equal(np.hstack(moved), getattr(whole, name)), name
    for name in SHARED:
        assert all(np.array_equal(getattr(part, name), getattr(whole, name)) for part in parts), name


def test_a_state_can_be_put_away_and_taken_up_again_any_number_of_times(case):
    learner, data = case
    state = stepped(learner, data.part(0, 150))
    kept = state._replace(**{name: np.copy(getattr(state, name)) for name in state._fields[1:]})
    whole = stepped(learner, data)
    for _ in range(2):
        assert_same(stepped(replace(learner), data.part(150), state), whole)
        learner.mean(state)
        learner.merge(learner.completed(state), learner.completed(state))
        referenced(learner, data.part(150, 200), state)
        assert_same(state, kept)


def test_the_multipliers_of_rows_do_not_depend_on_where_a_shard_was_cut():
    learner, W = make()
    data = unequal_rows(BLOCK, seed=2).moved(W)
    V = learner.settings.multipliers.draw(N_FIRST, BLOCK, 40)
    state = learner.init(40)
    np.testing.assert_allclose(stepped(learner, data, state).weight - state.weight, V.sum(axis=0)[None])


# -- Rows of an incomplete block --------------------------------------------------------------------------------------


@pytest.mark.parametrize("left", [1, 5, BLOCK - 1])
def test_rows_of_an_incomplete_block_count(left):
    learner, W = make(weighted=True)
    data = unequal_rows(3 * BLOCK + left, seed=2, weighted=True).moved(W)
    before, state = stepped(learner, data.part(0, 3 * BLOCK)), stepped(learner, data)
    assert len(state.rows) == left
    expected = learner._reference_block(before, learner._unpack(state.rows, before.k))
    np.testing.assert_allclose(learner.mean(state), expected.theta, rtol=ROUNDING, atol=ROUNDING)
    assert np.abs(learner.mean(state) - learner.mean(before)).max() > 1e-4
    total = learner.form.first.weight.sum() + data.weight.sum()
    assert learner.columns(state).weight[0, 0] == pytest.approx(total, rel=1e-12)
    assert learner.columns(state).counts[:, 0].sum() == pytest.approx(total, rel=1e-12)


def test_before_the_first_row_the_fit_is_the_optimum_on_the_warm_up_rows():
    first = unequal_rows(500, seed=1)
    learner, W, reached = begin(task_of(), first)
    assert reached
    optimum = exact(task_of(), learner, W, first).solve()
    np.testing.assert_allclose(learner.mean(learner.init(3))[:, 0], optimum.theta, atol=1e-7)
    np.testing.assert_allclose(learner.init(3).push[:, 0], optimum.push, atol=1e-7)


# -- Shards -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["demographic_parity", "false_positive_rate", None])
def shards(request):
    """A learner, its state after the warm-up rows, two shards with their own weights, and one pass over all rows."""
    task = task_of(request.param, tolerance=0.02)
    data = unequal_rows(12_007, seed=4, weighted=True)
    learner, W, _ = begin(task, data.part(0, 2_000))
    rest = data._replace(weight=data.weight / data.weight[:2_000].mean()).part(2_000).moved(W)
    start = learner.init(301)
    one = stepped(learner, rest.part(0, 4_005), start)
    two = stepped(learner.reseeded(Multipliers("two_point", 99)), rest.part(4_005), start)
    return learner, start, one, two, stepped(learner, rest, start), rest


def test_merging_counts_all_rows_once(shards):
    learner, start, one, two, whole, rest = shards
    merged = learner.merge(learner.completed(one), learner.completed(two))
    assert merged.k == whole.k == 12_007
    first, second = learner.columns(one), learner.columns(two)
    np.testing.assert_allclose(merged.weight, first.weight + second.weight - start.weight, rtol=1e-12)
    np.testing.assert_allclose(merged.counts, first.counts + second.counts - start.counts, rtol=1e-12)
    total = learner.form.first.weight.sum() + rest.weight.sum()
    assert merged.weight[0, 0] == pytest.approx(total, rel=1e-12)
    np.testing.assert_allclose(merged.counts[:, 0], learner.columns(whole).counts[:, 0], rtol=1e-12)
    assert np.array_equal(merged.origin, start.origin)


def test_merged_shards_are_close_to_one_pass(shards):
    learner, _, one, two, whole, _ = shards
    merged, expected = learner.merge(learner.completed(one), learner.completed(two)), learner.columns(whole)
    sd = expected.theta[:, 1:].std(axis=1)
    assert np.abs((merged.theta[:, 0] - expected.theta[:, 0]) / sd).max() < 0.3
    assert (
        np.abs((learner.merge(learner.completed(two), learner.completed(one)).theta - merged.theta) / sd[:, None]).max()
        < 1e-6
    )
    np.testing.assert_allclose(merged.value[:, 0], expected.value[:, 0], atol=0.01)
    np.testing.assert_allclose(learner.pushes(merged)[0][:, 0], expected.push[:, 0], atol=0.02)


def test_merged_replicates_have_the_spread_of_one_pass(shards):
    learner, _, one, two, whole, _ = shards
    merged, expected = learner.mean(learner.merge(learner.completed(one), learner.completed(two))), learner.mean(whole)
    ratio = merged[:, 1:].std(axis=1) / expected[:, 1:].std(axis=1)
    assert ratio.min() > 0.8
    assert ratio.max() < 1.25
    sd = expected[:, 1:].std(axis=1)
    assert np.abs((merged[:, 1:].mean(axis=1) - merged[:, 0]) / sd).max() < 0.4


def test_merged_shards_are_within_the_tolerance(shards):
    learner, _, one, two, *_ = shards
    _, gaps = learner.pushes(learner.merge(learner.completed(one), learner.completed(two)))
    assert np.abs(gaps).max(initial=0.0) < 0.02 + 1e-9


def test_values_of_merged_shards_are_those_at_the_merged_coefficients():
    task = task_of(tolerance=0.05)
    data = unequal_rows(6_000, seed=4)
    learner, W, _ = begin(task, data.part(0, 1_000))
    rest = data.part(1_000).moved(W)
    first = np.random.default_rng(0).random(5_000) < np.where(rest.group[:, 0] == 0, 0.9, 0.1)
    start = learner.init(1)
    one, two = (stepped(learner, rest._replace(**{n: a[rows] for n, a in rest._asdict().items()}), start)
                for rows in (first, ~first))  # fmt: skip
    merged = learner.merge(learner.completed(one), learner.completed(two))
    tangent = exact(task, learner, W, data).tangent(merged.theta[:, 0])
    np.testing.assert_allclose(merged.value[:, 0], tangent.mean, atol=0.02)


@pytest.mark.parametrize("n_columns", [1, 9, 40])
def test_bits_of_merged_shards_do_not_depend_on_the_number_of_replicates(shards, n_columns):
    learner, _, one, two, *_ = shards
    many = learner.merge(learner.completed(one), learner.completed(two))
    few = (
        shard._replace(**{name: getattr(shard, name)[:, :n_columns].copy() for name in MOVING}) for shard in (one, two)
    )
    some = learner.merge(*map(learner.completed, few))
    for name in MOVING:
        assert np.array_equal(getattr(many, name)[:, :n_columns], getattr(some, name)), name
    for name in SHARED:
        assert np.array_equal(getattr(many, name), getattr(some, name)), name


def test_training_continues_after_a_merge(shards):
    learner, _, one, two, _, rest = shards
    merged = learner.merge(learner.completed(one), learner.completed(two))
    few = merged._replace(**{name: getattr(merged, name)[:, :5].copy() for name in MOVING})
    more = rest.part(0, 3 * BLOCK)
    found = stepped(learner, more, few)
    assert found.k == 12_007 + 3 * BLOCK
    assert_close(found, referenced(learner, more, few))


def test_a_shard_without_rows_changes_nothing(shards):
    learner, start, one, *_ = shards
    merged = learner.merge(learner.completed(one), learner.completed(start))
    sd = learner.mean(one)[:, 1:].std(axis=1)
    assert merged.k == one.k
    np.testing.assert_allclose(merged.weight, learner.columns(one).weight, rtol=1e-12)
    assert np.abs((merged.theta - learner.mean(one)) / sd[:, None]).max() < 0.1


def test_merging_sees_all_rows_once():
    learner, W = make()
    data = unequal_rows(10 * BLOCK, seed=2).moved(W)
    start = learner.init(3)
    one, two = stepped(learner, data.part(0, 160), start), stepped(learner, data.part(160), start)
    assert learner.merge(learner.completed(one), learner.completed(two)).seen.sum() == N_FIRST + 10 * BLOCK


# -- What it converges to ---------------------------------------------------------------------------------------------


STREAMS = {
    "impact": (SyntheticDI, "demographic_parity", {}, 0.15),
    "impact within a tolerance": (SyntheticDI, "demographic_parity", {"tolerance": 0.05}, 0.15),
    "mistreatment": (SyntheticDM, "false_positive_rate", {}, 0.4),
    "mistreatment within a tolerance": (SyntheticDM, "false_positive_rate", {"tolerance": 0.05}, 0.4),
    "mistreatment with a penalty": (SyntheticDM, "false_positive_rate", {"penalty": 5.0}, 0.4),
}


@pytest.mark.parametrize("name", STREAMS)
def test_one_pass_ends_at_the_exact_optimum_on_the_same_rows(name):
    stream, criterion, use, share = STREAMS[name]
    task = task_of(criterion, **use)
    data = synthetic_rows(stream, 20_000, seed=1)
    learner, W, reached = begin(task, data.part(0, 4_000))
    assert reached
    theta = learner.mean(stepped(learner, data.part(4_000).moved(W), 101))
    optima = exact(task, learner, W, data).optima(task.tolerance, task.penalty)
    sd = theta[:, 1:].std(axis=1)
    off = [np.abs((theta[:, 0] - optimum.theta) / sd).max() for optimum in optima if optimum.reached]
    assert min(off) < share
    assert (
        max(np.abs((learner.settings.start - optimum.theta) / sd).max() for optimum in optima if optimum.reached) > 1.0
    )


def test_one_pass_over_three_groups_ends_at_the_exact_optimum():
    task = task_of(sizes=(3,), tolerance=0.05)
    data = unequal_rows(20_000, (3,), seed=1)
    learner, W, _ = begin(task, data.part(0, 4_000))
    state = stepped(learner, data.part(4_000).moved(W), 101)
    theta = learner.mean(state)
    optimum = exact(task, learner, W, data).solve(0.05)
    assert np.abs((theta[:, 0] - optimum.theta) / theta[:, 1:].std(axis=1)).max() < 0.4
    push, gaps = learner.pushes(state)
    np.testing.assert_allclose(push[:, 0], optimum.push, atol=0.02)
    assert np.abs(gaps).max() < 0.0501


@pytest.mark.parametrize("loss", LOSSES)
def test_without_a_constraint_one_pass_ends_at_the_optimum(loss):
    task = task_of(None, loss=loss)
    data = unequal_rows(10_000, weighted=True)
    data = data._replace(weight=data.weight / data.weight[:1_000].mean())
    learner, W, _ = begin(task, data.part(0, 1_000))
    theta = learner.mean(stepped(learner, data.part(1_000).moved(W), 41))
    V = learner.settings.multipliers.draw(0, 10_000, 41)
    sd = theta[:, 1:].std(axis=1)
    for column in range(6):
        optimum = exact(task, learner, W, data, V[:, column]).solve()
        assert np.abs((theta[:, column] - optimum.theta) / sd).max() < 0.25


def test_replicates_begin_at_the_optima_on_the_warm_up_rows_with_their_own_weights():
    task = task_of(tolerance=0.05)
    first = synthetic_rows(SyntheticDI, 4_000, seed=1)
    learner, W, _ = begin(task, first)
    theta = learner.init(6).theta
    V = learner.settings.multipliers.draw(0, 4_000, 6)
    for column in range(6):
        optima = exact(task, learner, W, first, V[:, column]).optima(0.05)
        assert (
            min(np.abs(theta[:, column] - optimum.theta).max() for optimum in optima) < 1e-3 * theta.std(axis=1).max()
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["impact", "mistreatment within a tolerance"])
def test_replicates_have_the_spread_of_exact_optima_with_their_weights(name):
    stream, criterion, use, _ = STREAMS[name]
    task = task_of(criterion, **use)
    data = synthetic_rows(stream, 8_000, seed=1)
    learner, W, _ = begin(task, data.part(0, 4_000))
    theta = learner.mean(stepped(learner, data.part(4_000).moved(W), 31))
    V = learner.settings.multipliers.draw(0, 8_000, 31)
    optima = []
    for column in range(31):
        ends = exact(task, learner, W, data, V[:, column]).optima(task.tolerance)
        optima.append(min((end.theta for end in ends), key=lambda end: np.abs(end - theta[:, column]).max()))
    optima = np.array(optima).T
    sd = optima[:, 1:].std(axis=1)
    off = (theta - optima) / sd[:, None]
    assert np.sqrt(np.mean(off**2, axis=1)).max() < 0.6
    np.testing.assert_allclose(theta[:, 1:].std(axis=1) / sd, 1.0, atol=0.25)


@pytest.mark.parametrize("law", sorted(set(LAWS) - SIGNED_LAWS))
def test_every_law_of_multipliers_gives_the_same_spread(law):
    data = unequal_rows(6_000, seed=5)
    found = {}
    for name in {law, "two_point"}:
        learner, W, _ = begin(task_of(), data.part(0, 2_000), name)
        found[name] = learner.mean(stepped(learner, data.part(2_000).moved(W), 201))
    assert np.isfinite(found[law]).all()
    assert np.array_equal(found[law][:, 0], found["two_point"][:, 0])
    ratio = found[law][:, 1:].std(axis=1) / found["two_point"][:, 1:].std(axis=1)
    assert ratio.min() > 0.75
    assert ratio.max() < 1.33


def hard_gap(score, group):
    positive = score > 0.0
    return positive[group[:, 0] == 1].mean() - positive[group[:, 0] == 0].mean()


@pytest.mark.parametrize("tolerance", [0.0, 0.05, 0.2])
def test_the_gap_of_decisions_on_other_rows_is_the_tolerance(tolerance):
    data, other = unequal_rows(20_000, seed=6), unequal_rows(20_000, seed=7)
    learner, W, _ = begin(task_of(tolerance=tolerance), data.part(0, 2_000))
    theta = learner.mean(stepped(learner, data.part(2_000).moved(W), 1))[:, 0]
    free_theta = learner_without(data.part(0, 2_000))
    assert abs(hard_gap(other.X @ free_theta, other.group)) > 0.25
    assert abs(hard_gap(other.X @ (W @ theta), other.group)) == pytest.approx(tolerance, abs=0.03)


def learner_without(first):
    learner, W, _ = begin(task_of(None), first)
    return W @ learner.settings.start


# -- Which pairs are constrained --------------------------------------------------------------------------------------


def test_groups_that_do_not_differ_are_not_constrained():
    followed = 0
    for seed in range(20):
        data = equal_rows(2_000, seed)
        learner, W, _ = begin(task_of(), data.part(0, 1_000))
        without, *_ = begin(task_of(None), data.part(0, 1_000))
        rest = data.part(1_000).moved(W)
        state = learner.init(3)
        ever = state.followed.any()
        for low in range(0, 1_000, BLOCK):
            state = stepped(learner, rest.part(low, low + BLOCK), state)
            ever |= state.followed.any()
        followed += ever
        if not ever:
            assert not learner.form.push.any()
            np.testing.assert_allclose(learner.mean(state), without.mean(stepped(without, rest, 3)), atol=1e-9)
    assert followed <= 2


def test_groups_that_differ_are_constrained():
    for seed in range(5):
        data = unequal_rows(1_000, seed=seed)
        learner, *_ = begin(task_of(), data)
        assert learner.init(1).followed.all()


def test_a_group_with_few_rows_is_not_constrained():
    data = unequal_rows(1_000, (2, 2), seed=3)
    few = data.group.copy()
    few[np.flatnonzero(few[:, 0] == 1)[29:], 0] = -1
    learner, *_ = begin(task_of(sizes=(2, 2)), data._replace(group=few))
    state = learner.init(1)
    assert state.seen[:, 0].min() == 29
    assert state.followed[:, 0].tolist() == [0.0, 1.0]
    assert state.push[0, 0] == 0.0


def test_when_a_pair_is_released_the_fit_moves_to_the_free_optimum():
    data = unequal_rows(N_FIRST + BLOCK, seed=1)
    learner, W, _ = begin(task_of(tolerance=0.15), data.part(0, N_FIRST))
    without, *_ = begin(task_of(None), data.part(0, N_FIRST))
    state = learner.init(9)
    assert state.followed.all()
    released = state._replace(followed=np.zeros_like(state.followed))
    block = data.part(N_FIRST).moved(W)
    free_theta = without.mean(stepped(without, block, 9))
    distance = np.linalg.norm(learner.mean(state) - free_theta, axis=0)
    after = stepped(learner, block, released)
    assert not after.push.any()
    assert (np.linalg.norm(after.theta - free_theta, axis=0) < 0.6 * distance).all()
