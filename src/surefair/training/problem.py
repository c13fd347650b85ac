"""Problem: what is to be learnt, and how."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from types import NoneType
from typing import Any

import numpy as np

from surefair.criteria import CRITERIA, SURROGATES, Criterion
from surefair.learners import Settings
from surefair.learners.multipliers import LAWS, SIGNED_LAWS, Multipliers
from surefair.learners.schedules import PolynomialDecay
from surefair.losses import LOSSES, Loss
from surefair.rows import FloatArray
from surefair.storage.checks import value_of

SOLVERS = ("auto", "one_pass", "exact")
MOST_ROWS = 50_000  # that "auto" solves exactly
MOST_WORK = 4e8  # numbers in these rows, times fits and replicates; about a second


@dataclass(frozen=True, eq=False)
class Problem:
    """The parameters of a classifier, with names looked up.

    Attributes
    ----------
    criterion : Criterion or None
        What is constrained; None for nothing.
    loss : Loss
    tolerance : float
        ε of a constraint.
    surrogate : {"decisions", "scores"}
        What a constraint that is learnt from all rows compares.
    penalty : float or None
        R₂ of a penalty. None is a constraint or, where a fixed constraint needs a penalty, the weight 1.
    sharpness : float or None
        Inverse width of a decision in a constraint that is learnt; otherwise τ of a penalty with rounded kinks. None
        for the default.
    alpha : float
        κ of the ridge κ‖θ‖²/2.
    step_size : PolynomialDecay or None
        The schedule; None for "auto". A schedule is the paper's algorithm, whose constraint is fixed.
    solver : {"auto", "one_pass", "exact"}
    n_replicates : int
    multiplier : str
        Law of the replicates' weights, or "auto".
    seed : int
        Seed of these weights.
    n_warmup : int
        First rows: a fit whose constraint is learnt begins with them; under a schedule they are the constraint set.
    fit_intercept : bool
    intersections : bool
        Whether intersections of the sensitive columns are groups too.
    dtype : {"float64", "float32"}
    """

    criterion: Criterion | None
    loss: Loss
    tolerance: float
    surrogate: str
    penalty: float | None
    sharpness: float | None
    alpha: float
    step_size: PolynomialDecay | None
    solver: str
    n_replicates: int
    multiplier: str
    seed: int
    n_warmup: int
    fit_intercept: bool
    intersections: bool
    dtype: str

    @property
    def learns(self) -> bool:
        """Whether the constraint is learnt from all rows, unless the user gives a constraint set."""
        return self.step_size is None

    def is_exact(self, n_rows: int, n_features: int) -> bool:
        """Whether so many rows, all there at once, are solved exactly and not in one pass."""
        work = n_rows * (n_features + 1) * (self.n_replicates + 1)
        quick = n_rows <= MOST_ROWS and work <= MOST_WORK and self.multiplier not in SIGNED_LAWS
        return self.solver == "exact" or (self.solver == "auto" and quick)

    @property
    def multipliers(self) -> Multipliers:
        """Law and seed of the replicates' weights; in one pass "auto" takes the one that is drawn fastest."""
        return Multipliers("two_point" if self.multiplier == "auto" else self.multiplier, self.seed)

    @property
    def for_exact(self) -> Problem:
        """The problem for an exact solution, which may have few rows: "auto" takes weights that leave no row out."""
        return replace(self, multiplier="exponential") if self.multiplier == "auto" else self

    def reseed(self, seed: int) -> Problem:
        """Return the same problem with another seed."""
        return replace(self, seed=seed)

    def settings(self, start: FloatArray, schedule: PolynomialDecay) -> Settings:
        """Return what a learner needs to know."""
        return Settings(
            loss=self.loss,
            alpha=self.alpha,
            tolerance=self.tolerance,
            penalty=1.0 if self.penalty is None else self.penalty,
            sharpness=self.sharpness,
            schedule=schedule,
            multipliers=self.multipliers,
            start=start,
            robust=self.step_size is None,
        )

    def differences(self, other: Problem) -> list[str]:
        """Names of the classifier's parameters, other than the seed, in which two problems differ."""
        names = [field.name for field in fields(self) if field.name != "seed"]
        return [name for name in names if getattr(self, name) != getattr(other, name)]

    def pack(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        if self.criterion is not None and self.criterion != CRITERIA.get(self.criterion.name):
            raise ValueError(
                f"The criterion {self.criterion.name!r} is not one of surefair's, and a file cannot hold its code. "
                "Save a classifier with a criterion from sf.CRITERIA."
            )
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        plain |= {"criterion": None if self.criterion is None else self.criterion.name, "loss": self.loss.name}
        plain |= {"step_size": None if self.step_size is None else vars(self.step_size)}
        return {name: value.item() if isinstance(value, np.generic) else value for name, value in plain.items()}

    @classmethod
    def unpack(cls, packed: dict[str, Any]) -> Problem:
        """Rebuild a problem from what ``pack`` returned; values of other types, or out of range, are refused."""
        _check_packed(packed)
        step_size = packed["step_size"]
        looked_up = {
            "criterion": None if packed["criterion"] is None else CRITERIA[packed["criterion"]],
            "loss": LOSSES[packed["loss"]],
            "step_size": None if step_size is None else PolynomialDecay(**step_size),
        }
        return cls(**packed | looked_up)


def _check_packed(packed: dict[str, Any]) -> None:
    """Refuse values that no problem can have."""
    most = float(np.finfo(np.float64).max)
    names = {"criterion": [None, *CRITERIA], "loss": LOSSES, "surrogate": SURROGATES, "solver": SOLVERS}
    names |= {"multiplier": ["auto", *LAWS], "dtype": ["float64", "float32"]}
    for name, known in names.items():
        if value_of(packed, name, (str, NoneType)) not in known:
            raise ValueError(f"{name!r} must be one of {', '.join(map(str, known))}; received {packed[name]!r:.60}.")
    for name in ("tolerance", "alpha"):
        value_of(packed, name, (int, float), low=0.0, high=most)
    for name in ("penalty", "sharpness"):
        value_of(packed, name, (int, float, NoneType), low=0.0, high=most)
    for name in ("fit_intercept", "intersections"):
        value_of(packed, name, bool)
    for name, high in (("n_replicates", 2**31), ("n_warmup", 2**62), ("seed", 2**64 - 1)):
        value_of(packed, name, int, low=0, high=high)
    schedule = value_of(packed, "step_size", (dict, NoneType)) or {}
    for name in schedule:
        value_of(schedule, name, (int, float), low=-most, high=most)
