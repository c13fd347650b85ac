"""Run experiments on all cores, and keep finished repetitions so that a stopped run can be resumed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from surefair.engines.local import called
from surefair.experiments.experiment import Experiment, Result
from surefair.experiments.setups import PRESETS
from surefair.experiments.study import Study, begin
from surefair.storage.atomic import written_whole
from surefair.threads import one_blas_thread

CHUNK = 5  # repetitions that are saved together
PRESENTATION = ("cli", "plotting")  # folders whose code does not change the outcome of a repetition


def run(
    experiment: Experiment,
    preset: str,
    repetitions: int,
    seed: int,
    folder: Path,
    n_jobs: int | None,
    advance: Callable[[int], Any],
) -> Result:
    """Run the repetitions of an experiment that are not in the folder yet, and return the result of all.

    Parameters
    ----------
    experiment : Experiment
    preset : str
    repetitions : int
    seed : int
    folder : path
        Where finished repetitions are kept.
    n_jobs : int or None
        Number of processes.
    advance : callable
        Called with the number of newly finished repetitions.
    """
    with one_blas_thread():
        study = begin(experiment.data, experiment.loss, PRESETS[preset], seed)
    kept = kept_in(folder, experiment, study)
    outcomes = list(_outcomes(experiment, study, repetitions, kept, n_jobs, advance))
    with one_blas_thread():
        return experiment.judge(study, outcomes)


@cache
def digest() -> str:
    """Hash of the code that the outcome of a repetition depends on."""
    package = Path(__file__).parents[1]
    files = [path for path in sorted(package.rglob("*.py")) if path.relative_to(package).parts[0] not in PRESENTATION]
    return sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def kept_in(folder: Path, experiment: Experiment, study: Study) -> Path:
    """Subfolder for the repetitions of this experiment with these settings and this code."""
    settings = study.setup, study.preset, study.loss, study.seed, digest()
    return folder / f"{experiment.name}-{study.preset.name}-{sha256(repr(settings).encode()).hexdigest()[:12]}"


def _outcomes(
    experiment: Experiment,
    study: Study,
    repetitions: int,
    folder: Path,
    n_jobs: int | None,
    advance: Callable[[int], Any],
) -> Iterator[Any]:
    """Yield the outcomes of all repetitions, in order."""
    folder.mkdir(parents=True, exist_ok=True)
    chunks = [range(low, min(low + CHUNK, repetitions)) for low in range(0, repetitions, CHUNK)]
    tasks = ((experiment, study, chunk, folder) for chunk in chunks)
    for found in called(_chunk, tasks, n_jobs, prefer="processes", batch_size=1):
        yield from found
        advance(len(found))


def _chunk(experiment: Experiment, study: Study, repetitions: range, folder: Path) -> list[Any]:
    """Load some repetitions, or run them on one thread and save them."""
    path = folder / f"{repetitions.start}-{repetitions.stop - 1}.json"
    if path.exists():
        return [_outcome(experiment, one) for one in json.loads(path.read_text())]
    with one_blas_thread():
        found = [experiment.repeat(study, repetition) for repetition in repetitions]
    with written_whole(path) as file:
        file.write(json.dumps([_plain(one) for one in found]).encode())
    return found


def _plain(outcome: Any) -> dict[str, Any]:
    """Outcome as plain values for JSON; floats keep all their digits."""
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in outcome._asdict().items()
    }


def _outcome(experiment: Experiment, found: dict[str, Any]) -> Any:
    """Outcome from plain values."""
    return experiment.outcome(
        **{name: np.array(value) if isinstance(value, list) else value for name, value in found.items()}
    )
