"""Measure how often sf.alternative says yes: at the boundary of what is asked for, and beyond it.

Labels depend on one feature; a second one stands for the group. The model in use gives a bonus to one group, which
makes it unfair. A population of 200,000 rows says by how much a model without the bonus is less unfair. The demand is
set relative to that, and the accuracy may fall by 0.1. At a shortfall of 0 or more no model meets the demand, so every
yes is wrong. The last line lets an adversary try ten seeds of the splits and keep the smallest p-value.

    python studies/alternatives.py [--repetitions R] [--rows N] [--keep] [--quiet]
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
import results

import surefair as sf

SHORTFALLS = (0.02, 0.0, -0.04, -0.08, -0.12, -0.16)
SEEDS = 10


def draw(n: int, seed: int) -> tuple[Any, Any, Any, Any]:
    """Features, labels, groups, and the decisions of the model in use."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    X = np.column_stack([rng.normal(size=n), group + 0.5 * rng.normal(size=n)])
    y = (X[:, 0] + 0.5 * rng.normal(size=n) > 0.0).astype(int)
    return X, y, group, (X[:, 0] + 0.6 * group > 0.3).astype(int)


def best() -> float:
    """By how much the best model, which looks at the first feature alone, is less unfair in the population."""
    X, _, group, old = draw(200_000, 10**6)
    gaps = [abs(decision[group == 0].mean() - decision[group == 1].mean()) for decision in (old, X[:, 0] > 0.0)]
    return float(gaps[0] - gaps[1])


def share(shortfall: float, top: float, args: argparse.Namespace, seeds: int = 1) -> dict[str, Any]:
    """How often the answer is yes if this much more is asked for than the best model achieves."""
    yes, answers = 0, {"no evidence": 0, "not enough data": 0}
    for r in range(args.repetitions):
        X, y, group, old = draw(args.rows, r)
        found = [
            sf.alternative(old, X, y, sensitive_features=group, reduction=top + shortfall, cost=0.1, tolerances=[0.05],
                           n_splits=5, random_state=1_000 * r + s)
            for s in range(seeds)
        ]  # fmt: skip
        said = min(found, key=lambda one: one.p_value).verdict
        yes += said == "yes"
        if said in answers:
            answers[said] += 1
    line: dict[str, Any] = {"shortfall": shortfall, "seeds": seeds, "yes": yes / args.repetitions}
    return line | {name: n / args.repetitions for name, n in answers.items()} | {"repetitions": args.repetitions}


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--quiet", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    top = best()
    rows = [share(shortfall, top, args) for shortfall in SHORTFALLS]
    few = argparse.Namespace(**vars(args) | {"repetitions": max(1, args.repetitions // 5)})
    rows.append(share(0.0, top, few, SEEDS))
    results.keep("alternatives", {"rows": args.rows, "best_reduction": top}, rows)


if __name__ == "__main__":
    main()
