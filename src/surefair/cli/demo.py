"""``surefair demo``: compare an unconstrained and a constrained classifier on the same stream."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

if TYPE_CHECKING:
    from surefair.inference.interval import Interval

BATCH = 2_000
MODELS = {"unconstrained": None, "constrained": "demographic_parity"}
DRAWN = ("total", "training")

Paths: TypeAlias = "dict[str, dict[str, list[Interval]]]"  # by model, then by source


@click.command("demo")
@click.option("--rows", default=100_000, show_default=True, type=click.IntRange(min=2 * BATCH), help="Training rows.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Random seed.")
@click.option(
    "--out", default="demo", show_default=True, type=click.Path(path_type=Path), help="Folder for the picture."
)
@click.option("--quiet", is_flag=True, help="Hide the progress bar.")
def command(rows: int, seed: int, out: Path, quiet: bool) -> None:
    """Train on a synthetic stream and show how the interval narrows.

    In this stream, a classifier that ignores the groups accepts them at very different rates. Two classifiers train on
    the same rows: one is unconstrained, and the other must satisfy demographic parity.
    """
    from rich.console import Console

    from surefair.classifier import FairClassifier
    from surefair.datasets import SyntheticDI
    from surefair.diagnostics import Diagnostic
    from surefair.inference.sources import SOURCES
    from surefair.progress import progress_bar

    console = Console()
    stream = SyntheticDI(seed=seed)
    test = stream.rows(10**9, 10_000)
    models = {name: FairClassifier(criterion=criterion, random_state=seed) for name, criterion in MODELS.items()}
    looks: list[int] = []
    paths: Paths = {name: {source: [] for source in DRAWN} for name in models}
    # Without a constraint these labels are almost separable, which every look at the intervals would warn about.
    warnings.filterwarnings("ignore", category=Diagnostic)
    with progress_bar(console, not quiet) as progress:
        task = progress.add_task("rows", total=rows)
        for first in range(0, rows, BATCH):
            data = stream.rows(first, min(BATCH, rows - first))
            looks.append(first + len(data))
            for name, model in models.items():
                model.partial_fit(data.X, data.y, sensitive_features=data.sensitive)
                for source, path in paths[name].items():
                    path.append(
                        model.fairness_interval(
                            test.X, test.y, sensitive_features=test.sensitive, source=source, anytime=True
                        )
                    )
            progress.update(task, completed=looks[-1])
        table = _table(models, test, looks[-1])
    console.print(table)
    for what, uncertainty in SOURCES.items():
        console.print(f"[bold]{what}[/bold]: {uncertainty.estimates}.", highlight=False)
    ends = {
        name: model.fairness_interval(test.X, test.y, sensitive_features=test.sensitive)
        for name, model in models.items()
    }
    console.print(f"Picture: {_draw(looks, paths, ends, out)}", highlight=False, soft_wrap=True)


def _table(models: dict[str, Any], test: Any, rows: int) -> Any:
    """Table of the intervals of each model and source on the test rows."""
    from rich.table import Table

    from surefair.inference.sources import SOURCES

    table = Table(title=f"Demographic parity after {rows:,} rows: 95 % intervals")
    for heading in ("classifier", "source", "unfairness", "low", "high", "accuracy"):
        table.add_column(heading, justify="left" if heading in ("classifier", "source") else "right")
    for name, model in models.items():
        accuracy = model.score(test.X, test.y)
        for source in SOURCES:
            interval = model.fairness_interval(test.X, test.y, sensitive_features=test.sensitive, source=source)
            numbers = (f"{value:.4f}" for value in (interval.estimate, interval.low, interval.high))
            table.add_row(name, source, *numbers, f"{accuracy:.4f}", end_section=source == "total")
    return table


def _draw(looks: list[int], paths: Paths, ends: dict[str, Interval], out: Path) -> Path:
    """Save a picture with one panel per model and return its path."""
    from surefair.plotting import IntervalPathDisplay
    from surefair.plotting.drawing import panels

    out.mkdir(parents=True, exist_ok=True)
    figure, axes = panels(len(paths))
    for ax, (name, by_source) in zip(axes, paths.items(), strict=True):
        drawn = IntervalPathDisplay(looks, by_source, ends[name]).plot(ax)
        drawn.ax_.set_title(f"{name} classifier; bands hold at all looks together", fontsize="medium")
    path = out / "interval.png"
    figure.savefig(path, dpi=150)
    return path
