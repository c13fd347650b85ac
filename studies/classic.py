"""Measure the coverage of four kinds of intervals for coefficients, in the usual designs and without a constraint.

The designs are those of Chen, Lee, Tong and Zhang: logistic and linear regression with d normal features, whose
covariance is the identity, Toeplitz (0.5^|i-j|) or equicorrelated (0.2); θ* = linspace(0, 1, d), and the intercept is
0. Each of R repetitions draws 100,000 rows and fits them with default settings and 200 replicates. Logistic regression
uses ``FairClassifier(criterion=None)``; in linear regression the labels are continuous, and the model gets the rows
directly.

For each method, the first table has the share of 95 % intervals that contain the coefficient of θ* (mean, lowest and
highest over coefficients), their mean width relative to the exact limit law, and the time of a fit with that method
relative to a plain fit. A coefficient is out of bounds if the exact binomial interval of its coverage, corrected for
the number of all coefficients in the table, is outside 93 to 97 %. The second table has the spread of fits and of
replicates relative to the exact one, and the largest bias in units of it.

The study saves finished repetitions in the folder build, so a stopped run can be resumed.

    python studies/classic.py [--jobs=2] [--repetitions R] [--dimension D ...]
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import cache
from itertools import product
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import results
from joblib import Memory
from scipy.linalg import block_diag, toeplitz
from scipy.special import expit
from scipy.stats import norm

import surefair as sf
from surefair.inference.coefficients import coefficient_limits
from surefair.inference.limits import limits
from surefair.inference.scoring import binomial_limits
from surefair.rows import Levels, Names, Rows
from surefair.training.fit import Fit
from surefair.training.model import Model
from surefair.training.parameters import problem_of

N, LEVEL, BOUNDS = 100_000, 0.95, (0.93, 0.97)
REPLICATES = {"basic": 200, "plug_in": 0, "random_scaling": 0, "cheap": 5}  # replicates that each method needs
ROUNDS = 5  # of timing each method
COVARIANCES = {
    "identity": np.eye,
    "Toeplitz": lambda d: toeplitz(0.5 ** np.arange(d)),
    "equicorrelated": lambda d: 0.8 * np.eye(d) + 0.2,
}
LOSSES = {"logistic": "log_loss", "linear": "squared_error"}
DIMENSIONS = (5, 20, 100)

memory = Memory(results.KEPT / "classic", verbose=0)


@dataclass(frozen=True)
class Design:
    """A regression, the covariance of its features, and their number."""

    regression: str
    covariance: str
    d: int

    def rows(self, repetition: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw the rows of one repetition."""
        rng = np.random.Generator(np.random.SFC64([17, *map(ord, self.regression + self.covariance), repetition]))
        X = rng.normal(size=(N, self.d))
        if self.covariance != "identity":
            X = X @ _root(self.covariance, self.d).T
        score = X @ self.truth[:-1]
        if self.regression == "linear":
            return X, score + rng.normal(size=len(X))
        return X, np.where(rng.random(len(X)) < expit(score), 1.0, -1.0)

    @property
    def truth(self) -> np.ndarray:
        """θ*, and the intercept."""
        return np.append(np.linspace(0.0, 1.0, self.d), 0.0)

    @property
    def hessian(self) -> np.ndarray:
        """Hessian of the mean loss at θ*.

        Linear: twice the covariance S of the features. Logistic: the mean of h xxᵀ, where the curvature h depends only
        on the score; the features depend on the score along Sθ*, and not otherwise.
        """
        S = COVARIANCES[self.covariance](self.d)
        if self.regression == "linear":
            return 2.0 * block_diag(S, 1.0)
        g, s = S @ self.truth[:-1], np.sqrt(self.truth[:-1] @ S @ self.truth[:-1])
        z = np.linspace(-10.0, 10.0, 200_001)
        h = expit(s * z) * expit(-s * z) * norm.pdf(z) * (z[1] - z[0])
        return block_diag(h.sum() * S + (h @ z**2 - h.sum()) * np.outer(g, g) / s**2, h.sum())

    @property
    def spread(self) -> np.ndarray:
        """Standard deviations of the coefficients by the limit law: the gradients' covariance is H, or 2H if linear."""
        factor = 2.0 if self.regression == "linear" else 1.0
        return np.sqrt(factor * np.diag(np.linalg.inv(self.hessian)) / N)

    @property
    def moved(self) -> np.ndarray:
        """How far the ridge κ‖θ‖²/2, without the intercept, moves the optimum from θ*; computed by one Newton step."""
        ridge = sf.FairClassifier().alpha * np.append(np.ones(self.d), 0.0)
        return -np.linalg.solve(self.hessian + np.diag(ridge), ridge * self.truth)

    def train(self, X: np.ndarray, y: np.ndarray, n_replicates: int, seed: int) -> Fit:
        """Fit with default settings."""
        clf = sf.FairClassifier(None, loss=LOSSES[self.regression], n_replicates=n_replicates, random_state=seed)
        if self.regression == "logistic":
            return clf.fit(X, y).model_.trained
        names = Names(None, Levels(np.array([-1, 1]), "label"), None)  # labels are numbers, and there are no groups
        rows = Rows(X, y, np.empty((len(y), 0), dtype=np.int64), np.ones(len(y)), names)
        return Model.of(problem_of(clf, seed), names, self.d).train(rows).trained


@cache
def _root(covariance: str, d: int) -> np.ndarray:
    return np.linalg.cholesky(COVARIANCES[covariance](d))


def intervals(fit: Fit) -> np.ndarray:
    """Limits of all methods, shape (methods, 2, coefficients)."""
    few = fit.theta[:, : 1 + REPLICATES["cheap"]]  # a replicate does not depend on how many there are
    cheap = limits(few[:, 0], few[:, 1:].T, LEVEL, "cheap")
    return np.array([cheap if method == "cheap" else coefficient_limits(fit, LEVEL, method) for method in REPLICATES])


@memory.cache
def repeat(version: str, design: Design, repetition: int) -> dict[str, np.ndarray]:
    """Run one repetition: coefficients, standard deviations of their replicates, and limits of all methods."""
    fit = design.train(*design.rows(repetition), REPLICATES["basic"], repetition)
    theta = fit.theta
    return {"theta": theta[:, 0], "sd": theta[:, 1:].std(axis=1, ddof=1), "limits": intervals(fit)}


@memory.cache
def costs(version: str, design: Design) -> dict[str, float]:
    """Median time of a fit with intervals, by method, relative to a fit of the coefficients alone."""
    X, y = design.rows(0)
    times: dict[str, list[float]] = {method: [] for method in ("plain", *REPLICATES)}
    for _ in range(ROUNDS):
        for method, taken in times.items():
            start = perf_counter()
            fit = design.train(X, y, REPLICATES.get(method, 0), 0)
            if method != "plain":
                coefficient_limits(fit, LEVEL, method)
            taken.append(perf_counter() - start)
    return {method: median(times[method]) / median(times["plain"]) for method in REPLICATES}


def cover(design: Design, found: list[dict[str, np.ndarray]], n_coefficients: int) -> list[dict[str, Any]]:
    """Make one line per method."""
    held = np.array([(one["limits"][:, 0] <= design.truth) & (design.truth <= one["limits"][:, 1]) for one in found])
    width = np.mean([one["limits"][:, 1] - one["limits"][:, 0] for one in found], axis=0)
    exact = 2.0 * norm.ppf((1.0 + LEVEL) / 2.0) * design.spread
    cost, share, hits, R = costs(results.digest(), design), held.mean(axis=0), held.sum(axis=0), len(found)
    low, high = binomial_limits(hits, R - hits, 1.0 - (1.0 - LEVEL) / n_coefficients)
    out = (high < BOUNDS[0]) | (low > BOUNDS[1])
    return [
        {
            "regression": design.regression,
            "covariance": design.covariance,
            "d": design.d,
            "repetitions": R,
            "method": method,
            "coverage": float(share[i].mean()),
            "lowest": float(share[i].min()),
            "highest": float(share[i].max()),
            "width": float((width[i] / exact).mean()),
            "cost": cost[method],
            "out_of_bounds": int(out[i].sum()),
        }
        for i, method in enumerate(REPLICATES)
    ]


def explain(design: Design, found: list[dict[str, np.ndarray]]) -> dict[str, Any]:
    """Explain the coverage: spreads, and the largest biases in units of the exact standard deviation."""
    fitted, said = (np.array([one[key] for one in found]) for key in ("theta", "sd"))
    true, exact = fitted.std(axis=0, ddof=1), design.spread
    bias = (fitted.mean(axis=0) - design.truth) / exact
    return {
        "regression": design.regression,
        "covariance": design.covariance,
        "d": design.d,
        "repetitions": len(found),
        "spread_of_fits": float((true / exact).mean()),
        "spread_of_replicates": float((np.sqrt(np.mean(said**2, axis=0)) / exact).mean()),
        "bias": float(bias[np.abs(bias).argmax()]),
        "bias_by_ridge": float(np.abs(design.moved / exact).max()),
    }


def main() -> None:
    """Run the study and save its results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repetitions", type=int, default=500)
    parser.add_argument("--dimension", type=int, nargs="*", default=DIMENSIONS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--quiet", action="store_true")
    args = parser.parse_args()
    designs = [Design(*names) for names in product(LOSSES, COVARIANCES, args.dimension)]
    rows: list[dict[str, Any]] = []
    reasons = []
    for design in designs:
        tasks = [(results.digest(), design, repetition) for repetition in range(args.repetitions)]
        title = f"{design.regression}, {design.covariance}, {design.d}"
        found = list(results.in_parallel(lambda task: repeat(*task), tasks, title, args.quiet, args.jobs))
        rows += cover(design, found, sum(other.d + 1 for other in designs))
        reasons.append(explain(design, found))
    settings = {"repetitions": args.repetitions, "rows": N, "level": LEVEL}
    results.keep("classic", settings | {"n_replicates": REPLICATES}, rows, reasons=reasons)
    if any(row["out_of_bounds"] for row in rows if row["method"] == "basic"):
        raise SystemExit("Some coverage is out of bounds.")


if __name__ == "__main__":
    main()
