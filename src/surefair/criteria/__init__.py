"""Criteria: what is compared between groups.

Each file without a leading underscore defines one criterion, called ``CRITERION``, and has its name. To add a
criterion, add one file: ``CRITERIA`` finds it, and so do the metrics, the laws in the tests and the audit. A criterion
without a form of constraint is measure-only: every metric can measure it, but no classifier can train with it.

>>> CRITERIA["false_positive_rate"].rates[0].words
'share of positive decisions among the truly negative'
"""

from __future__ import annotations

import importlib
import pkgutil

from surefair.criteria._comparisons import (
    FEW,
    SEVERAL,
    SURROGATES,
    Comparisons,
    Entries,
    surrogate,
)
from surefair.criteria._criterion import Criterion, Rate
from surefair.criteria._forms import (
    Form,
    Members,
    Penalty,
    Slabs,
    SoftRatePenalty,
    SquaredPenalty,
    kinked,
    linearise,
)
from surefair.names import one_of

__all__ = [
    "CRITERIA",
    "FEW",
    "SEVERAL",
    "SURROGATES",
    "Comparisons",
    "Criterion",
    "Entries",
    "Form",
    "Members",
    "Penalty",
    "Rate",
    "Slabs",
    "SoftRatePenalty",
    "SquaredPenalty",
    "check_names",
    "get_criterion",
    "kinked",
    "linearise",
    "surrogate",
]


def check_names(found: dict[str, Criterion]) -> dict[str, Criterion]:
    """Return the criteria by file name if each has the name of its file.

    Raises
    ------
    ValueError
        If a criterion and its file have different names.
    """
    for name, criterion in found.items():
        if criterion.name != name:
            raise ValueError(
                f"The criterion in criteria/{name}.py is called {criterion.name!r}. Give both the same name."
            )
    return found


CRITERIA: dict[str, Criterion] = check_names(
    {
        found.name: importlib.import_module(f"{__name__}.{found.name}").CRITERION
        for found in pkgutil.iter_modules(__path__)
        if not found.name.startswith("_")
    }
)
"""All criteria by name."""


def get_criterion(criterion: str | Criterion, what: str = "criterion") -> Criterion:
    """Return the criterion with this name; a :class:`Criterion` is returned unchanged.

    Examples
    --------
    >>> get_criterion("error_rate").can_constrain
    True
    """
    return criterion if isinstance(criterion, Criterion) else CRITERIA[one_of(criterion, CRITERIA, what)]
