"""Measure how close the slab kernel is to the limits of the processor, and how much of its speed ``fit`` keeps.

All runs use one pinned core and double precision. The unit is a *slot*: the time in which one lane of one pipe can do a
multiply-add. The peak in slots per second is measured. Each row and replicate needs

    3 slots per feature    for the score, the step of w and the step of U: three multiply-adds that cannot be avoided
    35 more slots          about 20 for the exponential of the sigmoid (two to clip, three to split off the power of 2,
                           thirteen for the polynomial, the rest to assemble the result), 8 for the one division (which
                           takes a pipe that much longer), 7 for scalars: what earlier rows of the block have added, the
                           scale of the score, the ridge, the sum of the average and the two gains

Every block of 4 rows reads w twice and writes it once, and reads U once and writes it once: 40 bytes per feature and
replicate, from and to the smallest cache that holds both for a tile of columns. We assume that writes take no longer
than reads. This gives two bounds on rows per second; the fraction of the roofline is relative to the compute bound.
Peak, kernel and fit take turns within each round, and figures are medians over the rounds.

    python benchmarks/roofline.py
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numba import njit
from threadpoolctl import threadpool_limits
from work import WORKS, Array, Call, Data, Work, console, cores, keep, medians, seconds, show

import surefair as sf
from surefair.kernels import BLOCK, TILE

SHORT = 15  # runs
SLOTS_A_FEATURE, SLOTS_BESIDES, BYTES_A_BLOCK = 3, 35, 40
SLABS = [work._replace(rows=200_000) for work in WORKS if work.slab]
SIZES, COMPARED, BATCH = (10_000, 50_000, 200_000), 50_000, 10_000  # rows
FRACTION, SHARE = 0.45, 0.9  # targets for works with enough features to dominate the kernel
LEVELS = {"L1": 2**14, "L2": 2**19, "memory": 2**28}  # bytes that are read repeatedly
CHAIN = 16  # dependent multiply-adds per element; other elements fill the pipes meanwhile
Line = dict[str, object]


@njit(fastmath={"contract"}, error_model="numpy")
def multiply_add(x: Array, times: int) -> None:
    """Pass over x, which fits in the first cache, with CHAIN multiply-adds per element."""
    for _ in range(times):
        for i in range(len(x)):
            value = x[i]
            for _ in range(CHAIN):
                value = value * 0.999 + 0.001
            x[i] = value


@njit(fastmath={"contract", "reassoc"}, error_model="numpy")
def read(x: Array, times: int) -> float:
    """Pass over x and add it up, with as many partial sums as the compiler likes."""
    total = 0.0
    for _ in range(times):
        for i in range(len(x)):
            total += x[i]
    return total


def peak(times: int = 2_000) -> tuple[Call, int]:
    """Return a call that only does multiply-adds, and their number; 2,000 passes take about a millisecond."""
    x = np.ones(1024)
    return lambda: multiply_add(x, times), CHAIN * len(x) * times


def limits() -> list[Line]:
    """Peak and bandwidths of this core: the best of short runs, since no run can beat the core."""
    call, done = peak()
    lines = [{"what": "multiply-adds", "unit": "1e9 a second", "measured": done / best(call) / 1e9, "KiB": None}]
    for level, size in LEVELS.items():
        x, times = np.ones(size // 8), max(1, 2**26 // size)
        rate = times * size / best(lambda x=x, times=times: read(x, times)) / 1e9
        lines.append({"what": f"reading from {level}", "unit": "GB/s", "measured": rate, "KiB": size // 1024})
    return lines


def best(call: Call) -> float:
    """Seconds of the fastest of several calls, after one that compiles."""
    call()
    return min(seconds(call) for _ in range(SHORT))


def slots(work: Work) -> int:
    """Slots that a row needs, including the column of the fit itself."""
    return (SLOTS_A_FEATURE * work.d + SLOTS_BESIDES) * (work.replicates + 1)


def bounds(work: Work, found: list[Line]) -> Line:
    """Bounds on rows per second, by the pipes and by the cache that holds w and U."""
    columns = work.replicates + 1
    held = 2 * 8 * work.d * min(columns, TILE)
    level = next(level for level, size in LEVELS.items() if held <= size)
    rates = {line["what"]: 1e9 * line["measured"] for line in found}
    moved = BYTES_A_BLOCK / BLOCK * work.d * columns
    return {
        "work": work.name,
        "slots_a_row_and_replicate": slots(work) // columns,
        "bytes_a_row_and_replicate": moved / columns,
        "w_and_U_of_a_tile,_KiB": held / 1024,
        "from": level,
        "compute_bound,_rows/s": rates["multiply-adds"] / slots(work),
        "bandwidth_bound,_rows/s": rates[f"reading from {level}"] / moved,
    }


def measure(work: Work) -> Iterator[Line]:
    """Compare kernel, fit and partial_fit with the compute bound: one line per way and number of rows."""
    data, (at_peak, done) = Data(work), peak(100_000)
    clf = sf.FairClassifier(n_replicates=work.replicates, random_state=0, n_jobs=1, solver="one_pass")
    stream = sf.FairClassifier(n_replicates=work.replicates, random_state=0, n_jobs=1, solver="one_pass")
    first = {"sensitive_features": data.z[:BATCH], "constraint_set": data.apart}
    stream.partial_fit(data.X[:BATCH], data.y[:BATCH], **first)
    fit = stream.model_.trained
    moved, labels = fit.to_learner(data.X), data.y.astype(float)

    def whole(n: int) -> None:
        clf.fit(data.X[:n], data.y[:n], sensitive_features=data.z[:n], constraint_set=data.apart)

    def batches(n: int) -> None:
        for low in range(0, n, BATCH):
            part = slice(low, low + BATCH)
            stream.partial_fit(data.X[part], data.y[part], sensitive_features=data.z[part])

    ways = [("fit", whole, n) for n in SIZES] + [(f"partial_fit, {BATCH:,} at a time", batches, COMPARED)]
    for way, call, n in ways:
        calls = {
            "peak": at_peak,
            "kernel": lambda n=n: fit.learner.step(fit.state, moved[:n], labels[:n]),
            "whole": lambda call=call, n=n: call(n),
        }
        times = medians(calls)
        needed = n * slots(work) / (done / times["peak"])  # seconds at the compute bound
        yield {
            "work": work.name,
            "way": way,
            "rows": n,
            "kernel": needed / times["kernel"],
            "whole": needed / times["whole"],
            "kernel_rows/s": n / times["kernel"],
            "rows/s": n / times["whole"],
        }


def fractions(lines: list[Line], aimed: list[str]) -> list[Line]:
    """Fractions of the compute bound, for one number of rows."""
    return [
        {
            "work": line["work"],
            "kernel": line["kernel"],
            "FairClassifier.fit": line["whole"],
            "target": FRACTION if line["work"] in aimed else None,
            "kernel_rows/s": line["kernel_rows/s"],
            "fit_rows/s": line["rows/s"],
        }
        for line in lines
        if line["way"] == "fit" and line["rows"] == COMPARED
    ]


def shares(lines: list[Line], aimed: list[str]) -> list[Line]:
    """Share of the kernel's speed that the public methods keep."""
    return [
        {
            "work": line["work"],
            "way": line["way"],
            "rows": line["rows"],
            "share_of_the_kernel": line["whole"] / line["kernel"],
            "target": SHARE if line["work"] in aimed else None,
        }
        for line in lines
    ]


def main() -> None:
    """Measure, print, and save."""
    aimed = [work.name for work in SLABS if work.d >= 14]
    with cores(1), threadpool_limits(1):
        with console.status("limits"):
            found = limits()
        lines = []
        for work in SLABS:
            with console.status(work.name):
                lines += measure(work)
    tables = {
        "limits": ("Limits of one core", found),
        "bounds": ("Bounds of the slab kernel", [bounds(work, found) for work in SLABS]),
        "rows": (f"Fractions of the compute bound, {COMPARED:,} rows", fractions(lines, aimed)),
        "shares": ("Share of the bare kernel's rows per second", shares(lines, aimed)),
    }
    for title, rows in tables.values():
        show(title, rows)
    keep("roofline", **{key: rows for key, (_, rows) in tables.items()})


if __name__ == "__main__":
    main()
