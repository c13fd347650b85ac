"""Sphinx configuration. The build writes the tables of results and the API page into ``docs/_generated``.

The tables come from ``docs/results/*.json``. The API page comes from ``surefair.__all__`` and from the registries, so a
new criterion, loss, diagnostic, display, data set, engine or command appears on it without an edit here.
"""

import inspect
import json
import sys
from importlib.metadata import version as installed
from pathlib import Path
from types import ModuleType

import surefair
from surefair.cli import main as command_line
from surefair.engines import ENGINES
from surefair.losses import LOSSES
from surefair.score_metrics import SCORE_METRICS

project = "surefair"
author = copyright = "the surefair developers"  # noqa: A001
release = version = installed("surefair")
extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.mathjax"]
myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 2
numpydoc_show_class_members = False
autodoc_member_order = "bysource"
html_theme = "furo"
html_title = "surefair"
exclude_patterns = ["_build", "_generated"]
HERE = Path(__file__).parent
GENERATED = HERE / "_generated"


# -- The gallery: docs/gallery/plot_*.py are run, and their pages go to docs/auto_gallery -----------------------------

extensions.append("sphinx_gallery.gen_gallery")
exclude_patterns.append("gallery")  # scripts and their header; the pages are those in auto_gallery
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "within_subsection_order": "FileNameSortKey",
    "capture_repr": ("_repr_html_",),  # a cell that ends with a result or a table shows it as a notebook does
    "image_srcset": ["2x"],
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,  # pages do not depend on how fast the machine is
    "min_reported_time": 86_400,
}


# -- Tables of results ----------------------------------------------------------------------------------------------


def write_tables() -> None:
    """Turn every list of rows in results/*.json into a table: NAME.md for the key "rows", NAME_KEY.md for others."""
    for source in sorted((HERE / "results").glob("*.json")):
        for key, rows in json.loads(source.read_text()).items():
            if isinstance(rows, list) and rows and isinstance(rows[0], dict):
                name = source.stem if key == "rows" else f"{source.stem}_{key}"
                (GENERATED / f"{name}.md").write_text(as_markdown(rows))


def as_markdown(rows: list[dict[str, object]]) -> str:
    """Return a Markdown table whose headings are the keys of the first row."""
    heads = list(rows[0])
    lines = ["| " + " | ".join(head.replace("_", " ") for head in heads) + " |", "|---" * len(heads) + "|"]
    lines += ["| " + " | ".join(as_cell(row[head]) for head in heads) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def as_cell(value: object) -> str:
    """Format a cell: three digits for a fraction, separated thousands for a large number, empty for None."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else str(value).replace("|", "\\|")


# -- The API page ---------------------------------------------------------------------------------------------------


def write_api() -> None:
    """Write one entry for each name in ``surefair.__all__`` and in the ``__all__`` of each module among them."""
    public = {name: getattr(surefair, name) for name in surefair.__all__}
    modules = {name: value for name, value in public.items() if isinstance(value, ModuleType)}
    top = {name: value for name, value in public.items() if name not in modules}
    parts = ["## surefair", entries("surefair", top)]
    for name, module in modules.items():
        sys.modules[f"surefair.{name}"] = module  # autodoc imports `surefair.theory`, which lives in a subpackage
        parts += [f"## surefair.{name}", f"```{{eval-rst}}\n.. automodule:: surefair.{name}\n```"]
        if name in REGISTRIES:
            parts.append(as_markdown(REGISTRIES[name]()))
        members = {member: getattr(module, member) for member in module.__all__}
        repeated = [member for member, value in members.items() if any(value is known for known in top.values())]
        if repeated:
            parts.append(f"Described above: {', '.join(f'`{member}`' for member in repeated)}.")
        parts.append(entries(f"surefair.{name}", {m: value for m, value in members.items() if m not in repeated}))
    for title, rows in (
        ("Metrics of scores", score_metric_rows()),
        ("Losses", loss_rows()),
        ("Engines", engine_rows()),
        ("Commands", command_rows()),
    ):
        parts += [f"## {title}", as_markdown(rows)]
    (GENERATED / "api.md").write_text("\n\n".join(parts))


def entries(module: str, members: dict[str, object]) -> str:
    """Return one autodoc directive for each member."""
    lines = ["```{eval-rst}"]
    for name, value in members.items():
        if inspect.isclass(value):
            lines += [f".. autoclass:: {module}.{name}", *class_options(value, members)]
        elif inspect.isroutine(value):
            lines += [f".. autofunction:: {module}.{name}"]
        else:
            lines += [f".. autodata:: {module}.{name}", "   :no-value:"]
        lines.append("")
    return "\n".join([*lines, "```"])


def class_options(cls: type, members: dict[str, object]) -> list[str]:
    """Show the public members of a class, inherited ones only from our own bases that have no entry themselves."""
    documented = [base for base in cls.__mro__[1:] if any(base is value for value in members.values())]
    foreign = [base for base in cls.__mro__[1:] if not base.__module__.startswith("surefair")]
    bases = [base.__name__ for base in [*documented, *foreign]]
    requests = [name for name in dir(cls) if name.startswith("set_") and name.endswith("_request")]  # scikit-learn's
    hidden = [*requests, *getattr(cls, "_fields", ())]
    return [
        "   :members:",
        f"   :inherited-members: {', '.join(bases)}",
        *([f"   :exclude-members: {', '.join(hidden)}"] if hidden else []),
    ]


def criterion_rows() -> list[dict[str, object]]:
    """Return one row for each criterion: its name, what it compares and the form of its constraint."""
    return [
        {
            "criterion": f"`{name}`",
            "compares": "; ".join(rate.words for rate in criterion.rates),
            "constraint": criterion.form.__name__ if criterion.form else "none: measured only",
        }
        for name, criterion in sorted(surefair.CRITERIA.items())
    ]


def score_metric_rows() -> list[dict[str, object]]:
    """Return one row for each metric of scores: its name, what it compares and what it needs."""
    return [
        {
            "metric": f"`{name}`",
            "compares": metric.words,
            "needs labels": "yes" if metric.needs_labels else "no",
            "scores": "between 0 and 1" if metric.needs_probabilities else "any numbers",
        }
        for name, metric in sorted(SCORE_METRICS.items())
    ]


def dataset_rows() -> list[dict[str, object]]:
    """Return one row for each data set."""
    rows = []
    for name in surefair.datasets.names():
        about = surefair.datasets.about(name)
        rows.append({"data set": f"`{name}`", **about._asdict(), "files": ", ".join(about.files)})
    return rows


def loss_rows() -> list[dict[str, object]]:
    """Return one row for each loss."""
    return [{"`loss=`": f'`"{name}"`'} for name in sorted(LOSSES)]


def engine_rows() -> list[dict[str, object]]:
    """Return one row for each engine."""
    return [{"`engine=`": f'`"{name}"`'} for name in ENGINES]


def command_rows() -> list[dict[str, object]]:
    """Return one row for each command of the command line, with the first line of its help."""
    return [
        {"command": f"`surefair {name}`", "what it does": command.get_short_help_str(limit=200)}
        for name, command in sorted(command_line.commands.items())
    ]


REGISTRIES = {"criteria": criterion_rows, "datasets": dataset_rows}


GENERATED.mkdir(exist_ok=True)
write_tables()
write_api()
