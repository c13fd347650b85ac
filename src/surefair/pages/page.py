"""The page around a report: one HTML file without a network, fonts or other files.

A report is a package with a folder ``sections``. Each file in it is one section of the page, in the order of the number
in its name; a new file is found without being listed anywhere. Sections that only some pages have are in folders below
it, which those pages name. A section sets its ``title`` and one sentence that says
what it shows, its ``lead``; whatever else it prints comes below. Everything that comes from data is escaped, and the
page's security policy lets only its own script run.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, NamedTuple

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from surefair.pages import svg, text


class Section(NamedTuple):
    """A part of the page."""

    name: str
    title: str
    lead: str
    body: Markup


@cache
def _environment(package: str) -> Environment:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package, ""), PackageLoader("surefair.pages", "")]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=text.shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"svg": svg, "text": text}
    return environment


def _sections(environment: Environment, values: Mapping[str, Any], kind: str) -> list[Section]:
    """Fill in all sections of a kind of page, in their order."""
    found = []
    folders = ("sections", f"sections/{kind}")
    for path in environment.list_templates(filter_func=lambda path: path.rpartition("/")[0] in folders):
        number, _, name = path.rpartition("/")[2].removesuffix(".html.j2").partition("_")
        module: Any = environment.get_template(path).make_module(dict(values))
        found.append((int(number), name, Section(name, module.title, module.lead, Markup(str(module)))))
    return [section for *_, section in sorted(found, key=lambda one: one[:2])]


def _own(name: str) -> tuple[Markup, str]:
    """One of our own files, to go into the page, and the hash by which the security policy allows it."""
    content = files("surefair.pages").joinpath(name).read_text(encoding="utf-8")
    return Markup(content), f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"


def render_page(
    package: str,
    values: Mapping[str, Any],
    *,
    title: str,
    subject: str,
    about: str,
    version: str,
    refresh: int | None = None,
    facts: Mapping[str, str] | None = None,
    kind: str = "",
) -> str:
    """Write a report as one HTML page; the same values give the same bytes.

    Parameters
    ----------
    package : str
        Name of the package with the folder ``sections``.
    values : mapping
        What sections can use by name, beside the modules ``svg`` and ``text``.
    title, subject : str
        Heading of the page: what it is ("Fairness audit of"), and of what.
    about : str
        One or two sentences below the heading.
    version : str
        Version of surefair that made the report.
    refresh : int, optional
        Seconds after which a browser loads the page again.
    kind : str
        Folder below ``sections`` with further sections.
    facts : mapping of str to str, optional
        What else stands below the heading, such as author and date, by name.

    Returns
    -------
    str
    """
    environment = _environment(package)
    style, style_hash = _own("page.css")
    script, script_hash = _own("page.js")
    policy = (
        f"default-src 'none'; style-src {style_hash}; script-src {script_hash}; base-uri 'none'; form-action 'none'"
    )
    return environment.get_template("page.html.j2").render(
        title=title, subject=subject, about=about, version=version, facts=facts or {}, refresh=refresh,
        sections=_sections(environment, values, kind), style=style, script=script, policy=policy,
    )  # fmt: skip


def render_piece(package: str, name: str, values: Mapping[str, Any]) -> str:
    """Fill in one template of a package, for example the summary that a notebook shows.

    Parameters
    ----------
    package : str
    name : str
        Name of the template's file.
    values : mapping
        What the template can use by name, beside the modules ``svg`` and ``text``.

    Returns
    -------
    str
    """
    return _environment(package).get_template(name).render(**values)
