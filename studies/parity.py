"""Measure the coverage of evaluation-only intervals, at parity and away from it.

Each simulation draws two groups of rows with known positive rates, and ``surefair.fairness_interval`` computes a 95 %
interval for the gap. The study prints how often it contains the truth, with a 95 % binomial interval for that share.

    python studies/parity.py [--simulations N]
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import results
from scipy.stats import binomtest

import surefair as sf

DESIGNS = [  # rows per group, positive rates
    ((100, 100), (0.5, 0.5)),
    ((500, 500), (0.5, 0.5)),
    ((500, 500), (0.2, 0.2)),
    ((2000, 200), (0.1, 0.1)),
    ((2000, 50), (0.002, 0.002)),
    ((5000, 20), (0.001, 0.001)),
    ((100, 100), (0.5, 0.6)),
    ((500, 500), (0.3, 0.4)),
    ((2000, 200), (0.1, 0.2)),
    ((5000, 5000), (0.3, 0.4)),
]
LEAST = 0.93


def covered(task: tuple[tuple[int, int], tuple[float, float], str, int]) -> tuple[bool, bool]:
    """Run one simulation: whether the intervals for gap and unfairness contain the truth."""
    sizes, rates, method, seed = task
    rng = np.random.default_rng([7, seed])
    group = np.repeat([0, 1], sizes)
    decision = (rng.random(sum(sizes)) < np.repeat(rates, sizes)).astype(int)
    interval = sf.fairness_interval(
        decision ^ 1, decision, sensitive_features=group, pos_label=1, method=method, random_state=seed
    )
    gap = rates[0] - rates[1]
    return bool(interval.gap_low <= gap <= interval.gap_high), bool(
        interval.low <= abs(gap) + 1e-12 <= interval.high + 2e-12
    )


def coverage(
    sizes: tuple[int, int], rates: tuple[float, float], method: str, simulations: int, quiet: bool
) -> dict[str, Any]:
    """Share of simulations whose interval contains the truth."""
    tasks = [(sizes, rates, method, seed) for seed in range(simulations)]
    found = np.array(list(results.in_parallel(covered, tasks, f"{sizes} {rates} {method}", quiet)))
    share = binomtest(int(found[:, 0].sum()), simulations).proportion_ci(0.95)
    return {
        "rows": f"{sizes[0]} + {sizes[1]}",
        "rates": f"{rates[0]} and {rates[1]}",
        "method": method,
        "gap_covered": float(found[:, 0].mean()),
        "low": float(share.low),
        "high": float(share.high),
        "unfairness_covered": float(found[:, 1].mean()),
    }


def main() -> None:
    """Run the study and save its results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--simulations", type=int, default=2_000)
    parser.add_argument("--quiet", action="store_true")
    args = parser.parse_args()
    rows = [coverage(*design, "percentile", args.simulations, args.quiet) for design in DESIGNS]
    rows.append(coverage(*DESIGNS[1], "paper", args.simulations, args.quiet))
    results.keep("parity", {"simulations": args.simulations, "n_replicates": 2_000}, rows)
    if any(row["method"] != "paper" and min(row["gap_covered"], row["unfairness_covered"]) < LEAST for row in rows):
        raise SystemExit(f"Some coverage is below {LEAST}.")


if __name__ == "__main__":
    main()
