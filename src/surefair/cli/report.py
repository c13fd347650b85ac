"""``surefair report``: the page again, from the JSON file of an audit."""

from __future__ import annotations

from pathlib import Path

import click

from surefair.cli._about import about_options
from surefair.cli._terminal import visible


@click.command("report")
@click.argument("audit", metavar="AUDIT.JSON", type=click.Path(path_type=Path))
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="HTML file to write.  [default: report.html beside AUDIT.JSON]",
)
@about_options
def command(audit: Path, out: Path | None, **about: str | None) -> None:
    """Write the report of an audit again, from its JSON file.

    AUDIT.JSON is the file audit.json that surefair audit wrote. Title, purpose, author and date replace those that the
    audit was begun with, in the report only.
    """
    from surefair.audit.result import Audit

    out = out or audit.with_name("report.html")
    if out.is_dir():
        raise click.ClickException(f"{str(out)!r} is a folder. Name a file, for example {str(out / 'report.html')!r}.")
    try:
        Audit.from_json(audit).to_html(out, **about)
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}." if error.strerror else str(error)) from error
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    click.echo(visible(f"Written: {out}"))
