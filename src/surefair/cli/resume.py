"""``surefair resume``: an audit that was stopped goes on."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path

import click

from surefair.cli._auditing import Work, conclude, failures_told, work_options


@click.command("resume", epilog="Exit codes are those of surefair audit.")
@click.argument("checkpoint", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--data", help="The same data, where they have moved; - for standard input.")
@work_options
def command(checkpoint: Path, data: str | None, work: Work) -> None:
    """Go on with an audit from the folder of its checkpoints, to the very result it would have had."""
    from surefair.audit.run import Running

    with failures_told():
        work.out.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            running = Running.restore(checkpoint, data)
        for one in caught:  # a checkpoint that is damaged, and the one used instead
            click.echo(str(one.message), err=True)
        conclude(running, work, partial(running.run, **work.checkpoints(checkpoint)), checkpoint)
