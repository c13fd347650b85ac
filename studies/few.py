"""Compute the exact coverage of intervals for a single rate with few rows in total or on one side.

This needs no simulation: for n rows, every possible count has its binomial probability, and an interval either contains
the true rate or not. The study prints the lowest and the mean coverage over rates from 0 to 1 at a nominal 95 %, for
Clopper and Pearson, Wilson, the Bayesian bootstrap with half an extra row on each side (Jeffreys), and surefair, which
uses Clopper and Pearson if fewer than 15 rows are on either side of the rate, and the bootstrap otherwise.

    python studies/few.py
"""

from __future__ import annotations

import argparse

import numpy as np
import results
from scipy.stats import beta, binom, norm

from surefair.inference.limits import FEW

SIZES = (1, 3, 10, 20, 40, 100, 400)
RATES = np.linspace(0.0005, 0.9995, 4_000)
LEAST = 0.93
Limits = tuple[np.ndarray, np.ndarray]


def clopper_pearson(k: np.ndarray, n: int) -> Limits:
    """Exact limits."""
    low, high = beta.ppf(0.025, k, n - k + 1), beta.ppf(0.975, k + 1, n - k)
    return np.where(k == 0, 0.0, low), np.where(k == n, 1.0, high)


def wilson(k: np.ndarray, n: int) -> Limits:
    """Limits of the score test."""
    z = norm.ppf(0.975)
    centre, half = (k + z**2 / 2) / (n + z**2), z / (n + z**2) * np.sqrt(k * (n - k) / n + z**2 / 4)
    return centre - half, centre + half


def jeffreys(k: np.ndarray, n: int) -> Limits:
    """Percentiles of the Bayesian bootstrap with half an extra row per side, widened to include the observed rate."""
    low, high = beta.ppf(0.025, k + 0.5, n - k + 0.5), beta.ppf(0.975, k + 0.5, n - k + 0.5)
    return np.minimum(low, k / n), np.maximum(high, k / n)


def chosen(k: np.ndarray, n: int) -> Limits:
    """Limits of surefair, for many replicates."""
    few = np.minimum(k, n - k) < FEW
    (exact_low, exact_high), (low, high) = clopper_pearson(k, n), jeffreys(k, n)
    return np.where(few, np.minimum(low, exact_low), low), np.where(few, np.maximum(high, exact_high), high)


def main() -> None:
    """Run the study and save its results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quiet", action="store_true")
    parser.parse_args()
    rows = []
    for n in SIZES:
        k, line = np.arange(n + 1), {"rows": n}
        chance = binom.pmf(k[:, None], n, RATES)
        for method in (clopper_pearson, wilson, jeffreys, chosen):
            low, high = method(k, n)
            covered = np.sum(chance * ((low[:, None] <= RATES) & (high[:, None] >= RATES)), axis=0)
            line |= {
                f"{method.__name__}_lowest": float(covered.min()),
                f"{method.__name__}_mean": float(covered.mean()),
            }
        rows.append(line)
    results.keep("few", {"few": FEW, "rates": len(RATES)}, rows)
    if any(row["chosen_lowest"] < LEAST for row in rows):
        raise SystemExit(f"Some coverage is below {LEAST}.")


if __name__ == "__main__":
    main()
