"""Surefair: how certain are you that the model is fair.

Linear classifiers trained in one pass under a fairness criterion, and beside them the bootstrap replicates that turn
into confidence intervals for their unfairness and their coefficients.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers and editors; at run time `__getattr__` finds the same names
    from surefair import criteria as criteria
    from surefair import datasets, scoring, theory
    from surefair import diagnostics as diagnostics
    from surefair import distributed as distributed
    from surefair import plotting as plotting
    from surefair.auditing import audit, resume
    from surefair.audits import Audit
    from surefair.calibration import Calibration, calibrate
    from surefair.checkpoints import load, save
    from surefair.criteria import CRITERIA, Criterion
    from surefair.estimators import FairClassifier
    from surefair.intervals import Interval, fairness_interval
    from surefair.schedules import PolynomialDecay
    from surefair.scoring import mean_interval_score, wasserstein2

__version__ = "0.1.0.dev0"

__all__ = [
    "CRITERIA",
    "Audit",
    "Calibration",
    "Criterion",
    "FairClassifier",
    "Interval",
    "PolynomialDecay",
    "audit",
    "calibrate",
    "datasets",
    "fairness_interval",
    "load",
    "mean_interval_score",
    "resume",
    "save",
    "scoring",
    "theory",
    "wasserstein2",
]

# Where each name is. A module is imported when one of its names is first asked for: scikit-learn, SciPy, pandas and
# numba together take more than a second, and `surefair --help` needs none of them.
_HOME = {
    "Audit": "surefair.audits",
    "CRITERIA": "surefair.criteria",
    "Calibration": "surefair.calibration",
    "Criterion": "surefair.criteria",
    "FairClassifier": "surefair.estimators",
    "Interval": "surefair.intervals",
    "PolynomialDecay": "surefair.schedules",
    "audit": "surefair.auditing",
    "calibrate": "surefair.calibration",
    "fairness_interval": "surefair.intervals",
    "load": "surefair.checkpoints",
    "mean_interval_score": "surefair.scoring",
    "resume": "surefair.auditing",
    "save": "surefair.checkpoints",
    "wasserstein2": "surefair.scoring",
}
_MODULES = {
    "criteria",
    "datasets",
    "diagnostics",
    "distributed",
    "plotting",
    "scoring",
    "theory",
}  # sf.theory and so on

if not TYPE_CHECKING:  # a type checker that saw it would take any name for granted

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return importlib.import_module(f"{__name__}.{name}")  # which sets the attribute, too
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
        value = globals()[name] = getattr(importlib.import_module(_HOME[name]), name)  # at hand from now on
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
