"""Sphinx configuration. The build writes tables into the pages, and the API pages and lists from the registries.

``tables.py`` writes the tables of results into the pages. The API pages come from ``surefair.__all__`` and from the
registries, so a new criterion, loss, diagnostic, display, data set, engine or command appears without an edit here.
They are written to ``docs/api`` and ``docs/_generated``, which are not under version control.
"""

import inspect
import re
import sys
from importlib.metadata import version as installed
from pathlib import Path
from types import ModuleType

import surefair
from surefair.cli import main as command_line
from surefair.diagnostics import DIAGNOSTICS
from surefair.engines import ENGINES
from surefair.losses import LOSSES
from surefair.score_metrics import SCORE_METRICS

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import tables  # noqa: E402
from tables import as_markdown  # noqa: E402

project = "surefair"
author = copyright = "the surefair developers"  # noqa: A001
release = version = installed("surefair")
extensions = [
    "formulas",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinxcontrib.bibtex",
]
myst_enable_extensions = ["deflist", "dollarmath", "html_image"]
myst_heading_anchors = 3
numpydoc_show_class_members = False
autodoc_member_order = "bysource"
autosummary_generate = True
autosummary_ignore_module_all = False
bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "plain"
bibtex_reference_style = "author_year"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
html_math_renderer = "mathml"
html_theme = "furo"
html_title = "surefair"
html_static_path = ["_static"]
html_css_files = ["surefair.css"]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_generated", "_templates"]
GENERATED = HERE / "_generated"
API = HERE / "api"


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


# -- The API pages --------------------------------------------------------------------------------------------------


def write_api() -> None:
    """Write a page that lists every name in ``surefair.__all__`` and in the ``__all__`` of each module among them.

    Sphinx's autosummary then writes one page for each name.
    """
    public = {name: getattr(surefair, name) for name in surefair.__all__}
    modules = {name: value for name, value in public.items() if isinstance(value, ModuleType)}
    top = {name: value for name, value in public.items() if name not in modules}
    parts = [
        "# API",
        "Every public name has its own page. `import surefair as sf` gives you the names of the first three lists.",
    ]
    for title, belongs in KINDS.items():
        parts += [f"## {title}", listed("surefair", {name: value for name, value in top.items() if belongs(value)})]
    for name, module in modules.items():
        sys.modules[f"surefair.{name}"] = module  # autodoc imports `surefair.theory`, which lives in a subpackage
        parts += [f"## surefair.{name}", f"```{{eval-rst}}\n.. automodule:: surefair.{name}\n   :no-members:\n```"]
        if name in REGISTRIES:
            parts.append(as_markdown(REGISTRIES[name]()))
        members = {member: getattr(module, member) for member in module.__all__}
        repeated = [member for member, value in members.items() if any(value is known for known in top.values())]
        if repeated:
            parts.append(f"Listed above: {', '.join(f'`{member}`' for member in repeated)}.")
        parts.append(listed(f"surefair.{name}", {m: value for m, value in members.items() if m not in repeated}))
    for title, rows in (
        ("Metrics of scores", score_metric_rows()),
        ("Losses", loss_rows()),
        ("Engines", engine_rows()),
        ("Commands", command_rows()),
    ):
        parts += [f"## {title}", as_markdown(rows)]
    for page in API.glob("*.rst"):
        page.unlink()  # of names that are no longer public
    write(API / "index.md", "\n\n".join(part for part in parts if part) + "\n")


KINDS = {
    "Classes": inspect.isclass,
    "Functions": inspect.isroutine,
    "Data": lambda value: not (inspect.isclass(value) or inspect.isroutine(value)),
}


def listed(module: str, members: dict[str, object]) -> str:
    """Return a list of members with their first sentences, and leave options for their pages."""
    for name, value in members.items():
        full = f"{module}.{name}"
        if inspect.isroutine(value) and module == "surefair":
            autosummary_filename_map[full] = f"{full}-function"  # some file systems ignore case: `audit` is not `Audit`
        if inspect.isclass(value):
            autosummary_context["options"][full] = class_options(value, members)
    lines = ["```{eval-rst}", f".. currentmodule:: {module}", "", ".. autosummary::", "   :toctree: ."]
    return "\n".join([*lines, "   :nosignatures:", "", *(f"   {name}" for name in members), "```"]) if members else ""


autosummary_filename_map: dict[str, str] = {}
autosummary_context: dict[str, dict[str, list[str]]] = {"options": {}}


def class_options(cls: type, members: dict[str, object]) -> list[str]:
    """Show the public members of a class, inherited ones only from our own bases that have no entry themselves."""
    documented = [base for base in cls.__mro__[1:] if any(base is value for value in members.values())]
    foreign = [base for base in cls.__mro__[1:] if not base.__module__.startswith("surefair")]
    bases = [base.__name__ for base in [*documented, *foreign]]
    requests = [name for name in dir(cls) if name.startswith("set_") and name.endswith("_request")]  # scikit-learn's
    hidden = [*requests, *getattr(cls, "_fields", ())]
    return [
        ":members:",
        f":inherited-members: {', '.join(bases)}",
        *([f":exclude-members: {', '.join(hidden)}"] if hidden else []),
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


# -- The list of diagnostics ----------------------------------------------------------------------------------------


def write_diagnostics() -> None:
    """Write an entry for each diagnostic: what it says, what it assumes, what to do, and what it does to verdicts."""
    parts = []
    for name, kind in DIAGNOSTICS.items():
        advice, command_line_advice = (in_code(words) for words in (kind.advice, kind.command_line_advice))
        lines = [f"### {name}", inspect.getdoc(kind).split("\n\n")[0].replace("\n", " "), ""]
        if kind.assumes:
            lines.append(f"- *What is assumed.* {kind.assumes}")
        lines.append(f"- *What to do in Python.* {advice}")
        if command_line_advice not in ("", advice):
            lines.append(f"- *What to do on the command line.* {command_line_advice}")
        if kind.forbids_verdict:
            lines.append("- *Verdict.* There is no definite verdict while this holds.")
        parts.append("\n".join(lines))
    write(GENERATED / "diagnostics.md", "\n\n".join(parts) + "\n")


def in_code(words: str) -> str:
    """Set options and arguments, such as --alpha and method='cheap', as code."""
    return re.sub(r"--[a-z][a-z-]*|\b\w+='?\w+'?|\bsf\.\w+", r"`\g<0>`", words)


def write(path: Path, text: str) -> None:
    """Write a file unless it has this text already, so that Sphinx does not build its page again."""
    path.parent.mkdir(exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


tables.main()
write_api()
write_diagnostics()
