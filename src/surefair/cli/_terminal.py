"""What reaches a terminal: names from data and files cannot move the cursor, change colours or reverse text."""

from __future__ import annotations

from typing import Any

import click


def visible(text: object) -> str:
    """Return one line in which control characters, line ends included, are visible.

    Examples
    --------
    >>> visible(chr(27) + "[2Jsex"), visible("a" + chr(10) + "b")
    ('�[2Jsex', 'a�b')
    """
    from surefair.pages.text import shown

    line = str(shown(str(text)))
    return line.replace("\n", "\ufffd").replace("\t", "\ufffd")


def plain_text(text: object) -> str:
    """Return one line for a table of rich, which would take markup for colours."""
    from rich.markup import escape

    return escape(visible(text))


class SafeGroup(click.Group):
    """A group of commands whose errors are safe to show."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; if it fails, show its message without control characters."""
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            vars(error)["message"] = visible(error.message)
            raise
