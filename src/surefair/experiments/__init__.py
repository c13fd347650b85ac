"""The paper's figures and tables, one file per kind of experiment.

A file of this folder that defines ``EXPERIMENTS`` adds a kind. Each experiment knows its data, how to run one
repetition, and how to turn all repetitions into a result. A new kind is one new file.

>>> sorted(experiments())[:3]
['adult_accuracy', 'adult_coefficients', 'adult_log_loss']
"""

from __future__ import annotations

import importlib
import pkgutil

from surefair.experiments.experiment import Experiment


def experiments() -> dict[str, Experiment]:
    """All experiments by name, in the order of the paper."""
    modules = [importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    found = [one for module in modules for one in getattr(module, "EXPERIMENTS", ())]
    return {one.name: one for one in sorted(found, key=lambda one: one.place)}
