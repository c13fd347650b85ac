"""Measure the speed-up of two workers, the driver's memory by number of shards, and the rates of one core.

Times are medians of rounds in which all calls take turns. Workers are processes (loky) with one thread each, and a call
with one worker runs on one core. Memory is the peak of the merging process minus what it held before (Linux only), in a
separate process for each number of partitions; workers generate their own rows.

    python benchmarks/scaling.py
"""

from __future__ import annotations

import argparse
import gc
import pickle
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any

from joblib.externals.loky import get_reusable_executor
from memory import resident_mib
from threadpoolctl import threadpool_limits
from work import Call, Work, console, cores, dense_rows, keep, medians, seconds, show

import surefair as sf
from surefair.parallel import fit_replicates, fit_shards

ROUNDS = 5
WARMUP = 4_000  # rows that all shards share
MANY = Work("many replicates", "demographic_parity", d=20, replicates=1_000, rows=200_000)
LONG = MANY._replace(name="shards", replicates=200, rows=200_000)  # rows of each shard
SHORT = LONG._replace(name="partitions", rows=2_000)
SHARDS = 8
PARTITIONS = (8, 64, 512)
REPETITIONS, DRAWN = 64, 20_000  # repetitions of calibrate, and rows per repetition
RATES = [(20, 200), (20, 1_000), (100, 200)]  # features and replicates
EVALUATED = 20_000  # evaluation rows when measuring the rate of evaluation


def classifier(work: Work, **more: Any) -> sf.FairClassifier:
    """Return the classifier for a work."""
    return sf.FairClassifier(work.criterion, n_replicates=work.replicates, random_state=0, solver="one_pass", **more)


def partitions(work: Work, n: int) -> list[Any]:
    """Functions that generate their rows in the worker that calls them."""
    return [partial(dense_rows, work, work.rows, 100 + i) for i in range(n)]


def calls(workers: int) -> dict[str, Call]:
    """Calls to time, with a number of workers."""
    (X, y, z), first = dense_rows(MANY, MANY.rows, 1), dense_rows(MANY, WARMUP, 2)
    frame = dense_rows(LONG, LONG.rows, 3)

    def on_cores(call: Call) -> Call:
        def run() -> object:
            with cores(workers):
                return call()

        return run

    jobs = {"n_jobs": workers}
    return {
        "fit_replicates": on_cores(lambda: fit_replicates(classifier(MANY, **jobs), X, y, sensitive_features=z)),
        "fit_shards": on_cores(lambda: fit_shards(classifier(LONG, **jobs), partitions(LONG, SHARDS), warmup=first)),
        "calibrate": on_cores(
            lambda: sf.calibrate(
                classifier(LONG), frame[0], frame[1], sensitive_features=frame[2], n_rows=DRAWN,
                repetitions=REPETITIONS, progress=False, **jobs,
            )
        ),
    }  # fmt: skip


def work_of(name: str) -> str:
    """Describe what a call does."""
    return {
        "fit_replicates": f"{MANY.rows:,} rows, d={MANY.d}, B={MANY.replicates:,}",
        "fit_shards": f"{SHARDS} shards of {LONG.rows:,} rows made by the workers, d={LONG.d}, B={LONG.replicates}",
        "calibrate": f"{REPETITIONS} repetitions of {DRAWN:,} rows, d={LONG.d}, B={LONG.replicates}",
    }[name]


def workers() -> list[dict[str, Any]]:
    """Speed-up of two workers over one, and the time of a first call, which starts the workers."""
    one = calls(1)
    two = calls(2)
    found = []
    for name in one:  # one after another: loky restarts workers if calls differ in how they share memory
        get_reusable_executor().shutdown(wait=True)
        first = seconds(two[name])
        took = medians({"one": one[name], "two": two[name]}, ROUNDS)
        found.append(
            {
                "call": name,
                "work": work_of(name),
                "seconds_1_worker": took["one"],
                "seconds_2_workers": took["two"],
                "1_over_2": took["one"] / took["two"],
                "seconds_first_call": first,
            }
        )
    return found


def peak_mib(n: int) -> float:
    """Peak memory of merging n partitions in MiB, beyond what the process held before; a small call loads the code."""
    first, clf = dense_rows(SHORT, WARMUP, 2), classifier(SHORT, n_jobs=2)
    fit_shards(clf, partitions(SHORT, 4), warmup=first)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # reset the recorded peak
    before = resident_mib()
    fit_shards(clf, partitions(SHORT, n), warmup=first)
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(peak.split()[1]) / 1024 - before


def driver() -> list[dict[str, Any]]:
    """Memory of the driver by number of partitions, each in a separate process."""
    found = []
    for n in PARTITIONS:
        printed = subprocess.run(
            [sys.executable, __file__, "--peak", str(n)], check=True, capture_output=True, text=True
        ).stdout
        found.append({"partitions": n, "rows_of_each": SHORT.rows, "MiB_of_the_driver": float(printed)})
    return found


def rates() -> list[dict[str, Any]]:
    """Rows per second of one core, fitting and evaluating, and bytes of a pickled fit."""
    fits: dict[Any, Call] = {}
    asked: dict[Any, Call] = {}
    works = [LONG._replace(d=d, replicates=B) for d, B in RATES]
    for work in works:
        X, y, z = dense_rows(work, work.rows, 1)
        fits[work] = partial(classifier(work).fit, X, y, sensitive_features=z)
        X, y, z = dense_rows(work, EVALUATED, 4)
        asked[work] = partial(fits[work]().fairness_interval, X, y, sensitive_features=z)
    with cores(1):
        fitting, asking = medians(fits, ROUNDS), medians(asked, ROUNDS)
    return [
        {
            "d": work.d,
            "B": work.replicates,
            "fit_rows/s": work.rows / fitting[work],
            "ns_per_row_replicate_and_feature": 1e9 * fitting[work] / work.rows / work.d / work.replicates,
            "evaluation_rows/s": EVALUATED / asking[work],
            "bytes_of_a_fit": len(pickle.dumps(fits[work]())),
        }
        for work in works
    ]


def main() -> None:
    """Measure, print, and save."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)  # called by this script, in a separate process
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # short shards raise diagnostics
    if asked.peak:
        print(peak_mib(asked.peak))
        return
    tables = {}
    with threadpool_limits(1):
        for name, measure in (("rows", workers), ("memory", driver), ("rates", rates)):
            with console.status(name):
                tables[name] = measure()
    show("Speed-up of two workers", tables["rows"])
    show("Memory of the driver", tables["memory"])
    show("Rates of one core", tables["rates"])
    keep("scaling", **tables)


if __name__ == "__main__":
    main()
