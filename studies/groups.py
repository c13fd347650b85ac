"""Measure the coverage of evaluation-only intervals with many groups: at parity, and with one different group.

Each simulation draws groups with known rates, and ``surefair.fairness_interval`` computes a 95 % interval for the
unfairness: the largest gap between any two groups (for equalized odds, in either rate). The study prints how often the
interval contains the truth, with a 95 % binomial interval for that share, and its mean width.

    python studies/groups.py [--simulations N]
"""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import numpy as np
import results
from scipy.stats import binomtest

import surefair as sf

LEAST = 0.93


class Design(NamedTuple):
    """Groups, and the rate of positive decisions in each."""

    metric: str
    sizes: tuple[int, ...]  # rows of each group
    rates: tuple[float, ...]  # for equalized odds the false-positive rate; the false-negative rate is the same in all

    @property
    def words(self) -> str:
        """Short description of the groups."""
        equal = len(set(self.sizes)) == 1
        return f"{len(self.sizes)} x {self.sizes[0]}" if equal else " + ".join(map(str, self.sizes))

    @property
    def truth(self) -> float:
        """The unfairness in the population."""
        low, high = min(self.rates), max(self.rates)
        if self.metric.endswith("ratio"):
            return low / high
        return high - low


def designs() -> list[Design]:
    """All designs of the study."""
    found = []
    for metric in ("demographic_parity", "equalized_odds"):
        for K in (2, 3, 5, 10):
            found += [Design(metric, (500,) * K, (0.3,) * (K - 1) + (last,)) for last in (0.3, 0.4)]
    for last in (0.3, 0.4):
        found.append(Design("demographic_parity_ratio", (500,) * 5, (0.3,) * 4 + (last,)))
        found.append(Design("demographic_parity", (2000, 1000, 500, 100, 3), (0.3,) * 3 + (last, 0.3)))
        found.append(Design("demographic_parity", (2000, 1000, 500, 20, 20), (0.3,) * 3 + (last, 0.3)))
        found.append(Design("demographic_parity", (500, 3), (0.3, last)))
    return found


def simulate(task: tuple[Design, int]) -> tuple[bool, float]:
    """Run one simulation: whether the interval contains the truth, and its width."""
    design, seed = task
    rng = np.random.default_rng([13, seed])
    group = np.repeat(np.arange(len(design.sizes)), design.sizes)
    rate = np.repeat(design.rates, design.sizes)
    truth = (rng.random(len(group)) < 0.5).astype(int)
    wrong = rng.random(len(group)) < (np.where(truth == 1, 0.2, rate) if design.metric == "equalized_odds" else rate)
    decision = np.where(wrong, 1 - truth, truth) if design.metric == "equalized_odds" else wrong.astype(int)
    interval = sf.fairness_interval(
        truth, decision, sensitive_features=group, metric=design.metric, pos_label=1, random_state=seed
    )
    return bool(interval.low <= design.truth + 1e-12 <= interval.high + 2e-12), interval.high - interval.low


def coverage(design: Design, simulations: int, quiet: bool) -> dict[str, Any]:
    """Share of simulations whose interval contains the truth."""
    tasks = [(design, seed) for seed in range(simulations)]
    found = np.array(list(results.in_parallel(simulate, tasks, f"{design.metric} {design.words}", quiet)))
    share = binomtest(int(found[:, 0].sum()), simulations).proportion_ci(0.95)
    return {
        "metric": design.metric,
        "rows": design.words,
        "unfairness": f"{design.truth:.2f}",
        "covered": float(found[:, 0].mean()),
        "low": float(share.low),
        "high": float(share.high),
        "mean_width": float(found[:, 1].mean()),
    }


def main() -> None:
    """Run the study and save its results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--simulations", type=int, default=2_000)
    parser.add_argument("--quiet", action="store_true")
    args = parser.parse_args()
    rows = [coverage(design, args.simulations, args.quiet) for design in designs()]
    results.keep("groups", {"simulations": args.simulations, "n_replicates": 2_000}, rows)
    if any(row["covered"] < LEAST for row in rows):
        raise SystemExit(f"Some coverage is below {LEAST}.")


if __name__ == "__main__":
    main()
