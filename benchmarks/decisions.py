"""Audit decisions in a generated Parquet file: time over pyarrow's own count of the same columns, and peak memory.

python benchmarks/decisions.py [--rows N] [--folder DIR]

The file has 3 columns of groups, 2 of decisions and a label. pyarrow reads the same columns as one table and counts
them with ``group_by().aggregate``; each is timed in turn, in a new process, and the median counts.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import statistics
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

RESULTS = Path(__file__).parents[1] / "docs" / "results"
GROUPS = {"sex": 2, "race": 6, "age": 12}
DECISIONS = ("old", "new")
ROW_GROUP = 1_000_000


def generate(path: Path, rows: int) -> None:
    """Write a file of groups, labels, and decisions that depend on both."""
    rng = np.random.default_rng(0)
    writer = None
    for low in range(0, rows, ROW_GROUP):
        n = min(ROW_GROUP, rows - low)
        codes = {name: rng.integers(0, size, n) for name, size in GROUPS.items()}
        label = rng.random(n) < 0.3
        columns = {
            name: pa.array(np.array([f"{name} {i}" for i in range(GROUPS[name])])[code]) for name, code in codes.items()
        }
        for name in DECISIONS:
            columns[name] = pa.array((rng.random(n) < 0.2 + 0.3 * label + 0.02 * codes["sex"]).astype(np.int8))
        table = pa.table(columns | {"label": pa.array(label.astype(np.int8))})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def count(path: Path) -> None:
    """Count the combinations with pyarrow alone."""
    names = [*GROUPS, *DECISIONS, "label"]
    pq.read_table(path, columns=names).group_by(names).aggregate([([], "count_all")])


def audit(path: Path) -> None:
    """Audit the decisions."""
    import surefair as sf

    sf.audit(path, decision=DECISIONS, label="label", sensitive=[*GROUPS], margin=0.05)


def measure(task: str, path: Path, answer: Connection) -> None:
    """Run a task, and send its seconds and the peak memory of this process in MiB."""
    import surefair.audit.api  # noqa: F401  importing it takes a second, whatever the rows

    start = time.perf_counter()
    {"count": count, "audit": audit}[task](path)
    seconds = time.perf_counter() - start
    answer.send((seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))


def in_a_process(task: str, path: Path) -> tuple[float, float]:
    """Measure a task in a new process."""
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=measure, args=(task, path, theirs))
    process.start()
    found: tuple[float, float] = mine.recv()
    process.join()
    return found


def main() -> None:
    """Generate the file, measure both tasks in turn, and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="folder of the file, which is reused if it exists")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        path = (asked.folder or Path(scratch)) / f"decisions-{asked.rows}.parquet"
        if not path.exists():
            generate(path, asked.rows)
        runs = [(in_a_process("count", path), in_a_process("audit", path)) for _ in range(asked.repeat)]
        size = path.stat().st_size / 2**20
    counted, audited = (statistics.median(run[i][0] for run in runs) for i in range(2))
    peak = max(run[1][1] for run in runs)
    found = {
        "rows": asked.rows, "file_mib": size, "cores": os.cpu_count(), "seconds_pyarrow_count": counted,
        "seconds_audit": audited, "audit_over_count": audited / counted, "peak_mib": peak,
        "peak_mib_pyarrow_count": max(run[0][1] for run in runs),
    }  # fmt: skip
    Console().print(
        f"{asked.rows:,} rows, 3 group columns, 2 decision columns, labels: audit {audited:.2f} s, pyarrow's count "
        f"{counted:.2f} s, ratio {audited / counted:.2f}. Peak memory {peak:.0f} MiB.",
        highlight=False,
    )
    RESULTS.mkdir(parents=True, exist_ok=True)
    lines = [{"what": key.replace("_", " "), "found": value} for key, value in found.items()]
    (RESULTS / "bench_decisions.json").write_text(json.dumps({"rows": lines}, indent=1) + "\n")


if __name__ == "__main__":
    main()
