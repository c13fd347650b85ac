"""Diagnostics: what can make a fit or an interval less trustworthy. One file each.

A file holds the class (what is assumed, advice for Python and for the command line, whether a definite verdict is ruled
out), its thresholds, and the checks, which take plain numbers and return what they find, most often nothing. The
package imports every file whose name has no leading underscore, and each must set ``DIAGNOSTIC``. A check runs only
where ``training/checks.py``, ``inference/checks.py`` or another module calls it.

>>> import warnings
>>> from surefair.diagnostics import TooFewReplicates
>>> warnings.filterwarnings("ignore", category=TooFewReplicates)
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import warnings
from collections.abc import Iterable
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING

from surefair.diagnostics._diagnostic import Diagnostic, upper_limit

if TYPE_CHECKING:  # for type checkers and editors; at run time the registry sets the same names
    from surefair.diagnostics.boundary_constraint import BoundaryConstraint as BoundaryConstraint
    from surefair.diagnostics.chance_constraint import ChanceConstraint as ChanceConstraint
    from surefair.diagnostics.changing_gap import ChangingGap as ChangingGap
    from surefair.diagnostics.coarse_scores import CoarseScores as CoarseScores
    from surefair.diagnostics.constant_decisions import ConstantDecisions as ConstantDecisions
    from surefair.diagnostics.covariance_disagreement import CovarianceDisagreement as CovarianceDisagreement
    from surefair.diagnostics.degenerate_replicates import DegenerateReplicates as DegenerateReplicates
    from surefair.diagnostics.dependent_rows import DependentRows as DependentRows
    from surefair.diagnostics.entangled_gaps import EntangledGaps as EntangledGaps
    from surefair.diagnostics.exceeded_tolerance import ExceededTolerance as ExceededTolerance
    from surefair.diagnostics.failed_refits import FailedRefits as FailedRefits
    from surefair.diagnostics.few_clusters import FewClusters as FewClusters
    from surefair.diagnostics.few_rows_near_boundary import FewRowsNearBoundary as FewRowsNearBoundary
    from surefair.diagnostics.ineffective_constraint import IneffectiveConstraint as IneffectiveConstraint
    from surefair.diagnostics.late_column import LateColumn as LateColumn
    from surefair.diagnostics.late_group import LateGroup as LateGroup
    from surefair.diagnostics.local_optima import LocalOptima as LocalOptima
    from surefair.diagnostics.low_coverage import LowCoverage as LowCoverage
    from surefair.diagnostics.no_sample_weight import NoSampleWeight as NoSampleWeight
    from surefair.diagnostics.path_too_short import PathTooShort as PathTooShort
    from surefair.diagnostics.rare_column import RareColumn as RareColumn
    from surefair.diagnostics.rare_decisions import RareDecisions as RareDecisions
    from surefair.diagnostics.repeated_rows import RepeatedRows as RepeatedRows
    from surefair.diagnostics.separable_data import SeparableData as SeparableData
    from surefair.diagnostics.small_constraint_set import SmallConstraintSet as SmallConstraintSet
    from surefair.diagnostics.small_evaluation_set import SmallEvaluationSet as SmallEvaluationSet
    from surefair.diagnostics.small_group import SmallGroup as SmallGroup
    from surefair.diagnostics.start_not_forgotten import StartNotForgotten as StartNotForgotten
    from surefair.diagnostics.step_bias import StepBias as StepBias
    from surefair.diagnostics.step_too_large import StepTooLarge as StepTooLarge
    from surefair.diagnostics.step_too_small import StepTooSmall as StepTooSmall
    from surefair.diagnostics.stopped_early import StoppedEarly as StoppedEarly
    from surefair.diagnostics.time_dependence import TimeDependence as TimeDependence
    from surefair.diagnostics.too_few_replicates import TooFewReplicates as TooFewReplicates
    from surefair.diagnostics.uninformative_model import UninformativeModel as UninformativeModel
    from surefair.diagnostics.unsettled_model import UnsettledModel as UnsettledModel

DIAGNOSTICS: dict[str, type[Diagnostic]] = {
    kind.__name__: kind
    for found in pkgutil.iter_modules(__path__)
    if not found.name.startswith("_")
    for kind in [importlib.import_module(f"{__name__}.{found.name}").DIAGNOSTIC]
}
"""All diagnostics by name."""

globals().update(DIAGNOSTICS)
PACKAGE = str(Path(__file__).parents[1])
__all__ = ["DIAGNOSTICS", "Diagnostic", "issue", "outside", "upper_limit", *DIAGNOSTICS]


def issue(found: Iterable[Diagnostic]) -> None:
    """Issue diagnostics as warnings, at the line outside of surefair from which it was called."""
    for one in dict.fromkeys(found):
        warnings.warn(copy(one), stacklevel=outside())  # a copy: raised as an error, a warning keeps its traceback


def outside() -> int:
    """Stack level at which the calling function must warn, so that the line outside of surefair is shown."""
    frame = inspect.currentframe()
    level = 0
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
        level += 1
    return level
