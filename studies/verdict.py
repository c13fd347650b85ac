"""Measure the errors of verdicts when the true unfairness equals the margin, and the accuracy of row forecasts.

Errors: the study draws evaluation sets whose true unfairness is exactly the margin. It also trains models with a
tolerance of 0.1, where the margin is the gap of their optimum in the population. The verdicts "within margin" and
"violates margin" should each occur in at most 5 % of the cases.

Forecasts: take an interval, put a margin at 0.7 of the way from the estimate to a limit, and ask ``rows_needed`` for
the number of rows. Then draw that many fresh rows and divide the new distance between limit and estimate by the
distance of the margin: 1 means that the forecast was right. "within 15 %" is the share of single forecasts that come so
close; each has the noise of two intervals.

    python studies/verdict.py [--studies N] [--forecasts N]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import results
from scipy.stats import binom

import surefair as sf

ALPHA, SHARE = 0.05, 0.7
DESIGNS = [  # metric, margin, rows of each group, rates of each group, options
    ("demographic_parity", 0.1, (200, 200), (0.45, 0.55), {}),
    ("demographic_parity", 0.1, (1000, 1000), (0.45, 0.55), {}),
    ("demographic_parity", 0.1, (1600, 400), (0.45, 0.55), {}),
    ("demographic_parity", 0.05, (200, 200), (0.02, 0.07), {}),
    ("demographic_parity", 0.05, (1000, 1000), (0.02, 0.07), {}),
    ("demographic_parity", 0.1, (700, 700, 600), (0.4, 0.5, 0.45), {}),
    ("demographic_parity", 0.1, (1000, 1000), (0.45, 0.55), {"method": "cheap", "n_replicates": 5}),
    ("demographic_parity_ratio", 0.8, (200, 200), (0.4, 0.5), {}),
    ("demographic_parity_ratio", 0.8, (1000, 1000), (0.4, 0.5), {}),
    ("false_positive_rate", 0.1, (400, 400), (0.15, 0.25), {}),
    ("false_positive_rate", 0.1, (2000, 2000), (0.15, 0.25), {}),
    ("equalized_odds", 0.1, (1000, 1000), (0.2, 0.3), {}),
]
STREAM = 1_000_000  # rows of the synthetic stream for each part of the study
POPULATION, TOLERANCE = 200_000, 0.1


def decided(rng: Any, sizes: Any, rates: Any, metric: str = "demographic_parity", **options: Any) -> sf.Interval:
    """Interval for rows whose decisions have the given rates; every second label is positive, so both errors occur."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    truth = np.arange(len(group)) % 2
    wrong = rng.random(len(group)) < np.repeat(rates, sizes)
    decision = np.where(truth == 1, ~wrong, wrong) if metric == "equalized_odds" else wrong
    options = {"n_replicates": 1_000} | options
    return sf.fairness_interval(truth, decision.astype(int), sensitive_features=group, metric=metric, **options)


def rows_of(part: int, n: int) -> dict[str, Any]:
    """Rows of a part of the stream."""
    batch = sf.datasets.SyntheticDI(seed=11).rows(part * STREAM, n)
    return {"X": batch.X.to_numpy(), "y": batch.y, "sensitive_features": batch.sensitive}


def fitted(part: int, n: int) -> sf.FairClassifier:
    """Train a classifier on a part of the stream."""
    return sf.FairClassifier(tolerance=TOLERANCE, random_state=part).fit(**rows_of(part, n))


@cache
def gap_of_the_optimum() -> float:
    """Unfairness of the optimum in the population, on which a fit with so many warm-up rows is exact."""
    population = rows_of(0, POPULATION)
    clf = sf.FairClassifier(tolerance=TOLERANCE, n_replicates=0, solver="exact").fit(**population)
    decision, group = clf.predict(population["X"]) == clf.classes_[1], population["sensitive_features"]
    return float(abs(decision[group == 0].mean() - decision[group == 1].mean()))


# -- Errors -----------------------------------------------------------------------------------------------------------


def evaluated(task: tuple[int, int]) -> str:
    """Verdict on one evaluation set."""
    design, study = task
    metric, margin, sizes, rates, options = DESIGNS[design]
    rng = np.random.default_rng([13, design, study])
    return decided(rng, sizes, rates, metric, random_state=study, **options).verdict(margin)


def trained(task: tuple[int, int, int]) -> str:
    """Verdict on the optimum of one classifier."""
    n_training, n_evaluation, study = task
    clf = fitted(10 + study, n_training)
    interval = clf.fairness_interval(**rows_of(10_000 + study, n_evaluation))
    return interval.verdict(gap_of_the_optimum())


def errors(source: str, metric: str, margin: float, rows: str, method: str, verdicts: list[str]) -> dict[str, Any]:
    """Make one line of the table."""
    return {
        "source": source,
        "metric": metric,
        "margin": margin,
        "rows": rows,
        "method": method,
        "studies": len(verdicts),
        "within_margin": verdicts.count("within margin") / len(verdicts),
        "violates_margin": verdicts.count("violates margin") / len(verdicts),
        "most_by_chance": float(binom.ppf(1 - 1e-3, len(verdicts), ALPHA)) / len(verdicts),
    }


def all_errors(studies: int, quiet: bool) -> list[dict[str, Any]]:
    """Table of errors."""
    lines = []
    for i, (metric, margin, sizes, _, options) in enumerate(DESIGNS):
        found = list(results.in_parallel(evaluated, [(i, study) for study in range(studies)], metric, quiet))
        method = "cheap, 5 replicates" if options else "percentile"
        lines.append(errors("evaluation", metric, margin, " + ".join(map(str, sizes)), method, found))
    for n_training, n_evaluation in ((4_000, 2_000), (4_000, 20_000), (20_000, 2_000)):
        tasks = [(n_training, n_evaluation, study) for study in range(studies // 4)]
        margin = gap_of_the_optimum()
        found = list(results.in_parallel(trained, tasks, "total", quiet))
        rows = f"{n_training} trained on, {n_evaluation}"
        lines.append(errors("total", "demographic_parity", margin, rows, "percentile", found))
    return lines


# -- Forecasts --------------------------------------------------------------------------------------------------------


def reach(interval: sf.Interval, upwards: bool) -> float:
    """Distance between the limit and the estimate."""
    return interval.high - interval.estimate if upwards else interval.estimate - interval.low


def by_evaluation(study: int) -> tuple[float, float]:
    """Forecast for evaluation alone: rows forecast, and the limit's distance there relative to the margin's."""
    rng, rates, upwards = np.random.default_rng([17, study]), (0.4, 0.5), study % 2 == 0
    now = decided(rng, (1000, 1000), rates, random_state=study)
    away = SHARE * reach(now, upwards)
    rows = int(now.rows_needed(now.estimate + away if upwards else now.estimate - away).evaluation)
    half = 1000 + rows // 2
    return rows, reach(decided(rng, (half, half), rates, random_state=1_000_000 + study), upwards) / away


def by_total(n_training: int, n_evaluation: int, kind: str) -> Callable[[int], tuple[float, float]]:
    """Forecast for training and evaluation together, with more rows of one kind or of both."""

    def forecast(study: int) -> tuple[float, float]:
        upwards, part = study % 2 == 0, 20_000 + 4 * study
        now = fitted(part, n_training).fairness_interval(**rows_of(part + 1, n_evaluation))
        away = SHARE * reach(now, upwards)
        need = now.rows_needed(now.estimate + away if upwards else now.estimate - away)
        more_training = need.training if kind == "training" else (need.times - 1.0) * n_training
        more_evaluation = need.evaluation if kind == "evaluation" else (need.times - 1.0) * n_evaluation
        sizes = {
            "training": (n_training + more_training, n_evaluation),
            "evaluation": (n_training, n_evaluation + more_evaluation),
            "both": (n_training + more_training, n_evaluation + more_evaluation),
        }[kind]
        later = fitted(part + 2, int(sizes[0])).fairness_interval(**rows_of(part + 3, int(sizes[1])))
        return sum(sizes) - n_training - n_evaluation, reach(later, upwards) / away

    return forecast


def all_forecasts(forecasts: int, quiet: bool) -> list[dict[str, Any]]:
    """Table of forecasts."""
    designs: list[tuple[str, str, int, int, Any]] = [
        ("evaluation", "evaluation", 0, 2_000, by_evaluation),
        ("total", "evaluation", 20_000, 2_000, by_total(20_000, 2_000, "evaluation")),
        ("total", "training", 4_000, 20_000, by_total(4_000, 20_000, "training")),
        ("total", "both", 4_000, 2_000, by_total(4_000, 2_000, "both")),
    ]
    lines = []
    for source, kind, n_training, n_evaluation, forecast in designs:
        found = np.array(list(results.in_parallel(forecast, range(forecasts), f"{source}, {kind}", quiet)))
        ratio = found[:, 1]
        lines.append(
            {
                "source": source,
                "rows_added": kind,
                "training_rows_now": n_training,
                "evaluation_rows_now": n_evaluation,
                "mean_rows_forecast": round(float(found[:, 0].mean())),
                "realised_over_forecast": float(ratio.mean()),
                "standard_error": float(ratio.std(ddof=1) / np.sqrt(len(ratio))),
                "within_15_%": float(np.mean(np.abs(ratio - 1.0) <= 0.15)),
            }
        )
    return lines


def main() -> None:
    """Run the study and save its results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--studies", type=int, default=1_000)
    parser.add_argument("--forecasts", type=int, default=100)
    parser.add_argument("--quiet", action="store_true")
    args = parser.parse_args()
    lines, forecasts = all_errors(args.studies, args.quiet), all_forecasts(args.forecasts, args.quiet)
    settings = {"studies": args.studies, "forecasts": args.forecasts, "confidence_level": 1 - ALPHA}
    results.keep("verdict", settings, lines, forecasts=forecasts)
    if any(max(line["within_margin"], line["violates_margin"]) > line["most_by_chance"] for line in lines):
        raise SystemExit("Some verdicts are wrong too often.")
    if any(abs(line["realised_over_forecast"] - 1.0) > 0.15 for line in forecasts):
        raise SystemExit("Some mean forecasts are off by more than 15 %.")


if __name__ == "__main__":
    main()
