"""``surefair audit``: from a file to a report that can be handed over."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from surefair.cli._about import about_options
from surefair.cli._columns import column_options, split_names
from surefair.cli._training import training_options
from surefair.cli._work import Work, conclude, one_line_errors, prepare_folder, work_options
from surefair.names import file_names

FOLDER = click.Path(path_type=Path, file_okay=False)


@click.command(
    "audit",
    epilog="Exit codes: 0 within the margin, or no margin given; 3 violates the margin; 4 not enough evidence; 1 an "
    "error; 2 wrong usage; 130 stopped by Ctrl-C, with a report of the rows so far (without one in shards).",
)
@click.argument("data")
@column_options()
@training_options
@click.option(
    "--metric", "metrics", multiple=True,
    help="Metrics that get a verdict: a criterion, or one with _ratio.  [default: the criterion]",
)  # fmt: skip
@click.option("--margin", type=float, help="Largest acceptable gap; for a ratio, the smallest acceptable one.")
@click.option("--split-by", help="Column whose equal values stay together, in training or in evaluation.")
@click.option("--include-sensitive", is_flag=True, help="Learn from the sensitive columns too.")
@click.option("--keep-order", is_flag=True, help="Train on rows in the order of the data.")
@click.option("--checkpoint", type=FOLDER, help="Folder to save the state in; see surefair resume.")
@click.option(
    "--engine", default="local", show_default=True,
    help=f"Where shards of Parquet files are read: {', '.join(file_names('surefair.engines'))}.",
)  # fmt: skip
@click.option("--address", help="Address of the cluster.  [default: a new one on this machine]")
@click.option(
    "--shard-rows", type=click.IntRange(min=1),
    help="Smallest number of rows in a shard.  [default: 1,000,000 or a 64th of all on a cluster; no shards on local]",
)  # fmt: skip
@about_options
@work_options
def command(
    data: str,
    columns: dict[str, Any],
    metrics: tuple[str, ...],
    checkpoint: Path | None,
    engine: str,
    address: str | None,
    work: Work,
    **settings: Any,
) -> None:
    """Measure how differently a model treats groups, with confidence intervals.

    DATA is a CSV (also compressed), Parquet or Arrow file, a folder of such files, or - for standard input. Two models
    are trained in one pass, one with the criterion and one without, and measured on held-out rows. The findings are
    shown as a table here, and written to audit.json and report.html in the folder OUT.
    """
    from surefair.audit.run import Running, check_engine
    from surefair.audit.settings import AuditSettings

    with one_line_errors():
        asked = AuditSettings(metrics=split_names(metrics), **columns, **settings)
        try:
            check_engine(asked, engine, address, checkpoint)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
        running = Running.begin(data, asked, checkpoint, in_shards=engine != "local")
        prepare_folder(work.out, "audit.json", "report.html")
        if running.settings.shard_rows is None:
            conclude(running, work, partial(running.run, **work.checkpoints(checkpoint)), checkpoint)
        else:
            conclude(running, work, partial(running.run_in_shards, engine, address))
