"""Compare the time of ``surefair reproduce`` with that of a plain NumPy version.

For each figure and preset we time one of our repetitions on one core, and plain NumPy steps (the learner's
``reference_step``, all replicates at once, without the trace) with plain NumPy decisions at the same looks. Plain steps
are timed over some rows only. Both times are multiplied by the number of repetitions in the paper.

    python benchmarks/reproduce.py [--whole [--out DIR]]

With --whole, the benchmark times one full ``surefair reproduce`` instead. Each mode keeps the results of the other.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
from work import CORES, RESULTS, cores, keep, machine, seconds, show

from surefair.diagnostics import Diagnostic
from surefair.experiments import experiments
from surefair.experiments.setups import PRESETS
from surefair.experiments.study import begin, repeat
from surefair.learners import trace

ROWS = 320  # rows of plain steps that are timed
REPETITIONS = 3  # of our repetitions that are timed
JOBS = 2  # processes of the full run
KEPT = RESULTS / "bench_reproduce.json"
warnings.simplefilter("ignore", Diagnostic)


def plain_row(study: Any) -> float:
    """Seconds of one plain NumPy step."""
    first = study.model(0).n_first
    with patch.object(trace, "fresh", lambda _: trace.nothing()):
        fit = study.model(0).take(study.population.part(slice(0, first))).trained
    rows = study.population.part(slice(first, first + ROWS))
    X = fit.to_learner(rows.X)

    def steps() -> None:
        now = fit.state
        for x, label, group in zip(X, rows.y, rows.group, strict=True):
            now = fit.learner.reference_step(now, x, label, group=group)

    return seconds(steps) / ROWS


def plain_look(study: Any) -> float:
    """Seconds for the decisions of all replicates on D̃, their gaps and quantiles, in plain NumPy."""
    held, B = study.evaluation, study.problem(0).n_replicates
    theta = study.star[:, None] + 0.01 * np.random.default_rng(0).normal(size=(len(study.star), B))

    looked_at = held.y < 0 if study.setup.criterion == "false_positive_rate" else np.ones(len(held.y), dtype=bool)

    def look() -> None:
        positive = held.X @ theta[:-1] + theta[-1] > 0.0
        rates = [positive[looked_at & (held.group[:, 0] == g)].mean(axis=0) for g in (0, 1)]
        np.quantile(rates[0] - rates[1], (0.025, 0.975))

    return seconds(look) * len(study.preset.bands)


def time_whole(out: Path | None) -> None:
    """Time one full run as a user starts it, and add it to the saved results."""
    call = [sys.executable, "-c", "from surefair.cli import main; main()", "reproduce", "--jobs", str(JOBS), "--quiet"]
    with TemporaryDirectory() as folder, cores(JOBS):
        out = out or Path(folder)
        taken = seconds(lambda: subprocess.run([*call, "--out", str(out)], check=True))
        figures = len(json.loads((out / "results.json").read_text())["results"])
    row = {"command": f"surefair reproduce --jobs {JOBS}", "minutes": taken / 60.0}
    rows = [row | {"cores": min(JOBS, len(CORES)), "figures": figures, "date": machine()["date"]}]
    show("Full run, wall-clock time", rows)
    if not KEPT.exists():
        keep("reproduce", whole=rows)
    else:
        KEPT.write_text(json.dumps(json.loads(KEPT.read_text()) | {"whole": rows}, indent=1) + "\n")


def time_figures() -> None:
    """Time the first figure and every figure with four panels."""
    found = []
    for one in experiments().values():
        if one.repeat is not repeat:
            continue
        for preset in PRESETS.values():
            study = begin(one.data, one.loss, preset, 0)
            repeat(study, 0)  # compile first
            ours = seconds(lambda study=study: [repeat(study, i) for i in range(REPETITIONS)]) / REPETITIONS
            plain = study.rows * plain_row(study) + len(study.looks) * plain_look(study)
            found.append(
                {
                    "experiment": one.name,
                    "preset": preset.name,
                    "repetitions": one.repetitions,
                    "ours_minutes": one.repetitions * ours / 60.0,
                    "plain_minutes": one.repetitions * plain / 60.0,
                    "ratio": plain / ours,
                }
            )
    total = {name: sum(row[name] for row in found) for name in ("ours_minutes", "plain_minutes")}
    found.append(
        {"experiment": "all", "preset": "both", "repetitions": sum(row["repetitions"] for row in found)}
        | total
        | {"ratio": total["plain_minutes"] / total["ours_minutes"]}
    )
    show("The paper's figures, on one core", found)
    whole = json.loads(KEPT.read_text()).get("whole") if KEPT.exists() else None
    keep("reproduce", rows=found, **{"whole": whole} if whole else {})


def main() -> None:
    """Time the figures on one core, or the full run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--whole", action="store_true", help="time one full run")
    parser.add_argument("--out", type=Path, help="folder for the figures of the full run")
    asked = parser.parse_args()
    if asked.whole:
        time_whole(asked.out)
    else:
        time_figures()


if __name__ == "__main__":
    main()
