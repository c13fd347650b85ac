"""``surefair calibrate``: how often intervals contain what they are for, with your data as the population."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from surefair.calibration import Calibration

MAX_VALUES = 100
"""Values that a column of words may have: each becomes a feature."""


@click.command("calibrate")
@click.argument("data", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--dataset", help="Instead of a file: a name that surefair data list shows.")
@click.option("--label", help="Column of the label; two values, of which the second in sorted order is positive.")
@click.option("--sensitive", help="Column of the groups.")
@click.option("--criterion", default="demographic_parity", show_default=True, help="What to enforce; none for nothing.")
@click.option("--metric", help="What to measure.  [default: the criterion, or demographic_parity]")
@click.option("--loss", default="log_loss", show_default=True, help="Or squared_error.")
@click.option("--tolerance", default=0.0, show_default=True, help="Violation of a linear criterion that is allowed.")
@click.option("--penalty", default=1.0, show_default=True, help="Weight of the penalty, where there is one.")
@click.option("--alpha", default=1e-4, show_default=True, help="Weight of the ridge.")
@click.option("--replicates", default=200, show_default=True, type=click.IntRange(min=2), help="Of each fit.")
@click.option("--constraint-rows", default=1000, show_default=True, type=click.IntRange(min=1), help="Rows set apart.")
@click.option("--rows", type=click.IntRange(min=2), help="Training rows of each repetition.  [default: as in the data]")
@click.option(
    "--evaluation-rows", default=2000, show_default=True, type=click.IntRange(min=1), help="And those held out."
)
@click.option("--level", default=0.95, show_default=True, help="Of confidence.")
@click.option("--method", default="percentile", show_default=True, help="How replicates become an interval of the gap.")
@click.option("--coef-method", default="basic", show_default=True, help="And of coefficients.")
@click.option("--repetitions", default=200, show_default=True, type=click.IntRange(min=2), help="How often.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of everything.")
@click.option("--jobs", default=-1, show_default=True, help="Processes; -1 for one on every core.")
@click.option(
    "--out",
    default="calibration",
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the results.",
)
@click.option("--quiet", is_flag=True, help="No progress bar.")
def command(
    data: Path | None,
    dataset: str | None,
    label: str | None,
    sensitive: str | None,
    criterion: str,
    metric: str | None,
    loss: str,
    tolerance: float,
    penalty: float,
    alpha: float,
    replicates: int,
    constraint_rows: int,
    rows: int | None,
    evaluation_rows: int,
    level: float,
    method: str,
    coef_method: str,
    repetitions: int,
    seed: int,
    jobs: int,
    out: Path,
    quiet: bool,
) -> None:
    """Try on your own data how often intervals hold what they promise.

    DATA is a CSV or Parquet file. All its columns but label and sensitive are features; words become indicators. Its
    rows are taken for the whole population, so that the truth is known: rows are drawn from it again and again, a
    classifier is fitted to each draw, and its intervals are held against the truth.
    """
    from rich.console import Console
    from rich.table import Table

    from surefair.calibration import calibrate
    from surefair.classifier import FairClassifier

    if jobs == 0:
        raise click.UsageError("--jobs is a number of processes, or -1 for one on every core; received 0.")
    try:
        X, y, groups = _load(data, dataset, label, sensitive)
        out.mkdir(parents=True, exist_ok=True)  # before anything is worked out that could not be kept
        clf = FairClassifier(
            None if criterion == "none" else criterion, loss, tolerance=tolerance, penalty=penalty, alpha=alpha,
            n_replicates=replicates, n_constraint=constraint_rows,
        )  # fmt: skip
        found = calibrate(
            clf, X, y, sensitive_features=groups, n_rows=rows, n_evaluation=evaluation_rows, repetitions=repetitions,
            confidence_level=level, metric=metric, method=method, coef_method=coef_method, random_state=seed,
            n_jobs=jobs, progress=not quiet,
        )  # fmt: skip
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from error
    console = Console()
    measured = found.settings["metric"].replace("_", " ")
    table = Table(
        title=f"{measured.capitalize()}: coverage of {100.0 * level:g} % intervals",
        caption="low and high: 95 % limits of the coverage; bias: in standard deviations; spread: by the bootstrap, "
        "over the true one",
    )
    headings = ("quantity", "source", "coverage", "low", "high", "width", "bias", "spread")
    for heading in headings:
        words = heading in ("quantity", "source")
        if words:
            table.add_column(heading, overflow="fold", min_width=len("retraining"))
        else:
            table.add_column(heading, justify="right", no_wrap=True)
    names = ("coverage", "coverage_low", "coverage_high", "width", "bias", "spread_ratio")
    for row in found.to_dict()["table"]:
        numbers = ("" if row[name] is None else f"{row[name]:.3f}" for name in names)
        table.add_row(row["quantity"], row["source"], *numbers)
    console.print(table)
    console.print(found.sentence, highlight=False)
    for path in _keep(found, out):
        console.print(f"Written: {path}", highlight=False, soft_wrap=True)


def _load(data: Path | None, dataset: str | None, label: str | None, sensitive: str | None) -> tuple[Any, Any, Any]:
    """Features, labels and groups of a file or a data set."""
    if (data is None) == (dataset is None):
        raise click.UsageError("Name a file, or a data set with --dataset, one of the two.")
    if dataset is not None:
        from surefair.datasets import load

        if label or sensitive:
            raise click.UsageError("--label and --sensitive are for a file; a data set has its own.")
        found = load(dataset)
        return found.X, found.y, found.sensitive
    assert data is not None
    if label is None or sensitive is None:
        raise click.UsageError("Name the columns of the file: --label and --sensitive.")
    return _features(_read(data), label, sensitive)


def _read(path: Path) -> Any:
    import pandas as pd

    return pd.read_parquet(path) if path.suffix in (".parquet", ".pq") else pd.read_csv(path)


def _features(table: Any, label: str, sensitive: str) -> tuple[Any, Any, Any]:
    """Split a table into features, labels and groups; words become indicators, the first of each column left out."""
    import pandas as pd

    if label == sensitive:
        raise click.UsageError(f"--label and --sensitive are both {label!r}. Name two columns.")
    if missing := [name for name in (label, sensitive) if name not in table.columns]:
        columns = ", ".join(map(repr, table.columns))
        raise click.UsageError(f"There is no column {missing[0]!r} in the file. Its columns: {columns}.")
    if len(table.columns) == 2:
        raise click.UsageError("The file has no column besides label and sensitive: there is nothing to learn from.")
    X = table.drop(columns=[label, sensitive])
    for name in X.columns:
        if X[name].isna().any():
            raise ValueError(f"Column {name!r} has missing values. Fill them in, or drop those rows.")
        if not pd.api.types.is_numeric_dtype(X[name]) and (n := X[name].nunique()) > MAX_VALUES:
            raise ValueError(
                f"Column {name!r} holds words, {n} different ones, and each would become a feature; at most "
                f"{MAX_VALUES} may. Leave it out, or merge rare values."
            )
    words = [name for name in X.columns if not pd.api.types.is_numeric_dtype(X[name])]
    return pd.get_dummies(X, columns=words, drop_first=True, dtype=float), table[label], table[sensitive]


def _keep(found: Calibration, out: Path) -> tuple[Path, Path]:
    """Write the numbers and the picture, and return where they are."""
    from surefair.plotting import CalibrationDisplay

    numbers, picture = out / "calibration.json", out / "calibration.png"
    found.to_json(numbers)
    CalibrationDisplay.from_calibration(found).figure_.savefig(picture, dpi=150)
    return numbers, picture
