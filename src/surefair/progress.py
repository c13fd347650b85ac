"""The progress bar of everything that takes long."""

from __future__ import annotations

from typing import Any


def progress_bar(console: Any, shown: bool = True) -> Any:
    """Progress bar, to be entered; hidden where it is not wanted or the console is no terminal.

    Parameters
    ----------
    console : rich.console.Console
    shown : bool
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=not (shown and console.is_terminal))
