"""``surefair frontier``: what less unfairness costs, from a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from surefair.cli._columns import column_options, split_names, unused_rows
from surefair.cli._terminal import visible
from surefair.cli._training import path_options
from surefair.cli._work import one_line_errors, prepare_folder

if TYPE_CHECKING:
    from surefair.selection.frontier import Frontier

FILES = ("frontier.json", "frontier.html")
UNDECIDED = 4  # exit code


@click.command(
    "frontier",
    epilog="Exit codes: 0 a model meets the margin with confidence, or no margin given; 4 none does; 1 an error; 2 "
    "wrong usage.",
)
@click.argument("data")
@column_options(required=True)
@path_options
@click.option("--tolerances", multiple=True, help="Tolerances: 0,0.02,0.1.  [default: six, from the free model's gap]")
@click.option("--metric", help="What to measure.  [default: the criterion]")
@click.option(
    "--source", default="total", show_default=True, type=click.Choice(["total", "evaluation"]),
    help="Whether intervals cover training and evaluation, or are about these very models.",
)  # fmt: skip
@click.option("--margin", type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True), help="Largest acceptable gap.")
@click.option(
    "--out", default="frontier", show_default=True, type=click.Path(path_type=Path, file_okay=False),
    help="Folder for frontier.json and frontier.html.",
)  # fmt: skip
@click.option("--quiet", is_flag=True, help="Show only the best model; without a margin, nothing.")
def command(
    data: str,
    columns: dict[str, Any],
    criterion: str | None,
    tolerances: tuple[str, ...],
    metric: str | None,
    source: str,
    margin: float | None,
    confidence_level: float,
    out: Path,
    quiet: bool,
    **params: Any,
) -> None:
    """Find out what less unfairness costs: train models with different tolerances, and measure each.

    DATA is a CSV (also compressed), Parquet or Arrow file, or a folder of such files. All rows are kept in memory.
    Three tenths of them are held out for evaluation. With --margin, the most accurate model is named whose unfairness
    is within the margin with confidence.
    """
    from dataclasses import replace

    from surefair.classifier import FairClassifier
    from surefair.inference.interval import Question
    from surefair.inference.limits import check_level
    from surefair.inference.metric import get_metric
    from surefair.selection.frontier import check_path, check_tolerances, frontier_of, held_out, train_path
    from surefair.tables.intake import Columns, read_all
    from surefair.training.parameters import draw_seed, problem_of

    with one_line_errors(out):
        asked = check_tolerances(_numbers(tolerances))
        clf = FairClassifier(criterion, **params)
        check_path(clf, source)
        measured = get_metric(metric or clf.criterion or "")
        question = Question(measured, source, "percentile", check_level(confidence_level))
        rows, intake, table = read_all(data, Columns(**columns))
        rows.groups.check_comparable()
        prepare_folder(out, *FILES)
        problem = problem_of(clf, draw_seed(clf.random_state))
        train, test = held_out(rows.trimmed(), problem.seed)
        found = frontier_of(train_path(problem, train, asked), test, question)
        about = {"name": Path(data).name, "rows": table.num_rows, "bad": intake.bad.to_dict()}
        found = replace(found, data=about)
        found.to_json(out / FILES[0])
        found.to_html(out / FILES[1], margin)
    _show(found, margin, out, quiet)
    sys.exit(UNDECIDED if margin is not None and found.best(margin) is None else 0)


def _numbers(words: tuple[str, ...]) -> list[float] | None:
    """Return numbers that were given one by one, or several with commas between them; None without any."""
    try:
        return [float(word) for word in split_names(words)] or None
    except ValueError as error:
        raise click.UsageError(f"--tolerances must be numbers; received {', '.join(words)}.") from error


def _show(found: Frontier, margin: float | None, out: Path, quiet: bool) -> None:
    """Show the frontier as a table and sentences."""
    from rich.console import Console
    from rich.table import Table

    from surefair.selection.frontier import name_of

    console = Console(emoji=False)

    def say(words: object) -> None:
        console.print(visible(words), highlight=False, markup=False)

    if not quiet:
        table = Table(title=f"{found.metric}: {100.0 * found.confidence_level:g} % bands for all models together")
        for heading in ("model", "unfairness", "band", "accuracy", "band", "cost in accuracy"):
            table.add_column(heading, justify="left" if heading == "model" else "right")
        for point in found.points:
            low, high = point.accuracy_band
            table.add_row(
                name_of(point.tolerance), f"{point.interval.estimate:.4f}", f"{point.low:.4f} to {point.high:.4f}",
                f"{point.accuracy.estimate:.4f}", f"{low:.4f} to {high:.4f}", f"{point.cost.estimate:+.4f}",
            )  # fmt: skip
        console.print(table)
        say(found.sentence)
        for words in unused_rows(found.data["bad"]):
            say(words)
        for one in found.diagnostics:
            say(f"Note: {one.message} {one.command_line_advice or one.advice}")
        for name in FILES:
            console.print(visible(f"Written: {out / name}"), highlight=False, soft_wrap=True, markup=False)
    if margin is not None:
        best = found.best(margin)
        words = "No model meets the margin with confidence." if best is None else f"Best: {name_of(best.tolerance)}"
        console.print(visible(words), style="bold", highlight=False, markup=False)
