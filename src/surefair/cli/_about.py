"""Options for what heads a report, the same for every command that writes one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


def about_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for title, purpose, author and date."""
    for option in (
        click.option("--date", help="Date for the report, such as 2026-03-31.  [default: none, not today]"),
        click.option("--author", help="Who did the audit."),
        click.option("--purpose", help="What the audit is for."),
        click.option("--title", help="Title of the report."),
    ):
        command = option(command)
    return command
