"""Measure the speed-up of two workers and the driver's memory by number of shards, and estimate a cluster's needs.

Times are medians of rounds in which all calls take turns. Workers are processes (loky) with one thread each, and a call
with one worker runs on one core. Memory is the peak of the merging process minus what it held before (Linux only), in a
separate process for each number of partitions; workers generate their own rows. The estimate for a cluster follows from
the rates measured here, the reading times in bench_audit.json, and the safe numbers of shards in shards.json.

    python benchmarks/scaling.py [--estimate]

With --estimate the benchmark measures nothing and recomputes the estimate from saved results.
"""

from __future__ import annotations

import argparse
import gc
import json
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
from work import RESULTS, Call, Work, console, cores, dense_rows, keep, medians, seconds, show

import surefair as sf
from surefair.learners.schedules import AUTO
from surefair.parallel.blocks import fit_replicates, fit_shards

ROUNDS = 5
MANY = Work("many replicates", "demographic_parity", d=20, replicates=1_000, constraint_rows=1_000, rows=200_000)
LONG = MANY._replace(name="shards", replicates=200, rows=200_000)  # rows of each shard
SHORT = LONG._replace(name="partitions", rows=2_000)
SHARDS = 8
PARTITIONS = (8, 64, 512)
REPETITIONS, DRAWN = 64, 20_000  # repetitions of calibrate, and rows per repetition
RATES = [(d, B) for d in (20, 100) for B in (200, 1_000)]
EVALUATED = 20_000  # evaluation rows when measuring the rate of evaluation

# Assumptions about the cluster; everything else is measured.
ROWS, MACHINES, CORES_EACH = 10**10, 4, 16  # one shard per core: more would increase the bias (shards.json)
NETWORK = 1.0e9  # bytes per second into each machine
SHARE_EVALUATED = 0.1  # share of the rows


def classifier(work: Work, **more: Any) -> sf.FairClassifier:
    """Return the classifier for a work."""
    return sf.FairClassifier(work.criterion, n_replicates=work.replicates, random_state=0, **more)


def partitions(work: Work, n: int) -> list[Any]:
    """Functions that generate their rows in the worker that calls them."""
    return [partial(dense_rows, work, work.rows, 100 + i) for i in range(n)]


def calls(workers: int) -> dict[str, Call]:
    """Calls to time, with a number of workers."""
    (X, y, z), apart = dense_rows(MANY, MANY.rows, 1), dense_rows(MANY, MANY.constraint_rows, 2)
    frame = dense_rows(LONG, LONG.rows, 3)

    def on_cores(call: Call) -> Call:
        def run() -> object:
            with cores(workers):
                return call()

        return run

    jobs = {"n_jobs": workers}
    return {
        "fit_replicates": on_cores(
            lambda: fit_replicates(classifier(MANY, **jobs), X, y, sensitive_features=z, constraint_set=apart)
        ),
        "fit_shards": on_cores(
            lambda: fit_shards(classifier(LONG, **jobs), partitions(LONG, SHARDS), constraint_set=apart)
        ),
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
    apart, clf = dense_rows(SHORT, SHORT.constraint_rows, 2), classifier(SHORT, n_jobs=2)
    fit_shards(clf, partitions(SHORT, 4), constraint_set=apart)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # reset the recorded peak
    before = resident_mib()
    fit_shards(clf, partitions(SHORT, n), constraint_set=apart)
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
    works = [LONG._replace(d=d, replicates=B, rows=4_000_000 // (d * B // 100 + 10)) for d, B in RATES]
    for work in works:
        (X, y, z), apart = dense_rows(work, work.rows, 1), dense_rows(work, work.constraint_rows, 2)
        fits[work] = partial(classifier(work).fit, X, y, sensitive_features=z, constraint_set=apart)
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


def known(name: str) -> dict[str, Any]:
    """Results of another benchmark or study; empty if it has not run."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def estimate(rate: dict[str, Any], share: float) -> list[dict[str, Any]]:
    """Estimate minutes, bytes and memory for the cluster from the rates of one core.

    Parameters
    ----------
    rate : dict
        A row of ``rates``.
    share : float
        Share of its rate that a core keeps while other workers run.
    """
    reading = {row["what"]: row["found"] for row in known("bench_audit")["rows"]}
    width = reading["file mib"] * 2**20 / reading["rows"]
    decoded = reading["rows"] / reading["seconds reading and encoding"]
    safe: dict[str, list[int]] = {"start": [], "start and steps": []}
    for row in known("shards").get("safe", ()):
        safe[row["counted"]].append(row[f"{ROWS:,}_rows"])
    shards = MACHINES * CORES_EACH
    laws = known("shards").get("law", ())
    start = [abs(law["a"]) * (shards - 1) / ROWS**0.5 for law in laws]
    steps = [abs(law["b"]) * (shards**AUTO.power - 1) / ROWS ** (AUTO.power - 0.5) for law in laws]
    busy = shards * share
    network = ROWS * width / (MACHINES * NETWORK)
    decoding = ROWS / (busy * decoded)
    fitting = ROWS / (busy * rate["fit_rows/s"])
    evaluating = SHARE_EVALUATED * ROWS / (busy * rate["evaluation_rows/s"])
    a_pass = max(network, decoding)
    measured, assumed, follows = "measured", "assumed", "follows"
    lines: list[tuple[str, Any, str]] = [
        ("rows", ROWS, assumed),
        ("features, replicates", f"{rate['d']}, {rate['B']}", assumed),
        ("machines, cores per machine", f"{MACHINES}, {CORES_EACH}", assumed),
        ("shards, one per core", shards, follows),
        ("rows per shard", ROWS // shards, follows),
        *((f"safe number of shards, counting {name}", min(n, default=None), "shards.json") for name, n in safe.items()),
        (
            "bias from the start, in standard deviations, largest over the problems studied",
            max(start, default=None),
            "shards.json",
        ),
        ("bias from the steps, likewise; intervals correct a small one", max(steps, default=None), "shards.json"),
        ("rows/s of one core, fitting", rate["fit_rows/s"], measured),
        ("rows/s of one core, evaluating", rate["evaluation_rows/s"], measured),
        ("rows/s of one core, reading and encoding", decoded, "measured (bench_audit.json)"),
        ("share of its rate that a core keeps next to other workers", share, "measured, on two cores"),
        ("bytes per row in a Parquet file", width, "measured (bench_audit.json)"),
        ("network bytes/s into each machine", NETWORK, assumed),
        ("share of the rows for evaluation", SHARE_EVALUATED, assumed),
        ("minutes for reading, the longer of network and decoding", a_pass / 60, follows),
        ("minutes for fitting", fitting / 60, follows),
        ("minutes for a second pass: reading again and evaluating", (a_pass + evaluating) / 60, follows),
        ("minutes in total, if nothing overlaps", (2 * a_pass + fitting + evaluating) / 60, follows),
        ("minutes on one core", (2 * a_pass + fitting + evaluating) * busy / 60, follows),
        ("GB read in both passes", 2 * ROWS * width / 1e9, follows),
        ("MB of fits sent to workers and back", 2 * shards * rate["bytes_of_a_fit"] / 1e6, follows),
        ("MB of one fit, which a merging driver holds", rate["bytes_of_a_fit"] / 1e6, measured),
        ("MB of all fits, if the driver held them at once", shards * rate["bytes_of_a_fit"] / 1e6, follows),
    ]
    return [{"what": what, "value": value, "how_known": how} for what, value, how in lines]


def main() -> None:
    """Measure, print, and save."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--estimate", action="store_true", help="measure nothing; estimate from saved results")
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)  # called by this script, in a separate process
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # short shards raise diagnostics
    if asked.peak:
        print(peak_mib(asked.peak))
        return
    tables = known("bench_scaling") if asked.estimate else {}
    if not asked.estimate:
        with threadpool_limits(1):
            for name, measure in (("rows", workers), ("memory", driver), ("rates", rates)):
                with console.status(name):
                    tables[name] = measure()
    share = min(1.0, next(row["1_over_2"] for row in tables["rows"] if row["call"] == "fit_shards") / 2.0)
    tables["estimate"] = estimate(tables["rates"][0], share)
    show("Speed-up of two workers", tables["rows"])
    show("Memory of the driver", tables["memory"])
    show("Rates of one core", tables["rates"])
    show("Estimate for a cluster", tables["estimate"])
    keep("scaling", **tables)  # with --estimate, command and machine stay those of the measurement


if __name__ == "__main__":
    main()
