"""Options of audits of decisions or scores that exist already, and of what is judged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from surefair.cli._columns import split_names


def decision_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of audits of decisions."""
    options = [
        click.option("--decision", multiple=True, help="Columns of decisions to audit: a,b or repeat the option."),
        click.option("--score", help="Column of scores to audit."),
        click.option("--threshold", type=float, help="Lowest score of a positive decision."),
        click.option(
            "--threshold-quantile", type=float,
            help="Lowest score of a positive decision, as a quantile of all scores: 0.8 for the highest 20 %.",
        ),
        click.option("--strata", help="Column of strata within which groups are compared (decisions only)."),
        click.option(
            "--unknown", default="show", show_default=True, type=click.Choice(["show", "include", "refuse"]),
            help="What to do with rows without a group: show them, compare them too, or refuse them (decisions only).",
        ),
        click.option(
            "--min-share", default=0.0, show_default=True,
            help="Share of the rows that a group must have to be compared (decisions only).",
        ),
        click.option(
            "--intersections", is_flag=True,
            help="Compare the groups that the sensitive columns form together, too (decisions only).",
        ),
        click.option(
            "--reference", multiple=True,
            help="Group to compare the others with: GROUP or COLUMN=GROUP (decisions only).  [default: all pairs]",
        ),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def judging_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of what is judged."""
    options = [
        click.option(
            "--metric", multiple=True, callback=lambda _context, _option, names: split_names(names),
            help="Metrics that get a verdict, together: a criterion, one with _ratio, or a metric of scores.  "
            "[default: the criterion; demographic_parity for decisions]",
        ),
        click.option(
            "--margin", multiple=True, callback=_margin,
            help="Largest acceptable gap; for a ratio, the smallest acceptable one. METRIC=VALUE for one metric.",
        ),
        click.option(
            "--policy", type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="File surefair.toml with settings that are agreed on beforehand.",
        ),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def _margin(
    context: click.Context, _option: click.Parameter, values: tuple[str, ...]
) -> float | dict[str, float] | None:
    """Return one margin for all metrics, or one for each."""
    named: dict[str, float] = {}
    plain: list[float] = []
    for value in values:
        metric, equals, number = value.rpartition("=")
        try:
            found = float(number)
        except ValueError:
            raise click.BadParameter(f"{value!r} is not a number, or METRIC=NUMBER.") from None
        if metric in named or (plain and not equals):
            raise click.BadParameter(f"{value!r} is the second margin of the same metric.")
        if equals:
            named[metric] = found
        else:
            plain.append(found)
    if not named:
        return plain[0] if plain else None
    metrics = context.params.get("metric") or ()
    if plain and not metrics:
        raise click.BadParameter("name the metrics (--metric) to which the margin without a name applies.")
    return {metric: plain[0] for metric in metrics if plain and metric not in named} | named
