"""``surefair data``: list the data sets, and download their files."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Literal

import click


@click.group("data")
def command() -> None:
    """List data sets and download their files."""


@command.command("list")
def show() -> None:
    """List all data sets and say where their files are. Downloads nothing."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from surefair import datasets
    from surefair.datasets.files import ENVIRONMENT_VARIABLE, cache_folder, named_folder

    table = Table(title="Data sets", box=box.SIMPLE, padding=0)
    for heading in ("name", "rows", "features", "label", "sensitive", "files", "source"):
        justify: Literal["left", "right"] = "right" if heading in ("rows", "features") else "left"
        table.add_column(heading, justify=justify, no_wrap=heading not in ("files", "source"), overflow="fold")
    lines = [f"Folder ({ENVIRONMENT_VARIABLE}): {named_folder() or 'not set'}", f"Cache: {cache_folder()}"]
    for name in datasets.names():
        facts = datasets.about(name)
        rows = "any" if facts.rows is None else f"{facts.rows:,}"
        files, errors = _state(facts.files)
        table.add_row(name, rows, str(facts.features), facts.label, facts.sensitive, files, facts.source)
        lines += errors
    console = Console()
    console.print(table)
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _state(files: tuple[str, ...]) -> tuple[str, list[str]]:
    """Say in words where the files of a data set are, and list the errors."""
    from surefair.datasets.files import cache_folder, find_local

    if not files:
        return "none needed", []
    states: Counter[str] = Counter()
    errors = []
    for file in files:
        try:
            path = find_local(file)
        except (OSError, ValueError) as error:
            errors.append(str(error))
            states["unexpected content"] += 1
            continue
        if path is None:
            states["not here"] += 1
        elif path.parent == cache_folder():
            states["in cache"] += 1
        else:
            states["in folder"] += 1
    if len(states) == 1:
        return next(iter(states)), errors
    return ", ".join(f"{count} {state}" for state, count in states.items()), errors


@command.command("fetch")
@click.argument("names", nargs=-1)
@click.option("--quiet", is_flag=True, help="Hide the progress bar.")
def fetch(names: tuple[str, ...], quiet: bool) -> None:
    """Download the files of the data sets NAMES, or of all data sets.

    Files that are already in the cache, or in the folder that SUREFAIR_DATA names, stay there. The command downloads
    missing files from their original addresses, checks them and keeps them in the cache.
    """
    import pooch
    from rich.console import Console

    from surefair import datasets
    from surefair.datasets.files import DataFileNotFoundError, advice, find
    from surefair.progress import progress_bar

    try:
        chosen = {name: datasets.about(name).files for name in names or datasets.names()}
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    pooch.get_logger().setLevel("WARNING")  # at its default level pooch announces each download
    console = Console()
    say = partial(console.print, highlight=False, markup=False, soft_wrap=True)
    missing = []
    errors = []
    with progress_bar(console, not quiet) as progress:
        bar = progress.add_task("files", total=sum(map(len, chosen.values())))
        for name, files in chosen.items():
            if not files:
                say(f"{name}: needs no files")
            for file in files:
                progress.update(bar, description=file)
                try:
                    say(f"{name}: {find(file)}")
                except DataFileNotFoundError as error:
                    missing.append(file)
                    errors.append(str(error).removesuffix(advice()).rstrip())
                except (OSError, ValueError) as error:
                    errors.append(str(error))
                progress.advance(bar)
    if missing:
        errors.append(advice(missing))
    if errors:
        raise click.ClickException("\n".join(errors))
