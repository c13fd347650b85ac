"""Compare the corrected and the printed covariance of √n(θ̄ - θ*) with simulation and the bootstrap.

All fits have the paper's fixed constraint. The first problem has two features with correlation 0.9, no intercept, and a
constraint set on which only the first feature depends on the group, so x̃ = (c, 0) and the slab fixes θ₁ at 0. The
second is a penalty on synthetic DM. Each problem has one constraint set, which is drawn once, and R repetitions with
fresh rows and one fit with its replicates. The study prints, for each coefficient, n times the variance of the R fits
with a 95 % chi-square interval, n times the mean variance of the replicates, and the values of both formulas.

    python studies/covariance.py [--repetitions R]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
import results
from scipy.special import expit
from scipy.stats import chi2

import surefair as sf
from surefair.criteria import linearise

mpl.use("Agg")
import matplotlib.pyplot as plt

N_CONSTRAINT, N_POPULATION, N_REPLICATES = 1_000, 50_000, 100
BAND = (0.8, 1.25)  # allowed ratios of corrected to simulated variance in the correlated example
DM = sf.datasets.SyntheticDM(seed=11)


@dataclass(frozen=True)
class Problem:
    """Rows, a model, and the coefficients to compare."""

    name: str
    draw: Callable[[int, int], tuple[Any, Any, Any]]  # (part, rows)
    model: dict[str, Any]
    n: int
    coefficients: dict[str, int]


def correlated(part: int, n: int) -> tuple[Any, Any, Any]:
    """Two features with correlation 0.9; in the constraint set, part 0, only the first depends on the group."""
    rng = np.random.default_rng([17, part])
    X = rng.normal(size=(n, 2)) @ np.linalg.cholesky([[1.0, 0.9], [0.9, 1.0]]).T
    y = np.where(rng.random(n) < expit(0.5 * X.sum(axis=1)), 1, -1)
    z = rng.integers(2, size=n)
    if part == 0:
        X[:, 0] += 0.5 * z
        X[:, 1] -= (z - z.mean()) * np.cov(z, X[:, 1], ddof=0)[0, 1] / z.var()
    return X, y, z


def synthetic(part: int, n: int) -> tuple[Any, Any, Any]:
    """Rows of synthetic DM."""
    batch = DM.rows(part * 1_000_000, n)
    return batch.X.to_numpy(), batch.y, batch.sensitive


def problems() -> list[Problem]:
    """All problems of the study."""
    slab = {"criterion": "demographic_parity", "tolerance": 0.0, "fit_intercept": False}
    found = [Problem("correlated, slab", correlated, slab, n, {"x2": 1}) for n in (4_000, 20_000)]
    for penalty in (20.0, 500.0):
        model, coefficients = (
            {"criterion": "false_positive_rate", "penalty": penalty},
            {"x1": 0, "x2": 1, "intercept": 2},
        )
        found.append(Problem(f"synthetic DM, penalty {penalty:g}", synthetic, model, 5_000, coefficients))
    return found


def fit(problem: Problem, repetition: int) -> Any:
    """Fit fresh rows with the common constraint set."""
    X, y, z = problem.draw(2 + repetition, problem.n)
    clf = sf.FairClassifier(**problem.model, n_replicates=N_REPLICATES, random_state=repetition)
    return clf.fit(X, y, sensitive_features=z, constraint_set=problem.draw(0, N_CONSTRAINT))


def repeat(task: tuple[Problem, int]) -> tuple[np.ndarray, np.ndarray]:
    """Run one repetition: coefficients of the fit, and variances of its replicates."""
    clf = fit(*task)
    theta, replicates = clf.coef_[0], clf.coef_replicates_
    if clf.fit_intercept:
        theta, replicates = np.append(theta, clf.intercept_), np.column_stack([replicates, clf.intercept_replicates_])
    return theta, replicates.var(axis=0, ddof=1)


def without_kinks(clf: Any, X: Any, y: Any) -> np.ndarray:
    """Corrected formula for a penalty, but without the curvature of its kinks, as in the paper."""
    fitted = clf.model_.trained
    rows = clf.rows(X, y)
    s, form, moved = fitted.learner.settings, fitted.learner.form, fitted.to_learner(rows.X)
    u = np.linalg.solve(fitted.W, sf.theory.optimum(clf, X, y))
    _, G = linearise(form, u[:, None], None)
    G, slope = G[:, :, 0], s.loss.derivative(moved @ u, rows.y)[:, None] * moved
    hessian = (moved.T * s.loss.curvature(moved @ u, rows.y)) @ moved / rows.n + s.alpha * np.eye(len(u))
    inverse = fitted.W @ np.linalg.inv(hessian + 2.0 * s.effective_penalty * G.T @ G)
    return inverse @ np.cov(slope.T, ddof=0) @ inverse.T


def compare(problem: Problem, repetitions: int, quiet: bool) -> list[dict[str, Any]]:
    """Make one row per coefficient."""
    tasks = [(problem, repetition) for repetition in range(repetitions)]
    found = list(results.in_parallel(repeat, tasks, problem.name, quiet))
    fits, variances = (np.array(column) for column in zip(*found, strict=True))
    simulated, bootstrap = problem.n * fits.var(axis=0, ddof=1), problem.n * variances.mean(axis=0)
    low, high = (repetitions - 1) / chi2.ppf([0.975, 0.025], repetitions - 1)
    X, y, _ = problem.draw(1, N_POPULATION)
    clf = fit(problem, 0)
    corrected, printed = sf.theory.asymptotic_covariance(clf, X, y), sf.theory.paper_covariance(clf, X, y)
    ignored = without_kinks(clf, X, y) if "penalty" in problem.model else None
    return [
        {
            "problem": problem.name,
            "rows": problem.n,
            "coefficient": name,
            "simulated": float(simulated[i]),
            "low": float(low * simulated[i]),
            "high": float(high * simulated[i]),
            "bootstrap": float(bootstrap[i]),
            "corrected": float(corrected[i, i]),
            "kinks_ignored": None if ignored is None else float(ignored[i, i]),
            "printed": float(printed[i, i]),
        }
        for name, i in problem.coefficients.items()
    ]


def draw(rows: list[dict[str, Any]]) -> None:
    """Draw the table."""
    figure, ax = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
    at = -np.arange(len(rows), dtype=float)
    ax.barh(
        at, [row["high"] - row["low"] for row in rows], 0.7, [row["low"] for row in rows], color="0.85",
        label="simulated, 95 % interval",
    )  # fmt: skip
    ax.scatter([row["simulated"] for row in rows], at, marker="|", s=180, color="black", label="simulated")
    for key, label, marker, colour in (
        ("bootstrap", "bootstrap", "o", "#0072B2"),
        ("corrected", "corrected formula", "D", "#009E73"),
        ("printed", "printed formula", "X", "#D55E00"),
    ):
        ax.scatter([row[key] for row in rows], at, marker=marker, s=36, color=colour, label=label, zorder=3)
    ax.set_yticks(at, [f"{row['problem']}\n{row['coefficient']}, n = {row['rows']:,}" for row in rows], fontsize=8)
    ax.set_xscale("log")
    ax.set_xlabel("variance of √n times the coefficient")
    ax.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=5, frameon=False, fontsize=8)
    figure.savefig(results.FOLDER / "covariance.png", dpi=150)
    plt.close(figure)


def main() -> None:
    """Run the study and save its results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repetitions", type=int)
    parser.add_argument("--quiet", action="store_true")
    args = parser.parse_args()
    repetitions = args.repetitions or 400
    rows = [row for problem in problems() for row in compare(problem, repetitions, args.quiet)]
    settings = {"repetitions": repetitions, "n_constraint": N_CONSTRAINT, "n_replicates": N_REPLICATES}
    results.keep("covariance", settings | {"population": N_POPULATION}, rows)
    if args.repetitions is None:
        draw(rows)
    slab = [row for row in rows if row["problem"].startswith("correlated")]
    if not all(BAND[0] <= row["corrected"] / row["simulated"] <= BAND[1] for row in slab):
        raise SystemExit("The corrected formula is out of bounds in the correlated example.")


if __name__ == "__main__":
    main()
