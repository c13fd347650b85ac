"""What rows add to cells, against rates counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from surefair import kernels
from surefair.criteria import CRITERIA, SURROGATES, Comparisons

CONSTRAINED = [name for name, criterion in CRITERIA.items() if criterion.can_constrain]


@pytest.mark.parametrize("name", CONSTRAINED)
def test_cells_of_hard_decisions_give_the_rates(name):
    rng = np.random.default_rng(1)
    sizes = (2, 3)
    y = rng.choice([-1.0, 1.0], size=500)
    group = np.stack([rng.integers(size, size=500) for size in sizes], axis=1)
    decision = rng.integers(2, size=500)
    criterion = CRITERIA[name]
    c = Comparisons.of(criterion, "decisions", sizes)
    entries = c.entries(y, group)
    value = entries.constant + entries.sign * decision[:, None]
    some = entries.cell >= 0
    count = np.bincount(entries.cell[some], minlength=c.n_cells)
    mean = np.bincount(entries.cell[some], value[some], minlength=c.n_cells) / count
    found = np.where(c.below < 0, mean[: c.n_rates], mean[: c.n_rates] / mean[c.below])
    expected = []
    for rate in criterion.rates:
        for code, size in zip(group.T, sizes, strict=True):
            table = np.zeros((size, 2, 2))
            np.add.at(table, (code, (y > 0).astype(int), decision), 1.0)
            expected += rate.of(table).tolist()
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("name", CONSTRAINED)
def test_every_pair_of_groups_of_a_column_is_compared_in_every_rate(name, surrogate):
    c = Comparisons.of(CRITERIA[name], surrogate, (2, 4))
    assert len(c.pairs) == len(CRITERIA[name].rates) * (1 + 6)
    assert len({tuple(pair) for pair in c.pairs.tolist()}) == len(c.pairs)


def test_scores_of_parity_are_linear_and_those_of_error_rates_are_hinges():
    assert Comparisons.of(CRITERIA["demographic_parity"], "scores", (2,)).kind == kernels.LINEAR
    assert Comparisons.of(CRITERIA["false_positive_rate"], "scores", (2,)).kind == kernels.HINGE


def test_rows_of_no_known_group_add_nothing():
    c = Comparisons.of(CRITERIA["equalized_odds"], "decisions", (2,))
    assert c.entries(np.array([1.0, -1.0]), np.array([[-1], [-1]])).cell.max() == -1


def test_without_a_criterion_there_is_nothing_to_compare():
    c = Comparisons.of(None, "decisions", (2,))
    assert (c.n_cells, len(c.pairs)) == (0, 0)
    assert c.entries(np.ones(3), np.zeros((3, 1), dtype=int)).cell.shape == (3, 0)
