"""What must hold for every report, whatever the audit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from surefair.audit import report
from surefair.audit.report import charts, views
from surefair.audit.result import Audit
from surefair.inference.sources import SOURCES
from surefair.pages import text

VOID = {"meta", "br", "link", "img", "input", "hr"}
TAGS = {
    "html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "h3", "p", "b", "bdi", "main",
    "section", "nav", "ol", "ul", "li", "a", "figure", "figcaption", "div", "span", "table", "caption", "thead",
    "tbody", "tr", "th", "td", "details", "summary", "dl", "dt", "dd", "footer", "script", "svg", "g", "rect",
    "line", "circle", "polygon", "polyline", "text", "sub",
}  # fmt: skip
SECTIONS = [
    "summary", "unfairness", "groups", "price", "path", "coefficients", "coverage", "scope", "assumptions", "data",
    "settings", "methods",
]  # fmt: skip
MakeAudit = Callable[[str], Audit]
PAGES: dict[str, str] = {}


def render(audit: Audit) -> str:
    """The page of an audit, made once for all tests."""
    key = json.dumps(audit.to_dict())
    if key not in PAGES:
        PAGES[key] = report.render(audit.to_dict())
    return PAGES[key]


class Page(HTMLParser):
    """Elements, attributes and text of a page; it fails if elements do not close in the order they opened."""

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
        """All text, with single blanks."""
        return " ".join(" ".join(self.words).split())


parsed = cache(Page)  # tests only read it


def charts_of(page: Page) -> list[str]:
    """Labels of the charts of a page."""
    return [str(found["aria-label"]) for tag, found in page.elements if tag == "svg" and "aria-label" in found]


def test_the_same_audit_gives_the_same_bytes(any_audit: Audit) -> None:
    again = Audit.from_dict(any_audit.to_dict())
    assert report.render(any_audit.to_dict()) == report.render(again.to_dict())


def test_the_page_is_well_formed_and_has_only_known_elements(any_audit: Audit) -> None:
    page = parsed(render(any_audit))
    assert {tag for tag, _ in page.elements} <= TAGS
    assert not [name for _, found in page.elements for name in found if name.startswith("on") or name == "style"]


def test_the_page_has_one_script_one_style_sheet_and_no_address(any_audit: Audit) -> None:
    page = parsed(render(any_audit))
    tags = [tag for tag, _ in page.elements]
    assert tags.count("script") == tags.count("style") == 1
    for _, found in page.elements:
        assert "src" not in found
        assert str(found.get("href", "#")).startswith("#")
    assert "url(" not in render(any_audit)
    assert "@import" not in render(any_audit)


def test_ids_are_distinct_and_links_lead_somewhere(any_audit: Audit) -> None:
    page = parsed(render(any_audit))
    ids = [found["id"] for _, found in page.elements if "id" in found]
    assert len(set(ids)) == len(ids)
    assert {str(found["href"])[1:] for tag, found in page.elements if tag == "a"} <= set(ids)


def test_every_section_says_in_a_sentence_what_it_shows(any_audit: Audit) -> None:
    html = render(any_audit)
    sections = SECTIONS
    if any_audit.kind == "decisions":
        sections = ["summary", "decisions", "groups", "coverage", "scope", "assumptions", "data", "settings", "methods"]
    assert [found["id"] for tag, found in parsed(html).elements if tag == "section"] == sections
    leads = re.findall(r'<p class="lead">(.+?)</p>', html)
    assert len(leads) == len(sections)
    assert all(lead.endswith(".") for lead in leads)


def test_the_page_has_every_chart(audit: Audit) -> None:
    found = charts_of(parsed(render(audit)))
    for metric in views.metrics(audit.to_dict()):
        assert found.count(f"{metric.full}: unfairness by source of uncertainty") == 1
    for table in views.rates(audit.to_dict()):
        assert found.count(f"{table.title} by group") == -(-len(table.groups) // charts.GROUPS)
    for metric, source, _ in views.paths(audit.to_dict()):
        assert found.count(f"{metric.full}: unfairness during training, {source}") == 1
    assert found.count("Coefficients of both models") == 2  # one for narrow screens
    assert found.count("Accuracy of both models") == found.count("Price of fairness") == 1
    places = ("x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "points", "width", "height")
    for _, one in parsed(render(audit)).elements:
        assert all(re.fullmatch(r"[-0-9., ]*", str(one.get(name, ""))) for name in places)


def test_every_mark_says_its_value(any_audit: Audit) -> None:
    marks = parsed(render(any_audit)).all("g", "mark")
    assert marks
    for mark in marks:
        assert mark["tabindex"] == "0"
        assert mark["role"] == "img"
        assert mark["aria-label"] == mark["data-tip"]
        assert "interval: " in str(mark["data-tip"])


def test_the_page_shows_the_numbers_of_the_audit(audit: Audit) -> None:
    page = parsed(render(audit))
    tips = [str(found["data-tip"]) for _, found in page.elements if "data-tip" in found]
    metrics = {metric.name: metric for metric in views.metrics(audit.to_dict())}
    for model in audit.models:
        for one in model["intervals"]:
            metric = metrics[one["metric"]]
            numbers = [
                "not defined" if value is None else f"{value:.3f}" if metric.ratio else f"{100 * value:.2f}"
                for value in (one["estimate"], one["low"], one["high"])
            ]
            wanted = f"{model['name']} model, {one['source']}\n{metric.title}: "
            assert any(
                tip.startswith(wanted) and numbers[0] in tip and f"interval: {text.span(*numbers[1:])}" in tip
                for tip in tips
            )
            assert f"{numbers[0]} {text.span(*numbers[1:])}" in page.text
        assert f"{100 * model['accuracy']['estimate']:.2f}" in page.text
    assert text.points(audit.price["estimate"]) in page.text
    for one in audit.groups:
        assert f"{one['training']:,}" in page.text


def test_every_group_appears_in_every_rate(audit: Audit) -> None:
    tables = {table.name: table for table in views.rates(audit.to_dict())}
    for model in audit.models:
        for one in model["intervals"]:
            for row in one["by_group"]:
                groups = tables[row.get("metric", one["rate"])].groups
                assert (row["column"], str(row["group"])) in [group[:2] for group in groups]


def test_everything_from_the_data_is_escaped(make_audit: MakeAudit) -> None:
    audit = make_audit("hostile")
    html = render(audit)
    page = parsed(html)
    assert html.count("<script") == html.count("</script") == html.count("<style") == html.count("</style") == 1
    assert "<b onmouseover" not in html
    for name in (*audit.settings["sensitive"], *(one["group"] for one in audit.groups)):
        assert " ".join(str(text.shown(name)).split()) in page.text
    assert "\u202e" not in html
    assert "{{ 7 * 7 }}" in page.text
    assert audit.sentence.count("&") == unescape(audit.sentence).count("&")
    assert max(len(word) for word in re.findall(r'<text [^>]*class="label"[^>]*>([^<]*)<', html)) < 80


@pytest.mark.parametrize("odd", ["\x00\x07", "\ud800", "\u2066", "]]>", "<!--", "</svg>"])
def test_odd_characters_do_not_break_the_page(make_audit: MakeAudit, odd: str, tmp_path: Path) -> None:
    audit = replace(make_audit("two groups"), sentence=f"a{odd}z", data={"name": odd, "kind": odd, "files": []})
    audit.to_html(tmp_path / "report.html")
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert f"a{text.shown(odd)}z" in page.text


def test_a_partial_audit_says_so(make_audit: MakeAudit) -> None:
    assert "This is a partial audit." in render(make_audit("partial"))
    assert "partial audit" not in render(make_audit("two groups"))


def test_the_summary_lists_unmet_assumptions(make_audit: MakeAudit) -> None:
    assert (
        "2 of 3 assumptions are not met: “There are many rows.” “Decisions differ.” See"
        in parsed(render(make_audit("two groups"))).text
    )


def test_the_verdict_is_in_words(make_audit: MakeAudit) -> None:
    audit = make_audit("two groups")
    assert f"Verdict: {audit.verdict}" in parsed(render(audit)).text
    bare = parsed(render(make_audit("no margin"))).text
    assert "Verdict: none, because no margin was given" in bare
    assert "margin (dashed line)" not in bare


def test_the_page_says_why_rates_are_undefined(make_audit: MakeAudit) -> None:
    audit = make_audit("undefined")
    page = parsed(render(audit))
    reasons = {one["reason"] for model in audit.models for one in model["intervals"] if one["reason"]}
    assert reasons
    for reason in reasons:
        assert reason in page.text
    assert "not defined" in page.text
    assert "None" not in page.text


def test_a_page_without_any_number_is_still_drawn(make_audit: MakeAudit) -> None:
    def without(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: without(one) for key, one in value.items()}
        if isinstance(value, list):
            return [without(one) for one in value]
        return None if isinstance(value, float) else value

    found = make_audit("two groups").to_dict()
    found |= {name: without(found[name]) for name in ("models", "price", "path")}
    page = parsed(render(Audit.from_dict(found)))
    assert "not defined" in page.text
    assert "None" not in page.text
    assert len(charts_of(page)) == len(charts_of(parsed(render(make_audit("two groups")))))


def test_the_largest_coefficients_are_drawn_and_all_are_listed(make_audit: MakeAudit) -> None:
    html = render(make_audit("many coefficients"))
    assert f"The {charts.COEFFICIENTS} largest of 120" in html
    assert all(f">feature {k}</th>" in html for k in range(120))
    assert html.count("feature 0\nconstrained model") >= 2


def test_empty_sections_say_so(make_audit: MakeAudit) -> None:
    audit = make_audit("two groups")
    models = [model | {"coefficients": [], "diagnostics": []} for model in audit.models]
    page = parsed(render(replace(audit, path=[], models=models, assumptions=[], columns=[])))
    assert "There were too few rows to look at the models during training." in page.text
    assert "There are no coefficients." in page.text


def test_sources_are_explained_in_words(audit: Audit) -> None:
    page = parsed(render(audit))
    assert all(f"An interval for {source.estimates}." in page.text for source in SOURCES.values())


def test_no_model_is_called_fair(any_audit: Audit) -> None:
    title = "how certain are you that the model is fair?"  # of a paper
    words = parsed(render(any_audit)).text.replace(title, "")
    assert not re.search(r"\bfair\b|\bunfair\b|complian", words)


def test_diagnostics_name_their_models_and_give_advice(make_audit: MakeAudit) -> None:
    audit = make_audit("two groups")
    page = parsed(render(audit)).text
    assert "Constrained and unconstrained models: few <rows>. Use more <rows>." in page
    assert "Constrained model: same for all. Use more <rows>. This rules out a definite verdict." in page
    assert "Other warnings Constrained model: short path. Pass more <rows>." in page  # no advice for the command line
    assert "Advice names options of surefair audit. In Python, sf.audit has arguments of the same names" in page
    models = [model | {"diagnostics": []} for model in audit.models]
    about_data = parsed(render(replace(audit, models=models))).text
    assert "not met There" not in about_data
    assert "SmallEvaluationSet few <rows>. Use more <rows>." in about_data
    assert "Other warnings" not in about_data


def test_the_security_policy_allows_only_the_pages_own_script_and_style(make_audit: MakeAudit) -> None:
    html = render(make_audit("two groups"))
    policy = next(found["content"] for tag, found in parsed(html).elements if found.get("http-equiv"))
    assert policy is not None
    assert "unsafe" not in policy
    assert policy.count("sha256-") == 2


def test_a_rate_appears_once_with_the_limits_of_its_own_metric(audit: Audit) -> None:
    tables = {table.name: table for table in views.rates(audit.to_dict())}
    for i, model in enumerate(audit.models):
        for one in model["intervals"]:
            for row in one["by_group"] if one["source"] == "total" else []:
                table = tables[row.get("metric", one["rate"])]
                group = next(group for group in table.groups if group[:2] == (row["column"], str(row["group"])))
                shown = group.found[i]
                assert shown is not None
                keys = ("n", "rate", "low", "high") if one["metric"] == table.name else ("n", "rate")
                assert [shown[key] for key in keys] == [row[key] for key in keys]


@pytest.mark.parametrize("shape", ["decisions", "scores", "hostile decisions"])
def test_a_page_about_decisions_has_no_section_about_training(make_audit: MakeAudit, shape: str) -> None:
    audit = make_audit(shape)
    page = render(audit)
    assert 'id="decisions"' in page
    for name in ("path", "price", "coefficients", "unfairness"):
        assert f'id="{name}"' not in page
    for word in ("constrained", "Price of fairness", "held-out", "training rows"):
        assert word not in page
    for model in audit.models:
        for one in model["intervals"]:
            assert f"{100.0 * one['estimate']:.2f}" in page or f"{one['estimate']:.3f}" in page
    for one in audit.groups:
        assert one["compared"] or f"no: {one['note']}" in page


def test_a_page_about_decisions_says_that_metrics_are_judged_together(make_audit: MakeAudit) -> None:
    page = render(make_audit("decisions"))
    assert "on 3 metrics, judged together at 95%" in page
    assert "Joint limits" in page
    assert "on 3 metrics" not in render(make_audit("scores"))


ABOUT = {"title": "Loans <b>", "purpose": "Yearly & review", "author": "A. N. Other", "date": "2026-03-31"}


def test_what_was_given_heads_the_page(make_audit: MakeAudit, tmp_path: Path) -> None:
    audit = make_audit("two groups")
    audit.to_html(tmp_path / "report.html", **ABOUT)
    html = (tmp_path / "report.html").read_text()
    head = parsed(html).text.split("Summary")[0]
    for value in ABOUT.values():
        assert value in head
    assert "<title>Loans &lt;b&gt;</title>" in html
    assert "Data table.csv" in head
    begun = replace(audit, settings=audit.settings | ABOUT)
    assert render(begun).split("Settings and versions")[0] == html.split("Settings and versions")[0]
    assert "Purpose" not in parsed(render(audit)).text.split("Summary")[0]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"date": "today"}, "a day such as 2026-03-31; received 'today'"),
        ({"date": "31.03.2026"}, "a day such as"),
        ({"date": "20260331"}, "a day such as"),
        ({"title": "  "}, "title must be text"),
        ({"author": 7}, "author must be text"),
        ({"purpose": "x" * 2001}, "received 2,001 characters"),
    ],
)
def test_a_heading_that_makes_no_sense_is_refused(
    make_audit: MakeAudit, tmp_path: Path, wrong: Any, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        make_audit("two groups").to_html(tmp_path / "report.html", **wrong)
    assert not (tmp_path / "report.html").exists()


def test_no_paragraph_comes_twice(audit: Audit) -> None:
    found = re.findall(r"<(p|li|dd|h2)(?: [^>]*)?>(.*?)</\1>", render(audit), re.DOTALL)
    words = [" ".join(re.sub(r"<[^>]*>", " ", inner).split()) for tag, inner in found]
    long = [one for one in words if len(one) > 40]
    assert long
    assert len(set(long)) == len(long)


def test_messages_that_share_a_sentence_say_it_once(make_audit: MakeAudit) -> None:
    audit = make_audit("two groups")
    one, other = audit.assumptions[1]["diagnostics"] * 2
    both = [one | {"message": "First. Limits are wide."}, other | {"message": "Second. Limits are wide."}]
    words = " ".join(part for _, part, _ in views.messages(audit.to_dict(), both))
    assert words == "First. Limits are wide. Use more <rows>. Second."


def test_the_summary_has_every_groups_column_rows_and_base_rate(audit: Audit) -> None:
    section = render(audit).split("<section")[1]
    words, groups = views.group_summaries(audit.to_dict())
    largest = views.find_interval(audit.models[0], views.metrics(audit.to_dict())[0].name)["rate"]
    assert words in [one.words for one in views.rates(audit.to_dict()) if one.name == largest]
    assert words in Page(f"<section{section.split('</section>')[0]}</section>").text
    assert len(groups) == len(audit.groups)
    for one in groups[: views.SUMMARISED]:
        assert f'<td class="num">{one.n:,}</td><td class="num">{100 * one.base_rate:.2f}</td>' in section
    assert ("more groups are" in section) == (len(groups) > views.SUMMARISED + 1)


def test_the_page_says_what_was_and_was_not_checked(audit: Audit) -> None:
    page = parsed(render(audit)).text
    scope = page.split("What this audit can support")[1].split("What the intervals assume")[0]
    for metric in views.metrics(audit.to_dict()):
        assert metric.full in scope
    for group in audit.groups:
        assert f"n = {group['evaluation']:,}" in scope
    assert "Not checked Whether the rows represent" in scope


def test_groups_that_differ_most_are_named_with_their_column_and_rows(make_audit: MakeAudit) -> None:
    page = parsed(render(make_audit("two groups"))).text
    assert "sex: Female (n = 120) and Male (n = 120)" in page


def test_methods_of_decisions_made_elsewhere_do_not_speak_of_training(make_audit: MakeAudit) -> None:
    found = make_audit("two groups").to_dict()
    trained = Page(report.render(found)).text.split("How every number in this report")[1]
    assert "Both models minimise" in trained
    decided = parsed(render(make_audit("decisions"))).text.split("How every number in this report")[1]
    for words in ("minimise", "replicates train", "price"):
        assert words not in decided


def test_the_summary_has_the_gap_of_every_sensitive_column(make_audit: MakeAudit) -> None:
    audit = make_audit("three columns")
    found = audit.to_dict()
    one = views.find_interval(found["models"][0], "demographic_parity")
    gaps = {column: views.within(one, column) for column in views.sensitive_columns(found)}
    assert len(gaps) == 3
    assert max(gap["estimate"] for gap in gaps.values()) == pytest.approx(one["estimate"])
    assert max(gap["high"] for gap in gaps.values()) == pytest.approx(one["high"])
    assert all(gap["low"] <= gap["estimate"] <= gap["high"] for gap in gaps.values())
    text = parsed(render(audit)).text
    assert all(f"– between groups of {column}" in text for column in gaps)
    assert "– between groups of" not in parsed(render(make_audit("two groups"))).text
