"""What starting costs: imports, ``surefair --help``, the first kernel and the first fit, each in a new process.

One round asks every question once, in turn; the figures are medians over the rounds. A round before them, not timed,
fills numba's cache and the system's. All but ``--help`` are timed inside the process, after ``import numpy``;
``--help`` is the whole life of the process, the interpreter's start included. The processor's time stands beside the
clock's: where the clock says much more, other work was running. Lines without a bound say what is in the others.

    python benchmarks/startup.py
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from datetime import date
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

ROUNDS = 7
ROOT = Path(__file__).parents[1]
OUT = ROOT / "docs" / "results" / "bench_startup.json"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}

ROWS = """
rng = np.random.default_rng(0)
X, y, z = rng.normal(size=(100, 3)), np.arange(100) % 2, np.arange(100) // 2 % 2
"""
FIT = "sf.FairClassifier(random_state=0).fit(X, y, sensitive_features=z)"
WARM = """
from surefair import kernels
counts = [kernel.stats for kernel in vars(kernels).values() if hasattr(kernel, "stats")]
assert any(count.cache_hits for count in counts), "no kernel came from the cache"
assert not any(count.cache_misses for count in counts), "a kernel was compiled: the cache is cold"
"""


class Question(NamedTuple):
    """One line: what is timed (nothing: ``surefair --help``), its bound in seconds, and what comes before and after."""

    name: str
    timed: str
    bound: float | None = None
    before: str = ""
    after: str = ""


QUESTIONS = [
    Question("import surefair, beyond import numpy", "import surefair", 0.3),
    Question("surefair --help, the whole process", "", 0.3),
    Question(
        "first kernel (draw_multipliers) from a warm cache, import of numba included",
        "from surefair import kernels; kernels.draw_multipliers(0, 1, 0, 0, V)",
        1.0,
        before="V = np.zeros((2, 40))",
        after=WARM,
    ),
    Question(
        "first fit of 100 rows, all its kernels from a warm cache, imports done",
        FIT,
        1.0,
        before=f"import surefair as sf; sf.FairClassifier{ROWS}",
        after=WARM,
    ),
    Question("first fit of 100 rows, imports included", FIT, before=f"import surefair as sf{ROWS}", after=WARM),
    Question("of that: import of scikit-learn, numba and narwhals alone", "import sklearn.base, numba, narwhals"),
    Question("second fit of 100 rows", FIT, before=f"import surefair as sf{ROWS}{FIT}"),
    Question("import numpy, for scale", "import numpy as np"),
]


def seconds(question: Question) -> tuple[float, float]:
    """Ask once, in a new process: seconds by the clock, and seconds of the processor."""
    if not question.timed:
        before, start = os.times(), time.perf_counter()
        script = Path(sys.executable).with_name("surefair")
        subprocess.run([script, "--help"], env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)
        took, after = time.perf_counter() - start, os.times()
        return took, sum(after[2:4]) - sum(before[2:4])  # of the children, user and system
    numpy = "" if question.timed.startswith("import numpy") else "import numpy as np"
    lines = (
        "import time", numpy, question.before, "start, busy = time.perf_counter(), time.process_time()", question.timed,
        "took, busy = time.perf_counter() - start, time.process_time() - busy", question.after, "print(took, busy)",
    )  # fmt: skip
    child = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], env=ENVIRONMENT, check=True, stdout=subprocess.PIPE, text=True
    )
    took, busy = map(float, child.stdout.split())
    return took, busy


def processor() -> str:
    """The processor's model, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def main() -> None:
    """Measure, print and keep."""
    for question in QUESTIONS:
        seconds(question._replace(after=""))  # not counted: fills the caches
    rounds = [[seconds(question) for question in QUESTIONS] for _ in range(ROUNDS)]
    bounded, parts = [], []
    table = Table(title=f"Starting: medians of {ROUNDS} new processes each, in turn")
    for heading in ("time / bound", "seconds", "bound", "slowest", "processor", "what"):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    for question, asked in zip(QUESTIONS, zip(*rounds, strict=True), strict=True):
        took, busy = zip(*asked, strict=True)
        line = {"seconds": median(took), "slowest": max(took), "processor_seconds": median(busy), "what": question.name}
        ratio, bound = "", ""
        if question.bound is None:
            parts.append(line)
        else:
            bounded.append({"time_over_bound": median(took) / question.bound, "bound": question.bound, **line})
            ratio, bound = f"{median(took) / question.bound:.3f}", f"{question.bound}"
        numbers = (f"{value:.4f}" for value in (median(took), max(took), median(busy)))
        table.add_row(ratio, next(numbers), bound, *numbers, question.name)
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    kept = {
        "date": str(date.today()),
        "machine": platform.machine(),
        "processor": processor(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "numba", "scikit-learn", "scipy", "pandas")},
        "rounds": ROUNDS,
        "rows": bounded,
        "parts": parts,
    }
    OUT.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
