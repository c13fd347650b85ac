"""Compare the spread of the bootstrap with the true spread under the paper's fixed constraint, by brute force.

Each problem has one constraint set of 1,000 rows, which is drawn once. Each of R repetitions draws fresh rows and fits
them with replicates. The standard deviation of the R fits is the true spread. The bootstrap's estimate is the root mean
square, over repetitions, of the standard deviation of the replicates. The study prints their ratio for every
coefficient, and for the gaps between all pairs of groups on fixed evaluation rows.

    python studies/spread.py [--repetitions R] [--rows N] [--loss LOSS] [PROBLEM ...]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import results

import surefair as sf
from surefair.inference.checks import training_diagnostics
from surefair.inference.counts import count, rates_of

N_CONSTRAINT, N_EVALUATION = 1_000, 20_000


@dataclass(frozen=True)
class Problem:
    """A population and a criterion."""

    load: Callable[[], Any]  # a stream, or a data set to draw rows from with replacement
    criterion: str
    penalty: float | None = None
    groups: Callable[[Any], Any] | None = None  # sensitive values to use instead of the data set's
    gap_bounds: tuple[float, float] = (0.8, 1.25)


def three_races(adult: Any) -> Any:
    """Black, White, and all others."""
    race = adult.sensitive_columns["race"]
    return race.where(race.isin(["Black", "White"]), "Other").to_numpy()


COEF_BOUNDS = (0.8, 1.25)
DISCRETE = (0.75, 1.35)  # the gap moves in jumps if features are discrete
PROBLEMS = {
    "synthetic DI": Problem(lambda: sf.datasets.SyntheticDI(seed=11), "demographic_parity"),
    "synthetic DM, penalty 1": Problem(lambda: sf.datasets.SyntheticDM(seed=11), "false_positive_rate", 1.0),
    "synthetic DM, penalty 20": Problem(lambda: sf.datasets.SyntheticDM(seed=11), "false_positive_rate", 20.0),
    "synthetic DM, penalty 500": Problem(lambda: sf.datasets.SyntheticDM(seed=11), "false_positive_rate", 500.0),
    "synthetic DM, equalized odds": Problem(lambda: sf.datasets.SyntheticDM(seed=11), "equalized_odds", 20.0),
    "synthetic DM, FOR": Problem(lambda: sf.datasets.SyntheticDM(seed=11), "false_omission_rate", 1.0),
    "synthetic DM, FDR": Problem(lambda: sf.datasets.SyntheticDM(seed=11), "false_discovery_rate", 1.0),
    "Adult": Problem(lambda: sf.datasets.load_adult(), "demographic_parity", gap_bounds=DISCRETE),
    "Adult, 3 groups": Problem(
        lambda: sf.datasets.load_adult(), "demographic_parity", groups=three_races, gap_bounds=DISCRETE
    ),
    "COMPAS, penalty 300": Problem(
        lambda: sf.datasets.load_compas(), "false_positive_rate", 300.0, gap_bounds=DISCRETE
    ),
    "COMPAS, equalized odds": Problem(lambda: sf.datasets.load_compas(), "equalized_odds", 300.0, gap_bounds=DISCRETE),
}


@cache
def population(name: str) -> Any:
    """Load a problem's stream or data set, once per process."""
    return PROBLEMS[name].load()


def draw(name: str, part: int, n: int) -> tuple[Any, Any, Any]:
    """Rows of part 0 (constraint set), 1 (evaluation), 2, 3, … (repetitions)."""
    source = population(name)
    if hasattr(source, "rows"):
        batch = source.rows(part * 1_000_000, n)
        return batch.X, batch.y, batch.sensitive
    rows = np.random.default_rng([11, part]).integers(0, len(source), n)
    groups = PROBLEMS[name].groups
    return source.X.iloc[rows], source.y[rows], (source.sensitive if groups is None else groups(source))[rows]


def repeat(task: tuple[str, str, int, int]) -> tuple[np.ndarray, np.ndarray, bool]:
    """Run one repetition: coefficients and gaps of the fit, spreads of its replicates, and whether it warned."""
    name, loss, repetition, n = task
    problem = PROBLEMS[name]
    X, y, z = draw(name, 2 + repetition, n)
    clf = sf.FairClassifier(problem.criterion, loss=loss, penalty=problem.penalty, random_state=repetition)
    clf.fit(X, y, sensitive_features=z, constraint_set=draw(name, 0, N_CONSTRAINT))
    theta = np.vstack(
        [np.hstack([clf.coef_.T, clf.coef_replicates_.T]), np.r_[clf.intercept_, clf.intercept_replicates_]]
    )
    X, y, z = draw(name, 1, N_EVALUATION)
    rows = np.column_stack([X, np.ones(len(y))])
    truth, group = (y == clf.classes_[1]).astype(int), np.searchsorted(clf.groups_, z)
    counts = count(theta, rows, truth, group[:, None], (len(clf.groups_),))
    rates = rates_of(sf.CRITERIA[problem.criterion].rates, counts)  # (columns, rates, groups)
    first, second = np.triu_indices(len(clf.groups_), 1)
    gaps = (rates[:, :, first] - rates[:, :, second]).reshape(len(rates), -1).T
    values = np.vstack([theta, gaps])
    return values[:, 0], values[:, 1:].std(axis=1, ddof=1), bool(training_diagnostics(clf.model_.trained))


def spread(name: str, loss: str, repetitions: int, n: int, quiet: bool = False) -> dict[str, Any]:
    """Ratios of the bootstrap's standard deviation to the true one."""
    tasks = [(name, loss, repetition, n) for repetition in range(repetitions)]
    found = list(results.in_parallel(repeat, tasks, name, quiet))
    fits, spreads, warned = (np.array(column) for column in zip(*found, strict=True))
    ratio = np.sqrt(np.mean(spreads**2, axis=0)) / fits.std(axis=0, ddof=1)
    X, _, _ = draw(name, 0, 1)
    d = np.shape(X)[1] + 1
    coef, gaps, (low, high) = ratio[:d], ratio[d:], PROBLEMS[name].gap_bounds
    held = COEF_BOUNDS[0] <= coef.min() and coef.max() <= COEF_BOUNDS[1] and low <= gaps.min() and gaps.max() <= high
    return {
        "problem": name,
        "loss": loss,
        "coefficients": d,
        "lowest": float(coef.min()),
        "mean": float(coef.mean()),
        "highest": float(coef.max()),
        "gaps": len(gaps),
        "lowest_gap": float(gaps.min()),
        "highest_gap": float(gaps.max()),
        "within_bounds": "yes" if held else "warned of" if warned.mean() >= 0.5 else "NO",
    }


def main() -> None:
    """Run the study and save its results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("problems", nargs="*", choices=[[], *PROBLEMS])
    parser.add_argument("--repetitions", type=int, default=400)
    parser.add_argument("--rows", type=int, default=5_000)
    parser.add_argument("--loss", nargs="*", default=["log_loss", "squared_error"])
    parser.add_argument("--quiet", action="store_true")
    args = parser.parse_args()
    chosen = args.problems or list(PROBLEMS)
    rows = [spread(name, loss, args.repetitions, args.rows, args.quiet) for loss in args.loss for name in chosen]
    settings = {"repetitions": args.repetitions, "rows": args.rows, "n_constraint": N_CONSTRAINT, "n_replicates": 200}
    results.keep("spread", settings, rows)
    if any(row["within_bounds"] == "NO" for row in rows):
        raise SystemExit("Some ratios are out of bounds.")


if __name__ == "__main__":
    main()
