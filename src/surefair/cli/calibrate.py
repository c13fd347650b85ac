"""``surefair calibrate``: how often intervals contain the truth, with your data as the population."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from surefair.cli._columns import column_options, unused_rows
from surefair.cli._terminal import plain_text, visible
from surefair.cli._training import training_options
from surefair.cli._work import jobs_option, one_line_errors, prepare_folder

if TYPE_CHECKING:
    from surefair.calibration import Calibration


@click.command("calibrate")
@click.argument("data", required=False)
@click.option("--dataset", help="Data set to use instead of a file; surefair data list shows their names.")
@column_options(required=False)
@training_options
@click.option("--metric", help="Metric to measure.  [default: the criterion, or demographic_parity]")
@click.option("--rows", type=click.IntRange(min=2), help="Rows of each repetition.  [default: as in the data]")
@click.option(
    "--evaluation-rows", "n_evaluation", type=click.IntRange(min=1),
    help="Evaluation rows of each repetition, for a data set.  [default: 2000]",
)  # fmt: skip
@click.option("--method", help="How replicates become an interval of the gap, for a data set.  [default: percentile]")
@click.option("--coef-method", help="The same for an interval of a coefficient.  [default: basic]")
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
    n_evaluation: int | None,
    method: str | None,
    coef_method: str | None,
    repetitions: int,
    jobs: int,
    out: Path,
    quiet: bool,
    **params: Any,
) -> None:
    """Measure on your own data how often intervals contain the truth.

    The rows of DATA are treated as the whole population, so the truth is known. Files are drawn from it many times, row
    by row, and audited as surefair audit does it: columns are settled anew, models are trained and evaluated, by
    cross-fitting if rows are few. The intervals are compared with the truth in the population.

    A data set with --dataset has features already. Training rows and evaluation rows are drawn from it, a classifier is
    fitted, and the intervals of its coefficients are compared with the truth as well.
    """
    from surefair.audit.settings import AuditSettings
    from surefair.calibration import calibrate, calibrate_audit
    from surefair.classifier import FairClassifier

    if (data is None) == (dataset is None):
        raise click.UsageError("Name either a file, or a data set with --dataset.")
    only = {"n_evaluation": n_evaluation, "method": method, "coef_method": coef_method}
    given: dict[str, Any] = {name: value for name, value in only.items() if value is not None}
    shared: dict[str, Any] = {"n_rows": rows, "repetitions": repetitions, "n_jobs": jobs, "progress": not quiet}
    asked: dict[str, Any] = {"confidence_level": confidence_level, "random_state": random_state}
    with one_line_errors(out):
        if dataset is not None:
            clf = FairClassifier(criterion, **params)
            X, y, groups = _load(dataset, columns)
            prepare_folder(out, "calibration.json", "calibration.png")
            found = calibrate(clf, X, y, sensitive_features=groups, metric=metric, **asked, **shared, **given)
        else:
            if columns["label"] is None or not columns["sensitive"]:
                raise click.UsageError("Name the columns of the file: --label and --sensitive.")
            if given:
                option = {"n_evaluation": "evaluation-rows"}.get(first := next(iter(given)), first.replace("_", "-"))
                raise click.UsageError(
                    f"--{option} is for a data set; a file is audited as surefair audit does it. Leave it out."
                )
            settings = AuditSettings(
                criterion=criterion, metric=() if metric is None else (metric,), **asked, **columns, **params
            )
            prepare_folder(out, "calibration.json", "calibration.png", data=[data])
            found = calibrate_audit(data, settings, **shared)
            for words in unused_rows(found.settings["bad"]):
                click.echo(visible(words))
    paths = _keep(found, out)  # before printing, which could fail
    _show(found, paths)


def _load(dataset: str, columns: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Features, labels and groups of a data set."""
    from surefair.datasets import load

    if given := [name for name, value in columns.items() if value and name not in ("encoding", "max_bad_rows")]:
        raise click.UsageError(
            f"Options for columns are for a file, and a data set has its own columns. Leave out --{given[0]}."
        )
    found = load(dataset)
    return found.X, found.y, found.sensitive


def _show(found: Calibration, paths: tuple[Path, ...]) -> None:
    """Show the table and the sentence, and say where the files are."""
    from rich.console import Console
    from rich.table import Table

    console = Console(emoji=False)
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
        table.add_row(plain_text(row["quantity"]), row["source"], *numbers)
    console.print(table)
    console.print(visible(found.sentence), highlight=False, markup=False)
    for path in paths:
        console.print(visible(f"Written: {path}"), highlight=False, soft_wrap=True, markup=False)


def _keep(found: Calibration, out: Path) -> tuple[Path, ...]:
    """Write the numbers and the picture; return where they are."""
    from surefair.plotting import CalibrationDisplay

    numbers = out / "calibration.json"
    picture = out / "calibration.png"
    found.to_json(numbers)
    CalibrationDisplay.from_calibration(found).figure_.savefig(picture, dpi=150)
    return numbers, picture
