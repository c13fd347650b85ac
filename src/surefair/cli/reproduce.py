"""``surefair reproduce``: rerun the paper's figures and tables."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryFile
from time import perf_counter
from typing import Any

import click

from surefair.cli._work import jobs_option

KINDS = ("paper", "calibrated")


@click.command("reproduce")
@click.argument("names", nargs=-1)
@click.option(
    "--preset", type=click.Choice([*KINDS, "both"]), default="both", show_default=True, help="Settings to use."
)
@click.option(
    "--repetitions", type=click.IntRange(min=3), help="Repetitions of each experiment.  [default: as in the paper]"
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Random seed.")
@jobs_option("processes")
@click.option(
    "--out",
    default="results",
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the results.",
)
@click.option("--quiet", is_flag=True, help="Hide the progress bar.")
def command(
    names: tuple[str, ...], preset: str, repetitions: int | None, seed: int, jobs: int, out: Path, quiet: bool
) -> None:
    """Rerun the experiments of the paper: those called NAMES, or all of them.

    The preset paper uses the steps, sizes and intervals of the paper; the preset calibrated uses this package's
    defaults. Figures, results.json and RESULTS.md go to the folder. It also keeps finished repetitions: if you stop a
    run, the same command resumes it. The same seed gives the same numbers.
    """
    from rich.console import Console

    from surefair.datasets import load
    from surefair.experiments import experiments
    from surefair.experiments.run import run
    from surefair.experiments.write import write
    from surefair.names import one_of
    from surefair.progress import progress_bar

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
        TemporaryFile(dir=out).close()  # fail before any work is done if the folder cannot be written
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    start = perf_counter()
    presets = KINDS if preset == "both" else (preset,)
    tasks = [(one, kind, repetitions or one.repetitions) for one in chosen for kind in presets]
    console = Console()
    found = []
    with progress_bar(console, not quiet) as progress:
        bar = progress.add_task("repetitions", total=sum(times for *_, times in tasks))
        for one, kind, times in tasks:
            progress.update(bar, description=f"{one.name}, {kind}")

            def advance(n: int) -> None:
                progress.advance(bar, n)

            try:
                found.append((one, kind, run(one, kind, times, seed, out / "finished", jobs, advance)))
            except KeyboardInterrupt:
                message = f"Stopped. Finished repetitions are in {out / 'finished'}: run the same command to resume."
                raise click.ClickException(message) from None
    console.print(_table(found))
    minutes, seconds = divmod(round(perf_counter() - start), 60)
    console.print(f"{len(found)} figures in {minutes} min {seconds} s.", highlight=False)

    def say(message: str) -> None:
        console.print(message, highlight=False, soft_wrap=True)

    for path in write(found, seed, out, say):
        say(f"Written: {path}")


def _table(found: list[Any]) -> Any:
    """Table of the claims of each experiment and preset, and whether they held."""
    from rich.table import Table

    from surefair.experiments.rules import answer

    table = Table(title="Claims")
    for heading in ("experiment", "preset", "claim", "whose claim", "found", "held"):
        table.add_column(heading, overflow="fold")
    for one, kind, result in found:
        for i, claim in enumerate(result.claims):
            first = (one.name, kind) if i == 0 else ("", "")
            words = claim.words, claim.whose, claim.found, answer(claim.held, claim.judged)
            table.add_row(*first, *words, end_section=i == len(result.claims) - 1)
    return table
