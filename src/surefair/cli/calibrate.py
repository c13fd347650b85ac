"""``surefair calibrate``: how often intervals contain the truth, with your data as the population."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from surefair.cli._columns import column_options, unused_rows
from surefair.cli._training import training_options
from surefair.cli._work import jobs_option, one_line_errors

if TYPE_CHECKING:
    from surefair.calibration import Calibration


@click.command("calibrate")
@click.argument("data", required=False)
@click.option("--dataset", help="Data set to use instead of a file; surefair data list shows their names.")
@column_options(required=False)
@training_options
@click.option("--metric", help="Metric to measure.  [default: the criterion, or demographic_parity]")
@click.option("--rows", type=click.IntRange(min=2), help="Training rows of each repetition.  [default: as in the data]")
@click.option(
    "--evaluation-rows", default=2000, show_default=True, type=click.IntRange(min=1),
    help="Evaluation rows of each repetition.",
)  # fmt: skip
@click.option("--method", default="percentile", show_default=True, help="How replicates become an interval of the gap.")
@click.option(
    "--coef-method", default="basic", show_default=True, help="How replicates become an interval of a coefficient."
)
@click.option(
    "--repetitions", default=200, show_default=True, type=click.IntRange(min=2), help="Number of repetitions."
)
@jobs_option("processes")
@click.option(
    "--out", default="calibration", show_default=True, type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the results.",
)  # fmt: skip
@click.option("--quiet", is_flag=True, help="Hide the progress bar.")
def command(
    data: str | None,
    dataset: str | None,
    columns: dict[str, Any],
    criterion: str | None,
    metric: str | None,
    confidence_level: float,
    random_state: int,
    rows: int | None,
    evaluation_rows: int,
    method: str,
    coef_method: str,
    repetitions: int,
    jobs: int,
    out: Path,
    quiet: bool,
    **params: Any,
) -> None:
    """Measure on your own data how often intervals contain the truth.

    DATA is read as surefair audit reads it. Its rows are treated as the whole population, so the truth is known: rows
    are drawn from it many times, a classifier is fitted to each draw with everything learnt anew, constraint included,
    and its intervals are compared with the truth.
    With --weights, a row of twice the weight is drawn twice as often.
    """
    from surefair.calibration import Request, calibrate, calibrate_rows
    from surefair.classifier import FairClassifier

    if (data is None) == (dataset is None):
        raise click.UsageError("Name either a file, or a data set with --dataset.")
    asked: dict[str, Any] = {
        "n_rows": rows, "n_evaluation": evaluation_rows, "repetitions": repetitions, "metric": metric,
        "confidence_level": confidence_level, "method": method, "coef_method": coef_method,
        "random_state": random_state, "n_jobs": jobs, "progress": not quiet,
    }  # fmt: skip
    with one_line_errors():
        clf = FairClassifier(criterion, **params)
        if dataset is not None:
            X, y, groups = _load(dataset, columns)
            out.mkdir(parents=True, exist_ok=True)  # before any work whose result could not be saved
            found = calibrate(clf, X, y, sensitive_features=groups, **asked)
        else:
            population = _read(data, columns)
            out.mkdir(parents=True, exist_ok=True)
            found = calibrate_rows(clf, population, Request(**asked))
    _show(found)
    _keep(found, out)


def _load(dataset: str, columns: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Features, labels and groups of a data set."""
    from surefair.datasets import load

    if given := [name for name, value in columns.items() if value and name not in ("encoding", "max_bad_rows")]:
        raise click.UsageError(
            f"Options for columns are for a file, and a data set has its own columns. Leave out --{given[0]}."
        )
    found = load(dataset)
    return found.X, found.y, found.sensitive


def _read(data: Any, columns: dict[str, Any]) -> Any:
    """Rows of a file, read and encoded as an audit reads and encodes them."""
    from surefair.rows import check_some_weight
    from surefair.tables.intake import Columns, read_all

    if columns["label"] is None or not columns["sensitive"]:
        raise click.UsageError("Name the columns of the file: --label and --sensitive.")
    rows, intake = read_all(data, Columns(**columns))
    for words in unused_rows(intake.bad.to_dict()):
        click.echo(words)
    rows.groups.check_comparable()
    check_some_weight(rows.weight, "to draw")
    return rows


def _show(found: Calibration) -> None:
    """Show the table and the sentence."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    measured = found.settings["metric"].replace("_", " ")
    table = Table(
        title=f"{measured.capitalize()}: coverage of {100.0 * found.settings['confidence_level']:g} % intervals",
        caption="low and high: 95 % limits of the coverage; bias: in standard deviations; spread: bootstrap standard "
        "deviation divided by the true one",
    )
    for heading in ("quantity", "source"):
        table.add_column(heading, overflow="fold", min_width=len("retraining"))
    for heading in ("coverage", "low", "high", "width", "bias", "spread"):
        table.add_column(heading, justify="right", no_wrap=True)
    names = ("coverage", "coverage_low", "coverage_high", "width", "bias", "spread_ratio")
    for row in found.to_dict()["table"]:
        numbers = ("" if row[name] is None else f"{row[name]:.3f}" for name in names)
        table.add_row(row["quantity"], row["source"], *numbers)
    console.print(table)
    console.print(found.sentence, highlight=False)


def _keep(found: Calibration, out: Path) -> None:
    """Write the numbers and the picture, and say where they are."""
    from rich.console import Console

    from surefair.plotting import CalibrationDisplay

    numbers = out / "calibration.json"
    picture = out / "calibration.png"
    found.to_json(numbers)
    CalibrationDisplay.from_calibration(found).figure_.savefig(picture, dpi=150)
    for path in (numbers, picture):
        Console().print(f"Written: {path}", highlight=False, soft_wrap=True)
