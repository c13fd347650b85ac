"""The paper's figures and tables, one file per kind of experiment.

Every module of this folder without a leading underscore is a kind: its ``EXPERIMENTS`` are experiments, each of which
knows its data, its repetition, and what to make of many of them. Adding a kind is adding one file.

>>> sorted(experiments())[:3]
['adult_accuracy', 'adult_coefficients', 'adult_log_loss']
"""

from __future__ import annotations

import importlib
import pkgutil

from surefair.experiments._experiment import Experiment


def experiments() -> dict[str, Experiment]:
    """All experiments by name, in the order of the paper."""
    modules = [
        importlib.import_module(f"{__name__}.{found.name}")
        for found in pkgutil.iter_modules(__path__)
        if not found.name.startswith("_")
    ]
    found = [one for module in modules for one in module.EXPERIMENTS]
    return {one.name: one for one in sorted(found, key=lambda one: one.place)}
