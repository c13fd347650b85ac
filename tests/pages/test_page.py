"""A page finds its sections, keeps their order, and escapes everything they are given."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from surefair.pages.page import render_page, render_piece

SECTION = '{{% set title = "{0}" %}}{{% set lead = "About {0}." %}}<p>{{{{ value }}}}</p>'


@pytest.fixture
def make_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Make a package with sections of the names given."""
    monkeypatch.syspath_prepend(str(tmp_path))
    made: list[str] = []

    def make(*names: str) -> str:
        package = f"{tmp_path.name.replace('-', '_')}_{len(made)}"
        folder = tmp_path / package / "sections"
        folder.mkdir(parents=True)
        (folder.parent / "__init__.py").touch()
        for name in names:
            (folder / f"{name}.html.j2").write_text(SECTION.format(name.partition("_")[2]))
        made.append(package)
        return package

    yield make
    for package in made:
        sys.modules.pop(package, None)


def render(package: str, **values: object) -> str:
    return render_page(package, values, title="Report on", subject="a <b> c", about="Short.", version="1.2")


def test_a_new_file_is_a_new_section_at_the_place_of_its_number(make_report: Callable[..., str]) -> None:
    page = render(make_report("100_last", "20_second", "9_first"), value=1)
    assert re.findall(r'<section id="(\w+)"', page) == ["first", "second", "last"]
    more = render(make_report("100_last", "20_second", "9_first", "30_new"), value=1)
    assert re.findall(r'<section id="(\w+)"', more) == ["first", "second", "new", "last"]
    assert re.findall(r'<li><a href="#(\w+)"', more) == ["second", "new", "last"]


def test_title_subject_and_values_are_escaped(make_report: Callable[..., str]) -> None:
    page = render(make_report("10_only"), value="<i>\u202e</i>")
    assert "<title>Report on a &lt;b&gt; c</title>" in page
    assert "<h1>Report on <bdi>a &lt;b&gt; c</bdi></h1>" in page
    assert "<p>&lt;i&gt;\ufffd&lt;/i&gt;</p>" in page


def test_none_is_written_in_words(make_report: Callable[..., str]) -> None:
    assert "<p>not defined</p>" in render(make_report("10_only"), value=None)


def test_a_section_that_uses_an_unknown_name_is_an_error(make_report: Callable[..., str]) -> None:
    with pytest.raises(UndefinedError, match="'value' is undefined"):
        render(make_report("10_only"), other=1)


def test_a_piece_is_filled_in_without_the_page(make_report: Callable[..., str], tmp_path: Path) -> None:
    package = make_report("10_only")
    (tmp_path / package / "short.html.j2").write_text("<p>{{ text.whole(n) }} {{ name }}</p>")
    assert render_piece(package, "short.html.j2", {"n": 1234, "name": "<b>"}) == "<p>1,234 &lt;b&gt;</p>"
