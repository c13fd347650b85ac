"""Measure what one pass loses against the exact solution on the same rows.

Each data set is the population; for a synthetic stream, 100,000 of its rows are. Some have more than two groups. Each
of R repetitions draws 20,000 training rows, fits them in one pass with default settings, and solves the same problem
exactly on the same rows. The table has, for the gap in the population (with more than two groups, the largest): mean
and standard deviation of both, the ratio of the standard deviations with its jackknife standard error, and the root
mean square of their difference in standard deviations of the exact fit. The ratio must be at most 1.15, beyond two
standard errors.

    python studies/efficiency.py [--repetitions R] [--rows N] [--jobs J] [--keep] [--quiet]
"""

from __future__ import annotations

import argparse
import warnings
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import results
from calibration import N_POPULATION, SEED, population

import surefair as sf
from surefair.calibration.repetitions import draw
from surefair.classifier import declare
from surefair.inference.counts import count, rates_of
from surefair.inference.theory import learnt_optima
from surefair.training.model import Model
from surefair.training.parameters import problem_of

MOST = 1.15
CELLS = [
    ("synthetic DI", "demographic_parity", 0.0),
    ("synthetic DI", "demographic_parity", 0.05),
    ("synthetic DI", "demographic_parity", 0.2),
    ("synthetic DM", "false_positive_rate", 0.05),
    ("synthetic DM", "false_positive_rate", 0.2),
    ("Adult", "demographic_parity", 0.0),
    ("Adult", "demographic_parity", 0.05),
    ("Adult", "false_positive_rate", 0.0),
    ("Adult", "false_negative_rate", 0.0),
    ("Adult", "equalized_odds", 0.05),
    ("COMPAS", "demographic_parity", 0.05),
    ("three groups", "demographic_parity", 0.05),
    ("three groups", "equalized_odds", 0.05),
    ("five groups", "demographic_parity", 0.0),
    ("five groups", "equalized_odds", 0.05),
    ("Adult by race", "demographic_parity", 0.05),
]


class Population(NamedTuple):
    """Rows with more than two groups."""

    X: Any
    y: Any
    sensitive: Any


def several(n_groups: int) -> Population:
    """Draw rows whose features differ more and more from group to group, and groups that become smaller."""
    rng = np.random.default_rng(SEED)
    share = np.linspace(2.0, 1.0, n_groups)
    group = rng.choice(n_groups, N_POPULATION, p=share / share.sum())
    X = rng.normal(size=(N_POPULATION, 4)) + np.outer(group - group.mean(), [0.5, -0.3, 0.2, 0.0])
    y = X @ [1.0, 0.5, 0.8, -0.5] + rng.logistic(size=N_POPULATION) > 0.0
    return Population(X, y.astype(int), group)


def adult_by_race() -> Population:
    """Adult with its five races, two of which have about 1 % of the rows each."""
    data = sf.datasets.load_adult()
    return Population(data.X, data.y, data.sensitive_columns["race"])


SEVERAL = {"three groups": lambda: several(3), "five groups": lambda: several(5), "Adult by race": adult_by_race}


@cache
def prepared(data: str, criterion: str, tolerance: float) -> tuple[Any, Any]:
    """Population as rows, and the problem."""
    rows = SEVERAL[data]() if data in SEVERAL else population(data)
    clf = sf.FairClassifier(criterion, tolerance=tolerance, n_replicates=0, solver="one_pass")
    _, _, coded, _ = declare(clf, rows.X, rows.y, rows.sensitive, None, None)
    return coded, problem_of(clf, 0)


def gap(data: str, criterion: str, tolerance: float, theta: Any) -> float:
    """Gap of the first rate in the population: signed, or the largest if there are more than two groups."""
    rows, problem = prepared(data, criterion, tolerance)
    counts = count(theta[:, None], rows.X, rows.truth, rows.group, rows.groups.sizes, None)
    rates = rates_of(problem.criterion.rates, counts)[0, 0]
    return float(rates[0] - rates[1]) if len(rates) == 2 else float(np.ptp(rates))


def both(task: tuple[str, str, float, int, int]) -> tuple[float, float]:
    """Gaps of the fit in one pass and of the exact solution, on the same rows."""
    data, criterion, tolerance, n, repetition = task
    rows, problem = prepared(data, criterion, tolerance)
    train = draw(rows, n, np.random.default_rng([31, repetition]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = Model.of(problem, train.names, train.X.shape[1]).train(train).coefficients
    exact = learnt_optima(problem, train)[0].theta
    return gap(data, criterion, tolerance, fitted), gap(data, criterion, tolerance, exact)


def ratio(pairs: Any) -> float:
    """Standard deviation of the first column over that of the second."""
    return float(pairs[:, 0].std(ddof=1) / pairs[:, 1].std(ddof=1))


def main() -> None:
    """Run the study and save its results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="save the results for the docs, with their options")
    parser.add_argument("--quiet", action="store_true")
    args = parser.parse_args()
    rows = []
    for cell in CELLS:
        tasks = [(*cell, args.rows, repetition) for repetition in range(args.repetitions)]
        pairs = np.array(list(results.in_parallel(both, tasks, ", ".join(map(str, cell)), args.quiet, args.jobs)))
        R = len(pairs)
        left_out = np.array([ratio(np.delete(pairs, i, axis=0)) for i in range(R)])
        error = float(np.sqrt((R - 1) / R * np.sum((left_out - left_out.mean()) ** 2)))
        sd = float(pairs[:, 1].std(ddof=1))
        rows.append({
            "data": cell[0], "criterion": cell[1], "tolerance": cell[2], "mean_one_pass": float(pairs[:, 0].mean()),
            "mean_exact": float(pairs[:, 1].mean()), "sd_one_pass": float(pairs[:, 0].std(ddof=1)), "sd_exact": sd,
            "ratio": ratio(pairs), "ratio_error": error,
            "rms_difference": float(np.sqrt(np.mean((pairs[:, 0] - pairs[:, 1]) ** 2)) / sd),
        })  # fmt: skip
    results.keep("efficiency", {"repetitions": args.repetitions, "rows": args.rows, "most": MOST}, rows)
    if failed := [row for row in rows if row["ratio"] - 2.0 * row["ratio_error"] > MOST]:
        raise SystemExit(f"One pass is less efficient than {MOST} in {len(failed)} problems.")


if __name__ == "__main__":
    main()
