"""Measure how time and memory of ``FairClassifier.fit`` grow with one size at a time, around a base case.

A slope is fitted to the logarithms over the upper half of the points: 1 means proportional, 0 flat. Each curve comes
with an explanation and the range of slopes that it allows, and the table says if the slope is in that range. Times are
medians of rounds in which all points of a curve take turns. Memory is the peak of a forked process minus what it held
before the call (Linux with glibc only).

    python benchmarks/growth.py
"""

from __future__ import annotations

import ctypes
import gc
import resource
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from memory import resident_mib
from threadpoolctl import threadpool_limits
from work import CORES, RESULTS, Array, Call, Work, console, cores, dense_rows, keep, medians, show, shown

import surefair as sf

mpl.use("Agg")
import matplotlib.pyplot as plt

BASE = Work("base", "demographic_parity", d=14, replicates=200, rows=50_000)
RATE = {"criterion": "false_positive_rate"}
MANY = {"rows": 20_000}  # fewer rows save time
GROUPS = (2, 3, 5, 10, 20)
LOADED = 5_000  # rows of a short fit, more than for warming up
TIME, MEMORY = "#D55E00", "#0072B2"


class Curve(NamedTuple):
    """One size that varies, and why time grows with it that way."""

    name: str
    size: str  # a field of Work, or an argument of ``fitting``
    values: tuple[int, ...]
    low: float  # the explanation allows slopes from low to high
    high: float
    why: str
    others: dict[str, Any] = {}  # noqa: RUF012  other differences from the base case
    rounds: int = 15


CURVES = [
    Curve(
        "rows", "rows", (12_500, 25_000, 50_000, 100_000, 200_000, 400_000), 0.55, 1.1,
        "Every row costs the same. The warm-up rows, on which all replicates are solved exactly, make small fits more "
        "expensive per row.",
    ),
    Curve(
        "warm-up rows", "n_warmup", (500, 1_000, 2_000, 4_000, 8_000, 16_000), 0.1, 1.0,
        "A solution on the warm-up rows takes several passes over them; the rest of the fit takes one.",
    ),
    Curve(
        "coefficients", "d", (8, 16, 32, 64, 128, 256), 0.9, 2.0,
        "With few coefficients the sigmoid dominates. The work on a row is linear. One Newton step for every 32 rows, "
        "and new coordinates for every row, are quadratic and begin to matter.",
        {"rows": 20_000},
        rounds=5,
    ),
    Curve(
        "replicates", "replicates", (25, 50, 100, 200, 400, 800), 0.7, 1.1,
        "All replicates share the checking and new coordinates of rows and the Hessian, which dominate with few "
        "replicates. With many, each replicate costs the same.",
    ),
    Curve(
        "groups, tolerance 0", "groups", GROUPS, -0.2, 1.0,
        "A row enters the sums of its own group, whatever the number of groups. Each Newton step solves for the "
        "multipliers of all pairs of groups.",
        MANY,
        rounds=5,
    ),
    Curve(
        "groups, tolerance 0.02", "groups", GROUPS, 0.3, 3.0,
        "With a tolerance, sweeps over the pairs find the multipliers. Each visit of a pair costs as much as there are "
        "pairs, and their number is quadratic in the groups.",
        {**MANY, "tolerance": 0.02},
        rounds=3,
    ),
    Curve(
        "groups, false-positive rate", "groups", GROUPS, -0.2, 1.0,
        "As for demographic parity; only the rows with a negative label enter a sum.",
        {**MANY, **RATE},
        rounds=5,
    ),
    Curve(
        "threads", "threads", (1, 2), -1.0, -0.3,
        "The threads share the replicates; checking, new coordinates and the Hessian stay on one thread.",
    ),
]  # fmt: skip


def fitting(
    groups: int = 2, tolerance: float = 0.0, threads: int = 1, n_warmup: int = 4_000, **sizes: Any
) -> Call:  # fmt: skip
    """Return a function that fits the base case with other sizes; its argument limits the number of rows."""
    work = BASE._replace(**sizes)
    X, y, z = rows(work, work.rows, groups, seed=1)
    clf = sf.FairClassifier(
        work.criterion, tolerance=tolerance, n_replicates=work.replicates, n_warmup=n_warmup, random_state=0,
        n_jobs=threads, solver="one_pass",
    )  # fmt: skip

    def fit(n: int = work.rows) -> None:
        with cores(threads):
            clf.fit(X[:n], y[:n], sensitive_features=z[:n])

    return fit


def rows(work: Work, n: int, groups: int, seed: int) -> tuple[Array, Array, Array]:
    """Rows with groups of equal size, by ranges of a number that depends on an important feature."""
    X, y, _ = dense_rows(work, n, seed)
    lean = X[:, -1] + np.random.default_rng(10 + seed).normal(size=n)
    return X, y, lean.argsort().argsort() * groups // n


def peak_mib(fit: Call) -> float:
    """Peak memory of a fit in MiB, beyond what a separate process held before; short fits load the code first."""
    fit(LOADED)
    context = get_context("fork")
    ours, theirs = context.Pipe(duplex=False)

    def child() -> None:
        fit(LOADED)
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # otherwise the fit would use free memory first, and not show up
        Path("/proc/self/clear_refs").write_text("5")  # reset the recorded peak
        before = resident_mib()
        fit()
        theirs.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before)

    process = context.Process(target=child)
    process.start()
    theirs.close()
    needed = ours.recv()
    process.join()
    return needed


def measure(curve: Curve) -> Iterator[dict[str, object]]:
    """Seconds and MiB at every point of a curve."""
    calls = {value: fitting(**curve.others, **{curve.size: value}) for value in curve.values}
    needed = {value: peak_mib(call) for value, call in calls.items()}
    for value, took in medians(calls, curve.rounds).items():
        yield {"against": curve.name, "value": value, "seconds": took, "MiB": needed[value]}


def slope(points: list[dict[str, Any]]) -> float:
    """Slope of log seconds over the upper half of the points, at least two."""
    upper = points[-max(2, (len(points) + 1) // 2) :]
    return float(np.polyfit(*(np.log([point[key] for point in upper]) for key in ("value", "seconds")), 1)[0])


def explained(curve: Curve, points: list[dict[str, Any]]) -> dict[str, object]:
    """Slope of a curve, and if the explanation allows it."""
    found = slope(points)
    return {
        "time_against": curve.name,
        "slope": found,
        "explained": f"{curve.low:g} to {curve.high:g}",
        "holds": "yes" if curve.low <= found <= curve.high else "NO",
        "why": curve.why,
    }


def ends(curve: Curve, points: list[dict[str, Any]]) -> dict[str, object]:
    """First and last point of a curve."""
    first, last = points[0], points[-1]
    return {
        "against": curve.name,
        "from": first["value"],
        "to": last["value"],
        "seconds_from": first["seconds"],
        "seconds_to": last["seconds"],
        "MiB_from": first["MiB"],
        "MiB_to": last["MiB"],
    }


def draw(found: list[tuple[Curve, list[dict[str, Any]]]]) -> None:
    """Draw one panel per curve: seconds on the left axis, MiB on the right, with the same scales in all panels."""
    figure, axes = plt.subplots(-(-len(found) // 3), 3, figsize=(8.5, 7.0), layout="constrained", sharey=True)
    all_needed = [point["MiB"] for _, points in found for point in points]
    for i, (ax, (curve, points)) in enumerate(zip(axes.flat, found, strict=False)):
        sizes, took, needed = ([point[key] for point in points] for key in ("value", "seconds", "MiB"))
        right = ax.twinx()
        right.loglog(sizes, needed, "s:", color=MEMORY, markersize=3)
        right.set_ylim(min(all_needed) / 2, 2 * max(all_needed))
        right.minorticks_off()
        ax.loglog(sizes, took, "o-", color=TIME, markersize=4)
        ax.set_title(f"{curve.name}: slope {slope(points):.2f}", loc="left", fontsize=8.5)
        ax.minorticks_off()
        ax.set_xticks(sizes, [shown(size) for size in sizes], fontsize=7, rotation=30)
        ax.grid(axis="y", color="0.9")
        for side, colour in ((ax, TIME), (right, MEMORY)):
            side.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
            side.tick_params(axis="y", labelsize=8, labelcolor=colour, length=0)
            side.spines[["top", "left", "right"]].set_visible(False)
        if i % 3 == 0:
            ax.set_ylabel("seconds", color=TIME, fontsize=8)
        if i % 3 == 2:
            right.set_ylabel("peak memory (MiB)", color=MEMORY, fontsize=8)
        else:
            right.set_yticklabels([])
    for ax in axes.flat[len(found) :]:
        ax.set_axis_off()
    figure.savefig(RESULTS / "bench_growth.png", dpi=150)


def main() -> None:
    """Measure, print, save, and draw."""
    found = {}
    with cores(1), threadpool_limits(1):
        for curve in CURVES:
            if curve.size != "threads" or max(curve.values) <= len(CORES):
                with console.status(curve.name):
                    found[curve.name] = curve, list(measure(curve))
    slopes = [explained(*one) for one in found.values()]
    spans = [ends(*one) for one in found.values()]
    show("How the time of a fit grows", slopes)
    show("From the smallest to the largest", spans)
    keep("growth", rows=slopes, ends=spans, points=[point for _, points in found.values() for point in points])
    draw(list(found.values()))


if __name__ == "__main__":
    main()
