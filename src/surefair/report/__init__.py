"""An audit as one page of HTML."""

from __future__ import annotations

import os
from html import escape

from surefair.audits import Audit
from surefair.files import written_whole


def write_report(audit: Audit, path: str | os.PathLike[str]) -> None:
    """Write the page to a file, whole or not at all."""
    with written_whole(path) as file:
        file.write(f"<!doctype html><title>surefair audit</title><p>{escape(audit.sentence)}</p>\n".encode())
