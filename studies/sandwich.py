"""Compare bootstrap standard errors of an unconstrained logistic fit of Adult with the sandwich of statsmodels.

The fits use all 45,222 rows in three orders, so each has its own warm-up rows. For every coefficient, the study prints
the ratios of two standard errors to the exact one, from 2,000 replicates and from the plug-in sandwich of the same
pass. It also prints the share of the exact variance that comes from the one in a thousand rows with the most influence.

    python studies/sandwich.py
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import results
import statsmodels.api as sm

import surefair as sf
from surefair.inference.coefficients import plug_in_covariance

N_REPLICATES, ORDERS, BOUNDS = 2_000, 3, (0.9, 1.1)


def main() -> None:
    """Run the study and save its results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quiet", action="store_true")
    parser.parse_args()
    adult = sf.datasets.load_adult()
    X, y = adult.X.to_numpy(), adult.y == np.unique(adult.y)[1]
    columns = np.column_stack([X, np.ones(len(y))])
    model = sm.GLM(y.astype(float), columns, family=sm.families.Binomial()).fit(cov_type="HC0")
    exact, p = model.bse, model.fittedvalues
    influence = (((y - p)[:, None] * columns) @ np.linalg.inv((columns.T * (p * (1.0 - p))) @ columns)) ** 2
    most = np.sort(influence, axis=0)[-(len(y) // 1000) :].sum(axis=0) / influence.sum(axis=0)
    rows: list[dict[str, Any]] = [
        {"coefficient": name, "from_1_in_1000": float(share)}
        for name, share in zip([*adult.X.columns, "intercept"], most, strict=True)
    ]
    for seed in range(ORDERS):
        order = np.random.default_rng(seed).permutation(len(y))
        clf = sf.FairClassifier(criterion=None, n_replicates=N_REPLICATES, random_state=seed, n_jobs=2)
        clf.fit(X[order], y[order])
        bootstrap = np.append(clf.coef_replicates_.std(axis=0, ddof=1), clf.intercept_replicates_.std(ddof=1))
        plug_in = np.sqrt(np.diag(plug_in_covariance(clf.model_.trained)))
        for row, ratio, other in zip(rows, bootstrap / exact, plug_in / exact, strict=True):
            row |= {f"bootstrap_{seed + 1}": float(ratio), f"plug_in_{seed + 1}": float(other)}
    settings = {"rows": len(y), "n_warmup": clf.n_warmup, "n_replicates": N_REPLICATES}
    results.keep("sandwich", settings, rows)
    ratios = [value for row in rows for key, value in row.items() if key.startswith("bootstrap")]
    if not BOUNDS[0] <= min(ratios) <= max(ratios) <= BOUNDS[1]:
        raise SystemExit(f"Some ratios are out of bounds: {min(ratios):.3f} to {max(ratios):.3f}.")


if __name__ == "__main__":
    main()
