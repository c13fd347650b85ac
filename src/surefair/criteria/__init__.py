"""Criteria: what is fair. One file per criterion; a new file is found by itself.

>>> CRITERIA["false_positive_rate"].rates[0].words
'share of positive decisions among the truly negative'
"""

from __future__ import annotations

import importlib
import pkgutil

from surefair.criteria._criterion import Criterion, Rate
from surefair.criteria._forms import (
    Form,
    Members,
    Penalty,
    Slabs,
    SoftRatePenalty,
    SquaredPenalty,
    grid_for,
    kinked,
    linearise,
    on_grid,
)
from surefair.names import one_of

__all__ = [
    "CRITERIA",
    "Criterion",
    "Form",
    "Members",
    "Penalty",
    "Rate",
    "Slabs",
    "SoftRatePenalty",
    "SquaredPenalty",
    "get_criterion",
    "grid_for",
    "kinked",
    "linearise",
    "on_grid",
]

CRITERIA: dict[str, Criterion] = {
    found.name: importlib.import_module(f"{__name__}.{found.name}").CRITERION
    for found in pkgutil.iter_modules(__path__)
    if not found.name.startswith("_")
}


def get_criterion(criterion: str | Criterion, what: str = "criterion") -> Criterion:
    """Return a criterion by name, or as it is.

    Examples
    --------
    >>> get_criterion("error_rate").form.__name__
    'SquaredPenalty'
    """
    return criterion if isinstance(criterion, Criterion) else CRITERIA[one_of(criterion, CRITERIA, what)]
