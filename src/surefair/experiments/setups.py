"""The table of parameters in the paper, and two presets for everything that is not in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from surefair.learners.schedules import PolynomialDecay

LOSSES = ("log_loss", "squared_error")
TITLES = {
    "synthetic_di": "Synthetic data at risk of disparate impact",
    "adult": "Adult",
    "synthetic_dm": "Synthetic data at risk of disparate mistreatment",
    "compas": "COMPAS",
}


@dataclass(frozen=True)
class Setup:
    """One line of the table in the paper, and the number of training rows.

    Attributes
    ----------
    data : str
        Name of the data set.
    criterion : str
        Criterion that is enforced and measured. For disparate mistreatment it is the paper's example.
    tolerance : float
        ε.
    penalty : float or None
        R₂; None where the paper constrains.
    n_replicates, n_evaluation, n_constraint, repetitions : int
        B, the sizes of D̃ and of D', and the number of repetitions.
    rows : int
        Training rows. The paper's text gives them for the synthetic streams; for Adult and COMPAS they are our choice.
    """

    data: str
    criterion: str
    tolerance: float
    penalty: float | None
    n_replicates: int
    n_evaluation: int
    n_constraint: int
    repetitions: int
    rows: int


TABLE = {
    one.data: one
    for one in (
        Setup("synthetic_di", "demographic_parity", 0.002, None, 100, 100, 200, 100, 4_000),
        Setup("adult", "demographic_parity", 0.00001, None, 200, 1000, 1000, 200, 20_000),
        Setup("synthetic_dm", "false_positive_rate", 0.0, 500.0, 100, 100, 250, 100, 4_000),
        Setup("compas", "false_positive_rate", 0.0, 300.0, 200, 400, 250, 200, 4_000),
    )
}


@dataclass(frozen=True)
class Preset:
    """How to run a setup.

    Attributes
    ----------
    name : str
    step_size : PolynomialDecay or str
        A schedule is the paper's algorithm, with a constraint that D' fixes; with "auto" it is learnt from all rows.
    tolerance : float or None
        Largest gap of decisions, in place of the tolerance or penalty of the setup.
    multiplier : str
    sizes : dict of str to int
        Sizes that replace those of the setup.
    signed : bool
        Whether intervals are for the signed gap. Otherwise they are quantiles of its absolute value.
    bands : dict of str to str
        Sources of the intervals, with the method of each.
    covariance, coef_method : str
        Name of the function in ``theory`` that computes the covariance of the limit law, and the method of
        ``coef_interval``.
    """

    name: str
    step_size: PolynomialDecay | str
    tolerance: float | None
    multiplier: str
    sizes: dict[str, int]
    signed: bool
    bands: dict[str, str]
    covariance: str
    coef_method: str

    def size(self, setup: Setup, name: str) -> int:
        """Size from the setup, or the one that replaces it."""
        return self.sizes.get(name, int(getattr(setup, name)))

    def params(self, setup: Setup, loss: str) -> dict[str, Any]:
        """Parameters of the classifier."""
        found = {
            "criterion": setup.criterion,
            "loss": loss,
            "step_size": self.step_size,
            "multiplier": self.multiplier,
            "n_replicates": self.size(setup, "n_replicates"),
        }
        if self.tolerance is not None:
            return found | {"tolerance": self.tolerance}
        return found | {"tolerance": setup.tolerance, "penalty": setup.penalty, "n_warmup": setup.n_constraint}


OURS = {"n_replicates": 200, "n_evaluation": 5_000, "n_constraint": 0, "rows": 20_000}
PRESETS = {
    "paper": Preset(
        "paper",
        step_size=PolynomialDecay(0.01, 0.501),
        tolerance=None,
        multiplier="uniform",
        sizes={},
        signed=False,
        bands={"training": "paper"},
        covariance="paper_covariance",
        coef_method="percentile",
    ),
    "calibrated": Preset(
        "calibrated",
        step_size="auto",
        tolerance=0.05,
        multiplier="two_point",
        sizes=OURS,
        signed=True,
        bands={"training": "percentile", "retraining": "percentile"},
        covariance="asymptotic_covariance",
        coef_method="basic",
    ),
}
