"""Labels: two values of any type.

>>> label_levels(check_labels(["no", "yes", "no"]).found).values.tolist()
['no', 'yes']
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import type_of_target

from surefair.rows.columns import CodedColumn
from surefair.rows.groups import Levels


def check_labels(y: Any, estimator: str = "FairClassifier") -> CodedColumn:
    """Return labels as one column of a type that can be a class."""
    if y is None:
        raise ValueError(f"This {estimator} estimator requires y to be passed, but the target y is None.")
    if getattr(y, "ndim", 1) == 2 and not isinstance(y, np.ma.MaskedArray):
        y = column_or_1d(y, warn=True)
    labels = CodedColumn.of(y, "label")
    if labels.found.dtype.kind == "f" and np.isinf(labels.found).any():
        raise ValueError("Input y contains infinity. Labels are two values, such as 0 and 1.")
    return labels


def label_levels(declared: Any, classes: Any = None) -> Levels:
    """Return the labels, of which there must be at most two."""
    levels = Levels.of(declared, "label")
    if classes is not None and len(levels.values) != 2:
        raise ValueError(f"classes must hold both labels; received {list(classes)!r}.")
    if len(levels.values) > 2:
        raise ValueError(
            f"Only binary classification is supported. The type of the target is {type_of_target(declared)}: "
            f"exactly two labels are needed, received {len(levels.values)} "
            f"({', '.join(map(repr, levels.values[:5].tolist()))}{', …' if len(levels.values) > 5 else ''})."
        )
    return levels


def check_both_labels(levels: Levels) -> None:
    """Refuse rows of one label only."""
    if len(levels.values) == 1:
        raise ValueError(
            f"Classifier can't train when only one class is present: exactly two labels are needed, received "
            f"{levels.values.tolist()}."
        )
