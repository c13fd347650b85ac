"""Measure how often intervals of refitted learners contain the truth, with everything redrawn.

The population has 20,000 rows with six features and two groups. Rows are drawn from it, a ``BootstrapClassifier`` is
fitted, and its intervals are compared with their truths: the mean gap of models that the learner trains on as many
fresh rows (total, training), the gap of one such model (retraining), and the gap of this very model (evaluation). The
second table has arbitrariness: how often its interval contains the share of rows on which two fresh models disagree.

    python studies/learners.py [--repetitions R] [--learners a,b] [--rows N,N] [--refits B,B] [--keep] [--quiet]

With ``--keep``, lines of other learners and sizes that the last run kept stay.
"""

from __future__ import annotations

import argparse
import json
import warnings
from functools import cache
from typing import Any

import numpy as np
import results
from fairlearn.reductions import DemographicParity, ExponentiatedGradient
from scipy.stats import binom
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import surefair as sf

N_POPULATION, N_EVALUATION = 20_000, 4_000
LINEAR = {
    "logistic regression": LogisticRegression(),
    "FairClassifier (exact)": sf.FairClassifier(tolerance=0.05, solver="exact", n_replicates=0),
}
OTHERS = {
    "gradient boosting": HistGradientBoostingClassifier(max_iter=40, max_leaf_nodes=8, early_stopping=False),
    "random forest": RandomForestClassifier(n_estimators=50, min_samples_leaf=5),
    "small network": make_pipeline(StandardScaler(), MLPClassifier((8,), max_iter=40)),
    "ExponentiatedGradient": ExponentiatedGradient(LogisticRegression(), DemographicParity(), eps=0.02, max_iter=15),
}


@cache
def population() -> tuple[Any, Any, Any]:
    """Features, labels and groups."""
    rng = np.random.default_rng(29)
    group = (rng.random(N_POPULATION) < 0.4).astype(int)
    X = rng.normal(size=(N_POPULATION, 6))
    X[:, 0] += 0.5 * group
    X[:, 1] = np.abs(X[:, 1])
    score = X[:, 0] + 0.7 * X[:, 1] * X[:, 2] + 0.4 * X[:, 3] - 0.5
    return X, (rng.random(N_POPULATION) < 1.0 / (1.0 + np.exp(-1.5 * score))).astype(int), group


def cover(name: str, n: int, B: int, args: argparse.Namespace) -> dict[str, Any]:
    """Coverage of one learner."""
    X, y, group = population()
    clf = sf.BootstrapClassifier((LINEAR | OTHERS)[name], n_replicates=B)
    found = sf.calibrate(
        clf, X, y, sensitive_features=group, n_rows=n, n_evaluation=N_EVALUATION, repetitions=args.repetitions,
        random_state=7, n_jobs=args.jobs, progress=not args.quiet,
    )  # fmt: skip
    table = found.table.set_index("source")
    line: dict[str, Any] = {"learner": name, "rows": n, "refits": B}
    line |= {source: float(table["coverage"][source]) for source in ("total", "training", "retraining", "evaluation")}
    error = float(np.sqrt(0.95 * 0.05 / args.repetitions))
    return line | {"error": error, "spread_ratio": float(table["spread_ratio"]["training"]),
                   "bias": float(table["bias"]["training"]), "repetitions": args.repetitions}  # fmt: skip


def disagree(name: str, n: int, B: int, args: argparse.Namespace) -> dict[str, Any]:
    """Coverage of the intervals for arbitrariness."""
    X, y, group = population()
    learner = (LINEAR | OTHERS)[name]
    rng = np.random.default_rng(11)
    takes = "fairclassifier" in str(type(learner)).lower()

    def fit(model: Any) -> Any:
        at = rng.integers(0, len(y), n)
        return model.fit(X[at], y[at], **({"sensitive_features": group[at]} if takes else {}))

    fresh = np.stack([fit(clone(learner)).predict(X) for _ in range(args.repetitions)])
    q = fresh.mean(axis=0)
    each = 2.0 * q * (1.0 - q) * len(fresh) / (len(fresh) - 1.0)
    truths = np.array([each.mean(), *(each[group == g].mean() for g in (0, 1))])
    covered, values = np.zeros(3), []
    for r in range(args.repetitions):
        clf = fit(sf.BootstrapClassifier(learner, n_replicates=B, random_state=r))
        at = rng.integers(0, len(y), N_EVALUATION)
        found = clf.arbitrariness(X[at], sensitive_features=group[at])
        table = found.by_group
        low, high = np.r_[found.low, table["low"]], np.r_[found.high, table["high"]]
        covered += (low <= truths) & (truths <= high)
        values.append(found.estimate)
    share = covered / args.repetitions
    return {"learner": name, "rows": n, "refits": B, "truth": float(truths[0]), "estimate": float(np.mean(values)),
            "all_rows": float(share[0]), "group_0": float(share[1]), "group_1": float(share[2]),
            "repetitions": args.repetitions}  # fmt: skip


def _beside(before: list[dict[str, Any]], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lines of an earlier run that this one did not measure again, and those of this one."""
    done = {(row["learner"], row["rows"], row["refits"]) for row in rows}
    return [row for row in before if (row["learner"], row["rows"], row["refits"]) not in done] + rows


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--learners", default=",".join([*LINEAR, *OTHERS]))
    parser.add_argument("--rows", default="2000")
    parser.add_argument("--refits", default="10")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--quiet", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    rows, apart = [], []
    for name in args.learners.split(","):
        for n in map(int, args.rows.split(",")):
            for B in map(int, args.refits.split(",")):
                rows.append(cover(name, n, B, args))
                results.console.print(rows[-1])
        apart.append(disagree(name, int(args.rows.split(",")[0]), int(args.refits.split(",")[-1]), args))
        results.console.print(apart[-1])
    low = float(binom.ppf(0.01, args.repetitions, 0.95) / args.repetitions)
    if args.keep and (known := results.FOLDER / "learners.json").exists():
        before = json.loads(known.read_text())
        rows, apart = _beside(before["rows"], rows), _beside(before["arbitrariness"], apart)
    settings = {"population": N_POPULATION, "evaluation_rows": N_EVALUATION, "chance_leaves_open": low}
    results.keep("learners", settings, rows, arbitrariness=apart)


if __name__ == "__main__":
    main()
