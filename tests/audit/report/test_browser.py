"""The report in a real browser: it fetches nothing, shows values by pointer and keyboard, and prints."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.ensemble import HistGradientBoostingClassifier

import surefair as sf
from surefair.audit.report import views
from surefair.audit.result import Audit
from surefair.cli import main

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright, from the dependency group 'test'")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: install `chromium` or `google-chrome` on the PATH"),
]
MakeAudit = Callable[[str], Audit]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a page; fail at the end if one logged an error or fetched anything."""
    pages: list[Any] = []
    wrong: list[str] = []
    fetched: list[str] = []

    def visited(path: Path, width: int = 1100, **options: Any) -> Any:
        page = browser.new_page(viewport={"width": width, "height": 900}, **options)
        pages.append(page)
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: fetched.append(request.url))
        page.goto(path.as_uri())
        return page

    yield visited
    for page in pages:
        page.close()
    assert wrong == []
    assert all(url.startswith("file:") and url.endswith("/report.html") for url in fetched)


@pytest.fixture
def open_report(visit: Callable[..., Any], make_audit: MakeAudit, tmp_path: Path) -> Callable[..., Any]:
    """Open the report of an audit."""

    def opened(shape: str = "two groups", width: int = 1100, **options: Any) -> Any:
        path = tmp_path / "report.html"
        make_audit(shape).to_html(path)
        return visit(path, width, **options)

    return opened


def background(page: Any) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


@pytest.mark.parametrize(
    "shape", ["two groups", "three columns", "thirty groups", "undefined", "many coefficients", "decisions", "scores"]
)
@pytest.mark.parametrize("width", [1100, 400])
def test_all_charts_are_visible_and_nothing_is_wider_than_the_page(
    open_report: Callable[..., Any], make_audit: MakeAudit, shape: str, width: int
) -> None:
    page = open_report(shape, width)
    audit = make_audit(shape).to_dict()
    wanted = len(views.metrics(audit)) + len(views.rates(audit)) + len(views.paths(audit)) + 3
    if audit["kind"] == "decisions":  # the others are folded away
        wanted = sum(
            len(views.metrics_by_kind(audit, model)) + sum(table.judged for table in views.rates(audit, model))
            for model in audit["models"]
        )
    assert page.locator("svg.chart:visible").count() == wanted
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("shape", ["three columns", "ratios", "hostile", "many coefficients", "hostile decisions"])
def test_no_label_is_cut_or_covers_the_marks(open_report: Callable[..., Any], shape: str) -> None:
    page = open_report(shape)
    assert page.evaluate("""() => {
        const wrong = [];
        for (const chart of document.querySelectorAll("svg.chart")) {
            const box = chart.getBoundingClientRect();
            const grid = [...chart.querySelectorAll(".mark rect.hit")].map(one => one.getBoundingClientRect().left);
            for (const text of chart.querySelectorAll("text")) {
                const one = text.getBoundingClientRect();
                if (!one.width) continue;
                if (one.left < box.left - 2 || one.right > box.right + 2) wrong.push(text.textContent);
                if (text.matches(".label") && one.right > Math.min(...grid)) wrong.push(text.textContent);
            }
        }
        return wrong;
    }""") == []  # fmt: skip


def test_pointing_at_a_mark_shows_its_value(open_report: Callable[..., Any]) -> None:
    page = open_report()
    tip = page.locator("#tip")
    marks = page.locator(".mark:visible")
    assert not tip.is_visible()
    for i in (0, 9, marks.count() - 1):
        mark = marks.nth(i)
        mark.scroll_into_view_if_needed()
        mark.locator(".dot").hover(force=True)
        playwright.expect(tip).to_be_visible()
        assert tip.text_content() == mark.get_attribute("data-tip")
        box = tip.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 1100
    page.locator("h1").hover()
    playwright.expect(tip).to_be_hidden()


def test_the_keyboard_reaches_marks(open_report: Callable[..., Any]) -> None:
    page = open_report()
    page.locator("nav a").last.focus()
    page.keyboard.press("Tab")
    first = page.locator(".mark").first.get_attribute("data-tip")
    playwright.expect(page.locator("#tip")).to_be_visible()
    assert page.locator("#tip").text_content() == first
    page.keyboard.press("Tab")
    assert page.locator("#tip").text_content() == page.locator(".mark").nth(1).get_attribute("data-tip")
    page.keyboard.press("Escape")
    playwright.expect(page.locator("#tip")).to_be_hidden()


def test_marks_have_titles_without_scripts(open_report: Callable[..., Any]) -> None:
    page = open_report(java_script_enabled=False)
    assert page.locator(".mark > title").count() == page.locator(".mark").count() > 0


def test_hostile_names_run_nothing(open_report: Callable[..., Any]) -> None:
    page = open_report("hostile")
    assert page.locator("script").count() == 1
    for i in range(0, page.locator(".mark:visible").count(), 7):
        page.locator(".mark:visible").nth(i).focus()
    assert page.locator("#tip *").count() == 0  # text only


def test_printing_hides_the_tip_and_uses_light_colours(open_report: Callable[..., Any], tmp_path: Path) -> None:
    page = open_report("many coefficients", color_scheme="dark")
    page.locator(".mark").first.focus()
    assert page.locator("#tip").is_visible()
    page.emulate_media(media="print")
    assert not page.locator("#tip").is_visible()
    assert background(page) == "rgb(255, 255, 255)"
    page.emulate_media(media="screen")
    printed = page.pdf(path=tmp_path / "report.pdf", prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) > 3
    assert page.locator("details[open]").count() == 0  # as before


def test_the_page_has_a_light_and_a_dark_look(open_report: Callable[..., Any], tmp_path: Path) -> None:
    shades = {}
    for scheme in ("light", "dark"):
        page = open_report(color_scheme=scheme)
        page.screenshot(path=tmp_path / f"{scheme}.png", full_page=True)
        shades[scheme] = background(page)
        assert (tmp_path / f"{scheme}.png").stat().st_size > 10_000
    assert shades == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 26)"}


def test_folded_tables_are_printed_even_without_scripts(open_report: Callable[..., Any]) -> None:
    page = open_report(java_script_enabled=False)
    table = page.locator("details table").first
    assert not table.is_visible()
    page.emulate_media(media="print")
    assert table.bounding_box()["height"] > 100


@pytest.mark.parametrize("shape", ["two groups", "three columns", "thirty groups"])
def test_the_summary_prints_on_one_page(open_report: Callable[..., Any], shape: str) -> None:
    page = open_report(shape, width=695)  # A4 without its margins
    page.emulate_media(media="print")
    bottom = page.evaluate("document.getElementById('summary').getBoundingClientRect().bottom + window.scrollY")
    assert bottom < 1009


# -- A model of another library on real data --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def boosted(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame]:
    """A folder with scores of a gradient-boosting model on rows of Adult that it was not trained on, and the scores."""
    adult = sf.datasets.load_adult(data_folder)
    half = len(adult.y) // 2
    model = HistGradientBoostingClassifier(random_state=0).fit(adult.X[:half], adult.y[:half])
    scores = model.predict_proba(adult.X[half:])[:, 1]
    table = pd.DataFrame({"score": scores, "high": adult.y[half:], "group": adult.sensitive[half:]})
    folder = tmp_path_factory.mktemp("boosted")
    table.to_csv(folder / "scores.csv", index=False)
    return folder, table


def test_scores_of_gradient_boosting_become_a_report_with_one_command(
    boosted: tuple[Path, pd.DataFrame], visit: Callable[..., Any]
) -> None:
    folder, table = boosted
    asked = ["audit", str(folder / "scores.csv"), "--score", "score", "--threshold", "0.5", "--label", "high"]
    asked += ["--sensitive", "group", "--margin", "0.1", "--out", str(folder)]
    result = CliRunner().invoke(main, asked)
    assert result.exit_code == 3, result.output  # beyond the margin
    found = json.loads((folder / "audit.json").read_text())
    rates = (table["score"] > 0.5).groupby(table["group"]).mean()
    gap = next(one for one in found["models"][0]["intervals"] if one["metric"] == "demographic_parity")
    assert gap["sentence"].endswith("The positive value is '0.5 or more'.")
    assert gap["estimate"] == pytest.approx(np.ptp(rates), abs=1e-12)
    assert gap["low"] < gap["estimate"] < gap["high"]
    for width, scheme in [(1100, "light"), (400, "dark")]:
        page = visit(folder / "report.html", width, color_scheme=scheme)
        page.screenshot(path=folder / f"{scheme}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert "18.2 percentage points apart" in page.locator("#summary").inner_text()
        assert page.locator("svg.chart:visible").count() > 2
