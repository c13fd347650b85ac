"""The constraint set D': which rows it consists of, and what constraint the criterion puts on them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefair.criteria import Criterion, Form, Members, Slabs
from surefair.diagnostics import Diagnostic, small_constraint_set
from surefair.rows import FloatArray, Rows

CONSTRAINT_ROWS = 1_000  # rows in D' by default, at least
PER_FEATURE = 100  # rows in D' for each feature
MOST_CONSTRAINT = 5_000  # rows in D' by default, at most
FEW = 10  # rows of a group in D', below which it is measured but not constrained


def constrain(criterion: Criterion | None, rows: Rows, moved: Any) -> Form:
    """Impose the criterion on the rows of D', whose features are given in the learner's coordinates too."""
    groups = rows.names.groups
    if criterion is None or groups is None:
        return Slabs(np.zeros((0, moved.shape[1])))
    groups.check_comparable(", or use criterion=None to train without a constraint")
    for code, (column, levels) in zip(rows.group.T, groups.levels.items(), strict=True):
        of = "" if column is None else f" of {column!r}"
        for number, name in enumerate(levels.values.tolist()):
            inside = (code == number) & (rows.weight > 0.0)
            if not inside.any():
                raise ValueError(
                    f"The constraint set of {rows.n} rows has no row of group {name!r}{of}. Shuffle the rows, raise "
                    "n_constraint, pass a constraint_set with rows of every group, merge small groups, or drop a "
                    "category that no row has."
                )
            if not all((rate.looks_at(rows.y) & inside).any() for rate in criterion.rates):
                raise ValueError(
                    f"The constraint set of {rows.n} rows has no row of group {name!r}{of} with a label that the "
                    f"criterion {criterion.name!r} looks at. Raise n_constraint, pass a larger constraint_set, or "
                    "merge small groups."
                )
    return criterion.constrain(moved, rows.y, Members(rows.group, groups.sizes, rows.weight))


def choose_rows(
    rows: Rows, side: FloatArray, asked: int | None, criterion: Criterion | None
) -> tuple[NDArray[np.bool_], list[Diagnostic]]:
    """Choose which of the first rows of a file make the constraint set.

    If the criterion looks at hardly any row of a group in D', the constraint on it would reflect chance. The rows of
    such a group stay in training, so that the group is measured but not constrained.

    Parameters
    ----------
    rows : Rows
    side : ndarray of shape (n,)
        Random numbers of the rows; those with the smallest are chosen.
    asked : int, optional
        Number of rows; by default 100 for each feature, from 1,000 to 5,000. At most a fifth of the rows.
    criterion : Criterion or None

    Returns
    -------
    chosen : ndarray of bool
    found : list of Diagnostic
        One for each group that is left out.
    """
    wanted = asked or min(max(CONSTRAINT_ROWS, PER_FEATURE * rows.X.shape[1]), MOST_CONSTRAINT)
    n = max(1, min(wanted, rows.n // 5))
    chosen = side <= np.partition(side, n - 1)[n - 1]
    looked_at = [] if criterion is None else [rate.looks_at(rows.y) for rate in criterion.rates]
    few: dict[str, int] = {}
    before = -1
    while before < len(few):  # rows of one column's groups are rows of another's, so look again until nothing changes
        before = len(few)
        for name, inside in _members(rows).items():
            least = min((int((chosen & inside & part).sum()) for part in looked_at), default=FEW)
            if name not in few and least < FEW:
                chosen = chosen & ~inside
                few[name] = least
    return chosen, small_constraint_set.check_left_out(few, FEW)


def _members(rows: Rows) -> dict[str, NDArray[np.bool_]]:
    """Which rows belong to each group, by the group in words; groups without rows are left out."""
    inside = [
        code == number for code, size in zip(rows.group.T, rows.groups.sizes, strict=True) for number in range(size)
    ]
    return {name: some for name, some in zip(rows.groups.words, inside, strict=True) if some.any()}
