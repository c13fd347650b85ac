"""Progress bars for long computations."""

from __future__ import annotations

from typing import Any


def progress_bar(console: Any, shown: bool = True) -> Any:
    """Return a progress bar that counts tasks, as a context manager.

    Parameters
    ----------
    console : rich.console.Console
        The bar is hidden if this is not a terminal.
    shown : bool
        Pass False to hide the bar.
    """
    from rich.progress import MofNCompleteColumn

    return _bar(console, shown, MofNCompleteColumn())


def rows_bar(console: Any, shown: bool = True) -> Any:
    """Return a progress bar that shows rows and rows per second; the total may be unknown.

    Parameters
    ----------
    console, shown
        As in `progress_bar`.
    """
    from rich.progress import ProgressColumn, Task
    from rich.text import Text

    class CountAndSpeed(ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = f", {task.speed:,.0f}/s" if task.speed else ""
            return Text(f"{task.completed:,.0f}{speed}")

    return _bar(console, shown, CountAndSpeed())


def _bar(console: Any, shown: bool, done: Any) -> Any:
    """Build a progress bar; the column `done` shows how much is complete."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), done, TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=not (shown and console.is_terminal))
