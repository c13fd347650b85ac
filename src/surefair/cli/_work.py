"""What ``audit`` and ``resume`` share: progress bar, Ctrl-C, the table, the files, the exit code."""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from surefair.cli._tables import show
from surefair.cli._terminal import visible

if TYPE_CHECKING:
    from rich.console import Console

    from surefair.audit.result import Audit
    from surefair.audit.stream import Stream

EXIT_CODES = {None: 0, "within margin": 0, "violates margin": 3, "not enough evidence": 4}
STOPPED = 130  # the exit code of programs that Ctrl-C ends


class Work(NamedTuple):
    """Options of how the work is done."""

    out: Path
    every_seconds: float
    every_rows: int | None
    jobs: int
    quiet: bool
    verbose: bool

    def checkpoints(self, folder: Path | None) -> dict[str, Any]:
        """Say when and where to write checkpoints."""
        return {"checkpoint": folder, "seconds": self.every_seconds, "every": self.every_rows}


def jobs_option(what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the option for the number of threads or processes."""

    def check(_context: click.Context, _option: click.Parameter, jobs: int) -> int:
        if jobs == 0:
            raise click.BadParameter(f"must be a number of {what}, or -1 for one per core; received 0.")
        return jobs

    words = f"Number of {what}; -1 for one per core."
    return click.option("--jobs", default=-1, show_default=True, callback=check, help=words)


def _number(_context: click.Context, _option: click.Parameter, value: float) -> float:
    """Refuse NaN, which no limit refuses."""
    if value != value:
        raise click.BadParameter("must be a number; received nan.")
    return value


def work_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of how the work is done, which the command gets together, as ``work``."""

    @wraps(command)
    def gather(**options: Any) -> Any:
        return command(work=Work(*(options.pop(name) for name in Work._fields)), **options)

    gathered: Callable[..., Any] = gather
    folder = click.Path(path_type=Path, file_okay=False)
    for option in (
        click.option("--verbose", is_flag=True, help="Show groups, columns and all diagnostics in the terminal too."),
        click.option("--quiet", is_flag=True, help="Show only the verdict; without a margin, nothing."),
        jobs_option("threads"),
        click.option("--every-rows", type=click.IntRange(min=1), help="Rows between two checkpoints."),
        click.option(
            "--every-seconds", default=60.0, show_default=True, type=click.FloatRange(min=0.0), callback=_number,
            help="Seconds between two checkpoints.",
        ),
        click.option(
            "--out", default="audit", show_default=True, type=folder, help="Folder for audit.json and report.html."
        ),
    ):  # fmt: skip
        gathered = option(gathered)
    return gathered


@contextmanager
def one_line_errors(out: Path | None = None) -> Iterator[None]:
    """Turn errors into one clear line and exit code 1; remove the folder ``out`` if it is new and still empty."""
    from surefair.engines import EngineFailed

    new = [] if out is None else [folder for folder in (out, *out.parents) if not folder.exists()]
    try:
        yield
    except BaseException as error:
        for folder in new:
            with suppress(OSError):  # it was not made, or it has files
                folder.rmdir()
        if isinstance(error, ValueError | OSError | MemoryError | EngineFailed):
            raise click.ClickException(str(error) or type(error).__name__) from error
        raise


def prepare_folder(out: Path, *names: str, data: Sequence[str | None] = ()) -> None:
    """Make the folder for results, and refuse it before any work if these files cannot or must not be written there.

    Parameters
    ----------
    out : Path
    names : str
        The files.
    data : sequence of str
        Where the data are; results must not be written among them.
    """
    from surefair.storage.atomic import refuse_inside, try_to_write

    for place in data:
        refuse_inside(out, place, "folder for results (--out)")
    out.mkdir(parents=True, exist_ok=True)
    for name in names:
        if (out / name).is_dir():
            raise IsADirectoryError(
                f"{str(out / name)!r} is a folder, and a file of that name is to be written. Move it."
            )
    try_to_write(out)


def conclude(running: Stream, work: Work, run: Callable[..., Audit], checkpoint: Path | None = None) -> None:
    """Run to the end or to Ctrl-C, show and write the findings, and exit with the code of the verdict."""
    from rich.console import Console

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # for letters that a terminal cannot show
    console = Console(emoji=False)  # names are shown as they are, even one like ":warning:"
    words = "Stopping after this chunk; press Ctrl-C again to stop at once."
    if running.settings.shard_rows:
        words = "Stopping after the next shard, without a report; press Ctrl-C again to stop at once."
    with interruptible(console, words) as stop, shown(running, Console(stderr=True), not work.quiet) as progress:
        try:
            found = run(n_jobs=work.jobs, progress=progress, stop=stop)
        except KeyboardInterrupt:  # in shards, or the second one
            click.echo("Stopped without a report.", err=True)
            sys.exit(STOPPED)
    how = f"continue with: surefair resume {checkpoint}" if checkpoint else "without --checkpoint it cannot be resumed"
    deliver(found, work, console, f"Stopped after {running.n_read:,} rows; {how}")


def deliver(found: Audit, work: Work, console: Console, stopped: str = "") -> None:
    """Write and show the findings, say how to continue if the audit was stopped, and exit with its code."""
    found.to_json(work.out / "audit.json")  # before printing, which could fail
    found.to_html(work.out / "report.html")
    with suppress(BrokenPipeError, SystemExit):  # if only the first lines are read
        show(found, console, work.verbose, work.quiet)
        for name in () if work.quiet else ("audit.json", "report.html"):
            console.print(visible(f"Written: {work.out / name}"), highlight=False, soft_wrap=True, markup=False)
        if not found.complete:
            console.print(visible(stopped), highlight=False, soft_wrap=True, markup=False)
    sys.exit(EXIT_CODES[found.verdict] if found.complete else STOPPED)


@contextmanager
def interruptible(console: Console, words: str) -> Iterator[Callable[[], bool]]:
    """Let a first Ctrl-C, or SIGTERM, finish the chunk, and say so; a second one ends the program at once."""
    asked = False

    def ask(*_: Any) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        console.print(words, highlight=False)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def shown(running: Stream, console: Console, wanted: bool) -> Iterator[Callable[[int], None]]:
    """Progress bar with rows per second and time left, where there is a terminal."""
    from surefair.progress import rows_bar

    with rows_bar(console, wanted) as bar:
        source, task = running.source, bar.add_task("rows", total=running.source.n_rows)

        def advance(rows: int) -> None:
            share = source.position()
            total = source.n_rows or (round(rows / share) if share else None)  # for CSV, from the bytes so far
            bar.update(task, completed=rows, total=total)

        yield advance
