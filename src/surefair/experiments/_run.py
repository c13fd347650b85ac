"""Run experiments: repetitions on all cores, kept as they are finished, so that a run that was stopped goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from surefair.engines.local import called
from surefair.experiments._experiment import Experiment, Result
from surefair.experiments._study import Study, begin
from surefair.experiments._table import PRESETS
from surefair.storage.atomic import written_whole

CHUNK = 5  # repetitions that are kept at a time


def run(
    experiment: Experiment,
    preset: str,
    repetitions: int,
    seed: int,
    folder: Path,
    n_jobs: int | None,
    advance: Callable[[int], Any],
) -> Result:
    """Result of an experiment; finished repetitions are kept in the folder, or taken from it.

    Parameters
    ----------
    experiment : Experiment
    preset : str
    repetitions : int
    seed : int
    folder : path
        Where finished repetitions are.
    n_jobs : int or None
        Processes.
    advance : callable
        Told of every number of repetitions that is finished.
    """
    with threadpool_limits(1):  # the bits of linear algebra depend on how many threads share it
        study = begin(experiment.data, experiment.loss, PRESETS[preset], seed)
    outcomes = list(_outcomes(experiment, study, repetitions, own(folder, experiment, study), n_jobs, advance))
    with threadpool_limits(1):
        return experiment.judge(study, outcomes)


@cache
def digest() -> str:
    """Digest of the package's code, on which a repetition depends."""
    package = Path(__file__).parents[1]
    files = [path for path in sorted(package.rglob("*.py")) if path.parent.name != "cli" and path.stem != "plotting"]
    return sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def own(folder: Path, experiment: Experiment, study: Study) -> Path:
    """Folder of the repetitions of this very experiment; those of other settings, or other code, are elsewhere."""
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
    """All repetitions, in order."""
    folder.mkdir(parents=True, exist_ok=True)
    chunks = [range(low, min(low + CHUNK, repetitions)) for low in range(0, repetitions, CHUNK)]
    tasks = ((experiment, study, chunk, folder) for chunk in chunks)
    for found in called(_chunk, tasks, n_jobs, prefer="processes", batch_size=1):
        yield from found
        advance(len(found))


def _chunk(experiment: Experiment, study: Study, repetitions: range, folder: Path) -> list[Any]:
    """Some repetitions, on one thread."""
    path = folder / f"{repetitions.start}-{repetitions.stop - 1}.json"
    if path.exists():
        return [_outcome(experiment, one) for one in json.loads(path.read_text())]
    with threadpool_limits(1):
        found = [experiment.repeat(study, repetition) for repetition in repetitions]
    with written_whole(path) as file:
        file.write(json.dumps([_plain(one) for one in found]).encode())
    return found


def _plain(outcome: Any) -> dict[str, Any]:
    """Outcome as JSON knows it; floats keep all their digits."""
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in outcome._asdict().items()
    }


def _outcome(experiment: Experiment, found: dict[str, Any]) -> Any:
    """Outcome from JSON."""
    return experiment.outcome(
        **{name: np.array(value) if isinstance(value, list) else value for name, value in found.items()}
    )
