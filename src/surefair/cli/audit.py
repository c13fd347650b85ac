"""``surefair audit``: from a file to a report that can be handed over."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from surefair.cli._about import about_options
from surefair.cli._columns import column_options, split_names
from surefair.cli._decisions import decision_options, judging_options
from surefair.cli._training import training_options
from surefair.cli._work import Work, conclude, deliver, one_line_errors, prepare_folder, work_options
from surefair.names import file_names

FOLDER = click.Path(path_type=Path, file_okay=False)


@click.command(
    "audit",
    epilog="Exit codes: 0 within the margin, or no margin given; 3 violates the margin; 4 not enough evidence; 1 an "
    "error; 2 wrong usage; 130 stopped by Ctrl-C, with a report of the rows so far (without one in shards).",
)
@click.argument("data")
@decision_options
@column_options(required=False)
@training_options
@judging_options
@click.option(
    "--estimator", metavar="MODULE:OBJECT",
    help="Scikit-learn classifier to train and audit, for example sklearn.ensemble:RandomForestClassifier.",
)  # fmt: skip
@click.option("--clusters", help="Column with the person, or other unit, that each row belongs to.")
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
@click.pass_context
def command(
    context: click.Context,
    /,
    data: str,
    columns: dict[str, Any],
    policy: Path | None,
    estimator: str | None,
    checkpoint: Path | None,
    engine: str,
    address: str | None,
    work: Work,
    **settings: Any,
) -> None:
    """Measure how differently a model treats groups, with confidence intervals.

    DATA is a CSV (also compressed), Parquet or Arrow file, a folder of such files, or - for standard input. With
    --decision or --score, the decisions or scores of a model that exists already are audited, in one pass. With
    --estimator, a scikit-learn classifier is trained on most rows and audited on the others. Without them, two models
    are trained on the data, one with the criterion and one without, and measured on held-out rows. The findings are
    shown as a table here, and written to audit.json and report.html in the folder OUT.
    """
    from surefair.audit.api import begin, check_engine, check_learner, settings_of
    from surefair.audit.policy import read_policy

    for name in ("decision", "reference"):
        settings[name] = split_names(settings[name])
    if context.get_parameter_source("n_replicates") is click.core.ParameterSource.DEFAULT:
        del settings["n_replicates"]  # decisions have another default
    if policy is None and not columns["sensitive"]:
        raise click.UsageError("Missing option '--sensitive'.")
    if policy is None and not (columns["label"] or settings["decision"] or settings["score"]):
        raise click.UsageError("Missing option '--decision' or '--score', or '--label' to train models.")
    if estimator is not None:
        from rich.console import Console

        from surefair.audit.learner import audit_learner  # scikit-learn is slow to import

        given = columns | settings
        with one_line_errors(work.out):
            check_learner(given, engine, checkpoint, policy)
            prepare_folder(work.out, "audit.json", "report.html")
            found = audit_learner(data, estimator, given, work.jobs)
        deliver(found, work, Console(emoji=False))
    with one_line_errors(work.out):
        asked = settings_of(columns | settings, None if policy is None else read_policy(policy))
        try:
            check_engine(asked, engine, address, checkpoint)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
        running = begin(data, asked, checkpoint, in_shards=engine != "local")
        prepare_folder(work.out, "audit.json", "report.html", data=[data])
        if running.settings.shard_rows is None:
            conclude(running, work, partial(running.run, **work.checkpoints(checkpoint)), checkpoint)
        else:
            conclude(running, work, partial(running.run_in_shards, engine, address))
