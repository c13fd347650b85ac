"""``surefair merge``: merge the fits of shards, from files."""

from __future__ import annotations

from pathlib import Path

import click

from surefair.cli._terminal import visible

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("merge")
@click.argument("fits", nargs=-1, required=True, type=FILE, metavar="FIT...")
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="File for the merged fit.")
def command(fits: tuple[Path, ...], out: Path) -> None:
    """Merge the fits of disjoint shards of rows, from files that surefair.save wrote, into one file.

    The fits must be of the same problem: the same parameters, classes, groups and warm-up rows. Give every shard its
    own random_state.
    """
    if len(fits) < 2:
        raise click.UsageError(f"Merging takes two files or more; received {fits[0]}.")

    from surefair.classifier import load, save

    merged = None
    name = fits[0]
    try:
        for name in fits:
            clf = load(name)
            merged = clf if merged is None else merged.merge(clf)
        assert merged is not None
        name = out
        save(merged, out)
    except (OSError, ValueError) as error:
        words = str(error)
        raise click.ClickException(words if str(name) in words else f"{name}: {words}") from error
    click.echo(visible(f"Merged {len(fits)} fits of {merged.n_rows_:,} rows: {out}"))
