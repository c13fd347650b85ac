"""Decisions as they come: confidence sequences that are valid at all times, alarms, and a status page.

``monitor.py`` has the public class ``FairnessMonitor``. Its state is made of counts (``inference/stretches.py``), the
``detector``, and decisions ``waiting`` for labels. ``watching.py`` follows files for ``surefair watch``. ``river.py``
needs River.
"""

import importlib
from typing import Any

from surefair.monitor.detector import Alarm

__all__ = ["Alarm"]


def __getattr__(name: str) -> Any:
    if name == "river":
        return importlib.import_module("surefair.monitor.river")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
