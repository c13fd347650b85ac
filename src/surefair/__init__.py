"""Surefair: how certain are you that the model is fair.

Linear classifiers trained in one pass under a fairness criterion, and beside them the bootstrap replicates that turn
into confidence intervals for their unfairness and their coefficients.
"""

from surefair import datasets, theory
from surefair.checkpoints import load, save
from surefair.criteria import CRITERIA, Criterion
from surefair.estimators import FairClassifier
from surefair.intervals import Interval, fairness_interval
from surefair.schedules import PolynomialDecay

__version__ = "0.1.0.dev0"

__all__ = [
    "CRITERIA",
    "Criterion",
    "FairClassifier",
    "Interval",
    "PolynomialDecay",
    "datasets",
    "fairness_interval",
    "load",
    "save",
    "theory",
]
