"""Sphinx configuration; tables of results are written from their JSON when the docs are built."""

import json
from importlib.metadata import version as installed
from pathlib import Path

project = "surefair"
author = copyright = "the surefair developers"  # noqa: A001
release = version = installed("surefair")
extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath"]
numpydoc_show_class_members = False
autodoc_member_order = "bysource"
html_theme = "furo"
html_title = "surefair"
exclude_patterns = ["_build", "_generated"]
HERE = Path(__file__).parent


def write_tables() -> None:
    """Turn every results/*.json that has rows into a Markdown table."""
    (HERE / "_generated").mkdir(exist_ok=True)
    for source in sorted((HERE / "results").glob("*.json")):
        rows = json.loads(source.read_text()).get("rows")
        if isinstance(rows, list):
            heads = list(rows[0])
            lines = ["| " + " | ".join(head.replace("_", " ") for head in heads) + " |", "|---" * len(heads) + "|"]
            lines += ["| " + " | ".join(shown(row[head]) for head in heads) + " |" for row in rows]
            (HERE / "_generated" / f"{source.stem}.md").write_text("\n".join(lines) + "\n")


def shown(value: object) -> str:
    """A cell: three digits for a fraction, thousands separated for a large number."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}"
    return str(value).replace("|", "\\|")


write_tables()
