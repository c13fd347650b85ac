"""Options of how models are trained, the same for every command that trains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from surefair.names import file_names, one_of


def _criterion_or_none(_context: click.Context, _option: click.Parameter, name: str) -> str | None:
    """Return the name of a criterion, or None for "none"."""
    try:
        one_of(name, [*file_names("surefair.criteria"), "none"], "criterion")
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return None if name == "none" else name


def training_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of training."""
    return _added(_options(), command)


def path_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of training for a path of tolerances, which has no single one, and no penalty."""
    some = {name: option for name, option in _options().items() if name not in ("tolerance", "penalty")}
    return _added(some, command)


def _added(options: dict[str, Callable[..., Any]], command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(options.values()):
        command = option(command)
    return command


def _options() -> dict[str, Callable[..., Any]]:
    """Options of training, by name."""
    criteria = ", ".join(file_names("surefair.criteria"))
    losses = " or ".join(file_names("surefair.losses"))
    return {
        "criterion": click.option(
            "--criterion", default="demographic_parity", show_default=True, callback=_criterion_or_none,
            help=f"Criterion to enforce: {criteria}; or none. Those that can only be measured are refused.",
        ),
        "loss": click.option("--loss", default="log_loss", show_default=True, help=f"Loss: {losses}."),
        "surrogate": click.option(
            "--surrogate", default="decisions", show_default=True, type=click.Choice(["decisions", "scores"]),
            help="What the constraint compares between groups.",
        ),
        "tolerance": click.option(
            "--tolerance", default=0.0, show_default=True,
            help="Largest gap that the constraint allows. If it compares several gaps, at least 0.01.",
        ),
        "penalty": click.option(
            "--penalty", type=float, help="Weight of a penalty on gaps, in place of the constraint."
        ),
        "alpha": click.option("--alpha", default=1e-4, show_default=True, help="Weight of the ridge."),
        "replicates": click.option(
            "--replicates", "n_replicates", default=200, show_default=True, type=click.IntRange(min=2),
            help="Bootstrap replicates of each model.",
        ),
        "level": click.option(
            "--level", "confidence_level", default=0.95, show_default=True, help="Confidence level.",
            type=click.FloatRange(min=0.0, max=1.0, min_open=True, max_open=True),
        ),
        "seed": click.option(
            "--seed", "random_state", default=0, show_default=True, type=click.IntRange(min=0), help="Random seed."
        ),
    }  # fmt: skip
