"""Two workers over one, the driver's memory against the number of shards, and what a cluster would need, on paper.

Times are medians of rounds in which all calls take turns; workers are processes (loky) with one thread each, and a
call with one worker runs on one core. Memory is what the merging process needs at its peak beyond what it held before
(Linux only), in a process of its own for each number of partitions; workers make their own rows. The estimate for a
cluster is worked out from the rates measured here, what reading takes in bench_audit.json, and how many shards are safe
in shards.json.

    python benchmarks/scaling.py [--estimate]

With --estimate nothing is measured: the estimate is worked out anew from what is kept.
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
SHARDS, PARTITIONS = 8, (8, 64, 512)
REPETITIONS, DRAWN = 64, 20_000  # of calibrate, and rows of each
RATES = [(d, B) for d in (20, 100) for B in (200, 1_000)]
EVALUATED = 20_000  # rows to evaluate on when its rate is measured

# The cluster that is on paper. What is measured comes from the rates; this is assumed.
ROWS, MACHINES, CORES_EACH = 10**10, 4, 16  # one shard a core: more would bias what steps leave (shards.json)
NETWORK = 1.0e9  # bytes a second into each machine
SHARE_EVALUATED = 0.1  # of the rows


def classifier(work: Work, **more: Any) -> sf.FairClassifier:
    """One that fits the work."""
    return sf.FairClassifier(work.criterion, n_replicates=work.replicates, random_state=0, **more)


def partitions(work: Work, n: int) -> list[Any]:
    """Callables that make their rows where they are called."""
    return [partial(dense_rows, work, work.rows, 100 + i) for i in range(n)]


def calls(workers: int) -> dict[str, Call]:
    """What is timed, with so many workers."""
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
    """What a call does, in words."""
    return {
        "fit_replicates": f"{MANY.rows:,} rows, d={MANY.d}, B={MANY.replicates:,}",
        "fit_shards": f"{SHARDS} shards of {LONG.rows:,} rows made by the workers, d={LONG.d}, B={LONG.replicates}",
        "calibrate": f"{REPETITIONS} repetitions of {DRAWN:,} rows, d={LONG.d}, B={LONG.replicates}",
    }[name]


def workers() -> list[dict[str, Any]]:
    """Time of one worker over that of two, and of a first call, which starts the two."""
    one, two, found = calls(1), calls(2), []
    for name in one:  # one after another: workers are started anew where calls differ in how memory is shared
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
    """MiB that merging n partitions needs in this process, beyond those held before; a small call loads the code."""
    apart, clf = dense_rows(SHORT, SHORT.constraint_rows, 2), classifier(SHORT, n_jobs=2)
    fit_shards(clf, partitions(SHORT, 4), constraint_set=apart)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = resident_mib()
    fit_shards(clf, partitions(SHORT, n), constraint_set=apart)
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(peak.split()[1]) / 1024 - before


def driver() -> list[dict[str, Any]]:
    """The driver's memory by number of partitions, each in a process of its own."""
    found = []
    for n in PARTITIONS:
        told = subprocess.run(
            [sys.executable, __file__, "--peak", str(n)], check=True, capture_output=True, text=True
        ).stdout
        found.append({"partitions": n, "rows_of_each": SHORT.rows, "MiB_of_the_driver": float(told)})
    return found


def rates() -> list[dict[str, Any]]:
    """Rows per second of one core, fitted and evaluated, and bytes of a fit as it travels."""
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
    """Results of another benchmark or study; empty where it was not run."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def estimate(rate: dict[str, Any], share: float) -> list[dict[str, Any]]:
    """Minutes, bytes and memory for the cluster on paper, from the rates of one core and the share that workers keep.

    Parameters
    ----------
    rate : dict
        A row of ``rates``.
    share : float
        Of a core's rate, what is left beside other workers.
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
        ("machines, cores of each", f"{MACHINES}, {CORES_EACH}", assumed),
        ("shards, one for each core", shards, follows),
        ("rows of a shard", ROWS // shards, follows),
        *((f"shards that are safe, {name} counted", min(n, default=None), "shards.json") for name, n in safe.items()),
        (
            "bias by start, in standard deviations, largest of the problems studied",
            max(start, default=None),
            "shards.json",
        ),
        ("bias by steps, the same; intervals make up for a small one", max(steps, default=None), "shards.json"),
        ("rows/s that a core fits", rate["fit_rows/s"], measured),
        ("rows/s that a core evaluates", rate["evaluation_rows/s"], measured),
        ("rows/s that a core reads and encodes", decoded, "measured (bench_audit.json)"),
        ("share of its rate that a core keeps beside others", share, "measured, on two cores"),
        ("bytes of a row in a Parquet file", width, "measured (bench_audit.json)"),
        ("bytes/s that the network brings to a machine", NETWORK, assumed),
        ("share of the rows that is evaluated on", SHARE_EVALUATED, assumed),
        ("minutes reading, the longer of network and decoding", a_pass / 60, follows),
        ("minutes fitting", fitting / 60, follows),
        ("minutes of a second pass: reading again, evaluating", (a_pass + evaluating) / 60, follows),
        ("minutes in all, nothing overlapping", (2 * a_pass + fitting + evaluating) / 60, follows),
        ("minutes of one core", (2 * a_pass + fitting + evaluating) * busy / 60, follows),
        ("GB that are read, both passes", 2 * ROWS * width / 1e9, follows),
        ("MB of fits that travel, there and back", 2 * shards * rate["bytes_of_a_fit"] / 1e6, follows),
        ("MB of one fit, what a merging driver holds", rate["bytes_of_a_fit"] / 1e6, measured),
        ("MB of all fits, if it held them at once", shards * rate["bytes_of_a_fit"] / 1e6, follows),
    ]
    return [{"what": what, "value": value, "how_known": how} for what, value, how in lines]


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--estimate", action="store_true", help="from what is kept, measure nothing")
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)  # of the driver, in a process of its own
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # shards are short
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
    show("One worker over two", tables["rows"])
    show("Memory of the driver", tables["memory"])
    show("Rates of one core", tables["rates"])
    show("A cluster on paper", tables["estimate"])
    keep("scaling", **tables)  # command and machine stay those of the measurement


if __name__ == "__main__":
    main()
