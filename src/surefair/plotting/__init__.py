"""Displays that draw intervals, in the manner of scikit-learn: one file each.

A file of this folder that defines ``DISPLAY``, a subclass of `Display`, adds that class to ``DISPLAYS`` and to this
module. A new display is one new file.

>>> sorted(DISPLAYS)[:3]
['ArbitrarinessDisplay', 'AuditDisplay', 'CalibrationDisplay']
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

from surefair.plotting.drawing import Display

if TYPE_CHECKING:  # for type checkers and editors; at run time the search below finds the same classes, and new ones
    from surefair.plotting.arbitrariness import ArbitrarinessDisplay as ArbitrarinessDisplay
    from surefair.plotting.audit import AuditDisplay as AuditDisplay
    from surefair.plotting.calibration import CalibrationDisplay as CalibrationDisplay
    from surefair.plotting.coefficient import CoefficientDisplay as CoefficientDisplay
    from surefair.plotting.density import DensityDisplay as DensityDisplay
    from surefair.plotting.fairness_interval import FairnessIntervalDisplay as FairnessIntervalDisplay
    from surefair.plotting.frontier import FrontierDisplay as FrontierDisplay
    from surefair.plotting.interval_path import IntervalPathDisplay as IntervalPathDisplay
    from surefair.plotting.threshold import ThresholdDisplay as ThresholdDisplay


def _find() -> dict[str, type[Display]]:
    """Import every file of this folder and return its display, by the name of the class."""
    modules = [importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    displays = [module.DISPLAY for module in modules if hasattr(module, "DISPLAY")]
    return {display.__name__: display for display in displays}


DISPLAYS = _find()
globals().update(DISPLAYS)

__all__ = ["DISPLAYS", "Display", *DISPLAYS]
