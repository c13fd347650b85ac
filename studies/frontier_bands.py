"""Measure how often the bands of a frontier contain all its true values at once, with everything redrawn.

The rows of a data set of 20,000 are the population, so the optimum of each tolerance, its gap and its accuracy are
known. Rows are drawn from it, and ``sf.frontier`` is run. Counted are repetitions in which the band of unfairness
contains the truth at every point, the band of accuracy does, the intervals of single points do (on average), and the
most accurate point that meets a margin truly meets it.

    python studies/frontier_bands.py [--repetitions R] [--rows N] [--keep] [--quiet]
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import results

import surefair as sf
from surefair.classifier import declare
from surefair.inference.theory import learnt_optima

TOLERANCES = (0.2, 0.15, 0.1, 0.05)  # at 0, models of the first population decide the same for nearly everyone
MARGIN = 0.15


def truths(data: Any) -> dict[float | None, tuple[float, float]]:
    """Gap and accuracy, in the population, of the optimum of each tolerance, and of the free optimum."""
    _, model, rows, _ = declare(sf.FairClassifier(n_replicates=0), data.X, data.y, data.sensitive, None, None)
    found = {}
    for tolerance in (None, *TOLERANCES):
        problem = replace(model.problem, criterion=None) if tolerance is None else model.problem
        problem = problem if tolerance is None else replace(problem, tolerance=tolerance)
        theta = learnt_optima(problem, rows)[0].theta
        positive = rows.X @ theta[:-1] + theta[-1] > 0.0
        group = rows.group[:, 0]
        gap = positive[group == 0].mean() - positive[group == 1].mean()
        found[tolerance] = abs(float(gap)), float((positive == (rows.y > 0.0)).mean())
    return found


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=300)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--quiet", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = []
    for name, stream in (("DM", sf.datasets.SyntheticDM), ("DI", sf.datasets.SyntheticDI)):
        data = stream(seed=5).sample(20_000)
        X = np.asarray(data.X)
        truth = truths(data)
        rng = np.random.default_rng(3)
        inside, right, alone, met, chosen = 0, 0, 0.0, 0, 0
        for r in range(args.repetitions):
            at = rng.integers(0, len(X), args.rows)
            clf = sf.FairClassifier(n_replicates=100, random_state=r)
            found = sf.frontier(clf, X[at], data.y[at], sensitive_features=data.sensitive[at], tolerances=TOLERANCES)
            gaps = [truth[point.tolerance][0] for point in found.points]
            scores = [truth[point.tolerance][1] for point in found.points]
            inside += all(p.low <= gap <= p.high for p, gap in zip(found.points, gaps, strict=True))
            right += all(
                p.accuracy_band[0] <= one <= p.accuracy_band[1] for p, one in zip(found.points, scores, strict=True)
            )
            alone += np.mean(
                [p.interval.low <= gap <= p.interval.high for p, gap in zip(found.points, gaps, strict=True)]
            )
            best = found.best(MARGIN)
            chosen += best is not None
            met += best is not None and truth[best.tolerance][0] <= MARGIN
        R = args.repetitions
        line: dict[str, Any] = {"population": name, "rows": args.rows, "unfairness_band": inside / R}
        line |= {"accuracy_band": right / R, "single_intervals": float(alone / R), "best_found": chosen / R}
        lines.append(line | {"best_meets_margin": met / chosen if chosen else 1.0, "repetitions": R})
        results.console.print(lines[-1])
    results.keep("frontier_bands", {"tolerances": TOLERANCES, "margin": MARGIN}, lines)


if __name__ == "__main__":
    main()
