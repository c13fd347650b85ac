"""Options of how models are trained, the same for every command that trains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from surefair.names import file_names


def training_options(alpha: float) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options of training; ``alpha`` is the default weight of the ridge."""
    criteria = ", ".join(file_names("surefair.criteria"))
    losses = " or ".join(file_names("surefair.losses"))
    options = [
        click.option(
            "--criterion", default="demographic_parity", show_default=True,
            help=f"Criterion to enforce: {criteria}; or none.",
        ),
        click.option("--loss", default="log_loss", show_default=True, help=f"Loss: {losses}."),
        click.option("--tolerance", default=0.0, show_default=True, help="Allowed violation of a linear criterion."),
        click.option("--penalty", default=1.0, show_default=True, help="Weight of the penalty, if there is one."),
        click.option("--alpha", default=alpha, show_default=True, help="Weight of the ridge."),
        click.option(
            "--replicates", "n_replicates", default=200, show_default=True, type=click.IntRange(min=2),
            help="Bootstrap replicates of each model.",
        ),
        click.option("--level", "confidence_level", default=0.95, show_default=True, help="Confidence level."),
        click.option(
            "--seed", "random_state", default=0, show_default=True, type=click.IntRange(min=0), help="Random seed."
        ),
    ]  # fmt: skip

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate
