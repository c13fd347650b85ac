"""``surefair resume``: continue an audit that was stopped."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from surefair.cli._terminal import visible
from surefair.cli._work import Work, conclude, one_line_errors, prepare_folder, work_options


@click.command("resume", epilog="Exit codes are those of surefair audit.")
@click.argument("checkpoint", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--data", help="The same data, if they have moved; - for standard input.")
@work_options
def command(checkpoint: Path, data: str | None, work: Work) -> None:
    """Resume an audit from the folder of its checkpoints, with the result that it would have had without the stop."""
    from surefair.audit.api import restore

    with one_line_errors(work.out):
        running = restore(checkpoint, data)
        prepare_folder(work.out, "audit.json", "report.html", data=[running.place])
        for note in running.notes:  # a damaged checkpoint, and the one used instead
            click.echo(visible(note), err=True)
        conclude(running, work, partial(running.run, **work.checkpoints(checkpoint)), checkpoint)
