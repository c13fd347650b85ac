"""``surefair demo``: an unconstrained and a fair classifier on one stream, side by side."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click

if TYPE_CHECKING:
    from surefair.inference.interval import Interval

BATCH = 2_000
MODELS = {"unconstrained": None, "constrained": "demographic_parity"}
DRAWN = ("total", "training")

Paths: TypeAlias = "dict[str, dict[str, list[Interval]]]"  # by model, then by source


@click.command("demo")
@click.option("--rows", default=100_000, show_default=True, type=click.IntRange(min=2 * BATCH), help="Rows to stream.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of data and weights.")
@click.option(
    "--out", default="demo", show_default=True, type=click.Path(path_type=Path), help="Folder for the picture."
)
@click.option("--quiet", is_flag=True, help="No progress bar.")
def command(rows: int, seed: int, out: Path, quiet: bool) -> None:
    """Train on a synthetic stream and show how the interval narrows.

    The data are vulnerable to disparate impact: a classifier that ignores the groups accepts them at very different
    rates. Two classifiers see the same stream, one unconstrained and one held to demographic parity.
    """
    from rich.console import Console
    from rich.table import Table

    from surefair.classifier import FairClassifier
    from surefair.datasets import SyntheticDI
    from surefair.diagnostics import Diagnostic
    from surefair.inference.interval import SOURCES
    from surefair.progress import progress_bar

    warnings.filterwarnings("ignore", category=Diagnostic)  # unconstrained, these labels are told almost without error
    console = Console()
    stream = SyntheticDI(seed=seed)
    test = stream.rows(10**9, 10_000)
    models = {name: FairClassifier(criterion=criterion, random_state=seed) for name, criterion in MODELS.items()}
    looks: list[int] = []
    paths: Paths = {name: {source: [] for source in DRAWN} for name in models}
    with progress_bar(console, not quiet) as progress:
        task = progress.add_task("rows", total=rows)
        for batch in stream.batches(size=BATCH):
            if batch.first_row >= rows:
                break
            batch = batch.part(0, rows - batch.first_row)
            for name, model in models.items():
                model.partial_fit(batch.X, batch.y, sensitive_features=batch.group)
                for source, path in paths[name].items():
                    path.append(model.fairness_interval(test.X, test.y, sensitive_features=test.group, source=source))
            looks.append(batch.first_row + batch.n_rows)
            progress.update(task, completed=looks[-1])
    table = Table(title=f"Demographic parity after {looks[-1]:,} rows: 95 % intervals")
    for heading in ("classifier", "source", "unfairness", "low", "high", "accuracy"):
        table.add_column(heading, justify="left" if heading in ("classifier", "source") else "right")
    for name, model in models.items():
        accuracy = model.score(test.X, test.y)
        for source in SOURCES:
            interval = model.fairness_interval(test.X, test.y, sensitive_features=test.group, source=source)
            numbers = (f"{value:.4f}" for value in (interval.estimate, interval.low, interval.high))
            table.add_row(name, source, *numbers, f"{accuracy:.4f}", end_section=source == "total")
    console.print(table)
    for source, words in SOURCES.items():
        console.print(f"[bold]{source}[/bold]: {words}.", highlight=False)
    console.print(f"Picture: {_draw(looks, paths, out)}", highlight=False, soft_wrap=True)


def _draw(looks: list[int], paths: Paths, out: Path) -> Path:
    """Save a picture with one panel per model and return where it is."""
    from surefair.plotting import IntervalPathDisplay, panels

    out.mkdir(parents=True, exist_ok=True)
    figure, axes = panels(len(paths))
    for ax, (name, by_source) in zip(axes, paths.items(), strict=True):
        IntervalPathDisplay(looks, by_source).plot(ax).ax_.set_title(f"{name} classifier", fontsize="medium")
    path = out / "interval.png"
    figure.savefig(path, dpi=150)
    return path
