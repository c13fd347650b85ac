"""Sums over repetitions, and the row of the table that they give."""

from __future__ import annotations

import numpy as np
import pytest

import surefair as sf
from surefair.calibration.table import add_up, judge


def judged(numbers, level):
    return judge(add_up(numbers, level))


def test_a_row_summarises_its_intervals():
    low = np.array([0.0, 1.0, -1.0])
    high = np.array([2.0, 2.0, 0.5])
    truth = np.array([1.0, 0.5, 0.0])
    numbers = np.column_stack([(low + high) / 2.0, low, high, truth, [0.5, 0.25, 0.5]])
    row = judged(np.vstack([numbers, np.full(5, np.nan)]), 0.9)
    error = (low + high) / 2.0 - truth
    assert row["coverage"] == pytest.approx(2 / 3)
    assert (row["width"], row["undefined"]) == (pytest.approx(4.5 / 3), 1)
    assert row["score"] == pytest.approx(sf.mean_interval_score(truth, low, high, alpha=0.1))
    assert row["bias"] == pytest.approx(error.mean() / error.std(ddof=1))
    assert row["spread_ratio"] == pytest.approx(np.sqrt(np.mean([0.25, 0.0625, 0.25])) / error.std(ddof=1))
    assert judged(np.full((2, 5), np.nan), 0.9)["coverage"] is None
    parts = add_up(numbers[:1], 0.9) + add_up(numbers[1:], 0.9)
    assert judge(parts) == pytest.approx(judged(numbers, 0.9))


def test_a_truth_on_a_limit_is_covered():
    numbers = np.array([[0.1, 0.1, 0.1, 0.3 - 0.2, 0.0], [0.1, 0.0, 0.05, 0.1, 0.0]])
    assert judged(numbers, 0.95)["coverage"] == 0.5
