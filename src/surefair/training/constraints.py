"""The constraint that a criterion puts on the rows of a constraint set D', where that is fixed as in the paper."""

from __future__ import annotations

from typing import Any

import numpy as np

from surefair.criteria import Criterion, Form, Members, Slabs
from surefair.names import counted
from surefair.rows import Rows


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
                    f"The constraint set of {counted(rows.n, 'row')} has no row of group {name!r}{of}. Shuffle the "
                    "rows, raise n_warmup, pass a constraint_set with rows of every group, merge small groups, or drop "
                    "a category that no row has."
                )
            if not all((rate.looks_at(rows.y) & inside).any() for rate in criterion.rates):
                raise ValueError(
                    f"The constraint set of {counted(rows.n, 'row')} has no row of group {name!r}{of} with a label "
                    f"that the criterion {criterion.name!r} looks at. Raise n_warmup, pass a larger constraint_set, or "
                    "merge small groups."
                )
    return criterion.constrain(moved, rows.y, Members(rows.group, groups.sizes, rows.weight))
