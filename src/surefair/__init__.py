"""Surefair: how certain are you that the model is fair.

Linear classifiers trained in one pass under a fairness criterion, and beside them the bootstrap replicates that turn
into confidence intervals for their unfairness and their coefficients.
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers and editors; at run time `__getattr__` finds the same names
    from surefair import criteria as criteria
    from surefair import datasets as datasets
    from surefair import diagnostics as diagnostics
    from surefair import monitor as monitor
    from surefair import parallel as parallel
    from surefair import plotting as plotting
    from surefair.audit.api import audit, resume
    from surefair.audit.result import Audit
    from surefair.bootstrap import BootstrapClassifier
    from surefair.calibration import Calibration, calibrate
    from surefair.classifier import FairClassifier, load, save
    from surefair.criteria import CRITERIA, Criterion
    from surefair.inference import scoring as scoring
    from surefair.inference import theory as theory
    from surefair.inference.arbitrariness import Arbitrariness
    from surefair.inference.comparison import Comparison, compare
    from surefair.inference.decisions import fairness_interval, joint_intervals
    from surefair.inference.interval import Interval
    from surefair.inference.joint import JointIntervals
    from surefair.inference.planning import Plan, plan
    from surefair.inference.scoring import mean_interval_score, wasserstein2
    from surefair.inference.thresholds import ThresholdCurve, threshold_curve
    from surefair.learners.schedules import PolynomialDecay
    from surefair.monitor.monitor import FairnessMonitor
    from surefair.selection.alternative import Alternative, alternative
    from surefair.selection.frontier import Frontier, frontier
    from surefair.selection.scorer import fairness_scorer

__version__ = "0.1.0.dev0"

# Where each public name is. A module is imported when one of its names is first used: scikit-learn, SciPy, pandas and
# numba together take more than a second, and `surefair --help` needs none of them.
_HOME = {
    "Alternative": "surefair.selection.alternative",
    "Arbitrariness": "surefair.inference.arbitrariness",
    "Audit": "surefair.audit.result",
    "BootstrapClassifier": "surefair.bootstrap",
    "CRITERIA": "surefair.criteria",
    "Calibration": "surefair.calibration",
    "Comparison": "surefair.inference.comparison",
    "Criterion": "surefair.criteria",
    "FairClassifier": "surefair.classifier",
    "FairnessMonitor": "surefair.monitor.monitor",
    "Frontier": "surefair.selection.frontier",
    "Interval": "surefair.inference.interval",
    "JointIntervals": "surefair.inference.joint",
    "Plan": "surefair.inference.planning",
    "PolynomialDecay": "surefair.learners.schedules",
    "ThresholdCurve": "surefair.inference.thresholds",
    "alternative": "surefair.selection.alternative",
    "audit": "surefair.audit.api",
    "calibrate": "surefair.calibration",
    "compare": "surefair.inference.comparison",
    "fairness_interval": "surefair.inference.decisions",
    "fairness_scorer": "surefair.selection.scorer",
    "frontier": "surefair.selection.frontier",
    "joint_intervals": "surefair.inference.decisions",
    "load": "surefair.classifier",
    "mean_interval_score": "surefair.inference.scoring",
    "plan": "surefair.inference.planning",
    "resume": "surefair.audit.api",
    "save": "surefair.classifier",
    "threshold_curve": "surefair.inference.thresholds",
    "wasserstein2": "surefair.inference.scoring",
}
_MODULES = {
    "criteria": "surefair.criteria",
    "datasets": "surefair.datasets",
    "diagnostics": "surefair.diagnostics",
    "monitor": "surefair.monitor",
    "parallel": "surefair.parallel",
    "plotting": "surefair.plotting",
    "scoring": "surefair.inference.scoring",
    "theory": "surefair.inference.theory",
}

__all__ = [
    "CRITERIA",
    "Alternative",
    "Arbitrariness",
    "Audit",
    "BootstrapClassifier",
    "Calibration",
    "Comparison",
    "Criterion",
    "FairClassifier",
    "FairnessMonitor",
    "Frontier",
    "Interval",
    "JointIntervals",
    "Plan",
    "PolynomialDecay",
    "ThresholdCurve",
    "alternative",
    "audit",
    "calibrate",
    "compare",
    "criteria",
    "datasets",
    "diagnostics",
    "fairness_interval",
    "fairness_scorer",
    "frontier",
    "joint_intervals",
    "load",
    "mean_interval_score",
    "monitor",
    "parallel",
    "plan",
    "plotting",
    "resume",
    "save",
    "scoring",
    "theory",
    "threshold_curve",
    "wasserstein2",
]


class _Surefair(ModuleType):
    """The package itself: importing the folder ``surefair.audit`` must not hide the function ``surefair.audit``."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Surefair

if not TYPE_CHECKING:  # a type checker that saw it would accept any name

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            value = importlib.import_module(_MODULES[name])
        elif name in _HOME:
            value = getattr(importlib.import_module(_HOME[name]), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
        globals()[name] = value  # found at once the next time
        return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
