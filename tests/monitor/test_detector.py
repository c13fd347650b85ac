"""The detector: rare false alarms whatever the rates, quick true ones."""

import numpy as np
import pytest

from surefair.criteria import CRITERIA
from surefair.inference.metric import get_metric
from surefair.monitor.detector import BLOCK, Detector, _log_factors
from surefair.rows import Groups, Levels

GROUPS = Groups({None: Levels(np.array(["a", "b"]), "group")})
PARITY = get_metric("demographic_parity")


def table(counted, rows):
    """Counts of selection by group, as updates bring them."""
    found = np.zeros((len(rows), 2, 2), dtype=np.int64)
    found[:, 0, 1] = counted
    found[:, 0, 0] = np.array(rows) - counted
    return found


@pytest.mark.parametrize("ratio", [False, True])
def test_factors_have_an_expectation_of_at_most_one_on_the_boundary(ratio):
    from scipy.stats import binom

    margin = 0.8 if ratio else 0.1
    n, m = 25, 40
    s, u = np.meshgrid(np.arange(n + 1), np.arange(m + 1), indexing="ij")
    counts = np.stack([np.stack([s, np.full_like(s, n)], -1), np.stack([u, np.full_like(u, m)], -1)], -2)
    factor = np.exp(_log_factors(counts.reshape(-1, 2, 2).astype(float), margin, ratio))  # (2, outcomes, tilts)
    largest = 0.0
    for q in np.linspace(0.01, 0.79, 40):
        p = q / margin if ratio else q + margin
        if p > 1.0:
            continue
        chance = np.outer(binom.pmf(np.arange(n + 1), n, p), binom.pmf(np.arange(m + 1), m, q)).ravel()
        mean = factor[0].T @ chance
        assert (mean <= 1.0 + 1e-9).all()
        largest = max(largest, mean.max())
    assert largest > 0.99  # the bound is sharp for some rates


def test_a_gap_beyond_the_margin_raises_an_alarm_and_names_the_groups():
    rng = np.random.default_rng(0)
    detector = Detector.of(PARITY, 0.1, 1000.0, GROUPS)
    for update in range(200):
        rates = (0.3, 0.3) if update < 100 else (0.3, 0.6)
        detector = detector.update(table(rng.binomial(50, rates), [50, 50])[None], [100 * (update + 1)])
        if update == 99:
            assert detector.n_alarms == 0
    first = detector.alarms[0]
    assert 101 <= first.update <= 115
    assert (first.first, first.second, first.n) == ("b", "a", 100 * first.update)
    assert first.statistic >= 1000
    assert "group 'b' is above that of group 'a'" in str(first)
    assert detector.n_alarms > 1  # it starts again


def test_few_rows_wait():
    detector = Detector.of(PARITY, 0.1, 1e9, GROUPS)
    for _ in range(BLOCK - 1):
        detector = detector.update(table([1, 0], [1, 1])[None], [0])
    assert np.isneginf(detector.log_r).all()
    detector = detector.update(table([1, 0], [1, 1])[None], [0])
    assert np.isfinite(detector.log_r).all()
    assert detector.waiting.sum() == 0


def test_segments_compose():
    rng = np.random.default_rng(1)
    tables = [table(rng.binomial(60, (0.4, 0.3)), [60, 60]) for _ in range(30)]
    start = Detector.of(PARITY, 0.1, 1e9, GROUPS)
    whole, one, two = start, start, start
    for i, counted in enumerate(tables):
        whole = whole.update(counted[None], [0])
        one, two = (one.update(counted[None], [0]), two) if i < 12 else (one, two.update(counted[None], [0]))
    both = one.merge(two, 0, 0)
    np.testing.assert_allclose(both.log_r, whole.log_r, rtol=1e-10)
    np.testing.assert_allclose(both.log_f, whole.log_f, rtol=1e-10)
    assert both.n_updates == 30


def test_what_was_before_an_alarm_does_not_come_back():
    start = Detector.of(PARITY, 0.1, 50.0, GROUPS)
    large = start.update(table([30, 20], [50, 50])[None], [0])
    alarmed = start.update(table([50, 0], [50, 50])[None], [0])
    assert alarmed.n_alarms == 1
    merged = large.merge(alarmed, 0, 0)
    assert np.isneginf(merged.log_r).all()
    assert merged.alarms[0].update == 2


def test_more_groups_keep_the_state():
    wider = Groups({None: Levels(np.array(["a", "aa", "b"]), "group")})
    detector = Detector.of(PARITY, 0.1, 1e6, GROUPS).update(table([40, 10], [50, 50])[None], [100])
    moved = detector.among(wider)
    np.testing.assert_array_equal(moved.log_r[:, :, 1], detector.log_r[:, :, 0])  # a and b
    assert np.isneginf(moved.log_r[:, :, [0, 2]]).all()


@pytest.mark.parametrize("rates", [(0.5, 0.4), (0.15, 0.05)])
def test_run_lengths_are_at_least_as_long_as_stated(rates):
    """At the margin itself, the mean number of updates to a false alarm is at least the run length."""
    n_streams, run_length, horizon = 40, 10.0, 60
    lengths = []
    for seed in range(n_streams):
        rng = np.random.default_rng(seed)
        detector = Detector.of(PARITY, 0.1, run_length, GROUPS)
        for _ in range(horizon):
            detector = detector.update(table(rng.binomial(40, rates), [40, 40])[None], [0])
            if detector.n_alarms:
                break
        lengths.append(detector.n_updates)
    error = np.std(lengths, ddof=1) / np.sqrt(n_streams)
    assert np.mean(lengths) + 3.0 * error >= run_length  # those cut off at the horizon would only be longer


def test_equalized_odds_looks_at_both_rates():
    metric = get_metric("equalized_odds")
    assert len(CRITERIA["equalized_odds"].rates) == 2
    detector = Detector.of(metric, 0.1, 100.0, GROUPS)
    counts = np.zeros((2, 2, 2), dtype=np.int64)
    counts[0], counts[1] = [[50, 50], [50, 50]], [[95, 5], [50, 50]]  # truth × decision: false positives differ
    for n in range(5):
        detector = detector.update(counts[None], [n])
    assert detector.alarms[0].rate == "false_positive_rate"
