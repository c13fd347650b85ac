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
    """Turn every list of rows in results/*.json into a table: NAME.md for the key "rows", NAME_KEY.md for others."""
    (HERE / "_generated").mkdir(exist_ok=True)
    for source in sorted((HERE / "results").glob("*.json")):
        for key, rows in json.loads(source.read_text()).items():
            if isinstance(rows, list) and rows and isinstance(rows[0], dict):
                name = source.stem if key == "rows" else f"{source.stem}_{key}"
                (HERE / "_generated" / f"{name}.md").write_text(as_markdown(rows))


def as_markdown(rows: list[dict[str, object]]) -> str:
    """A table, headings from the keys of its first row."""
    heads = list(rows[0])
    lines = ["| " + " | ".join(head.replace("_", " ") for head in heads) + " |", "|---" * len(heads) + "|"]
    lines += ["| " + " | ".join(shown(row[head]) for head in heads) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def shown(value: object) -> str:
    """A cell: three digits for a fraction, thousands separated for a large number, empty for what does not exist."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else str(value).replace("|", "\\|")


write_tables()
