"""Measure coverage, bias and width of fits that are merged from shards, by number of shards.

Each problem has a population of 200,000 rows. Each of R repetitions draws n rows with replacement: the first are the
warm-up rows that all shards share, and the others are cut into M shards of equal length. ``fit_shards`` fits and merges
them with default settings and 200 replicates. (Synthetic DM has a tolerance of 0.05: equal false-positive rates would
mean the same decision for everyone.) The study then compares the intervals of all four sources, and those of the
coefficients, with their true values on 5,000 evaluation rows, as in studies/calibration.py. A repetition has the same
rows for every M, so differences between M are paired.

The table has the coverage of 95 % intervals. It has the bias in excess of one pass (M = 1), in standard deviations of
one pass, with its standard error: for the gap of the source "training", and for the coefficient that moves most. It
also has the mean width relative to one pass. A line FAILS if the exact binomial interval of a coverage,
Bonferroni-corrected over all that are judged, is outside 93 to 97 %. Bias is of order M/n and the standard deviation of
order 1/√n, so lines with more than √n/10 shards are shown, but not judged.

    python studies/shards.py [--repetitions R] [--rows N ...] [--shards M ...] [--jobs J] [--quiet]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import results
from classic import COVARIANCES
from scipy.special import expit

import surefair as sf
from surefair.calibration import Calibration
from surefair.inference.scoring import binomial_limits
from surefair.parallel import fit_shards

SEED, N_POPULATION, N_EVALUATION, LEVEL = 19, 200_000, 5_000, 0.95
ROWS, SHARDS, BOUNDS = (20_000, 200_000), (1, 2, 8, 32), (0.93, 0.97)
FAR_FEWER = 0.1  # lines are judged up to this many times the square root of the rows


class Rows(NamedTuple):
    """A population."""

    X: np.ndarray
    y: np.ndarray
    sensitive: np.ndarray


def logistic(d: int = 20) -> Rows:
    """Toeplitz design of studies/classic.py with large scores, and a group that depends on the last features."""
    rng = np.random.default_rng(SEED)
    X = rng.normal(size=(N_POPULATION, d)) @ np.linalg.cholesky(COVARIANCES["Toeplitz"](d)).T
    y = np.where(rng.random(len(X)) < expit(X @ np.linspace(0.0, 1.0, d)), 1, -1)
    return Rows(X, y, (X[:, -2:].sum(axis=1) + rng.normal(size=len(X)) > 0.0).astype(int))


PROBLEMS: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {  # population, parameters
    "synthetic DI, demographic parity": (lambda: sf.datasets.SyntheticDI(seed=SEED).sample(N_POPULATION), {}),
    "synthetic DM, false-positive rate": (
        lambda: sf.datasets.SyntheticDM(seed=SEED).sample(N_POPULATION),
        {"criterion": "false_positive_rate", "tolerance": 0.05},
    ),
    "logistic, 20 features, no constraint": (logistic, {"criterion": None}),
}


def in_shards(M: int, clf: sf.FairClassifier, X: Any, y: Any, *, sensitive_features: Any) -> sf.FairClassifier:
    """Fit in M shards of equal length after the warm-up rows; rows are independent draws, so any cut is random."""

    def part(low: int, high: int) -> tuple[Any, Any, Any]:
        return X[low:high], y[low:high], {name: z.iloc[low:high] for name, z in sensitive_features.items()}

    edges = np.linspace(clf.n_warmup, len(y), M + 1).astype(int).tolist()
    shards = [part(low, high) for low, high in pairwise(edges)]
    return fit_shards(clf, shards, warmup=part(0, clf.n_warmup))


def measure(population: Any, params: dict[str, Any], n: int, M: int, args: argparse.Namespace) -> Calibration:
    """Calibration with M shards."""
    return sf.calibrate(
        sf.FairClassifier(**params),
        population.X,
        population.y,
        sensitive_features=population.sensitive,
        n_rows=n,
        n_evaluation=N_EVALUATION,
        repetitions=args.repetitions,
        confidence_level=LEVEL,
        fit=partial(in_shards, M),
        random_state=SEED,
        n_jobs=args.jobs,
        progress=not args.quiet,
    )


def line(found: Calibration, one_pass: Calibration, n: int, M: int, level: float) -> dict[str, Any]:
    """Coverage, bias in excess of one pass, and width of one number of shards."""
    table = found.to_dict()["table"]
    names = [row["source"] if row["kind"] == "gap" else row["quantity"] for row in table]
    coefs = [i for i, row in enumerate(table) if row["kind"] == "coefficient"]
    moved = [excess(*pair) for pair in zip(found.errors.T, one_pass.errors.T, strict=True)]
    wide = [np.nanmean(a) / np.nanmean(b) for a, b in zip(found.widths.T, one_pass.widths.T, strict=True)]
    furthest = max(coefs, key=lambda i: abs(moved[i][0]))
    out = [name for name, row in zip(names, table, strict=True) if is_out(row, found.settings["repetitions"], level)]
    return {
        **{name: row["coverage"] for name, row in zip(names, table, strict=True) if row["kind"] == "gap"},
        "coef_lowest": min(table[i]["coverage"] for i in coefs),
        "coef_mean": float(np.mean([table[i]["coverage"] for i in coefs])),
        "bias_gap": "{:+.3f} ± {:.3f}".format(*moved[names.index("training")]),
        "bias_coef": "{:+.3f} ± {:.3f} ({})".format(*moved[furthest], names[furthest]),
        "width_total": float(wide[names.index("total")]),
        "width_coef": float(np.mean([wide[i] for i in coefs])),
        "verdict": "not judged" if not is_judged(n, M) else f"FAILS: {', '.join(out)}" if out else "holds",
    }


def excess(errors: np.ndarray, one_pass: np.ndarray) -> tuple[float, float]:
    """Mean difference between paired errors (R,), in standard deviations of one pass, and its standard error."""
    apart = errors - one_pass
    some = np.isfinite(apart)
    sd = one_pass[some].std(ddof=1)
    return float(apart[some].mean() / sd), float(apart[some].std(ddof=1) / np.sqrt(some.sum()) / sd)


def is_out(row: dict[str, Any], repetitions: int, level: float) -> bool:
    """Whether chance does not explain that a coverage is out of bounds."""
    defined = repetitions - row["undefined"]
    held = round(row["coverage"] * defined)
    low, high = binomial_limits(held, defined - held, level)
    return bool(high < BOUNDS[0] or low > BOUNDS[1])


def is_judged(n: int, M: int) -> bool:
    """Whether there are far fewer shards than the square root of the rows."""
    return FAR_FEWER * np.sqrt(n) >= M


def main() -> None:
    """Run the study and save its results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repetitions", type=int, default=300)
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS)
    parser.add_argument("--shards", type=int, nargs="*", default=SHARDS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--quiet", action="store_true")
    args = parser.parse_args()
    if min(args.shards) != 1:
        parser.error("--shards must include 1, because the other numbers are compared with it")
    found: dict[tuple[str, int, int], Calibration] = {}
    for name, (load, params) in PROBLEMS.items():
        population = load()
        for n in args.rows:
            for M in sorted(args.shards):
                found[name, n, M] = measure(population, params, n, M, args)
                said = found[name, n, M].sentence
                results.console.print(f"{name}, {n:,} rows in {M} shards: {said}", highlight=False)
    judged = sum(len(one.table) for (_, n, M), one in found.items() if is_judged(n, M))
    level = 1.0 - (1.0 - LEVEL) / max(judged, 1)
    rows = [
        {"problem": name, "rows": n, "shards": M} | line(one, found[name, n, 1], n, M, level)
        for (name, n, M), one in found.items()
    ]
    settings = {"repetitions": args.repetitions, "n_warmup": sf.FairClassifier().n_warmup, "judged": judged}
    results.keep("shards", settings | {"level_each": level}, rows)
    if failed := [row for row in rows if row["verdict"].startswith("FAILS")]:
        raise SystemExit(f"{len(failed)} lines are out of bounds.")


if __name__ == "__main__":
    main()
