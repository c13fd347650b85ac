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
    from rich.progress import MofNCompleteColumn

    return _bar(console, shown, MofNCompleteColumn())


def rows_bar(console: Any, shown: bool = True) -> Any:
    """Progress bar of rows, with rows per second; their number need not be known.

    Parameters
    ----------
    console : rich.console.Console
    shown : bool
    """
    from rich.progress import ProgressColumn, Task
    from rich.text import Text

    class Rows(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.completed:,.0f}" + (f", {task.speed:,.0f}/s" if task.speed else ""))

    return _bar(console, shown, Rows())


def _bar(console: Any, shown: bool, done: Any) -> Any:
    """Progress bar with a column of its own for what is done."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), done, TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=not (shown and console.is_terminal))
