"""An audit as one HTML file that needs nothing else: no network, no fonts, no other files.

Sections are the files in ``sections/``, in the order of the number in their names; a new file is found by itself. A
section sets its ``title`` and one sentence on what it shows, its ``lead``; what it prints comes below. It is given
the audit, the metrics, and the functions of ``texts`` and ``charts``. Everything that comes from data is escaped, and
the file's security policy lets no script run but its own.
"""

from __future__ import annotations

import os
from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from surefair.audit.report import charts, texts
from surefair.audit.result import Audit
from surefair.inference.interval import SOURCES
from surefair.storage.atomic import written_whole

__all__ = ["render", "write_report"]


class Section(NamedTuple):
    """A part of the page."""

    name: str
    title: str
    lead: str
    body: Markup


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("surefair.audit.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=texts.shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"charts": charts, "texts": texts, "SOURCES": SOURCES}
    return environment


def _inline(name: str) -> tuple[Markup, str]:
    """Text of one of our own files to be put into the page, and the name by which the security policy knows it."""
    text = files("surefair.audit.report").joinpath(name).read_text(encoding="utf-8")
    return Markup(text), f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _sections(audit: Audit) -> list[Section]:
    """All sections of the page, in their order."""
    environment, found = _environment(), []
    for path in environment.list_templates(filter_func=lambda path: path.startswith("sections/")):
        number, _, name = path.removeprefix("sections/").removesuffix(".html.j2").partition("_")
        given: dict[str, Any] = {"audit": audit, "metrics": texts.metrics(audit), "level": texts.level(audit)}
        module: Any = environment.get_template(path).make_module(given)
        found.append((int(number), name, Section(name, module.title, module.lead, Markup(str(module)))))
    return [section for *_, section in sorted(found, key=lambda one: one[:2])]


def render(audit: Audit) -> str:
    """Write an audit as HTML, the same bytes for the same audit.

    Parameters
    ----------
    audit : Audit

    Returns
    -------
    str
    """
    (style, style_hash), (script, script_hash) = _inline("page.css"), _inline("page.js")
    policy = (
        f"default-src 'none'; style-src {style_hash}; script-src {script_hash}; base-uri 'none'; form-action 'none'"
    )
    page = _environment().get_template("page.html.j2")
    return page.render(audit=audit, sections=_sections(audit), style=style, script=script, policy=policy)


def write_report(audit: Audit, path: str | os.PathLike[str]) -> None:
    """Write an audit to an HTML file, whole or not at all.

    Parameters
    ----------
    audit : Audit
    path : path
    """
    page = render(audit).encode()
    with written_whole(path) as file:
        file.write(page)
