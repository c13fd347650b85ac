"""Save the results of a study as JSON for the docs, and print them as tables."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from joblib import Parallel, delayed
from rich.console import Console
from rich.progress import track
from rich.table import Table

from surefair.experiments import run

FOLDER = Path(__file__).parents[1] / "docs" / "results"

T = TypeVar("T")
KEPT = Path(__file__).parents[1] / "build"  # finished parts of long studies
console = Console(width=None if sys.stdout.isatty() else 120)


def in_parallel(
    function: Any, items: Sequence[Any], title: str, quiet: bool = False, n_threads: int = 2
) -> Iterator[Any]:
    """Call the function on every item with several threads, with a progress bar on a terminal."""
    found = Parallel(n_jobs=n_threads, prefer="threads", return_as="generator")(
        delayed(function)(item) for item in items
    )
    shown = console.is_terminal and not quiet
    yield from track(found, title, total=len(items), console=console, transient=True, disable=not shown)


def kept(name: str, problem: dict[str, Any], compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return a line that an earlier run with the same code has finished, or compute it and save it in build."""
    file = KEPT / f"{name}.jsonl"
    problem = problem | {"code": digest()}
    for text in file.read_text().splitlines() if file.exists() else ():
        try:
            one = json.loads(text)
        except ValueError:  # an interruption cut the line off
            continue
        if one["problem"] == problem:
            return dict(one["line"])
    line = compute()
    KEPT.mkdir(exist_ok=True)
    with file.open("a") as end:
        end.write(json.dumps({"problem": problem, "line": line}) + "\n")
    return line


def digest() -> str:
    """Short hash of the library's code; finished parts are valid only for the same code."""
    return run.digest()[:16]


def keep(
    name: str,
    settings: dict[str, Any],
    rows: Sequence[dict[str, Any]],
    shown: Sequence[str] | None = None,
    **more: Sequence[dict[str, Any]],
) -> bool:
    """Print rows as tables and, if the study ran without options or with ``--keep``, save them as JSON for the docs.

    ``shown`` names the tables to print, by default all. Returns whether the tables were saved.
    """
    for title, lines in ({name: rows} | more).items():
        if lines and (shown is None or title in shown):
            console.print(as_table(title, lines))
    options = [option for option in sys.argv[1:] if option not in ("--quiet", "--keep")]
    if options and "--keep" not in sys.argv:
        return False
    packages = {package: version(package) for package in ("surefair", "numpy", "numba", "scipy")}
    result = {
        "command": " ".join([f"python studies/{name}.py", *options]),
        "settings": settings,
        "versions": packages | {"python": platform.python_version()},
        "rows": list(rows),
        **{key: list(lines) for key, lines in more.items()},
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    return True


def as_table(title: str, rows: Iterable[dict[str, Any]]) -> Table:
    """Rows as a table for the terminal."""
    rows = list(rows)
    table = Table(title=title)
    for heading in rows[0]:
        table.add_column(heading.replace("_", " "), justify="left" if isinstance(rows[0][heading], str) else "right")
    for row in rows:
        table.add_row(*(f"{value:.3f}" if isinstance(value, float) else str(value) for value in row.values()))
    return table
