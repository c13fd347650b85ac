"""Measure the coverage of exact fits on few rows, and of audits end to end, with everything redrawn.

The first table has audits of whole files, drawn from a generated population of a million rows with numbers, categories,
missing values, a rare category and a group of 5 %: how often intervals contain the values of the population, how many
audits issue a diagnostic other than ``SmallEvaluationSet``, and how many give a definite verdict that is wrong. The
same files are audited with a sentinel in 0.5 % of the rows, with a column that leaks the label, with one that stands
for a group, and with one that numbers the rows. The last table has ``FairClassifier(solver="exact")`` by rows and
features, with 5,000 evaluation rows.

    python studies/small.py [--repetitions R] [--audits A] [--jobs J] [--keep] [--quiet]

The study saves finished lines in build/small.jsonl, with a hash of the library's code, so an interrupted run can be
resumed.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import results

import surefair as sf
from surefair.audit.findings import ask
from surefair.audit.run import MODELS, Running
from surefair.audit.settings import AuditSettings
from surefair.calibration.repetitions import rates_on
from surefair.inference.metric import get_metric
from surefair.inference.theory import learnt_optima
from surefair.tables.intake import read_all
from surefair.training.parameters import problem_of

ROWS, FEATURES = (500, 1_000, 2_000, 5_000), (5, 20, 50)
FILES = (1_000, 2_000, 5_000)
TOLERANCE, MARGIN = 0.05, 0.1
N_POPULATION, N_PEOPLE = 200_000, 1_000_000
METRICS = ("demographic_parity", "demographic_parity_ratio")


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
def people() -> pa.Table:
    """Return the population of the audits."""
    rng = np.random.default_rng(23)
    n = N_PEOPLE
    group = rng.choice(["a", "b", "c"], n, p=[0.6, 0.35, 0.05])
    age = rng.normal(45.0, 12.0, n)
    income = np.exp(rng.normal(10.0, 0.6, n) + 0.6 * (group == "a"))
    job = rng.choice(["clerk", "cook", "judge", "pilot", "smith"], n, p=[0.4, 0.3, 0.2, 0.09, 0.01])
    score = rng.normal(size=n)
    z = 1.2 * (np.log(income) - 10.3) + 0.02 * (age - 45.0) + 1.2 * score + 0.8 * (job == "judge") - 0.3
    hired = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-z)), "yes", "no")
    columns = {"age": age, "income": income, "job": job, "score": score, "group": group, "hired": hired}
    unknown = rng.random(n) < 0.05
    return pa.table({name: pa.array(column, mask=unknown & (name == "income")) for name, column in columns.items()})


def spoilt(table: pa.Table, how: str, rng: np.random.Generator) -> pa.Table:
    """Return the table with something that real files have."""
    n = table.num_rows
    hired = np.asarray(table["hired"]) == "yes"
    if how == "sentinel":
        age = np.where(rng.random(n) < 0.005, 99_999.0, np.asarray(table["age"]))
        return table.set_column(0, "age", pa.array(age))
    added = {
        "leak": np.where(hired, "contract", "letter"),
        "proxy": np.where(np.asarray(table["group"]) == "b", "north", "south"),
        "identifier": 1 + np.arange(n),
    }
    return table if how == "plain" else table.append_column(how, pa.array(added[how]))


@cache
def settings() -> AuditSettings:
    """Return the settings of all audits."""
    return AuditSettings(
        label="hired", sensitive="group", tolerance=TOLERANCE, margin=MARGIN, n_replicates=99
    )  # fmt: skip


def unfairness(rates: Any) -> dict[str, float]:
    """Largest difference and smallest ratio of the rates of groups."""
    return dict(zip(METRICS, (float(np.ptp(rates)), float(rates.min() / rates.max())), strict=True))


@cache
def optimum(name: str) -> Any:
    """Rates of the groups, in the population, under the model that the population gives."""
    rows, _, _ = read_all(people(), settings())
    problem = problem_of(settings().classifier("demographic_parity" if name == MODELS[0] else None), 0)
    return rates_on(get_metric(METRICS[0]), learnt_optima(problem, rows)[0].theta[:, None], rows)[0, 0]


def audit(task: tuple[int, str, int]) -> dict[str, Any]:
    """One audit of a file that is drawn from the population."""
    n, how, repetition = task
    rng = np.random.default_rng([29, repetition])
    drawn = people().take(pa.array(rng.integers(0, N_PEOPLE, n)))
    running = Running.begin(spoilt(drawn, how, rng), replace(settings(), random_state=repetition))
    line: dict[str, Any] = {}
    try:
        found = running.run()
    except ValueError as error:
        return {"stopped": str(error).partition(":")[0]}
    kept = spoilt(people(), "plain" if how == "sentinel" else how, rng)
    rows = running.intake.elsewhere(0, running.source.place).rows(kept)
    for name in MODELS:
        fits = [rates_on(get_metric(METRICS[0]), one.coefficients[:, None], rows) for one in running.evaluated(name)]
        very = np.mean(fits, axis=0)[0, 0]
        for source, rates in (("evaluation", very), ("total", optimum(name))):
            for metric, truth in unfairness(rates).items():
                tally = running.evaluation.tallies[name]
                one = ask(running.models[name], tally, metric, source, settings()).to_dict()
                line[f"{name}, {source}, {metric}"] = one["low"] <= truth <= one["high"]
            for one, truth in zip(found.interval(METRICS[0], source, name)["by_group"], rates, strict=True):
                line[f"{name}, {source}, rate of {one['group']}"] = one["low"] <= truth <= one["high"]
    unmet = {one["name"] for one in found.assumptions if not one["held"]}
    right = "within margin" if unfairness(optimum(MODELS[0]))[METRICS[0]] <= MARGIN else "violates margin"
    named = [one["note"] for one in found.columns if one["name"] in ("age", "leak", "proxy", "identifier")]
    return line | {
        "warned": bool(unmet - {"SmallEvaluationSet"}),
        "wrong": found.verdict not in (right, "not enough evidence"),
        "definite": found.verdict == right,
        "named": bool(" ".join(named)),
        "unmet": sorted(unmet),
    }


def summed_up(n: int, how: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    """One line of the table of audits: shares, and the lowest coverage of each kind of interval."""
    done = [one for one in found if "stopped" not in one]
    line: dict[str, Any] = {"rows": n, "file": how, "stopped": 1.0 - len(done) / len(found)}
    kinds = {"difference": METRICS[0], "ratio": METRICS[1], "rate": "rate of"}
    for name in MODELS:
        for kind, words in kinds.items():
            keys = [
                key
                for key in (done[0] if done else {})
                if key.startswith(name) and words == key.split(", ")[-1][: len(words)]
            ]
            keys = [key for key in keys if kind != "difference" or not key.endswith("_ratio")]
            shares = [float(np.mean([one[key] for one in done])) for key in keys]
            line[f"{name}_{kind}"] = min(shares) if shares else None
    for share in ("warned", "wrong", "definite", "named"):
        line[share] = float(np.mean([one[share] for one in done])) if done else None
    return line


def audits(n: int, how: str, args: argparse.Namespace) -> dict[str, Any]:
    """All audits of files with so many rows: their line, the coverage of each interval, and what was not met."""
    tasks = [(n, how, repetition) for repetition in range(args.audits)]
    found = list(results.in_parallel(audit, tasks, f"audits of {n:,} rows, {how}", args.quiet, args.jobs))
    keys = dict.fromkeys(key for one in found for key in one if ", " in key)
    covered = {key: float(np.mean([one[key] for one in found if key in one])) for key in keys}
    return {
        "line": summed_up(n, how, found),
        "each": [{"rows": n, "file": how, "interval": key, "coverage": share} for key, share in covered.items()],
        "unmet": dict(Counter(name for one in found for name in one.get("unmet", []))),
    }


def main() -> None:
    """Run the study and save its results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repetitions", type=int, default=1_000)
    parser.add_argument("--audits", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="save the results for the docs, with their options")
    parser.add_argument("--quiet", action="store_true")
    args = parser.parse_args()
    files, each = [], []
    for n, how in [
        *((n, "plain") for n in FILES),
        *((2_000, how) for how in ("sentinel", "leak", "proxy", "identifier")),
    ]:
        problem = {"file": how, "rows": n, "audits": args.audits}
        found = results.kept("small", problem, lambda n=n, how=how: audits(n, how, args))
        files.append(found["line"])
        each += found["each"]
        print(found["line"], found["unmet"], flush=True)
    lines = []
    for n in ROWS if args.repetitions else ():
        for d in FEATURES:
            problem = {"rows": n, "features": d, "repetitions": args.repetitions}
            lines.append(results.kept("small", problem, lambda n=n, d=d: cover(n, d, args)))
            print(lines[-1], flush=True)
    about = {"repetitions": args.repetitions, "audits": args.audits, "tolerance": TOLERANCE, "margin": MARGIN}
    results.keep("small", about, lines, shown=("small", "audits"), audits=files, intervals=each)


if __name__ == "__main__":
    main()
