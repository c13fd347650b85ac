"""``surefair data``: which data sets there are, and their files."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Literal

import click


@click.group("data")
def command() -> None:
    """List data sets, and fetch their files."""


@command.command("list")
def show() -> None:
    """List all data sets and whether their files are here. Fetches nothing."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from surefair import datasets
    from surefair.datasets._files import ENVIRONMENT_VARIABLE, cache_folder, named_folder

    console = Console()
    table = Table(title="Data sets", box=box.SIMPLE, padding=0)
    for heading in ("name", "rows", "features", "label", "sensitive", "files", "source"):
        justify: Literal["left", "right"] = "right" if heading in ("rows", "features") else "left"
        table.add_column(heading, justify=justify, no_wrap=heading not in ("files", "source"), overflow="fold")
    wrong = []
    for name in datasets.names():
        known = datasets.about(name)
        rows = "any" if known.rows is None else f"{known.rows:,}"
        files, errors = _state(known.files)
        table.add_row(name, rows, str(known.features), known.label, known.sensitive, files, known.source)
        wrong += errors
    console.print(table)
    places = {f"Folder ({ENVIRONMENT_VARIABLE})": named_folder() or "none was named", "Cache": cache_folder()}
    for line in (*(f"{place}: {path}" for place, path in places.items()), *wrong):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _state(files: tuple[str, ...]) -> tuple[str, list[str]]:
    """Where the files of a data set are, in words, and what is wrong with any."""
    from surefair.datasets._files import cache_folder, here

    states: Counter[str] = Counter()
    errors = []
    for file in files:
        try:
            path = here(file)
        except (OSError, ValueError) as error:
            errors.append(str(error))
            states["not as expected"] += 1
            continue
        cached = path is not None and path.parent == cache_folder()
        states["not yet fetched" if path is None else "cached" if cached else "in folder"] += 1
    if len(states) == 1:
        return next(iter(states)), errors
    return ", ".join(f"{count} {state}" for state, count in states.items()) or "none needed", errors


@command.command("fetch")
@click.argument("names", nargs=-1)
@click.option("--quiet", is_flag=True, help="No progress bar.")
def fetch(names: tuple[str, ...], quiet: bool) -> None:
    """Fetch the files of data sets: NAMES, or all of them.

    Files that are in the folder that SUREFAIR_DATA names, or in the cache, are left as they are. Others are fetched
    from their original address, or else from a copy, checked, and kept in the cache.
    """
    import pooch
    from rich.console import Console

    from surefair import datasets
    from surefair.datasets._files import DataFileNotFoundError, find, remedy
    from surefair.progress import progress_bar

    try:
        chosen = {name: datasets.about(name) for name in names or datasets.names()}
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    pooch.get_logger().setLevel("WARNING")  # it would say what it is about to try
    console, missing, errors = Console(), [], []
    say = partial(console.print, highlight=False, markup=False, soft_wrap=True)
    with progress_bar(console, not quiet) as progress:
        bar = progress.add_task("files", total=sum(len(known.files) for known in chosen.values()))
        for name, known in chosen.items():
            if not known.files:
                say(f"{name}: no file needed")
            for file in known.files:
                progress.update(bar, description=file)
                try:
                    say(f"{name}: {find(file)}")
                except DataFileNotFoundError as error:
                    missing.append(file)
                    errors.append(str(error).removesuffix(remedy()).rstrip())
                except (OSError, ValueError) as error:
                    errors.append(str(error))
                progress.advance(bar)
    if errors:
        raise click.ClickException("\n".join([*errors, *([remedy(missing)] if missing else [])]))
