"""Measure the coverage of exact fits on few rows, and of audits end to end, with everything redrawn.

The population is generated: correlated numbers and indicators, two groups that differ in some of them. The first table
has ``FairClassifier(solver="exact")`` by rows and features, with 5,000 evaluation rows. The second has audits of whole
files drawn from a population of 200,000 rows with numbers, categories, missing values, a rare category and a group of
5 %: how often intervals contain the gap of the population, how many audits issue a diagnostic other than
``SmallEvaluationSet``, and how many give a definite verdict that is wrong.

    python studies/small.py [--repetitions R] [--audits A] [--jobs J] [--keep] [--quiet]
"""

from __future__ import annotations

import argparse
import warnings
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import results

import surefair as sf

ROWS, FEATURES = (500, 1_000, 2_000, 5_000), (5, 20, 50)
FILES = (1_000, 2_000, 5_000)
TOLERANCE, MARGIN = 0.05, 0.1
N_POPULATION = 200_000


@cache
def population(d: int) -> tuple[Any, Any, Any]:
    """Features, labels and groups; half of the features are indicators, and groups differ in one in five."""
    rng = np.random.default_rng([17, d])
    group = (rng.random(N_POPULATION) < 0.35).astype(int)
    half = d // 2
    mix = np.eye(d - half) + 0.3 * rng.normal(size=(d - half, d - half)) / np.sqrt(d)
    numbers = rng.normal(size=(N_POPULATION, d - half)) @ mix
    shares = np.linspace(0.05, 0.5, half)
    X = np.hstack([numbers, rng.random((N_POPULATION, half)) < shares])
    X[:, :: max(d // (1 + d // 5), 1)] += 0.5 * group[:, None]
    score = X @ (rng.normal(size=d) / np.sqrt(d))
    score = 1.5 * (score - score.mean()) / score.std()
    return X, (rng.random(N_POPULATION) < 1.0 / (1.0 + np.exp(-score))).astype(int), group


def cover(n: int, d: int, args: argparse.Namespace) -> dict[str, Any]:
    """Coverage of one size of problem."""
    X, y, group = population(d)
    clf = sf.FairClassifier(tolerance=TOLERANCE, solver="exact", n_replicates=99)
    found = sf.calibrate(
        clf, X, y, sensitive_features=group, n_rows=n, n_evaluation=5_000, repetitions=args.repetitions,
        random_state=5, n_jobs=args.jobs, progress=not args.quiet,
    )  # fmt: skip
    gaps = found.table[found.table["kind"] == "gap"].set_index("source")["coverage"]
    coefs = found.table[found.table["kind"] == "coefficient"]["coverage"]
    often = ", ".join(f"{name} {share:.0%}" for name, share in found.warned.items() if share >= 0.1)
    line = {"rows": n, "features": d, **gaps.to_dict(), "coefficients": float(coefs.mean())}
    return line | {"lowest_coefficient": float(coefs.min()), "diagnostics": often}


@cache
def people() -> pd.DataFrame:
    """Return the population of the audits."""
    rng = np.random.default_rng(23)
    n = N_POPULATION
    group = rng.choice(["a", "b", "c"], n, p=[0.6, 0.35, 0.05])
    age = rng.normal(45.0, 12.0, n)
    income = np.exp(rng.normal(10.0, 0.6, n) + 0.25 * (group == "a"))
    job = rng.choice(["clerk", "cook", "judge", "pilot", "smith"], n, p=[0.4, 0.3, 0.2, 0.09, 0.01])
    score = rng.normal(size=n)
    z = 1.2 * (np.log(income) - 10.0) + 0.02 * (age - 45.0) + 1.2 * score + 0.8 * (job == "judge") - 0.3
    hired = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-z)), "yes", "no")
    income[rng.random(n) < 0.05] = np.nan
    return pd.DataFrame({"age": age, "income": income, "job": job, "score": score, "group": group, "hired": hired})


@cache
def truth(criterion: str | None) -> float:
    """Unfairness, in the population, of the model that the whole population gives."""
    columns = {"label": "hired", "sensitive": "group", "criterion": criterion, "tolerance": TOLERANCE}
    found = sf.audit(people(), **columns, n_replicates=2)
    return float(found.interval("demographic_parity")["estimate"])


def audit(task: tuple[int, int]) -> dict[str, Any]:
    """One audit of a file that is drawn from the population."""
    n, repetition = task
    rows = people().iloc[np.random.default_rng([29, repetition]).integers(0, N_POPULATION, n)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = sf.audit(
            rows, label="hired", sensitive="group", tolerance=TOLERANCE, margin=MARGIN, n_replicates=99,
            random_state=repetition,
        )  # fmt: skip
    line: dict[str, Any] = {}
    for name, criterion in (("constrained", "demographic_parity"), ("unconstrained", None)):
        one = found.interval("demographic_parity", "total", name)
        line[name] = one["low"] <= truth(criterion) <= one["high"]
    unmet = {one["name"] for one in found.assumptions if not one["held"]}
    line["warned"] = bool(unmet - {"SmallEvaluationSet"})
    right = "within margin" if truth("demographic_parity") <= MARGIN else "violates margin"
    line["wrong"] = found.verdict not in (right, "not enough evidence")
    return line | {"definite": found.verdict == right}


def main() -> None:
    """Run the study and save its results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repetitions", type=int, default=1_000)
    parser.add_argument("--audits", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="save the results for the docs, with their options")
    parser.add_argument("--quiet", action="store_true")
    args = parser.parse_args()
    files = []
    for n in FILES:
        tasks = [(n, repetition) for repetition in range(args.audits)]
        found = list(results.in_parallel(audit, tasks, f"audits of {n:,} rows", args.quiet, args.jobs))
        files.append({"rows": n} | {name: float(np.mean([one[name] for one in found])) for name in found[0]})
        print(files[-1], flush=True)
    lines = []
    for n in ROWS if args.repetitions else ():
        for d in FEATURES:
            lines.append(cover(n, d, args))
            print(lines[-1], flush=True)
    settings = {"repetitions": args.repetitions, "audits": args.audits, "tolerance": TOLERANCE, "margin": MARGIN}
    results.keep("small", settings, lines, audits=files)


if __name__ == "__main__":
    main()
