"""The status page in a real browser: it loads itself again, the chart is readable, light, dark and on a telephone."""

import shutil

import pytest

from surefair.monitor import page as status_page
from surefair.monitor.watching import Watcher, WatchSettings

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright, from the dependency group 'test'")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: install `chromium` or `google-chrome` on the PATH"),
]


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def watcher(tmp_path, monkeypatch):
    monkeypatch.setattr(status_page, "REFRESH", 1)
    log = tmp_path / "log.csv"
    log.write_text("approved,sex\n" + "1,f\n0,m\n0,f\n1,m\n1,m\n" * 100)
    with Watcher(WatchSettings(str(log), "approved", ("sex",), margin=0.1), tmp_path / "state") as watcher:
        watcher.step()
        yield watcher


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1100, 400])
def test_the_chart_is_visible_and_nothing_is_wider_than_the_page(browser, watcher, width, scheme):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    wrong = []
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto((watcher.folder / "status.html").as_uri())
    chart = page.locator("svg.chart:visible")
    assert chart.count() == 1
    assert chart.locator("g.mark").count() > 5
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert "Verdict:" in page.locator(".badge").inner_text()
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (min(map(int, background[4:-1].split(","))) < 100) == (scheme == "dark")
    page.close()
    assert wrong == []


def test_the_page_loads_itself_again(browser, watcher):
    page = browser.new_page()
    page.goto((watcher.folder / "status.html").as_uri())
    assert page.locator("text=500").count() > 0
    with open(watcher.settings.source, "a") as log:
        log.write("1,f\n" * 77)
    watcher.step()
    page.wait_for_selector("td:has-text('577')", timeout=10_000)
    page.close()
