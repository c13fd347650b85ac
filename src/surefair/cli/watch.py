"""``surefair watch``: follow decisions as they come."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from surefair.cli._columns import split_names
from surefair.cli._terminal import visible
from surefair.cli._work import EXIT_CODES, one_line_errors

ALARMED = 5


@click.command(
    "watch",
    epilog="Exit codes with --once, or at the end of standard input: 0 within the margin; 3 violates the margin; 5 an "
    "alarm was raised in this run; 4 not enough evidence; 1 an error; 2 wrong usage. Without --once, Ctrl-C or SIGTERM "
    "ends the command after the rows that it is reading.",
)
@click.argument("source")
@click.option("--decision", required=True, help="Column of the decision, with two values.")
@click.option("--sensitive", required=True, multiple=True, help="Columns of the groups: a,b or repeat the option.")
@click.option("--label", help="Column of the label, for metrics that need it; empty where it comes later.")
@click.option("--id", "id_", help="Column that identifies a decision, for labels that come later in rows of their own.")
@click.option("--margin", required=True, type=float, help="Largest acceptable gap; for a ratio, the smallest.")
@click.option("--metric", default="demographic_parity", show_default=True, help="What is compared between groups.")
@click.option(
    "--positive", multiple=True,
    help="Positive decision and label.  [default: the second in sorted order, which must then be 1]",
)  # fmt: skip
@click.option(
    "--level", "confidence_level", default=0.95, show_default=True, help="Confidence level.",
    type=click.FloatRange(min=0.0, max=1.0, min_open=True, max_open=True),
)  # fmt: skip
@click.option(
    "--run-length", default=10_000.0, show_default=True, help="Least average number of updates between false alarms."
)
@click.option(
    "--update-rows", default=1000, show_default=True, type=click.IntRange(min=1), help="Decisions in one update."
)
@click.option(
    "--window", default=1_000_000, show_default=True, type=click.IntRange(min=1),
    help="Number of later decisions after which an id is forgotten.",
)  # fmt: skip
@click.option("--delimiter", default=",", show_default=True, help="Delimiter of CSV.")
@click.option("--encoding", default="utf-8", show_default=True, help="Encoding of CSV.")
@click.option(
    "--max-bad-rows", default=1000, show_default=True, type=click.IntRange(min=0),
    help="Number of rows that may be unusable.",
)  # fmt: skip
@click.option(
    "--checkpoint", default="watch", show_default=True, type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the state and the status files.",
)  # fmt: skip
@click.option("--on-alarm", metavar="CMD", help="Command to run at an alarm; it gets the alarm as JSON on its input.")
@click.option("--once", is_flag=True, help="Read what is there, and end.")
@click.option(
    "--poll", default=1.0, show_default=True, type=click.FloatRange(min=0.01), help="Seconds between two looks."
)
def command(
    source: str,
    sensitive: tuple[str, ...],
    positive: tuple[str, ...],
    id_: str | None,
    checkpoint: Path,
    on_alarm: str | None,
    once: bool,
    poll: float,
    **settings: Any,
) -> None:
    """Follow decisions as they come, with an interval that is valid at all times, and alarms.

    SOURCE is a CSV file that grows, a folder into which CSV, Parquet or Arrow files drop, or - for standard input.
    Every row of a file counts exactly once, even if the command is killed and started again. The folder CHECKPOINT gets
    status.html, a page that reloads itself, status.json, and metrics.prom for Prometheus.
    """
    from surefair.monitor.running import Stop, run_command
    from surefair.monitor.watching import Watcher, WatchSettings

    def told(alarm: Any, status: dict[str, Any]) -> None:
        click.echo(visible(f"Alarm. {alarm}"), err=True)
        if on_alarm is not None and (problem := run_command(on_alarm, alarm, status)):
            click.echo(visible(problem), err=True)

    if len(positive) > 1:
        raise click.UsageError("watch takes one --positive: decisions and labels must use the same words.")
    word = positive[0] if positive else None
    with one_line_errors(), Stop() as stop:
        asked = WatchSettings(source, sensitive=split_names(sensitive), positive=word, id=id_, **settings)
        with Watcher(asked, checkpoint, told) as watcher:
            before = watcher.monitor.counts["alarms"]
            while True:
                found = watcher.step(stop.is_asked)
                if once or source == "-" or stop.is_asked():
                    break
                if not found:
                    stop.wait(poll)
            verdict, alarms = watcher.monitor.verdict, watcher.monitor.counts["alarms"] - before
            click.echo(visible(watcher.monitor.sentence))
    if (once or source == "-") and not stop.is_asked():
        code = EXIT_CODES[verdict]
        sys.exit(ALARMED if alarms and code != EXIT_CODES["violates margin"] else code)
