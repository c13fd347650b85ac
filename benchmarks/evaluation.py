"""Time intervals for given decisions against fairlearn's bootstrap, and intervals of a fit on a million rows.

python benchmarks/evaluation.py [--all]
"""

from __future__ import annotations

import argparse
from importlib.metadata import version

import numpy as np
from fairlearn.metrics import MetricFrame, selection_rate
from threadpoolctl import threadpool_limits
from work import ROUNDS, Data, Work, console, cores, keep, medians, show

import surefair as sf
from surefair.criteria import CRITERIA

REPLICATES, SCALED, TARGET = 1_000, 20, 1_000
LARGE = Work("evaluation", "demographic_parity", d=14, replicates=200, rows=1_000_000)
GROUPS = 5


def against_fairlearn(timed: int, rounds: int) -> dict[str, object]:
    """Time the difference of selection rates between two groups: 100,000 decisions, 1,000 replicates.

    fairlearn resamples the rows and groups them again for each replicate. We time it with some replicates and with
    none, and scale the difference to 1,000.
    """
    rng = np.random.default_rng(0)
    y, decided, group = rng.integers(0, 2, (3, 100_000))
    frame = {"metrics": selection_rate, "y_true": y, "y_pred": decided, "sensitive_features": group}
    calls = {
        "ours": lambda: sf.fairness_interval(
            y, decided, sensitive_features=group, metric="demographic_parity", n_replicates=REPLICATES
        ),
        "none": lambda: MetricFrame(**frame).difference(),
        "theirs": lambda: MetricFrame(**frame, n_boot=timed, ci_quantiles=[0.025, 0.975]).difference_ci(),
    }
    calls["ours"]()  # compile first; fairlearn compiles nothing and is slow
    times = medians(calls, rounds, warm=False)
    theirs = times["none"] + (times["theirs"] - times["none"]) * REPLICATES / timed
    return {
        "peer": f"fairlearn {version('fairlearn')}",
        "ratio": theirs / times["ours"],
        "target": TARGET,
        "our_seconds": times["ours"],
        "their_seconds": theirs,
        "their_replicates_timed": timed,
        "rounds": rounds,
    }


def on_a_million_rows() -> list[dict[str, object]]:
    """Time the intervals of a fit for every criterion: a million rows, 14 coefficients, 5 groups, 200 replicates."""
    data = Data(LARGE)
    group = np.random.default_rng(4).integers(0, GROUPS, LARGE.rows)
    clf = sf.FairClassifier(None, n_replicates=LARGE.replicates, random_state=0, n_jobs=1)
    clf.fit(data.X[:20_000], data.y[:20_000], sensitive_features=group[:20_000])
    calls = {
        name: lambda name=name: clf.fairness_interval(data.X, data.y, sensitive_features=group, metric=name)
        for name in CRITERIA
    }
    times = medians(calls)
    times["all"] = sum(times.values())
    return [{"criterion": name, "seconds": value, "rows/s": LARGE.rows / value} for name, value in times.items()]


def main() -> None:
    """Measure, print, and save."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--all",
        action="store_true",
        help=f"also time fairlearn once with all {REPLICATES:,} replicates, which takes minutes",
    )
    everything = parser.parse_args().all
    with cores(1), threadpool_limits(1):
        with console.status("fairlearn"):
            rows = [against_fairlearn(SCALED, ROUNDS)]
            rows += [against_fairlearn(REPLICATES, 1)] if everything else []
        with console.status("a million rows"):
            large = on_a_million_rows()
    show("fairness_interval over fairlearn's bootstrap: 100,000 decisions, 1,000 replicates, one core", rows)
    show("A million rows, 14 coefficients, 5 groups, 200 replicates, one core", large)
    keep("evaluation", rows=rows, large=large)


if __name__ == "__main__":
    main()
