"""Asymptotic sequences: averages of independent influences stay within their half widths at all looks together."""

import numpy as np
from scipy.stats import binom, norm

from surefair.inference.asymptotic import TUNED, half_width

N_STREAMS, ALPHA = 1000, 0.05
LOOKS = np.unique(np.geomspace(100, 20_000, 60).astype(int))
MOST = binom.ppf(0.999, N_STREAMS, ALPHA)


def averages(rng, looks):
    """Averages of standard normal influences of so many rows, shape (looks, streams)."""
    sizes = np.diff(looks, prepend=0)[:, None]
    return np.cumsum(np.sqrt(sizes) * rng.standard_normal((len(looks), N_STREAMS)), axis=0) / looks[:, None]


def ever_beyond(error, reach):
    return int((np.abs(error) > reach[:, None]).any(axis=0).sum())


def test_one_kind_of_rows():
    error = averages(np.random.default_rng(0), LOOKS)
    reach = np.array([half_width(np.array([n**-0.5]), np.array([float(n)]), ALPHA) for n in LOOKS])
    assert ever_beyond(error, reach) <= MOST
    assert ever_beyond(error, norm.isf(ALPHA / 2.0) / np.sqrt(LOOKS)) > 4 * MOST  # fixed intervals fail this test


def test_two_kinds_of_rows_that_grow_at_different_speeds():
    rng = np.random.default_rng(1)
    others = np.maximum(50, LOOKS**2 // 20_000)
    error = averages(rng, LOOKS) + 0.5 * averages(rng, others)
    spreads = np.stack([LOOKS**-0.5, 0.5 * others**-0.5], axis=1)
    rows = np.stack([LOOKS, others], axis=1).astype(float)
    reach = np.array([half_width(spread, n, ALPHA) for spread, n in zip(spreads, rows, strict=True)])
    assert ever_beyond(error, reach) <= MOST
    assert ever_beyond(error, norm.isf(ALPHA / 2.0) * np.hypot(*spreads.T)) > 3 * MOST


def test_sequences_are_narrowest_where_they_are_tuned():
    times = {n: float(half_width(np.ones(1), np.array([float(n)]), ALPHA)) for n in (TUNED // 10, TUNED, 10 * TUNED)}
    assert min(times, key=times.get) == TUNED
    assert 1.5 < times[TUNED] / norm.isf(ALPHA / 2.0) < 1.6
