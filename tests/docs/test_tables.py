"""The tables in the documentation are those of the results."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
SPEC = importlib.util.spec_from_file_location("docs_tables", DOCS / "tables.py")
tables = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(tables)


@pytest.mark.parametrize("page", tables.pages(), ids=lambda page: page.name)
def test_a_page_has_the_tables_of_its_results(page):
    text = page.read_text(encoding="utf-8")
    assert text == tables.fill(text, page.parent), "Run python docs/tables.py."


def test_the_pages_with_results_have_tables():
    assert {"results.md", "covariance.md", "paper.md"} <= {page.name for page in tables.pages()}


def test_a_table_without_results_is_an_error():
    with pytest.raises(ValueError, match="There is no table 'nothing'"):
        tables.fill("<!-- table: nothing -->\n<!-- end of table -->\n", DOCS)


def test_a_changed_table_is_restored():
    text = "<!-- table: few -->\nwrong\n<!-- end of table -->\n"
    filled = tables.fill(text, DOCS)
    assert "wrong" not in filled
    assert filled == tables.fill(filled, DOCS)


def test_the_words_on_coverage_are_true():
    """The page says that only coefficients fall short without a warning."""
    rows = json.loads((DOCS / "results" / "calibration.json").read_text(encoding="utf-8"))["rows"]
    failed = [part for row in rows if row["verdict"] == "FAILS" for part in row["out_of_bounds"].split(", ")]
    assert all("coefficients" in part for part in failed), "Change the words under Coverage in docs/results.md."
