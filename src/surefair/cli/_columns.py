"""Options that say which columns of a file serve for what, the same for every command that reads a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any

import click

from surefair.names import counted

NAMES = (
    "label", "sensitive", "positive", "features", "drop", "weights", "allow_leakage", "names", "delimiter", "encoding",
    "max_bad_rows",
)  # fmt: skip


_FILE_OPTIONS = [
    click.option("--delimiter", help="Delimiter of a CSV file.  [default: a comma; a tab for .tsv]"),
    click.option("--encoding", default="utf-8", show_default=True, help="Encoding of a CSV file."),
    click.option(
        "--max-bad-rows", default=100, show_default=True, type=click.IntRange(min=0),
        help="Number of rows that may be unusable.",
    ),
]  # fmt: skip


def file_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for how a CSV file is written, and how many of its rows may be unusable."""
    for option in reversed(_FILE_OPTIONS):
        command = option(command)
    return command


def column_options(required: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options for columns, which the command gets together, as the dict ``columns``."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def gathered(**options: Any) -> Any:
            columns = {name: options.pop(name) for name in NAMES}
            for name in ("sensitive", "drop"):
                columns[name] = split_names(columns[name])
            positive = columns["positive"]  # one text, which may have commas, or several
            columns["positive"] = None if not positive else positive[0] if len(positive) == 1 else positive
            for name in ("features", "names"):
                columns[name] = split_names(columns[name]) or None
            return command(columns=columns, **options)

        for option in reversed(_options(required)):
            gathered = option(gathered)
        return gathered

    return decorate


def _options(required: bool) -> list[Callable[..., Any]]:
    return [
        click.option("--label", required=required, help="Column of the label, with two values."),
        click.option(
            "--sensitive", required=required, multiple=True, help="Columns of the groups: a,b or repeat the option."
        ),
        click.option(
            "--positive", multiple=True,
            help="Positive label or decision. Pass it twice if labels and decisions use different words.  "
            "[default: the second in sorted order]",
        ),
        click.option("--features", multiple=True, help="Columns to learn from: a,b,c.  [default: all others]"),
        click.option("--drop", multiple=True, help="Columns not to learn from: a,b,c."),
        click.option("--weights", help="Column of sample weights."),
        click.option("--allow-leakage", is_flag=True, help="Learn even from columns that all but equal the label."),
        click.option("--names", multiple=True, help="Names of all columns of a CSV file without a header: a,b,c."),
        *_FILE_OPTIONS,
    ]  # fmt: skip


def unused_rows(bad: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Say how many rows could not be used, with a sentence for each reason."""
    for one in bad:
        yield f"Not used: {counted(one['count'], 'row')} ({one['reason']}); the first: {one['first']}."


def split_names(values: tuple[str, ...]) -> tuple[str, ...]:
    """Split names that were given one by one, or several with commas between them."""
    return tuple(name.strip() for value in values for name in value.split(",") if name.strip())
