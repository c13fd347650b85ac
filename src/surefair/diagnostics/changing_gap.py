"""Gaps between groups should be the same for early and late rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc

from surefair.diagnostics._diagnostic import SELDOM, Diagnostic, FloatArray

MOST = 0.05  # standard deviation, over the periods, of the rate of a group relative to the other groups
FEWEST = 10.0  # rows with the rarer outcome that a group, and the others, have in a period if chance alone acts
PERIODS = (2, 8)  # numbers of periods that the rows are cut into


class Rates(NamedTuple):
    """Positive outcomes of a group and of all other rows, by period: arrays of shape (periods,)."""

    words: str  # which group and rate: "the rate of positive decisions of group 'f' of 'sex'"
    positive: FloatArray  # of the group, as many rows as their weights are worth
    total: FloatArray
    others_positive: FloatArray
    others_total: FloatArray


class ChangingGap(Diagnostic):
    """Gaps between groups change along the rows, so that one gap for all rows does not describe them."""

    assumes = "Gaps between groups are the same for early and late rows."
    advice = (
        "If rows come in the order of time, audit each period by itself: shuffling would only hide the change. If they "
        "are just sorted, shuffle them."
    )
    command_line_advice = advice
    forbids_verdict = True


DIAGNOSTIC = ChangingGap


def check(rates: Sequence[Rates]) -> list[Diagnostic]:
    """Check whether the rate of a group, relative to all other rows, changes along the evaluation rows.

    The null model: rows are independent and of one law, so the difference d_t between the group and the others in
    period t has one mean, and Q = Σ (d_t - d̄)² / v_t has a chi-square law with one degree of freedom fewer than
    periods, where v_t is the binomial variance under the rates of all periods together. The rows are cut into two
    periods and into eight. All groups and rates together give a false alarm with probability 0.001.

    A difference that is beyond chance is reported if its standard deviation over the periods, corrected for chance, is
    more than 0.05: less does not make a verdict wrong that holds with some room.

    Examples
    --------
    >>> half, n = np.array([300.0, 100.0]), np.full(2, 400.0)
    >>> [one.message for one in check([Rates("the rate of group 'f'", half, n, half[::-1], n)])]
    ["Gaps change along the rows: the rate of group 'f' minus that of all others goes from 0.50 to -0.50."]
    >>> check([Rates("the rate of group 'f'", half, n, half, n)])  # both groups change in the same way
    []
    """
    worst = None
    for one in rates:
        for n_periods in PERIODS:
            found = _change(one, n_periods)
            if found is None:
                continue
            away, chance, low, high = found
            if away > MOST and chance < SELDOM / (len(rates) * len(PERIODS)) and (worst is None or away > worst[0]):
                worst = away, one.words, low, high
    if worst is None:
        return []
    away, words, low, high = worst
    message = f"Gaps change along the rows: {words} minus that of all others goes from {low:.2f} to {high:.2f}."
    return [ChangingGap(message, away, MOST)]


def _change(one: Rates, n_periods: int) -> tuple[float, float, float, float] | None:
    """Spread of the difference over so many periods, its p-value, and the first and the last of the extreme values."""
    parts = [_merged(part, one.total + one.others_total, n_periods) for part in one[1:]]
    if any(len(part) < n_periods for part in parts):
        return None
    positive, total, others_positive, others_total = parts
    variance = np.zeros(n_periods)
    for up, all_rows in ((positive, total), (others_positive, others_total)):
        share = up.sum() / all_rows.sum() if all_rows.sum() > 0.0 else 0.0
        if not min(share, 1.0 - share) * all_rows.min() >= FEWEST:
            return None
        variance += share * (1.0 - share) / all_rows
    gap = positive / total - others_positive / others_total
    precision = 1.0 / variance
    Q = float(precision @ (gap - precision @ gap / precision.sum()) ** 2)
    away = float(np.sqrt(max(Q - (n_periods - 1.0), 0.0) / precision.sum()))
    ends = sorted([int(gap.argmin()), int(gap.argmax())])
    return away, float(chdtrc(n_periods - 1.0, Q)), float(gap[ends[0]]), float(gap[ends[1]])


def _merged(values: FloatArray, rows: FloatArray, n_periods: int) -> FloatArray:
    """Merge neighbouring periods, so that few of about the same number of rows are left."""
    after = np.cumsum(rows)
    if not after[-1:].sum() > 0.0:
        return values[:0]
    period = np.minimum((n_periods * (after - rows / 2.0) / after[-1]).astype(int), n_periods - 1)
    return np.asarray(np.bincount(period, values, minlength=n_periods), dtype=np.float64)
