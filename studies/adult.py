"""Constrain Adult by race (five groups) and sex together; check the constraint and measure its effect.

10,000 rows are for training, and half of all rows for evaluation. Each setting has one line: the largest covariance, on
the constraint set, between membership of a group and the score, over all seven groups, the fit and its replicates; the
accuracy; and for each column the largest gap in positive decisions between two groups, with limits that hold for all
pairs together.

    python studies/adult.py
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import results

import surefair as sf

SETTINGS: list[tuple[str, int, dict[str, Any]]] = [  # constraint, rows of the constraint set, parameters
    ("none", 2_000, {"criterion": None}),
    ("tolerance 0.02", 2_000, {"tolerance": 0.02}),
    ("tolerance 0", 2_000, {"tolerance": 0.0}),
    ("tolerance 0.02", 12_000, {"tolerance": 0.02}),
    ("tolerance 0", 12_000, {"tolerance": 0.0}),
]


def covariances(clf: sf.FairClassifier, X: Any, sensitive: Any) -> np.ndarray:
    """Covariance of each group's indicator with the score: one row per group, one column per fit or replicate."""
    theta = np.vstack([clf.coef_, clf.coef_replicates_]).T
    groups = [np.asarray(sensitive[column] == value) for column in sensitive for value in set(sensitive[column])]
    return np.stack([(member - member.mean()) @ X.to_numpy() / len(X) @ theta for member in groups])


def measure(name: str, n_constraint: int, params: dict[str, Any], data: Any) -> dict[str, Any]:
    """One line of the table."""
    X, y, z = data.X, data.y, data.sensitive_columns
    order = np.random.default_rng(17).permutation(len(y))
    test, apart, train = np.split(order, [len(y) // 2, len(y) // 2 + n_constraint])
    train = train[:10_000]  # the same number for every size of the constraint set
    clf = sf.FairClassifier(random_state=0, **params)
    clf.fit(
        X.iloc[train], y[train], sensitive_features=z.iloc[train],
        constraint_set=(X.iloc[apart], y[apart], z.iloc[apart]),
    )  # fmt: skip
    found = clf.fairness_interval(
        X.iloc[test], y[test], sensitive_features=z.iloc[test], metric="demographic_parity"
    ).by_pair
    line = {
        "constraint": name,
        "constraint_rows": n_constraint,
        "largest_covariance": float(np.abs(covariances(clf, X.iloc[apart], z.iloc[apart])).max()),
        "right": float(np.mean(clf.predict(X.iloc[test]) == y[test])),
    }
    for column in z:
        pairs = found[found["column"] == column]
        ends = pairs[["low", "high"]].abs()
        low, high = ends.min(axis=1)[pairs["low"] * pairs["high"] > 0.0].max(), ends.max(axis=None)
        worst = pairs.loc[pairs["gap"].abs().idxmax()]
        line[f"unfairness_{column}"] = f"{abs(worst['gap']):.3f} [{np.nan_to_num(low):.3f}, {high:.3f}]"
        line[f"pair_{column}"] = f"{worst['first']}, {worst['second']}"
    return line


def main() -> None:
    """Run the study and save its results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quiet", action="store_true")
    parser.parse_args()
    data = sf.datasets.load_adult()
    rows = [measure(*setting, data) for setting in SETTINGS]
    results.keep("adult", {"n_replicates": 200}, rows)
    for (_, _, params), row in zip(SETTINGS, rows, strict=True):
        if row["largest_covariance"] > params.get("tolerance", np.inf) + 1e-12:
            raise SystemExit("A fit or a replicate violates the constraint.")


if __name__ == "__main__":
    main()
