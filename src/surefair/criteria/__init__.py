"""Criteria: what is fair. One file per criterion; a new file is found by itself.

>>> sorted(CRITERIA)
['demographic_parity', 'error_rate', 'false_negative_rate', 'false_positive_rate']
"""

from __future__ import annotations

import importlib
import pkgutil

from surefair.criteria._criterion import Criterion, Form, Slab, SquaredPenalty

__all__ = ["CRITERIA", "Criterion", "Form", "Slab", "SquaredPenalty"]

CRITERIA: dict[str, Criterion] = {
    found.name: importlib.import_module(f"{__name__}.{found.name}").CRITERION
    for found in pkgutil.iter_modules(__path__)
    if not found.name.startswith("_")
}
