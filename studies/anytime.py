"""Measure whether intervals stay valid however often anyone looks, how wide they are, and how soon changes are found.

- ``rows``: how often the true gap is ever excluded in streams of 10,000 decisions, at 80 looks from 20 rows on (and at
  every row in one case), by confidence sequences and by fixed intervals; at most 5 % are allowed.
- ``training``: the same for a model in training, over 50 looks, where sequences are asymptotic.
- ``widths``: width over that of a fixed interval at the same number of rows.
- ``delays``: updates of 100 rows until a jump of the gap is found, by the detector and by a fixed window of 10 updates
  whose threshold gives as many false alarms.
- ``run_lengths``: average number of updates between false alarms, with the gap at the margin.

    python studies/anytime.py [--streams N] [--models N] [--repeats N] [--quick]
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import results
from scipy.stats import binom
from streams import draw, ever_excluded

import surefair as sf
from surefair.inference.anytime import PairCounts, difference_limits
from surefair.inference.evaluation import model_interval
from surefair.inference.interval import Question
from surefair.inference.metric import get_metric
from surefair.monitor.detector import Detector
from surefair.rows import Groups, Levels

ROWS, LEVEL = 10_000, 0.95
CELLS = [*product((2, 5), (0.01, 0.1, 0.5), (0.0, 0.1), ("random", "adaptive"))]
GROUPS = Groups({None: Levels(np.arange(2), "group")})
MARGIN, UPDATE, WINDOW = 0.1, 100, 10
TOLERANCE, POPULATION = 0.05, 200_000


def rates_of(K: int, rate: float, gap: float) -> tuple[float, ...]:
    """Rates of the groups: the last one is higher by the gap."""
    return (*[rate] * (K - 1), rate + gap)


def excluded(cell: tuple[int, float, float, str], n_streams: int, n: int, every_row: bool = False) -> dict[str, Any]:
    """How often sequences and fixed intervals ever exclude a true gap."""
    K, rate, gap, order = cell
    looks = np.arange(20, n + 1) if every_row else np.unique(np.geomspace(20, n, 80).astype(int))
    streams = draw(rates_of(K, rate, gap), n, n_streams, order, seed=CELLS.index(cell))
    found = ever_excluded(streams, looks, LEVEL)
    most = binom.ppf(0.999, n_streams, 1.0 - LEVEL) / n_streams
    anytime = float(found.anytime.mean())
    return {
        "groups": K, "rate": rate, "gap": gap, "order": order, "looks": len(looks), "streams": n_streams,
        "anytime": anytime, "fixed": float(found.fixed.mean()), "allowed": float(most),
        "holds": "yes" if anytime <= most else "no",
    }  # fmt: skip


# -- Models in training -----------------------------------------------------------------------------------------------


def true_gap() -> float:
    """Gap of the model that unlimited training data would give, in the population."""
    population = sf.datasets.SyntheticDI(seed=10_000).sample(POPULATION)
    limit = sf.FairClassifier(n_replicates=0, solver="exact", tolerance=TOLERANCE, random_state=0)
    limit.fit(population.X, population.y, sensitive_features=population.sensitive)
    decided = limit.predict(population.X) == limit.classes_[1]
    return float(decided[population.sensitive == 0].mean() - decided[population.sensitive == 1].mean())


def ever_beyond(seed: int, looks: Sequence[int], gap: float) -> tuple[bool, bool]:
    """Whether the anytime and the fixed intervals of one model in training ever exclude the gap."""
    stream = sf.datasets.SyntheticDI(seed=seed)
    clf = sf.FairClassifier(tolerance=TOLERANCE, random_state=seed, n_replicates=100)
    question = Question(get_metric("demographic_parity"), "total", "percentile", LEVEL)
    seen, found = 0, [False, False]
    for look in looks:
        rows = stream.rows(seen, look - seen)
        clf.partial_fit(rows.X, rows.y, sensitive_features=rows.sensitive, classes=[-1, 1])
        seen = look
        test = stream.rows(10**9, look)
        tally = clf.tally(test.X, test.y, sensitive_features=test.sensitive, sources="total")
        for i, anytime in enumerate((True, False)):
            one = model_interval(clf.answer(), tally, question, anytime=anytime)
            found[i] |= not one.gap_low <= gap <= one.gap_high
    return found[0], found[1]


def trained(n_models: int, n: int, quiet: bool) -> list[dict[str, Any]]:
    """How often intervals of a model in training ever exclude the gap that unlimited data would give."""
    looks = np.unique(np.geomspace(1000, n, 50).astype(int)).tolist()
    gap = true_gap()
    ever = np.array(
        list(results.in_parallel(lambda seed: ever_beyond(seed, looks, gap), range(n_models), "models", quiet))
    )
    return [
        {
            "source": "total", "looks": len(looks), "rows": n, "models": n_models,
            "anytime": float(ever[:, 0].mean()), "fixed": float(ever[:, 1].mean()), "kind": "asymptotic",
        }
    ]  # fmt: skip


# -- Widths -----------------------------------------------------------------------------------------------------------


def width(rate: float, n: int, share: float, repeats: int) -> dict[str, Any]:
    """Mean width of sequences over that of a normal interval with the true rates."""
    rng = np.random.default_rng(0)
    sizes = np.array([round(n * share), n - round(n * share)])
    counted = rng.binomial(sizes[:, None, None], rate, size=(2, repeats, 1)).astype(float)
    rows = np.broadcast_to(sizes[:, None, None], counted.shape).astype(float)
    shares = np.broadcast_to(np.array([share, 1.0 - share])[:, None, None], counted.shape)
    low, high = difference_limits(PairCounts(counted, rows, shares), np.full(repeats, np.log(20.0 / 0.98)))
    fixed = 2.0 * 1.96 * np.sqrt(rate * (1.0 - rate) * np.sum(1.0 / sizes))
    return {"rate": rate, "rows": n, "share": share, "width": float(np.mean(high - low) / fixed)}


# -- Changes ----------------------------------------------------------------------------------------------------------


def updates(rng: Any, rates: tuple[float, float]) -> Any:
    """Counts of one update, half of each group, shape (2, 2, 2)."""
    n = UPDATE // 2
    positive = rng.binomial(n, rates)
    found = np.zeros((2, 2, 2), dtype=np.int64)
    found[:, 0, 1], found[:, 0, 0] = positive, n - positive
    return found


class Change(NamedTuple):
    """Rates before and after a change that comes after some updates, and how many updates to wait for an alarm."""

    before: tuple[float, float]
    after: tuple[float, float]
    at: int
    most: int


def first_alarm(seed: int, change: Change, run_length: float) -> int:
    """Updates from the change to the first alarm of the detector."""
    rng = np.random.default_rng(seed)
    detector = Detector.of(get_metric("demographic_parity"), MARGIN, run_length, GROUPS)
    for i in range(change.at + change.most):
        detector = detector.update(updates(rng, change.before if i < change.at else change.after)[None], [i])
        if detector.alarms and detector.alarms[-1].update > change.at:
            return i + 1 - change.at
    return change.most


def window_alarm(seed: int, change: Change, threshold: float) -> int:
    """The same for a window of the last updates: an alarm where its gap exceeds a threshold."""
    rng = np.random.default_rng(seed)
    seen: list[Any] = []
    for i in range(change.at + change.most):
        seen = [*seen, updates(rng, change.before if i < change.at else change.after)][-WINDOW:]
        total = np.sum(seen, axis=0)[:, 0]
        rate = total[:, 1] / total.sum(axis=1)
        if i >= change.at and abs(rate[0] - rate[1]) > threshold:
            return i + 1 - change.at
    return change.most


def window_threshold(change: Change, run_length: float, repeats: int) -> float:
    """Smallest threshold with which a window has an average run length of so many updates before the change."""
    none = change._replace(after=change.before, at=WINDOW)
    low, high = MARGIN, 0.6
    for _ in range(8):
        middle = (low + high) / 2.0
        runs = [window_alarm(seed, none, middle) for seed in range(repeats)]
        low, high = (low, middle) if np.mean(runs) >= run_length else (middle, high)
    return high


def delays(repeats: int, run_length: float) -> list[dict[str, Any]]:
    """Mean delay after a jump of the gap from the margin, for a base rate of 0.3."""
    change = Change((0.3, 0.3 + MARGIN), (0.3, 0.3 + MARGIN), at=20, most=int(10 * run_length))
    threshold = window_threshold(change, run_length, repeats)
    found = []
    for jump in (0.05, 0.1, 0.2):
        jumped = change._replace(after=(0.3, 0.3 + MARGIN + jump))
        detector = [first_alarm(seed, jumped, run_length) for seed in range(repeats)]
        window = [window_alarm(seed, jumped, threshold) for seed in range(repeats)]
        found.append(
            {
                "jump": jump, "run_length": run_length, "updates_detector": float(np.mean(detector)),
                "updates_window": float(np.mean(window)), "threshold_window": threshold,
            }
        )  # fmt: skip
    return found


def run_lengths(repeats: int, run_length: float) -> list[dict[str, Any]]:
    """Average updates to a false alarm, with the gap at the margin; runs are cut at ten run lengths."""
    found = []
    for low in (0.05, 0.3, 0.45):
        rates = (low, low + MARGIN)
        none = Change(rates, rates, at=0, most=int(10 * run_length))
        runs = [first_alarm(seed, none, run_length) for seed in range(repeats)]
        error = np.std(runs, ddof=1) / np.sqrt(repeats)
        found.append({"rate": low, "stated": run_length, "mean": float(np.mean(runs)), "standard_error": float(error)})
    return found


def main() -> None:
    """Run all parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--models", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=500)
    parser.add_argument("--quick", action="store_true", help="short streams, to try the study")
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--keep", action="store_true")
    asked = parser.parse_args()
    n = 1000 if asked.quick else ROWS
    run_length = 20.0 if asked.quick else 100.0
    cells = CELLS[::6] if asked.quick else CELLS
    warnings.filterwarnings("ignore", category=sf.diagnostics.Diagnostic)
    rows = list(results.in_parallel(lambda cell: excluded(cell, asked.streams, n), cells, "streams", asked.quiet))
    rows.append(excluded((2, 0.1, 0.0, "random"), asked.streams, n, every_row=True))
    widths = [
        width(rate, size, share, min(200, asked.repeats))
        for rate in (0.5, 0.1, 0.01)
        for size in (200, 1000, 10_000, 100_000, 10_000_000)
        for share in (0.5, 0.9)
    ]
    results.keep(
        "anytime", {"level": LEVEL, "margin": MARGIN, "update_rows": UPDATE, "window_updates": WINDOW}, rows,
        widths=widths, training=trained(asked.models, n * 2, asked.quiet), delays=delays(asked.repeats, run_length),
        run_lengths=run_lengths(asked.repeats, run_length),
    )  # fmt: skip


if __name__ == "__main__":
    main()
