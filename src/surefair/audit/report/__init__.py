"""The report of an audit: what its page says, section by section.

Sections are the files in ``sections/``, and in its folder for this kind of audit; ``surefair.pages.page`` finds them
and draws the page around them. They read the audit as a dict, see ``Audit.to_dict``, and use the functions of ``views``
and ``charts``.
"""

from __future__ import annotations

from typing import Any

from surefair.audit.about import NAMES
from surefair.audit.report import charts, views
from surefair.inference.sources import SOURCES
from surefair.pages.page import render_page, render_piece

__all__ = ["render", "render_summary"]

ABOUT = {
    "training": "How differently two linear models treat groups, with confidence intervals. Both were trained by "
    "surefair on these data: one under a fairness constraint, one without.",
    "decisions": "How differently the decisions or scores in these data treat groups, with confidence intervals. They "
    "were made elsewhere; surefair trained no model.",
}


def _values(audit: dict[str, Any]) -> dict[str, Any]:
    """What templates can use by name."""
    return {
        "audit": audit, "metrics": views.metrics(audit), "level": views.level(audit),
        "models": [f"{model['name']}{' model' * (audit['kind'] == 'training')}" for model in audit["models"]],
        "charts": charts, "views": views,
        "SOURCES": {name: source.estimates for name, source in SOURCES.items()},
    }  # fmt: skip


def render(audit: dict[str, Any]) -> str:
    """Write an audit as an HTML page; the same audit gives the same bytes.

    Parameters
    ----------
    audit : dict
        As ``Audit.to_dict`` returns it.

    Returns
    -------
    str
    """
    title, name = audit["settings"].get("title"), audit["data"]["name"]
    facts = {"Data": name} if title else {}
    facts |= {word.capitalize(): audit["settings"][word] for word in NAMES[1:] if audit["settings"].get(word)}
    return render_page(
        __name__, _values(audit), title="" if title else "Fairness audit of", subject=title or name,
        about=ABOUT[audit["kind"]], version=audit["versions"].get("surefair", ""), facts=facts, kind=audit["kind"],
    )  # fmt: skip


def render_summary(audit: dict[str, Any]) -> str:
    """Write the finding and a table of unfairness as a short piece of HTML, for notebooks.

    Parameters
    ----------
    audit : dict
        As ``Audit.to_dict`` returns it.

    Returns
    -------
    str
    """
    return render_piece(__name__, "notebook.html.j2", _values(audit))
