"""``surefair plan``: how many rows a verdict needs, before there are any."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from surefair.cli._columns import split_names
from surefair.cli._terminal import plain_text, visible
from surefair.cli._work import one_line_errors

if TYPE_CHECKING:
    from surefair.inference.planning import Plan

Numbers = list[float] | dict[str, float]
NO_PLAN = 4  # exit code


def _numbers(_context: click.Context, option: click.Parameter, text: str | None) -> Numbers | None:
    """Read 0.3,0.4 as a list and f=0.3,m=0.4 as a dict."""
    if text is None:
        return None
    parts = split_names((text,))
    named = [part.rpartition("=") for part in parts]
    try:
        numbers = [float(number) for _, _, number in named]
    except ValueError:
        raise click.BadParameter(
            f"must be numbers with commas between them, such as 0.3,0.4 or f=0.3,m=0.4; received {text!r}."
        ) from None
    names = [name.strip() for name, sign, _ in named if sign]
    if not names:
        return numbers
    if len(names) < len(parts) or len({*names}) < len(names) or "" in names:
        raise click.BadParameter(f"must name every group once, such as f=0.3,m=0.4, or none; received {text!r}.")
    return dict(zip(names, numbers, strict=True))


@click.command(
    "plan",
    epilog="Exit codes: 0 a plan was made; 4 no number of rows gives a verdict, because the expected gap is too close "
    "to the margin; 1 an error; 2 wrong usage.",
)
@click.option(
    "--margin", type=float, required=True, help="Largest acceptable gap; with --ratio, the smallest acceptable ratio."
)
@click.option(
    "--rates", required=True, callback=_numbers,
    help="Rate that you expect in each group, for example of positive decisions: 0.3,0.4 or f=0.3,m=0.4.",
)  # fmt: skip
@click.option(
    "--shares", callback=_numbers,
    help="Share of each group among all rows, in the same order or with the same names.  [default: equal shares]",
)  # fmt: skip
@click.option("--ratio", is_flag=True, help="Compare rates by ratios.")
@click.option("--power", default=0.8, show_default=True, help="Probability of the verdict.")
@click.option("--level", "confidence_level", default=0.95, show_default=True, help="Confidence level.")
def command(
    margin: float, rates: Numbers, shares: Numbers | None, ratio: bool, power: float, confidence_level: float
) -> None:
    """Plan how many rows a verdict needs, for each group.

    If the rates that you expect differ by less than the margin, the plan is for "within margin", otherwise for
    "violates margin". For a rate that looks at some rows only, such as the true-positive rate, give the shares of all
    rows that enter it; they may add up to less than 1.
    """
    from surefair.inference.planning import plan

    with one_line_errors():
        found = plan(
            margin, rates=rates, shares=shares, ratio=ratio, power=power, confidence_level=confidence_level
        )  # fmt: skip
    _show(found)
    if found.rows == float("inf"):
        sys.exit(NO_PLAN)


def _show(found: Plan) -> None:
    """Show the plan as a sentence and a table."""
    from rich.console import Console
    from rich.table import Table

    console = Console(emoji=False)
    console.print(visible(found.sentence), highlight=False, markup=False)
    if found.rows == float("inf"):
        return
    table = Table(title=f"Rows needed for {found.verdict!r}")
    table.add_column("group")
    for heading in ("expected rate", "share", "rows"):
        table.add_column(heading, justify="right")
    groups = found.to_dict()["by_group"]
    for one in groups:
        table.add_row(plain_text(one["group"]), f"{one['rate']:g}", f"{one['share']:.3g}", f"{one['rows']:,}")
    table.add_section()
    total = sum(one["share"] for one in groups)
    table.add_row("all", "", f"{total:.3g}" if total < 1.0 - 1e-9 else "1", f"{found.rows:,}")
    console.print(table)
