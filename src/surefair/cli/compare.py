"""``surefair compare``: which of two models is less unfair, from a file of their decisions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from surefair.cli._columns import file_options, split_names, unused_rows
from surefair.cli._terminal import plain_text, visible
from surefair.cli._work import one_line_errors, prepare_folder
from surefair.names import counted

if TYPE_CHECKING:
    from surefair.inference.comparison import Comparison
    from surefair.tables.paired import Paired

FILES = ("comparison.json", "comparison.html")
MOST_PAIRS = 20  # pairs of groups that the terminal shows
A_IS_LESS, UNDECIDED = 3, 4  # exit codes


@click.command(
    "compare",
    epilog="Exit codes: 0 model b is less unfair; 3 model a is less unfair; 4 not enough evidence; 1 an error; 2 wrong "
    "usage.",
)
@click.argument("files", nargs=-1, required=True, metavar="FILE [FILE_B]")
@click.option("--decision-a", required=True, help="Column of the decisions of model a.")
@click.option("--decision-b", required=True, help="Column of the decisions of model b.")
@click.option("--sensitive", required=True, multiple=True, help="Columns of the groups: a,b or repeat the option.")
@click.option("--label", help="Column of the true label, if there is one.")
@click.option("--key", help="Column that says which rows of two files are the same.")
@click.option(
    "--positive", multiple=True,
    help="Positive decision or label. Pass it twice if labels and decisions use different words.  "
    "[default: the second in sorted order]",
)  # fmt: skip
@click.option("--threshold", type=float, help="Lowest score of a positive decision, if decisions are scores.")
@click.option(
    "--metric", default="demographic_parity", show_default=True,
    help="What is compared between groups: a criterion, or one with _ratio.",
)  # fmt: skip
@click.option("--weights", help="Column of sample weights.")
@click.option("--clusters", help="Column with the person, or other unit, that each row belongs to.")
@click.option(
    "--unknown", default="exclude", show_default=True, type=click.Choice(["exclude", "include"]),
    help="What to do with rows whose group is called unknown: leave them out, or compare them as a group.",
)  # fmt: skip
@click.option("--intersections", is_flag=True, help="Also compare the groups that several columns form together.")
@click.option("--level", "confidence_level", default=0.95, show_default=True, help="Confidence level.")
@file_options
@click.option(
    "--out", default="comparison", show_default=True, type=click.Path(path_type=Path, file_okay=False),
    help="Folder for comparison.json and comparison.html.",
)  # fmt: skip
@click.option("--quiet", is_flag=True, help="Show only the verdict.")
def command(
    files: tuple[str, ...],
    sensitive: tuple[str, ...],
    metric: str,
    intersections: bool,
    confidence_level: float,
    out: Path,
    quiet: bool,
    **columns: Any,
) -> None:
    """Find out which of two models treats groups less differently, from their decisions on the same rows.

    FILE is a CSV (also compressed), Parquet or Arrow file, or a folder of such files, with a column of decisions for
    each model. If the decisions of model b are in a second file, name it too, and the column --key that both share. A
    key that repeats is an error; rows whose key only one file has are counted and left out.
    """
    if len(files) > 2:
        raise click.UsageError(f"Name one file, or two; received {len(files)}.")

    from surefair.tables.paired import PairColumns

    with one_line_errors(out):
        asked = PairColumns(sensitive=split_names(sensitive), **columns)
        prepare_folder(out, *FILES, data=files)
        found = _compare(asked, files, metric, intersections, confidence_level)
        found.to_json(out / FILES[0])
        found.to_html(out / FILES[1])
    _show(found, out, quiet)
    a, b = found.names
    sys.exit({f"{b} is less unfair": 0, f"{a} is less unfair": A_IS_LESS}.get(found.verdict, UNDECIDED))


def _compare(
    asked: Any, files: tuple[str, ...], metric: str, intersections: bool, confidence_level: float
) -> Comparison:  # fmt: skip
    """Read the files and compare."""
    import warnings
    from dataclasses import replace

    from surefair.diagnostics import Diagnostic
    from surefair.inference.comparison import compare
    from surefair.inference.limits import check_level
    from surefair.inference.metric import get_metric

    measured = get_metric(metric)
    check_level(confidence_level)
    if measured.needs_labels and asked.label is None:
        raise ValueError(f"The metric {metric!r} needs labels. Name their column (--label).")
    rows = asked.read(*files, needs_labels=measured.needs_labels)
    warnings.filterwarnings("ignore", category=Diagnostic)  # the comparison lists them

    def compared(rows: Any, label: Any) -> Comparison:
        return compare(
            label, *rows.decisions, sensitive_features=rows.sensitive, metric=measured.name, names=rows.names,
            pos_label=rows.positive, threshold=asked.threshold, sample_weight=rows.weights, clusters=rows.clusters,
            intersections=intersections, confidence_level=confidence_level,
        )  # fmt: skip

    if rows.labelled.all():
        return _completed(compared(rows, rows.label), rows)
    found = _completed(compared(rows, None), rows)  # rows without a label serve, too
    some = rows.only_labelled()
    if rows.label is None or any(column.nunique() < 2 for column in some.sensitive.values()):
        return found
    accuracy = compared(some, rows.label).accuracy
    assert accuracy is not None
    (a, b), (estimate, low, high) = rows.names, accuracy
    words = f"The accuracy of {b} minus that of {a} is {estimate:.3f} ({low:.3f} to {high:.3f})"
    sentence = f"{found.sentence} {words}, from the {counted(len(rows.label), 'row')} with a label."
    return replace(found, accuracy=accuracy, sentence=sentence)


def _completed(found: Comparison, rows: Paired) -> Comparison:
    """Add what is known about the rows, and what is positive if columns use different words."""
    from dataclasses import replace

    return replace(found, data=rows.data, sentence=f"{found.sentence} {rows.meaning}".rstrip())


def _show(found: Comparison, out: Path, quiet: bool) -> None:
    """Show the comparison as sentences and tables."""
    from rich.console import Console

    console = Console(emoji=False)

    def say(words: object) -> None:
        console.print(visible(words), highlight=False, markup=False)

    if not quiet:
        say(found.sentence)
        console.print(_table(found))
        console.print(_pairs(found))
        rows = found.data["rows"]
        second = f" and {rows['read_b']:,}" if "read_b" in rows else ""
        say(f"Rows: {rows['read']:,}{second} read, {rows['compared']:,} compared.")
        if rows["labelled"] not in (None, rows["compared"]):
            some = counted(rows["labelled"], "of them has", "of them have")
            say(f"{some} a label; only these count towards accuracy.")
        if rows["unknown"]:
            some = counted(rows["unknown"], "row")
            say(f"Left out because a group is unknown: {some}. Use --unknown include to compare them.")
        if rows["weightless"]:
            say(f"Left out because they have weight 0: {counted(rows['weightless'], 'row')}.")
        for words in unused_rows(rows["bad"]):
            say(words)
        for one in found.diagnostics:
            say(f"Note: {one.message} {one.command_line_advice or one.advice}")
        needed = found.rows_needed()
        if 0 < needed < float("inf"):
            say(f"About {counted(needed, 'more row')} would settle it if the estimates did not change.")
        for name in FILES:
            console.print(visible(f"Written: {out / name}"), highlight=False, soft_wrap=True, markup=False)
    console.print(visible(found.verdict), style="bold", highlight=False, markup=False)


def _table(found: Comparison) -> Any:
    """Table of both models and their differences."""
    from rich.table import Table

    table = Table(title=f"{found.metric}, {100.0 * found.confidence_level:g} % intervals")
    for heading in ("quantity", "estimate", "low", "high"):
        table.add_column(heading, justify="left" if heading == "quantity" else "right", overflow="fold")
    frame = found.to_frame()
    for row in zip(*(frame[name].to_list() for name in frame.columns), strict=True):
        table.add_row(plain_text(row[0]), *(f"{value:.4f}" for value in row[1:]))
    return table


def _pairs(found: Comparison) -> Any:
    """Table of the signed gaps of each pair of groups."""
    from rich.table import Table

    rows = found.to_dict()["by_pair"]
    more = f" (the first {MOST_PAIRS} of {len(rows):,})" if len(rows) > MOST_PAIRS else ""
    table = Table(title=f"Gaps by pair of groups{more}; the limits of the differences hold together")
    several = "metric" in rows[0]
    for name in ("groups", "metric")[: 1 + several]:
        table.add_column(name, overflow="fold")
    numbers = [name for name in rows[0] if name not in ("column", "metric", "first", "second")]
    for name in numbers:
        table.add_column(name.replace("_", " "), justify="right", no_wrap=True)
    for row in rows[:MOST_PAIRS]:
        column = f"{row['column']}: " if row.get("column") is not None else ""
        words = [f"{column}{row['first']}, {row['second']}", *([row["metric"].replace("_", " ")] if several else [])]
        cells = ("undefined" if row[name] is None else f"{row[name]:.3f}" for name in numbers)
        table.add_row(*map(plain_text, words), *cells)
    return table
