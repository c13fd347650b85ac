"""Time the start: imports, ``surefair --help``, the first kernel and the first fit, each in a new process.

Every round asks each question once, and the figures are medians over the rounds. An untimed round before them fills
numba's cache and the system's. All but ``--help`` are timed inside the process, after ``import numpy``; ``--help`` is
the whole process, including the start of the interpreter. The table shows processor time next to elapsed time: if
elapsed time is much longer, other work was running. Lines without a bound explain the others. The last line compiles
every kernel of a fit once, into an empty cache.

    python benchmarks/startup.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

from work import keep, show

ROUNDS = 7
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}

ROWS = """
rng = np.random.default_rng(0)
X = rng.normal(size=(100, 3))
y, z = (X[:, :2].sum(axis=1) > 0.5 * rng.normal(size=100)).astype(int), (X[:, 0] > rng.normal(size=100)).astype(int)
"""
# There are more rows than for warming up.
FIT = "sf.FairClassifier(solver='one_pass', n_warmup=64, random_state=0).fit(X, y, sensitive_features=z)"
WARM = """
from surefair import kernels
counts = [kernel.stats for kernel in vars(kernels).values() if hasattr(kernel, "stats")]
assert any(count.cache_hits for count in counts), "no kernel came from the cache"
assert not any(count.cache_misses for count in counts), "a kernel was compiled: the cache is cold"
"""


class Question(NamedTuple):
    """One line of the table: code to time (empty for ``surefair --help``), a bound in seconds, and code around it."""

    what: str
    timed: str
    bound: float | None = None
    before: str = ""
    after: str = ""


QUESTIONS = [
    Question("import surefair, after import numpy", "import surefair", 0.3),
    Question("surefair --help, the whole process", "", 0.3),
    Question(
        "first kernel (draw_words) from a warm cache, including the import of numba",
        "from surefair import kernels; kernels.draw_words(0, 1, 0, 0, words)",
        1.0,
        before="words = np.zeros((2, 2), dtype=np.uint32)",
        after=WARM,
    ),
    Question(
        "first fit of 100 rows, all kernels from a warm cache, imports done before",
        FIT,
        1.0,
        before=f"import surefair as sf; sf.FairClassifier{ROWS}",
        after=WARM,
    ),
    Question("first fit of 100 rows, including imports", FIT, before=f"import surefair as sf{ROWS}", after=WARM),
    Question("part of that: import of scikit-learn, numba and narwhals alone", "import sklearn.base, numba, narwhals"),
    Question("second fit of 100 rows", FIT, before=f"import surefair as sf{ROWS}{FIT}"),
    Question("import numpy, for comparison", "import numpy as np"),
]
COLD = Question(
    "first fit on a machine, compiling into an empty cache",
    FIT,
    before=f"import surefair as sf; sf.FairClassifier{ROWS}",
)


def seconds(question: Question, environment: dict[str, str] = ENVIRONMENT) -> tuple[float, float]:
    """Ask once in a new process; return elapsed seconds and processor seconds."""
    if not question.timed:
        before, start = os.times(), time.perf_counter()
        script = Path(sys.executable).with_name("surefair")
        subprocess.run([script, "--help"], env=environment, check=True, stdout=subprocess.DEVNULL)
        took, after = time.perf_counter() - start, os.times()
        return took, sum(after[2:4]) - sum(before[2:4])  # user and system time of the children
    numpy = "" if question.timed.startswith("import numpy") else "import numpy as np"
    lines = (
        "import time", numpy, question.before, "start, busy = time.perf_counter(), time.process_time()", question.timed,
        "took, busy = time.perf_counter() - start, time.process_time() - busy", question.after, "print(took, busy)",
    )  # fmt: skip
    child = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    took, busy = map(float, child.stdout.split())
    return took, busy


def line(question: Question, asked: list[tuple[float, float]]) -> dict[str, object]:
    """Medians over the rounds, with the bound."""
    took, busy = (list(times) for times in zip(*asked, strict=True))
    return {
        "time_over_bound": median(took) / question.bound if question.bound else None,
        "seconds": median(took),
        "bound": question.bound,
        "slowest": max(took),
        "processor_seconds": median(busy),
        "what": question.what,
    }


def main() -> None:
    """Measure, print, and save."""
    for question in QUESTIONS:
        seconds(question._replace(after=""))  # untimed: fills the caches
    rounds = [[seconds(question) for question in QUESTIONS] for _ in range(ROUNDS)]
    with tempfile.TemporaryDirectory() as empty:
        compiled = seconds(COLD, {**ENVIRONMENT, "NUMBA_CACHE_DIR": empty})
    asked = [*map(list, zip(*rounds, strict=True)), [compiled]]
    rows = [line(question, times) for question, times in zip([*QUESTIONS, COLD], asked, strict=True)]
    show(f"Start: medians of {ROUNDS} new processes each", rows)
    keep("startup", rows=rows)


if __name__ == "__main__":
    main()
