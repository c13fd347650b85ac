"""The command line: one file per command, which the folder's registry finds.

``surefair --help`` imports every command for its one line of help, so a command's file imports only click at the top;
what the command computes with, it imports when it runs.
"""

from __future__ import annotations

import importlib
import pkgutil

import click

from surefair.cli._terminal import SafeGroup


@click.group(cls=SafeGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="surefair")
def main() -> None:
    """How certain are you that the model is fair?"""  # noqa: D400


for found in pkgutil.iter_modules(__path__):
    if not found.name.startswith("_"):
        main.add_command(importlib.import_module(f"{__name__}.{found.name}").command)
