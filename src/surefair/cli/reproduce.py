"""``surefair reproduce``: the paper's figures and tables."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryFile
from time import perf_counter
from typing import Any

import click

KINDS = ("paper", "calibrated")


@click.command("reproduce")
@click.argument("names", nargs=-1)
@click.option(
    "--preset", type=click.Choice([*KINDS, "both"]), default="both", show_default=True, help="Whose settings."
)
@click.option("--repetitions", type=click.IntRange(min=3), help="How often.  [default: as in the paper]")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of everything.")
@click.option("--jobs", default=-1, show_default=True, help="Processes; -1 for one on every core.")
@click.option(
    "--out", default="results", show_default=True, type=click.Path(path_type=Path, file_okay=False), help="Folder."
)
@click.option("--quiet", is_flag=True, help="No progress bar.")
def command(
    names: tuple[str, ...], preset: str, repetitions: int | None, seed: int, jobs: int, out: Path, quiet: bool
) -> None:
    """Rerun the paper's experiments: NAMES, or all of them.

    Each runs as printed (preset paper: its steps, sizes and intervals) and as this package would (preset calibrated).
    Figures, results.json and RESULTS.md go to the folder. Finished repetitions are kept there, too: a run that was
    stopped goes on where it was, and the same seed gives the same numbers.
    """
    from rich.console import Console

    from surefair.datasets import load
    from surefair.experiments import experiments
    from surefair.experiments._run import run
    from surefair.experiments._write import write
    from surefair.names import one_of
    from surefair.progress import progress_bar

    if jobs == 0:
        raise click.UsageError("--jobs is a number of processes, or -1 for one on every core; received 0.")
    known = experiments()
    try:
        chosen = [known[one_of(name, tuple(known), "experiment")] for name in dict.fromkeys(names)]
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    chosen = chosen or list(known.values())
    try:
        for data in sorted({one.data for one in chosen if not one.data.startswith("synthetic")}):
            load(data)
        out.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=out).close()  # before anything is worked out that could not be kept
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    start, presets = perf_counter(), KINDS if preset == "both" else (preset,)
    tasks = [(one, kind, repetitions or one.repetitions) for one in chosen for kind in presets]
    console, found = Console(), []
    with progress_bar(console, not quiet) as progress:
        bar = progress.add_task("repetitions", total=sum(times for *_, times in tasks))
        for one, kind, times in tasks:
            progress.update(bar, description=f"{one.name}, {kind}")

            def advance(n: int) -> None:
                progress.advance(bar, n)

            try:
                found.append((one, kind, run(one, kind, times, seed, out / "finished", jobs, advance)))
            except KeyboardInterrupt:
                message = f"Stopped. Finished repetitions are in {out / 'finished'}: run the same command to go on."
                raise click.ClickException(message) from None
    console.print(_table(found))
    minutes, seconds = divmod(round(perf_counter() - start), 60)
    console.print(f"{len(found)} figures in {minutes} min {seconds} s.", highlight=False)

    def say(message: str) -> None:
        console.print(message, highlight=False, soft_wrap=True)

    for path in write(found, seed, out, say):
        say(f"Written: {path}")


def _table(found: list[Any]) -> Any:
    """For each experiment and preset, which claims held."""
    from rich.table import Table

    from surefair.experiments._rules import answer

    table = Table(title="Claims")
    for heading in ("experiment", "preset", "claim", "whose", "found", "held"):
        table.add_column(heading, overflow="fold")
    for one, kind, result in found:
        for i, claim in enumerate(result.claims):
            first = (one.name, kind) if i == 0 else ("", "")
            words = claim.words, claim.whose, claim.found, answer(claim.held, claim.judged)
            table.add_row(*first, *words, end_section=i == len(result.claims) - 1)
    return table
