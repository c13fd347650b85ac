"""From repetitions to a table: sums that add, and what they say about coverage, width, bias and spread."""

from __future__ import annotations

from typing import Any

import numpy as np

from surefair.inference.scoring import binomial_limits, mean_interval_score
from surefair.rows import FloatArray

CANCELLED = 1e-13
"""Share of a sum of squares below which what is left of it is rounding."""

ROUNDING = 1e-9
"""Distance of a truth from a limit that counts as none."""


def add_up(numbers: FloatArray, confidence_level: float) -> FloatArray:
    """Add up estimates, limits, truths and spreads (R, 5) over repetitions in which they are defined."""
    defined = ~np.isnan(numbers[:, 1:4]).any(axis=1)
    estimate, low, high, truth, spread = numbers[defined].T
    slack = ROUNDING * np.maximum(1.0, np.abs(truth))
    covered = (low - slack <= truth) & (truth <= high + slack)
    closed, known = np.isfinite(low) & np.isfinite(high), np.isfinite(estimate) & np.isfinite(spread)
    ends, error = (truth[closed], low[closed], high[closed]), (estimate - truth)[known]
    score = closed.sum() * mean_interval_score(*ends, 1.0 - confidence_level) if closed.any() else 0.0
    width, square, spreads = (high - low)[closed].sum(), (error**2).sum(), (spread[known] ** 2).sum()
    counted = len(numbers), defined.sum(), covered.sum(), closed.sum(), known.sum()
    return np.array([*counted, truth.sum(), width, score, error.sum(), square, spreads], dtype=np.float64)


def judge(sums: FloatArray) -> dict[str, Any]:
    """Make a row of the table from sums over all repetitions."""
    n, defined, covered, closed, known, truth, width, score, error, square, spreads = sums.tolist()
    undefined = int(n - defined)
    if not defined:
        headings = ("truth", "coverage", "coverage_low", "coverage_high", "width", "score", "bias", "spread_ratio")
        return {**dict.fromkeys(headings), "undefined": undefined}
    low, high = binomial_limits(covered, defined - covered, 0.95)
    variance = (square - error**2 / known) / (known - 1.0) if known > 1.0 else 0.0
    sd = np.sqrt(variance) if variance * known > CANCELLED * square else 0.0
    return {
        "truth": truth / defined,
        "coverage": covered / defined,
        "coverage_low": float(low),
        "coverage_high": float(high),
        "width": width / closed if closed else None,
        "score": score / closed if closed else None,
        "bias": float(error / known / sd) if sd > 0.0 else None,
        "spread_ratio": float(np.sqrt(spreads / known) / sd) if sd > 0.0 else None,
        "undefined": undefined,
    }
