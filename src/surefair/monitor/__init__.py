"""Decisions as they come: confidence sequences that are valid at all times, alarms, and a status page.

``monitor.py`` has the public class ``FairnessMonitor``. Its state is made of counts (``inference/stretches.py``), the
``detector``, and decisions ``waiting`` for labels.
"""

from surefair.monitor.detector import Alarm

__all__ = ["Alarm"]
