"""Measure memory while ten million rows are streamed; the curve should be flat.

python benchmarks/memory.py [--rows N]
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import time
from pathlib import Path

import matplotlib as mpl
from rich.console import Console
from rich.progress import track

import surefair as sf

mpl.use("Agg")
import matplotlib.pyplot as plt

RESULTS = Path(__file__).parents[1] / "docs" / "results"
BATCH = 50_000


def resident_mib() -> float:
    """Memory that this process holds, in MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    """Stream, measure, print, and draw."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    rows = parser.parse_args().rows
    console = Console()
    stream, clf = sf.datasets.SyntheticDI(seed=0), sf.FairClassifier(random_state=0, n_jobs=2)
    curve, start = [], time.perf_counter()
    batches = (stream.rows(low, BATCH) for low in range(0, rows, BATCH))
    for i, batch in enumerate(track(batches, "rows", rows // BATCH, disable=not console.is_terminal, transient=True)):
        clf.partial_fit(batch.X, batch.y, sensitive_features=batch.sensitive)
        if i % 4 == 3:
            gc.collect()
            curve.append(((i + 1) * BATCH, resident_mib()))
    elapsed = time.perf_counter() - start
    settled = [mib for seen, mib in curve if seen >= rows // 10]
    growth = max(settled) - settled[0]
    console.print(
        f"{rows:,} rows, 200 replicates, in {elapsed:.0f} s ({rows / elapsed:,.0f} rows/s, data generation included). "
        f"Memory after a tenth of the rows: {settled[0]:.1f} MiB; largest change after that: {growth:+.1f} MiB.",
        highlight=False,
    )
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "memory.json").write_text(
        json.dumps({"rows": rows, "curve": curve, "growth_mib": growth}, indent=1) + "\n"
    )
    figure, ax = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
    ax.plot(*zip(*curve, strict=True), color="#0072B2")
    ax.set(xlabel="rows streamed", ylabel="resident memory (MiB)", xlim=(0, rows))
    ax.set_ylim(0, 1.2 * max(mib for _, mib in curve))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value / 1e6:g} M")
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(RESULTS / "memory.png", dpi=150)
    if growth > 16.0:
        raise SystemExit(f"Memory grew by {growth:.1f} MiB; at most 16 MiB are allowed.")


if __name__ == "__main__":
    main()
