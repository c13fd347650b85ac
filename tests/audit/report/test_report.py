"""What must hold of every report, whatever the audit."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from jinja2 import ChoiceLoader, DictLoader

from surefair.audit import report
from surefair.audit.report import charts, render, texts, write_report
from surefair.audit.result import Audit
from surefair.inference.interval import SOURCES

VOID = {"meta", "br", "link", "img", "input", "hr"}
TAGS = {
    "html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "h3", "p", "b", "bdi", "main",
    "section", "nav", "ol", "ul", "li", "a", "figure", "figcaption", "div", "span", "table", "caption", "thead",
    "tbody", "tr", "th", "td", "details", "summary", "dl", "dt", "dd", "footer", "script", "svg", "g", "rect",
    "line", "circle", "polygon", "polyline", "text",
}  # fmt: skip
SECTIONS = [
    "summary", "unfairness", "groups", "price", "path", "coefficients", "coverage", "assumptions", "data", "settings",
]  # fmt: skip
MakeAudit = Callable[[str], Audit]


class Page(HTMLParser):
    """Elements, attributes and text of a page, and whether elements close as they open."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)

    def all(self, tag: str, kind: str = "") -> list[dict[str, str | None]]:
        """Attributes of elements by tag and class."""
        return [found for name, found in self.elements if name == tag and kind in (found.get("class") or "").split(" ")]

    @property
    def text(self) -> str:
        """All text, blanks made one."""
        return " ".join(" ".join(self.words).split())


def charts_of(page: Page) -> list[str]:
    """Labels of the charts of a page."""
    return [str(found["aria-label"]) for tag, found in page.elements if tag == "svg" and "aria-label" in found]


def test_same_audit_same_bytes(audit: Audit) -> None:
    again = Audit.from_dict(audit.to_dict())
    assert render(audit) == render(again)


def test_well_formed_and_of_known_elements_only(audit: Audit) -> None:
    page = Page(render(audit))
    assert {tag for tag, _ in page.elements} <= TAGS
    assert not [name for _, found in page.elements for name in found if name.startswith("on") or name == "style"]


def test_one_script_and_one_style_and_no_address(audit: Audit) -> None:
    page = Page(render(audit))
    tags = [tag for tag, _ in page.elements]
    assert tags.count("script") == tags.count("style") == 1
    for _, found in page.elements:
        assert "src" not in found
        assert str(found.get("href", "#")).startswith("#")
    assert "url(" not in render(audit)
    assert "@import" not in render(audit)


def test_ids_are_distinct_and_links_lead_somewhere(audit: Audit) -> None:
    page = Page(render(audit))
    ids = [found["id"] for _, found in page.elements if "id" in found]
    assert len(set(ids)) == len(ids)
    assert {str(found["href"])[1:] for tag, found in page.elements if tag == "a"} <= set(ids)


def test_every_section_with_a_sentence_on_what_it_shows(audit: Audit) -> None:
    html = render(audit)
    assert [found["id"] for tag, found in Page(html).elements if tag == "section"] == SECTIONS
    leads = re.findall(r'<p class="lead">(.+?)</p>', html)
    assert len(leads) == len(SECTIONS)
    assert all(lead.endswith(".") for lead in leads)


def test_every_chart(audit: Audit) -> None:
    found = charts_of(Page(render(audit)))
    for metric in texts.metrics(audit):
        assert found.count(f"{metric.full}: unfairness by source of uncertainty") == 1
    for table in texts.rates(audit):
        assert found.count(f"{table.title} by group") == -(-len(table.groups) // charts.GROUPS)
    for metric, source, _ in texts.paths(audit):
        assert found.count(f"{metric.full}: unfairness along the stream, {source}") == 1
    assert found.count("Coefficients of both models") == 2  # one for narrow screens
    assert found.count("Accuracy of both models") == found.count("Price of fairness") == 1
    places = ("x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "points", "width", "height")
    for _, one in Page(render(audit)).elements:
        assert all(re.fullmatch(r"[-0-9., ]*", str(one.get(name, ""))) for name in places)


def test_every_mark_says_its_value(audit: Audit) -> None:
    marks = Page(render(audit)).all("g", "mark")
    assert marks
    for mark in marks:
        assert mark["tabindex"] == "0"
        assert mark["role"] == "img"
        assert mark["aria-label"] == mark["data-tip"]
        assert "interval: " in str(mark["data-tip"])


def test_numbers_are_those_of_the_audit(audit: Audit) -> None:
    page = Page(render(audit))
    tips = [str(found["data-tip"]) for _, found in page.elements if "data-tip" in found]
    for model in audit.models:
        for one in model["intervals"]:
            metric = next(metric for metric in texts.metrics(audit) if metric.name == one["metric"])
            numbers = [
                "not defined" if value is None else f"{value:.3f}" if metric.ratio else f"{100 * value:.2f}"
                for value in (one["estimate"], one["low"], one["high"])
            ]
            wanted = f"{model['name']} model, {one['source']}\n{metric.title}: "
            assert any(
                tip.startswith(wanted) and numbers[0] in tip and f"interval: {texts.span(*numbers[1:])}" in tip
                for tip in tips
            )
            assert f"{numbers[0]} {texts.span(*numbers[1:])}" in page.text
        assert f"{100 * model['accuracy']['estimate']:.2f}" in page.text
    assert texts.points(audit.price["estimate"]) in page.text
    for one in audit.groups:
        assert f"{one['training']:,}" in page.text


def test_every_group_comes_out_in_every_rate(audit: Audit) -> None:
    for model in audit.models:
        for one in model["intervals"]:
            for row in one["by_group"]:
                table = next(table for table in texts.rates(audit) if table.name == row.get("metric", one["rate"]))
                assert (row["column"], str(row["group"])) in [group[:2] for group in table.groups]


def test_what_comes_from_data_is_escaped(make_audit: MakeAudit) -> None:
    audit = make_audit("hostile")
    html = render(audit)
    page = Page(html)
    assert html.count("<script") == html.count("</script") == html.count("<style") == html.count("</style") == 1
    assert "<b onmouseover" not in html
    for name in (*audit.settings["sensitive"], *(one["group"] for one in audit.groups)):
        assert " ".join(str(texts.shown(name)).split()) in page.text
    assert "\u202e" not in html
    assert "{{ 7 * 7 }}" in page.text
    assert audit.sentence.count("&") == unescape(audit.sentence).count("&")
    assert max(len(word) for word in re.findall(r'<text [^>]*class="label"[^>]*>([^<]*)<', html)) < 80


@pytest.mark.parametrize("odd", ["\x00\x07", "\ud800", "\u2066", "]]>", "<!--", "</svg>"])
def test_characters_that_break_pages(make_audit: MakeAudit, odd: str, tmp_path: Path) -> None:
    audit = replace(make_audit("two groups"), sentence=f"a{odd}z", data={"name": odd, "kind": odd, "files": []})
    write_report(audit, tmp_path / "report.html")
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert f"a{texts.shown(odd)}z" in page.text


def test_partial_audit_says_so(make_audit: MakeAudit) -> None:
    assert "This is a partial audit." in render(make_audit("partial"))
    assert "partial audit" not in render(make_audit("two groups"))


def test_assumptions_that_did_not_hold_are_in_the_summary(make_audit: MakeAudit) -> None:
    assert (
        "1 of 2 assumptions did not hold: “Rows are many.” Intervals may be off"
        in Page(render(make_audit("two groups"))).text
    )


def test_verdict_in_words(make_audit: MakeAudit) -> None:
    audit = make_audit("two groups")
    assert f"Verdict: {audit.verdict}" in Page(render(audit)).text
    bare = Page(render(make_audit("no margin"))).text
    assert "Verdict: none, as no margin was given" in bare
    assert "margin (dashed line)" not in bare


def test_undefined_rates_have_their_reason(make_audit: MakeAudit) -> None:
    audit = make_audit("undefined")
    page = Page(render(audit))
    reasons = {one["reason"] for model in audit.models for one in model["intervals"] if one["reason"]}
    assert reasons
    for reason in reasons:
        assert reason in page.text
    assert "not defined" in page.text
    assert "None" not in page.text


def test_numbers_that_are_missing_everywhere(make_audit: MakeAudit) -> None:
    def without(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: without(one) for key, one in value.items()}
        if isinstance(value, list):
            return [without(one) for one in value]
        return None if isinstance(value, float) else value

    found = make_audit("two groups").to_dict()
    found |= {name: without(found[name]) for name in ("models", "price", "path")}
    page = Page(render(Audit.from_dict(found)))
    assert "not defined" in page.text
    assert "None" not in page.text
    assert len(charts_of(page)) == len(charts_of(Page(render(make_audit("two groups")))))


def test_few_coefficients_are_drawn_and_all_are_told(make_audit: MakeAudit) -> None:
    html = render(make_audit("many coefficients"))
    assert f"The {charts.MOST} largest of 120" in html
    assert all(f">feature {k}</th>" in html for k in range(120))
    assert html.count("feature 0\nconstrained model") >= 2


def test_no_path_no_coefficients_no_files(make_audit: MakeAudit) -> None:
    audit = make_audit("two groups")
    models = [model | {"coefficients": [], "warnings": []} for model in audit.models]
    page = Page(render(replace(audit, path=[], models=models, assumptions=[], columns=[])))
    assert "There was no look along the stream." in page.text
    assert "There are no coefficients." in page.text


def test_sources_are_told_in_words(audit: Audit) -> None:
    page = Page(render(audit))
    assert all(f"An interval for {words}." in page.text for words in SOURCES.values())


def test_no_model_is_called_fair(audit: Audit) -> None:
    assert not re.search(r"\bfair\b|\bunfair\b", Page(render(audit)).text)


def test_written_whole(make_audit: MakeAudit, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(make_audit("two groups"), path)
    assert path.read_bytes() == render(make_audit("two groups")).encode()
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]


def test_security_policy_knows_its_own_script_and_style(make_audit: MakeAudit) -> None:
    html = render(make_audit("two groups"))
    policy = next(found["content"] for tag, found in Page(html).elements if found.get("http-equiv"))
    assert policy is not None
    assert "unsafe" not in policy
    assert policy.count("sha256-") == 2


@pytest.mark.parametrize(
    ("values", "options"),
    [
        ([0.0, 1.0], {}), ([0.3, 0.3], {}), ([], {}), ([None], {}), ([1e-9, 2e-9], {}), ([-5e5, 1e6], {}),
        ([0.0], {"floor": 0.0}), ([0.99999, 1.0], {"ceiling": 1.0}),
    ],
)  # fmt: skip
def test_axes_have_round_ticks_within(values: list[float | None], options: dict[str, float]) -> None:
    scale = charts.make_scale(values, **options)
    assert 2 <= len(scale.ticks) <= 7
    slack = 1e-9 * (scale.high - scale.low)
    assert all(scale.low - slack <= at <= scale.high + slack for at, _ in scale.ticks)
    assert len({label for _, label in scale.ticks}) == len(scale.ticks)


def test_a_section_is_one_file(make_audit: MakeAudit, monkeypatch: pytest.MonkeyPatch) -> None:
    added = '{% set title = "More" %}{% set lead = "What it shows." %}<p>{{ audit.data.name }}</p>'
    own = report._environment()
    loader = ChoiceLoader([DictLoader({"sections/55_more.html.j2": added}), own.loader])
    monkeypatch.setattr(report, "_environment", lambda: own.overlay(loader=loader))
    found = [one["id"] for tag, one in Page(render(make_audit("two groups"))).elements if tag == "section"]
    assert found == [*SECTIONS[:5], "more", *SECTIONS[5:]]


def test_a_rate_is_shown_once_with_the_limits_of_its_own_metric(audit: Audit) -> None:
    for i, model in enumerate(audit.models):
        for one in model["intervals"]:
            for row in one["by_group"] if one["source"] == "total" else []:
                table = next(table for table in texts.rates(audit) if table.name == row.get("metric", one["rate"]))
                group = next(group for group in table.groups if group[:2] == (row["column"], str(row["group"])))
                shown = group.found[i]
                assert shown is not None
                keys = ("n", "rate", "low", "high") if one["metric"] == table.name else ("n", "rate")
                assert [shown[key] for key in keys] == [row[key] for key in keys]
