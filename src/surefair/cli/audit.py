"""``surefair audit``: from a file to a page that can be handed over."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from surefair.cli._auditing import Work, conclude, failures_told, work_options

CRITERIA = (
    "demographic_parity, equalized_odds, error_rate, false_discovery_rate, false_negative_rate, false_omission_rate, "
    "false_positive_rate"
)


@click.command(
    "audit",
    epilog="Exit codes: 0 within the margin, or no margin given; 3 violates the margin; 4 not enough evidence; 1 an "
    "error; 2 wrong usage; 130 stopped by Ctrl-C, with a report of the rows so far (of shards without).",
)
@click.argument("data")
@click.option("--label", required=True, help="Column of the label, of two values.")
@click.option("--sensitive", required=True, multiple=True, help="Columns of the groups, a,b, or more than once.")
@click.option(
    "--criterion", default="demographic_parity", show_default=True, help=f"What to enforce: {CRITERIA}; or none."
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    help="What the verdict is about: as above, or one with _ratio.  [default: the criterion]",
)
@click.option("--margin", type=float, help="Largest acceptable gap; of a ratio the least acceptable.")
@click.option("--positive", help="The positive label.  [default: the second in sorted order]")
@click.option("--features", multiple=True, help="Columns to learn from, a,b,c.  [default: all others]")
@click.option("--drop", multiple=True, help="Columns not to learn from, a,b,c.")
@click.option("--weights", help="Column of sample weights.")
@click.option("--split-by", help="Column whose equal values stay together, in training or evaluation.")
@click.option("--include-sensitive", is_flag=True, help="Learn from the sensitive columns, too.")
@click.option("--keep-order", is_flag=True, help="Train on rows in the order of the data.")
@click.option("--names", multiple=True, help="Names of all columns, a,b,c, of a CSV file without a header.")
@click.option("--delimiter", help="Of a CSV file.  [default: a comma; of .tsv a tab]")
@click.option("--encoding", default="utf-8", show_default=True, help="Of a CSV file.")
@click.option("--max-bad-rows", default=100, show_default=True, type=click.IntRange(min=0), help="Stop beyond these.")
@click.option("--level", "confidence_level", default=0.95, show_default=True, help="Of confidence.")
@click.option("--loss", default="log_loss", show_default=True, help="Or squared_error.")
@click.option("--tolerance", default=0.0, show_default=True, help="Violation of a linear criterion that is allowed.")
@click.option("--penalty", default=1.0, show_default=True, help="Weight of the penalty, where there is one.")
@click.option("--alpha", default=0.01, show_default=True, help="Weight of the ridge.")
@click.option(
    "--replicates", "n_replicates", default=200, show_default=True, type=click.IntRange(min=2), help="Of each model."
)
@click.option(
    "--constraint-rows", "n_constraint", type=click.IntRange(min=1), help="Rows set apart as the constraint set."
)
@click.option("--seed", "random_state", default=0, show_default=True, type=click.IntRange(min=0), help="Of everything.")
@click.option(
    "--checkpoint", type=click.Path(path_type=Path, file_okay=False), help="Folder to keep the state in; see resume."
)
@click.option(
    "--engine",
    default="local",
    show_default=True,
    help="Where shards of Parquet files are read: local, dask, ray or spark.",
)
@click.option("--address", help="Of the cluster.  [default: one on this machine]")
@click.option(
    "--shard-rows",
    type=click.IntRange(min=1),
    help="Rows of a shard, at least.  [default: on a cluster 1,000,000, or a 64th of all; on local there are none]",
)
@work_options
def command(
    data: str,
    criterion: str,
    sensitive: tuple[str, ...],
    metrics: tuple[str, ...],
    features: tuple[str, ...],
    drop: tuple[str, ...],
    names: tuple[str, ...],
    checkpoint: Path | None,
    engine: str,
    address: str | None,
    work: Work,
    **settings: Any,
) -> None:
    """Say how alike models treat groups, and how certain that is.

    DATA is a CSV (also compressed), Parquet or Arrow file, a folder of such files, or - for standard input. Two models
    are trained in one pass, one held to the criterion and one not, and measured on rows held out: a table here, and in
    the folder OUT audit.json and report.html.
    """
    from surefair.audit.result import Settings
    from surefair.audit.run import Running, check_engine

    with failures_told():
        asked = Settings(
            criterion=None if criterion == "none" else criterion, sensitive=_listed(sensitive),
            metrics=_listed(metrics), features=_listed(features) or None,
            drop=_listed(drop), names=_listed(names) or None, **settings,
        )  # fmt: skip
        try:
            check_engine(asked, engine, address, checkpoint)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
        work.out.mkdir(parents=True, exist_ok=True)  # before anything is worked out that could not be kept
        running = Running.begin(data, asked, checkpoint, in_shards=engine != "local")
        if running.settings.shard_rows is None:
            conclude(running, work, partial(running.run, **work.checkpoints(checkpoint)), checkpoint)
        else:
            conclude(running, work, partial(running.run_in_shards, engine, address))


def _listed(values: tuple[str, ...]) -> tuple[str, ...]:
    """Names given one by one, or several with commas between."""
    return tuple(name.strip() for value in values for name in value.split(",") if name.strip())
