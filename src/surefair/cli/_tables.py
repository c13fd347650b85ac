"""The findings of an audit, as tables and sentences in the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from surefair.cli._columns import unused_rows
from surefair.cli._terminal import plain_text, visible
from surefair.names import counted

if TYPE_CHECKING:
    from rich.console import Console

    from surefair.audit.result import Audit


def show(found: Audit, console: Console, verbose: bool = False, quiet: bool = False) -> None:
    """Show the findings as tables and sentences; if quiet, only the verdict, if there is one."""
    from rich.markup import escape

    if quiet:
        if found.verdict is not None:
            console.print(found.verdict, highlight=False, markup=False)
        return
    console.print(visible(found.sentence), highlight=False, markup=False)
    if found.kind == "training":
        _show_trained(found, console)
    else:
        _show_decisions(found, console)
    for words in unused_rows(found.rows["bad"]):
        console.print(visible(words), highlight=False, markup=False)
    doubts = [one for one in found.assumptions if not one["held"]]
    for one in doubts:
        console.print(f"[yellow]Assumption not met:[/yellow] {escape(one['assumes'])}", highlight=False)
        for found_here in one["diagnostics"] if verbose else one["diagnostics"][:1]:
            words = f"{found_here['message']} {found_here['command_line_advice'] or found_here['advice']}"
            console.print(visible(f"  {words}"), highlight=False, markup=False)
    if verbose:
        _show_more(found, console)
    if found.verdict is not None:
        console.print(f"[bold]{escape(found.verdict)}[/bold]", highlight=False)


def _show_trained(found: Audit, console: Console) -> None:
    """Show the unfairness of both trained models, and what they were trained on."""
    from rich.table import Table

    level = f"{100.0 * found.settings['confidence_level']:g} %"
    models = found.models if found.settings["criterion"] else found.models[:1]
    rows = "rows, by cross-fitting" if found.rows["folds"] else "held-out rows"
    table = Table(title=f"Unfairness on {found.rows['evaluation']:,} {rows}: {level} intervals, source total")
    table.add_column("metric", overflow="fold")
    for model in models:
        table.add_column(model["name"] if found.settings["criterion"] else "model", justify="right", no_wrap=True)
    for metric in dict.fromkeys(one["metric"] for one in found.models[0]["intervals"]):
        intervals = (found.interval(metric, "total", model["name"]) for model in models)
        table.add_row(metric.replace("_", " "), *map(_limits, intervals))
    table.add_section()
    table.add_row("accuracy", *(_limits(model["accuracy"]) for model in models))
    console.print(table)
    rows = ", ".join(f"{found.rows[name]:,} {name}" for name in ("training", "evaluation"))
    shards = f" in {counted(found.data['shards'], 'shard')}" if "shards" in found.data else ""
    folds = f" (the same rows, in {found.rows['folds']} folds)" if found.rows["folds"] else ""
    console.print(f"Rows: {found.rows['read']:,} read{shards}; {rows}{folds}.", highlight=False)
    several = len(found.settings["sensitive"]) > 1
    rates = (
        f"{one['column'] + ' ' if several else ''}{one['group']} {100.0 * one['base_rate']:.1f} %"
        for one in found.groups
        if one["base_rate"] is not None
    )
    label = f"{found.settings['label']} = {found.settings['labels'][1]}"
    console.print(
        visible(f"Positive labels of evaluation rows ({label}): {', '.join(rates)}."), highlight=False, markup=False
    )
    learnt = [one for one in found.columns if one["features"]]
    left = ", ".join(f"{one['name']} ({one['note']})" for one in found.columns if one["role"] == "left out")
    words = f"Features: {sum(one['features'] for one in learnt)}, from {', '.join(one['name'] for one in learnt)}."
    console.print(visible(f"{words}{f' Left out: {left}.' if left else ''}"), highlight=False, markup=False)
    for one in learnt:
        if one["note"]:
            console.print(visible(f"Column {one['name']}: {one['note']}."), highlight=False, markup=False)


def _show_decisions(found: Audit, console: Console) -> None:
    """Show the unfairness of each column of decisions or scores."""
    from rich.table import Table

    level = f"{100.0 * found.settings['confidence_level']:g} %"
    for model in found.models:
        verdicts = {one["metric"]: one for one in model["verdicts"]}
        decided = counted(model["rows"]["decided"], "row")
        table = Table(title=f"{plain_text(model['name'])}: unfairness, {level} intervals, {decided}")
        table.add_column("metric", overflow="fold")
        table.add_column("unfairness", justify="right", no_wrap=True)
        if verdicts:
            table.add_column("margin", justify="right")
            table.add_column("verdict")
        for one in model["intervals"]:
            judged = verdicts.get(one["metric"])
            more = [] if not verdicts else ["", ""] if judged is None else [f"{judged['margin']:g}", judged["verdict"]]
            table.add_row(one["metric"].replace("_", " "), _limits(one), *more)
        if model["accuracy"] is not None:
            table.add_section()
            table.add_row("accuracy of all decisions", _limits(model["accuracy"]))
        console.print(table)
        for note in model["notes"]:
            console.print(visible(note), highlight=False, markup=False)
        if len(verdicts) > 1:
            words = "These metrics are judged together: a violation must hold with limits that allow for all of them."
            console.print(words, highlight=False, markup=False)
    for words in _row_words(found):
        console.print(visible(words), highlight=False, markup=False)


def _row_words(found: Audit) -> Iterator[str]:
    """Say how many rows were read, and which groups are not compared."""
    shards = f" in {counted(found.data['shards'], 'shard')}" if "shards" in found.data else ""
    yield f"Rows: {found.rows['read']:,} read{shards}; {found.rows['evaluation']:,} counted."
    several = len({one["column"] for one in found.groups}) > 1
    for note in dict.fromkeys(one["note"] for one in found.groups if not one["compared"]):
        groups = ", ".join(
            f"{one['column'] + ' ' if several else ''}{one['group']} ({counted(one['evaluation'], 'row')})"
            for one in found.groups
            if one["note"] == note
        )
        yield f"Shown, not compared ({note}): {groups}."


def _show_more(found: Audit, console: Console) -> None:
    """Show groups and columns as tables."""
    from rich.table import Table

    left_out = {"encoding"}  # which is for programs
    left_out |= {"training", "constrained", "features", "unseen"} if found.kind == "decisions" else set()
    for title, rows in (("Groups", found.groups), ("Columns", found.columns)):
        table = Table(title=title)
        headings = [heading for heading in rows[0] if heading not in left_out]
        for heading in headings:
            table.add_column(heading.replace("_", " "), overflow="fold")
        for row in rows:
            values = (row[heading] for heading in headings)
            table.add_row(*(f"{value:,}" if type(value) is int else plain_text(value) for value in values))
        console.print(table)


def _limits(one: dict[str, Any]) -> str:
    """Write an estimate with its interval."""
    numbers = ("undefined" if one[name] is None else f"{one[name]:.3f}" for name in ("estimate", "low", "high"))
    return "{} ({} to {})".format(*numbers)
